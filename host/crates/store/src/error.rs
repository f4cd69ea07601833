//! Errors of a store.

use daftar_domain::client::ClientId;
use daftar_domain::error::{AppError, Cause};
use daftar_domain::error_code::ErrorCode;
use daftar_domain::identifier::IdentifierKey;
use daftar_domain::record::{RecordKind, VersionId};

/// Message for a folder, a database or a backup whose stored forms no release reads.
pub const BEFORE_FIRST_RELEASE: &str = "was made before the first release, and this daftar does not read it: export its records with the program that made it \
    (`daftar export FILE`), and import them into an empty register (`daftar import FILE`)";

/// Error of a store operation.
#[derive(Debug, thiserror::Error)]
pub enum StoreError {
    /// Another record of the same kind has a current identifier with that system and value.
    #[error("an identifier of system `{}` is in use", .0.system)]
    IdentifierInUse(IdentifierKey),
    /// The record has been changed.
    #[error("the record is at version {actual}, not {expected}")]
    VersionMismatch {
        /// The version that the writer expected.
        expected: VersionId,
        /// The stored version.
        actual: VersionId,
    },
    /// The beneficiary has an open membership in the program.
    #[error("the beneficiary has an open membership in this program already")]
    MembershipOpen,
    /// A record in the write's read set was changed since it was checked.
    #[error("a record that the write depends on was changed concurrently")]
    Overtaken,
    /// A request of that client with that idempotency key was executed, and is still stored.
    #[error("a request with that idempotency key was executed already")]
    AlreadyDone,
    /// The write was valid, in a dry run.
    #[error("the write is valid; nothing was written in a dry run")]
    DryRun,
    /// There is no record with that key.
    #[error("no such {0}")]
    NotFound(RecordKind),
    /// A client with that id exists.
    #[error("the client `{0}` exists")]
    ClientExists(ClientId),
    /// There is no client with that id.
    #[error("no client `{0}`")]
    ClientNotFound(ClientId),
    /// The client was changed concurrently.
    #[error("the client `{0}` was changed concurrently")]
    ClientChanged(ClientId),
    /// A limit of the store is reached; names the limit.
    #[error("{0}")]
    LimitReached(&'static str),
    /// An item exceeds the maximum size. Nothing was written.
    #[error("the {what} takes more than the maximum of {bytes_max} bytes: make it smaller")]
    TooLarge {
        /// Kind of the value.
        what: &'static str,
        /// Maximum size, in bytes.
        bytes_max: usize,
    },
    /// Too many writes are waiting. Nothing of this write was done.
    #[error("too many writes are waiting")]
    Overloaded,
    /// Records cannot be written before [`super::Store::attach_sink`]. Nothing was done.
    #[error("the store accepts no records before its indexes are filled")]
    NotReady,
    /// [`super::Store::attach_sink`] was called a second time.
    #[error("a change sink is attached to the store already")]
    SinkAttached,
    /// A stored value cannot be read; names the key's kind, never its content.
    #[error("a stored {what} cannot be read: {reason}")]
    Corrupt {
        /// Kind of the value.
        what: &'static str,
        /// Reason.
        reason: String,
    },
    /// The disk or the database failed, or the store stopped after a failure. Nothing is written until it is reopened.
    #[error("the store failed")]
    Failed(#[source] Cause),
}

impl From<StoreError> for AppError {
    fn from(error: StoreError) -> Self {
        match error {
            StoreError::IdentifierInUse(key) => Self::IdentifierInUse { system: key.system.to_string() },
            StoreError::VersionMismatch { expected, actual } => Self::VersionMismatch { expected, actual },
            StoreError::NotFound(kind) => Self::NotFound(kind),
            StoreError::Overtaken => Self::Overtaken,
            StoreError::ClientNotFound(id) => Self::UnknownClient(id),
            StoreError::ClientExists(_) => Self::conflict(ErrorCode::AlreadyExists, error.to_string()),
            StoreError::ClientChanged(_) => Self::conflict(ErrorCode::WriteConflict, error.to_string()),
            StoreError::MembershipOpen => Self::conflict(ErrorCode::MembershipOpen, error.to_string()),
            StoreError::AlreadyDone => Self::conflict(ErrorCode::RequestInProgress, error.to_string()),
            StoreError::DryRun => Self::DryRun,
            StoreError::LimitReached(what) => Self::conflict(ErrorCode::LimitReached, what),
            StoreError::TooLarge { .. } => Self::invalid("", "too_large", error.to_string()),
            StoreError::Overloaded => Self::Busy,
            StoreError::NotReady => Self::Unavailable(error.into()),
            StoreError::Corrupt { .. } | StoreError::SinkAttached => Self::Internal(error.into()),
            StoreError::Failed(cause) => Self::Unavailable(cause),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn too_large_is_the_requests_fault_and_too_many_a_conflict() {
        let too_large = StoreError::TooLarge { what: "individual", bytes_max: 1_048_576 };
        let error = AppError::from(too_large);
        let sentence = "the individual takes more than the maximum of 1048576 bytes: make it smaller";
        assert_eq!(error.to_string(), sentence);
        let AppError::Invalid(problems) = error else { panic!("wrong error: {error}") };
        assert_eq!(problems.iter().map(|problem| problem.code).collect::<Vec<_>>(), ["too_large"]);

        let error = AppError::from(StoreError::LimitReached("too many owners"));
        assert!(
            matches!(&error, AppError::Conflict(ErrorCode::LimitReached, what) if what == "too many owners"),
            "{error}"
        );
    }

    #[test]
    fn a_concurrent_change_is_a_write_conflict() {
        let client = ClientId::parse("a-client").unwrap();
        for error in [StoreError::Overtaken, StoreError::ClientChanged(client)] {
            assert_eq!(AppError::from(error).code(), ErrorCode::WriteConflict);
        }
    }
}
