//! Group membership: the groups that name a person, the members of a group in the order of its record, which a rule
//! about households reads, and the groups as the records of their members show them.
//!
//! **Invariant:** the member index of a group has its active members, in the order of the record. Their periods are
//! compared with the day of the rule on evaluation.

use super::blobs::Blobs;
use super::checkpoint::stored_fields;
use super::codes::{difference, sorted_once};
use super::places::{Place, Places};
use super::rows::Rows;
use super::stored;
use super::subjects::Contents;
use super::summaries::Summaries;
use super::tree::SharedTree;
use daftar_domain::group::{Group, GroupSummary, Member};
use daftar_domain::record::RecordId;

/// The members of all groups, cheap to clone.
#[derive(Debug, Clone, Default)]
pub(super) struct Members {
    /// Pairs of a person and a group that names the person.
    pub(super) named: SharedTree<(RecordId, RecordId), ()>,
    /// The active members of each group's row: memberships whose `group` is the person's row.
    pub(super) seats: Blobs,
    /// The groups as the records of their members show them.
    pub(super) summaries: Summaries,
}

/// A person's membership in a group, seen from the group.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ActiveMember {
    /// The person's row.
    pub person: u32,
    /// The number of the code of the role.
    pub role: Option<u32>,
}

/// A group with its members, ready to be written.
pub(super) struct Prepared {
    id: RecordId,
    summary: GroupSummary,
}

impl Prepared {
    /// Summarises a group. Rules read its members only.
    pub(super) fn of(group: &Group, contents: Contents) -> Self {
        let summary = match contents {
            Contents::All => GroupSummary::of(&group.details),
            Contents::Rules => GroupSummary { called: None, name: None, members: group.details.members().collect() },
        };
        Self { id: group.id, summary }
    }
}

/// Returns the people that members name, sorted, without duplicates.
pub(super) fn named_by(members: &[Member]) -> Vec<RecordId> {
    sorted_once(members.iter().map(|member| member.individual))
}

/// Serialises the active members of a group.
pub(super) fn roles_of(people: &Rows, members: &[Member]) -> Vec<u8> {
    let mut bytes = Vec::new();
    for member in members {
        let place = people.find(member.individual).and_then(|person| Place::of(member, person));
        if let Some(place) = place {
            stored::put(&mut bytes, &place);
        }
    }
    bytes
}

stored_fields!(Members { named, seats, summaries });

impl Members {
    /// Returns the groups that name a person as a member, ascending.
    pub(super) fn groups_of(&self, individual: RecordId) -> Vec<RecordId> {
        let entries = self.named.from(&(individual, RecordId(0))).map(|(entry, ())| *entry);
        entries.take_while(|(member, _)| *member == individual).map(|(_, group)| group).collect()
    }

    /// Returns the active members of a group's row on a day.
    pub(super) fn on_day(&self, group: u32, day: i32) -> impl Iterator<Item = ActiveMember> + '_ {
        let mut bytes = self.seats.get(group);
        // The bytes were written by `write`, or read from a checkpoint with valid checksums.
        let places = std::iter::from_fn(move || stored::take::<Place>(&mut bytes).ok());
        places
            .filter(move |place| place.holds_on(day))
            .map(|place| ActiveMember { person: place.group, role: place.role })
    }

    /// Writes the members and current memberships of groups with rows.
    pub(super) fn write(&mut self, (people, groups): (&Rows, &Rows), places: &mut Places, records: Vec<Prepared>) {
        for Prepared { id, summary } in records {
            let Some(row) = groups.find(id) else { continue };
            let members = &summary.members;
            let (before, named) = (sorted_once(self.summaries.people(row)), named_by(members));
            for member in difference(&before, &named) {
                self.named.remove(&(*member, id));
            }
            for member in difference(&named, &before) {
                self.named.insert((*member, id), ());
            }
            write_places(places, people, row, &before, members);
            self.seats.set(row, &roles_of(people, members));
            self.summaries.set(row, &summary);
        }
    }
}

/// Writes the current memberships of a group's members.
fn write_places(places: &mut Places, people: &Rows, group: u32, before: &[RecordId], members: &[Member]) {
    for member in before {
        if let Some(row) = people.find(*member) {
            places.clear(row, group);
        }
    }
    let mut members: Vec<&Member> = members.iter().collect();
    members.sort_by_key(|member| member.individual);
    for of_person in members.chunk_by(|one, other| one.individual == other.individual) {
        if let Some(row) = of_person.first().and_then(|member| people.find(member.individual)) {
            places.set(row, of_person.iter().filter_map(|member| Place::of(member, group)));
        }
    }
}
