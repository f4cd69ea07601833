//! The schema of records, one row for each field: used by bodies, `_elements`, field limits, rules, tables, stored
//! forms, and columns in memory and in the database.
//!
//! A field used by name in code has a [`Key`]; the compiler checks that the key and its row have the same shape.
//!
//! **Invariant:** a tag is stored with every value, never reused, and its shape is fixed; the rows of a table are
//! sorted by tag. [`REVISION`] counts the additions: a program preserves values written by a later revision ([`Tag`]).

pub mod page;
pub mod reporting;

use std::fmt;

use serde::{Deserialize, Serialize};

use super::address::ADDRESS;
use super::record::RecordKind;
use super::value::{END, Key, START, Shaped};
use super::vocabulary::CodedField;
use super::{consent, group, individual, program, program_membership};

/// The revision of the schema, incremented by every release that adds fields.
pub const REVISION: u16 = 1;

/// The stored number of a field, unique in its record or part.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct Tag(pub u16);

/// The kind of values of a field.
#[derive(Debug)]
pub enum Kind {
    /// True or false.
    Boolean,
    /// A whole number of 64 bits; for extension fields.
    Integer,
    /// A finite number; for extension fields.
    Number,
    /// A whole number from 1 to 4,294,967,295.
    Count,
    /// A finite number of at least 0.
    Amount,
    /// A text with a maximum length in bytes.
    Text(usize),
    /// The name of an organization.
    Organization,
    /// An expression of the rule language.
    Expression,
    /// The name of a field, such as `birth_date`.
    FieldName,
    /// A day.
    Date,
    /// One of these words; the position of a word is its stored number.
    Word(&'static [&'static str]),
    /// A code of the vocabularies of this field.
    Code(CodedField),
    /// A code of a vocabulary named by a module.
    ModuleCode,
    /// Another record of one of these kinds; the position of a kind is its stored number.
    Reference(&'static [RecordKind]),
    /// The id of a consent.
    ConsentId,
    /// A photo, in base64.
    Photo,
    /// A list of values.
    List {
        /// The kind of each item.
        of: &'static Kind,
        /// Maximum number of items.
        items_max: usize,
    },
    /// A part with fields of its own.
    Struct(&'static Struct),
}

/// The shape of values, without their limits.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Shape {
    /// `true` or `false`.
    Boolean,
    /// A whole number.
    Integer,
    /// A number.
    Number,
    /// A text.
    Text,
    /// A day.
    Date,
    /// A word.
    Word,
    /// A code.
    Code,
    /// A reference.
    Reference,
    /// The id of a consent.
    ConsentId,
    /// A photo.
    Photo,
    /// A list.
    List,
    /// A part.
    Struct,
}

/// A part of a record with fields of its own.
#[derive(Debug)]
pub struct Struct {
    /// Its name in the OpenAPI document.
    pub name: &'static str,
    /// Description in the OpenAPI document.
    pub about: &'static str,
    /// Its fields, by tag.
    pub fields: &'static [Field],
}

/// A row of the schema.
#[derive(Debug)]
pub struct Field {
    /// Its stored number.
    pub tag: Tag,
    /// Its name in bodies.
    pub name: &'static str,
    /// The kind of its values.
    pub kind: Kind,
    /// Description in the OpenAPI document; empty if the name is sufficient.
    pub about: &'static str,
    /// If it is required, the error message for a missing value.
    pub required: Option<&'static str>,
    /// True if absence means `false`: `false` is not stored, and bodies always have it.
    pub is_flag: bool,
    /// True if no body contains it: only the server writes it.
    pub is_internal: bool,
    /// True if rules can use it.
    pub in_rules: bool,
    /// True if tables of import and export omit it.
    pub is_not_tabular: bool,
    /// True if the in-memory register has a column of it, for rules, sorting and filters.
    pub has_column: bool,
    /// True if searches can sort by it.
    pub is_sortable: bool,
    /// True if searches can filter by it.
    pub is_filterable: bool,
}

impl Kind {
    /// Returns the shape of the values.
    #[must_use]
    pub const fn shape(&self) -> Shape {
        match self {
            Self::Boolean => Shape::Boolean,
            Self::Integer | Self::Count => Shape::Integer,
            Self::Number | Self::Amount => Shape::Number,
            Self::Text(_) | Self::Organization | Self::Expression | Self::FieldName => Shape::Text,
            Self::Date => Shape::Date,
            Self::Word(_) => Shape::Word,
            Self::Code(_) | Self::ModuleCode => Shape::Code,
            Self::Reference(_) => Shape::Reference,
            Self::ConsentId => Shape::ConsentId,
            Self::Photo => Shape::Photo,
            Self::List { .. } => Shape::List,
            Self::Struct(_) => Shape::Struct,
        }
    }

    /// Returns the fields of the part, or of each part in a list; otherwise none.
    #[must_use]
    pub fn parts(&self) -> &'static [Field] {
        match self {
            Self::Struct(part) => part.fields,
            Self::List { of: Self::Struct(part), .. } => part.fields,
            _ => &[],
        }
    }
}

impl Field {
    /// Creates a row.
    ///
    /// # Panics
    /// At compile time, if key and kind have different shapes.
    #[must_use]
    pub const fn new<T: Shaped>(key: Key<T>, name: &'static str, kind: Kind) -> Self {
        assert!(T::SHAPE as u8 == kind.shape() as u8, "a key has the shape of its row");
        Self {
            tag: key.tag(),
            name,
            kind,
            about: "",
            required: None,
            is_flag: false,
            is_internal: false,
            in_rules: false,
            is_not_tabular: false,
            has_column: false,
            is_sortable: false,
            is_filterable: false,
        }
    }

    /// Sets the description in the OpenAPI document.
    #[must_use]
    pub const fn about(mut self, about: &'static str) -> Self {
        self.about = about;
        self
    }

    /// Marks it as required, with the error message for a missing value.
    #[must_use]
    pub const fn required(mut self, sentence: &'static str) -> Self {
        self.required = Some(sentence);
        self
    }

    /// Marks it as a flag: absence means `false`.
    ///
    /// # Panics
    /// At compile time, if it is not Boolean.
    #[must_use]
    pub const fn flag(mut self) -> Self {
        assert!(matches!(self.kind, Kind::Boolean), "a flag is true or false");
        self.is_flag = true;
        self
    }

    /// Marks it as internal: no body contains it.
    #[must_use]
    pub const fn internal(mut self) -> Self {
        self.is_internal = true;
        self
    }

    /// Makes it available to rules.
    #[must_use]
    pub const fn in_rules(mut self) -> Self {
        self.in_rules = true;
        self
    }

    /// Excludes it from tables of import and export.
    #[must_use]
    pub const fn not_tabular(mut self) -> Self {
        self.is_not_tabular = true;
        self
    }

    /// Adds a column in the in-memory register. Parts of a list have none.
    ///
    /// # Panics
    /// At compile time, if no column type fits.
    #[must_use]
    pub const fn column(mut self) -> Self {
        let fits = matches!(
            self.kind,
            Kind::Boolean | Kind::Date | Kind::Number | Kind::Amount | Kind::Code(_) | Kind::Word(_)
        );
        assert!(fits, "a column holds one truth value, day, number, code or word of a record");
        self.has_column = true;
        self
    }

    /// Makes it sortable: by a name, or by the column of a day, a code or a word.
    ///
    /// # Panics
    /// At compile time, if it has no order.
    #[must_use]
    pub const fn sort(mut self) -> Self {
        let has_order = match self.kind {
            Kind::Text(_) | Kind::Struct(_) => true,
            Kind::Date | Kind::Code(_) | Kind::Word(_) => self.has_column,
            _ => false,
        };
        assert!(has_order, "records are put in order by a name, or by the column of a day, a code or a word");
        self.is_sortable = true;
        self
    }

    /// Makes it filterable. Filters of days and codes follow from the row; a search names those of other kinds.
    ///
    /// # Panics
    /// At compile time, if a day has no column.
    #[must_use]
    pub const fn filter(mut self) -> Self {
        assert!(self.has_column || !matches!(self.kind, Kind::Date), "days are filtered by a column");
        self.is_filterable = true;
        self
    }
}

/// Returns the fields of a kind of record, by tag, without identifiers and extension fields.
#[must_use]
pub fn fields(kind: RecordKind) -> &'static [Field] {
    match kind {
        RecordKind::Individual => individual::FIELDS,
        RecordKind::Group => group::FIELDS,
        RecordKind::Program => program::FIELDS,
        RecordKind::ProgramMembership => program_membership::FIELDS,
        RecordKind::Consent => consent::FIELDS,
    }
}

/// Returns the row of a name.
#[must_use]
pub fn find(fields: &'static [Field], name: &str) -> Option<&'static Field> {
    fields.iter().find(|field| field.name == name && !field.is_internal)
}

/// Returns the row of a tag.
#[must_use]
pub fn row(fields: &'static [Field], tag: Tag) -> Option<&'static Field> {
    fields.binary_search_by_key(&tag, |field| field.tag).ok().and_then(|at| fields.get(at))
}

impl fmt::Display for Tag {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(formatter)
    }
}

/// The fields of a period.
pub const PERIOD: Struct = Struct {
    name: "Period",
    about: "A range of days; an open end is omitted.",
    fields: &[
        Field::new(START, "start", Kind::Date).about("The first day.").in_rules(),
        Field::new(END, "end", Kind::Date).about("The last day.").in_rules(),
    ],
};

/// A list of addresses.
pub const ADDRESSES: Kind = Kind::List { of: &Kind::Struct(&ADDRESS), items_max: individual::LIST_ITEMS_MAX };

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;
    use crate::value::{Word, WordOf};

    #[test]
    fn rows_are_sorted_by_tag_and_no_name_occurs_twice() {
        fn check(fields: &[Field]) {
            assert!(fields.is_sorted_by(|one, other| one.tag < other.tag));
            let names: BTreeSet<&str> = fields.iter().map(|field| field.name).collect();
            assert_eq!(names.len(), fields.len());
            fields.iter().for_each(|field| check(field.kind.parts()));
        }
        RecordKind::ALL.into_iter().for_each(|kind| check(fields(kind)));
    }

    #[test]
    fn words_match_their_types_and_parts_of_lists_have_no_column() {
        fn check<W: Word>(fields: &'static [Field], key: Key<WordOf<W>>) {
            let kind = row(fields, key.tag()).map(|field| &field.kind);
            let Some(Kind::Word(words)) = kind else { panic!("tag {} has no words", key.tag()) };
            assert!(W::WORDS.iter().map(|word| word.word()).eq(words.iter().copied()), "{words:?}");
        }
        check(individual::TELECOMS.fields, individual::TELECOM_SYSTEM);
        check(individual::INCOMES.fields, individual::INCOME_PERIOD);
        check(program::FIELDS, program::TARGET_TYPE);
        check(program_membership::FIELDS, program_membership::STATUS);
        check(consent::FIELDS, consent::LEGAL_BASIS);
        let lists = RecordKind::ALL.into_iter().flat_map(fields).filter(|field| field.kind.shape() == Shape::List);
        assert!(lists.flat_map(|list| list.kind.parts()).all(|part| !part.has_column));
    }

    #[test]
    fn words_and_coded_fields_match_their_positions() {
        for kind in RecordKind::ALL {
            for field in fields(kind) {
                if let Kind::Code(coded) | Kind::List { of: Kind::Code(coded), .. } = &field.kind {
                    assert_eq!(coded.path(), field.name);
                }
                for part in field.kind.parts() {
                    if let Kind::Code(coded) = &part.kind {
                        assert_eq!(coded.path(), format!("{}.{}", field.name, part.name));
                    }
                }
            }
        }
    }
}
