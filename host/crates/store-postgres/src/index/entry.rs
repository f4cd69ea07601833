//! The rows that stand for records in the index, one column after the other.

use super::columns::{Columns, GROUPS, INDIVIDUALS, MEMBERSHIPS};
use super::row::{Terms, key, subject_key};
use daftar_domain::calendar::days_since_epoch;
use daftar_domain::group::{self, Group};
use daftar_domain::individual::{self, Individual};
use daftar_domain::person_name::{search_phrase, sort_text};
use daftar_domain::program_membership::ProgramMembership;
use daftar_domain::record::{Fields, Record};
use daftar_domain::search::order::sortable;

/// A row of `search_individual` or of `search_group`.
pub(super) struct SubjectRow {
    pub(super) id: i64,
    pub(super) terms: Terms,
    pub(super) is_inactive: bool,
    pub(super) name: Option<Vec<u8>>,
    pub(super) last_updated: i64,
    pub(super) days: Vec<Option<i32>>,
    pub(super) codes: Vec<Option<i64>>,
}

/// A row of `search_member`.
pub(super) struct MemberRow {
    pub(super) group: i64,
    pub(super) place: i32,
    pub(super) individual: i64,
    pub(super) role: Option<i64>,
    pub(super) first_day: i32,
    pub(super) last_day: i32,
    pub(super) is_set_aside: bool,
}

/// A row of `search_membership`.
pub(super) struct MembershipRow {
    pub(super) id: i64,
    pub(super) beneficiary: i64,
    pub(super) program: i64,
    pub(super) status: i16,
    pub(super) last_updated: i64,
    pub(super) days: Vec<Option<i32>>,
}

impl SubjectRow {
    /// The row of a person.
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
            name: sortable(name).map(|name| name.as_bytes().to_vec()),
            last_updated: record.meta.last_updated.as_millisecond(),
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
                first_day: period.start.map_or(i32::MIN, days_since_epoch),
                last_day: period.end.map_or(i32::MAX, days_since_epoch),
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
            beneficiary: subject_key(details.beneficiary()),
            program: key(details.program()),
            status: i16::from(details.status().place()),
            last_updated: membership.meta.last_updated.as_millisecond(),
            days: MEMBERSHIPS.days(details),
        }
    }
}
