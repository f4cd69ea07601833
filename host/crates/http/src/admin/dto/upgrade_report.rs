//! Bodies about what installing a plugin would mean.

use serde::Serialize;

use daftar_service::plugin::{CodeChange, TouchedCode, TouchedRecord, UpgradeReport, VocabularyChange};

/// What installing a plugin would mean.
#[derive(Debug, Serialize)]
pub struct UpgradeReportBody {
    plugin: String,
    from: Option<String>,
    to: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    refused: Option<String>,
    vocabularies: Vec<VocabularyChangeBody>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    records: Vec<TouchedRecordBody>,
}

#[derive(Debug, Serialize)]
struct TouchedRecordBody {
    reference: String,
    codes: Vec<FieldCodeBody>,
}

#[derive(Debug, Serialize)]
struct FieldCodeBody {
    field: String,
    uri: String,
}

#[derive(Debug, Serialize)]
struct VocabularyChangeBody {
    namespace: String,
    from: Option<String>,
    to: Option<String>,
    codes_added: usize,
    codes_gone: usize,
    codes_retired: usize,
    codes_relabelled: usize,
    records_touched: u64,
    codes: Vec<TouchedCodeBody>,
    codes_not_named: usize,
    local_codes: Vec<String>,
}

#[derive(Debug, Serialize)]
struct TouchedCodeBody {
    uri: String,
    display: String,
    change: &'static str,
    #[serde(skip_serializing_if = "Option::is_none")]
    new_display: Option<String>,
    records: u64,
    #[serde(skip_serializing_if = "Option::is_none")]
    successor: Option<SuccessorBody>,
}

#[derive(Debug, Serialize)]
struct SuccessorBody {
    uri: String,
    display: String,
}

impl From<UpgradeReport> for UpgradeReportBody {
    fn from(report: UpgradeReport) -> Self {
        Self {
            plugin: report.plugin,
            from: report.from,
            to: report.to,
            refused: report.refusal,
            vocabularies: report.vocabularies.into_iter().map(VocabularyChangeBody::from).collect(),
            records: report.records.into_iter().map(TouchedRecordBody::from).collect(),
        }
    }
}

impl From<VocabularyChange> for VocabularyChangeBody {
    fn from(change: VocabularyChange) -> Self {
        Self {
            namespace: change.namespace,
            from: change.from,
            to: change.to,
            codes_added: change.added,
            codes_gone: change.gone,
            codes_retired: change.retired,
            codes_relabelled: change.relabelled,
            records_touched: change.records,
            codes: change.touched.into_iter().map(TouchedCodeBody::from).collect(),
            codes_not_named: change.untold,
            local_codes: change.local_codes,
        }
    }
}

impl From<TouchedCode> for TouchedCodeBody {
    fn from(code: TouchedCode) -> Self {
        let (change, new_display) = match code.change {
            CodeChange::Gone => ("gone", None),
            CodeChange::Retired => ("retired", None),
            CodeChange::Relabelled { display } => ("relabelled", Some(display)),
        };
        Self {
            uri: code.uri,
            display: code.display,
            change,
            new_display,
            records: code.records,
            successor: code.successor.map(|(uri, display)| SuccessorBody { uri, display }),
        }
    }
}

impl From<TouchedRecord> for TouchedRecordBody {
    fn from(record: TouchedRecord) -> Self {
        let codes = record.codes.into_iter().map(|(field, uri)| FieldCodeBody { field, uri }).collect();
        Self { reference: record.reference, codes }
    }
}
