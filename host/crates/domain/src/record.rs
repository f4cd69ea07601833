//! What every stored record has in common.

use std::collections::BTreeSet;
use std::fmt;
use std::marker::PhantomData;
use std::ops::{Deref, DerefMut};

use jiff::Timestamp;
use serde::{Deserialize, Serialize};

use super::client::ClientId;
use super::code::CodedValue;
use super::extension::Extension;
use super::identifier::Identifier;
use super::schema::{self, Field};
use super::scope::Resource;
use super::value::{CodePlace, Key, Translate, Typed, Values};
use super::vocabulary::CodedField;

/// The registry's own key of a record, counted up from 1 for each kind. No client sees it; its serialized form is for checkpoints.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct RecordId(pub u64);

impl RecordId {
    /// Set in keys that are not given yet: no register ever holds so many records.
    const PENDING: u64 = 1 << 63;

    /// The key of a record that is still to be written, the `number`th of its kind that one write creates, counted from 1. It
    /// means something within that write alone: the store puts the key that it gives in its place.
    #[must_use]
    pub fn pending(number: u64) -> Self {
        Self(Self::PENDING | number)
    }

    /// Which of the records that its write creates it names, where the key is not given yet.
    #[must_use]
    pub fn pending_number(self) -> Option<u64> {
        (self.0 & Self::PENDING != 0).then_some(self.0 & !Self::PENDING)
    }
}

/// How often a record has been written: 1 after its creation.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct VersionId(pub u64);

impl VersionId {
    /// The version of a record just created.
    pub const FIRST: Self = Self(1);

    /// The version after this one.
    #[must_use]
    pub fn next(self) -> Self {
        Self(self.0.saturating_add(1))
    }
}

impl fmt::Display for VersionId {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "{}", self.0)
    }
}

/// At which versions a change may find a record.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum VersionCondition {
    /// At whatever version it is.
    Any,
    /// At one of these; at least one.
    OneOf(Vec<VersionId>),
}

impl VersionCondition {
    /// The version that was expected, where the record is at none of those.
    #[must_use]
    pub fn unmet_at(&self, actual: VersionId) -> Option<VersionId> {
        match self {
            Self::Any => None,
            Self::OneOf(versions) if versions.contains(&actual) => None,
            Self::OneOf(versions) => Some(versions.first().copied().unwrap_or(VersionId(0))),
        }
    }
}

named_enum! {
    /// The kinds of record, each before those whose records name its records: so they are exported, and an import takes them. Their serialized
    /// form, their place here, is that of backups: the order stays, and a new kind comes last.
    #[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
    pub enum RecordKind {
        /// A person.
        Individual = "Individual",
        /// A household or another group.
        Group = "Group",
        /// A program.
        Program = "Program",
        /// A place in a program.
        ProgramMembership = "ProgramMembership",
        /// A consent.
        Consent = "Consent",
    }
}

impl RecordKind {
    /// Its place in [`RecordKind::ALL`].
    #[must_use]
    pub fn place(self) -> usize {
        self as usize
    }

    /// What scopes call it.
    #[must_use]
    pub fn resource(self) -> Resource {
        match self {
            Self::Individual => Resource::Individual,
            Self::Group => Resource::Group,
            Self::Program => Resource::Program,
            Self::ProgramMembership => Resource::ProgramMembership,
            Self::Consent => Resource::Consent,
        }
    }
}

impl fmt::Display for RecordKind {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(self.name())
    }
}

/// When a record was last written, by whom, and how often.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RecordMeta {
    /// How often it has been written.
    pub version: VersionId,
    /// When it was last written.
    pub last_updated: Timestamp,
    /// The client that wrote it; absent where the administrator or a command did.
    pub source: Option<ClientId>,
}

/// A type of record.
pub trait RecordType {
    /// Which kind.
    const KIND: RecordKind;
}

/// What a record says. `T` is its type, `C` how codes are given and `I` how other records are named: by number and key in the register, by
/// URI and identifier in a request that has not been checked yet.
pub struct Fields<T, C = CodedValue, I = RecordId> {
    /// Under which it is found.
    pub identifiers: Vec<Identifier>,
    /// The fields of the schema.
    pub values: Values<C, I>,
    /// The fields that modules add.
    pub extension: Extension<C>,
    of: PhantomData<fn() -> T>,
}

impl<T, C, I> Fields<T, C, I> {
    /// A record that says these.
    #[must_use]
    pub fn new(identifiers: Vec<Identifier>, values: Values<C, I>, extension: Extension<C>) -> Self {
        Self { identifiers, values, extension, of: PhantomData }
    }

    /// The same with another value.
    #[must_use]
    pub fn with<V: Typed<C, I>>(mut self, key: Key<V>, value: impl Into<Option<V::Owned>>) -> Self {
        self.values.set(key, value.into());
        self
    }
}

impl<T: RecordType, C, I> Fields<T, C, I> {
    /// The rows of its fields.
    #[must_use]
    pub fn schema() -> &'static [Field] {
        schema::fields(T::KIND)
    }

    /// Every code with its field, those within lists and parts included, those of fields of modules not.
    #[must_use]
    pub fn every_code(&self) -> Vec<(CodedField, &C)> {
        self.values.codes(Self::schema())
    }

    /// The same with every code and reference translated.
    pub fn translate<R: Translate<C, I>>(self, translate: &mut R) -> Fields<T, R::Code, R::Id> {
        let values = self.values.translate(Self::schema(), "", translate);
        let extension =
            self.extension.map_codes(|path, at, code| translate.code(CodePlace::Extension(path), &at, code));
        Fields::new(self.identifiers, values, extension)
    }

    /// The names of the fields of bodies that differ; of fields of modules `extension.<key>`. In alphabetical order.
    #[must_use]
    pub fn differences(&self, other: &Self) -> BTreeSet<String>
    where
        C: PartialEq,
        I: PartialEq,
    {
        let fields = self.values.differences(&other.values).filter_map(|tag| schema::row(Self::schema(), tag));
        let fields = fields.filter(|field| !field.is_internal);
        let mut names: BTreeSet<String> = fields.map(|field| field.name.to_owned()).collect();
        if self.identifiers != other.identifiers {
            names.insert("identifier".to_owned());
        }
        names.extend(self.extension.differences(&other.extension));
        names
    }
}

impl<T, C, I> Deref for Fields<T, C, I> {
    type Target = Values<C, I>;

    fn deref(&self) -> &Values<C, I> {
        &self.values
    }
}

impl<T, C, I> DerefMut for Fields<T, C, I> {
    fn deref_mut(&mut self) -> &mut Values<C, I> {
        &mut self.values
    }
}

impl<T, C, I> Default for Fields<T, C, I> {
    fn default() -> Self {
        Self::new(Vec::new(), Values::default(), Extension::default())
    }
}

impl<T, C: Clone, I: Clone> Clone for Fields<T, C, I> {
    fn clone(&self) -> Self {
        Self::new(self.identifiers.clone(), self.values.clone(), self.extension.clone())
    }
}

impl<T, C: PartialEq, I: PartialEq> PartialEq for Fields<T, C, I> {
    fn eq(&self, other: &Self) -> bool {
        self.identifiers == other.identifiers && self.values == other.values && self.extension == other.extension
    }
}

impl<T, C, I> fmt::Debug for Fields<T, C, I> {
    /// Tells which fields there are, never what they say.
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_tuple("Fields").field(&self.values).finish()
    }
}

/// A stored record: key, meta and what it says.
#[derive(Debug, Clone, PartialEq)]
pub struct Record<D> {
    /// The registry's own key.
    pub id: RecordId,
    /// Version, time and source.
    pub meta: RecordMeta,
    /// What it says.
    pub details: D,
}
