//! Names of people, and the words by which they are found.

use unicode_normalization::UnicodeNormalization;
use unicode_normalization::char::is_combining_mark;

/// The longest part of a name, in bytes.
pub const NAME_PART_BYTES_MAX: usize = 300;

/// A person's name as given.
#[derive(Clone, PartialEq, Eq, Default)]
pub struct PersonName {
    /// Family name.
    pub family: Option<String>,
    /// Given name or names.
    pub given: Option<String>,
    /// Middle name.
    pub middle: Option<String>,
    /// What stands before it, such as a title.
    pub prefix: Option<String>,
    /// What stands behind it.
    pub suffix: Option<String>,
    /// The whole name as it is written, where the parts do not say it.
    pub text: Option<String>,
}

impl std::fmt::Debug for PersonName {
    /// Keeps the name out of logs.
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.write_str("PersonName(..)")
    }
}

impl PersonName {
    /// Every part that is there, in the order in which a name is read.
    pub fn parts(&self) -> impl Iterator<Item = &str> {
        [&self.prefix, &self.given, &self.middle, &self.family, &self.suffix, &self.text]
            .into_iter()
            .filter_map(Option::as_deref)
    }

    /// The whole name: `text`, or else the parts one after the other.
    #[must_use]
    pub fn display(&self) -> String {
        match &self.text {
            Some(text) => text.clone(),
            None => self.parts().collect::<Vec<_>>().join(" "),
        }
    }

    /// The text by which names are put in order: family, given and middle name, or else the name as it is written, in the form of
    /// [`search_phrase`]. Empty where there is nothing to go by.
    #[must_use]
    pub fn sort_text(&self) -> String {
        let parts = [&self.family, &self.given, &self.middle].into_iter().flatten();
        let words: Vec<String> = parts.flat_map(|part| search_words(part)).collect();
        if words.is_empty() { self.text.as_deref().map(search_phrase).unwrap_or_default() } else { words.join(" ") }
    }

    /// The words by which the person is found, each once.
    #[must_use]
    pub fn search_words(&self) -> Vec<String> {
        let mut words: Vec<String> = self.parts().flat_map(indexed_words).collect();
        words.sort_unstable();
        words.dedup();
        words
    }
}

/// The words of a text as a search compares them: without case, accents and punctuation, in compatibility form.
#[must_use]
pub fn search_words(text: &str) -> Vec<String> {
    let folded: String = text
        .nfkd()
        .filter(|character| !is_combining_mark(*character))
        .flat_map(char::to_lowercase)
        .map(|character| match character {
            // They are left out of words rather than splitting them: D'Souza, N’Diaye, Qur'an.
            apostrophe if is_apostrophe(apostrophe) => '\u{0}',
            'ß' => 's',
            'ø' => 'o',
            'ł' => 'l',
            'đ' => 'd',
            'ı' => 'i',
            other => other,
        })
        .filter(|character| *character != '\u{0}')
        .collect();
    folded
        .split(|character: char| !character.is_alphanumeric())
        .filter(|word| !word.is_empty())
        .map(str::to_owned)
        .collect()
}

fn is_apostrophe(character: char) -> bool {
    matches!(character, '\'' | '\u{2019}' | '\u{02bc}' | '`')
}

/// The words by which a text is found: those of [`search_words`], and the parts of a word on either side of an apostrophe, so that
/// `souza` finds D'Souza and `eglise` Rue de l'Église.
#[must_use]
pub fn indexed_words(text: &str) -> Vec<String> {
    let mut words = search_words(text);
    if text.contains(is_apostrophe) {
        words.extend(search_words(&text.replace(is_apostrophe, " ")));
    }
    words
}

/// A text as a search for the whole of it compares it: its words, one space between them.
#[must_use]
pub fn search_phrase(text: &str) -> String {
    search_words(text).join(" ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn folds_case_and_accents() {
        assert_eq!(search_words("José  ÁLVAREZ-Núñez"), ["jose", "alvarez", "nunez"]);
        assert_eq!(search_words("N’Diaye"), ["ndiaye"]);
        assert_eq!(search_words("Nguyễn Thị"), ["nguyen", "thi"]);
        assert_eq!(search_words("فاطمة"), ["فاطمة"]);
        assert!(search_words(" -- ").is_empty());
        assert_eq!(search_phrase(" Nord-Est "), "nord est");
        assert_eq!(indexed_words("Rue de l'Église"), ["rue", "de", "leglise", "rue", "de", "l", "eglise"]);
        assert_eq!(indexed_words("Haile"), ["haile"]);
    }

    #[test]
    fn shows_the_written_name_before_its_parts() {
        let mut name =
            PersonName { family: Some("Haile".into()), given: Some("Abebe".into()), ..PersonName::default() };
        assert_eq!(name.display(), "Abebe Haile");
        name.text = Some("Ato Abebe Haile".into());
        assert_eq!(name.display(), "Ato Abebe Haile");
        assert_eq!(name.search_words(), ["abebe", "ato", "haile"]);
    }

    #[test]
    fn is_put_in_order_by_family_given_and_middle_name() {
        let mut name = PersonName { text: Some("Ato  Abebe".into()), ..PersonName::default() };
        assert_eq!(name.sort_text(), "ato abebe");
        name.given = Some("Ábebe".into());
        name.middle = Some("B.".into());
        name.family = Some("Haile-Selassie".into());
        assert_eq!(name.sort_text(), "haile selassie abebe b");
        assert_eq!(PersonName { family: Some("--".into()), ..PersonName::default() }.sort_text(), "");
    }
}
