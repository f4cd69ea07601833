//! `/Group`: goes with `dto/group.rs`, `routes/group.rs` and `routes/group_member.rs`.

mod members;

use serde_json::{Value, json};

pub use members::{add_member, membership_history, patch_member, remove_member};

use super::example::Example;
use super::individual::read_from_body;
use super::operation::{Answer, Operation, Tag};
use super::parameter::{self, SAMPLE_GROUP, SAMPLE_PERSON, repeatable};
use super::searching::{coded, common, envelope, places, reference};
use super::shape::{self, Members, Shape, any_of, boolean, list, named, text, written};
use super::shared::{self, code_of, code_sent_of, list_sent, type_sent};
use crate::api::elements::GROUP;
use crate::api::routes::group_search::SORTABLE;
use daftar_domain::extension::ExtensionFields;
use daftar_domain::group::MEMBERS_MAX;
use daftar_domain::person_name::NAME_PART_BYTES_MAX;
use daftar_domain::record::RecordKind;
use daftar_domain::vocabulary::CodedField;

/// The answer to a write: what a read would give this client.
fn changed(status: u16, description: &'static str) -> Answer {
    let shape = any_of([named("Group").into(), named("Receipt").into()]);
    Answer::json(status, description, shape).header("ETag")
}

/// `GET /Group`
#[must_use]
pub fn search() -> Operation {
    let fields = [CodedField::GroupType, CodedField::HousingType, CodedField::AddressCountry];
    let member = "A person who is in the group: `Individual/<system>|<value>` or `<system>|<value>`.";
    Operation::new(Tag::Groups, "searchGroups", "Search groups")
        .says("All conditions must hold. Without any, every group is found.")
        .parameters(common())
        .parameter(repeatable("member", member, reference(RecordKind::Individual)))
        .parameters(places())
        .parameters(fields.into_iter().flat_map(coded))
        .parameters(envelope(parameter::elements(GROUP), &SORTABLE))
        .in_languages()
        .answers_page("A page of groups.", shared::page_of("Group"), "readGroup")
        .example(
            Example::new("of_member", "The household of a person")
                .with("member", SAMPLE_PERSON)
                .with("group_type", "urn:svc:vocab:group-type#household"),
        )
}

/// `GET /Group/{identifier}`
#[must_use]
pub fn read() -> Operation {
    Operation::new(Tag::Groups, "readGroup", "Read a group")
        .says("By any identifier. Names of members are there for a client that may read them.")
        .parameter(parameter::elements(GROUP))
        .in_languages()
        .answers_record("The group.", "Group")
        .refuses(&[404, 409])
        .example(Example::new("household", "A household with its members").with("identifier", SAMPLE_GROUP))
}

/// `POST /Group`
#[must_use]
pub fn create() -> Operation {
    let answer = changed(201, "The group is in the register.").header("Location").header("Idempotency-Replayed");
    Operation::new(Tag::Groups, "createGroup", "Register a group")
        .says("A member that is not in the register is 422, and nothing is written. At most one active member is the head.")
        .parameter(parameter::idempotency_key())
        .in_languages()
        .body("The group.", named("GroupSent"))
        .answer(answer.link(read_from_body("readGroup")))
        .refuses(&[409])
        .example(Example::new("household", "A household and its head").answered(201).body(sample()))
        .example(
            Example::new("unknown_member", "A member that is not in the register").answered(422).body(json!({
                "identifier": [{"system": "urn:svc:vocab:id-type#tax_id", "value": "HOUSEHOLD-2"}],
                "member": [{"entity": {"reference": "Individual/urn:svc:vocab:id-type#national_id|NOBODY"}}],
            })),
        )
}

/// `PUT /Group/{identifier}`
#[must_use]
pub fn replace() -> Operation {
    Operation::new(Tag::Groups, "replaceGroup", "Replace what is said of a group")
        .says("What the body leaves out is no longer said, but identifiers: they are added and ended, never taken away or altered.")
        .in_languages()
        .changes()
        .body("The group.", named("GroupSent"))
        .answer(changed(200, "The group as changed."))
        .refuses(&[404])
        .example(Example::new("household", "The same household, whole").with("identifier", SAMPLE_GROUP).body(sample()))
}

/// `PATCH /Group/{identifier}`
#[must_use]
pub fn patch() -> Operation {
    Operation::new(Tag::Groups, "patchGroup", "Change some fields of a group")
        .says("A merge patch (RFC 7396): what it names is replaced, lists as a whole, and `null` takes a field out.")
        .in_languages()
        .changes()
        .body_of(&["application/merge-patch+json", "application/json"], "The fields to change.", named("GroupPatch"))
        .answer(changed(200, "The group as changed."))
        .refuses(&[404])
        .example(
            Example::new("name", "Gives the household a name")
                .with("identifier", SAMPLE_GROUP)
                .body(json!({"name": "Diallo"})),
        )
}

fn sample() -> Value {
    json!({
        "identifier": [{"system": "urn:svc:vocab:id-type#tax_id", "value": "HOUSEHOLD-1"}],
        "group_type": "urn:svc:vocab:group-type#household",
        "member": [{
            "entity": {"reference": "Individual/urn:svc:vocab:id-type#national_id|PERSON-1"},
            "role": "urn:svc:vocab:relationship#head",
            "period": {"start": "2020-01-01"},
        }],
    })
}

/// The shapes of this noun, by name; `fields` are those that installed modules add.
#[must_use]
pub fn shapes(fields: &ExtensionFields) -> Vec<(String, Shape)> {
    let identifiers = || list_sent(named("IdentifierSent")).min_items(Some(1));
    let sent = group_sent(Members::sent("A group, to be written."), fields);
    let patch = group_sent(Members::sent("What is to be changed of a group."), fields);
    let about = "How a group stands to another one.";
    let related = Members::answered(about)
        .may("target", named("Reference"))
        .may("type", code_of(CodedField::RelationshipType))
        .may("period", named("Period"));
    let related_sent = Members::sent(about)
        .needs("target", named("GroupReferenceSent"))
        .needs("type", code_sent_of(CodedField::RelationshipType))
        .may("period", named("PeriodSent"));
    let mut shapes = vec![
        ("Relationship".to_owned(), related.into()),
        ("RelationshipSent".to_owned(), related_sent.into()),
        ("Group".to_owned(), answered(fields)),
        ("GroupSent".to_owned(), sent.needs("identifier", identifiers()).into()),
        ("GroupPatch".to_owned(), patch.may_filled("identifier", identifiers()).into()),
    ];
    shapes.extend(members::shapes());
    shapes
}

/// What a request may say of a group beside identifiers and members.
pub fn described_sent(members: Members, fields: &ExtensionFields) -> Members {
    members
        .may_each(type_sent(RecordKind::Group))
        .may("active", boolean())
        .may("name", written(NAME_PART_BYTES_MAX))
        .may("group_type", code_sent_of(CodedField::GroupType))
        .may("housing_type", code_sent_of(CodedField::HousingType))
        .may("extension", shared::extension_sent(fields))
}

fn group_sent(members: Members, fields: &ExtensionFields) -> Members {
    described_sent(members, fields)
        .may("relationship", list_sent(named("RelationshipSent")))
        .may("address", list_sent(named("AddressSent")))
        .may("member", shape::list(named("MemberSent")).max_items(Some(MEMBERS_MAX)))
        .may("meta", shape::ignored())
        .may("quantity", shape::ignored())
}

fn answered(fields: &ExtensionFields) -> Shape {
    Members::answered("A group. A field that is not there is not recorded, or not for this client.")
        .needs("type", shape::word(["Group"]))
        .needs("identifier", list(named("Identifier")))
        .may("active", boolean().description(Some("A record without it is in use.")))
        .may("name", text())
        .may("group_type", code_of(CodedField::GroupType))
        .may("housing_type", code_of(CodedField::HousingType))
        .may("member", list(named("Member")))
        .may("relationship", list(named("Relationship")))
        .may("address", list(named("Address")))
        .may("quantity", shape::whole(0).description(Some("How many active members there are today.")))
        .may("extension", shared::extension(fields))
        .needs("meta", named("Meta"))
        .into()
}
