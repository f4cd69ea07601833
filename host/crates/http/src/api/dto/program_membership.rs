//! The body of a membership in a program.

use jiff::civil::Date;
use serde::Serialize;
use serde_json::{Map, Value};

use super::reader::{ObjectReader, Problems, text_value};
use super::shared::{IdentifierBody, MetaBody, read_identifiers, read_type};
use daftar_domain::error::AppError;
use daftar_domain::field::FieldSet;
use daftar_domain::identifier::{IdentifierKey, REFERENCE_BYTES_MAX};
use daftar_domain::program_membership::{MembershipStatus, REASON_BYTES_MAX};
use daftar_domain::record::RecordKind;
use daftar_domain::subject::{Subject, SubjectReference};
use daftar_service::program_membership::{MembershipDraft, MembershipView};

/// The statuses as bodies name them.
pub const STATUSES: &[(&str, MembershipStatus)] = &[
    ("draft", MembershipStatus::Draft),
    ("enrolled", MembershipStatus::Enrolled),
    ("paused", MembershipStatus::Paused),
    ("exited", MembershipStatus::Exited),
    ("not_eligible", MembershipStatus::NotEligible),
    ("duplicated", MembershipStatus::Duplicated),
];

/// Whether a body makes a membership or replaces one.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Purpose {
    /// A membership that does not say where it stands is a draft.
    Create,
    /// The status must be said: taking somebody back to `draft` by leaving it out would surprise.
    Replace,
}

/// Reads a body into a membership whose references are not resolved yet; nothing where a needed field is missing, which is a
/// problem then.
pub fn read(members: Map<String, Value>, purpose: Purpose, problems: &mut Problems) -> Option<MembershipDraft> {
    let has_no_identifier = members.get("identifier").and_then(Value::as_array).is_some_and(Vec::is_empty);
    let mut reader = ObjectReader::root(members);
    read_type(&mut reader, RecordKind::ProgramMembership, problems);
    let identifiers = read_identifiers(&mut reader, false, problems);
    let program = read_reference(&mut reader, "program", &[RecordKind::Program], problems).map(|(_, key)| key);
    let beneficiary = read_subject(&mut reader, "beneficiary", problems);
    let status = reader.word("status", STATUSES, problems);
    if status.is_none() && purpose == Purpose::Replace && !reader.is_problem("status", problems) {
        problems.add("status", "required", "where the membership stands is needed, such as `enrolled`");
    }
    let enrollment_date = reader.date("enrollment_date", problems);
    let exit_date = reader.date("exit_date", problems);
    let exit_reason = reader.text("exit_reason", REASON_BYTES_MAX, problems);
    let override_reason = reader.object("override", problems).and_then(|mut object| {
        let reason = object.text("reason", REASON_BYTES_MAX, problems);
        if reason.is_none() && !object.is_problem("reason", problems) {
            problems.add(object.path_of("reason"), "required", "an override gives its reason");
        }
        object.finish(problems);
        reason
    });
    reader.take("meta");
    reader.finish(problems);
    Some(MembershipDraft {
        identifiers,
        has_no_identifier,
        program: program?,
        beneficiary: beneficiary?,
        status: status.unwrap_or(MembershipStatus::Draft),
        enrollment_date,
        exit_date,
        exit_reason,
        override_reason,
    })
}

/// The members of a body with those of the membership that are not written: they stay, whatever the body leaves out.
///
/// # Errors
/// [`AppError::Internal`] when a membership is written as something else than an object.
pub fn with_kept(
    present: &MembershipView,
    written: &FieldSet,
    members: &Map<String, Value>,
) -> Result<Map<String, Value>, AppError> {
    let shown = serde_json::to_value(write(present)).map_err(|error| AppError::Internal(error.into()))?;
    let Value::Object(mut all) = shown else {
        return Err(AppError::internal("a membership is written as something else than an object"));
    };
    all.retain(|name, _| !written.allows(name));
    all.extend(members.iter().map(|(name, value)| (name.clone(), value.clone())));
    Ok(all)
}

/// Reads a reference to a person or a group, which is needed.
pub fn read_subject(
    reader: &mut ObjectReader,
    name: &'static str,
    problems: &mut Problems,
) -> Option<SubjectReference<IdentifierKey>> {
    let (kind, id) = read_reference(reader, name, &Subject::ALL.map(Subject::record_kind), problems)?;
    let kind = Subject::ALL.into_iter().find(|subject| subject.record_kind() == kind)?;
    Some(SubjectReference { kind, id })
}

/// Reads a reference that is needed: a text, or `{reference, display}` as members of groups have it.
fn read_reference(
    reader: &mut ObjectReader,
    name: &'static str,
    kinds: &[RecordKind],
    problems: &mut Problems,
) -> Option<(RecordKind, IdentifierKey)> {
    let path = reader.path_of(name);
    let forms: Vec<String> = kinds.iter().map(|kind| format!("`{kind}/<system>|<value>`")).collect();
    let forms = forms.join(" or ");
    let Some(value) = reader.take(name) else {
        problems.add(path, "required", format!("a reference is needed: {forms}"));
        return None;
    };
    let (path, text) = match value {
        Value::Object(_) => {
            let mut object = ObjectReader::at(path, value, problems);
            let path = object.path_of("reference");
            let text = object.text("reference", REFERENCE_BYTES_MAX, problems);
            if text.is_none() && !object.is_problem("reference", problems) {
                problems.add(path.clone(), "required", format!("a reference is needed: {forms}"));
            }
            object.take("display");
            object.finish(problems);
            (path, text?)
        }
        other => {
            let text = text_value(&path, other, REFERENCE_BYTES_MAX, problems)?;
            (path, text)
        }
    };
    let of_kind = |kind: &RecordKind| Some((*kind, text.strip_prefix(kind.name())?.strip_prefix('/')?));
    let Some((kind, key)) = kinds.iter().find_map(of_kind) else {
        problems.add(path, "invalid_reference", format!("a reference is written {forms}"));
        return None;
    };
    match IdentifierKey::parse(key) {
        Ok(key) => Some((kind, key)),
        Err(error) => {
            problems.add(path, "invalid_reference", error.to_string());
            None
        }
    }
}

/// A membership on the wire.
#[derive(Debug, Serialize)]
pub struct MembershipBody<'a> {
    #[serde(rename = "type")]
    kind: &'static str,
    #[serde(skip_serializing_if = "Option::is_none")]
    identifier: Option<Vec<IdentifierBody<'a>>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    program: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    beneficiary: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    status: Option<&'static str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    enrollment_date: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    exit_date: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    exit_reason: Option<&'a str>,
    #[serde(rename = "override", skip_serializing_if = "Option::is_none")]
    exception: Option<OverrideBody<'a>>,
    meta: MetaBody<'a>,
}

#[derive(Debug, Serialize)]
struct OverrideBody<'a> {
    reason: &'a str,
}

/// Writes what is seen of a membership.
#[must_use]
pub fn write(view: &MembershipView) -> MembershipBody<'_> {
    let (details, seen) = (&view.membership.details, &view.fields);
    let day = |field: &str, day: Option<Date>| day.filter(|_| seen.allows(field)).map(|day| day.to_string());
    MembershipBody {
        kind: "ProgramMembership",
        // Who does not see everything is told that there are none: identifiers always stay.
        identifier: (!details.identifiers.is_empty() || details.has_no_identifier || !seen.is_all())
            .then(|| details.identifiers.iter().map(IdentifierBody::from).collect()),
        program: seen.allows("program").then_some(view.program.as_str()),
        beneficiary: seen.allows("beneficiary").then_some(view.beneficiary.as_str()),
        status: seen.allows("status").then(|| details.status.name()),
        enrollment_date: day("enrollment_date", details.enrollment_date),
        exit_date: day("exit_date", details.exit_date),
        exit_reason: details.exit_reason.as_deref().filter(|_| seen.allows("exit_reason")),
        exception: details
            .override_reason
            .as_deref()
            .filter(|_| seen.allows("override"))
            .map(|reason| OverrideBody { reason }),
        meta: MetaBody::from(&view.membership.meta),
    }
}
