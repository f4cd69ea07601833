//! Engines that are compiled after a library was opened.

use std::fs;

use crate::testing::guest::{TestLibrary, now};
use crate::testing::pack_guest::PackGuest;
use crate::testing::rule_guest::letters;
use crate::{EligibilityEngine, EngineError, InstallStep};
use daftar_domain::manifest::PluginName;

fn name(text: &str) -> PluginName {
    PluginName::parse(text).unwrap()
}

/// A library with a pack and the engine `engine`, opened again without the engine.
fn with_pending_engine() -> TestLibrary {
    let test = TestLibrary::new();
    for bytes in [PackGuest::default().build(), letters("engine", "1.0.0")] {
        test.library.install(bytes, now(), &|_| Ok(())).unwrap();
    }
    test.reopened_compiling_engines_later()
}

#[test]
fn packs_are_loaded_at_the_start_and_an_engine_later() {
    let test = with_pending_engine();
    let packs = test.library.list();
    assert!(matches!(packs.as_slice(), [pack] if test.host.load_pack(pack).is_ok()), "{packs:?}");
    assert_eq!(test.library.compiling(), [name("engine")]);
    assert_eq!(test.library.engine_name(), Err(EngineError::Compiling(name("engine"))));
    assert_eq!(test.library.load_pending(), []);
    assert_eq!((test.library.compiling(), test.library.unloaded()), (Vec::new(), Vec::new()));
    assert!(test.library.engine_name().unwrap().starts_with("engine@1.0.0 sha256:"));
}

#[test]
fn a_pending_engine_whose_file_is_changed_is_listed_with_the_reason() {
    let test = with_pending_engine();
    let digest = test.library.recorded(&name("engine")).unwrap().digest;
    fs::write(test.folder.path().join(format!("{}.wasm", digest.to_hex())), letters("engine", "9.0.0")).unwrap();
    let refused = test.library.load_pending();
    let [error] = refused.as_slice() else { panic!("{refused:?}") };
    assert_eq!((&error.plugin, error.step), (&Some(name("engine")), InstallStep::Unreadable));
    assert_eq!(test.library.unloaded(), refused);
    assert_eq!(test.library.engine_name(), Err(EngineError::NoEngine));
}

#[test]
fn an_engine_that_was_replaced_or_removed_in_the_meantime_is_not_loaded() {
    let test = with_pending_engine();
    test.library.install(letters("engine", "2.0.0"), now(), &|_| Ok(())).unwrap();
    assert_eq!(test.library.load_pending(), []);
    assert!(test.library.engine_name().unwrap().starts_with("engine@2.0.0"));

    let test = with_pending_engine();
    test.library.remove(&name("engine")).unwrap();
    assert_eq!(test.library.load_pending(), []);
    assert_eq!(test.library.engine_name(), Err(EngineError::NoEngine));
}

#[test]
fn a_second_engine_is_rejected_as_if_the_pending_one_were_active() {
    let test = with_pending_engine();
    let error = test.library.install(letters("other", "1.0.0"), now(), &|_| Ok(())).unwrap_err();
    assert!(error.reason.contains("`engine` is already installed"), "{error}");
}
