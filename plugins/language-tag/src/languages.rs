//! The languages of ISO 639-1 with their names, from `data/languages.tsv`.
//!
//! The table is split into rows at compile time: an instance lives for one request, and parsing would be most of its
//! work.

/// One row per language, by code: code, alpha-3 code, then a name for each of [`NAME_LANGUAGES`], empty if there is
/// none.
const TABLE: &str = include_str!("../data/languages.tsv");

/// The languages of the names, in the order of the columns; the first one has a name in every row.
pub const NAME_LANGUAGES: [&str; 11] = ["en", "fr", "es", "ar", "pt", "ru", "zh", "sw", "hi", "bn", "am"];

/// A code that ISO withdrew (2000), included for old records.
const WITHDRAWN: &str = "sh";

/// A language.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Language {
    /// Its ISO 639-1 code.
    pub code: &'static str,
    /// Its ISO 639-3 code.
    pub alpha3: &'static str,
    row: &'static str,
}

impl Language {
    /// Its names with their languages.
    pub fn names(self) -> impl Iterator<Item = (&'static str, &'static str)> {
        let names = self.row.split('\t').skip(2);
        NAME_LANGUAGES.into_iter().zip(names).filter(|(_, name)| !name.is_empty())
    }

    /// Returns true if new records may use the code.
    pub fn is_in_use(self) -> bool {
        self.code != WITHDRAWN
    }
}

/// The number of languages.
pub const COUNT: usize = 184;

static ROWS: [Language; COUNT] = rows();

/// Every language, by code.
pub fn all() -> &'static [Language] {
    &ROWS
}

/// The language of an ISO 639-1 code, in lower case.
pub fn listed(code: &str) -> Option<Language> {
    ROWS.binary_search_by(|language| language.code.cmp(code)).ok().and_then(|at| ROWS.get(at).copied())
}

/// The language of an ISO 639-1 or 639-3 code, in lower case.
pub fn find(code: &str) -> Option<Language> {
    listed(code).or_else(|| ROWS.iter().find(|language| language.alpha3 == code).copied())
}

/// The rows of the table after its header.
#[expect(clippy::indexing_slicing, reason = "it runs while this is compiled: what is out of bounds does not compile")]
const fn rows() -> [Language; COUNT] {
    let mut rows = [Language { code: "", alpha3: "", row: "" }; COUNT];
    let mut at = end_of(0, b'\n') + 1;
    let mut row = 0;
    while at < TABLE.len() {
        let end = end_of(at, b'\n');
        let code = end_of(at, b'\t');
        let alpha3 = end_of(code + 1, b'\t');
        rows[row] = Language { code: cut(at, code), alpha3: cut(code + 1, alpha3), row: cut(at, end) };
        row += 1;
        at = end + 1;
    }
    assert!(row == COUNT, "the table has another number of rows than `COUNT`");
    rows
}

/// The position of the next such byte, or the end.
#[expect(clippy::indexing_slicing, reason = "it runs while this is compiled: what is out of bounds does not compile")]
const fn end_of(mut at: usize, byte: u8) -> usize {
    while at < TABLE.len() && TABLE.as_bytes()[at] != byte {
        at += 1;
    }
    at
}

const fn cut(from: usize, to: usize) -> &'static str {
    TABLE.split_at(to).0.split_at(from).1
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_table_is_whole() {
        let languages = all();
        assert!(languages.is_sorted_by(|one, other| one.code < other.code));
        for language in languages {
            assert!(language.names().next().is_some_and(|(first, _)| first == "en"), "{}", language.code);
            assert_eq!(language.row.split('\t').count(), 2 + NAME_LANGUAGES.len(), "{}", language.code);
        }
    }

    #[test]
    fn finds_by_either_code() {
        assert_eq!(find("pt"), find("por"));
        assert_eq!(find("pt").unwrap().names().nth(1), Some(("fr", "portugais")));
        assert_eq!(find("gsw"), None);
    }
}
