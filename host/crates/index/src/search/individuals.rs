//! Searching people.

use super::filter::{Condition, Filter, Rows, Scan, Test};
use super::order::SortColumns;
use super::run;
use super::scans::{DayScan, InstantScan, PlaceScan};
use crate::Snapshot;
use crate::bitmaps::RowSet;
use crate::codes::{CodeIndex, CodeKey, ExtensionNumbers, sorted_once};
use crate::identifiers::{IdentifierHasher, IdentifierIndex};
use crate::individuals::{WordIndex, WordKind};
use crate::limits::SearchLimits;
use daftar_domain::identifier::IdentifierKey;
use daftar_domain::search::found::{Found, Sorting};
use daftar_domain::search::order::Window;
use daftar_domain::search::{CodeCondition, IndividualQuery, PlaceCondition, TextConditions};

/// The people that match, counted, and those of the page.
pub(crate) fn individuals(
    snapshot: &Snapshot,
    query: &IndividualQuery,
    limits: SearchLimits<'_>,
    sorting: Sorting<'_>,
    window: &Window,
) -> Found {
    let people = &snapshot.individuals;
    let columns =
        SortColumns { names: Some(&people.names), last_updated: &people.last_updated, fields: &people.columns };
    run(&people.rows, filter(snapshot, query, limits), columns.order(sorting, limits), window)
}

/// Absent where nothing can match.
pub(crate) fn filter<'a>(
    snapshot: &'a Snapshot,
    query: &'a IndividualQuery,
    limits: SearchLimits<'a>,
) -> Option<Filter<'a>> {
    let people = &snapshot.individuals;
    let mut conditions = Vec::new();
    let mut push = |test: Test<'a>, field: &str| conditions.push(Condition { test, looked_at: limits.field(field) });
    for condition in &query.codes {
        let rows = rows_with_codes(&people.codes, &snapshot.extensions, condition)?;
        push(Test::Among(rows), condition.field.field().as_ref());
    }
    for (rows, field) in rows_with_texts(&people.words, &query.texts)? {
        push(Test::Among(rows), field);
    }
    match query.active {
        None => {}
        Some(true) => push(Test::NotAmong(&people.inactive), "active"),
        Some(false) => push(Test::Among(Rows::Posting(&people.inactive)), "active"),
    }
    for (field, conditions) in &query.dates {
        push(Test::Scanned(Box::new(DayScan::new(&people.columns, field, conditions)?)), field);
    }
    if let Some(place) = &query.place {
        push(Test::Scanned(place_scan(snapshot, place, limits)), "group_membership");
    }
    // Identifiers and the instant of the last write may be looked at on every record that exists.
    if !query.identifiers.is_empty() {
        let rows = rows_with_identifiers(&people.identifiers, &snapshot.hasher, &query.identifiers)?;
        conditions.push(Condition { test: Test::Among(Rows::Set(rows)), looked_at: None });
    }
    if !query.last_updated.is_empty() {
        let scan = InstantScan::new(&people.last_updated, &query.last_updated);
        conditions.push(Condition { test: Test::Scanned(Box::new(scan)), looked_at: None });
    }
    let visible = limits.records.map(|records| records.visible());
    Some(Filter::new(people.rows.count(), visible, conditions))
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

pub(super) fn rows_with_identifiers(
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

pub(super) fn rows_with_codes<'a>(
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

/// The rows of each condition on texts, with the field that it looks at.
pub(super) fn rows_with_texts<'a>(
    index: &'a WordIndex,
    texts: &TextConditions,
) -> Option<Vec<(Rows<'a>, &'static str)>> {
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
