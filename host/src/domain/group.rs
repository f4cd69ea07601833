//! A household, family or other group of people.

use super::code::CodedValue;
use super::extension::Extension;
use super::identifier::Identifier;
use super::individual::MembershipPeriod;
use super::record::{Record, RecordId};
use super::vocabulary::CodedField;

/// A stored group.
pub type Group = Record<GroupDetails>;

/// The most members of one group.
pub const MEMBERS_MAX: usize = 500;

/// What the register says of a group.
///
/// `C` is how codes are given and `I` how members are named: by number and key in the register, by URI and identifier in a
/// request that has not been checked yet.
#[derive(Debug, Clone, PartialEq)]
pub struct GroupDetails<C = CodedValue, I = RecordId> {
    /// At least one.
    pub identifiers: Vec<Identifier>,
    /// Whether the record is in use.
    pub active: Option<bool>,
    /// What it is called.
    pub name: Option<String>,
    /// What kind of group.
    pub group_type: Option<C>,
    /// How it is housed.
    pub housing_type: Option<C>,
    /// Who belongs to it; absent where nothing is recorded.
    pub members: Option<Vec<Member<C, I>>>,
    /// What installed modules add.
    pub extension: Extension<C>,
}

impl<C, I> Default for GroupDetails<C, I> {
    fn default() -> Self {
        Self {
            identifiers: Vec::new(),
            active: None,
            name: None,
            group_type: None,
            housing_type: None,
            members: None,
            extension: Extension::default(),
        }
    }
}

impl GroupDetails<CodedValue, RecordId> {
    /// Every (field, code) of the group, the roles of its members included.
    #[must_use]
    pub fn every_code(&self) -> Vec<(CodedField, CodedValue)> {
        let mut all = Vec::new();
        all.extend(self.group_type.map(|value| (CodedField::GroupType, value)));
        all.extend(self.housing_type.map(|value| (CodedField::HousingType, value)));
        let roles = self.members.iter().flatten().filter_map(|member| member.role);
        all.extend(roles.map(|value| (CodedField::MemberRole, value)));
        all
    }

    /// The members that count now: neither inactive nor outside their period.
    pub fn active_members(&self, day: jiff::civil::Date) -> impl Iterator<Item = &Member> {
        self.members.iter().flatten().filter(move |member| member.is_active(day))
    }
}

/// One person's place in a group.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Member<C = CodedValue, I = RecordId> {
    /// Who.
    pub individual: I,
    /// As what: a code of the relationship vocabulary for individuals.
    pub role: Option<C>,
    /// When.
    pub period: MembershipPeriod,
    /// Whether the membership is set aside.
    pub is_inactive: bool,
}

impl<C, I> Member<C, I> {
    /// Whether the membership counts on that day.
    #[must_use]
    pub fn is_active(&self, day: jiff::civil::Date) -> bool {
        !self.is_inactive && self.period.is_none_or(|period| period.contains(day))
    }
}
