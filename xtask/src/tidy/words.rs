//! Private terms in documents, comments, messages and names, by the list in `words.toml`.

use serde::Deserialize;

use super::Finding;
use super::source::{Sources, TextFile};
use crate::failure::Failure;

/// The list, which is part of this program so that it is checked with its sources.
const TERMS: &str = include_str!("words.toml");
/// Its place, for messages.
const TERMS_FILE: &str = "xtask/src/tidy/words.toml";

/// Files and folders that are not checked: the list itself and the tests of this check, data of publishers and of
/// tests, generated files, and legal texts.
const UNCHECKED: [&str; 8] = [
    TERMS_FILE,
    "xtask/src/tidy/words.rs",
    "Cargo.lock",
    "LICENSE",
    "host/docs/figures/",
    "tests/data/",
    "vocab-packs/",
    "host/workbench/package-lock.json",
];
/// Endings of the files that are checked.
const CHECKED: [&str; 14] =
    [".rs", ".md", ".ts", ".mjs", ".py", ".sh", ".sql", ".toml", ".yaml", ".json", ".wit", ".html", ".css", ".service"];

/// The keywords before the name of an item that is checked as a name.
const ITEMS: [&str; 8] = ["struct ", "enum ", "trait ", "fn ", "mod ", "type ", "const ", "union "];

/// Private terms and their replacement.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Term {
    terms: Vec<String>,
    instead: String,
    #[serde(default)]
    except: Vec<String>,
    /// True if the term is private in names, and ordinary English in texts.
    #[serde(default)]
    names_only: bool,
}

/// The list.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Terms {
    term: Vec<Term>,
}

impl Terms {
    /// Reads the list.
    pub fn read() -> Result<Self, Failure> {
        toml::from_str(TERMS).map_err(|error| Failure::new(format!("{TERMS_FILE}: {error}")))
    }
}

/// Checks the files that people read.
pub fn check(sources: &Sources, terms: &Terms) -> Vec<Finding> {
    let is_checked = |file: &&TextFile| {
        CHECKED.iter().any(|ending| file.path.ends_with(ending))
            && !UNCHECKED.iter().any(|unchecked| file.path.starts_with(unchecked))
    };
    sources.files().iter().filter(is_checked).flat_map(|file| check_file(file, terms)).collect()
}

fn check_file(file: &TextFile, terms: &Terms) -> Vec<Finding> {
    let is_code = file.path.ends_with(".rs");
    let mut findings = Vec::new();
    for (number, line) in (1..).zip(file.text.lines()) {
        let text = line.to_lowercase();
        let name = if is_code { declared(line).map(words) } else { None };
        for term in &terms.term {
            let allowed = term.except.iter().any(|phrase| has_words(&text, phrase));
            let is_in = |of: &String| {
                let in_name = name.as_ref().is_some_and(|name| has_words(name, of));
                in_name || (!term.names_only && has_words(&text, of))
            };
            if let Some(found) = term.terms.iter().find(|of| !allowed && is_in(of)) {
                let message = format!("`{found}` is a private term; instead: {} ({TERMS_FILE})", term.instead);
                findings.push(Finding::at(&file.path, number, message));
            }
        }
    }
    findings
}

/// True if a text has these words next to each other. Both are lower-case.
fn has_words(text: &str, words: &str) -> bool {
    let is_part = |character: char| character.is_alphanumeric() || character == '_';
    text.match_indices(words).any(|(at, _)| {
        let before = text.get(..at).and_then(|before| before.chars().next_back());
        let after = text.get(at + words.len()..).and_then(|after| after.chars().next());
        !before.is_some_and(is_part) && !after.is_some_and(is_part)
    })
}

/// The name of the item that a line of Rust declares.
fn declared(line: &str) -> Option<&str> {
    let line = line.trim_start();
    if line.starts_with("//") {
        return None;
    }
    let (_, rest) = ITEMS.iter().find_map(|item| {
        let at = line.find(item)?;
        let is_word = line.get(..at).is_some_and(|before| before.is_empty() || before.ends_with([' ', '(']));
        is_word.then(|| line.split_at(at + item.len()))
    })?;
    let end = rest.find(|character: char| !character.is_alphanumeric() && character != '_').unwrap_or(rest.len());
    rest.get(..end).filter(|name| !name.is_empty())
}

/// The words of a name, in lower case with a space between them.
fn words(name: &str) -> String {
    let mut words = String::new();
    let mut was_lower = false;
    for character in name.chars() {
        let starts_word = character == '_' || (character.is_uppercase() && was_lower);
        if starts_word && !words.is_empty() && !words.ends_with(' ') {
            words.push(' ');
        }
        if character != '_' {
            words.extend(character.to_lowercase());
        }
        was_lower = character.is_lowercase() || character.is_numeric();
    }
    words
}

#[cfg(test)]
mod tests {
    use super::*;

    fn findings(files: &[(&str, &str)]) -> Vec<(String, usize)> {
        let terms = Terms {
            term: vec![
                term(&["whoever"], false, &[]),
                term(&["take up", "taken up"], false, &["take up arms"]),
                term(&["moment"], true, &[]),
            ],
        };
        let findings = check(&Sources::of(files), &terms);
        findings.into_iter().filter_map(|finding| Some((finding.file, finding.line?))).collect()
    }

    fn term(terms: &[&str], names_only: bool, except: &[&str]) -> Term {
        let owned = |texts: &[&str]| texts.iter().map(|text| (*text).to_owned()).collect();
        Term { terms: owned(terms), instead: "another".to_owned(), except: owned(except), names_only }
    }

    #[test]
    fn a_term_is_found_in_documents_comments_and_messages() {
        let found = findings(&[
            ("README.md", "Whoever asks\nis fine"),
            ("a.rs", "// fine\n/// whoever\nlet text = \"it was taken up\";"),
            ("a.bin", "whoever"),
        ]);
        assert_eq!(found, [("README.md".to_owned(), 1), ("a.rs".to_owned(), 2), ("a.rs".to_owned(), 3)]);
    }

    #[test]
    fn a_term_is_found_in_a_name_by_its_words() {
        let found = findings(&[(
            "a.rs",
            "pub struct TakeUpSettings;\nfn take_up() {}\npub(super) const MOMENT: u8 = 1;\nstruct Momentum;",
        )]);
        assert_eq!(found.iter().map(|(_, line)| *line).collect::<Vec<_>>(), [1, 2, 3]);
    }

    #[test]
    fn a_term_is_private_only_in_listed_senses() {
        let found = findings(&[(
            "a.rs",
            "// one moment\nfn moment() {}\n// they take up arms\n// the uptake of whoever_it_is",
        )]);
        assert_eq!(found, [("a.rs".to_owned(), 2)]);
    }

    #[test]
    fn the_list_itself_and_data_are_not_checked() {
        assert_eq!(
            findings(&[(TERMS_FILE, "whoever"), ("tests/data/a.json", "whoever"), ("b.json", "whoever")]).len(),
            1
        );
    }

    #[test]
    fn the_list_can_be_read_and_every_term_has_a_replacement() {
        let terms = Terms::read().unwrap();
        for term in &terms.term {
            assert!(!term.terms.is_empty() && !term.instead.is_empty(), "{term:?}");
            assert!(term.terms.iter().all(|term| *term == term.to_lowercase()), "{term:?}");
        }
    }
}
