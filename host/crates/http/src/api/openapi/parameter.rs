//! Parameters that several operations have.

use utoipa::openapi::Required;
use utoipa::openapi::path::{Parameter, ParameterBuilder, ParameterIn, ParameterStyle};
use utoipa::openapi::schema::ObjectBuilder;

use super::shape::{self, CONSENT_ID_PATTERN, KEY_PATTERN, NAMESPACE_PATTERN, Shape};
use crate::api::elements::{Parts, fields};
use daftar_domain::code::{CODE_BYTES_MAX, NAMESPACE_BYTES_MAX};
use daftar_domain::idempotency::KEY_BYTES_MAX;
use daftar_domain::record::RecordKind;
use daftar_domain::search::PAGE_COUNT_MAX;

/// What is said of a parameter that may stand several times.
pub const SEVERAL: &str = "May stand several times: all must hold.";

/// An identifier `<system>|<value>`. How long each half may be, a pattern can say only by looking ahead, which few tools follow.
#[must_use]
pub fn key() -> ObjectBuilder {
    shape::pattern(KEY_PATTERN)
}

/// The identifier that examples ask for.
pub const SAMPLE_PERSON: &str = "urn:svc:vocab:id-type#national_id|PERSON-1";
/// The group that examples ask for.
pub const SAMPLE_GROUP: &str = "urn:svc:vocab:id-type#tax_id|HOUSEHOLD-1";

/// A parameter of the query that may stand once.
#[must_use]
pub fn query(name: &str, description: &str, shape: impl Into<Shape>) -> Parameter {
    ParameterBuilder::new()
        .name(name)
        .parameter_in(ParameterIn::Query)
        .required(Required::False)
        .description(Some(description))
        .schema(Some(shape.into()))
        .build()
}

/// A parameter of the query that must stand once.
#[must_use]
pub fn needed(name: &str, description: &str, shape: impl Into<Shape>) -> Parameter {
    ParameterBuilder::from(query(name, description, shape)).required(Required::True).build()
}

/// A parameter of the query that may stand several times: all of them must hold.
#[must_use]
pub fn repeatable(name: &str, description: &str, shape: impl Into<Shape>) -> Parameter {
    let description = format!("{description} {SEVERAL}");
    ParameterBuilder::from(query(name, &description, shape::list(shape)))
        .style(Some(ParameterStyle::Form))
        .explode(Some(true))
        .build()
}

/// A header of a request.
#[must_use]
pub fn header(name: &str, description: &str, shape: impl Into<Shape>) -> Parameter {
    ParameterBuilder::from(query(name, description, shape)).parameter_in(ParameterIn::Header).build()
}

/// A part of a path, by its name in the route; none where the name is not known here.
#[must_use]
pub fn of_path(name: &str) -> Option<Parameter> {
    let (description, shape) = match name {
        "identifier" | "member" => (
            "Any identifier of the record, `<system>|<value>`, of at most 300 and 200 bytes. In a URL `#` is written `%23` and `/` is written `%2F`.",
            key(),
        ),
        "consent_id" => ("The consent's own id.", shape::pattern(CONSENT_ID_PATTERN)),
        "namespace" => (
            "The vocabulary's namespace, raw or percent-encoded.",
            shape::pattern(NAMESPACE_PATTERN).max_length(Some(NAMESPACE_BYTES_MAX)),
        ),
        "code" => (
            "A code of the vocabulary, or an alias of one.",
            shape::pattern(r"^[^\x00-\x20\x7F-\xA0#/\s]+$").max_length(Some(CODE_BYTES_MAX)),
        ),
        "name" => ("The concept group's name.", shape::pattern("^[a-z][a-z0-9_]*$").max_length(Some(100))),
        "error_code" => ("The code.", shape::pattern("^[a-z_]+$").max_length(Some(100))),
        "file" => ("The file's name.", shape::pattern("^[A-Za-z0-9_.-]+$").max_length(Some(100))),
        _ => return None,
    };
    let parameter = query(name, description, shape);
    Some(ParameterBuilder::from(parameter).parameter_in(ParameterIn::Path).required(Required::True).build())
}

/// `_count` and `_offset`.
#[must_use]
pub fn page() -> [Parameter; 2] {
    let count = shape::whole(1).maximum(Some(f64::from(PAGE_COUNT_MAX))).default(Some(20.into()));
    let offset = shape::whole(0).maximum(Some(100_000_000.0)).default(Some(0.into()));
    [
        query("_count", "How many items a page holds at most.", count),
        query("_offset", "How many items lie before the page.", offset),
    ]
}

/// `_elements`, of a kind of record.
#[must_use]
pub fn elements(kind: RecordKind) -> Parameter {
    elements_without(kind, &[])
}

/// `_elements`, of a kind of record without some of its fields.
#[must_use]
pub fn elements_without(kind: RecordKind, left_out: &[&str]) -> Parameter {
    let paths = fields(kind).filter(|(name, _)| !left_out.contains(name)).map(|(name, parts)| match parts {
        Parts::Whole => name.to_owned(),
        Parts::Named(parts) => format!(r"{name}(\.({}))?", parts.join("|")),
        Parts::Any => format!(r"{name}(\.[^.,\s]+)?"),
    });
    let path = paths.collect::<Vec<_>>().join("|");
    let description = "The fields that the answer holds, separated by commas, such as `name,address.city`. `type`, `identifier` and `meta` always stay.";
    query("_elements", description, shape::pattern(&format!("^({path})(,({path})){{0,99}}$")))
}

/// `If-Match`.
#[must_use]
pub fn if_match() -> Parameter {
    let description = "At which version the change may find the record: an `ETag`, several separated by commas, or `*`. Any other version is 409.";
    header(
        "If-Match",
        description,
        shape::pattern(r#"^(\*|"[0-9]{1,19}"(, ?"[0-9]{1,19}"){0,19})$"#).min_length(Some(1)),
    )
}

/// `Idempotency-Key`.
#[must_use]
pub fn idempotency_key() -> Parameter {
    let description = "Names the request: sent again with the same body within 24 hours it is answered again and not done again; with another body it is 422.";
    let shape = shape::pattern(r"^[\x21\x23-\x5B\x5D-\x7E]+$").min_length(Some(1)).max_length(Some(KEY_BYTES_MAX));
    header("Idempotency-Key", description, shape)
}

/// `If-None-Match`.
#[must_use]
pub fn if_none_match() -> Parameter {
    header("If-None-Match", "The `ETag` of an answer that the client has: 304 where it still holds.", shape::text())
}

/// `Accept-Language`.
#[must_use]
pub fn accept_language() -> Parameter {
    let description = "The languages that names of codes are wanted in, best first; where none of them is there, the vocabulary's own.";
    header("Accept-Language", description, shape::text())
}
