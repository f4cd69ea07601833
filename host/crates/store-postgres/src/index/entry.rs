//! Rows of records in the index, column by column.

use std::collections::BTreeMap;
use std::sync::Arc;

use tokio::task::JoinHandle;

use super::bulk::{self, Bulk};
use super::columns::{Columns, GROUPS, INDIVIDUALS, MEMBERSHIPS};
use super::row::{Terms, key, subject_kind};
use super::time::{Day, Instant};
use crate::failure::{Failure, Meaning};
use daftar_domain::change::ChangedRecord;
use daftar_domain::consent::Consent;
use daftar_domain::error::TaskEnded;
use daftar_domain::group::Group;
use daftar_domain::individual::Individual;
use daftar_domain::person_name::{search_phrase, sort_text};
use daftar_domain::program_membership::ProgramMembership;
use daftar_domain::record::{Fields, Record, RecordId, RecordKind};
use daftar_domain::search::order::sortable;
use daftar_domain::{group, individual};

/// A row of `search_individual` or of `search_group`.
pub(super) struct SubjectRow {
    pub(super) id: i64,
    pub(super) terms: Terms,
    pub(super) is_inactive: bool,
    pub(super) name: Option<String>,
    pub(super) last_updated: Instant,
    pub(super) days: Vec<Option<Day>>,
    pub(super) codes: Vec<Option<i64>>,
}

/// A row of `search_member`.
pub(super) struct MemberRow {
    pub(super) group: i64,
    pub(super) place: i32,
    pub(super) individual: i64,
    pub(super) role: Option<i64>,
    pub(super) first_day: Day,
    pub(super) last_day: Day,
    pub(super) is_set_aside: bool,
}

/// A row of `search_membership`.
pub(super) struct MembershipRow {
    pub(super) id: i64,
    pub(super) beneficiary_kind: i16,
    pub(super) beneficiary: i64,
    pub(super) program: i64,
    pub(super) status: &'static str,
    pub(super) last_updated: Instant,
    pub(super) days: Vec<Option<Day>>,
}

impl SubjectRow {
    /// The row of an individual.
    pub(super) fn of_individual(person: &Individual) -> Self {
        let name = person.details.get(individual::NAME).map(sort_text).unwrap_or_default();
        let is_inactive = person.details.get(individual::ACTIVE) == Some(false);
        Self::of(person, Terms::of_individual(person), is_inactive, &name, &INDIVIDUALS)
    }

    /// The row of a group.
    pub(super) fn of_group(group: &Group) -> Self {
        let name = group.details.get(group::NAME).map(search_phrase).unwrap_or_default();
        let is_inactive = group.details.get(group::ACTIVE) == Some(false);
        Self::of(group, Terms::of_group(group), is_inactive, &name, &GROUPS)
    }

    fn of<T>(record: &Record<Fields<T>>, terms: Terms, is_inactive: bool, name: &str, columns: &Columns) -> Self {
        Self {
            id: key(record.id),
            terms,
            is_inactive,
            name: sortable(name).map(str::to_owned),
            last_updated: Instant(record.meta.last_updated.as_millisecond()),
            days: columns.days(&record.details),
            codes: columns.codes(&record.details),
        }
    }
}

impl MemberRow {
    /// The rows of a group's members.
    pub(super) fn of(group: &Group) -> impl Iterator<Item = Self> + '_ {
        let key_of_group = key(group.id);
        group.details.members().zip(0_i32..).map(move |(member, place)| {
            let period = member.period.unwrap_or_default();
            Self {
                group: key_of_group,
                place,
                individual: key(member.individual),
                role: member.role.map(|role| i64::from(role.number.0)),
                first_day: period.start.map_or(Day::FIRST, Day::from),
                last_day: period.end.map_or(Day::LAST, Day::from),
                is_set_aside: member.is_inactive,
            }
        })
    }
}

impl MembershipRow {
    /// The row of a membership in a program.
    pub(super) fn of(membership: &ProgramMembership) -> Self {
        let details = &membership.details;
        Self {
            id: key(membership.id),
            beneficiary_kind: subject_kind(details.beneficiary().kind),
            beneficiary: key(details.beneficiary().id),
            program: key(details.program()),
            status: details.status().name(),
            last_updated: Instant(membership.meta.last_updated.as_millisecond()),
            days: MEMBERSHIPS.days(details),
        }
    }
}

/// The most rows of one statement.
pub(super) const ROWS_MAX: usize = 2_000;

/// Records of one kind, each once, in their last state, by key.
type Latest<D> = BTreeMap<RecordId, Arc<Record<D>>>;

/// The rows of some records.
#[derive(Default)]
pub(super) struct IndexRows {
    /// Number of new rows from which they are copied.
    pub(super) copied_min: usize,
    /// New rows, if there are many.
    pub(super) bulks: Vec<Bulk>,
    pub(super) individuals: Vec<SubjectRow>,
    pub(super) groups: Vec<SubjectRow>,
    /// The groups whose members have rows.
    pub(super) known_groups: Vec<i64>,
    /// The members of `groups`.
    pub(super) members: Vec<MemberRow>,
    pub(super) memberships: Vec<MembershipRow>,
    pub(super) consents: Vec<Arc<Consent>>,
}

/// Records that are converted to rows: immediately if they are few, on another thread if they are many.
pub(crate) struct Apart(Working);

enum Working {
    Here(Box<Result<IndexRows, Failure>>),
    Elsewhere(JoinHandle<Result<IndexRows, Failure>>),
}

impl Apart {
    /// Starts the conversion. The records are in their state after the write; of duplicates the last counts. `is_new`
    /// returns true for those without rows in the index; from `copied_min` of these on they are copied.
    pub(crate) fn begin(
        changed: Vec<ChangedRecord>,
        copied_min: usize,
        is_new: impl Fn(RecordKind, RecordId) -> bool + Send + 'static,
    ) -> Self {
        if changed.len() < copied_min {
            Self(Working::Here(Box::new(IndexRows::of(changed, copied_min, is_new))))
        } else {
            Self(Working::Elsewhere(tokio::task::spawn_blocking(move || IndexRows::of(changed, copied_min, is_new))))
        }
    }

    /// The rows.
    pub(super) async fn rows(self) -> Result<IndexRows, Failure> {
        match self.0 {
            Working::Here(rows) => *rows,
            Working::Elsewhere(working) => {
                working.await.map_err(|error| Failure::new(Meaning::Refused, TaskEnded::from(error).to_string()))?
            }
        }
    }
}

impl IndexRows {
    fn of(
        changed: Vec<ChangedRecord>,
        copied_min: usize,
        is_new: impl Fn(RecordKind, RecordId) -> bool,
    ) -> Result<Self, Failure> {
        let mut individuals: Latest<_> = BTreeMap::new();
        let mut groups: Latest<_> = BTreeMap::new();
        let mut memberships: Latest<_> = BTreeMap::new();
        let mut consents: Latest<_> = BTreeMap::new();
        for record in changed {
            match record {
                ChangedRecord::Individual(record) => drop(individuals.insert(record.id, record)),
                ChangedRecord::Group(record) => drop(groups.insert(record.id, record)),
                ChangedRecord::ProgramMembership(record) => drop(memberships.insert(record.id, record)),
                ChangedRecord::Consent(record) => drop(consents.insert(record.id, record)),
                // Programs are few: searches filter their values.
                ChangedRecord::Program(_) => {}
            }
        }
        let mut rows = Self { copied_min, consents: consents.into_values().collect(), ..Self::default() };
        let [copied, others] = apart(individuals, copied_min, |id| is_new(RecordKind::Individual, id));
        let people = |page: &[Arc<Record<_>>]| page.iter().map(|person| SubjectRow::of_individual(person)).collect();
        for page in copied.chunks(ROWS_MAX) {
            rows.bulks.push(bulk::individuals(people(page))?);
        }
        rows.individuals = people(&others);
        let [copied, others] = apart(groups, copied_min, |id| is_new(RecordKind::Group, id));
        rows.add_groups(&copied, &others, |id| is_new(RecordKind::Group, id))?;
        let [copied, others] = apart(memberships, copied_min, |id| is_new(RecordKind::ProgramMembership, id));
        let taken = |page: &[Arc<Record<_>>]| page.iter().map(|membership| MembershipRow::of(membership)).collect();
        for page in copied.chunks(ROWS_MAX) {
            rows.bulks.push(bulk::memberships(taken(page))?);
        }
        rows.memberships = taken(&others);
        Ok(rows)
    }

    fn add_groups(
        &mut self,
        copied: &[Arc<Group>],
        others: &[Arc<Group>],
        is_new: impl Fn(RecordId) -> bool,
    ) -> Result<(), Failure> {
        let members = |page: &[Arc<Group>]| page.iter().flat_map(|group| MemberRow::of(group)).collect::<Vec<_>>();
        for page in copied.chunks(ROWS_MAX) {
            self.bulks.push(bulk::groups(page.iter().map(|group| SubjectRow::of_group(group)).collect())?);
            self.bulks.push(bulk::members(members(page))?);
        }
        self.groups = others.iter().map(|group| SubjectRow::of_group(group)).collect();
        self.known_groups = others.iter().filter(|group| !is_new(group.id)).map(|group| key(group.id)).collect();
        self.members = members(others);
        Ok(())
    }
}

/// Splits new rows that are copied from the others: all rows are others if few are new.
fn apart<D>(latest: Latest<D>, copied_min: usize, is_new: impl Fn(RecordId) -> bool) -> [Vec<Arc<Record<D>>>; 2] {
    if latest.keys().filter(|id| is_new(**id)).count() < copied_min {
        return [Vec::new(), latest.into_values().collect()];
    }
    let (new, others) = latest.into_values().partition(|record| is_new(record.id));
    [new, others]
}
