//! Tests of `--base`: the parts from the base and from the folder.

use super::folder::PackFolder;
use crate::pack::{build_folder, rebuild_folder};
use daftar_sandbox::section::read_manifest;
use daftar_sandbox::{PluginHost, PluginHostSettings};

/// The additions of a module: another vocabulary, a concept group and a field.
const MODULE: &str = r#"
[[vocabulary]]
namespace = "urn:example:tools"
name = "Tools"
domain = "Farming"
version = "1"
source = "Invented"
default_language = "en"
languages = ["en"]
codes = "tools.tsv"

[[concept_group]]
name = "grain"
description = "Grain."
include = [{ code = "urn:example:crops#maize" }]

[[extension_field]]
path = "farmer.crops"
type = "coded"
repeated = true
vocabulary = "urn:example:crops"
"#;

fn module() -> PackFolder {
    PackFolder::valid()
        .with_more_settings(MODULE)
        .with("codes/tools.tsv", "code\nhoe\n")
        .with("labels/en/tools.tsv", "code\tlabel\nhoe\tHoe\n")
}

/// A newer version of the crops, under another name.
fn newer() -> PackFolder {
    PackFolder::valid()
        .with_setting("name = \"crops\"\nversion = \"1.0.0\"", "name = \"imported\"\nversion = \"2.0.0\"")
        .with("codes/crops.tsv", "code\tparents\ncereals\t\nmaize\tcereals\nrye\tcereals\n")
        .with("labels/en/crops.tsv", "code\tlabel\ncereals\tCereals\nmaize\tMaize\nrye\tRye\n")
}

struct Base {
    folder: tempfile::TempDir,
    host: PluginHost,
}

impl Base {
    fn of(module: &PackFolder) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let bytes = build_folder(module.path()).unwrap_or_else(|errors| panic!("{errors}"));
        std::fs::write(folder.path().join("base.wasm"), bytes).unwrap();
        Self { folder, host: PluginHost::start(PluginHostSettings::default()).unwrap() }
    }

    fn rebuild(&self, data: &PackFolder) -> Result<Vec<u8>, Vec<String>> {
        let base = self.folder.path().join("base.wasm");
        let problems = |text: String| text.replace(&base.display().to_string(), "base.wasm");
        rebuild_folder(data.path(), &base, &self.host)
            .map_err(|errors| errors.problems().iter().map(|problem| problems(problem.to_string())).collect())
    }
}

#[test]
fn a_rebuilt_module_keeps_parts_that_are_not_in_the_folder() {
    let base = Base::of(&module());
    let rebuilt = base.rebuild(&newer()).unwrap();
    assert_eq!(rebuilt, base.rebuild(&newer()).unwrap(), "the same two give the same bytes");
    let (manifest, contents) = base.host.read_pack(rebuilt).unwrap();
    assert_eq!((manifest.name.as_str(), manifest.version.to_string().as_str()), ("crops", "2.0.0"));
    assert_eq!(manifest.extension_fields.len(), 1);
    let counts: Vec<(String, usize)> = contents
        .vocabularies
        .iter()
        .map(|(vocabulary, concepts)| (vocabulary.namespace.to_string(), concepts.len()))
        .collect();
    assert_eq!(counts, [("urn:example:crops".to_owned(), 3), ("urn:example:tools".to_owned(), 1)]);
    assert_eq!(contents.concept_groups[0].name, "grain");
}

#[test]
fn a_folder_without_changes_gives_the_base_with_another_version() {
    let base = Base::of(&PackFolder::valid());
    let data = PackFolder::valid().with_setting("version = \"1.0.0\"", "version = \"1.0.1\"");
    let rebuilt = base.rebuild(&data).unwrap();
    let plain = build_folder(data.path()).unwrap_or_else(|errors| panic!("{errors}"));
    assert_eq!(read_manifest(&rebuilt).unwrap(), read_manifest(&plain).unwrap());
    assert_eq!(rebuilt, plain);
}

#[test]
fn all_conflicts_are_reported_together() {
    let data = PackFolder::valid()
        .with_setting("urn:example:crops", "urn:example:other")
        .with("codes/crops.tsv", "code\tparents\ncereals\t\nmaize\tcereals\n");
    let base = Base::of(&module());
    assert_eq!(
        base.rebuild(&data).unwrap_err(),
        [
            "base.wasm: `crops` is at version 1.0.0, and the folder's is 1.0.0: set a greater `version` in pack.toml, so that \
             servers recognise the rebuilt pack as newer",
            "base.wasm: it has no vocabulary `urn:example:other` whose data could be replaced; it has urn:example:crops, \
             urn:example:tools",
        ]
    );
    let without_maize = newer()
        .with("codes/crops.tsv", "code\tparents\ncereals\t\nrye\tcereals\n")
        .with("labels/en/crops.tsv", "code\tlabel\ncereals\tCereals\nrye\tRye\n")
        .with("labels/fr/crops.tsv", "code\tlabel\n");
    assert_eq!(
        base.rebuild(&without_maize).unwrap_err(),
        [
            "base.wasm: its concept group `grain` refers to `urn:example:crops#maize`, which is not in the folder's data: \
             redefine the group in the folder's pack.toml",
        ]
    );
}

#[test]
fn a_file_that_is_not_a_pack_cannot_be_a_base() {
    let base = Base::of(&module());
    let file = base.folder.path().join("base.wasm");
    std::fs::write(&file, b"PK").unwrap();
    let [problem] = base.rebuild(&newer()).unwrap_err().try_into().unwrap();
    assert!(problem.starts_with("base.wasm: it cannot be used as a base: "), "{problem}");
    std::fs::remove_file(&file).unwrap();
    let [problem] = base.rebuild(&newer()).unwrap_err().try_into().unwrap();
    assert!(problem.starts_with("base.wasm: it cannot be read: "), "{problem}");
}
