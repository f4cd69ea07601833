//! What can be asked of the register.
//!
//! Which days, codes and whole texts a search filters by follows from the schema: [`date_filters`], [`code_filters`], [`PhraseField`].

pub mod found;
pub mod instant;
pub mod order;
pub mod phrase;
pub mod terms;

use std::borrow::Cow;
use std::collections::{BTreeMap, BTreeSet};

use jiff::civil::Date;

use super::code::CodeNumber;
use super::extension::EXTENSION;
use super::identifier::IdentifierKey;
use super::manifest::ExtensionPath;
use super::record::{RecordId, RecordKind};
use super::schema::{self, Field, Kind};
use super::vocabulary::CodedField;
use instant::InstantCondition;
use phrase::PhraseField;

/// The most records of one page.
pub const PAGE_COUNT_MAX: u32 = 100;
/// The records of a page where nothing is asked.
pub const PAGE_COUNT_DEFAULT: u32 = 20;

/// How a day is compared.
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
    /// Whether it holds between something and all that lies from `first` to `last`.
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
    /// How it is compared.
    pub operator: DateOperator,
    /// With which day.
    pub date: Date,
}

impl DateCondition {
    /// Whether a day meets the condition.
    #[must_use]
    pub fn holds(&self, day: Date) -> bool {
        self.operator.holds(day, self.date, self.date)
    }
}

/// Conditions on the days of a record by the name of the field, at least one each; all must hold.
pub type DateConditions = BTreeMap<&'static str, Vec<DateCondition>>;

/// The days that records of a kind are filtered by: the names of the fields, in the order of the schema.
pub fn date_filters(kind: RecordKind) -> impl Iterator<Item = &'static str> {
    let is_filter = |field: &&Field| field.is_filterable && matches!(field.kind, Kind::Date);
    schema::fields(kind).iter().filter(is_filter).map(|field| field.name)
}

/// The fields that records of a kind are filtered by code in, those within parts included, in the order of the schema.
#[must_use]
pub fn code_filters(kind: RecordKind) -> Vec<CodedField> {
    let fields = schema::fields(kind).iter().flat_map(|field| std::iter::once(field).chain(field.kind.parts()));
    let coded = fields.filter(|field| field.is_filterable).filter_map(|field| match &field.kind {
        Kind::Code(coded) | Kind::List { of: Kind::Code(coded), .. } => Some(*coded),
        _ => None,
    });
    coded.collect()
}

/// Where a code that is looked for stands.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum CodedPlace {
    /// In a field that every registry has.
    Field(CodedField),
    /// In a field that a module adds.
    Extension(ExtensionPath),
}

impl CodedPlace {
    /// The field of the record that it stands in, as clients are granted fields: those of modules by module.
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

/// One condition on a coded field: it holds any of these codes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CodeCondition {
    /// The field; where it holds a list, one of its codes is enough.
    pub field: CodedPlace,
    /// The codes. None at all matches nothing.
    pub any_of: Vec<CodeNumber>,
}

/// A condition on where a person belongs on a day: the places in groups that are not set aside and whose period holds the day.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct PlaceCondition {
    /// The day, in days since 1970-01-01.
    pub day: i32,
    /// The person has no place in any group.
    pub is_none: bool,
    /// For each of these the person has a place in one of the groups, in one of the roles where roles are asked for.
    pub groups: Vec<Vec<RecordId>>,
    /// The roles, any of each list; of the same place as the group where one is named.
    pub roles: Vec<Vec<CodeNumber>>,
}

/// Conditions on texts, all of which must hold.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct TextConditions {
    /// Words, each of which begins a word of the name, in the form of [`super::person_name::search_words`].
    pub name_words: Vec<String>,
    /// Words, each of which begins a word of any part of any address, in the same form.
    pub address_words: Vec<String>,
    /// Whole texts within parts, such as regions of addresses, in the form of [`super::person_name::search_phrase`].
    pub phrases: Vec<(PhraseField, String)>,
}

impl TextConditions {
    /// The fields that they look at, each once.
    #[must_use]
    pub fn fields(&self) -> BTreeSet<&'static str> {
        let name = (!self.name_words.is_empty()).then_some("name");
        let address = (!self.address_words.is_empty()).then_some("address");
        name.into_iter().chain(address).chain(self.phrases.iter().map(|(field, _)| field.field)).collect()
    }
}

/// Conditions on individuals, all of which must hold. Empty: everybody.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct IndividualQuery {
    /// Has that identifier, open or ended; each of them.
    pub identifiers: Vec<IdentifierKey>,
    /// Conditions on texts.
    pub texts: TextConditions,
    /// Conditions on days.
    pub dates: DateConditions,
    /// Conditions on coded fields.
    pub codes: Vec<CodeCondition>,
    /// Whether the record is in use; a record that does not say is in use.
    pub active: Option<bool>,
    /// Where the person belongs.
    pub place: Option<PlaceCondition>,
    /// When the record was last written.
    pub last_updated: Vec<InstantCondition>,
}

/// Conditions on groups, all of which must hold. Empty: every group.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct GroupQuery {
    /// Has that identifier, open or ended; each of them.
    pub identifiers: Vec<IdentifierKey>,
    /// Conditions on texts.
    pub texts: TextConditions,
    /// Conditions on days.
    pub dates: DateConditions,
    /// Conditions on coded fields.
    pub codes: Vec<CodeCondition>,
    /// Whether the record is in use; a record that does not say is in use.
    pub active: Option<bool>,
    /// For each of these one of the people has a place in the group on [`GroupQuery::day`].
    pub members: Vec<Vec<RecordId>>,
    /// The day on which members count, in days since 1970-01-01.
    pub day: i32,
    /// When the record was last written.
    pub last_updated: Vec<InstantCondition>,
}

/// Conditions on subjects of one kind.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum SubjectQuery {
    /// On people.
    Individuals(IndividualQuery),
    /// On groups.
    Groups(GroupQuery),
}

impl SubjectQuery {
    /// Whether every subject meets it.
    #[must_use]
    pub fn is_everybody(&self) -> bool {
        match self {
            Self::Individuals(query) => *query == IndividualQuery::default(),
            // The day counts for members alone.
            Self::Groups(query) => *query == GroupQuery { day: query.day, ..GroupQuery::default() },
        }
    }
}

/// Which part of an answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Page {
    /// How many records to skip.
    pub offset: u64,
    /// How many to give, 1 to [`PAGE_COUNT_MAX`].
    pub count: u32,
}

impl Default for Page {
    fn default() -> Self {
        Self { offset: 0, count: PAGE_COUNT_DEFAULT }
    }
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
