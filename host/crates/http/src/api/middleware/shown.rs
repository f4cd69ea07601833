//! The fields that a response shows, read from the response itself, so that the audit log reports the sent fields for
//! every route.

use std::collections::BTreeSet;
use std::fmt;
use std::sync::Arc;

use axum::body::{Body, HttpBody};
use axum::http::header;
use axum::response::Response;
use serde::de::{DeserializeSeed, Deserializer, IgnoredAny, MapAccess, SeqAccess, Visitor};

/// Maximum size of a checked response. No response with records is larger.
const ANSWER_BYTES_MAX: u64 = 64 << 20;
/// The member with the records of a search.
const RECORDS: &str = "data";
/// The field whose own members are fields too.
const EXTENSION: &str = "extension";
/// Members without personal data.
const NOT_PERSONAL: [&str; 2] = ["type", "meta"];

/// Extension of a response that was checked when it was generated: the result of [`fields_of`].
#[derive(Debug, Clone)]
pub struct ShownFields(pub Arc<[String]>);

/// The fields of the records that these bytes of a response show, in alphabetical order.
#[must_use]
pub fn fields_of(bytes: &[u8]) -> Vec<String> {
    read(bytes).into_iter().collect()
}

/// The fields of the records that a response shows, and the response. None if it is no JSON or is still being
/// generated.
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
    let mut response = serde_json::Deserializer::from_slice(bytes);
    let read = Members { fields: &mut fields, level: Level::Answer }.deserialize(&mut response);
    if read.is_err() {
        tracing::error!("response could not be read again, its fields are missing in the audit log");
    }
    fields
}

/// Part of a response that is being read.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Level {
    /// A record, or a page of records.
    Answer,
    /// The records of a page.
    Records,
    /// One of them.
    Record,
    /// Fields of modules in a record.
    Extension,
}

/// Collects the names of an object's members.
struct Members<'f> {
    fields: &'f mut BTreeSet<String>,
    level: Level,
}

impl<'de> DeserializeSeed<'de> for Members<'_> {
    type Value = ();

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<(), D::Error> {
        match self.level {
            Level::Records => deserializer.deserialize_seq(self),
            _ => deserializer.deserialize_any(self),
        }
    }
}

macro_rules! names_nothing {
    ($($visit:ident: $value:ty),+) => {$(
        fn $visit<E>(self, _: $value) -> Result<(), E> {
            Ok(())
        }
    )+};
}

impl<'de> Visitor<'de> for Members<'_> {
    type Value = ();

    names_nothing!(visit_bool: bool, visit_i64: i64, visit_u64: u64, visit_f64: f64, visit_str: &str);

    fn expecting(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("a response")
    }

    fn visit_unit<E>(self) -> Result<(), E> {
        Ok(())
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<(), A::Error> {
        let Self { fields, level } = self;
        let is_extension = level == Level::Extension;
        let mut names = BTreeSet::new();
        let mut has_records = false;
        while let Some(name) = map.next_key::<std::borrow::Cow<'de, str>>()? {
            if level == Level::Answer && name == RECORDS {
                has_records = true;
                map.next_value_seed(Members { fields, level: Level::Records })?;
            } else if !is_extension && name == EXTENSION {
                map.next_value_seed(Members { fields: &mut names, level: Level::Extension })?;
            } else {
                map.next_value::<IgnoredAny>()?;
                if is_extension {
                    names.insert(format!("{EXTENSION}.{name}"));
                } else if !NOT_PERSONAL.contains(&name.as_ref()) {
                    names.insert(name.into_owned());
                }
            }
        }
        // Totals and links are outside the records.
        if !has_records {
            fields.append(&mut names);
        }
        Ok(())
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut seq: A) -> Result<(), A::Error> {
        let Self { fields, level } = self;
        if level == Level::Records {
            while seq.next_element_seed(Members { fields, level: Level::Record })?.is_some() {}
        } else {
            while seq.next_element::<IgnoredAny>()?.is_some() {}
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shown(response: &str) -> String {
        fields_of(response.as_bytes()).join(" ")
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
