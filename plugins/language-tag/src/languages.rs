//! The languages of ISO 639-1 with their names, as `data/languages.tsv` has them.
//!
//! The table is read where it lies: a call looks at a few lines of it, and an instance lives for one request.

/// One row a language, by code: code, alpha-3 code, then a name for each of [`NAME_LANGUAGES`], empty where there is none.
const TABLE: &str = include_str!("../data/languages.tsv");

/// The languages that names are in, in the order of the columns; the first one has a name in every row.
pub const NAME_LANGUAGES: [&str; 11] = ["en", "fr", "es", "ar", "pt", "ru", "zh", "sw", "hi", "bn", "am"];

/// A code that ISO withdrew (2000): kept for old records.
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
    /// Its names, each with the language that it is in.
    pub fn names(self) -> impl Iterator<Item = (&'static str, &'static str)> {
        let names = self.row.split('\t').skip(2);
        NAME_LANGUAGES.into_iter().zip(names).filter(|(_, name)| !name.is_empty())
    }

    /// Whether the code may be used in new records.
    pub fn is_in_use(self) -> bool {
        self.code != WITHDRAWN
    }
}

/// Every language, by code.
pub fn all() -> impl Iterator<Item = Language> {
    TABLE.lines().skip(1).filter_map(|row| {
        let mut cells = row.split('\t');
        Some(Language { code: cells.next()?, alpha3: cells.next()?, row })
    })
}

/// The language of an ISO 639-1 or 639-3 code, in lower case.
pub fn find(code: &str) -> Option<Language> {
    all().find(|language| language.code == code || language.alpha3 == code)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_table_is_whole() {
        let languages: Vec<Language> = all().collect();
        assert_eq!(languages.len(), 184);
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
