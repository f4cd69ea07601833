//! Who belongs to a group, in the order of its record: what a rule about households reads.
//!
//! **Invariant:** the seats of a group are its members that are not set aside, in the order of the record. Whether the period of one holds is
//! asked on the day of the rule.

use super::blobs::Blobs;
use super::places::Place;
use super::rows::Rows;
use super::stored;
use daftar_domain::group::Member;

/// A person's place in a group, seen from the group.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Seat {
    /// The person's row.
    pub person: u32,
    /// The number of the code that says as what.
    pub role: Option<u32>,
}

/// The seats of a group of these members, as bytes: places whose group is the person's row.
pub(super) fn of_members(people: &Rows, members: &[Member]) -> Vec<u8> {
    let mut bytes = Vec::new();
    for member in members {
        let place = people.find(member.individual).and_then(|person| Place::of(member, person));
        if let Some(place) = place {
            stored::put(&mut bytes, &place);
        }
    }
    bytes
}

/// The seats of a group's row that count on a day.
pub(super) fn on_day(seats: &Blobs, group: u32, day: i32) -> impl Iterator<Item = Seat> + '_ {
    let mut bytes = seats.get(group);
    // What is here was written by `of_members`, or read from a checkpoint whose checksums were right.
    let places = std::iter::from_fn(move || stored::take::<Place>(&mut bytes).ok());
    places.filter(move |place| place.holds_on(day)).map(|place| Seat { person: place.group, role: place.role })
}
