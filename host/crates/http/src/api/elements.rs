//! `_elements`: which parts of a record an answer holds.
//!
//! **Invariant:** `type`, `identifier` and `meta` always stay: without them an answer cannot be followed or changed.

use axum::Json;
use axum::response::{IntoResponse, Response};
use serde::Serialize;
use serde_json::{Map, Value};

use super::error::{ApiError, Problem};
use super::extract::query::Parameters;
use daftar_domain::error::AppError;

/// The most elements of one request.
const ELEMENTS_MAX: usize = 100;
/// What always stays.
const KEPT: [&str; 3] = ["type", "identifier", "meta"];

const CODE: Parts = Parts::Named(&["uri", "code", "display", "namespace"]);

const ADDRESS: Parts = Parts::Named(&["type", "text", "line", "city", "district", "region", "postal_code", "country"]);

/// What can be chosen within a field.
#[derive(Debug, Clone, Copy)]
pub enum Parts {
    /// Nothing: it is a single value.
    Whole,
    /// These.
    Named(&'static [&'static str]),
    /// Whatever modules put there.
    Any,
}

/// The fields of a kind of record.
pub type Fields = &'static [(&'static str, Parts)];

/// The fields of an individual.
pub const INDIVIDUAL: Fields = &[
    ("type", Parts::Whole),
    ("identifier", Parts::Named(&["system", "value", "period"])),
    ("active", Parts::Whole),
    ("name", Parts::Named(&["family", "given", "middle", "prefix", "suffix", "text"])),
    ("birth_date", Parts::Whole),
    ("birth_date_estimated", Parts::Whole),
    ("deceased_date", Parts::Whole),
    ("gender", CODE),
    ("marital_status", CODE),
    ("country", CODE),
    ("religion", CODE),
    ("ethnocultural_status", CODE),
    ("education", CODE),
    ("occupation", CODE),
    ("economic_activity", CODE),
    ("pregnancy_status", CODE),
    ("languages", CODE),
    ("disability_codes", CODE),
    ("health_conditions", CODE),
    ("telecom", Parts::Named(&["system", "value", "use", "rank"])),
    ("address", ADDRESS),
    ("income", Parts::Named(&["amount", "currency", "period"])),
    ("photo", Parts::Whole),
    ("extension", Parts::Any),
    ("group_membership", Parts::Named(&["group", "role", "period", "inactive"])),
    ("meta", Parts::Named(&["version_id", "last_updated", "source"])),
];

/// The fields of a group.
pub const GROUP: Fields = &[
    ("type", Parts::Whole),
    ("identifier", Parts::Named(&["system", "value", "period"])),
    ("active", Parts::Whole),
    ("name", Parts::Whole),
    ("group_type", CODE),
    ("housing_type", CODE),
    ("member", Parts::Named(&["entity", "role", "period", "inactive"])),
    ("quantity", Parts::Whole),
    ("relationship", Parts::Named(&["target", "type", "period"])),
    ("address", ADDRESS),
    ("extension", Parts::Any),
    ("meta", Parts::Named(&["version_id", "last_updated", "source"])),
];

/// The fields of a program.
pub const PROGRAM: Fields = &[
    ("type", Parts::Whole),
    ("identifier", Parts::Named(&["system", "value", "period"])),
    ("active", Parts::Whole),
    ("name", Parts::Whole),
    ("description", Parts::Whole),
    ("program_type", Parts::Whole),
    ("target_type", Parts::Whole),
    ("eligibility", Parts::Whole),
    ("enforce_eligibility", Parts::Whole),
    ("period", Parts::Named(&["start", "end"])),
    ("meta", Parts::Named(&["version_id", "last_updated", "source"])),
];

/// The fields of a membership in a program.
pub const PROGRAM_MEMBERSHIP: Fields = &[
    ("type", Parts::Whole),
    ("identifier", Parts::Named(&["system", "value", "period"])),
    ("program", Parts::Whole),
    ("beneficiary", Parts::Whole),
    ("status", Parts::Whole),
    ("enrollment_date", Parts::Whole),
    ("exit_date", Parts::Whole),
    ("exit_reason", Parts::Whole),
    ("override", Parts::Named(&["reason"])),
    ("meta", Parts::Named(&["version_id", "last_updated", "source"])),
];

/// The parts that a request wants: fields, or a field and one part of it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Elements(Vec<(String, Option<String>)>);

impl Elements {
    /// Reads `_elements=a,b.c`; none, where it is not there.
    ///
    /// # Errors
    /// 400 naming a field that such a record does not have, and those that it has.
    pub fn read(parameters: &Parameters, fields: Fields) -> Result<Option<Self>, ApiError> {
        let Some(text) = parameters.one("_elements")? else { return Ok(None) };
        let mut wanted = Vec::new();
        for path in text.split(',') {
            if wanted.len() == ELEMENTS_MAX {
                return Err(Problem::malformed(format!("`_elements` names more than {ELEMENTS_MAX} fields")).into());
            }
            let (name, part) = path.split_once('.').map_or((path, None), |(name, part)| (name, Some(part)));
            let Some((_, parts)) = fields.iter().find(|(known, _)| *known == name) else {
                return Err(unknown(path, &fields.iter().map(|(known, _)| *known).collect::<Vec<_>>()).into());
            };
            match (part, parts) {
                (None, _) => {}
                (Some(part), Parts::Any) if !part.is_empty() && !part.contains('.') => {}
                (Some(part), Parts::Named(known)) if known.contains(&part) => {}
                (Some(_), Parts::Named(known)) => {
                    let known: Vec<String> = known.iter().map(|part| format!("{name}.{part}")).collect();
                    return Err(unknown(path, &known.iter().map(String::as_str).collect::<Vec<_>>()).into());
                }
                (Some(_), Parts::Any | Parts::Whole) => return Err(unknown(path, &[name]).into()),
            }
            wanted.push((name.to_owned(), part.map(str::to_owned)));
        }
        Ok(Some(Self(wanted)))
    }

    /// Whether a field, or a part of it, is wanted: every one, where nothing is chosen.
    #[must_use]
    pub fn wants(chosen: Option<&Self>, field: &str) -> bool {
        chosen.is_none_or(|Self(wanted)| wanted.iter().any(|(name, _)| name == field))
    }

    /// Whether a part of a field is wanted, be it with the whole.
    #[must_use]
    pub fn wants_part(chosen: Option<&Self>, field: &str, part: &str) -> bool {
        let is_wanted = |wanted: &Option<String>| wanted.as_ref().is_none_or(|wanted| wanted == part);
        chosen.is_none_or(|Self(all)| all.iter().any(|(name, wanted)| name == field && is_wanted(wanted)))
    }

    /// A body without what is not wanted.
    ///
    /// # Errors
    /// [`AppError::Internal`] when the body is no object.
    pub fn keep(&self, body: impl Serialize) -> Result<Value, AppError> {
        match serde_json::to_value(body).map_err(|error| AppError::Internal(error.into()))? {
            Value::Object(members) => Ok(Value::Object(self.of(members))),
            _ => Err(AppError::internal("a record is written as something else than an object")),
        }
    }

    /// A body as an answer, whole where nothing is chosen.
    ///
    /// # Errors
    /// As [`Elements::keep`].
    pub fn answer(chosen: Option<&Self>, body: impl Serialize) -> Result<Response, AppError> {
        match chosen {
            None => Ok(Json(body).into_response()),
            Some(elements) => Ok(Json(elements.keep(body)?).into_response()),
        }
    }

    fn of(&self, members: Map<String, Value>) -> Map<String, Value> {
        let mut kept = Map::new();
        for (name, value) in members {
            let mut parts: Vec<&str> = Vec::new();
            let mut is_whole = KEPT.contains(&name.as_str());
            for (_, part) in self.0.iter().filter(|(wanted, _)| *wanted == name) {
                match part {
                    Some(part) => parts.push(part),
                    None => is_whole = true,
                }
            }
            if is_whole {
                kept.insert(name, value);
            } else if !parts.is_empty() {
                kept.insert(name, only(value, &parts));
            }
        }
        kept
    }
}

/// An object, or each object of a list, with those members alone.
fn only(value: Value, parts: &[&str]) -> Value {
    match value {
        Value::Object(mut members) => {
            members.retain(|name, _| parts.contains(&name.as_str()));
            Value::Object(members)
        }
        Value::Array(items) => Value::Array(items.into_iter().map(|item| only(item, parts)).collect()),
        single => single,
    }
}

fn unknown(path: &str, known: &[&str]) -> Problem {
    let shown: String = path.chars().take(60).filter(|character| !character.is_control()).collect();
    Problem::malformed(format!("`_elements` names `{shown}`, which is no such field; known here: {}", known.join(", ")))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn read(query: &str) -> Result<Option<Elements>, ApiError> {
        Elements::read(&Parameters::parse(query).unwrap(), INDIVIDUAL)
    }

    #[test]
    fn keeps_what_is_wanted_and_what_always_stays() {
        let body = json!({
            "type": "Individual", "identifier": [], "meta": {"version_id": "1"}, "gender": {"code": "1", "uri": "u"},
            "name": {"given": "A", "family": "B"}, "address": [{"city": "C", "text": "T"}, {"text": "U"}], "active": true,
        });
        let kept = read("_elements=name,address.city,gender.code,gender.uri,birth_date").unwrap().unwrap().keep(&body);
        let expected = json!({
            "type": "Individual", "identifier": [], "meta": {"version_id": "1"}, "gender": {"code": "1", "uri": "u"},
            "name": {"given": "A", "family": "B"}, "address": [{"city": "C"}, {}],
        });
        assert_eq!(kept.unwrap(), expected);
        assert_eq!(read("name=x").unwrap(), None);
    }

    #[test]
    fn refuses_fields_that_there_are_not() {
        for wrong in
            ["", "nam", "name,", "name.given.x", "name.first", "active.x", "extension.", "extension.a.b", "a.b"]
        {
            assert!(read(&format!("_elements={wrong}")).is_err(), "{wrong}");
        }
        for right in ["name", "meta.version_id", "extension.farmer", "type"] {
            assert!(read(&format!("_elements={right}")).is_ok(), "{right}");
        }
        let many = |count: usize| format!("_elements={}", vec!["name"; count].join(","));
        assert!(read(&many(ELEMENTS_MAX)).is_ok());
        assert!(read(&many(ELEMENTS_MAX + 1)).is_err());
    }
}
