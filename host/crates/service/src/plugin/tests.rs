//! Tests of the administration of a plugin library with its own store.

mod common;
mod start;

use std::fs;
use std::path::Path;
use std::sync::Arc;
use std::task::{Context, Waker};
use std::time::Duration;

use daftar_domain::audit::{Actor, AuditOutcome};
use daftar_domain::code::CodeUri;
use daftar_domain::context::OpContext;
use daftar_domain::context::audit_context::AuditContext;
use daftar_domain::error::AppError;
use daftar_domain::manifest::PluginName;
use daftar_sandbox::testing::guest::{TestLibrary, now};
use daftar_sandbox::testing::pack_guest::PackGuest;
use daftar_sandbox::testing::rule_guest::letters;
use daftar_sandbox::{
    Digest, Downgrade, InstalledPlugin, PinnedDigests, PluginHost, PluginHostSettings, PluginLibrary, PluginOffer,
    PrivateKey, TrustPolicy, UnsignedPlugins,
};
use daftar_store::testing::{AuditReads as _, ProxyStore};
use daftar_store_sled::testing::shared_store;

use super::PluginAdministration;
use crate::registry::Registry;

fn name(text: &str) -> PluginName {
    PluginName::parse(text).unwrap()
}

fn pack(version: &'static str) -> Vec<u8> {
    PackGuest { version, ..PackGuest::default() }.build()
}

fn install(test: &TestLibrary, bytes: Vec<u8>) -> InstalledPlugin {
    test.library.install(bytes, now(), &|_| Ok(())).unwrap()
}

fn versions(test: &TestLibrary) -> Vec<String> {
    let of = |plugin: &InstalledPlugin| format!("{}@{}", plugin.manifest().name, plugin.manifest().version);
    test.library.current().iter().map(of).collect()
}

fn wasm_files(folder: &Path) -> usize {
    let entries = fs::read_dir(folder).unwrap();
    entries.filter(|entry| entry.as_ref().unwrap().path().extension().is_some_and(|text| text == "wasm")).count()
}

fn administration(test: &TestLibrary) -> (PluginAdministration, Arc<ProxyStore>, Registry) {
    let store = shared_store();
    let (plugins, registry) = of_store(test, &store);
    (plugins, store, registry)
}

/// The administration of a library with that store.
fn of_store(test: &TestLibrary, store: &Arc<ProxyStore>) -> (PluginAdministration, Registry) {
    let registry = Registry::of_store(store);
    (PluginAdministration::new(registry.clone(), test.host.clone(), test.library.clone()), registry)
}

fn administrator() -> OpContext {
    OpContext::unbound(Actor::Administrator, "test".into(), now(), AuditContext::default())
}

#[tokio::test]
async fn plugins_of_a_folder_are_installed_only_if_they_fit_the_active_ones() {
    let test = TestLibrary::new();
    install(&test, pack("1.0.0"));
    let source = tempfile::tempdir().unwrap();
    // The installed pack provides its vocabulary.
    fs::write(source.path().join("a.wasm"), PackGuest { name: "other", ..PackGuest::default() }.build()).unwrap();
    fs::write(source.path().join("b.wasm"), pack("2.0.0")).unwrap();
    let (plugins, _, registry) = administration(&test);
    plugins.start(Some(source.path().to_owned()), now()).await.unwrap();
    assert_eq!(versions(&test), ["test@2.0.0"]);
    assert_eq!(wasm_files(test.folder.path()), 2, "the replaced version is retained");
    assert_eq!(plugins.unloaded(), []);
    let code = CodeUri::parse("urn:test#a").unwrap();
    assert!(registry.vocabularies.current().number_of(&code).is_some());
}

#[tokio::test]
async fn an_install_whose_caller_left_is_published_and_audited() {
    let test = TestLibrary::new();
    let (plugins, store, registry) = administration(&test);
    plugins.start(None, now()).await.unwrap();
    let ctx = administrator();
    {
        let mut install = Box::pin(plugins.install(&ctx, pack("1.0.0")));
        assert!(install.as_mut().poll(&mut Context::from_waker(Waker::noop())).is_pending());
    }
    // The call waits for the previous one.
    plugins.remove(&ctx, &name("nothing"), false).await.unwrap_err();
    assert_eq!(versions(&test), ["test@1.0.0"]);
    let code = CodeUri::parse("urn:test#a").unwrap();
    assert!(registry.vocabularies.current().number_of(&code).is_some());
    let mut outcomes: Vec<_> = store.audit(10).await.unwrap().into_iter().map(|entry| entry.outcome).collect();
    outcomes.sort_by_key(|outcome| *outcome == AuditOutcome::Refused);
    assert_eq!(outcomes, [AuditOutcome::Allowed, AuditOutcome::Refused]);
}

#[tokio::test]
async fn a_prepared_plugin_is_checked_again_against_plugins_that_were_installed_since() {
    let renamed = PackGuest { vocabulary_name: b"Other", ..PackGuest::default() }.build();
    for (offered, since) in [
        (pack("1.0.0"), pack("2.0.0")),
        (pack("1.0.0"), renamed),
        (letters("engine", "1.0.0"), letters("other", "1.0.0")),
    ] {
        let test = TestLibrary::new();
        let (plugins, _, _) = administration(&test);
        let prepared = test.library.prepare(offered.clone()).unwrap();
        let prepared = plugins.refuse_by_installed(prepared, Downgrade::Refused).unwrap();
        install(&test, since);
        let refused = plugins.refuse_by_installed(prepared, Downgrade::Refused).unwrap_err();
        assert_eq!(refused, test.library.prepare(offered).unwrap_err());
    }
}

#[tokio::test]
async fn a_plugin_is_rejected_while_a_write_holds_the_lock_on_code_numbers() {
    let test = TestLibrary::new();
    let (plugins, store, registry) = administration(&test);
    plugins.start(None, now()).await.unwrap();
    let _numbering = registry.vocabularies.changing().lock_owned().await;
    // Its content is read, after it was compiled.
    let trap = PackGuest { concepts: "(unreachable)", ..PackGuest::default() }.build();
    let ctx = administrator();
    let installing = tokio::time::timeout(Duration::from_secs(240), plugins.install(&ctx, trap));
    let refused = installing.await.expect("it does not wait for the lock").unwrap_err();
    assert!(matches!(&refused, AppError::Plugin(reason) if reason.contains("step `content`")), "{refused}");
    let outcomes: Vec<_> = store.audit(10).await.unwrap().into_iter().map(|entry| entry.outcome).collect();
    assert_eq!(outcomes, [AuditOutcome::Refused]);
}

#[tokio::test]
async fn a_pack_that_is_not_loaded_is_listed_with_the_reason_and_removed_by_force_only() {
    let test = TestLibrary::new();
    let lost = install(&test, pack("1.0.0"));
    fs::remove_file(test.folder.path().join(format!("{}.wasm", lost.loaded().digest().to_hex()))).unwrap();
    let (test, _) = test.reopened();
    let (plugins, _, _) = administration(&test);
    plugins.start(None, now()).await.unwrap();
    let unloaded = plugins.unloaded();
    assert!(matches!(unloaded.as_slice(), [plugin] if plugin.name == name("test")), "{unloaded:?}");

    let ctx = administrator();
    let refused = plugins.remove(&ctx, &name("test"), false).await.unwrap_err();
    assert!(matches!(&refused, AppError::Conflict(_, reason) if reason.contains("is not loaded")), "{refused}");
    assert_eq!(test.library.removed(), []);
    plugins.remove(&ctx, &name("test"), true).await.unwrap();
    assert_eq!((plugins.unloaded(), test.library.removed()), (Vec::new(), vec![name("test")]));
}

#[tokio::test]
async fn the_audit_log_records_the_signer_or_the_option_that_allowed_none() {
    let folder = tempfile::tempdir().unwrap();
    let key = PrivateKey::generate().unwrap();
    let pinned = PackGuest::default().build();
    let trust =
        TrustPolicy::new([key.public_key()], PinnedDigests::of([Digest::of(&pinned)]), UnsignedPlugins::Refused);
    let settings = PluginHostSettings { threads: Some(2), trust, ..PluginHostSettings::default() };
    let host = Arc::new(PluginHost::start(settings).unwrap());
    let library = Arc::new(PluginLibrary::open(host.clone(), folder.path(), None).unwrap());
    let test = TestLibrary { folder, host, library };
    let (plugins, store, _) = administration(&test);
    plugins.start(None, now()).await.unwrap();

    let ctx = administrator();
    let mut changed = PackGuest { version: "1.1.0", ..PackGuest::default() }.build();
    let signature = Some(key.sign(&changed).to_string());
    let signed = PluginOffer { signature: signature.clone(), ..changed.clone().into() };
    *changed.last_mut().unwrap() ^= 0x20;
    let changed_digest = Digest::of(&changed).to_string();
    let changed = PluginOffer { signature, unsigned: UnsignedPlugins::Allowed, ..changed.into() };
    let newer = PackGuest { version: "1.2.0", ..PackGuest::default() }.build();
    let unsigned = PluginOffer { unsigned: UnsignedPlugins::Allowed, ..newer.clone().into() };
    plugins.install(&ctx, pinned).await.unwrap();
    plugins.install(&ctx, signed).await.unwrap();
    plugins.install(&ctx, changed).await.unwrap_err();
    plugins.install(&ctx, newer).await.unwrap_err();
    plugins.install(&ctx, unsigned).await.unwrap();

    let mut entries = store.audit(10).await.unwrap();
    entries.reverse();
    let reported: Vec<(AuditOutcome, String)> =
        entries.into_iter().map(|entry| (entry.outcome, entry.note.unwrap_or_default())).collect();
    let id = key.public_key().id().to_string();
    let expected = [
        (AuditOutcome::Allowed, vec!["this program was built with it".to_owned()]),
        (AuditOutcome::Allowed, vec![format!("signed by key {id}")]),
        (AuditOutcome::Refused, vec!["step `signature`".to_owned(), id, changed_digest]),
        (AuditOutcome::Refused, vec!["step `signature`".to_owned(), "not signed".to_owned()]),
        (AuditOutcome::Allowed, vec!["unsigned, allowed by --allow-unsigned".to_owned()]),
    ];
    assert_eq!(reported.len(), expected.len(), "{reported:?}");
    for ((outcome, note), (wanted, words)) in reported.iter().zip(&expected) {
        assert!(outcome == wanted && words.iter().all(|word| note.contains(word)), "{note}: {words:?}");
    }
    assert!(fs::read_to_string(test.folder.path().join("installed.json")).unwrap().contains("unsigned"));
}
