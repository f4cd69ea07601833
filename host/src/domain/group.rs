//! A household, family or other group of people.

use super::code::CodedValue;
use super::identifier::Identifier;
use super::individual::MembershipPeriod;
use super::record::{Record, RecordId};

/// A stored group.
pub type Group = Record<GroupDetails>;

/// The most members of one group.
pub const MEMBERS_MAX: usize = 500;

/// What the register says of a group.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct GroupDetails {
    /// At least one.
    pub identifiers: Vec<Identifier>,
    /// Whether the record is in use.
    pub active: Option<bool>,
    /// What it is called.
    pub name: Option<String>,
    /// What kind of group.
    pub group_type: Option<CodedValue>,
    /// How it is housed.
    pub housing_type: Option<CodedValue>,
    /// Who belongs to it; absent where nothing is recorded.
    pub members: Option<Vec<Member>>,
}

impl GroupDetails {
    /// The members that count now: neither inactive nor outside their period.
    pub fn active_members(&self, day: jiff::civil::Date) -> impl Iterator<Item = &Member> {
        self.members.iter().flatten().filter(move |member| member.is_active(day))
    }
}

/// One person's place in a group.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Member {
    /// Who.
    pub individual: RecordId,
    /// As what: a code of the relationship vocabulary for individuals.
    pub role: Option<CodedValue>,
    /// When.
    pub period: MembershipPeriod,
    /// Whether the membership is set aside.
    pub is_inactive: bool,
}

impl Member {
    /// Whether the membership counts on that day.
    #[must_use]
    pub fn is_active(&self, day: jiff::civil::Date) -> bool {
        !self.is_inactive && self.period.is_none_or(|period| period.contains(day))
    }
}
