//! Reads of one record by identifier: lookups of the store, collisions of hashes, reused identifiers, and reads after
//! acknowledged writes.

use super::*;
use daftar_domain::audit::Actor;
use daftar_domain::calendar::Period;
use daftar_domain::change::{Change, ChangedRecord, Sequence};
use daftar_domain::context::audit_context::AuditContext;
use daftar_domain::individual::{Individual, IndividualDetails};
use daftar_domain::record::{RecordMeta, VersionId};
use daftar_index::Columns;
use daftar_store::suite::{commit, create, individual_of, key, person};
use daftar_store::testing::ProxyStore;
use daftar_store::{ChangeSink, Operation, Store};
use daftar_store_sled::testing::shared_store;
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

#[tokio::test]
async fn a_read_of_an_individual_makes_one_lookup_of_the_store() {
    let (registry, store) = register();
    create(&*store, person(&["urn:x:a|1"])).await;
    let before = store.lookups();
    assert_eq!(read(&registry, "urn:x:a|1").await.unwrap(), Some(1));
    assert_eq!(store.lookups() - before, 1);
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
        assert_eq!(registry.index.candidate(RecordKind::Individual, &key(collides)), Some(RecordId(1)));
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
    assert_eq!(registry.index.candidate(RecordKind::Group, &key("urn:x:a|4")), None, "kinds share no identifiers");
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
                assert_eq!(registry.index.candidate(RecordKind::Individual, &key(&passed)).is_some(), handover == 1);
                let own = format!("urn:x:own|{writer}-{handover}");
                let operations = vec![
                    Operation::update(holder.id, holder.meta.version, past(&[&passed])),
                    Operation::create(person(&[&passed, &own])),
                ];
                let committed = commit(&*store, operations).await.unwrap();
                holder = individual_of(&committed.written[1]);
                assert_eq!(registry.index.candidate(RecordKind::Individual, &key(&own)), Some(holder.id));
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
