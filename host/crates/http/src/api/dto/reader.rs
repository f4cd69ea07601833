//! Reads the members of a JSON object one by one, collects every problem with its path, and rejects unknown members
//! with the closest match.
//!
//! **Invariant:** a body may contain very many unknown names: only a reported name is compared with the known ones.

#[cfg(test)]
mod tests;

use jiff::civil::Date;
use serde_json::{Map, Value};

use super::field;
use daftar_domain::calendar::{Period, parse_date};
use daftar_domain::code::{CodeError, CodeUri};
use daftar_domain::error::{AppError, FieldProblem};

/// Maximum number of collected problems; further ones are ignored.
pub(super) const PROBLEMS_MAX: usize = 100;
/// Maximum edit distance of a misspelt name from its suggestion.
const NAME_EDITS_MAX: usize = 2;

/// Problems found so far.
#[derive(Debug, Default)]
pub struct Problems(Vec<FieldProblem>);

impl Problems {
    /// Adds a problem.
    pub fn add(&mut self, field: impl Into<String>, code: &'static str, message: impl Into<String>) {
        if !self.is_full() {
            self.0.push(FieldProblem { field: field.into(), code, message: message.into() });
        }
    }

    /// Returns the result of `read`, if it found no problem.
    ///
    /// # Errors
    /// Every problem found.
    pub fn of<T>(read: impl FnOnce(&mut Self) -> T) -> Result<T, AppError> {
        let mut problems = Self::default();
        let value = read(&mut problems);
        problems.finish(value)
    }

    /// Returns the value of a result; its error is a problem.
    pub fn accept<T, E: ToString>(&mut self, field: &str, code: &'static str, result: Result<T, E>) -> Option<T> {
        result.map_err(|error| self.add(field, code, error.to_string())).ok()
    }

    /// Returns the value; its absence is a problem.
    pub fn require<T, M: Into<String>>(
        &mut self,
        field: &str,
        code: &'static str,
        value: Option<T>,
        message: impl FnOnce() -> M,
    ) -> Option<T> {
        if value.is_none() {
            self.add(field, code, message());
        }
        value
    }

    /// True if there is a problem with that field.
    #[must_use]
    pub fn names(&self, field: &str) -> bool {
        self.0.iter().any(|problem| problem.field == field)
    }

    /// True if further problems are ignored: their messages need not be generated.
    #[must_use]
    pub fn is_full(&self) -> bool {
        self.0.len() >= PROBLEMS_MAX
    }

    /// Adds the problems of a part that was checked separately.
    pub fn extend(&mut self, problems: Vec<FieldProblem>) {
        let room = PROBLEMS_MAX.saturating_sub(self.0.len());
        self.0.extend(problems.into_iter().take(room));
    }

    /// Returns the value if there are no problems.
    ///
    /// # Errors
    /// Every problem found.
    pub fn finish<T>(self, value: T) -> Result<T, AppError> {
        if self.0.is_empty() { Ok(value) } else { Err(AppError::Invalid(self.0)) }
    }
}

/// An object in the process of being read.
#[derive(Debug)]
pub struct ObjectReader {
    path: String,
    members: Map<String, Value>,
    requested: Vec<&'static str>,
}

impl ObjectReader {
    /// Starts to read the body itself.
    #[must_use]
    pub fn root(members: Map<String, Value>) -> Self {
        Self { path: String::new(), members, requested: Vec::new() }
    }

    /// Starts to read the object at `path`; any other value is a problem and reads as empty.
    pub fn at(path: String, value: Value, problems: &mut Problems) -> Self {
        let members = object_value(&path, value, problems).unwrap_or_default();
        Self { path, members, requested: Vec::new() }
    }

    /// The path of a member.
    #[must_use]
    pub fn path_of(&self, name: &str) -> String {
        if self.path.is_empty() { name.to_owned() } else { format!("{}.{name}", self.path) }
    }

    /// Removes and returns a member; `null` means absent.
    pub fn take(&mut self, name: &'static str) -> Option<Value> {
        self.requested.push(name);
        self.members.remove(name).filter(|value| !value.is_null())
    }

    /// A text of 1 to `bytes_max` bytes without control characters.
    pub fn text(&mut self, name: &'static str, bytes_max: usize, problems: &mut Problems) -> Option<String> {
        let value = self.take(name)?;
        text_value(&self.path_of(name), value, bytes_max, problems)
    }

    /// `true` or `false`.
    pub fn boolean(&mut self, name: &'static str, problems: &mut Problems) -> Option<bool> {
        let value = self.take(name)?;
        boolean_value(&self.path_of(name), &value, problems)
    }

    /// A day.
    pub fn date(&mut self, name: &'static str, problems: &mut Problems) -> Option<Date> {
        let value = self.take(name)?;
        date_value(&self.path_of(name), value, problems)
    }

    /// A whole number from 1; `1.0` is accepted too.
    pub fn count(&mut self, name: &'static str, problems: &mut Problems) -> Option<u32> {
        let value = self.take(name)?;
        count_value(&self.path_of(name), &value, problems)
    }

    /// One of some words.
    pub fn word<T: Copy>(&mut self, name: &'static str, words: &[(&str, T)], problems: &mut Problems) -> Option<T> {
        let text = self.text(name, 100, problems)?;
        let found = words.iter().find(|(word, _)| *word == text).map(|(_, value)| *value);
        let known = || known_values(words.iter().map(|(word, _)| *word));
        problems.require(&self.path_of(name), "unknown_value", found, known)
    }

    /// The items of a list, each with its path; absent and empty are distinct.
    pub fn list(
        &mut self,
        name: &'static str,
        items_max: usize,
        problems: &mut Problems,
    ) -> Option<Vec<(String, Value)>> {
        let value = self.take(name)?;
        items_value(&self.path_of(name), value, items_max, problems)
    }

    /// An object inside this one.
    pub fn object(&mut self, name: &'static str, problems: &mut Problems) -> Option<Self> {
        let value = self.take(name)?;
        Some(Self::at(self.path_of(name), value, problems))
    }

    /// The unread members of an object inside this one.
    pub fn members(&mut self, name: &'static str, problems: &mut Problems) -> Option<Map<String, Value>> {
        let value = self.take(name)?;
        object_value(&self.path_of(name), value, problems)
    }

    /// A code in any of its written forms.
    pub fn code(&mut self, name: &'static str, problems: &mut Problems) -> Option<CodeUri> {
        let value = self.take(name)?;
        code_value(&self.path_of(name), value, problems)
    }

    /// A text that is part of a code, not validated here.
    fn code_part(&mut self, name: &'static str, problems: &mut Problems) -> Option<String> {
        match self.take(name)? {
            Value::String(text) => Some(text),
            other => {
                problems.add(self.path_of(name), "wrong_type", format!("must be a text, not {}", kind(&other)));
                None
            }
        }
    }

    /// `{start, end}`.
    pub fn period(&mut self, name: &'static str, problems: &mut Problems) -> Option<Period> {
        let value = self.take(name)?;
        field::period(&self.path_of(name), value, problems)
    }

    /// Returns the value of a required member. Its absence is a problem, unless the member has a problem already.
    pub fn needed<T>(&self, name: &str, value: Option<T>, message: &str, problems: &mut Problems) -> Option<T> {
        if value.is_none() && !self.is_problem(name, problems) {
            problems.add(self.path_of(name), "required", message);
        }
        value
    }

    /// True if a member has a problem.
    #[must_use]
    pub fn is_problem(&self, name: &str, problems: &Problems) -> bool {
        let path = self.path_of(name);
        problems.0.iter().any(|problem| problem.field == path)
    }

    /// True if a member or a part of it has a problem.
    #[must_use]
    pub fn is_problem_within(&self, name: &str, problems: &Problems) -> bool {
        let path = self.path_of(name);
        problems.0.iter().any(|problem| {
            problem
                .field
                .strip_prefix(path.as_str())
                .is_some_and(|rest| rest.is_empty() || rest.starts_with(['.', '[']))
        })
    }

    /// Reports every unknown member with the closest match, unless the limit of problems is reached.
    pub fn finish(self, problems: &mut Problems) {
        for name in self.members.keys() {
            if problems.is_full() {
                return;
            }
            let shown = shown(name);
            let message = match nearest(&shown, self.requested.iter().copied(), NAME_EDITS_MAX) {
                Some(known) => format!("there is no such field; did you mean `{known}`?"),
                None => "there is no such field".to_owned(),
            };
            problems.add(self.path_of(&shown), "unknown_field", message);
        }
    }
}

/// The message for an unknown word of a field.
#[must_use]
pub fn known_values<'w>(words: impl IntoIterator<Item = &'w str>) -> String {
    let words: Vec<String> = words.into_iter().map(|word| format!("`{word}`")).collect();
    format!("known values: {}", words.join(", "))
}

/// The text at `path`.
pub fn text_value(path: &str, value: Value, bytes_max: usize, problems: &mut Problems) -> Option<String> {
    let Value::String(text) = value else {
        problems.add(path, "wrong_type", format!("must be a text, not {}", kind(&value)));
        return None;
    };
    if text.trim().is_empty() {
        problems.add(path, "empty", "must not be empty; omit the field instead");
    } else if text.len() > bytes_max {
        problems.add(path, "too_long", format!("must have at most {bytes_max} bytes, not {}", text.len()));
    } else if text.chars().any(char::is_control) {
        problems.add(path, "control_character", "must not contain control characters");
    } else {
        return Some(text);
    }
    None
}

/// The members of the object at `path`.
pub fn object_value(path: &str, value: Value, problems: &mut Problems) -> Option<Map<String, Value>> {
    match value {
        Value::Object(members) => Some(members),
        other => {
            problems.add(path, "wrong_type", format!("must be an object, not {}", kind(&other)));
            None
        }
    }
}

/// `true` or `false` at `path`.
pub fn boolean_value(path: &str, value: &Value, problems: &mut Problems) -> Option<bool> {
    let message = || format!("must be `true` or `false`, not {}", kind(value));
    problems.require(path, "wrong_type", value.as_bool(), message)
}

/// The day at `path`.
pub fn date_value(path: &str, value: Value, problems: &mut Problems) -> Option<Date> {
    let text = text_value(path, value, 40, problems)?;
    problems.accept(path, "invalid_date", parse_date(&text))
}

/// The whole number from 1 at `path`; `1.0` is accepted too.
pub fn count_value(path: &str, value: &Value, problems: &mut Problems) -> Option<u32> {
    let number = value.as_f64().filter(|number| number.fract() == 0.0 && (1.0..=f64::from(u32::MAX)).contains(number));
    let number = problems.require(path, "wrong_type", number, || "must be a whole number from 1");
    // Every whole number of 32 bits is exact in 64 bits of floating point.
    number.map(|number| number as u32)
}

/// The items of the list at `path`, each with its own path.
pub fn items_value(
    path: &str,
    value: Value,
    items_max: usize,
    problems: &mut Problems,
) -> Option<Vec<(String, Value)>> {
    let Value::Array(items) = value else {
        problems.add(path, "wrong_type", format!("must be a list, not {}", kind(&value)));
        return None;
    };
    if items.len() > items_max {
        problems.add(path, "too_many", format!("must have at most {items_max} items, not {}", items.len()));
        return None;
    }
    Some(items.into_iter().enumerate().map(|(at, item)| (format!("{path}[{at}]"), item)).collect())
}

/// The code at `path`: the URI string `<namespace>#<code>`, `<namespace>|<code>`, the coded object of a response, or
/// `{coding: [{system, code}]}`.
pub fn code_value(path: &str, value: Value, problems: &mut Problems) -> Option<CodeUri> {
    let parsed = match value {
        Value::String(text) => CodeUri::parse(&text),
        Value::Object(members) => code_of_object(path, members, problems)?,
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::Array(_) => {
            problems.add(path, "wrong_type", CODE_FORMS);
            return None;
        }
    };
    problems.accept(path, "invalid_code", parsed)
}

const CODE_FORMS: &str =
    "a code is written as a text `<namespace>#<code>`, as the object of a response, or as `{coding: [{system, code}]}`";

/// A code as an object: as in a response, in parts, or with one coding. `display` is not checked.
fn code_of_object(
    path: &str,
    members: Map<String, Value>,
    problems: &mut Problems,
) -> Option<Result<CodeUri, CodeError>> {
    let found_before = problems.0.len();
    let mut reader = ObjectReader { path: path.to_owned(), members, requested: Vec::new() };
    let parsed = if let Some(codings) = reader.take("coding") {
        one_coding(codings).and_then(|members| {
            let mut coding = ObjectReader { path: format!("{path}.coding[0]"), members, requested: Vec::new() };
            coding.take("display");
            let system = coding.code_part("system", problems);
            let parts = system.zip(coding.code_part("code", problems));
            coding.finish(problems);
            parts.map(|(system, code)| CodeUri::from_parts(&system, &code))
        })
    } else {
        reader.take("display");
        let uri = reader.code_part("uri", problems);
        let (namespace, code) = (reader.code_part("namespace", problems), reader.code_part("code", problems));
        match uri {
            None => namespace.zip(code).map(|(namespace, code)| CodeUri::from_parts(&namespace, &code)),
            Some(uri) => {
                let parsed = CodeUri::parse(&uri);
                let disagrees = |given: Option<String>, expected: &str| given.is_some_and(|given| given != expected);
                if let Ok(parsed) = &parsed
                    && (disagrees(code, parsed.code.as_str()) || disagrees(namespace, parsed.namespace.as_str()))
                {
                    problems.add(path, "contradiction", "`uri` and `code` or `namespace` name different codes");
                }
                Some(parsed)
            }
        }
    };
    if parsed.is_none() {
        problems.add(path, "wrong_type", CODE_FORMS);
    }
    reader.finish(problems);
    // If the limit of problems is reached, this object has one already.
    parsed.filter(|_| problems.0.len() == found_before)
}

/// The only coding of a concept.
fn one_coding(codings: Value) -> Option<Map<String, Value>> {
    let Value::Array(codings) = codings else { return None };
    let Ok([Value::Object(coding)]) = <[Value; 1]>::try_from(codings) else { return None };
    Some(coding)
}

/// The type of a JSON value, for messages.
pub fn kind(value: &Value) -> &'static str {
    match value {
        Value::Null => "null",
        Value::Bool(_) => "`true` or `false`",
        Value::Number(_) => "a number",
        Value::String(_) => "a text",
        Value::Array(_) => "a list",
        Value::Object(_) => "an object",
    }
}

/// Maximum length of an unknown name in a message, in characters.
const SHOWN_CHARACTERS: usize = 60;

/// An unknown name for a message. A name without visible characters is shown as `""`: a problem names its place.
pub fn shown(name: &str) -> String {
    let shown: String = name.chars().filter(|one| !one.is_control()).take(SHOWN_CHARACTERS).collect();
    if shown.is_empty() { "\"\"".to_owned() } else { shown }
}

/// The known name with the fewest edits, at most `edits_max`; of several the first in order.
pub fn nearest<'a>(name: &str, known: impl IntoIterator<Item = &'a str>, edits_max: usize) -> Option<&'a str> {
    #[cfg(test)]
    searches::count();
    let distances = known.into_iter().map(|known| (strsim::osa_distance(name, known), known));
    distances.min().filter(|(edits, _)| *edits <= edits_max).map(|(_, known)| known)
}

/// Number of name comparisons on this thread.
#[cfg(test)]
pub mod searches {
    use std::cell::Cell;

    thread_local! {
        static MADE: Cell<usize> = const { Cell::new(0) };
    }

    pub(super) fn count() {
        MADE.set(MADE.get() + 1);
    }

    /// Returns the number of comparisons that a function makes.
    pub fn made_by(something: impl FnOnce()) -> usize {
        let before = MADE.get();
        something();
        MADE.get() - before
    }
}

#[cfg(test)]
mod nearest_tests {
    use super::*;

    #[test]
    fn the_nearest_is_meant_unless_it_is_far() {
        let known = ["gender", "name", "names"];
        for (typed, meant) in [
            ("gendre", Some("gender")),
            ("nam", Some("name")),
            ("nmaes", Some("names")),
            ("gende rs", Some("gender")),
            ("district", None),
            ("", None),
        ] {
            assert_eq!(nearest(typed, known, 2), meant, "{typed}");
        }
        assert_eq!(nearest("name", [], 2), None);
    }

    #[test]
    fn a_long_name_is_truncated_and_shown_without_control_characters() {
        assert_eq!(shown("a\u{7}b"), "ab");
        assert_eq!([shown(""), shown("\n")], ["\"\"", "\"\""]);
        assert_eq!(shown(&format!("\n{}", "x".repeat(61))), "x".repeat(60));
    }
}
