//! Synchronization of two processes of one register.

use futures_util::FutureExt as _;

use super::*;
use crate::client::{ClientAdministration, ClientChanges};
use crate::deployment;
use crate::registry::Registry;
use daftar_auth::{DecisionKeyRing, KeyRing, SecretHasher};
use daftar_domain::audit::Actor;
use daftar_domain::client::{Client, ClientId, ClientName};
use daftar_domain::code::CodeUri;
use daftar_domain::context::audit_context::AuditContext;
use daftar_domain::context::{FakeClock, OpContext, RandomIds};
use daftar_domain::field::FieldSet;
use daftar_domain::grant::Grants;
use daftar_domain::identifier::SystemUri;
use daftar_domain::scope::Scope;
use daftar_sandbox::{PluginHost, PluginHostSettings, PluginLibrary};
use daftar_store::testing::{AuditReads as _, ProxyStore};
use daftar_store_sled::testing::shared_store;

/// One of several processes.
struct Process {
    clients: ClientAdministration,
    plugins: PluginAdministration,
    ring: Arc<KeyRing>,
    follower: Follower,
    _folder: tempfile::TempDir,
}

fn context() -> OpContext {
    let now = "2026-03-01T12:00:00Z".parse().unwrap();
    OpContext::unbound(Actor::Administrator, "test".into(), now, AuditContext::default())
}

impl Process {
    async fn start(store: &Arc<ProxyStore>, keys: &tempfile::TempDir) -> Self {
        Self::start_with(store, keys, 86_400).await
    }

    /// Starts a process whose tokens have this lifetime.
    async fn start_with(store: &Arc<ProxyStore>, keys: &tempfile::TempDir, lifetime_s: u64) -> Self {
        let now = context().now;
        let folder = tempfile::tempdir().unwrap();
        let host = Arc::new(PluginHost::start(PluginHostSettings::default()).unwrap());
        let library = Arc::new(PluginLibrary::open(host.clone(), folder.path(), None).unwrap());
        let registry = Registry::of_store(store);
        let seen = store.generation().await.unwrap();
        let shared = store.clone() as Arc<dyn Shared>;
        let plugins = PluginAdministration::new(registry, host, library).with_shared(Some(shared.clone()));
        plugins.start(None, now).await.unwrap();
        let directory = Arc::new(ClientDirectory::new(store.clients().await.unwrap()));
        let ring = Arc::new(KeyRing::load_or_create(keys.path(), lifetime_s, now).unwrap());
        let clients = ClientAdministration {
            store: store.clone(),
            directory: directory.clone(),
            hasher: Arc::new(SecretHasher::load_or_create(keys.path(), now).unwrap()),
            ids: Arc::new(RandomIds),
            clock: Arc::new(FakeClock::new(now)),
            changing: Arc::default(),
        };
        let decisions = Arc::new(DecisionKeyRing::load_or_create(keys.path(), now).unwrap());
        let rings = SigningKeyRings { tokens: ring.clone(), decisions };
        let keys: (_, Arc<dyn daftar_domain::context::Clock>) = (rings, Arc::new(FakeClock::new(now)));
        let follower = Follower::new(shared, store.clone(), directory, plugins.clone(), keys, seen);
        Self { clients, plugins, ring, follower, _folder: folder }
    }

    async fn create(&self) -> ClientId {
        let new = (ClientName::parse("test").unwrap(), Grants::default());
        self.clients.create(&context(), new, ClientChanges::default()).await.unwrap().0.id.clone()
    }

    fn client(&self, id: &ClientId) -> Option<Arc<Client>> {
        self.clients.directory.find(id)
    }
}

async fn two() -> (Process, Process, Arc<ProxyStore>, tempfile::TempDir) {
    let (store, keys) = (shared_store(), tempfile::tempdir().unwrap());
    let one = Process::start(&store, &keys).await;
    let other = Process::start(&store, &keys).await;
    (one, other, store, keys)
}

#[tokio::test]
async fn what_one_process_does_with_clients_counts_on_the_other_once_it_compares() {
    let (one, other, _, _keys) = two().await;
    let id = one.create().await;
    assert!(other.client(&id).is_none());
    other.follower.compare().await.unwrap();
    assert!(other.client(&id).unwrap().is_active());
    one.clients.disable(&context(), &id).await.unwrap();
    other.follower.compare().await.unwrap();
    assert!(!other.client(&id).unwrap().is_active());
}

#[tokio::test]
async fn clocks_that_differ_by_more_than_two_seconds_are_reported() {
    let (one, _other, store, _keys) = two().await;
    assert_eq!(one.follower.clock_difference(), None);
    for (behind_ms, is_large) in [(0, false), (2_000, false), (2_100, true), (-2_100, true), (600_000, true)] {
        store.set_time(context().now - jiff::SignedDuration::from_millis(behind_ms));
        one.follower.compare_clocks().await;
        let difference = one.follower.clock_difference().unwrap();
        assert_eq!((difference.ahead.as_millis(), difference.is_large()), (i128::from(behind_ms), is_large));
    }
    // A slow response makes the difference uncertain.
    let within = jiff::SignedDuration::from_secs(4);
    let unsure = ClockDifference { ahead: jiff::SignedDuration::from_secs(5), within };
    assert!(!unsure.is_large());
    store.set_away(true);
    one.follower.compare_clocks().await;
    assert!(one.follower.clock_difference().is_some(), "the last result stays");
}

#[tokio::test]
async fn requests_that_are_refused_share_one_refresh_of_clients() {
    let (_one, other, store, _keys) = two().await;
    store.set_deaf(true);
    let before = other.follower.usage().compared;
    let refreshes = (0..50).map(|_| other.follower.refresh_clients());
    futures_util::future::join_all(refreshes).await.into_iter().for_each(Result::unwrap);
    // One for the first request, one for all requests that arrived during it.
    assert!(other.follower.usage().compared - before <= 2, "{}", other.follower.usage().compared - before);
}

#[tokio::test]
async fn a_process_without_notifications_polls_and_others_do_not() {
    let (one, other, store, _keys) = two().await;
    let before = other.follower.usage().compared;
    other.follower.be_current().await.unwrap();
    assert_eq!(other.follower.usage().compared, before);
    store.set_deaf(true);
    let id = one.create().await;
    other.follower.be_current().await.unwrap();
    assert!(other.client(&id).is_some());
    one.clients.disable(&context(), &id).await.unwrap();
    other.follower.be_current().await.unwrap();
    assert!(!other.client(&id).unwrap().is_active());
    let usage = other.follower.usage();
    assert!(!usage.is_listening && usage.compared > before && usage.failed == 0 && !usage.is_behind);
}

#[tokio::test]
async fn a_changed_client_is_rejected_until_it_is_compared() {
    let (one, other, store, _keys) = two().await;
    let id = one.create().await;
    other.follower.compare().await.unwrap();
    // No synchronization runs here, as during a wait for a connection.
    one.clients.disable(&context(), &id).await.unwrap();
    store.set_away(true);
    other.follower.be_current().await.unwrap_err();
    store.set_away(false);
    other.follower.be_current().await.unwrap();
    assert!(!other.client(&id).unwrap().is_active());

    let before = other.follower.usage().compared;
    deployment::add_identifier_system(&context(), one.plugins.publisher(), SystemUri::parse("urn:a").unwrap())
        .await
        .unwrap();
    other.follower.be_current().await.unwrap();
    assert_eq!(other.follower.usage().compared, before + 1, "it may have been a client");
    other.follower.be_current().await.unwrap();
    assert_eq!(
        other.follower.usage().compared,
        before + 1,
        "and is asked for once, though settings are not applied yet"
    );
}

#[tokio::test]
async fn clients_are_rejected_until_they_are_compared() {
    let (_one, other, store, _keys) = two().await;
    store.set_away(true);
    let failed = other.follower.compare_clients().await;
    other.follower.note(failed, Part::Clients);
    other.follower.be_current().await.unwrap_err();
    store.set_away(false);
    other.follower.be_current().await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn changes_are_applied_without_a_request() {
    let (one, other, _, _keys) = two().await;
    let id = one.create().await;
    let seen = async {
        while other.client(&id).is_none() || other.plugins.publisher().deployment().identifier_systems().len() == 0 {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    };
    deployment::add_identifier_system(&context(), one.plugins.publisher(), SystemUri::parse("urn:a").unwrap())
        .await
        .unwrap();
    tokio::select! {
        () = other.follower.maintain() => panic!("it runs until it is dropped"),
        () = seen => {}
        () = tokio::time::sleep(Duration::from_secs(60)) => panic!("nothing was applied"),
    }
}

#[tokio::test]
async fn processes_that_change_one_client_at_the_same_time_lose_nothing() {
    let (one, other, store, _keys) = two().await;
    let id = one.create().await;
    other.follower.compare().await.unwrap();
    let scopes: Vec<Scope> =
        ["individual:read", "group:read", "program:read"].iter().map(|text| Scope::parse(text).unwrap()).collect();
    // Each process grants scopes from its own data, which the other process has changed.
    for scope in &scopes {
        for process in [&one, &other] {
            process.clients.revoke(&context(), &id, *scope).await.unwrap_err();
            process.clients.grant(&context(), &id, *scope, FieldSet::All).await.unwrap();
            process.clients.disable(&context(), &id).await.unwrap();
        }
    }
    let stored = store.clients().await.unwrap().remove(0);
    assert!(scopes.iter().all(|scope| stored.grants.contains(*scope)));
    assert!(!stored.is_active());
    one.clients.enable(&context(), &id).await.unwrap();
    other.clients.set(&context(), &id, crate::client::ClientChanges::default()).await.unwrap();
    assert!(other.client(&id).unwrap().is_active(), "this one starts from the changes of the other");
}

#[tokio::test]
async fn settings_of_two_processes_stand_side_by_side() {
    let (one, other, store, _keys) = two().await;
    let system = |text: &str| SystemUri::parse(text).unwrap();
    deployment::add_identifier_system(&context(), one.plugins.publisher(), system("urn:a")).await.unwrap();
    let again =
        deployment::add_identifier_system(&context(), other.plugins.publisher(), system("urn:a")).await.unwrap_err();
    assert!(again.to_string().contains("registered already"), "{again}");
    deployment::add_identifier_system(&context(), other.plugins.publisher(), system("urn:b")).await.unwrap();
    deployment::remove_identifier_system(&context(), one.plugins.publisher(), &system("urn:b")).await.unwrap();
    other.follower.compare().await.unwrap();
    for process in [&one, &other] {
        let registered: Vec<String> = deployment::identifier_systems(process.plugins.publisher())
            .iter()
            .map(|system| system.uri.to_string())
            .collect();
        assert_eq!(registered, ["urn:a"]);
    }
    assert_eq!(store.settings().await.unwrap().len(), 1);
}

#[tokio::test]
async fn changes_that_arrive_during_an_update_are_applied_after_it() {
    let (one, other, store, _keys) = two().await;
    let code = CodeUri::parse("urn:open#first").unwrap();
    let is_known = |process: &Process| process.plugins.registry().vocabularies.current().number_of(&code).is_some();
    let turn = other.plugins.publisher().cluster_lock(context().now).await.unwrap();
    // A code gets its number without the lock.
    store.number_codes(vec![code.clone()], Vec::new()).await.unwrap();
    for process in [&one, &other] {
        process.follower.compare().await.unwrap();
    }
    assert!(is_known(&one) && !is_known(&other));
    drop(turn);
    other.follower.compare().await.unwrap();
    assert!(is_known(&other));
}

#[tokio::test]
async fn another_database_with_the_same_numbers_is_read_again() {
    let (one, _other, store, keys) = two().await;
    let elsewhere = shared_store();
    let taken_over = Process::start(&elsewhere, &keys).await;
    let _beside = Process::start(&elsewhere, &keys).await;
    let mut created = Vec::new();
    for (process, store, name) in [(&one, &store, "lost"), (&taken_over, &elsewhere, "new")] {
        created.push(process.create().await);
        let system = SystemUri::parse(&format!("urn:{name}")).unwrap();
        deployment::add_identifier_system(&context(), process.plugins.publisher(), system).await.unwrap();
        store.number_codes(vec![CodeUri::parse(&format!("urn:open#{name}")).unwrap()], Vec::new()).await.unwrap();
    }
    one.follower.compare().await.unwrap();
    assert_eq!(store.generation().await.unwrap(), elsewhere.generation().await.unwrap());
    store.answer_as(&elsewhere);
    one.follower.compare().await.unwrap();
    assert!(one.client(&created[0]).is_none() && one.client(&created[1]).is_some());
    let systems = deployment::identifier_systems(one.plugins.publisher());
    assert_eq!(systems.iter().map(|system| system.uri.to_string()).collect::<Vec<_>>(), ["urn:new"]);
    let generation = one.plugins.registry().vocabularies.current();
    let is_known = |code: &str| generation.number_of(&CodeUri::parse(code).unwrap()).is_some();
    assert!(!is_known("urn:open#lost") && is_known("urn:open#new"));
}

#[tokio::test]
async fn a_key_that_another_process_signs_with_is_found_when_it_is_looked_for() {
    let (one, other, _, _keys) = two().await;
    let now = context().now;
    one.ring.carry_out(one.ring.prepare(None, now).unwrap(), now).unwrap();
    other.follower.look_for_key().await;
    assert_eq!(other.ring.load().current().id(), one.ring.load().current().id());
    one.ring.carry_out(one.ring.prepare(None, now).unwrap(), now).unwrap();
    other.follower.look_for_key().await;
    assert_eq!(other.ring.load().current().id(), one.ring.load().current().id());
}

#[tokio::test]
async fn a_limited_number_of_requests_waits_for_the_check_for_a_key() {
    let (_one, other, _, _keys) = two().await;
    let checking = other.follower.looked_for_key.lock().await;
    let mut waiting: Vec<_> = (0..KEY_WAITERS_MAX).map(|_| Box::pin(other.follower.look_for_key())).collect();
    for waiter in &mut waiting {
        assert!(waiter.now_or_never().is_none());
    }
    assert!(other.follower.look_for_key().now_or_never().is_some(), "one more does not wait");
    drop(checking);
    for waiter in waiting {
        waiter.await;
    }
    assert_eq!(other.follower.key_waiters.available_permits(), KEY_WAITERS_MAX);
}

#[tokio::test]
async fn a_longer_token_lifetime_is_stored_with_the_key_of_another_process() {
    let (store, keys) = (shared_store(), tempfile::tempdir().unwrap());
    let shorter = Process::start(&store, &keys).await;
    let longer = Process::start_with(&store, &keys, 2 * 86_400).await;
    let now = context().now;
    shorter.ring.carry_out(shorter.ring.prepare(None, now).unwrap(), now).unwrap();
    assert!(longer.ring.reload().unwrap() && longer.ring.must_raise_lifetime());
    longer.follower.raise_lifetime().await.unwrap();
    assert!(shorter.ring.reload().unwrap() && !longer.ring.must_raise_lifetime());
    assert_eq!(shorter.ring.load().current().lifetime_s(), 2 * 86_400);
}

#[tokio::test]
async fn a_rotation_also_ends_the_tokens_that_other_processes_issued_during_it() {
    let (one, _other, _, _keys) = two().await;
    let id = one.create().await;
    one.clients.rotate_secret(&context(), &id, 0).await.unwrap();
    let audited = one.clients.store.audit(1).await.unwrap();
    let note = "client lost the tokens that other servers issued during the rotation";
    assert_eq!(audited[0].note.as_deref(), Some(note));
    assert_eq!(audited[0].targets, [id.to_string()]);
}
