//! Words, and numbers of codes, that PostgreSQL would not accept are found as others are.

use std::ops::Range;
use std::sync::Arc;

use super::super::term::WORD_BYTES_MAX;
use super::database::Database;
use daftar_domain::address;
use daftar_domain::change::ChangedRecord;
use daftar_domain::code::{CodeNumber, CodedValue, EditionNumber};
use daftar_domain::individual::{ADDRESS, IndividualDetails, NAME, OCCUPATION};
use daftar_domain::person_name;
use daftar_domain::record::{Record, RecordId, RecordKind, RecordMeta, VersionId};
use daftar_domain::search::phrase::PhraseField;
use daftar_domain::search::{CodeCondition, CodedPlace, Page, Sorting, SubjectQuery, TextConditions};
use daftar_domain::value::Values;
use daftar_domain::vocabulary::CodedField;
use daftar_index::{Columns, SearchLimits};
use daftar_store::index::Index;

fn person(id: u64, name: &str, texts: &[String], region: &str) -> ChangedRecord {
    let address = |text: &String| -> Values {
        Values::default().with(address::TEXT, text.clone()).with(address::REGION, region.to_owned())
    };
    let name: Values = Values::default().with(person_name::TEXT, name.to_owned());
    let addresses: Vec<Values> = texts.iter().map(address).collect();
    let details = IndividualDetails::default().with(NAME, name).with(ADDRESS, addresses);
    let meta = RecordMeta { version: VersionId::FIRST, last_updated: jiff::Timestamp::UNIX_EPOCH, source: None };
    ChangedRecord::Individual(Arc::new(Record { id: RecordId(id), meta, details }))
}

#[test]
fn long_and_many_words_are_found_as_others_are() {
    let database = Database::new();
    let columns = Columns::default();
    let long = "x".repeat(3 * WORD_BYTES_MAX);
    let many: Vec<String> = (0..1_000).map(|number| format!("{number:0>900}")).collect();
    let people = [
        person(1, "Abeba", &["hill".to_owned()], "Nord Est"),
        person(2, "Abel", &[long.clone(), "hill".to_owned()], "Nord Est"),
        person(3, "Abel", &many, &long),
        person(4, "Ab'el \\ 'x' & | ! <-> :*", &["hill".to_owned()], "Nord"),
    ];
    columns.load(&people);
    database.write(&people);
    let (snapshot, index) = (columns.snapshot(), database.usual());
    let words = |words: &[&str]| words.iter().map(|word| (*word).to_owned()).collect::<Vec<_>>();
    let region = PhraseField::find(RecordKind::Individual, "region").unwrap();
    let by = |name: &[&str], address: &[&str], regions: &[&str]| TextConditions {
        name_words: words(name),
        address_words: words(address),
        phrases: words(regions).into_iter().map(|phrase| (region, phrase)).collect(),
    };
    let last = "0".repeat(897) + "999";
    let cases: Vec<(TextConditions, &[u64])> = vec![
        (by(&["abe"], &[], &[]), &[1, 2, 3, 4]),
        (by(&["abe", "x"], &[], &[]), &[4]),
        (by(&[], &["hill"], &[]), &[1, 2, 4]),
        (by(&[], &["hill", "xx"], &[]), &[2]),
        (by(&[], &[long.as_str()], &[]), &[2, 3]),
        (by(&[], &[&long[..WORD_BYTES_MAX + 5]], &[]), &[2, 3]),
        (by(&[], &[&format!("{long}x")], &[]), &[]),
        (by(&[], &[last.as_str(), "000"], &[]), &[3]),
        (by(&["abel"], &[last.as_str()], &[long.as_str()]), &[3]),
        (by(&[], &[], &[&long[..WORD_BYTES_MAX + 5]]), &[]),
        (by(&[], &[], &["nord est"]), &[1, 2]),
        (by(&["' | 'nabeba"], &[], &[]), &[]),
        (by(&["abe\0"], &[], &[]), &[]),
        (by(&[""], &[], &[]), &[1, 2, 3, 4]),
        (by(&[], &[], &[""]), &[]),
    ];
    for (texts, expected) in cases {
        let query = SubjectQuery { texts, ..SubjectQuery::individuals() };
        let page = Page::default().into();
        let known = snapshot.search(&query, SearchLimits::default(), Sorting::REGISTERED, &page);
        let found = database.wait(index.search_subjects(&query, None, Sorting::REGISTERED, &page)).unwrap();
        assert_eq!(found, known);
        assert_eq!(found.ids.iter().map(|id| id.0).collect::<Vec<_>>(), expected);
    }
}

#[test]
fn a_condition_with_very_many_codes_finds_the_records_that_have_one() {
    let database = Database::new();
    let columns = Columns::default();
    let worker = |id: u64, occupation: u32| {
        let occupation = CodedValue { number: CodeNumber(occupation), edition: EditionNumber(1) };
        let details = IndividualDetails::default().with(OCCUPATION, occupation);
        let meta = RecordMeta { version: VersionId::FIRST, last_updated: jiff::Timestamp::UNIX_EPOCH, source: None };
        ChangedRecord::Individual(Arc::new(Record { id: RecordId(id), meta, details }))
    };
    let people = [worker(1, 100_007), worker(2, 299_999), worker(3, 7)];
    columns.load(&people);
    database.write(&people);
    let (snapshot, index) = (columns.snapshot(), database.usual());
    let cases: [(Range<u32>, &[u64]); 2] = [(100_000..300_000, &[1, 2]), (300_000..500_000, &[])];
    for (numbers, expected) in cases {
        let any_of = numbers.map(CodeNumber).collect();
        let codes = vec![CodeCondition { field: CodedPlace::Field(CodedField::Occupation), any_of }];
        let query = SubjectQuery { codes, ..SubjectQuery::individuals() };
        let page = Page::default().into();
        let known = snapshot.search(&query, SearchLimits::default(), Sorting::REGISTERED, &page);
        let found = database.wait(index.search_subjects(&query, None, Sorting::REGISTERED, &page)).unwrap();
        assert_eq!(found, known);
        assert_eq!(found.ids.iter().map(|id| id.0).collect::<Vec<_>>(), expected);
        assert_eq!(database.matching(&query, None), found.ids);
    }
}
