//! Reads of one record by identifier: lookups of the store, collisions of hashes, reused identifiers, and reads after
//! acknowledged writes.

use super::super::*;
use crate::group::members::GroupPlace;
use crate::individual::{self, Includes};
use crate::transaction::Transaction;
use daftar_domain::audit::Actor;
use daftar_domain::calendar::Period;
use daftar_domain::change::{Change, ChangedRecord, Sequence};
use daftar_domain::client::ClientId;
use daftar_domain::code::{CodeNumber, CodedValue, EditionNumber};
use daftar_domain::context::audit_context::AuditContext;
use daftar_domain::grant::Grants;
use daftar_domain::group::{self, GroupDetails, Member};
use daftar_domain::individual::{Individual, IndividualDetails};
use daftar_domain::record::{RecordMeta, VersionId};
use daftar_index::Columns;
use daftar_store::suite::{commit, create, individual_of, key, person};
use daftar_store::testing::ProxyStore;
use daftar_store::{ChangeSink, Operation, Store};
use daftar_store_sled::testing::shared_store;
use daftar_vocabulary::LanguagePreference;
use jiff::civil::Date;

/// Applies the store's changes to the index, as a server does.
struct Sink(Arc<Columns>);

impl ChangeSink for Sink {
    fn apply(&self, changes: &[Change]) {
        self.0.apply(changes);
    }
}

fn register() -> (Registry, Arc<ProxyStore>) {
    let store = shared_store();
    let registry = Registry::of_store(&store);
    store.attach_sink(Arc::new(Sink(Arc::clone(&registry.columns)))).unwrap();
    (registry, store)
}

fn context() -> OpContext {
    let now = "2026-03-01T12:00:00Z".parse().unwrap();
    OpContext::unbound(Actor::Administrator, "test".into(), now, AuditContext::default())
}

/// The record that the index proposes.
fn candidate(registry: &Registry, kind: RecordKind, key: &IdentifierKey) -> Option<RecordId> {
    registry.index.always_current()?.candidate(kind, key)
}

/// A client with these grants.
fn client(grants: Grants) -> OpContext {
    let actor = Actor::Client(ClientId::parse("clinic").unwrap());
    OpContext { actor, scopes: grants.scopes(), grants, ..context() }
}

/// An individual whose identifiers ended.
fn past(identifiers: &[&str]) -> IndividualDetails {
    let mut details = person(identifiers);
    for identifier in &mut details.identifiers {
        identifier.period = Some(Period { start: None, end: Some(Date::constant(2020, 1, 1)) });
    }
    details
}

/// Reads an individual; returns its key, or none if there is none.
async fn read(registry: &Registry, text: &str) -> Result<Option<u64>, AppError> {
    let (ctx, key) = (context(), key(text));
    match read_record::<IndividualDetails>(&ctx, registry, &key).await {
        Ok(seen) => Ok(Some(seen.record.id.0)),
        Err(AppError::NotFound(_) | AppError::NotThere(_)) => Ok(None),
        Err(error) => Err(error),
    }
}

fn household() -> GroupDetails {
    let role = |number| Some(CodedValue { number: CodeNumber(number), edition: EditionNumber(3) });
    let period = Some(Period { start: Some(Date::constant(2024, 2, 29)), end: None });
    let members = vec![
        Member { individual: RecordId(1), role: role(7), period: None, is_inactive: true },
        Member { individual: RecordId(2), role: role(8), period: None, is_inactive: false },
        Member { individual: RecordId(1), role: role(9), period, is_inactive: false },
    ];
    daftar_store::suite::group(&["urn:x:g|1"])
        .with(group::NAME, "Ménage Diallo".to_owned())
        .with(group::MEMBER, members)
}

/// A membership as the body of an individual shows it: reference and name of the group, and the member.
type Shown = (Option<String>, Option<String>, Member);

/// The memberships in the body of an individual; none if they are no part of it.
async fn groups_shown(ctx: &OpContext, registry: &Registry, text: &str) -> Option<Vec<Shown>> {
    let shown = |place: &GroupPlace| (place.group.reference.clone(), place.group.name.clone(), place.member.clone());
    let show = |view: &individual::IndividualView| {
        Ok::<_, AppError>(view.beside.places.as_ref().map(|places| places.iter().map(shown).collect()))
    };
    let wanted = (&key(text), Includes::ALL);
    individual::read(ctx, registry, LanguagePreference::none(), wanted, show).await.unwrap()
}

#[tokio::test]
async fn a_read_of_an_individual_and_its_groups_makes_one_lookup_of_the_store() {
    let (registry, store) = register();
    create(&*store, person(&["urn:x:a|1"])).await;
    create(&*store, person(&["urn:x:a|2"])).await;
    commit(&*store, vec![Operation::create(household())]).await.unwrap();
    let before = store.lookups();
    let shown = groups_shown(&context(), &registry, "urn:x:a|1").await;
    assert_eq!(store.lookups() - before, 1);
    let (reference, name) = (Some("Group/urn:x:g|1".to_owned()), Some("Ménage Diallo".to_owned()));
    let household = household();
    let members = household.members().filter(|member| member.individual == RecordId(1));
    let expected: Vec<Shown> = members.map(|member| (reference.clone(), name.clone(), member)).collect();
    assert_eq!((expected.len(), &shown), (2, &Some(expected.clone())));

    // A transaction, whose writes are in no index, reads the record of the group, with the same result.
    let transaction = Transaction::begin(&registry, None).registry();
    let before = store.lookups();
    assert_eq!(groups_shown(&context(), &transaction, "urn:x:a|1").await, shown);
    assert_eq!(store.lookups() - before, 2);

    // A client without the name of groups, and one that reads no groups.
    let members = FieldSet::only([FieldName::parse(Resource::Group, "member").unwrap()]);
    let read = |resource| Scope::new(resource, Action::Read);
    let grants = [(read(Resource::Individual), FieldSet::All), (read(Resource::Group), members)];
    let unnamed: Vec<Shown> = expected.into_iter().map(|(reference, _, member)| (reference, None, member)).collect();
    let grants: Grants = grants.into_iter().collect();
    assert_eq!(groups_shown(&client(grants), &registry, "urn:x:a|1").await, Some(unnamed));
    let grants: Grants = [read(Resource::Individual)].into_iter().collect();
    assert_eq!(groups_shown(&client(grants), &registry, "urn:x:a|1").await, None);
}

#[tokio::test]
async fn a_record_that_the_index_proposes_for_another_identifier_is_not_returned() {
    let (registry, store) = register();
    create(&*store, person(&["urn:x:a|1"])).await;
    create(&*store, person(&["urn:x:a|2"])).await;
    // As if the hashes of other identifiers were those of the first individual.
    let meta = || RecordMeta { version: VersionId(1), last_updated: jiff::Timestamp::UNIX_EPOCH, source: None };
    let indexed = |id, details| {
        let record = Arc::new(Individual { id: RecordId(id), meta: meta(), details });
        Change { sequence: Sequence(2), record: ChangedRecord::Individual(record) }
    };
    registry.columns.apply(&[indexed(1, person(&["urn:x:a|2", "urn:x:a|3"])), indexed(2, person(&[]))]);
    for collides in ["urn:x:a|2", "urn:x:a|3"] {
        assert_eq!(candidate(&registry, RecordKind::Individual, &key(collides)), Some(RecordId(1)));
    }
    assert_eq!(read(&registry, "urn:x:a|1").await.unwrap(), Some(1), "the index has no record for it");
    assert_eq!(read(&registry, "urn:x:a|2").await.unwrap(), Some(2));
    assert_eq!(read(&registry, "urn:x:a|3").await.unwrap(), None);
    // The index has a record that is in no store, such as one of a later write.
    registry.columns.apply(&[indexed(3, person(&["urn:x:a|1"]))]);
    assert_eq!(read(&registry, "urn:x:a|1").await.unwrap(), Some(1));
}

#[tokio::test]
async fn an_ended_identifier_addresses_its_former_owner_until_another_record_adopts_it() {
    let (registry, store) = register();
    create(&*store, person(&["urn:x:a|1"])).await;
    assert_eq!(read(&registry, "urn:x:a|1").await.unwrap(), Some(1));
    commit(&*store, vec![Operation::update(RecordId(1), VersionId(1), past(&["urn:x:a|1"]))]).await.unwrap();
    assert_eq!(read(&registry, "urn:x:a|1").await.unwrap(), Some(1));
    create(&*store, past(&["urn:x:a|1"])).await;
    assert!(matches!(read(&registry, "urn:x:a|1").await, Err(AppError::Ambiguous)));
    create(&*store, person(&["urn:x:a|1"])).await;
    assert_eq!(read(&registry, "urn:x:a|1").await.unwrap(), Some(3));
    // Ended and current in one record: it was assigned again.
    let mut again = person(&["urn:x:a|4", "urn:x:a|4"]);
    again.identifiers[0].period = past(&["urn:x:a|4"]).identifiers[0].period;
    create(&*store, again).await;
    assert_eq!(read(&registry, "urn:x:a|4").await.unwrap(), Some(4));
    assert_eq!(candidate(&registry, RecordKind::Group, &key("urn:x:a|4")), None, "kinds share no identifiers");
}

/// The store notifies the index of a write before it acknowledges the write.
#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn concurrent_reads_see_every_write_that_was_acknowledged_before() {
    const WRITERS: u64 = 6;
    const HANDOVERS: u64 = 20;
    let (registry, store) = register();
    let writers = (0..WRITERS).map(|writer| {
        let (registry, store) = (registry.clone(), Arc::clone(&store));
        tokio::spawn(async move {
            // An identifier that passes from record to record.
            let passed = format!("urn:x:passed|{writer}");
            let mut holder = create(&*store, person(&[&passed])).await;
            for handover in 1..=HANDOVERS {
                assert_eq!(candidate(&registry, RecordKind::Individual, &key(&passed)).is_some(), handover == 1);
                let own = format!("urn:x:own|{writer}-{handover}");
                let operations = vec![
                    Operation::update(holder.id, holder.meta.version, past(&[&passed])),
                    Operation::create(person(&[&passed, &own])),
                ];
                let committed = commit(&*store, operations).await.unwrap();
                holder = individual_of(&committed.written[1]);
                assert_eq!(candidate(&registry, RecordKind::Individual, &key(&own)), Some(holder.id));
                for text in [&passed, &own] {
                    assert_eq!(read(&registry, text).await.unwrap(), Some(holder.id.0), "{text}");
                }
            }
        })
    });
    let writers: Vec<_> = writers.collect();
    for writer in writers {
        writer.await.unwrap();
    }
}
