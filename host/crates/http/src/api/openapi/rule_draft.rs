//! `/RuleDraft`

use daftar_api_types::public::rule_draft as body;

use super::operation::{DocumentedResponse, Operation, Tag};
use super::parameter::{self, query, reference};
use super::record;
use super::shape::{self, Shape, named, plain, word};
use daftar_domain::record::RecordKind;

/// `POST /RuleDraft`
pub fn create() -> Operation {
    Operation::new(Tag::RuleDrafts, "createRuleDraft", "Create a rule draft")
        .says("The expression need not be valid. Clients of the same organization see and change the draft; without an organization its own client alone. The administrator accepts it for its program, or rejects it.")
        .body("The draft.", named("RuleDraftSent"))
        .response(
            DocumentedResponse::json(201, "The draft.", named("RuleDraft")).header("ETag").header("Location"),
        )
        .refuses(&[409])
}

/// `GET /RuleDraft`
pub fn search() -> Operation {
    Operation::new(Tag::RuleDrafts, "searchRuleDrafts", "List rule drafts")
        .says("The newest is first.")
        .parameter(query("program", "The program of the drafts.", reference(RecordKind::Program)))
        .parameter(query("author", "The id of the client that created them.", plain().filled()))
        .parameter(query("status", "Their state.", word(["open", "accepted", "rejected"])))
        .parameter(query("name", "A part of their name, in upper or lower case.", plain().filled()))
        .parameters(parameter::page())
        .responses("A page of drafts.", record::page_of("RuleDraft"))
}

/// `GET /RuleDraft/{draft_id}`
pub fn read() -> Operation {
    let unchanged = DocumentedResponse::empty(304, "The draft is unchanged: the client has it.").header("ETag");
    Operation::new(Tag::RuleDrafts, "readRuleDraft", "Read a rule draft")
        .answers_record("The draft.", "RuleDraft")
        .parameter(parameter::if_none_match())
        .response(unchanged)
        .refuses(&[404])
}

/// `GET /RuleDraft/{draft_id}/history`
pub fn history() -> Operation {
    Operation::new(Tag::RuleDrafts, "readRuleDraftHistory", "List the versions of a rule draft")
        .says("The newest is first.")
        .parameters(parameter::page())
        .responses("A page of versions.", record::page_of("RuleDraft"))
        .refuses(&[404])
}

/// `PUT /RuleDraft/{draft_id}`
pub fn replace() -> Operation {
    Operation::new(Tag::RuleDrafts, "replaceRuleDraft", "Replace a rule draft")
        .says("`If-Match` is required (428 without it); another version than the present one is 412. Only an open draft changes; any other is 409.")
        .parameters([parameter::if_match_required(), parameter::if_none_match_of_change()])
        .body("The draft.", named("RuleDraftSent"))
        .answers_record("The draft as changed.", "RuleDraft")
        .refuses(&[404, 409, 412, 428])
}

/// `DELETE /RuleDraft/{draft_id}`
pub fn delete() -> Operation {
    Operation::new(Tag::RuleDrafts, "deleteRuleDraft", "Delete a rule draft")
        .says("All its versions are deleted.")
        .parameters([parameter::if_match_or(412), parameter::if_none_match_of_change()])
        .response(DocumentedResponse::empty(204, "The draft is deleted."))
        .refuses(&[404, 409, 412])
}

/// The shapes of this noun, by name.
#[must_use]
pub fn shapes() -> Vec<(String, Shape)> {
    let program = "The program that the rule is for, `Program/<system>|<value>`.";
    let program = record::reference_sent(&[RecordKind::Program]).about(program);
    let sent = shape::request::<body::RuleDraftSent>().into_iter().map(|(name, shape)| match name.as_str() {
        "RuleDraftSent" => (name, shape.may_or_null("program", program.clone())),
        _ => (name, shape),
    });
    sent.chain(shape::response::<body::RuleDraft>()).collect()
}
