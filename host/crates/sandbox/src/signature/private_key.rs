//! The key with which a publisher signs plugins. It is never stored on a server.
//!
//! **Invariant:** the file is PKCS#8 in PEM, readable by its owner alone, and an existing file is never overwritten.

use std::fs::{self, File, OpenOptions};
use std::io::{self, Read, Write};
use std::os::unix::fs::{MetadataExt, OpenOptionsExt, PermissionsExt};
use std::path::Path;

use ed25519_dalek::pkcs8::spki::der::pem::LineEnding;
use ed25519_dalek::pkcs8::{DecodePrivateKey as _, EncodePrivateKey as _, EncodePublicKey as _, KeypairBytes};
use ed25519_dalek::{Signer as _, SigningKey};

use super::PluginSignature;
use daftar_domain::plugin_key::PluginKey;

/// The largest key file that is read, in bytes; a valid one has less than 200.
const FILE_BYTES_MAX: u64 = 16 << 10;

/// A private key. Its bytes are zeroed on drop.
pub struct PrivateKey(SigningKey);

/// The reason why a key cannot be read or written.
#[derive(Debug, thiserror::Error)]
pub enum PrivateKeyError {
    /// The file cannot be read or written.
    #[error("the private key `{path}` cannot be used: {error}; `daftar plugin keygen -o FILE` generates one")]
    File {
        /// The file.
        path: String,
        /// The error of the system.
        error: io::Error,
    },
    /// The file already exists.
    #[error("`{0}` already exists: choose another file name, or move that file away")]
    Exists(String),
    /// The file is readable by others.
    #[error("the private key `{0}` is readable by others: run `chmod 600 {0}`")]
    Exposed(String),
    /// The file does not contain a key.
    #[error("`{0}` is not an Ed25519 private key in PKCS#8 PEM, as written by `daftar plugin keygen`")]
    Malformed(String),
    /// The system provides no random bytes.
    #[error("the system provides no random bytes for a key")]
    NoRandomness,
}

impl PrivateKey {
    /// Generates a key.
    ///
    /// # Errors
    /// The system provides no random bytes.
    pub fn generate() -> Result<Self, PrivateKeyError> {
        use rand::TryRng as _;
        let mut bytes = [0; 32];
        rand::rngs::SysRng.try_fill_bytes(&mut bytes).map_err(|_| PrivateKeyError::NoRandomness)?;
        Ok(Self::from_bytes(bytes))
    }

    /// Creates a key of these bytes.
    #[must_use]
    pub fn from_bytes(bytes: [u8; 32]) -> Self {
        Self(SigningKey::from_bytes(&bytes))
    }

    /// Reads a key file.
    ///
    /// # Errors
    /// It cannot be read, is readable by others, or does not contain a key.
    pub fn read(path: &Path) -> Result<Self, PrivateKeyError> {
        let shown = path.display().to_string();
        let failed = |error| PrivateKeyError::File { path: shown.clone(), error };
        let file = File::open(path).map_err(failed)?;
        let metadata = file.metadata().map_err(failed)?;
        let is_own = metadata.uid() == rustix::process::geteuid().as_raw();
        if is_own && metadata.is_file() && metadata.permissions().mode() & 0o077 != 0 {
            return Err(PrivateKeyError::Exposed(shown));
        }
        let mut pem = String::new();
        let read = file.take(FILE_BYTES_MAX).read_to_string(&mut pem);
        read.map_err(|_| PrivateKeyError::Malformed(shown.clone()))?;
        SigningKey::from_pkcs8_pem(&pem).map(Self).map_err(|_| PrivateKeyError::Malformed(shown))
    }

    /// Writes the key to a new file that only its owner can read.
    ///
    /// # Errors
    /// The file exists, or it cannot be written.
    pub fn write_new(&self, path: &Path) -> Result<(), PrivateKeyError> {
        let failed = |error| PrivateKeyError::File { path: path.display().to_string(), error };
        // Without the public key: some tools read only the first version of PKCS#8.
        let pair = KeypairBytes { secret_key: self.0.to_bytes(), public_key: None };
        let pem = pair.to_pkcs8_pem(LineEnding::LF);
        let pem = pem.map_err(|error| failed(io::Error::other(error.to_string())))?;
        let opened = OpenOptions::new().write(true).create_new(true).mode(0o600).open(path);
        let mut file = opened.map_err(|error| match error.kind() {
            io::ErrorKind::AlreadyExists => PrivateKeyError::Exists(path.display().to_string()),
            _ => failed(error),
        })?;
        let written = file.write_all(pem.as_bytes()).and_then(|()| file.sync_all());
        written.map_err(|error| {
            // A partial key is useless, and would block the next attempt.
            let _is_removed = fs::remove_file(path);
            failed(error)
        })
    }

    /// The public key.
    #[must_use]
    pub fn public_key(&self) -> PluginKey {
        PluginKey::new(self.0.verifying_key())
    }

    /// The public key as PEM, for other tools.
    #[must_use]
    pub fn public_pem(&self) -> String {
        self.0.verifying_key().to_public_key_pem(LineEnding::LF).unwrap_or_default()
    }

    /// Signs the bytes of a plugin's file.
    #[must_use]
    pub fn sign(&self, bytes: &[u8]) -> PluginSignature {
        PluginSignature { key: self.public_key().id(), signature: self.0.sign(bytes) }
    }
}

/// Does not print the key.
impl std::fmt::Debug for PrivateKey {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(formatter, "PrivateKey({})", self.public_key().id())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_key_is_read_as_it_was_written_and_private() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("key.pem");
        let key = PrivateKey::generate().unwrap();
        key.write_new(&path).unwrap();
        assert_eq!(fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o600);
        assert!(fs::read_to_string(&path).unwrap().starts_with("-----BEGIN PRIVATE KEY-----\n"));
        assert_eq!(PrivateKey::read(&path).unwrap().public_key(), key.public_key());
        assert!(PluginKey::parse(&key.public_pem()).is_ok());
        let shown = format!("{key:?}");
        assert!(shown.len() < 40, "{shown}");
    }

    #[test]
    fn two_keys_differ_and_an_existing_file_stays() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("key.pem");
        let (first, second) = (PrivateKey::generate().unwrap(), PrivateKey::generate().unwrap());
        assert_ne!(first.public_key(), second.public_key());
        first.write_new(&path).unwrap();
        assert!(matches!(second.write_new(&path), Err(PrivateKeyError::Exists(_))));
        assert_eq!(PrivateKey::read(&path).unwrap().public_key(), first.public_key());
    }

    #[test]
    fn an_exposed_key_and_a_file_without_a_key_are_rejected() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("key.pem");
        PrivateKey::generate().unwrap().write_new(&path).unwrap();
        fs::set_permissions(&path, fs::Permissions::from_mode(0o640)).unwrap();
        let error = PrivateKey::read(&path).unwrap_err();
        assert!(matches!(&error, PrivateKeyError::Exposed(_)) && error.to_string().contains("chmod 600"), "{error}");
        fs::set_permissions(&path, fs::Permissions::from_mode(0o600)).unwrap();
        fs::write(&path, b"\xff\xfe no key").unwrap();
        assert!(matches!(PrivateKey::read(&path), Err(PrivateKeyError::Malformed(_))));
        assert!(matches!(PrivateKey::read(&folder.path().join("none")), Err(PrivateKeyError::File { .. })));
    }
}
