use std::sync::Arc;

use super::Stamps;
use daftar_domain::change::{Change, ChangedRecord, Sequence};
use daftar_domain::extension::Extension;
use daftar_domain::group::{GroupDetails, MEMBER, Member};
use daftar_domain::identifier::{Identifier, IdentifierKey};
use daftar_domain::individual::IndividualDetails;
use daftar_domain::record::{Record, RecordId, RecordKind, RecordMeta, VersionId};
use daftar_domain::value::Values;

fn record<D>(id: u64, details: D) -> Arc<Record<D>> {
    let meta = RecordMeta { version: VersionId::FIRST, last_updated: jiff::Timestamp::UNIX_EPOCH, source: None };
    Arc::new(Record { id: RecordId(id), meta, details })
}

fn changed(record: ChangedRecord) -> [Change; 1] {
    [Change { sequence: Sequence(1), record }]
}

fn key(value: &str) -> IdentifierKey {
    IdentifierKey::parse(&format!("urn:svc:vocab:id-type#national_id|{value}")).unwrap()
}

fn person(id: u64, value: &str) -> ChangedRecord {
    let identifiers = vec![Identifier { key: key(value), period: None }];
    ChangedRecord::Individual(record(id, IndividualDetails::new(identifiers, Values::default(), Extension::default())))
}

fn group(id: u64, members: &[u64]) -> ChangedRecord {
    let member = |id: &u64| Member { individual: RecordId(*id), role: None, period: None, is_inactive: false };
    let members: Vec<Member> = members.iter().map(member).collect();
    ChangedRecord::Group(record(id, GroupDetails::default().with(MEMBER, members)))
}

#[test]
fn a_change_gives_a_new_stamp_to_the_person_and_to_each_of_its_identifiers() {
    let stamps = Stamps::new();
    let (of_person, of_key) = (stamps.of_record(RecordKind::Individual, RecordId(1)), stamps.of_identifier(&key("1")));
    let others = [stamps.of_record(RecordKind::Group, RecordId(1)), stamps.of_identifier(&key("2"))];
    assert!(stamps.are_unchanged(&[of_person, of_key]));
    stamps.change(&changed(person(1, "1")));
    assert!(!stamps.are_unchanged(&[of_person]) && !stamps.are_unchanged(&[of_key]));
    assert!(stamps.are_unchanged(&others));
    assert_eq!(stamps.changes(), 1);
    // Another individual adopts the identifier.
    let of_key = stamps.of_identifier(&key("1"));
    stamps.change(&changed(person(2, "1")));
    assert!(!stamps.are_unchanged(&[of_key]));
}

#[test]
fn a_change_of_a_group_gives_a_new_stamp_to_it_and_to_its_members() {
    let stamps = Stamps::new();
    let of = |id: u64| stamps.of_record(RecordKind::Individual, RecordId(id));
    let (of_group, member, newcomer, other) = (stamps.of_record(RecordKind::Group, RecordId(9)), of(1), of(2), of(3));
    stamps.change(&changed(group(9, &[1, 2])));
    for changed in [of_group, member, newcomer] {
        assert!(!stamps.are_unchanged(&[changed]));
    }
    assert!(stamps.are_unchanged(&[other]));
}
