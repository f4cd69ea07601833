//! Compares every shipped ICF code with a copy of the classification.
//!
//! The copy may not be part of this repository; on a machine without it the test is listed as not run.
//!
//! Titles are compared by letters and digits, ignoring case: copies differ in capitals (chapters), quotes, dashes,
//! commas and blanks, which do not change a title.

use std::collections::HashMap;

use super::{concepts, label, parents};

/// Titles that are misprinted in the copy: truncated, doubled, or that of the previous code. Their codes and parents
/// are compared too.
const MISPRINTED: [&str; 7] = ["b1679", "b299", "b449", "b7209", "d1608", "d1759", "d798"];

/// Parent and title of each code, or none if the copy is missing.
fn reference(component: &str) -> Option<HashMap<String, (String, String)>> {
    let file = daftar_test_needs::published_file(&format!("icf-{component}.tsv"))?;
    let text = std::fs::read_to_string(&file).unwrap_or_else(|error| panic!("{}: {error}", file.display()));
    let mut codes = HashMap::new();
    for line in text.lines().skip(1) {
        let [code, parent, _level, title] = line.split('\t').collect::<Vec<_>>()[..] else { panic!("{line}") };
        codes.insert(code.to_owned(), (parent.to_owned(), title.to_owned()));
    }
    Some(codes)
}

fn folded(title: &str) -> String {
    title.chars().filter(|character| character.is_alphanumeric()).flat_map(char::to_lowercase).collect()
}

/// The differences from the reference, and its number of codes.
fn differences(component: &str) -> Option<(Vec<String>, usize)> {
    let reference = reference(component)?;
    let mut differences = Vec::new();
    for concept in concepts(&format!("urn:who:icf:{component}")) {
        let code = concept.code.as_str();
        let title = label(concept, "en").unwrap();
        let Some((parent, expected)) = reference.get(code) else {
            differences.push(format!("{code} ({title}) is no code"));
            continue;
        };
        if parents(concept).first().copied().unwrap_or_default() != parent {
            differences.push(format!("{code} hangs from `{parent}`"));
        }
        if folded(title) != folded(expected) && !MISPRINTED.contains(&code) {
            differences.push(format!("{code} is not `{title}`"));
        }
    }
    let has = |code: &String| {
        concepts(&format!("urn:who:icf:{component}")).iter().any(|concept| concept.code.as_str() == code)
    };
    let mut lacking: Vec<&String> = reference.keys().filter(|code| code.len() <= 4 && !has(code)).collect();
    lacking.sort();
    differences.extend(lacking.into_iter().map(|code| format!("{code} is not shipped, and has three digits or fewer")));
    Some((differences, reference.len()))
}

#[test]
fn every_shipped_icf_code_matches_the_reference_in_title_and_parent() {
    for (component, codes) in [("b", 527), ("d", 466)] {
        let Some((differences, in_reference)) = differences(component) else { continue };
        assert_eq!(differences, [""; 0], "component {component}");
        assert_eq!(in_reference, codes);
    }
}
