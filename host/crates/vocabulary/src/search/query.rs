//! What somebody typed into a search.

use super::words::{RUN_CHARS_MAX, folded, pieces};

/// The longest query, in bytes. The longest label of ICD-11 has some 300.
pub const QUERY_BYTES_MAX: usize = 1_000;
/// The most words of one query.
pub const QUERY_WORDS_MAX: usize = 50;

/// Why a text cannot be searched for.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum SearchQueryError {
    /// Nothing was typed.
    #[error("it is empty; give a code, the beginning of a word, or several words")]
    Empty,
    /// Longer than [`QUERY_BYTES_MAX`].
    #[error("it has {0} bytes, and a search takes at most {QUERY_BYTES_MAX}")]
    TooLong(usize),
    /// A control character.
    #[error("it holds a control character")]
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
    /// How many words a label has that consists of just these.
    words: u8,
}

/// One word of it, or one piece of a run of a script without spaces.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Term {
    pub text: String,
    /// Where it stands in a label that begins with the query.
    pub position: u8,
}

impl SearchQuery {
    /// Reads a query.
    ///
    /// # Errors
    /// What is wrong with it.
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
                // A word that is typed twice says no more than once, and would cost twice.
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

    /// What was typed, without space around it.
    #[must_use]
    pub fn text(&self) -> &str {
        &self.text
    }

    pub(super) fn word_count(&self) -> u8 {
        self.words
    }

    pub(super) fn terms(&self) -> &[Term] {
        &self.terms
    }
}

#[cfg(test)]
mod tests {
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
