//! Searching programs. There are few, and all of them are in memory, so that a search looks at each.

use std::cmp::Ordering;

use jiff::civil::Date;

use crate::registry::Registry;
use crate::search::{self, FoundPage, Paging};
use crate::visibility::{self, Seen};
use crate::{audit, records};
use daftar_domain::audit::{AuditAction, AuditOutcome};
use daftar_domain::calendar::utc_day;
use daftar_domain::context::OpContext;
use daftar_domain::error::AppError;
use daftar_domain::identifier::IdentifierKey;
use daftar_domain::person_name::{search_phrase, search_words};
use daftar_domain::program::{Program, ProgramDetails, ProgramPhase};
use daftar_domain::record::{RecordId, RecordKind};
use daftar_domain::scope::Resource;
use daftar_domain::search::instant::InstantCondition;
use daftar_domain::search::order::{Direction, Position, SortField, SortKey, SortValue, Start};
use daftar_domain::subject::Subject;

/// Conditions on programs, all of which must hold. Empty: every program.
#[derive(Debug, Clone, Default)]
pub struct ProgramQuery {
    /// Has that identifier, open or ended; each of them.
    pub identifiers: Vec<IdentifierKey>,
    /// Words, each of which begins a word of the name.
    pub name_words: Vec<String>,
    /// Whether it is in use; a program that does not say is.
    pub active: Option<bool>,
    /// Whom it enrols.
    pub target_type: Option<Subject>,
    /// Where it stands today.
    pub phase: Option<ProgramPhase>,
    /// When the record was last written.
    pub last_updated: Vec<InstantCondition>,
}

/// Checks that the client may look at every field that a search filters or sorts by. `filtered` are fields of the API.
///
/// # Errors
/// [`AppError::FieldNotGranted`].
pub fn check_search(ctx: &OpContext, filtered: &[String], paging: &Paging) -> Result<(), AppError> {
    search::check_fields(ctx, Resource::Program, filtered, &paging.sort)
}

/// Searches programs. What it looks at was checked by [`check_search`].
///
/// # Errors
/// [`AppError::Invalid`] when the system of an identifier is not known, and when the search cannot be written into the audit log.
pub async fn search(
    ctx: &OpContext,
    registry: &Registry,
    query: ProgramQuery,
    paging: &Paging,
) -> Result<FoundPage<Seen<ProgramDetails>>, AppError> {
    visibility::check_systems(ctx, registry, ("identifier", RecordKind::Program), &query.identifiers).await?;
    let today = utc_day(ctx.now);
    let mut programs = registry.index.programs().await?;
    programs.retain(|program| query.holds(program, today));
    let ids: Vec<RecordId> = programs.iter().map(|program| program.id).collect();
    let seen = visibility::of_each_found(ctx, registry, RecordKind::Program, &ids).await?;
    let mut found: Vec<Candidate> = Vec::new();
    for (record, fields) in programs.into_iter().zip(seen) {
        let Some(fields) = fields else { continue };
        let values = paging.sort.iter().map(|key| value(key.field, &record)).collect();
        found.push((values, Seen { record, fields }));
    }
    found.sort_by(|one, other| compare(&paging.sort, &one.0, &other.0).then(one.1.record.id.cmp(&other.1.record.id)));
    let page = cut(found, paging);
    let called = page.records.iter().filter_map(|program| records::called(&program.record.details.identifiers));
    let targets = called.map(|key| records::reference(RecordKind::Program, key)).collect();
    registry.audit.record(ctx, audit::entry(ctx, AuditAction::Search, AuditOutcome::Allowed, targets)).await?;
    Ok(page)
}

/// What a program has to show, key by key, and the program.
type Candidate = (Vec<SortValue>, Seen<ProgramDetails>);

fn cut(found: Vec<Candidate>, paging: &Paging) -> FoundPage<Seen<ProgramDetails>> {
    let total = found.len() as u64;
    let begin = match &paging.window.start {
        Start::Offset(offset) => usize::try_from(*offset).unwrap_or(usize::MAX),
        Start::After(position) => found.partition_point(|(values, program)| {
            let order = compare(&paging.sort, values, &position.values);
            order.then(program.record.id.cmp(&position.record)).is_le()
        }),
    };
    let mut page: Vec<Candidate> = found.into_iter().skip(begin).collect();
    let has_more = page.len() > paging.window.count as usize;
    page.truncate(paging.window.count as usize);
    let passed = paging.window.passed().saturating_add(page.len() as u64);
    let next = page.last().filter(|_| has_more).map(|(values, program)| Position {
        values: values.clone(),
        record: program.record.id,
        passed,
    });
    FoundPage { total, records: page.into_iter().map(|(_, program)| program).collect(), next }
}

fn value(field: SortField, program: &Program) -> SortValue {
    match field {
        SortField::Name => SortValue::Text(search_phrase(program.details.name())),
        SortField::LastUpdated => {
            SortValue::Number(program.meta.last_updated.as_millisecond().cast_unsigned() ^ (1 << 63))
        }
        SortField::Date(_) | SortField::Word(_) | SortField::Code(_) => SortValue::Missing,
    }
}

fn compare(keys: &[SortKey], one: &[SortValue], other: &[SortValue]) -> Ordering {
    let mut pairs = keys.iter().zip(one.iter().zip(other));
    let by_key = pairs.find_map(|(key, (one, other))| {
        let order = match (one, other) {
            (SortValue::Missing, SortValue::Missing) => Ordering::Equal,
            (SortValue::Missing, _) => return Some(Ordering::Greater),
            (_, SortValue::Missing) => return Some(Ordering::Less),
            (SortValue::Number(one), SortValue::Number(other)) => one.cmp(other),
            (SortValue::Text(one), SortValue::Text(other)) => one.cmp(other),
            (SortValue::Number(_), SortValue::Text(_)) => Ordering::Less,
            (SortValue::Text(_), SortValue::Number(_)) => Ordering::Greater,
        };
        let directed = if key.direction == Direction::Ascending { order } else { order.reverse() };
        directed.is_ne().then_some(directed)
    });
    by_key.unwrap_or(Ordering::Equal)
}

impl ProgramQuery {
    fn holds(&self, program: &Program, today: Date) -> bool {
        let details = &program.details;
        let carries = |key: &IdentifierKey| details.identifiers.iter().any(|identifier| identifier.key == *key);
        let at_ms = program.meta.last_updated.as_millisecond();
        self.identifiers.iter().all(carries)
            && self.active.is_none_or(|active| active == details.is_active())
            && self.target_type.is_none_or(|target| target == details.target_type())
            && self.phase.is_none_or(|phase| phase == details.phase(today))
            && self.last_updated.iter().all(|condition| condition.holds(at_ms))
            && self.name_holds(details.name())
    }

    fn name_holds(&self, name: &str) -> bool {
        if self.name_words.is_empty() {
            return true;
        }
        let words = search_words(name);
        self.name_words.iter().all(|beginning| words.iter().any(|word| word.starts_with(beginning)))
    }
}
