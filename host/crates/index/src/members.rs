//! Group membership: the groups that name a person, and the members of a group in the order of its record, which a rule
//! about households reads.
//!
//! **Invariant:** the member index of a group has its active members, in the order of the record. Their periods are
//! compared with the day of the rule on evaluation.

use super::blobs::Blobs;
use super::checkpoint::stored_fields;
use super::codes::{difference, sorted_once};
use super::places::{Place, Places};
use super::rows::Rows;
use super::stored;
use super::terms;
use super::tree::SharedTree;
use daftar_domain::group::Member;
use daftar_domain::record::RecordId;

/// The members of all groups, cheap to clone.
#[derive(Debug, Clone, Default)]
pub(super) struct Members {
    /// Pairs of a person and a group that names the person.
    pub(super) named: SharedTree<(RecordId, RecordId), ()>,
    /// The active members of each group's row: memberships whose `group` is the person's row.
    pub(super) seats: Blobs,
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
pub(super) type Prepared = (RecordId, Vec<Member>);

/// Returns the people that members name, sorted, without duplicates.
pub(super) fn named_by(members: &[Member]) -> Box<[RecordId]> {
    sorted_once(members.iter().map(|member| member.individual)).into()
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

stored_fields!(Members { named, seats });

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

    /// Writes the members and current memberships of groups with rows. `all_named`: the individuals named by each row.
    pub(super) fn write(
        &mut self,
        all_named: &mut Blobs,
        (people, groups): (&Rows, &Rows),
        places: &mut Places,
        records: Vec<Prepared>,
    ) {
        for (id, members) in records {
            let Some(row) = groups.find(id) else { continue };
            let before: Box<[RecordId]> = terms::of_row(all_named, row);
            let named = named_by(&members);
            for member in difference(&before, &named) {
                self.named.remove(&(*member, id));
            }
            for member in difference(&named, &before) {
                self.named.insert((*member, id), ());
            }
            write_places(places, people, row, &before, &members);
            self.seats.set(row, &roles_of(people, &members));
            terms::set_row(all_named, row, &named);
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
