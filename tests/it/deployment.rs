//! Decisions of a deployment about vocabularies: local codes, concept groups, versions of packs, fields of modules.

mod concept_groups;
mod dropped;
mod extension;
mod identifier_systems;
mod local_codes;
mod versions;

use std::fs;
use std::path::Path;

use daftar_tests::Admin;
use daftar_tests::process::run;

/// A code's URI as a path segment.
fn part(uri: &str) -> String {
    uri.replace(':', "%3A").replace('#', "%23")
}

/// Builds a pack from `pack.toml` and tables of codes with English labels, with the program itself.
pub(super) fn build(settings: &str, tables: &[(&str, &str, &str)]) -> Vec<u8> {
    let folder = tempfile::tempdir().unwrap();
    let write = |path: &Path, text: &str| {
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, text).unwrap();
    };
    write(&folder.path().join("pack.toml"), settings);
    for (name, codes, labels) in tables {
        write(&folder.path().join("codes").join(name), codes);
        write(&folder.path().join("labels/en").join(name), labels);
    }
    let file = folder.path().join("pack.wasm");
    let arguments = ["pack", "build", folder.path().to_str().unwrap(), "-o", file.to_str().unwrap()];
    drop(run(folder.path(), &arguments).expect_success());
    fs::read(file).unwrap()
}

fn install(admin: &Admin, package: &[u8]) {
    drop(admin.install(package).expect(201));
}
