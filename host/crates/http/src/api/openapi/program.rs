//! `/Program`, `/ProgramMembership` and `/Consent`: goes with `routes/program.rs`.

use super::operation::{DocumentedResponse, Operation, Tag};
use super::parameter::{Parameter, common, elements, envelope, idempotency_key, query, reference, repeatable};
use super::record::{self, list_sent};
use super::shape::{KEY_PATTERN, Shape, by_name, named, object, pattern, word};
use daftar_domain::extension::ExtensionFields;
use daftar_domain::program_membership::MembershipStatus;
use daftar_domain::record::RecordKind;
use daftar_domain::search::order::sort_fields;
use daftar_domain::subject::Subject;

const KIND: RecordKind = RecordKind::ProgramMembership;

fn program() -> Parameter {
    query(
        "program",
        "Narrows to one program: `Program/<system>|<value>` or `<system>|<value>`.",
        reference(RecordKind::Program),
    )
}

/// `GET /ProgramMembership/{identifier}`
pub fn read_membership() -> Operation {
    Operation::new(Tag::ProgramMemberships, "readProgramMembership", "Read a membership")
        .says("By its own identifier or by the beneficiary's. 409 if several match and no program is named.")
        .parameter(program())
        .answers_record("The membership.", "ProgramMembership")
        .refuses(&[404, 409, 422])
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
            "The status of the membership.",
            word(MembershipStatus::ALL.map(MembershipStatus::name)),
        ))
        .parameters(envelope(elements(KIND), sort_fields(KIND)))
        .responses("A page of memberships.", record::page_of("ProgramMembership"))
        .refuses(&[422])
}

/// `POST /ProgramMembership`
pub fn create_membership() -> Operation {
    Operation::new(Tag::ProgramMemberships, "createProgramMembership", "Enrol a beneficiary")
        .says("A second open membership of a beneficiary in a program is 409. If the program enforces its rule, entering `enrolled` against it is 409 with the `outcome`, unless an `override` is given.")
        .parameter(idempotency_key())
        .in_languages()
        .body("The membership.", named("ProgramMembershipSent"))
        .response(DocumentedResponse::written(201, "The membership is registered.", "ProgramMembership"))
        .refuses(&[409])
}

/// `PUT /ProgramMembership/{identifier}`
pub fn replace_membership() -> Operation {
    Operation::new(Tag::ProgramMemberships, "replaceProgramMembership", "Replace a membership")
        .says("`program` and `beneficiary` cannot change. Allowed status changes: `draft` to `enrolled`, `not_eligible`, `duplicated`; `enrolled` to `paused`, `exited`, `not_eligible`, `duplicated`; `paused` to `enrolled` and the same; `not_eligible` to `draft`, `enrolled`, `duplicated`; `duplicated` to `draft`; none from `exited`. Any other change is 409.")
        .parameter(program())
        .body("The membership.", named("ProgramMembershipReplacement"))
        .changes(DocumentedResponse::written(200, "The membership as changed.", "ProgramMembership"))
}

/// The shapes of this noun, by name.
#[must_use]
pub fn membership_shapes() -> Vec<(String, Shape)> {
    let fields = ExtensionFields::default();
    let sent = |description| {
        let members = record::sent(object(description), KIND, &fields);
        members.may_or_null("identifier", list_sent(named("IdentifierSent")))
    };
    let replacement = sent("A membership to replace.");
    let status = word(MembershipStatus::ALL.map(MembershipStatus::name)).about("The status.");
    by_name([
        ("ProgramMembership", record::answered(KIND, "The membership of a beneficiary in a program.", &fields)),
        ("ProgramMembershipSent", sent("A membership to write.")),
        ("ProgramMembershipReplacement", replacement.needs("status", status)),
    ])
}

/// `GET /Program/{identifier}`
pub fn read_program() -> Operation {
    Operation::new(Tag::Programs, "readProgram", "Read a program")
        .answers_record("The program.", "Program")
        .refuses(&[404, 409])
}

/// `GET /Program`
pub fn search_programs() -> Operation {
    Operation::new(Tag::Programs, "searchPrograms", "Search programs")
        .parameters(common())
        .parameter(query("target_type", "The kind of its beneficiaries.", word(Subject::ALL.map(Subject::name))))
        .parameter(query("status", "The status by its period and today.", word(["upcoming", "current", "ended"])))
        .parameters(envelope(elements(RecordKind::Program), sort_fields(RecordKind::Program)))
        .answers_page("A page of programs.", record::page_of("Program"), "readProgram")
        .refuses(&[422])
}

/// The shapes of this noun, by name.
#[must_use]
pub fn program_shapes() -> Vec<(String, Shape)> {
    let program = record::answered(RecordKind::Program, "A social program.", &ExtensionFields::default());
    vec![("Program".to_owned(), program)]
}

/// `GET /Consent/{consent_id}`
pub fn read_consent() -> Operation {
    Operation::new(Tag::Consents, "readConsent", "Read a consent")
        .says("Only those given to the client's own organization; any other is 404.")
        .answers_record("The consent.", "Consent")
        .refuses(&[404])
}

/// `DELETE /Consent/{consent_id}`
pub fn withdraw_consent() -> Operation {
    Operation::new(Tag::Consents, "withdrawConsent", "Withdraw a consent")
        .says(
            "The record stays readable as withdrawn. Withdrawing it again changes nothing, and the response is the same.",
        )
        .versioned()
        .response(DocumentedResponse::empty(204, "The consent is withdrawn."))
}

/// The shapes of this noun, by name.
#[must_use]
pub fn consent_shapes() -> Vec<(String, Shape)> {
    let about = "The consent of an individual or group to an organization's access to its data.";
    vec![("Consent".to_owned(), record::answered(RecordKind::Consent, about, &ExtensionFields::default()))]
}
