//! Values of records: one for each field of the schema ([`super::schema`]) that something is recorded of.
//!
//! **Invariant:** the values of a record or of a part are sorted by tag, each tag at most once, and each value has the shape of its
//! field. Reading a body and reading a stored record see to it.

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

/// A record that a value refers to. `I` is how it is named: by its key in the register, by identifier in a request that has not been
/// checked yet.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Reference<I = RecordId> {
    /// Of which kind.
    pub kind: RecordKind,
    /// Which one.
    pub id: I,
}

/// One value. `C` is how codes are given: numbered in the register, as URIs in a request. `I` is how other records are named.
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
    /// One of the words of its field, by place.
    Word(u8),
    /// A code.
    Code(C),
    /// Another record.
    Reference(Reference<I>),
    /// The name of a consent.
    ConsentId(ConsentId),
    /// A photo, which is stored beside the record.
    Photo(Box<PhotoReference>),
    /// A list; an empty one means "known to be none".
    List(Vec<Self>),
    /// A part with fields of its own.
    Struct(Values<C, I>),
    /// What a program with a later revision of the schema stored in a field that this one does not know.
    Later(Box<Later>),
}

/// Values by tag.
#[derive(Clone, PartialEq)]
pub struct Values<C = CodedValue, I = RecordId>(Vec<(Tag, Value<C, I>)>);

impl<C, I> fmt::Debug for Value<C, I> {
    /// Keeps what a record says out of logs.
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Struct(values) => values.fmt(formatter),
            Self::List(items) => write!(formatter, "list of {}", items.len()),
            _ => formatter.write_str("value"),
        }
    }
}

impl<C, I> fmt::Debug for Values<C, I> {
    /// Tells which fields there are, never what they say.
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_set().entries(self.0.iter().map(|(tag, _)| tag.0)).finish()
    }
}

impl<C, I> Default for Values<C, I> {
    fn default() -> Self {
        Self(Vec::new())
    }
}

/// The name of a field in code, with the type of its values: a field that does not exist, or a value of another type, does not compile.
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
    /// The key of the field with that tag.
    #[must_use]
    pub const fn new(tag: u16) -> Self {
        Self { tag: Tag(tag), of: PhantomData }
    }

    /// Its tag.
    #[must_use]
    pub const fn tag(self) -> Tag {
        self.tag
    }
}

/// A type of values that a [`Key`] can have.
pub trait Shaped {
    /// The shape of the fields.
    const SHAPE: Shape;
}

/// How code reads and makes the values of a type.
pub trait Typed<C, I>: Shaped {
    /// A value as code reads it.
    type Ref<'v>
    where
        C: 'v,
        I: 'v;
    /// A value as code gives it.
    type Owned;

    /// The value, where it has the shape.
    fn read(value: &Value<C, I>) -> Option<Self::Ref<'_>>;

    /// A value.
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

/// Declares how the values of types are read and made: the shape, what code reads, and what it gives.
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

/// One of a few words, as an enum. The place of a word is its stored number: words are added at the end and never reordered.
pub trait Word: Copy + Sized + 'static {
    /// Every word, in the order of the stored numbers.
    const WORDS: &'static [Self];

    /// The word in bodies.
    fn word(self) -> &'static str;
}

/// Lets enums be words: with the variants that a field has, in the order of their stored numbers.
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
    /// Whether nothing is recorded.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Every value with its tag, by tag.
    pub fn iter(&self) -> impl ExactSizeIterator<Item = (Tag, &Value<C, I>)> {
        self.0.iter().map(|(tag, value)| (*tag, value))
    }

    /// The value of a field.
    pub fn get<T: Typed<C, I>>(&self, key: Key<T>) -> Option<T::Ref<'_>> {
        T::read(self.value(key.tag)?)
    }

    /// The items of a list field; nothing where nothing is recorded.
    pub fn items<T: Typed<C, I>>(&self, key: Key<List<T>>) -> impl Iterator<Item = T::Ref<'_>> {
        let items = if let Some(Value::List(items)) = self.value(key.tag) { items.as_slice() } else { &[] };
        items.iter().filter_map(T::read)
    }

    /// Whether something is recorded in a field.
    #[must_use]
    pub fn has<T>(&self, key: Key<T>) -> bool {
        self.value(key.tag).is_some()
    }

    /// Records a value, or takes it out.
    pub fn set<T: Typed<C, I>>(&mut self, key: Key<T>, value: Option<T::Owned>) {
        self.put(key.tag, value.map(T::make));
    }

    /// The same values with that one.
    #[must_use]
    pub fn with<T: Typed<C, I>>(mut self, key: Key<T>, value: impl Into<Option<T::Owned>>) -> Self {
        self.set(key, value.into());
        self
    }

    /// The value of the field with that tag, whatever its shape.
    #[must_use]
    pub fn value(&self, tag: Tag) -> Option<&Value<C, I>> {
        let found = self.0.binary_search_by_key(&tag, |(known, _)| *known).ok()?;
        self.0.get(found).map(|(_, value)| value)
    }

    /// Records a value under a tag, or removes it. The caller knows the shape of the field.
    pub fn put(&mut self, tag: Tag, value: Option<Value<C, I>>) {
        // Readers go through a schema in the order of tags, so nearly every value comes last.
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

    /// Every reference to another record, those within lists and parts included.
    pub fn references(&self) -> Vec<&Reference<I>> {
        let mut references = Vec::new();
        self.0.iter().for_each(|(_, value)| value.gather_references(&mut references));
        references
    }

    /// Takes the value under a tag out.
    pub fn take(&mut self, tag: Tag) -> Option<Value<C, I>> {
        let at = self.0.binary_search_by_key(&tag, |(known, _)| *known).ok()?;
        Some(self.0.remove(at).1)
    }

    /// The tags under which the two differ, by tag.
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

/// Values in the order of a schema's rows, as readers make them.
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

/// Where a code of a record stands.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum CodePlace<'a> {
    /// In a field that every registry has.
    Field(CodedField),
    /// In a field that a module adds.
    Extension(&'a super::manifest::ExtensionPath),
}

/// What becomes of the codes and references of values, one after the other.
pub trait Translate<C, I> {
    /// How codes are given afterwards.
    type Code;
    /// How other records are named afterwards.
    type Id;

    /// A code in a field, which stands at `path` of the record.
    fn code(&mut self, place: CodePlace<'_>, path: &str, code: C) -> Self::Code;

    /// A reference, which stands at `path` of the record.
    fn reference(&mut self, path: &str, reference: Reference<I>) -> Reference<Self::Id>;
}

impl<C, I> Values<C, I> {
    /// Every code of fields of a schema, those within lists and parts included.
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

    /// The same values with every code and reference translated. `path` is where they stand in the record, with a dot behind it, or
    /// nothing.
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

/// Values with the rows of their fields; what a newer program stored is left out.
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
    /// Every reference to another record in it.
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

    /// The same value with every code and reference translated; `path` is where it stands.
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
                // A value that does not fit its field is never made; it would be shown as it is.
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
