//! The schema of records: one row for each field. Everything that goes through the fields of a record goes through these rows: bodies,
//! `_elements`, field limits, rules, tables, stored forms, columns in memory and in the database.
//!
//! A field that code needs by name has a [`Key`] beside its row; that key and row agree on the shape is checked at compile time.
//!
//! **Invariant:** a tag is stored with every value. It is never given to another field, and a field keeps its shape; the rows of a table
//! are sorted by tag. [`REVISION`] counts the additions: a program keeps what a newer revision wrote ([`Tag`]).

use std::fmt;

use serde::{Deserialize, Serialize};

use super::address::ADDRESS;
use super::record::RecordKind;
use super::value::{END, Key, START, Shaped};
use super::vocabulary::CodedField;
use super::{consent, group, individual, program, program_membership};

/// The revision of the schema, raised by every release that adds fields.
pub const REVISION: u16 = 1;

/// The stored number of a field, among the fields of its record or part.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct Tag(pub u16);

/// What the values of a field are.
#[derive(Debug)]
pub enum Kind {
    /// True or false.
    Boolean,
    /// A whole number of 64 bits; fields of modules have it.
    Integer,
    /// A finite number; fields of modules have it.
    Number,
    /// A whole number from 1 to 4,294,967,295.
    Count,
    /// A finite number of at least 0.
    Amount,
    /// A text of at most so many bytes.
    Text(usize),
    /// The name of an organization.
    Organization,
    /// An expression of the rule language.
    Expression,
    /// The name of a field, such as `birth_date`.
    FieldName,
    /// A day.
    Date,
    /// One of these words; the place of a word is its stored number.
    Word(&'static [&'static str]),
    /// A code of the vocabularies of that field.
    Code(CodedField),
    /// A code of a vocabulary that a module names.
    ModuleCode,
    /// Another record of one of these kinds.
    Reference(&'static [RecordKind]),
    /// The name of a consent.
    ConsentId,
    /// A photo, in base64.
    Photo,
    /// A list of values.
    List {
        /// Each of this kind.
        of: &'static Kind,
        /// At most so many.
        items_max: usize,
    },
    /// A part with fields of its own.
    Struct(&'static Struct),
}

/// The shape of values, without what limits them.
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
    /// The name of a consent.
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
    /// What it is, for the OpenAPI document.
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
    /// What its values are.
    pub kind: Kind,
    /// What it says, for the OpenAPI document; nothing where the name says it.
    pub about: &'static str,
    /// Where it is needed, the sentence that a client is told that leaves it out.
    pub required: Option<&'static str>,
    /// Whether it stands in no body: the server alone writes it.
    pub is_internal: bool,
    /// Whether rules can use it.
    pub in_rules: bool,
    /// Whether tables of import and export leave it out.
    pub is_not_tabular: bool,
}

impl Kind {
    /// The shape of the values.
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

    /// The fields of the part, or of each part in a list; none of anything else.
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
    /// A row.
    ///
    /// # Panics
    /// At compile time, where key and kind have different shapes.
    #[must_use]
    pub const fn new<T: Shaped>(key: Key<T>, name: &'static str, kind: Kind) -> Self {
        assert!(T::SHAPE as u8 == kind.shape() as u8, "a key has the shape of its row");
        Self {
            tag: key.tag(),
            name,
            kind,
            about: "",
            required: None,
            is_internal: false,
            in_rules: false,
            is_not_tabular: false,
        }
    }

    /// What it says, for the OpenAPI document.
    #[must_use]
    pub const fn about(mut self, about: &'static str) -> Self {
        self.about = about;
        self
    }

    /// It is needed; the sentence tells a client that leaves it out.
    #[must_use]
    pub const fn required(mut self, sentence: &'static str) -> Self {
        self.required = Some(sentence);
        self
    }

    /// It stands in no body.
    #[must_use]
    pub const fn internal(mut self) -> Self {
        self.is_internal = true;
        self
    }

    /// Rules can use it.
    #[must_use]
    pub const fn in_rules(mut self) -> Self {
        self.in_rules = true;
        self
    }

    /// Tables of import and export leave it out.
    #[must_use]
    pub const fn not_tabular(mut self) -> Self {
        self.is_not_tabular = true;
        self
    }
}

/// The fields of a kind of record, by tag. Identifiers, and fields that modules add, come on top.
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

/// The row of a name among rows.
#[must_use]
pub fn find(fields: &'static [Field], name: &str) -> Option<&'static Field> {
    fields.iter().find(|field| field.name == name && !field.is_internal)
}

/// The row of a tag among rows.
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
    about: "The first and the last day; either may be open.",
    fields: &[Field::new(START, "start", Kind::Date), Field::new(END, "end", Kind::Date)],
};

/// A list of addresses.
pub const ADDRESSES: Kind = Kind::List { of: &Kind::Struct(&ADDRESS), items_max: individual::LIST_ITEMS_MAX };

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

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
    fn words_and_coded_fields_stand_where_they_say() {
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
