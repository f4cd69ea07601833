//! Parameters of operations. Those of searches go with `extract/filters.rs` and `routes/record_search.rs`.

use serde::Serialize;
use serde_json::Value;
use utoipa::openapi::path::ParameterIn;

use super::shape::{
    self, CONSENT_ID_PATTERN, KEY_PATTERN, NAMESPACE_PATTERN, Shape, any_of, boolean, date_condition,
    instant_condition, object, pattern, searched, word,
};
use crate::api::elements::{Parts, fields};
use crate::api::extract::filters::TEXT_BYTES_MAX;
use crate::api::extract::query::OFFSET_MAX;
use crate::api::openapi::operation::Operation;
use crate::api::openapi::record::code_pattern_of;
use daftar_domain::code::{CODE_BYTES_MAX, NAMESPACE_BYTES_MAX};
use daftar_domain::extension::{EXTENSION, ExtensionFields};
use daftar_domain::idempotency::KEY_BYTES_MAX;
use daftar_domain::manifest::ExtensionFieldKind;
use daftar_domain::record::RecordKind;
use daftar_domain::search::order::{SORT_KEYS_MAX, SortField};
use daftar_domain::search::phrase::PhraseField;
use daftar_domain::search::{PAGE_COUNT_DEFAULT, PAGE_COUNT_MAX};
use daftar_domain::vocabulary::CodedField;

/// Description of a parameter that may be repeated.
pub const SEVERAL: &str = "May be repeated: all values must match.";

/// An identifier `<system>|<value>`. The length of each half would require lookahead in the pattern, which few tools
/// support.
#[must_use]
pub fn key() -> Shape {
    pattern(KEY_PATTERN)
}

/// A parameter of an operation.
#[derive(Clone, Serialize)]
pub struct Parameter {
    /// Its name.
    pub name: String,
    /// Location in a request.
    #[serde(rename = "in")]
    pub parameter_in: ParameterIn,
    /// Its meaning.
    pub description: String,
    required: bool,
    schema: Shape,
    /// True if a list is sent as repeated parameters of that name; none if it is no list.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub explode: Option<bool>,
    #[serde(skip_serializing_if = "Option::is_none")]
    style: Option<&'static str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    example: Option<Value>,
}

impl Parameter {
    /// The same with its value in an example, in the form of its shape.
    #[must_use]
    pub fn with_example(mut self, text: &str) -> Self {
        self.example = Some(match self.schema.kind() {
            Some("array") => [text].into_iter().collect(),
            Some("integer" | "boolean") => serde_json::from_str(text).unwrap_or_else(|_| text.into()),
            _ => text.into(),
        });
        self
    }
}

/// A query parameter that may appear once.
#[must_use]
pub fn query(name: &str, description: &str, schema: Shape) -> Parameter {
    Parameter {
        name: name.to_owned(),
        parameter_in: ParameterIn::Query,
        description: description.to_owned(),
        required: false,
        schema,
        explode: None,
        style: None,
        example: None,
    }
}

/// A query parameter that must appear once.
#[must_use]
pub fn needed(name: &str, description: &str, shape: Shape) -> Parameter {
    Parameter { required: true, ..query(name, description, shape) }
}

/// A query parameter that may be repeated: all values must match.
#[must_use]
pub fn repeatable(name: &str, description: &str, shape: Shape) -> Parameter {
    listed(true, query(name, &format!("{description} {SEVERAL}"), shape::list(shape)))
}

/// A list as repeated parameters or, separated by commas, as one.
fn listed(explode: bool, parameter: Parameter) -> Parameter {
    Parameter { style: Some("form"), explode: Some(explode), ..parameter }
}

/// A header of a request.
#[must_use]
pub fn header(name: &str, description: &str, shape: Shape) -> Parameter {
    Parameter { parameter_in: ParameterIn::Header, ..query(name, description, shape) }
}

/// A path parameter, by its name in the route; none if the name is unknown.
#[must_use]
pub fn of_path(name: &str) -> Option<Parameter> {
    let (description, shape) = match name {
        "identifier" | "member" => (
            "Any identifier of the record, `<system>|<value>`, of at most 300 and 200 bytes. In a URL `#` is written `%23` and `/` is written `%2F`.",
            key(),
        ),
        "consent_id" => ("The consent's own id.", pattern(CONSENT_ID_PATTERN)),
        "draft_id" => ("The draft's own id.", pattern(CONSENT_ID_PATTERN)),
        "namespace" => (
            "The vocabulary's namespace, raw or percent-encoded.",
            pattern(NAMESPACE_PATTERN).at_most(NAMESPACE_BYTES_MAX),
        ),
        "code" => (
            "A code of the vocabulary, or an alias of one.",
            pattern(r"^[^\x00-\x20\x7F-\xA0#/\s]+$").at_most(CODE_BYTES_MAX),
        ),
        "name" => ("The concept group's name.", pattern("^[a-z][a-z0-9_]*$").at_most(100)),
        "error_code" => ("The code.", pattern("^[a-z_]+$").at_most(100)),
        "file" => ("The file's name.", pattern("^[A-Za-z0-9_./-]+$").at_most(200)),
        _ => return None,
    };
    Some(Parameter { parameter_in: ParameterIn::Path, ..needed(name, description, shape) })
}

/// `_count` and `_offset`.
#[must_use]
pub fn page() -> [Parameter; 2] {
    let count = shape::whole(1).with("maximum", PAGE_COUNT_MAX).with("default", PAGE_COUNT_DEFAULT);
    let offset = shape::whole(0).with("maximum", OFFSET_MAX).with("default", 0);
    [
        query("_count", "The maximum number of items in a page.", count),
        query("_offset", "The number of items before the page.", offset),
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
    let description = "The fields of the response, separated by commas, such as `name,address.city`. `type`, `identifier` and `meta` are always included.";
    query("_elements", description, pattern(&format!("^({path})(,({path})){{0,99}}$")))
}

/// `If-Match`.
#[must_use]
pub fn if_match() -> Parameter {
    if_match_or(409)
}

/// `If-Match` of a resource for which any other version has that status.
#[must_use]
pub fn if_match_or(status: u16) -> Parameter {
    let description = format!(
        "The record version that the change accepts: an `ETag`, several separated by commas, or `*`. Any other version is {status}."
    );
    header("If-Match", &description, pattern(r#"^(\*|"[0-9]{1,19}"(, ?"[0-9]{1,19}"){0,19})$"#).filled())
}

/// `If-Match` of an operation that requires it; another version is 412.
#[must_use]
pub fn if_match_required() -> Parameter {
    Parameter { required: true, ..if_match_or(412) }
}

/// `Idempotency-Key`.
#[must_use]
pub fn idempotency_key() -> Parameter {
    let description = "Identifies the request: repeated with the same body within 24 hours it returns the same response and is not executed again; with another body it is 422.";
    let shape = pattern(r"^[\x21\x23-\x5B\x5D-\x7E]+$").filled().at_most(KEY_BYTES_MAX);
    header("Idempotency-Key", description, shape)
}

/// `If-None-Match`.
#[must_use]
pub fn if_none_match() -> Parameter {
    header("If-None-Match", "The `ETag` of a response that the client has: 304 if it is still valid.", shape::text())
}

/// `If-None-Match` of a change.
#[must_use]
pub fn if_none_match_of_change() -> Parameter {
    let description = "The versions at which the record is not changed: an `ETag`, several separated by commas, or `*` for all. If the record is at one of them the response is 412.";
    let tags = pattern(r#"^(\*|(W/)?"[0-9]{1,19}"(, ?(W/)?"[0-9]{1,19}"){0,19})$"#);
    header("If-None-Match", description, tags.filled())
}

/// `Accept-Language`.
#[must_use]
pub fn accept_language() -> Parameter {
    let description =
        "The preferred languages of the names of codes, best first; if none of them exists, the vocabulary's own.";
    header("Accept-Language", description, shape::text())
}

/// The only filter whose name begins with an underscore, as parameters that are no filters do.
const LAST_UPDATED: &str = "_last_updated";
/// Replaces [`SEVERAL`] for a filter as a member of an object.
const SEVERAL_LISTED: &str = "All values of a list must match.";

/// Words to search for.
#[must_use]
pub fn words() -> Shape {
    searched(TEXT_BYTES_MAX)
}

/// `identifier`, `name` and `active`, which all records have.
#[must_use]
pub fn common() -> [Parameter; 3] {
    let name = "Words of the name: each begins a word of it, in any part, without case, accents or apostrophes.";
    [
        repeatable("identifier", "An identifier, `<system>|<value>`.", key()),
        repeatable("name", name, words()),
        query("active", "True if the record is active.", boolean()),
    ]
}

/// `address`, and each text by which a kind of record is filtered as a whole.
#[must_use]
pub fn texts(kind: RecordKind) -> Vec<Parameter> {
    let address = repeatable("address", "Words of an address: each begins a word of it.", words());
    let whole = PhraseField::all(kind).map(|field| {
        let name = field.name();
        let of = name.rsplit('.').next().unwrap_or(&name);
        repeatable(&name, &format!("The complete name of a {of}, without case or accents."), words())
    });
    std::iter::once(address).chain(whole).collect()
}

/// A day of the record, optionally after a comparison.
#[must_use]
pub fn day(name: &str) -> Parameter {
    repeatable(name, "A day, perhaps after `eq`, `ne`, `gt`, `ge`, `lt` or `le`.", date_condition())
}

/// A code, and a code with its descendants.
#[must_use]
pub fn coded(field: CodedField) -> [Parameter; 2] {
    coded_as(field.path(), field)
}

/// The same under another name.
#[must_use]
pub fn coded_as(name: &str, field: CodedField) -> [Parameter; 2] {
    let namespaces: Vec<String> = field.namespaces().iter().map(|namespace| format!("`{namespace}`")).collect();
    let code = format!("A code of {}: `<namespace>%23<code>` or `<namespace>|<code>`.", namespaces.join(" or "));
    pair(name, &code, &code_pattern_of(field))
}

fn pair(name: &str, description: &str, code: &str) -> [Parameter; 2] {
    let below = format!("{description} Includes the codes below it.");
    [repeatable(name, description, pattern(code)), repeatable(&format!("{name}:below"), &below, pattern(code))]
}

/// The coded fields of installed modules, for the operations that search individuals and groups.
pub fn of_modules<'f>(operation: &Operation, fields: &'f ExtensionFields) -> impl Iterator<Item = Parameter> + 'f {
    let is_search = ["searchIndividuals", "searchGroups"].contains(&operation.id);
    let coded = fields.iter().filter(move |field| is_search && field.kind == ExtensionFieldKind::Coded);
    coded.flat_map(|field| {
        let namespace = field.vocabulary.as_deref().unwrap_or_default();
        let code = format!(r"^{}[#|][^\x00-\x20\x7F-\xA0#\s]{{1,{CODE_BYTES_MAX}}}$", namespace.replace('.', r"\."));
        pair(&format!("{EXTENSION}.{}", field.path), &format!("A code of `{namespace}`."), &code)
    })
}

/// The filters of a search as members of an object, each with one value or, if it may be repeated, a list.
#[must_use]
pub fn filters(search: &Operation, fields: &ExtensionFields) -> Shape {
    let parameters = search.parameters.iter().cloned().chain(of_modules(search, fields));
    let filters = parameters
        .filter(|parameter| parameter.parameter_in == ParameterIn::Query)
        .filter(|parameter| !parameter.name.starts_with('_') || parameter.name == LAST_UPDATED);
    filters.fold(object("Filters of a search by name: all of them must match."), |members, filter| {
        // Written in JSON, not in a URL.
        let description = filter.description.replace("%23", "#").replace(SEVERAL, SEVERAL_LISTED);
        let shape = match filter.schema.items() {
            Some(one) => any_of([one, filter.schema]),
            None => filter.schema,
        };
        members.may_or_null(&filter.name, shape.about(&description))
    })
}

/// A reference to a record of that kind, whose name may be omitted.
#[must_use]
pub fn reference(kind: RecordKind) -> Shape {
    pattern(&format!("^({kind}/)?{}", KEY_PATTERN.trim_start_matches('^')))
}

/// Parameters of every search of records, in addition to its filters.
#[must_use]
pub fn envelope(elements: Parameter, sortable: &[SortField]) -> Vec<Parameter> {
    let mut parameters = page().to_vec();
    let cursor = "Position of a page: only as in `links.next` of a response, without `_offset`. Consecutive pages neither repeat nor skip a record during concurrent changes.";
    parameters.push(query("_cursor", cursor, pattern("^[A-Za-z0-9_-]+$")));
    let keys = sortable.iter().flat_map(|field| [field.name().to_owned(), format!("-{}", field.name())]);
    let keys: Vec<String> = keys.collect();
    let keys = shape::list(word(keys.iter().map(String::as_str))).with("uniqueItems", true);
    let sort = "The order: fields separated by commas, descending after `-`. Each once.";
    parameters.push(listed(false, query("_sort", sort, keys.filled().at_most(SORT_KEYS_MAX))));
    let changed =
        "When the record was changed last: a day or an instant, perhaps after `eq`, `ne`, `gt`, `ge`, `lt` or `le`.";
    parameters.push(repeatable(LAST_UPDATED, changed, instant_condition()));
    parameters.push(elements);
    parameters
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::api::openapi::{group, individual};

    #[test]
    fn filters_of_a_preview_are_exactly_those_of_the_search() {
        for (search, own) in [(individual::search(), "birth_date"), (group::search(), "member")] {
            let shape = serde_json::to_value(filters(&search, &ExtensionFields::default())).unwrap();
            let names: Vec<&String> = shape["properties"].as_object().unwrap().keys().collect();
            let has = |name: &str| names.iter().any(|known| *known == name);
            assert!(["identifier", "active", "region", LAST_UPDATED, own].into_iter().all(has), "{names:?}");
            assert!(!["_count", "_offset", "_cursor", "_sort", "_elements", "Accept-Language"].into_iter().any(has));
            assert_eq!(shape["additionalProperties"], false);
        }
    }
}
