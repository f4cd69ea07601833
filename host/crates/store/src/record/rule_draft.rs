//! Stored form of a rule draft.

use std::sync::Arc;

use serde::{Deserialize, Serialize};

use super::Unreadable;
use super::instant::{as_stored, instant, milliseconds};
use daftar_domain::calendar::{date_from_days, days_since_epoch};
use daftar_domain::client::ClientId;
use daftar_domain::identifier::IdentifierKey;
use daftar_domain::organization::Organization;
use daftar_domain::record::VersionId;
use daftar_domain::rule_draft::{DraftAuthor, DraftContent, DraftStatus, RuleDraft, RuleDraftId};
use daftar_domain::subject::Subject;

/// The draft as it will be read: with its timestamps in milliseconds.
pub(super) fn draft_as_stored(draft: &RuleDraft) -> Arc<RuleDraft> {
    let (created_at, last_updated) = (as_stored(draft.created_at), as_stored(draft.last_updated));
    Arc::new(RuleDraft { created_at, last_updated, ..draft.clone() })
}

/// A version of a rule draft, version 1.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
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

impl From<&RuleDraft> for StoredRuleDraftV1 {
    fn from(draft: &RuleDraft) -> Self {
        let RuleDraft { id, version, content, author, status, reason, created_at, last_updated } = draft;
        let DraftContent { name, expression, subject, comment, program, engine, cases, as_of } = content.clone();
        Self {
            id: id.to_bytes(),
            version: version.0,
            name,
            expression,
            subject: subject.name().to_owned(),
            comment,
            program: program.map(|program| program.reveal()),
            engine,
            cases,
            as_of_days: as_of.map(days_since_epoch),
            client: author.client.as_str().to_owned(),
            organization: author.organization.as_ref().map(|organization| organization.as_str().to_owned()),
            status: status.name().to_owned(),
            reason: reason.clone(),
            created_at_ms: milliseconds(*created_at),
            last_updated_ms: milliseconds(*last_updated),
        }
    }
}

impl TryFrom<StoredRuleDraftV1> for RuleDraft {
    type Error = Unreadable;

    fn try_from(stored: StoredRuleDraftV1) -> Result<Self, Unreadable> {
        let unreadable = Unreadable::field;
        let program = stored.program.as_deref().map(IdentifierKey::parse).transpose();
        let organization = stored.organization.as_deref().map(Organization::parse).transpose();
        let day = |days: i32| date_from_days(days).ok_or_else(|| unreadable("as_of_days"));
        Ok(Self {
            id: RuleDraftId::from_bytes(stored.id),
            version: VersionId(stored.version),
            content: DraftContent {
                name: stored.name,
                expression: stored.expression,
                subject: Subject::parse(&stored.subject).ok_or_else(|| unreadable("subject"))?,
                comment: stored.comment,
                program: program.map_err(|_| unreadable("program"))?,
                engine: stored.engine,
                cases: stored.cases,
                as_of: stored.as_of_days.map(day).transpose()?,
            },
            author: DraftAuthor {
                client: ClientId::parse(&stored.client).map_err(|_| unreadable("client"))?,
                organization: organization.map_err(|_| unreadable("organization"))?,
            },
            status: DraftStatus::parse(&stored.status).ok_or_else(|| unreadable("status"))?,
            reason: stored.reason,
            created_at: instant(stored.created_at_ms)?,
            last_updated: instant(stored.last_updated_ms)?,
        })
    }
}
