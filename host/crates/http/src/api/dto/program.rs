//! The body of a program.

use serde::Serialize;
use serde_json::{Map, Value};

use super::eligibility::{SUBJECTS, expression_value};
use super::reader::{ObjectReader, Problems};
use super::shared::{IdentifierBody, MetaBody, PeriodBody, read_identifiers, read_type};
use crate::api::error::DiagnosticItem;
use daftar_domain::eligibility::Diagnostic;
use daftar_domain::field::FieldSet;
use daftar_domain::program::{PROGRAM_DESCRIPTION_BYTES_MAX, PROGRAM_NAME_BYTES_MAX, Program, ProgramDetails};
use daftar_domain::record::RecordKind;

/// Reads a body into a program whose expression is not checked yet; nothing where a needed field is missing, which is a
/// problem then.
pub fn read(members: Map<String, Value>, problems: &mut Problems) -> Option<ProgramDetails> {
    let mut reader = ObjectReader::root(members);
    read_type(&mut reader, RecordKind::Program, problems);
    let identifiers = read_identifiers(&mut reader, true, problems);
    let active = reader.boolean("active", problems);
    let name = reader.text("name", PROGRAM_NAME_BYTES_MAX, problems);
    if name.is_none() && !reader.is_problem("name", problems) {
        problems.add("name", "required", "a program has a name");
    }
    let description = reader.text("description", PROGRAM_DESCRIPTION_BYTES_MAX, problems);
    let program_type = reader.text("program_type", PROGRAM_NAME_BYTES_MAX, problems);
    let target_type = reader.word("target_type", SUBJECTS, problems);
    if target_type.is_none() && !reader.is_problem("target_type", problems) {
        problems.add("target_type", "required", "whom the program enrols is needed: `individual` or `group`");
    }
    let eligibility = reader.take("eligibility").and_then(|value| expression_value("eligibility", value, problems));
    let enforce_eligibility = reader.boolean("enforce_eligibility", problems).unwrap_or(false);
    let period = reader.period("period", problems);
    reader.take("meta");
    reader.finish(problems);
    Some(ProgramDetails {
        identifiers,
        active,
        name: name?,
        description,
        program_type,
        target_type: target_type?,
        eligibility,
        enforce_eligibility,
        period,
    })
}

/// Writes what is seen of a program.
#[must_use]
pub fn write<'a>(program: &'a Program, seen: &FieldSet) -> ProgramBody<'a> {
    let details = &program.details;
    ProgramBody {
        kind: "Program",
        identifier: details.identifiers.iter().map(IdentifierBody::from).collect(),
        active: details.active.filter(|_| seen.allows("active")),
        name: seen.allows("name").then_some(details.name.as_str()),
        description: details.description.as_deref().filter(|_| seen.allows("description")),
        program_type: details.program_type.as_deref().filter(|_| seen.allows("program_type")),
        target_type: seen.allows("target_type").then(|| details.target_type.name()),
        eligibility: details.eligibility.as_deref().filter(|_| seen.allows("eligibility")),
        enforce_eligibility: seen.allows("enforce_eligibility").then_some(details.enforce_eligibility),
        period: details.period.filter(|_| seen.allows("period")).map(PeriodBody::from),
        meta: MetaBody::from(&program.meta),
    }
}

/// A program on the wire.
#[derive(Debug, Serialize)]
pub struct ProgramBody<'a> {
    #[serde(rename = "type")]
    kind: &'static str,
    identifier: Vec<IdentifierBody<'a>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    active: Option<bool>,
    #[serde(skip_serializing_if = "Option::is_none")]
    name: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    description: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    program_type: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    target_type: Option<&'static str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    eligibility: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    enforce_eligibility: Option<bool>,
    #[serde(skip_serializing_if = "Option::is_none")]
    period: Option<PeriodBody>,
    meta: MetaBody<'a>,
}

/// A program just written, with what is doubtful about its expression.
#[derive(Debug, Serialize)]
pub struct WrittenProgramBody<'a> {
    #[serde(flatten)]
    program: ProgramBody<'a>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    warnings: Vec<DiagnosticItem<'a>>,
}

impl<'a> WrittenProgramBody<'a> {
    /// The program and the diagnostics that did not stop it.
    #[must_use]
    pub fn new(program: &'a Program, warnings: &'a [Diagnostic]) -> Self {
        Self { program: write(program, &FieldSet::All), warnings: warnings.iter().map(DiagnosticItem::from).collect() }
    }
}
