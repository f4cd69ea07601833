//! A household, family or other group of people.

use std::fmt;

use jiff::civil::Date;

use super::calendar::Period;
use super::code::CodedValue;
use super::identifier::{self, IdentifierKey};
use super::individual::LIST_ITEMS_MAX;
use super::person_name::NAME_PART_BYTES_MAX;
use super::record::{Fields, Record, RecordId, RecordKind};
use super::relationship::RELATIONSHIPS;
use super::schema::{ADDRESSES, Field, Kind, PERIOD, Shape, Struct};
use super::value::{Code, Key, Link, List, Part, Reference, Shaped, Text, Typed, Value, Values};
use super::vocabulary::CodedField;

pub use super::relationship::{RELATIONSHIP_PERIOD, RELATIONSHIP_TARGET, RELATIONSHIP_TYPE};

record_type!(GroupRecord is Group);

/// A stored group.
pub type Group = Record<GroupDetails>;

/// The details of a group. An absent list means "not recorded", an empty one "known to be none".
pub type GroupDetails<C = CodedValue, I = RecordId> = Fields<GroupRecord, C, I>;

/// Maximum number of members of a group.
pub const MEMBERS_MAX: usize = 500;

/// True if the record is active.
pub const ACTIVE: Key<bool> = Key::new(1);
/// Name.
pub const NAME: Key<Text> = Key::new(2);
/// Type of group.
pub const GROUP_TYPE: Key<Code> = Key::new(3);
/// Type of housing.
pub const HOUSING_TYPE: Key<Code> = Key::new(4);
/// Members.
pub const MEMBER: Key<List<Member>> = Key::new(5);
/// Relationships to other groups.
pub const RELATIONSHIP: Key<List<Part>> = Key::new(6);
/// Addresses, the most used first.
pub const ADDRESS: Key<List<Part>> = Key::new(7);
/// Day of registration.
pub const REGISTRATION_DATE: Key<Date> = Key::new(8);

/// The fields of a group.
pub const FIELDS: &[Field] = &[
    Field::new(ACTIVE, "active", Kind::Boolean).about("A record without it is active.").in_rules().filter(),
    Field::new(NAME, "name", Kind::Text(NAME_PART_BYTES_MAX)).in_rules().sort().filter(),
    code(GROUP_TYPE, "group_type", CodedField::GroupType),
    code(HOUSING_TYPE, "housing_type", CodedField::HousingType),
    Field::new(MEMBER, "member", Kind::List { of: &Kind::Struct(&MEMBERS), items_max: MEMBERS_MAX }).filter(),
    Field::new(
        RELATIONSHIP,
        "relationship",
        Kind::List { of: &Kind::Struct(&RELATIONSHIPS), items_max: LIST_ITEMS_MAX },
    )
    .not_tabular(),
    Field::new(ADDRESS, "address", ADDRESSES).filter(),
    Field::new(REGISTRATION_DATE, "registration_date", Kind::Date)
        .about("The day on which the group was registered.")
        .in_rules()
        .column()
        .sort()
        .filter(),
];

/// Returns a field with one code, usable for filters and sorting.
const fn code(key: Key<Code>, name: &'static str, coded: CodedField) -> Field {
    Field::new(key, name, Kind::Code(coded)).in_rules().column().sort().filter()
}

/// The member.
pub const MEMBER_ENTITY: Key<Link> = Key::new(1);
/// Role: a code of the relationship vocabulary for individuals.
pub const MEMBER_ROLE: Key<Code> = Key::new(2);
/// Period of membership.
pub const MEMBER_PERIOD: Key<Period> = Key::new(3);
/// True if the membership is inactive.
pub const MEMBER_INACTIVE: Key<bool> = Key::new(4);

/// A member of a group.
pub const MEMBERS: Struct = Struct {
    name: "Member",
    about: "The membership of a person in a group.",
    fields: &[
        Field::new(MEMBER_ENTITY, "entity", Kind::Reference(&[RecordKind::Individual]))
            .required("a member requires a reference to a person: `{reference: \"Individual/<system>|<value>\"}`"),
        Field::new(MEMBER_ROLE, "role", Kind::Code(CodedField::MemberRole)).not_tabular(),
        Field::new(MEMBER_PERIOD, "period", Kind::Struct(&PERIOD)).not_tabular(),
        Field::new(MEMBER_INACTIVE, "inactive", Kind::Boolean).flag().not_tabular(),
    ],
};

/// The membership of one person in a group, in typed form.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Member<C = CodedValue, I = RecordId> {
    /// The person.
    pub individual: I,
    /// Role: a code of the relationship vocabulary for individuals.
    pub role: Option<C>,
    /// Period of membership.
    pub period: Option<Period>,
    /// True if the membership is inactive.
    pub is_inactive: bool,
}

impl<C, I> Shaped for Member<C, I> {
    const SHAPE: Shape = Shape::Struct;
}

/// The key names the type with stored codes and keys; a request has others.
impl<C: Clone, I: Clone> Typed<C, I> for Member {
    type Ref<'v>
        = Member<C, I>
    where
        C: 'v,
        I: 'v;
    type Owned = Member<C, I>;

    fn read(value: &Value<C, I>) -> Option<Member<C, I>> {
        let Value::Struct(values) = value else { return None };
        Some(Member {
            individual: values.get(MEMBER_ENTITY)?.id.clone(),
            role: values.get(MEMBER_ROLE).cloned(),
            period: values.get(MEMBER_PERIOD),
            is_inactive: values.get(MEMBER_INACTIVE).unwrap_or(false),
        })
    }

    fn make(member: Member<C, I>) -> Value<C, I> {
        let entity = Reference { kind: RecordKind::Individual, id: member.individual };
        let values = Values::default().with(MEMBER_ENTITY, entity).with(MEMBER_ROLE, member.role);
        let values = values.with(MEMBER_PERIOD, member.period);
        Value::Struct(values.with(MEMBER_INACTIVE, member.is_inactive.then_some(true)))
    }
}

impl<C, I> Member<C, I> {
    /// True if the membership is active on a day.
    #[must_use]
    pub fn is_active(&self, day: Date) -> bool {
        !self.is_inactive && self.period.is_none_or(|period| period.contains(day))
    }

    /// Returns the days from `day` on which the membership is active; absent if there are none.
    #[must_use]
    pub fn still_active(&self, day: Date) -> Option<Period> {
        let period = self.period.unwrap_or_default();
        let is_over = self.is_inactive || period.end.is_some_and(|end| end < day);
        (!is_over).then(|| Period { start: period.start.max(Some(day)), end: period.end })
    }
}

/// A group as the records of its members show it.
#[derive(Clone, PartialEq, Eq)]
pub struct GroupSummary {
    /// The identifier that names the group.
    pub called: Option<IdentifierKey>,
    /// Name.
    pub name: Option<String>,
    /// Members, in the order of the record: all of them, or the memberships of one individual.
    pub members: Vec<Member>,
}

impl fmt::Debug for GroupSummary {
    /// Keeps the content of records out of logs.
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_struct("GroupSummary").field("members", &self.members.len()).finish_non_exhaustive()
    }
}

impl GroupSummary {
    /// Summarises a group with all members.
    #[must_use]
    pub fn of(details: &GroupDetails) -> Self {
        let called = identifier::called(&details.identifiers).cloned();
        Self { called, name: details.get(NAME).map(str::to_owned), members: details.members().collect() }
    }
}

impl GroupDetails {
    /// Returns the members, in order; none if nothing is recorded.
    pub fn members(&self) -> impl Iterator<Item = Member> {
        self.items(MEMBER)
    }

    /// Returns the members that are active on a day: neither inactive nor outside their period.
    pub fn active_members(&self, day: Date) -> impl Iterator<Item = Member> {
        self.members().filter(move |member| member.is_active(day))
    }
}
