//! What a rule tells of itself and of its answers, in domain types.
//!
//! **Invariant:** an explanation that leaves this module is a tree: its first part alone has no parent, each other part stands
//! after its parent, and each text is a part of the expression.

use super::eligibility::{LINE_BYTES_MAX, NAME_BYTES_MAX};
use crate::bindings::engine::exports::daftar::plugin::eligibility as wire;
use crate::sandbox::CallError;
use crate::wit::read::{filled, invalid, list};
use daftar_domain::code::CodeNumber;
use daftar_domain::explanation::{Cost, ExplainedPart, ExplainedValue, Explanation, RuleSummary, SeenFact};

/// The most parts of one explanation.
const PARTS_MAX: usize = 4_000;
/// The most fields that one part looks at.
const SEEN_MAX: usize = 1_000;
/// The most facts that are missing to one part.
const MISSING_MAX: usize = 1_000;

/// What a rule answered to `summary`.
pub(super) fn rule_summary(from: wire::Summary) -> Result<RuleSummary, CallError> {
    let place = || "summary".to_owned();
    let wire::Cost { steps_min, steps_max, list_items } = from.cost;
    if steps_min > steps_max {
        return Err(invalid(&place, format_args!("at least {steps_min} steps and at most {steps_max}")));
    }
    let result_type = filled(from.result_type, NAME_BYTES_MAX, &place)?;
    Ok(RuleSummary { result_type, cost: Cost { steps_min, steps_max, list_items } })
}

/// What a rule answered to `explain`.
pub(super) fn explanation(from: wire::Explanation, expression: &str) -> Result<Explanation, CallError> {
    let place = || "explain".to_owned();
    let mut count = 0;
    let parts = list(from.parts, PARTS_MAX, &place, |part| {
        let part = explained(part, count, expression)?;
        count += 1;
        Ok(part)
    })?;
    if parts.is_empty() {
        return Err(invalid(&place, "an explanation without any part"));
    }
    Ok(Explanation { parts, is_cut: from.is_cut })
}

fn explained(from: wire::Explained, number: usize, expression: &str) -> Result<ExplainedPart, CallError> {
    let place = || format!("explain: part {number}");
    let parent = from.parent.and_then(|parent| usize::try_from(parent).ok());
    match parent {
        None if number == 0 && from.parent.is_none() => {}
        Some(parent) if parent < number => {}
        _ => return Err(invalid(&place, "it does not stand after the part that it belongs to")),
    }
    let bound = |byte: u32| usize::try_from(byte).unwrap_or(usize::MAX);
    let text = bound(from.start)..bound(from.end);
    if expression.get(text.clone()).is_none() {
        return Err(invalid(
            &place,
            format_args!("bytes {} to {} are no text of the expression", text.start, text.end),
        ));
    }
    let missing = list(from.missing, MISSING_MAX, &place, |name| filled(name, LINE_BYTES_MAX, &place))?;
    if !missing.is_sorted() {
        return Err(invalid(&place, "the missing facts are not sorted"));
    }
    let error = from.error.map(|error| filled(error, NAME_BYTES_MAX, &place)).transpose()?;
    let value = value(from.value, &place)?;
    if value != ExplainedValue::Unknown && (error.is_some() || !missing.is_empty()) {
        return Err(invalid(&place, "its value is known and it lacks something"));
    }
    let seen = list(from.seen, SEEN_MAX, &place, |fact| {
        Ok(SeenFact { name: filled(fact.name, LINE_BYTES_MAX, &place)?, value: self::value(fact.value, &place)? })
    })?;
    Ok(ExplainedPart { parent, text, item: from.item, value, missing, error, seen })
}

fn value(from: wire::ExplainedValue, place: &dyn Fn() -> String) -> Result<ExplainedValue, CallError> {
    Ok(match from {
        wire::ExplainedValue::Unknown => ExplainedValue::Unknown,
        wire::ExplainedValue::Boolean(truth) => ExplainedValue::Boolean(truth),
        wire::ExplainedValue::Integer(integer) => ExplainedValue::Integer(integer),
        wire::ExplainedValue::Number(number) => ExplainedValue::Number(number),
        wire::ExplainedValue::Day(days) => ExplainedValue::Day(days),
        wire::ExplainedValue::Code(number) => ExplainedValue::Code(CodeNumber(number)),
        wire::ExplainedValue::Text(text) => ExplainedValue::Text(shown(text, place)?),
        wire::ExplainedValue::Items((low, high)) if low <= high => ExplainedValue::Items(low, high),
        wire::ExplainedValue::Items((low, high)) => {
            return Err(invalid(place, format_args!("a list of at least {low} and at most {high} items")));
        }
        wire::ExplainedValue::Structure => ExplainedValue::Structure,
        wire::ExplainedValue::Other(text) => ExplainedValue::Other(shown(text, place)?),
    })
}

/// A text that a record may hold, so any character may be in it; those that no reader sees become `U+FFFD`.
fn shown(text: String, place: &dyn Fn() -> String) -> Result<String, CallError> {
    if text.len() > LINE_BYTES_MAX {
        return Err(invalid(place, format_args!("a text of {} bytes, at most {LINE_BYTES_MAX} are read", text.len())));
    }
    let is_foreign = |character: char| character.is_control() && !matches!(character, '\n' | '\t');
    if !text.contains(is_foreign) {
        return Ok(text);
    }
    Ok(text
        .chars()
        .map(|character| if is_foreign(character) { char::REPLACEMENT_CHARACTER } else { character })
        .collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    const EXPRESSION: &str = "é && b";

    fn part(parent: Option<u32>, start: u32, end: u32) -> wire::Explained {
        let value = wire::ExplainedValue::Boolean(true);
        wire::Explained { parent, start, end, item: None, value, missing: vec![], error: None, seen: vec![] }
    }

    fn read(parts: Vec<wire::Explained>) -> Result<Explanation, String> {
        explanation(wire::Explanation { parts, is_cut: false }, EXPRESSION).map_err(|error| match error {
            CallError::InvalidAnswer(reason) => reason,
            other => format!("{other:?}"),
        })
    }

    #[test]
    fn a_sound_explanation_is_a_tree_with_texts_of_the_expression() {
        let explained = read(vec![part(None, 0, 7), part(Some(0), 0, 2), part(Some(0), 6, 7)]).unwrap();
        let texts: Vec<&str> = explained.parts.iter().map(|part| &EXPRESSION[part.text.clone()]).collect();
        assert_eq!(texts, ["é && b", "é", "b"]);
        assert_eq!(explained.parts[2].parent, Some(0));
    }

    #[test]
    fn parts_that_make_no_tree_or_are_no_text_are_refused() {
        assert!(read(vec![]).unwrap_err().contains("without any part"));
        assert!(read(vec![part(Some(0), 0, 7)]).unwrap_err().contains("part 0"));
        assert!(read(vec![part(None, 0, 7), part(None, 0, 2)]).unwrap_err().contains("part 1"));
        assert!(read(vec![part(None, 0, 7), part(Some(1), 0, 2)]).unwrap_err().contains("part 1"));
        assert!(read(vec![part(None, 0, 1)]).unwrap_err().contains("bytes 0 to 1"));
        assert!(read(vec![part(None, 0, 8)]).unwrap_err().contains("bytes 0 to 8"));
        assert!(read(vec![part(None, 2, 0)]).unwrap_err().contains("bytes 2 to 0"));
    }

    #[test]
    fn a_known_value_lacks_nothing_and_hidden_characters_are_shown() {
        let lacking = wire::Explained { missing: vec!["me.a".to_owned()], ..part(None, 0, 7) };
        assert!(read(vec![lacking]).unwrap_err().contains("lacks something"));
        let text = wire::ExplainedValue::Text("a\u{1b}[2J\n".to_owned());
        let shown = read(vec![wire::Explained { value: text, ..part(None, 0, 7) }]).unwrap();
        assert_eq!(shown.parts[0].value, ExplainedValue::Text("a\u{fffd}[2J\n".to_owned()));
    }

    #[test]
    fn a_cost_has_no_more_at_least_than_at_most() {
        let summary = |steps_min, steps_max| {
            let cost = wire::Cost { steps_min, steps_max, list_items: 100 };
            rule_summary(wire::Summary { result_type: "bool".to_owned(), cost })
        };
        assert_eq!(summary(2, 2).unwrap().cost.steps_max, 2);
        assert!(matches!(summary(3, 2), Err(CallError::InvalidAnswer(_))));
    }
}
