//! The member `extension` of records: what installed modules add.

use serde_json::{Map, Value};

use super::nearest::{nearest, shown};
use super::reader::{ObjectReader, Problems, code_value, kind, text_value};
use super::shared::CodeBody;
use daftar_domain::calendar::parse_date;
use daftar_domain::code::{CodeUri, CodedValue};
use daftar_domain::extension::{
    EXTENSION, Extension, ExtensionContent, ExtensionFields, ExtensionValue, TEXT_BYTES_MAX, VALUES_MAX,
};
use daftar_domain::field::FieldSet;
use daftar_domain::manifest::{ExtensionField, ExtensionFieldKind, ExtensionPath};
use daftar_domain::vocabulary::DisplayedCode;

/// A misspelt name is at most this far from the right one.
const NAME_EDITS_MAX: usize = 3;

/// Reads the extension of a record whose codes are not checked yet; every field that no installed module declares is a
/// problem.
pub fn read(reader: &mut ObjectReader, fields: &ExtensionFields, problems: &mut Problems) -> Extension<CodeUri> {
    let at = reader.path_of(EXTENSION);
    let Some(value) = reader.take(EXTENSION) else { return Extension::default() };
    let mut walk = Walk { fields, found: Vec::new(), problems };
    match value {
        Value::Object(members) => walk.object(&at, "", members),
        other => walk.problems.add(at, "wrong_type", format!("an object is needed, not {}", kind(&other))),
    }
    Extension::new(walk.found)
}

/// Follows the declared fields into the body.
struct Walk<'a> {
    fields: &'a ExtensionFields,
    found: Vec<(ExtensionPath, ExtensionContent<CodeUri>)>,
    problems: &'a mut Problems,
}

impl Walk<'_> {
    /// Reads what lies below a path, as long as problems are told at all; `at` is where it stands in the body.
    fn object(&mut self, at: &str, above: &str, members: Map<String, Value>) {
        for (name, value) in members {
            if self.problems.is_full() {
                return;
            }
            let path = if above.is_empty() { name.clone() } else { format!("{above}.{name}") };
            let here = |name: &str| format!("{at}.{name}");
            // A key with a dot in it is no path: it would name a field in a second way.
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
            match value {
                Value::Null => {}
                Value::Object(members) => self.object(&here(&name), &path, members),
                other => {
                    let message = format!("an object is needed, not {}", kind(&other));
                    self.problems.add(here(&name), "wrong_type", message);
                }
            }
        }
    }

    /// Reports a field that nobody declares, with what was probably meant.
    fn unknown(&mut self, at: String, path: &str) {
        let path: String = path.chars().take(ExtensionPath::LENGTH_MAX).collect();
        let known = self.fields.iter().map(|field| field.path.as_str());
        let message = match nearest(&path, known, NAME_EDITS_MAX) {
            Some(known) => {
                format!("no installed module declares such a field; did you mean `{EXTENSION}.{known}`?")
            }
            None if self.fields.iter().len() == 0 => {
                "no installed module declares such a field; none that is installed declares any".to_owned()
            }
            None => "no installed module declares such a field".to_owned(),
        };
        self.problems.add(at, "unknown_field", message);
    }
}

fn read_content(
    at: &str,
    field: &ExtensionField,
    value: Value,
    problems: &mut Problems,
) -> Option<ExtensionContent<CodeUri>> {
    if !field.repeated {
        return read_value(at, field.kind, value, problems).map(ExtensionContent::One);
    }
    let Value::Array(items) = value else {
        problems.add(at, "wrong_type", format!("a list is needed, not {}", kind(&value)));
        return None;
    };
    if items.len() > VALUES_MAX {
        problems.add(at, "too_many", format!("at most {VALUES_MAX} items are kept, not {}", items.len()));
        return None;
    }
    let numbered = items.into_iter().enumerate();
    let values = numbered.filter_map(|(place, item)| read_value(&format!("{at}[{place}]"), field.kind, item, problems));
    Some(ExtensionContent::Many(values.collect()))
}

fn read_value(
    at: &str,
    wanted: ExtensionFieldKind,
    value: Value,
    problems: &mut Problems,
) -> Option<ExtensionValue<CodeUri>> {
    let (read, needed) = match wanted {
        ExtensionFieldKind::Coded => return code_value(at, value, problems).map(ExtensionValue::Code),
        ExtensionFieldKind::Text => {
            return text_value(at, value, TEXT_BYTES_MAX, problems).map(ExtensionValue::Text);
        }
        ExtensionFieldKind::Date => {
            let text = text_value(at, value, 40, problems)?;
            match parse_date(&text) {
                Ok(date) => return Some(ExtensionValue::Date(date)),
                Err(error) => problems.add(at, "invalid_date", error.to_string()),
            }
            return None;
        }
        ExtensionFieldKind::Boolean => (value.as_bool().map(ExtensionValue::Boolean), "`true` or `false`"),
        ExtensionFieldKind::Integer => (value.as_i64().map(ExtensionValue::Integer), "a whole number of 64 bits"),
        ExtensionFieldKind::Number => {
            (value.as_f64().filter(|number| number.is_finite()).map(ExtensionValue::Number), "a number")
        }
    };
    if read.is_none() {
        problems.add(at, "wrong_type", format!("{needed} is needed, not {}", kind(&value)));
    }
    read
}

/// Writes the extension of a record as far as installed modules declare it and the client may see it; none where that is
/// nothing.
pub fn write(
    extension: &Extension,
    seen: &FieldSet,
    fields: &ExtensionFields,
    show: &dyn Fn(CodedValue) -> DisplayedCode,
) -> Option<Value> {
    let mut written = Map::new();
    let is_shown =
        |path: &ExtensionPath| fields.get(path.as_str()).is_some() && seen.allows(&format!("{EXTENSION}.{path}"));
    for (path, content) in extension.iter().filter(|(path, _)| is_shown(path)) {
        let content = match content {
            ExtensionContent::One(value) => write_value(value, show),
            ExtensionContent::Many(values) => values.iter().map(|value| write_value(value, show)).collect(),
        };
        put(&mut written, path.as_str(), content);
    }
    (!written.is_empty()).then_some(Value::Object(written))
}

/// Puts a value under a path of keys. Declared paths never lie below one another, so that every step is an object.
fn put(object: &mut Map<String, Value>, path: &str, value: Value) {
    let Some((key, rest)) = path.split_once('.') else {
        object.insert(path.to_owned(), value);
        return;
    };
    if let Value::Object(below) = object.entry(key).or_insert_with(|| Value::Object(Map::new())) {
        put(below, rest, value);
    }
}

fn write_value(value: &ExtensionValue, show: &dyn Fn(CodedValue) -> DisplayedCode) -> Value {
    match value {
        ExtensionValue::Boolean(value) => Value::from(*value),
        ExtensionValue::Integer(value) => Value::from(*value),
        ExtensionValue::Number(value) => Value::from(*value),
        ExtensionValue::Text(value) => Value::from(value.as_str()),
        ExtensionValue::Date(value) => Value::from(value.to_string()),
        ExtensionValue::Code(value) => serde_json::to_value(CodeBody::from(show(*value))).unwrap_or(Value::Null),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::api::dto::nearest::searches;
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

    fn read_body(extension: Value) -> Result<Extension<CodeUri>, Vec<(String, &'static str)>> {
        let Value::Object(body) = json!({"extension": extension}) else { unreachable!() };
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
    fn an_empty_list_is_kept_and_null_is_absent() {
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
    fn a_list_holds_so_many_values_and_no_more() {
        let crops = |count: usize| json!({"farmer": {"crops": vec!["urn:fao:agrovoc#c_1"; count]}});
        assert!(read_body(crops(VALUES_MAX - 1)).is_ok());
        assert!(read_body(crops(VALUES_MAX)).is_ok());
        assert!(read_body(crops(VALUES_MAX + 1)).is_err());
    }

    #[test]
    fn of_very_many_unknown_fields_only_those_are_looked_up_that_are_told() {
        for name in ["crop", "area.crop"] {
            let unknown = (0..10_000).map(|number| (format!("{name}{number}"), json!([])));
            let body = json!({"farmer": unknown.collect::<Map<_, _>>()});
            let mut found = Ok(Extension::default());
            let searches = searches::made_by(|| found = read_body(body));
            assert_eq!((found.unwrap_err().len(), searches), (100, 100), "{name}");
        }
    }
}
