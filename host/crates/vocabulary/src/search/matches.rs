//! Matches of a query in one vocabulary, with their quality.
//!
//! **Invariant:** one search tries at most [`STEPS_MAX`] edits.

use std::ops::Range;

use super::index::{SearchIndex, is_unspaced};
use super::{Grade, MatchedBy, SearchQuery, Term};
use crate::compact::ConceptIndex;
use crate::language::LanguagePreference;
use crate::nearest::in_other_case;
use crate::vocabulary::{ConceptRef, Vocabulary};
use daftar_domain::vocabulary::ConceptStatus;

/// The complete word occurs in the label.
const WHOLE: u8 = 1;
/// The word is at the same position as in the query, and all but the last word are complete.
const IN_PLACE: u8 = 2;
/// The word occurs as a word or prefix.
const THERE: u8 = 4;

/// A label that contains every word processed so far.
#[derive(Clone, Copy)]
struct Candidate {
    label: u32,
    /// Number of words of the query that are prefixes of words of the label.
    parts: u8,
    is_in_place: bool,
    has_edit: bool,
}

/// The best match of a concept.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Match {
    pub grade: Grade,
    /// Number of words of the query that match as prefixes only; fewer is better.
    parts: u8,
    /// Preference rank of the label's language.
    language: u8,
    /// Number of words of the label. A shorter label is a better match.
    words: u8,
    pub concept: ConceptIndex,
    pub by: MatchedBy,
}

impl Match {
    /// Returns the sort key of the match.
    pub(super) fn weight(&self) -> (Grade, u8, u8, u8) {
        (self.grade, self.parts, self.language, self.words)
    }
}

/// Returns every matching concept, each once, in no particular order.
pub(super) fn matches(
    vocabulary: &Vocabulary,
    query: &SearchQuery,
    languages: &LanguagePreference,
    with_inactive: bool,
) -> Vec<Match> {
    let index = vocabulary.search_index();
    let mut best = Best { of: vec![NONE; vocabulary.concept_count()], found: Vec::new() };
    by_code(vocabulary, code_typed(vocabulary, query.text()), &mut best);
    let language_ranks: Vec<u8> = vocabulary.languages().iter().map(|language| languages.rank(language)).collect();
    for candidate in candidates(index, query.terms()) {
        let Some(label) = index.labels().get(candidate.label as usize) else { continue };
        let grade = match candidate {
            Candidate { has_edit: true, .. } => Grade::OneEdit,
            Candidate { is_in_place: true, .. } => Grade::Prefix,
            _ => Grade::Words,
        };
        let is_whole_label = grade == Grade::Prefix && candidate.parts == 0 && label.words == query.word_count();
        best.add(Match {
            grade,
            parts: if is_whole_label { 0 } else { candidate.parts.saturating_add(1) },
            language: language_ranks.get(usize::from(label.language)).copied().unwrap_or(u8::MAX),
            words: label.words,
            concept: label.concept,
            by: MatchedBy::Label(label.place),
        });
    }
    let is_wanted = |found: &Match| {
        with_inactive || vocabulary.concept(found.concept).is_some_and(|it| it.status() == ConceptStatus::Active)
    };
    best.found.into_iter().filter(is_wanted).collect()
}

/// Marks a concept without a match.
const NONE: u32 = u32::MAX;

/// The best match of each concept.
struct Best {
    /// By concept: the position in `found`.
    of: Vec<u32>,
    found: Vec<Match>,
}

impl Best {
    fn add(&mut self, new: Match) {
        let Some(place) = self.of.get_mut(new.concept.position()) else { return };
        match self.found.get_mut(*place as usize) {
            Some(known) if *place != NONE => *known = (*known).min(new),
            _ => {
                *place = u32::try_from(self.found.len()).unwrap_or(NONE);
                self.found.push(new);
            }
        }
    }
}

/// Returns the code in a query. For a URI of this vocabulary, `namespace#code` or `namespace|code`, returns its code;
/// otherwise returns the query.
fn code_typed<'t>(vocabulary: &Vocabulary, typed: &'t str) -> &'t str {
    let behind = typed.strip_prefix(vocabulary.namespace().as_str());
    behind.and_then(|rest| rest.strip_prefix(['#', '|'])).unwrap_or(typed)
}

fn by_code(vocabulary: &Vocabulary, typed: &str, best: &mut Best) {
    let mut add = |concept: ConceptRef<'_>, grade: Grade, parts: u8, by: MatchedBy| {
        best.add(Match { grade, parts, language: 0, words: 0, concept: concept.index(), by });
    };
    if let Some(concept) = vocabulary.find(typed) {
        add(concept, Grade::Code, 0, MatchedBy::Code);
    } else if let Some(concept) = in_other_case(vocabulary, typed) {
        add(concept, Grade::Code, 1, MatchedBy::Code);
    }
    let spellings = [typed.to_owned(), typed.to_uppercase(), typed.to_lowercase()];
    for (place, spelling) in (0..).zip(&spellings) {
        if let Some(concept) = vocabulary.find_alias(spelling) {
            let is_it = |alias: &&str| *alias == spelling;
            let at = concept.aliases().position(|alias| is_it(&alias)).and_then(|at| u8::try_from(at).ok());
            add(concept, Grade::Code, 2 + place, MatchedBy::Alias(at.unwrap_or(u8::MAX)));
        }
    }
    // Each distinct spelling is searched once.
    for (place, spelling) in spellings.iter().enumerate() {
        if spellings.iter().take(place).any(|earlier| earlier == spelling) {
            continue;
        }
        for concept in vocabulary.beginning_with(spelling).filter(|concept| concept.code() != typed) {
            add(concept, Grade::Prefix, 1, MatchedBy::Code);
        }
    }
}

/// Returns the labels that contain every word, at most one of them with an edit.
fn candidates(index: &SearchIndex, terms: &[Term]) -> Vec<Candidate> {
    let all = 0..index.word_count();
    let exact: Vec<Beginnings> = terms.iter().map(|term| Beginnings::of(index, all.clone(), &term.text)).collect();
    let missing = exact.iter().filter(|beginnings| beginnings.places.is_empty()).count();
    if missing > 1 {
        return Vec::new();
    }
    let mut scratch = Scratch::over(index);
    let mut found: Option<Vec<Candidate>> = None;
    for (at, (term, beginnings)) in terms.iter().zip(&exact).enumerate() {
        let is_last = at + 1 == terms.len();
        scratch.read_exact(beginnings, term.position, is_last);
        // An edit of this word helps only if every other word occurs without an edit.
        if missing == 0 || beginnings.places.is_empty() {
            one_edit(index, &term.text).iter().for_each(|edited| scratch.read_edited(edited));
        }
        found = Some(match found {
            None => scratch.first(),
            Some(candidates) => candidates.into_iter().filter_map(|candidate| scratch.next(candidate)).collect(),
        });
        if found.as_ref().is_some_and(Vec::is_empty) {
            break;
        }
        scratch.clear();
    }
    found.unwrap_or_default()
}

/// The labels that contain one word: without an edit, and with one.
struct Scratch<'a> {
    index: &'a SearchIndex,
    exact: Vec<u8>,
    edited: Vec<u8>,
    touched: Vec<u32>,
}

impl<'a> Scratch<'a> {
    fn over(index: &'a SearchIndex) -> Self {
        let labels = index.labels().len();
        Self { index, exact: vec![0; labels], edited: vec![0; labels], touched: Vec::new() }
    }

    fn read_exact(&mut self, beginnings: &Beginnings, position: u8, is_last: bool) {
        for word in beginnings.places.clone() {
            let is_whole = beginnings.is_first_whole && word == beginnings.places.start;
            let marks = THERE | if is_whole { WHOLE } else { 0 };
            // In a script without spaces any prefix is a word.
            let may_be_in_place = is_whole || is_last || is_run(self.index.word(word));
            for occurrence in self.index.occurrences(word) {
                let in_place = if may_be_in_place && occurrence.position == position { IN_PLACE } else { 0 };
                mark(&mut self.exact, &self.edited, &mut self.touched, occurrence.label, marks | in_place);
            }
        }
    }

    fn read_edited(&mut self, beginnings: &Beginnings) {
        for word in beginnings.places.clone() {
            let is_whole = beginnings.is_first_whole && word == beginnings.places.start;
            let marks = THERE | if is_whole { WHOLE } else { 0 };
            for occurrence in self.index.occurrences(word) {
                mark(&mut self.edited, &self.exact, &mut self.touched, occurrence.label, marks);
            }
        }
    }

    fn first(&self) -> Vec<Candidate> {
        let fresh = |label: &u32| Candidate { label: *label, parts: 0, is_in_place: true, has_edit: false };
        self.touched.iter().map(fresh).filter_map(|candidate| self.next(candidate)).collect()
    }

    /// Returns the candidate extended by this word, if its label contains the word.
    fn next(&self, candidate: Candidate) -> Option<Candidate> {
        let marks = |of: &[u8]| of.get(candidate.label as usize).copied().unwrap_or_default();
        let (exact, edited) = (marks(&self.exact), marks(&self.edited));
        let part_of = |marks: u8| candidate.parts.saturating_add(u8::from(marks & WHOLE == 0));
        if exact & THERE != 0 {
            let is_in_place = candidate.is_in_place && exact & IN_PLACE != 0;
            return Some(Candidate { parts: part_of(exact), is_in_place, ..candidate });
        }
        let is_one_slip = edited & THERE != 0 && !candidate.has_edit;
        is_one_slip.then(|| Candidate { parts: part_of(edited), is_in_place: false, has_edit: true, ..candidate })
    }

    fn clear(&mut self) {
        for label in self.touched.drain(..) {
            for marks in [&mut self.exact, &mut self.edited] {
                if let Some(marks) = marks.get_mut(label as usize) {
                    *marks = 0;
                }
            }
        }
    }
}

/// Returns true if a word is a segment of a script without spaces.
fn is_run(word: &str) -> bool {
    word.chars().next().is_some_and(is_unspaced)
}

fn mark(these: &mut [u8], others: &[u8], touched: &mut Vec<u32>, label: u32, marks: u8) {
    let place = label as usize;
    let Some(known) = these.get_mut(place) else { return };
    if *known == 0 && others.get(place).is_none_or(|other| *other == 0) {
        touched.push(label);
    }
    *known |= marks;
}

/// Maximum number of edits that are tried for one word. The longest word of ICD-11 needs about two thousand.
const STEPS_MAX: usize = 20_000;
/// Minimum length of a word that is searched with edits, in characters: one edit changes a shorter word into almost any
/// other.
const EDITED_CHARS_MIN: usize = 3;
/// Maximum length of a word that is searched with edits, in characters.
const EDITED_CHARS_MAX: usize = 64;
/// Minimum length of a text that matches as a prefix, in characters: too many words begin with a shorter text.
const BEGINNING_CHARS_MIN: usize = 4;

/// Words with a prefix; the prefix itself is first if it is a word.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Beginnings {
    pub places: Range<usize>,
    /// True if the first word is the prefix itself.
    pub is_first_whole: bool,
}

impl Beginnings {
    /// Returns the words that begin with `text`.
    pub(super) fn of(index: &SearchIndex, within: Range<usize>, text: &str) -> Self {
        let places = index.beginning(within, text);
        let is_first_whole = !places.is_empty() && index.word(places.start).len() == text.len();
        Self { places, is_first_whole }
    }
}

/// Returns the words that equal, or begin with, a text at edit distance one from `typed`.
pub(super) fn one_edit(index: &SearchIndex, typed: &str) -> Vec<Beginnings> {
    let letters: Vec<char> = typed.chars().take(EDITED_CHARS_MAX + 1).collect();
    // Edits of numbers are not tried: another number is not a misspelling.
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

    /// Tries every letter that follows the prefix in the index, as a replacement of the typed letter and as an
    /// insertion before it.
    fn change_or_put_in(&mut self, within: Range<usize>, beginning: &str, letter: char, rest: &str, behind: &str) {
        let index = self.index;
        let mut next = within.start;
        while next < within.end && self.steps < STEPS_MAX {
            let Some(other) = index.word(next).get(beginning.len()..).and_then(|tail| tail.chars().next()) else {
                // The word is the prefix itself.
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
            // Labels with this prefix match exactly.
            found.retain(|word| !word.starts_with(&typed));
            proptest::prop_assert_eq!(found, expected);
        }
    }
}
