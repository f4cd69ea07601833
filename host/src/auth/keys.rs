//! The keys that sign access tokens: one current, and older ones whose tokens may still be about.
//!
//! Nothing rotates them yet: a rotation writes the file with a new key in front and swaps the [`TokenKeys`] in use.
//!
//! **Invariant:** there is always a current key of at least 256 bits; without one the server does not start.

use std::fmt;
use std::path::Path;

use jiff::Timestamp;
use jsonwebtoken::{DecodingKey, EncodingKey};
use secrecy::ExposeSecret;

use super::key_file::{self, StoredKey};
use super::secret_file;

pub use super::key_file::KeyError;

/// The folder of keys within the data folder.
pub const KEY_FOLDER: &str = "keys";
/// The file of signing keys within the folder of keys.
pub(super) const TOKEN_KEY_FILE: &str = "token.json";

/// One signing key.
pub struct TokenKey {
    id: String,
    created_at: Timestamp,
    encoding: EncodingKey,
    decoding: DecodingKey,
}

impl TokenKey {
    fn new(stored: &StoredKey) -> Self {
        let secret = stored.secret.expose_secret();
        Self {
            id: stored.id.clone(),
            created_at: stored.created_at,
            encoding: EncodingKey::from_secret(secret),
            decoding: DecodingKey::from_secret(secret),
        }
    }

    /// Its name, the `kid` of the tokens that it signs.
    #[must_use]
    pub fn id(&self) -> &str {
        &self.id
    }

    /// When it was made.
    #[must_use]
    pub fn created_at(&self) -> Timestamp {
        self.created_at
    }

    pub(super) fn encoding(&self) -> &EncodingKey {
        &self.encoding
    }

    pub(super) fn decoding(&self) -> &DecodingKey {
        &self.decoding
    }
}

impl fmt::Debug for TokenKey {
    /// Shows its name, never the key.
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter
            .debug_struct("TokenKey")
            .field("id", &self.id)
            .field("created_at", &self.created_at)
            .finish_non_exhaustive()
    }
}

/// The signing keys of one data folder.
#[derive(Debug)]
pub struct TokenKeys {
    current: TokenKey,
    previous: Vec<TokenKey>,
}

impl TokenKeys {
    /// Reads the keys of a data folder; makes the folder of keys and a first key when there are none.
    ///
    /// # Errors
    /// When the file cannot be read or written, others may read it, or a key is malformed or weak. The message says
    /// what to do.
    pub fn load_or_create(data_folder: &Path, now: Timestamp) -> Result<Self, KeyError> {
        let folder = data_folder.join(KEY_FOLDER);
        secret_file::prepare_folder(&folder)?;
        let path = folder.join(TOKEN_KEY_FILE);
        let stored = key_file::load_or_create(&path, now)?;
        let Some((newest, older)) = stored.split_first() else {
            return Err(KeyError::Refused { path, reason: "it holds no key".to_owned() });
        };
        Ok(Self { current: TokenKey::new(newest), previous: older.iter().map(TokenKey::new).collect() })
    }

    /// The key that signs new tokens.
    #[must_use]
    pub fn current(&self) -> &TokenKey {
        &self.current
    }

    /// The key of that name, if tokens signed by it are still accepted.
    #[must_use]
    pub fn find(&self, id: &str) -> Option<&TokenKey> {
        std::iter::once(&self.current).chain(&self.previous).find(|key| key.id == id)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_key_of_the_file_signs_and_the_others_still_verify() {
        let folder = tempfile::tempdir().unwrap();
        let now = "2026-01-01T00:00:00Z".parse().unwrap();
        let first = TokenKeys::load_or_create(folder.path(), now).unwrap();
        let path = folder.path().join(KEY_FOLDER).join(TOKEN_KEY_FILE);
        let text = secret_file::read(&path).unwrap().unwrap();
        let mut form: serde_json::Value = serde_json::from_str(text.expose_secret()).unwrap();
        let newer = serde_json::json!({
            "kid": "newer",
            "created_at": "2026-02-01T00:00:00Z",
            "secret": "AAECAwQFBgcICQoLDA0ODxAREhMUFRYXGBkaGxwdHh8"
        });
        form["keys"].as_array_mut().unwrap().insert(0, newer);
        secret_file::replace(&path, &form.to_string().into()).unwrap();
        let both = TokenKeys::load_or_create(folder.path(), now).unwrap();
        assert_eq!(both.current().id(), "newer");
        assert!(both.find(first.current().id()).is_some());
        assert!(both.find("other").is_none());
    }

    #[test]
    fn debug_output_holds_no_key() {
        let folder = tempfile::tempdir().unwrap();
        let keys = TokenKeys::load_or_create(folder.path(), "2026-01-01T00:00:00Z".parse().unwrap()).unwrap();
        let shown = format!("{keys:?}");
        assert!(shown.contains(keys.current().id()) && !shown.contains("encoding"), "{shown}");
    }
}
