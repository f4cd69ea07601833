//! Schemas of the types of `daftar-api-types`, as the document has them.
//!
//! **Invariant:** the types say which members there are; this is the one place that closes their objects, joins the parts that a type has
//! flattened into it, and says that a member of a response that may be absent is never `null`.

use std::collections::BTreeMap;

use utoipa::ToSchema;
use utoipa::openapi::RefOr;
use utoipa::openapi::schema::{
    AdditionalProperties, AllOf, ArrayItems, KnownFormat, Object, OneOf, Schema, SchemaFormat, SchemaType, Type,
};

use super::shape::{DATE_PATTERN, Shape};

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
