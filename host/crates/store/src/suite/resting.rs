//! Writes whose read set contains records that they do not change.

use crate::{Operation, ReadSet, StoreError};
use daftar_domain::change::Sequence;
use daftar_domain::group::{MEMBER, Member};
use daftar_domain::record::{RecordId, RecordKind, VersionId};
use daftar_domain::subject::Subject;

use super::*;

type Place = (RecordKind, RecordId);

const PERSON: Place = (RecordKind::Individual, RecordId(1));
const OTHER: Place = (RecordKind::Individual, RecordId(2));
const GROUP: Place = (RecordKind::Group, RecordId(1));

fn enrol(program: u64, beneficiary: u64) -> Operation {
    let beneficiary = SubjectReference { kind: Subject::Individual, id: RecordId(beneficiary) };
    Operation::create(membership(RecordId(program), beneficiary, MembershipStatus::Exited))
}

fn of(members: &[u64]) -> GroupDetails {
    let member = |id: &u64| Member { individual: RecordId(*id), role: None, period: None, is_inactive: false };
    group(&["urn:x:g|1"]).with(MEMBER, members.iter().map(member).collect::<Vec<_>>())
}

/// Executes a write whose read set is those records after that write.
async fn resting(
    store: &dyn Store,
    since: Sequence,
    records: &[Place],
    what: Operation,
) -> Result<Sequence, StoreError> {
    let read_set = vec![ReadSet { since, records: records.to_vec() }];
    store.commit(Write { read_set, ..write(vec![what]) }).await.map(|committed| committed.sequence)
}

/// Two individuals and a group of the first, and the last write.
async fn register(store: &dyn Store) -> Sequence {
    create(store, person(&["urn:x:a|1"])).await;
    create(store, person(&["urn:x:a|2"])).await;
    commit(store, vec![Operation::create(of(&[1]))]).await.unwrap().sequence
}

pub async fn a_write_is_rejected_if_its_read_set_was_touched<B: Backend>() {
    let (backend, listener) = listening::<B>();
    let store = backend.store();
    let mut before = register(store).await;
    let mut newcomers = 0;
    let mut newcomer = || {
        newcomers += 1;
        Operation::create(person(&[&format!("urn:x:new|{newcomers}")]))
    };
    let regrouped = |version: u64, members: &[u64]| Operation::update(RecordId(1), VersionId(version), of(members));
    for (what, touched) in [
        (enrol(1, 1), vec![PERSON]),
        (Operation::update(RecordId(2), VersionId(1), person(&["urn:x:a|2"])), vec![OTHER]),
        (regrouped(1, &[2]), vec![PERSON, OTHER, GROUP]),
        (regrouped(2, &[]), vec![OTHER, GROUP]),
        (enrol(1, 2), vec![OTHER]),
    ] {
        let after = commit(store, vec![what]).await.unwrap().sequence;
        for place in [PERSON, OTHER, GROUP] {
            let heard = listener.0.lock().unwrap().len();
            let outcome = resting(store, before, &[place], newcomer()).await;
            let is_overtaken = matches!(outcome, Err(StoreError::Overtaken));
            assert_eq!(is_overtaken, touched.contains(&place), "{place:?} {outcome:?}");
            assert_eq!(listener.0.lock().unwrap().len() == heard, is_overtaken, "a rejected write has no effect");
        }
        resting(store, after, &[PERSON, OTHER, GROUP], newcomer()).await.unwrap();
        before = after;
    }
}

pub async fn writes_of_one_group_see_each_others_changes<B: Backend>() {
    let (backend, _) = listening::<B>();
    let store = backend.store();
    let begun = register(store).await;
    let attempts = (1..=16).map(|program| async move { resting(store, begun, &[PERSON], enrol(program, 1)).await });
    let outcomes = futures_join(attempts).await;
    assert_eq!(outcomes.iter().filter(|outcome| outcome.is_ok()).count(), 1);
    assert_eq!(outcomes.iter().filter(|outcome| matches!(outcome, Err(StoreError::Overtaken))).count(), 15);
}

pub async fn unknown_records_count_as_touched<B: Backend>() {
    let (mut backend, _) = listening::<B>();
    let begun = register(backend.store()).await;
    resting(backend.store(), begun, &[OTHER], enrol(1, 1)).await.unwrap();
    let _listener = reopened(&mut backend).await;
    let outcome = resting(backend.store(), begun, &[OTHER], enrol(2, 1)).await;
    assert_eq!(outcome.is_ok(), B::remembers_what_was_touched(), "{outcome:?}");
}
