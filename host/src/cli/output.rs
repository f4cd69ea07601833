//! What commands print.

use std::io::Write;

use serde_json::Value;

use super::CliError;

/// Prints a line on standard output; a reader that went away is not an error.
pub fn line(text: impl std::fmt::Display) {
    let mut out = std::io::stdout().lock();
    let written = writeln!(out, "{text}").and_then(|()| out.flush());
    if written.is_err() {
        tracing::debug!("standard output is closed");
    }
}

/// Prints JSON on standard output.
pub fn json(value: &Value) {
    line(serde_json::to_string_pretty(value).unwrap_or_else(|_| value.to_string()));
}

/// Prints an error on standard error.
pub fn complain(error: &CliError) {
    let mut out = std::io::stderr().lock();
    if writeln!(out, "error: {error}").is_err() {
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

/// The text of a member of an object, or nothing.
#[must_use]
pub fn text_of<'a>(value: &'a Value, name: &str) -> &'a str {
    value.get(name).and_then(Value::as_str).unwrap_or_default()
}
