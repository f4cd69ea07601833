//! Tests with the publishers' own files, which may not be part of the repository: on a machine without them they are
//! listed as not run. The expected counts and trees are the published ones.

use std::collections::{BTreeMap, HashMap};
use std::path::Path;

use daftar_test_needs::published_file;

use super::sample::{Imported, import_file};
use crate::publisher_files::input::Input;
use crate::publisher_files::{ImportFormat, ImportOptions, NoProgress};
use daftar_domain::vocabulary::Completeness;

fn imported(format: ImportFormat, file: &Path, options: &ImportOptions) -> Imported {
    import_file(format, file, options).unwrap_or_else(|error| panic!("{error}"))
}

fn rows(file: &Path) -> Vec<Vec<String>> {
    let mut progress = NoProgress;
    let text = Input::open(file, 1 << 30, &mut progress).unwrap().read_text().unwrap();
    text.lines().skip(1).map(|line| line.split('\t').map(str::to_owned).collect()).collect()
}

#[test]
fn the_table_of_icd_11_gives_the_published_tree() {
    let (Some(table), Some(tree)) = (
        published_file("SimpleTabulation-ICD-11-MMS-en-2024-01.txt.gz"),
        published_file("icd11-mms-2024-01-tree.tsv.gz"),
    ) else {
        return;
    };
    let imported = imported(ImportFormat::WhoTabulation, &table, &ImportOptions::default());
    let concepts = imported.concepts("urn:who:icd-11");
    let expected = rows(&tree);
    assert_eq!(concepts.len(), expected.len());
    let mut kinds: BTreeMap<&str, usize> = BTreeMap::new();
    for (concept, row) in concepts.iter().zip(&expected) {
        let [key, parent, kind, code, _, title, uri] = row.as_slice() else { panic!("{row:?}") };
        *kinds.entry(kind).or_default() += 1;
        assert_eq!(concept.code.as_str(), key);
        assert_eq!(concept.parents.first().map_or("", |parent| parent.as_str()), parent, "{key}");
        assert_eq!(concept.is_selectable, !code.is_empty(), "{key}");
        assert_eq!(&concept.labels[0].value, title, "{key}");
        assert_eq!(concept.uri.as_deref(), Some(uri.as_str()), "{key}");
    }
    assert_eq!(kinds, BTreeMap::from([("block", 1_353), ("category", 34_663), ("chapter", 28)]));
    let [report] = imported.report.vocabularies.as_slice() else { panic!() };
    assert_eq!((report.selectable, report.tops, report.depth), (34_663, 28, 10));
    assert_eq!(report.edition, "2024-01");
}

#[test]
fn icd_11_without_extension_codes_is_half_as_large() {
    let Some(table) = published_file("SimpleTabulation-ICD-11-MMS-en-2024-01.txt.gz") else { return };
    let options = ImportOptions { without_extension_codes: true, ..ImportOptions::default() };
    let imported = imported(ImportFormat::WhoTabulation, &table, &options);
    assert_eq!(imported.report.vocabularies[0].selectable, 17_822);
    assert!(imported.concepts("urn:who:icd-11").iter().all(|concept| concept.code.as_str() != "chapter:X"));
}

#[test]
fn the_mini_output_of_icd_11_agrees_with_the_table() {
    let (Some(mini), Some(table)) = (
        published_file("LinearizationMiniOutput-MMS-en-2024-01.txt.gz"),
        published_file("SimpleTabulation-ICD-11-MMS-en-2024-01.txt.gz"),
    ) else {
        return;
    };
    let options = ImportOptions { without_extension_codes: true, ..ImportOptions::default() };
    let mini = imported(ImportFormat::WhoTabulation, &mini, &options);
    let table = imported(ImportFormat::WhoTabulation, &table, &options);
    let mini: HashMap<&str, _> =
        mini.concepts("urn:who:icd-11").iter().map(|concept| (concept.code.as_str(), concept)).collect();
    for concept in table.concepts("urn:who:icd-11").iter().filter(|concept| concept.is_selectable) {
        let other = mini.get(concept.code.as_str()).unwrap_or_else(|| panic!("{}", concept.code));
        assert_eq!(other.parents, concept.parents, "{}", concept.code);
        // The two were published ten days apart, and three hyphens were added to titles in between.
        assert_eq!(letters(&other.labels[0].value), letters(&concept.labels[0].value), "{}", concept.code);
    }
}

fn letters(title: &str) -> String {
    title.chars().filter(|character| character.is_alphanumeric()).collect()
}

#[test]
fn the_table_of_icf_gives_every_code_with_title_and_parent() {
    let Some(table) = published_file("SimpleTabulation-ICF-en-reconstructed.txt.gz") else { return };
    let imported = imported(ImportFormat::WhoTabulation, &table, &ImportOptions::default());
    for (namespace, list, count) in [("urn:who:icf:b", "icf-b.tsv", 527), ("urn:who:icf:d", "icf-d.tsv", 466)] {
        let Some(list) = published_file(list) else { return };
        let concepts = imported.concepts(namespace);
        assert_eq!(concepts.len(), count);
        let by_code: HashMap<&str, _> = concepts.iter().map(|concept| (concept.code.as_str(), concept)).collect();
        for row in rows(&list) {
            let concept = by_code[row[0].as_str()];
            assert_eq!(concept.parents.first().map_or("", |parent| parent.as_str()), row[1], "{}", row[0]);
            assert_eq!(concept.labels[0].value, row[3], "{}", row[0]);
        }
    }
}

#[test]
fn closures_of_agrovoc_have_the_known_sizes() {
    let Some(dump) = published_file("agrovoc-2017-en.nt.gz") else { return };
    let closure = |roots: &[&str]| {
        let roots = roots.iter().map(|root| (*root).to_owned()).collect();
        imported(ImportFormat::SkosNTriples, &dump, &ImportOptions { roots, ..ImportOptions::default() })
    };
    assert_eq!(closure(&["c_1972"]).vocabulary().1.len(), 66);
    assert_eq!(closure(&["c_8171"]).vocabulary().1.len(), 309);
    for (roots, list, count) in [
        (&["c_5993", "c_8171"][..], "agrovoc-crops-1069.tsv", 1_069),
        (&["c_1972", "c_8171", "c_330074"], "agrovoc-crops-and-taxa-3751.tsv", 3_751),
    ] {
        let imported = closure(roots);
        let concepts = &imported.vocabulary().1;
        assert_eq!(concepts.len(), count);
        let Some(list) = published_file(list) else { return };
        let by_code: HashMap<&str, _> = concepts.iter().map(|concept| (concept.code.as_str(), concept)).collect();
        for row in rows(&list) {
            let concept = by_code[row[0].as_str()];
            let mut parents: Vec<&str> = concept.parents.iter().map(|parent| parent.as_str()).collect();
            assert!(parents.is_sorted_by_key(|parent| (parent.len(), *parent)), "{}: {parents:?}", row[0]);
            let mut expected: Vec<&str> = row[1].split('|').filter(|parent| !parent.is_empty()).collect();
            parents.sort_unstable();
            expected.sort_unstable();
            assert_eq!(parents, expected, "{}", row[0]);
            assert_eq!(concept.labels[0].value, row[2].trim(), "{}", row[0]);
        }
    }
}

#[test]
fn the_list_of_six_has_178_codes() {
    let Some(list) = published_file("iso4217-list-one.xml") else { return };
    let imported = imported(ImportFormat::SixXml, &list, &ImportOptions::default());
    let (description, concepts) = imported.vocabulary();
    assert_eq!((concepts.len(), description.version.as_str()), (178, "2026-01-01"));
    assert_eq!(imported.source.manifest.version.to_string(), "2026.1.1");
}

#[test]
fn the_table_of_ilo_has_619_groups_on_four_levels() {
    let (Some(table), Some(list)) = (published_file("isco08-ilo-layout.csv"), published_file("isco08.tsv")) else {
        return;
    };
    let imported = imported(ImportFormat::IscoCsv, &table, &ImportOptions::default());
    let concepts = imported.concepts("urn:ilo:isco-08");
    assert_eq!(concepts.len(), 619);
    assert_eq!(imported.vocabulary().0.completeness, Completeness::Full);
    for (concept, row) in concepts.iter().zip(rows(&list)) {
        let parent = concept.parents.first().map_or("", |parent| parent.as_str());
        assert_eq!((concept.code.as_str(), parent, concept.labels[0].value.as_str()), (&*row[0], &*row[1], &*row[3]));
    }
}
