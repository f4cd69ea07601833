//! `GET /Individual`

use crate::api::openapi::example::Example;
use crate::api::openapi::operation::{Operation, Tag};
use crate::api::openapi::parameter::{elements_without, repeatable};
use crate::api::openapi::searching::{coded, coded_as, common, day, envelope, texts};
use crate::api::openapi::shape::{KEY_PATTERN, named, pattern};
use crate::api::routes::individual_search::BESIDE;
use daftar_domain::record::RecordKind;
use daftar_domain::search::order::sort_fields;
use daftar_domain::search::{code_filters, date_filters};
use daftar_domain::vocabulary::CodedField;

/// `GET /Individual`
pub fn search() -> Operation {
    let key = KEY_PATTERN.trim_start_matches('^');
    let kind = RecordKind::Individual;
    let group = "A group that the person is in: `<system>|<value>`, or `none`. Needs `group:read`.";
    Operation::new(Tag::Individuals, "searchIndividuals", "Search people")
        .says("All conditions must hold. Without any, everybody is found. `membership_role` needs `group:read`, as `group` does. A condition on a field that the client may not see is 403.")
        .parameters(common())
        .parameters(date_filters(kind).map(day))
        .parameters(texts(kind))
        .parameters(code_filters(kind).into_iter().flat_map(coded))
        .parameter(repeatable("group", group, pattern(&format!("^(none|(Group/)?{}", key.replacen('$', ")$", 1)))))
        .parameters(coded_as("membership_role", CodedField::MemberRole))
        .parameters(envelope(elements_without(kind, &BESIDE), sort_fields(kind)))
        .in_languages()
        .answers_page("A page of people.", named("IndividualPage"), "readIndividual")
        .refuses(&[422])
        .example(
            Example::new("women", "Women born before 1966 whose name begins with `dia`, two of them, the youngest first")
                .with("gender", "urn:iso:std:iso:5218#2")
                .with("birth_date", "lt1966-01-01")
                .with("name", "dia")
                .with("_sort", "-birth_date")
                .with("_count", "2"),
        )
        .example(Example::new("nothing_to_count", "A page has at least one item").with("_count", "0").answered(400))
}
