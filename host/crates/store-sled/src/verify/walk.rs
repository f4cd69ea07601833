//! The way through the keys, page by page.

use super::changes::Changes;
use super::finding;
use super::look::{Entry, Look};
use super::photos::Photos;
use super::records::inspect_record;
use super::segments::Segments;
use super::values::{AuditLines, Table};
use super::{photos, records, segments, values};
use crate::keys;
use daftar_domain::photo::PhotoDigest;
use daftar_domain::record::{RecordId, RecordKind};
use daftar_domain::verification::{Finding, Part, Remedy};

/// The most values of a page.
const PAGE_VALUES: usize = 512;

/// The most missing records one after the other that are named one by one.
const NAMED_MISSING_MAX: u64 = 64;

/// What is looked through, by the keys that belong together.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Stage {
    Codes,
    Changes,
    Records(RecordKind),
    History,
    Identifiers,
    OpenMemberships,
    Photos,
    Requests,
    Audit,
    AuditSummaries,
    Settings,
    Clients,
    Counters,
    Others,
}

/// Codes first and changes second: what records say is held against both.
const STAGES: [Stage; 18] = [
    Stage::Codes,
    Stage::Changes,
    Stage::Records(RecordKind::Individual),
    Stage::Records(RecordKind::Group),
    Stage::Records(RecordKind::Program),
    Stage::Records(RecordKind::ProgramMembership),
    Stage::Records(RecordKind::Consent),
    Stage::History,
    Stage::Identifiers,
    Stage::OpenMemberships,
    Stage::Photos,
    Stage::Requests,
    Stage::Audit,
    Stage::AuditSummaries,
    Stage::Settings,
    Stage::Clients,
    Stage::Counters,
    Stage::Others,
];

impl Stage {
    fn part(self) -> Part {
        match self {
            Self::Codes => Part::Codes,
            Self::Changes => Part::Changes,
            Self::Records(_) => Part::Records,
            Self::History => Part::History,
            Self::Identifiers => Part::Identifiers,
            Self::OpenMemberships => Part::OpenMemberships,
            Self::Photos => Part::Photos,
            Self::Requests => Part::Requests,
            Self::Audit => Part::Audit,
            Self::AuditSummaries => Part::AuditSummaries,
            Self::Settings => Part::Settings,
            Self::Clients => Part::Clients,
            Self::Counters => Part::Counters,
            Self::Others => Part::Files,
        }
    }

    fn prefix(self) -> Vec<u8> {
        match self {
            Self::Codes => vec![keys::CODE_TABLE],
            Self::Changes => vec![keys::CHANGE],
            Self::Records(kind) => keys::record_prefix(kind).to_vec(),
            Self::History => vec![keys::HISTORY],
            Self::Identifiers => vec![keys::IDENTIFIER],
            Self::OpenMemberships => vec![keys::OPEN_MEMBERSHIP],
            Self::Photos => vec![keys::PHOTO],
            Self::Requests => vec![keys::REQUEST],
            Self::Audit => vec![keys::AUDIT],
            Self::AuditSummaries => vec![keys::AUDIT_SEGMENT],
            Self::Settings => vec![keys::SETTING],
            Self::Clients => vec![keys::CLIENT],
            Self::Counters => vec![keys::COUNTER],
            Self::Others => Vec::new(),
        }
    }
}

/// Something that may only have looked wrong because it was being written.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Suspect {
    Record(RecordKind, RecordId),
    Identifier(Vec<u8>),
    OpenMembership(Vec<u8>),
    Photo(PhotoDigest),
    AuditSummary(Vec<u8>),
}

/// What one page came to.
pub(super) struct Page {
    pub(super) part: Part,
    pub(super) done: u64,
    pub(super) total: Option<u64>,
    pub(super) findings: Vec<Finding>,
    pub(super) suspects: Vec<Suspect>,
    pub(super) is_last: bool,
}

/// Where the look is, and what is needed to go on.
#[derive(Default)]
pub(super) struct Walk {
    stage: usize,
    /// The last key that was looked at.
    at: Option<Vec<u8>>,
    /// How many values of the part have been looked at.
    done: u64,
    /// Records of the stages before this one of the same part.
    done_before: u64,
    pub(super) table: Table,
    pub(super) changes: Changes,
    photos: Photos,
    audit: AuditLines,
    segments: Segments,
    /// The last record of a kind that was passed.
    last_record: u64,
}

impl Walk {
    fn stage(&self) -> Stage {
        STAGES.get(self.stage).copied().unwrap_or(Stage::Others)
    }

    /// Looks at the next values.
    pub(super) fn page(&mut self, look: &Look) -> Page {
        let stage = self.stage();
        let (mut findings, mut suspects, mut count) = (Vec::new(), Vec::new(), 0);
        let prefix = stage.prefix();
        for entry in look.after(&prefix, self.at.as_deref()).take(PAGE_VALUES) {
            let (key, value) = match entry {
                Ok(entry) => entry,
                Err(unreadable) => {
                    let mut page = self.give_up_part("a value cannot be read, and those after it are not reached");
                    page.findings.splice(0..0, findings.into_iter().chain([unreadable]));
                    page.suspects = suspects;
                    return page;
                }
            };
            count += 1;
            self.done = self.done.saturating_add(1);
            self.at = Some(key.to_vec());
            self.see(look, stage, (key, value), &mut findings, &mut suspects);
        }
        let is_over = count < PAGE_VALUES;
        if is_over {
            self.end(stage, &mut findings, &mut suspects);
        }
        let (part, done, total) = (stage.part(), self.done_before.saturating_add(self.done), self.total(look, stage));
        if is_over {
            self.next_stage();
        }
        Page { part, done, total, findings, suspects, is_last: self.stage >= STAGES.len() }
    }

    /// Goes on with the next part, as this one cannot be read on.
    pub(super) fn give_up_part(&mut self, why: &str) -> Page {
        let stage = self.stage();
        let place = format!("the values of {} after the first {}", stage.part(), self.done);
        let findings = vec![finding(Part::Files, place, why, Remedy::Restore)];
        let (part, done) = (stage.part(), self.done_before.saturating_add(self.done));
        if stage == Stage::Changes {
            self.changes.give_up();
        }
        self.next_stage();
        Page { part, done, total: None, findings, suspects: Vec::new(), is_last: self.stage >= STAGES.len() }
    }

    fn next_stage(&mut self) {
        let before = self.stage().part();
        self.stage = self.stage.saturating_add(1);
        self.done_before = if self.stage().part() == before { self.done_before.saturating_add(self.done) } else { 0 };
        (self.at, self.done, self.last_record) = (None, 0, 0);
    }

    /// About how many values there are, where the last number tells it.
    fn total(&self, look: &Look, stage: Stage) -> Option<u64> {
        match stage {
            Stage::Records(_) => {
                let prefixes = STAGES.into_iter().filter(|stage| matches!(stage, Stage::Records(_))).map(Stage::prefix);
                Some(prefixes.filter_map(|prefix| look.last_number(&prefix)).fold(0, u64::saturating_add))
            }
            Stage::Codes | Stage::Changes => look.last_number(&stage.prefix()),
            Stage::History
            | Stage::Identifiers
            | Stage::OpenMemberships
            | Stage::Photos
            | Stage::Requests
            | Stage::Audit
            | Stage::AuditSummaries
            | Stage::Settings
            | Stage::Clients
            | Stage::Counters
            | Stage::Others => None,
        }
    }

    fn see(
        &mut self,
        look: &Look,
        stage: Stage,
        (key, value): Entry,
        findings: &mut Vec<Finding>,
        suspects: &mut Vec<Suspect>,
    ) {
        match stage {
            Stage::Codes => findings.extend(self.table.see(&key, &value)),
            Stage::Changes => findings.extend(self.changes.see(look, &key, &value)),
            Stage::Records(kind) => match keys::read::record_of(&key) {
                Some((_, id)) => {
                    let missing = self.last_record.saturating_add(1)..id.0;
                    self.last_record = id.0;
                    if missing.end.saturating_sub(missing.start) > NAMED_MISSING_MAX {
                        findings.push(records::missing(kind, &missing));
                    } else {
                        suspects.extend(missing.clone().map(|id| Suspect::Record(kind, RecordId(id))));
                    }
                    self.changes.note_all_seen(kind, missing);
                    self.changes.note_seen(kind, id);
                    if !inspect_record(self, look, kind, id, &value).is_empty() {
                        suspects.push(Suspect::Record(kind, id));
                    }
                }
                None => findings.push(super::look::strange_key(Part::Records, &key)),
            },
            Stage::History => findings.extend(records::orphan_version(look, &key)),
            Stage::Identifiers => {
                if !records::inspect_identifier(look, &key).is_empty() {
                    suspects.push(Suspect::Identifier(key.to_vec()));
                }
            }
            Stage::OpenMemberships => {
                if !records::inspect_slot(look, &key).is_empty() {
                    suspects.push(Suspect::OpenMembership(key.to_vec()));
                }
            }
            Stage::Photos => match self.photos.see(&key, &value) {
                Ok(None) => {}
                Ok(Some(digest)) => suspects.push(Suspect::Photo(digest)),
                Err(strange) => findings.push(strange),
            },
            Stage::Requests => findings.extend(values::request(look, &key, &value)),
            Stage::Audit => findings.extend(self.audit.see(&key, &value)),
            Stage::AuditSummaries => {
                if !segments::inspect(look, &key, &value).is_empty() {
                    suspects.push(Suspect::AuditSummary(key.to_vec()));
                }
                findings.extend(self.segments.see(&value));
            }
            Stage::Settings => findings.extend(values::setting(&key, &value)),
            Stage::Clients => findings.extend(values::client(&key, &value)),
            Stage::Counters => findings.extend(values::counter(&key, &value)),
            Stage::Others => findings.extend(values::other(&key, &value)),
        }
    }

    fn end(&mut self, stage: Stage, findings: &mut Vec<Finding>, suspects: &mut Vec<Suspect>) {
        match stage {
            Stage::Records(kind) => findings.extend(self.changes.never_seen(kind)),
            Stage::Photos => suspects.extend(self.photos.end().map(Suspect::Photo)),
            Stage::Audit => findings.extend(self.audit.end()),
            Stage::Codes
            | Stage::Changes
            | Stage::History
            | Stage::Identifiers
            | Stage::OpenMemberships
            | Stage::Requests
            | Stage::AuditSummaries
            | Stage::Settings
            | Stage::Clients
            | Stage::Counters
            | Stage::Others => {}
        }
    }

    /// Looks again at what looked wrong, while nothing is written.
    pub(super) fn look_again(&mut self, look: &Look, suspects: &[Suspect]) -> Vec<Finding> {
        let mut findings = self.changes.catch_up(look);
        for suspect in suspects {
            match suspect {
                Suspect::Record(kind, id) => match look.get(&keys::record(*kind, *id)) {
                    Ok(Some(value)) => findings.extend(inspect_record(self, look, *kind, *id, &value)),
                    Ok(None) => findings.push(records::missing(*kind, &(id.0..id.0.saturating_add(1)))),
                    Err(unreadable) => findings.push(unreadable),
                },
                Suspect::Identifier(key) => findings.extend(records::inspect_identifier(look, key)),
                Suspect::OpenMembership(key) => findings.extend(records::inspect_slot(look, key)),
                Suspect::Photo(digest) => findings.extend(photos::inspect(look, *digest)),
                Suspect::AuditSummary(key) => match look.get(key) {
                    Ok(Some(value)) => findings.extend(segments::inspect(look, key, &value)),
                    // Removed meanwhile, with the lines that it was of.
                    Ok(None) => {}
                    Err(unreadable) => findings.push(unreadable),
                },
            }
        }
        findings
    }
}
