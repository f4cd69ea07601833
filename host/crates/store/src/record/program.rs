//! How a program is stored. The key is not in the value: it is in the store's key.

use serde::{Deserialize, Serialize};

use crate::StoreError;
use daftar_domain::calendar::Period;
use daftar_domain::program::{Program, ProgramDetails};
use daftar_domain::record::{RecordId, RecordMeta};

use super::parts::{StoredIdentifierV1, StoredMetaV1, StoredPeriodV1, StoredSubjectV1, each};
use super::{StoredForm, Unreadable, decode_as};

/// A program, version 1.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct StoredProgramV1 {
    meta: StoredMetaV1,
    identifiers: Vec<StoredIdentifierV1>,
    active: Option<bool>,
    name: String,
    description: Option<String>,
    program_type: Option<String>,
    target_type: StoredSubjectV1,
    eligibility: Option<String>,
    enforce_eligibility: bool,
    period: Option<StoredPeriodV1>,
}

impl StoredForm for StoredProgramV1 {
    const VERSION: u8 = 1;
    const WHAT: &'static str = "program";
}

/// The bytes of a program.
///
/// # Errors
/// [`StoreError::TooLarge`] when they are too many.
pub fn encode(program: &Program) -> Result<Vec<u8>, StoreError> {
    let details = &program.details;
    super::encode(&StoredProgramV1 {
        meta: StoredMetaV1::from(&program.meta),
        identifiers: details.identifiers.iter().map(StoredIdentifierV1::from).collect(),
        active: details.active,
        name: details.name.clone(),
        description: details.description.clone(),
        program_type: details.program_type.clone(),
        target_type: details.target_type.into(),
        eligibility: details.eligibility.clone(),
        enforce_eligibility: details.enforce_eligibility,
        period: details.period.map(StoredPeriodV1::from),
    })
}

/// The program of that key that the bytes hold.
///
/// # Errors
/// [`StoreError::Corrupt`] when they cannot be read.
pub fn decode(id: RecordId, bytes: &[u8]) -> Result<Program, StoreError> {
    decode_as(bytes, |stored: StoredProgramV1| stored.into_program(id))
}

impl StoredProgramV1 {
    fn into_program(self, id: RecordId) -> Result<Program, Unreadable> {
        let details = ProgramDetails {
            identifiers: each(self.identifiers)?,
            active: self.active,
            name: self.name,
            description: self.description,
            program_type: self.program_type,
            target_type: self.target_type.into(),
            eligibility: self.eligibility,
            enforce_eligibility: self.enforce_eligibility,
            period: self.period.map(Period::try_from).transpose()?,
        };
        Ok(Program { id, meta: RecordMeta::try_from(self.meta)?, details })
    }
}
