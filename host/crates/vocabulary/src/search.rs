//! Codes by what somebody types: the beginning of a word, several words in any order, with one slip, in any language.
//!
//! A vocabulary's index is built when it is first searched, in some ten milliseconds for ICD-11, and kept with the vocabulary,
//! so that replacing one pack builds one index. Nothing of it is stored: it is made again from what was checked.
//!
//! **Invariant:** the best come first: the exact code, then labels that begin with what was typed, then those with all its
//! words, then those with all its words but for one slip. Equal ones stand in the order of namespace and code.

mod edits;
mod index;
mod matches;
mod query;
mod words;

pub(super) use self::index::SearchIndex;
use self::matches::{Match, matches};
pub use self::query::{QUERY_BYTES_MAX, QUERY_WORDS_MAX, SearchQuery, SearchQueryError};
use super::language::LanguagePreference;
use super::vocabulary::{ConceptRef, Vocabulary};

/// How well a concept matches, the best first.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Grade {
    /// It is the code or another name of it, but for case.
    Code,
    /// Its label, or its code, begins with what was typed.
    Prefix,
    /// Its label has all the words, or words that begin so.
    Words,
    /// The same but for one letter left out, put in, changed, or swapped with the next.
    OneEdit,
}

/// By what of a concept it was found.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum MatchedBy {
    Code,
    /// Its place among the concept's aliases.
    Alias(u8),
    /// Its place among the concept's labels.
    Label(u8),
}

/// The text of a concept that matched.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum MatchedText<'a> {
    /// The code.
    Code,
    /// Another name of it.
    Alias(&'a str),
    /// A label.
    Label {
        /// The label.
        text: &'a str,
        /// The language it is in.
        language: &'a str,
    },
}

/// A concept that a search found.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Found<'a> {
    /// The concept.
    pub concept: ConceptRef<'a>,
    /// How well it matches.
    pub grade: Grade,
    /// What of it matched.
    pub text: MatchedText<'a>,
}

/// A page of what a search found.
#[derive(Debug)]
pub struct FoundPage<'a> {
    /// How many concepts match.
    pub total: usize,
    /// Those of the page, the best first.
    pub found: Vec<Found<'a>>,
}

/// How and where to search.
#[derive(Debug, Clone, Copy)]
pub struct SearchOptions<'a> {
    /// Of equally good labels, the one that the reader understands best counts.
    pub languages: &'a LanguagePreference,
    /// Whether codes that are no longer in use are found.
    pub with_inactive: bool,
    /// How many of the best are passed over.
    pub offset: usize,
    /// How many are returned.
    pub count: usize,
}

/// Searches vocabularies, given in the order of their namespaces.
pub fn search<'a>(vocabularies: &[&'a Vocabulary], query: &SearchQuery, options: SearchOptions<'_>) -> FoundPage<'a> {
    let mut all: Vec<(Match, usize)> = Vec::new();
    for (place, vocabulary) in vocabularies.iter().enumerate() {
        let found = matches(vocabulary, query, options.languages, options.with_inactive);
        all.extend(found.into_iter().map(|found| (found, place)));
    }
    let total = all.len();
    let by_grade = |(found, place): &(Match, usize)| (found.weight(), *place, found.concept);
    let end = options.offset.saturating_add(options.count).min(total);
    if end < total {
        all.select_nth_unstable_by_key(end, by_grade);
        all.truncate(end);
    }
    all.sort_unstable_by_key(by_grade);
    let page = all.into_iter().skip(options.offset).filter_map(|(found, place)| {
        let concept = vocabularies.get(place)?.concept(found.concept)?;
        Some(Found { concept, grade: found.grade, text: matched_text(concept, found.by) })
    });
    FoundPage { total, found: page.collect() }
}

fn matched_text(concept: ConceptRef<'_>, by: MatchedBy) -> MatchedText<'_> {
    match by {
        MatchedBy::Code => MatchedText::Code,
        MatchedBy::Alias(place) => concept.aliases().nth(place.into()).map_or(MatchedText::Code, MatchedText::Alias),
        MatchedBy::Label(place) => match concept.labels().nth(place.into()) {
            Some((language, text)) => MatchedText::Label { text, language },
            None => MatchedText::Code,
        },
    }
}

#[cfg(test)]
mod tests;
