//! Results of the verification of a register: problems, affected records and remedies.
//!
//! **Invariant:** a finding contains identifiers or numbers of records, field names and counts; never field values.

use std::collections::BTreeMap;
use std::fmt;

use super::change::ChangedRecord;
use super::identifier::IdentifierKey;
use super::record::{RecordId, RecordKind};

named_enum! {
    /// A part of the register that is verified separately.
    #[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
    pub enum Part {
        /// The files of the database.
        Files = "files",
        /// The table of numbers of codes and versions of vocabularies.
        Codes = "codes",
        /// The change log.
        Changes = "changes",
        /// Current versions of records.
        Records = "records",
        /// Older versions of records.
        History = "history",
        /// The identifier index.
        Identifiers = "identifiers",
        /// References between records: members, programs, beneficiaries, subjects.
        References = "references",
        /// The index of open memberships, by program and beneficiary.
        OpenMemberships = "open_memberships",
        /// Photos and their chunks.
        Photos = "photos",
        /// Stored idempotency keys.
        Requests = "requests",
        /// Entries of the audit log.
        Audit = "audit",
        /// Summaries of the audit log.
        AuditSummaries = "audit_summaries",
        /// Settings of the deployment.
        Settings = "settings",
        /// API clients.
        Clients = "clients",
        /// Counters.
        Counters = "counters",
        /// The in-memory indexes.
        Indexes = "indexes",
        /// Checkpoints of the in-memory indexes, of a stopped server.
        Checkpoints = "checkpoints",
    }
}

impl fmt::Display for Part {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(self.name())
    }
}

/// The remedy for a finding.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Remedy {
    /// The data is missing or corrupt, and exists only in a backup.
    Restore,
    /// Writing the record again rebuilds its derived data.
    WriteAgain,
    /// The next start rebuilds it.
    Restart,
    /// After removal of the file the next start reads the records.
    RemoveFile,
    /// A later version of daftar wrote it.
    UseNewer,
    /// Nothing is lost, and no action is required.
    Nothing,
}

impl Remedy {
    /// Returns the instruction.
    #[must_use]
    pub fn text(self) -> &'static str {
        match self {
            Self::Restore => {
                "keep a copy of the folder, then restore the last backup in which `daftar verify` finds nothing"
            }
            Self::WriteAgain => "write the record again as it is (`PUT`): this rebuilds its derived data",
            Self::Restart => "restart the server: it rebuilds its indexes from the records",
            Self::RemoveFile => "remove the file: nothing is lost, the next start reads the records themselves",
            Self::UseNewer => "use the later version of daftar that wrote it",
            Self::Nothing => "nothing is lost and no action is required; report it to the developers of daftar",
        }
    }
}

/// A problem found by the verification.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Finding {
    /// The part of the register.
    pub part: Part,
    /// The affected item: a record by its identifier or number.
    pub place: String,
    /// The problem.
    pub problem: String,
    /// The remedy.
    pub remedy: Remedy,
}

impl fmt::Display for Finding {
    /// Formats the finding in one line.
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "{}: {}: {}; {}", self.part, self.place, self.problem, self.remedy.text())
    }
}

/// Returns the name of a record: its first identifier, else its number.
#[must_use]
pub fn record_name(record: &ChangedRecord) -> String {
    let (kind, id, _) = record.place();
    match record.identifiers().first() {
        Some(identifier) => identifier_name(kind, &identifier.key),
        None => number_name(kind, id),
    }
}

/// Returns the name of a record with this identifier.
#[must_use]
pub fn identifier_name(kind: RecordKind, key: &IdentifierKey) -> String {
    format!("{kind} `{}`", key.reveal())
}

/// Returns the name of a record without a known identifier.
#[must_use]
pub fn number_name(kind: RecordKind, id: RecordId) -> String {
    format!("{kind} number {}", id.0)
}

/// An event during the verification.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum VerificationEvent {
    /// Progress.
    Progress {
        /// The part.
        part: Part,
        /// Number of items of the part checked so far.
        done: u64,
        /// Approximate number of items, if known.
        total: Option<u64>,
    },
    /// A problem was found.
    Finding(Finding),
}

/// The result for one part.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PartResult {
    /// The part.
    pub part: Part,
    /// Number of items checked.
    pub checked: u64,
    /// Number of problems.
    pub findings: u64,
}

/// The result of the verification.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct VerificationResult {
    parts: BTreeMap<Part, (u64, u64)>,
}

impl VerificationResult {
    /// Returns the parts with checked items or problems.
    pub fn parts(&self) -> impl Iterator<Item = PartResult> {
        self.parts.iter().map(|(part, (checked, findings))| PartResult {
            part: *part,
            checked: *checked,
            findings: *findings,
        })
    }

    /// Returns the number of problems.
    #[must_use]
    pub fn findings(&self) -> u64 {
        self.parts().fold(0, |sum, part| sum.saturating_add(part.findings))
    }

    /// Returns the number of items checked.
    #[must_use]
    pub fn checked(&self) -> u64 {
        self.parts().fold(0, |sum, part| sum.saturating_add(part.checked))
    }

    /// Counts an event; returns true if a finding is among the first [`LISTED_PER_PART_MAX`] of its part.
    pub fn count(&mut self, event: &VerificationEvent) -> bool {
        match event {
            VerificationEvent::Progress { part, done, total: _ } => {
                self.parts.entry(*part).or_default().0 = *done;
                true
            }
            VerificationEvent::Finding(finding) => {
                let (_, findings) = self.parts.entry(finding.part).or_default();
                *findings = findings.saturating_add(1);
                *findings <= LISTED_PER_PART_MAX
            }
        }
    }
}

/// Maximum number of findings of one part that are listed; all are counted.
pub const LISTED_PER_PART_MAX: u64 = 1_000;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lists_the_first_findings_of_a_part_and_counts_all() {
        let mut result = VerificationResult::default();
        let finding = |part| {
            let (place, problem) = ("number 1".to_owned(), "is missing".to_owned());
            VerificationEvent::Finding(Finding { part, place, problem, remedy: Remedy::Restore })
        };
        for number in 1..=LISTED_PER_PART_MAX + 1 {
            assert_eq!(result.count(&finding(Part::Photos)), number <= LISTED_PER_PART_MAX, "{number}");
        }
        assert!(result.count(&finding(Part::Codes)), "each part has its own count");
        result.count(&VerificationEvent::Progress { part: Part::Photos, done: 7, total: None });
        let photos = PartResult { part: Part::Photos, checked: 7, findings: LISTED_PER_PART_MAX + 1 };
        let codes = PartResult { part: Part::Codes, checked: 0, findings: 1 };
        assert_eq!(result.parts().collect::<Vec<_>>(), [codes, photos]);
        assert_eq!((result.findings(), result.checked()), (LISTED_PER_PART_MAX + 2, 7));
    }

    #[test]
    fn a_finding_is_one_line() {
        let (place, problem) = ("Individual `urn:x:a|1`".to_owned(), "version 1 is missing".to_owned());
        let finding = Finding { part: Part::History, place, problem, remedy: Remedy::Restart };
        let line = "history: Individual `urn:x:a|1`: version 1 is missing; restart the server: it rebuilds its indexes from the records";
        assert_eq!(finding.to_string(), line);
    }
}
