//! Signature of a backup: an Ed25519 signature over its last checksum, which covers everything in it, in one line after
//! the last block.
//!
//! **Invariant:** a backup is signed by the holder of the private key, never by the server, which never sees that key.
//!
//! **Invariant:** the signed text names what it is, so that a signature of a plugin is none of a backup, nor the other way round.

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
/// The longest line, in bytes; a valid one has less than 150.
pub(super) const SIGNATURE_LINE_BYTES_MAX: usize = 512;

/// The signature of a backup.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct BackupSignature(PluginSignature);

impl BackupSignature {
    /// Signs the backup of that last checksum.
    #[must_use]
    pub fn sign(key: &PrivateKey, checksum: &Chain) -> Self {
        Self(key.sign(&signed_text(checksum)))
    }

    /// Reads the line after the last block.
    pub(super) fn parse(line: &[u8]) -> Result<Self, BackupProblem> {
        let text = str::from_utf8(line).map_err(|_| BackupProblem::Longer)?;
        if !text.starts_with(SIGNATURE_MAGIC) {
            return Err(BackupProblem::Longer);
        }
        PluginSignature::parse_as(SIGNATURE_MAGIC, text).map(Self).map_err(BackupProblem::Signature)
    }

    /// The key that made it, as it says itself.
    #[must_use]
    pub fn key(&self) -> PluginKeyId {
        self.0.key()
    }

    /// The line, with its end.
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
    /// True if a backup that none of them signed is refused.
    is_required: bool,
}

/// Signer of a backup, if known.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Authenticity {
    /// A trusted key.
    Signed(PluginKeyId),
    /// A key that is not known here, where none is trusted for backups: the signature is not verified.
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

    /// Accepts what that key signed, and nothing else.
    #[must_use]
    pub fn required(key: PluginKey) -> Self {
        Self { keys: vec![key], is_required: true }
    }

    /// Judges the signature of a backup that was read whole.
    ///
    /// # Errors
    /// A signature that a trusted key did not make; none, or one by an unknown key, where a trusted one is expected.
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

    /// Judges the signature of a file before anything is done with it, and leaves it at its beginning. The file is read
    /// whole where there is something to verify; the checksum is returned then, to be compared with that of what is
    /// used.
    ///
    /// # Errors
    /// As [`Self::judge`]; or what is wrong with the backup.
    pub fn judge_file(&self, file: &mut File) -> Result<(Authenticity, Option<Chain>), BackupProblem> {
        // Problems of a file without a signature are found when it is read.
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
