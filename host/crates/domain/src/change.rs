//! What the store tells the indexes, in the order in which it happened.

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
use super::value::{Value, Values};

/// The place of a write in the order of all writes, counted up from 1.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct Sequence(pub u64);

impl Sequence {
    /// The place after this one.
    #[must_use]
    pub fn next(self) -> Self {
        Self(self.0.saturating_add(1))
    }
}

/// A record of any kind, as it stands after a write.
#[derive(Debug, Clone, PartialEq)]
pub enum ChangedRecord {
    /// A person.
    Individual(Arc<Individual>),
    /// A group.
    Group(Arc<Group>),
    /// A program.
    Program(Arc<Program>),
    /// A place in a program.
    ProgramMembership(Arc<ProgramMembership>),
    /// A consent.
    Consent(Arc<Consent>),
}

/// Reads something of a record of any kind.
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
    /// Its kind, its key and how often it was written.
    #[must_use]
    pub fn place(&self) -> (RecordKind, RecordId, VersionId) {
        fn place_of<D: Details>(record: &Record<D>) -> (RecordKind, RecordId, VersionId) {
            (D::KIND, record.id, record.meta.version)
        }
        of_any!(self, record => place_of(record))
    }

    /// When it was last written, by which client, and how often.
    #[must_use]
    pub fn meta(&self) -> &RecordMeta {
        of_any!(self, record => &record.meta)
    }

    /// The fields of the schema.
    #[must_use]
    pub fn values(&self) -> &Values {
        of_any!(self, record => &record.details.values)
    }

    /// The fields that modules add.
    #[must_use]
    pub fn extension(&self) -> &Extension {
        of_any!(self, record => &record.details.extension)
    }

    /// The photo that it refers to.
    #[must_use]
    pub fn photo(&self) -> Option<PhotoReference> {
        self.values().iter().find_map(|(_, value)| if let Value::Photo(photo) = value { Some(**photo) } else { None })
    }

    /// Under which identifiers it is found.
    #[must_use]
    pub fn identifiers(&self) -> Cow<'_, [Identifier]> {
        of_any!(self, record => Details::identifiers(&record.details))
    }
}

/// One record written.
#[derive(Debug, Clone)]
pub struct Change {
    /// When in the order of writes.
    pub sequence: Sequence,
    /// What it is now.
    pub record: ChangedRecord,
}

/// What a record of one kind says, with the way to and from a record of any kind.
pub trait Details: Sized {
    /// The kind.
    const KIND: RecordKind;

    /// Under which identifiers the record is found.
    fn identifiers(&self) -> Cow<'_, [Identifier]>;

    /// As a record of any kind.
    fn any(record: Arc<Record<Self>>) -> ChangedRecord;

    /// The record, if it is of this kind.
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
    // By its id alone, which the store keeps as it keeps every identifier.
    ConsentDetails is Consent, found by |details| Cow::Owned(vec![details.identifier()]);
}
