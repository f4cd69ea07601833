//! Bodies about codes of the deployment's own.

use std::collections::BTreeMap;

use serde::Serialize;
use serde_json::{Map, Value};

use crate::api::dto::reader::{ObjectReader, Problems, text_value};
use daftar_domain::calendar::format_instant;
use daftar_domain::code::{CODE_BYTES_MAX, CodeUri, NAMESPACE_BYTES_MAX};
use daftar_domain::local_code::{
    IdTarget, LABEL_BYTES_MAX, LABELS_MAX, LocalOrigin, LocalStanding, PATTERN_BYTES_MAX,
    PATTERN_DESCRIPTION_BYTES_MAX, REFERENCE_BYTES_MAX, ValuePattern,
};
use daftar_domain::vocabulary::LocalizedText;
use daftar_service::local_code::{LocalCodeChange, LocalCodeView, NewLocalCode};

const TARGETS: &[(&str, IdTarget)] =
    &[("individual", IdTarget::Individual), ("group", IdTarget::Group), ("both", IdTarget::Both)];
/// The longest URI of a code, in bytes.
const URI_BYTES_MAX: usize = NAMESPACE_BYTES_MAX + 1 + CODE_BYTES_MAX;

/// Reads the body that adds a local code.
pub fn read_new(members: Map<String, Value>, problems: &mut Problems) -> Option<NewLocalCode> {
    let mut reader = ObjectReader::root(members);
    let uri = read_uri(&mut reader, "code", problems);
    if uri.is_none() && !reader.is_problem("code", problems) {
        problems.add("code", "required", "the code to add is needed, written `<namespace>#<code>`");
    }
    let specialises = read_uri(&mut reader, "specialises", problems);
    let labels = read_labels(&mut reader, problems);
    let reference = reader.text("reference", REFERENCE_BYTES_MAX, problems);
    let pattern = read_pattern(&mut reader, problems);
    let target = reader.word("target_type", TARGETS, problems);
    reader.finish(problems);
    Some(NewLocalCode { uri: uri?, specialises, labels: labels.unwrap_or_default(), reference, pattern, target })
}

/// Reads the body that changes a local code: what is absent stays, `null` takes a reference or a pattern out.
pub fn read_change(members: Map<String, Value>, problems: &mut Problems) -> LocalCodeChange {
    let is_null = |name: &str| members.get(name).is_some_and(Value::is_null);
    let (drops_reference, drops_pattern) = (is_null("reference"), is_null("value_pattern"));
    let mut reader = ObjectReader::root(members);
    let labels = read_labels(&mut reader, problems);
    let reference = reader.text("reference", REFERENCE_BYTES_MAX, problems);
    let pattern = read_pattern(&mut reader, problems);
    let target = reader.word("target_type", TARGETS, problems);
    reader.finish(problems);
    LocalCodeChange {
        labels,
        reference: if drops_reference { Some(None) } else { reference.map(Some) },
        pattern: if drops_pattern { Some(None) } else { pattern.map(Some) },
        target,
    }
}

/// Reads `{replaced_by?}`.
pub fn read_deprecation(members: Map<String, Value>, problems: &mut Problems) -> Option<CodeUri> {
    let mut reader = ObjectReader::root(members);
    let successor = read_uri(&mut reader, "replaced_by", problems);
    reader.finish(problems);
    successor
}

fn read_uri(reader: &mut ObjectReader, name: &'static str, problems: &mut Problems) -> Option<CodeUri> {
    let text = reader.text(name, URI_BYTES_MAX, problems)?;
    match CodeUri::parse(&text) {
        Ok(uri) => Some(uri),
        Err(error) => {
            problems.add(name, "invalid_code", error.to_string());
            None
        }
    }
}

/// Reads `{<language>: <label>}`.
fn read_labels(reader: &mut ObjectReader, problems: &mut Problems) -> Option<Vec<LocalizedText>> {
    let Value::Object(labels) = reader.take("labels")? else {
        problems.add(
            "labels",
            "wrong_type",
            "labels are an object of language and label, such as `{\"en\": \"Farmer ID\"}`",
        );
        return None;
    };
    if labels.len() > LABELS_MAX {
        problems.add("labels", "too_many", format!("at most {LABELS_MAX} labels are kept, not {}", labels.len()));
        return None;
    }
    let read = labels.into_iter().filter_map(|(language, value)| {
        let language: String = language.chars().filter(|one| !one.is_control()).take(40).collect();
        let value = text_value(&format!("labels.{language}"), value, LABEL_BYTES_MAX, problems)?;
        Some(LocalizedText { language, value })
    });
    Some(read.collect())
}

fn read_pattern(reader: &mut ObjectReader, problems: &mut Problems) -> Option<ValuePattern> {
    let expression = reader.text("value_pattern", PATTERN_BYTES_MAX, problems);
    let description = reader.text("value_pattern_description", PATTERN_DESCRIPTION_BYTES_MAX, problems);
    match (expression, description) {
        (Some(expression), Some(description)) => match ValuePattern::new(expression, description) {
            Ok(pattern) => Some(pattern),
            Err(error) => {
                problems.add("value_pattern", "invalid_pattern", error.to_string());
                None
            }
        },
        (Some(_), None) if !reader.is_problem("value_pattern_description", problems) => {
            let message = "say in words what the pattern means: it is what whoever writes a wrong value is told";
            problems.add("value_pattern_description", "required", message);
            None
        }
        (None, Some(_)) if !reader.is_problem("value_pattern", problems) => {
            problems.add("value_pattern", "required", "a description belongs to a pattern");
            None
        }
        (_, _) => None,
    }
}

/// A local code as the administrator sees it.
#[derive(Debug, Serialize)]
pub struct LocalCodeBody {
    uri: String,
    namespace: String,
    code: String,
    local: bool,
    status: &'static str,
    #[serde(skip_serializing_if = "Option::is_none")]
    replaced_by: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    specialises: Option<String>,
    labels: BTreeMap<String, String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    reference: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    value_pattern: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    value_pattern_description: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    target_type: Option<&'static str>,
    in_force: bool,
    #[serde(skip_serializing_if = "Option::is_none")]
    records: Option<u64>,
    created_at: String,
    updated_at: String,
}

impl From<&LocalCodeView> for LocalCodeBody {
    fn from(view: &LocalCodeView) -> Self {
        let code = &view.code;
        let namespace = &code.uri.namespace;
        let pattern = code.id_type.as_ref().and_then(|rule| rule.pattern.as_ref());
        Self {
            uri: code.uri.to_string(),
            namespace: namespace.to_string(),
            code: code.uri.code.to_string(),
            local: code.origin == LocalOrigin::Deployment,
            status: match code.standing {
                LocalStanding::Active => "active",
                LocalStanding::Deprecated { .. } => "deprecated",
            },
            replaced_by: code.replaced_by().map(|code| format!("{namespace}#{code}")),
            specialises: code.specialises.as_ref().map(|code| format!("{namespace}#{code}")),
            labels: code.labels.iter().map(|label| (label.language.clone(), label.value.clone())).collect(),
            reference: code.reference.clone(),
            value_pattern: pattern.map(|pattern| pattern.expression.clone()),
            value_pattern_description: pattern.map(|pattern| pattern.description.clone()),
            target_type: code.id_type.as_ref().map(|rule| rule.target.as_str()),
            in_force: view.is_in_force,
            records: view.records,
            created_at: format_instant(code.created_at),
            updated_at: format_instant(code.updated_at),
        }
    }
}
