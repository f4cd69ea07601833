//! Compares the change log with the records.
//!
//! **Invariant:** a record of version `n` is in `n` writes of the change log, which created versions 1 to `n` in order.

use std::collections::BTreeMap;

use super::{RawValue, RawValues, Table, finding, name, undecodable};
use crate::record::change::{self, Touched};
use daftar_domain::client::ClientId;
use daftar_domain::record::{RecordId, RecordKind, VersionId};
use daftar_domain::verification::{Finding, Part, Remedy, number_name};

/// Number of newer writes that are read together.
const CATCH_UP_VALUES: usize = 512;

/// Flag of a record that was found.
const SEEN: u32 = 1 << 31;

/// Number of writes of each record.
#[derive(Default)]
pub(super) struct Changes {
    /// The last checked write.
    last: u64,
    /// Versions by kind and key.
    versions: BTreeMap<RecordKind, Vec<u32>>,
    /// The last numbers of records, as far as they were read.
    greatest: BTreeMap<RecordKind, u64>,
    /// The change log could not be read completely: records are not compared with it.
    is_given_up: bool,
}

impl Changes {
    /// Stops the comparison of records with the change log.
    pub(super) fn give_up(&mut self) {
        self.is_given_up = true;
    }

    /// Adds a write.
    pub(super) fn see(&mut self, values: &dyn RawValues, number: u64, value: &[u8]) -> Vec<Finding> {
        let mut findings = Vec::new();
        let missing = number.saturating_sub(self.last).saturating_sub(1);
        if missing > 0 {
            let place = format!("the writes {} to {}", self.last.saturating_add(1), number.saturating_sub(1));
            findings.push(finding(
                Part::Changes,
                place,
                format!("{missing} are missing in the change log"),
                Remedy::Restore,
            ));
            self.give_up();
        }
        self.last = number;
        match change::decode(value) {
            Ok(touched) => {
                for touched in touched {
                    findings.extend(self.touch(values, number, &touched));
                }
            }
            Err(error) => {
                self.give_up();
                findings.push(undecodable(Part::Changes, format!("write {number}"), &error));
            }
        }
        findings
    }

    fn touch(&mut self, values: &dyn RawValues, number: u64, touched: &Touched) -> Option<Finding> {
        let (kind, id, version) = match touched {
            Touched::Record(kind, id, version) => (*kind, *id, *version),
            Touched::Client(id) => {
                let is_there = ClientId::parse(id).is_ok_and(|id| values.has_client(&id).unwrap_or(true));
                let problem = format!("write {number} names it, but it is missing");
                let gone = || finding(Part::Clients, format!("client `{id}`"), problem, Remedy::Restore);
                return (!is_there).then(gone);
            }
        };
        if self.is_given_up {
            return None;
        }
        if id.0 == 0 || id.0 > self.greatest(values, kind, id) {
            let problem = format!("write {number} created its version {version}, but it is missing");
            return Some(finding(Part::Records, number_name(kind, id), problem, Remedy::Restore));
        }
        let versions = self.versions.entry(kind).or_default();
        let at = usize::try_from(id.0).ok()?;
        if versions.len() <= at {
            versions.resize(at.saturating_add(1), 0);
        }
        let known = versions.get_mut(at)?;
        let expected = u64::from(*known & !SEEN).saturating_add(1);
        *known = (*known & SEEN) | u32::try_from(version.0).unwrap_or(!SEEN).min(!SEEN);
        if version.0 == expected {
            return None;
        }
        let problem = format!("write {number} created its version {version} instead of version {expected}");
        Some(finding(Part::Changes, name(values, kind, id), problem, Remedy::Restore))
    }

    /// The last number of a record of that kind; never less than the one at an earlier request for that number.
    fn greatest(&mut self, values: &dyn RawValues, kind: RecordKind, requested: RecordId) -> u64 {
        let known = self.greatest.entry(kind).or_default();
        if *known < requested.0 {
            *known = values.last_number(Table::Records(kind)).unwrap_or_default();
        }
        *known
    }

    /// Reads the writes since the last checked one.
    pub(super) fn catch_up(&mut self, values: &dyn RawValues) -> Vec<Finding> {
        let mut findings = Vec::new();
        let mut after = Some(self.last.to_be_bytes().to_vec());
        while let Some(from) = after {
            let page = values.page(Table::Changes, Some(&from), CATCH_UP_VALUES);
            for value in page.values {
                match value {
                    RawValue::Numbered(number, value) => findings.extend(self.see(values, number, &value)),
                    // Already reported.
                    RawValue::Refused(_, finding) => {
                        findings.extend((!self.is_given_up).then_some(finding));
                        self.give_up();
                    }
                    other => findings.extend(checked(other)),
                }
            }
            after = page.next;
        }
        findings
    }

    /// Marks a record as found.
    pub(super) fn note_seen(&mut self, kind: RecordKind, id: RecordId) {
        let versions = self.versions.get_mut(&kind);
        let at = usize::try_from(id.0).ok();
        if let Some(known) = versions.zip(at).and_then(|(versions, at)| versions.get_mut(at)) {
            *known |= SEEN;
        }
    }

    /// Marks records as already reported.
    pub(super) fn note_all_seen(&mut self, kind: RecordKind, numbers: std::ops::Range<u64>) {
        let known = self.versions.get(&kind).map_or(0, |versions| versions.len() as u64);
        for number in numbers.start..numbers.end.min(known) {
            self.note_seen(kind, RecordId(number));
        }
    }

    /// The problem of a record at that version, if any.
    pub(super) fn differs(&self, kind: RecordKind, id: RecordId, version: VersionId) -> Option<String> {
        if self.is_given_up {
            return None;
        }
        let at = usize::try_from(id.0).ok();
        let known = self.versions.get(&kind).zip(at).and_then(|(versions, at)| versions.get(at));
        let made = u64::from(known.copied().unwrap_or_default() & !SEEN);
        (made != version.0).then(|| format!("it is at version {version}, but the change log has {made} versions of it"))
    }

    /// The records of a kind that are in the change log but were not found.
    pub(super) fn never_seen(&self, kind: RecordKind) -> Vec<Finding> {
        let Some(versions) = self.versions.get(&kind).filter(|_| !self.is_given_up) else { return Vec::new() };
        let numbered = (0_u64..).zip(versions);
        let gone = numbered.filter(|(_, known)| **known & !SEEN > 0 && **known & SEEN == 0);
        let findings = gone.map(|(id, _)| {
            let problem = "the change log names it, but it is missing";
            finding(Part::Records, number_name(kind, RecordId(id)), problem, Remedy::Restore)
        });
        findings.collect()
    }
}

/// The finding of the backend, if any.
fn checked(value: RawValue) -> Option<Finding> {
    match value {
        RawValue::Checked(finding) => finding,
        _ => None,
    }
}
