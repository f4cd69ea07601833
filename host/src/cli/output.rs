//! Output of commands.

use std::io::{self, Write};
use std::sync::atomic::{AtomicBool, Ordering};

use indicatif::{ProgressBar, ProgressStyle};
use serde::de::DeserializeOwned;
use serde_json::Value;

use super::admin_client::read;
use super::error::ErrorKind;
use super::{CliError, GlobalArgs};
use daftar_api_types::admin::ListBody;

/// True if notes and progress are suppressed: `--quiet`, set once at startup.
static IS_QUIET: AtomicBool = AtomicBool::new(false);

/// Suppresses notes and progress.
pub fn be_quiet() {
    IS_QUIET.store(true, Ordering::Relaxed);
}

/// Prints a line on standard output. A disconnected reader is not an error; a failed write to a disk ends the command,
/// as its output is lost.
pub fn line(text: impl std::fmt::Display) {
    if let Err(error) = line_if_heard(text) {
        let reported =
            CliError::output(format_args!("standard output cannot be written: {error}; the command was completed"));
        complain(&reported, false);
        std::process::exit(reported.kind.exit_code().into());
    }
}

/// Prints a line on standard output. A disconnected reader is not an error.
///
/// # Errors
/// If the line cannot be written.
pub fn line_if_heard(text: impl std::fmt::Display) -> io::Result<()> {
    let mut out = io::stdout().lock();
    match writeln!(out, "{text}").and_then(|()| out.flush()) {
        Err(error) if error.kind() == io::ErrorKind::BrokenPipe => Ok(()),
        written => written,
    }
}

/// Prints JSON on standard output.
pub fn json(value: &Value) {
    line(serde_json::to_string_pretty(value).unwrap_or_else(|_| value.to_string()));
}

/// Prints a response body: with `--json` unchanged, else parsed and printed by `print`.
///
/// # Errors
/// If the body does not match the type.
pub fn body<T: DeserializeOwned>(global: &GlobalArgs, body: Value, print: impl FnOnce(T)) -> Result<(), CliError> {
    if global.json {
        json(&body)
    } else {
        print(read(body)?)
    }
    Ok(())
}

/// Prints a list: with `--json` unchanged, else as a table.
///
/// # Errors
/// As [`body`].
pub fn list<T: DeserializeOwned>(
    global: &GlobalArgs,
    list: Value,
    headings: &[&str],
    row: impl Fn(&T) -> Vec<String>,
) -> Result<(), CliError> {
    body(global, list, |list: ListBody<T>| table(headings, &list.data.iter().map(row).collect::<Vec<_>>()))
}

/// Prints a list of records: with `--json` unchanged, else as a table of the cells that `cell` returns for each
/// heading.
///
/// # Errors
/// As [`body`].
pub fn list_of_members(
    global: &GlobalArgs,
    records: Value,
    headings: &[&'static str],
    cell: impl Fn(&Value, &'static str) -> String,
) -> Result<(), CliError> {
    list(global, records, headings, |record: &Value| headings.iter().map(|&name| cell(record, name)).collect())
}

/// Returns the text of the member at a dotted path: empty if the member is missing; list items are separated by commas.
pub fn text_at(record: &Value, path: &'static str) -> String {
    path.split('.').try_fold(record, |at, name| at.get(name)).map(text_of).unwrap_or_default()
}

/// Returns a value as text: empty for null; list items are separated by commas.
pub fn text_of(value: &Value) -> String {
    match value {
        Value::Null => String::new(),
        Value::String(text) => text.clone(),
        Value::Array(items) => items.iter().filter_map(Value::as_str).collect::<Vec<_>>().join(", "),
        Value::Bool(_) | Value::Number(_) | Value::Object(_) => value.to_string(),
    }
}

/// Returns the period between two members with dates; an open end is empty.
pub fn days(record: &Value, from: &'static str, until: &'static str) -> String {
    format!("{}..{}", text_at(record, from), text_at(record, until))
}

/// Adds the members of an object to another object.
pub fn joined(mut object: Value, more: Value) -> Value {
    if let (Value::Object(members), Value::Object(more)) = (&mut object, more) {
        members.extend(more);
    }
    object
}

/// Prints the result of a command: with `--json` as an object, else as text.
pub fn done(global: &GlobalArgs, body: &Value, words: impl std::fmt::Display) {
    if global.json { json(body) } else { line(words) }
}

/// Prints values with their labels, one per line; labels are padded to `width`.
pub fn labelled<V: std::fmt::Display>(width: usize, rows: impl IntoIterator<Item = (&'static str, V)>) {
    for (label, value) in rows {
        line(format_args!("{label:<width$} {value}"));
    }
}

/// Returns a progress bar on standard error, visible if standard error is a terminal.
pub fn bar(is_hidden: bool, length: u64, template: &str) -> ProgressBar {
    let bar =
        if is_hidden || IS_QUIET.load(Ordering::Relaxed) { ProgressBar::hidden() } else { ProgressBar::new(length) };
    bar.with_style(ProgressStyle::with_template(template).unwrap_or_else(|_| ProgressStyle::default_bar()))
}

/// Prints a complete response body: with `--json` unchanged, else one member per line.
pub fn whole(global: &GlobalArgs, body: &Value) {
    if global.json { json(body) } else { members(body) }
}

/// Prints an error on standard error: as a sentence, or as a JSON object on one line.
pub fn complain(error: &CliError, as_json: bool) {
    if as_json { complain_json(&error.to_json()) } else { error_line(format_args!("error: {error}")) }
}

/// Prints the output of the argument parser and returns the exit code: help and version succeed, all other output is a
/// usage error.
pub fn print_usage(reported: &clap::Error, as_json: bool) -> u8 {
    let is_wrong = reported.use_stderr();
    if is_wrong && as_json {
        let text = reported.render().to_string();
        let text = text.trim_end();
        let error = CliError::usage(text.strip_prefix("error: ").unwrap_or(text));
        complain(&error, true);
        return error.kind.exit_code();
    }
    match reported.print() {
        Err(error) if !is_wrong && error.kind() != io::ErrorKind::BrokenPipe => {
            let error = CliError::output(format_args!("standard output cannot be written: {error}"));
            complain(&error, as_json);
            error.kind.exit_code()
        }
        Ok(()) | Err(_) if is_wrong => ErrorKind::Usage.exit_code(),
        Ok(()) | Err(_) => 0,
    }
}

/// Prints a text with terminated lines on standard error.
pub fn error_text(text: &str) {
    let mut out = std::io::stderr().lock();
    if write!(out, "{text}").is_err() {
        tracing::debug!("standard error is closed");
    }
}

/// Prints JSON on standard error, when standard output contains other data.
pub fn complain_json(value: &Value) {
    error_line(serde_json::to_string(value).unwrap_or_else(|_| value.to_string()));
}

/// Prints an informational line on standard error, unless `--quiet` is set.
pub fn note(text: impl std::fmt::Display) {
    if !IS_QUIET.load(Ordering::Relaxed) {
        error_line(text);
    }
}

/// Prints a line on standard error.
fn error_line(text: impl std::fmt::Display) {
    let mut out = std::io::stderr().lock();
    if writeln!(out, "{text}").is_err() {
        tracing::debug!("standard error is closed");
    }
}

/// Prints rows under headings, each column as wide as its widest cell.
pub fn table(headings: &[&str], rows: &[Vec<String>]) {
    let mut widths: Vec<usize> = headings.iter().map(|heading| heading.chars().count()).collect();
    for row in rows {
        for (width, cell) in widths.iter_mut().zip(row) {
            *width = (*width).max(cell.chars().count());
        }
    }
    let render = |cells: &[String]| {
        let padded = cells.iter().zip(&widths).map(|(cell, width)| format!("{cell:<width$}"));
        padded.collect::<Vec<_>>().join("  ").trim_end().to_owned()
    };
    line(render(&headings.iter().map(|heading| heading.to_uppercase()).collect::<Vec<_>>()));
    for row in rows {
        line(render(row));
    }
}

/// Prints every member of an object with its path, one per line.
fn members(value: &Value) {
    let mut rows = Vec::new();
    collect("", value, &mut rows);
    let width = rows.iter().map(|(path, _)| path.chars().count()).max().unwrap_or_default();
    for (path, text) in rows {
        line(format_args!("{path:<width$}  {text}"));
    }
}

/// Collects the nested values of a value, each with its path. Lists of objects are numbered from 0; other lists are one
/// line.
fn collect(path: &str, value: &Value, rows: &mut Vec<(String, String)>) {
    match value {
        Value::Object(members) => {
            for (name, member) in members {
                let within = if path.is_empty() { name.clone() } else { format!("{path}.{name}") };
                collect(&within, member, rows);
            }
        }
        Value::Array(items) if items.iter().any(Value::is_object) => {
            for (at, item) in items.iter().enumerate() {
                collect(&format!("{path}[{at}]"), item, rows);
            }
        }
        Value::Array(items) => {
            let texts: Vec<String> = items.iter().map(text_in_line).collect();
            rows.push((path.to_owned(), texts.join(", ")));
        }
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => {
            rows.push((path.to_owned(), text_in_line(value)));
        }
    }
}

/// Returns a value as text without line breaks.
fn text_in_line(value: &Value) -> String {
    match value {
        Value::String(text) => text.replace(['\n', '\r'], " "),
        Value::Null => "-".to_owned(),
        Value::Bool(_) | Value::Number(_) | Value::Array(_) | Value::Object(_) => value.to_string(),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn every_value_of_an_object_has_its_path() {
        let value =
            json!({"a": {"b": 1, "c": null}, "l": ["x", "y"], "o": [{"p": "two\nlines"}, {"p": true}], "e": []});
        let mut rows = Vec::new();
        collect("", &value, &mut rows);
        let shown: Vec<String> = rows.into_iter().map(|(path, text)| format!("{path}={text}")).collect();
        assert_eq!(shown, ["a.b=1", "a.c=-", "e=", "l=x, y", "o[0].p=two lines", "o[1].p=true"]);
    }
}
