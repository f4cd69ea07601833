//! Names of persons, and their search words.

use unicode_normalization::char::{decompose_compatible, is_combining_mark};

use super::schema::{Field, Kind, Struct};
use super::value::{Key, Text, Values};

/// Maximum length of a part of a name, in bytes.
pub const NAME_PART_BYTES_MAX: usize = 300;

/// Family name.
pub const FAMILY: Key<Text> = Key::new(1);
/// Given name or names.
pub const GIVEN: Key<Text> = Key::new(2);
/// Middle name.
pub const MIDDLE: Key<Text> = Key::new(3);
/// Prefix, such as a title.
pub const PREFIX: Key<Text> = Key::new(4);
/// Suffix.
pub const SUFFIX: Key<Text> = Key::new(5);
/// The full name as written, if the parts do not express it.
pub const TEXT: Key<Text> = Key::new(6);

/// The parts of a person's name as given.
pub const PERSON_NAME: Struct = Struct {
    name: "PersonName",
    about: "The name of a person.",
    fields: &[
        Field::new(FAMILY, "family", Kind::Text(NAME_PART_BYTES_MAX)).in_rules(),
        Field::new(GIVEN, "given", Kind::Text(NAME_PART_BYTES_MAX)).in_rules(),
        Field::new(MIDDLE, "middle", Kind::Text(NAME_PART_BYTES_MAX)).in_rules(),
        Field::new(PREFIX, "prefix", Kind::Text(NAME_PART_BYTES_MAX)).in_rules(),
        Field::new(SUFFIX, "suffix", Kind::Text(NAME_PART_BYTES_MAX)).in_rules(),
        Field::new(TEXT, "text", Kind::Text(NAME_PART_BYTES_MAX)).in_rules(),
    ],
};

/// Returns the recorded parts of a name, in reading order.
pub fn parts<C, I>(name: &Values<C, I>) -> impl Iterator<Item = &str> {
    [PREFIX, GIVEN, MIDDLE, FAMILY, SUFFIX, TEXT].into_iter().filter_map(|part| name.get(part))
}

/// Returns the full name: `text`, or else the parts joined by spaces.
#[must_use]
pub fn display<C, I>(name: &Values<C, I>) -> String {
    match name.get(TEXT) {
        Some(text) => text.to_owned(),
        None => parts(name).collect::<Vec<_>>().join(" "),
    }
}

/// Returns the sort key of a name: family, given and middle name, or else the name as written, in the form of
/// [`search_phrase`]. Empty if there is none.
#[must_use]
pub fn sort_text<C, I>(name: &Values<C, I>) -> String {
    let parts = [FAMILY, GIVEN, MIDDLE].into_iter().filter_map(|part| name.get(part));
    let words: Vec<String> = parts.flat_map(search_words).collect();
    if words.is_empty() { name.get(TEXT).map(search_phrase).unwrap_or_default() } else { words.join(" ") }
}

/// Returns the distinct search words of a name.
#[must_use]
pub fn name_words<C, I>(name: &Values<C, I>) -> Vec<String> {
    let mut words: Vec<String> = parts(name).flat_map(indexed_words).collect();
    words.sort_unstable();
    words.dedup();
    words
}

/// Splits a text into search words: without case, accents and punctuation, in compatibility form (NFKD of Unicode
/// Standard Annex 15 without combining marks, so that the order of marks is of no importance).
#[must_use]
pub fn search_words(text: &str) -> Vec<String> {
    let mut folded = String::with_capacity(text.len());
    for character in text.chars() {
        if character.is_ascii() {
            fold(character, &mut folded);
        } else {
            decompose_compatible(character, |part| fold(part, &mut folded));
        }
    }
    folded
        .split(|character: char| !character.is_alphanumeric())
        .filter(|word| !word.is_empty())
        .map(str::to_owned)
        .collect()
}

/// Appends the form of a decomposed character in search words.
fn fold(character: char, to: &mut String) {
    if character.is_ascii() {
        // An apostrophe does not split a word: D'Souza, Qur'an.
        if !is_apostrophe(character) {
            to.push(character.to_ascii_lowercase());
        }
        return;
    }
    if is_combining_mark(character) {
        return;
    }
    for lower in character.to_lowercase() {
        match lower {
            // N’Diaye.
            apostrophe if is_apostrophe(apostrophe) => {}
            'ß' => to.push('s'),
            'ø' => to.push('o'),
            'ł' => to.push('l'),
            'đ' => to.push('d'),
            'ı' => to.push('i'),
            other => to.push(other),
        }
    }
}

fn is_apostrophe(character: char) -> bool {
    matches!(character, '\'' | '\u{2019}' | '\u{02bc}' | '`')
}

/// Returns the words under which a text is indexed: those of [`search_words`], and the parts of a word around an
/// apostrophe, so that `souza` finds D'Souza and `eglise` Rue de l'Église.
#[must_use]
pub fn indexed_words(text: &str) -> Vec<String> {
    let mut words = search_words(text);
    if text.contains(is_apostrophe) {
        words.extend(search_words(&text.replace(is_apostrophe, " ")));
    }
    words
}

/// Returns the form of a text for phrase searches: its search words, joined by single spaces.
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
    fn words_are_those_of_the_normalized_text() {
        use unicode_normalization::UnicodeNormalization;

        let separator = |character: char| !character.is_alphanumeric();
        let expected = |text: &str| -> Vec<String> {
            let normal: String =
                text.nfkd().filter(|part| !is_combining_mark(*part)).flat_map(char::to_lowercase).collect();
            let spelled = normal.replace(is_apostrophe, "").replace('ß', "s").replace('ø', "o").replace('ł', "l");
            let spelled = spelled.replace('đ', "d").replace('ı', "i");
            spelled.split(separator).filter(|word| !word.is_empty()).map(str::to_owned).collect()
        };
        // Every character, in a word of its own and within one.
        for character in '\u{0}'..=char::MAX {
            let text = format!("A{character}b {character} \u{301}{character}\u{327}");
            assert_eq!(search_words(&text), expected(&text), "{character:?}");
        }
    }

    fn name(parts: &[(Key<Text>, &str)]) -> Values {
        parts.iter().fold(Values::default(), |name, (key, text)| name.with(*key, (*text).to_owned()))
    }

    #[test]
    fn prefers_the_written_name_to_its_parts() {
        let mut name = name(&[(FAMILY, "Haile"), (GIVEN, "Abebe")]);
        assert_eq!(display(&name), "Abebe Haile");
        name.set(TEXT, Some("Ato Abebe Haile".to_owned()));
        assert_eq!(display(&name), "Ato Abebe Haile");
        assert_eq!(name_words(&name), ["abebe", "ato", "haile"]);
    }

    #[test]
    fn sorts_by_family_given_and_middle_name() {
        let mut given = name(&[(TEXT, "Ato  Abebe")]);
        assert_eq!(sort_text(&given), "ato abebe");
        given = given.with(GIVEN, "Ábebe".to_owned()).with(MIDDLE, "B.".to_owned());
        given.set(FAMILY, Some("Haile-Selassie".to_owned()));
        assert_eq!(sort_text(&given), "haile selassie abebe b");
        assert_eq!(sort_text(&name(&[(FAMILY, "--")])), "");
    }
}
