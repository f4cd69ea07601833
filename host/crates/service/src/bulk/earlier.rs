//! Which lines earlier requests of an import wrote: the audit log says it, as the line of a change is in the same write.

use std::collections::HashMap;

use super::{Done, ImportId, LINE_MARK};
use crate::audit::keeper::AuditKeeper;
use daftar_domain::audit::query::{AuditPosition, AuditQuery};
use daftar_domain::audit::{AuditAction, AuditEntry, AuditOutcome};
use daftar_domain::error::AppError;

/// How many lines of the audit log are looked at together.
const PAGE_LINES: usize = 1_000;

/// The lines from `first_line` on that the import of that name has written. Its parts came in order, so that what was written
/// before an earlier line is not looked at.
///
/// # Errors
/// When the store fails.
pub async fn written(audit: &AuditKeeper, id: &ImportId, first_line: u64) -> Result<HashMap<u64, Done>, AppError> {
    let query = AuditQuery { request_id: Some(id.as_str().to_owned()), ..AuditQuery::default() };
    let mut written = HashMap::new();
    let mut before = AuditPosition::END;
    loop {
        let page = audit.look(query.clone(), before, PAGE_LINES).await?;
        for entry in page.entries.iter().filter(|entry| entry.outcome == AuditOutcome::Allowed) {
            let Some((line, done)) = line_of(entry) else { continue };
            if line < first_line {
                return Ok(written);
            }
            // Of a line that changed a group several times the oldest counts: it may have made it.
            written.insert(line, done);
        }
        match page.next {
            Some(next) => before = next,
            None => return Ok(written),
        }
    }
}

fn line_of(entry: &AuditEntry) -> Option<(u64, Done)> {
    let done = match entry.action {
        AuditAction::Create => Done::Created,
        AuditAction::Update => Done::Updated,
        AuditAction::Read
        | AuditAction::Search
        | AuditAction::Evaluate
        | AuditAction::Administer
        | AuditAction::Plugin
        | AuditAction::Authenticate
        | AuditAction::Audit => return None,
    };
    let (_, line) = entry.operation.as_deref()?.rsplit_once(LINE_MARK)?;
    Some((line.parse().ok()?, done))
}
