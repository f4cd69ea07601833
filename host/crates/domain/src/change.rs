//! Changes that the store sends to the indexes, in commit order.

use std::borrow::Cow;
use std::sync::Arc;

use super::consent::{Consent, ConsentDetails};
use super::extension::Extension;
use super::group::{Group, GroupDetails};
use super::identifier::Identifier;
use super::individual::{Individual, IndividualDetails};
use super::photo::PhotoReference;
use super::program::{Program, ProgramDetails};
use super::program_membership::{ProgramMembership, ProgramMembershipDetails};
use super::record::{Record, RecordId, RecordKind, RecordMeta, VersionId};
use super::schema::Tag;
use super::value::{Value, Values};

/// The sequence number of a committed transaction, counted from 1.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct Sequence(pub u64);

impl Sequence {
    /// Returns the next sequence number.
    #[must_use]
    pub fn next(self) -> Self {
        Self(self.0.saturating_add(1))
    }
}

/// A record of any kind, after a change.
#[derive(Debug, Clone, PartialEq)]
pub enum ChangedRecord {
    /// An individual.
    Individual(Arc<Individual>),
    /// A group.
    Group(Arc<Group>),
    /// A program.
    Program(Arc<Program>),
    /// A program membership.
    ProgramMembership(Arc<ProgramMembership>),
    /// A consent.
    Consent(Arc<Consent>),
}

/// Reads a part of a record of any kind.
macro_rules! of_any {
    ($changed:expr, $record:ident => $read:expr) => {
        match $changed {
            ChangedRecord::Individual($record) => $read,
            ChangedRecord::Group($record) => $read,
            ChangedRecord::Program($record) => $read,
            ChangedRecord::ProgramMembership($record) => $read,
            ChangedRecord::Consent($record) => $read,
        }
    };
}

impl ChangedRecord {
    /// Returns the kind, the key and the version.
    #[must_use]
    pub fn place(&self) -> (RecordKind, RecordId, VersionId) {
        fn place_of<D: Details>(record: &Record<D>) -> (RecordKind, RecordId, VersionId) {
            (D::KIND, record.id, record.meta.version)
        }
        of_any!(self, record => place_of(record))
    }

    /// Returns the metadata: time and client of the last write, and version.
    #[must_use]
    pub fn meta(&self) -> &RecordMeta {
        of_any!(self, record => &record.meta)
    }

    /// Returns the fields of the schema.
    #[must_use]
    pub fn values(&self) -> &Values {
        of_any!(self, record => &record.details.values)
    }

    /// Sets or removes a field of the schema. The caller ensures its shape.
    pub fn put(&mut self, tag: Tag, value: Option<Value>) {
        of_any!(self, record => Arc::make_mut(record).details.values.put(tag, value));
    }

    /// Returns the fields added by modules.
    #[must_use]
    pub fn extension(&self) -> &Extension {
        of_any!(self, record => &record.details.extension)
    }

    /// Returns the reference to the photo, if any.
    #[must_use]
    pub fn photo(&self) -> Option<PhotoReference> {
        self.values().iter().find_map(|(_, value)| if let Value::Photo(photo) = value { Some(**photo) } else { None })
    }

    /// Returns the identifiers of the record.
    #[must_use]
    pub fn identifiers(&self) -> Cow<'_, [Identifier]> {
        of_any!(self, record => Details::identifiers(&record.details))
    }
}

/// One written record.
#[derive(Debug, Clone)]
pub struct Change {
    /// Sequence number of the transaction.
    pub sequence: Sequence,
    /// The record after the write.
    pub record: ChangedRecord,
}

/// The details of a record of one kind, with conversions to and from a record of any kind.
pub trait Details: Sized {
    /// The kind.
    const KIND: RecordKind;

    /// Returns the identifiers of the record.
    fn identifiers(&self) -> Cow<'_, [Identifier]>;

    /// Converts to a record of any kind.
    fn any(record: Arc<Record<Self>>) -> ChangedRecord;

    /// Returns the record if it is of this kind.
    fn of(record: ChangedRecord) -> Option<Arc<Record<Self>>>;
}

macro_rules! details {
    ($($details:ident is $kind:ident, found by |$me:ident| $identifiers:expr;)+) => {$(
        impl Details for $details {
            const KIND: RecordKind = RecordKind::$kind;

            fn identifiers(&self) -> Cow<'_, [Identifier]> {
                let $me = self;
                $identifiers
            }

            fn any(record: Arc<Record<Self>>) -> ChangedRecord {
                ChangedRecord::$kind(record)
            }

            fn of(record: ChangedRecord) -> Option<Arc<Record<Self>>> {
                if let ChangedRecord::$kind(record) = record { Some(record) } else { None }
            }
        }
    )+};
}

details! {
    IndividualDetails is Individual, found by |details| Cow::Borrowed(details.identifiers.as_slice());
    GroupDetails is Group, found by |details| Cow::Borrowed(details.identifiers.as_slice());
    ProgramDetails is Program, found by |details| Cow::Borrowed(details.identifiers.as_slice());
    ProgramMembershipDetails is ProgramMembership, found by |details| Cow::Borrowed(details.identifiers.as_slice());
    // By its id alone, which the store handles like every identifier.
    ConsentDetails is Consent, found by |details| Cow::Owned(vec![details.identifier()]);
}
