//! Client secrets: 256 random bits, kept as a keyed hash.
//!
//! A slow hash would buy nothing: nobody guesses 256 random bits, and the key is not in the database.
//!
//! **Invariant:** checking a secret costs the same for an unknown client, a wrong secret and a right one.

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

/// How a client secret begins, so that leak scanners recognise it.
pub const CLIENT_SECRET_PREFIX: &str = "daftar_secret_";
/// The longest secret that is hashed; ours have 57 bytes. A longer one is wrong without a look.
pub const CLIENT_SECRET_BYTES_MAX: usize = 256;
/// The file of the hashing key within the folder of keys.
pub(super) const HASH_KEY_FILE: &str = "client-secrets.json";
/// How many hashes are compared at least, whether the client has that many or does not exist.
pub(super) const COMPARED_MIN: usize = 4;
/// Compared in place of hashes that a client does not have. The outcome of such a comparison does not count.
const DUMMY: SecretHash = SecretHash([0; 32]);

/// Hashes and checks client secrets with the key of this data folder.
#[derive(Clone)]
pub struct SecretHasher {
    keyed: Hmac<Sha256>,
}

impl SecretHasher {
    /// Whether the data folder has a hashing key.
    #[must_use]
    pub fn is_there(data_folder: &Path) -> bool {
        data_folder.join(KEY_FOLDER).join(HASH_KEY_FILE).exists()
    }

    /// Reads the hashing key of a data folder; makes the folder of keys and a key when there is none.
    ///
    /// Every client secret depends on this key: with another one all of them are wrong.
    ///
    /// # Errors
    /// When the file cannot be read or written, others may read it, or the key is malformed or weak. The message says
    /// what to do.
    pub fn load_or_create(data_folder: &Path, now: Timestamp) -> Result<Self, KeyError> {
        key_file::load_single(data_folder, HASH_KEY_FILE, now, |secret| {
            let keyed = Hmac::new_from_slice(secret).map_err(|_| "its key has a wrong length".to_owned())?;
            Ok(Self { keyed })
        })
    }

    /// The hash under which a client's secret is kept. The same secret of another client hashes differently.
    #[must_use]
    pub fn hash(&self, client_id: &str, secret: &SecretString) -> SecretHash {
        #[cfg(test)]
        work::hashed();
        let mut keyed = self.keyed.clone();
        keyed.update(client_id.as_bytes());
        // No client id holds this byte, so that id and secret cannot run into each other.
        keyed.update(&[0]);
        keyed.update(secret.expose_secret().as_bytes());
        SecretHash(keyed.finalize().into_bytes().into())
    }

    /// What tells this key from every other one, and nothing of it.
    #[must_use]
    pub fn fingerprint(&self) -> [u8; 32] {
        let mut keyed = self.keyed.clone();
        // No client id is empty, so that this is the hash of no secret.
        keyed.update(b"\0the key that client secrets are kept with");
        keyed.finalize().into_bytes().into()
    }

    /// Whether that is one of the client's secrets that have not expired; never for an unknown client, after the same
    /// work.
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

/// Compares two hashes in a time that does not depend on them.
fn is_same(one: &SecretHash, other: &SecretHash) -> Choice {
    #[cfg(test)]
    work::compared();
    one.0.ct_eq(&other.0)
}

/// Counts what a check does, for the test that it is the same for everybody.
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

    /// How many hashes were made and compared on this thread since this was last asked.
    pub fn take() -> (u32, u32) {
        DONE.with(Cell::take)
    }
}

daftar_domain::opaque_debug!(SecretHasher);

/// Makes a new client secret: shown once to whoever asked for it, kept as a hash.
///
/// # Errors
/// When the operating system gives no random bytes.
pub fn new_client_secret() -> Result<SecretString, EntropyError> {
    entropy::random_text(CLIENT_SECRET_PREFIX)
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;
    use crate::fixtures::{at, client, hasher};
    use daftar_domain::client::ClientSecret;

    fn kept(hasher: &SecretHasher, id: &str, secret: &SecretString, expires_at: Option<Timestamp>) -> ClientSecret {
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
        client.secrets = vec![kept(&hasher, "c", &old, Some(at(100))), kept(&hasher, "c", &new, None)];
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
    fn the_key_outlives_a_restart() {
        let folder = tempfile::tempdir().unwrap();
        let secret = "s".into();
        let before = SecretHasher::load_or_create(folder.path(), at(0)).unwrap().hash("a", &secret);
        assert_eq!(SecretHasher::load_or_create(folder.path(), at(9)).unwrap().hash("a", &secret), before);
    }

    #[test]
    fn a_secret_beyond_the_bound_is_wrong() {
        let (_folder, hasher) = hasher();
        let mut client = client("c");
        let fits = "x".repeat(CLIENT_SECRET_BYTES_MAX).into();
        let too_long = "x".repeat(CLIENT_SECRET_BYTES_MAX + 1).into();
        client.secrets = vec![kept(&hasher, "c", &fits, None), kept(&hasher, "c", &too_long, None)];
        assert!(hasher.verify("c", Some(&client), &fits, at(0)));
        assert!(!hasher.verify("c", Some(&client), &too_long, at(0)));
    }
}
