//! `/Individual`: goes with `routes/record.rs`. The shapes of records come from `record.rs`.

use serde_json::{Value, json};

use super::operation::{Answer, Example, Link, Operation, Tag};
use super::parameter::{
    self, SAMPLE_PERSON, coded, coded_as, common, day, elements_without, envelope, repeatable, texts,
};
use super::record::{self, fields_answered};
use super::shape::{KEY_PATTERN, Members, Shape, by_name, named, pattern};
use crate::api::dto::field::Level;
use crate::api::routes::record_search::BESIDE;
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

/// `GET /Individual/{identifier}`
pub fn read() -> Operation {
    Operation::new(Tag::Individuals, "readIndividual", "Read a person")
        .says("By any identifier. 409 where several records once carried an identifier that ended.")
        .parameter(parameter::elements(RecordKind::Individual))
        .in_languages()
        .answers_record("The person.", "Individual")
        .refuses(&[404, 409])
        .example(Example::new("whole", "A person, whole").with("identifier", SAMPLE_PERSON))
        .example(
            Example::new("parts", "Name and city alone, codes in French")
                .with("identifier", SAMPLE_PERSON)
                .with("_elements", "name,address.city,gender")
                .with("Accept-Language", "fr"),
        )
        .example(
            Example::new("unknown", "Nobody has this identifier")
                .with("identifier", "urn:svc:vocab:id-type#national_id|NOBODY")
                .answered(404),
        )
}

/// `POST /Individual`
pub fn create() -> Operation {
    let answer = Answer::written(201, "The person is in the register.", "Individual");
    Operation::new(Tag::Individuals, "createIndividual", "Register a person")
        .says("409 where an identifier is in use. The answer holds what a read would give this client.")
        .parameter(parameter::idempotency_key())
        .in_languages()
        .body("The person.", named("IndividualSent"))
        .answer(answer.link(read_from_body("readIndividual")))
        .refuses(&[409])
        .example(Example::new("person", "A person with the usual fields").answered(201).body(sample("PERSON-1")))
        .example(Example::new("kin", "A child of that person, in whatever group it is").answered(201).body(kin()))
        .example(
            Example::new("least", "An identifier is all that is needed")
                .answered(201)
                .body(json!({"identifier": [{"system": "urn:svc:vocab:id-type#national_id", "value": "PERSON-2"}]})),
        )
        .example(Example::new("unknown_code", "A gender that the vocabulary does not have").answered(422).body(json!({
            "identifier": [{"system": "urn:svc:vocab:id-type#national_id", "value": "PERSON-3"}],
            "gender": "urn:iso:std:iso:5218#7",
        })))
}

/// How a record that an answer holds is asked for: by its first identifier.
#[must_use]
pub fn read_from_body(operation: &'static str) -> Link {
    const PARAMETERS: &[(&str, &str)] =
        &[("identifier", "{$response.body#/identifier/0/system}|{$response.body#/identifier/0/value}")];
    Link { name: operation, operation, parameters: PARAMETERS }
}

/// `PUT /Individual/{identifier}`
pub fn replace() -> Operation {
    Operation::new(Tag::Individuals, "replaceIndividual", "Replace what is said of a person")
        .says("What the body leaves out is no longer said, but identifiers: they are added and ended (`period.end`), never taken away or altered.")
        .in_languages()
        .changes()
        .body("The person.", named("IndividualSent"))
        .answer(Answer::written(200, "The person as changed.", "Individual"))
        .refuses(&[404])
        .example(Example::new("person", "The same person, whole").with("identifier", SAMPLE_PERSON).body(sample("PERSON-1")))
}

/// `PATCH /Individual/{identifier}`
pub fn patch() -> Operation {
    Operation::new(Tag::Individuals, "patchIndividual", "Change some fields of a person")
        .says("A merge patch (RFC 7396): what it names is replaced, lists as a whole, and `null` takes a field out.")
        .in_languages()
        .changes()
        .merge_patch("The fields to change.", "IndividualPatch")
        .answer(Answer::written(200, "The person as changed.", "Individual"))
        .refuses(&[404])
        .example(
            Example::new("patch", "Takes the occupation out and says that somebody has died")
                .with("identifier", SAMPLE_PERSON)
                .body(json!({"occupation": null, "deceased_date": "2025-12-31"})),
        )
        .example(
            Example::new("stale", "The record has changed since")
                .with("identifier", SAMPLE_PERSON)
                .with("If-Match", "\"999\"")
                .body(json!({"active": false}))
                .answered(409),
        )
}

/// `GET /Individual/{identifier}/groups`
pub fn groups() -> Operation {
    Operation::new(Tag::Individuals, "listGroupsOfIndividual", "List the groups that a person is in or was")
        .says("Needs `group:read` as well.")
        .parameters(parameter::page())
        .in_languages()
        .answers("A page of places in groups.", record::page_of("Place"))
        .refuses(&[404, 409])
        .example(Example::new("groups", "The household of a person").with("identifier", SAMPLE_PERSON))
}

/// The shapes of this noun, by name; `fields` are those that installed modules add.
#[must_use]
pub fn shapes(fields: &ExtensionFields) -> Vec<(String, Shape)> {
    let about = "A person. A field that is not there is not recorded, or not for this client; an empty list is known to be empty.";
    let place = Members::answered("The membership of a person in a group, told from the person's side.");
    let of_member = MEMBERS.fields.iter().filter(|field| field.tag != MEMBER_ENTITY.tag());
    let place = fields_answered(place.may("group", named("Reference")), of_member, Level::Part);
    let texts = [about, "A person, to be written.", "The changes of a person."];
    let own = [("IndividualPage", record::page_of("Individual")), ("Place", place.into())];
    let mut shapes = record::of_kind(RecordKind::Individual, texts, fields);
    shapes.extend(by_name(own));
    shapes
}

/// A person with a relationship to the person of the examples.
fn kin() -> Value {
    json!({
        "type": "Individual",
        "identifier": [{"system": "urn:svc:vocab:id-type#national_id", "value": "PERSON-1-CHILD"}],
        "name": {"given": "Ousmane", "family": "Diallo"},
        "relationship": [{
            "target": {"reference": format!("Individual/{SAMPLE_PERSON}")},
            "type": "urn:svc:vocab:relationship#parent",
            "period": {"start": "1990-05-02"},
        }],
    })
}

fn sample(value: &str) -> Value {
    json!({
        "type": "Individual",
        "identifier": [{"system": "urn:svc:vocab:id-type#national_id", "value": value}],
        "active": true,
        "name": {"given": "Amina", "family": "Diallo"},
        "birth_date": "1961-03-08",
        "gender": "urn:iso:std:iso:5218#2",
        "marital_status": "urn:un:unsd:pop-census:marital-status#M",
        "country": "urn:iso:std:iso:3166-1#SN",
        "occupation": "urn:ilo:isco-08#6111",
        "languages": ["urn:iso:std:iso:639#fr"],
        "telecom": [{"system": "phone", "value": "+221 33 000 00 00", "use": "home", "rank": 1}],
        "address": [{"city": "Thiès", "region": "Thiès", "country": "urn:iso:std:iso:3166-1#SN"}],
        "income": {"amount": 45000, "currency": "urn:iso:std:iso:4217#XOF", "period": "month"},
    })
}
