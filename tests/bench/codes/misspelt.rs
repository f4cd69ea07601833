//! Labels with one slip of the finger, and the codes that are meant by them. The same for the same packs.

use daftar::vocab::{ConceptRef, Vocabulary};

use super::scattered;

/// Fewer letters than this are not misspelt: another word would come out too often.
const MIN_LETTERS: usize = 5;
/// The search takes no longer texts.
const MAX_TEXT_BYTES: usize = 300;

/// A misspelt label with the code that is meant.
pub struct Misspelt {
    pub text: String,
    pub code: String,
    pub namespace: String,
    pub is_ideographic: bool,
}

/// `count` labels taken evenly from all vocabularies and languages, one letter of one word left out, doubled, changed or swapped with
/// the next.
pub fn labels(vocabularies: &[&Vocabulary], count: usize) -> Vec<Misspelt> {
    let mut labels: Vec<(ConceptRef<'_>, &str)> = Vec::new();
    for vocabulary in vocabularies {
        let concepts = vocabulary.concepts().filter(|concept| concept.is_usable());
        labels.extend(concepts.flat_map(|concept| concept.labels().map(move |(_, text)| (concept, text))));
    }
    let mut found = Vec::new();
    let mut number = 7_usize;
    while found.len() < count && !labels.is_empty() {
        number = scattered(number);
        let Some((concept, label)) = labels.get(number % labels.len()) else { break };
        let Some(text) = misspell_one_word(label, number) else {
            number += 1;
            continue;
        };
        if text == **label || text.len() > MAX_TEXT_BYTES {
            continue;
        }
        found.push(Misspelt {
            is_ideographic: text.chars().any(|it| ('\u{4e00}'..='\u{9fff}').contains(&it)),
            text,
            code: concept.code().to_owned(),
            namespace: concept.vocabulary().namespace().to_string(),
        });
    }
    found
}

/// None where no word is long enough.
fn misspell_one_word(label: &str, number: usize) -> Option<String> {
    let is_long = |word: &str| word.chars().filter(|letter| letter.is_alphabetic()).count() >= MIN_LETTERS;
    let mut words: Vec<String> = label.split(' ').map(str::to_owned).collect();
    let mut long: Vec<&mut String> = words.iter_mut().filter(|word| is_long(word)).collect();
    let chosen = (number >> 7) % long.len().max(1);
    let word = long.get_mut(chosen)?;
    **word = misspell(word, number)?;
    Some(words.join(" "))
}

fn misspell(word: &str, number: usize) -> Option<String> {
    let letters: Vec<char> = word.chars().collect();
    let place = 1 + (number >> 11) % letters.len().checked_sub(2)?;
    let (before, after) = letters.split_at_checked(place)?;
    let (previous, letter, rest) = (before.last()?, after.first()?, after.get(1..)?);
    let changed = match (number >> 3) % 4 {
        0 => Vec::new(),
        1 => vec![*letter, *letter],
        2 => vec![if *letter == 'e' { 'a' } else { *previous }],
        _ => {
            let (next, rest) = rest.split_first()?;
            return Some(before.iter().chain([next, letter]).chain(rest).collect());
        }
    };
    Some(before.iter().chain(&changed).chain(rest).collect())
}
