//! Search of codes by text: prefixes of words, several words in any order, with one edit, in any language.
//!
//! The index of a vocabulary is built on the first search, in about ten milliseconds for ICD-11, and cached with the
//! vocabulary. Replacing one pack builds one index. The index is not persisted: it is rebuilt from the checked
//! contents.
//!
//! **Invariant:** matches are ordered by quality: the exact code, then labels that begin with the query, then labels
//! with all its words, then labels with all its words except for one edit. Equal matches are ordered by namespace and
//! code.

mod index;
mod matches;

pub(super) use self::index::SearchIndex;
use self::index::{RUN_CHARS_MAX, folded, pieces};
use self::matches::{Match, matches};
use super::language::LanguagePreference;
use super::vocabulary::{ConceptRef, Vocabulary};

/// Quality of a match, the best first.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Grade {
    /// The query is the code or an alias, ignoring case.
    Code,
    /// The label or the code begins with the query.
    Prefix,
    /// The label contains all words of the query, as words or prefixes.
    Words,
    /// The label contains all words except for one letter deleted, inserted, replaced, or swapped with the next.
    OneEdit,
}

/// The part of a concept that matched.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum MatchedBy {
    Code,
    /// Position among the concept's aliases.
    Alias(u8),
    /// Position among the concept's labels.
    Label(u8),
}

/// The text of a concept that matched.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum MatchedText<'a> {
    /// The code of the concept.
    Code,
    /// An alias of the code.
    Alias(&'a str),
    /// A label.
    Label {
        /// The label.
        text: &'a str,
        /// The language of the label.
        language: &'a str,
    },
}

/// A concept that a search found.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Found<'a> {
    /// The concept.
    pub concept: ConceptRef<'a>,
    /// Quality of the match.
    pub grade: Grade,
    /// The matching text.
    pub text: MatchedText<'a>,
}

/// A page of search results.
#[derive(Debug)]
pub struct FoundPage<'a> {
    /// Number of matching concepts.
    pub total: usize,
    /// The matches of the page, the best first.
    pub found: Vec<Found<'a>>,
}

/// Parameters of a search.
#[derive(Debug, Clone, Copy)]
pub struct SearchOptions<'a> {
    /// Language preference: it decides between labels of equal quality.
    pub languages: &'a LanguagePreference,
    /// True if the search includes inactive codes.
    pub with_inactive: bool,
    /// Number of best matches to skip.
    pub offset: usize,
    /// Number of matches to return.
    pub count: usize,
}

/// Searches vocabularies, which are passed in the order of their namespaces.
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

/// Maximum length of a query, in bytes. The longest label of ICD-11 has about 300.
pub const QUERY_BYTES_MAX: usize = 1_000;
/// Maximum number of words of a query.
pub const QUERY_WORDS_MAX: usize = 50;

/// Reason why a text cannot be searched for.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum SearchQueryError {
    /// The query is empty.
    #[error("it is empty; give a code, the beginning of a word, or several words")]
    Empty,
    /// Longer than [`QUERY_BYTES_MAX`].
    #[error("it has {0} bytes, and a search takes at most {QUERY_BYTES_MAX}")]
    TooLong(usize),
    /// A control character.
    #[error("it contains a control character")]
    ControlCharacter,
    /// Neither letter nor digit.
    #[error("it holds no letter and no digit to search for")]
    NothingToFind,
    /// More than [`QUERY_WORDS_MAX`] words.
    #[error("it has more than {QUERY_WORDS_MAX} words")]
    TooManyWords,
}

/// A text to search for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SearchQuery {
    text: String,
    terms: Vec<Term>,
    /// Number of words of a label that is equal to the query.
    words: u8,
}

/// One word of a query, or a segment of text in a script without spaces.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Term {
    pub text: String,
    /// Position in a label that begins with the query.
    pub position: u8,
}

impl SearchQuery {
    /// Parses a query.
    ///
    /// # Errors
    /// Returns the reason why the text is not a valid query.
    pub fn parse(text: &str) -> Result<Self, SearchQueryError> {
        if text.len() > QUERY_BYTES_MAX {
            return Err(SearchQueryError::TooLong(text.len()));
        }
        if text.chars().any(char::is_control) {
            return Err(SearchQueryError::ControlCharacter);
        }
        let text = text.trim();
        if text.is_empty() {
            return Err(SearchQueryError::Empty);
        }
        let mut terms = Vec::new();
        let mut position: u8 = 0;
        let mut count = 0;
        for piece in pieces(&folded(text)) {
            let characters: Vec<char> = piece.text.chars().collect();
            let piece_length = if piece.is_run { RUN_CHARS_MAX } else { characters.len().max(1) };
            for part in characters.chunks(piece_length) {
                let text: String = part.iter().collect();
                // A repeated word adds no information and doubles the cost.
                if !terms.iter().any(|earlier: &Term| earlier.text == text) {
                    terms.push(Term { text, position });
                }
                let length = if piece.is_run { u8::try_from(part.len()).unwrap_or(u8::MAX) } else { 1 };
                position = position.saturating_add(length);
            }
            count += 1;
            if count > QUERY_WORDS_MAX {
                return Err(SearchQueryError::TooManyWords);
            }
        }
        if terms.is_empty() {
            return Err(SearchQueryError::NothingToFind);
        }
        Ok(Self { text: text.to_owned(), terms, words: position })
    }

    /// Returns the query without surrounding white space.
    #[must_use]
    pub fn text(&self) -> &str {
        &self.text
    }

    fn word_count(&self) -> u8 {
        self.words
    }

    fn terms(&self) -> &[Term] {
        &self.terms
    }
}

#[cfg(test)]
mod query_tests {
    use super::*;

    fn terms(text: &str) -> Vec<(String, u8)> {
        let query = SearchQuery::parse(text).unwrap();
        query.terms.into_iter().map(|term| (term.text, term.position)).collect()
    }

    #[test]
    fn reads_words_and_runs() {
        assert_eq!(terms("  Côte d'I "), [("cote".to_owned(), 0), ("d".to_owned(), 1), ("i".to_owned(), 2)]);
        assert_eq!(terms("疟疾 fever"), [("疟疾".to_owned(), 0), ("fever".to_owned(), 2)]);
        assert_eq!(terms("wagga Wagga"), [("wagga".to_owned(), 0)]);
        assert_eq!(terms("一二三四五六七八九"), [("一二三四五六七八".to_owned(), 0), ("九".to_owned(), 8)]);
    }

    #[test]
    fn holds_its_bounds() {
        assert_eq!(SearchQuery::parse(""), Err(SearchQueryError::Empty));
        assert_eq!(SearchQuery::parse("  "), Err(SearchQueryError::Empty));
        assert_eq!(SearchQuery::parse("-- !"), Err(SearchQueryError::NothingToFind));
        assert_eq!(SearchQuery::parse("a\u{7}b"), Err(SearchQueryError::ControlCharacter));
        assert!(SearchQuery::parse(&"a".repeat(QUERY_BYTES_MAX)).is_ok());
        assert_eq!(SearchQuery::parse(&"a".repeat(QUERY_BYTES_MAX + 1)), Err(SearchQueryError::TooLong(1_001)));
        assert!(SearchQuery::parse(&"a ".repeat(QUERY_WORDS_MAX)).is_ok());
        assert_eq!(SearchQuery::parse(&"a ".repeat(QUERY_WORDS_MAX + 1)), Err(SearchQueryError::TooManyWords));
    }
}

#[cfg(test)]
mod tests;
