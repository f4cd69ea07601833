//! Shapes of JSON values, in few words, and those that are derived from the types of `daftar-api-types`.
//!
//! **Invariant:** an object is closed: a member that is not told here is refused in a request and never stands in an answer.
//!
//! **Invariant:** the types say which members there are; this is the one place that closes their objects, joins the parts that a type has
//! flattened into it, and says that a member of a response that may be absent is never `null`.

use std::collections::BTreeMap;

use serde_json::Value;
use utoipa::ToSchema;
use utoipa::openapi::RefOr;
use utoipa::openapi::schema::{
    AdditionalProperties, AllOf, AnyOfBuilder, ArrayBuilder, ArrayItems, KnownFormat, Object, ObjectBuilder, OneOf,
    Ref, RefBuilder, Schema, SchemaFormat, SchemaType, Type,
};

use daftar_api_types::public::eligibility::TEXT_PATTERN;

/// The shape of a JSON value, or the name of one.
pub type Shape = RefOr<Schema>;

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
/// A day, perhaps after a comparison.
const DATE_CONDITION_PATTERN: &str = concat!("^(eq|ne|gt|ge|lt|le)?", day!(), "$");

/// A day or an instant, perhaps after a comparison.
const INSTANT_CONDITION_PATTERN: &str = concat!(
    "^(eq|ne|gt|ge|lt|le)?",
    day!(),
    r"(T([01][0-9]|2[0-3]):[0-5][0-9]:[0-5][0-9](\.[0-9]{1,9})?(Z|[+-](0[0-9]|1[0-2]):[0-5][0-9]))?$"
);

/// An identifier as paths and filters have it, decoded.
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

/// Shapes with their names in the document.
#[must_use]
pub fn by_name<const COUNT: usize>(shapes: [(&str, Shape); COUNT]) -> Vec<(String, Shape)> {
    shapes.into_iter().map(|(name, shape)| (name.to_owned(), shape)).collect()
}

/// The shape that has that name in the document.
#[must_use]
pub fn named(name: &str) -> Ref {
    Ref::from_schema_name(name)
}

/// The named shape with words of its own.
#[must_use]
pub fn named_as(name: &str, description: &str) -> RefBuilder {
    RefBuilder::new().ref_location_from_schema_name(name).description(Some(description))
}

/// Any text, as answers have it.
#[must_use]
pub fn text() -> ObjectBuilder {
    ObjectBuilder::new().schema_type(Type::String)
}

/// A text that a request may write as it likes, but for NUL, which no request holds.
#[must_use]
pub fn plain() -> ObjectBuilder {
    text().pattern(Some(r"^[^\x00]*$"))
}

/// A text that a request writes: not empty, without control characters, of at most so many bytes.
#[must_use]
pub fn written(bytes_max: usize) -> ObjectBuilder {
    text().min_length(Some(1)).max_length(Some(bytes_max)).pattern(Some(TEXT_PATTERN))
}

/// Words to search for: at least one letter or digit of any script.
#[must_use]
pub fn searched(bytes_max: usize) -> ObjectBuilder {
    text().min_length(Some(1)).max_length(Some(bytes_max)).pattern(Some(WORDS_PATTERN))
}

/// A text of that pattern.
#[must_use]
pub fn pattern(pattern: &str) -> ObjectBuilder {
    text().pattern(Some(pattern))
}

/// One of some words.
#[must_use]
pub fn word<'a>(words: impl IntoIterator<Item = &'a str>) -> ObjectBuilder {
    text().enum_values(Some(words))
}

/// A day.
#[must_use]
pub fn date() -> ObjectBuilder {
    text().format(Some(SchemaFormat::KnownFormat(KnownFormat::Date))).pattern(Some(DATE_PATTERN))
}

/// A day in a filter, perhaps after a comparison.
#[must_use]
pub fn date_condition() -> ObjectBuilder {
    pattern(DATE_CONDITION_PATTERN)
}

/// A day or an instant in a filter, perhaps after a comparison.
#[must_use]
pub fn instant_condition() -> ObjectBuilder {
    pattern(INSTANT_CONDITION_PATTERN)
}

/// Bytes in base64 (RFC 4648, section 4).
#[must_use]
pub fn base64() -> ObjectBuilder {
    pattern("^([A-Za-z0-9+/]{4})*([A-Za-z0-9+/]{4}|[A-Za-z0-9+/][AQgw]==|[A-Za-z0-9+/]{2}[AEIMQUYcgkosw048]=)$")
        .content_encoding("base64")
}

/// `true` or `false`.
#[must_use]
pub fn boolean() -> ObjectBuilder {
    ObjectBuilder::new().schema_type(Type::Boolean)
}

/// A whole number from `least` on.
#[must_use]
pub fn whole(least: u32) -> ObjectBuilder {
    ObjectBuilder::new().schema_type(Type::Integer).minimum(Some(f64::from(least)))
}

/// A number.
#[must_use]
pub fn number() -> ObjectBuilder {
    ObjectBuilder::new().schema_type(Type::Number)
}

/// A list.
#[must_use]
pub fn list(of: impl Into<Shape>) -> ArrayBuilder {
    ArrayBuilder::new().items(of.into())
}

/// A value of one of these shapes.
#[must_use]
pub fn any_of(shapes: impl IntoIterator<Item = Shape>) -> AnyOfBuilder {
    let builder = AnyOfBuilder::new().schema_type(SchemaType::AnyValue);
    shapes.into_iter().fold(builder, AnyOfBuilder::item)
}

/// Any value: it is taken so that an answer may be sent back as it was received, and not looked at.
#[must_use]
pub fn ignored() -> Shape {
    let shape = ObjectBuilder::new().schema_type(SchemaType::AnyValue);
    shape.description(Some("Not looked at, so that an answer may be sent back as it was received.")).into()
}

/// The shape with a description, where there is one to give.
#[must_use]
pub fn about(shape: impl Into<Shape>, description: &str) -> Shape {
    let mut shape = shape.into();
    if !description.is_empty() {
        let description = description.to_owned();
        match &mut shape {
            RefOr::Ref(reference) => reference.description = description,
            RefOr::T(Schema::Object(object)) => object.description = Some(description),
            RefOr::T(Schema::Array(list)) => list.description = Some(description),
            RefOr::T(Schema::AnyOf(choice)) => choice.description = Some(description),
            RefOr::T(_) => {}
        }
    }
    shape
}

/// The same, or `null`.
#[must_use]
pub fn or_null(shape: impl Into<Shape>) -> Shape {
    let null = || ObjectBuilder::new().schema_type(Type::Null);
    match shape.into() {
        RefOr::T(Schema::Object(mut object)) => {
            if let SchemaType::Type(only) = &object.schema_type
                && *only != Type::Null
            {
                object.schema_type = SchemaType::Array(vec![only.clone(), Type::Null]);
            }
            if let Some(values) = &mut object.enum_values {
                values.push(Value::Null);
            }
            object.into()
        }
        RefOr::T(Schema::Array(mut array)) => {
            array.schema_type = SchemaType::Array(vec![Type::Array, Type::Null]);
            array.into()
        }
        RefOr::T(Schema::AnyOf(mut choice)) => {
            choice.items.push(null().into());
            RefOr::T(Schema::AnyOf(choice))
        }
        other => any_of([other, null().into()]).into(),
    }
}

/// The members of an object, in what direction it goes.
pub struct Members {
    object: ObjectBuilder,
    takes_null: bool,
}

impl Members {
    /// An object of an answer.
    #[must_use]
    pub fn answered(description: &str) -> Self {
        Self { object: Self::closed(description), takes_null: false }
    }

    /// An object of a request: a member that need not be there may also be `null`.
    #[must_use]
    pub fn sent(description: &str) -> Self {
        Self { object: Self::closed(description), takes_null: true }
    }

    fn closed(description: &str) -> ObjectBuilder {
        let object = ObjectBuilder::new().schema_type(Type::Object).description(Some(description));
        object.additional_properties(Some(AdditionalProperties::<Schema>::FreeForm(false)))
    }

    /// A member that must be there.
    #[must_use]
    pub fn needs(mut self, name: &str, shape: impl Into<Shape>) -> Self {
        self.object = self.object.property(name, shape.into()).required(name);
        self
    }

    /// A member that may be there.
    #[must_use]
    pub fn may(mut self, name: &str, shape: impl Into<Shape>) -> Self {
        let shape = if self.takes_null { or_null(shape) } else { shape.into() };
        self.object = self.object.property(name, shape);
        self
    }

    /// A member that may be left out, and is not `null`.
    #[must_use]
    pub fn may_filled(mut self, name: &str, shape: impl Into<Shape>) -> Self {
        self.object = self.object.property(name, shape.into());
        self
    }

    /// Each of these, as `may` has them.
    #[must_use]
    pub fn may_each<N: AsRef<str>>(self, members: impl IntoIterator<Item = (N, Shape)>) -> Self {
        members.into_iter().fold(self, |all, (name, shape)| all.may(name.as_ref(), shape))
    }
}

impl From<Members> for Shape {
    fn from(members: Members) -> Self {
        members.object.into()
    }
}

/// The schema of a response and of every type that it refers to, by name. A member that may be absent is not `null`.
#[must_use]
pub fn response<T: ToSchema>() -> Vec<(String, Shape)> {
    Types::of::<T>(false).shapes(&T::name())
}

/// The schema of a request and of every type that it refers to, by name. A member that may be absent may also be `null`.
#[must_use]
pub fn request<T: ToSchema>() -> Vec<(String, Shape)> {
    Types::of::<T>(true).shapes(&T::name())
}

/// The schema of a request or a page that is to be completed, where the type cannot describe all of it.
#[must_use]
pub fn object<T: ToSchema>(description: &str) -> Object {
    let mut object = match Types::of::<T>(true).closed(&T::schema()) {
        RefOr::T(Schema::Object(object)) => object,
        _ => Object::new(),
    };
    object.description = Some(description.to_owned());
    object
}

/// Replaces the shape of a member.
#[must_use]
pub fn with(mut object: Object, name: &str, shape: impl Into<Shape>) -> Object {
    object.properties.insert(name.to_owned(), shape.into());
    object
}

/// Says that a member must be there, and of which shape.
#[must_use]
pub fn needing(mut object: Object, name: &str, shape: impl Into<Shape>) -> Object {
    if !object.required.iter().any(|one| one == name) {
        object.required.push(name.to_owned());
    }
    with(object, name, shape)
}

/// A type and those that it refers to.
struct Types {
    schemas: BTreeMap<String, Shape>,
    takes_null: bool,
}

impl Types {
    fn of<T: ToSchema>(takes_null: bool) -> Self {
        let mut schemas = vec![(T::name().into_owned(), T::schema())];
        T::schemas(&mut schemas);
        Self { schemas: schemas.into_iter().collect(), takes_null }
    }

    fn shapes(&self, root: &str) -> Vec<(String, Shape)> {
        let closed: Vec<Shape> = self.schemas.values().map(|shape| self.closed(shape)).collect();
        // A type that is only flattened into others has no name in the document.
        let text = serde_json::to_string(&closed).unwrap_or_default();
        let is_named = |name: &str| name == root || text.contains(&format!("\"#/components/schemas/{name}\""));
        self.schemas.keys().cloned().zip(closed).filter(|(name, _)| is_named(name)).collect()
    }

    fn closed(&self, shape: &Shape) -> Shape {
        match shape {
            RefOr::T(Schema::Object(object)) => self.closed_object(object.clone()).into(),
            RefOr::T(Schema::AllOf(parts)) => self.joined(parts).into(),
            RefOr::T(Schema::OneOf(choice)) => {
                let mut choice = choice.clone();
                choice.items = choice.items.iter().map(|item| self.closed(item)).collect();
                RefOr::T(Schema::OneOf(choice))
            }
            RefOr::T(Schema::Array(list)) => {
                let mut list = list.clone();
                if let ArrayItems::RefOrSchema(item) = &list.items {
                    list.items = ArrayItems::RefOrSchema(Box::new(self.closed(item)));
                }
                RefOr::T(Schema::Array(list))
            }
            other => other.clone(),
        }
    }

    fn closed_object(&self, mut object: Object) -> Object {
        if object.format == Some(SchemaFormat::KnownFormat(KnownFormat::Date)) && object.pattern.is_none() {
            object.pattern = Some(DATE_PATTERN.to_owned());
        }
        if object.properties.is_empty() {
            return object;
        }
        object.additional_properties = Some(Box::new(AdditionalProperties::FreeForm(false)));
        let required = object.required.clone();
        for (name, shape) in &mut object.properties {
            let closed = self.closed(shape);
            let is_filled = !self.takes_null && !required.contains(name);
            *shape = if is_filled { without_null(closed) } else { closed };
        }
        object
    }

    /// The members of all parts as one object: closed parts would refuse each other's members.
    fn joined(&self, parts: &AllOf) -> Object {
        let mut joined = Object::new();
        for part in &parts.items {
            let part = match part {
                RefOr::Ref(named) => named.ref_location.rsplit('/').next().and_then(|name| self.schemas.get(name)),
                RefOr::T(_) => Some(part),
            };
            let Some(RefOr::T(Schema::Object(part))) = part.map(|part| self.closed(part)) else { continue };
            joined.required.extend(part.required);
            joined.properties.extend(part.properties);
        }
        joined.schema_type = SchemaType::Type(Type::Object);
        joined.additional_properties = Some(Box::new(AdditionalProperties::FreeForm(false)));
        joined.description.clone_from(&parts.description);
        joined.examples.clone_from(&parts.examples);
        joined
    }
}

/// The shape without `null`.
fn without_null(shape: Shape) -> Shape {
    match shape {
        RefOr::T(Schema::Object(mut object)) => {
            object.schema_type = filled(object.schema_type);
            object.into()
        }
        RefOr::T(Schema::Array(mut list)) => {
            list.schema_type = filled(list.schema_type);
            list.into()
        }
        RefOr::T(Schema::OneOf(OneOf { items, .. })) if items.len() == 2 && items.iter().any(is_null) => {
            let mut items = items.into_iter().filter(|item| !is_null(item));
            items.next().unwrap_or_else(|| Object::new().into())
        }
        other => other,
    }
}

fn filled(kinds: SchemaType) -> SchemaType {
    match kinds {
        SchemaType::Array(kinds) => {
            let mut kinds: Vec<Type> = kinds.into_iter().filter(|kind| *kind != Type::Null).collect();
            match (kinds.pop(), kinds.is_empty()) {
                (Some(only), true) => SchemaType::Type(only),
                (Some(last), false) => SchemaType::Array(kinds.into_iter().chain([last]).collect()),
                (None, _) => SchemaType::AnyValue,
            }
        }
        other => other,
    }
}

fn is_null(shape: &Shape) -> bool {
    matches!(shape, RefOr::T(Schema::Object(object)) if object.schema_type == SchemaType::Type(Type::Null))
}

#[cfg(test)]
mod tests {
    use serde_json::{json, to_value};

    use super::*;

    fn shown(shape: impl Into<Shape>) -> Value {
        to_value(shape.into()).unwrap()
    }

    #[test]
    fn null_joins_whatever_the_shape_is() {
        assert_eq!(shown(or_null(boolean())), json!({"type": ["boolean", "null"]}));
        assert_eq!(shown(or_null(word(["a"]))), json!({"type": ["string", "null"], "enum": ["a", null]}));
        assert_eq!(
            shown(or_null(named("Code"))),
            json!({"anyOf": [{"$ref": "#/components/schemas/Code"}, {"type": "null"}]})
        );
        assert_eq!(shown(or_null(list(text()))), json!({"type": ["array", "null"], "items": {"type": "string"}}));
        assert_eq!(shown(or_null(ignored())), shown(ignored()), "any value may be null");
    }

    #[test]
    fn an_object_is_closed_and_only_requests_take_null() {
        let answered = shown(Members::answered("A").needs("a", boolean()).may("b", boolean()));
        assert_eq!(
            answered,
            json!({
                "type": "object", "description": "A", "additionalProperties": false, "required": ["a"],
                "properties": {"a": {"type": "boolean"}, "b": {"type": "boolean"}},
            })
        );
        let sent = shown(Members::sent("A").needs("a", boolean()).may("b", boolean()));
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
