//! Lines of a look through the register: JSON objects, one a line.

use serde::Serialize;

use daftar_domain::verification::{Finding, PartResult, VerificationEvent, VerificationResult};

/// One line.
#[derive(Debug, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum VerificationLine {
    /// How far it is.
    Progress {
        /// In which part of the register.
        part: &'static str,
        /// How many things have been looked at.
        done: u64,
        /// About how many there are, where that is known.
        #[serde(skip_serializing_if = "Option::is_none")]
        total: Option<u64>,
    },
    /// Something is wrong.
    Finding(FindingBody),
    /// The last line.
    Result(ResultBody),
    /// The last line where the look broke off: why.
    Error(String),
}

/// Something that is wrong.
#[derive(Debug, Serialize)]
pub struct FindingBody {
    part: &'static str,
    place: String,
    problem: String,
    remedy: &'static str,
}

impl From<Finding> for FindingBody {
    fn from(finding: Finding) -> Self {
        let Finding { part, place, problem, remedy } = finding;
        Self { part: part.name(), place, problem, remedy: remedy.text() }
    }
}

/// What the look came to.
#[derive(Debug, Serialize)]
pub struct ResultBody {
    sound: bool,
    looked_at: u64,
    findings: u64,
    parts: Vec<PartBody>,
}

#[derive(Debug, Serialize)]
struct PartBody {
    part: &'static str,
    looked_at: u64,
    findings: u64,
}

impl From<PartResult> for PartBody {
    fn from(result: PartResult) -> Self {
        Self { part: result.part.name(), looked_at: result.looked_at, findings: result.findings }
    }
}

impl From<&VerificationResult> for ResultBody {
    fn from(result: &VerificationResult) -> Self {
        let (looked_at, findings) = (result.looked_at(), result.findings());
        Self { sound: findings == 0, looked_at, findings, parts: result.parts().map(PartBody::from).collect() }
    }
}

impl From<VerificationEvent> for VerificationLine {
    fn from(event: VerificationEvent) -> Self {
        match event {
            VerificationEvent::Progress { part, done, total } => Self::Progress { part: part.name(), done, total },
            VerificationEvent::Finding(finding) => Self::Finding(finding.into()),
        }
    }
}

impl VerificationLine {
    /// Its bytes, with the end of the line.
    #[must_use]
    pub fn to_bytes(&self) -> Vec<u8> {
        let mut bytes = serde_json::to_vec(self).unwrap_or_default();
        bytes.push(b'\n');
        bytes
    }
}
