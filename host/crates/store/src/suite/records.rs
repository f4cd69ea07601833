use std::sync::Arc;

use crate::record::samples;
use crate::{Operation, StoreError, Written};
use daftar_domain::change::{ChangedRecord, Sequence};
use daftar_domain::client::ClientId;
use daftar_domain::code::CodedValue;
use daftar_domain::field::{FieldName, FieldSet};
use daftar_domain::group::{MEMBER, Member};
use daftar_domain::individual::{ACTIVE, ADDRESS, IndividualDetails, LANGUAGES, PHOTO, TELECOM};
use daftar_domain::photo::{PHOTO_BYTES_MAX, Photo};
use daftar_domain::record::{RecordId, RecordKind, VersionId};
use daftar_domain::schema;
use daftar_domain::scope::Resource;

use super::*;
use crate::testing::AuditReads as _;

pub async fn a_created_record_reads_back_as_returned<B: Backend>() {
    let (mut backend, _) = listening::<B>();
    let (person, household) = (samples::full_individual().details, samples::full_group().details);
    let operations = vec![Operation::create(person.clone()), Operation::create(household.clone())];
    let source = Some(ClientId::parse("farmers").unwrap());
    let committed = backend.store().commit(Write { source: source.clone(), ..write(operations) }).await.unwrap();
    let [individual, group] = committed.written.as_slice() else {
        panic!("wrong number: {:?}", committed.written);
    };
    let (individual, group) = (&individual_of(individual), &record_of::<GroupDetails>(group));
    assert_eq!((individual.id, &individual.details), (RecordId(1), &person));
    assert_eq!((group.id, &group.details), (RecordId(1), &household));
    assert_eq!(individual.meta.version, VersionId::FIRST);
    assert_eq!(individual.meta.source, source);
    assert_eq!(individual.meta.last_updated, write(Vec::new()).at);
    for _ in 0..2 {
        let store = backend.store();
        assert_eq!(store.find::<IndividualDetails>(RecordId(1)).await.unwrap().as_ref(), Some(individual));
        assert_eq!(store.find::<GroupDetails>(RecordId(1)).await.unwrap().as_ref(), Some(group));
        assert!(store.find::<IndividualDetails>(RecordId(2)).await.unwrap().is_none());
        assert!(store.find::<GroupDetails>(RecordId(0)).await.unwrap().is_none());
        reopened(&mut backend).await;
    }
}

pub async fn a_photo_is_stored_separately_from_its_record<B: Backend>() {
    let (mut backend, _) = listening::<B>();
    let photo = |length: usize, digest| Photo::new((0..length).map(|at| at as u8).collect(), |_| [digest; 32]).unwrap();
    let (large, small) = (photo(PHOTO_BYTES_MAX, 1), photo(1, 2));
    let details = person(&[]).with(PHOTO, large.reference());
    let operations = vec![Operation::create(details.clone()), Operation::PutPhoto(large.clone())];
    let committed = commit(backend.store(), operations).await.unwrap();
    let [first, Written::Photo(digest)] = committed.written.as_slice() else {
        panic!("wrong kinds: {:?}", committed.written);
    };
    let first = individual_of(first);
    assert_eq!((first.details.get(PHOTO), *digest), (Some(large.reference()), large.reference().digest));
    let details = details.with(PHOTO, small.reference());
    let update = Operation::update(first.id, first.meta.version, details);
    commit(backend.store(), vec![update, Operation::PutPhoto(small.clone())]).await.unwrap();
    for _ in 0..2 {
        let store = backend.store();
        let former = store.find_version::<IndividualDetails>(first.id, first.meta.version).await.unwrap().unwrap();
        assert_eq!(
            store.photo(former.details.get(PHOTO).unwrap()).await.unwrap().as_ref(),
            Some(large.bytes()),
            "an older version has its own"
        );
        let present = store.find::<IndividualDetails>(first.id).await.unwrap().unwrap();
        assert_eq!(store.photo(present.details.get(PHOTO).unwrap()).await.unwrap().as_ref(), Some(small.bytes()));
        let unknown = photo(1, 3).reference();
        assert_eq!(store.photo(unknown).await.unwrap(), None);
        reopened(&mut backend).await;
    }
}

pub async fn keys_count_up_for_each_kind_and_continue_after_reopening<B: Backend>() {
    let (mut backend, _) = listening::<B>();
    let mut expected = Vec::new();
    for round in 1..=3 {
        let operations =
            vec![Operation::create(person(&[])), Operation::create(group(&[])), Operation::create(person(&[]))];
        let committed = commit(backend.store(), operations).await.unwrap();
        assert_eq!(committed.sequence, Sequence(round));
        expected.extend([round * 2 - 1, round * 2]);
        assert_eq!(all_individuals(backend.store()).await, expected);
        assert_eq!(backend.store().scan::<GroupDetails>(RecordId(0), 10).await.unwrap().len() as u64, round);
        reopened(&mut backend).await;
    }
}

pub async fn an_update_requires_the_current_version_and_keeps_the_older_one<B: Backend>() {
    let (mut backend, _) = listening::<B>();
    let first = create(backend.store(), person(&["urn:x:a|1"])).await;
    let details = first.details.clone().with(ACTIVE, false);
    let update = |version| vec![Operation::update(first.id, version, details.clone())];
    let committed = commit(backend.store(), update(VersionId(1))).await.unwrap();
    let second = individual_of(&committed.written[0]);
    assert_eq!((second.meta.version, second.details.get(ACTIVE)), (VersionId(2), Some(false)));

    let error = commit(backend.store(), update(VersionId(1))).await.unwrap_err();
    let (expected, actual) = (VersionId(1), VersionId(2));
    assert!(matches!(error, StoreError::VersionMismatch { expected: e, actual: a } if (e, a) == (expected, actual)));
    let missing = vec![Operation::update(RecordId(1), VersionId(1), group(&[]))];
    let error = commit(backend.store(), missing).await.unwrap_err();
    assert!(matches!(error, StoreError::NotFound(RecordKind::Group)));

    let household = commit(backend.store(), vec![Operation::create(group(&["urn:x:a|1"]))]).await.unwrap();
    let household = &record_of::<GroupDetails>(&household.written[0]);
    let changed = vec![Operation::update(household.id, VersionId(1), group(&["urn:x:a|1", "urn:x:a|2"]))];
    commit(backend.store(), changed).await.unwrap();

    reopened(&mut backend).await;
    let store = backend.store();
    assert_eq!(store.find::<IndividualDetails>(first.id).await.unwrap(), Some(Arc::clone(&second)));
    assert_eq!(
        store.find_version::<IndividualDetails>(first.id, VersionId(1)).await.unwrap(),
        Some(Arc::clone(&first))
    );
    assert_eq!(store.find_version::<IndividualDetails>(first.id, VersionId(2)).await.unwrap(), Some(second));
    assert_eq!(store.find_version::<IndividualDetails>(first.id, VersionId(3)).await.unwrap(), None);
    assert_eq!(store.find_version::<IndividualDetails>(RecordId(9), VersionId(1)).await.unwrap(), None);
    assert_eq!(store.find_version::<GroupDetails>(household.id, VersionId(1)).await.unwrap().as_ref(), Some(household));
    assert_eq!(
        store
            .find_version::<GroupDetails>(household.id, VersionId(2))
            .await
            .unwrap()
            .unwrap()
            .details
            .identifiers
            .len(),
        2
    );
}

pub async fn a_write_is_atomic<B: Backend>() {
    let (mut backend, listener) = listening::<B>();
    create(backend.store(), person(&["urn:x:a|taken"])).await;
    let operations = vec![
        Operation::create(person(&["urn:x:a|free"])),
        Operation::create(group(&["urn:x:a|free"])),
        Operation::CreateClient(samples::full_client()),
        Operation::update(RecordId(1), VersionId(1), person(&["urn:x:a|other"])),
        Operation::create(person(&["urn:x:a|other"])),
    ];
    let failing = Write { audit: vec![audit_entry("never")], ..write(operations) };
    let error = backend.store().commit(failing).await.unwrap_err();
    assert!(matches!(error, StoreError::IdentifierInUse(in_use) if in_use == key("urn:x:a|other")));
    assert_eq!(listener.0.lock().unwrap().len(), 1);
    for _ in 0..2 {
        let store = backend.store();
        assert_eq!(all_individuals(store).await, [1]);
        assert_eq!(store.find::<IndividualDetails>(RecordId(1)).await.unwrap().unwrap().meta.version, VersionId(1));
        assert!(store.scan::<GroupDetails>(RecordId(0), 9).await.unwrap().is_empty());
        assert!(store.clients().await.unwrap().is_empty());
        assert!(store.audit(9).await.unwrap().is_empty());
        let free = key("urn:x:a|free");
        assert!(store.identifier_owners(RecordKind::Individual, &free, 9).await.unwrap().is_empty());
        assert_eq!(store.identifier_owners(RecordKind::Individual, &key("urn:x:a|taken"), 9).await.unwrap().len(), 1);
        reopened(&mut backend).await;
    }
    let next = commit(backend.store(), vec![Operation::create(person(&["urn:x:a|free"]))]).await.unwrap();
    assert_eq!((next.sequence, individual_of(&next.written[0]).id), (Sequence(2), RecordId(2)));
}

pub async fn operations_of_one_write_build_on_each_other<B: Backend>() {
    let (mut backend, _) = listening::<B>();
    let operations = vec![
        Operation::create(person(&["urn:x:a|1"])),
        Operation::update(RecordId::pending(1), VersionId(1), person(&["urn:x:a|2"])),
        Operation::update(RecordId::pending(1), VersionId(2), person(&["urn:x:a|3"])),
        Operation::create(person(&["urn:x:a|2"])),
    ];
    let committed = commit(backend.store(), operations).await.unwrap();
    let versions: Vec<_> = committed.written.iter().map(|one| individual_of(one).meta.version.0).collect();
    assert_eq!(versions, [1, 2, 3, 1]);
    reopened(&mut backend).await;
    for (version, value) in [(1, "urn:x:a|1"), (2, "urn:x:a|2"), (3, "urn:x:a|3")] {
        let then =
            backend.store().find_version::<IndividualDetails>(RecordId(1), VersionId(version)).await.unwrap().unwrap();
        assert_eq!(then.details, person(&[value]));
    }
    assert_eq!(all_individuals(backend.store()).await, [1, 2]);
}

pub async fn scans_give_records_by_key<B: Backend>() {
    let (backend, _) = listening::<B>();
    let people = (0..300).map(|_| Operation::create(person(&[]))).collect();
    commit(backend.store(), people).await.unwrap();
    commit(backend.store(), vec![Operation::create(group(&[]))]).await.unwrap();
    assert_eq!(all_individuals(backend.store()).await, (1..=300).collect::<Vec<u64>>());
    let page = backend.store().scan::<IndividualDetails>(RecordId(255), 3).await.unwrap();
    assert_eq!(page.iter().map(|one| one.id.0).collect::<Vec<_>>(), [256, 257, 258]);
    assert!(backend.store().scan::<IndividualDetails>(RecordId(300), 3).await.unwrap().is_empty());
    assert!(backend.store().scan::<IndividualDetails>(RecordId(0), 0).await.unwrap().is_empty());
    assert_eq!(backend.store().scan::<GroupDetails>(RecordId(0), 9).await.unwrap().len(), 1);
}

pub async fn several_records_are_returned_in_the_requested_order<B: Backend>() {
    let (backend, _) = listening::<B>();
    let people = (0..100).map(|_| Operation::create(person(&[]))).collect();
    commit(backend.store(), people).await.unwrap();
    let ids = |ids: &[u64]| ids.iter().copied().map(RecordId).collect::<Vec<_>>();
    let found = backend.store().find_all::<IndividualDetails>(&ids(&[3, 900, 1, 3])).await.unwrap();
    assert_eq!(found.iter().map(|one| one.id.0).collect::<Vec<_>>(), [3, 1, 3]);
    let all: Vec<u64> = (1..=100).rev().collect();
    let found = backend.store().find_all::<IndividualDetails>(&ids(&all)).await.unwrap();
    assert_eq!(found.iter().map(|one| one.id.0).collect::<Vec<_>>(), all);
    // Neighbours, which a backend may scan, without some between them and with some that do not exist.
    let some: Vec<u64> = (40..130).filter(|id| id % 7 != 0).collect();
    let found = backend.store().find_all::<IndividualDetails>(&ids(&some)).await.unwrap();
    let existing: Vec<u64> = some.into_iter().filter(|id| *id <= 100).collect();
    assert_eq!(found.iter().map(|one| one.id.0).collect::<Vec<_>>(), existing);
}

pub async fn selected_fields_are_those_of_the_complete_record<B: Backend>() {
    let (backend, _) = listening::<B>();
    let people = [samples::full_individual().details, person(&[]), person(&[])];
    commit(backend.store(), people.into_iter().map(Operation::create).collect()).await.unwrap();
    let ids = [RecordId(1), RecordId(2), RecordId(3)];
    let complete = backend.store().find_all::<IndividualDetails>(&ids).await.unwrap();
    for name in ["address", "birth_date", "languages", "extension.farmer"] {
        let field = FieldName::parse(Resource::Individual, name).unwrap();
        let found = backend.store().find_fields::<IndividualDetails>(&ids, &FieldSet::only([field])).await.unwrap();
        assert_eq!(found.len(), complete.len());
        for (part, whole) in found.iter().zip(&complete) {
            assert_eq!((part.id, &part.meta), (whole.id, &whole.meta));
            let tag = schema::fields(RecordKind::Individual).iter().find(|field| field.name == name);
            match tag.map(|field| field.tag) {
                Some(tag) => assert_eq!(part.details.values.value(tag), whole.details.values.value(tag), "{name}"),
                None => assert_eq!(part.details.extension, whole.details.extension),
            }
        }
    }
}

pub async fn timestamps_are_stored_in_milliseconds<B: Backend>() {
    let (mut backend, _) = listening::<B>();
    let at = "2026-01-02T03:04:05.678999999Z".parse().unwrap();
    let retained = "2026-01-02T03:04:05.678Z".parse().unwrap();
    let operations = vec![Operation::create(person(&[]))];
    let entry = daftar_domain::audit::AuditEntry { at, ..audit_entry("r") };
    let fine = Write { at, audit: vec![entry.clone()], ..write(operations) };
    let committed = backend.store().commit(fine).await.unwrap();
    backend.store().append_audit(vec![entry]).await.unwrap();
    assert_eq!(individual_of(&committed.written[0]).meta.last_updated, retained);
    reopened(&mut backend).await;
    let stored = backend.store().find::<IndividualDetails>(RecordId(1)).await.unwrap().unwrap();
    assert_eq!(stored.meta.last_updated, retained);
    let audit = backend.store().audit(9).await.unwrap();
    assert_eq!(audit.iter().map(|entry| entry.at).collect::<Vec<_>>(), [retained, retained]);
}

pub async fn absent_and_empty_lists_are_distinct<B: Backend>() {
    let (mut backend, _) = listening::<B>();
    let empty = person(&[])
        .with(TELECOM, Vec::<Values>::new())
        .with(ADDRESS, Vec::<Values>::new())
        .with(LANGUAGES, Vec::<CodedValue>::new());
    let operations = vec![
        Operation::create(person(&[])),
        Operation::create(empty.clone()),
        Operation::create(group(&[])),
        Operation::create(group(&[]).with(MEMBER, Vec::<Member>::new())),
    ];
    commit(backend.store(), operations).await.unwrap();
    reopened(&mut backend).await;
    let store = backend.store();
    assert_eq!(store.find::<IndividualDetails>(RecordId(1)).await.unwrap().unwrap().details, person(&[]));
    assert_eq!(store.find::<IndividualDetails>(RecordId(2)).await.unwrap().unwrap().details, empty);
    assert_eq!(store.find::<GroupDetails>(RecordId(1)).await.unwrap().unwrap().details.get(MEMBER), None);
    assert_eq!(store.find::<GroupDetails>(RecordId(2)).await.unwrap().unwrap().details.get(MEMBER), Some(&[][..]));
}

pub async fn changes_are_reported_once_in_order<B: Backend>() {
    let (mut backend, listener) = listening::<B>();
    let first = create(backend.store(), person(&["urn:x:a|1"])).await;
    let operations =
        vec![Operation::create(group(&[])), Operation::update(first.id, VersionId(1), person(&["urn:x:a|2"]))];
    commit(backend.store(), operations).await.unwrap();
    commit(backend.store(), vec![Operation::CreateClient(samples::full_client())]).await.unwrap();
    let heard = std::mem::take(&mut *listener.0.lock().unwrap());
    let sequences: Vec<_> = heard.iter().map(|change| change.sequence.0).collect();
    assert_eq!(sequences, [1, 2, 2]);
    assert!(matches!(&heard[0].record, ChangedRecord::Individual(now) if *now == first));
    assert!(matches!(&heard[1].record, ChangedRecord::Group(now) if now.id == RecordId(1)));
    let ChangedRecord::Individual(now) = &heard[2].record else { panic!("not a person: {:?}", heard[2]) };
    assert_eq!((now.id, now.meta.version), (first.id, VersionId(2)));

    let listener = reopened(&mut backend).await;
    assert!(listener.0.lock().unwrap().is_empty(), "earlier changes are read by scanning, not notified");
}

pub async fn records_are_rejected_until_a_listener_is_attached<B: Backend>() {
    let backend = B::fresh();
    let create = || vec![Operation::create(person(&[]))];
    assert!(matches!(backend.store().readiness(), Err(StoreError::NotReady)));
    assert!(matches!(commit(backend.store(), create()).await, Err(StoreError::NotReady)));
    commit(backend.store(), vec![Operation::CreateClient(samples::full_client())]).await.unwrap();
    let listener = Arc::new(Listener::default());
    assert_eq!(backend.store().attach_sink(listener.clone()).unwrap(), Sequence(1));
    assert!(matches!(backend.store().attach_sink(listener.clone()), Err(StoreError::SinkAttached)));
    backend.store().readiness().unwrap();
    assert_eq!(commit(backend.store(), create()).await.unwrap().sequence, Sequence(2));
    assert_eq!(listener.0.lock().unwrap().len(), 1);
}
