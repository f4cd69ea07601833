//! Draws a diagnostic under its expression, as compilers do.
//!
//! **Invariant:** carets are under the characters concerned: tabs extend to the next stop, wide characters occupy two
//! columns, and control and invisible characters are printed as `U+FFFD`.

use std::fmt::Write;
use std::io::IsTerminal;

use serde::Deserialize;
use serde_json::Value;
use unicode_width::UnicodeWidthChar;

use crate::cli::{CliError, output};
use daftar_api_types::public::eligibility::{Diagnostic, Explanation, Outcome, Severity, SubjectResult};
use daftar_domain::config::colours_are_unwanted;

/// Columns from one tab stop to the next.
const TAB_COLUMNS: usize = 4;
/// Maximum width of a line that is printed completely, in columns.
const LINE_COLUMNS_MAX: usize = 110;
/// Columns printed before the position in a longer line.
const BEFORE_COLUMNS: usize = 40;

/// Returns the terminated lines of one diagnostic, followed by an empty line.
pub fn draw(paint: &Paint, expression: &str, diagnostic: &Diagnostic<'_>) -> String {
    let meaning = match diagnostic.severity {
        Severity::Error => Meaning::No,
        Severity::Warning => Meaning::Unknown,
    };
    let mut drawn = format!(
        "{}: {}\n",
        paint.paint(meaning, &format!("{}[{}]", diagnostic.severity.name(), diagnostic.code)),
        paint.paint(Meaning::Strong, &diagnostic.message),
    );
    let (line, column, length) = (diagnostic.line as usize, diagnostic.column as usize, diagnostic.length as usize);
    let Some(source) = line.checked_sub(1).and_then(|at| expression.split('\n').nth(at)) else { return drawn + "\n" };
    let View { shown, before, carets } = View::of(source.trim_end_matches('\r'), column.saturating_sub(1), length);
    let margin = line.to_string();
    let blank = " ".repeat(margin.len());
    let bar = paint.paint(Meaning::Aside, "|");
    let marked = paint.paint(meaning, &"^".repeat(carets));
    let hint = diagnostic.suggestion.as_deref();
    let hint = hint.map(|suggestion| paint.paint(meaning, &format!(" write `{suggestion}`"))).unwrap_or_default();
    drawn += &format!(" {blank} {} line {line}, column {column}\n", paint.paint(Meaning::Aside, "-->"));
    drawn += &format!(" {blank} {bar}\n");
    drawn += format!(" {} {bar} {shown}", paint.paint(Meaning::Aside, &margin)).trim_end();
    drawn += &format!("\n {blank} {bar} {}{marked}{hint}\n\n", " ".repeat(before));
    drawn
}

/// A printed line with a marked position.
#[derive(Debug, PartialEq, Eq)]
struct View {
    shown: String,
    /// Columns before the position.
    before: usize,
    /// Columns of the marked range, at least one.
    carets: usize,
}

impl View {
    /// Returns the part of a line around the `length` characters from `start`; a position past the end is the end.
    fn of(line: &str, start: usize, length: usize) -> Self {
        let cells = cells(line);
        let start = start.min(cells.len());
        let end = start.saturating_add(length).clamp(start, cells.len());
        let columns = |from: usize, to: usize| -> usize {
            cells.get(from..to).unwrap_or_default().iter().map(|cell| cell.columns).sum()
        };
        let whole = columns(0, cells.len());
        let (mut first, mut last) = (0, cells.len());
        if whole > LINE_COLUMNS_MAX {
            while columns(first, start) > BEFORE_COLUMNS {
                first += 1;
            }
            while columns(first, last) > LINE_COLUMNS_MAX && last > start {
                last -= 1;
            }
        }
        let (left, right) = (if first > 0 { "…" } else { "" }, if last < cells.len() { "…" } else { "" });
        let text: String = cells.get(first..last).unwrap_or_default().iter().map(|cell| cell.text.as_str()).collect();
        Self {
            shown: format!("{left}{text}{right}"),
            before: columns(first, start) + usize::from(first > 0),
            carets: columns(start, end.min(last)).max(1),
        }
    }
}

/// One printed character.
struct Cell {
    text: String,
    columns: usize,
}

fn cells(line: &str) -> Vec<Cell> {
    let mut column = 0;
    let mut cells = Vec::new();
    for character in line.chars() {
        let (text, columns) = match character {
            '\t' => {
                let columns = TAB_COLUMNS - column % TAB_COLUMNS;
                (" ".repeat(columns), columns)
            }
            shown if is_harmless(shown) => (shown.to_string(), shown.width().unwrap_or(0)),
            _ => (char::REPLACEMENT_CHARACTER.to_string(), 1),
        };
        column += columns;
        cells.push(Cell { text, columns });
    }
    cells
}

/// True if a terminal prints a character unchanged: no control characters, no bidirectional controls.
fn is_harmless(character: char) -> bool {
    let turns = matches!(character, '\u{200e}' | '\u{200f}' | '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}');
    !character.is_control() && !turns && character != '\u{feff}'
}

/// Meaning of a text.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Meaning {
    /// The condition is true.
    Yes,
    /// The condition is false, or invalid.
    No,
    /// The result is unknown or uncertain.
    Unknown,
    /// Secondary text.
    Aside,
    /// Emphasized text.
    Strong,
}

/// Colours texts, or leaves them unchanged.
#[derive(Debug, Clone, Copy)]
pub struct Paint {
    is_on: bool,
}

impl Paint {
    /// Returns the colouring for standard output.
    pub fn of_output() -> Self {
        Self { is_on: std::io::stdout().is_terminal() && !colours_are_unwanted() }
    }

    /// Returns the colouring for standard error.
    pub fn of_errors() -> Self {
        Self { is_on: std::io::stderr().is_terminal() && !colours_are_unwanted() }
    }

    /// Returns a fixed colouring, for tests.
    #[cfg(test)]
    pub fn fixed(is_on: bool) -> Self {
        Self { is_on }
    }

    /// Returns the text in the colour of its meaning.
    pub fn paint(&self, meaning: Meaning, text: &str) -> String {
        if !self.is_on || text.is_empty() {
            return text.to_owned();
        }
        let code = match meaning {
            Meaning::Yes => "32",
            Meaning::No => "31",
            Meaning::Unknown => "33",
            Meaning::Aside => "2",
            Meaning::Strong => "1",
        };
        format!("\u{1b}[{code}m{text}\u{1b}[0m")
    }
}

/// Maximum printed length of a part's text, in characters.
const TEXT_CHARACTERS_MAX: usize = 100;
/// Maximum indentation of the tree, in levels.
const INDENT_MAX: usize = 30;

/// Prints the result of one record with its tree.
///
/// # Errors
/// The record does not exist.
pub fn show(paint: &Paint, result: &SubjectResult<'_>) -> Result<(), CliError> {
    if let Some(error) = &result.error {
        return Err(CliError::failed(format!("{}: {}", result.subject, error.detail)));
    }
    output::line(drawn(paint, result).trim_end());
    Ok(())
}

/// Returns the missing facts and errors of an outcome.
pub fn lacking(result: &SubjectResult<'_>) -> String {
    let missing = result.missing.iter().flat_map(|missing| missing.iter().cloned());
    let errors =
        result.errors.iter().map(|error| format!("{} at line {}, column {}", error.code, error.line, error.column));
    missing.chain(errors).collect::<Vec<_>>().join(", ")
}

fn drawn(paint: &Paint, result: &SubjectResult<'_>) -> String {
    let meaning = match result.outcome {
        Some(Outcome::Eligible) => Meaning::Yes,
        Some(Outcome::NotEligible) => Meaning::No,
        Some(Outcome::Undetermined) | None => Meaning::Unknown,
    };
    let outcome = result.outcome.map(Outcome::name).unwrap_or_default().replace('_', " ");
    let mut text = format!("{}  {}\n", result.subject, paint.paint(meaning, &outcome));
    let lacking = lacking(result);
    if !lacking.is_empty() {
        text += &format!("missing or wrong: {lacking}\n");
    }
    text.push('\n');
    let Some(root) = &result.explanation else {
        return text + "the engine does not explain its answers\n";
    };
    // Parts may be deeply nested: no recursion.
    let mut waiting = vec![(0, root)];
    while let Some((depth, part)) = waiting.pop() {
        draw_part(paint, depth, part, &mut text);
        waiting.extend(part.children.iter().rev().map(|child| (depth + 1, child)));
    }
    if root.truncated {
        text.push_str("… there is more than is shown\n");
    }
    text
}

fn draw_part(paint: &Paint, depth: usize, part: &Explanation<'_>, drawn: &mut String) {
    let (value, meaning) = value_of(&part.value);
    let item = part.item.map(|item| format!("[{item}] ")).unwrap_or_default();
    let source: String = part.text.split_whitespace().collect::<Vec<_>>().join(" ");
    let mut shown: String = source.chars().filter(|one| !one.is_control()).take(TEXT_CHARACTERS_MAX).collect();
    if source.chars().count() > TEXT_CHARACTERS_MAX {
        shown.push('…');
    }
    let mut beside: Vec<String> = Vec::new();
    for (name, fact) in &part.seen {
        let fact = if fact.is_null() { "not recorded".to_owned() } else { value_of(fact).0 };
        beside.push(format!("{name} = {fact}"));
    }
    beside.extend(part.error.as_deref().map(str::to_owned));
    let beside = beside.join(", ");
    let indent = "  ".repeat(depth.min(INDENT_MAX));
    let beside = if beside.is_empty() { beside } else { format!("   {}", paint.paint(Meaning::Aside, &beside)) };
    // Writing to a text cannot fail.
    let _ = writeln!(drawn, "{indent}{}  {item}{shown}{beside}", paint.paint(meaning, &format!("{value:<3}")));
}

/// Returns the text of a value and its meaning.
fn value_of(value: &Value) -> (String, Meaning) {
    let plain = |text: String| (text, Meaning::Strong);
    match value {
        Value::Null => ("?".to_owned(), Meaning::Unknown),
        Value::Bool(true) => ("yes".to_owned(), Meaning::Yes),
        Value::Bool(false) => ("no".to_owned(), Meaning::No),
        Value::Number(number) => plain(number.to_string()),
        Value::String(text) => plain(text.chars().filter(|one| !one.is_control()).take(TEXT_CHARACTERS_MAX).collect()),
        Value::Array(items) => plain(format!("{} items", items.len())),
        Value::Object(_) => plain(match Compound::deserialize(value) {
            Ok(Compound::Code { display, code }) => format!("{display} ({code})"),
            Ok(Compound::Items { items_min: least, items_max: most }) if least == most => format!("{least} items"),
            Ok(Compound::Items { items_min: least, items_max: most }) => format!("{least} to {most} items"),
            Ok(Compound::Record {}) | Err(_) => "a record".to_owned(),
        }),
    }
}

/// A value that is an object.
#[derive(Deserialize)]
#[serde(untagged)]
enum Compound {
    Code { display: String, code: String },
    Items { items_min: u64, items_max: u64 },
    Record {},
}

#[cfg(test)]
mod tests {
    use super::*;

    fn drawn(expression: &str, line: u32, column: u32, length: u32) -> String {
        let diagnostic = Diagnostic {
            severity: Severity::Error,
            code: "unknown_field".into(),
            message: "there is no such field".into(),
            reason: None,
            parameters: Default::default(),
            line,
            column,
            length,
            suggestion: None,
        };
        draw(&Paint::fixed(false), expression, &diagnostic)
    }

    #[test]
    fn carets_stand_under_the_place() {
        insta::assert_snapshot!(drawn("true &&\n  me.birth_dat > today()", 2, 6, 9), @r"
        error[unknown_field]: there is no such field
           --> line 2, column 6
           |
         2 |   me.birth_dat > today()
           |      ^^^^^^^^^
        ");
    }

    #[test]
    fn wide_characters_and_tabs_take_their_columns() {
        let of = |line: &str, start, length| {
            let view = View::of(line, start, length);
            (view.shown, view.before, view.carets)
        };
        assert_eq!(of("\tme.x", 1, 4), ("    me.x".to_owned(), 4, 4));
        assert_eq!(of("a\tb", 2, 1), ("a   b".to_owned(), 4, 1));
        assert_eq!(of("'日本' == x", 8, 1), ("'日本' == x".to_owned(), 10, 1));
        assert_eq!(of("'日本'", 1, 2), ("'日本'".to_owned(), 1, 4));
        // A combining accent occupies no column of its own.
        assert_eq!(of("'e\u{301}' == x", 8, 1).1, 8 - 1);
        assert_eq!(of("'\u{202e}' x", 4, 1), ("'\u{fffd}' x".to_owned(), 4, 1));
        assert_eq!(of("\u{1b}[31m", 0, 1), ("\u{fffd}[31m".to_owned(), 0, 1));
    }

    #[test]
    fn a_place_past_the_end_is_the_end() {
        let view = View::of("me.", 3, 0);
        assert_eq!((view.before, view.carets), (3, 1));
        let view = View::of("me.", 70, 9);
        assert_eq!((view.before, view.carets), (3, 1));
        assert!(drawn("me", 9, 1, 1).ends_with("there is no such field\n\n"), "there is no such line");
    }

    #[test]
    fn of_a_long_line_the_part_around_the_place_is_shown() {
        let line = format!("{}HERE{}", "a".repeat(500), "b".repeat(500));
        let view = View::of(&line, 500, 4);
        assert!(view.shown.starts_with("…a") && view.shown.ends_with("b…"), "{}", view.shown);
        let marked: String = view.shown.chars().skip(view.before).take(view.carets).collect();
        assert_eq!(marked, "HERE");
        assert!(view.shown.chars().count() <= LINE_COLUMNS_MAX + 2);
        let view = View::of(&line, 0, 1_000);
        assert!(view.carets <= LINE_COLUMNS_MAX);
    }

    #[test]
    fn colours_are_there_only_where_they_are_shown() {
        let diagnostic = Diagnostic {
            severity: Severity::Warning,
            code: "c".into(),
            message: "m".into(),
            reason: None,
            parameters: Default::default(),
            line: 1,
            column: 1,
            length: 2,
            suggestion: Some("us".into()),
        };
        assert!(!draw(&Paint::fixed(false), "me", &diagnostic).contains('\u{1b}'));
        let painted = draw(&Paint::fixed(true), "me", &diagnostic);
        assert!(painted.contains("\u{1b}[33m^^\u{1b}[0m") && painted.contains("write `us`"), "{painted:?}");
    }
}

#[cfg(test)]
mod tree_tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_tree_shows_the_value_and_the_facts_of_each_part() {
        let result = json!({
            "subject": "Individual/urn:x|1", "outcome": "undetermined", "missing": ["me.birth_date"],
            "explanation": {
                "text": "is_female(me) &&\n  age_years(me.birth_date) >= 60", "value": null, "seen": {},
                "children": [
                    {"text": "is_female(me)", "value": true, "children": [],
                     "seen": {"me.gender": {"uri": "urn:g#2", "code": "2", "display": "Female", "namespace": "urn:g"}}},
                    {"text": "age_years(me.birth_date) >= 60", "value": null, "seen": {}, "children": [
                        {"text": "age_years(me.birth_date)", "value": null, "seen": {"me.birth_date": null}, "children": []},
                    ]},
                ],
            },
        });
        let result: SubjectResult<'_> = serde_json::from_value(result).unwrap();
        insta::assert_snapshot!(drawn(&Paint::fixed(false), &result), @r"
        Individual/urn:x|1  undetermined
        missing or wrong: me.birth_date

        ?    is_female(me) && age_years(me.birth_date) >= 60
          yes  is_female(me)   me.gender = Female (2)
          ?    age_years(me.birth_date) >= 60
            ?    age_years(me.birth_date)   me.birth_date = not recorded
        ");
        assert!(drawn(&Paint::fixed(true), &result).contains("\u{1b}[32myes\u{1b}[0m  is_female(me)"));
    }

    #[test]
    fn values_of_every_kind_are_read() {
        for (value, shown) in [
            (json!(65), "65"),
            (json!("2026-01-31"), "2026-01-31"),
            (json!({"items_min": 2, "items_max": 2}), "2 items"),
            (json!({"items_min": 1, "items_max": 3}), "1 to 3 items"),
            (json!({}), "a record"),
        ] {
            assert_eq!(value_of(&value).0, shown);
        }
    }
}
