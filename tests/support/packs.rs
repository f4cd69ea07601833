//! Small packs that the program builds from folders of plain files.

use std::path::{Path, PathBuf};

use serde_json::Value;

use super::process::run;

/// The namespace of the codes of [`build`].
pub const NAMESPACE: &str = "urn:test:small";

/// Builds a version of the pack `small` with two codes in `folder`, signed if a key file is passed.
#[must_use]
pub fn build(folder: &Path, version: &str, key: Option<&Path>) -> PathBuf {
    build_with(folder, version, key, "")
}

/// Writes the source of a version of the pack `small`, with more settings, in `folder`.
#[must_use]
pub fn source(folder: &Path, version: &str, more: &str) -> PathBuf {
    let source = folder.join(format!("source-{version}"));
    for inner in ["codes", "labels/en"] {
        std::fs::create_dir_all(source.join(inner)).expect("a folder can be made");
    }
    let settings = format!(
        "name = \"small\"\nversion = \"{version}\"\ndescription = \"Two codes.\"\nlicence = \"CC0-1.0\"\nattribution = \"Us\"\n\
         source = \"Us\"\n[[vocabulary]]\nnamespace = \"{NAMESPACE}\"\nname = \"Small\"\ndomain = \"Core\"\nversion = \"{version}\"\n\
         source = \"Us\"\ndefault_language = \"en\"\nlanguages = [\"en\"]\ncodes = \"small.tsv\"\ncount = 2\n{more}"
    );
    let write = |file: &str, text: &str| std::fs::write(source.join(file), text).expect("a file can be written");
    write("pack.toml", &settings);
    write("codes/small.tsv", "code\nA\nB\n");
    write("labels/en/small.tsv", "code\tlabel\nA\tFirst\nB\tSecond\n");
    write("LICENSE-DATA.md", "CC0\n");
    source
}

/// The same as [`build`] with more settings.
#[must_use]
pub fn build_with(folder: &Path, version: &str, key: Option<&Path>, more: &str) -> PathBuf {
    let source = source(folder, version, more);
    let pack = folder.join(format!("small-{version}.wasm"));
    let path = |path: &Path| path.to_str().expect("a path is UTF-8").to_owned();
    let (source, file) = (path(&source), path(&pack));
    let mut arguments = vec!["pack".to_owned(), "build".to_owned(), source, "-o".to_owned(), file];
    arguments.extend(key.map(path).into_iter().flat_map(|key| ["--sign".to_owned(), key]));
    let arguments: Vec<&str> = arguments.iter().map(String::as_str).collect();
    drop(run(folder, &arguments).expect_success());
    pack
}

/// Creates a key in `folder`. Returns its file and the output of `plugin keygen --json`.
#[must_use]
pub fn key(folder: &Path, name: &str) -> (PathBuf, Value) {
    let file = folder.join(name);
    let arguments = ["plugin", "keygen", "-o", file.to_str().expect("a path is UTF-8"), "--json"];
    let reported = run(folder, &arguments).expect_success().json();
    (file, reported)
}

/// Writes a configuration in `folder` that trusts that key.
#[must_use]
pub fn config_that_trusts(folder: &Path, key: &Value) -> PathBuf {
    let file = folder.join("daftar.toml");
    let key = key["public_key"].as_str().expect("a public key");
    std::fs::write(&file, format!("[plugins]\ntrusted_keys = [\"{key} tests\"]\n")).expect("a file can be written");
    file
}
