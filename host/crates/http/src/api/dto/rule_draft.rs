//! Bodies of rule drafts.

use daftar_api_types::public::eligibility::SubjectKind;
use daftar_api_types::public::rule_draft as body;
use serde::{Serialize, Serializer};
use serde_json::{Map, Value};

use super::field::{expression, parse_reference, words};
use super::reader::{ObjectReader, Problems, text_value};
use daftar_domain::calendar::format_instant;
use daftar_domain::identifier::REFERENCE_BYTES_MAX;
use daftar_domain::manifest::PluginName;
use daftar_domain::record::{RecordKind, VersionId};
use daftar_domain::rule_draft::{
    DRAFT_CASES_BYTES_MAX, DRAFT_CASES_MAX, DRAFT_NAME_BYTES_MAX, DRAFT_TEXT_BYTES_MAX, DraftContent, DraftStatus,
    RuleDraft,
};
use daftar_domain::subject::Subject;
use daftar_service::records::reference;

/// Reads a draft to write.
pub fn read(members: Map<String, Value>, problems: &mut Problems) -> Option<DraftContent> {
    let mut reader = ObjectReader::root(members);
    let name = reader.text("name", DRAFT_NAME_BYTES_MAX, problems);
    let rule = reader.take("expression").map(|value| expression("expression", value, problems));
    let subject = reader.word("subject", &words::<Subject>(), problems);
    for (name, is_absent) in [("name", name.is_none()), ("expression", rule.is_none()), ("subject", subject.is_none())]
    {
        if is_absent && !problems.names(name) {
            problems.add(name, "required", format!("`{name}` is required"));
        }
    }
    let comment = reader.take("comment").and_then(|value| text_of_lines("comment", value, problems));
    let program = reader.text("program", REFERENCE_BYTES_MAX, problems);
    let program = program.and_then(|text| parse_reference("program", &text, &[RecordKind::Program], problems));
    let engine = reader.text("engine", PluginName::LENGTH_MAX, problems);
    let cases = reader.take("cases").and_then(|value| cases(value, problems));
    let as_of = reader.date("as_of", problems);
    reader.finish(problems);
    Some(DraftContent {
        name: name?,
        expression: rule??,
        subject: subject?,
        comment,
        program: program.map(|program| program.id),
        engine,
        cases,
        as_of,
    })
}

/// Reads the version that the administrator accepts.
pub fn read_acceptance(members: Map<String, Value>, problems: &mut Problems) -> Option<VersionId> {
    let mut reader = ObjectReader::root(members);
    let version = read_version(&mut reader, problems);
    reader.finish(problems);
    version
}

/// Reads the version that the administrator rejects, and the reason.
pub fn read_rejection(members: Map<String, Value>, problems: &mut Problems) -> Option<(VersionId, String)> {
    let mut reader = ObjectReader::root(members);
    let version = read_version(&mut reader, problems);
    let reason = reader.take("reason");
    let reason = problems.require("reason", "required", reason, || "the reason of the rejection is required");
    let reason = reason.and_then(|value| text_of_lines("reason", value, problems));
    reader.finish(problems);
    Some((version?, reason?))
}

fn read_version(reader: &mut ObjectReader, problems: &mut Problems) -> Option<VersionId> {
    match reader.take("version") {
        None => {
            problems.add("version", "required", "the version of the draft that you have read is required");
            None
        }
        Some(value) => {
            let version = value.as_u64().filter(|version| *version > 0).map(VersionId);
            problems.require("version", "wrong_type", version, || "must be a whole number from 1")
        }
    }
}

/// Reads a text that may have several lines.
fn text_of_lines(at: &str, value: Value, problems: &mut Problems) -> Option<String> {
    // The rules of other texts apply to each line.
    let Value::String(text) = value else { return text_value(at, value, DRAFT_TEXT_BYTES_MAX, problems) };
    let checked = text.replace(['\n', '\r', '\t'], " ").trim().to_owned();
    let size = Value::String(if text.len() > DRAFT_TEXT_BYTES_MAX { text.clone() } else { checked });
    text_value(at, size, DRAFT_TEXT_BYTES_MAX, problems).map(|_| text)
}

/// Reads test cases, as JSON.
fn cases(value: Value, problems: &mut Problems) -> Option<String> {
    let json = value.to_string();
    if json.len() > DRAFT_CASES_BYTES_MAX {
        let message = format!("test cases have at most {DRAFT_CASES_BYTES_MAX} bytes as JSON, not {}", json.len());
        problems.add("cases", "too_long", message);
        return None;
    }
    let cases: Vec<body::RuleCase> = problems.accept("cases", "invalid", serde_json::from_value(value))?;
    if cases.len() > DRAFT_CASES_MAX {
        let message = format!("a rule draft has at most {DRAFT_CASES_MAX} test cases, not {}", cases.len());
        problems.add("cases", "too_many", message);
        return None;
    }
    Some(json)
}

/// A draft in a list. Its body is built while it is written: test cases of 64 KiB of JSON need 6 MB of
/// memory, and a list has many drafts.
pub struct Listed<'a>(pub &'a RuleDraft);

impl Serialize for Listed<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        written(self.0).serialize(serializer)
    }
}

/// The body of a draft.
#[must_use]
pub fn written(draft: &RuleDraft) -> body::RuleDraft {
    let DraftContent { name, expression, subject, comment, program, engine, cases, as_of } = draft.content.clone();
    body::RuleDraft {
        kind: body::RuleDraftType::RuleDraft,
        id: draft.id.to_string(),
        version: draft.version.0,
        content: body::RuleDraftSent {
            name,
            expression,
            subject: match subject {
                Subject::Individual => SubjectKind::Individual,
                Subject::Group => SubjectKind::Group,
            },
            comment,
            program: program.map(|program| reference(RecordKind::Program, &program)),
            engine,
            // They were read in this form.
            cases: cases.and_then(|json| serde_json::from_str(&json).ok()),
            as_of: as_of.map(|day| day.to_string()),
        },
        author: body::RuleDraftAuthor {
            client: draft.author.client.to_string(),
            organization: draft.author.organization.as_ref().map(|organization| organization.as_str().to_owned()),
        },
        status: match draft.status {
            DraftStatus::Accepted => body::RuleDraftStatus::Accepted,
            DraftStatus::Rejected => body::RuleDraftStatus::Rejected,
            DraftStatus::Open | DraftStatus::Deleted => body::RuleDraftStatus::Open,
        },
        reason: draft.reason.clone(),
        created_at: format_instant(draft.created_at),
        last_updated: format_instant(draft.last_updated),
    }
}
