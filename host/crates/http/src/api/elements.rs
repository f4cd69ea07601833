//! `_elements`: selects the parts of a record in a response.
//!
//! **Invariant:** `type`, `identifier` and `meta` are always included: clients need them to follow or change a record.

use std::iter;

use axum::Json;
use axum::response::{IntoResponse, Response};
use serde::Serialize;
use serde_json::{Map, Value};

use super::error::{ApiResult, Problem};
use super::extract::query::Parameters;
use daftar_domain::error::AppError;
use daftar_domain::extension::EXTENSION;
use daftar_domain::field::fields_of;
use daftar_domain::group::{MEMBER_ENTITY, MEMBERS};
use daftar_domain::record::RecordKind;
use daftar_domain::schema::{self, Kind};

/// Maximum number of elements in a request.
const ELEMENTS_MAX: usize = 100;
/// Members that are always included.
const ALWAYS_INCLUDED: [&str; 3] = ["type", "identifier", "meta"];
/// The parts of a code, as in responses.
const CODE: [&str; 4] = ["uri", "code", "display", "namespace"];

/// Selectable parts of a field.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Parts {
    /// None: it is a single value.
    Whole,
    /// These parts.
    Named(Vec<&'static str>),
    /// Any fields of modules.
    Any,
}

/// The fields that responses show of a kind of record, in their order.
pub fn fields(kind: RecordKind) -> impl Iterator<Item = (&'static str, Parts)> {
    let names = fields_of(kind.resource()).iter().copied();
    iter::once("type").chain(names).chain(["meta"]).map(move |name| (name, parts_of(kind, name)))
}

fn parts_of(kind: RecordKind, name: &str) -> Parts {
    match (name, schema::find(schema::fields(kind), name)) {
        (_, Some(field)) => match &field.kind {
            Kind::Code(_) | Kind::List { of: Kind::Code(_), .. } => Parts::Named(CODE.to_vec()),
            other if other.parts().is_empty() => Parts::Whole,
            other => Parts::Named(other.parts().iter().map(|part| part.name).collect()),
        },
        ("identifier", None) => Parts::Named(vec!["system", "value", "period"]),
        ("meta", None) => Parts::Named(vec!["version_id", "last_updated", "source"]),
        ("group_membership", None) => {
            let of_member = MEMBERS.fields.iter().filter(|part| part.tag != MEMBER_ENTITY.tag());
            Parts::Named(iter::once("group").chain(of_member.map(|part| part.name)).collect())
        }
        (EXTENSION, None) => Parts::Any,
        (_, None) => Parts::Whole,
    }
}

/// The requested parts: fields, or a field and one part of it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Elements(Vec<(String, Option<String>)>);

impl Elements {
    /// Reads `_elements=a,b.c`; none if absent.
    ///
    /// # Errors
    /// 400 naming an unknown field, and the fields of such a record.
    pub fn read(parameters: &Parameters, kind: RecordKind) -> ApiResult<Option<Self>> {
        let Some(text) = parameters.one("_elements")? else { return Ok(None) };
        let fields: Vec<_> = fields(kind).collect();
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

    /// True if a field, or a part of it, is requested. Without `_elements` all are.
    #[must_use]
    pub fn wants(chosen: Option<&Self>, field: &str) -> bool {
        chosen.is_none_or(|Self(wanted)| wanted.iter().any(|(name, _)| name == field))
    }

    /// True if a part of a field is requested, alone or with the complete field.
    #[must_use]
    pub fn wants_part(chosen: Option<&Self>, field: &str, part: &str) -> bool {
        let is_wanted = |wanted: &Option<String>| wanted.as_ref().is_none_or(|wanted| wanted == part);
        chosen.is_none_or(|Self(all)| all.iter().any(|(name, wanted)| name == field && is_wanted(wanted)))
    }

    /// Removes the parts of a body that are not requested.
    ///
    /// # Errors
    /// [`AppError::Internal`] if the body is no object.
    pub fn keep(&self, body: impl Serialize) -> Result<Value, AppError> {
        match serde_json::to_value(body).map_err(|error| AppError::Internal(error.into()))? {
            Value::Object(members) => Ok(Value::Object(self.of(members))),
            _ => Err(AppError::internal("a record is written as something else than an object")),
        }
    }

    /// A body as a response, complete without `_elements`.
    ///
    /// # Errors
    /// As [`Elements::keep`].
    pub fn response(chosen: Option<&Self>, body: impl Serialize) -> Result<Response, AppError> {
        match chosen {
            None => Ok(Json(body).into_response()),
            Some(elements) => Ok(Json(elements.keep(body)?).into_response()),
        }
    }

    fn of(&self, members: Map<String, Value>) -> Map<String, Value> {
        let mut stored = Map::new();
        for (name, value) in members {
            let mut parts: Vec<&str> = Vec::new();
            let mut is_whole = ALWAYS_INCLUDED.contains(&name.as_str());
            for (_, part) in self.0.iter().filter(|(wanted, _)| *wanted == name) {
                match part {
                    Some(part) => parts.push(part),
                    None => is_whole = true,
                }
            }
            if is_whole {
                stored.insert(name, value);
            } else if !parts.is_empty() {
                stored.insert(name, only(value, &parts));
            }
        }
        stored
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

    fn read(query: &str) -> ApiResult<Option<Elements>> {
        Elements::read(&Parameters::parse(query).unwrap(), RecordKind::Individual)
    }

    #[test]
    fn keeps_requested_and_permanent_elements() {
        let body = json!({
            "type": "Individual", "identifier": [], "meta": {"version_id": "1"}, "gender": {"code": "1", "uri": "u"},
            "name": {"given": "A", "family": "B"}, "address": [{"city": "C", "text": "T"}, {"text": "U"}], "active": true,
        });
        let stored =
            read("_elements=name,address.city,gender.code,gender.uri,birth_date").unwrap().unwrap().keep(&body);
        let expected = json!({
            "type": "Individual", "identifier": [], "meta": {"version_id": "1"}, "gender": {"code": "1", "uri": "u"},
            "name": {"given": "A", "family": "B"}, "address": [{"city": "C"}, {}],
        });
        assert_eq!(stored.unwrap(), expected);
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
