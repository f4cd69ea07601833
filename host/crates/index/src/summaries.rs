//! Groups as the records of their members show them: the identifier that names the group, its name, and its members.
//!
//! **Invariant:** every group with a row has its summary here, as of its last write, so that a read of an individual
//! needs no record of a group.

use std::io;
use std::sync::Arc;

use serde::{Deserialize, Serialize};

use super::blobs::Blobs;
use super::checkpoint::{CheckpointWriter, Loading, Stored};
use super::stored::{self, Corrupt};
use daftar_domain::calendar::{Period, date_from_days, days_since_epoch};
use daftar_domain::code::{CodeNumber, CodedValue, EditionNumber};
use daftar_domain::group::{GroupSummary, Member};
use daftar_domain::identifier::{IdentifierKey, IdentifierValue, SystemUri};
use daftar_domain::record::RecordId;

/// The summaries of all groups by row, cheap to clone.
#[derive(Debug, Clone, Default)]
pub(super) struct Summaries {
    /// The systems of the identifiers, each once: a register has few.
    systems: Arc<Vec<SystemUri>>,
    rows: Blobs,
}

/// The part of a summary before its members.
#[derive(Serialize, Deserialize)]
struct Head<'a> {
    /// The number of the system, and the value.
    #[serde(borrow)]
    called: Option<(u32, &'a str)>,
    #[serde(borrow)]
    name: Option<&'a str>,
}

/// A member.
#[derive(Serialize, Deserialize)]
struct StoredMember {
    individual: RecordId,
    /// The number of the code, and of the version of its vocabulary.
    role: Option<(CodeNumber, u32)>,
    /// The first and the last day, in days since 1970-01-01.
    period: Option<(Option<i32>, Option<i32>)>,
    is_inactive: bool,
}

impl From<&Member> for StoredMember {
    fn from(member: &Member) -> Self {
        let days = |period: Period| (period.start.map(days_since_epoch), period.end.map(days_since_epoch));
        Self {
            individual: member.individual,
            role: member.role.map(|role| (role.number, role.edition.0)),
            period: member.period.map(days),
            is_inactive: member.is_inactive,
        }
    }
}

impl StoredMember {
    fn member(&self) -> Member {
        let day = |days: Option<i32>| days.and_then(date_from_days);
        Member {
            individual: self.individual,
            role: self.role.map(|(number, edition)| CodedValue { number, edition: EditionNumber(edition) }),
            period: self.period.map(|(start, end)| Period { start: day(start), end: day(end) }),
            is_inactive: self.is_inactive,
        }
    }
}

impl Summaries {
    /// Sets the summary of a row.
    pub(super) fn set(&mut self, row: u32, summary: &GroupSummary) {
        let called = summary.called.as_ref().map(|key| (self.number_of(&key.system), key.value.as_str()));
        let mut bytes = stored::bytes_of(&Head { called, name: summary.name.as_deref() });
        summary.members.iter().for_each(|member| stored::put(&mut bytes, &StoredMember::from(member)));
        self.rows.set(row, &bytes);
    }

    /// Returns the number of a system, assigning one if it has none.
    fn number_of(&mut self, system: &SystemUri) -> u32 {
        let known = self.systems.iter().position(|known| known == system).unwrap_or_else(|| {
            Arc::make_mut(&mut self.systems).push(system.clone());
            self.systems.len() - 1
        });
        // Fewer than the groups, which have rows.
        u32::try_from(known).unwrap_or(u32::MAX)
    }

    /// Returns the summary of a row with these of its members; `None` if it was never set.
    pub(super) fn get(&self, row: u32, is_wanted: impl Fn(RecordId) -> bool) -> Option<GroupSummary> {
        let mut bytes = self.rows.get(row);
        let Head { called, name } = stored::take(&mut bytes).ok()?;
        let called = match called {
            Some((system, value)) => {
                let system = self.systems.get(usize::try_from(system).ok()?)?.clone();
                Some(IdentifierKey { system, value: IdentifierValue::parse(value).ok()? })
            }
            None => None,
        };
        let mut wanted = Vec::new();
        for member in members(bytes) {
            let member = member.ok()?;
            if is_wanted(member.individual) {
                wanted.push(member.member());
            }
        }
        Some(GroupSummary { called, name: name.map(str::to_owned), members: wanted })
    }

    /// Returns the individuals that the group of a row names, in the order of its record.
    pub(super) fn people(&self, row: u32) -> impl Iterator<Item = RecordId> + '_ {
        let mut bytes = self.rows.get(row);
        let head = stored::take::<Head<'_>>(&mut bytes);
        // The bytes were written by `set`, or read from a checkpoint with valid checksums.
        let members = members(if head.is_ok() { bytes } else { &[] });
        members.map_while(Result::ok).map(|member| member.individual)
    }
}

/// Reads members until the end of the bytes.
fn members(mut bytes: &[u8]) -> impl Iterator<Item = Result<StoredMember, Corrupt>> + '_ {
    std::iter::from_fn(move || (!bytes.is_empty()).then(|| stored::take(&mut bytes)))
}

impl Stored for Summaries {
    fn store(&self, checkpoint: &mut CheckpointWriter<'_>) -> io::Result<()> {
        checkpoint.values(self.systems.iter().map(SystemUri::as_str))?;
        self.rows.store(checkpoint)
    }

    fn load(checkpoint: &mut Loading<'_>) -> Result<Self, Corrupt> {
        let systems = checkpoint.each(|from| {
            SystemUri::parse(stored::take(from)?).map_err(|_| Corrupt("the system of an identifier is invalid"))
        })?;
        Ok(Self { systems: Arc::new(systems), rows: Blobs::load(checkpoint)? })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn summary(key: Option<&str>, name: Option<&str>, members: Vec<Member>) -> GroupSummary {
        let called = key.map(|key| IdentifierKey::parse(key).unwrap());
        GroupSummary { called, name: name.map(str::to_owned), members }
    }

    fn member(individual: u64, edition: u32, period: Option<(Option<&str>, Option<&str>)>) -> Member {
        let day = |text: Option<&str>| text.map(|text| text.parse().unwrap());
        Member {
            individual: RecordId(individual),
            role: (edition > 0)
                .then_some(CodedValue { number: CodeNumber(edition * 300), edition: EditionNumber(edition) }),
            period: period.map(|(start, end)| Period { start: day(start), end: day(end) }),
            is_inactive: edition == 2,
        }
    }

    #[test]
    fn a_summary_is_read_as_it_was_written_with_the_members_that_are_wanted() {
        let members = vec![
            member(7, 1, Some((Some("1899-12-31"), Some("2026-02-28")))),
            member(8, 2, Some((None, None))),
            member(7, 2, Some((None, Some("2026-03-01")))),
            member(1 << 40, 0, None),
        ];
        let all = [
            summary(Some("urn:a:b|1|2"), Some("Ménage Diallo"), members.clone()),
            summary(Some("urn:a:c|x"), None, Vec::new()),
            summary(None, Some(""), vec![member(7, 0, None)]),
            summary(Some("urn:a:b|3"), None, vec![member(9, 3, None)]),
        ];
        let mut summaries = Summaries::default();
        for (row, summary) in (5..).zip(&all) {
            summaries.set(row, summary);
        }
        for (row, summary) in (5..).zip(&all) {
            assert_eq!(summaries.get(row, |_| true).as_ref(), Some(summary), "{row}");
        }
        assert_eq!(summaries.systems.len(), 2, "a system is stored once");
        let of_one = summaries.get(5, |id| id == RecordId(7)).unwrap();
        assert_eq!(of_one.members, [members[0].clone(), members[2].clone()]);
        assert_eq!(summaries.people(5).collect::<Vec<_>>(), [7, 8, 7, 1 << 40].map(RecordId));
        assert_eq!(summaries.get(4, |_| true), None, "a row that was never set");
        assert_eq!(summaries.people(4).count(), 0);
        let before = summaries.clone();
        summaries.set(5, &all[1]);
        assert_eq!(
            (before.get(5, |_| true).as_ref(), summaries.get(5, |_| true)),
            (Some(&all[0]), Some(all[1].clone()))
        );
    }
}
