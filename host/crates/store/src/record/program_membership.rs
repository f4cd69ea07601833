//! How a membership in a program is stored. The key is not in the value: it is in the store's key.

use serde::{Deserialize, Serialize};

use crate::StoreError;
use daftar_domain::calendar::days_since_epoch;
use daftar_domain::program_membership::{MembershipStatus, ProgramMembership, ProgramMembershipDetails};
use daftar_domain::record::{RecordId, RecordMeta};

use super::parts::{StoredIdentifierV1, StoredMetaV1, StoredSubjectReferenceV1, day, each};
use super::{StoredForm, Unreadable, decode_as};

/// A membership, version 1. `has_no_identifier` tells, of a membership without identifiers, whether it is known to have none.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct StoredProgramMembershipV1 {
    meta: StoredMetaV1,
    identifiers: Vec<StoredIdentifierV1>,
    program: u64,
    beneficiary: StoredSubjectReferenceV1,
    status: StoredMembershipStatusV1,
    enrollment_date: Option<i32>,
    exit_date: Option<i32>,
    exit_reason: Option<String>,
    override_reason: Option<String>,
    has_no_identifier: bool,
}

impl StoredForm for StoredProgramMembershipV1 {
    const VERSION: u8 = 1;
    const WHAT: &'static str = "program membership";
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
enum StoredMembershipStatusV1 {
    Draft,
    Enrolled,
    Paused,
    Exited,
    NotEligible,
    Duplicated,
}

/// The bytes of a membership.
///
/// # Errors
/// [`StoreError::TooLarge`] when they are too many.
pub fn encode(membership: &ProgramMembership) -> Result<Vec<u8>, StoreError> {
    super::encode(&StoredProgramMembershipV1::from(membership))
}

impl From<&ProgramMembership> for StoredProgramMembershipV1 {
    fn from(membership: &ProgramMembership) -> Self {
        let details = &membership.details;
        Self {
            meta: StoredMetaV1::from(&membership.meta),
            identifiers: details.identifiers.iter().map(StoredIdentifierV1::from).collect(),
            program: details.program.0,
            beneficiary: details.beneficiary.into(),
            status: match details.status {
                MembershipStatus::Draft => StoredMembershipStatusV1::Draft,
                MembershipStatus::Enrolled => StoredMembershipStatusV1::Enrolled,
                MembershipStatus::Paused => StoredMembershipStatusV1::Paused,
                MembershipStatus::Exited => StoredMembershipStatusV1::Exited,
                MembershipStatus::NotEligible => StoredMembershipStatusV1::NotEligible,
                MembershipStatus::Duplicated => StoredMembershipStatusV1::Duplicated,
            },
            enrollment_date: details.enrollment_date.map(days_since_epoch),
            exit_date: details.exit_date.map(days_since_epoch),
            exit_reason: details.exit_reason.clone(),
            override_reason: details.override_reason.clone(),
            has_no_identifier: details.has_no_identifier,
        }
    }
}

/// The membership of that key that the bytes hold.
///
/// # Errors
/// [`StoreError::Corrupt`] when they cannot be read.
pub fn decode(id: RecordId, bytes: &[u8]) -> Result<ProgramMembership, StoreError> {
    decode_as(bytes, |stored: StoredProgramMembershipV1| stored.into_membership(id))
}

impl StoredProgramMembershipV1 {
    fn into_membership(self, id: RecordId) -> Result<ProgramMembership, Unreadable> {
        let details = ProgramMembershipDetails {
            identifiers: each(self.identifiers)?,
            has_no_identifier: self.has_no_identifier,
            program: RecordId(self.program),
            beneficiary: self.beneficiary.into(),
            status: match self.status {
                StoredMembershipStatusV1::Draft => MembershipStatus::Draft,
                StoredMembershipStatusV1::Enrolled => MembershipStatus::Enrolled,
                StoredMembershipStatusV1::Paused => MembershipStatus::Paused,
                StoredMembershipStatusV1::Exited => MembershipStatus::Exited,
                StoredMembershipStatusV1::NotEligible => MembershipStatus::NotEligible,
                StoredMembershipStatusV1::Duplicated => MembershipStatus::Duplicated,
            },
            enrollment_date: day(self.enrollment_date)?,
            exit_date: day(self.exit_date)?,
            exit_reason: self.exit_reason,
            override_reason: self.override_reason,
        };
        Ok(ProgramMembership { id, meta: RecordMeta::try_from(self.meta)?, details })
    }
}
