//! Searching memberships in programs.

use super::filter::{Condition, Filter, Test};
use super::order::{Order, OrderKey, SortColumn};
use super::run;
use super::scans::InstantScan;
use crate::about::About;
use crate::limits::SearchLimits;
use daftar_domain::search::found::{Found, Sorting};
use daftar_domain::search::order::{SortField, SortKey, Window};
use daftar_domain::search::terms::{MembershipConditions, MembershipTerm};

/// The memberships that match, counted, and those of the page.
pub(crate) fn memberships(
    about: &About,
    conditions: &MembershipConditions,
    limits: SearchLimits<'_>,
    sorting: Sorting<'_>,
    window: &Window,
) -> Found {
    let order = Order::new(sorting.keys.iter().map(|key| order_key(about, *key, limits)).collect());
    run(about.memberships.rows(), filter(about, conditions, limits), order, window)
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

fn order_key<'a>(about: &'a About, key: SortKey, limits: SearchLimits<'a>) -> OrderKey<'a> {
    let columns = &about.of_memberships;
    let column = match key.field {
        SortField::Status => SortColumn::Words(&columns.statuses),
        SortField::EnrollmentDate => SortColumn::Days(&columns.enrollment_dates),
        SortField::ExitDate => SortColumn::Days(&columns.exit_dates),
        SortField::LastUpdated => SortColumn::Instants(&columns.last_updated),
        SortField::Name | SortField::BirthDate | SortField::DeceasedDate | SortField::Code(_) => SortColumn::Nothing,
    };
    OrderKey { column, direction: key.direction, looked_at: key.field.field().and_then(|field| limits.field(field)) }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;
    use crate::Columns;
    use crate::limits::RowLimits;
    use daftar_domain::calendar::parse_date;
    use daftar_domain::change::ChangedRecord;
    use daftar_domain::program_membership::{MembershipStatus, ProgramMembershipDetails};
    use daftar_domain::record::{Record, RecordId, RecordMeta, VersionId};
    use daftar_domain::search::DateOperator;
    use daftar_domain::search::Page;
    use daftar_domain::search::instant::InstantCondition;
    use daftar_domain::search::order::Direction;
    use daftar_domain::subject::{Subject, SubjectReference};

    fn membership(id: u64, status: MembershipStatus, enrolled: Option<&str>) -> ChangedRecord {
        let details = ProgramMembershipDetails {
            identifiers: Vec::new(),
            has_no_identifier: false,
            program: RecordId(id % 2),
            beneficiary: SubjectReference { kind: Subject::Individual, id: RecordId(id) },
            status,
            enrollment_date: enrolled.map(|day| parse_date(day).unwrap()),
            exit_date: None,
            exit_reason: None,
            override_reason: None,
        };
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
        assert_eq!(found(&all, any, SortField::Status, Direction::Ascending), [2, 3, 4, 1]);
        assert_eq!(found(&all, any, SortField::EnrollmentDate, Direction::Descending), [1, 4, 3, 2]);
        assert_eq!(found(&all, any, SortField::ExitDate, Direction::Descending), [1, 2, 3, 4]);
        assert_eq!(found(&all, any, SortField::LastUpdated, Direction::Descending), [4, 3, 2, 1]);
        let odd = MembershipConditions {
            terms: vec![vec![MembershipTerm::Program(RecordId(1))]],
            last_updated: vec![InstantCondition { operator: DateOperator::After, first_ms: 10, last_ms: 10 }],
        };
        assert_eq!(found(&odd, any, SortField::Status, Direction::Ascending), [3]);
        let limits = RowLimits::of_rows(&[0, 1, 2], &[0, 1, 2], &[("status", vec![1]), ("program", vec![0])]);
        let limited = SearchLimits { records: Some(&limits), groups: None };
        assert_eq!(found(&all, limited, SortField::Status, Direction::Ascending), [2, 1, 3]);
        assert_eq!(found(&odd, limited, SortField::Status, Direction::Ascending), [0_u64; 0]);
    }
}
