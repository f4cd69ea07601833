//! Searching groups.

use super::filter::{Condition, Filter, Rows, Test};
use super::individuals::{rows_with_codes, rows_with_identifiers, rows_with_texts};
use super::order::SortColumns;
use super::run;
use super::scans::{DayScan, InstantScan};
use crate::Snapshot;
use crate::bitmaps::RowSet;
use crate::codes::sorted_once;
use crate::limits::SearchLimits;
use daftar_domain::record::RecordId;
use daftar_domain::search::GroupQuery;
use daftar_domain::search::found::{Found, Sorting};
use daftar_domain::search::order::Window;

/// The groups that match, counted, and those of the page.
pub(crate) fn groups(
    snapshot: &Snapshot,
    query: &GroupQuery,
    limits: SearchLimits<'_>,
    sorting: Sorting<'_>,
    window: &Window,
) -> Found {
    let groups = &snapshot.groups;
    let columns =
        SortColumns { names: Some(&groups.names), last_updated: &groups.last_updated, fields: &groups.columns };
    run(&groups.rows, filter(snapshot, query, limits), columns.order(sorting, limits), window)
}

/// Absent where nothing can match.
pub(crate) fn filter<'a>(
    snapshot: &'a Snapshot,
    query: &'a GroupQuery,
    limits: SearchLimits<'a>,
) -> Option<Filter<'a>> {
    let groups = &snapshot.groups;
    let mut conditions = Vec::new();
    let mut push = |test: Test<'a>, field: &str| conditions.push(Condition { test, looked_at: limits.field(field) });
    for condition in &query.codes {
        let rows = rows_with_codes(&groups.codes, &snapshot.extensions, condition)?;
        push(Test::Among(rows), condition.field.field().as_ref());
    }
    for (rows, field) in rows_with_texts(&groups.words, &query.texts)? {
        push(Test::Among(rows), field);
    }
    match query.active {
        None => {}
        Some(true) => push(Test::NotAmong(&groups.inactive), "active"),
        Some(false) => push(Test::Among(Rows::Posting(&groups.inactive)), "active"),
    }
    for (field, conditions) in &query.dates {
        push(Test::Scanned(Box::new(DayScan::new(&groups.columns, field, conditions)?)), field);
    }
    for people in &query.members {
        push(Test::Among(Rows::Set(groups_with(snapshot, people, query.day)?)), "member");
    }
    // Identifiers and the instant of the last write may be looked at on every record that exists.
    if !query.identifiers.is_empty() {
        let rows = rows_with_identifiers(&groups.identifiers, &snapshot.hasher, &query.identifiers)?;
        conditions.push(Condition { test: Test::Among(Rows::Set(rows)), looked_at: None });
    }
    if !query.last_updated.is_empty() {
        let scan = InstantScan::new(&groups.last_updated, &query.last_updated);
        conditions.push(Condition { test: Test::Scanned(Box::new(scan)), looked_at: None });
    }
    let visible = limits.records.map(|records| records.visible());
    Some(Filter::new(groups.rows.count(), visible, conditions))
}

/// The groups in which one of these people has a place that day.
fn groups_with(snapshot: &Snapshot, people: &[RecordId], day: i32) -> Option<RowSet> {
    let rows = people.iter().filter_map(|person| snapshot.individuals.rows.find(*person));
    let places = rows.flat_map(|row| snapshot.places.of(row)).filter(|place| place.holds_on(day));
    let groups = sorted_once(places.map(|place| place.group));
    (!groups.is_empty()).then(|| RowSet::from_sorted(&groups))
}
