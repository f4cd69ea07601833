//! The member `extension` of records: the fields of installed modules.

use serde::ser::SerializeMap;
use serde::{Serialize, Serializer};
use serde_json::{Map, Value as Json};

use super::field::{self, Level, Reading, SentCode};
use super::reader::{ObjectReader, Problems, items_value, nearest, object_value, shown};
use super::record::Shows;
use daftar_domain::extension::{
    EXTENSION, Extension, ExtensionContent, ExtensionFields, ExtensionValue, VALUES_MAX, kind_of,
};
use daftar_domain::field::FieldSet;
use daftar_domain::manifest::{ExtensionField, ExtensionFieldKind, ExtensionPath};
use daftar_domain::value::Value;

/// Maximum edit distance of a misspelt name from its suggestion.
const NAME_EDITS_MAX: usize = 3;

/// Reads the extension of a record whose codes are not checked yet. Every field that no installed module declares is a
/// problem.
pub fn read<C: SentCode>(reader: &mut ObjectReader, fields: &ExtensionFields, problems: &mut Problems) -> Extension<C> {
    let at = reader.path_of(EXTENSION);
    let Some(value) = reader.take(EXTENSION) else { return Extension::default() };
    let mut walk = Walk { fields, found: Vec::new(), problems };
    if let Some(members) = object_value(&at, value, walk.problems) {
        walk.object(&at, "", members);
    }
    Extension::new(walk.found)
}

/// Maps the members of a body to declared fields.
struct Walk<'a, C> {
    fields: &'a ExtensionFields,
    found: Vec<(ExtensionPath, ExtensionContent<C>)>,
    problems: &'a mut Problems,
}

impl<C: SentCode> Walk<'_, C> {
    /// Reads an object below a path, unless the limit of problems is reached; `at` is its path in the body.
    fn object(&mut self, at: &str, above: &str, members: Map<String, Json>) {
        for (name, value) in members {
            if self.problems.is_full() {
                return;
            }
            let path = if above.is_empty() { name.clone() } else { format!("{above}.{name}") };
            let here = |name: &str| format!("{at}.{name}");
            // A key with a dot is no path: it would be a second name of a field.
            if name.contains('.') {
                self.unknown(here(&shown(&name)), &path);
                continue;
            }
            if let Some(field) = self.fields.get(&path) {
                if !value.is_null()
                    && let Some(content) = read_content(&here(&name), field, value, self.problems)
                {
                    self.found.push((field.path.clone(), content));
                }
                continue;
            }
            let below = format!("{path}.");
            if !self.fields.iter().any(|field| field.path.as_str().starts_with(&below)) {
                self.unknown(here(&shown(&name)), &path);
                continue;
            }
            if !value.is_null()
                && let Some(members) = object_value(&here(&name), value, self.problems)
            {
                self.object(&here(&name), &path, members);
            }
        }
    }

    /// Reports an undeclared field, with the closest match.
    fn unknown(&mut self, at: String, path: &str) {
        let path: String = path.chars().take(ExtensionPath::LENGTH_MAX).collect();
        if let Some(module) = self.fields.modules().of_field(&path) {
            self.problems.add(at, "unknown_field", format!("no installed module declares such a field; {module}"));
            return;
        }
        let known = self.fields.iter().map(|field| field.path.as_str());
        let message = match nearest(&path, known, NAME_EDITS_MAX) {
            Some(known) => {
                format!("no installed module declares such a field; did you mean `{EXTENSION}.{known}`?")
            }
            None if self.fields.iter().len() == 0 => {
                "no installed module declares such a field, or any other".to_owned()
            }
            None => "no installed module declares such a field".to_owned(),
        };
        self.problems.add(at, "unknown_field", message);
    }
}

fn read_content<C: SentCode>(
    at: &str,
    field: &ExtensionField,
    value: Json,
    problems: &mut Problems,
) -> Option<ExtensionContent<C>> {
    if !field.repeated {
        return read_value(at, field.kind, value, problems).map(ExtensionContent::One);
    }
    let items = items_value(at, value, VALUES_MAX, problems)?;
    let values = items.into_iter().filter_map(|(at, item)| read_value(&at, field.kind, item, problems));
    Some(ExtensionContent::Many(values.collect()))
}

fn read_value<C: SentCode>(
    at: &str,
    wanted: ExtensionFieldKind,
    value: Json,
    problems: &mut Problems,
) -> Option<ExtensionValue<C>> {
    let mut reading = Reading { problems, photo: None };
    let value: Value<C> = field::read(at, kind_of(wanted), value, Level::Part, &mut reading)?;
    match value {
        Value::Boolean(value) => Some(ExtensionValue::Boolean(value)),
        Value::Integer(value) => Some(ExtensionValue::Integer(value)),
        Value::Number(value) => Some(ExtensionValue::Number(value)),
        Value::Text(value) => Some(ExtensionValue::Text(value.into())),
        Value::Date(value) => Some(ExtensionValue::Date(value)),
        Value::Code(value) => Some(ExtensionValue::Code(value)),
        // No field of a module has one of these kinds.
        Value::Word(_)
        | Value::Reference(_)
        | Value::ConsentId(_)
        | Value::Photo(_)
        | Value::List(_)
        | Value::Struct(_)
        | Value::Later(_) => None,
    }
}

/// The extension of a record as a client sees it.
pub struct ExtensionBody<'a> {
    fields: Vec<(&'a str, &'a ExtensionContent)>,
    shows: &'a dyn Shows,
}

impl<'a> ExtensionBody<'a> {
    /// The fields that installed modules declare and the client may see, if any.
    #[must_use]
    pub fn new(
        extension: &'a Extension,
        seen: &FieldSet,
        declared: &ExtensionFields,
        shows: &'a dyn Shows,
    ) -> Option<Self> {
        let is_shown =
            |path: &str| declared.get(path).is_some() && (seen.is_all() || seen.allows(&format!("{EXTENSION}.{path}")));
        let fields = extension.iter().map(|(path, content)| (path.as_str(), content));
        let fields: Vec<_> = fields.filter(|(path, _)| is_shown(path)).collect();
        (!fields.is_empty()).then_some(Self { fields, shows })
    }
}

impl Serialize for ExtensionBody<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        Below { fields: &self.fields, above: 0, shows: self.shows }.serialize(serializer)
    }
}

/// Fields with a common path prefix, as an object. They are sorted by path, and no character of a key sorts before the
/// dot: fields below one key are consecutive.
struct Below<'a> {
    fields: &'a [(&'a str, &'a ExtensionContent)],
    /// The length of the paths up to the keys of the object.
    above: usize,
    shows: &'a dyn Shows,
}

impl Serialize for Below<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let Self { fields, above, shows } = *self;
        let key_of = |path: &'_ str| path.get(above..).unwrap_or_default().split('.').next().map_or(0, str::len);
        let mut object = serializer.serialize_map(None)?;
        let is_of_one_key = |one: &(&str, &ExtensionContent), other: &(&str, &ExtensionContent)| {
            let end = above + key_of(one.0);
            end == above + key_of(other.0) && one.0.get(..end) == other.0.get(..end)
        };
        for fields in fields.chunk_by(is_of_one_key) {
            let Some((path, content)) = fields.first() else { continue };
            let end = above + key_of(path);
            let key = path.get(above..end).unwrap_or_default();
            if end == path.len() {
                object.serialize_entry(key, &Content { content, shows })?;
            } else {
                object.serialize_entry(key, &Below { fields, above: end + 1, shows })?;
            }
        }
        object.end()
    }
}

struct Content<'a> {
    content: &'a ExtensionContent,
    shows: &'a dyn Shows,
}

impl Serialize for Content<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let shows = self.shows;
        match self.content {
            ExtensionContent::One(value) => Single { value, shows }.serialize(serializer),
            ExtensionContent::Many(values) => {
                serializer.collect_seq(values.iter().map(|value| Single { value, shows }))
            }
        }
    }
}

struct Single<'a> {
    value: &'a ExtensionValue,
    shows: &'a dyn Shows,
}

impl Serialize for Single<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match self.value {
            ExtensionValue::Boolean(truth) => serializer.serialize_bool(*truth),
            ExtensionValue::Integer(number) => serializer.serialize_i64(*number),
            ExtensionValue::Number(number) => serializer.serialize_f64(*number),
            ExtensionValue::Text(text) => serializer.serialize_str(text),
            ExtensionValue::Date(day) => serializer.collect_str(day),
            ExtensionValue::Code(code) => self.shows.code(*code).serialize(serializer),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::api::dto::reader::searches;
    use daftar_domain::code::CodeUri;
    use daftar_domain::error::AppError;
    use serde_json::json;

    fn fields() -> ExtensionFields {
        let mut fields = ExtensionFields::default();
        for (path, kind, repeated) in [
            ("farmer.crops", ExtensionFieldKind::Coded, true),
            ("farmer.area.hectares", ExtensionFieldKind::Number, false),
            ("farmer.plots", ExtensionFieldKind::Integer, false),
            ("farmer.since", ExtensionFieldKind::Date, false),
            ("farmer.is_member", ExtensionFieldKind::Boolean, false),
            ("farmer.note", ExtensionFieldKind::Text, false),
        ] {
            let vocabulary = (kind == ExtensionFieldKind::Coded).then(|| "urn:fao:agrovoc".to_owned());
            let path = ExtensionPath::parse(path).unwrap();
            fields.add(ExtensionField { path, kind, repeated, vocabulary }).unwrap();
        }
        fields
    }

    fn read_body(extension: Json) -> Result<Extension<CodeUri>, Vec<(String, &'static str)>> {
        let Json::Object(body) = json!({"extension": extension}) else { unreachable!() };
        let mut problems = Problems::default();
        let mut reader = ObjectReader::root(body);
        let extension = read(&mut reader, &fields(), &mut problems);
        match problems.finish(extension) {
            Ok(extension) => Ok(extension),
            Err(AppError::Invalid(found)) => {
                Err(found.into_iter().map(|problem| (problem.field, problem.code)).collect())
            }
            Err(other) => panic!("{other}"),
        }
    }

    #[test]
    fn reads_values_of_every_type() {
        let extension = read_body(json!({"farmer": {
            "crops": ["urn:fao:agrovoc#c_12332"],
            "area": {"hectares": 1.5},
            "plots": -2,
            "since": "1999-12-31",
            "is_member": false,
            "note": "rain-fed",
        }}))
        .unwrap();
        let kinds: Vec<(&str, ExtensionFieldKind)> =
            extension.iter().map(|(path, content)| (path.as_str(), content.values()[0].kind())).collect();
        assert_eq!(
            kinds,
            [
                ("farmer.area.hectares", ExtensionFieldKind::Number),
                ("farmer.crops", ExtensionFieldKind::Coded),
                ("farmer.is_member", ExtensionFieldKind::Boolean),
                ("farmer.note", ExtensionFieldKind::Text),
                ("farmer.plots", ExtensionFieldKind::Integer),
                ("farmer.since", ExtensionFieldKind::Date),
            ]
        );
    }

    #[test]
    fn an_empty_list_is_stored_and_null_is_absent() {
        assert!(matches!(
            read_body(json!({"farmer": {"crops": []}})).unwrap().get("farmer.crops"),
            Some(ExtensionContent::Many(values)) if values.is_empty()
        ));
        for absent in [json!({}), json!(null), json!({"farmer": null}), json!({"farmer": {"crops": null, "area": {}}})]
        {
            assert!(read_body(absent.clone()).unwrap().is_empty(), "{absent}");
        }
    }

    #[test]
    fn names_each_thing_that_is_wrong() {
        let one = |field: &str, code| Err(vec![(field.to_owned(), code)]);
        for (extension, problem) in [
            (json!([]), one("extension", "wrong_type")),
            (json!({"farmers": {}}), one("extension.farmers", "unknown_field")),
            (json!({"farmer": []}), one("extension.farmer", "wrong_type")),
            (json!({"farmer": {"crop": []}}), one("extension.farmer.crop", "unknown_field")),
            (json!({"farmer.crops": []}), one("extension.farmer.crops", "unknown_field")),
            (json!({"farmer": {"crops": "urn:x#1"}}), one("extension.farmer.crops", "wrong_type")),
            (json!({"farmer": {"crops": ["maize"]}}), one("extension.farmer.crops[0]", "invalid_code")),
            (json!({"farmer": {"plots": 1.5}}), one("extension.farmer.plots", "wrong_type")),
            (json!({"farmer": {"plots": 9_223_372_036_854_775_808_u64}}), one("extension.farmer.plots", "wrong_type")),
            (json!({"farmer": {"area": 3}}), one("extension.farmer.area", "wrong_type")),
            (json!({"farmer": {"area": {"hectares": "3"}}}), one("extension.farmer.area.hectares", "wrong_type")),
            (json!({"farmer": {"since": "2024-02-30"}}), one("extension.farmer.since", "invalid_date")),
            (json!({"farmer": {"is_member": 1}}), one("extension.farmer.is_member", "wrong_type")),
            (json!({"farmer": {"note": "a\u{0}"}}), one("extension.farmer.note", "control_character")),
        ] {
            assert_eq!(read_body(extension.clone()).map(|_| ()), problem, "{extension}");
        }
    }

    #[test]
    fn a_list_has_a_maximum_number_of_values() {
        let crops = |count: usize| json!({"farmer": {"crops": vec!["urn:fao:agrovoc#c_1"; count]}});
        assert!(read_body(crops(VALUES_MAX - 1)).is_ok());
        assert!(read_body(crops(VALUES_MAX)).is_ok());
        assert!(read_body(crops(VALUES_MAX + 1)).is_err());
    }

    #[test]
    fn suggestions_are_computed_only_for_reported_unknown_fields() {
        for name in ["crop", "area.crop"] {
            let unknown = (0..10_000).map(|number| (format!("{name}{number}"), json!([])));
            let body = json!({"farmer": unknown.collect::<Map<_, _>>()});
            let mut found = Ok(Extension::default());
            let searches = searches::made_by(|| found = read_body(body));
            assert_eq!((found.unwrap_err().len(), searches), (100, 100), "{name}");
        }
    }
}
