//! `/Group`: goes with `dto/member.rs`, `routes/record.rs` and `routes/group_member.rs`.

use super::individual::read_from_body;
use super::operation::{Answer, Operation, Tag};
use super::parameter::{self, coded, common, day, envelope, reference, repeatable, texts};
use super::record::{self, fields_answered, fields_sent};
use super::shape::{Shape, by_name, date, named, object, word};
use crate::api::dto::field::Level;
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
}

/// `GET /Group/{identifier}`
pub fn read() -> Operation {
    Operation::new(Tag::Groups, "readGroup", "Read a group")
        .says("By any identifier. Names of members are there for a client that may read them.")
        .parameter(parameter::elements(RecordKind::Group))
        .in_languages()
        .answers_record("The group.", "Group")
        .refuses(&[404, 409])
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
}

/// `PUT /Group/{identifier}`
pub fn replace() -> Operation {
    Operation::new(Tag::Groups, "replaceGroup", "Replace what is said of a group")
        .says("What the body leaves out is no longer said, but identifiers: they are added and ended, never taken away or altered.")
        .in_languages()
        .body("The group.", named("GroupSent"))
        .changes(Answer::written(200, "The group as changed.", "Group"))
}

/// `PATCH /Group/{identifier}`
pub fn patch() -> Operation {
    Operation::new(Tag::Groups, "patchGroup", "Change some fields of a group")
        .says("A merge patch (RFC 7396): what it names is replaced, lists as a whole, and `null` takes a field out.")
        .in_languages()
        .merge_patch("The fields to change.", "GroupPatch")
        .changes(Answer::written(200, "The group as changed.", "Group"))
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

/// The shapes of members, by name.
pub fn member_shapes() -> Vec<(String, Shape)> {
    let fields = || MEMBERS.fields.iter();
    let last_day = object("The last day.").may_or_null("end", date().about("Today where left out."));
    let removal = object("The person who leaves a group, and the last day.")
        .needs("entity", named("IndividualReferenceSent"))
        .may_or_null("period", last_day);
    let history = fields_answered(object("A change of a place in a group."), fields(), Level::Part)
        .needs("change", word(["added", "changed", "removed"]))
        .needs("meta", named("Meta"));
    let patch = object("The changes of a place; `null` takes a field out.");
    let patch = fields_sent(patch, fields().filter(|field| field.required.is_none()), Level::Part);
    by_name([("MemberPatch", patch), ("MemberRemoval", removal), ("MembershipChange", history)])
}

/// `POST /Group/{identifier}/$add-member`
pub fn add_member() -> Operation {
    Operation::new(Tag::Groups, "addMember", "Add somebody to a group")
        .says("Without `period` the place begins today. The answer is the group.")
        .parameter(parameter::idempotency_key())
        .in_languages()
        .body("The place.", named("MemberSent"))
        .changes(Answer::written(201, "The group with the new member.", "Group"))
}

/// `POST /Group/{identifier}/$remove-member`
pub fn remove_member() -> Operation {
    Operation::new(Tag::Groups, "removeMember", "Let somebody leave a group")
        .says("The place stays in the record with its end. Who leaves later than today counts until the last day has passed. Needs `group:read` with `member` too.")
        .in_languages()
        .body("Who leaves, and when.", named("MemberRemoval"))
        .changes(Answer::written(200, "The group without the member.", "Group"))
}

/// `PATCH /Group/{identifier}/member/{member}`
pub fn patch_member() -> Operation {
    Operation::new(Tag::Groups, "patchMember", "Change a member's place")
        .says("The active place of that person, or else the last one; 404 where there is none. Needs `group:read` with `member` too.")
        .in_languages()
        .merge_patch("What to change.", "MemberPatch")
        .changes(Answer::written(200, "The group as changed.", "Group"))
}

/// `GET /Group/{identifier}/membership-history`
pub fn membership_history() -> Operation {
    Operation::new(Tag::Groups, "listMembershipHistory", "Tell who joined and left a group")
        .says("Oldest first. `removed` means that the place is no longer in the record. The newest 1,000 versions are looked at.")
        .parameters(parameter::page())
        .in_languages()
        .answers("A page of changes.", record::page_of("MembershipChange"))
        .refuses(&[404, 409])
}
