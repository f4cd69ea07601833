//! `/Program`, `/ProgramMembership` and `/Consent`: goes with `routes/program.rs`.

use serde_json::{Value, json};

use super::operation::{Answer, Example, Operation, Tag};
use super::parameter::{SAMPLE_PERSON, common, elements, envelope, idempotency_key, query, reference, repeatable};
use super::shape::{KEY_PATTERN, Members, Shape, by_name, named, pattern, word};
use crate::api::openapi::parameter;
use crate::api::openapi::record::{self, list_sent};
use daftar_domain::extension::ExtensionFields;
use daftar_domain::program_membership::MembershipStatus;
use daftar_domain::record::RecordKind;
use daftar_domain::search::order::sort_fields;
use daftar_domain::subject::Subject;

const KIND: RecordKind = RecordKind::ProgramMembership;

fn program() -> utoipa::openapi::path::Parameter {
    query(
        "program",
        "Narrows to one program: `Program/<system>|<value>` or `<system>|<value>`.",
        reference(RecordKind::Program),
    )
}

/// `GET /ProgramMembership/{identifier}`
pub fn read_membership() -> Operation {
    Operation::new(Tag::ProgramMemberships, "readProgramMembership", "Read a membership")
        .says("By its own identifier or by the beneficiary's. 409 where several are meant and no program is named.")
        .parameter(program())
        .answers_record("The membership.", "ProgramMembership")
        .refuses(&[404, 409, 422])
        .example(
            Example::new("beneficiary", "Somebody's membership in one program")
                .with("identifier", SAMPLE_PERSON)
                .with("program", SAMPLE_PROGRAM),
        )
}

/// `GET /ProgramMembership`
pub fn search_memberships() -> Operation {
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
        .parameters(envelope(elements(KIND), sort_fields(KIND)))
        .answers("A page of memberships.", record::page_of("ProgramMembership"))
        .refuses(&[422])
        .example(
            Example::new("enrolled", "Who is enrolled in a program")
                .with("program", SAMPLE_PROGRAM)
                .with("status", "enrolled"),
        )
}

/// `POST /ProgramMembership`
pub fn create_membership() -> Operation {
    Operation::new(Tag::ProgramMemberships, "createProgramMembership", "Enrol somebody")
        .says("A second open membership of a beneficiary in a program is 409. Where the program enforces its rule, entering `enrolled` against it is 409 with the `outcome`, unless an `override` is given.")
        .parameter(idempotency_key())
        .in_languages()
        .body("The membership.", named("ProgramMembershipSent"))
        .answer(Answer::written(201, "The membership is in the register.", "ProgramMembership"))
        .refuses(&[409])
        .example(Example::new("enrolled", "Enrols a person").answered(201).body(sample("enrolled")))
        .example(Example::new("again", "A second open membership").answered(409).body(sample("draft")))
}

/// `PUT /ProgramMembership/{identifier}`
pub fn replace_membership() -> Operation {
    Operation::new(Tag::ProgramMemberships, "replaceProgramMembership", "Replace what a membership says")
        .says("`program` and `beneficiary` stay what they are. What may follow on what: `draft` to `enrolled`, `not_eligible`, `duplicated`; `enrolled` to `paused`, `exited`, `not_eligible`, `duplicated`; `paused` to `enrolled` and the same; `not_eligible` to `draft`, `enrolled`, `duplicated`; `duplicated` to `draft`; nothing follows on `exited`. Anything else is 409.")
        .parameter(program())
        .changes()
        .body("The membership.", named("ProgramMembershipReplacement"))
        .answer(Answer::written(200, "The membership as changed.", "ProgramMembership"))
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
pub fn membership_shapes() -> Vec<(String, Shape)> {
    let fields = ExtensionFields::default();
    let sent = |description| {
        let members = record::sent(Members::sent(description), KIND, &fields);
        members.may("identifier", list_sent(named("IdentifierSent")))
    };
    let replacement = sent("A membership, to be replaced.");
    let status = word(MembershipStatus::ALL.map(MembershipStatus::name)).description(Some("Where it stands."));
    by_name([
        ("ProgramMembership", record::answered(KIND, "The membership of a beneficiary in a program.", &fields)),
        ("ProgramMembershipSent", sent("A membership, to be written.").into()),
        ("ProgramMembershipReplacement", replacement.needs("status", status).into()),
    ])
}

/// The program of the examples.
pub const SAMPLE_PROGRAM: &str = "urn:svc:vocab:id-type#tax_id|PENSION";

/// `GET /Program/{identifier}`
pub fn read_program() -> Operation {
    Operation::new(Tag::Programs, "readProgram", "Read a program")
        .answers_record("The program.", "Program")
        .refuses(&[404, 409])
        .example(Example::new("pension", "An old-age pension").with("identifier", SAMPLE_PROGRAM))
}

/// `GET /Program`
pub fn search_programs() -> Operation {
    Operation::new(Tag::Programs, "searchPrograms", "Search programs")
        .parameters(common())
        .parameter(query("target_type", "Whom it enrols.", word(Subject::ALL.map(Subject::name))))
        .parameter(query(
            "status",
            "Whether it has begun and ended, by its period and today.",
            word(["upcoming", "current", "ended"]),
        ))
        .parameters(envelope(elements(RecordKind::Program), sort_fields(RecordKind::Program)))
        .answers_page("A page of programs.", record::page_of("Program"), "readProgram")
        .refuses(&[422])
        .example(
            Example::new("pensions", "Programs for people").with("target_type", "individual").with("name", "pension"),
        )
}

/// The shapes of this noun, by name.
#[must_use]
pub fn program_shapes() -> Vec<(String, Shape)> {
    let program = record::answered(RecordKind::Program, "A social program.", &ExtensionFields::default());
    vec![("Program".to_owned(), program)]
}

/// The consent of the examples.
pub const SAMPLE_CONSENT: &str = "123e4567-e89b-42d3-a456-426614174000";

/// `GET /Consent/{consent_id}`
pub fn read_consent() -> Operation {
    Operation::new(Tag::Consents, "readConsent", "Read a consent")
        .says("Only those given to the client's own organization; any other is 404.")
        .answers_record("The consent.", "Consent")
        .refuses(&[404])
        .example(Example::new("consent", "A consent to the client's organization").with("consent_id", SAMPLE_CONSENT))
}

/// `DELETE /Consent/{consent_id}`
pub fn withdraw_consent() -> Operation {
    Operation::new(Tag::Consents, "withdrawConsent", "Withdraw a consent")
        .says(
            "The record stays readable as withdrawn. Withdrawing it again changes nothing, and the answer is the same.",
        )
        .parameter(parameter::if_match())
        .answer(Answer::empty(204, "The consent is withdrawn."))
        .refuses(&[404, 409])
        .example(Example::new("withdraw", "Withdraws it").with("consent_id", SAMPLE_CONSENT).answered(204))
}

/// The shapes of this noun, by name.
#[must_use]
pub fn consent_shapes() -> Vec<(String, Shape)> {
    let about = "The consent of a person or group that an organization sees what the register records of them.";
    vec![("Consent".to_owned(), record::answered(RecordKind::Consent, about, &ExtensionFields::default()))]
}
