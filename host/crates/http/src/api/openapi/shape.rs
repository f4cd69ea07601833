//! Short constructors of JSON Schemas, and shapes derived from the types of `daftar-api-types`.
//!
//! **Invariant:** an object is closed: an undescribed member is rejected in a request and never appears in a response.
//!
//! **Invariant:** the types define the members; only this file closes their objects, merges flattened parts, and
//! excludes `null` for an optional member of a response.

use std::collections::BTreeMap;

use serde::Serialize;
use serde_json::{Map, Value, json};
use utoipa::ToSchema;

use daftar_api_types::public::eligibility::TEXT_PATTERN;

/// No control characters, and a letter or digit.
const WORDS_PATTERN: &str = r"^[^\x00-\x1F\x7F-\x9F]*[\p{L}\p{N}][^\x00-\x1F\x7F-\x9F]*$";
/// A day of the calendar between the years 1800 and 2999.
macro_rules! day {
    () => {
        concat!(
            "((1[89]|2[0-9])[0-9]{2}-((0[1-9]|1[0-2])-(0[1-9]|1[0-9]|2[0-8])|(0[13-9]|1[0-2])-(29|30)|(0[13578]|1[02])-31)",
            "|((1[89]|2[0-9])(0[48]|[2468][048]|[13579][26])|(20|24|28)00)-02-29)"
        )
    };
}

/// A day of the calendar.
pub const DATE_PATTERN: &str = concat!("^", day!(), "$");
/// A day, optionally after a comparison.
const DATE_CONDITION_PATTERN: &str = concat!("^(eq|ne|gt|ge|lt|le)?", day!(), "$");

/// A day or a timestamp, optionally after a comparison.
const INSTANT_CONDITION_PATTERN: &str = concat!(
    "^(eq|ne|gt|ge|lt|le)?",
    day!(),
    r"(T([01][0-9]|2[0-3]):[0-5][0-9]:[0-5][0-9](\.[0-9]{1,9})?(Z|[+-]([01][0-9]|2[0-3]):[0-5][0-9]))?$"
);

/// An identifier in paths and filters, decoded.
pub const KEY_PATTERN: &str = r"^[A-Za-z][A-Za-z0-9+.\-]*:[\x21-\x7B\x7D\x7E]+\|[^\x00-\x1F\x7F-\x9F\s]([^\x00-\x1F\x7F-\x9F]*[^\x00-\x1F\x7F-\x9F\s])?$";
/// The system of an identifier.
pub const SYSTEM_PATTERN: &str = r"^[A-Za-z][A-Za-z0-9+.\-]*:[\x21-\x7B\x7D\x7E]+$";
/// The value of an identifier.
pub const VALUE_PATTERN: &str = r"^[^\x00-\x1F\x7F-\x9F\s]([^\x00-\x1F\x7F-\x9F]*[^\x00-\x1F\x7F-\x9F\s])?$";
/// A code as a text: `<namespace>#<code>` or `<namespace>|<code>`.
pub const CODE_PATTERN: &str = r#"^[\x21\x22\x24-\x7B\x7D\x7E]+[#|][^\x00-\x20\x7F-\xA0#\s]+$"#;
/// A namespace.
pub const NAMESPACE_PATTERN: &str = r"^[\x21\x22\x24-\x7B\x7D\x7E]+$";
/// A consent's id in a path.
pub const CONSENT_ID_PATTERN: &str = "^([0-9a-fA-F]{32}|[0-9a-fA-F]{8}(-[0-9a-fA-F]{4}){3}-[0-9a-fA-F]{12})$";

/// The schema of a JSON value, or a reference to one, as in the document (JSON Schema 2020-12).
#[derive(Debug, Clone, Default, PartialEq, Serialize)]
#[serde(transparent)]
pub struct Shape(Map<String, Value>);

impl Shape {
    fn of(kind: &str) -> Self {
        Self::default().with("type", kind)
    }

    /// The same with that keyword.
    #[must_use]
    pub fn with(mut self, keyword: &str, value: impl Into<Value>) -> Self {
        self.0.insert(keyword.to_owned(), value.into());
        self
    }

    /// The same with a description, if it is not empty.
    #[must_use]
    pub fn about(self, description: &str) -> Self {
        if description.is_empty() { self } else { self.with("description", description) }
    }

    /// The same with a maximum number of characters or, of a list, items.
    #[must_use]
    pub fn at_most(self, count_max: usize) -> Self {
        let keyword = if self.kind() == Some("array") { "maxItems" } else { "maxLength" };
        self.with(keyword, count_max)
    }

    /// The same with at least one character or, of a list, item.
    #[must_use]
    pub fn filled(self) -> Self {
        let keyword = if self.kind() == Some("array") { "minItems" } else { "minLength" };
        self.with(keyword, 1)
    }

    /// An object that may have undescribed members.
    #[must_use]
    pub fn open(mut self) -> Self {
        self.0.remove("additionalProperties");
        self
    }

    /// The same, or `null`.
    #[must_use]
    pub fn or_null(mut self) -> Self {
        if ["$ref", "oneOf"].iter().any(|keyword| self.0.contains_key(*keyword)) {
            return any_of([self, Self::of("null")]);
        }
        if let Some(Value::Array(choices)) = self.0.get_mut("anyOf") {
            choices.push(Self::of("null").into());
        }
        if let Some(kind @ Value::String(_)) = self.0.get_mut("type")
            && *kind != "null"
        {
            *kind = json!([kind, "null"]);
        }
        if let Some(Value::Array(words)) = self.0.get_mut("enum") {
            words.push(Value::Null);
        }
        self
    }

    /// Adds a required member.
    #[must_use]
    pub fn needs(mut self, name: &str, shape: Self) -> Self {
        if !self.needed().any(|one| one == name)
            && let Value::Array(names) = self.0.entry("required").or_insert_with(|| json!([]))
        {
            names.push(name.into());
        }
        self.may(name, shape)
    }

    /// Adds an optional member, which is never `null`.
    #[must_use]
    pub fn may(mut self, name: &str, shape: Self) -> Self {
        if let Value::Object(members) = self.0.entry("properties").or_insert_with(|| json!({})) {
            members.insert(name.to_owned(), shape.into());
        }
        self
    }

    /// Adds an optional member of a request, which may be `null`.
    #[must_use]
    pub fn may_or_null(self, name: &str, shape: Self) -> Self {
        self.may(name, shape.or_null())
    }

    /// The type of the value, if it has a single one.
    #[must_use]
    pub fn kind(&self) -> Option<&str> {
        self.0.get("type").and_then(Value::as_str)
    }

    /// The shape of the items of a list.
    #[must_use]
    pub fn items(&self) -> Option<Self> {
        match self.0.get("items") {
            Some(Value::Object(items)) => Some(Self(items.clone())),
            _ => None,
        }
    }

    /// The names of the required members.
    fn needed(&self) -> impl Iterator<Item = &str> {
        self.0.get("required").and_then(Value::as_array).into_iter().flatten().filter_map(Value::as_str)
    }
}

impl From<Shape> for Value {
    fn from(shape: Shape) -> Self {
        Self::Object(shape.0)
    }
}

/// Shapes with their names in the document.
#[must_use]
pub fn by_name<const COUNT: usize>(shapes: [(&str, Shape); COUNT]) -> Vec<(String, Shape)> {
    shapes.into_iter().map(|(name, shape)| (name.to_owned(), shape)).collect()
}

/// A reference to the shape of that name.
#[must_use]
pub fn named(name: &str) -> Shape {
    Shape::default().with("$ref", format!("{NAMED}{name}"))
}

/// Prefix of a reference to a shape.
const NAMED: &str = "#/components/schemas/";

/// Any text of a response.
#[must_use]
pub fn text() -> Shape {
    Shape::of("string")
}

/// Any text of a request; NUL is rejected everywhere.
#[must_use]
pub fn plain() -> Shape {
    pattern(r"^[^\x00]*$")
}

/// A text of a request: not empty, without control characters, with at most so many bytes.
#[must_use]
pub fn written(bytes_max: usize) -> Shape {
    pattern(TEXT_PATTERN).filled().at_most(bytes_max)
}

/// Words to search for: at least one letter or digit of any script.
#[must_use]
pub fn searched(bytes_max: usize) -> Shape {
    pattern(WORDS_PATTERN).filled().at_most(bytes_max)
}

/// A text of that pattern.
#[must_use]
pub fn pattern(pattern: &str) -> Shape {
    text().with("pattern", pattern)
}

/// One of some words.
#[must_use]
pub fn word<'a>(words: impl IntoIterator<Item = &'a str>) -> Shape {
    text().with("enum", words.into_iter().collect::<Value>())
}

/// A day.
#[must_use]
pub fn date() -> Shape {
    pattern(DATE_PATTERN).with("format", "date")
}

/// A day in a filter, optionally after a comparison.
#[must_use]
pub fn date_condition() -> Shape {
    pattern(DATE_CONDITION_PATTERN)
}

/// A day or a timestamp in a filter, optionally after a comparison.
#[must_use]
pub fn instant_condition() -> Shape {
    pattern(INSTANT_CONDITION_PATTERN)
}

/// Bytes in base64 (RFC 4648, section 4).
#[must_use]
pub fn base64() -> Shape {
    pattern("^([A-Za-z0-9+/]{4})*([A-Za-z0-9+/]{4}|[A-Za-z0-9+/][AQgw]==|[A-Za-z0-9+/]{2}[AEIMQUYcgkosw048]=)$")
        .with("contentEncoding", "base64")
}

/// `true` or `false`.
#[must_use]
pub fn boolean() -> Shape {
    Shape::of("boolean")
}

/// A whole number.
#[must_use]
pub fn integer() -> Shape {
    Shape::of("integer")
}

/// A whole number of at least `least`.
#[must_use]
pub fn whole(least: u32) -> Shape {
    integer().with("minimum", least)
}

/// A number.
#[must_use]
pub fn number() -> Shape {
    Shape::of("number")
}

/// `null` alone.
#[must_use]
pub fn null() -> Shape {
    Shape::of("null")
}

/// A list.
#[must_use]
pub fn list(of: Shape) -> Shape {
    Shape::of("array").with("items", of)
}

/// A closed object.
#[must_use]
pub fn object(description: &str) -> Shape {
    any_object(description).with("additionalProperties", false)
}

/// An object with any members.
#[must_use]
pub fn any_object(description: &str) -> Shape {
    Shape::of("object").about(description)
}

/// A value of one of these shapes.
#[must_use]
pub fn any_of(shapes: impl IntoIterator<Item = Shape>) -> Shape {
    Shape::default().with("anyOf", shapes.into_iter().collect::<Value>())
}

/// Any value: accepted, so that a response may be sent back as it was received, and ignored.
#[must_use]
pub fn ignored() -> Shape {
    Shape::default().about("Ignored, so that a response may be sent back as it was received.")
}

/// The schema of a response and of every type that it refers to, by name. An optional member is never `null`.
#[must_use]
pub fn response<T: ToSchema>() -> Vec<(String, Shape)> {
    Types::of::<T>(false).shapes(&T::name())
}

/// The schema of a request and of every type that it refers to, by name. An optional member may also be `null`.
#[must_use]
pub fn request<T: ToSchema>() -> Vec<(String, Shape)> {
    Types::of::<T>(true).shapes(&T::name())
}

/// The schema of a request or a page that is completed by the caller, because the type cannot describe all of it.
#[must_use]
pub fn of_type<T: ToSchema>(description: &str) -> Shape {
    let types = Types::of::<T>(true);
    types.schemas.get(T::name().as_ref()).map(|schema| types.closed(schema)).unwrap_or_default().about(description)
}

/// A type and the types that it refers to.
struct Types {
    schemas: BTreeMap<String, Shape>,
    takes_null: bool,
}

impl Types {
    fn of<T: ToSchema>(takes_null: bool) -> Self {
        let mut schemas = vec![(T::name().into_owned(), T::schema())];
        T::schemas(&mut schemas);
        let shape = |schema| match serde_json::to_value(schema) {
            Ok(Value::Object(schema)) => Shape(schema),
            _ => Shape::default(),
        };
        Self { schemas: schemas.into_iter().map(|(name, schema)| (name, shape(schema))).collect(), takes_null }
    }

    fn shapes(&self, root: &str) -> Vec<(String, Shape)> {
        let closed: Vec<Shape> = self.schemas.values().map(|shape| self.closed(shape)).collect();
        // A type that is only flattened into others has no name in the document.
        let text = serde_json::to_string(&closed).unwrap_or_default();
        let is_named = |name: &str| name == root || text.contains(&format!("\"{NAMED}{name}\""));
        self.schemas.keys().cloned().zip(closed).filter(|(name, _)| is_named(name)).collect()
    }

    fn closed(&self, shape: &Shape) -> Shape {
        let mut shape = shape.clone();
        if let Some(Value::Array(parts)) = shape.0.remove("allOf") {
            return self.joined(shape, parts);
        }
        if let Some(Value::Array(choices)) = shape.0.get_mut("oneOf") {
            choices.iter_mut().for_each(|choice| self.close(choice));
        }
        if let Some(items) = shape.0.get_mut("items") {
            self.close(items);
        }
        if shape.0.get("format").is_some_and(|format| format == "date") && !shape.0.contains_key("pattern") {
            shape = shape.with("pattern", DATE_PATTERN);
        }
        let Some(Value::Object(members)) = shape.0.remove("properties") else { return shape };
        let members = members.into_iter().map(|(name, mut member)| {
            self.close(&mut member);
            if !self.takes_null && !shape.needed().any(|one| one == name) {
                member = without_null(member);
            }
            (name, member)
        });
        let members: Value = members.collect();
        shape.with("properties", members).with("additionalProperties", false)
    }

    fn close(&self, shape: &mut Value) {
        if let Value::Object(members) = shape {
            *shape = self.closed(&Shape(std::mem::take(members))).into();
        }
    }

    /// The members of all parts in one object: closed parts would reject each other's members.
    fn joined(&self, whole: Shape, parts: Vec<Value>) -> Shape {
        let (mut members, mut required) = (Map::new(), Vec::new());
        for part in parts {
            let Value::Object(part) = part else { continue };
            let name = part.get("$ref").and_then(Value::as_str).and_then(|path| path.strip_prefix(NAMED));
            let mut part = match name {
                Some(name) => self.schemas.get(name).map(|named| self.closed(named)).unwrap_or_default(),
                None => self.closed(&Shape(part)),
            };
            required.extend(part.needed().map(Value::from));
            if let Some(Value::Object(own)) = part.0.get_mut("properties") {
                members.append(own);
            }
        }
        let whole = whole.with("type", "object").with("additionalProperties", false);
        whole.with("required", required).with("properties", members)
    }
}

/// The shape without `null`.
fn without_null(mut shape: Value) -> Value {
    let null = Value::from(null());
    if let Some(Value::Array(choices)) = shape.get_mut("oneOf")
        && choices.len() == 2
        && choices.contains(&null)
    {
        choices.retain(|choice| *choice != null);
        return choices.pop().unwrap_or_default();
    }
    if let Some(kind) = shape.get_mut("type")
        && let Value::Array(kinds) = kind
    {
        kinds.retain(|kind| kind != "null");
        if kinds.len() == 1 {
            *kind = kinds.pop().unwrap_or_default();
        }
    }
    shape
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shown(shape: Shape) -> Value {
        shape.into()
    }

    #[test]
    fn null_is_added_to_any_shape() {
        assert_eq!(shown(boolean().or_null()), json!({"type": ["boolean", "null"]}));
        assert_eq!(shown(word(["a"]).or_null()), json!({"type": ["string", "null"], "enum": ["a", null]}));
        assert_eq!(
            shown(named("Code").or_null()),
            json!({"anyOf": [{"$ref": "#/components/schemas/Code"}, {"type": "null"}]})
        );
        assert_eq!(shown(list(text()).or_null()), json!({"type": ["array", "null"], "items": {"type": "string"}}));
        assert_eq!(shown(ignored().or_null()), shown(ignored()), "any value may be null");
    }

    #[test]
    fn an_object_is_closed_and_only_requests_take_null() {
        let answered = shown(object("A").needs("a", boolean()).may("b", boolean()));
        assert_eq!(
            answered,
            json!({
                "type": "object", "description": "A", "additionalProperties": false, "required": ["a"],
                "properties": {"a": {"type": "boolean"}, "b": {"type": "boolean"}},
            })
        );
        let sent = shown(object("A").needs("a", boolean()).may_or_null("b", boolean()));
        assert_eq!(sent["properties"], json!({"a": {"type": "boolean"}, "b": {"type": ["boolean", "null"]}}));
    }
}

#[cfg(test)]
mod derived_tests {
    use serde::{Deserialize, Serialize};
    use serde_json::{Value, json, to_value};

    use super::*;

    /// A part.
    #[derive(Debug, Serialize, Deserialize, ToSchema)]
    struct Part {
        day: String,
        #[serde(skip_serializing_if = "Option::is_none")]
        more: Option<Inner>,
    }

    /// Inside.
    #[derive(Debug, Serialize, Deserialize, ToSchema)]
    struct Inner {
        #[schema(required)]
        text: Option<String>,
        #[serde(skip_serializing_if = "Option::is_none")]
        list: Option<Vec<String>>,
    }

    /// A whole.
    #[derive(Debug, Serialize, Deserialize, ToSchema)]
    #[schema(examples(json!({"count": 1})))]
    struct Whole {
        #[serde(flatten)]
        part: Part,
        count: u32,
    }

    fn json_of(shapes: Vec<(String, Shape)>) -> Value {
        Value::Object(shapes.into_iter().map(|(name, shape)| (name, to_value(shape).unwrap())).collect())
    }

    #[test]
    fn parts_are_joined_and_objects_closed() {
        let shapes = json_of(response::<Whole>());
        assert_eq!(
            shapes.as_object().unwrap().keys().collect::<Vec<_>>(),
            ["Inner", "Whole"],
            "a part is in the whole"
        );
        let whole = &shapes["Whole"];
        assert_eq!(whole["required"], json!(["day", "count"]));
        assert_eq!(whole["properties"]["more"], json!({"$ref": "#/components/schemas/Inner"}));
        assert_eq!((&whole["additionalProperties"], &whole["examples"]), (&json!(false), &json!([{"count": 1}])));
        assert_eq!(whole["description"], "A whole.");
    }

    #[test]
    fn a_problem_is_closed_and_has_no_null() {
        let shapes = json_of(response::<daftar_api_types::problem::Problem<'_>>());
        let problem = &shapes["Problem"];
        assert_eq!(problem["additionalProperties"], false);
        assert_eq!(problem["required"], json!(["type", "code", "title", "status", "detail", "request_id"]));
        for (name, member) in problem["properties"].as_object().unwrap() {
            assert!(!member.to_string().contains("null"), "{name}: {member}");
        }
        let outcome = &problem["properties"]["outcome"];
        assert_eq!(outcome["$ref"], "#/components/schemas/ProblemOutcome");
        assert!(outcome["description"].is_string(), "{outcome}");
        assert_eq!(shapes["ProblemOutcome"]["enum"], json!(["not_eligible", "undetermined"]));
        assert_eq!(problem["properties"]["errors"]["items"]["$ref"], "#/components/schemas/FieldProblem");
        assert_eq!(problem["properties"]["diagnostics"]["items"]["$ref"], "#/components/schemas/Diagnostic");
    }

    #[test]
    fn only_members_of_requests_and_those_that_are_always_there_may_be_null() {
        let null = json!({"type": "null"});
        let (response, request) = (json_of(response::<Whole>()), json_of(request::<Whole>()));
        for shapes in [&response, &request] {
            assert_eq!(shapes["Inner"]["properties"]["text"]["type"], json!(["string", "null"]));
            assert_eq!(shapes["Inner"]["required"], json!(["text"]));
        }
        assert_eq!(response["Inner"]["properties"]["list"]["type"], "array");
        assert_eq!(request["Inner"]["properties"]["list"]["type"], json!(["array", "null"]));
        assert_eq!(request["Whole"]["properties"]["more"]["oneOf"][0], null);
    }
}
