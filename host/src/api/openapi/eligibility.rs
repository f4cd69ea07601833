//! `/Eligibility`: goes with `dto/eligibility.rs` and `routes/eligibility.rs`.

use serde_json::json;
use utoipa::openapi::schema::{ArrayBuilder, ObjectBuilder, Type};

use super::example::Example;
use super::group::described_sent;
use super::individual::person_sent;
use super::operation::{Operation, Tag};
use super::parameter::SAMPLE_PERSON;
use super::shape::{self, Members, Shape, any_of, date, list, named, plain, text, word, written};
use super::shared::{self, code_sent_of, list_sent};
use crate::domain::extension::ExtensionFields;
use crate::domain::group::MEMBERS_MAX;
use crate::domain::program_membership::{MembershipStatus, REASON_BYTES_MAX};
use crate::domain::record::RecordKind;
use crate::domain::subject::Subject;
use crate::domain::vocabulary::CodedField;
use crate::service::eligibility::evaluate::{EXPRESSION_BYTES_MAX, SUBJECTS_MAX};

/// `POST /Eligibility/$evaluate`
#[must_use]
pub fn evaluate() -> Operation {
    Operation::new(Tag::Eligibility, "evaluateRule", "Decide who is eligible")
        .says("Evaluates an expression, or a program's, on stored records and on records in the request. What the expression reads of the register needs that scope too: `individual:read`, for `members` also `group:read`, for `programs` `program_membership:read`; a program's expression needs `program:read`. A wrong expression is 422 with `diagnostics`; so is one that exhausts a budget.")
        .body(
            "The rule and its subjects.",
            any_of(["EvaluationOfIndividuals", "EvaluationOfGroups", "EvaluationOfProgram"].map(|name| named(name).into())),
        )
        .answers("One result a subject, in order, and what is needed to repeat the decision.", named("Evaluated"))
        .refuses(&[404])
        .example(Example::new("pension", "Women of 60 and more").body(json!({
            "expression": "is_female(me) && age_years(me.birth_date) >= 60",
            "as_of": "2026-01-01",
            "subjects": [
                format!("Individual/{SAMPLE_PERSON}"),
                {"type": "individual", "gender": "urn:iso:std:iso:5218#1", "birth_date": "1950-01-01"},
                {"type": "individual", "gender": "urn:iso:std:iso:5218#2"},
            ],
        })))
        .example(Example::new("misspelt", "A field that there is not").answered(422).body(json!({
            "expression": "age_years(me.birthdate) >= 60",
            "subjects": [{"type": "individual"}],
        })))
}

/// The shapes of this noun, by name.
#[must_use]
pub fn shapes(fields: &ExtensionFields) -> Vec<(String, Shape)> {
    [
        ("EvaluationOfIndividuals", of_individuals()),
        ("EvaluationOfGroups", of_groups()),
        ("EvaluationOfProgram", of_program()),
        ("InlineIndividual", inline(person(Members::sent("A person that need not be in the register."), fields))),
        ("InlineGroup", inline(described_sent(Members::sent("A group that need not be in the register."), fields))),
        ("InlineMember", person(Members::sent("A member of a household."), fields).into()),
        ("InlineMembership", membership()),
        ("Evaluated", evaluated()),
        ("Result", result()),
        ("Decision", decision()),
    ]
    .map(|(name, shape)| (name.to_owned(), shape))
    .into()
}

/// What every evaluation may say beside the rule and the subjects.
fn evaluation(description: &str) -> Members {
    Members::sent(description).may("as_of", date().description(Some("The day that counts as today.")))
}

fn expression() -> ObjectBuilder {
    plain().max_length(Some(EXPRESSION_BYTES_MAX)).description(Some("The rule."))
}

fn subjects(of: impl IntoIterator<Item = Shape>) -> ArrayBuilder {
    list(any_of(of)).min_items(Some(1)).max_items(Some(SUBJECTS_MAX))
}

fn of_individuals() -> Shape {
    let subject = [shared::reference_sent(&[RecordKind::Individual]), named("InlineIndividual").into()];
    evaluation("An expression on people.")
        .needs("expression", expression())
        .may("subject", word(["individual"]))
        .needs("subjects", subjects(subject))
        .may("program", null())
        .into()
}

fn of_groups() -> Shape {
    let subject = [shared::reference_sent(&[RecordKind::Group]), named("InlineGroup").into()];
    evaluation("An expression on groups.")
        .needs("expression", expression())
        .needs("subject", word(["group"]))
        .needs("subjects", subjects(subject))
        .may("program", null())
        .into()
}

fn of_program() -> Shape {
    let references = shared::reference_sent(&Subject::ALL.map(Subject::record_kind));
    let subject = [references, named("InlineIndividual").into(), named("InlineGroup").into()];
    evaluation("A program's expression on whom the program is for.")
        .needs("program", shared::reference_sent(&[RecordKind::Program]))
        .may("subject", word(Subject::ALL.map(Subject::name)))
        .needs("subjects", subjects(subject))
        .may("expression", null())
        .into()
}

fn null() -> ObjectBuilder {
    ObjectBuilder::new().schema_type(Type::Null)
}

fn person(members: Members, fields: &ExtensionFields) -> Members {
    person_sent(members, fields)
        .may("identifier", list_sent(named("IdentifierSent")))
        .may("role", code_sent_of(CodedField::MemberRole))
}

fn inline(members: Members) -> Shape {
    members
        .may("members", list(named("InlineMember")).max_items(Some(MEMBERS_MAX)))
        .may("programs", list_sent(named("InlineMembership")))
        .into()
}

fn membership() -> Shape {
    Members::sent("A membership in a program.")
        .needs("program", shared::reference_sent(&[RecordKind::Program]))
        .may("status", word(MembershipStatus::ALL.map(MembershipStatus::name)))
        .may("enrollment_date", date())
        .may("exit_date", date())
        .may("exit_reason", written(REASON_BYTES_MAX))
        .into()
}

fn evaluated() -> Shape {
    Members::answered("What the rule says of each subject.")
        .needs("results", list(named("Result")))
        .needs("decision", named("Decision"))
        .may("warnings", list(named("Diagnostic")))
        .into()
}

fn result() -> Shape {
    let error = Members::answered("Why nothing is said of a subject.")
        .needs("status", shape::whole(400))
        .needs("detail", text());
    let row_error = Members::answered("What went wrong for this subject.")
        .needs("code", text())
        .needs("line", shape::whole(0))
        .needs("column", shape::whole(0));
    Members::answered("What the rule says of one subject.")
        .needs("subject", text().description(Some("Its reference, or `subjects[n]` for a record of the request.")))
        .may("outcome", word(["eligible", "not_eligible", "undetermined"]))
        .may("missing", list(text()).description(Some("The facts that are not known and that the answer depends on.")))
        .may("errors", list(Shape::from(row_error)))
        .may("error", error)
        .into()
}

fn decision() -> Shape {
    let vocabulary =
        Members::answered("A vocabulary that the decision used.").needs("namespace", text()).needs("version", text());
    let version =
        Members::answered("A record that the decision read.").needs("reference", text()).needs("version_id", text());
    Members::answered("What is needed to repeat the decision.")
        .needs("expression_digest", text())
        .needs("engine", text())
        .needs("vocabularies", list(Shape::from(vocabulary)))
        .needs("concept_groups", text())
        .needs("schema", text())
        .needs("as_of", date())
        .needs("versions", list(Shape::from(version)))
        .may("visibility", word(["consent"]).description(Some("Only what consents cover was looked at.")))
        .into()
}
