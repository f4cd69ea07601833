//! `/Eligibility`: goes with `dto/eligibility.rs` and `routes/eligibility.rs`. Bodies that are not records come from their types.

use daftar_api_types::public::eligibility as body;
use daftar_api_types::public::preview::{PreviewLine, PreviewRequest};
use utoipa::openapi::schema::{Object, ObjectBuilder, Type};

use super::operation::{Answer, Operation, Tag};
use super::record::{self, code_sent_of, fields_sent, list_sent};
use super::shape::{self, Members, Shape, any_of, by_name, list, named, named_as, needing, or_null, whole, with, word};
use super::{group, individual};
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
    Operation::new(Tag::Eligibility, "validateRule", "Say what is wrong with an expression")
        .says("Checks an expression without looking at anybody: syntax, fields, types, codes and concept groups. A wrong expression is `valid: false`, with diagnostics; one that exhausts a budget while it is checked is 422 naming the budget and its size. Fields that the client may not read of the register are warnings: records in a request may hold them, stored ones are refused.")
        .body("The expression and what it is about.", named("Validation"))
        .answers("What is known of the expression.", named("Validated"))
        .samples(body::Validation::samples())
}

/// `POST /Eligibility/$evaluate`
pub fn evaluate() -> Operation {
    Operation::new(Tag::Eligibility, "evaluateRule", "Decide who is eligible")
        .says("Evaluates an expression, or a program's, on stored records and on records in the request. What the expression reads of the register needs that scope too: `individual:read`, for `members` also `group:read`, for `programs` `program_membership:read`; a program's expression needs `program:read`. A `decision` that is sent back is decided again, with the records as it names them; 409 names what is not as it was. One that was changed, or given to another organization, is 422 `decision_not_authentic`. A wrong expression is 422 with `diagnostics`; so is one that exhausts a budget.")
        .body(
            "The rule and its subjects.",
            any_of(["EvaluationOfIndividuals", "EvaluationOfGroups", "EvaluationOfProgram"].map(|name| named(name).into())),
        )
        .answers("One result a subject, in order, and what is needed to repeat the decision.", named("Evaluated"))
        .refuses(&[404, 409])
        .samples(body::Evaluation::samples())
}

/// `POST /Eligibility/$preview`
pub fn preview() -> Operation {
    Operation::new(Tag::Eligibility, "previewRule", "Count who is eligible in the whole register")
        .says("Evaluates an expression over everybody whom `filter` finds, a search's own parameters, as the register stands at that moment, and counts the outcomes, also by gender, age band and region. It needs `individual:read` (for groups `group:read`), and what the expression and the filter read. A breakdown that the client may not see is left out and named in `withheld`. With `Accept: application/x-ndjson` the answer comes as lines: progress, with `subjects: true` one for each subject in the order of registration, and the result as the last one, or `error` where it fails on the way. Closing the connection ends it. A wrong expression is 422 with `diagnostics`; so is one that exhausts a budget.")
        .body(
            "The expression and whom it is asked about.",
            any_of(["PreviewOfIndividuals", "PreviewOfGroups"].map(|name| named(name).into())),
        )
        .in_languages()
        .answer(
            Answer::json(200, "Who is eligible, counted.", named("Previewed"))
                .or(LINES, named("PreviewLine")),
        )
        .samples(PreviewRequest::samples())
}

/// The shapes of this noun, by name.
#[must_use]
pub fn shapes(fields: &ExtensionFields) -> Vec<(String, Shape)> {
    let over_people = preview_request("An expression to be tried over people.", "IndividualFilter");
    let over_groups = preview_request("An expression to be tried over groups.", "GroupFilter");
    let requests = [
        ("EvaluationOfIndividuals", of_individuals()),
        ("EvaluationOfGroups", of_groups()),
        ("EvaluationOfProgram", of_program()),
        ("InlineIndividual", inline(person("A person that need not be in the register.", fields))),
        ("InlineGroup", inline(given(RecordKind::Group, "A group that need not be in the register.", fields))),
        ("InlineMember", person("A member of a household.", fields).into()),
        ("InlineMembership", membership()),
        ("PreviewOfIndividuals", with(over_people, "subject", or_null(word([Subject::Individual.name()]))).into()),
        ("PreviewOfGroups", needing(over_groups, "subject", word([Subject::Group.name()])).into()),
        ("IndividualFilter", filters(&individual::search(), fields)),
        ("GroupFilter", filters(&group::search(), fields)),
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

/// A request of one of the three forms, of which the type has the members.
fn evaluation(description: &str, subjects: impl IntoIterator<Item = Shape>) -> Object {
    let subjects = list(any_of(subjects)).min_items(Some(1)).max_items(Some(body::SUBJECTS_MAX));
    needing(shape::object::<body::Evaluation<'_>>(description), "subjects", subjects)
}

fn of_individuals() -> Shape {
    let subjects = [record::reference_sent(&[RecordKind::Individual]), named("InlineIndividual").into()];
    let rule = needing(evaluation("An expression on people.", subjects), "expression", body::expression());
    with(with(rule, "subject", or_null(word(["individual"]))), "program", null()).into()
}

fn of_groups() -> Shape {
    let subjects = [record::reference_sent(&[RecordKind::Group]), named("InlineGroup").into()];
    let rule = needing(evaluation("An expression on groups.", subjects), "expression", body::expression());
    with(needing(rule, "subject", word(["group"])), "program", null()).into()
}

fn of_program() -> Shape {
    let references = record::reference_sent(&Subject::ALL.map(Subject::record_kind));
    let subjects = [references, named("InlineIndividual").into(), named("InlineGroup").into()];
    let rule = evaluation("A program's expression on the subjects that the program is for.", subjects);
    let rule = needing(rule, "program", record::reference_sent(&[RecordKind::Program]));
    with(rule, "expression", null()).into()
}

fn null() -> ObjectBuilder {
    ObjectBuilder::new().schema_type(Type::Null)
}

/// A record that is given in the request.
fn given(kind: RecordKind, description: &str, fields: &ExtensionFields) -> Members {
    record::sent(Members::sent(description), kind, fields).may("identifier", list_sent(named("IdentifierSent")))
}

fn person(description: &str, fields: &ExtensionFields) -> Members {
    given(RecordKind::Individual, description, fields).may("role", code_sent_of(CodedField::MemberRole))
}

fn inline(members: Members) -> Shape {
    members
        .may("members", list(named("InlineMember")).max_items(Some(MEMBERS_MAX)))
        .may("programs", list_sent(named("InlineMembership")))
        .into()
}

fn membership() -> Shape {
    let members =
        Members::sent("A membership in a program.").needs("program", record::reference_sent(&[RecordKind::Program]));
    fields_sent(members, membership_fields(), Level::Record).into()
}

fn preview_request(description: &str, filter: &str) -> Object {
    let sample = whole(0).maximum(Some(f64::from(SAMPLE_MAX))).description(Some("The number of subjects to show."));
    let request = shape::object::<PreviewRequest<'_>>(description);
    let request = with(request, "filter", or_null(named_as(filter, "The subjects; all where absent.")));
    with(request, "sample", or_null(sample))
}
