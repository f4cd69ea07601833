//! `/Group`: goes with `dto/member.rs`, `routes/record.rs` and `routes/group_member.rs`.

use serde_json::{Value, json};

use super::individual::read_from_body;
use super::operation::{Answer, Example, Operation, Tag};
use super::parameter::{self, SAMPLE_GROUP, SAMPLE_PERSON, coded, common, day, envelope, reference, repeatable, texts};
use super::record;
use super::shape::{Members, Shape, by_name, date, named, word};
use crate::api::dto::field::Level;
use crate::api::openapi::record::{fields_answered, fields_sent};
use daftar_domain::extension::ExtensionFields;
use daftar_domain::group::MEMBERS;
use daftar_domain::record::RecordKind;
use daftar_domain::search::order::sort_fields;
use daftar_domain::search::{code_filters, date_filters};

/// `GET /Group`
pub fn search() -> Operation {
    let kind = RecordKind::Group;
    let member = "A person who is in the group: `Individual/<system>|<value>` or `<system>|<value>`.";
    Operation::new(Tag::Groups, "searchGroups", "Search groups")
        .says("All conditions must hold. Without any, every group is found.")
        .parameters(common())
        .parameter(repeatable("member", member, reference(RecordKind::Individual)))
        .parameters(texts(kind))
        .parameters(date_filters(kind).map(day))
        .parameters(code_filters(kind).into_iter().flat_map(coded))
        .parameters(envelope(parameter::elements(kind), sort_fields(kind)))
        .in_languages()
        .answers_page("A page of groups.", record::page_of("Group"), "readGroup")
        .refuses(&[422])
        .example(
            Example::new("of_member", "The household of a person")
                .with("member", SAMPLE_PERSON)
                .with("group_type", "urn:svc:vocab:group-type#household"),
        )
}

/// `GET /Group/{identifier}`
pub fn read() -> Operation {
    Operation::new(Tag::Groups, "readGroup", "Read a group")
        .says("By any identifier. Names of members are there for a client that may read them.")
        .parameter(parameter::elements(RecordKind::Group))
        .in_languages()
        .answers_record("The group.", "Group")
        .refuses(&[404, 409])
        .example(Example::new("household", "A household with its members").with("identifier", SAMPLE_GROUP))
}

/// `POST /Group`
pub fn create() -> Operation {
    let answer = Answer::written(201, "The group is in the register.", "Group");
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
pub fn replace() -> Operation {
    Operation::new(Tag::Groups, "replaceGroup", "Replace what is said of a group")
        .says("What the body leaves out is no longer said, but identifiers: they are added and ended, never taken away or altered.")
        .in_languages()
        .changes()
        .body("The group.", named("GroupSent"))
        .answer(Answer::written(200, "The group as changed.", "Group"))
        .refuses(&[404])
        .example(Example::new("household", "The same household, whole").with("identifier", SAMPLE_GROUP).body(sample()))
}

/// `PATCH /Group/{identifier}`
pub fn patch() -> Operation {
    Operation::new(Tag::Groups, "patchGroup", "Change some fields of a group")
        .says("A merge patch (RFC 7396): what it names is replaced, lists as a whole, and `null` takes a field out.")
        .in_languages()
        .changes()
        .merge_patch("The fields to change.", "GroupPatch")
        .answer(Answer::written(200, "The group as changed.", "Group"))
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
    let about = "A group. A field that is not there is not recorded, or not for this client.";
    let mut shapes =
        record::of_kind(RecordKind::Group, [about, "A group, to be written.", "The changes of a group."], fields);
    shapes.extend(member_shapes());
    shapes
}

/// How examples refer to somebody.
const SECOND_PERSON: &str = "Individual/urn:svc:vocab:id-type#national_id|PERSON-2";

/// The shapes of members, by name.
pub fn member_shapes() -> Vec<(String, Shape)> {
    let fields = || MEMBERS.fields.iter();
    let removal = Members::sent("The person who leaves a group, and the last day.")
        .needs("entity", named("IndividualReferenceSent"))
        .may("period", Members::sent("The last day.").may("end", date().description(Some("Today where left out."))));
    let history = fields_answered(Members::answered("A change of a place in a group."), fields(), Level::Part)
        .needs("change", word(["added", "changed", "removed"]))
        .needs("meta", named("Meta"));
    let patch = Members::sent("The changes of a place; `null` takes a field out.");
    let patch = fields_sent(patch, fields().filter(|field| field.required.is_none()), Level::Part);
    by_name([("MemberPatch", patch.into()), ("MemberRemoval", removal.into()), ("MembershipChange", history.into())])
}

/// `POST /Group/{identifier}/$add-member`
pub fn add_member() -> Operation {
    Operation::new(Tag::Groups, "addMember", "Add somebody to a group")
        .says("Without `period` the place begins today. The answer is the group.")
        .parameter(parameter::idempotency_key())
        .in_languages()
        .changes()
        .body("The place.", named("MemberSent"))
        .answer(Answer::written(201, "The group with the new member.", "Group"))
        .refuses(&[404])
        .example(
            Example::new("spouse", "The head's spouse")
                .answered(201)
                .with("identifier", SAMPLE_GROUP)
                .body(json!({"entity": {"reference": SECOND_PERSON}, "role": "urn:svc:vocab:relationship#spouse"})),
        )
}

/// `POST /Group/{identifier}/$remove-member`
pub fn remove_member() -> Operation {
    Operation::new(Tag::Groups, "removeMember", "Let somebody leave a group")
        .says("The place stays in the record with its end. Who leaves later than today counts until the last day has passed. Needs `group:read` with `member` too.")
        .in_languages()
        .changes()
        .body("Who leaves, and when.", named("MemberRemoval"))
        .answer(Answer::written(200, "The group without the member.", "Group"))
        .refuses(&[404])
        .example(
            Example::new("leaves", "Leaves today")
                .with("identifier", SAMPLE_GROUP)
                .body(json!({"entity": {"reference": SECOND_PERSON}})),
        )
}

/// `PATCH /Group/{identifier}/member/{member}`
pub fn patch_member() -> Operation {
    Operation::new(Tag::Groups, "patchMember", "Change a member's place")
        .says("The active place of that person, or else the last one; 404 where there is none. Needs `group:read` with `member` too.")
        .in_languages()
        .changes()
        .merge_patch("What to change.", "MemberPatch")
        .answer(Answer::written(200, "The group as changed.", "Group"))
        .refuses(&[404])
        .example(
            Example::new("period", "Says since when somebody has been in the group")
                .with("identifier", SAMPLE_GROUP)
                .with("member", SAMPLE_PERSON)
                .body(json!({"period": {"start": "2019-06-01"}})),
        )
}

/// `GET /Group/{identifier}/membership-history`
pub fn membership_history() -> Operation {
    Operation::new(Tag::Groups, "listMembershipHistory", "Tell who joined and left a group")
        .says("Oldest first. `removed` means that the place is no longer in the record. The newest 1,000 versions are looked at.")
        .parameters(parameter::page())
        .in_languages()
        .answers("A page of changes.", record::page_of("MembershipChange"))
        .refuses(&[404, 409])
        .example(Example::new("history", "Everything that happened").with("identifier", SAMPLE_GROUP))
}
