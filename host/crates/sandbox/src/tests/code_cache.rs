//! The cache of machine code: valid code is reused at the next start; invalid code is recompiled and never run.

use std::fs;
use std::path::PathBuf;
use std::sync::Arc;

use crate::compile::CodeCache;
use crate::testing::guest::now;
use crate::testing::pack_guest::{LOOP, PackGuest};
use crate::testing::rule_guest::letters;
use crate::{Digest, EligibilityEngine, PluginHost, PluginHostSettings, PluginLibrary, PluginName};

/// A folder of plugins with their code; opening it corresponds to a server start.
struct Folders {
    folder: tempfile::TempDir,
}

impl Folders {
    fn new() -> Self {
        Self { folder: tempfile::tempdir().unwrap() }
    }

    /// A library with an engine installed, closed again.
    fn with_engine() -> (Self, Digest, PathBuf) {
        let folders = Self::new();
        let library = folders.open();
        let installed = library.install(letters("test", "1.0.0"), now(), &|_| Ok(())).unwrap();
        let digest = installed.loaded().digest();
        drop((library, installed));
        let [code] = folders.code_files().try_into().unwrap();
        (folders, digest, code)
    }

    fn open(&self) -> PluginLibrary {
        self.open_with(None)
    }

    fn open_with(&self, engine: Option<&str>) -> PluginLibrary {
        let engine = engine.map(|name| PluginName::parse(name).unwrap());
        let settings = PluginHostSettings {
            threads: Some(2),
            code_folder: Some(self.code_folder()),
            trust: crate::testing::guest::lax(),
            ..PluginHostSettings::default()
        };
        let host = Arc::new(PluginHost::start(settings).unwrap());
        PluginLibrary::open(host, &self.folder.path().join("plugins"), engine).unwrap()
    }

    fn code_folder(&self) -> PathBuf {
        self.folder.path().join("code")
    }

    fn code_files(&self) -> Vec<PathBuf> {
        let paths = fs::read_dir(self.code_folder()).unwrap().map(|entry| entry.unwrap().path());
        paths.filter(|path| path.extension().is_some_and(|extension| extension == "code")).collect()
    }
}

#[test]
fn cached_code_is_used_at_the_next_start_and_removed_with_its_plugin() {
    let (folders, _, code) = Folders::with_engine();
    let written = fs::metadata(&code).unwrap().modified().unwrap();
    let library = folders.open();
    assert!(library.engine_name().is_ok());
    assert_eq!(fs::metadata(&code).unwrap().modified().unwrap(), written);
    library.remove(&PluginName::parse("test").unwrap()).unwrap();
    assert!(folders.code_files().is_empty());
}

#[test]
fn code_cached_before_the_install_is_used() {
    let (folders, _, code) = Folders::with_engine();
    let written = fs::metadata(&code).unwrap().modified().unwrap();
    fs::remove_dir_all(folders.folder.path().join("plugins")).unwrap();
    let library = folders.open();
    assert!(library.list().is_empty());
    library.install(letters("test", "1.0.0"), now(), &|_| Ok(())).unwrap();
    library.forget_unused_code();
    assert_eq!(fs::metadata(&code).unwrap().modified().unwrap(), written);
}

#[test]
fn forged_truncated_and_changed_code_is_recompiled_and_never_run() {
    let (folders, _, code) = Folders::with_engine();
    let sound = fs::read(&code).unwrap();
    let mut changed = sound.clone();
    *changed.last_mut().unwrap() ^= 1;
    for wrong in [b"forged".to_vec(), Vec::new(), sound[..sound.len() / 2].to_vec(), changed] {
        fs::write(&code, wrong).unwrap();
        let library = folders.open();
        assert!(library.engine_name().is_ok());
        drop(library);
        assert_eq!(fs::read(&code).unwrap(), sound, "compilation is deterministic");
    }
}

#[test]
fn code_of_another_plugin_under_this_name_is_recompiled() {
    let (folders, _, code) = Folders::with_engine();
    let sound = fs::read(&code).unwrap();
    let library = folders.open_with(Some("test"));
    let other = library.install(letters("other", "2.0.0"), now(), &|_| Ok(())).unwrap();
    let prefix = other.loaded().digest().to_hex();
    drop((library, other));
    let is_other = |path: &PathBuf| path.file_name().unwrap().to_string_lossy().starts_with(&prefix);
    let other = folders.code_files().into_iter().find(is_other).unwrap();
    fs::copy(other, &code).unwrap();
    assert_eq!(folders.open().list().len(), 2);
    assert_eq!(fs::read(&code).unwrap(), sound);
}

#[test]
fn authentic_but_stale_code_is_recompiled() {
    let (folders, digest, code) = Folders::with_engine();
    let sound = fs::read(&code).unwrap();
    // The output of an engine with other settings, cached as if it were ours.
    let stale = wasmtime::Engine::default().precompile_component(b"\0asm\x0d\0\x01\0").unwrap();
    let ours = crate::engine::compiling_engine().unwrap();
    let cache = CodeCache::open(&folders.code_folder()).unwrap();
    cache.put(&ours, digest, &stale);
    assert_eq!(cache.get(&ours, digest), Some(stale));
    let library = folders.open();
    assert!(library.engine_name().is_ok());
    assert_eq!(fs::read(&code).unwrap(), sound);
}

#[test]
fn a_rejected_plugin_leaves_no_code() {
    let folders = Folders::new();
    let library = folders.open();
    drop(library.install(letters("test", "1.0.0"), now(), &|_| Err("no".to_owned())).unwrap_err());
    let loops = PackGuest { describe: LOOP, ..PackGuest::default() }.build();
    drop(library.install(loops, now(), &|_| Ok(())).unwrap_err());
    assert_eq!(folders.code_files(), [""; 0].map(PathBuf::from));
    library.install(letters("test", "1.0.0"), now(), &|_| Ok(())).unwrap();
    assert_eq!(folders.code_files().len(), 1);
}

#[test]
fn replaced_code_is_removed_and_a_start_removes_leftovers_of_a_crash() {
    let (folders, _, old) = Folders::with_engine();
    let left = fs::read(&old).unwrap();
    let library = folders.open();
    for version in ["2.0.0", "3.0.0", "4.0.0", "5.0.0"] {
        library.install(letters("test", version), now(), &|_| Ok(())).unwrap();
    }
    // That of the active version and of the three that are retained for a rollback.
    let retained = folders.code_files();
    assert!(retained.len() == 4 && !retained.contains(&old), "{retained:?}");
    drop(library);
    fs::write(&old, left).unwrap();
    fs::write(folders.code_folder().join(".unfinished-abc"), b"half").unwrap();
    let library = folders.open();
    library.forget_unused_code();
    assert_eq!(folders.code_files(), retained);
    assert!(!folders.code_folder().join(".unfinished-abc").exists());
    assert!(library.engine_name().is_ok());
}

/// Two packs that differ in their manifests and in one text.
fn twins() -> [Vec<u8>; 2] {
    let pack = |name, vocabulary_name| PackGuest { name, vocabulary_name, ..PackGuest::default() }.build();
    [pack("one", b"Test"), pack("two", b"Best")]
}

/// The vocabulary names of all installed packs.
fn names_of_vocabularies(library: &PluginLibrary) -> Vec<String> {
    let contents = library.list().into_iter().map(|plugin| library.host.load_pack(&plugin).unwrap());
    contents.flat_map(|contents| contents.vocabularies).map(|(vocabulary, _)| vocabulary.name).collect()
}

#[test]
fn packs_with_the_same_code_are_compiled_once_and_share_it() {
    let folders = Folders::new();
    let library = folders.open();
    for pack in twins() {
        library.install(pack, now(), &|_| Ok(())).unwrap();
    }
    let [code] = folders.code_files().try_into().unwrap();
    let shares = |library: &PluginLibrary| {
        let plugins = library.list();
        Arc::ptr_eq(&plugins[0].loaded().code, &plugins[1].loaded().code)
    };
    assert!(shares(&library));
    assert_eq!(names_of_vocabularies(&library), ["Test", "Best"], "each has its own data");
    drop(library);

    let written = fs::metadata(&code).unwrap().modified().unwrap();
    let library = folders.open();
    assert!(shares(&library));
    assert_eq!(names_of_vocabularies(&library), ["Test", "Best"]);
    library.forget_unused_code();
    assert_eq!(folders.code_files(), std::slice::from_ref(&code));
    assert_eq!(fs::metadata(&code).unwrap().modified().unwrap(), written, "it is not compiled again");

    // The other pack uses the code as long as it is installed.
    library.remove(&PluginName::parse("one").unwrap()).unwrap();
    assert_eq!(names_of_vocabularies(&library), ["Best"]);
    library.forget_unused_code();
    assert_eq!(folders.code_files(), [code]);
    library.remove(&PluginName::parse("two").unwrap()).unwrap();
    library.forget_unused_code();
    assert_eq!(folders.code_files(), [""; 0].map(PathBuf::from));
}

#[test]
fn forged_shared_code_is_recompiled_and_never_run() {
    let folders = Folders::new();
    let library = folders.open();
    for pack in twins() {
        library.install(pack, now(), &|_| Ok(())).unwrap();
    }
    drop(library);
    let [code] = folders.code_files().try_into().unwrap();
    let valid = fs::read(&code).unwrap();
    let mut forged = valid.clone();
    *forged.last_mut().unwrap() ^= 1;
    fs::write(&code, forged).unwrap();
    assert_eq!(names_of_vocabularies(&folders.open()), ["Test", "Best"]);
    assert_eq!(fs::read(&code).unwrap(), valid, "compilation is deterministic");
}

#[test]
fn the_file_of_a_pack_with_shared_code_is_validated_at_each_start() {
    let folders = Folders::new();
    let library = folders.open();
    for pack in twins() {
        library.install(pack, now(), &|_| Ok(())).unwrap();
    }
    let digest = library.recorded(&PluginName::parse("two").unwrap()).unwrap().digest;
    drop(library);
    let file = folders.folder.path().join("plugins").join(format!("{}.wasm", digest.to_hex()));
    let mut bytes = fs::read(&file).unwrap();
    let position = bytes.windows(4).position(|window| window == b"Best").unwrap();
    bytes[position] = b'R';
    fs::write(&file, bytes).unwrap();
    let library = folders.open();
    assert_eq!(names_of_vocabularies(&library), ["Test"]);
    assert!(library.unloaded()[0].reason.contains("digest"), "{:?}", library.unloaded());
}
