//! FHIR code systems with invented codes.

use super::sample::{import_bytes, import_plain, refused};
use crate::publisher_files::ImportFormat::Fhir;
use crate::publisher_files::ImportOptions;
use daftar_domain::vocabulary::{Completeness, ConceptStatus};

const SYSTEM: &str = r#"{
  "resourceType": "CodeSystem", "url": "http://ex.org/papers", "version": "2.1.0", "name": "PaperKinds", "title": "Kinds of paper",
  "status": "active", "publisher": "Paper office", "copyright": "© Paper office, CC0", "content": "complete", "language": "en",
  "hierarchyMeaning": "is-a",
  "property": [{"code": "ended", "uri": "http://hl7.org/fhir/concept-properties#inactive", "type": "boolean"}],
  "concept": [
    {"code": "card", "display": "Card", "definition": "Thick paper.",
     "designation": [{"language": "fr", "value": "Carton"}, {"language": "fr", "use": {"code": "900000000000013009"}, "value": "Bristol"}],
     "property": [{"code": "notSelectable", "valueBoolean": true}],
     "concept": [
       {"code": "index", "display": "Index card", "property": [{"code": "gramsPerM2", "valueInteger": 180}]},
       {"code": "punch", "display": "Punch card", "property": [{"code": "ended", "valueBoolean": true}, {"code": "replacedBy", "valueCode": "index"}]}
     ]},
    {"code": "sheet", "property": [{"code": "child", "valueCode": "ruled"}]},
    {"code": "ruled", "display": "Ruled paper", "property": [{"code": "parent", "valueCode": "card"}, {"code": "status", "valueCode": "retired"}]}
  ]
}"#;

#[test]
fn nesting_and_properties_make_the_hierarchy() {
    let imported = import_plain(Fhir, SYSTEM).unwrap_or_else(|error| panic!("{error}"));
    assert_eq!(
        imported.outline(),
        [
            "card: Card",
            "index < card: Index card",
            "punch < card: Punch card",
            "sheet: sheet",
            "ruled < card|sheet: Ruled paper"
        ]
    );
    let (description, concepts) = imported.vocabulary();
    assert_eq!(description.namespace.as_str(), "http://ex.org/papers");
    assert_eq!((description.version.as_str(), description.completeness), ("2.1.0", Completeness::Full));
    assert_eq!((description.name.as_str(), description.licence.as_str()), ("Kinds of paper", "© Paper office, CC0"));
    assert_eq!(imported.source.manifest.version.to_string(), "2.1.0");
    assert_eq!(imported.source.manifest.name.as_str(), "paperkinds");
    assert_eq!(description.languages, ["en", "fr"]);
    assert_eq!(concepts[0].labels[1].value, "Carton");
    assert_eq!(concepts[0].definitions[0].value, "Thick paper.");
    assert!(!concepts[0].is_selectable && concepts[1].is_selectable);
    assert_eq!(concepts[1].properties, [("grams_per_m2".to_owned(), "180".to_owned())]);
    let status: Vec<bool> = concepts.iter().map(|concept| concept.status == ConceptStatus::Active).collect();
    assert_eq!(status, [true, true, false, true, false]);
    assert_eq!(concepts[2].replaced_by.as_ref().map(|code| code.as_str()), Some("index"));
    assert_eq!(imported.report.notes, ["1 concepts have no display; their code is their label"]);
    assert_eq!(imported.report.rows_read, 5);
}

#[test]
fn languages_may_be_chosen() {
    let options = ImportOptions { languages: vec!["en".to_owned()], ..ImportOptions::default() };
    let imported = import_bytes(Fhir, SYSTEM, &options).unwrap_or_else(|error| panic!("{error}"));
    assert_eq!(imported.vocabulary().0.languages, ["en"]);
}

#[test]
fn a_resource_without_codes_is_rejected_with_the_reason() {
    for (from, to, what) in [
        ("\"CodeSystem\"", "\"ValueSet\"", "resourceType is `ValueSet`"),
        ("\"complete\"", "\"supplement\"", "only adds to another code system"),
        ("\"complete\"", "\"not-present\"", "published elsewhere"),
        ("\"content\": \"complete\",", "", "`content` is missing"),
        ("\"concept\": [\n    {\"code\": \"card\"", "\"concepts\": [\n    {\"code\": \"card\"", "no list `concept`"),
        ("\"status\": \"active\"", "\"modifierExtension\": []", "modifierExtension"),
        ("\"copyright\": \"© Paper office, CC0\",", "", "--licence"),
        ("\"url\": \"http://ex.org/papers\",", "", "--namespace"),
    ] {
        let error = refused(Fhir, SYSTEM.replacen(from, to, 1));
        assert!(error.contains(what), "{to}: {error}");
    }
}

#[test]
fn all_invalid_concepts_are_reported_together() {
    let concepts = "{\"display\": \"x\"},\n{\"code\": \"card\", \"display\": \"Again\"},\n{\"code\": \"a b\", \"display\": \"x\"},\n\
        {\"code\": \"lost\", \"display\": \"x\", \"property\": [{\"code\": \"parent\", \"valueCode\": \"nowhere\"}, {\"code\": \"child\", \"valueCode\": \"none\"}]},\n\
        {\"code\": \"one\", \"display\": \"x\", \"property\": [{\"code\": \"parent\", \"valueCode\": \"two\"}]},\n\
        {\"code\": \"two\", \"display\": \"x\", \"property\": [{\"code\": \"parent\", \"valueCode\": \"one\"}]},\n\
        {\"code\": \"three\", \"display\": \"x\", \"property\": [{\"code\": \"size\"}]},\n\
        {\"code\": \"four\", \"display\": \"x\", \"modifierExtension\": [{}]},\n\
        {\"code\": \"five\", \"display\": \"x\", \"designation\": [{\"language\": \"english\", \"value\": \"x\"}]},\n\
        {\"code\": \"sheet\"";
    insta::assert_snapshot!(refused(Fhir, SYSTEM.replacen("{\"code\": \"sheet\"", concepts, 1)), @r"
    FILE:14: `.`: missing field `code`
    FILE:15: code `card`: the code occurs again; it is already on line 7
    FILE:16: code `a b`: a code has 1 to 100 bytes and contains no white space, no control character and no `#`
    FILE:17: code `lost`: its child `none` is not a code of this vocabulary
    FILE:17: code `lost`: its parent `nowhere` is not a code of this vocabulary
    FILE:18: code `one`: the code is below itself: one → two → one
    FILE:19: code `two`: the code is below itself: one → two → one
    FILE:20: code `three`: its property `size` has no value of a known type
    FILE:21: code `four`: it has a modifierExtension, which may change its meaning
    FILE:22: code `five`: its designation's language is `english`, not a tag such as en or pt-BR
    ");
}

#[test]
fn nesting_has_a_bound() {
    let nested = |depth: usize| {
        let open: String =
            (0..depth).map(|level| format!("{{\"code\":\"c{level}\",\"display\":\"x\",\"concept\":[")).collect();
        let concepts = format!("{open}{}", "]}".repeat(depth));
        format!(
            "{{\"resourceType\":\"CodeSystem\",\"url\":\"urn:x\",\"copyright\":\"c\",\"content\":\"complete\",\"concept\":[{concepts}]}}"
        )
    };
    let imported = import_plain(Fhir, nested(60)).unwrap_or_else(|error| panic!("{error}"));
    assert_eq!(imported.outline().len(), 60);
    assert!(refused(Fhir, nested(200)).contains("recursion limit exceeded"));
    assert!(refused(Fhir, nested(200_000)).contains("recursion limit exceeded"));
}
