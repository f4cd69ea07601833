//! `/ProgramMembership`: goes with `dto/program_membership.rs` and `routes/program_membership.rs`.

use serde_json::{Value, json};

use super::example::Example;
use super::operation::{Answer, Operation, Tag};
use super::parameter::{SAMPLE_PERSON, elements, idempotency_key, query, repeatable};
use super::program::SAMPLE_PROGRAM;
use super::searching::{envelope, reference};
use super::shape::{self, KEY_PATTERN, Members, Shape, any_of, date, list, named, pattern, text, word, written};
use super::shared::{self, list_sent, type_sent};
use crate::api::elements::PROGRAM_MEMBERSHIP;
use crate::api::routes::program_membership::SORTABLE;
use daftar_domain::program_membership::{MembershipStatus, REASON_BYTES_MAX};
use daftar_domain::record::RecordKind;
use daftar_domain::subject::Subject;

/// The answer to a write: what a read would give this client.
fn changed(status: u16, description: &'static str) -> Answer {
    let shape = any_of([named("ProgramMembership").into(), named("Receipt").into()]);
    Answer::json(status, description, shape).header("ETag")
}

fn program() -> utoipa::openapi::path::Parameter {
    query(
        "program",
        "Narrows to one program: `Program/<system>|<value>` or `<system>|<value>`.",
        reference(RecordKind::Program),
    )
}

/// `GET /ProgramMembership/{identifier}`
#[must_use]
pub fn read() -> Operation {
    Operation::new(Tag::ProgramMemberships, "readProgramMembership", "Read a membership")
        .says("By its own identifier or by the beneficiary's. 409 where several are meant and no program is named.")
        .parameter(program())
        .answers_record("The membership.", "ProgramMembership")
        .refuses(&[404, 409])
        .example(
            Example::new("beneficiary", "Somebody's membership in one program")
                .with("identifier", SAMPLE_PERSON)
                .with("program", SAMPLE_PROGRAM),
        )
}

/// `GET /ProgramMembership`
#[must_use]
pub fn search() -> Operation {
    let key = KEY_PATTERN.trim_start_matches('^');
    let beneficiary = pattern(&format!("^((Individual|Group)/)?{key}"));
    Operation::new(Tag::ProgramMemberships, "searchProgramMemberships", "Search memberships")
        .parameter(repeatable(
            "beneficiary",
            "`Individual/<system>|<value>`, `Group/…`, or without a kind for either.",
            beneficiary,
        ))
        .parameter(repeatable(
            "program",
            "`Program/<system>|<value>` or `<system>|<value>`.",
            reference(RecordKind::Program),
        ))
        .parameter(query(
            "status",
            "Where the membership stands.",
            word(MembershipStatus::ALL.map(MembershipStatus::name)),
        ))
        .parameters(envelope(elements(PROGRAM_MEMBERSHIP), &SORTABLE))
        .answers("A page of memberships.", shared::page_of("ProgramMembership"))
        .example(
            Example::new("enrolled", "Who is enrolled in a program")
                .with("program", SAMPLE_PROGRAM)
                .with("status", "enrolled"),
        )
}

/// `POST /ProgramMembership`
#[must_use]
pub fn create() -> Operation {
    Operation::new(Tag::ProgramMemberships, "createProgramMembership", "Enrol somebody")
        .says("A second open membership of a beneficiary in a program is 409. Where the program enforces its rule, entering `enrolled` against it is 409 with the `outcome`, unless an `override` is given.")
        .parameter(idempotency_key())
        .in_languages()
        .body("The membership.", named("ProgramMembershipSent"))
        .answer(changed(201, "The membership is in the register.").header("Location").header("Idempotency-Replayed"))
        .refuses(&[409])
        .example(Example::new("enrolled", "Enrols a person").answered(201).body(sample("enrolled")))
        .example(Example::new("again", "A second open membership").answered(409).body(sample("draft")))
}

/// `PUT /ProgramMembership/{identifier}`
#[must_use]
pub fn replace() -> Operation {
    Operation::new(Tag::ProgramMemberships, "replaceProgramMembership", "Replace what a membership says")
        .says("`program` and `beneficiary` stay what they are. What may follow on what: `draft` to `enrolled`, `not_eligible`, `duplicated`; `enrolled` to `paused`, `exited`, `not_eligible`, `duplicated`; `paused` to `enrolled` and the same; `not_eligible` to `draft`, `enrolled`, `duplicated`; `duplicated` to `draft`; nothing follows on `exited`. Anything else is 409.")
        .parameter(program())
        .changes()
        .body("The membership.", named("ProgramMembershipReplacement"))
        .answer(changed(200, "The membership as changed."))
        .refuses(&[404])
        .example(
            Example::new("paused", "Nothing is paid for the time being")
                .with("identifier", SAMPLE_PERSON)
                .with("program", SAMPLE_PROGRAM)
                .body(sample("paused")),
        )
}

fn sample(status: &str) -> Value {
    json!({
        "program": format!("Program/{SAMPLE_PROGRAM}"),
        "beneficiary": format!("Individual/{SAMPLE_PERSON}"),
        "status": status,
        "enrollment_date": "2026-01-01",
    })
}

/// The shapes of this noun, by name.
#[must_use]
pub fn shapes() -> Vec<(String, Shape)> {
    let status = || word(MembershipStatus::ALL.map(MembershipStatus::name));
    let membership = Members::answered("Somebody's place in a program.")
        .needs("type", word(["ProgramMembership"]))
        .may("identifier", list(named("Identifier")))
        .may("program", text().description(Some("`Program/<system>|<value>`")))
        .may("beneficiary", text().description(Some("`Individual/<system>|<value>` or `Group/…`")))
        .may("status", status())
        .may("enrollment_date", date())
        .may("exit_date", date())
        .may("exit_reason", text())
        .may("override", Members::answered("Why the program's rule was not followed.").needs("reason", text()))
        .needs("meta", named("Meta"));
    let draft = "Where it stands; `draft` where left out.";
    let create = sent("A membership, to be written.").may("status", status().description(Some(draft)));
    let replace = sent("A membership, to be replaced.").needs("status", status());
    [
        ("ProgramMembership", membership.into()),
        ("ProgramMembershipSent", create.into()),
        ("ProgramMembershipReplacement", replace.into()),
    ]
    .map(|(name, shape)| (name.to_owned(), shape))
    .into()
}

fn sent(description: &str) -> Members {
    let exception = Members::sent("Enrols although the program's rule does not say so; kept in the audit log.")
        .needs("reason", written(REASON_BYTES_MAX));
    Members::sent(description)
        .may_each(type_sent(RecordKind::ProgramMembership))
        .may("identifier", list_sent(named("IdentifierSent")))
        .needs("program", reference_or_object(&[RecordKind::Program]))
        .needs("beneficiary", reference_or_object(&Subject::ALL.map(Subject::record_kind)))
        .may("enrollment_date", date())
        .may("exit_date", date().description(Some("Goes with `exited` alone.")))
        .may("exit_reason", written(REASON_BYTES_MAX).description(Some("Goes with `exited` alone.")))
        .may("override", exception)
        .may("meta", shape::ignored())
}

/// A reference as a text, or as members of groups have it.
fn reference_or_object(kinds: &[RecordKind]) -> Shape {
    let object = Members::sent("A reference with the name that answers show.")
        .needs("reference", shared::reference_sent(kinds))
        .may("display", shape::ignored());
    any_of([shared::reference_sent(kinds), object.into()]).into()
}
