//! Client secrets: 256 random bits, stored as a keyed hash.
//!
//! A slow hash has no benefit: 256 random bits cannot be guessed, and the key is not in the database.
//!
//! **Invariant:** checking a secret costs the same for an unknown client, a wrong secret and a valid one.

use std::path::Path;

use hmac::{Hmac, KeyInit, Mac};
use jiff::Timestamp;
use secrecy::{ExposeSecret, SecretString};
use sha2::Sha256;
use subtle::{Choice, ConstantTimeEq};

use super::entropy::{self, EntropyError};
use super::key_file::{self, KeyError};
use super::keys::KEY_FOLDER;
use daftar_domain::client::{Client, SecretHash};

/// The prefix of a client secret, so that leak scanners recognise it.
pub const CLIENT_SECRET_PREFIX: &str = "daftar_secret_";
/// The longest secret that is hashed; generated ones have 57 bytes. A longer one is rejected without hashing.
pub const CLIENT_SECRET_BYTES_MAX: usize = 256;
/// The file of the hashing key within the key folder.
pub(super) const HASH_KEY_FILE: &str = "client-secrets.json";
/// The minimum number of hash comparisons, for clients with fewer secrets and unknown clients.
pub(super) const COMPARED_MIN: usize = 4;
/// Compared in place of hashes that a client does not have. The result of such a comparison is ignored.
const DUMMY: SecretHash = SecretHash([0; 32]);

/// Hashes and checks client secrets with the key of this data folder.
#[derive(Clone)]
pub struct SecretHasher {
    keyed: Hmac<Sha256>,
}

impl SecretHasher {
    /// Returns true if the data folder has a hashing key.
    #[must_use]
    pub fn is_there(data_folder: &Path) -> bool {
        data_folder.join(KEY_FOLDER).join(HASH_KEY_FILE).exists()
    }

    /// Reads the hashing key of a data folder; creates the key folder and a key if there is none.
    ///
    /// Every client secret depends on this key: with another one no secret is valid.
    ///
    /// # Errors
    /// If the file cannot be read or written, other users may read it, or the key is malformed or weak. The message
    /// contains the fix.
    pub fn load_or_create(data_folder: &Path, now: Timestamp) -> Result<Self, KeyError> {
        key_file::load_single(data_folder, HASH_KEY_FILE, now, |secret| {
            let keyed = Hmac::new_from_slice(secret).map_err(|_| "its key has an invalid length".to_owned())?;
            Ok(Self { keyed })
        })
    }

    /// Returns the hash to store for a client's secret. The same secret of another client has another hash.
    #[must_use]
    pub fn hash(&self, client_id: &str, secret: &SecretString) -> SecretHash {
        #[cfg(test)]
        work::hashed();
        let mut keyed = self.keyed.clone();
        keyed.update(client_id.as_bytes());
        // A separator that no client id contains, so that different pairs of id and secret hash different bytes.
        keyed.update(&[0]);
        keyed.update(secret.expose_secret().as_bytes());
        SecretHash(keyed.finalize().into_bytes().into())
    }

    /// Returns a fingerprint that identifies this key without revealing it.
    #[must_use]
    pub fn fingerprint(&self) -> [u8; 32] {
        let mut keyed = self.keyed.clone();
        // No client id is empty, so this is never the hash of a secret.
        keyed.update(b"\0the key that client secrets are kept with");
        keyed.finalize().into_bytes().into()
    }

    /// Returns true if `presented` is one of the client's secrets that have not expired; false for an unknown client,
    /// after the same work.
    #[must_use]
    pub fn verify(&self, client_id: &str, client: Option<&Client>, presented: &SecretString, now: Timestamp) -> bool {
        if presented.expose_secret().len() > CLIENT_SECRET_BYTES_MAX {
            return false;
        }
        let presented = self.hash(client_id, presented);
        let secrets = client.map_or(&[][..], |client| client.secrets.as_slice());
        let mut is_right = Choice::from(0);
        for secret in secrets {
            let is_valid = secret.is_good(now);
            is_right |= is_same(&presented, &secret.hash) & Choice::from(u8::from(is_valid));
        }
        for _ in secrets.len()..COMPARED_MIN {
            is_right |= is_same(&presented, &DUMMY) & Choice::from(0);
        }
        is_right.into()
    }
}

/// Compares two hashes in constant time.
fn is_same(one: &SecretHash, other: &SecretHash) -> Choice {
    #[cfg(test)]
    work::compared();
    one.0.ct_eq(&other.0)
}

/// Counts the work of a check, to test that it is constant.
#[cfg(test)]
pub(super) mod work {
    use std::cell::Cell;

    thread_local! {
        static DONE: Cell<(u32, u32)> = const { Cell::new((0, 0)) };
    }

    pub(super) fn hashed() {
        DONE.with(|done| done.set((done.get().0 + 1, done.get().1)));
    }

    pub(super) fn compared() {
        DONE.with(|done| done.set((done.get().0, done.get().1 + 1)));
    }

    /// Returns and resets the number of hashes computed and compared on this thread.
    pub fn take() -> (u32, u32) {
        DONE.with(Cell::take)
    }
}

daftar_domain::opaque_debug!(SecretHasher);

/// Generates a client secret: shown once, stored as a hash.
///
/// # Errors
/// If the operating system provides no random bytes.
pub fn new_client_secret() -> Result<SecretString, EntropyError> {
    entropy::random_text(CLIENT_SECRET_PREFIX)
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;
    use crate::fixtures::{at, client, hasher};
    use daftar_domain::client::ClientSecret;

    fn stored(hasher: &SecretHasher, id: &str, secret: &SecretString, expires_at: Option<Timestamp>) -> ClientSecret {
        ClientSecret { hash: hasher.hash(id, secret), created_at: at(0), expires_at }
    }

    #[test]
    fn a_new_secret_has_its_prefix_and_never_repeats() {
        let made: BTreeSet<String> =
            (0..100).map(|_| new_client_secret().unwrap().expose_secret().to_owned()).collect();
        assert_eq!(made.len(), 100);
        for secret in made {
            let random = secret.strip_prefix(CLIENT_SECRET_PREFIX).unwrap();
            assert_eq!(random.len(), 43);
            assert!(random.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'-' || byte == b'_'));
        }
    }

    #[test]
    fn accepts_every_secret_that_has_not_expired_and_no_other() {
        let (_folder, hasher) = hasher();
        let (old, new, other) = ("old".into(), "new".into(), "other".into());
        let mut client = client("c");
        client.secrets = vec![stored(&hasher, "c", &old, Some(at(100))), stored(&hasher, "c", &new, None)];
        assert!(hasher.verify("c", Some(&client), &old, at(99)));
        assert!(!hasher.verify("c", Some(&client), &old, at(100)));
        assert!(hasher.verify("c", Some(&client), &new, at(100)));
        assert!(!hasher.verify("c", Some(&client), &other, at(99)));
        assert!(!hasher.verify("c", None, &new, at(99)));
        client.secrets.clear();
        assert!(!hasher.verify("c", Some(&client), &new, at(99)));
    }

    #[test]
    fn a_hash_belongs_to_one_client_and_one_key() {
        let (_folder, one) = hasher();
        let (_other_folder, other) = self::hasher();
        let secret = "s".into();
        assert_eq!(one.hash("a", &secret), one.hash("a", &secret));
        assert_ne!(one.hash("a", &secret), one.hash("b", &secret));
        assert_ne!(one.hash("a", &secret), other.hash("a", &secret));
    }

    #[test]
    fn the_key_survives_a_restart() {
        let folder = tempfile::tempdir().unwrap();
        let secret = "s".into();
        let before = SecretHasher::load_or_create(folder.path(), at(0)).unwrap().hash("a", &secret);
        assert_eq!(SecretHasher::load_or_create(folder.path(), at(9)).unwrap().hash("a", &secret), before);
    }

    #[test]
    fn a_fingerprint_belongs_to_one_key_and_a_folder_without_a_key_has_none() {
        let (first, second) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
        assert!(!SecretHasher::is_there(first.path()));
        let one = SecretHasher::load_or_create(first.path(), at(0)).unwrap().fingerprint();
        assert!(SecretHasher::is_there(first.path()));
        assert_eq!(SecretHasher::load_or_create(first.path(), at(1)).unwrap().fingerprint(), one);
        assert_ne!(SecretHasher::load_or_create(second.path(), at(0)).unwrap().fingerprint(), one);
    }

    #[test]
    fn a_secret_beyond_the_length_limit_is_rejected() {
        let (_folder, hasher) = hasher();
        let mut client = client("c");
        let fits = "x".repeat(CLIENT_SECRET_BYTES_MAX).into();
        let too_long = "x".repeat(CLIENT_SECRET_BYTES_MAX + 1).into();
        client.secrets = vec![stored(&hasher, "c", &fits, None), stored(&hasher, "c", &too_long, None)];
        assert!(hasher.verify("c", Some(&client), &fits, at(0)));
        assert!(!hasher.verify("c", Some(&client), &too_long, at(0)));
    }
}
