//! Invisible characters, and those that change the appearance of others.
//!
//! **Invariant:** a text without them reads as displayed: nothing in it is reversed, hidden or distinguishable only by
//! a machine.

use std::ops::RangeInclusive;

/// Format characters (general category Cf of Unicode 16.0) and the separators of lines and paragraphs.
const HIDDEN: [RangeInclusive<char>; 21] = [
    '\u{ad}'..='\u{ad}',
    '\u{600}'..='\u{605}',
    '\u{61c}'..='\u{61c}',
    '\u{6dd}'..='\u{6dd}',
    '\u{70f}'..='\u{70f}',
    '\u{890}'..='\u{891}',
    '\u{8e2}'..='\u{8e2}',
    '\u{180e}'..='\u{180e}',
    '\u{200b}'..='\u{200f}',
    '\u{2028}'..='\u{202e}',
    '\u{2060}'..='\u{2064}',
    '\u{2066}'..='\u{206f}',
    '\u{feff}'..='\u{feff}',
    '\u{fff9}'..='\u{fffb}',
    '\u{110bd}'..='\u{110bd}',
    '\u{110cd}'..='\u{110cd}',
    '\u{13430}'..='\u{1343f}',
    '\u{1bca0}'..='\u{1bca3}',
    '\u{1d173}'..='\u{1d17a}',
    '\u{e0001}'..='\u{e0001}',
    '\u{e0020}'..='\u{e007f}',
];
/// The first character of the scripts that require joiners; Latin, Greek and Cyrillic letters come before it.
const JOINED_FROM: char = '\u{590}';
/// Maximum number of characters of a text that an error repeats.
const SHOWN_CHARACTERS_MAX: usize = 60;

/// Returns the first control or format character of a text. A joiner (U+200C, U+200D) is permitted between two
/// characters of a script that uses it, such as Persian or Sinhala.
#[must_use]
pub fn hidden_character(text: &str) -> Option<char> {
    let mut before = None;
    let mut rest = text.chars();
    while let Some(character) = rest.next() {
        let is_joiner = matches!(character, '\u{200c}' | '\u{200d}');
        let is_joining = is_joiner && is_joined(before) && is_joined(rest.clone().next());
        if !is_joining && (character.is_control() || is_hidden(character)) {
            return Some(character);
        }
        before = Some(character);
    }
    None
}

/// Returns the text for an error message: truncated, in one line.
#[must_use]
pub(super) fn shown(text: &str) -> String {
    let mut shown: String = text
        .chars()
        .take(SHOWN_CHARACTERS_MAX)
        .map(|character| if character.is_control() { ' ' } else { character })
        .collect();
    if text.chars().nth(SHOWN_CHARACTERS_MAX).is_some() {
        shown.push('…');
    }
    shown
}

fn is_hidden(character: char) -> bool {
    HIDDEN.iter().any(|range| range.contains(&character))
}

fn is_joined(neighbour: Option<char>) -> bool {
    neighbour.is_some_and(|one| one >= JOINED_FROM && !one.is_whitespace() && !is_hidden(one))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn invisible_characters_are_found() {
        for hidden in
            ['\u{7}', '\u{ad}', '\u{200b}', '\u{200e}', '\u{202e}', '\u{2028}', '\u{2066}', '\u{feff}', '\u{e0041}']
        {
            assert_eq!(hidden_character(&format!("Farmer{hidden} ID")), Some(hidden), "{hidden:?}");
        }
        for text in
            ["Farmer ID", "Carte d\u{2019}agriculteur", "S\u{e1}mi", "\u{62f}\u{641}\u{62a}\u{631}", "\u{1f468}"]
        {
            assert_eq!(hidden_character(text), None, "{text}");
        }
    }

    #[test]
    fn joiners_are_valid_only_in_words_that_require_them() {
        assert_eq!(hidden_character("\u{645}\u{6cc}\u{200c}\u{62e}\u{648}"), None, "Persian");
        assert_eq!(hidden_character("\u{dc1}\u{dca}\u{200d}\u{dbb}\u{dd3}"), None, "Sinhala");
        for text in [
            "a\u{200c}b",
            "\u{645}\u{200c}",
            "\u{200d}\u{645}",
            "\u{645}\u{200c}\u{200c}\u{645}",
            "\u{645}\u{200d} \u{645}",
        ] {
            assert!(hidden_character(text).is_some(), "{text:?}");
        }
    }
}
