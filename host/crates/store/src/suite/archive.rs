//! Snapshots of a store after one write, and filling another store from them.

use std::collections::BTreeMap;
use std::ops::RangeInclusive;
use std::sync::atomic::{AtomicBool, Ordering};

use jiff::civil::date;

use crate::StoreError;
use crate::archive::{Entry, ItemKind, Snapshot};
use crate::record::setting::{SettingKind, SettingRange};
use crate::record::{self, samples};
use daftar_domain::calendar::Period;
use daftar_domain::change::{ChangedRecord, Sequence};
use daftar_domain::client::ClientId;
use daftar_domain::deployment::{Setting, SettingKey};
use daftar_domain::idempotency::{IdempotencyKey, IdempotentRequest, RequestName, StoredResponse};
use daftar_domain::individual::{ACTIVE, PHOTO};
use daftar_domain::photo::Photo;
use daftar_domain::record::VersionId;
use daftar_domain::rule_draft::{DraftStatus, RuleDraft, RuleDraftId};
use daftar_domain::schema::Tag;
use daftar_domain::subject::Subject;
use daftar_domain::value::Value;

use super::*;
use crate::testing::AuditReads as _;

/// All items of a snapshot.
async fn taken(snapshot: &mut Snapshot) -> Vec<Entry> {
    let mut entries = Vec::new();
    loop {
        let more = snapshot.next().await.unwrap();
        if more.is_empty() {
            return entries;
        }
        entries.extend(more);
    }
}

async fn snapshot<B: Backend>(backend: &B) -> Snapshot {
    backend.whole().snapshot().await.unwrap()
}

/// Number of items by kind.
fn counts(entries: &[Entry]) -> BTreeMap<&'static str, usize> {
    let mut counts = BTreeMap::new();
    for entry in entries {
        *counts.entry(entry.kind().name()).or_default() += 1;
    }
    counts
}

/// Current records, with their keys and versions.
fn present(entries: &[Entry]) -> Vec<ChangedRecord> {
    let records = entries.iter().filter_map(|entry| match entry {
        Entry::Version { kind, id, is_present: true, value, .. } => {
            Some(record::decode_any(*kind, *id, value).unwrap())
        }
        _ => None,
    });
    records.collect()
}

fn photo(bytes: &[u8]) -> Photo {
    Photo::new(bytes.to_vec(), |bytes| {
        let mut digest = [0; 32];
        digest.iter_mut().zip(bytes).for_each(|(place, byte)| *place = *byte);
        digest
    })
    .unwrap()
}

fn ended(text: &str) -> Identifier {
    Identifier { key: key(text), period: Some(Period { start: None, end: Some(date(2026, 1, 1)) }) }
}

/// A store with items of every kind.
pub async fn furnished<B: Backend>() -> (B, Arc<Listener>) {
    let (backend, listener) = listening::<B>();
    let store = backend.store();
    let (portrait, other) = (photo(b"a portrait"), photo(b"another one"));
    // With data of a newer program.
    let pictured = |photo: &Photo| {
        let mut details = person(&["urn:x:a|1"]).with(PHOTO, photo.reference());
        details.put(Tag(900), Some(Value::later(9, &[1, 2, 3])));
        details
    };
    commit(store, vec![Operation::PutPhoto(portrait.clone()), Operation::create(pictured(&portrait))]).await.unwrap();
    commit(
        store,
        vec![Operation::PutPhoto(other.clone()), Operation::update(RecordId(1), VersionId(1), pictured(&other))],
    )
    .await
    .unwrap();
    create(store, person(&["urn:x:a|2", "urn:x:b|2"])).await;
    // The identifier moves from the second to the third.
    let without = IndividualDetails::new(vec![ended("urn:x:a|2")], Values::default(), Extension::default());
    commit(store, vec![Operation::update(RecordId(2), VersionId(1), without)]).await.unwrap();
    create(store, person(&["urn:x:a|2"])).await;
    commit(store, vec![Operation::create(group(&["urn:x:g|1"]))]).await.unwrap();
    let of = |number| SubjectReference { kind: Subject::Individual, id: RecordId(number) };
    let open = membership(RecordId(1), of(1), MembershipStatus::Enrolled);
    let closed = membership(RecordId(1), of(2), MembershipStatus::NotEligible);
    commit(
        store,
        vec![
            Operation::create(samples::full_program().details),
            Operation::create(open),
            Operation::create(closed),
            Operation::create(samples::full_consent().details),
            Operation::CreateClient(samples::full_client()),
            Operation::PutSetting(Setting::LocalCode(samples::local_code())),
            Operation::PutSetting(Setting::IdentifierSystem(samples::identifier_system())),
        ],
    )
    .await
    .unwrap();
    let uri = |code: usize| daftar_domain::code::CodeUri::from_parts("urn:x:codes", &code.to_string()).unwrap();
    store.number_codes((0..1_200).map(uri).collect(), Vec::new()).await.unwrap();
    store.raise_counter("day/2026-01-02/c", 7).await.unwrap();
    store.append_audit((0..700).map(|number| audit_entry(&number.to_string())).collect()).await.unwrap();
    assert_eq!(store.audit(1).await.unwrap()[0].request_id, "699");
    (backend, listener)
}

fn request(key: &str, record: Option<(RecordKind, RecordId, VersionId)>) -> IdempotentRequest {
    let name =
        RequestName { client: ClientId::parse("client-1").unwrap(), key: IdempotencyKey::parse(key).unwrap(), part: 0 };
    let at = "2026-01-02T03:04:05.678Z".parse().unwrap();
    IdempotentRequest { name, digest: [1; 32], at, responses: vec![StoredResponse { status: 201, record }] }
}

pub async fn a_snapshot_contains_all_stored_items<B: Backend>() {
    let (backend, _) = furnished::<B>().await;
    let store = backend.store();
    let first = request("k", Some((RecordKind::Individual, RecordId::pending(1), VersionId(1))));
    store.commit_once(write(vec![Operation::create(person(&[]))]), first).await.unwrap();
    let mut snapshot = snapshot(&backend).await;
    let mark = snapshot.mark().clone();
    assert_eq!(mark.sequence, Sequence(8));
    assert_eq!(
        mark.records.map(|(kind, count)| (ItemKind::of_kind(kind).name(), count)),
        [("individuals", 4), ("groups", 1), ("programs", 1), ("program_memberships", 2), ("consents", 1)]
    );
    let entries = taken(&mut snapshot).await;
    assert!(snapshot.next().await.unwrap().is_empty(), "the end stays the end");
    let counts = counts(&entries);
    for (name, count) in [
        ("individuals", 4),
        ("groups", 1),
        ("programs", 1),
        ("program_memberships", 2),
        ("consents", 1),
        ("older_versions", 2),
        ("photos", 2),
        ("clients", 1),
        ("settings", 2),
        ("counters", 1),
        ("requests", 1),
        ("changes", 8),
    ] {
        assert_eq!(counts[name], count, "{name}");
    }
    assert!(counts["code_table_parts"] >= 1 && counts["audit_values"] >= 3);
    let shown = format!("{entries:?}");
    assert!(!shown.contains("urn:x:a") && !shown.contains("portrait"), "a snapshot shows no content of records");
}

pub async fn a_snapshot_excludes_later_writes<B: Backend>() {
    let (backend, _) = furnished::<B>().await;
    let store = backend.store();
    let before = taken(&mut snapshot(&backend).await).await;
    let mut late = snapshot(&backend).await;
    let mut taken_late = Vec::new();
    // Everything is changed between the beginning of the snapshot and its steps.
    for step in 0..4 {
        let (one, two) = (format!("urn:x:new|{step}"), format!("urn:x:group|{step}"));
        let made = request(&one, Some((RecordKind::Individual, RecordId::pending(1), VersionId(1))));
        store.commit_once(write(vec![Operation::create(person(&[&one]))]), made).await.unwrap();
        let again = person(&["urn:x:a|1"]).with(ACTIVE, step % 2 == 0);
        let update = Operation::update(RecordId(1), VersionId(2 + step), again);
        let changed = request(&two, Some((RecordKind::Individual, RecordId(1), VersionId(3 + step))));
        store.commit_once(write(vec![update]), changed).await.unwrap();
        let update = Operation::update(RecordId(1), VersionId(1 + step), group(&["urn:x:g|1"]));
        commit(store, vec![update, Operation::create(group(&[&two]))]).await.unwrap();
        store.append_audit(vec![audit_entry("late")]).await.unwrap();
        store.raise_counter("day/2026-01-02/c", 100 + step).await.unwrap();
        let uri = daftar_domain::code::CodeUri::from_parts("urn:x:late", &step.to_string()).unwrap();
        store.number_codes(vec![uri], Vec::new()).await.unwrap();
        if step == 1 {
            taken_late = late.next().await.unwrap();
            assert!(!taken_late.is_empty());
        }
    }
    taken_late.extend(taken(&mut late).await);
    assert!(taken_late == before, "{taken_late:?}");
}

pub async fn a_snapshot_under_concurrent_writes_is_consistent<B: Backend>() {
    let (backend, listener) = listening::<B>();
    let store = backend.store();
    for number in 0..40 {
        create(store, person(&[&format!("urn:x:a|{number}")])).await;
    }
    let is_over = AtomicBool::new(false);
    let is_over = &is_over;
    let writers = (0..4_u64).map(|writer| async move {
        let mut round = 0;
        while !is_over.load(Ordering::Acquire) && round < 2_000 {
            let id = RecordId(1 + (writer * 10 + round % 10));
            let now = store.find::<IndividualDetails>(id).await.unwrap().unwrap();
            let changed = now.details.clone().with(ACTIVE, round % 2 == 0);
            let fresh = Operation::create(person(&[&format!("urn:x:w{writer}|{round}")]));
            let update = Operation::update(id, now.meta.version, changed);
            commit(store, vec![update, fresh]).await.unwrap();
            round += 1;
            tokio::task::yield_now().await;
        }
    });
    let taker = async {
        let mut all = Vec::new();
        for _ in 0..12 {
            let mut snapshot = snapshot(&backend).await;
            tokio::task::yield_now().await;
            let sequence = snapshot.mark().sequence;
            all.push((sequence, present(&taken(&mut snapshot).await)));
        }
        is_over.store(true, Ordering::Release);
        all
    };
    let (_, all) = tokio::join!(futures_join(writers), taker);
    let changes = listener.0.lock().unwrap().clone();
    assert_eq!(all.len(), 12);
    for (sequence, records) in all {
        // The model: the last change of each record up to that write.
        let mut model = BTreeMap::new();
        for change in changes.iter().filter(|change| change.sequence <= sequence) {
            let (kind, id, _) = change.record.place();
            model.insert((kind, id), change.record.clone());
        }
        assert!(records == model.into_values().collect::<Vec<_>>(), "as of write {}", sequence.0);
    }
}

/// A draft with versions of 40 kB, of which 32 are more than a page of settings.
const LONG: u8 = 200;

/// A version of a draft.
fn draft(id: u8, version: u64) -> Arc<RuleDraft> {
    let mut draft = RuleDraft {
        id: RuleDraftId::from_bytes([id; 16]),
        version: VersionId(version),
        status: DraftStatus::Open,
        ..samples::rule_draft()
    };
    if id == LONG {
        draft.content.expression = "x".repeat(40_000);
    }
    Arc::new(draft)
}

/// Operations that add versions of a draft.
fn added(id: u8, versions: RangeInclusive<u64>) -> impl Iterator<Item = Operation> {
    versions.map(move |version| draft(id, version)).flat_map(|draft| {
        [
            Operation::AddSetting(Setting::RuleDraftVersion(Arc::clone(&draft))),
            Operation::PutSetting(Setting::RuleDraft(draft)),
        ]
    })
}

/// Operations that delete a draft.
fn deleted(id: u8, present: u64) -> Vec<Operation> {
    let last = RuleDraft { status: DraftStatus::Deleted, ..RuleDraft::clone(&draft(id, present + 1)) };
    let versions = (1..=present).map(|version| SettingKey::RuleDraftVersion(last.id, VersionId(version)));
    let removed = [SettingKey::RuleDraft(last.author.owner(), last.id)].into_iter().chain(versions);
    let removed: Vec<_> = removed.map(Operation::RemoveSetting).collect();
    [Operation::AddSetting(Setting::RuleDraftVersion(Arc::new(last)))].into_iter().chain(removed).collect()
}

/// The settings of an item; none of another item.
fn setting(entry: &Entry) -> Option<Setting> {
    let Entry::Setting { kind, value } = entry else { return None };
    Some(record::setting::decode(*kind, value).unwrap())
}

fn is_of_draft(setting: &Setting, id: u8) -> bool {
    matches!(setting, Setting::RuleDraft(draft) | Setting::RuleDraftVersion(draft) if draft.id.to_bytes() == [id; 16])
}

/// All settings of a store, by key.
async fn all_settings(store: &dyn Store) -> Vec<Setting> {
    let mut settings = Vec::new();
    for kind in SettingKind::ALL {
        settings.extend(store.settings_of(kind, SettingRange::of(&[])).await.unwrap());
    }
    settings.sort_by_key(Setting::key);
    settings
}

/// A new store that is filled with items.
async fn filled<B: Backend>(entries: &[Entry]) -> B {
    let (mut filling, finish) = B::refill();
    for some in entries.chunks(7) {
        filling.put(some.to_vec()).await.unwrap();
    }
    filling.finish().await.unwrap();
    finish()
}

pub async fn a_snapshot_contains_all_versions_of_drafts<B: Backend>() {
    let (backend, _) = listening::<B>();
    let store = backend.store();
    let others = [
        Operation::PutSetting(Setting::LocalCode(samples::local_code())),
        Operation::PutSetting(Setting::IdentifierSystem(samples::identifier_system())),
        Operation::CreateClient(samples::full_client()),
    ];
    commit(store, others.into()).await.unwrap();
    // More drafts than a page, and more versions.
    commit(store, (1..=40).flat_map(|id| added(id, 1..=u64::from(id % 4 + 1))).collect()).await.unwrap();
    commit(store, added(50, 1..=70).chain(added(LONG, 1..=20)).collect()).await.unwrap();
    commit(store, added(LONG, 21..=40).collect()).await.unwrap();
    commit(store, deleted(20, 1)).await.unwrap();
    commit(store, deleted(39, 4)).await.unwrap();

    let mut entries = Vec::new();
    let mut snapshot = snapshot(&backend).await;
    loop {
        let step = snapshot.next().await.unwrap();
        if step.is_empty() {
            break;
        }
        assert!(step.iter().map(Entry::bytes).sum::<usize>() < 1024 * 1024, "a step is small");
        entries.extend(step);
    }
    let mut settings: Vec<Setting> = entries.iter().filter_map(setting).collect();
    settings.sort_by_key(Setting::key);
    let expected = all_settings(store).await;
    // 10 drafts each with 1, 2, 3 and 4 versions, without those of two that were deleted, which left one each.
    let versions = 10 * (1 + 2 + 3 + 4) - 1 - 4 + 2 + 70 + 40;
    assert_eq!(expected.len(), 2 + 40 + versions);
    assert!(settings == expected, "{} settings", settings.len());
    let other = filled::<B>(&entries).await;
    assert!(taken(&mut self::snapshot(&other).await).await == entries, "it returns the same items");
}

pub async fn a_snapshot_excludes_later_changes_of_drafts<B: Backend>() {
    let (backend, _) = listening::<B>();
    let store = backend.store();
    // More versions than a page, before those that are changed.
    commit(store, added(1, 1..=40).chain(added(2, 1..=1)).collect()).await.unwrap();
    for steps in 0..4_u8 {
        let (present, removed, new) = (u64::from(steps) + 1, 10 + steps, 100 + steps);
        commit(store, added(removed, 1..=40).collect()).await.unwrap();
        let before = taken(&mut snapshot(&backend).await).await;
        let mut late = snapshot(&backend).await;
        let mut taken_late = Vec::new();
        for _ in 0..steps {
            taken_late.extend(late.next().await.unwrap());
        }
        commit(store, added(2, present + 1..=present + 1).collect()).await.unwrap();
        commit(store, deleted(removed, 40)).await.unwrap();
        commit(store, added(new, 1..=2).collect()).await.unwrap();
        taken_late.extend(taken(&mut late).await);

        // Without snapshots of a database, a draft that is deleted before it is read is left out.
        let is_removed = |entry: &Entry| setting(entry).is_some_and(|setting| is_of_draft(&setting, removed));
        let without: Vec<Entry> = before.iter().filter(|entry| !is_removed(entry)).cloned().collect();
        assert_eq!(before.len() - without.len(), 41);
        assert!(taken_late == before || taken_late == without, "{steps} steps before the changes: {taken_late:?}");

        let other = filled::<B>(&taken_late).await;
        other.store().attach_sink(Arc::new(Listener::default())).unwrap();
        let restored = all_settings(other.store()).await;
        let of_draft = |id| restored.iter().filter(move |setting| is_of_draft(setting, id));
        let versions = (1..=present).map(|version| Setting::RuleDraftVersion(draft(2, version)));
        let changed: Vec<Setting> = [Setting::RuleDraft(draft(2, present))].into_iter().chain(versions).collect();
        assert!(of_draft(2).eq(&changed), "a changed draft is at its earlier version");
        assert!([0, 41].contains(&of_draft(removed).count()), "a deleted draft is complete or missing");
        assert_eq!(of_draft(new).count(), 0);
    }
}

pub async fn a_snapshot_without_a_version_of_a_draft_is_rejected<B: Backend>() {
    let (backend, _) = listening::<B>();
    let store = backend.store();
    commit(store, added(1, 1..=34).chain(added(1, 36..=40)).chain(added(2, 1..=1)).collect()).await.unwrap();
    let read = async {
        let mut snapshot = backend.whole().snapshot().await?;
        while !snapshot.next().await?.is_empty() {}
        Ok::<_, StoreError>(())
    };
    let error = read.await.unwrap_err();
    assert!(matches!(error, StoreError::Corrupt { what: "rule draft", .. }), "{error:?}");
}

pub async fn a_filled_store_equals_its_source<B: Backend>() {
    let (backend, _) = furnished::<B>().await;
    let entries = taken(&mut snapshot(&backend).await).await;
    let other = filled::<B>(&entries).await;
    let again = taken(&mut snapshot(&other).await).await;
    assert!(again == entries, "it returns the same items");

    let (one, two) = (backend.store(), other.store());
    other.store().attach_sink(Arc::new(Listener::default())).unwrap();
    for (kind, address) in [
        (RecordKind::Individual, "urn:x:a|1"),
        (RecordKind::Individual, "urn:x:a|2"),
        (RecordKind::Individual, "urn:x:b|2"),
        (RecordKind::Group, "urn:x:g|1"),
    ] {
        let owners = one.identifier_owners(kind, &key(address), 9).await.unwrap();
        assert!(!owners.is_empty());
        assert_eq!(two.identifier_owners(kind, &key(address), 9).await.unwrap(), owners, "{address}");
    }
    for number in [1, 2] {
        let beneficiary = SubjectReference { kind: Subject::Individual, id: RecordId(number) };
        let slot = daftar_domain::program_membership::MembershipSlot { program: RecordId(1), beneficiary };
        assert_eq!(two.open_membership(slot).await.unwrap(), one.open_membership(slot).await.unwrap(), "{number}");
    }
    assert_eq!(two.audit(usize::MAX).await.unwrap(), one.audit(usize::MAX).await.unwrap());
    assert_eq!(two.clients().await.unwrap(), one.clients().await.unwrap());
    assert_eq!(two.counters("").await.unwrap(), one.counters("").await.unwrap());
    assert_eq!(two.code_table().await.unwrap().codes, one.code_table().await.unwrap().codes);
    let older = two.find_version::<IndividualDetails>(RecordId(1), VersionId(1)).await.unwrap().unwrap();
    assert_eq!(older, one.find_version::<IndividualDetails>(RecordId(1), VersionId(1)).await.unwrap().unwrap());
    let portrait = older.details.get(PHOTO).unwrap();
    assert_eq!(two.photo(portrait).await.unwrap(), one.photo(portrait).await.unwrap());

    // It continues after the last write of the source.
    let created = commit(two, vec![Operation::create(person(&[]))]).await.unwrap();
    assert_eq!((created.sequence, individual_of(&created.written[0]).id), (Sequence(8), RecordId(4)));
    let taken_already = commit(two, vec![Operation::create(person(&["urn:x:a|2"]))]).await;
    assert!(matches!(taken_already, Err(StoreError::IdentifierInUse(_))));
}

pub async fn an_empty_store_is_copied<B: Backend>() {
    let (backend, _) = listening::<B>();
    let mut snapshot = snapshot(&backend).await;
    assert_eq!(snapshot.mark().sequence, Sequence(0));
    assert!(taken(&mut snapshot).await.is_empty());
    let (filling, finish) = B::refill();
    filling.finish().await.unwrap();
    let other = finish();
    other.store().attach_sink(Arc::new(Listener::default())).unwrap();
    assert_eq!(create(other.store(), person(&[])).await.id, RecordId(1));
}
