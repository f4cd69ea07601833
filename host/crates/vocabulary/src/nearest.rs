//! Closest matches of an unknown code.
//!
//! Codes are compared by edit distance: the number of letters inserted, deleted, replaced or swapped. The search
//! traverses the sorted codes as a trie and prunes a branch if the distance of its prefix exceeds the limit: a few
//! hundred of the 17,546 codes of ICD-11 are checked.
//!
//! **Invariant:** the cost of an error is bounded. One search checks at most [`STEPS_MAX`] prefixes and compares each
//! with the few letters that are within the edit distance. It checks none if the text is longer than every code by more
//! than the edits.

use super::compact::ConceptIndex;
use super::vocabulary::{ConceptRef, Vocabulary};

/// Maximum number of suggested codes.
pub const SUGGESTIONS_MAX: usize = 5;
/// Maximum number of prefixes that a search checks. About 5,000 prefixes are within two edits of a code of ICD-11.
const STEPS_MAX: usize = 20_000;
/// Minimum length of a text that is searched with two edits, in bytes: two edits change a shorter text into almost any
/// other.
const TWO_EDITS_BYTES_MIN: usize = 4;
/// Maximum number of concepts of a vocabulary whose labels are scanned sequentially.
const LABEL_SCAN_CONCEPTS_MAX: usize = 2_000;
/// Minimum length of a text that is compared with prefixes of labels, in bytes.
const LABEL_PREFIX_BYTES_MIN: usize = 3;

/// Returns the codes closest to a text that a new record may contain, the closest first.
///
/// A code whose label matches the text (`married` for `M`) precedes a code with a similar spelling. A match of a label
/// prefix is last. If nothing is close, all codes of a small vocabulary are returned.
pub(super) fn nearest<'a>(vocabulary: &'a Vocabulary, wanted: &str) -> Vec<ConceptRef<'a>> {
    let mut found: Vec<ConceptRef<'a>> = Vec::new();
    let mut add = |candidates: Vec<ConceptRef<'a>>| {
        for candidate in candidates {
            if found.len() < SUGGESTIONS_MAX && candidate.is_usable() && !found.contains(&candidate) {
                found.push(candidate);
            }
        }
        found.len()
    };
    add(by_alias(vocabulary, wanted));
    let (called_so, beginning_so) = by_label(vocabulary, wanted);
    add(called_so);
    let mut count = add(spelt_alike(vocabulary, wanted, 1));
    if count == 0 {
        count = add(beginning_so);
    }
    if count == 0 && wanted.len() >= TWO_EDITS_BYTES_MIN {
        count = add(spelt_alike(vocabulary, wanted, 2));
    }
    if count == 0 && vocabulary.concept_count() <= SUGGESTIONS_MAX {
        add(vocabulary.concepts().collect());
    }
    found
}

impl Vocabulary {
    /// Returns the concepts with that label in any language, ignoring case, that a new record may contain. Returns none
    /// if the vocabulary has more than 2,000 concepts, because every label is compared.
    pub fn labelled<'a>(&'a self, label: &str) -> impl Iterator<Item = ConceptRef<'a>> + use<'a> {
        let wanted: Vec<char> = lower_case(label).collect();
        let is_scanned = self.concept_count() <= LABEL_SCAN_CONCEPTS_MAX;
        let concepts = is_scanned.then(|| self.concepts()).into_iter().flatten();
        let has_label = move |concept: &ConceptRef<'a>| {
            concept.labels().any(|(_, label)| lower_case(label).eq(wanted.iter().copied()))
        };
        concepts.filter(|concept| concept.is_usable()).filter(has_label)
    }
}

/// Returns the concept whose code differs only in case. Letters beyond ASCII are compared unchanged.
pub(super) fn in_other_case<'a>(vocabulary: &'a Vocabulary, wanted: &str) -> Option<ConceptRef<'a>> {
    let candidates = Walk::over(vocabulary, wanted, 0).run();
    candidates.into_iter().map(|near| near.concept).find(|concept| concept.code() != wanted)
}

/// Returns the concepts of an alias in any of the usual spellings.
fn by_alias<'a>(vocabulary: &'a Vocabulary, wanted: &str) -> Vec<ConceptRef<'a>> {
    let spellings = [wanted.to_owned(), wanted.to_ascii_uppercase(), wanted.to_ascii_lowercase()];
    spellings.iter().filter_map(|spelling| vocabulary.find_alias(spelling)).collect()
}

/// Returns the concepts with the label, and the concepts whose label begins with the text, in any language.
fn by_label<'a>(vocabulary: &'a Vocabulary, wanted: &str) -> (Vec<ConceptRef<'a>>, Vec<ConceptRef<'a>>) {
    let (mut called_so, mut beginning_so) = (Vec::new(), Vec::new());
    if vocabulary.concept_count() > LABEL_SCAN_CONCEPTS_MAX {
        return (called_so, beginning_so);
    }
    let is_beginning_telling = wanted.len() >= LABEL_PREFIX_BYTES_MIN;
    let wanted: Vec<char> = as_code(wanted).collect();
    for concept in vocabulary.concepts() {
        let mut begins_so = false;
        let is_called_so = concept.labels().any(|(_, label)| {
            let mut letters = as_code(label);
            let begins = wanted.iter().all(|letter| letters.next() == Some(*letter));
            begins_so |= begins;
            begins && letters.next().is_none()
        });
        if is_called_so {
            called_so.push(concept);
        } else if begins_so && is_beginning_telling {
            beginning_so.push(concept);
        }
    }
    (called_so, beginning_so)
}

fn lower_case(text: &str) -> impl Iterator<Item = char> {
    text.chars().flat_map(char::to_lowercase)
}

/// Returns the letters of a name in the form of a code: lower case, with words joined by one separator.
fn as_code(text: &str) -> impl Iterator<Item = char> {
    let letters = lower_case(text);
    letters.map(|letter| if matches!(letter, ' ' | '-') { '_' } else { letter })
}

fn spelt_alike<'a>(vocabulary: &'a Vocabulary, wanted: &str, edits_max: u8) -> Vec<ConceptRef<'a>> {
    if wanted.len() > vocabulary.longest_code() + usize::from(edits_max) {
        return Vec::new();
    }
    let mut near = Walk::over(vocabulary, wanted, edits_max).run();
    // Typing errors are rarer at the beginning, so the code with the longest common prefix is first among equally close
    // ones.
    near.sort_by_key(|near| (near.edits, std::cmp::Reverse(common_beginning(near.concept.code(), wanted))));
    near.into_iter().map(|near| near.concept).collect()
}

fn common_beginning(one: &str, other: &str) -> usize {
    one.bytes().zip(other.bytes()).take_while(|(one, other)| one.eq_ignore_ascii_case(other)).count()
}

struct Near<'a> {
    concept: ConceptRef<'a>,
    edits: u8,
}

/// Traversal of the sorted codes. A difference in case is not an edit.
struct Walk<'a> {
    vocabulary: &'a Vocabulary,
    wanted: Vec<u8>,
    edits_max: u8,
    steps: usize,
    /// The letters of the current prefix.
    prefix: Vec<u8>,
    /// By prefix length: the edit distance from each prefix of `wanted`.
    rows: Vec<Vec<u8>>,
    found: Vec<Near<'a>>,
}

impl<'a> Walk<'a> {
    fn over(vocabulary: &'a Vocabulary, wanted: &str, edits_max: u8) -> Self {
        // Codes have at most 100 bytes.
        let wanted: Vec<u8> = wanted.bytes().take(u8::MAX.into()).map(|byte| byte.to_ascii_lowercase()).collect();
        let empty_prefix = (0..=wanted.len()).map(|length| u8::try_from(length).unwrap_or(u8::MAX)).collect();
        let (prefix, rows, found) = (Vec::new(), vec![empty_prefix], Vec::new());
        Self { vocabulary, wanted, edits_max, steps: 0, prefix, rows, found }
    }

    fn run(mut self) -> Vec<Near<'a>> {
        self.walk(0, self.vocabulary.concept_count());
        self.found
    }

    /// Traverses the concepts `start..end`, which begin with the prefix. The recursion depth is bounded by the length
    /// of a code.
    fn walk(&mut self, start: usize, end: usize) {
        let depth = self.prefix.len();
        let mut next = start;
        while next < end && self.steps < STEPS_MAX {
            let Some(concept) = self.vocabulary.concept(ConceptIndex::at(next)) else { return };
            let Some(letter) = concept.code().as_bytes().get(depth).copied() else {
                // The code is the prefix itself: it sorts before all longer codes.
                let edits = self.rows.last().and_then(|row| row.last()).copied().unwrap_or(u8::MAX);
                if edits <= self.edits_max {
                    self.found.push(Near { concept, edits });
                }
                next += 1;
                continue;
            };
            let branch_end = self.branch_end(next, end, depth, letter);
            self.steps += 1;
            self.push(letter.to_ascii_lowercase());
            if self.is_within_reach() {
                self.walk(next, branch_end);
            }
            self.rows.pop();
            self.prefix.pop();
            next = branch_end;
        }
    }

    /// Returns the end of the range of codes with the letter at `depth`.
    fn branch_end(&self, start: usize, end: usize, depth: usize, letter: u8) -> usize {
        let (mut low, mut high) = (start + 1, end);
        while low < high {
            let middle = low + (high - low) / 2;
            let concept = self.vocabulary.concept(ConceptIndex::at(middle));
            let is_in_branch = concept.is_some_and(|concept| concept.code().as_bytes().get(depth) == Some(&letter));
            if is_in_branch { low = middle + 1 } else { high = middle }
        }
        low
    }

    /// Appends a letter to the prefix, and its row to the distance matrix.
    fn push(&mut self, letter: u8) {
        let depth = self.prefix.len();
        let row = {
            let above: &[u8] = self.rows.last().map_or(&[], Vec::as_slice);
            let before_swap = depth.checked_sub(1).and_then(|shorter| self.rows.get(shorter));
            let previous_letter = self.prefix.last().copied();
            let at = |row: &[u8], column: usize| row.get(column).copied().unwrap_or(u8::MAX);
            let mut row = vec![u8::MAX; above.len()];
            if let Some(first) = row.first_mut() {
                *first = at(above, 0).saturating_add(1);
            }
            // Prefixes whose length differs from the current one by more than the maximum edits exceed the distance.
            let reach = usize::from(self.edits_max);
            let within = self.wanted.iter().enumerate().take(depth + 1 + reach).skip(depth.saturating_sub(reach));
            for (column, wanted) in within {
                let changed = at(above, column).saturating_add(u8::from(*wanted != letter));
                let put_in = at(above, column + 1).saturating_add(1);
                let left_out = at(&row, column).saturating_add(1);
                let mut edits = changed.min(put_in).min(left_out);
                if let (Some(earlier), Some(before)) = (before_swap, column.checked_sub(1))
                    && previous_letter == Some(*wanted)
                    && self.wanted.get(before) == Some(&letter)
                {
                    edits = edits.min(at(earlier, before).saturating_add(1));
                }
                if let Some(place) = row.get_mut(column + 1) {
                    *place = edits;
                }
            }
            row
        };
        self.prefix.push(letter);
        self.rows.push(row);
    }

    /// Returns true if a code with the prefix can be within the maximum distance. A swap needs the row before the last.
    fn is_within_reach(&self) -> bool {
        let reach = |row: &Vec<u8>| row.iter().any(|edits| *edits <= self.edits_max);
        self.rows.iter().rev().take(2).any(reach)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{TestConcept, VocabularyBuilder};

    fn codes(found: &[ConceptRef<'_>]) -> Vec<String> {
        found.iter().map(|concept| concept.code().to_owned()).collect()
    }

    fn occupations() -> Vocabulary {
        VocabularyBuilder::new("urn:test:occupations")
            .concepts([
                ("2211", "Generalist medical practitioners"),
                ("2212", "Specialist medical practitioners"),
                ("2221", "Nursing professionals"),
                ("0110", "Commissioned armed forces officers"),
                ("9111", "Domestic cleaners and helpers"),
                ("9412", "Kitchen helpers"),
            ])
            .vocabulary()
    }

    #[test]
    fn finds_codes_at_one_edit() {
        let vocabulary = occupations();
        assert_eq!(codes(&nearest(&vocabulary, "2213")), ["2211", "2212"]);
        assert_eq!(codes(&nearest(&vocabulary, "110")), ["0110"]);
        assert_eq!(codes(&nearest(&vocabulary, "22112")), ["2211", "2212"]);
        assert!(nearest(&vocabulary, "8888").is_empty());
    }

    #[test]
    fn a_swap_of_two_letters_is_one_edit() {
        let vocabulary = VocabularyBuilder::new("urn:test:swap").concepts([("abcd", "x"), ("zzzz", "y")]).vocabulary();
        let near = Walk::over(&vocabulary, "acbd", 1).run();
        assert_eq!(near.iter().map(|near| (near.concept.code(), near.edits)).collect::<Vec<_>>(), [("abcd", 1)]);
    }

    #[test]
    fn what_is_longer_than_every_code_costs_no_walk() {
        let vocabulary = occupations();
        assert_eq!(codes(&spelt_alike(&vocabulary, "221100", 2)), ["2211"]);
        assert!(spelt_alike(&vocabulary, "2211000", 2).is_empty());
        let long = Walk::over(&vocabulary, &"2".repeat(100), 2);
        let rows = |walk: &Walk<'_>| walk.rows.iter().map(|row| row.len()).sum::<usize>();
        assert_eq!(rows(&long), 101, "one row, of the empty prefix");
    }

    #[test]
    fn case_is_no_edit() {
        let countries = [("KE", "Kenya"), ("TZ", "Tanzania")];
        let vocabulary = VocabularyBuilder::new("urn:test:case").concepts(countries).vocabulary();
        assert_eq!(in_other_case(&vocabulary, "ke").map(ConceptRef::code), Some("KE"));
        assert_eq!(in_other_case(&vocabulary, "KE"), None);
        assert_eq!(in_other_case(&vocabulary, "kf"), None);
    }

    #[test]
    fn a_name_leads_to_its_code() {
        let vocabulary = VocabularyBuilder::new("urn:test:status")
            .concepts([("S", "Never Married"), ("M", "Married"), ("W", "Widowed")])
            .vocabulary();
        assert_eq!(codes(&nearest(&vocabulary, "never-married")), ["S"]);
        assert_eq!(codes(&nearest(&vocabulary, "wid")), ["W"]);
        assert_eq!(codes(&nearest(&vocabulary, "married")).first().map(String::as_str), Some("M"));
    }

    #[test]
    fn labels_of_a_large_vocabulary_are_not_scanned() {
        for (count, expected) in [(LABEL_SCAN_CONCEPTS_MAX, 1), (LABEL_SCAN_CONCEPTS_MAX + 1, 0)] {
            let others: Vec<String> = (1..count).map(|number| format!("c{number}")).collect();
            let others = others.iter().map(|code| (code.as_str(), code.as_str()));
            let nurse = TestConcept::new("n", "Nurse").label("fr", "Infirmière");
            let vocabulary = VocabularyBuilder::new("urn:test:large").concepts(others).concept(nurse).vocabulary();
            assert_eq!(vocabulary.concept_count(), count);
            assert_eq!(vocabulary.labelled("INFIRMIÈRE").count(), expected, "{count}");
        }
    }

    #[test]
    fn few_codes_are_all_given_when_nothing_is_near() {
        let vocabulary = VocabularyBuilder::new("urn:test:few").concepts([("1", "Male"), ("2", "Female")]).vocabulary();
        assert_eq!(codes(&nearest(&vocabulary, "x\u{1F600}yz")), ["1", "2"]);
    }

    #[test]
    fn what_a_record_may_not_hold_is_not_suggested() {
        let vocabulary = VocabularyBuilder::new("urn:test:retired")
            .concepts([("abc", "Good")])
            .concept(TestConcept::new("abd", "Gone").inactive())
            .concept(TestConcept::new("abe", "Heading").heading())
            .vocabulary();
        assert_eq!(codes(&nearest(&vocabulary, "abx")), ["abc"]);
    }

    proptest::proptest! {
        #[test]
        fn the_walk_finds_exactly_the_codes_within_the_distance(
            codes in proptest::collection::btree_set("[ab1]{1,6}", 1..60),
            wanted in "[ab1]{1,7}",
            edits_max in 0u8..3,
        ) {
            let builder = VocabularyBuilder::new("urn:test:any");
            let vocabulary = builder.concepts(codes.iter().map(|code| (code.as_str(), "x"))).vocabulary();
            let near = Walk::over(&vocabulary, &wanted, edits_max).run();
            let found: Vec<(String, usize)> =
                near.iter().map(|near| (near.concept.code().to_owned(), usize::from(near.edits))).collect();
            let expected: Vec<(String, usize)> = codes
                .iter()
                .map(|code| (code.clone(), strsim::osa_distance(code, &wanted)))
                .filter(|(_, edits)| *edits <= usize::from(edits_max))
                .collect();
            proptest::prop_assert_eq!(found, expected);
        }
    }
}
