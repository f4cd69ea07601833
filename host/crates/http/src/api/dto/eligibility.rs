//! Bodies of rules: what is asked, and what is answered.

pub mod answer;
pub mod decision;
pub mod preview;
pub mod validation;

use std::sync::Arc;

use serde_json::{Map, Value};

use super::group::{self, read_reference};
use super::individual::{Identification, read_members};
use super::program_membership::STATUSES;
use super::reader::{ObjectReader, Problems, text_value};
use daftar_domain::code::CodeUri;
use daftar_domain::eligibility::Subject;
use daftar_domain::extension::ExtensionFields;
use daftar_domain::group::{GroupDetails, MEMBERS_MAX};
use daftar_domain::identifier::{IdentifierKey, REFERENCE_BYTES_MAX};
use daftar_domain::individual::LIST_ITEMS_MAX;
use daftar_domain::program_membership::REASON_BYTES_MAX;
use daftar_domain::record::{RecordKind, VersionId};
use daftar_service::eligibility::decision::Decision;
use daftar_service::eligibility::evaluate::{
    EXPLAINED_MAX, EXPRESSION_BYTES_MAX, EvaluateRequest, PEOPLE_MAX, SUBJECTS_MAX, SubjectInput,
};
use daftar_service::eligibility::facts::{InlineMe, InlinePerson, InlineSubject, MembershipFact};
use daftar_service::program::ProgramRule;

/// The kinds of subjects as bodies name them.
pub const SUBJECTS: &[(&str, Subject)] = &[("individual", Subject::Individual), ("group", Subject::Group)];

/// Reads which program's rule a body of `$evaluate` asks for, if any.
pub fn read_program(members: &mut Map<String, Value>, problems: &mut Problems) -> Option<IdentifierKey> {
    let value = members.remove("program").filter(|value| !value.is_null())?;
    let text = text_value("program", value, REFERENCE_BYTES_MAX, problems)?;
    read_reference("program", &text, RecordKind::Program, problems)
}

/// The program's rule, where the body asks for one, or else the body's own.
fn read_rule(
    reader: &mut ObjectReader,
    program: Option<&ProgramRule>,
    problems: &mut Problems,
) -> (String, Subject, Option<(String, VersionId)>) {
    let named = reader.word("subject", SUBJECTS, problems);
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

/// Reads the body of `$evaluate`; `program` is what [`read_program`] led to, `repeated` the decision that it asks for again.
pub fn read(
    members: Map<String, Value>,
    program: Option<&ProgramRule>,
    repeated: Option<Decision>,
    fields: &ExtensionFields,
    problems: &mut Problems,
) -> EvaluateRequest {
    let mut reader = ObjectReader::root(members);
    let (expression, subject, program) = read_rule(&mut reader, program, problems);
    let subjects = reader.list("subjects", SUBJECTS_MAX, problems);
    if subjects.as_ref().is_none_or(Vec::is_empty) && !reader.is_problem("subjects", problems) {
        problems.add("subjects", "required", "a list of references or records is needed, with at least one");
    }
    let subjects = subjects.unwrap_or_default();
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
        let message =
            format!("with `explain`, at most {EXPLAINED_MAX} subjects are decided at once, not {}", inputs.len());
        problems.add("subjects", "too_many", message);
    }
    reader.finish(problems);
    let repeated = repeated.map(Arc::new);
    EvaluateRequest { expression, program, subject, subjects: inputs, as_of, explain, repeated }
}

/// How many people the inline records among some subjects tell of, at the least: counted before any of them is read.
fn people(subjects: &[(String, Value)]) -> usize {
    let members = |item: &Value| item.get("members").and_then(Value::as_array).map_or(0, Vec::len);
    subjects.iter().map(|(_, item)| members(item)).sum()
}

/// An expression may hold line breaks, which other texts may not.
fn read_expression(reader: &mut ObjectReader, problems: &mut Problems) -> String {
    match reader.take("expression") {
        Some(value) => expression_value("expression", value, problems).unwrap_or_default(),
        None => {
            problems.add("expression", "required", "the rule to evaluate is needed");
            String::new()
        }
    }
}

/// An expression that lies at `path`.
pub fn expression_value(path: &str, value: Value, problems: &mut Problems) -> Option<String> {
    match value {
        Value::String(text) if text.len() > EXPRESSION_BYTES_MAX => {
            let message = format!("an expression has at most {EXPRESSION_BYTES_MAX} bytes, not {}", text.len());
            problems.add(path, "too_long", message);
            None
        }
        Value::String(text) => Some(text),
        _ => {
            problems.add(path, "wrong_type", "an expression is a text");
            None
        }
    }
}

fn read_subject_reference(path: &str, item: Value, subject: Subject, problems: &mut Problems) -> Option<SubjectInput> {
    let text = text_value(path, item, REFERENCE_BYTES_MAX, problems)?;
    let key = read_reference(path, &text, subject.record_kind(), problems)?;
    Some(SubjectInput::Reference(subject, key))
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
            // Who belongs to it stands in `members`, whom it is related to decides nothing: both are read, and left.
            let group = group::read_fields(&mut reader, Identification::Optional, fields, problems);
            InlineMe::Group(Box::new(GroupDetails {
                active: group.active,
                name: group.name,
                group_type: group.group_type,
                housing_type: group.housing_type,
                address: group.address,
                extension: group.extension,
                ..GroupDetails::default()
            }))
        }
    };
    reader.finish(problems);
    InlineSubject { me, members, programs }
}

fn read_membership(path: String, item: Value, problems: &mut Problems) -> Option<MembershipFact> {
    let mut reader = ObjectReader::at(path, item, problems);
    let program = reader.text("program", REFERENCE_BYTES_MAX, problems);
    if program.is_none() && !reader.is_problem("program", problems) {
        problems.add(
            reader.path_of("program"),
            "required",
            "a membership names its program: `Program/<system>|<value>`",
        );
    }
    let path = reader.path_of("program");
    let program = program.and_then(|text| read_reference(&path, &text, RecordKind::Program, problems));
    let fact = MembershipFact {
        program: program.as_ref().map(|key| format!("{}/{}", RecordKind::Program, key.reveal())),
        status: reader.word("status", STATUSES, problems),
        enrollment_date: reader.date("enrollment_date", problems),
        exit_date: reader.date("exit_date", problems),
        exit_reason: reader.text("exit_reason", REASON_BYTES_MAX, problems),
    };
    reader.finish(problems);
    program.map(|_| fact)
}

fn read_person(reader: &mut ObjectReader, fields: &ExtensionFields, problems: &mut Problems) -> InlinePerson {
    let role: Option<CodeUri> = reader.code("role", problems);
    // A photo decides nothing: it is read like the rest, and left.
    InlinePerson { details: read_members(reader, Identification::Optional, fields, problems).details, role }
}
