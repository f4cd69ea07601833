//! The keys that seal decisions: Ed25519 (RFC 8032), stored and rotated like the token signing keys.
//!
//! A seal is `<key id>.<signature>`, the signature as URL-safe base64 without padding. The signed bytes are defined in
//! `service/eligibility/decision.rs`, and for evidence bundles in `service/eligibility/evidence.rs`.
//!
//! **Invariant:** a replaced key continues to verify its seals: a decision may be repeated years later.

use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use jiff::Timestamp;
use ring::signature::{ED25519, Ed25519KeyPair, KeyPair, UnparsedPublicKey};

use super::entropy::SECRET_BYTES;
use super::keys::{KeyMaterial, SigningKeys};

/// The file of the keys within the folder of keys.
pub(super) const DECISION_KEY_FILE: &str = "decisions.json";
/// The longest seal that is verified, in bytes: the longest key id, the separator, 64 bytes of signature in base64.
const SEAL_BYTES_MAX: usize = 64 + 1 + 86;

/// The keys that seal decisions.
pub type DecisionKeys = SigningKeys<DecisionMaterial>;

/// Key material that creates and verifies seals.
pub struct DecisionMaterial(Ed25519KeyPair);

daftar_domain::opaque_debug!(DecisionMaterial);

impl KeyMaterial for DecisionMaterial {
    const FILE: &'static str = DECISION_KEY_FILE;
    const RETAINED_MAX: usize = super::key_file::KEYS_MAX;
    const EXPIRES: bool = false;

    fn of_secret(secret: &[u8]) -> Result<Self, String> {
        let pair = Ed25519KeyPair::from_seed_unchecked(secret);
        pair.map(Self).map_err(|_| format!("its key is not {SECRET_BYTES} bytes long"))
    }

    fn public_key(&self) -> Option<String> {
        Some(URL_SAFE_NO_PAD.encode(self.0.public_key()))
    }
}

/// The reason why a seal is not accepted.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SealFault {
    /// The key named in the seal is not known.
    UnknownKey,
    /// The seal is not a signature of that key over those bytes.
    Mismatch,
}

impl DecisionKeys {
    /// Seals bytes with the current key.
    #[must_use]
    pub fn seal(&self, bytes: &[u8]) -> String {
        let key = self.current();
        let signature = key.material.0.sign(bytes);
        format!("{}.{}", key.id(), URL_SAFE_NO_PAD.encode(signature.as_ref()))
    }

    /// Verifies a seal of bytes.
    ///
    /// # Errors
    /// [`SealFault`].
    pub fn verify(&self, bytes: &[u8], seal: &str) -> Result<(), SealFault> {
        let (id, signature) = parts_of(seal)?;
        // Decision keys do not expire, so the time does not matter.
        let key = self.find(id, Timestamp::MAX).ok_or(SealFault::UnknownKey)?;
        check(key.material.0.public_key(), bytes, &signature)
    }
}

/// Verifies a seal with a public key, where the key folder is not available. `key` is its id and the public key as
/// URL-safe base64 without padding.
///
/// # Errors
/// [`SealFault`].
pub fn verify_with((id, public_key): (&str, &str), bytes: &[u8], seal: &str) -> Result<(), SealFault> {
    let (named, signature) = parts_of(seal)?;
    if named != id {
        return Err(SealFault::UnknownKey);
    }
    let public_key = URL_SAFE_NO_PAD.decode(public_key).map_err(|_| SealFault::Mismatch)?;
    check(public_key, bytes, &signature)
}

/// Returns the key id and the signature of a seal.
fn parts_of(seal: &str) -> Result<(&str, Vec<u8>), SealFault> {
    if seal.len() > SEAL_BYTES_MAX {
        return Err(SealFault::Mismatch);
    }
    let (id, signature) = seal.split_once('.').ok_or(SealFault::Mismatch)?;
    Ok((id, URL_SAFE_NO_PAD.decode(signature).map_err(|_| SealFault::Mismatch)?))
}

fn check(public_key: impl AsRef<[u8]>, bytes: &[u8], signature: &[u8]) -> Result<(), SealFault> {
    UnparsedPublicKey::new(&ED25519, public_key).verify(bytes, signature).map_err(|_| SealFault::Mismatch)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fixtures::at;
    use crate::key_ring::{DecisionKeyRing, RotationError};

    fn ring() -> (tempfile::TempDir, DecisionKeyRing) {
        let folder = tempfile::tempdir().unwrap();
        let ring = DecisionKeyRing::load_or_create(folder.path(), at(0)).unwrap();
        (folder, ring)
    }

    fn rotate(ring: &DecisionKeyRing, now: i64) {
        ring.carry_out(ring.prepare(None, at(now)).unwrap(), at(now)).unwrap();
    }

    #[test]
    fn a_seal_is_verified_after_every_rotation_and_restart() {
        let (folder, ring) = ring();
        let seals: Vec<String> = (1..5)
            .map(|now| {
                let seal = ring.load().seal(b"decided");
                rotate(&ring, now);
                seal
            })
            .collect();
        let century = at(100 * 365 * 86_400);
        assert_eq!(ring.drop_expired(century).unwrap(), Vec::<String>::new());
        let later = DecisionKeyRing::load_or_create(folder.path(), century).unwrap();
        for (ring, seal) in [&ring, &later].into_iter().flat_map(|ring| seals.iter().map(move |seal| (ring, seal))) {
            assert_eq!(ring.load().verify(b"decided", seal), Ok(()));
            assert_eq!(ring.load().verify(b"decided otherwise", seal), Err(SealFault::Mismatch));
        }
        assert_ne!(seals[0], seals[1]);
        assert!(seals[0].starts_with(&format!("{}.", later.load().all().last().unwrap().id())), "contains its key id");
    }

    #[test]
    fn a_seal_of_another_folder_or_with_any_character_changed_is_rejected() {
        let ((_folder, ring), (_other_folder, other)) = (ring(), ring());
        let seal = ring.load().seal(b"decided");
        assert_eq!(other.load().verify(b"decided", &seal), Err(SealFault::UnknownKey));
        let signature = seal.split_once('.').unwrap().1;
        let forged = format!("{}.{signature}", other.load().current().id());
        assert_eq!(other.load().verify(b"decided", &forged), Err(SealFault::Mismatch));
        for at in 0..seal.len() {
            let mut bytes = seal.clone().into_bytes();
            bytes[at] = if bytes[at] == b'A' { b'B' } else { b'A' };
            assert!(ring.load().verify(b"decided", std::str::from_utf8(&bytes).unwrap()).is_err(), "{at}");
        }
        for wrong in ["", ".", "x", &format!("{seal}A"), &format!("{seal}="), &"A".repeat(10_000)] {
            assert!(ring.load().verify(b"decided", wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn a_seal_is_verified_with_its_public_key_alone() {
        let ((_folder, ring), (_other_folder, other)) = (ring(), ring());
        let seal = ring.load().seal(b"decided");
        let of = |ring: &DecisionKeyRing| {
            (ring.load().current().id().to_owned(), ring.load().current().public_key().unwrap())
        };
        let ((id, public), (other_id, other_public)) = (of(&ring), of(&other));
        assert_eq!(verify_with((&id, &public), b"decided", &seal), Ok(()));
        assert_eq!(verify_with((&id, &public), b"decided otherwise", &seal), Err(SealFault::Mismatch));
        assert_eq!(verify_with((&id, &other_public), b"decided", &seal), Err(SealFault::Mismatch));
        assert_eq!(verify_with((&id, "?"), b"decided", &seal), Err(SealFault::Mismatch));
        assert_eq!(verify_with((&other_id, &public), b"decided", &seal), Err(SealFault::UnknownKey));
        // The id is not signed.
        let (_, signature) = seal.split_once('.').unwrap();
        for (length, expected) in [(64, Ok(())), (65, Err(SealFault::Mismatch))] {
            let id = "k".repeat(length);
            assert_eq!(verify_with((&id, &public), b"decided", &format!("{id}.{signature}")), expected, "{length}");
        }
    }

    #[test]
    fn a_rotation_has_no_overlap_and_fails_at_the_key_limit() {
        let (_folder, ring) = ring();
        assert!(matches!(ring.prepare(Some(86_400), at(1)), Err(RotationError::NoOverlap)));
        for now in 1..64 {
            rotate(&ring, now);
        }
        let refused = ring.prepare(None, at(64)).err().unwrap();
        assert!(matches!(refused, RotationError::FullForGood { stored_max: 64, .. }), "{refused}");
        assert!(refused.to_string().contains("keys/decisions.json"), "{refused}");
    }

    #[test]
    fn a_key_of_another_length_is_rejected_at_start() {
        let folder = tempfile::tempdir().unwrap();
        drop(DecisionKeyRing::load_or_create(folder.path(), at(0)).unwrap());
        let path = folder.path().join("keys").join(DECISION_KEY_FILE);
        let mut file: serde_json::Value = serde_json::from_slice(&std::fs::read(&path).unwrap()).unwrap();
        let long: Vec<u8> = (0..33).map(|index| (index * index * 7 % 251) as u8).collect();
        file["keys"][0]["secret"] = URL_SAFE_NO_PAD.encode(long).into();
        std::fs::write(&path, file.to_string()).unwrap();
        let refused = DecisionKeyRing::load_or_create(folder.path(), at(1)).unwrap_err().to_string();
        assert!(refused.contains("is not 32 bytes long"), "{refused}");
    }
}
