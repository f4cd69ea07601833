//! Who lives with each of some subjects, read off the columns.

use std::collections::BTreeSet;

use super::super::evaluate::reads_household;
use super::super::layout::{Bitmap, count};
use super::facts::Facts;
use daftar_domain::calendar::days_since_epoch;
use daftar_domain::eligibility::{Children, ColumnValues, Subject};
use daftar_domain::error::AppError;
use daftar_index::Seat;

/// The households of the first of some subjects.
#[derive(Debug, Default)]
pub(super) struct Households {
    /// One more than subjects: where the seats of each begin.
    offsets: Vec<usize>,
    /// Whether it can be said who lives with each.
    known: Vec<bool>,
    seats: Vec<Seat>,
    /// As what each subject lives in its household.
    roles: Vec<Option<u32>>,
    /// The groups that were looked at as households.
    groups: BTreeSet<u32>,
}

impl Households {
    /// The households of some subjects, up to about so many people; none, where the rule asks for no household. At least one subject
    /// has its household here.
    pub fn of(facts: &Facts, subjects: &[u32], people_max: usize) -> Option<Self> {
        if !reads_household(&facts.references) {
            return None;
        }
        let mut households = Self { offsets: vec![0], ..Self::default() };
        for row in subjects {
            if !households.known.is_empty() && households.seats.len() + households.known.len() >= people_max {
                break;
            }
            let before = households.seats.len();
            let is_known = match facts.kind {
                Subject::Individual => households.add_of_person(facts, *row),
                Subject::Group => households.add_of_group(facts, *row),
            };
            let mine = households.seats.iter().skip(before).find(|seat| seat.person == *row);
            let role = mine.filter(|_| facts.kind == Subject::Individual).and_then(|seat| seat.role);
            households.roles.push(role);
            households.known.push(is_known);
            households.offsets.push(households.seats.len());
        }
        Some(households)
    }

    /// How many subjects these are of.
    pub fn subjects(&self) -> usize {
        self.known.len()
    }

    /// The rows of everybody in them.
    pub fn people(&self) -> Vec<u32> {
        self.seats.iter().map(|seat| seat.person).collect()
    }

    /// The rows of the groups that are households of somebody.
    pub fn groups(&self) -> Vec<u32> {
        self.groups.iter().copied().collect()
    }

    /// As what each subject lives in its household, as a column.
    pub fn roles_of_subjects(&self) -> (Vec<u8>, ColumnValues) {
        roles(self.roles.iter().copied())
    }

    /// As what each member lives in the household, as a column.
    pub fn roles_of_members(&self) -> (Vec<u8>, ColumnValues) {
        roles(self.seats.iter().map(|seat| seat.role))
    }

    /// Whose members are whose.
    ///
    /// # Errors
    /// When there are more than a batch can count.
    pub fn into_children(self) -> Result<Children, AppError> {
        let mut known = Bitmap::default();
        self.known.iter().for_each(|is_known| known.push(*is_known));
        let offsets: Result<Vec<u32>, AppError> = self.offsets.into_iter().map(count).collect();
        Ok(Children { offsets: offsets?, known: known.finish() })
    }

    /// The members of a person's one active household: none is known to be nobody, several cannot be told apart.
    fn add_of_person(&mut self, facts: &Facts, person: u32) -> bool {
        let Some(household) = facts.household else { return true };
        let day = days_since_epoch(facts.as_of);
        let groups = facts.snapshot.groups_at(person, day).filter(|group| is_household(facts, *group, household));
        let groups: BTreeSet<u32> = groups.collect();
        self.groups.extend(&groups);
        let mut groups = groups.into_iter();
        match (groups.next(), groups.next()) {
            (None, _) => true,
            (Some(only), None) => {
                self.add_seats(facts, only, day);
                true
            }
            (Some(_), Some(_)) => false,
        }
    }

    fn add_of_group(&mut self, facts: &Facts, group: u32) -> bool {
        let may_look = facts.limits(Subject::Group).is_none_or(|limits| limits.shows_field("member", group));
        if may_look {
            self.add_seats(facts, group, days_since_epoch(facts.as_of));
        }
        may_look
    }

    fn add_seats(&mut self, facts: &Facts, group: u32, day: i32) {
        let limits = facts.limits(Subject::Individual);
        let seats = facts.snapshot.seats_of(group, day);
        self.seats.extend(seats.filter(|seat| limits.is_none_or(|limits| limits.shows(seat.person))));
    }
}

/// Whether a group shows the client that it is a household in use.
fn is_household(facts: &Facts, group: u32, household: u32) -> bool {
    let may_look = |field: &str| facts.limits(Subject::Group).is_none_or(|limits| limits.shows_field(field, group));
    facts.limits(Subject::Group).is_none_or(|limits| limits.shows(group))
        && may_look("member")
        && may_look("group_type")
        && facts.snapshot.group_type_at(group) == Some(household)
        && !(may_look("active") && facts.snapshot.is_group_inactive(group))
}

fn roles(roles: impl Iterator<Item = Option<u32>>) -> (Vec<u8>, ColumnValues) {
    let (mut valid, mut codes) = (Bitmap::default(), Vec::new());
    for role in roles {
        valid.push(role.is_some());
        codes.push(role.unwrap_or_default());
    }
    (valid.finish(), ColumnValues::Codes(codes))
}
