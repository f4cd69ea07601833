//! How texts and lists that a guest wrote become values that the host keeps.
//!
//! **Invariant:** every text and every list has a bound, and a complaint names the field and shows only the beginning of what
//! was there.

use crate::fault::excerpt;
use crate::sandbox::CallError;

/// Where in an answer a value stands, such as `concept "BR": labels`. Made only when something is wrong.
pub(super) type Place<'a> = &'a dyn Fn() -> String;

/// An answer that breaks the interface.
pub(super) fn invalid(place: Place<'_>, reason: impl std::fmt::Display) -> CallError {
    CallError::InvalidAnswer(format!("{}: {reason}", excerpt(&place())))
}

/// A text of at most that many bytes, without control characters.
pub(super) fn text(value: String, bytes_max: usize, place: Place<'_>) -> Result<String, CallError> {
    if value.len() > bytes_max {
        let (length, shown) = (value.len(), excerpt(value.get(..40).unwrap_or_default()));
        return Err(invalid(place, format_args!("a text of {length} bytes, at most {bytes_max} are read: `{shown}`")));
    }
    // Line breaks and tabs occur in definitions; nothing else below a blank has a meaning in a label or a message.
    let is_foreign = |character: char| character.is_control() && !matches!(character, '\n' | '\t');
    if value.contains(is_foreign) {
        return Err(invalid(place, format_args!("a control character in the text `{}`", excerpt(&value))));
    }
    Ok(value)
}

/// A text as above that says something.
pub(super) fn filled(value: String, bytes_max: usize, place: Place<'_>) -> Result<String, CallError> {
    if value.trim().is_empty() {
        return Err(invalid(place, "the text is empty"));
    }
    text(value, bytes_max, place)
}

/// A list of at most that many items, each read by `read`.
pub(super) fn list<T, U>(
    items: Vec<T>,
    count_max: usize,
    place: Place<'_>,
    mut read: impl FnMut(T) -> Result<U, CallError>,
) -> Result<Vec<U>, CallError> {
    if items.len() > count_max {
        return Err(invalid(place, format_args!("a list of {} items, at most {count_max} are read", items.len())));
    }
    let mut read_items = Vec::with_capacity(items.len());
    for item in items {
        read_items.push(read(item)?);
    }
    Ok(read_items)
}

/// A name, code or URI, parsed into its type.
pub(super) fn parsed<T, E: std::fmt::Display>(
    value: &str,
    place: Place<'_>,
    parse: impl FnOnce(&str) -> Result<T, E>,
) -> Result<T, CallError> {
    parse(value).map_err(|error| invalid(place, format_args!("`{}`: {error}", excerpt(value))))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn complaint<T: std::fmt::Debug>(result: Result<T, CallError>) -> String {
        match result {
            Err(CallError::InvalidAnswer(reason)) => reason,
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn texts_are_bounded_by_bytes() {
        let place = || "name".to_owned();
        assert!(text("x".repeat(9), 10, &place).is_ok());
        assert!(text("x".repeat(10), 10, &place).is_ok());
        assert!(complaint(text("x".repeat(11), 10, &place)).starts_with("name: a text of 11 bytes"));
    }

    #[test]
    fn control_characters_are_refused_and_not_repeated() {
        let place = || "name".to_owned();
        let reason = complaint(text("a\u{1b}[2J".to_owned(), 10, &place));
        assert!(!reason.contains('\u{1b}'), "{reason}");
        assert!(text("two\nlines".to_owned(), 10, &place).is_ok());
    }

    #[test]
    fn an_empty_text_says_nothing() {
        assert!(complaint(filled(" \t".to_owned(), 10, &|| "label".to_owned())).contains("label: the text is empty"));
    }

    #[test]
    fn lists_are_bounded_by_items() {
        let place = || "labels".to_owned();
        assert!(list(vec![1, 2], 2, &place, Ok).is_ok());
        assert!(complaint(list(vec![1, 2, 3], 2, &place, Ok)).contains("labels: a list of 3 items"));
    }
}
