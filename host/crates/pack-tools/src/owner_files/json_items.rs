//! The items of one array of a JSON document, each with the line that it begins on.
//!
//! **Invariant:** nesting is bounded by the parser, at 128 levels; size by the bound on documents.

use serde::de::{DeserializeOwned, IgnoredAny};

use crate::owner_files::input::Input;
use crate::owner_files::problem::{ImportError, excerpt};
use crate::owner_files::tally::Tally;

/// The items of an array, whose `[` is at `start` of the document.
///
/// # Errors
/// What stands there is no array, or is broken so that the items cannot be told apart.
pub fn read<T: DeserializeOwned>(
    input: &Input<'_>,
    text: &str,
    start: usize,
    tally: &mut Tally,
    mut each: impl FnMut(T, u64, &mut Tally),
) -> Result<(), ImportError> {
    let line_of = |at: usize| text.bytes().take(at).filter(|byte| *byte == b'\n').count() as u64 + 1;
    let mut at = start + 1;
    let mut line = line_of(at);
    let mut counted_to = at;
    let mut is_first = true;
    loop {
        at = skip_space(text, at);
        let is_end = text.as_bytes().get(at) == Some(&b']');
        if is_end {
            return Ok(());
        }
        if !is_first {
            if text.as_bytes().get(at) != Some(&b',') {
                return Err(input.unusable(Some(line_of(at)), "the JSON is broken: `,` or `]` is missing"));
            }
            at = skip_space(text, at + 1);
        }
        is_first = false;
        let between = text.as_bytes().get(counted_to..at).unwrap_or_default();
        line += between.iter().filter(|byte| **byte == b'\n').count() as u64;
        counted_to = at;
        tally.rows += 1;
        // First where the item ends, so that one of the wrong shape does not hide where the next one begins.
        let (_, end) = value::<IgnoredAny>(input, text, at)?;
        let item = text.get(at..end).unwrap_or_default();
        let mut deserializer = serde_json::Deserializer::from_str(item);
        match serde_path_to_error::deserialize::<_, T>(&mut deserializer) {
            Ok(item) => each(item, line, tally),
            Err(error) if error.inner().is_data() => {
                let (path, reason) = (error.path().to_string(), error.inner().to_string());
                let reason = reason.split(" at line ").next().unwrap_or_default();
                let place = line + (error.inner().line() as u64).saturating_sub(1);
                tally.refuse(Some(place), None, format!("`{}`: {}", excerpt(&path), excerpt(reason)));
            }
            // Nested more deeply than is read.
            Err(error) => return Err(broken(input, line, error.inner())),
        }
        at = end;
        tally.check_on()?;
    }
}

/// Where the array that is the member `name` of the document's object begins, and the object without that member: a
/// document is one object, and its list may be large.
///
/// # Errors
/// The document is no object, or is broken. `Ok(None)` when there is no such member, or it is no array.
pub fn find(input: &Input<'_>, text: &str, name: &str) -> Result<Option<usize>, ImportError> {
    let mut at = skip_space(text, 0);
    if text.as_bytes().get(at) != Some(&b'{') {
        return Err(input.unusable(Some(1), "the document is not a JSON object"));
    }
    at += 1;
    loop {
        at = skip_space(text, at);
        if matches!(text.as_bytes().get(at), Some(b'}') | None) {
            return Ok(None);
        }
        let (key, after) = value::<String>(input, text, at)?;
        at = skip_space(text, after);
        if text.as_bytes().get(at) != Some(&b':') {
            return Err(
                input.unusable(None, format_args!("the JSON is broken: `:` is missing after `{}`", excerpt(&key)))
            );
        }
        at = skip_space(text, at + 1);
        if key == name {
            return Ok((text.as_bytes().get(at) == Some(&b'[')).then_some(at));
        }
        (_, at) = value::<IgnoredAny>(input, text, at)?;
        at = skip_space(text, at);
        if text.as_bytes().get(at) == Some(&b',') {
            at += 1;
        }
    }
}

/// The value that begins at `at`, and where it ends.
fn value<T: DeserializeOwned>(input: &Input<'_>, text: &str, at: usize) -> Result<(T, usize), ImportError> {
    let line = || text.bytes().take(at).filter(|byte| *byte == b'\n').count() as u64 + 1;
    let mut values = serde_json::Deserializer::from_str(text.get(at..).unwrap_or_default()).into_iter::<T>();
    match values.next() {
        Some(Ok(value)) => Ok((value, at + values.byte_offset())),
        Some(Err(error)) => Err(broken(input, line(), &error)),
        None => Err(input.unusable(Some(line()), "the JSON is broken: the file ends within an object")),
    }
}

/// The parser's error at the line of the document: its own lines count from where it began.
pub fn broken(input: &Input<'_>, first_line: u64, error: &serde_json::Error) -> ImportError {
    let line = first_line + (error.line() as u64).saturating_sub(1);
    let message = error.to_string();
    let message = message.split(" at line ").next().unwrap_or_default();
    input.unusable(Some(line), format_args!("the JSON is broken: {}", excerpt(message)))
}

fn skip_space(text: &str, at: usize) -> usize {
    let rest = text.as_bytes().get(at..).unwrap_or_default();
    at + rest.iter().take_while(|byte| matches!(byte, b' ' | b'\t' | b'\r' | b'\n')).count()
}
