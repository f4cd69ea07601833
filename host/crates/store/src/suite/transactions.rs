//! Writes whose records refer to records that the same write creates.

use crate::record::samples;
use crate::{Operation, StoreError};
use daftar_domain::change::Details;
use daftar_domain::group::{MEMBER, Member};
use daftar_domain::program::ProgramDetails;
use daftar_domain::program_membership::ProgramMembershipDetails;
use daftar_domain::record::{RecordId, RecordKind, VersionId};
use daftar_domain::subject::Subject;

use super::*;

fn of(members: &[RecordId]) -> GroupDetails {
    let member =
        |individual: &RecordId| Member { individual: *individual, role: None, period: None, is_inactive: false };
    group(&["urn:x:g|1"]).with(MEMBER, members.iter().map(member).collect::<Vec<_>>())
}

fn enrol(program: RecordId, kind: Subject, beneficiary: RecordId) -> Operation {
    let beneficiary = SubjectReference { kind, id: beneficiary };
    Operation::create(membership(program, beneficiary, samples::full_membership().details.status()))
}

fn program() -> Operation {
    Operation::create(samples::full_program().details)
}

/// All individuals by key, with the members of the groups and the enrolments.
async fn links(store: &dyn Store) -> (Vec<u64>, Vec<Vec<u64>>, Vec<(u64, u64)>) {
    let groups = store.scan::<GroupDetails>(RecordId(0), 10).await.unwrap();
    let members = groups.iter().map(|group| group.details.members().map(|member| member.individual.0).collect());
    let places = store.scan_records(RecordKind::ProgramMembership, RecordId(0), 10).await.unwrap();
    let places = places.into_iter().filter_map(ProgramMembershipDetails::of);
    let places = places.map(|place| (place.details.program().0, place.details.beneficiary().id.0)).collect();
    (all_individuals(store).await, members.collect(), places)
}

pub async fn a_write_can_refer_to_records_that_it_creates<B: Backend>() {
    let (mut backend, _) = listening::<B>();
    create(backend.store(), person(&["urn:x:a|0"])).await;
    let pending = RecordId::pending;
    let operations = vec![
        program(),
        Operation::create(person(&["urn:x:a|1"])),
        Operation::create(person(&["urn:x:a|2"])),
        Operation::create(of(&[pending(2), RecordId(1), pending(1)])),
        enrol(pending(1), Subject::Group, pending(1)),
        enrol(pending(1), Subject::Individual, pending(2)),
        Operation::update(pending(2), VersionId(1), person(&["urn:x:a|2", "urn:x:a|3"])),
        Operation::update(pending(1), VersionId(1), of(&[pending(2), RecordId(1), pending(1)])),
    ];
    commit(backend.store(), operations).await.unwrap();
    for _ in 0..2 {
        let store = backend.store();
        let expected = (vec![1, 2, 3], vec![vec![3, 1, 2]], vec![(1, 1), (1, 3)]);
        assert_eq!(links(store).await, expected);
        let slot = |kind, id| {
            let beneficiary = SubjectReference { kind, id: RecordId(id) };
            daftar_domain::program_membership::MembershipSlot { program: RecordId(1), beneficiary }
        };
        let is_open = samples::full_membership().details.status().is_open();
        let held = is_open.then_some(RecordId(2));
        assert_eq!(store.open_membership(slot(Subject::Individual, 3)).await.unwrap(), held);
        let owners = store.identifier_owners(RecordKind::Individual, &key("urn:x:a|3"), 9).await.unwrap();
        assert_eq!(owners.iter().map(|owner| owner.id).collect::<Vec<_>>(), [RecordId(3)]);
        let program = store.record(RecordKind::Program, RecordId(1)).await.unwrap().and_then(ProgramDetails::of);
        assert!(program.is_some());
        reopened(&mut backend).await;
    }
}

pub async fn writes_of_one_group_count_their_own_records<B: Backend>() {
    let (backend, _) = listening::<B>();
    let family = |number: u64| {
        let child = |of: &str| Operation::create(person(&[&format!("urn:x:{of}|{number}")]));
        let mut household = of(&[RecordId::pending(2), RecordId::pending(1)]);
        household.identifiers = group(&[&format!("urn:x:g|{number}")]).identifiers;
        vec![child("a"), child("b"), Operation::create(household)]
    };
    let store = backend.store();
    let outcomes = futures_join((0..20).map(|number| commit(store, family(number)))).await;
    assert!(outcomes.iter().all(Result::is_ok));
    let groups = store.scan::<GroupDetails>(RecordId(0), 100).await.unwrap();
    assert_eq!(groups.len(), 20);
    for group in groups {
        let number = group.details.identifiers[0].key.value.as_str().to_owned();
        let members: Vec<_> = group.details.members().map(|member| member.individual).collect();
        let people = store.find_all::<IndividualDetails>(&members).await.unwrap();
        let called: Vec<_> = people.iter().map(|person| person.details.identifiers[0].key.reveal()).collect();
        assert_eq!(called, [format!("urn:x:b|{number}"), format!("urn:x:a|{number}")]);
    }
}

pub async fn a_reference_to_a_later_created_record_is_rejected<B: Backend>() {
    let (mut backend, listener) = listening::<B>();
    for wrong in [RecordId::pending(2), RecordId::pending(0), RecordId(u64::MAX)] {
        let operations = vec![
            Operation::create(person(&["urn:x:a|1"])),
            Operation::create(of(&[wrong])),
            Operation::create(person(&["urn:x:a|2"])),
        ];
        let error = commit(backend.store(), operations).await.unwrap_err();
        assert!(matches!(error, StoreError::NotFound(RecordKind::Individual)), "{error}");
    }
    assert!(listener.0.lock().unwrap().is_empty());
    reopened(&mut backend).await;
    assert_eq!(links(backend.store()).await, (vec![], vec![], vec![]));
    create(backend.store(), person(&["urn:x:a|2"])).await;
    assert_eq!(all_individuals(backend.store()).await, [1]);
}
