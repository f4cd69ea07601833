//! Searches: their conditions, index terms and results.
//!
//! Filters by days, codes and phrases follow from the schema: [`date_filters`], [`code_filters`], [`PhraseField`].

pub mod instant;
pub mod order;
pub mod phrase;

use std::borrow::Cow;
use std::collections::{BTreeMap, BTreeSet};

use jiff::civil::Date;
use serde::{Deserialize, Serialize};

use super::code::CodeNumber;
use super::extension::EXTENSION;
use super::identifier::IdentifierKey;
use super::manifest::ExtensionPath;
use super::organization::Organization;
use super::program_membership::MembershipStatus;
use super::record::{RecordId, RecordKind};
use super::schema::{self, Field, Kind};
use super::subject::{Subject, SubjectReference};
use super::vocabulary::CodedField;
use instant::InstantCondition;
use order::{Position, SortKey};
use phrase::PhraseField;

/// Maximum number of records in a page.
pub const PAGE_COUNT_MAX: u32 = 100;
/// Default number of records in a page.
pub const PAGE_COUNT_DEFAULT: u32 = 20;

/// Comparison operator of a day.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum DateOperator {
    /// On that day.
    Equal,
    /// On another day; a record without the day does not match.
    NotEqual,
    /// After that day.
    After,
    /// On or after that day.
    OnOrAfter,
    /// Before that day.
    Before,
    /// On or before that day.
    OnOrBefore,
}

impl DateOperator {
    /// True if `at` and the range from `first` to `last` meet the operator.
    fn holds<T: PartialOrd>(self, at: T, first: T, last: T) -> bool {
        match self {
            Self::Equal => first <= at && at <= last,
            Self::NotEqual => at < first || last < at,
            Self::After => last < at,
            Self::OnOrAfter => first <= at,
            Self::Before => at < first,
            Self::OnOrBefore => at <= last,
        }
    }
}

/// One condition on a day.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct DateCondition {
    /// The operator.
    pub operator: DateOperator,
    /// The day to compare with.
    pub date: Date,
}

impl DateCondition {
    /// True if a day meets the condition.
    #[must_use]
    pub fn holds(&self, day: Date) -> bool {
        self.operator.holds(day, self.date, self.date)
    }
}

/// Conditions on the days of a record by field name, at least one each; all must hold.
pub type DateConditions = BTreeMap<&'static str, Vec<DateCondition>>;

/// Returns the fields with a day by which records of a kind can be filtered, in the order of the schema.
pub fn date_filters(kind: RecordKind) -> impl Iterator<Item = &'static str> {
    let is_filter = |field: &&Field| field.is_filterable && matches!(field.kind, Kind::Date);
    schema::fields(kind).iter().filter(is_filter).map(|field| field.name)
}

/// Returns the fields with codes by which records of a kind can be filtered, including parts, in the order of the
/// schema.
#[must_use]
pub fn code_filters(kind: RecordKind) -> Vec<CodedField> {
    let fields = schema::fields(kind).iter().flat_map(|field| std::iter::once(field).chain(field.kind.parts()));
    let coded = fields.filter(|field| field.is_filterable).filter_map(|field| match &field.kind {
        Kind::Code(coded) | Kind::List { of: Kind::Code(coded), .. } => Some(*coded),
        _ => None,
    });
    coded.collect()
}

/// The location of a code in a search condition.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum CodedPlace {
    /// A field of the schema.
    Field(CodedField),
    /// An extension field.
    Extension(ExtensionPath),
}

impl CodedPlace {
    /// Returns the name of its field for field grants; of extension fields, that of the module.
    #[must_use]
    pub fn field(&self) -> Cow<'static, str> {
        let first = |path: &'static str| path.split('.').next().unwrap_or(path);
        match self {
            Self::Field(field) => Cow::Borrowed(first(field.path())),
            Self::Extension(path) => {
                let key = path.as_str().split('.').next().unwrap_or_default();
                Cow::Owned(format!("{EXTENSION}.{key}"))
            }
        }
    }
}

/// A condition on a coded field: it contains any of these codes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CodeCondition {
    /// The field; for a list, one matching code is sufficient.
    pub field: CodedPlace,
    /// The codes. An empty list matches nothing.
    pub any_of: Vec<CodeNumber>,
}

/// A condition on the group memberships of a person on a day: those that are active and whose period contains the day.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct PlaceCondition {
    /// The day, in days since 1970-01-01.
    pub day: i32,
    /// True if the person must have no membership in any group.
    pub is_none: bool,
    /// For each list the person is a member of one of its groups, in one of the roles if given.
    pub groups: Vec<Vec<RecordId>>,
    /// The roles, any of each list; of the same membership as the group if one is given.
    pub roles: Vec<Vec<CodeNumber>>,
}

/// Conditions on texts, all of which must hold.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct TextConditions {
    /// Words, each a prefix of a word of the name, in the form of [`super::person_name::search_words`].
    pub name_words: Vec<String>,
    /// Words, each a prefix of a word of any part of any address, in the same form.
    pub address_words: Vec<String>,
    /// Exact texts of parts, such as regions of addresses, in the form of [`super::person_name::search_phrase`].
    pub phrases: Vec<(PhraseField, String)>,
}

impl TextConditions {
    /// Returns the fields that the conditions read, each once.
    #[must_use]
    pub fn fields(&self) -> BTreeSet<&'static str> {
        let name = (!self.name_words.is_empty()).then_some("name");
        let address = (!self.address_words.is_empty()).then_some("address");
        name.into_iter().chain(address).chain(self.phrases.iter().map(|(field, _)| field.field)).collect()
    }
}

/// A condition on the members of a group on a day.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct MemberCondition {
    /// The day, in days since 1970-01-01.
    pub day: i32,
    /// For each list one of its people is a member of the group.
    pub people: Vec<Vec<RecordId>>,
}

/// A kind of subject, with the condition that only this kind has.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum KindCondition {
    /// Individuals, by their group memberships.
    Individuals(Option<PlaceCondition>),
    /// Groups, by their members.
    Groups(Option<MemberCondition>),
}

/// Conditions on the individuals or the groups of a register, all of which must hold.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SubjectQuery {
    /// The kind of the records, with its own condition.
    pub of_kind: KindCondition,
    /// The record has each of these identifiers, open or ended.
    pub identifiers: Vec<IdentifierKey>,
    /// Conditions on texts.
    pub texts: TextConditions,
    /// Conditions on days.
    pub dates: DateConditions,
    /// Conditions on coded fields.
    pub codes: Vec<CodeCondition>,
    /// The value of `active`; a record without it is active.
    pub active: Option<bool>,
    /// Time of the last write.
    pub last_updated: Vec<InstantCondition>,
}

impl SubjectQuery {
    /// Returns a query of all individuals.
    #[must_use]
    pub fn individuals() -> Self {
        Self::of(KindCondition::Individuals(None))
    }

    /// Returns a query of all groups.
    #[must_use]
    pub fn groups() -> Self {
        Self::of(KindCondition::Groups(None))
    }

    fn of(of_kind: KindCondition) -> Self {
        Self {
            of_kind,
            identifiers: Vec::new(),
            texts: TextConditions::default(),
            dates: DateConditions::new(),
            codes: Vec::new(),
            active: None,
            last_updated: Vec::new(),
        }
    }

    /// Returns the kind of the records.
    #[must_use]
    pub fn kind(&self) -> Subject {
        match self.of_kind {
            KindCondition::Individuals(_) => Subject::Individual,
            KindCondition::Groups(_) => Subject::Group,
        }
    }

    /// True if every subject of the kind meets the conditions.
    #[must_use]
    pub fn has_no_conditions(&self) -> bool {
        [Self::individuals(), Self::groups()].contains(self)
    }
}

/// A page of a result.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Page {
    /// Number of records to skip.
    pub offset: u64,
    /// Number of records to return, 1 to [`PAGE_COUNT_MAX`].
    pub count: u32,
}

impl Default for Page {
    fn default() -> Self {
        Self { offset: 0, count: PAGE_COUNT_DEFAULT }
    }
}

/// An index term of a membership. The serialized form is for checkpoints.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub enum MembershipTerm {
    /// Beneficiary.
    Beneficiary(SubjectReference),
    /// Program.
    Program(RecordId),
    /// Status.
    Status(MembershipStatus),
}

impl MembershipTerm {
    /// Returns the record field of the term.
    #[must_use]
    pub fn field(&self) -> &'static str {
        match self {
            Self::Beneficiary(_) => "beneficiary",
            Self::Program(_) => "program",
            Self::Status(_) => "status",
        }
    }
}

/// An index term of a consent. The serialized form is for checkpoints.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub enum ConsentTerm {
    /// The consenting person or group.
    Subject(SubjectReference),
    /// The grantee.
    Grantee(Organization),
}

/// Conditions on memberships, all of which must hold. Empty: every membership.
#[derive(Debug, Clone, Default)]
pub struct MembershipConditions {
    /// One term of each list; the terms of a list are of one kind.
    pub terms: Vec<Vec<MembershipTerm>>,
    /// Time of the last write.
    pub last_updated: Vec<InstantCondition>,
}

/// The sort order of a search.
#[derive(Debug, Clone, Copy)]
pub struct Sorting<'a> {
    /// Sort keys, the most important first. Empty: by the order of registration.
    pub keys: &'a [SortKey],
    /// The rank of each code number among all codes, for keys that are codes.
    pub code_ranks: &'a [u32],
}

impl Sorting<'_> {
    /// The order of registration.
    pub const REGISTERED: Self = Self { keys: &[], code_ranks: &[] };
}

/// The result of a search.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Found {
    /// Number of matching records, independent of the page.
    pub total: u64,
    /// The records of the page, in order.
    pub ids: Vec<RecordId>,
    /// Start of the next page; absent for the last page.
    pub next: Option<Position>,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn filters_follow_from_the_schema() {
        assert_eq!(date_filters(RecordKind::Individual).next(), Some("birth_date"));
        let of_people: Vec<&str> = code_filters(RecordKind::Individual).into_iter().map(CodedField::path).collect();
        assert_eq!((of_people.len(), of_people.first()), (14, Some(&"gender")));
        assert_eq!(of_people.get(12..), Some(&["address.country", "income.currency"][..]));
        let of_groups = [CodedField::GroupType, CodedField::HousingType, CodedField::AddressCountry];
        assert_eq!(code_filters(RecordKind::Group), of_groups);
    }
}
