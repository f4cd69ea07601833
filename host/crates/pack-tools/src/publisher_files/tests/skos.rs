//! Thesauri in N-Triples and Turtle, with invented concepts.

use super::sample::{Imported, import_bytes};
use crate::publisher_files::ImportFormat::{self, SkosNTriples, SkosTurtle};
use crate::publisher_files::ImportOptions;
use daftar_domain::vocabulary::ConceptStatus;

const BASE: &str = "http://aims.fao.org/aos/agrovoc/";

fn roots(roots: &[&str]) -> ImportOptions {
    ImportOptions { roots: roots.iter().map(|root| (*root).to_owned()).collect(), ..ImportOptions::default() }
}

fn iri(name: &str) -> String {
    match name {
        "broader" | "narrower" | "Concept" | "prefLabel" => format!("<http://www.w3.org/2004/02/skos/core#{name}>"),
        "a" => "<http://www.w3.org/1999/02/22-rdf-syntax-ns#type>".to_owned(),
        "xl" => "<http://www.w3.org/2008/05/skos-xl#prefLabel>".to_owned(),
        "form" => "<http://www.w3.org/2008/05/skos-xl#literalForm>".to_owned(),
        "deprecated" => "<http://www.w3.org/2002/07/owl#deprecated>".to_owned(),
        "replaced" => "<http://purl.org/dc/terms/isReplacedBy>".to_owned(),
        "version" => "<http://www.w3.org/2002/07/owl#versionInfo>".to_owned(),
        blank if blank.starts_with("_:") => blank.to_owned(),
        text if text.starts_with('"') => text.to_owned(),
        code => format!("<{BASE}{code}>"),
    }
}

/// Converts lines of three words to N-Triples.
fn triples(lines: &[&str]) -> String {
    let line = |line: &&str| {
        let words: Vec<String> = line.splitn(3, ' ').map(iri).collect();
        format!("{} .\n", words.join(" "))
    };
    lines.iter().map(line).collect()
}

const TOOLS: &[&str] = &[
    "c_2 prefLabel \"Hoe\"@en",
    "c_2 broader c_10",
    "c_2 broader c_9",
    "c_2 broader c_99",
    "c_9 prefLabel \"Hand tools\"@en",
    "c_9 prefLabel \"Handwerkzeug\"@de",
    "c_9 prefLabel \"Outils à main\"@fr",
    "c_9 broader c_1",
    "c_1 narrower c_10",
    "c_10 prefLabel \"Weeding tools\"@EN",
    "c_1 prefLabel \"Tools\"@en",
    "c_1 a Concept",
    "c_99 prefLabel \"Elsewhere\"@en",
    "c_7 prefLabel \"Pas de nom\"@fr",
    "c_7 broader c_9",
    "c_8 broader c_7",
    "c_8 prefLabel \"Below a nameless one\"@en",
];

fn tools(options: &ImportOptions) -> Imported {
    import_bytes(SkosNTriples, triples(TOOLS), options).unwrap_or_else(|error| panic!("{error}"))
}

const OUTLINE: [&str; 5] = [
    "c_1: Tools",
    "c_2 < c_9|c_10: Hoe",
    "c_8 < c_9: Below a nameless one",
    "c_9 < c_1: Hand tools",
    "c_10 < c_1: Weeding tools",
];

#[test]
fn the_closure_of_the_roots_keeps_its_own_parents_the_lowest_first() {
    let imported = tools(&roots(&["c_1"]));
    assert_eq!(imported.outline(), OUTLINE);
    assert_eq!(imported.vocabulary().0.languages, ["en", "fr"], "unlicensed languages are left out");
    let rule = "a concept without a label in `en`; its descendants move up";
    assert_eq!(imported.left_out(), [(rule.to_owned(), 1)]);
    let uri = imported.vocabulary().1[0].uri.as_deref();
    assert_eq!(uri, Some("http://aims.fao.org/aos/agrovoc/c_1"));
    assert_eq!(imported.vocabulary().0.namespace.as_str(), "urn:fao:agrovoc");
    let several = tools(&roots(&["c_10", "http://aims.fao.org/aos/agrovoc/c_99"]));
    assert_eq!(several.outline(), ["c_2 < c_10|c_99: Hoe", "c_10: Weeding tools", "c_99: Elsewhere"]);
}

#[test]
fn labels_of_skos_xl_are_found_before_and_after_their_concepts() {
    let lines: Vec<&str> = vec![
        "xl_en_1 form \"Tools\"@en",
        "c_1 xl xl_en_1",
        "c_1 a Concept",
        "c_2 xl xl_en_2",
        "c_2 broader c_1",
        "c_2 a Concept",
        "xl_en_2 form \"Hoe\"@en",
        "c_3 xl _:b",
        "c_3 broader c_1",
        "_:b form \"Rake\"@en",
        "c_3 a Concept",
        "xl_other form \"Another's\"@en",
        "c_1 version \"2031-06\"",
    ];
    let imported = import_bytes(SkosNTriples, triples(&lines), &ImportOptions::default());
    let imported = imported.unwrap_or_else(|error| panic!("{error}"));
    assert_eq!(imported.outline(), ["c_1: Tools", "c_2 < c_1: Hoe", "c_3 < c_1: Rake"]);
    assert_eq!(imported.vocabulary().0.version, "2031-06");
    assert_eq!(imported.source.manifest.version.to_string(), "2031.6.0");
}

#[test]
fn a_label_node_that_several_concepts_share_is_the_label_of_each() {
    let lines: Vec<&str> = vec![
        "c_1 xl xl_en_1",
        "c_3 xl xl_en_1",
        "c_3 xl xl_en_1",
        "c_3 broader c_1",
        "xl_en_1 form \"Tools\"@en",
        "c_2 xl xl_en_1",
        "c_2 broader c_1",
        "c_1 a Concept",
        "c_2 a Concept",
        "c_3 a Concept",
    ];
    let imported = import_bytes(SkosNTriples, triples(&lines), &ImportOptions::default());
    let imported = imported.unwrap_or_else(|error| panic!("{error}"));
    assert_eq!(imported.outline(), ["c_1: Tools", "c_2 < c_1: Tools", "c_3 < c_1: Tools"]);
}

#[test]
fn turtle_with_blank_labels_gives_the_same_codes() {
    let turtle = r#"@prefix : <http://aims.fao.org/aos/agrovoc/> .
        @prefix skos: <http://www.w3.org/2004/02/skos/core#> .
        @prefix xl: <http://www.w3.org/2008/05/skos-xl#> .
        :c_2 a skos:Concept ; xl:prefLabel [ xl:literalForm "Hoe"@en ], [ xl:literalForm "Houe"@fr ] ; skos:broader :c_1 .
        [] xl:literalForm "Another's"@en .
        :c_1 a skos:Concept ; skos:prefLabel """Tools
and more"""@en ; xl:prefLabel _:t .
        _:t xl:literalForm "Tools\tand more"@en ."#;
    let import = || import_bytes(SkosTurtle, turtle, &roots(&["c_1"])).unwrap_or_else(|error| panic!("{error}"));
    let imported = import();
    assert_eq!(imported.outline(), ["c_1: Tools and more", "c_2 < c_1: Hoe"]);
    assert_eq!(imported.vocabulary().1[1].labels[1].value, "Houe");
    assert_eq!(imported.files(), import().files(), "anonymous nodes have other names each time");
}

#[test]
fn deprecated_concepts_are_inactive_and_name_their_successor() {
    let lines = [TOOLS, &["c_2 deprecated \"true\"", "c_2 replaced c_8"]].concat();
    let imported =
        import_bytes(SkosNTriples, triples(&lines), &roots(&["c_1"])).unwrap_or_else(|error| panic!("{error}"));
    let hoe = &imported.vocabulary().1[1];
    assert_eq!(
        (hoe.status, hoe.replaced_by.as_ref().map(|code| code.as_str())),
        (ConceptStatus::Inactive, Some("c_8"))
    );
}

fn refused(format: ImportFormat, bytes: impl AsRef<[u8]>, options: &ImportOptions) -> String {
    import_bytes(format, bytes, options).err().unwrap()
}

#[test]
fn all_problems_are_reported_together() {
    let lines =
        [TOOLS, &["c_1 broader c_9", "c_8 prefLabel \"Another\"@en", "c_8 prefLabel \"Bell\\u0007\"@fr"]].concat();
    let broken = format!("{}<a> <b> .\nnot at all\n<http://x/a> <http://x/b> \"unfinished", triples(&lines));
    insta::assert_snapshot!(refused(SkosNTriples, broken, &roots(&["c_1"])), @r"
    FILE:2: code `c_2`: its parent `c_9` was refused
    FILE:2: code `c_10`: its parent `c_1` was refused
    FILE:3: code `c_9`: the code is below itself: c_1 → c_9 → c_1
    FILE:8: code `c_1`: the code is below itself: c_1 → c_9 → c_1
    FILE:16: code `c_8`: its parent `c_9` was refused
    FILE:19: code `c_8`: it has two preferred labels in `en`: `Below a nameless one` and `Another`
    FILE:20: code `c_8`: its label is empty or contains a control character
    FILE:21: column 1: No scheme found in an absolute IRI
    FILE:22: column 1: The subject of a triple must be an IRI or a blank node
    FILE:23: column 27: Unexpected end of file
    ");
    let mut bytes = triples(TOOLS).into_bytes();
    bytes.extend_from_slice(b"<http://x/a> <http://x/b> \"\xff\" .\n");
    insta::assert_snapshot!(refused(SkosNTriples, bytes, &roots(&["c_1"])), @"FILE:18: the line is not UTF-8");
}

#[test]
fn roots_that_are_not_there_are_named() {
    insta::assert_snapshot!(refused(SkosNTriples, triples(TOOLS), &roots(&["c_1", "c_77"])), @"--root is `c_77`, which is not the code or IRI of a concept of this file");
    let two = "<http://x/a#c_1> <http://www.w3.org/2004/02/skos/core#broader> <http://x/b#c_1> .\n";
    insta::assert_snapshot!(refused(SkosNTriples, two, &roots(&["c_1"])), @"--root is `c_1`, which is not the code of one concept: write `http://x/a#c_1` or `http://x/b#c_1`");
    insta::assert_snapshot!(refused(SkosNTriples, "# nothing\n", &ImportOptions::default()), @"FILE: it contains no SKOS concept: is this a thesaurus?");
}

#[test]
fn a_thesaurus_of_another_publisher_requires_options() {
    let other = triples(TOOLS).replace(BASE, "http://ex.org/");
    insta::assert_snapshot!(refused(SkosNTriples, other, &roots(&["c_1"])), @"--namespace, --title, --licence must be given: a thesaurus that is not AGROVOC does not contain them");
}

#[test]
fn malformed_or_truncated_turtle_is_rejected() {
    insta::assert_snapshot!(refused(SkosTurtle, "@prefix : <http://x/> .\n:a :b :c\n", &roots(&["c_1"])), @r#"
    FILE:3: column 1: Unexpected end
    --root is `c_1`, which is not the code or IRI of a concept of this file
    "#);
    insta::assert_snapshot!(refused(SkosTurtle, ":a :b :c .", &roots(&["c_1"])), @r#"
    FILE:1: column 1: The prefix : has not been declared
    --root is `c_1`, which is not the code or IRI of a concept of this file
    "#);
    let huge = format!("<http://x/a> <http://x/b> \"{}\" .", "x".repeat(17 << 20));
    insta::assert_snapshot!(refused(SkosTurtle, huge, &roots(&["c_1"])), @"FILE: reading failed: Reached the buffer maximal size of 16777216");
    let huge = format!("<http://x/a> <http://x/b> \"{}\" .", "x".repeat(2 << 20));
    insta::assert_snapshot!(refused(SkosNTriples, huge, &roots(&["c_1"])), @"FILE:1: the line has more than 1048576 bytes: is this a file of this format?");
}
