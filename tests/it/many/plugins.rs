//! Plugins that one process installs, replaces and removes.

use std::fs;

use daftar_tests::packs;
use daftar_tests::postgres::{Processes, eventually};

fn version_of(processes: &Processes, number: usize, name: &str) -> Option<String> {
    let plugins = processes.admin(number).get("/plugins").expect(200).json();
    let plugins = plugins["data"].as_array().expect("a list").clone();
    let plugin = plugins.into_iter().find(|plugin| plugin["name"] == name)?;
    plugin["version"].as_str().map(str::to_owned)
}

#[test]
fn a_plugin_is_installed_replaced_and_removed_for_all() {
    let folder = tempfile::tempdir().unwrap();
    let versions = ["1.0.0", "2.0.0"].map(|version| fs::read(packs::build(folder.path(), version, None)).unwrap());
    let mut processes = Processes::start(2);
    for (installs, (version, package)) in ["1.0.0", "2.0.0"].iter().zip(&versions).enumerate() {
        drop(processes.admin(installs).install(package).expect(201));
        for number in [0, 1] {
            eventually("the plugin runs on both", || {
                version_of(&processes, number, "small").as_deref() == Some(version)
            });
        }
    }
    let later = processes.start_one();
    assert_eq!(version_of(&processes, later, "small").as_deref(), Some("2.0.0"), "a process that comes later has it");
    let page = processes.admin(later).metrics();
    assert!(page.contains("daftar_plugins_not_taken_up 0"), "{page}");
    assert_eq!(processes.admin(0).request("DELETE", "/plugins/small").send().status, 204);
    for number in [1, later] {
        eventually("it is gone everywhere", || version_of(&processes, number, "small").is_none());
    }
}
