//! `GET /Individual`

use utoipa::openapi::path::Parameter;

use crate::api::elements::INDIVIDUAL;
use crate::api::openapi::example::Example;
use crate::api::openapi::operation::{Operation, Tag};
use crate::api::openapi::parameter::{self, KEY_BYTES_MAX, KEY_PATTERN, query, repeatable};
use crate::api::openapi::shape::{Shape, boolean, date_condition, named, pattern, searched};
use crate::api::openapi::shared::code_pattern_of;
use crate::domain::vocabulary::CodedField;

/// The longest name that is searched for, in bytes.
const NAME_BYTES_MAX: usize = 1_000;

/// `GET /Individual`
#[must_use]
pub fn search() -> Operation {
    Operation::new(Tag::Individuals, "searchIndividuals", "Search people")
        .says("All conditions must hold. Without any, everybody is found.")
        .parameters(filters())
        .parameters(parameter::page())
        .parameter(parameter::elements(INDIVIDUAL))
        .in_languages()
        .answers("A page of people.", named("IndividualPage"))
        .example(
            Example::new("women", "Women born before 1966 whose name begins with `dia`, two of them")
                .with("gender", "urn:iso:std:iso:5218#2")
                .with("birth_date", "lt1966-01-01")
                .with("name", "dia")
                .with("_count", "2"),
        )
        .example(
            Example::new("unknown_parameter", "A filter that there is not is refused, never ignored")
                .with("_count", "0")
                .answered(400),
        )
}

fn filters() -> Vec<Parameter> {
    let mut filters = vec![
        repeatable(
            "identifier",
            "An identifier, `<system>|<value>`.",
            pattern(KEY_PATTERN).max_length(Some(KEY_BYTES_MAX)),
        ),
        repeatable(
            "name",
            "Words of the name: each begins a word of it, in any part, without case, accents or apostrophes.",
            words(),
        ),
        repeatable("birth_date", "A day, perhaps after `eq`, `ne`, `gt`, `ge`, `lt` or `le`.", date_condition()),
        query("active", "Whether the record is in use.", boolean()),
    ];
    let coded = CodedField::individual_singles().chain(CodedField::individual_lists());
    filters.extend(coded.chain([CodedField::AddressCountry]).map(coded_filter));
    filters
}

fn coded_filter(field: CodedField) -> Parameter {
    let namespaces: Vec<String> = field.namespaces().iter().map(|namespace| format!("`{namespace}`")).collect();
    let description = format!("A code of {}: `<namespace>%23<code>` or `<namespace>|<code>`.", namespaces.join(" or "));
    repeatable(field.path(), &description, pattern(&code_pattern_of(field)))
}

/// Words of a name to search for.
#[must_use]
pub fn words() -> Shape {
    searched(NAME_BYTES_MAX).into()
}
