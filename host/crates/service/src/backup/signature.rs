//! Signature of a backup: an Ed25519 signature over its last checksum, which covers the complete backup, in one line
//! after the last block.
//!
//! **Invariant:** a backup is signed by the holder of the private key, never by the server, which has no access to
//! that key.
//!
//! **Invariant:** the signed text contains its purpose, so that a plugin signature is not a valid backup signature,
//! and vice versa.

use std::fmt;
use std::fs::File;
use std::io::{BufReader, Seek};

use super::BackupProblem;
use super::format::Chain;
use super::reader::extent_of;
use super::restore::{Contents, Depth, inspect};
use daftar_domain::plugin_key::{PluginKey, PluginKeyId};
use daftar_sandbox::{PluginSignature, PrivateKey};

/// Prefix of the line and of the signed text.
pub(super) const SIGNATURE_MAGIC: &str = "daftar-backup-signature";
/// Maximum length of the line, in bytes; a valid line has less than 150.
pub(super) const SIGNATURE_LINE_BYTES_MAX: usize = 512;

/// The signature of a backup.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct BackupSignature(PluginSignature);

impl BackupSignature {
    /// Signs the backup with that last checksum.
    #[must_use]
    pub fn sign(key: &PrivateKey, checksum: &Chain) -> Self {
        Self(key.sign(&signed_text(checksum)))
    }

    /// Parses the line after the last block.
    pub(super) fn parse(line: &[u8]) -> Result<Self, BackupProblem> {
        let text = str::from_utf8(line).map_err(|_| BackupProblem::Longer)?;
        if !text.starts_with(SIGNATURE_MAGIC) {
            return Err(BackupProblem::Longer);
        }
        PluginSignature::parse_as(SIGNATURE_MAGIC, text).map(Self).map_err(BackupProblem::Signature)
    }

    /// The key named in the signature, which is not verified.
    #[must_use]
    pub fn key(&self) -> PluginKeyId {
        self.0.key()
    }

    /// The line, with its line end.
    #[must_use]
    pub fn line(&self) -> String {
        format!("{self}\n")
    }

    fn is_by(&self, key: &PluginKey, checksum: &Chain) -> bool {
        self.0.fits(key, &signed_text(checksum))
    }
}

impl fmt::Display for BackupSignature {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.write_as(SIGNATURE_MAGIC, formatter)
    }
}

/// Signed content: `daftar-backup-signature 1 `, then the last checksum as 64 hexadecimal digits.
fn signed_text(checksum: &Chain) -> Vec<u8> {
    format!("{SIGNATURE_MAGIC} 1 {}", checksum.to_hex()).into_bytes()
}

/// Trusted signers of backups.
#[derive(Debug, Clone, Default)]
pub struct BackupTrust {
    keys: Vec<PluginKey>,
    /// True if a backup without a signature by one of them is rejected.
    is_required: bool,
}

/// Signer of a backup, if known.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Authenticity {
    /// A trusted key.
    Signed(PluginKeyId),
    /// A key that is unknown here, while no keys are trusted for backups: the signature is not verified.
    UnknownKey(PluginKeyId),
    /// No signer.
    Unsigned,
}

impl BackupTrust {
    /// Trusts the keys of the configuration; a backup without a signature is accepted with a note.
    #[must_use]
    pub fn configured(keys: Vec<PluginKey>) -> Self {
        Self { keys, is_required: false }
    }

    /// Accepts signatures by that key only.
    #[must_use]
    pub fn required(key: PluginKey) -> Self {
        Self { keys: vec![key], is_required: true }
    }

    /// Checks the signature of a backup that was read completely.
    ///
    /// # Errors
    /// A signature that does not match the trusted key; no signature, or one by an unknown key, if a trusted signature
    /// is required.
    pub fn judge(&self, contents: &Contents) -> Result<Authenticity, BackupProblem> {
        let Some(signature) = &contents.signature else {
            return if self.is_required { Err(BackupProblem::Unsigned) } else { Ok(Authenticity::Unsigned) };
        };
        let key = signature.key();
        match self.keys.iter().find(|trusted| trusted.id() == key) {
            Some(trusted) if signature.is_by(trusted, &contents.checksum) => Ok(Authenticity::Signed(key)),
            Some(_) => Err(BackupProblem::SignatureMismatch { key }),
            None if self.keys.is_empty() => Ok(Authenticity::UnknownKey(key)),
            None => {
                let trusted: Vec<String> = self.keys.iter().map(|key| key.id().to_string()).collect();
                Err(BackupProblem::UnknownKey { key, trusted: trusted.join(", ") })
            }
        }
    }

    /// Checks the signature of a file before it is used, and rewinds the file. If there is a signature to verify, the
    /// file is read completely, and its checksum is returned, to be compared with that of the data used later.
    ///
    /// # Errors
    /// As [`Self::judge`]; or the problem of the backup.
    pub fn judge_file(&self, file: &mut File) -> Result<(Authenticity, Option<Chain>), BackupProblem> {
        // Problems of a file without a signature are detected when it is read.
        let is_signed = extent_of(&mut *file).is_ok_and(|extent| extent.is_signed);
        file.rewind()?;
        if !is_signed {
            return if self.is_required { Err(BackupProblem::Unsigned) } else { Ok((Authenticity::Unsigned, None)) };
        }
        let contents = inspect(BufReader::new(&mut *file), Depth::Blocks, &mut |_, _| ())?;
        file.rewind()?;
        Ok((self.judge(&contents)?, Some(contents.checksum)))
    }
}
