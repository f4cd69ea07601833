//! Texts as a search compares them: without case, accents and punctuation, in words.
//!
//! Scripts that put no space between words are cut at every sign instead: of 阿富汗 the index keeps 阿富汗, 富汗 and 汗, so
//! that any part of it is found as the beginning of something.
//!
//! **Invariant:** a label and a query go through the same folding, so what is typed as it is written is found.

use unicode_normalization::UnicodeNormalization;
use unicode_normalization::char::is_combining_mark;

/// The longest stretch of a script without spaces that is kept in one piece, in characters.
pub(super) const RUN_CHARS_MAX: usize = 8;

/// A stretch of letters or digits.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Piece<'a> {
    pub text: &'a str,
    /// Whether its script puts no spaces between words.
    pub is_run: bool,
}

/// What a character is to a search.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Class {
    Spaced,
    Unspaced,
    Separator,
}

/// The text in lower case, in compatibility form, without accents.
pub(super) fn folded(text: &str) -> String {
    if text.is_ascii() {
        return text.to_ascii_lowercase();
    }
    let mut folded = String::with_capacity(text.len());
    for character in text.nfkd().filter(|character| !is_ignored_mark(*character)) {
        character.to_lowercase().for_each(|lower| fold(lower, &mut folded));
    }
    folded
}

/// The stretches of a folded text, in order.
pub(super) fn pieces(folded: &str) -> impl Iterator<Item = Piece<'_>> {
    let mut rest = folded;
    std::iter::from_fn(move || {
        rest = rest.trim_start_matches(|character| class(character) == Class::Separator);
        let first = class(rest.chars().next()?);
        let end = rest.find(|character| class(character) != first).unwrap_or(rest.len());
        let (text, behind) = rest.split_at_checked(end)?;
        rest = behind;
        Some(Piece { text, is_run: first == Class::Unspaced })
    })
}

/// Whether words of the character's script stand without spaces.
pub(super) fn is_unspaced(character: char) -> bool {
    matches!(
        character,
        // Thai, Lao, Tibetan, Burmese, Khmer.
        '\u{0e00}'..='\u{0fff}' | '\u{1000}'..='\u{109f}' | '\u{1780}'..='\u{17ff}'
        // Han, kana, their extensions and compatibility forms.
        | '\u{3005}'..='\u{3007}' | '\u{3040}'..='\u{30ff}' | '\u{31f0}'..='\u{31ff}' | '\u{3400}'..='\u{4dbf}'
        | '\u{4e00}'..='\u{9fff}' | '\u{f900}'..='\u{faff}' | '\u{20000}'..='\u{3ffff}'
    )
}

fn class(character: char) -> Class {
    if !character.is_alphanumeric() && !is_combining_mark(character) {
        Class::Separator
    } else if is_unspaced(character) {
        Class::Unspaced
    } else {
        Class::Spaced
    }
}

/// Accents, and vowel points that most writers leave out. Vowel signs of Indic and Thai writing stay: they are letters.
fn is_ignored_mark(character: char) -> bool {
    matches!(
        character,
        '\u{0300}'..='\u{036f}' | '\u{1ab0}'..='\u{1aff}' | '\u{1dc0}'..='\u{1dff}' | '\u{20d0}'..='\u{20ff}'
        | '\u{fe20}'..='\u{fe2f}'
        // Hebrew points; Arabic vowel signs and the stroke that only lengthens a word.
        | '\u{0591}'..='\u{05c7}' | '\u{0610}'..='\u{061a}' | '\u{0640}' | '\u{064b}'..='\u{065f}' | '\u{0670}'
        | '\u{06d6}'..='\u{06ed}'
        // Joiners, which are not seen.
        | '\u{200c}' | '\u{200d}' | '\u{00ad}'
    )
}

/// Adds a lower-case character, with those that are written interchangeably as one.
fn fold(character: char, folded: &mut String) {
    let moved = |by: u32| char::from_u32(u32::from(character) - by).unwrap_or(character);
    folded.push(match character {
        'ß' => return folded.push_str("ss"),
        'æ' => return folded.push_str("ae"),
        'œ' => return folded.push_str("oe"),
        'þ' => return folded.push_str("th"),
        'ø' => 'o',
        'ł' => 'l',
        'đ' | 'ð' => 'd',
        'ı' => 'i',
        'ς' => 'σ',
        // Arabic letters by their Arabic, Persian and end-of-word forms.
        'ى' | 'ی' => 'ي',
        'ة' => 'ه',
        'ک' => 'ك',
        // Ethiopic series that sound the same and are written one for the other.
        '\u{1210}'..='\u{1217}' => moved(0x10),
        '\u{1280}'..='\u{1287}' => moved(0x80),
        '\u{1220}'..='\u{1227}' => char::from_u32(u32::from(character) + 0x10).unwrap_or(character),
        '\u{12d0}'..='\u{12d6}' => moved(0x30),
        '\u{1340}'..='\u{1347}' => moved(0x08),
        // Digits of Arabic, Persian, Devanagari and Bengali writing.
        '\u{0660}'..='\u{0669}' => moved(0x0660 - 0x30),
        '\u{06f0}'..='\u{06f9}' => moved(0x06f0 - 0x30),
        '\u{0966}'..='\u{096f}' => moved(0x0966 - 0x30),
        '\u{09e6}'..='\u{09ef}' => moved(0x09e6 - 0x30),
        other => other,
    });
}

#[cfg(test)]
mod tests {
    use super::*;

    fn words(text: &str) -> Vec<String> {
        pieces(&folded(text)).map(|piece| piece.text.to_owned()).collect()
    }

    #[test]
    fn folds_case_accents_and_letters_beyond_ascii() {
        assert_eq!(words("Côte d’Ivoire"), ["cote", "d", "ivoire"]);
        assert_eq!(words("Færøerne, Łódź, Straße"), ["faeroerne", "lodz", "strasse"]);
        assert_eq!(words("ΣΊΣΥΦΟΣ"), ["σισυφοσ"]);
        assert_eq!(words("Ещё"), ["еще"]);
        assert_eq!(words("1A03.Y Ｋｅｎｙａ"), ["1a03", "y", "kenya"]);
    }

    #[test]
    fn folds_arabic_forms_and_leaves_vowel_points_out() {
        assert_eq!(words("أُنْثَى"), words("انثي"));
        assert_eq!(words("المملكة العربيّة"), words("المملكه العربية"));
        assert_eq!(words("٢٥٠"), ["250"]);
    }

    #[test]
    fn keeps_the_vowel_signs_of_indic_writing() {
        assert_eq!(words("केन्या भारत"), ["केन्या", "भारत"]);
        assert_ne!(words("किनारा"), words("कनारा"));
    }

    #[test]
    fn folds_ethiopic_letters_that_sound_the_same() {
        assert_eq!(words("ሐገር፡ዓለም"), words("ሀገር ኣለም"));
        assert_eq!(words("ፀሐይ ሠላም"), words("ጸሀይ ሰላም"));
    }

    #[test]
    fn keeps_a_script_without_spaces_in_one_run() {
        let text = folded("ICD疟疾11");
        let found: Vec<(&str, bool)> = pieces(&text).map(|piece| (piece.text, piece.is_run)).collect();
        assert_eq!(found, [("icd", false), ("疟疾", true), ("11", false)]);
    }

    #[test]
    fn punctuation_alone_has_no_words() {
        assert!(words(" -- !?،。").is_empty());
    }
}
