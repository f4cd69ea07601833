//! The words that one slip of the finger leads to: a letter left out, put in, changed, or swapped with the next.
//!
//! The sorted words are followed letter by letter along what was typed. At each letter all slips are tried, and of each only
//! the words that begin so are looked up: for a word of eight letters some three hundred look-ups, whatever the number of
//! words.
//!
//! **Invariant:** one search tries [`STEPS_MAX`] slips at the most.

use std::ops::Range;

use super::index::SearchIndex;
use super::words::is_unspaced;

/// How many slips are tried for one word. The longest word of ICD-11 needs some two thousand.
const STEPS_MAX: usize = 20_000;
/// A shorter word is taken as it is typed: one slip turns it into almost any other.
const EDITED_CHARS_MIN: usize = 3;
/// A longer one is no word that somebody typed.
const EDITED_CHARS_MAX: usize = 64;
/// A shorter text counts as a whole word only: too many words begin so.
const BEGINNING_CHARS_MIN: usize = 4;

/// Words that begin with a text, the text itself first if it is one of them.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Beginnings {
    pub places: Range<usize>,
    /// Whether the first of them is the text itself.
    pub is_first_whole: bool,
}

impl Beginnings {
    /// The words that begin with `text`.
    pub(super) fn of(index: &SearchIndex, within: Range<usize>, text: &str) -> Self {
        let places = index.beginning(within, text);
        let is_first_whole = !places.is_empty() && index.word(places.start).len() == text.len();
        Self { places, is_first_whole }
    }
}

/// The words that are, or begin with, what `typed` is one slip away from.
pub(super) fn one_edit(index: &SearchIndex, typed: &str) -> Vec<Beginnings> {
    let letters: Vec<char> = typed.chars().take(EDITED_CHARS_MAX + 1).collect();
    // Another number is not a number misspelt.
    let has_digit = letters.iter().any(char::is_ascii_digit);
    if has_digit || !(EDITED_CHARS_MIN..=EDITED_CHARS_MAX).contains(&letters.len()) {
        return Vec::new();
    }
    Slips { index, letters: &letters, found: Vec::new(), steps: 0 }.follow()
}

struct Slips<'a> {
    index: &'a SearchIndex,
    letters: &'a [char],
    found: Vec<Beginnings>,
    steps: usize,
}

impl Slips<'_> {
    fn follow(mut self) -> Vec<Beginnings> {
        let mut within = 0..self.index.word_count();
        let mut beginning = String::new();
        for (at, letter) in self.letters.iter().copied().enumerate() {
            let (rest, behind) = (self.rest(at), self.rest(at + 1));
            self.look_up(within.clone(), &beginning, None, &behind);
            if let Some(next) = behind.chars().next().filter(|next| *next != letter) {
                let swapped = format!("{next}{letter}{}", self.rest(at + 2));
                self.look_up(within.clone(), &beginning, None, &swapped);
            }
            self.change_or_put_in(within.clone(), &beginning, letter, &rest, &behind);
            beginning.push(letter);
            within = self.index.beginning(within, &beginning);
            if within.is_empty() || self.steps >= STEPS_MAX {
                break;
            }
        }
        self.found
    }

    /// Tries every letter that does follow the beginning, in place of the typed one and before it.
    fn change_or_put_in(&mut self, within: Range<usize>, beginning: &str, letter: char, rest: &str, behind: &str) {
        let index = self.index;
        let mut next = within.start;
        while next < within.end && self.steps < STEPS_MAX {
            let Some(other) = index.word(next).get(beginning.len()..).and_then(|tail| tail.chars().next()) else {
                // The word is the beginning itself.
                next += 1;
                continue;
            };
            let with_other = format!("{beginning}{other}");
            let branch = next..index.partition(next..within.end, |word| word.starts_with(&with_other));
            next = branch.end;
            if other != letter && is_unspaced(other) == is_unspaced(letter) {
                self.look_up(branch.clone(), beginning, Some(other), behind);
                self.look_up(branch, beginning, Some(other), rest);
            }
        }
    }

    fn look_up(&mut self, within: Range<usize>, beginning: &str, other: Option<char>, rest: &str) {
        self.steps += 1;
        let mut text = String::with_capacity(beginning.len() + rest.len() + 4);
        text.push_str(beginning);
        text.extend(other);
        text.push_str(rest);
        if text.is_empty() {
            return;
        }
        let mut beginnings = Beginnings::of(self.index, within, &text);
        if text.chars().nth(BEGINNING_CHARS_MIN - 1).is_none() {
            let whole = usize::from(beginnings.is_first_whole);
            beginnings.places.end = beginnings.places.start + whole;
        }
        if !beginnings.places.is_empty() {
            self.found.push(beginnings);
        }
    }

    fn rest(&self, from: usize) -> String {
        self.letters.get(from..).unwrap_or_default().iter().collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::VocabularyBuilder;

    fn index(words: &[&str]) -> SearchIndex {
        let codes: Vec<String> = (0..words.len()).map(|number| format!("c{number}")).collect();
        let concepts = codes.iter().map(String::as_str).zip(words.iter().copied());
        SearchIndex::build(&VocabularyBuilder::new("urn:test:slips").concepts(concepts).vocabulary())
    }

    fn whole_words(index: &SearchIndex, typed: &str) -> Vec<String> {
        let found = one_edit(index, typed);
        let whole = found.iter().filter(|beginnings| beginnings.is_first_whole);
        let mut words: Vec<String> = whole.map(|beginnings| index.word(beginnings.places.start).to_owned()).collect();
        words.sort();
        words.dedup();
        words
    }

    #[test]
    fn every_kind_of_slip_is_found() {
        let index = index(&["malaria", "cholera", "measles"]);
        for typed in ["malria", "mallaria", "malavia", "amlaria", "malarai", "xalaria", "alaria", "malariaa"] {
            assert_eq!(whole_words(&index, typed), ["malaria"], "{typed}");
        }
        assert!(whole_words(&index, "mlra").is_empty());
        assert!(whole_words(&index, "ma").is_empty(), "too short to be misspelt");
        assert!(one_edit(&super::tests::index(&["1500", "2500"]), "1600").is_empty(), "another number");
    }

    #[test]
    fn a_beginning_may_be_misspelt_too() {
        let index = index(&["pneumonia", "pneumothorax"]);
        let found = one_edit(&index, "pnuemo");
        assert!(found.iter().any(|beginnings| beginnings.places == (0..2)), "{found:?}");
        let short = one_edit(&index, "pen");
        assert!(short.is_empty(), "what is left of a short word begins too many: {short:?}");
    }

    proptest::proptest! {
        #[test]
        fn finds_exactly_the_words_one_edit_away(
            words in proptest::collection::btree_set("[abc]{1,6}", 1..40),
            typed in "[abc]{3,7}",
        ) {
            let words: Vec<&str> = words.iter().map(String::as_str).collect();
            let index = index(&words);
            let mut expected: Vec<String> = words
                .iter()
                .filter(|word| strsim::osa_distance(word, &typed) == 1 && !word.starts_with(&typed))
                .map(|word| (*word).to_owned())
                .collect();
            expected.sort();
            let mut found = whole_words(&index, &typed);
            // What begins so is found without a slip.
            found.retain(|word| !word.starts_with(&typed));
            proptest::prop_assert_eq!(found, expected);
        }
    }
}
