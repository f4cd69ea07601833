//! The items of one array of a JSON document, each with its first line.
//!
//! **Invariant:** the parser limits nesting to 128 levels; size is limited by the input.

use std::fmt;

use serde::de::{DeserializeOwned, SeqAccess, Visitor};
use serde::{Deserialize, Deserializer};
use serde_json::value::RawValue;

use crate::publisher_files::counts::Counts;
use crate::publisher_files::input::{Input, LineCounter};
use crate::publisher_files::problem::{ImportError, excerpt};

/// Parses a document that is one object. A member with many items is declared as [`RawValue`], for [`read`].
///
/// # Errors
/// It is not an object, has a member of another type, or is malformed.
pub fn document<'t, T: Deserialize<'t>>(input: &Input<'_>, text: &'t str) -> Result<T, ImportError> {
    if !text.trim_start().starts_with('{') {
        return Err(input.unusable(Some(1), "the document is not a JSON object"));
    }
    serde_json::from_str(text).map_err(|error| broken(input, 1, &error))
}

/// Returns a member of the document if it is an array.
pub fn array(member: Option<&RawValue>) -> Option<&RawValue> {
    member.filter(|member| member.get().starts_with('['))
}

/// Reads the items of an array of the document.
///
/// # Errors
/// An item is nested too deeply, or too many are rejected.
pub fn read<T: DeserializeOwned>(
    input: &Input<'_>,
    text: &str,
    array: &RawValue,
    counts: &mut Counts,
    mut each: impl FnMut(T, u64, &mut Counts),
) -> Result<(), ImportError> {
    let lines = LineCounter::of(text);
    let first_line = lines.line(offset(text, array.get()));
    let mut read_item = |item: &RawValue| {
        let line = lines.line(offset(text, item.get()));
        counts.rows += 1;
        let mut deserializer = serde_json::Deserializer::from_str(item.get());
        match serde_path_to_error::deserialize::<_, T>(&mut deserializer) {
            Ok(item) => each(item, line, counts),
            Err(error) if error.inner().is_data() => {
                let (path, reason) = (error.path().to_string(), error.inner().to_string());
                let reason = reason.split(" at line ").next().unwrap_or_default();
                let place = line + (error.inner().line() as u64).saturating_sub(1);
                counts.refuse(Some(place), None, format!("`{}`: {}", excerpt(&path), excerpt(reason)));
            }
            // Nested too deeply.
            Err(error) => return Err(broken(input, line, error.inner())),
        }
        counts.check_on()
    };
    let mut outcome = Ok(());
    let items = Items(|item: &RawValue| {
        if outcome.is_ok() {
            outcome = read_item(item);
        }
    });
    let parsed = serde_json::Deserializer::from_str(array.get()).deserialize_seq(items);
    outcome?;
    parsed.map_err(|error| broken(input, first_line, &error))
}

/// Passes the items of an array to a function one by one, so that not all of them are in memory.
struct Items<F>(F);

impl<'t, F: FnMut(&'t RawValue)> Visitor<'t> for Items<F> {
    type Value = ();

    fn expecting(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("an array")
    }

    fn visit_seq<A: SeqAccess<'t>>(mut self, mut items: A) -> Result<(), A::Error> {
        while let Some(item) = items.next_element()? {
            (self.0)(item);
        }
        Ok(())
    }
}

/// The byte offset of a part of the text.
fn offset(text: &str, part: &str) -> usize {
    part.as_ptr().addr().saturating_sub(text.as_ptr().addr())
}

/// Converts a parser error to a line of the document: its own line numbers start at the part.
fn broken(input: &Input<'_>, first_line: u64, error: &serde_json::Error) -> ImportError {
    let line = first_line + (error.line() as u64).saturating_sub(1);
    let message = error.to_string();
    let message = message.split(" at line ").next().unwrap_or_default();
    // "expected `,` or `]`"
    match message.strip_prefix("expected `") {
        Some(sign) => input.unusable(Some(line), format_args!("the JSON is broken: `{} is missing", excerpt(sign))),
        None => input.unusable(Some(line), format_args!("the JSON is broken: {}", excerpt(message))),
    }
}
