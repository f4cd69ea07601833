//! What is written: operations, and what became of them.

use std::sync::Arc;

use jiff::Timestamp;

use daftar_domain::audit::AuditEntry;
use daftar_domain::change::{ChangedRecord, Details, Sequence};
use daftar_domain::client::{Client, ClientId};
use daftar_domain::code::{CodeNumber, CodeUri};
use daftar_domain::consent::ConsentDetails;
use daftar_domain::deployment::{Setting, SettingKey};
use daftar_domain::group::GroupDetails;
use daftar_domain::individual::IndividualDetails;
use daftar_domain::photo::{Photo, PhotoDigest};
use daftar_domain::program::ProgramDetails;
use daftar_domain::program_membership::ProgramMembershipDetails;
use daftar_domain::record::{Record, RecordId, RecordKind, VersionId};

/// What a record is to say.
#[derive(Debug, Clone)]
pub enum RecordDetails {
    /// Of a person.
    Individual(IndividualDetails),
    /// Of a group.
    Group(GroupDetails),
    /// Of a program.
    Program(ProgramDetails),
    /// Of a place in a program.
    ProgramMembership(ProgramMembershipDetails),
    /// Of a consent.
    Consent(ConsentDetails),
}

impl RecordDetails {
    /// Of which kind of record.
    #[must_use]
    pub fn kind(&self) -> RecordKind {
        match self {
            Self::Individual(_) => RecordKind::Individual,
            Self::Group(_) => RecordKind::Group,
            Self::Program(_) => RecordKind::Program,
            Self::ProgramMembership(_) => RecordKind::ProgramMembership,
            Self::Consent(_) => RecordKind::Consent,
        }
    }
}

macro_rules! details {
    ($($details:ident is $kind:ident;)+) => {$(
        impl From<$details> for RecordDetails {
            fn from(details: $details) -> Self {
                Self::$kind(details)
            }
        }
    )+};
}

details! {
    IndividualDetails is Individual;
    GroupDetails is Group;
    ProgramDetails is Program;
    ProgramMembershipDetails is ProgramMembership;
    ConsentDetails is Consent;
}

/// Called when codes have their numbers: the write that gives them is certain to be made, or was made. That is before the write is
/// acknowledged, and in a store of one process before a record that holds one of the numbers can be read. Must not block on IO.
pub type NumbersGiven = Arc<dyn Fn() + Send + Sync>;

/// Codes that get their numbers with the write whose records hold them: one that is not made gives none.
#[derive(Clone)]
pub struct NewCodes {
    /// The number of the first, which the records of the write hold already; the others follow it.
    pub first: CodeNumber,
    /// The codes.
    pub codes: Vec<CodeUri>,
    /// Counters that are raised with them, by name.
    pub counters: Vec<(String, u64)>,
    /// Called when they have their numbers.
    pub given: NumbersGiven,
}

impl std::fmt::Debug for NewCodes {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter
            .debug_struct("NewCodes")
            .field("first", &self.first)
            .field("codes", &self.codes)
            .finish_non_exhaustive()
    }
}

/// One part of a use case. Records that operations before it create are named by [`RecordId::pending`].
#[derive(Debug, Clone)]
pub enum Operation {
    /// Adds a record.
    Create(RecordDetails),
    /// Replaces what a record says, if it is still at that version.
    Update(RecordId, VersionId, RecordDetails),
    /// Adds a client; a conflict when the id is taken.
    CreateClient(Client),
    /// Replaces a client, if it was last changed at that instant. The `updated_at` that is stored always lies after it: where
    /// the client's own does not, it is the next millisecond.
    UpdateClient(Client, Timestamp),
    /// Keeps a photo that a record of the same write has; to keep it again changes nothing.
    PutPhoto(Photo),
    /// Adds what the deployment decided about something, or replaces what it decided before.
    PutSetting(Setting),
    /// Takes what the deployment decided about something out; nothing happens where it decided nothing.
    RemoveSetting(SettingKey),
    /// Gives numbers to codes that records of the same write hold; [`super::StoreError::Overtaken`] where another write has given one of
    /// the numbers, or has numbered one of the codes. Nothing is told of it among what was written.
    NumberCodes(NewCodes),
}

impl Operation {
    /// Adds a record.
    #[must_use]
    pub fn create(details: impl Into<RecordDetails>) -> Self {
        Self::Create(details.into())
    }

    /// Replaces what a record says, if it is still at that version.
    #[must_use]
    pub fn update(id: RecordId, expected: VersionId, details: impl Into<RecordDetails>) -> Self {
        Self::Update(id, expected, details.into())
    }
}

/// What a write rests on and does not change: records that were looked at to decide it.
///
/// A record counts as touched when it is written, and besides: somebody when a membership in a program of theirs is, or a group of
/// which they are or were a member.
#[derive(Debug, Clone)]
pub struct ReadSet {
    /// The last write before they were looked at.
    pub since: Sequence,
    /// The records. One that the same write creates is left out: nobody else can touch it.
    pub records: Vec<(RecordKind, RecordId)>,
}

/// One use case: written whole or not at all.
#[derive(Debug, Clone)]
pub struct Write {
    /// When; becomes `last_updated`.
    pub at: Timestamp,
    /// Which client writes.
    pub source: Option<ClientId>,
    /// What.
    pub operations: Vec<Operation>,
    /// The lines of the audit log that go with it.
    pub audit: Vec<AuditEntry>,
    /// What must not have been touched since it was looked at; else nothing is written.
    pub read_set: Vec<ReadSet>,
}

impl Write {
    /// The codes that get numbers with it.
    pub fn new_codes(&self) -> impl Iterator<Item = &NewCodes> {
        self.operations.iter().filter_map(|operation| match operation {
            Operation::NumberCodes(codes) => Some(codes),
            _ => None,
        })
    }

    /// Takes these codes out, in their order.
    pub fn take_new_codes(&mut self) -> Vec<NewCodes> {
        let taken: Vec<NewCodes> = self.new_codes().cloned().collect();
        if !taken.is_empty() {
            self.operations.retain(|operation| !matches!(operation, Operation::NumberCodes(_)));
        }
        taken
    }
}

/// What became of one operation.
#[derive(Debug, Clone)]
pub enum Written {
    /// The record as stored.
    Record(ChangedRecord),
    /// The client as stored.
    Client(Arc<Client>),
    /// The photo that was put.
    Photo(PhotoDigest),
    /// The setting that was put or taken out.
    Setting(SettingKey),
}

/// What became of a write.
#[derive(Debug, Clone)]
pub struct Committed {
    /// Its place in the order of writes.
    pub sequence: Sequence,
    /// One for each operation, in order.
    pub written: Vec<Written>,
}

impl Written {
    /// The record that was written, where it was one.
    #[must_use]
    pub fn record(&self) -> Option<ChangedRecord> {
        match self {
            Self::Record(record) => Some(record.clone()),
            Self::Client(_) | Self::Photo(_) | Self::Setting(_) => None,
        }
    }
}

impl Committed {
    /// The record that the first operation wrote, where it is of that kind.
    #[must_use]
    pub fn first<D: Details>(self) -> Option<Arc<Record<D>>> {
        match self.written.into_iter().next() {
            Some(Written::Record(record)) => D::of(record),
            Some(Written::Client(_) | Written::Photo(_) | Written::Setting(_)) | None => None,
        }
    }
}

/// Whether a write makes changes that a [`super::ChangeSink`] must hear of.
pub fn changes_records(write: &Write) -> bool {
    write.operations.iter().any(|operation| matches!(operation, Operation::Create(_) | Operation::Update(..)))
}
