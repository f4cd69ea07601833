//! Operations that are combined into one write, and those that write nothing.

use super::*;
use daftar_domain::change::Details;
use daftar_domain::deployment::Setting;
use daftar_domain::group::{GroupDetails, MEMBER, Member};
use daftar_domain::program::ProgramDetails;
use daftar_domain::program_membership::{BENEFICIARY, MembershipStatus, ProgramMembershipDetails};
use daftar_domain::subject::{Subject, SubjectReference};
use daftar_domain::value::Reference;
use daftar_store::overlay::{Overlay, is_of_dry_run};
use daftar_store::suite::{futures_join, group, key, membership};

fn staged() -> (Arc<dyn Store>, Overlay) {
    let base: Arc<dyn Store> = Arc::new(SledStore::temporary());
    base.attach_sink(Arc::new(Listener::default())).unwrap();
    let staged = Overlay::transaction(Arc::clone(&base));
    (base, staged)
}

async fn everything(base: &dyn Store, staged: &Overlay) -> Result<Committed, StoreError> {
    base.commit(staged.take(write(Vec::new()).at, None)).await
}

#[tokio::test]
async fn pending_writes_are_visible_only_in_the_overlay_until_the_commit() {
    let (base, staged) = staged();
    create(&*base, person(&["urn:x:a|0"])).await;
    let made = create(&staged, person(&["urn:x:a|1"])).await;
    assert_eq!(made.id, RecordId::pending(1));
    let member = |individual| Member { individual, role: None, period: None, is_inactive: false };
    let household = group(&["urn:x:g|1"]).with(MEMBER, vec![member(made.id), member(RecordId(1))]);
    commit(&staged, vec![Operation::create(household)]).await.unwrap();

    let owners = staged.identifier_owners(RecordKind::Individual, &key("urn:x:a|1"), 9).await.unwrap();
    assert_eq!(owners.iter().map(|owner| owner.id).collect::<Vec<_>>(), [made.id]);
    let both = (&staged as &dyn Store)
        .find_all::<IndividualDetails>(&[made.id, RecordId(1), RecordId::pending(2)])
        .await
        .unwrap();
    assert_eq!(both.iter().map(|found| found.id).collect::<Vec<_>>(), [made.id, RecordId(1)]);
    let version = (&staged as &dyn Store).find_version::<IndividualDetails>(made.id, VersionId::FIRST).await.unwrap();
    assert_eq!(version, Some(made));
    assert_eq!(all_individuals(&*base).await, [1]);

    everything(&*base, &staged).await.unwrap();
    assert_eq!(all_individuals(&*base).await, [1, 2]);
    let household = base.find::<GroupDetails>(RecordId(1)).await.unwrap().unwrap();
    let members: Vec<_> = household.details.members().map(|member| member.individual).collect();
    assert_eq!(members, [RecordId(2), RecordId(1)]);
    assert!(staged.take(household.meta.last_updated, None).operations.is_empty());
}

#[tokio::test]
async fn a_record_may_be_created_and_changed_and_a_stored_one_changed_twice() {
    let (base, staged) = staged();
    let stored = create(&*base, person(&["urn:x:a|0"])).await;
    let made = create(&staged, person(&["urn:x:a|1"])).await;
    for (record, version, identifier) in [(&made, 1, "urn:x:b|1"), (&stored, 1, "urn:x:b|0"), (&stored, 2, "urn:x:c|0")]
    {
        let mut details = IndividualDetails::clone(&record.details);
        details.identifiers.extend(person(&[identifier]).identifiers);
        commit(&staged, vec![Operation::update(record.id, VersionId(version), details)]).await.unwrap();
    }
    let error = commit(&staged, vec![Operation::update(stored.id, VersionId(2), person(&[]))]).await;
    assert!(matches!(error, Err(StoreError::VersionMismatch { actual: VersionId(3), .. })));
    everything(&*base, &staged).await.unwrap();
    let versions =
        [base.find::<IndividualDetails>(RecordId(1)).await, base.find::<IndividualDetails>(RecordId(2)).await];
    let versions = versions.map(|found| found.unwrap().unwrap().meta.version);
    assert_eq!(versions, [VersionId(3), VersionId(2)]);
    assert!(base.find_version::<IndividualDetails>(stored.id, VersionId(2)).await.unwrap().is_some());
}

#[tokio::test]
async fn a_collision_within_the_transaction_names_the_part_and_one_outside_none() {
    let (base, staged) = staged();
    create(&*base, person(&["urn:x:a|0"])).await;
    staged.begin_part(4);
    create(&staged, person(&["urn:x:a|1"])).await;
    staged.begin_part(7);
    for (identifier, part) in [("urn:x:a|1", Some(4)), ("urn:x:a|0", None)] {
        let error = commit(&staged, vec![Operation::create(person(&[identifier]))]).await.unwrap_err();
        assert!(matches!(error, StoreError::IdentifierInUse(_)), "{error}");
        assert_eq!(staged.collided_with(), part);
    }
    create(&staged, person(&["urn:x:a|2"])).await;
    let of_part = |part| staged.written_by(part).into_iter().filter_map(IndividualDetails::of).map(|found| found.id);
    assert_eq!(of_part(4).collect::<Vec<_>>(), [RecordId::pending(1)]);
    assert_eq!(of_part(7).collect::<Vec<_>>(), [RecordId::pending(2)]);
}

#[tokio::test]
async fn a_transaction_is_rejected_after_a_concurrent_change() {
    let (base, staged) = staged();
    let stored = create(&*base, person(&["urn:x:a|0"])).await;
    create(&staged, person(&["urn:x:a|1"])).await;
    let change = |details| vec![Operation::update(stored.id, VersionId(1), details)];
    commit(&staged, change(person(&["urn:x:a|0", "urn:x:b|0"]))).await.unwrap();
    commit(&*base, change(person(&["urn:x:a|0", "urn:x:c|0"]))).await.unwrap();
    let error = everything(&*base, &staged).await.unwrap_err();
    assert!(matches!(error, StoreError::VersionMismatch { .. }), "{error}");
    assert_eq!(all_individuals(&*base).await, [1], "nothing of it was written");
}

#[tokio::test]
async fn only_records_are_buffered() {
    let (_, staged) = staged();
    let setting = Setting::ConceptGroup(samples::concept_group());
    let error = commit(&staged, vec![Operation::PutSetting(setting)]).await.unwrap_err();
    assert!(matches!(error, StoreError::Corrupt { .. }), "{error}");
    assert!(staged.attach_sink(Arc::new(Listener::default())).is_err());
}

#[tokio::test]
async fn whom_groups_and_memberships_name_that_were_written_here_is_found() {
    let (base, staged) = staged();
    let stored = create(&*base, person(&["urn:x:a|0"])).await;
    let made = create(&staged, person(&["urn:x:a|1"])).await;
    let naming = |people: &[RecordId]| {
        let member = |id: &RecordId| Member { individual: *id, role: None, period: None, is_inactive: false };
        group(&["urn:x:g|1"]).with(MEMBER, people.iter().map(member).collect::<Vec<_>>())
    };
    commit(&*base, vec![Operation::create(naming(&[stored.id]))]).await.unwrap();
    assert_eq!(staged.groups_of(stored.id), [], "the indexes have the stored records");
    let mut other = naming(&[made.id, stored.id]);
    other.identifiers = group(&["urn:x:g|2"]).identifiers;
    commit(&staged, vec![Operation::create(other)]).await.unwrap();
    let both = Operation::update(RecordId(1), VersionId(1), naming(&[stored.id, made.id]));
    commit(&staged, vec![both]).await.unwrap();
    for one in [stored.id, made.id] {
        assert_eq!(staged.groups_of(one), [RecordId::pending(1), RecordId(1)]);
    }
    let without = Operation::update(RecordId(1), VersionId(2), naming(&[made.id]));
    commit(&staged, vec![without]).await.unwrap();
    assert_eq!(staged.groups_of(stored.id), [RecordId::pending(1)], "as they are now");

    let subject = |id| SubjectReference { kind: Subject::Individual, id };
    let details = samples::full_membership().details.with(BENEFICIARY, Reference::from(subject(made.id)));
    let created = commit(&staged, vec![Operation::create(details)]).await.unwrap();
    let created = created.first::<ProgramMembershipDetails>().unwrap();
    assert_eq!(staged.memberships_of(subject(made.id)), [created.id]);
    assert_eq!(staged.memberships_of(SubjectReference { kind: Subject::Group, id: made.id }), []);
    assert_eq!(staged.beneficiary_of(created.id), Some(subject(made.id)));
    assert_eq!(staged.beneficiary_of(RecordId(1)), None);
    assert!(base.pending_writes().is_none());
}

async fn dry_run() -> (Arc<dyn Store>, Overlay) {
    let (base, _) = staged();
    create(&*base, person(&["urn:x:a|0"])).await;
    let dry_run = Overlay::dry_run(Arc::clone(&base));
    (base, dry_run)
}

#[tokio::test]
async fn a_dry_run_reserves_identifiers_and_writes_nothing() {
    let (base, dry_run) = dry_run().await;
    let add = |identifier: &str| vec![Operation::create(person(&[identifier]))];
    assert!(matches!(commit(&dry_run, add("urn:x:a|1")).await, Err(StoreError::DryRun)));
    for taken in ["urn:x:a|0", "urn:x:a|1"] {
        assert!(matches!(commit(&dry_run, add(taken)).await, Err(StoreError::IdentifierInUse(_))), "{taken}");
    }
    let owners = dry_run.identifier_owners(RecordKind::Individual, &key("urn:x:a|1"), 9).await.unwrap();
    assert!(matches!(owners.as_slice(), [owner] if is_of_dry_run(owner.id) && owner.is_open));
    assert!(owners.iter().all(|owner| owner.id.pending_number().is_none()));
    // Of two concurrent writes one has it.
    let both = futures_join([0, 1].map(|_| commit(&dry_run, add("urn:x:a|2"))).into_iter()).await;
    assert_eq!(both.iter().filter(|one| matches!(one, Err(StoreError::DryRun))).count(), 1);
    // A stored record gives one up, and is not changed by that.
    let update = |version| vec![Operation::update(RecordId(1), VersionId(version), person(&["urn:x:b|0"]))];
    assert!(matches!(commit(&dry_run, update(9)).await, Err(StoreError::VersionMismatch { .. })));
    assert!(matches!(commit(&dry_run, update(1)).await, Err(StoreError::DryRun)));
    assert!(matches!(commit(&dry_run, add("urn:x:a|0")).await, Err(StoreError::DryRun)));
    assert!(matches!(commit(&dry_run, add("urn:x:b|0")).await, Err(StoreError::IdentifierInUse(_))));
    assert_eq!(base.find::<IndividualDetails>(RecordId(1)).await.unwrap().unwrap().meta.version, VersionId(1));
    assert_eq!(all_individuals(&*base).await, [1]);
    assert!(dry_run.pending_writes().is_none() && dry_run.take(write(Vec::new()).at, None).operations.is_empty());
}

#[tokio::test]
async fn a_dry_run_takes_open_memberships_and_shows_its_programs() {
    let (base, dry_run) = dry_run().await;
    let program = samples::full_program().details;
    assert!(matches!(commit(&dry_run, vec![Operation::create(program.clone())]).await, Err(StoreError::DryRun)));
    let of = &program.identifiers[0].key;
    let [owner] = dry_run.identifier_owners(RecordKind::Program, of, 9).await.unwrap()[..] else { panic!("no owner") };
    assert_eq!((&dry_run as &dyn Store).find::<ProgramDetails>(owner.id).await.unwrap().unwrap().details, program);
    let beneficiary = SubjectReference { kind: Subject::Individual, id: RecordId(1) };
    let enrol = |status| vec![Operation::create(membership(owner.id, beneficiary, status))];
    for (status, is_refused) in [
        (MembershipStatus::Exited, false),
        (MembershipStatus::Enrolled, false),
        (MembershipStatus::Enrolled, true),
        (MembershipStatus::Exited, false),
    ] {
        let outcome = commit(&dry_run, enrol(status)).await.unwrap_err();
        assert_eq!(matches!(outcome, StoreError::MembershipOpen), is_refused, "{outcome}");
        assert_eq!(matches!(outcome, StoreError::DryRun), !is_refused, "{outcome}");
    }
    assert!(base.scan::<ProgramDetails>(RecordId(0), 9).await.unwrap().is_empty());
    let setting = Setting::ConceptGroup(samples::concept_group());
    let error = commit(&dry_run, vec![Operation::PutSetting(setting)]).await.unwrap_err();
    assert!(matches!(error, StoreError::Corrupt { .. }), "{error}");
}

#[tokio::test]
async fn a_dry_run_frees_the_slot_of_a_membership_that_it_would_end() {
    let (base, dry_run) = dry_run().await;
    let beneficiary = SubjectReference { kind: Subject::Individual, id: RecordId(1) };
    let of = |status| membership(RecordId(1), beneficiary, status);
    let (enrolled, exited) = (of(MembershipStatus::Enrolled), of(MembershipStatus::Exited));
    commit(&*base, vec![Operation::create(enrolled.clone())]).await.unwrap();
    let add = || vec![Operation::create(enrolled.clone())];
    assert!(matches!(commit(&dry_run, add()).await, Err(StoreError::MembershipOpen)));
    let end = vec![Operation::update(RecordId(1), VersionId(1), exited)];
    assert!(matches!(commit(&dry_run, end).await, Err(StoreError::DryRun)));
    assert!(matches!(commit(&dry_run, add()).await, Err(StoreError::DryRun)));
    assert!(matches!(commit(&dry_run, add()).await, Err(StoreError::MembershipOpen)));
}
