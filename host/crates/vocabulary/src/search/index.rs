//! Sorted index of the words in the labels of a vocabulary, with their occurrences.
//!
//! **Invariant:** words are distinct and sorted by bytes, so that all words with one prefix are adjacent.
//!
//! **Invariant:** the index does not allocate per word or label: an index of 17,000 labels consists of a few long
//! vectors.
//!
//! **Invariant:** labels and queries are folded in the same way, so that a query in the spelling of a label matches it.

use std::collections::HashMap;
use std::ops::Range;

use unicode_normalization::UnicodeNormalization;
use unicode_normalization::char::is_combining_mark;

use crate::compact::{ConceptIndex, Lists, to_u32};
use crate::vocabulary::Vocabulary;

/// A label of a concept.
#[derive(Debug, Clone, Copy)]
pub(super) struct LabelPlace {
    pub concept: ConceptIndex,
    /// Position of its language among the vocabulary's languages.
    pub language: u16,
    /// Position among the concept's labels, which are in the order of the vocabulary's languages.
    pub place: u8,
    /// Number of its words, at most 255.
    pub words: u8,
}

/// Occurrences of a word.
#[derive(Debug, Clone, Copy)]
pub(super) struct Occurrence {
    /// The number of the label.
    pub label: u32,
    /// Position of the word in the label. The 256th word and all later ones share one position.
    pub position: u8,
}

/// The words of all labels of a vocabulary.
#[derive(Clone)]
pub(crate) struct SearchIndex {
    labels: Vec<LabelPlace>,
    text: String,
    /// Start of each word in `text`, and the end of the last one.
    starts: Vec<u32>,
    /// By word.
    occurrences: Lists<Occurrence>,
}

impl SearchIndex {
    /// Indexes every label of a vocabulary.
    pub(crate) fn build(vocabulary: &Vocabulary) -> Self {
        let mut labels = Vec::new();
        let mut gathered = Gathered::default();
        for concept in vocabulary.concepts() {
            for (place, (_, text)) in concept.labels().enumerate() {
                let words = gathered.read(to_u32(labels.len()), &folded(text));
                let place = u8::try_from(place).unwrap_or(u8::MAX);
                let language = concept.label_language(place).unwrap_or(u16::MAX);
                labels.push(LabelPlace { concept: concept.index(), language, place, words });
            }
        }
        gathered.finish(labels)
    }

    /// Returns every label.
    pub(super) fn labels(&self) -> &[LabelPlace] {
        &self.labels
    }

    /// Returns the number of words.
    pub(super) fn word_count(&self) -> usize {
        self.starts.len().saturating_sub(1)
    }

    /// Returns the word at a position in the order of words.
    pub(super) fn word(&self, place: usize) -> &str {
        let bounds = (self.starts.get(place), self.starts.get(place + 1));
        let (Some(start), Some(end)) = bounds else { return "" };
        self.text.get(*start as usize..*end as usize).unwrap_or_default()
    }

    /// Returns the positions in `within` of words with the prefix.
    pub(super) fn beginning(&self, within: Range<usize>, beginning: &str) -> Range<usize> {
        let first = self.partition(within.clone(), |word| word < beginning);
        first..self.partition(first..within.end, |word| word.starts_with(beginning))
    }

    /// Returns the occurrences of the word at a position in the order of words.
    pub(super) fn occurrences(&self, place: usize) -> &[Occurrence] {
        self.occurrences.row(place)
    }

    /// Returns the first position in `within` whose word does not satisfy `before`. Words that satisfy it must precede
    /// all others.
    pub(super) fn partition(&self, within: Range<usize>, before: impl Fn(&str) -> bool) -> usize {
        let (mut low, mut high) = (within.start, within.end);
        while low < high {
            let middle = low + (high - low) / 2;
            if before(self.word(middle)) { low = middle + 1 } else { high = middle }
        }
        low
    }
}

/// Words in the order of their first occurrence.
#[derive(Default)]
struct Gathered {
    numbers: HashMap<Box<str>, u32>,
    occurrences: Vec<(u32, Occurrence)>,
}

impl Gathered {
    /// Adds the words of a label and returns their number.
    fn read(&mut self, label: u32, folded: &str) -> u8 {
        let mut position: u8 = 0;
        for piece in pieces(folded) {
            if !piece.is_run {
                self.add(piece.text, Occurrence { label, position });
                position = position.saturating_add(1);
                continue;
            }
            for (start, first) in piece.text.char_indices() {
                let from_here = piece.text.get(start..).unwrap_or_default();
                let end = from_here.char_indices().nth(RUN_CHARS_MAX).map_or(from_here.len(), |(end, _)| end);
                if !is_combining_mark(first) {
                    self.add(from_here.get(..end).unwrap_or_default(), Occurrence { label, position });
                }
                position = position.saturating_add(1);
            }
        }
        position
    }

    fn add(&mut self, word: &str, occurrence: Occurrence) {
        let number = match self.numbers.get(word) {
            Some(number) => *number,
            None => {
                let number = to_u32(self.numbers.len());
                self.numbers.insert(word.into(), number);
                number
            }
        };
        self.occurrences.push((number, occurrence));
    }

    /// Sorts the words, and the occurrences by word. Occurrences of one word stay in the order of labels.
    fn finish(mut self, labels: Vec<LabelPlace>) -> SearchIndex {
        let mut words: Vec<(Box<str>, u32)> = self.numbers.into_iter().collect();
        words.sort_unstable_by(|one, other| one.0.cmp(&other.0));
        let mut ranks = vec![0; words.len()];
        let mut text = String::with_capacity(words.iter().map(|(word, _)| word.len()).sum());
        let mut starts = Vec::with_capacity(words.len() + 1);
        starts.push(0);
        for (rank, (word, number)) in (0..).zip(&words) {
            text.push_str(word);
            starts.push(to_u32(text.len()));
            if let Some(place) = ranks.get_mut(*number as usize) {
                *place = rank;
            }
        }
        let rank_of = |number: u32| ranks.get(number as usize).copied().unwrap_or(u32::MAX);
        self.occurrences.sort_by_key(|(number, _)| rank_of(*number));
        let mut occurrences = Lists::with_capacity(words.len(), self.occurrences.len());
        let mut sorted = self.occurrences.into_iter().peekable();
        for rank in 0..to_u32(words.len()) {
            let of_word = std::iter::from_fn(|| sorted.next_if(|(number, _)| rank_of(*number) == rank));
            occurrences.push_row(of_word.map(|(_, occurrence)| occurrence));
        }
        SearchIndex { labels, text, starts, occurrences }
    }
}

/// Maximum length of a segment of a script without spaces that is indexed as one term, in characters.
pub(super) const RUN_CHARS_MAX: usize = 8;

/// A sequence of letters or digits.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Piece<'a> {
    pub text: &'a str,
    /// True if its script writes words without spaces.
    pub is_run: bool,
}

/// Class of a character in a search.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Class {
    Spaced,
    Unspaced,
    Separator,
}

/// Returns the text in lower case, in compatibility form, without accents.
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

/// Returns the sequences of letters or digits in a folded text, in order.
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

/// Returns true if the character's script writes words without spaces.
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

/// Returns true for accents, and for vowel points that are usually omitted. Vowel signs of Indic and Thai scripts are
/// letters and are retained.
fn is_ignored_mark(character: char) -> bool {
    matches!(
        character,
        '\u{0300}'..='\u{036f}' | '\u{1ab0}'..='\u{1aff}' | '\u{1dc0}'..='\u{1dff}' | '\u{20d0}'..='\u{20ff}'
        | '\u{fe20}'..='\u{fe2f}'
        // Hebrew points; Arabic vowel signs and the tatweel, which only lengthens a word.
        | '\u{0591}'..='\u{05c7}' | '\u{0610}'..='\u{061a}' | '\u{0640}' | '\u{064b}'..='\u{065f}' | '\u{0670}'
        | '\u{06d6}'..='\u{06ed}'
        // Joiners, which are invisible.
        | '\u{200c}' | '\u{200d}' | '\u{00ad}'
    )
}

/// Appends a lower-case character. Interchangeable characters are replaced by one of them.
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
        // Arabic, Persian and word-final forms of Arabic letters.
        'ى' | 'ی' => 'ي',
        'ة' => 'ه',
        'ک' => 'ك',
        // Ethiopic series that are homophones and are written interchangeably.
        '\u{1210}'..='\u{1217}' => moved(0x10),
        '\u{1280}'..='\u{1287}' => moved(0x80),
        '\u{1220}'..='\u{1227}' => char::from_u32(u32::from(character) + 0x10).unwrap_or(character),
        '\u{12d0}'..='\u{12d6}' => moved(0x30),
        '\u{1340}'..='\u{1347}' => moved(0x08),
        // Arabic, Persian, Devanagari and Bengali digits.
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
    use crate::testing::{TestConcept, VocabularyBuilder};

    fn index() -> SearchIndex {
        let vocabulary = VocabularyBuilder::new("urn:test:search")
            .concept(TestConcept::new("AF", "Afghanistan").label("zh", "阿富汗"))
            .concept(TestConcept::new("CF", "Central African Republic"))
            .concept(TestConcept::new("ZA", "South Africa, Republic of South Africa"))
            .vocabulary();
        SearchIndex::build(&vocabulary)
    }

    #[test]
    fn words_are_sorted_and_found_by_their_beginning() {
        let index = index();
        let words: Vec<&str> = (0..index.word_count()).map(|place| index.word(place)).collect();
        assert_eq!(
            words,
            ["afghanistan", "africa", "african", "central", "of", "republic", "south", "富汗", "汗", "阿富汗"]
        );
        let all = 0..index.word_count();
        assert_eq!(index.beginning(all.clone(), "af"), 0..3);
        assert_eq!(index.beginning(all.clone(), "africa"), 1..3);
        assert_eq!(index.beginning(all.clone(), "富"), 7..8);
        assert!(index.beginning(all, "zz").is_empty());
    }

    #[test]
    fn each_word_knows_its_labels_and_its_place_in_them() {
        let index = index();
        let of = |place: usize| {
            let found = index.occurrences(place);
            found.iter().map(|occurrence| (occurrence.label, occurrence.position)).collect::<Vec<_>>()
        };
        assert_eq!(of(1), [(3, 1), (3, 5)], "africa stands twice in one label");
        assert_eq!(of(5), [(2, 2), (3, 2)], "republic");
        assert_eq!(of(7), [(1, 1)], "the second sign of the Chinese name");
        assert_eq!(index.labels().iter().map(|label| label.words).collect::<Vec<_>>(), [1, 3, 3, 6]);
    }
}

#[cfg(test)]
mod words_tests {
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
