//! Stored form of a rule draft.

use std::sync::Arc;

use super::form::stored;
use super::instant::as_stored;
use daftar_domain::rule_draft::{DraftAuthor, DraftContent, RuleDraft};

/// The draft as it will be read: with its timestamps in milliseconds.
pub(super) fn draft_as_stored(draft: &RuleDraft) -> Arc<RuleDraft> {
    let (created_at, last_updated) = (as_stored(draft.created_at), as_stored(draft.last_updated));
    Arc::new(RuleDraft { created_at, last_updated, ..draft.clone() })
}

stored! {
    /// A version of a rule draft, version 1.
    pub struct StoredRuleDraftV1 {
        id: [u8; 16],
        version: u64,
        name: String,
        expression: String,
        subject: String,
        comment: Option<String>,
        /// `<system>|<value>`
        program: Option<String>,
        engine: Option<String>,
        /// JSON.
        cases: Option<String>,
        /// Days since 1970-01-01.
        as_of_days: Option<i32>,
        client: String,
        organization: Option<String>,
        status: String,
        reason: Option<String>,
        created_at_ms: i64,
        last_updated_ms: i64,
    }
    means RuleDraft {
        id,
        version,
        content: DraftContent { name, expression, subject, comment, program, engine, cases, as_of: as_of_days },
        author: DraftAuthor { client, organization },
        status,
        reason,
        created_at: created_at_ms,
        last_updated: last_updated_ms,
    }
}
