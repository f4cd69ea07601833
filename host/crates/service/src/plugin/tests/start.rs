//! Engines that are compiled after a server has begun to listen.

use std::fs;

use super::{administration, administrator, install, name, of_store, pack, versions};
use crate::plugin::COMPILING;
use daftar_domain::audit::AuditOutcome;
use daftar_sandbox::testing::guest::{TestLibrary, now};
use daftar_sandbox::testing::pack_guest::PackGuest;
use daftar_sandbox::testing::rule_guest::letters;
use daftar_sandbox::{EligibilityEngine as _, EngineError};
use daftar_store::testing::AuditReads as _;
use daftar_store_sled::testing::shared_store;

#[tokio::test]
async fn packs_of_the_folder_are_installed_first_and_engines_afterwards() {
    let test = TestLibrary::compiling_engines_later();
    let source = tempfile::tempdir().unwrap();
    // The engine's file comes first.
    fs::write(source.path().join("a.wasm"), letters("engine", "1.0.0")).unwrap();
    fs::write(source.path().join("b.wasm"), pack("1.0.0")).unwrap();
    let (plugins, store, _) = administration(&test);
    plugins.start(Some(source.path().to_owned()), now()).await.unwrap();
    assert_eq!((versions(&test), plugins.compiling()), (vec!["test@1.0.0".to_owned()], vec![name("engine")]));
    assert_eq!(test.library.engine_name(), Err(EngineError::Compiling(name("engine"))));
    plugins.finish_start(now()).await.unwrap();
    assert_eq!((versions(&test).len(), plugins.compiling(), plugins.unloaded()), (2, Vec::new(), Vec::new()));
    assert!(test.library.engine_name().is_ok());
    let audited = store.audit(10).await.unwrap();
    assert!(audited.iter().any(|entry| entry.note.as_ref().is_some_and(|note| note.contains("installs it"))));
    let entries = audited.len();
    plugins.finish_start(now()).await.unwrap();
    assert_eq!(store.audit(10).await.unwrap().len(), entries, "a second call does nothing");
}

#[tokio::test]
async fn an_engine_of_the_folder_that_is_rejected_is_audited_and_no_longer_pending() {
    let test = TestLibrary::compiling_engines_later();
    let source = tempfile::tempdir().unwrap();
    fs::write(source.path().join("a.wasm"), letters("engine", "1.0.0")).unwrap();
    let (plugins, store, _) = administration(&test);
    plugins.start(Some(source.path().to_owned()), now()).await.unwrap();
    // An administrator is faster.
    plugins.install(&administrator(), letters("other", "1.0.0")).await.unwrap();
    plugins.finish_start(now()).await.unwrap();
    assert_eq!((versions(&test), plugins.compiling()), (vec!["other@1.0.0".to_owned()], Vec::new()));
    assert!(test.library.engine_name().unwrap().starts_with("other@1.0.0"));
    let refused = store.audit(10).await.unwrap().into_iter().find(|entry| entry.outcome == AuditOutcome::Refused);
    assert!(refused.unwrap().note.unwrap().contains("`other` is already installed"));
}

#[tokio::test]
async fn a_pending_engine_that_is_installed_is_listed_as_such() {
    let test = TestLibrary::new();
    install(&test, PackGuest::default().build());
    install(&test, letters("engine", "1.0.0"));
    let test = test.reopened_compiling_engines_later();
    let (plugins, _, _) = administration(&test);
    plugins.start(None, now()).await.unwrap();
    let unloaded = plugins.unloaded();
    assert!(matches!(unloaded.as_slice(), [engine] if engine.reason == COMPILING), "{unloaded:?}");
    plugins.finish_start(now()).await.unwrap();
    assert_eq!((plugins.unloaded(), versions(&test).len()), (Vec::new(), 2));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_process_that_joins_applies_packs_first_and_engines_afterwards() {
    let store = shared_store();
    let first = TestLibrary::new();
    let one = of_store(&first, &store).0.with_shared(Some(store.clone()));
    one.start(None, now()).await.unwrap();
    one.install(&administrator(), pack("1.0.0")).await.unwrap();
    one.install(&administrator(), letters("engine", "1.0.0")).await.unwrap();

    let test = TestLibrary::compiling_engines_later();
    let joined = of_store(&test, &store).0.with_shared(Some(store.clone()));
    joined.start(None, now()).await.unwrap();
    assert_eq!((versions(&test), joined.compiling()), (vec!["test@1.0.0".to_owned()], vec![name("engine")]));
    joined.finish_start(now()).await.unwrap();
    assert_eq!((versions(&test).len(), joined.compiling(), joined.unloaded()), (2, Vec::new(), Vec::new()));
    assert_eq!(joined.pending_changes(), 0);
}
