//! The texts of the server that the page has in other languages: each error code, each diagnostic of rules, with the
//! same parameters.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::Path;

use daftar_domain::error_code::ErrorCode;

const LANGUAGES: [&str; 4] = ["fr", "es", "pt", "ar"];
/// Diagnostics of the host, which names codes and scopes: their reasons.
const OF_HOST: [&str; 11] = [
    "group_of_other_vocabulary",
    "unknown_concept_group",
    "unset_concept_group",
    "malformed_code",
    "unknown_code",
    "alias",
    "wrong_case",
    "vocabulary_not_installed",
    "vocabulary_empty",
    "rule_missing_scope",
    "rule_field_not_granted",
];

fn source(path: &str) -> String {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("..").join(path);
    fs::read_to_string(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
}

/// The reasons of the engine with their English templates, from the table in its source.
pub(super) fn reasons() -> BTreeMap<String, String> {
    let table = source("plugins/cel/src/message.rs");
    let rows = table.lines().filter_map(|line| {
        let (variant, rest) = line.trim().split_once(" \"")?;
        let (name, template) = rest.strip_suffix("\";")?.split_once("\" \"")?;
        variant.chars().all(char::is_alphanumeric).then(|| (name.to_owned(), template.to_owned()))
    });
    rows.collect()
}

/// The texts of one section of a file, by name.
fn section(file: &str, name: &str) -> BTreeMap<String, String> {
    let begin = file.find(&format!("\n  {name}: {{\n")).expect(name);
    let rest = &file[begin + 1..];
    let lines = rest.lines().skip(1).take_while(|line| *line != "  },");
    lines.filter_map(|line| line.trim().split_once(": ")).map(|(key, text)| (key.to_owned(), text.to_owned())).collect()
}

/// The places of a text, such as `is:1`.
fn places(text: &str) -> BTreeSet<&str> {
    let parts = text.split('{').skip(1).filter_map(|part| part.split_once('}')).map(|(place, _)| place);
    parts.filter(|place| place.chars().all(|letter| letter.is_ascii_alphanumeric() || letter == ':')).collect()
}

#[test]
fn every_error_code_and_every_diagnostic_has_a_text_in_every_language() {
    let reasons = reasons();
    assert!(reasons.len() > 100, "the table was read: {}", reasons.len());
    for language in LANGUAGES {
        let file = source(&format!("host/workbench/src/server/{language}.ts"));
        let problems = section(&file, "problems");
        for code in ErrorCode::ALL {
            assert!(problems.contains_key(code.name()), "{language} has no text for `{}`", code.name());
        }
        let diagnostics = section(&file, "diagnostics");
        for (name, template) in &reasons {
            let text = diagnostics.get(name).unwrap_or_else(|| panic!("{language} has no text for `{name}`"));
            // The English text has the noun of a number of arguments.
            let template = template.replace("{arguments:", "{range:");
            assert_eq!(places(text), places(&template), "{language}: {name}");
        }
        for name in OF_HOST {
            assert!(diagnostics.contains_key(name), "{language} has no text for `{name}`");
        }
    }
}
