//! Writes: their operations and results.

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

/// Details of a record to write.
#[derive(Debug, Clone)]
pub enum RecordDetails {
    /// Of an individual.
    Individual(IndividualDetails),
    /// Of a group.
    Group(GroupDetails),
    /// Of a program.
    Program(ProgramDetails),
    /// Of a membership in a program.
    ProgramMembership(ProgramMembershipDetails),
    /// Of a consent.
    Consent(ConsentDetails),
}

impl RecordDetails {
    /// Kind of the record.
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

/// Called when codes have their numbers, because the write that assigns them will certainly be executed, or was. That
/// is before the write is acknowledged, and in a store of one process before a record with one of the numbers can be
/// read. Must not block on IO.
pub type NumbersGiven = Arc<dyn Fn() + Send + Sync>;

/// Codes that are numbered with the write whose records contain them: a failed write assigns no numbers.
#[derive(Clone)]
pub struct NewCodes {
    /// The number of the first code, which the records of the write already contain; the others follow it.
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

/// An operation. Records that earlier operations create are referred to by [`RecordId::pending`].
#[derive(Debug, Clone)]
pub enum Operation {
    /// Adds a record.
    Create(RecordDetails),
    /// Replaces a record, if it is still at that version.
    Update(RecordId, VersionId, RecordDetails),
    /// Adds a client; a conflict if the id is in use.
    CreateClient(Client),
    /// Replaces a client, if it was last changed at that time. The stored `updated_at` is always later: if the client's
    /// own is not, it is the next millisecond.
    UpdateClient(Client, Timestamp),
    /// Stores a photo of a record in the same write; storing it again changes nothing.
    PutPhoto(Photo),
    /// Adds or replaces a setting of the deployment.
    PutSetting(Setting),
    /// Adds a setting; [`super::StoreError::Overtaken`] if there is one with its key.
    AddSetting(Setting),
    /// Removes a setting of the deployment, if it exists.
    RemoveSetting(SettingKey),
    /// Assigns numbers to codes in records of the same write; [`super::StoreError::Overtaken`] if another write has
    /// used one of the numbers, or has numbered one of the codes. Not among the results of the write.
    NumberCodes(NewCodes),
}

impl Operation {
    /// Adds a record.
    #[must_use]
    pub fn create(details: impl Into<RecordDetails>) -> Self {
        Self::Create(details.into())
    }

    /// Replaces a record, if it is still at that version.
    #[must_use]
    pub fn update(id: RecordId, expected: VersionId, details: impl Into<RecordDetails>) -> Self {
        Self::Update(id, expected, details.into())
    }
}

/// Unchanged records that a write depends on: they were checked to decide it.
///
/// A record is touched when it is written. An individual or group is also touched by a write of its membership in a
/// program, an individual also by a write of its current or former group.
#[derive(Debug, Clone)]
pub struct ReadSet {
    /// The last write before the check.
    pub since: Sequence,
    /// The records, without those that the same write creates: no other write can touch them.
    pub records: Vec<(RecordKind, RecordId)>,
}

/// An atomic write.
#[derive(Debug, Clone)]
pub struct Write {
    /// Timestamp; becomes `last_updated`.
    pub at: Timestamp,
    /// The client that writes.
    pub source: Option<ClientId>,
    /// The operations.
    pub operations: Vec<Operation>,
    /// The audit entries of the write.
    pub audit: Vec<AuditEntry>,
    /// Records that must not have been touched since they were checked; otherwise nothing is written.
    pub read_set: Vec<ReadSet>,
}

impl Write {
    /// The codes that are numbered with it.
    pub fn new_codes(&self) -> impl Iterator<Item = &NewCodes> {
        self.operations.iter().filter_map(|operation| match operation {
            Operation::NumberCodes(codes) => Some(codes),
            _ => None,
        })
    }

    /// Removes and returns these codes, in order.
    pub fn take_new_codes(&mut self) -> Vec<NewCodes> {
        let taken: Vec<NewCodes> = self.new_codes().cloned().collect();
        if !taken.is_empty() {
            self.operations.retain(|operation| !matches!(operation, Operation::NumberCodes(_)));
        }
        taken
    }
}

/// Result of an operation.
#[derive(Debug, Clone)]
pub enum Written {
    /// The record as stored.
    Record(ChangedRecord),
    /// The client as stored.
    Client(Arc<Client>),
    /// The stored photo.
    Photo(PhotoDigest),
    /// The added, replaced or removed setting.
    Setting(SettingKey),
}

/// Result of a write.
#[derive(Debug, Clone)]
pub struct Committed {
    /// Its sequence number.
    pub sequence: Sequence,
    /// One for each operation, in order.
    pub written: Vec<Written>,
}

impl Written {
    /// The written record, if the operation wrote one.
    #[must_use]
    pub fn record(&self) -> Option<ChangedRecord> {
        match self {
            Self::Record(record) => Some(record.clone()),
            Self::Client(_) | Self::Photo(_) | Self::Setting(_) => None,
        }
    }
}

impl Committed {
    /// The record that the first operation wrote, if it is of that kind.
    #[must_use]
    pub fn first<D: Details>(self) -> Option<Arc<Record<D>>> {
        match self.written.into_iter().next() {
            Some(Written::Record(record)) => D::of(record),
            Some(Written::Client(_) | Written::Photo(_) | Written::Setting(_)) | None => None,
        }
    }
}

/// True if a [`super::ChangeSink`] must be notified of a write's changes.
pub fn changes_records(write: &Write) -> bool {
    write.operations.iter().any(|operation| matches!(operation, Operation::Create(_) | Operation::Update(..)))
}
