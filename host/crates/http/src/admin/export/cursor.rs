//! Where an export goes on: sealed, as keys of records do not leave the process.

use jiff::Timestamp;

use daftar_auth::cursor_seal::CursorSeal;
use daftar_domain::error::AppError;
use daftar_domain::record::{RecordId, RecordKind};

const PURPOSE: &[u8] = b"export";
const BYTES: usize = 17;

/// A place in an export.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ExportCursor {
    /// The instant of the export.
    pub at: Timestamp,
    /// The kind of the last record.
    pub kind: RecordKind,
    /// Its key.
    pub after: RecordId,
}

impl ExportCursor {
    /// Seals it.
    ///
    /// # Errors
    /// When the operating system gives no random bytes.
    pub fn seal(self, seal: &CursorSeal) -> Result<String, AppError> {
        let kind = RecordKind::ALL.iter().position(|kind| *kind == self.kind).unwrap_or_default();
        let mut said = vec![u8::try_from(kind).unwrap_or_default()];
        said.extend(self.at.as_millisecond().to_be_bytes());
        said.extend(self.after.0.to_be_bytes());
        seal.seal(PURPOSE, &said).map_err(|error| AppError::Internal(error.into()))
    }

    /// Opens one.
    ///
    /// # Errors
    /// [`AppError::InvalidCursor`] when it is none of this register.
    pub fn open(seal: &CursorSeal, text: &str) -> Result<Self, AppError> {
        let read = || {
            let said: [u8; BYTES] = seal.open(PURPOSE, text)?.try_into().ok()?;
            let (kind, rest) = said.split_first()?;
            let (at, after) = rest.split_first_chunk()?;
            Some(Self {
                at: Timestamp::from_millisecond(i64::from_be_bytes(*at)).ok()?,
                kind: *RecordKind::ALL.get(usize::from(*kind))?,
                after: RecordId(u64::from_be_bytes(after.try_into().ok()?)),
            })
        };
        let detail = "`cursor` is none that an export of this register gave; leave it out to begin anew";
        read().ok_or_else(|| AppError::InvalidCursor(detail))
    }
}
