//! Parameters of searches: goes with `extract/filters.rs` and `routes/record_search.rs`.

use utoipa::openapi::RefOr;
use utoipa::openapi::path::{Parameter, ParameterBuilder, ParameterIn, ParameterStyle};
use utoipa::openapi::schema::{ArrayItems, ObjectBuilder, Schema};

use super::operation::Operation;
use super::parameter::{self, SEVERAL, key, query, repeatable};
use super::shape::{
    self, KEY_PATTERN, Members, Shape, any_of, boolean, date_condition, instant_condition, pattern, searched, word,
};
use super::shared::code_pattern_of;
use daftar_domain::code::CODE_BYTES_MAX;
use daftar_domain::extension::{EXTENSION, ExtensionFields};
use daftar_domain::manifest::ExtensionFieldKind;
use daftar_domain::record::RecordKind;
use daftar_domain::search::order::{SORT_KEYS_MAX, SortField};
use daftar_domain::search::phrase::PhraseField;
use daftar_domain::vocabulary::CodedField;

/// The one filter whose name begins as that of what is not a filter.
const LAST_UPDATED: &str = "_last_updated";
/// What [`SEVERAL`] is where a filter is a member of an object.
const SEVERAL_LISTED: &str = "Of several in a list all must hold.";
/// The longest text that is searched for, in bytes.
const TEXT_BYTES_MAX: usize = 1_000;

/// Words to search for.
#[must_use]
pub fn words() -> Shape {
    searched(TEXT_BYTES_MAX).into()
}

/// `identifier`, `name` and `active`, which all records have.
#[must_use]
pub fn common() -> [Parameter; 3] {
    let name = "Words of the name: each begins a word of it, in any part, without case, accents or apostrophes.";
    [
        repeatable("identifier", "An identifier, `<system>|<value>`.", key()),
        repeatable("name", name, words()),
        query("active", "Whether the record is in use.", boolean()),
    ]
}

/// `address`, and each text that a kind of record is filtered by as a whole.
#[must_use]
pub fn texts(kind: RecordKind) -> Vec<Parameter> {
    let address = repeatable("address", "Words of an address: each begins a word of it.", words());
    let whole = PhraseField::all(kind).map(|field| {
        let name = field.name();
        let of = name.rsplit('.').next().unwrap_or(&name);
        repeatable(&name, &format!("The whole name of a {of}, without case or accents."), words())
    });
    std::iter::once(address).chain(whole).collect()
}

/// A day of the record, perhaps after a comparison.
#[must_use]
pub fn day(name: &str) -> Parameter {
    repeatable(name, "A day, perhaps after `eq`, `ne`, `gt`, `ge`, `lt` or `le`.", date_condition())
}

/// A code, and a code with everything below it.
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
    let below = format!("{description} The codes below it are meant too.");
    [repeatable(name, description, pattern(code)), repeatable(&format!("{name}:below"), &below, pattern(code))]
}

/// The coded fields that installed modules add; for the operations that search people and groups.
pub fn of_modules<'f>(operation: &Operation, fields: &'f ExtensionFields) -> impl Iterator<Item = Parameter> + 'f {
    let is_search = ["searchIndividuals", "searchGroups"].contains(&operation.id);
    let coded = fields.iter().filter(move |field| is_search && field.kind == ExtensionFieldKind::Coded);
    coded.flat_map(|field| {
        let namespace = field.vocabulary.as_deref().unwrap_or_default();
        let code = format!(r"^{}[#|][^\x00-\x20\x7F-\xA0#\s]{{1,{CODE_BYTES_MAX}}}$", namespace.replace('.', r"\."));
        pair(&format!("{EXTENSION}.{}", field.path), &format!("A code of `{namespace}`."), &code)
    })
}

/// The filters of a search as members of an object, each with one value or, where it may stand several times, a list of them.
#[must_use]
pub fn filters(search: &Operation, fields: &ExtensionFields) -> Shape {
    let parameters = search.parameters.iter().cloned().chain(of_modules(search, fields));
    let filters = parameters
        .filter(|parameter| matches!(parameter.parameter_in, ParameterIn::Query))
        .filter(|parameter| !parameter.name.starts_with('_') || parameter.name == LAST_UPDATED);
    let members = Members::sent("Filters of a search by name: all of them must hold.");
    filters
        .fold(members, |members, Parameter { name, description, schema, .. }| match schema {
            Some(schema) => {
                // Written in JSON, not in a URL.
                let description = description.unwrap_or_default().replace("%23", "#").replace(SEVERAL, SEVERAL_LISTED);
                members.may(&name, one_or_several(schema, &description))
            }
            None => members,
        })
        .into()
}

/// An item of a list, or the list; of what is no list just that.
fn one_or_several(shape: Shape, description: &str) -> Shape {
    match shape {
        RefOr::T(Schema::Array(list)) => {
            let one = match list.items.clone() {
                ArrayItems::RefOrSchema(item) => vec![*item],
                ArrayItems::False => vec![],
            };
            any_of(one.into_iter().chain([list.into()])).description(Some(description)).into()
        }
        RefOr::T(Schema::Object(object)) => ObjectBuilder::from(object).description(Some(description)).into(),
        other => other,
    }
}

/// A reference to a record of that kind, which need not be named.
#[must_use]
pub fn reference(kind: RecordKind) -> Shape {
    pattern(&format!("^({kind}/)?{}", KEY_PATTERN.trim_start_matches('^'))).into()
}

/// What every search of records takes beside its filters.
#[must_use]
pub fn envelope(elements: Parameter, sortable: &[SortField]) -> Vec<Parameter> {
    let mut parameters = parameter::page().to_vec();
    let cursor = "Where a page begins: only as `links.next` of an answer has it, without `_offset`. Pages that follow each other by it neither repeat nor skip a record while others change.";
    parameters.push(query("_cursor", cursor, pattern("^[A-Za-z0-9_-]+$")));
    let keys = sortable.iter().flat_map(|field| [field.name().to_owned(), format!("-{}", field.name())]);
    let keys: Vec<String> = keys.collect();
    let keys = shape::list(word(keys.iter().map(String::as_str)))
        .unique_items(true)
        .min_items(Some(1))
        .max_items(Some(SORT_KEYS_MAX));
    let sort =
        query("_sort", "In what order: fields separated by commas, the opposite way after `-`. Each once.", keys);
    parameters.push(ParameterBuilder::from(sort).style(Some(ParameterStyle::Form)).explode(Some(false)).build());
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
    fn filters_of_a_preview_are_those_of_the_search_and_nothing_beside_them() {
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
