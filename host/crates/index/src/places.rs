//! The membership index: the memberships of each person in groups.
//!
//! **Invariant:** every active membership of a group is here once, under its person's row, and nothing else is. Its
//! period is compared with the day of the search.

use std::io;

use serde::{Deserialize, Serialize};

use super::bitmaps::Posting;
use super::checkpoint::{CheckpointWriter, Loading, Stored};
use super::column::Column;
use super::stored::Corrupt;
use super::tree::SharedTree;
use daftar_domain::calendar::days_since_epoch;
use daftar_domain::group::Member;

/// A person's membership in a group.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Place {
    /// The group's row.
    pub(super) group: u32,
    /// The number of the role's code.
    pub(super) role: Option<u32>,
    /// The first day, in days since 1970-01-01.
    pub(super) start: Option<i32>,
    /// The last day.
    pub(super) end: Option<i32>,
}

impl Place {
    /// Returns the membership of a group's member; `None` if it is inactive.
    pub(super) fn of(member: &Member, group: u32) -> Option<Self> {
        let period = member.period.unwrap_or_default();
        (!member.is_inactive).then(|| Self {
            group,
            role: member.role.map(|role| role.number.0),
            start: period.start.map(days_since_epoch),
            end: period.end.map(days_since_epoch),
        })
    }

    /// Returns true if the period includes the day.
    pub(super) fn holds_on(&self, day: i32) -> bool {
        self.start.is_none_or(|start| start <= day) && self.end.is_none_or(|end| day <= end)
    }
}

/// The memberships of all people, cheap to clone. Most people have at most one, which is stored in columns.
#[derive(Debug, Clone, Default)]
pub(super) struct Places {
    /// The rows of the groups of first memberships; `None` if a person has no membership.
    pub(super) groups: Column<u32>,
    /// The numbers of the roles.
    pub(super) roles: Column<u32>,
    /// The first days, if any.
    pub(super) starts: Column<i32>,
    /// The last days, if any.
    pub(super) ends: Column<i32>,
    /// Rows of people with more than one membership.
    pub(super) several: Posting,
    /// The further memberships, by person, group and position in the group.
    more: SharedTree<(u32, u32, u16), Place>,
    /// One past the last row that ever had a membership.
    row_count: u32,
}

impl Stored for Places {
    fn store(&self, checkpoint: &mut CheckpointWriter<'_>) -> io::Result<()> {
        let Self { groups, roles, starts, ends, several, more, row_count } = self;
        groups.store(checkpoint)?;
        roles.store(checkpoint)?;
        starts.store(checkpoint)?;
        ends.store(checkpoint)?;
        more.store(checkpoint)?;
        checkpoint.one(&(row_count, several))
    }

    fn load(checkpoint: &mut Loading<'_>) -> Result<Self, Corrupt> {
        let (groups, roles) = (Column::load(checkpoint)?, Column::load(checkpoint)?);
        let (starts, ends) = (Column::load(checkpoint)?, Column::load(checkpoint)?);
        let more = SharedTree::load(checkpoint)?;
        let (row_count, several) = checkpoint.one()?;
        Ok(Self { groups, roles, starts, ends, several, more, row_count })
    }
}

impl Places {
    /// Returns the greater of the number of people and one past the last row that may have a membership.
    pub(super) fn row_count(&self) -> u32 {
        self.row_count
    }

    /// Raises the row count to the number of people.
    pub(super) fn reach(&mut self, people: u32) {
        self.row_count = self.row_count.max(people);
    }

    /// Returns the memberships of a person, including those outside their period.
    pub(super) fn of(&self, row: u32) -> impl Iterator<Item = Place> + Clone + '_ {
        let more = self.several.contains(row).then(|| self.further(row));
        self.first(row).into_iter().chain(more.into_iter().flatten())
    }

    fn first(&self, row: u32) -> Option<Place> {
        let group = self.groups.get(row)?;
        Some(Place { group, role: self.roles.get(row), start: self.starts.get(row), end: self.ends.get(row) })
    }

    fn further(&self, row: u32) -> impl Iterator<Item = Place> + Clone + '_ {
        let entries = self.more.from(&(row, 0, 0)).map(|((person, _, _), place)| (*person, *place));
        entries.take_while(move |(person, _)| *person == row).map(|(_, place)| place)
    }

    /// Removes a person's memberships in a group.
    pub(super) fn clear(&mut self, row: u32, group: u32) {
        if self.groups.get(row) == Some(group) {
            self.set_first(row, None);
        }
        if !self.several.contains(row) {
            return;
        }
        let of_group = self.more.from(&(row, group, 0)).map(|(key, _)| *key);
        let keys: Vec<_> = of_group.take_while(|(person, at, _)| *person == row && *at == group).collect();
        for key in keys {
            self.more.remove(&key);
        }
        if self.further(row).next().is_none() {
            self.several.remove(row);
        }
    }

    /// Adds a person's memberships in a group; the previous ones must have been cleared.
    pub(super) fn set(&mut self, row: u32, places: impl Iterator<Item = Place>) {
        self.reach(row.saturating_add(1));
        for (place, number) in places.zip(0_u16..) {
            if self.groups.get(row).is_none() {
                self.set_first(row, Some(place));
            } else {
                self.several.insert(row);
                self.more.insert((row, place.group, number), place);
            }
        }
    }

    fn set_first(&mut self, row: u32, place: Option<Place>) {
        self.groups.set(row, place.map(|place| place.group));
        self.roles.set(row, place.and_then(|place| place.role));
        self.starts.set(row, place.and_then(|place| place.start));
        self.ends.set(row, place.and_then(|place| place.end));
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use proptest::prelude::*;

    use super::*;

    fn place(group: u32, role: u32) -> Place {
        Place { group, role: Some(role), start: None, end: None }
    }

    proptest! {
        #[test]
        fn a_person_has_the_places_that_were_set_last(
            steps in prop::collection::vec((0_u32..4, 0_u32..4, prop::collection::vec(0_u32..3, 0..3)), 0..60),
        ) {
            let mut places = Places::default();
            let mut expected = BTreeMap::<(u32, u32), Vec<Place>>::new();
            for (row, group, roles) in steps {
                places.clear(row, group);
                places.set(row, roles.iter().map(|role| place(group, *role)));
                expected.insert((row, group), roles.iter().map(|role| place(group, *role)).collect());
            }
            for row in 0..4 {
                let sorted = |mut places: Vec<Place>| {
                    places.sort_by_key(|place| (place.group, place.role));
                    places
                };
                let wanted = expected.range((row, 0)..(row + 1, 0)).flat_map(|(_, places)| places.clone());
                prop_assert_eq!(sorted(places.of(row).collect()), sorted(wanted.collect()));
            }
        }
    }
}
