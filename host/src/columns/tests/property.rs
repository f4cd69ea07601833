//! Whatever is written and asked, the columns answer as a look at every record would.

use std::collections::BTreeMap;

use proptest::collection::vec;
use proptest::option;
use proptest::prelude::*;
use proptest::sample::select;

use super::*;

const WORDS: [&str; 8] = ["a", "ab", "abe", "abeba", "abel", "b", "ba", "élan"];
const IDENTIFIERS: [&str; 5] = ["urn:a:x|1", "urn:a:x|2", "urn:a:y|1", "urn:a:y|2", "urn:a:z|1"];
const FIELDS: [CodedField; 5] = [
    CodedField::Gender,
    CodedField::Country,
    CodedField::Languages,
    CodedField::AddressCountry,
    CodedField::IncomeCurrency,
];

fn any_day() -> impl Strategy<Value = Date> {
    (-3_i32..3).prop_map(|days| crate::domain::calendar::date_from_days(days).unwrap())
}

fn any_code() -> impl Strategy<Value = CodedValue> {
    (0_u32..4).prop_map(code)
}

fn any_individual() -> impl Strategy<Value = IndividualDetails> {
    let facts = (option::of(any::<bool>()), option::of(any_day()), vec(select(&WORDS[..]), 0..3));
    let codes =
        (option::of(any_code()), option::of(any_code()), vec(any_code(), 0..3), vec(option::of(any_code()), 0..3));
    let income = option::of((0_u32..3, option::of(any_code())));
    (facts, codes, income, vec(select(&IDENTIFIERS[..]), 0..3)).prop_map(|(facts, codes, income, identifiers)| {
        let (active, birth_date, words) = facts;
        let (gender, country, languages, countries) = codes;
        let singles = [(CodedField::Gender, gender), (CodedField::Country, country)];
        let address = |country| Address { country, ..Address::default() };
        IndividualDetails {
            identifiers: identifiers.into_iter().map(identifier).collect(),
            active,
            name: Some(PersonName { text: Some(words.join(" ")), ..PersonName::default() }),
            birth_date,
            codes: singles.into_iter().filter_map(|(field, value)| Some((field, value?))).collect(),
            code_lists: vec![(CodedField::Languages, languages)],
            address: Some(countries.into_iter().map(address).collect()),
            income: income.map(|(amount, currency)| Income { amount: f64::from(amount), currency, period: None }),
            ..IndividualDetails::default()
        }
    })
}

fn any_query() -> impl Strategy<Value = IndividualQuery> {
    let operators = select(vec![
        DateOperator::Equal,
        DateOperator::NotEqual,
        DateOperator::After,
        DateOperator::OnOrAfter,
        DateOperator::Before,
        DateOperator::OnOrBefore,
    ]);
    let days = vec((operators, any_day()).prop_map(|(operator, date)| DateCondition { operator, date }), 0..3);
    let codes = vec(
        (select(&FIELDS[..]), vec((0_u32..5).prop_map(CodeNumber), 0..4))
            .prop_map(|(field, any_of)| CodeCondition { field, any_of }),
        0..2,
    );
    let words = vec(select(vec!["a", "ab", "abe", "abeb", "b", "elan", "x"]).prop_map(str::to_owned), 0..2);
    let identifiers = prop_oneof![4 => Just(Vec::new()), 1 => vec(select(&IDENTIFIERS[..]).prop_map(key), 0..3)];
    (identifiers, words, days, codes, option::of(any::<bool>())).prop_map(
        |(identifiers, name_words, birth_date, codes, active)| IndividualQuery {
            identifiers,
            name_words,
            birth_date,
            codes,
            active,
        },
    )
}

fn is_match(details: &IndividualDetails, query: &IndividualQuery) -> bool {
    let words = details.name.as_ref().map(PersonName::search_words).unwrap_or_default();
    let codes = details.every_code();
    query.identifiers.iter().all(|key| details.identifiers.iter().any(|identifier| identifier.key == *key))
        && query.name_words.iter().all(|beginning| words.iter().any(|word| word.starts_with(beginning)))
        && query.birth_date.iter().all(|condition| details.birth_date.is_some_and(|day| condition.holds(day)))
        && query.codes.iter().all(|condition| {
            codes.iter().any(|(field, value)| *field == condition.field && condition.any_of.contains(&value.number))
        })
        && query.active.is_none_or(|active| details.active.unwrap_or(true) == active)
}

fn check(snapshot: &Snapshot, register: &BTreeMap<u64, IndividualDetails>, query: &IndividualQuery, page: Page) {
    let expected: Vec<RecordId> =
        register.iter().filter(|(_, details)| is_match(details, query)).map(|(id, _)| RecordId(*id)).collect();
    let of_page = expected.iter().skip(page.offset as usize).take(page.count as usize).copied().collect();
    assert_eq!(snapshot.search(query, page), Found { total: expected.len() as u64, ids: of_page });
}

fn check_uses(snapshot: &Snapshot, register: &BTreeMap<u64, IndividualDetails>) {
    for numbers in [vec![0], vec![1, 2], vec![0, 1, 2, 3]] {
        let numbers: Vec<CodeNumber> = numbers.into_iter().map(CodeNumber).collect();
        let uses = |details: &&IndividualDetails| {
            details.every_code().iter().any(|(_, value)| numbers.contains(&value.number))
        };
        assert_eq!(snapshot.records_using(&numbers), register.values().filter(uses).count() as u64);
    }
}

fn check_columns(snapshot: &Snapshot, register: &BTreeMap<u64, IndividualDetails>) {
    let (valid, values) = snapshot.gather("birth_date", &(0..register.len() as u32).collect::<Vec<_>>()).unwrap();
    let ColumnValues::Days(days) = values else { panic!("days of birth are days") };
    for (row, (details, day)) in register.values().zip(days).enumerate() {
        let is_valid = valid.is_empty() || valid[row / 8] >> (row % 8) & 1 == 1;
        let expected = details.birth_date.map(crate::domain::calendar::days_since_epoch);
        assert_eq!(is_valid.then_some(day), expected);
    }
}

proptest! {
    #[test]
    fn searches_as_a_look_at_every_record_would(
        writes in vec((any::<bool>(), any::<prop::sample::Index>(), 1_u64..3, any_individual()), 1..60),
        queries in vec((any_query(), 0_u64..4, 1_u32..20), 1..30),
        batch in 1_usize..5,
        middle in any::<prop::sample::Index>(),
    ) {
        let columns = Columns::default();
        let mut register = BTreeMap::<u64, IndividualDetails>::new();
        let middle = middle.index(writes.len());
        let mut earlier = None;
        let mut changes = Vec::new();
        for (index, (is_update, chosen, gap, details)) in writes.into_iter().enumerate() {
            let id = match register.keys().nth(chosen.index(register.len().max(1))) {
                Some(id) if is_update => *id,
                _ => register.keys().next_back().copied().unwrap_or(0) + gap,
            };
            register.insert(id, details.clone());
            changes.push(Change { sequence: Sequence(0), record: ChangedRecord::Individual(record(id, details)) });
            if index == middle {
                columns.apply(&std::mem::take(&mut changes));
                earlier = Some((columns.snapshot(), register.clone()));
            } else if changes.len() >= batch {
                columns.apply(&std::mem::take(&mut changes));
            }
        }
        columns.apply(&changes);

        let loaded = Columns::default();
        let stored: Vec<_> = register.iter().map(|(id, details)| record(*id, details.clone())).collect();
        for page in stored.chunks(7) {
            loaded.load_individuals(page);
        }

        let (snapshot, loaded) = (columns.snapshot(), loaded.snapshot());
        let (earlier, earlier_register) = earlier.unwrap();
        for (query, offset, count) in queries {
            let page = Page { offset, count };
            check(&snapshot, &register, &query, page);
            check(&loaded, &register, &query, page);
            check(&earlier, &earlier_register, &query, page);
        }
        for (snapshot, register) in [(&snapshot, &register), (&loaded, &register), (&earlier, &earlier_register)] {
            check_uses(snapshot, register);
            check_columns(snapshot, register);
        }
    }
}
