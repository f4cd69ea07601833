//! A search under limits finds the same as a search of a register without the other records.

use std::collections::BTreeSet;

use proptest::collection::vec;
use proptest::option;
use proptest::prelude::*;

use super::*;
use crate::bitmaps::Posting;
use crate::testing::{CODE_RANKS, LIMITED, Model, Sight, any_group, any_individual, any_order, any_query};
use daftar_domain::search::Sorting;
use daftar_domain::search::order::Start;

impl RowLimits {
    /// Creates limits from plain rows.
    pub(crate) fn of_rows(visible: &[u32], whole: &[u32], fields: &[(&str, Vec<u32>)]) -> Self {
        let posting = |rows: &[u32]| {
            let mut posting = Posting::default();
            rows.iter().for_each(|row| posting.insert(*row));
            posting
        };
        let fields = fields.iter().map(|(name, rows)| (Box::from(*name), posting(rows))).collect();
        Self::new(posting(visible), posting(whole), fields)
    }
}

/// A register of sixteen people and four groups; a bit mask selects the visible ones.
fn rows(mask: u16) -> BTreeSet<u32> {
    (0..16).filter(|row| mask >> row & 1 == 1).collect()
}

fn any_sight() -> impl Strategy<Value = Sight> {
    let fields = vec(option::of(any::<u16>().prop_map(rows)), LIMITED.len());
    let masks = any::<[u16; 4]>();
    (masks, fields).prop_map(|([visible, whole, groups, members], fields)| Sight {
        visible: rows(visible),
        whole: rows(whole),
        fields: LIMITED.into_iter().zip(fields).filter_map(|(field, rows)| Some((field, rows?))).collect(),
        groups: rows(groups),
        members: rows(members),
    })
}

fn limits(sight: &Sight) -> (RowLimits, RowLimits) {
    let list = |rows: &BTreeSet<u32>| rows.iter().copied().collect::<Vec<_>>();
    let fields: Vec<(&str, Vec<u32>)> = sight.fields.iter().map(|(field, rows)| (*field, list(rows))).collect();
    let of_people = RowLimits::of_rows(&list(&sight.visible), &list(&sight.whole), &fields);
    let of_groups = RowLimits::of_rows(&list(&sight.groups), &[], &[("member", list(&sight.members))]);
    (of_people, of_groups)
}

proptest! {
    #[test]
    fn finds_as_if_the_rest_were_not_there(
        people in vec(any_individual(), 16),
        groups in vec(any_group(16), 4),
        sight in any_sight(),
        queries in vec((any_query(), any_order(), 1_u32..6), 1..30),
    ) {
        let columns = Columns::default();
        let mut model = Model::default();
        for (id, person) in (1..).zip(people) {
            model.people.insert(id, Record { id: RecordId(id), ..person });
        }
        model.groups.extend((1..).zip(groups));
        let people: Vec<_> = model.people.values().cloned().map(Arc::new).collect();
        columns.load_individuals(&people);
        let groups: Vec<_> = model.groups.iter().map(|(id, group)| record(*id, group.clone())).collect();
        columns.load_groups(&groups);
        let snapshot = columns.snapshot();
        let (of_people, of_groups) = limits(&sight);
        let limits = SearchLimits { records: Some(&of_people), groups: Some(&of_groups) };
        for (query, keys, count) in queries {
            let expected = model.find(&query, &keys, Some(&sight));
            let sorting = Sorting { keys: &keys, code_ranks: &CODE_RANKS };
            let mut window = Window { start: Start::Offset(0), count };
            let mut walked = Vec::new();
            loop {
                let found = snapshot.search(&query, limits, sorting, &window);
                prop_assert_eq!(found.total, expected.len() as u64, "{:?}", query);
                walked.extend(found.ids);
                let Some(next) = found.next else { break };
                window.start = Start::After(next);
            }
            prop_assert_eq!(&walked, &expected, "{:?} {:?}", query, keys);
        }
    }
}

#[test]
fn fields_of_modules_are_limited_one_by_one_or_all_at_once() {
    let limits = RowLimits::of_rows(&[0, 1, 2], &[0], &[("extension", vec![0, 1]), ("extension.farmer", vec![0, 2])]);
    assert!(limits.field("extension.farmer").contains(2) && !limits.field("extension.farmer").contains(1));
    assert!(limits.field("extension.school").contains(1) && !limits.field("extension.school").contains(2));
    assert!(limits.field("name").contains(0) && !limits.field("name").contains(1));
}
