//! Placeholders: how entries of a transaction refer to records that other entries of it create.
//!
//! A placeholder stands where a reference does: in a member `reference` at any depth, and in `program` and `beneficiary`. Entries
//! may come in any order: what is referred to is done first.

use std::collections::BTreeSet;

use serde_json::{Map, Value};
use uuid::Uuid;

use super::envelope::{Entry, PLACEHOLDER};
use crate::api::dto::reader::Problems;
use daftar_domain::error::AppError;

/// The members whose text is a reference wherever they stand in a body.
const REFERENCES: [&str; 3] = ["reference", "program", "beneficiary"];

/// The order in which the entries are done: as given, but what is referred to first.
///
/// # Errors
/// [`AppError::Invalid`] naming placeholders that no entry has, and entries that refer to each other in a circle.
pub(super) fn order(entries: &[Entry]) -> Result<Vec<usize>, AppError> {
    let mut problems = Problems::default();
    let needs: Vec<BTreeSet<usize>> =
        entries.iter().enumerate().map(|(at, entry)| needed_by(at, entry, entries, &mut problems)).collect();
    problems.finish(())?;
    let mut order: Vec<usize> = Vec::with_capacity(entries.len());
    let mut waiting: Vec<usize> = (0..entries.len()).collect();
    while !waiting.is_empty() {
        let is_ready = |at: &usize| needs.get(*at).is_none_or(|needs| needs.iter().all(|need| order.contains(need)));
        let Some(place) = waiting.iter().position(is_ready) else { return Err(circle(&waiting)) };
        order.push(waiting.remove(place));
    }
    Ok(order)
}

/// Which entries create what an entry refers to.
fn needed_by(at: usize, entry: &Entry, entries: &[Entry], problems: &mut Problems) -> BTreeSet<usize> {
    let mut needs = BTreeSet::new();
    let mut note = |path: &str, text: &mut String| {
        let Some(wanted) = text.strip_prefix(PLACEHOLDER) else { return };
        let uuid = Uuid::try_parse(wanted).ok();
        let creator = uuid.and_then(|uuid| entries.iter().position(|other| other.placeholder == Some(uuid)));
        match creator {
            Some(creator) => drop(needs.insert(creator)),
            None => problems.add(path, "unknown_placeholder", "no entry of this transaction has that `full_url`"),
        }
    };
    let mut resource = entry.resource.clone().unwrap_or_default();
    each_reference(&format!("entry[{at}].resource"), &mut resource, &mut note);
    needs
}

fn circle(waiting: &[usize]) -> AppError {
    let mut problems = Problems::default();
    for at in waiting {
        problems.add(format!("entry[{at}]"), "circle", "it refers to an entry that, directly or not, refers to it");
    }
    problems.finish(()).err().unwrap_or_else(|| AppError::internal("a circle without entries"))
}

/// Puts references to records that were created in the place of placeholders.
pub(super) fn fill(
    resource: &mut Map<String, Value>,
    entries: &[Entry],
    reference_to: &dyn Fn(usize) -> Option<String>,
) {
    each_reference("", resource, &mut |_, text| {
        let uuid = text.strip_prefix(PLACEHOLDER).and_then(|wanted| Uuid::try_parse(wanted).ok());
        let creator = uuid.and_then(|uuid| entries.iter().position(|other| other.placeholder == Some(uuid)));
        if let Some(reference) = creator.and_then(reference_to) {
            *text = reference;
        }
    });
}

/// Shows every reference of a body with its path. The depth of the body was bounded when it was read.
fn each_reference(path: &str, members: &mut Map<String, Value>, see: &mut dyn FnMut(&str, &mut String)) {
    for (name, value) in members {
        let path = if path.is_empty() { name.clone() } else { format!("{path}.{name}") };
        match value {
            Value::String(text) if REFERENCES.contains(&name.as_str()) => see(&path, text),
            other => each_within(&path, other, see),
        }
    }
}

fn each_within(path: &str, value: &mut Value, see: &mut dyn FnMut(&str, &mut String)) {
    match value {
        Value::Object(members) => each_reference(path, members, see),
        Value::Array(items) => {
            for (at, item) in items.iter_mut().enumerate() {
                each_within(&format!("{path}[{at}]"), item, see);
            }
        }
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => {}
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::api::batch::envelope;

    fn name(number: usize) -> String {
        format!("urn:uuid:00000000-0000-4000-8000-{number:012}")
    }

    /// One entry for each list of those that it refers to.
    fn entries(needs: &[&[usize]]) -> Vec<Entry> {
        let entry = |(at, needs): (usize, &&[usize])| {
            let members: Vec<Value> = needs.iter().map(|need| json!({"entity": {"reference": name(*need)}})).collect();
            let resource = json!({"name": name(9), "member": members});
            json!({"full_url": name(at), "request": {"method": "POST", "url": "Group"}, "resource": resource})
        };
        let entry: Vec<Value> = needs.iter().enumerate().map(entry).collect();
        let Value::Object(members) = json!({"type": "transaction", "entry": entry}) else { unreachable!() };
        envelope::read(members).unwrap().entries
    }

    fn refusal(needs: &[&[usize]]) -> Vec<(String, &'static str)> {
        match order(&entries(needs)).unwrap_err() {
            AppError::Invalid(problems) => problems.into_iter().map(|problem| (problem.field, problem.code)).collect(),
            other => panic!("{other}"),
        }
    }

    #[test]
    fn what_is_referred_to_comes_first_and_all_else_as_given() {
        assert_eq!(order(&entries(&[&[], &[], &[]])).unwrap(), [0, 1, 2]);
        assert_eq!(order(&entries(&[&[2], &[], &[3], &[]])).unwrap(), [1, 3, 2, 0]);
        assert_eq!(order(&entries(&[&[1, 1, 2], &[], &[1]])).unwrap(), [1, 2, 0]);
    }

    #[test]
    fn circles_and_unknown_placeholders_are_named() {
        assert_eq!(refusal(&[&[0]]), [("entry[0]".to_owned(), "circle")]);
        let both = [("entry[0]".to_owned(), "circle"), ("entry[2]".to_owned(), "circle")];
        assert_eq!(refusal(&[&[2], &[], &[0]]), both);
        let unknown = [("entry[1].resource.member[1].entity.reference".to_owned(), "unknown_placeholder")];
        assert_eq!(refusal(&[&[], &[0, 7]]), unknown);
    }

    #[test]
    fn placeholders_are_filled_where_references_stand_and_nowhere_else() {
        let entries = entries(&[&[], &[0]]);
        let Value::Object(mut body) = json!({
            "name": name(0), "program": name(1), "beneficiary": {"reference": name(0), "display": name(0)},
            "member": [{"entity": {"reference": "Individual/urn:x|1"}}],
        }) else {
            unreachable!()
        };
        fill(&mut body, &entries, &|at| Some(format!("Individual/urn:x|{at}")));
        let expected = json!({
            "name": name(0), "program": "Individual/urn:x|1", "beneficiary": {"reference": "Individual/urn:x|0", "display": name(0)},
            "member": [{"entity": {"reference": "Individual/urn:x|1"}}],
        });
        assert_eq!(Value::Object(body), expected);
    }
}
