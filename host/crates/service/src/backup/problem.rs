//! What can be wrong with a backup.

use std::io;

use super::format::FORMAT;
use daftar_domain::plugin_key::PluginKeyId;
use daftar_store::{BEFORE_FIRST_RELEASE, StoreError};

/// Why a backup cannot be read, or not be trusted.
#[derive(Debug, thiserror::Error)]
pub enum BackupProblem {
    /// It is something else.
    #[error("this is no backup of daftar's: its first line does not begin with `daftar-backup-file`")]
    Foreign,
    /// A daftar from before the first release made it.
    #[error("the backup {BEFORE_FIRST_RELEASE}")]
    BeforeFirstRelease,
    /// A newer daftar made it.
    #[error(
        "the backup is of format {found}, and this daftar reads formats up to {FORMAT}: use the daftar that made it, or a newer one"
    )]
    Newer {
        /// Its format.
        found: u64,
    },
    /// Its first line says nothing that can be understood.
    #[error("the first line of the backup is damaged: {0}; use another backup")]
    Head(String),
    /// It ends too early.
    #[error(
        "the backup ends after {bytes} bytes, and its end is missing: it was cut off, or making it was broken off; use another backup"
    )]
    CutOff {
        /// How much there is.
        bytes: u64,
    },
    /// It was changed.
    #[error("block {block} of the backup, {at} bytes after its beginning, is damaged: {reason}; use another backup")]
    Damaged {
        /// Which block, counted from 1.
        block: u64,
        /// Where it begins.
        at: u64,
        /// What shows it.
        reason: String,
    },
    /// Something stands after the end.
    #[error("the backup goes on after its end: something was added to the file; use another backup")]
    Longer,
    /// What stands after the end begins like a signature and is none.
    #[error("the signature of the backup cannot be read: {0}; use another backup")]
    Signature(&'static str),
    /// It has no signature, and one is asked for.
    #[error(
        "the backup is not signed, and one that a trusted key signed is asked for; `daftar backup --sign KEY` signs one"
    )]
    Unsigned,
    /// A trusted key did not sign this.
    #[error(
        "the signature by the key {key} is not of this backup: the file was changed after it was signed, or the signature was; use another backup"
    )]
    SignatureMismatch {
        /// The trusted key whose signature it claims to be.
        key: PluginKeyId,
    },
    /// A key signed it that is not trusted for backups.
    #[error(
        "the backup is signed by the key {key}, which is not trusted for backups ({trusted} are); add it to `[plugins] trusted_keys` if you trust its owner"
    )]
    UnknownKey {
        /// The key, as the signature names it.
        key: PluginKeyId,
        /// The ids of those that are.
        trusted: String,
    },
    /// The file is another one than was verified.
    #[error("the backup was changed while it was read: it is not the one whose signature was verified")]
    Replaced,
    /// What it holds does not fit together, or cannot be read.
    #[error("block {block} of the backup holds what cannot be restored: {reason}")]
    Content {
        /// Which block, counted from 1.
        block: u64,
        /// What.
        reason: String,
    },
    /// It does not hold what it says it holds.
    #[error("the backup says that it holds {told} {name}, and holds {found}; use another backup")]
    Count {
        /// Of what.
        name: String,
        /// What it says.
        told: u64,
        /// What there is.
        found: u64,
    },
    /// It cannot be read.
    #[error("the backup cannot be read: {0}")]
    Io(#[from] io::Error),
}

impl BackupProblem {
    /// What a stored value that cannot be read says.
    pub(super) fn content(block: u64, error: &StoreError) -> Self {
        Self::Content { block, reason: error.to_string() }
    }
}
