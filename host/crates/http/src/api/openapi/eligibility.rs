//! `/Eligibility`: goes with `dto/eligibility.rs` and `routes/eligibility.rs`. Only bodies with records are written
//! here.

use daftar_api_types::public::eligibility as body;
use daftar_api_types::public::preview::{PreviewLine, PreviewRequest};

use super::individual;
use super::operation::{DocumentedResponse, Operation, Tag};
use super::record::{self, code_sent_of, fields_sent, list_sent};
use super::shape::{self, Shape, any_object, any_of, by_name, list, named, null, object, of_type, text, whole, word};
use crate::api::dto::eligibility::membership_fields;
use crate::api::dto::field::Level;
use crate::api::extract::accept::LINES;
use crate::api::openapi::parameter::filters;
use daftar_domain::extension::ExtensionFields;
use daftar_domain::group::MEMBERS_MAX;
use daftar_domain::record::RecordKind;
use daftar_domain::subject::Subject;
use daftar_domain::vocabulary::CodedField;
use daftar_service::eligibility::preview::SAMPLE_MAX;

/// `POST /Eligibility/$validate`
pub fn validate() -> Operation {
    Operation::new(Tag::Eligibility, "validateRule", "Validate an expression")
        .says("Checks an expression without evaluating it: syntax, fields, types, codes and concept groups. An invalid expression is `valid: false`, with diagnostics; one that exhausts a budget while it is checked is 422 naming the budget and its size. Fields that the client may not read in the register are warnings: records in a request may contain them, stored ones are denied.")
        .body("The expression and the kind of its subjects.", named("Validation"))
        .responses("The result of the validation.", named("Validated"))
}

/// `POST /Eligibility/$evaluate`
pub fn evaluate() -> Operation {
    Operation::new(Tag::Eligibility, "evaluateRule", "Evaluate a rule")
        .says("Evaluates an expression, or a program's, on stored records and on records in the request. Data that the expression reads in the register requires its scope too: `individual:read`, for `members` also `group:read`, for `programs` `program_membership:read`; a program's expression requires `program:read`. A `decision` that is sent back is evaluated again, with the record versions that it names; 409 names the inputs that have changed. A modified one, or one issued to another organization, is 422 `decision_not_authentic`. An invalid expression is 422 with `diagnostics`; so is one that exhausts a budget.")
        .body(
            "The rule and its subjects.",
            any_of(["EvaluationOfIndividuals", "EvaluationOfGroups", "EvaluationOfProgram"].map(named)),
        )
        .responses("One result for each subject, in order, and the inputs that repeat the decision.", named("Evaluated"))
        .refuses(&[404, 409])
}

/// `POST /Eligibility/$evidence`
pub fn evidence() -> Operation {
    Operation::new(Tag::Eligibility, "exportEvidence", "Export the evidence of a decision")
        .says("Evaluates a body of `$evaluate` with at most 100 subjects, with the same scopes and grants, and returns a signed bundle: the rule, the engine's name and digest, the facts that the rule reads and the client may see, the codes with the answers of the vocabularies, and the bytes of the response of `$evaluate`. `daftar replay` verifies the signature and repeats the evaluation without the register. A subject that does not exist or is hidden is 404. Save the body unchanged: its signature covers its exact bytes.")
        .body(
            "The rule and its subjects.",
            any_of(["EvaluationOfIndividuals", "EvaluationOfGroups", "EvaluationOfProgram"].map(named)),
        )
        .responses("The evidence bundle.", named("EvidenceBundle"))
        .refuses(&[404, 409])
}

/// `POST /Eligibility/$preview`
pub fn preview() -> Operation {
    Operation::new(Tag::Eligibility, "previewRule", "Count eligible subjects in the register")
        .says("Evaluates an expression for all individuals or groups that match `filter`, the parameters of a search, on a snapshot of the register, and counts the outcomes, also by gender, age band and region. It requires `individual:read` (for groups `group:read`), and the scopes of all data that the expression and the filter read. A breakdown that the client may not see is left out and named in `withheld`. With `Accept: application/x-ndjson` the response is a sequence of lines: progress, with `subjects: true` one for each subject in the order of registration, and the result as the last one, or `error` if it fails after it began. Closing the connection aborts it. With `compare`, a second expression, both are evaluated over the same snapshot in one pass: `comparison` has the subjects by both outcomes, and subjects that are eligible by one of them only. An invalid expression is 422 with `diagnostics`, and `errors` names `compare` if it is the second; so is one that exhausts a budget.")
        .body(
            "The expression and its subjects.",
            any_of(["PreviewOfIndividuals", "PreviewOfGroups"].map(named)),
        )
        .in_languages()
        .response(
            DocumentedResponse::json(200, "The number of eligible subjects.", named("Previewed"))
                .or(LINES, named("PreviewLine")),
        )
}

/// The shapes of this noun, by name.
#[must_use]
pub fn shapes(fields: &ExtensionFields) -> Vec<(String, Shape)> {
    let [person, group] = Subject::ALL.map(|subject| word([subject.name()]));
    let over_people = preview_request("An expression to evaluate for individuals.", "IndividualFilter");
    let over_groups = preview_request("An expression to evaluate for groups.", "GroupFilter");
    let people = [record::reference_sent(&[RecordKind::Individual]), named("InlineIndividual")];
    let people = with_expression(evaluation("An expression for individuals.", people));
    let groups = [record::reference_sent(&[RecordKind::Group]), named("InlineGroup")];
    let groups = with_expression(evaluation("An expression for groups.", groups));
    let either = record::reference_sent(&Subject::ALL.map(Subject::record_kind));
    let either = [either, named("InlineIndividual"), named("InlineGroup")];
    let of_program = evaluation("A program's expression for subjects of the program's kind.", either)
        .needs("program", record::reference_sent(&[RecordKind::Program]))
        .may("expression", null());
    let membership =
        object("A membership in a program.").needs("program", record::reference_sent(&[RecordKind::Program]));
    let key = object("The public key of the signature, a JSON Web Key.")
        .needs("kty", word(["OKP"]))
        .needs("crv", word(["Ed25519"]))
        .needs("kid", text())
        .needs("x", text());
    let bundle = object("A signed evidence bundle.")
        .needs("daftar_evidence", whole(1).about("The version of the format."))
        .needs("key", key)
        .needs("seal", text().about("The key id and the signature of `content`."))
        .needs("content", any_object("The inputs of the engine, and the response of `$evaluate` as a text."));
    let requests = [
        ("EvidenceBundle", bundle),
        ("EvaluationOfIndividuals", people.may_or_null("subject", person.clone())),
        ("EvaluationOfGroups", groups.needs("subject", group.clone())),
        ("EvaluationOfProgram", of_program),
        ("InlineIndividual", inline(inline_person("A person that need not be in the register.", fields))),
        ("InlineGroup", inline(given(RecordKind::Group, "A group that need not be in the register.", fields))),
        ("InlineMember", inline_person("A member of a household.", fields)),
        ("InlineMembership", fields_sent(membership, membership_fields(), Level::Record)),
        ("PreviewOfIndividuals", over_people.may_or_null("subject", person)),
        ("PreviewOfGroups", over_groups.needs("subject", group)),
        ("IndividualFilter", filters(&individual::search(), fields)),
        ("GroupFilter", filters(&super::group::search(), fields)),
    ];
    let requests = by_name(requests).into_iter();
    let bodies = [
        shape::request::<body::Validation<'_>>(),
        shape::response::<body::Validated<'_>>(),
        shape::response::<body::Evaluated<'_>>(),
        shape::response::<PreviewLine<'_>>(),
    ];
    requests.chain(bodies.into_iter().flatten()).collect()
}

/// A request of one of the three forms, with the members of the type.
fn evaluation(description: &str, subjects: impl IntoIterator<Item = Shape>) -> Shape {
    let subjects = list(any_of(subjects)).filled().at_most(body::SUBJECTS_MAX);
    of_type::<body::Evaluation<'_>>(description).needs("subjects", subjects)
}

/// The same with an expression of its own.
fn with_expression(evaluation: Shape) -> Shape {
    let expression = shape::plain().at_most(body::EXPRESSION_BYTES_MAX).about("The rule.");
    evaluation.needs("expression", expression).may("program", null())
}

/// An inline record of a request.
fn given(kind: RecordKind, description: &str, fields: &ExtensionFields) -> Shape {
    let members = record::sent(object(description), kind, fields);
    members.may_or_null("identifier", list_sent(named("IdentifierSent")))
}

fn inline_person(description: &str, fields: &ExtensionFields) -> Shape {
    given(RecordKind::Individual, description, fields).may_or_null("role", code_sent_of(CodedField::MemberRole))
}

fn inline(members: Shape) -> Shape {
    members
        .may_or_null("members", list(named("InlineMember")).at_most(MEMBERS_MAX))
        .may_or_null("programs", list_sent(named("InlineMembership")))
}

fn preview_request(description: &str, filter: &str) -> Shape {
    let sample = whole(0).with("maximum", SAMPLE_MAX).about("The number of subjects to return.");
    of_type::<PreviewRequest<'_>>(description)
        .may_or_null("compare", shape::plain().at_most(body::EXPRESSION_BYTES_MAX).about("A rule to compare it with."))
        .may_or_null("filter", named(filter).about("The subjects; all if absent."))
        .may_or_null("sample", sample)
}
