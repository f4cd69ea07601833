//! `--base`: the farmer module with a current thesaurus, and the whole of a fragment.

use std::fmt::Write as _;
use std::fs;

use daftar_tests::artifacts;
use daftar_tests::process::run;
use daftar_tests::records::person;
use serde_json::json;

use super::{Workshop, read, text};

/// Concepts in the form of AGROVOC's Core dump: labels on nodes of their own, several parents. The concepts that the
/// module's concept groups speak of are among them.
fn dump() -> String {
    const AGROVOC: &str = "http://aims.fao.org/aos/agrovoc/";
    const SKOS: &str = "http://www.w3.org/2004/02/skos/core#";
    const XL: &str = "http://www.w3.org/2008/05/skos-xl#";
    let mut text = String::new();
    let mut concept = |code: &str, label: &str, parents: &[&str]| {
        let iri = format!("<{AGROVOC}{code}>");
        writeln!(text, "{iri} <http://www.w3.org/1999/02/22-rdf-syntax-ns#type> <{SKOS}Concept> .").unwrap();
        for parent in parents {
            writeln!(text, "{iri} <{SKOS}broader> <{AGROVOC}{parent}> .").unwrap();
        }
        for language in ["en", "fr", "de"] {
            let node = format!("<{AGROVOC}xl_{language}_{code}>");
            writeln!(text, "{iri} <{XL}prefLabel> {node} .").unwrap();
            writeln!(text, "{node} <{XL}literalForm> \"{label} ({language})\"@{language} .").unwrap();
        }
    };
    concept("c_8171", "plant products", &[]);
    concept("c_5993", "plants", &[]);
    for (code, label) in [
        ("c_1474", "cereals"),
        ("c_4255", "legumes"),
        ("c_25490", "oil crops"),
        ("c_8174", "vegetables"),
        ("c_3131", "fruits"),
    ] {
        concept(code, label, &["c_8171"]);
    }
    concept("c_5966", "plant fibres", &["c_8171"]);
    concept("c_900001", "invented wheat", &["c_1474", "c_5993"]);
    for number in 0..2_000 {
        let parent = if number % 2 == 0 { "c_8174" } else { "c_25490" };
        concept(&format!("c_91{number:04}"), &format!("plant {number}"), &[parent, "c_5993"]);
    }
    concept("c_7", "a tractor", &["c_6"]);
    concept("c_6", "machines", &[]);
    writeln!(text, "<{AGROVOC}> <http://www.w3.org/2002/07/owl#versionInfo> \"2031-03\" .").unwrap();
    text
}

#[test]
fn the_farmer_module_is_rebuilt_with_a_current_thesaurus() {
    let workshop = Workshop::open();
    let file = workshop.path("agrovoc_core.nt");
    fs::write(&file, dump()).unwrap();
    let report = workshop.import("skos", &file, "crops", &["--root", "c_5993,c_8171", "--root", "c_5966"]);
    assert_eq!(report["vocabularies"][0]["codes"], 2_009, "{report}");
    assert_eq!(
        report["vocabularies"][0]["labels"],
        json!({"en": 2_009, "fr": 2_009}),
        "German is not FAO's to license"
    );
    let module = artifacts::module("farmer-registry");
    workshop.install("crops", Some(&module));

    let client = workshop.app.client(&["vocabulary:read"]);
    let vocabulary = client.get("/Vocabulary/urn:fao:agrovoc").expect(200).json();
    assert_eq!((&vocabulary["version"], &vocabulary["module"]), (&json!("2031-03"), &json!("farmer-registry")));
    let (display, parents) = read(&client, "urn:fao:agrovoc", "c_900001");
    assert_eq!(
        (display.as_str(), parents.as_slice()),
        ("invented wheat (en)", &["c_1474".to_owned(), "c_5993".to_owned()][..])
    );
    let group = client.get("/ConceptGroup/cereal_crops").expect(200).json();
    assert_eq!(group["code_count"], 2, "the module's groups stay and speak of the new codes: {group}");
}

#[test]
fn a_thesaurus_without_a_code_that_the_module_speaks_of_is_refused() {
    let workshop = Workshop::open();
    let file = workshop.path("agrovoc_core.nt");
    fs::write(&file, dump()).unwrap();
    drop(workshop.import("skos", &file, "crops", &["--root", "c_5993"]));
    let module = artifacts::module("farmer-registry");
    let (folder, pack) = (workshop.path("crops"), workshop.path("crops.wasm"));
    let arguments = ["pack", "build", text(&folder), "-o", text(&pack), "--base", text(&module)];
    let refused = run(workshop.app.data_dir(), &arguments);
    assert_eq!(refused.code, 66, "{refused:?}");
    let groups = ["cereal_crops", "legume_crops", "oilseed_crops", "vegetable_crops", "fruit_crops", "fibre_crops"];
    for group in groups {
        assert!(refused.stderr.contains(&format!("its concept group `{group}` refers to")), "{}", refused.stderr);
    }
    assert!(!pack.exists());
}

#[test]
fn the_whole_icf_takes_the_place_of_the_fragment() {
    let Some(file) = daftar_test_needs::published_file("SimpleTabulation-ICF-en-reconstructed.txt.gz") else { return };
    let workshop = Workshop::open();
    let client = workshop.app.client(&["vocabulary:read", "individual:all"]);
    let before = client.get("/Vocabulary/urn:who:icf:b").expect(200).json();
    assert_eq!((&before["completeness"], &before["code_count"]), (&json!("fragment"), &json!(512)));
    drop(workshop.import("who-tabulation", &file, "icf", &["--edition", "2024-01"]));
    workshop.install("icf", Some(&artifacts::plugin("icf")));
    for (component, count) in [("b", 527), ("d", 466)] {
        let vocabulary = client.get(&format!("/Vocabulary/urn:who:icf:{component}")).expect(200).json();
        assert_eq!((&vocabulary["completeness"], &vocabulary["code_count"]), (&json!("full"), &json!(count)));
        assert_eq!(vocabulary["version"], "2024-01");
    }
    assert_eq!(read(&client, "urn:who:icf:b", "b11420").1, ["b1142"]);
    assert_eq!(read(&client, "urn:who:icf:b", "b114").1, ["b1"]);
    let unknown = client.post("/Vocabulary/$validate", &json!({"codes": ["urn:who:icf:b#b11"]})).expect(200).json();
    assert_eq!(unknown["results"][0]["reason"], "unknown_code", "nothing is missing any more: {unknown}");
    let disability = json!({"disability_codes": ["urn:who:icf:b#b11420", "urn:who:icf:d#d4500"]});
    drop(client.create_individual(&person("1", disability)));
}
