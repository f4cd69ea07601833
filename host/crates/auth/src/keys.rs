//! Signing keys: one current key, and older ones that still verify.
//!
//! Tokens and decisions have separate keys, which are stored and rotated alike:
//! [`SigningKeyRing`](super::key_ring::SigningKeyRing) reads and rotates them and contains the active ones.
//! [`KeyMaterial`] defines their differences.
//!
//! **Invariant:** there is always a current key of at least 256 bits; without one the server does not start.
//!
//! **Invariant:** an older token key is accepted until the last token that it signed has expired; an older decision key
//! is always accepted, since decisions do not expire.
//!
//! **Invariant:** only HS256 is signed or verified, independent of the algorithm that the caller requests.

use std::fmt;
use std::sync::Arc;

use jiff::{SignedDuration, Timestamp};
use jsonwebtoken::crypto::{CryptoProvider, JwtSigner, JwtVerifier, KeyUtils};
use jsonwebtoken::errors::ErrorKind;
use jsonwebtoken::signature::{self, Signer, Verifier};
use jsonwebtoken::{Algorithm, DecodingKey, EncodingKey};
use ring::hmac;
use secrecy::ExposeSecret;

pub use super::key_file::KeyError;
use super::key_file::StoredKey;
use daftar_domain::config::TOKEN_LIFETIME_S_MAX;

/// The key folder within the data folder.
pub const KEY_FOLDER: &str = "keys";
/// The file of the token signing keys within the key folder.
pub(super) const TOKEN_KEY_FILE: &str = "token.json";
/// A replaced key may sign a few more tokens until the new one is on disk and active.
const MARGIN_S: u64 = 60;

/// The material and rotation rules of the keys of one use.
pub trait KeyMaterial: fmt::Debug + Sized + Send + Sync + 'static {
    /// The file within the key folder.
    const FILE: &'static str;
    /// The most keys in the file: the current one and older ones.
    const RETAINED_MAX: usize;
    /// True if the signatures expire: a replaced key is then dropped after the last of them.
    const EXPIRES: bool;

    /// Builds the material from a stored secret.
    ///
    /// # Errors
    /// The reason why the secret is not valid, without any part of it.
    fn of_secret(secret: &[u8]) -> Result<Self, String>;

    /// Returns the public key as URL-safe base64 without padding; `None` if the secret also verifies.
    fn public_key(&self) -> Option<String> {
        None
    }
}

/// Signs and verifies tokens with HMAC-SHA-256.
pub struct TokenMaterial {
    pub(super) encoding: EncodingKey,
    pub(super) decoding: DecodingKey,
}

daftar_domain::opaque_debug!(TokenMaterial);

impl KeyMaterial for TokenMaterial {
    const FILE: &'static str = TOKEN_KEY_FILE;
    const RETAINED_MAX: usize = 8;
    const EXPIRES: bool = true;

    fn of_secret(secret: &[u8]) -> Result<Self, String> {
        let (encoding, decoding) = keys_of(secret);
        Ok(Self { encoding, decoding })
    }
}

/// The token signing keys.
pub type TokenKeys = SigningKeys<TokenMaterial>;

/// One signing key.
pub struct SigningKey<M> {
    pub(super) id: Arc<str>,
    created_at: Timestamp,
    lifetime_s: Option<u64>,
    accepted_until: Option<Timestamp>,
    pub(super) material: M,
}

impl<M: KeyMaterial> SigningKey<M> {
    fn new(stored: &StoredKey, accepted_until: Option<Timestamp>) -> Result<Self, String> {
        Ok(Self {
            id: stored.id.as_str().into(),
            created_at: stored.created_at,
            lifetime_s: stored.lifetime_s,
            accepted_until,
            material: M::of_secret(stored.secret.expose_secret())?,
        })
    }

    /// Returns the key id, such as the `kid` of the tokens that it signs.
    #[must_use]
    pub fn id(&self) -> &str {
        &self.id
    }

    /// Returns the public key as URL-safe base64 without padding; `None` if the secret also verifies.
    #[must_use]
    pub fn public_key(&self) -> Option<String> {
        self.material.public_key()
    }

    /// Returns the time of creation.
    #[must_use]
    pub fn created_at(&self) -> Timestamp {
        self.created_at
    }

    /// Returns the time until which its signatures are accepted; `None` for the current key, and if signatures do not
    /// expire.
    #[must_use]
    pub fn accepted_until(&self) -> Option<Timestamp> {
        self.accepted_until
    }

    /// Returns the longest lifetime of the tokens that it signed, in seconds; if not recorded, the most that the
    /// configuration allows.
    #[must_use]
    pub fn lifetime_s(&self) -> u64 {
        self.lifetime_s.unwrap_or(TOKEN_LIFETIME_S_MAX)
    }

    /// Returns true if its signatures are accepted.
    pub(super) fn is_accepted(&self, now: Timestamp) -> bool {
        self.accepted_until.is_none_or(|until| now < until)
    }
}

impl<M> fmt::Debug for SigningKey<M> {
    /// Shows the key id, never the key.
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter
            .debug_struct("SigningKey")
            .field("id", &self.id)
            .field("created_at", &self.created_at)
            .field("accepted_until", &self.accepted_until)
            .finish_non_exhaustive()
    }
}

/// An immutable set of the signing keys of one use.
#[derive(Debug)]
pub struct SigningKeys<M> {
    current: SigningKey<M>,
    previous: Vec<SigningKey<M>>,
}

impl<M: KeyMaterial> SigningKeys<M> {
    /// Builds the set from stored keys, newest first.
    ///
    /// # Errors
    /// The reason why they cannot be used, without any part of them.
    pub(super) fn new(stored: &[StoredKey]) -> Result<Self, String> {
        let (newest, older) = stored.split_first().ok_or_else(|| "it contains no key".to_owned())?;
        if older.len() >= M::RETAINED_MAX {
            return Err(format!("it contains {} keys, not 1 to {}", stored.len(), M::RETAINED_MAX));
        }
        let until = |key, newer| M::EXPIRES.then(|| accepted_until(key, newer));
        let previous = stored.iter().zip(older).map(|(newer, key)| SigningKey::new(key, until(key, newer)));
        Ok(Self { current: SigningKey::new(newest, None)?, previous: previous.collect::<Result<_, _>>()? })
    }

    /// Returns the current key, which signs.
    #[must_use]
    pub fn current(&self) -> &SigningKey<M> {
        &self.current
    }

    /// Returns all keys, newest first.
    pub fn all(&self) -> impl Iterator<Item = &SigningKey<M>> {
        std::iter::once(&self.current).chain(&self.previous)
    }

    /// Returns the key with this id, if its signatures are still accepted.
    #[must_use]
    pub fn find(&self, id: &str, now: Timestamp) -> Option<&SigningKey<M>> {
        self.all().find(|key| &*key.id == id).filter(|key| key.is_accepted(now))
    }
}

/// Returns the latest possible expiry of the tokens of a replaced key.
fn accepted_until(key: &StoredKey, newer: &StoredKey) -> Timestamp {
    let lifetime_s = key.lifetime_s.unwrap_or(TOKEN_LIFETIME_S_MAX);
    key.accepted_until.unwrap_or_else(|| after(newer.created_at, lifetime_s))
}

/// Adds seconds and a margin to a timestamp.
pub(super) fn after(instant: Timestamp, seconds: u64) -> Timestamp {
    let seconds = i64::try_from(seconds.saturating_add(MARGIN_S)).unwrap_or(i64::MAX);
    instant.saturating_add(SignedDuration::from_secs(seconds)).unwrap_or(Timestamp::MAX)
}

static PROVIDER: CryptoProvider = CryptoProvider {
    signer_factory: |algorithm, key| Ok(Box::new(Hs256::new(*algorithm, key.as_bytes())?)),
    verifier_factory: |algorithm, key| Ok(Box::new(Hs256::new(*algorithm, key.try_get_as_bytes()?)?)),
    // Keys are never read from or written as JWK.
    key_utils: KeyUtils::new_unimplemented(),
};

/// Builds the keys of a secret, to sign and to verify.
fn keys_of(secret: &[u8]) -> (EncodingKey, DecodingKey) {
    // The first call in the process installs the provider; later calls are no-ops.
    let _is_first = PROVIDER.install_default().is_ok();
    (EncodingKey::from_secret(secret), DecodingKey::from_secret(secret))
}

/// HMAC with SHA-256 (RFC 7518 §3.2) under one key.
struct Hs256(hmac::Key);

impl Hs256 {
    fn new(algorithm: Algorithm, secret: &[u8]) -> jsonwebtoken::errors::Result<Self> {
        if algorithm != Algorithm::HS256 {
            return Err(ErrorKind::InvalidAlgorithm.into());
        }
        Ok(Self(hmac::Key::new(hmac::HMAC_SHA256, secret)))
    }
}

impl Signer<Vec<u8>> for Hs256 {
    fn try_sign(&self, message: &[u8]) -> Result<Vec<u8>, signature::Error> {
        Ok(hmac::sign(&self.0, message).as_ref().to_vec())
    }
}

impl Verifier<Vec<u8>> for Hs256 {
    /// Compares in constant time.
    fn verify(&self, message: &[u8], signature: &Vec<u8>) -> Result<(), signature::Error> {
        hmac::verify(&self.0, message, signature).map_err(|_| signature::Error::new())
    }
}

impl JwtSigner for Hs256 {
    fn algorithm(&self) -> Algorithm {
        Algorithm::HS256
    }
}

impl JwtVerifier for Hs256 {
    fn algorithm(&self) -> Algorithm {
        Algorithm::HS256
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fixtures::at;
    use crate::key_file::new_key;

    #[test]
    fn the_first_key_signs_and_the_others_verify_until_their_tokens_expire() {
        let first = StoredKey { accepted_until: Some(at(500)), ..new_key(Some(100), at(0)).unwrap() };
        let second = new_key(Some(100), at(200)).unwrap();
        let unknown = new_key(None, at(300)).unwrap();
        let newest = new_key(Some(100), at(400)).unwrap();
        let names = [&newest, &unknown, &second, &first].map(|key| key.id.clone());
        let keys = TokenKeys::new(&[newest, unknown, second, first]).unwrap();
        assert_eq!(keys.current().id(), names[0]);
        assert_eq!((keys.current().created_at(), keys.current().public_key()), (at(400), None));
        let accepted_until = |name: &str| keys.all().find(|key| key.id() == name).unwrap().accepted_until();
        let month_s = i64::try_from(TOKEN_LIFETIME_S_MAX).unwrap();
        assert_eq!(accepted_until(&names[0]), None);
        assert_eq!(accepted_until(&names[1]), Some(at(400 + month_s + 60)), "no recorded lifetime");
        assert_eq!(accepted_until(&names[2]), Some(at(300 + 100 + 60)), "counted from the replacement");
        assert_eq!(accepted_until(&names[3]), Some(at(500)), "as recorded");
        for (name, last) in [(&names[2], 459), (&names[3], 499)] {
            assert!(keys.find(name, at(last)).is_some());
            assert!(keys.find(name, at(last + 1)).is_none());
        }
        assert!(keys.find(&names[0], Timestamp::MAX).is_some());
        assert!(keys.find("other", at(400)).is_none());
        assert!(TokenKeys::new(&[]).is_err());
    }

    #[test]
    fn debug_output_contains_no_key() {
        let keys = TokenKeys::new(&[new_key(None, at(0)).unwrap()]).unwrap();
        let shown = format!("{keys:?}");
        assert!(shown.contains(keys.current().id()) && !shown.contains("encoding"), "{shown}");
    }
}

#[cfg(test)]
mod token_crypto_tests {
    use super::*;

    #[test]
    fn signs_like_the_example_of_rfc_7515() {
        // RFC 7515, appendix A.1: the key, the signing input and the signature.
        let key = "AyM1SysPpbyDfgZld3umj1qzKObwVMkoqQ-EstJQLr_T-1qS0gZH75aKtMN3Yj0iPS4hcgUuTwjAzZr1Z9CAow";
        let message = "eyJ0eXAiOiJKV1QiLA0KICJhbGciOiJIUzI1NiJ9.\
            eyJpc3MiOiJqb2UiLA0KICJleHAiOjEzMDA4MTkzODAsDQogImh0dHA6Ly9leGFtcGxlLmNvbS9pc19yb290Ijp0cnVlfQ";
        let signature = "dBjftJeZ4CVP-mB92K27uhbUJU1p1r_wW1gFWFOEjXk";
        let secret = base64::Engine::decode(&base64::engine::general_purpose::URL_SAFE_NO_PAD, key).unwrap();
        let (encoding, decoding) = keys_of(&secret);
        assert_eq!(jsonwebtoken::crypto::sign(message.as_bytes(), &encoding, Algorithm::HS256).unwrap(), signature);
        let verify = |signature: &str, algorithm| {
            jsonwebtoken::crypto::verify(signature, message.as_bytes(), &decoding, algorithm)
        };
        assert!(verify(signature, Algorithm::HS256).unwrap());
        assert!(!verify(&signature.replace('d', "e"), Algorithm::HS256).unwrap());
        assert!(!verify("", Algorithm::HS256).unwrap());
        verify(signature, Algorithm::HS384).unwrap_err();
        jsonwebtoken::crypto::sign(b"", &encoding, Algorithm::HS512).unwrap_err();
    }
}
