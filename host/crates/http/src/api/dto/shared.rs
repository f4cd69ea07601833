//! Parts that several bodies have: identifiers, periods, coded values, meta.

use std::borrow::Cow;

use daftar_api_types::public::record as body;
use serde_json::Value;

use super::reader::{ObjectReader, Problems};
use daftar_domain::calendar::{Period, format_instant};
use daftar_domain::identifier::{
    Identifier, IdentifierKey, IdentifierValue, SYSTEM_BYTES_MAX, SystemUri, VALUE_BYTES_MAX,
};
use daftar_domain::individual::LIST_ITEMS_MAX;
use daftar_domain::record::{RecordKind, RecordMeta};
use daftar_domain::vocabulary::DisplayedCode;

/// Reads `identifier[]`.
pub fn read_identifiers(reader: &mut ObjectReader, is_required: bool, problems: &mut Problems) -> Vec<Identifier> {
    let items = reader.list("identifier", LIST_ITEMS_MAX, problems);
    if is_required && items.as_ref().is_none_or(Vec::is_empty) {
        problems.add("identifier", "required", "at least one identifier `{system, value}` is needed");
    }
    let mut identifiers: Vec<Identifier> = Vec::new();
    for (path, item) in items.unwrap_or_default() {
        let Some(identifier) = read_identifier(path.clone(), item, problems) else { continue };
        if identifiers.iter().any(|earlier| earlier.key == identifier.key) {
            problems.add(path, "duplicate", "the same identifier stands twice");
        } else {
            identifiers.push(identifier);
        }
    }
    identifiers
}

fn read_identifier(path: String, item: Value, problems: &mut Problems) -> Option<Identifier> {
    let mut reader = ObjectReader::at(path, item, problems);
    let system = reader.text("system", SYSTEM_BYTES_MAX, problems);
    let value = reader.text("value", VALUE_BYTES_MAX, problems);
    let period = reader.period("period", problems);
    for (name, is_given) in [("system", system.is_some()), ("value", value.is_some())] {
        if !is_given && !reader.is_problem(name, problems) {
            problems.add(reader.path_of(name), "required", "an identifier has a system and a value");
        }
    }
    let system = system.and_then(|text| match SystemUri::parse(&text) {
        Ok(system) => Some(system),
        Err(error) => {
            problems.add(reader.path_of("system"), "invalid_identifier", error.to_string());
            None
        }
    });
    let value = value.and_then(|text| match IdentifierValue::parse(&text) {
        Ok(value) => Some(value),
        Err(error) => {
            problems.add(reader.path_of("value"), "invalid_identifier", error.to_string());
            None
        }
    });
    reader.finish(problems);
    Some(Identifier { key: IdentifierKey { system: system?, value: value? }, period })
}

/// Reads `type` and `resourceType`: either may say what the body is, and must be right then.
pub fn read_type(reader: &mut ObjectReader, kind: RecordKind, problems: &mut Problems) {
    for name in ["type", "resourceType"] {
        if let Some(text) = reader.text(name, 100, problems)
            && !text.eq_ignore_ascii_case(kind.name())
        {
            problems.add(reader.path_of(name), "wrong_type", format!("this is a body of type `{}`", kind.name()));
        }
    }
}

/// An identifier of a record.
#[must_use]
pub fn identifier(identifier: &Identifier) -> body::Identifier<'_> {
    body::Identifier {
        system: Cow::Borrowed(identifier.key.system.as_str()),
        value: Cow::Borrowed(identifier.key.value.as_str()),
        period: identifier.period.map(period),
    }
}

fn period(period: Period) -> body::Period {
    body::Period { start: period.start.map(|day| day.to_string()), end: period.end.map(|day| day.to_string()) }
}

/// A code with its name.
#[must_use]
pub fn code(shown: DisplayedCode) -> body::Code<'static> {
    let text = |text: String| Some(Cow::Owned(text));
    body::Code {
        uri: text(shown.uri),
        code: text(shown.code),
        display: text(shown.display),
        namespace: text(shown.namespace),
    }
}

/// The version of a record.
#[must_use]
pub fn meta(meta: &RecordMeta) -> body::Meta<'_> {
    body::Meta {
        version_id: Some(Cow::Owned(meta.version.to_string())),
        last_updated: Some(Cow::Owned(format_instant(meta.last_updated))),
        source: meta.source.as_ref().map(|client| Cow::Borrowed(client.as_str())),
    }
}
