//! Tests of plugins shared by several processes: one process installs, replaces and removes them, the others apply
//! them.

use std::sync::Arc;

use super::{administrator, of_store};
use crate::plugin::PluginAdministration;
use daftar_domain::audit::AuditOutcome;
use daftar_domain::manifest::PluginName;
use daftar_domain::plugin_key::TrustedKey;
use daftar_sandbox::testing::guest::{TestLibrary, now};
use daftar_sandbox::testing::pack_guest::{LOOP, PackGuest};
use daftar_sandbox::testing::rule_guest::letters;
use daftar_sandbox::{PinnedDigests, PluginList, PluginOffer, PrivateKey, Signer, TrustPolicy, UnsignedPlugins};
use daftar_store::shared::Shared as _;
use daftar_store::testing::{AuditReads as _, ProxyStore};
use daftar_store_sled::testing::shared_store;

struct Process {
    test: TestLibrary,
    plugins: PluginAdministration,
}

impl Process {
    async fn start(store: &Arc<ProxyStore>) -> Self {
        Self::with(TestLibrary::new(), store).await
    }

    async fn with(test: TestLibrary, store: &Arc<ProxyStore>) -> Self {
        let plugins = of_store(&test, store).0.with_shared(Some(store.clone()));
        plugins.start(None, now()).await.unwrap();
        Self { test, plugins }
    }

    fn versions(&self) -> Vec<String> {
        let of = |plugin: &daftar_sandbox::InstalledPlugin| plugin.loaded().manifest().version.to_string();
        self.test.library.current().iter().map(of).collect()
    }

    /// Number of active packs.
    fn published(&self) -> usize {
        self.plugins.registry().vocabularies.current().packs().len()
    }
}

/// Accepts files signed by those keys, and rejects unsigned ones.
fn strict(keys: impl IntoIterator<Item = TrustedKey>) -> TrustPolicy {
    TrustPolicy::new(keys, PinnedDigests::default(), UnsignedPlugins::Refused)
}

/// Audit entries of plugins that this process applied from the database, or rejected.
async fn taken_over(store: &ProxyStore) -> Vec<(AuditOutcome, String)> {
    let entries = store.audit(100).await.unwrap().into_iter();
    let notes = entries.map(|entry| (entry.outcome, entry.note.unwrap_or_default()));
    notes.filter(|(_, note)| note.contains("from the database")).collect()
}

fn pack(version: &'static str) -> PluginOffer {
    PackGuest { version, ..PackGuest::default() }.build().into()
}

fn name() -> PluginName {
    PluginName::parse("test").unwrap()
}

#[tokio::test(flavor = "multi_thread")]
async fn installs_replacements_and_removals_reach_the_other_process() {
    let store = shared_store();
    let (one, other) = (Process::start(&store).await, Process::start(&store).await);
    for version in ["1.0.0", "1.1.0"] {
        one.plugins.install(&administrator(), pack(version)).await.unwrap();
        other.plugins.apply_plugins(now()).await.unwrap();
        assert_eq!((other.versions(), other.published()), (vec![version.to_owned()], 1));
        assert_eq!(other.plugins.unloaded(), []);
    }
    let digest = one.test.library.current().iter().next().unwrap().loaded().digest();
    assert_eq!(other.test.library.current().iter().next().unwrap().loaded().digest(), digest);
    other.plugins.remove(&administrator(), &name(), false).await.unwrap();
    one.plugins.apply_plugins(now()).await.unwrap();
    assert_eq!((one.versions(), one.published()), (vec![], 0));
    assert_eq!(one.test.library.removed(), [name()], "nor is it installed again at the next start");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_process_that_starts_later_has_what_is_installed() {
    let store = shared_store();
    let one = Process::start(&store).await;
    one.plugins.install(&administrator(), pack("1.0.0")).await.unwrap();
    let later = Process::start(&store).await;
    assert_eq!((later.versions(), later.published()), (vec!["1.0.0".to_owned()], 1));
    one.plugins.install(&administrator(), pack("1.1.0")).await.unwrap();
    let Process { test, plugins } = later;
    drop(plugins);
    let again = Process::with(test.reopened().0, &store).await;
    assert_eq!((again.versions(), again.published()), (vec!["1.1.0".to_owned()], 1), "changes during its downtime");
}

#[tokio::test(flavor = "multi_thread")]
async fn what_a_folder_had_before_there_were_several_becomes_everybodys() {
    let (store, before) = (shared_store(), TestLibrary::new());
    before.library.install(pack("1.0.0"), now(), &|_| Ok(())).unwrap();
    let one = Process::with(before, &store).await;
    let other = Process::start(&store).await;
    assert_eq!((one.versions(), other.versions()), (vec!["1.0.0".to_owned()], vec!["1.0.0".to_owned()]));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_plugin_that_cannot_be_applied_is_reported_and_the_running_one_stays() {
    let store = shared_store();
    let (one, other) = (Process::start(&store).await, Process::start(&store).await);
    one.plugins.install(&administrator(), pack("1.0.0")).await.unwrap();
    other.plugins.apply_plugins(now()).await.unwrap();

    // A list with an invalid file, and a list whose file fails its steps.
    let sound = PackGuest { version: "2.0.0", ..PackGuest::default() }.build();
    let looping = PackGuest { version: "3.0.0", concepts: LOOP, ..PackGuest::default() }.build();
    let listed = |bytes: &[u8]| {
        let test = TestLibrary::new();
        let prepared = test.library.prepare(sound.clone()).unwrap();
        let list = PluginList::default().with(&prepared, now());
        let named = daftar_sandbox::Digest::of(bytes);
        let text =
            String::from_utf8(list.to_bytes().unwrap()).unwrap().replace(&prepared.digest().to_hex(), &named.to_hex());
        (text.into_bytes(), *named.as_bytes())
    };
    for (file, retained, reported) in [
        (&sound, None, "is not in the store"),
        (&sound, Some(b"another file".to_vec()), "its file in the store has the digest"),
        (&looping, Some(looping.clone()), "was rejected at step"),
    ] {
        let store = shared_store();
        let process = Process::start(&store).await;
        process.plugins.install(&administrator(), pack("1.0.0")).await.unwrap();
        let (list, digest) = listed(file);
        if let Some(retained) = retained {
            store.put_plugin_file(digest, retained).await.unwrap();
        }
        store.replace_plugin_list(2, &list, &[digest]).await.unwrap();
        process.plugins.apply_plugins(now()).await.unwrap();
        assert_eq!((process.versions(), process.published()), (vec!["1.0.0".to_owned()], 1), "{reported}");
        let unloaded = process.plugins.unloaded();
        assert!(unloaded[0].reason.contains(reported), "{unloaded:?}");
        assert_eq!(process.plugins.pending_changes(), 1);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn what_could_not_be_loaded_for_want_of_the_store_is_loaded_once_it_answers() {
    let store = shared_store();
    let (one, other) = (Process::start(&store).await, Process::start(&store).await);
    one.plugins.install(&administrator(), pack("1.0.0")).await.unwrap();
    // The plugin is installed here, then reading the settings fails.
    store.set_away(true);
    other.plugins.apply_plugins(now()).await.unwrap_err();
    assert_eq!((other.versions(), other.published()), (vec!["1.0.0".to_owned()], 0));
    assert!(other.plugins.must_load());
    store.set_away(false);
    other.plugins.apply_plugins(now()).await.unwrap();
    assert_eq!(other.published(), 1);
    assert!(!other.plugins.must_load());

    store.set_away(true);
    one.plugins.remove(&administrator(), &name(), false).await.unwrap_err();
    store.set_away(false);
    one.plugins.remove(&administrator(), &name(), false).await.unwrap();
    store.set_away(true);
    other.plugins.apply_plugins(now()).await.unwrap_err();
    assert_eq!((other.versions(), other.published()), (vec![], 1));
    store.set_away(false);
    other.plugins.apply_plugins(now()).await.unwrap();
    assert_eq!(other.published(), 0);
}

#[tokio::test(flavor = "multi_thread")]
async fn another_list_with_the_same_revision_is_applied() {
    let (store, elsewhere) = (shared_store(), shared_store());
    let (one, other) = (Process::start(&store).await, Process::start(&elsewhere).await);
    one.plugins.install(&administrator(), pack("1.0.0")).await.unwrap();
    other.plugins.install(&administrator(), pack("2.0.0")).await.unwrap();
    store.answer_as(&elsewhere);
    one.plugins.apply_plugins(now()).await.unwrap();
    assert_eq!((one.versions(), one.published()), (vec!["2.0.0".to_owned()], 1));
}

#[tokio::test(flavor = "multi_thread")]
async fn who_installs_a_plugin_and_cannot_write_it_tries_again_like_the_others() {
    let store = shared_store();
    let (one, other) = (Process::start(&store).await, Process::start(&store).await);
    let package = PackGuest::default().build();
    // A folder occupies the path of its file.
    let digest = daftar_sandbox::Digest::of(&package);
    let in_place = one.test.folder.path().join(format!("{}.wasm", digest.to_hex()));
    std::fs::create_dir(&in_place).unwrap();
    one.plugins.install(&administrator(), package).await.unwrap_err();
    assert_eq!((one.versions(), one.plugins.pending_changes()), (vec![], 1));
    assert_eq!(one.plugins.unloaded()[0].name, name());
    other.plugins.apply_plugins(now()).await.unwrap();
    assert_eq!(other.published(), 1, "it applies to all");
    std::fs::remove_dir(&in_place).unwrap();
    one.plugins.apply_plugins(now()).await.unwrap();
    assert_eq!((one.versions(), one.published()), (other.versions(), 1));
    assert_eq!((one.plugins.pending_changes(), one.plugins.unloaded()), (0, vec![]));
}

#[tokio::test(flavor = "multi_thread")]
async fn concurrent_installs_are_sequential() {
    let store = shared_store();
    let (one, other) = (Process::start(&store).await, Process::start(&store).await);
    let administrator = administrator();
    let (first, second) = tokio::join!(
        one.plugins.install(&administrator, pack("1.0.0")),
        other.plugins.install(&administrator, letters("engine", "1.0.0")),
    );
    first.unwrap();
    second.unwrap();
    for process in [&one, &other] {
        process.plugins.apply_plugins(now()).await.unwrap();
        assert_eq!((process.versions().len(), process.published()), (2, 1));
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn an_install_is_checked_against_what_other_processes_installed_and_removed() {
    let store = shared_store();
    let (one, other) = (Process::start(&store).await, Process::start(&store).await);
    one.plugins.install(&administrator(), pack("2.0.0")).await.unwrap();
    let refused = other.plugins.install(&administrator(), pack("1.0.0")).await.unwrap_err();
    assert!(refused.to_string().contains("version 2.0.0 is installed"), "{refused}");
    assert_eq!(other.versions(), ["2.0.0"]);
    one.plugins.remove(&administrator(), &name(), false).await.unwrap();
    other.plugins.install(&administrator(), pack("1.0.0")).await.unwrap();
    one.plugins.apply_plugins(now()).await.unwrap();
    for process in [&one, &other] {
        assert_eq!((process.versions(), process.published()), (vec!["1.0.0".to_owned()], 1));
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn each_process_judges_what_another_installed_by_its_own_policy() {
    let store = shared_store();
    let key = PrivateKey::generate().unwrap();
    let one = Process::start(&store).await;
    let other = Process::with(TestLibrary::trusting(strict([key.public_key().into()])), &store).await;
    one.plugins.install(&administrator(), pack("1.0.0")).await.unwrap();
    // An attacker with write access to the database can also write the signer.
    let (list, named) = {
        let stored = store.plugin_list().await.unwrap();
        let text = String::from_utf8(stored.bytes).unwrap();
        assert!(text.contains("\"unsigned\""), "{text}");
        let digest = *one.test.library.current().iter().next().unwrap().loaded().digest().as_bytes();
        (text.replace("\"unsigned\"", "\"pinned\"").into_bytes(), digest)
    };
    store.replace_plugin_list(2, &list, &[named]).await.unwrap();
    for _ in 0..2 {
        other.plugins.apply_plugins(now()).await.unwrap();
    }
    assert_eq!((other.versions(), other.published(), other.plugins.pending_changes()), (vec![], 0, 1));
    let unloaded = other.plugins.unloaded();
    assert!(unloaded[0].name == name() && unloaded[0].reason.contains("not signed"), "{unloaded:?}");
    let audited = taken_over(&store).await;
    assert_eq!(audited.len(), 1, "{audited:?}");
    assert!(audited[0].0 == AuditOutcome::Refused && audited[0].1.contains("not signed"), "{audited:?}");

    one.plugins.apply_plugins(now()).await.unwrap();
    let file = PackGuest { version: "1.1.0", ..PackGuest::default() }.build();
    let signed = PluginOffer { signature: Some(key.sign(&file).to_string()), ..file.into() };
    one.plugins.install(&administrator(), signed).await.unwrap();
    other.plugins.apply_plugins(now()).await.unwrap();
    assert_eq!((other.versions(), other.published()), (vec!["1.1.0".to_owned()], 1));
    assert_eq!(other.test.library.list()[0].signer, Signer::Key(key.public_key().id()));
    assert_eq!(one.test.library.list()[0].signer, Signer::Unsigned, "the key is unknown there");
    let audited = taken_over(&store).await;
    assert!(
        audited.iter().any(|(outcome, note)| *outcome == AuditOutcome::Allowed && note.contains("signed by key")),
        "{audited:?}"
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn applied_plugins_are_checked_again_at_the_next_start_and_plugins_installed_by_request_stay() {
    let store = shared_store();
    let key = PrivateKey::generate().unwrap();
    let trusting = || strict([key.public_key().into()]);
    let (one, lax) = (Process::start(&store).await, Process::start(&store).await);
    let other = Process::with(TestLibrary::trusting(trusting()), &store).await;
    let file = letters("engine", "1.0.0");
    let signed = PluginOffer { signature: Some(key.sign(&file).to_string()), ..file.into() };
    one.plugins.install(&administrator(), signed).await.unwrap();
    one.plugins.install(&administrator(), pack("1.0.0")).await.unwrap();
    lax.plugins.apply_plugins(now()).await.unwrap();
    other.plugins.apply_plugins(now()).await.unwrap();
    assert_eq!((lax.versions().len(), other.versions().len()), (2, 1));
    // The administrator of this process allows unsigned plugins.
    let excused = PluginOffer { unsigned: UnsignedPlugins::Allowed, ..pack("1.0.0") };
    other.plugins.install(&administrator(), excused).await.unwrap();
    let restarted = async |process: Process, trust: TrustPolicy| {
        let Process { test, plugins } = process;
        drop(plugins);
        Process::with(test.reopened_trusting(trust).0, &store).await
    };
    let other = restarted(other, trusting()).await;
    assert_eq!((other.versions().len(), other.plugins.unloaded()), (2, vec![]));
    let lax = restarted(lax, trusting()).await;
    assert_eq!((lax.versions().len(), lax.published(), lax.plugins.pending_changes()), (1, 0, 1));
    assert_eq!(lax.plugins.unloaded()[0].name, name());
    let limited = TrustedKey::limited(key.public_key(), Some(vec![name()]), None);
    let other = restarted(other, strict([limited])).await;
    let unloaded = other.plugins.unloaded();
    assert!(unloaded.len() == 1 && unloaded[0].reason.contains("limits to the names `test`"), "{unloaded:?}");
}
