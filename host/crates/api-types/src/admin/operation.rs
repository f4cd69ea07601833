//! Running a register: audit log, checkup, verification, import and export, and rules of programs that are not valid
//! any more.
//!
//! Imports, exports and verification runs are lines of JSON, one object each.

use serde::{Deserialize, Serialize};

/// A page of a list that continues behind it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct PageBody<T> {
    /// The entries of the page.
    pub data: Vec<T>,
    /// The `cursor` of the next page; `null` at the end.
    pub next: Option<String>,
}

/// An entry of the audit log.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct AuditEntryBody {
    /// When.
    pub at: String,
    /// `client`, `administrator`, `system` or `unknown`.
    pub actor: String,
    /// The client.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub client: Option<String>,
    /// The address, or the network of an IPv6 address.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub address: Option<String>,
    /// The action, such as `read`.
    pub action: String,
    /// `allowed`, `refused` or `failed`.
    pub outcome: String,
    /// The status of the response.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub status: Option<u16>,
    /// The call.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub operation: Option<String>,
    /// The request.
    pub request_id: String,
    /// The records, clients or plugins concerned.
    pub records: Vec<String>,
    /// The fields that were shown or changed.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub fields: Vec<String>,
    /// The consents that permitted it.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub consents: Vec<String>,
    /// The reason that the client gave.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
    /// A note of the server.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub note: Option<String>,
    /// Number of equal entries that this one represents.
    pub count: u64,
}

/// The setup of a server.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct CheckupBody {
    /// The worst state of all checks: `ok`, `warning` or `problem`.
    pub state: String,
    /// Number of checks that have a warning.
    pub warnings: usize,
    /// Number of checks that have a problem.
    pub problems: usize,
    /// The checks.
    pub checks: Vec<CheckBody>,
}

impl CheckupBody {
    /// These checks, with the worst of their states.
    #[must_use]
    pub fn new(checks: Vec<CheckBody>) -> Self {
        let count = |state: &str| checks.iter().filter(|check| check.state == state).count();
        let (warnings, problems) = (count("warning"), count("problem"));
        let state = match (problems, warnings) {
            (0, 0) => "ok",
            (0, _) => "warning",
            (_, _) => "problem",
        };
        Self { state: state.to_owned(), warnings, problems, checks }
    }
}

/// One check.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct CheckBody {
    /// Its area, such as `keys`.
    pub area: String,
    /// Its name.
    pub check: String,
    /// `ok`, `not_known`, `warning` or `problem`.
    pub state: String,
    /// The finding.
    pub message: String,
    /// The remedy.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub remedy: Option<String>,
}

/// A line of a verification run.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum VerificationLine {
    /// Its progress.
    Progress {
        /// The part of the register.
        part: String,
        /// Number of items that were verified.
        done: u64,
        /// About how many there are, where that is known.
        #[serde(skip_serializing_if = "Option::is_none")]
        total: Option<u64>,
    },
    /// Something that is corrupt.
    Finding(FindingBody),
    /// The last line.
    Result(VerificationBody),
    /// The last line of a run that was interrupted: why.
    Error(String),
}

/// Something that is corrupt.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct FindingBody {
    /// The part of the register.
    pub part: String,
    /// The place.
    pub place: String,
    /// The problem.
    pub problem: String,
    /// The remedy.
    pub remedy: String,
}

/// The result of a verification run.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct VerificationBody {
    /// True if nothing is corrupt.
    pub valid: bool,
    /// Number of items that were verified.
    pub checked: u64,
    /// Number of them that are corrupt.
    pub findings: u64,
    /// The same by part of the register.
    pub parts: Vec<VerifiedPartBody>,
}

/// The result for one part of the register.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct VerifiedPartBody {
    /// The part.
    pub part: String,
    /// Number of items that were verified.
    pub checked: u64,
    /// Number of them that are corrupt.
    pub findings: u64,
}

/// Number of lines of an import, by outcome.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct ImportCounts {
    /// All.
    pub read: u64,
    /// Those that created a record.
    pub created: u64,
    /// Those that updated one.
    pub updated: u64,
    /// Those whose record is there already.
    pub skipped: u64,
    /// Those that were rejected.
    pub rejected: u64,
}

/// A line of an import's response. A line that has members of several kinds is of the first of them.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(untagged)]
pub enum ImportLine {
    /// A line that was rejected; nothing of it was written.
    Rejected {
        /// Its number.
        line: u64,
        /// The status that a single call would have had.
        status: u16,
        /// One sentence.
        detail: String,
        /// The problem with which field.
        errors: Vec<ImportErrorBody>,
    },
    /// All lines are done.
    Ended {
        /// Always `true`.
        done: bool,
        /// The last line that was done; `null` where there was none.
        durable: Option<u64>,
        /// In all.
        #[serde(flatten)]
        counts: ImportCounts,
    },
    /// It stopped, by no fault of a line: lines after the last durable one may have been written.
    Stopped {
        /// The reason.
        stopped: StoppedBody,
        /// The last line that was done; `null` where there was none.
        durable: Option<u64>,
        /// Until then.
        #[serde(flatten)]
        counts: ImportCounts,
    },
    /// All lines up to that one are on disk, or were reported as rejected.
    Durable {
        /// Its number.
        durable: u64,
        /// So far.
        #[serde(flatten)]
        counts: ImportCounts,
    },
}

/// The problem with a field of a line.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ImportErrorBody {
    /// The field.
    pub field: String,
    /// The kind of problem.
    pub code: String,
    /// One sentence.
    pub message: String,
}

/// Reason why an import or export stopped.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct StoppedBody {
    /// The status that a response would have had.
    pub status: u16,
    /// One sentence.
    pub detail: String,
}

/// A line of an export that is no record.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ExportLine {
    /// Progress of the export.
    #[serde(rename = "$export")]
    pub export: ExportProgress,
}

/// Progress of an export. A line that has members of several kinds is of the first of them.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(untagged)]
pub enum ExportProgress {
    /// It stopped: the next one continues at the last cursor.
    Stopped {
        /// The reason.
        stopped: StoppedBody,
    },
    /// All records were sent.
    Done {
        /// Always `true`.
        done: bool,
        /// Number of records in this response.
        records: u64,
        /// When the export began, which all its records are of.
        as_of: String,
    },
    /// There is more.
    Cursor {
        /// Position at which another request continues.
        cursor: String,
        /// Number of records in this response so far.
        records: u64,
    },
}

/// The rule of a program that is not valid any more.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct BrokenRuleBody<D> {
    /// The program.
    pub program: String,
    /// Its rule.
    pub eligibility: String,
    /// One sentence.
    pub message: String,
    /// The problem, as `$validate` reports it.
    pub diagnostics: Vec<D>,
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn lines_of_imports_and_exports_are_read_by_type() {
        let counts = ImportCounts { read: 3, created: 2, rejected: 1, ..ImportCounts::default() };
        let stopped = StoppedBody { status: 503, detail: "busy".to_owned() };
        for line in [
            ImportLine::Rejected { line: 2, status: 422, detail: "d".to_owned(), errors: Vec::new() },
            ImportLine::Ended { done: true, durable: Some(3), counts },
            ImportLine::Ended { done: true, durable: None, counts },
            ImportLine::Stopped { stopped: stopped.clone(), durable: Some(3), counts },
            ImportLine::Durable { durable: 3, counts },
        ] {
            let written = serde_json::to_value(&line).unwrap();
            assert_eq!(serde_json::from_value::<ImportLine>(written).unwrap(), line);
        }
        for progress in [
            ExportProgress::Stopped { stopped },
            ExportProgress::Done { done: true, records: 3, as_of: "2026-01-31T12:00:00Z".to_owned() },
            ExportProgress::Cursor { cursor: "c".to_owned(), records: 3 },
        ] {
            let line = ExportLine { export: progress };
            let written = serde_json::to_value(&line).unwrap();
            assert_eq!(written.as_object().unwrap().keys().collect::<Vec<_>>(), ["$export"]);
            assert_eq!(serde_json::from_value::<ExportLine>(written).unwrap(), line);
        }
    }

    #[test]
    fn a_verification_line_has_one_member() {
        let progress = VerificationLine::Progress { part: "records".to_owned(), done: 1, total: None };
        assert_eq!(serde_json::to_value(&progress).unwrap(), json!({"progress": {"part": "records", "done": 1}}));
        assert_eq!(serde_json::to_value(VerificationLine::Error("e".to_owned())).unwrap(), json!({"error": "e"}));
    }
}
