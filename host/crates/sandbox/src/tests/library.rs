//! The installed set: installs, replacements, removals, restarts.

use std::fs;
use std::path::Path;
use std::sync::mpsc::sync_channel;

use super::rules::request;
use crate::testing::guest::{TestLibrary, now};
use crate::testing::pack_guest::{LOOP, PackGuest};
use crate::testing::rule_guest::letters;
use crate::{
    Downgrade, EligibilityEngine, EngineError, InstallStep, InstalledPlugin, LibraryError, PluginLibrary, PluginOffer,
    RuleSession, SyncedFile,
};
use daftar_domain::context::Cancellation;
use daftar_domain::manifest::{PluginKind, PluginName};

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

/// Installs the absent or newer plugins of a folder, and returns the outcome of each file.
fn sync(test: &TestLibrary, folder: &Path) -> Vec<SyncedFile> {
    let installed = |path: &Path| {
        let bytes = test.library.read_newer(path)?;
        let installed = test.library.install(bytes, now(), &|_| Ok(())).map_err(SyncedFile::Refused)?;
        Ok(SyncedFile::Installed(installed.manifest().name.clone()))
    };
    let paths = PluginLibrary::files_of(folder).unwrap();
    paths.iter().map(|path| installed(path).unwrap_or_else(|instead| instead)).collect()
}

fn wasm_files(folder: &Path) -> usize {
    let entries = fs::read_dir(folder).unwrap();
    entries.filter(|entry| entry.as_ref().unwrap().path().extension().is_some_and(|text| text == "wasm")).count()
}

#[test]
fn a_pack_is_installed_read_and_still_there_after_a_restart() {
    let test = TestLibrary::new();
    let installed = install(&test, pack("1.0.0"));
    let contents = test.host.load_pack(&installed).unwrap();
    let [(description, concepts)] = contents.vocabularies.as_slice() else { panic!("{contents:?}") };
    assert_eq!(description.namespace.as_str(), "urn:test");
    let codes: Vec<_> = concepts.iter().map(|concept| concept.code.as_str()).collect();
    assert_eq!(codes, ["a", "b"]);

    let (test, refused) = test.reopened();
    assert_eq!(refused, []);
    assert_eq!(versions(&test), ["test@1.0.0"]);
    let plugin = test.library.list().remove(0);
    assert_eq!(plugin.installed_at, now());
    assert_eq!(plugin.loaded().digest(), installed.loaded().digest());
    assert_eq!(test.host.load_pack(&plugin).unwrap(), contents);
}

#[test]
fn a_failing_version_leaves_the_installed_one_serving() {
    let test = TestLibrary::new();
    let good = install(&test, pack("1.0.0"));
    let bad = PackGuest { version: "2.0.0", concepts: LOOP, ..PackGuest::default() }.build();
    let error = test.library.install(bad, now(), &|_| Ok(())).unwrap_err();
    assert_eq!((error.plugin, error.step), (Some(name("test")), InstallStep::Content));
    assert_eq!(versions(&test), ["test@1.0.0"]);
    assert!(test.host.load_pack(&good).is_ok());
    assert_eq!(versions(&test.reopened().0), ["test@1.0.0"]);
}

#[test]
fn content_that_is_not_accepted_is_not_installed() {
    let test = TestLibrary::new();
    let refuse = |prepared: &crate::Prepared| {
        assert_eq!(prepared.contents().unwrap().vocabularies.len(), 1);
        Err("code `a` occurs twice".to_owned())
    };
    let error = test.library.install(pack("1.0.0"), now(), &refuse).unwrap_err();
    assert_eq!(error.to_string(), "plugin `test` was rejected at step `content`: code `a` occurs twice");
    assert_eq!(versions(&test), [""; 0]);
    assert_eq!(wasm_files(test.folder.path()), 0);
}

#[test]
fn a_new_version_replaces_the_old_one_whose_file_is_retained_for_a_while() {
    let test = TestLibrary::new();
    for (version, files) in [("1.0.0", 1), ("1.1.0", 2), ("1.2.0", 3), ("1.3.0", 4), ("1.4.0", 4)] {
        install(&test, pack(version));
        assert_eq!(versions(&test), [format!("test@{version}")]);
        assert_eq!(wasm_files(test.folder.path()), files);
    }
    let earlier = test.library.recorded(&PluginName::parse("test").unwrap()).unwrap().earlier;
    let earlier: Vec<String> = earlier.iter().map(|earlier| earlier.version.to_string()).collect();
    assert_eq!(earlier, ["1.3.0", "1.2.0", "1.1.0"]);
    install(&test, pack("1.4.0"));
    assert_eq!(wasm_files(test.folder.path()), 4, "the same file again replaces nothing");
}

#[test]
fn a_downgrade_needs_permission_and_never_comes_from_a_folder() {
    let test = TestLibrary::new();
    install(&test, pack("1.1.0"));
    let error = test.library.install(pack("1.0.0"), now(), &|_| Ok(())).unwrap_err();
    assert_eq!((error.plugin.as_ref(), error.step), (Some(&name("test")), InstallStep::Downgrade));
    assert!(error.reason.contains("1.1.0") && error.reason.contains("--allow-downgrade"), "{error}");
    assert_eq!(versions(&test), ["test@1.1.0"]);
    // Nor while the installed one cannot be loaded.
    let file = test.folder.path().join(format!("{}.wasm", test.library.list()[0].loaded().digest().to_hex()));
    let sound = fs::read(&file).unwrap();
    fs::write(&file, b"damaged").unwrap();
    let (test, refused) = test.reopened();
    assert_eq!(refused.len(), 1);
    let folder = tempfile::tempdir().unwrap();
    let from_folder = |bytes: &[u8]| {
        fs::write(folder.path().join("test.wasm"), bytes).unwrap();
        sync(&test, folder.path()).remove(0)
    };
    assert_eq!(from_folder(&pack("1.0.0")), SyncedFile::UpToDate(name("test")));
    assert_eq!(test.library.prepare(pack("1.0.0")).unwrap_err().step, InstallStep::Downgrade);
    assert_eq!(from_folder(&sound), SyncedFile::Installed(name("test")), "the same version fixes it");
    assert_eq!(from_folder(&pack("1.0.0")), SyncedFile::UpToDate(name("test")));
    let meant = PluginOffer { downgrade: Downgrade::Allowed, ..pack("1.0.0").into() };
    test.library.install(meant, now(), &|_| Ok(())).unwrap();
    assert_eq!(versions(&test), ["test@1.0.0"]);
}

#[test]
fn a_call_in_flight_ends_on_the_version_it_began_with() {
    let test = TestLibrary::new();
    install(&test, letters("engine", "1.0.0"));
    let (started, has_started) = sync_channel(0);
    let (release, released) = sync_channel::<()>(0);
    let (sender, receiver) = sync_channel(1);
    let task = move |session: Result<&mut RuleSession, crate::EngineError>| {
        let rule = session.unwrap();
        started.send(()).unwrap();
        let _ = released.recv();
        rule.bind(&daftar_domain::eligibility::Bindings::default()).unwrap();
        sender.send(rule.references().len()).unwrap();
    };
    test.library.submit(crate::Priority::Interactive, request("all"), Cancellation::default(), Box::new(task)).unwrap();
    has_started.recv().unwrap();
    let old = test.library.current();
    install(&test, letters("engine", "2.0.0"));
    test.library.remove(&name("engine")).unwrap();
    assert_eq!(test.library.engine_name(), Err(EngineError::NoEngine));
    assert!(old.engine().is_some(), "a returned set is immutable");
    drop(release);
    assert_eq!(receiver.recv(), Ok(0));
}

#[test]
fn a_removed_plugin_stays_removed_until_it_is_installed_by_hand() {
    let test = TestLibrary::new();
    let source = tempfile::tempdir().unwrap();
    fs::write(source.path().join("test.wasm"), pack("1.0.0")).unwrap();
    sync(&test, source.path());
    assert_eq!(versions(&test), ["test@1.0.0"]);

    test.library.remove(&name("test")).unwrap();
    assert_eq!(wasm_files(test.folder.path()), 0);
    let (test, _) = test.reopened();
    assert_eq!(test.library.removed(), [name("test")]);
    fs::write(source.path().join("test.wasm"), pack("9.0.0")).unwrap();
    assert_eq!(sync(&test, source.path()), [SyncedFile::RemainsRemoved(name("test"))]);
    assert_eq!(versions(&test), [""; 0]);

    install(&test, pack("1.0.0"));
    assert_eq!(test.library.removed(), []);
    sync(&test, source.path());
    assert_eq!(versions(&test), ["test@9.0.0"]);
}

#[test]
fn a_plugin_that_is_not_installed_cannot_be_removed() {
    let test = TestLibrary::new();
    assert!(matches!(test.library.remove(&name("nothing")), Err(LibraryError::NotInstalled(_))));
    assert_eq!(test.library.removed(), []);
}

#[test]
fn a_folder_of_plugins_installs_absent_or_newer_ones_and_skips_broken_ones() {
    let test = TestLibrary::new();
    install(&test, pack("1.9.0"));
    let source = tempfile::tempdir().unwrap();
    let put = |file: &str, bytes: &[u8]| fs::write(source.path().join(file), bytes).unwrap();
    put("a-broken.wasm", b"not wasm");
    put("b-older.wasm", &pack("1.8.9"));
    put("c-newer.wasm", &pack("1.10.0"));
    put("d-same.wasm", &pack("1.10.0"));
    put("e-absent.wasm", &PackGuest { name: "other", ..PackGuest::default() }.build());
    put("f-refused.wasm", &PackGuest { name: "loop", describe: LOOP, ..PackGuest::default() }.build());
    put("notes.txt", b"not a plugin");
    let outcomes = sync(&test, source.path());
    let [broken, older, newer, same, absent, refused] = outcomes.as_slice() else { panic!("{outcomes:?}") };
    assert!(matches!(broken, SyncedFile::Refused(error) if error.step == InstallStep::Unreadable), "{broken:?}");
    assert_eq!(*older, SyncedFile::UpToDate(name("test")));
    assert_eq!(*newer, SyncedFile::Installed(name("test")));
    assert_eq!(*same, SyncedFile::UpToDate(name("test")));
    assert_eq!(*absent, SyncedFile::Installed(name("other")));
    assert!(matches!(refused, SyncedFile::Refused(error) if error.step == InstallStep::Smoke), "{refused:?}");
    assert_eq!(versions(&test), ["other@1.0.0", "test@1.10.0"]);
}

#[test]
fn a_crash_before_the_list_was_written_leaves_the_old_set() {
    let test = TestLibrary::new();
    install(&test, pack("1.0.0"));
    let before = fs::read(test.folder.path().join("installed.json")).unwrap();
    // The files of an install that was interrupted at each of its points: partial file, whole file, partial list.
    fs::write(test.folder.path().join(".unfinished-plugin"), &pack("2.0.0")[..100]).unwrap();
    let whole = pack("2.0.0");
    let digest = crate::Digest::of(&whole).to_hex();
    fs::write(test.folder.path().join(format!("{digest}.wasm")), whole).unwrap();
    fs::write(test.folder.path().join(".unfinished-list"), &before[..before.len() / 2]).unwrap();

    let (test, refused) = test.reopened();
    assert_eq!(refused, []);
    assert_eq!(versions(&test), ["test@1.0.0"]);
    assert_eq!(wasm_files(test.folder.path()), 1);
    let left = fs::read_dir(test.folder.path()).unwrap();
    assert!(left.into_iter().all(|entry| !entry.unwrap().file_name().to_string_lossy().starts_with(".unfinished")));
}

#[test]
fn a_crash_after_the_list_was_written_leaves_the_new_set() {
    let test = TestLibrary::new();
    let old = install(&test, pack("1.0.0"));
    for version in ["2.0.0", "3.0.0", "4.0.0", "5.0.0"] {
        install(&test, pack(version));
    }
    // The file of the oldest version, which is not retained, had not been removed yet.
    let digest = old.loaded().digest().to_hex();
    fs::write(test.folder.path().join(format!("{digest}.wasm")), pack("1.0.0")).unwrap();
    let (test, refused) = test.reopened();
    assert_eq!(refused, []);
    assert_eq!(versions(&test), ["test@5.0.0"]);
    assert_eq!(wasm_files(test.folder.path()), 4);
}

#[test]
fn a_plugin_whose_file_was_changed_or_lost_is_reported_and_the_rest_is_served() {
    let test = TestLibrary::new();
    let changed = install(&test, pack("1.0.0"));
    install(&test, PackGuest { name: "sound", ..PackGuest::default() }.build());
    let lost = install(&test, PackGuest { name: "lost", ..PackGuest::default() }.build());
    let file =
        |plugin: &InstalledPlugin| test.folder.path().join(format!("{}.wasm", plugin.loaded().digest().to_hex()));
    fs::write(file(&changed), pack("1.0.1")).unwrap();
    fs::remove_file(file(&lost)).unwrap();

    let (test, refused) = test.reopened();
    assert_eq!(versions(&test), ["sound@1.0.0"]);
    assert_eq!(test.library.unloaded(), refused);
    assert_eq!(test.library.recorded(&name("lost")).map(|record| record.kind), Some(PluginKind::VocabularyPack));
    let refused: Vec<_> = refused.into_iter().map(|error| (error.plugin.unwrap(), error.step)).collect();
    assert_eq!(refused, [(name("lost"), InstallStep::Unreadable), (name("test"), InstallStep::Unreadable)]);

    // A folder of plugins repairs it.
    let source = tempfile::tempdir().unwrap();
    fs::write(source.path().join("test.wasm"), pack("1.0.0")).unwrap();
    sync(&test, source.path());
    let unloaded: Vec<_> = test.library.unloaded().into_iter().filter_map(|error| error.plugin).collect();
    assert_eq!(unloaded, [name("lost")]);
    assert_eq!(versions(&test), ["sound@1.0.0", "test@1.0.0"]);
    assert_eq!(versions(&test.reopened().0), ["sound@1.0.0", "test@1.0.0"]);
}

#[test]
fn a_damaged_list_is_an_error_and_not_an_empty_set() {
    let test = TestLibrary::new();
    install(&test, pack("1.0.0"));
    let TestLibrary { folder, host, library } = test;
    drop(library);
    fs::write(folder.path().join("installed.json"), b"{").unwrap();
    let error = PluginLibrary::open(host, folder.path(), None).unwrap_err();
    assert!(error.to_string().contains("installed.json"), "{error}");
    assert_eq!(wasm_files(folder.path()), 1);
}

#[test]
fn a_folder_in_use_is_not_opened_twice() {
    let test = TestLibrary::new();
    let second = PluginLibrary::open(test.host.clone(), test.folder.path(), None);
    assert!(matches!(second, Err(LibraryError::InUse(_))));
}
