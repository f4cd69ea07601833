//! The answer about one record as an indented tree: what each part of the expression came to, and what it looked at.

use std::fmt::Write;

use serde_json::Value;

use super::paint::{Meaning, Paint};
use super::text_of;
use crate::cli::{CliError, output};

/// How much of a part's text is shown, in characters.
const TEXT_CHARACTERS_MAX: usize = 100;
/// How far the tree is indented at most, in levels.
const INDENT_MAX: usize = 30;

/// Prints the result of one record with its tree.
///
/// # Errors
/// There is no such record.
pub fn show(paint: &Paint, result: &Value) -> Result<(), CliError> {
    if let Some(error) = result.get("error") {
        let subject = text_of(result, "subject");
        return Err(CliError::failed(format!("{subject}: {}", text_of(error, "detail"))));
    }
    output::line(drawn(paint, result).trim_end());
    Ok(())
}

/// What an outcome lacks: the facts that would decide, and what went wrong.
pub fn lacking(result: &Value) -> String {
    let missing = result.get("missing").and_then(Value::as_array).into_iter().flatten();
    let missing = missing.filter_map(Value::as_str).map(str::to_owned);
    let errors = result.get("errors").and_then(Value::as_array).into_iter().flatten().map(|error| {
        let number = |name: &str| error.get(name).and_then(Value::as_u64).unwrap_or_default();
        format!("{} at line {}, column {}", text_of(error, "code"), number("line"), number("column"))
    });
    missing.chain(errors).collect::<Vec<_>>().join(", ")
}

fn drawn(paint: &Paint, result: &Value) -> String {
    let outcome = text_of(result, "outcome");
    let meaning = match outcome {
        "eligible" => Meaning::Yes,
        "not_eligible" => Meaning::No,
        _ => Meaning::Unknown,
    };
    let mut text = format!("{}  {}\n", text_of(result, "subject"), paint.paint(meaning, &outcome.replace('_', " ")));
    let lacking = lacking(result);
    if !lacking.is_empty() {
        text += &format!("missing or wrong: {lacking}\n");
    }
    text.push('\n');
    let Some(root) = result.get("explanation").filter(|root| root.is_object()) else {
        return text + "the engine does not explain its answers\n";
    };
    // Parts may lie deep in each other: no recursion.
    let mut waiting = vec![(0, root)];
    while let Some((depth, part)) = waiting.pop() {
        draw_part(paint, depth, part, &mut text);
        let children = part.get("children").and_then(Value::as_array).into_iter().flatten();
        let below: Vec<_> = children.map(|child| (depth + 1, child)).collect();
        waiting.extend(below.into_iter().rev());
    }
    if root.get("cut").and_then(Value::as_bool) == Some(true) {
        text.push_str("… there is more than is shown\n");
    }
    text
}

fn draw_part(paint: &Paint, depth: usize, part: &Value, drawn: &mut String) {
    let (value, meaning) = value_of(part.get("value").unwrap_or(&Value::Null));
    let item = part.get("item").and_then(Value::as_u64).map(|item| format!("[{item}] ")).unwrap_or_default();
    let source: String = text_of(part, "text").split_whitespace().collect::<Vec<_>>().join(" ");
    let mut shown: String = source.chars().filter(|one| !one.is_control()).take(TEXT_CHARACTERS_MAX).collect();
    if source.chars().count() > TEXT_CHARACTERS_MAX {
        shown.push('…');
    }
    let mut beside = String::new();
    for (name, fact) in part.get("seen").and_then(Value::as_object).into_iter().flatten() {
        let fact = if fact.is_null() { "not recorded".to_owned() } else { value_of(fact).0 };
        let separator = if beside.is_empty() { "" } else { ", " };
        // Writing to a text cannot fail.
        let _ = write!(beside, "{separator}{name} = {fact}");
    }
    if let Some(error) = part.get("error").and_then(Value::as_str) {
        let separator = if beside.is_empty() { "" } else { ", " };
        let _ = write!(beside, "{separator}{error}");
    }
    let indent = "  ".repeat(depth.min(INDENT_MAX));
    let beside = if beside.is_empty() { beside } else { format!("   {}", paint.paint(Meaning::Aside, &beside)) };
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
        Value::Object(members) => {
            let count = |name: &str| members.get(name).and_then(Value::as_u64);
            match (members.get("display").and_then(Value::as_str), count("items_min"), count("items_max")) {
                (Some(display), ..) => plain(format!("{display} ({})", text_of(value, "code"))),
                (None, Some(least), Some(most)) if least == most => plain(format!("{least} items")),
                (None, Some(least), Some(most)) => plain(format!("{least} to {most} items")),
                _ => plain("a record".to_owned()),
            }
        }
    }
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
