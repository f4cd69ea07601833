//! Properties common to all stored records.

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

/// The internal key of a record, counted up from 1 for each kind. Internal; serialized only in checkpoints, sealed
/// cursors, and exports of the administrator that request keys for reporting tables.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct RecordId(pub u64);

impl RecordId {
    /// Flag of keys that are not assigned yet: no register has so many records.
    const PENDING: u64 = 1 << 63;

    /// Creates a placeholder for the key of the `number`th record of its kind that one write creates, counted from 1.
    /// Valid only within that write: the store replaces it with the assigned key.
    #[must_use]
    pub fn pending(number: u64) -> Self {
        Self(Self::PENDING | number)
    }

    /// Returns the number of a placeholder, if the key is not assigned yet.
    #[must_use]
    pub fn pending_number(self) -> Option<u64> {
        (self.0 & Self::PENDING != 0).then_some(self.0 & !Self::PENDING)
    }
}

/// The version of a record: 1 after its creation, increased by every write.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct VersionId(pub u64);

impl VersionId {
    /// The version of a new record.
    pub const FIRST: Self = Self(1);

    /// Returns the next version.
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

/// The versions of a record to which a change may apply.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum VersionCondition {
    /// Any version.
    Any,
    /// At one of these; at least one.
    OneOf(Vec<VersionId>),
    /// At a version that the condition permits, unless it is excluded.
    Except(Box<VersionCondition>, ExcludedVersions),
}

/// The versions of a record to which a change may not apply.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ExcludedVersions {
    /// Every version: the change applies to no existing record.
    All,
    /// These; at least one.
    Listed(Vec<VersionId>),
}

/// Reason why a record does not meet a [`VersionCondition`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum UnmetCondition {
    /// It is at another version than this one, the first of the permitted versions.
    Expected(VersionId),
    /// It is at an excluded version.
    Excluded,
}

impl VersionCondition {
    /// Returns the reason if a change may not apply to a record at version `actual`. The permitted versions are
    /// checked before the excluded ones.
    #[must_use]
    pub fn unmet_at(&self, actual: VersionId) -> Option<UnmetCondition> {
        match self {
            Self::Any => None,
            Self::OneOf(versions) if versions.contains(&actual) => None,
            Self::OneOf(versions) => Some(UnmetCondition::Expected(versions.first().copied().unwrap_or(VersionId(0)))),
            Self::Except(permitted, excluded) => {
                permitted.unmet_at(actual).or_else(|| excluded.contains(actual).then_some(UnmetCondition::Excluded))
            }
        }
    }

    /// True if the caller names the versions that it expects. Otherwise a change may be repeated if the record changes
    /// concurrently.
    #[must_use]
    pub fn expects_versions(&self) -> bool {
        match self {
            Self::Any => false,
            Self::OneOf(_) => true,
            Self::Except(permitted, _) => permitted.expects_versions(),
        }
    }
}

impl ExcludedVersions {
    fn contains(&self, version: VersionId) -> bool {
        match self {
            Self::All => true,
            Self::Listed(versions) => versions.contains(&version),
        }
    }
}

named_enum! {
    /// The kinds of record, each before the kinds that refer to it: the order of exports and imports. The position here
    /// is the serialized form in backups: the order is fixed, and new kinds are appended.
    #[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
    pub enum RecordKind {
        /// An individual.
        Individual = "Individual",
        /// A household or another group.
        Group = "Group",
        /// A program.
        Program = "Program",
        /// A program membership.
        ProgramMembership = "ProgramMembership",
        /// A consent.
        Consent = "Consent",
    }
}

impl RecordKind {
    /// Returns its position in [`RecordKind::ALL`].
    #[must_use]
    pub fn place(self) -> usize {
        self as usize
    }

    /// Returns the resource in scopes.
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

/// Metadata of a record.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RecordMeta {
    /// Version.
    pub version: VersionId,
    /// Time of the last write.
    pub last_updated: Timestamp,
    /// The client of the last write; absent for the administrator or a command.
    pub source: Option<ClientId>,
}

/// A type of record.
pub trait RecordType {
    /// The kind.
    const KIND: RecordKind;
}

/// The content of a record. `T` is its type, `C` the representation of codes and `I` that of references: numbers and
/// keys in the register, URIs and identifiers in a request that is not validated yet.
pub struct Fields<T, C = CodedValue, I = RecordId> {
    /// Identifiers.
    pub identifiers: Vec<Identifier>,
    /// The fields of the schema.
    pub values: Values<C, I>,
    /// The fields added by modules.
    pub extension: Extension<C>,
    of: PhantomData<fn() -> T>,
}

impl<T, C, I> Fields<T, C, I> {
    /// Creates the content of a record.
    #[must_use]
    pub fn new(identifiers: Vec<Identifier>, values: Values<C, I>, extension: Extension<C>) -> Self {
        Self { identifiers, values, extension, of: PhantomData }
    }

    /// Sets a value.
    #[must_use]
    pub fn with<V: Typed<C, I>>(mut self, key: Key<V>, value: impl Into<Option<V::Owned>>) -> Self {
        self.values.set(key, value.into());
        self
    }
}

impl<T: RecordType, C, I> Fields<T, C, I> {
    /// Returns the rows of its fields.
    #[must_use]
    pub fn schema() -> &'static [Field] {
        schema::fields(T::KIND)
    }

    /// Returns every code with its field, including lists and parts, excluding extension fields.
    #[must_use]
    pub fn every_code(&self) -> Vec<(CodedField, &C)> {
        self.values.codes(Self::schema())
    }

    /// Translates every code and reference.
    pub fn translate<R: Translate<C, I>>(self, translate: &mut R) -> Fields<T, R::Code, R::Id> {
        let values = self.values.translate(Self::schema(), "", translate);
        let extension =
            self.extension.map_codes(|path, at, code| translate.code(CodePlace::Extension(path), &at, code));
        Fields::new(self.identifiers, values, extension)
    }

    /// Returns the names of the fields that differ, as in bodies, sorted; of extension fields `extension.<key>`.
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
    /// Prints the names of the fields, never their values.
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_tuple("Fields").field(&self.values).finish()
    }
}

/// A stored record: key, metadata and details.
#[derive(Debug, Clone, PartialEq)]
pub struct Record<D> {
    /// The internal key.
    pub id: RecordId,
    /// Version, time and source.
    pub meta: RecordMeta,
    /// The details.
    pub details: D,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn permitted_versions_are_checked_before_excluded_ones() {
        use UnmetCondition::{Excluded, Expected};
        let any = VersionCondition::Any;
        let one_of = |version| VersionCondition::OneOf(vec![VersionId(version)]);
        let except =
            |permitted: &VersionCondition, excluded| VersionCondition::Except(Box::new(permitted.clone()), excluded);
        let listed = |version| ExcludedVersions::Listed(vec![VersionId(version)]);
        for (condition, expected, expects_versions) in [
            (any.clone(), None, false),
            (one_of(3), None, true),
            (one_of(4), Some(Expected(VersionId(4))), true),
            (except(&any, ExcludedVersions::All), Some(Excluded), false),
            (except(&any, listed(3)), Some(Excluded), false),
            (except(&any, listed(4)), None, false),
            (except(&one_of(3), listed(3)), Some(Excluded), true),
            (except(&one_of(4), ExcludedVersions::All), Some(Expected(VersionId(4))), true),
        ] {
            assert_eq!(condition.unmet_at(VersionId(3)), expected, "{condition:?}");
            assert_eq!(condition.expects_versions(), expects_versions, "{condition:?}");
        }
    }
}
