//! The disk state after a crash at every point of a change: opening it gives the old set or the new one.

use std::cell::RefCell;
use std::fs;
use std::path::{Path, PathBuf};
use std::rc::Rc;
use std::sync::Arc;

use crate::files::crash::observed;
use crate::testing::guest::now;
use crate::testing::pack_guest::PackGuest;
use crate::{LibraryError, PluginHost, PluginHostSettings, PluginLibrary};
use daftar_domain::manifest::PluginName;

/// The folders of a server: installed plugins and their code.
struct Folders(PathBuf);

impl Folders {
    fn plugins(&self) -> PathBuf {
        self.0.join("plugins")
    }

    fn code(&self) -> PathBuf {
        self.0.join("compiled")
    }

    fn open(&self) -> PluginLibrary {
        let settings = PluginHostSettings {
            threads: Some(2),
            code_folder: Some(self.code()),
            trust: crate::testing::guest::lax(),
            ..PluginHostSettings::default()
        };
        let library =
            PluginLibrary::open(Arc::new(PluginHost::start(settings).unwrap()), &self.plugins(), None).unwrap();
        assert_eq!(library.unloaded(), []);
        library.forget_unused_code();
        library
    }

    /// The names of the files in both folders, sorted, without the lock and the key.
    fn files(&self) -> Vec<String> {
        let names = |folder: PathBuf| fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().file_name());
        let all = names(self.plugins()).chain(names(self.code()));
        let mut all: Vec<String> = all.map(|name| name.into_string().unwrap()).collect();
        all.retain(|name| !["lock", "key"].contains(&name.as_str()));
        all.sort();
        all
    }

    fn copy_to(&self, destination: &Path) {
        for (from, to) in [(self.plugins(), destination.join("plugins")), (self.code(), destination.join("compiled"))] {
            fs::create_dir_all(&to).unwrap();
            for entry in fs::read_dir(from).unwrap().map(Result::unwrap) {
                fs::copy(entry.path(), to.join(entry.file_name())).unwrap();
            }
        }
    }
}

/// A pack with machine code of its own: a start function prevents that versions share it.
fn pack(version: &'static str) -> Vec<u8> {
    PackGuest { version, top: "(func $start) (start $start)", ..PackGuest::default() }.build()
}

fn version(library: &PluginLibrary) -> Option<String> {
    library.list().first().map(|plugin| plugin.manifest().version.to_string())
}

/// Makes a change, then opens the state that a crash at each of its points would have left: the old version up to some
/// point, the new one from there on, and no other files.
fn crashed_everywhere(before: Option<&'static str>, after: Option<&'static str>) {
    let root = tempfile::tempdir().unwrap();
    let folders = Rc::new(Folders(root.path().join("register")));
    let library = folders.open();
    if let Some(before) = before {
        library.install(pack(before), now(), &|_| Ok(())).unwrap();
    }
    let snapshots = Rc::new(RefCell::new(Vec::<PathBuf>::new()));
    let observer = {
        let (folders, snapshots, root) = (folders.clone(), snapshots.clone(), root.path().to_owned());
        move || {
            let mut snapshots = snapshots.borrow_mut();
            let snapshot = root.join(format!("crash-{}", snapshots.len()));
            folders.copy_to(&snapshot);
            snapshots.push(snapshot);
        }
    };
    observed(observer, || match after {
        Some(after) => drop(library.install(pack(after), now(), &|_| Ok(())).unwrap()),
        None => library.remove(&PluginName::parse("test").unwrap()).unwrap(),
    });
    drop(library);
    let whole = {
        let opened = folders.open();
        assert_eq!(version(&opened).as_deref(), after);
        folders.files()
    };

    let snapshots = snapshots.take();
    assert!(snapshots.len() >= 5, "{} points", snapshots.len());
    let versions: Vec<Option<String>> = snapshots
        .into_iter()
        .map(|snapshot| {
            let folders = Folders(snapshot);
            let library = folders.open();
            let version = version(&library);
            let files = folders.files();
            // The replaced version is retained.
            let is_replaced = before.is_some() && version.as_deref() == after;
            let plugins = usize::from(version.is_some()) * (1 + usize::from(is_replaced));
            assert_eq!(files.iter().filter(|name| name.ends_with(".wasm")).count(), plugins, "{files:?}");
            assert_eq!(files.iter().filter(|name| name.ends_with(".code")).count(), plugins, "{files:?}");
            assert!(files.iter().all(|name| !name.starts_with(".unfinished")), "{files:?}");
            if version.as_deref() == after {
                assert_eq!(files, whole);
            }
            version
        })
        .collect();
    let turn = versions.iter().position(|version| version.as_deref() == after).unwrap();
    let (old, new) = versions.split_at(turn);
    assert!(old.iter().all(|version| version.as_deref() == before), "{versions:?}");
    assert!(new.iter().all(|version| version.as_deref() == after), "{versions:?}");
    assert!(!old.is_empty(), "{versions:?}");
}

#[test]
fn a_crash_at_any_point_of_an_install_leaves_nothing_or_the_plugin() {
    crashed_everywhere(None, Some("1.0.0"));
}

#[test]
fn a_crash_at_any_point_of_a_replacement_leaves_the_old_version_or_the_new_one() {
    crashed_everywhere(Some("1.0.0"), Some("2.0.0"));
}

#[test]
fn a_crash_at_any_point_of_a_removal_leaves_the_plugin_or_nothing() {
    crashed_everywhere(Some("1.0.0"), None);
}

#[test]
fn a_removal_whose_folder_cannot_be_synced_leaves_the_plugin() {
    let root = tempfile::tempdir().unwrap();
    let folders = Folders(root.path().join("register"));
    let library = folders.open();
    library.install(pack("1.0.0"), now(), &|_| Ok(())).unwrap();
    let (plugins, elsewhere) = (folders.plugins(), root.path().join("elsewhere"));
    let mut points = 0;
    let observer = move || {
        points += 1;
        match points {
            // The new list has its name, and the folder is not synced.
            5 => fs::rename(&plugins, &elsewhere).unwrap(),
            6 => fs::rename(&elsewhere, &plugins).unwrap(),
            _ => {}
        }
    };
    let removed = observed(observer, || library.remove(&PluginName::parse("test").unwrap()));
    assert!(matches!(removed, Err(LibraryError::Folder(_))), "{removed:?}");
    assert_eq!(version(&library).as_deref(), Some("1.0.0"));
    drop(library);
    assert_eq!(version(&folders.open()).as_deref(), Some("1.0.0"));
}
