//! Tests of built packs: their descriptions and codes.

use std::path::{Path, PathBuf};

use wasmtime::component::{Component, Linker};
use wasmtime::{Engine, Store};

use super::folder::PackFolder;
use crate::pack::{CODELIST_MODULE, PackBuildError, build, build_folder, check};
use daftar_sandbox::section::read_manifest;

mod bindings {
    wasmtime::component::bindgen!({ path: "../../../wit/daftar-plugin/0.1.0", world: "vocabulary-pack" });
}

use bindings::VocabularyPack;
use bindings::exports::daftar::plugin::vocabulary::{
    Completeness, Concept, ConceptStatus, PageError, ResolveError, Selection,
};

/// A pack in an engine without limits: only the pack is under test.
struct RunningPack {
    store: Store<()>,
    pack: VocabularyPack,
}

impl RunningPack {
    fn start(component: &[u8]) -> Self {
        let engine = Engine::default();
        let component = Component::new(&engine, component).unwrap();
        let mut store = Store::new(&engine, ());
        let pack = VocabularyPack::instantiate(&mut store, &component, &Linker::new(&engine)).unwrap();
        Self { store, pack }
    }

    fn concepts(&mut self, namespace: &str, limit: u32) -> Vec<Concept> {
        let mut concepts = Vec::new();
        let mut cursor = Some(0);
        while let Some(at) = cursor {
            let vocabulary = self.pack.daftar_plugin_vocabulary();
            let page = vocabulary.call_concepts(&mut self.store, namespace, at, limit).unwrap().unwrap();
            assert!(page.concepts.len() <= limit as usize);
            concepts.extend(page.concepts);
            cursor = page.next;
        }
        concepts
    }
}

fn vocab_pack(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../vocab-packs").join(name)
}

#[test]
fn a_pack_returns_its_description_and_codes() {
    let component = build_folder(&vocab_pack("gender")).unwrap();
    let mut running = RunningPack::start(&component);

    let vocabulary = running.pack.daftar_plugin_vocabulary();
    let descriptions = vocabulary.call_describe(&mut running.store).unwrap();
    let [description] = descriptions.as_slice() else { panic!("{descriptions:?}") };
    assert_eq!(description.namespace, "urn:iso:std:iso:5218");
    assert_eq!(description.languages, ["en", "fr", "es", "ar", "pt", "ru", "zh", "sw", "hi"]);
    assert_eq!(description.completeness, Completeness::Full);
    assert!(description.system && !description.hierarchical && !description.open && !description.extensible);
    assert_eq!(description.concept_count, 4);

    let concepts = running.concepts("urn:iso:std:iso:5218", 3);
    let codes: Vec<&str> = concepts.iter().map(|concept| concept.code.as_str()).collect();
    assert_eq!(codes, ["0", "1", "2", "9"]);
    let female = concepts.iter().find(|concept| concept.code == "2").unwrap();
    assert_eq!((female.status, female.selectable), (ConceptStatus::Active, true));
    let labels: Vec<(&str, &str)> =
        female.labels.iter().map(|label| (label.language.as_str(), label.value.as_str())).collect();
    assert_eq!(
        labels,
        [
            ("en", "Female"),
            ("fr", "Féminin"),
            ("es", "Femenino"),
            ("ar", "أنثى"),
            ("pt", "Feminino"),
            ("ru", "Женский"),
            ("zh", "女"),
            ("sw", "Mwanamke"),
            ("hi", "महिला")
        ]
    );

    let vocabulary = running.pack.daftar_plugin_vocabulary();
    let groups = vocabulary.call_concept_groups(&mut running.store).unwrap();
    let feminine = groups.iter().find(|group| group.name == "feminine_gender").unwrap();
    assert!(matches!(feminine.includes.as_slice(), [Selection::Code(uri)] if uri == "urn:iso:std:iso:5218#2"));
}

#[test]
fn a_pack_carries_its_manifest() {
    let component = build_folder(&vocab_pack("gender")).unwrap();
    let manifest = read_manifest(&component).unwrap();
    assert_eq!(manifest, check(&vocab_pack("gender")).unwrap().manifest);
    assert_eq!(manifest.name.as_str(), "gender");
    assert_eq!(manifest.interface.to_string(), "0.1.0");
}

#[test]
fn all_properties_of_a_code_are_returned() {
    let folder = PackFolder::valid()
        .with(
            "codes/crops.tsv",
            "code\tstatus\tparents\treplaced_by\taliases\turi\tselectable\tprop:season\n\
             cereals\t\t\t\t\t\tno\t\n\
             grasses\tactive\t\t\t\t\tyes\t\n\
             maize\tactive\tcereals|grasses\t\tcorn|mealie\thttps://example.org/maize\t\tsummer\n\
             blé\tinactive\tcereals\tmaize\t\t\t\t\n",
        )
        .with(
            "labels/en/crops.tsv",
            "code\tlabel\tdefinition\ncereals\tCereals\t\ngrasses\tGrasses\t\nmaize\tMaize\tA tall cereal.\nblé\tWheat\t\n",
        );
    let mut running = RunningPack::start(&build_folder(folder.path()).unwrap());
    let concepts = running.concepts("urn:example:crops", 100);
    let [cereals, _, maize, wheat] = concepts.as_slice() else { panic!("{concepts:?}") };
    assert!(!cereals.selectable);
    assert_eq!(maize.parents, ["cereals", "grasses"]);
    assert_eq!(maize.aliases, ["corn", "mealie"]);
    assert_eq!(maize.uri.as_deref(), Some("https://example.org/maize"));
    assert!(
        matches!(maize.properties.as_slice(), [property] if property.key == "season" && property.value == "summer")
    );
    assert!(matches!(maize.definitions.as_slice(), [text] if text.language == "en" && text.value == "A tall cereal."));
    assert!(matches!(maize.labels.as_slice(), [_, label] if label.language == "fr" && label.value == "Maïs"));
    assert_eq!((wheat.status, wheat.replaced_by.as_deref()), (ConceptStatus::Inactive, Some("maize")));
}

#[test]
fn invalid_calls_return_errors_and_do_not_trap() {
    let mut running = RunningPack::start(&build_folder(PackFolder::valid().path()).unwrap());
    let vocabulary = running.pack.daftar_plugin_vocabulary();
    let store = &mut running.store;
    let unknown = vocabulary.call_concepts(&mut *store, "urn:other", 0, 10).unwrap();
    assert!(matches!(unknown, Err(PageError::UnknownNamespace)));
    for cursor in [2, u32::MAX] {
        let past_the_end = vocabulary.call_concepts(&mut *store, "urn:example:crops", cursor, 10).unwrap();
        assert!(matches!(past_the_end, Err(PageError::InvalidCursor)));
    }
    let all = vocabulary.call_concepts(&mut *store, "urn:example:crops", 0, u32::MAX).unwrap().unwrap();
    assert_eq!((all.concepts.len(), all.next), (2, None));
    let listed = vocabulary.call_resolve(&mut *store, "urn:example:crops", "rye").unwrap();
    assert!(matches!(listed, Err(ResolveError::NotOpen)));
}

#[test]
fn the_same_source_gives_the_same_bytes() {
    let source = check(&vocab_pack("gender")).unwrap();
    assert_eq!(build(&source, CODELIST_MODULE).unwrap(), build(&source, CODELIST_MODULE).unwrap());
}

#[test]
fn a_pack_imports_nothing() {
    let engine = Engine::default();
    let component = Component::new(&engine, build_folder(&vocab_pack("gender")).unwrap()).unwrap();
    assert_eq!(component.component_type().imports(&engine).count(), 0);
}

#[test]
fn rejects_a_base_that_is_not_a_module() {
    let source = check(&vocab_pack("gender")).unwrap();
    let empty = wasm_encoder::Module::new().finish();
    for base in [b"not wasm".as_slice(), &[], &empty] {
        let error = build(&source, base).unwrap_err();
        assert!(matches!(error, PackBuildError::BaseModule(_)), "{error}");
    }
}

#[test]
fn a_large_vocabulary_is_built_and_requests_memory() {
    let mut codes = String::from("code\tparents\ncereals\t\n");
    let mut labels = String::from("code\tlabel\tdefinition\ncereals\tCereals\t\n");
    let definition = "long ".repeat(200);
    for number in 0..20_000 {
        codes.push_str(&format!("c{number}\tcereals\n"));
        labels.push_str(&format!("c{number}\tCereal {number}\t{}\n", definition.trim_end()));
    }
    let folder = PackFolder::valid()
        .with("codes/crops.tsv", codes)
        .with("labels/en/crops.tsv", labels)
        .with("labels/fr/crops.tsv", "code\tlabel\n");
    let component = build_folder(folder.path()).unwrap();
    let wanted = read_manifest(&component).unwrap().limits.memory_bytes.unwrap();
    assert!(wanted.value > 20_000_000, "{wanted:?}");
    let concepts = RunningPack::start(&component).concepts("urn:example:crops", 1_000);
    assert_eq!(concepts.len(), 20_001);
    assert_eq!(concepts.last().unwrap().code, "c19999");
}
