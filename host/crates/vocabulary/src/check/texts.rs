//! What a text in a pack may look like.

use super::limits::NAME_BYTES_MAX;
use super::problem::TextFault;

/// What is wrong with a text of one line.
pub(super) fn line_fault(text: &str, bytes_max: usize) -> Option<TextFault> {
    text_fault(text, bytes_max).or_else(|| text.contains(char::is_control).then_some(TextFault::ControlCharacter))
}

/// What is wrong with a text that may have several lines.
pub(super) fn lines_fault(text: &str, bytes_max: usize) -> Option<TextFault> {
    let is_forbidden = |character: char| character.is_control() && character != '\n';
    text_fault(text, bytes_max).or_else(|| text.contains(is_forbidden).then_some(TextFault::ControlCharacter))
}

/// Whether a text is a name of ours: lower-case letters, digits and underscores, a letter first.
pub(super) fn is_name(text: &str) -> bool {
    text.len() <= NAME_BYTES_MAX
        && text.starts_with(|first: char| first.is_ascii_lowercase())
        && text.bytes().all(|byte| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'_')
}

fn text_fault(text: &str, bytes_max: usize) -> Option<TextFault> {
    if text.is_empty() {
        Some(TextFault::Empty)
    } else if text.len() > bytes_max {
        Some(TextFault::TooLong { bytes: text.len(), max: bytes_max })
    } else if unicode_normalization::is_nfc(text) {
        None
    } else {
        Some(TextFault::NotNormalized)
    }
}
