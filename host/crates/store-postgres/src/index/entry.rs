//! The rows that stand for records in the index, one column after the other.

use super::row::{Terms, codes_of, key, subject_key};
use daftar_domain::calendar::days_since_epoch;
use daftar_domain::group::Group;
use daftar_domain::individual::Individual;
use daftar_domain::person_name::{PersonName, search_phrase};
use daftar_domain::program_membership::ProgramMembership;
use daftar_domain::search::order::sortable;

/// A row of `search_individual`.
pub(super) struct PersonRow {
    pub(super) id: i64,
    pub(super) terms: Terms,
    pub(super) is_inactive: bool,
    pub(super) name: Option<Vec<u8>>,
    pub(super) birth_date: Option<i32>,
    pub(super) deceased_date: Option<i32>,
    pub(super) last_updated: i64,
    pub(super) codes: [Option<i64>; 10],
}

/// A row of `search_group`.
pub(super) struct GroupRow {
    pub(super) id: i64,
    pub(super) terms: Terms,
    pub(super) is_inactive: bool,
    pub(super) name: Option<Vec<u8>>,
    pub(super) last_updated: i64,
    pub(super) group_type: Option<i64>,
    pub(super) housing_type: Option<i64>,
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
    pub(super) enrollment_date: Option<i32>,
    pub(super) exit_date: Option<i32>,
    pub(super) last_updated: i64,
}

impl PersonRow {
    /// The row of a person.
    pub(super) fn of(person: &Individual) -> Self {
        let details = &person.details;
        let sort_text = |name: &PersonName| sort_name(&name.sort_text());
        Self {
            id: key(person.id),
            terms: Terms::of_individual(person),
            is_inactive: details.active == Some(false),
            name: details.name.as_ref().and_then(sort_text),
            birth_date: details.birth_date.map(days_since_epoch),
            deceased_date: details.deceased_date.map(days_since_epoch),
            last_updated: person.meta.last_updated.as_millisecond(),
            codes: codes_of(person),
        }
    }
}

impl GroupRow {
    /// The row of a group.
    pub(super) fn of(group: &Group) -> Self {
        let details = &group.details;
        Self {
            id: key(group.id),
            terms: Terms::of_group(group),
            is_inactive: details.active == Some(false),
            name: details.name.as_ref().and_then(|name| sort_name(&search_phrase(name))),
            last_updated: group.meta.last_updated.as_millisecond(),
            group_type: details.group_type.map(|code| i64::from(code.number.0)),
            housing_type: details.housing_type.map(|code| i64::from(code.number.0)),
        }
    }
}

impl MemberRow {
    /// The rows of a group's members.
    pub(super) fn of(group: &Group) -> impl Iterator<Item = Self> + '_ {
        let key_of_group = key(group.id);
        group.details.members.iter().flatten().zip(0_i32..).map(move |(member, place)| {
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
            beneficiary: subject_key(details.beneficiary),
            program: key(details.program),
            status: i16::from(details.status.place()),
            enrollment_date: details.enrollment_date.map(days_since_epoch),
            exit_date: details.exit_date.map(days_since_epoch),
            last_updated: membership.meta.last_updated.as_millisecond(),
        }
    }
}

/// A name as people and groups are put in order by it.
fn sort_name(folded: &str) -> Option<Vec<u8>> {
    sortable(folded).map(|name| name.as_bytes().to_vec())
}
