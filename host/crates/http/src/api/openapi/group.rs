//! `/Group`: goes with `dto/member.rs`, `routes/record.rs` and `routes/group_member.rs`.

use super::individual::read_from_body;
use super::operation::{DocumentedResponse, Operation, Tag};
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
    let member = "A member of the group: `Individual/<system>|<value>` or `<system>|<value>`.";
    Operation::new(Tag::Groups, "searchGroups", "Search groups")
        .says("All conditions must match. Without conditions all groups match.")
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
        .says("By any identifier. Names of members are included for a client that may read them.")
        .parameter(parameter::elements(RecordKind::Group))
        .in_languages()
        .answers_record("The group.", "Group")
        .refuses(&[404, 409])
}

/// `POST /Group`
pub fn create() -> Operation {
    let response = DocumentedResponse::written(201, "The group is registered.", "Group");
    Operation::new(Tag::Groups, "createGroup", "Register a group")
        .says("A member that is not in the register is 422, and nothing is written. At most one active member is the head.")
        .parameter(parameter::idempotency_key())
        .in_languages()
        .body("The group.", named("GroupSent"))
        .response(response.link(read_from_body("readGroup")))
        .refuses(&[409])
}

/// `PUT /Group/{identifier}`
pub fn replace() -> Operation {
    Operation::new(Tag::Groups, "replaceGroup", "Replace a group")
        .says("Fields that the body omits are removed, except identifiers: they are added and ended, never removed or altered.")
        .in_languages()
        .body("The group.", named("GroupSent"))
        .changes(DocumentedResponse::written(200, "The group as changed.", "Group"))
}

/// `PATCH /Group/{identifier}`
pub fn patch() -> Operation {
    Operation::new(Tag::Groups, "patchGroup", "Change some fields of a group")
        .says("A merge patch (RFC 7396): named fields are replaced, lists completely, and `null` removes a field.")
        .in_languages()
        .merge_patch("The fields to change.", "GroupPatch")
        .changes(DocumentedResponse::written(200, "The group as changed.", "Group"))
}

/// The shapes of this noun, by name; `fields` are those of installed modules.
#[must_use]
pub fn shapes(fields: &ExtensionFields) -> Vec<(String, Shape)> {
    let about = "A group. An absent field is not recorded, or not visible to this client.";
    let mut shapes =
        record::of_kind(RecordKind::Group, [about, "A group to write.", "The changes of a group."], fields);
    shapes.extend(member_shapes());
    shapes
}

/// The shapes of members, by name.
pub fn member_shapes() -> Vec<(String, Shape)> {
    let fields = || MEMBERS.fields.iter();
    let last_day = object("The last day.").may_or_null("end", date().about("Default: today."));
    let removal = object("The individual who leaves a group, and the last day.")
        .needs("entity", named("IndividualReferenceSent"))
        .may_or_null("period", last_day);
    let history = fields_answered(object("A change of a membership in a group."), fields(), Level::Part)
        .needs("change", word(["added", "changed", "removed"]))
        .needs("meta", named("Meta"));
    let patch = object("The changes of a membership; `null` removes a field.");
    let patch = fields_sent(patch, fields().filter(|field| field.required.is_none()), Level::Part);
    by_name([("MemberPatch", patch), ("MemberRemoval", removal), ("MembershipChange", history)])
}

/// `POST /Group/{identifier}/$add-member`
pub fn add_member() -> Operation {
    Operation::new(Tag::Groups, "addMember", "Add a member to a group")
        .says("Without `period` the membership begins today. The response is the group.")
        .parameter(parameter::idempotency_key())
        .in_languages()
        .body("The place.", named("MemberSent"))
        .changes(DocumentedResponse::written(201, "The group with the new member.", "Group"))
}

/// `POST /Group/{identifier}/$remove-member`
pub fn remove_member() -> Operation {
    Operation::new(Tag::Groups, "removeMember", "End a membership in a group")
        .says("The membership stays in the record with its end. With an end after today the member counts until the last day has passed. Requires `group:read` with `member` too.")
        .in_languages()
        .body("The member who leaves, and the day.", named("MemberRemoval"))
        .changes(DocumentedResponse::written(200, "The group without the member.", "Group"))
}

/// `PATCH /Group/{identifier}/member/{member}`
pub fn patch_member() -> Operation {
    Operation::new(Tag::Groups, "patchMember", "Change a membership in a group")
        .says("Changes the active membership of that individual, or else the last one; 404 if there is none. Requires `group:read` with `member` too.")
        .in_languages()
        .merge_patch("The fields to change.", "MemberPatch")
        .changes(DocumentedResponse::written(200, "The group as changed.", "Group"))
}

/// `GET /Group/{identifier}/membership-history`
pub fn membership_history() -> Operation {
    Operation::new(Tag::Groups, "listMembershipHistory", "List membership changes of a group")
        .says("Oldest first. `removed` means that the membership is no longer in the record. The newest 1,000 versions are read.")
        .parameters(parameter::page())
        .in_languages()
        .responses("A page of changes.", record::page_of("MembershipChange"))
        .refuses(&[404, 409])
}
