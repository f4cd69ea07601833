//! Searching memberships in programs.

use super::filter::{Condition, Filter, Test};
use super::order::SortColumns;
use super::run;
use super::scans::InstantScan;
use crate::about::About;
use crate::limits::SearchLimits;
use daftar_domain::search::found::{Found, Sorting};
use daftar_domain::search::order::Window;
use daftar_domain::search::terms::{MembershipConditions, MembershipTerm};

/// The memberships that match, counted, and those of the page.
pub(crate) fn memberships(
    about: &About,
    conditions: &MembershipConditions,
    limits: SearchLimits<'_>,
    sorting: Sorting<'_>,
    window: &Window,
) -> Found {
    let of = &about.of_memberships;
    let columns = SortColumns { names: None, last_updated: &of.last_updated, fields: &of.fields };
    run(about.memberships.rows(), filter(about, conditions, limits), columns.order(sorting, limits), window)
}

/// Absent where nothing can match.
fn filter<'a>(about: &'a About, conditions: &'a MembershipConditions, limits: SearchLimits<'a>) -> Option<Filter<'a>> {
    let among = about.memberships.among(&conditions.terms)?;
    let fields = conditions.terms.iter().map(|terms| terms.first().map(MembershipTerm::field));
    let mut all: Vec<Condition<'a>> = among
        .into_iter()
        .zip(fields)
        .map(|(rows, field)| Condition {
            test: Test::Among(rows),
            looked_at: field.and_then(|field| limits.field(field)),
        })
        .collect();
    if !conditions.last_updated.is_empty() {
        let column = &about.of_memberships.last_updated;
        let scan = InstantScan::new(column, &conditions.last_updated);
        all.push(Condition { test: Test::Scanned(Box::new(scan)), looked_at: None });
    }
    let visible = limits.records.map(|records| records.visible());
    Some(Filter::new(about.memberships.rows().count(), visible, all))
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;
    use crate::Columns;
    use crate::limits::RowLimits;
    use daftar_domain::calendar::parse_date;
    use daftar_domain::change::ChangedRecord;
    use daftar_domain::program_membership::{
        BENEFICIARY, ENROLLMENT_DATE, MembershipStatus, PROGRAM, ProgramMembershipDetails, STATUS,
    };
    use daftar_domain::record::{Record, RecordId, RecordKind, RecordMeta, VersionId};
    use daftar_domain::search::DateOperator;
    use daftar_domain::search::Page;
    use daftar_domain::search::instant::InstantCondition;
    use daftar_domain::search::order::{Direction, SortField, SortKey};
    use daftar_domain::value::Reference;

    fn membership(id: u64, status: MembershipStatus, enrolled: Option<&str>) -> ChangedRecord {
        let details = ProgramMembershipDetails::default()
            .with(PROGRAM, Reference { kind: RecordKind::Program, id: RecordId(id % 2) })
            .with(BENEFICIARY, Reference { kind: RecordKind::Individual, id: RecordId(id) })
            .with(STATUS, status)
            .with(ENROLLMENT_DATE, enrolled.map(|day| parse_date(day).unwrap()));
        let last_updated = jiff::Timestamp::from_millisecond(id as i64 * 10).unwrap();
        let meta = RecordMeta { version: VersionId::FIRST, last_updated, source: None };
        ChangedRecord::ProgramMembership(Arc::new(Record { id: RecordId(id), meta, details }))
    }

    #[test]
    fn filters_limits_and_orders() {
        let columns = Columns::default();
        columns.load(&[
            membership(1, MembershipStatus::Paused, Some("2026-03-01")),
            membership(2, MembershipStatus::Draft, None),
            membership(3, MembershipStatus::Enrolled, Some("2026-01-01")),
            membership(4, MembershipStatus::Exited, Some("2026-02-01")),
        ]);
        let snapshot = columns.snapshot();
        let page = Window::from(Page { offset: 0, count: 10 });
        let found = |conditions: &MembershipConditions, limits: SearchLimits<'_>, field, direction| {
            let keys = [SortKey { field, direction }];
            let sorting = Sorting { keys: &keys, code_ranks: &[] };
            let found = snapshot.search_memberships(conditions, limits, sorting, &page);
            found.ids.into_iter().map(|id| id.0).collect::<Vec<_>>()
        };
        let (all, any) = (MembershipConditions::default(), SearchLimits::default());
        let status = SortField::Word("status");
        assert_eq!(found(&all, any, status, Direction::Ascending), [2, 3, 4, 1]);
        assert_eq!(found(&all, any, SortField::Date("enrollment_date"), Direction::Descending), [1, 4, 3, 2]);
        assert_eq!(found(&all, any, SortField::Date("exit_date"), Direction::Descending), [1, 2, 3, 4]);
        assert_eq!(found(&all, any, SortField::LastUpdated, Direction::Descending), [4, 3, 2, 1]);
        let odd = MembershipConditions {
            terms: vec![vec![MembershipTerm::Program(RecordId(1))]],
            last_updated: vec![InstantCondition { operator: DateOperator::After, first_ms: 10, last_ms: 10 }],
        };
        assert_eq!(found(&odd, any, status, Direction::Ascending), [3]);
        let limits = RowLimits::of_rows(&[0, 1, 2], &[0, 1, 2], &[("status", vec![1]), ("program", vec![0])]);
        let limited = SearchLimits { records: Some(&limits), groups: None };
        assert_eq!(found(&all, limited, status, Direction::Ascending), [2, 1, 3]);
        assert_eq!(found(&odd, limited, status, Direction::Ascending), [0_u64; 0]);
    }
}
