//! Request and response bodies of rules.

pub mod decision;
pub mod preview;
pub mod response;

use std::sync::Arc;

use daftar_api_types::public::eligibility::SUBJECTS_MAX;
use serde_json::{Map, Value};

use super::field::{Level, Reading, expression, parse_reference, read_fields, words};
use super::reader::{ObjectReader, Problems, text_value};
use super::record::{Identification, read_group_fields, read_individual_fields};
use daftar_domain::eligibility::Subject;
use daftar_domain::extension::ExtensionFields;
use daftar_domain::group::MEMBERS_MAX;
use daftar_domain::identifier::{IdentifierKey, REFERENCE_BYTES_MAX};
use daftar_domain::individual::LIST_ITEMS_MAX;
use daftar_domain::manifest::PluginName;
use daftar_domain::record::{RecordKind, VersionId};
use daftar_domain::schema::{self, Field, Kind};
use daftar_service::eligibility::decision::Decision;
use daftar_service::eligibility::evaluate::{EXPLAINED_MAX, EvaluateRequest, PEOPLE_MAX, SubjectInput};
use daftar_service::eligibility::facts::{InlineMe, InlinePerson, InlineSubject, MembershipFact};
use daftar_service::program::ProgramRule;
use daftar_service::records;

/// Reads the body of `$validate`: an expression, the name of its engine, and the kind of record that it evaluates.
pub fn read_validation(members: Map<String, Value>, problems: &mut Problems) -> (String, Option<String>, Subject) {
    let mut reader = ObjectReader::root(members);
    let expression = read_expression(&mut reader, problems);
    let engine = reader.text("engine", PluginName::LENGTH_MAX, problems);
    let subject = reader.word("subject", &words::<Subject>(), problems).unwrap_or(Subject::Individual);
    reader.finish(problems);
    (expression, engine, subject)
}

/// Reads the name of the engine of a body of `$evaluate`, if any. A program names its engine itself.
pub fn read_engine(
    members: &mut Map<String, Value>,
    program: Option<&ProgramRule>,
    problems: &mut Problems,
) -> Option<String> {
    let value = members.remove("engine").filter(|value| !value.is_null())?;
    if program.is_some() {
        problems.add("engine", "contradiction", "a body names an `engine` or a `program`, not both");
        return None;
    }
    text_value("engine", value, PluginName::LENGTH_MAX, problems)
}

/// Reads the program whose rule a body of `$evaluate` evaluates, if any.
pub fn read_program(members: &mut Map<String, Value>, problems: &mut Problems) -> Option<IdentifierKey> {
    let value = members.remove("program").filter(|value| !value.is_null())?;
    let text = text_value("program", value, REFERENCE_BYTES_MAX, problems)?;
    Some(parse_reference("program", &text, &[RecordKind::Program], problems)?.id)
}

/// Returns the program's rule, if the body names a program, or else the body's own rule.
fn read_rule(
    reader: &mut ObjectReader,
    program: Option<&ProgramRule>,
    problems: &mut Problems,
) -> (String, Subject, Option<(String, VersionId)>) {
    let named = reader.word("subject", &words::<Subject>(), problems);
    let Some(program) = program else {
        return (read_expression(reader, problems), named.unwrap_or(Subject::Individual), None);
    };
    if reader.take("expression").is_some() {
        problems.add("expression", "contradiction", "a body names an `expression` or a `program`, not both");
    }
    if named.is_some_and(|named| named != program.subject) {
        let message = format!("the program is about subjects of type `{}`", program.subject.name());
        problems.add("subject", "contradiction", message);
    }
    (program.expression.clone(), program.subject, Some((program.reference.clone(), program.version)))
}

/// Reads the body of `$evaluate`. `program` is the result of [`read_program`], `repeated` the decision to repeat.
pub fn read(
    members: Map<String, Value>,
    program: Option<&ProgramRule>,
    repeated: Option<Decision>,
    fields: &ExtensionFields,
    problems: &mut Problems,
) -> EvaluateRequest {
    let mut reader = ObjectReader::root(members);
    let (expression, subject, program) = read_rule(&mut reader, program, problems);
    let subjects = reader.list("subjects", SUBJECTS_MAX, problems).filter(|subjects| !subjects.is_empty());
    let needed = "a list of references or records is required, with at least one";
    let subjects = reader.needed("subjects", subjects, needed, problems).unwrap_or_default();
    let are_too_many = people(&subjects) > PEOPLE_MAX;
    if are_too_many {
        let message = format!(
            "subjects and members of their households are more than {PEOPLE_MAX} people; ask about fewer at once"
        );
        problems.add("subjects", "too_many", message);
    }
    let mut inputs = Vec::new();
    for (path, item) in subjects.into_iter().filter(|_| !are_too_many) {
        inputs.extend(match item {
            Value::String(_) => read_subject_reference(&path, item, subject, problems),
            other => Some(SubjectInput::Inline(Box::new(read_inline(path, other, subject, fields, problems)))),
        });
    }
    let as_of = reader.date("as_of", problems);
    if let (Some(as_of), Some(decision)) = (as_of, &repeated)
        && as_of != decision.as_of
    {
        problems.add("as_of", "contradiction", format!("the decision that is repeated is about {}", decision.as_of));
    }
    let explain = reader.boolean("explain", problems).unwrap_or(false);
    if explain && inputs.len() > EXPLAINED_MAX {
        let message = format!(
            "with `explain`, at most {EXPLAINED_MAX} subjects are decided in one request, not {}",
            inputs.len()
        );
        problems.add("subjects", "too_many", message);
    }
    reader.finish(problems);
    let repeated = repeated.map(Arc::new);
    EvaluateRequest { expression, program, subject, subjects: inputs, as_of, explain, repeated, evidence: false }
}

/// Returns the minimum number of individuals in the inline records of some subjects, counted before they are read.
fn people(subjects: &[(String, Value)]) -> usize {
    let members = |item: &Value| item.get("members").and_then(Value::as_array).map_or(0, Vec::len);
    subjects.iter().map(|(_, item)| members(item)).sum()
}

fn read_expression(reader: &mut ObjectReader, problems: &mut Problems) -> String {
    match reader.take("expression") {
        Some(value) => expression("expression", value, problems).unwrap_or_default(),
        None => {
            problems.add("expression", "required", "the rule to evaluate is required");
            String::new()
        }
    }
}

fn read_subject_reference(path: &str, item: Value, subject: Subject, problems: &mut Problems) -> Option<SubjectInput> {
    let text = text_value(path, item, REFERENCE_BYTES_MAX, problems)?;
    let reference = parse_reference(path, &text, &[subject.record_kind()], problems)?;
    Some(SubjectInput::Reference(subject, reference.id))
}

fn read_inline(
    path: String,
    item: Value,
    subject: Subject,
    fields: &ExtensionFields,
    problems: &mut Problems,
) -> InlineSubject {
    let mut reader = ObjectReader::at(path, item, problems);
    let members = reader.list("members", MEMBERS_MAX, problems).map(|items| {
        items
            .into_iter()
            .map(|(path, item)| {
                let mut member = ObjectReader::at(path, item, problems);
                let person = read_person(&mut member, fields, problems);
                member.finish(problems);
                person
            })
            .collect()
    });
    let programs = reader
        .list("programs", LIST_ITEMS_MAX, problems)
        .map(|items| items.into_iter().filter_map(|(path, item)| read_membership(path, item, problems)).collect());
    let me = match subject {
        Subject::Individual => InlineMe::Person(Box::new(read_person(&mut reader, fields, problems))),
        Subject::Group => {
            InlineMe::Group(Box::new(read_group_fields(&mut reader, Identification::Optional, fields, problems)))
        }
    };
    reader.finish(problems);
    InlineSubject { me, members, programs }
}

/// The fields of a membership that a rule sees in addition to its program.
pub fn membership_fields() -> impl Iterator<Item = &'static Field> + Clone {
    let is_plain = |field: &&Field| !matches!(field.kind, Kind::Reference(_) | Kind::Struct(_));
    schema::fields(RecordKind::ProgramMembership).iter().filter(is_plain).filter(|field| !field.is_internal)
}

fn read_membership(path: String, item: Value, problems: &mut Problems) -> Option<MembershipFact> {
    let mut reader = ObjectReader::at(path, item, problems);
    let program = reader.text("program", REFERENCE_BYTES_MAX, problems);
    let needed = "a membership names its program: `Program/<system>|<value>`";
    let program = reader.needed("program", program, needed, problems);
    let path = reader.path_of("program");
    let program = program.and_then(|text| parse_reference(&path, &text, &[RecordKind::Program], problems));
    let mut reading = Reading { problems, photo: None };
    let values = read_fields(&mut reader, membership_fields(), Level::Record, &mut reading);
    reader.finish(reading.problems);
    Some(MembershipFact { program: Some(records::reference(RecordKind::Program, &program?.id)), values })
}

fn read_person(reader: &mut ObjectReader, fields: &ExtensionFields, problems: &mut Problems) -> InlinePerson {
    let role = reader.code("role", problems);
    // A photo decides nothing: it is read like the rest, and ignored.
    InlinePerson { details: read_individual_fields(reader, Identification::Optional, fields, problems).details, role }
}
