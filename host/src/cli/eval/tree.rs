//! The answer about one record as an indented tree: what each part of the expression came to, and what it looked at.

use std::fmt::Write;

use daftar_api_types::public::eligibility::{Explanation, Outcome, SubjectResult};
use serde::Deserialize;
use serde_json::Value;

use super::paint::{Meaning, Paint};
use crate::cli::{CliError, output};

/// How much of a part's text is shown, in characters.
const TEXT_CHARACTERS_MAX: usize = 100;
/// How far the tree is indented at most, in levels.
const INDENT_MAX: usize = 30;

/// Prints the result of one record with its tree.
///
/// # Errors
/// There is no such record.
pub fn show(paint: &Paint, result: &SubjectResult<'_>) -> Result<(), CliError> {
    if let Some(error) = &result.error {
        return Err(CliError::failed(format!("{}: {}", result.subject, error.detail)));
    }
    output::line(drawn(paint, result).trim_end());
    Ok(())
}

/// What an outcome lacks: the facts that would decide, and the errors.
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
    // Parts may lie deep in each other: no recursion.
    let mut waiting = vec![(0, root)];
    while let Some((depth, part)) = waiting.pop() {
        draw_part(paint, depth, part, &mut text);
        waiting.extend(part.children.iter().rev().map(|child| (depth + 1, child)));
    }
    if root.cut {
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

/// A value as it is read, with what it means.
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
    use serde_json::json;

    use super::*;

    #[test]
    fn a_tree_shows_what_each_part_came_to_and_what_it_looked_at() {
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
