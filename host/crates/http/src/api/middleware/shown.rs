//! Which fields an answer shows: read off the answer itself, so that the audit log says what was sent, whichever route sent it.

use std::collections::BTreeSet;
use std::fmt;
use std::sync::Arc;

use axum::body::{Body, HttpBody};
use axum::http::header;
use axum::response::Response;
use serde::de::{DeserializeSeed, Deserializer, IgnoredAny, MapAccess, SeqAccess, Visitor};

/// The biggest answer that is looked at. None of records is bigger.
const ANSWER_BYTES_MAX: u64 = 64 << 20;
/// The member that holds the records of a search.
const RECORDS: &str = "data";
/// The field whose own members are fields too.
const EXTENSION: &str = "extension";
/// What says nothing of a person.
const NOT_TOLD: [&str; 2] = ["type", "meta"];

/// Goes with an answer whose bytes were looked at when they were made: what [`fields_of`] said of them.
#[derive(Debug, Clone)]
pub struct ShownFields(pub Arc<[String]>);

/// The fields of the records that these bytes of an answer show, in the order of the alphabet.
#[must_use]
pub fn fields_of(bytes: &[u8]) -> Vec<String> {
    read(bytes).into_iter().collect()
}

/// The fields of the records that an answer shows, and the answer. None of an answer that is no JSON or is still being made.
pub(super) async fn fields_shown(mut response: Response) -> (Response, Arc<[String]>) {
    if let Some(ShownFields(fields)) = response.extensions_mut().remove::<ShownFields>() {
        return (response, fields);
    }
    let is_json = response.headers().get(header::CONTENT_TYPE).is_some_and(|value| value == "application/json");
    let is_whole = response.body().size_hint().exact().is_some_and(|bytes| bytes <= ANSWER_BYTES_MAX);
    if !is_json || !is_whole {
        return (response, Arc::default());
    }
    let (parts, body) = response.into_parts();
    match axum::body::to_bytes(body, usize::MAX).await {
        Ok(bytes) => {
            let fields = fields_of(&bytes);
            (Response::from_parts(parts, Body::from(bytes)), fields.into())
        }
        // Nothing can be sent of a body that fails.
        Err(_) => (Response::from_parts(parts, Body::empty()), Arc::default()),
    }
}

fn read(bytes: &[u8]) -> BTreeSet<String> {
    let mut fields = BTreeSet::new();
    let mut answer = serde_json::Deserializer::from_slice(bytes);
    let read = Members { fields: &mut fields, prefix: "", is_answer: true }.deserialize(&mut answer);
    if read.is_err() {
        tracing::error!("an answer could not be read again, so that the audit log does not say which fields it shows");
    }
    fields
}

/// Notes the names of an object's members.
struct Members<'f> {
    fields: &'f mut BTreeSet<String>,
    prefix: &'static str,
    is_answer: bool,
}

impl<'de> DeserializeSeed<'de> for Members<'_> {
    type Value = ();

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<(), D::Error> {
        deserializer.deserialize_any(self)
    }
}

impl<'de> Visitor<'de> for Members<'_> {
    type Value = ();

    fn expecting(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("an answer")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<(), A::Error> {
        let Self { fields, prefix, is_answer } = self;
        let mut names = BTreeSet::new();
        let mut has_records = false;
        while let Some(name) = map.next_key::<std::borrow::Cow<'de, str>>()? {
            if is_answer && name == RECORDS {
                has_records = true;
                map.next_value_seed(Records { fields })?;
            } else if prefix.is_empty() && name == EXTENSION {
                map.next_value_seed(Members { fields: &mut names, prefix: "extension.", is_answer: false })?;
            } else {
                map.next_value::<IgnoredAny>()?;
                if !prefix.is_empty() || !NOT_TOLD.contains(&name.as_ref()) {
                    names.insert(format!("{prefix}{name}"));
                }
            }
        }
        // Beside records stand totals and links.
        if !has_records {
            fields.append(&mut names);
        }
        Ok(())
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut seq: A) -> Result<(), A::Error> {
        while seq.next_element::<IgnoredAny>()?.is_some() {}
        Ok(())
    }

    fn visit_unit<E>(self) -> Result<(), E> {
        Ok(())
    }

    fn visit_bool<E>(self, _: bool) -> Result<(), E> {
        Ok(())
    }

    fn visit_i64<E>(self, _: i64) -> Result<(), E> {
        Ok(())
    }

    fn visit_u64<E>(self, _: u64) -> Result<(), E> {
        Ok(())
    }

    fn visit_f64<E>(self, _: f64) -> Result<(), E> {
        Ok(())
    }

    fn visit_str<E>(self, _: &str) -> Result<(), E> {
        Ok(())
    }
}

/// Notes the names of the members of each record.
struct Records<'f> {
    fields: &'f mut BTreeSet<String>,
}

impl<'de> DeserializeSeed<'de> for Records<'_> {
    type Value = ();

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<(), D::Error> {
        deserializer.deserialize_seq(self)
    }
}

impl<'de> Visitor<'de> for Records<'_> {
    type Value = ();

    fn expecting(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("records")
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut seq: A) -> Result<(), A::Error> {
        let Self { fields } = self;
        while seq.next_element_seed(Members { fields, prefix: "", is_answer: false })?.is_some() {}
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shown(answer: &str) -> String {
        fields_of(answer.as_bytes()).join(" ")
    }

    #[test]
    fn names_the_fields_of_records_and_never_their_values() {
        let record = r#"{"type": "Individual", "identifier": [{"system": "s"}], "name": {"family": "F"}, "meta": {}, "extension": {"farmer": {"crops": []}}}"#;
        assert_eq!(shown(record), "extension.farmer identifier name");
        let page =
            r#"{"data": [{"type": "x", "a": 1, "data": 2}, {"b\u00e9": null}], "total": 2, "links": {"next": null}}"#;
        assert_eq!(shown(page), "a b\u{e9} data");
        assert_eq!(shown(r#"{"data": [], "total": 0}"#), "");
        assert_eq!(shown(r#"{"extension": null}"#), "");
        assert_eq!(shown("[1, 2]"), "");
        assert_eq!(shown(r#""text""#), "");
        assert_eq!(shown("{"), "");
    }
}
