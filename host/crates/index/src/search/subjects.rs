//! Searches of individuals, groups and program memberships.

use super::filter::{Condition, Filter, Rows, Scan, Test};
use super::order::SortColumns;
use super::run;
use super::scans::{DayScan, InstantScan, PlaceScan};
use crate::Snapshot;
use crate::about::About;
use crate::bitmaps::RowSet;
use crate::codes::{CodeIndex, CodeKey, ExtensionNumbers, sorted_once};
use crate::identifiers::{IdentifierHasher, IdentifierIndex};
use crate::limits::SearchLimits;
use crate::subjects::{Subjects, WordIndex, WordKind};
use daftar_domain::identifier::IdentifierKey;
use daftar_domain::record::{RecordId, RecordType};
use daftar_domain::search::order::Window;
use daftar_domain::search::{
    CodeCondition, Found, KindCondition, MembershipConditions, MembershipTerm, PlaceCondition, Sorting, SubjectQuery,
    TextConditions,
};

impl Snapshot {
    /// Returns the individuals or groups that meet every condition: their number, and those of the page.
    #[must_use]
    pub fn search(
        &self,
        query: &SubjectQuery,
        limits: SearchLimits<'_>,
        sorting: Sorting<'_>,
        window: &Window,
    ) -> Found {
        let filter = filter_of_subjects(self, query, limits);
        match query.of_kind {
            KindCondition::Individuals(_) => page(&self.individuals, filter, limits, sorting, window),
            KindCondition::Groups(_) => page(&self.groups, filter, limits, sorting, window),
        }
    }

    /// Returns the memberships that meet every condition: their number, and those of the page.
    #[must_use]
    pub fn search_memberships(
        &self,
        conditions: &MembershipConditions,
        limits: SearchLimits<'_>,
        sorting: Sorting<'_>,
        window: &Window,
    ) -> Found {
        let (about, of) = (&self.about, &self.about.of_memberships);
        let columns = SortColumns { names: None, last_updated: &of.last_updated, fields: &of.fields };
        let filter = filter_of_memberships(about, conditions, limits);
        run(&about.memberships.rows, filter, columns.order(sorting, limits), window)
    }
}

fn page<R: RecordType>(
    subjects: &Subjects<R>,
    filter: Option<Filter<'_>>,
    limits: SearchLimits<'_>,
    sorting: Sorting<'_>,
    window: &Window,
) -> Found {
    let Subjects { names, last_updated, columns: fields, .. } = subjects;
    let columns = SortColumns { names: Some(names), last_updated, fields };
    run(&subjects.rows, filter, columns.order(sorting, limits), window)
}

/// Returns the filter of individuals or groups; `None` if nothing can match.
pub(crate) fn filter_of_subjects<'a>(
    snapshot: &'a Snapshot,
    query: &'a SubjectQuery,
    limits: SearchLimits<'a>,
) -> Option<Filter<'a>> {
    match &query.of_kind {
        KindCondition::Individuals(place) => {
            let scan = |place| Test::Scanned(place_scan(snapshot, place, limits));
            let places = place.iter().map(|place| (scan(place), "group_membership"));
            filter(snapshot, &snapshot.individuals, query, places.collect(), limits)
        }
        KindCondition::Groups(members) => {
            let lists =
                members.iter().flat_map(|members| members.people.iter().map(move |people| (people, members.day)));
            let with = |(people, day): (&Vec<_>, i32)| {
                Some((Test::Among(Rows::Set(groups_with(snapshot, people, day)?)), "member"))
            };
            filter(snapshot, &snapshot.groups, query, lists.map(with).collect::<Option<Vec<_>>>()?, limits)
        }
    }
}

/// Adds the common conditions and those of one kind, each with the field that it checks.
fn filter<'a, R: RecordType>(
    snapshot: &'a Snapshot,
    subjects: &'a Subjects<R>,
    common: &'a SubjectQuery,
    own: Vec<(Test<'a>, &'static str)>,
    limits: SearchLimits<'a>,
) -> Option<Filter<'a>> {
    let mut conditions = Vec::new();
    let mut push = |test: Test<'a>, field: &str| conditions.push(Condition { test, inspected: limits.field(field) });
    for condition in &common.codes {
        let rows = rows_with_codes(&subjects.codes, &snapshot.extensions, condition)?;
        push(Test::Among(rows), condition.field.field().as_ref());
    }
    for (rows, field) in rows_with_texts(&subjects.words, &common.texts)? {
        push(Test::Among(rows), field);
    }
    match common.active {
        None => {}
        Some(true) => push(Test::NotAmong(&subjects.inactive), "active"),
        Some(false) => push(Test::Among(Rows::Posting(&subjects.inactive)), "active"),
    }
    for (field, conditions) in &common.dates {
        push(Test::Scanned(Box::new(DayScan::new(&subjects.columns, field, conditions)?)), field);
    }
    own.into_iter().for_each(|(test, field)| push(test, field));
    // Identifiers and the time of the last update may be checked on every visible record.
    if !common.identifiers.is_empty() {
        let rows = rows_with_identifiers(&subjects.identifiers, &snapshot.hasher, &common.identifiers)?;
        conditions.push(Condition { test: Test::Among(Rows::Set(rows)), inspected: None });
    }
    if !common.last_updated.is_empty() {
        let scan = InstantScan::new(&subjects.last_updated, &common.last_updated);
        conditions.push(Condition { test: Test::Scanned(Box::new(scan)), inspected: None });
    }
    let visible = limits.records.map(|records| records.visible());
    Some(Filter::new(subjects.rows.count(), visible, conditions))
}

/// Returns the groups in which one of these people has a membership on the day.
fn groups_with(snapshot: &Snapshot, people: &[RecordId], day: i32) -> Option<RowSet> {
    let rows = people.iter().filter_map(|person| snapshot.individuals.rows.find(*person));
    let places = rows.flat_map(|row| snapshot.places.of(row)).filter(|place| place.holds_on(day));
    let groups = sorted_once(places.map(|place| place.group));
    (!groups.is_empty()).then(|| RowSet::from_sorted(&groups))
}

fn place_scan<'a>(snapshot: &'a Snapshot, place: &PlaceCondition, limits: SearchLimits<'a>) -> Box<dyn Scan + 'a> {
    let rows = |ids: &Vec<_>| sorted_once(ids.iter().filter_map(|id| snapshot.groups.rows.find(*id)));
    let numbers = |roles: &Vec<daftar_domain::code::CodeNumber>| sorted_once(roles.iter().map(|role| role.0));
    Box::new(PlaceScan {
        places: &snapshot.places,
        day: place.day,
        limits: limits.groups,
        is_none: place.is_none,
        groups: place.groups.iter().map(rows).collect(),
        roles: place.roles.iter().map(numbers).collect(),
    })
}

fn rows_with_identifiers(
    index: &IdentifierIndex,
    hasher: &IdentifierHasher,
    identifiers: &[IdentifierKey],
) -> Option<RowSet> {
    let mut lists = identifiers.iter().map(|key| index.rows(hasher.hash(key)));
    let mut rows = lists.next()?;
    for list in lists {
        rows.retain(|row| list.binary_search(row).is_ok());
    }
    (!rows.is_empty()).then(|| RowSet::from_sorted(&rows))
}

fn rows_with_codes<'a>(
    index: &'a CodeIndex,
    extensions: &ExtensionNumbers,
    condition: &CodeCondition,
) -> Option<Rows<'a>> {
    let place = extensions.place(&condition.field)?;
    let numbers = sorted_once(condition.any_of.iter().copied());
    let keys = numbers.into_iter().map(|number| CodeKey { place, number });
    let postings: Vec<_> = keys.filter_map(|key| index.get(&key)).collect();
    (!postings.is_empty()).then(|| Rows::any_of(postings))
}

/// Returns the rows of each condition on texts, with the field that it checks.
fn rows_with_texts<'a>(index: &'a WordIndex, texts: &TextConditions) -> Option<Vec<(Rows<'a>, &'static str)>> {
    let mut found = Vec::new();
    let words = [(WordKind::Name, &texts.name_words, "name"), (WordKind::Address, &texts.address_words, "address")];
    for (kind, words, field) in words {
        for word in words {
            found.push((rows_with_word(index, kind, word)?, field));
        }
    }
    for (field, phrase) in &texts.phrases {
        found.push((Rows::Posting(index.get(field.term(phrase).as_str())?), field.field));
    }
    Some(found)
}

fn rows_with_word<'a>(index: &'a WordIndex, kind: WordKind, beginning: &str) -> Option<Rows<'a>> {
    let beginning = kind.key(beginning);
    let words = index.from(beginning.as_str()).take_while(|(word, _)| word.starts_with(&beginning));
    let postings: Vec<_> = words.map(|(_, posting)| posting).collect();
    (!postings.is_empty()).then(|| Rows::any_of(postings))
}

/// Returns the filter of memberships; `None` if nothing can match.
fn filter_of_memberships<'a>(
    about: &'a About,
    conditions: &'a MembershipConditions,
    limits: SearchLimits<'a>,
) -> Option<Filter<'a>> {
    let among = about.memberships.rows_matching(&conditions.terms)?;
    let fields = conditions.terms.iter().map(|terms| terms.first().map(MembershipTerm::field));
    let mut all: Vec<Condition<'a>> = among
        .into_iter()
        .zip(fields)
        .map(|(rows, field)| Condition {
            test: Test::Among(rows),
            inspected: field.and_then(|field| limits.field(field)),
        })
        .collect();
    if !conditions.last_updated.is_empty() {
        let column = &about.of_memberships.last_updated;
        let scan = InstantScan::new(column, &conditions.last_updated);
        all.push(Condition { test: Test::Scanned(Box::new(scan)), inspected: None });
    }
    let visible = limits.records.map(|records| records.visible());
    Some(Filter::new(about.memberships.rows.count(), visible, all))
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
    use daftar_domain::search::instant::InstantCondition;
    use daftar_domain::search::order::{Direction, SortField, SortKey};
    use daftar_domain::search::{DateOperator, Page};
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
