//! For any writes and queries, the index returns the same as a full scan of the records.

use proptest::collection::vec;
use proptest::prelude::*;

use super::*;
use crate::testing::{CODE_RANKS, Model, any_group, any_individual, any_order, any_query};
use daftar_domain::search::Sorting;
use daftar_domain::search::order::{SortKey, Start};

fn check(snapshot: &Snapshot, model: &Model, query: &SubjectQuery, keys: &[SortKey], page: Page) {
    let expected = model.find(query, keys, None);
    let sorting = Sorting { keys, code_ranks: &CODE_RANKS };
    let of_page: Vec<RecordId> =
        expected.iter().skip(page.offset as usize).take(page.count as usize).copied().collect();
    let found = snapshot.search(query, SearchLimits::default(), sorting, &page.into());
    assert_eq!((found.total, &found.ids), (expected.len() as u64, &of_page));
    let reached = page.offset + of_page.len() as u64;
    assert_eq!(found.next.is_some(), !of_page.is_empty() && reached < found.total);

    // Paging by positions returns the same.
    let mut window = Window { start: Start::Offset(0), count: page.count };
    let mut walked = Vec::new();
    loop {
        let found = snapshot.search(query, SearchLimits::default(), sorting, &window);
        assert_eq!(found.total, expected.len() as u64);
        walked.extend(found.ids);
        let Some(next) = found.next else { break };
        assert_eq!(next.passed, walked.len() as u64);
        window.start = Start::After(next);
    }
    assert_eq!(walked, expected);
}

fn check_uses(snapshot: &Snapshot, model: &Model) {
    for numbers in [vec![0], vec![1, 2], vec![0, 1, 2, 3]] {
        let numbers: Vec<CodeNumber> = numbers.into_iter().map(CodeNumber).collect();
        let is_used =
            |codes: Vec<(CodedField, &CodedValue)>| codes.iter().any(|(_, value)| numbers.contains(&value.number));
        let people = model.people.values().filter(|person| is_used(person.details.every_code())).count();
        let groups = model.groups.values().filter(|group| is_used(group.every_code())).count();
        assert_eq!(snapshot.records_using(&numbers), (people + groups) as u64);
    }
}

fn check_columns(snapshot: &Snapshot, model: &Model) {
    let (valid, values) = snapshot.gather("birth_date", &(0..model.people.len() as u32).collect::<Vec<_>>()).unwrap();
    let ColumnValues::Days(days) = values else { panic!("days of birth are days") };
    for (row, (person, day)) in model.people.values().zip(days).enumerate() {
        let is_valid = valid.is_empty() || valid[row / 8] >> (row % 8) & 1 == 1;
        let expected = person.details.get(individual::BIRTH_DATE).map(daftar_domain::calendar::days_since_epoch);
        assert_eq!(is_valid.then_some(day), expected);
    }
}

proptest! {
    #[test]
    fn searches_return_the_same_as_a_full_scan(
        writes in vec((any::<bool>(), any::<prop::sample::Index>(), 1_u64..3, any_individual()), 1..60),
        groups in vec((1_u64..5, any_group(80)), 0..8),
        queries in vec((any_query(), any_order(), 0_u64..4, 1_u32..20), 1..30),
        batch in 1_usize..5,
        middle in any::<prop::sample::Index>(),
    ) {
        let columns = Columns::default();
        let mut model = Model::default();
        let middle = middle.index(writes.len());
        let mut earlier = None;
        let mut changes = Vec::new();
        for (index, (is_update, chosen, gap, person)) in writes.into_iter().enumerate() {
            let id = match model.people.keys().nth(chosen.index(model.people.len().max(1))) {
                Some(id) if is_update => *id,
                _ => model.people.keys().next_back().copied().unwrap_or(0) + gap,
            };
            let person = Record { id: RecordId(id), ..person };
            model.people.insert(id, person.clone());
            changes.push(Change { sequence: Sequence(0), record: ChangedRecord::Individual(Arc::new(person)) });
            if index == middle {
                columns.apply(&std::mem::take(&mut changes));
                earlier = Some((columns.snapshot(), model.clone()));
            } else if changes.len() >= batch {
                columns.apply(&std::mem::take(&mut changes));
            }
        }
        let mut groups: Vec<(u64, GroupDetails)> = groups;
        // Rows are given in the order of keys; after that any group may be written again.
        groups.extend((1..5).map(|id| (id, GroupDetails::default())));
        groups[..].reverse();
        for id in 1..5 {
            changes.push(Change { sequence: Sequence(0), record: ChangedRecord::Group(record(id, GroupDetails::default())) });
        }
        for (id, group) in groups {
            model.groups.insert(id, group.clone());
            changes.push(Change { sequence: Sequence(0), record: ChangedRecord::Group(record(id, group)) });
        }
        columns.apply(&changes);

        let loaded = Columns::default();
        let people: Vec<_> = model.people.values().cloned().map(Arc::new).collect();
        people.chunks(7).for_each(|page| loaded.load_individuals(page));
        let stored: Vec<_> = model.groups.iter().map(|(id, group)| record(*id, group.clone())).collect();
        loaded.load_groups(&stored);

        let (snapshot, loaded) = (columns.snapshot(), loaded.snapshot());
        let (earlier, earlier_model) = earlier.unwrap();
        for (query, keys, offset, count) in queries {
            let page = Page { offset, count };
            check(&snapshot, &model, &query, &keys, page);
            check(&loaded, &model, &query, &keys, page);
            check(&earlier, &earlier_model, &query, &keys, page);
        }
        for (snapshot, model) in [(&snapshot, &model), (&loaded, &model), (&earlier, &earlier_model)] {
            check_uses(snapshot, model);
            check_columns(snapshot, model);
        }
    }
}
