//! `/Eligibility`: goes with `dto/eligibility.rs` and `routes/eligibility.rs`.

mod preview;

pub use preview::preview;

use serde_json::json;
use utoipa::openapi::schema::{ArrayBuilder, ObjectBuilder, SchemaType, Type};

use super::example::Example;
use super::operation::{Operation, Tag};
use super::parameter::SAMPLE_PERSON;
use super::record::{self, fields_sent};
use super::shape::{self, Members, Shape, any_of, date, list, named, plain, text, word, written};
use super::shared::{self, code_sent_of, list_sent};
use crate::api::dto::eligibility::decision::WORD_BYTES_MAX;
use crate::api::dto::eligibility::membership_fields;
use crate::api::dto::field::Level;
use daftar_domain::extension::ExtensionFields;
use daftar_domain::group::MEMBERS_MAX;
use daftar_domain::record::RecordKind;
use daftar_domain::subject::Subject;
use daftar_domain::vocabulary::CodedField;
use daftar_service::eligibility::evaluate::{EXPRESSION_BYTES_MAX, SUBJECTS_MAX};

/// `POST /Eligibility/$validate`
#[must_use]
pub fn validate() -> Operation {
    Operation::new(Tag::Eligibility, "validateRule", "Say what is wrong with an expression")
        .says("Checks an expression without looking at anybody: syntax, fields, types, codes and concept groups. A wrong expression is `valid: false`, with diagnostics; one that exhausts a budget while it is checked is 422 naming the budget and its size. Fields that the client may not read of the register are warnings: records in a request may hold them, stored ones are refused.")
        .body("The expression and what it is about.", named("Validation"))
        .answers("What is known of the expression.", named("Validated"))
        .example(Example::new("pension", "Women of 60 and more").body(json!({
            "expression": "is_female(me) && age_years(me.birth_date) >= 60", "subject": "individual",
        })))
        .example(Example::new("misspelt", "A concept group and a field that there are not").body(json!({
            "expression": "in_group(me.gender, 'femine_gender') && has(me.nam)", "subject": "individual",
        })))
        .example(Example::new("warning", "A concept group that is not set").body(json!({
            "expression": "members.exists(m, is_pregnant(m))", "subject": "group",
        })))
}

/// `POST /Eligibility/$evaluate`
#[must_use]
pub fn evaluate() -> Operation {
    Operation::new(Tag::Eligibility, "evaluateRule", "Decide who is eligible")
        .says("Evaluates an expression, or a program's, on stored records and on records in the request. What the expression reads of the register needs that scope too: `individual:read`, for `members` also `group:read`, for `programs` `program_membership:read`; a program's expression needs `program:read`. A `decision` that is sent back is decided again, with the records as it names them; 409 names what is not as it was. One that was changed, or given to another organization, is 422 `decision_not_authentic`. A wrong expression is 422 with `diagnostics`; so is one that exhausts a budget.")
        .body(
            "The rule and its subjects.",
            any_of(["EvaluationOfIndividuals", "EvaluationOfGroups", "EvaluationOfProgram"].map(|name| named(name).into())),
        )
        .answers("One result a subject, in order, and what is needed to repeat the decision.", named("Evaluated"))
        .refuses(&[404, 409])
        .example(Example::new("pension", "Women of 60 and more").body(json!({
            "expression": "is_female(me) && age_years(me.birth_date) >= 60",
            "as_of": "2026-01-01",
            "subjects": [
                format!("Individual/{SAMPLE_PERSON}"),
                {"type": "individual", "gender": "urn:iso:std:iso:5218#1", "birth_date": "1950-01-01"},
                {"type": "individual", "gender": "urn:iso:std:iso:5218#2"},
            ],
        })))
        .example(Example::new("explained", "Why somebody is eligible").body(json!({
            "expression": "is_female(me) && age_years(me.birth_date) >= 60",
            "explain": true,
            "subjects": [{"type": "individual", "gender": "urn:iso:std:iso:5218#2", "birth_date": "1950-01-01"}],
        })))
        .example(Example::new("misspelt", "A field that there is not").answered(422).body(json!({
            "expression": "age_years(me.birthdate) >= 60",
            "subjects": [{"type": "individual"}],
        })))
}

/// The shapes of this noun, by name.
#[must_use]
pub fn shapes(fields: &ExtensionFields) -> Vec<(String, Shape)> {
    let shapes = [
        ("Validation", validation()),
        ("Validated", validated()),
        ("EvaluationOfIndividuals", of_individuals()),
        ("EvaluationOfGroups", of_groups()),
        ("EvaluationOfProgram", of_program()),
        ("InlineIndividual", inline(person("A person that need not be in the register.", fields))),
        ("InlineGroup", inline(given(RecordKind::Group, "A group that need not be in the register.", fields))),
        ("InlineMember", person("A member of a household.", fields).into()),
        ("InlineMembership", membership()),
        ("Evaluated", evaluated()),
        ("Result", result()),
        ("Explanation", explanation()),
        ("Decision", decision()),
    ];
    shapes.map(|(name, shape)| (name.to_owned(), shape)).into_iter().chain(preview::shapes(fields)).collect()
}

fn validation() -> Shape {
    Members::sent("An expression to be checked.")
        .needs("expression", expression())
        .may(
            "subject",
            word(Subject::ALL.map(Subject::name)).description(Some("What it decides about; people where absent.")),
        )
        .into()
}

fn validated() -> Shape {
    let cost = Members::answered("What one subject costs, in parts of the expression that are evaluated.")
        .needs("steps_min", shape::whole(0))
        .needs("steps_max", shape::or_null(shape::whole(0).description(Some("Null for more than can be counted."))))
        .needs("list_items", shape::whole(0).description(Some("How many items of each list `steps_max` assumes.")));
    Members::answered("What is known of an expression.")
        .needs("valid", shape::boolean())
        .needs("result_type", shape::or_null(text().description(Some("Null where it could not be told."))))
        .needs("references", list(text()).description(Some("The fields that it reads, named as missing facts are.")))
        .needs("cost", shape::or_null(Shape::from(cost)))
        .needs("diagnostics", list(named("Diagnostic")))
        .into()
}

/// What every evaluation may say beside the rule and the subjects.
fn evaluation(description: &str) -> Members {
    Members::sent(description)
        .may("as_of", date().description(Some("The day that counts as today.")))
        .may(
            "explain",
            shape::boolean().description(Some("Tell how each answer comes about, of 100 subjects at most.")),
        )
        .may(
            "decision",
            shape::named_as("Decision", "A decision to be repeated: on its day, with the records as they were then."),
        )
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
        Members::sent("A membership in a program.").needs("program", shared::reference_sent(&[RecordKind::Program]));
    fields_sent(members, membership_fields(), Level::Record).into()
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
    Members::answered("What the rule says of one subject.")
        .needs("subject", text().description(Some("Its reference, or `subjects[n]` for a record of the request.")))
        .may("outcome", word(["eligible", "not_eligible", "undetermined"]))
        .may("missing", list(text()).description(Some("The facts that are not known and that the answer depends on.")))
        .may("errors", list(row_error()))
        .may("explanation", named("Explanation"))
        .may("error", error)
        .into()
}

fn row_error() -> Shape {
    Members::answered("What went wrong for this subject.")
        .needs("code", text())
        .needs("line", shape::whole(0))
        .needs("column", shape::whole(0))
        .into()
}

fn explanation() -> Shape {
    let value = "What it came to: `null` where it is not known, an object for a code, a record and a list (`items_min`, `items_max`).";
    Members::answered("One part of an expression and what it came to for this subject.")
        .needs("text", text().description(Some("The part, as it stands in the expression.")))
        .may("item", shape::whole(0).description(Some("For which item of a list it was evaluated.")))
        .needs("value", ObjectBuilder::new().schema_type(SchemaType::AnyValue).description(Some(value)))
        .needs(
            "seen",
            ObjectBuilder::new()
                .schema_type(Type::Object)
                .description(Some("The facts that it looked at by itself, by name; `null` where one is not recorded.")),
        )
        .may("missing", list(text()))
        .may("error", text())
        .needs("children", list(named("Explanation")))
        .may("cut", shape::boolean().description(Some("There is more than is told.")))
        .into()
}

fn decision() -> Shape {
    let vocabulary = Members::answered("A vocabulary that the decision used.")
        .needs("namespace", written(WORD_BYTES_MAX))
        .needs("version", written(WORD_BYTES_MAX));
    let vocabulary = vocabulary.needs("digest", written(WORD_BYTES_MAX));
    let version = Members::answered("A record that the decision read.")
        .needs("reference", written(WORD_BYTES_MAX))
        .needs("version_id", written(WORD_BYTES_MAX));
    Members::answered("What is needed to repeat the decision.")
        .needs("expression_digest", written(WORD_BYTES_MAX))
        .needs("engine", written(WORD_BYTES_MAX))
        .needs("vocabularies", list(Shape::from(vocabulary)))
        .needs("concept_groups", written(WORD_BYTES_MAX))
        .needs("schema", written(WORD_BYTES_MAX))
        .needs("as_of", date())
        .needs("versions", list(Shape::from(version)))
        .may("visibility", word(["consent"]).description(Some("Only what consents cover was looked at.")))
        .needs("seal", written(WORD_BYTES_MAX).description(Some("Says that this register gave the decision to the client's organization, or to the client where it has none: the id of a key and a signature.")))
        .into()
}
