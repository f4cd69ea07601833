//! Values of records: one for each field of the schema ([`super::schema`]) with a recorded value.
//!
//! **Invariant:** the values of a record or of a part are sorted by tag, each tag at most once, and each value has the
//! shape of its field. Parsing of bodies and of stored records ensures this.

mod later;

use std::fmt;
use std::marker::PhantomData;

use jiff::civil::Date;

use super::calendar::Period;
use super::code::CodedValue;
use super::consent::{CONSENT_RESOURCES, ConsentId};
use super::individual::{IncomePeriod, TelecomSystem};
use super::organization::LegalBasis;
use super::photo::PhotoReference;
use super::program_membership::MembershipStatus;
use super::record::{RecordId, RecordKind};
use super::schema::{self, Field, Kind, Shape, Tag};
use super::scope::Resource;
use super::subject::Subject;
use super::vocabulary::CodedField;

pub use self::later::Later;

/// A reference to another record. `I` is its representation: a key in the register, an identifier in a request that is
/// not validated yet.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Reference<I = RecordId> {
    /// The kind.
    pub kind: RecordKind,
    /// The key or identifier.
    pub id: I,
}

/// One value. `C` is the representation of codes: numbers in the register, URIs in a request. `I` that of references.
#[derive(Clone, PartialEq)]
pub enum Value<C = CodedValue, I = RecordId> {
    /// True or false.
    Boolean(bool),
    /// A whole number.
    Integer(i64),
    /// A finite number.
    Number(f64),
    /// A text.
    Text(Box<str>),
    /// A day.
    Date(Date),
    /// One of the words of its field, by position.
    Word(u8),
    /// A code.
    Code(C),
    /// Another record.
    Reference(Reference<I>),
    /// The id of a consent.
    ConsentId(ConsentId),
    /// A photo, which is stored separately from the record.
    Photo(Box<PhotoReference>),
    /// A list; an empty one means "known to be none".
    List(Vec<Self>),
    /// A part with fields of its own.
    Struct(Values<C, I>),
    /// The value of an unknown field, stored by a program with a later revision of the schema.
    Later(Box<Later>),
}

/// Values by tag.
#[derive(Clone, PartialEq)]
pub struct Values<C = CodedValue, I = RecordId>(Vec<(Tag, Value<C, I>)>);

impl<C, I> fmt::Debug for Value<C, I> {
    /// Keeps the content of records out of logs.
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Struct(values) => values.fmt(formatter),
            Self::List(items) => write!(formatter, "list of {}", items.len()),
            _ => formatter.write_str("value"),
        }
    }
}

impl<C, I> fmt::Debug for Values<C, I> {
    /// Prints the names of the fields, never their values.
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_set().entries(self.0.iter().map(|(tag, _)| tag.0)).finish()
    }
}

impl<C, I> Default for Values<C, I> {
    fn default() -> Self {
        Self(Vec::new())
    }
}

/// A typed key of a field: an unknown field, or a value of another type, does not compile.
#[derive(Debug)]
pub struct Key<T> {
    tag: Tag,
    of: PhantomData<fn() -> T>,
}

impl<T> Clone for Key<T> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<T> Copy for Key<T> {}

impl<T> Key<T> {
    /// Creates the key of the field with a tag.
    #[must_use]
    pub const fn new(tag: u16) -> Self {
        Self { tag: Tag(tag), of: PhantomData }
    }

    /// Returns its tag.
    #[must_use]
    pub const fn tag(self) -> Tag {
        self.tag
    }
}

/// A type of values for a [`Key`].
pub trait Shaped {
    /// The shape of the fields.
    const SHAPE: Shape;
}

/// Conversion between stored values and their Rust types.
pub trait Typed<C, I>: Shaped {
    /// The borrowed form of a value.
    type Ref<'v>
    where
        C: 'v,
        I: 'v;
    /// The owned form of a value.
    type Owned;

    /// Returns the value if it has the shape.
    fn read(value: &Value<C, I>) -> Option<Self::Ref<'_>>;

    /// Creates a value.
    fn make(owned: Self::Owned) -> Value<C, I>;
}

/// A text.
#[derive(Debug)]
pub struct Text;
/// A code.
#[derive(Debug)]
pub struct Code;
/// A reference to another record.
#[derive(Debug)]
pub struct Link;
/// A list of values of one type.
#[derive(Debug)]
pub struct List<T>(PhantomData<fn() -> T>);
/// A part with fields of its own.
#[derive(Debug)]
pub struct Part;

/// Declares the conversions of types: the shape, the borrowed form and the owned form.
macro_rules! typed {
    ($($type:ty, $shape:ident: $value:pat => $read:expr, as $read_type:ty; $given:ident as $owned:ty => $make:expr;)+) => {$(
        impl Shaped for $type {
            const SHAPE: Shape = Shape::$shape;
        }

        impl<C, I> Typed<C, I> for $type {
            type Ref<'v> = $read_type where C: 'v, I: 'v;
            type Owned = $owned;

            fn read(value: &Value<C, I>) -> Option<Self::Ref<'_>> {
                if let $value = value { Some($read) } else { None }
            }

            fn make($given: $owned) -> Value<C, I> {
                $make
            }
        }
    )+};
}

typed! {
    bool, Boolean: Value::Boolean(value) => *value, as bool; value as bool => Value::Boolean(value);
    i64, Integer: Value::Integer(value) => *value, as i64; value as i64 => Value::Integer(value);
    f64, Number: Value::Number(value) => *value, as f64; value as f64 => Value::Number(value);
    Date, Date: Value::Date(value) => *value, as Date; value as Date => Value::Date(value);
    ConsentId, ConsentId: Value::ConsentId(value) => *value, as ConsentId; value as ConsentId => Value::ConsentId(value);
    PhotoReference, Photo: Value::Photo(value) => **value, as PhotoReference;
        value as PhotoReference => Value::Photo(Box::new(value));
    Text, Text: Value::Text(text) => text, as &'v str; text as String => Value::Text(text.into());
    Code, Code: Value::Code(code) => code, as &'v C; code as C => Value::Code(code);
    Link, Reference: Value::Reference(reference) => reference, as &'v Reference<I>;
        reference as Reference<I> => Value::Reference(reference);
    Part, Struct: Value::Struct(values) => values, as &'v Values<C, I>;
        values as Values<C, I> => Value::Struct(values);
    Period, Struct: Value::Struct(values) => Self { start: values.get(START), end: values.get(END) }, as Self;
        period as Self => Value::Struct(Values::default().with(START, period.start).with(END, period.end));
}

/// A word of a fixed list, as an enum. Its position is its stored number: words are only appended.
pub trait Word: Copy + Sized + 'static {
    /// Every word, in the order of the stored numbers.
    const WORDS: &'static [Self];

    /// Returns the word in bodies.
    fn word(self) -> &'static str;
}

/// Implements words for enums: the variants of a field, in the order of their stored numbers.
macro_rules! words {
    ($($type:ty: $words:expr;)+) => {$(
        impl Word for $type {
            const WORDS: &'static [Self] = $words;

            fn word(self) -> &'static str {
                self.name()
            }
        }
    )+};
}

words! {
    Subject: &Self::ALL;
    Resource: &CONSENT_RESOURCES;
    LegalBasis: &Self::ALL;
    MembershipStatus: &Self::ALL;
    TelecomSystem: &Self::ALL;
    IncomePeriod: &Self::ALL;
}

/// A field whose values are the words of an enum.
#[derive(Debug)]
pub struct WordOf<W>(PhantomData<fn() -> W>);

impl<W: Word> Shaped for WordOf<W> {
    const SHAPE: Shape = Shape::Word;
}

impl<C, I, W: Word + PartialEq> Typed<C, I> for WordOf<W> {
    type Ref<'v>
        = W
    where
        C: 'v,
        I: 'v;
    type Owned = W;

    fn read(value: &Value<C, I>) -> Option<W> {
        if let Value::Word(place) = value { W::WORDS.get(usize::from(*place)).copied() } else { None }
    }

    fn make(word: W) -> Value<C, I> {
        let place = W::WORDS.iter().position(|known| *known == word).unwrap_or_default();
        // No enum has more than 255 words.
        Value::Word(place as u8)
    }
}

impl<T> Shaped for List<T> {
    const SHAPE: Shape = Shape::List;
}

impl<C, I, T: Typed<C, I>> Typed<C, I> for List<T> {
    type Ref<'v>
        = &'v [Value<C, I>]
    where
        C: 'v,
        I: 'v;
    type Owned = Vec<T::Owned>;

    fn read(value: &Value<C, I>) -> Option<&[Value<C, I>]> {
        if let Value::List(items) = value { Some(items) } else { None }
    }

    fn make(items: Vec<T::Owned>) -> Value<C, I> {
        Value::List(items.into_iter().map(T::make).collect())
    }
}

/// The first day of a period.
pub const START: Key<Date> = Key::new(1);
/// The last day of a period.
pub const END: Key<Date> = Key::new(2);

impl<C, I> Values<C, I> {
    /// True if nothing is recorded.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Returns every value with its tag, by tag.
    pub fn iter(&self) -> impl ExactSizeIterator<Item = (Tag, &Value<C, I>)> {
        self.0.iter().map(|(tag, value)| (*tag, value))
    }

    /// Returns the value of a field.
    pub fn get<T: Typed<C, I>>(&self, key: Key<T>) -> Option<T::Ref<'_>> {
        T::read(self.value(key.tag)?)
    }

    /// Returns the items of a list field; none if nothing is recorded.
    pub fn items<T: Typed<C, I>>(&self, key: Key<List<T>>) -> impl Iterator<Item = T::Ref<'_>> {
        let items = if let Some(Value::List(items)) = self.value(key.tag) { items.as_slice() } else { &[] };
        items.iter().filter_map(T::read)
    }

    /// True if the field has a value.
    #[must_use]
    pub fn has<T>(&self, key: Key<T>) -> bool {
        self.value(key.tag).is_some()
    }

    /// Sets or removes a value.
    pub fn set<T: Typed<C, I>>(&mut self, key: Key<T>, value: Option<T::Owned>) {
        self.put(key.tag, value.map(T::make));
    }

    /// Sets a value.
    #[must_use]
    pub fn with<T: Typed<C, I>>(mut self, key: Key<T>, value: impl Into<Option<T::Owned>>) -> Self {
        self.set(key, value.into());
        self
    }

    /// Returns the value of the field with a tag, of any shape.
    #[must_use]
    pub fn value(&self, tag: Tag) -> Option<&Value<C, I>> {
        let found = self.0.binary_search_by_key(&tag, |(known, _)| *known).ok()?;
        self.0.get(found).map(|(_, value)| value)
    }

    /// Sets or removes the value of a tag. The caller ensures the shape of the field.
    pub fn put(&mut self, tag: Tag, value: Option<Value<C, I>>) {
        // Readers follow the schema in the order of tags, so most values are appended.
        let place = match self.0.last() {
            Some((last, _)) if *last >= tag => self.0.binary_search_by_key(&tag, |(known, _)| *known),
            _ => Err(self.0.len()),
        };
        match (place, value) {
            (Ok(at), Some(value)) => {
                if let Some((_, known)) = self.0.get_mut(at) {
                    *known = value;
                }
            }
            (Ok(at), None) => drop(self.0.remove(at)),
            (Err(at), Some(value)) => self.0.insert(at, (tag, value)),
            (Err(_), None) => {}
        }
    }

    /// Returns every reference to another record, including lists and parts.
    pub fn references(&self) -> Vec<&Reference<I>> {
        let mut references = Vec::new();
        self.0.iter().for_each(|(_, value)| value.gather_references(&mut references));
        references
    }

    /// Removes and returns the value of a tag.
    pub fn take(&mut self, tag: Tag) -> Option<Value<C, I>> {
        let at = self.0.binary_search_by_key(&tag, |(known, _)| *known).ok()?;
        Some(self.0.remove(at).1)
    }

    /// Returns the tags with different values, by tag.
    pub fn differences<'v>(&'v self, other: &'v Self) -> impl Iterator<Item = Tag> + 'v
    where
        C: PartialEq,
        I: PartialEq,
    {
        let only_there = other.iter().filter(|(tag, _)| self.value(*tag).is_none()).map(|(tag, _)| tag);
        let changed = self.iter().filter(|(tag, value)| other.value(*tag) != Some(*value)).map(|(tag, _)| tag);
        let mut tags: Vec<Tag> = changed.chain(only_there).collect();
        tags.sort_unstable();
        tags.into_iter()
    }
}

/// Collects values in the order of a schema's rows, as produced by readers.
impl<C, I> FromIterator<(Tag, Value<C, I>)> for Values<C, I> {
    fn from_iter<T: IntoIterator<Item = (Tag, Value<C, I>)>>(values: T) -> Self {
        let mut all: Vec<_> = values.into_iter().collect();
        if !all.is_sorted_by_key(|(tag, _)| *tag) {
            all.sort_by_key(|(tag, _)| *tag);
        }
        all.dedup_by_key(|(tag, _)| *tag);
        Self(all)
    }
}

/// The location of a code in a record.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum CodePlace<'a> {
    /// A field of the schema.
    Field(CodedField),
    /// An extension field.
    Extension(&'a super::manifest::ExtensionPath),
}

/// A translation of the codes and references of values, called sequentially.
pub trait Translate<C, I> {
    /// The resulting representation of codes.
    type Code;
    /// The resulting representation of references.
    type Id;

    /// Translates a code of a field, at `path` in the record.
    fn code(&mut self, place: CodePlace<'_>, path: &str, code: C) -> Self::Code;

    /// Translates a reference, at `path` in the record.
    fn reference(&mut self, path: &str, reference: Reference<I>) -> Reference<Self::Id>;
}

impl<C, I> Values<C, I> {
    /// Returns every code of the fields of a schema, including lists and parts.
    pub fn codes<'v>(&'v self, fields: &'static [Field]) -> Vec<(CodedField, &'v C)> {
        let mut codes = Vec::new();
        self.gather_codes(fields, &mut codes);
        codes
    }

    fn gather_codes<'v>(&'v self, fields: &'static [Field], codes: &mut Vec<(CodedField, &'v C)>) {
        for (field, value) in in_order(fields, self.iter()) {
            value.gather_codes(&field.kind, codes);
        }
    }

    /// Translates every code and reference. `path` is the position in the record, with a trailing dot, or empty.
    pub fn translate<T: Translate<C, I>>(
        self,
        fields: &'static [Field],
        path: &str,
        translate: &mut T,
    ) -> Values<T::Code, T::Id> {
        let mut translated = Vec::with_capacity(self.0.len());
        for (tag, value) in self.0 {
            if let Value::Later(bytes) = value {
                translated.push((tag, Value::Later(bytes)));
                continue;
            }
            let Some(field) = schema::row(fields, tag) else { continue };
            translated.push((tag, value.translate(&field.kind, &format!("{path}{}", field.name), translate)));
        }
        Values(translated)
    }
}

/// Returns values with the rows of their fields, without fields of a later revision.
pub fn in_order<'v, V>(
    fields: &'static [Field],
    values: impl Iterator<Item = (Tag, V)> + 'v,
) -> impl Iterator<Item = (&'static Field, V)> + 'v {
    let mut rows = fields.iter().peekable();
    values.filter_map(move |(tag, value)| {
        while rows.next_if(|field| field.tag < tag).is_some() {}
        rows.next_if(|field| field.tag == tag).map(|field| (field, value))
    })
}

impl<C, I> Value<C, I> {
    /// Returns every reference to another record in the value.
    pub fn references(&self) -> Vec<&Reference<I>> {
        let mut references = Vec::new();
        self.gather_references(&mut references);
        references
    }

    fn gather_references<'v>(&'v self, references: &mut Vec<&'v Reference<I>>) {
        match self {
            Self::Reference(reference) => references.push(reference),
            Self::List(items) => items.iter().for_each(|item| item.gather_references(references)),
            Self::Struct(values) => values.0.iter().for_each(|(_, value)| value.gather_references(references)),
            _ => {}
        }
    }

    fn gather_codes<'v>(&'v self, kind: &'static Kind, codes: &mut Vec<(CodedField, &'v C)>) {
        match (self, kind) {
            (Self::Code(code), Kind::Code(field)) => codes.push((*field, code)),
            (Self::List(items), Kind::List { of, .. }) => items.iter().for_each(|item| item.gather_codes(of, codes)),
            (Self::Struct(values), Kind::Struct(part)) => values.gather_codes(part.fields, codes),
            _ => {}
        }
    }

    /// Translates every code and reference; `path` is the position of the value.
    fn translate<T: Translate<C, I>>(self, kind: &'static Kind, path: &str, to: &mut T) -> Value<T::Code, T::Id> {
        match self {
            Self::Boolean(value) => Value::Boolean(value),
            Self::Integer(value) => Value::Integer(value),
            Self::Number(value) => Value::Number(value),
            Self::Text(value) => Value::Text(value),
            Self::Date(value) => Value::Date(value),
            Self::Word(value) => Value::Word(value),
            Self::ConsentId(value) => Value::ConsentId(value),
            Self::Photo(value) => Value::Photo(value),
            Self::Later(bytes) => Value::Later(bytes),
            Self::Code(code) => match kind {
                Kind::Code(field) => Value::Code(to.code(CodePlace::Field(*field), path, code)),
                // No value has a kind that does not fit its field; it would be returned unchanged.
                _ => Value::Code(to.code(CodePlace::Field(CodedField::ALL[0]), path, code)),
            },
            Self::Reference(reference) => Value::Reference(to.reference(path, reference)),
            Self::List(items) => {
                let of = if let Kind::List { of, .. } = kind { of } else { kind };
                let items = items.into_iter().enumerate();
                Value::List(items.map(|(at, item)| item.translate(of, &format!("{path}[{at}]"), to)).collect())
            }
            Self::Struct(values) => match kind {
                Kind::Struct(part) => Value::Struct(values.translate(part.fields, &format!("{path}."), to)),
                _ => Value::Struct(Values::default()),
            },
        }
    }
}
