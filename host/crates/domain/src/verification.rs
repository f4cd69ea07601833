//! What a look through the whole register finds: what is wrong, with which record, and what to do.
//!
//! **Invariant:** a finding names records by their identifiers or numbers, and fields and counts; never what a record says.

use std::collections::BTreeMap;
use std::fmt;

use super::change::ChangedRecord;
use super::identifier::IdentifierKey;
use super::record::{RecordId, RecordKind};

named_enum! {
    /// A part of the register that is looked through.
    #[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
    pub enum Part {
        /// The files of the database.
        Files = "files",
        /// The table that numbers codes and versions of vocabularies.
        Codes = "codes",
        /// What each write touched, in the order of the writes.
        Changes = "changes",
        /// Records as they stand.
        Records = "records",
        /// Older versions of records.
        History = "history",
        /// Who carries which identifier.
        Identifiers = "identifiers",
        /// Records that other records name: members, programs, beneficiaries, subjects.
        References = "references",
        /// Which membership is open, by program and beneficiary.
        OpenMemberships = "open_memberships",
        /// Photos and their parts.
        Photos = "photos",
        /// Requests that are remembered.
        Requests = "requests",
        /// Lines of the audit log.
        Audit = "audit",
        /// Summaries of the audit log.
        AuditSummaries = "audit_summaries",
        /// What the deployment decided.
        Settings = "settings",
        /// API clients.
        Clients = "clients",
        /// Counters.
        Counters = "counters",
        /// The register in memory.
        Indexes = "indexes",
        /// The register in memory as files, of a server that is stopped.
        Checkpoints = "checkpoints",
    }
}

impl fmt::Display for Part {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(self.name())
    }
}

/// What to do about a finding.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Remedy {
    /// What is gone or unreadable is in a backup only.
    Restore,
    /// Writing the record again makes what is derived from it anew.
    WriteAgain,
    /// The next start makes it anew.
    Restart,
    /// Without the file the next start reads the records.
    RemoveFile,
    /// A newer daftar wrote it.
    UseNewer,
    /// Nothing is lost, and nothing needs to be done.
    Nothing,
}

impl Remedy {
    /// What to do, in words.
    #[must_use]
    pub fn text(self) -> &'static str {
        match self {
            Self::Restore => {
                "keep a copy of the folder, then restore the last backup in which `daftar verify` finds nothing"
            }
            Self::WriteAgain => "write the record again as it is (`PUT`): what is derived from it is made anew",
            Self::Restart => "restart the server: it builds its indexes anew from the records",
            Self::RemoveFile => "remove the file: nothing is lost, the next start reads the records themselves",
            Self::UseNewer => "use the newer daftar that wrote it",
            Self::Nothing => "nothing is lost and nothing needs to be done; tell the makers of daftar",
        }
    }
}

/// One thing that is wrong.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Finding {
    /// In which part of the register.
    pub part: Part,
    /// With what: a record by its identifier or number.
    pub place: String,
    /// What is wrong.
    pub problem: String,
    /// What to do.
    pub remedy: Remedy,
}

impl fmt::Display for Finding {
    /// One line.
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "{}: {}: {}; {}", self.part, self.place, self.problem, self.remedy.text())
    }
}

/// What a record is called: by its first identifier, else by its number.
#[must_use]
pub fn record_name(record: &ChangedRecord) -> String {
    let (kind, id, _) = record.place();
    match record.identifiers().first() {
        Some(identifier) => identifier_name(kind, &identifier.key),
        None => number_name(kind, id),
    }
}

/// What a record is called that has that identifier.
#[must_use]
pub fn identifier_name(kind: RecordKind, key: &IdentifierKey) -> String {
    format!("{kind} `{}`", key.reveal())
}

/// What a record is called of which no identifier is known.
#[must_use]
pub fn number_name(kind: RecordKind, id: RecordId) -> String {
    format!("{kind} number {}", id.0)
}

/// What happens while the register is looked through.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum VerificationEvent {
    /// How far it is.
    Progress {
        /// In which part.
        part: Part,
        /// How many things have been looked at, of that part.
        done: u64,
        /// About how many there are, where that is known.
        total: Option<u64>,
    },
    /// Something is wrong.
    Finding(Finding),
}

/// What was looked at and found in one part.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PartResult {
    /// Which part.
    pub part: Part,
    /// How many things were looked at.
    pub checked: u64,
    /// How much is wrong.
    pub findings: u64,
}

/// What the whole look came to.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct VerificationResult {
    parts: BTreeMap<Part, (u64, u64)>,
}

impl VerificationResult {
    /// The parts that there was something to look at in, or something wrong with.
    pub fn parts(&self) -> impl Iterator<Item = PartResult> {
        self.parts.iter().map(|(part, (checked, findings))| PartResult {
            part: *part,
            checked: *checked,
            findings: *findings,
        })
    }

    /// How much is wrong.
    #[must_use]
    pub fn findings(&self) -> u64 {
        self.parts().fold(0, |sum, part| sum.saturating_add(part.findings))
    }

    /// How many things were looked at.
    #[must_use]
    pub fn checked(&self) -> u64 {
        self.parts().fold(0, |sum, part| sum.saturating_add(part.checked))
    }

    /// Counts what happened; says whether a finding is among the first [`LISTED_PER_PART_MAX`] of its part.
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

/// The most findings of one part that are listed; all are counted.
pub const LISTED_PER_PART_MAX: u64 = 1_000;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lists_the_first_findings_of_a_part_and_counts_all() {
        let mut result = VerificationResult::default();
        let finding = |part| {
            let (place, problem) = ("number 1".to_owned(), "is gone".to_owned());
            VerificationEvent::Finding(Finding { part, place, problem, remedy: Remedy::Restore })
        };
        for number in 1..=LISTED_PER_PART_MAX + 1 {
            assert_eq!(result.count(&finding(Part::Photos)), number <= LISTED_PER_PART_MAX, "{number}");
        }
        assert!(result.count(&finding(Part::Codes)), "each part has a count of its own");
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
        let line = "history: Individual `urn:x:a|1`: version 1 is missing; restart the server: it builds its indexes anew from the records";
        assert_eq!(finding.to_string(), line);
    }
}
