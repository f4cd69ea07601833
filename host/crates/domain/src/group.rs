//! A household, family or other group of people.

use super::address::{self, Address};
use super::calendar::Period;
use super::code::CodedValue;
use super::extension::Extension;
use super::identifier::Identifier;
use super::individual::{CodePlace, MembershipPeriod};
use super::record::{Record, RecordId};
use super::vocabulary::CodedField;

/// A stored group.
pub type Group = Record<GroupDetails>;

/// The most members of one group.
pub const MEMBERS_MAX: usize = 500;

/// What the register says of a group.
///
/// `C` is how codes are given and `I` how members and other groups are named: by number and key in the register, by URI and identifier in a
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
    /// How it stands to other groups; absent where nothing is recorded.
    pub relationships: Option<Vec<Relationship<C, I>>>,
    /// Addresses, the most used one first; absent where nothing is recorded.
    pub address: Option<Vec<Address<C>>>,
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
            relationships: None,
            address: None,
            extension: Extension::default(),
        }
    }
}

impl GroupDetails<CodedValue, RecordId> {
    /// Every (field, code) of the group, those of its members, relationships and addresses included, those of extension fields
    /// not.
    #[must_use]
    pub fn every_code(&self) -> Vec<(CodedField, CodedValue)> {
        let mut all = Vec::new();
        all.extend(self.group_type.map(|value| (CodedField::GroupType, value)));
        all.extend(self.housing_type.map(|value| (CodedField::HousingType, value)));
        let roles = self.members.iter().flatten().filter_map(|member| member.role);
        all.extend(roles.map(|value| (CodedField::MemberRole, value)));
        let types = self.relationships.iter().flatten().map(|relationship| relationship.kind);
        all.extend(types.map(|value| (CodedField::RelationshipType, value)));
        let countries = self.address.iter().flatten().filter_map(|address| address.country);
        all.extend(countries.map(|value| (CodedField::AddressCountry, value)));
        all
    }

    /// The members that count now: neither inactive nor outside their period.
    pub fn active_members(&self, day: jiff::civil::Date) -> impl Iterator<Item = &Member> {
        self.members.iter().flatten().filter(move |member| member.is_active(day))
    }
}

impl<C, I> GroupDetails<C, I> {
    /// The same group with every code put through `translate`, which is told where and under which path the code stands.
    pub fn map_codes<D>(self, mut translate_at: impl FnMut(CodePlace<'_>, String, C) -> D) -> GroupDetails<D, I> {
        let mut translate = |field, path, code| translate_at(CodePlace::Field(field), path, code);
        let mut single = |field: CodedField, code| translate(field, field.path().to_owned(), code);
        let group_type = self.group_type.map(|code| single(CodedField::GroupType, code));
        let housing_type = self.housing_type.map(|code| single(CodedField::HousingType, code));
        let members = self.members.map(|members| {
            let numbered = members.into_iter().enumerate();
            let translated = numbered.map(|(at, member)| Member {
                individual: member.individual,
                role: member.role.map(|code| translate(CodedField::MemberRole, format!("member[{at}].role"), code)),
                period: member.period,
                is_inactive: member.is_inactive,
            });
            translated.collect()
        });
        let relationships = self.relationships.map(|relationships| {
            let numbered = relationships.into_iter().enumerate();
            let translated = numbered.map(|(at, relationship)| Relationship {
                target: relationship.target,
                kind: translate(CodedField::RelationshipType, format!("relationship[{at}].type"), relationship.kind),
                period: relationship.period,
            });
            translated.collect()
        });
        let address = self.address.map(|addresses| address::map_countries(addresses, &mut translate));
        let extension =
            self.extension.map_codes(|field, path, code| translate_at(CodePlace::Extension(field), path, code));
        GroupDetails {
            identifiers: self.identifiers,
            active: self.active,
            name: self.name,
            group_type,
            housing_type,
            members,
            relationships,
            address,
            extension,
        }
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

    /// The days on which the membership counts, of that day and those that follow; absent where it counts on none of them.
    #[must_use]
    pub fn still_active(&self, day: jiff::civil::Date) -> Option<Period> {
        let period = self.period.unwrap_or_default();
        let is_over = self.is_inactive || period.end.is_some_and(|end| end < day);
        (!is_over).then(|| Period { start: period.start.max(Some(day)), end: period.end })
    }
}

/// How a group stands to another group, told from its own side. What the other group says is its own affair: nothing is written
/// there.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Relationship<C = CodedValue, I = RecordId> {
    /// The other group.
    pub target: I,
    /// What the other group is to this one: a code of the relationship vocabulary for groups.
    pub kind: C,
    /// When.
    pub period: MembershipPeriod,
}
