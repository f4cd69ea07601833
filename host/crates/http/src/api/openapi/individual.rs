//! `/Individual`: goes with `routes/record.rs`. The shapes of records come from `record.rs`.

use super::operation::{DocumentedResponse, Link, Operation, Tag};
use super::parameter::{self, coded, coded_as, common, day, elements_without, envelope, repeatable, texts};
use super::record::{self, fields_answered};
use super::shape::{KEY_PATTERN, Shape, by_name, named, object, pattern};
use crate::api::dto::field::Level;
use crate::api::routes::record_search::EXTRA_ELEMENTS;
use daftar_domain::extension::ExtensionFields;
use daftar_domain::group::{MEMBER_ENTITY, MEMBERS};
use daftar_domain::record::RecordKind;
use daftar_domain::search::order::sort_fields;
use daftar_domain::search::{code_filters, date_filters};
use daftar_domain::vocabulary::CodedField;

/// `GET /Individual`
pub fn search() -> Operation {
    let key = KEY_PATTERN.trim_start_matches('^');
    let kind = RecordKind::Individual;
    let group = "A group of the individual: `<system>|<value>`, or `none`. Requires `group:read`.";
    Operation::new(Tag::Individuals, "searchIndividuals", "Search people")
        .says("All conditions must match. Without conditions all individuals match. `membership_role` requires `group:read`, as `group` does. A condition on a field that the client may not see is 403.")
        .parameters(common())
        .parameters(date_filters(kind).map(day))
        .parameters(texts(kind))
        .parameters(code_filters(kind).into_iter().flat_map(coded))
        .parameter(repeatable("group", group, pattern(&format!("^(none|(Group/)?{}", key.replacen('$', ")$", 1)))))
        .parameters(coded_as("membership_role", CodedField::MemberRole))
        .parameters(envelope(elements_without(kind, &EXTRA_ELEMENTS), sort_fields(kind)))
        .in_languages()
        .answers_page("A page of people.", named("IndividualPage"), "readIndividual")
        .refuses(&[422])
}

/// `GET /Individual/{identifier}`
pub fn read() -> Operation {
    Operation::new(Tag::Individuals, "readIndividual", "Read a person")
        .says("By any identifier. 409 if several records once had an identifier that ended.")
        .parameter(parameter::elements(RecordKind::Individual))
        .in_languages()
        .answers_record("The person.", "Individual")
        .refuses(&[404, 409])
}

/// `POST /Individual`
pub fn create() -> Operation {
    let response = DocumentedResponse::written(201, "The individual is registered.", "Individual");
    Operation::new(Tag::Individuals, "createIndividual", "Register a person")
        .says("409 if an identifier is in use. The response contains the fields that a read returns to this client.")
        .parameter(parameter::idempotency_key())
        .in_languages()
        .body("The person.", named("IndividualSent"))
        .response(response.link(read_from_body("readIndividual")))
        .refuses(&[409])
}

/// Parameters that read the record of a response: its first identifier.
#[must_use]
pub fn read_from_body(operation: &'static str) -> Link {
    const PARAMETERS: &[(&str, &str)] =
        &[("identifier", "{$response.body#/identifier/0/system}|{$response.body#/identifier/0/value}")];
    Link { name: operation, operation, parameters: PARAMETERS }
}

/// `PUT /Individual/{identifier}`
pub fn replace() -> Operation {
    Operation::new(Tag::Individuals, "replaceIndividual", "Replace an individual")
        .says("Fields that the body omits are removed, except identifiers: they are added and ended (`period.end`), never removed or altered.")
        .in_languages()
        .body("The person.", named("IndividualSent"))
        .changes(DocumentedResponse::written(200, "The individual as changed.", "Individual"))
}

/// `PATCH /Individual/{identifier}`
pub fn patch() -> Operation {
    Operation::new(Tag::Individuals, "patchIndividual", "Change some fields of a person")
        .says("A merge patch (RFC 7396): named fields are replaced, lists completely, and `null` removes a field.")
        .in_languages()
        .merge_patch("The fields to change.", "IndividualPatch")
        .changes(DocumentedResponse::written(200, "The individual as changed.", "Individual"))
}

/// `GET /Individual/{identifier}/groups`
pub fn groups() -> Operation {
    Operation::new(Tag::Individuals, "listGroupsOfIndividual", "List current and former groups of an individual")
        .says("Requires `group:read` as well.")
        .parameters(parameter::page())
        .in_languages()
        .responses("A page of memberships in groups.", record::page_of("Place"))
        .refuses(&[404, 409])
}

/// The shapes of this noun, by name; `fields` are those of installed modules.
#[must_use]
pub fn shapes(fields: &ExtensionFields) -> Vec<(String, Shape)> {
    let about = "An individual. An absent field is not recorded, or not visible to this client; an empty list is known to be empty.";
    let place = object("The membership of an individual in a group, from the individual's side.");
    let of_member = MEMBERS.fields.iter().filter(|field| field.tag != MEMBER_ENTITY.tag());
    let place = fields_answered(place.may("group", named("Reference")), of_member, Level::Part);
    let texts = [about, "An individual to write.", "The changes of an individual."];
    let own = [("IndividualPage", record::page_of("Individual")), ("Place", place)];
    let mut shapes = record::of_kind(RecordKind::Individual, texts, fields);
    shapes.extend(by_name(own));
    shapes
}
