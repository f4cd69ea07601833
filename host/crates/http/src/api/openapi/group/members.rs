//! The members of a group, one at a time.

use serde_json::json;

use super::changed;
use crate::api::dto::field::Level;
use crate::api::openapi::example::Example;
use crate::api::openapi::operation::{Operation, Tag};
use crate::api::openapi::parameter::{self, SAMPLE_GROUP, SAMPLE_PERSON};
use crate::api::openapi::record::{fields_answered, fields_sent};
use crate::api::openapi::shape::{Members, Shape, date, named, word};
use crate::api::openapi::shared;
use daftar_domain::group::MEMBERS;

/// How examples refer to somebody.
const SECOND_PERSON: &str = "Individual/urn:svc:vocab:id-type#national_id|PERSON-2";

/// The shapes of members, by name.
pub fn shapes() -> Vec<(String, Shape)> {
    let fields = || MEMBERS.fields.iter();
    let removal = Members::sent("The person who leaves a group, and the last day.")
        .needs("entity", named("IndividualReferenceSent"))
        .may("period", Members::sent("The last day.").may("end", date().description(Some("Today where left out."))));
    let history = fields_answered(Members::answered("A change of a place in a group."), fields(), Level::Part)
        .needs("change", word(["added", "changed", "removed"]))
        .needs("meta", named("Meta"));
    let patch = Members::sent("The changes of a place; `null` takes a field out.");
    let patch = fields_sent(patch, fields().filter(|field| field.required.is_none()), Level::Part);
    [("MemberPatch", patch.into()), ("MemberRemoval", removal.into()), ("MembershipChange", history.into())]
        .map(|(name, shape)| (name.to_owned(), shape))
        .into()
}

/// `POST /Group/{identifier}/$add-member`
pub fn add_member() -> Operation {
    Operation::new(Tag::Groups, "addMember", "Add somebody to a group")
        .says("Without `period` the place begins today. The answer is the group.")
        .parameter(parameter::idempotency_key())
        .in_languages()
        .changes()
        .body("The place.", named("MemberSent"))
        .answer(changed(201, "The group with the new member.").header("Location").header("Idempotency-Replayed"))
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
        .answer(changed(200, "The group without the member."))
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
        .body_of(&["application/merge-patch+json", "application/json"], "What to change.", named("MemberPatch"))
        .answer(changed(200, "The group as changed."))
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
        .answers("A page of changes.", shared::page_of("MembershipChange"))
        .refuses(&[404, 409])
        .example(Example::new("history", "Everything that happened").with("identifier", SAMPLE_GROUP))
}
