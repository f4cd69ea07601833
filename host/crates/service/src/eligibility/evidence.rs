//! Evidence of a decision: one signed file with the rule, its engine, the codes and facts that the engine read, and the
//! response, so that a machine without the register can repeat the decision.
//!
//! **Invariant:** the server evaluates the content of the bundle, not the data from which it wrote the content.
//!
//! **Invariant:** a bundle has a value of a field only if the rule reads the field and the client may see it.
//!
//! **Invariant:** the content has no timestamp and no internal number. The same decision is therefore the same content.
//!
//! # File
//!
//! `{"daftar_evidence":1,"key":{…},"seal":"…","content":{…}}` and a line end. `seal` is a signature by a key of
//! decisions. The signed bytes are the text `daftar evidence 1 <key id>`, a line end, and the bytes of `content`. The
//! other bytes follow from these members: a file with any other byte is rejected.

mod content;
mod inputs;

pub(super) use content::EngineFacts;
pub use content::{Content, EvidenceField, EvidenceQuestion, EvidenceSubject};
pub use inputs::{Inputs, Replayed};

use serde::{Deserialize, Serialize};
use serde_json::value::{RawValue, to_raw_value};

use daftar_auth::decision_key::{DecisionKeys, verify_with};

/// The version of the format.
const FORMAT: u64 = 1;
/// Maximum size of a bundle, in bytes.
pub const BUNDLE_BYTES_MAX: usize = 16 << 20;

/// A public key that verifies bundles, as a JSON Web Key (RFC 7517, RFC 8037).
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct VerificationKey {
    /// `OKP`.
    pub kty: String,
    /// `Ed25519`.
    pub crv: String,
    /// The id of the key.
    pub kid: String,
    /// The public key as URL-safe base64 without padding.
    pub x: String,
}

impl VerificationKey {
    /// Returns the key with that id and public key.
    #[must_use]
    pub fn new(kid: impl Into<String>, x: impl Into<String>) -> Self {
        Self { kty: "OKP".to_owned(), crv: "Ed25519".to_owned(), kid: kid.into(), x: x.into() }
    }

    fn is_ed25519(&self) -> bool {
        self.kty == "OKP" && self.crv == "Ed25519"
    }

    /// Reads a JSON Web Key, or a set of them (`{"keys": […]}`). Keys of other types are ignored.
    ///
    /// # Errors
    /// The text is not JSON, or contains no Ed25519 key with an id; one sentence.
    pub fn read_all(text: &str) -> Result<Vec<Self>, String> {
        let read: serde_json::Value = serde_json::from_str(text).map_err(|error| format!("it is not JSON: {error}"))?;
        let listed = match read.get("keys").and_then(serde_json::Value::as_array) {
            Some(keys) => keys.clone(),
            None => vec![read],
        };
        let keys = listed.into_iter().filter_map(|key| serde_json::from_value::<Self>(key).ok());
        let keys: Vec<Self> = keys.filter(Self::is_ed25519).collect();
        if keys.is_empty() {
            return Err("it has no Ed25519 key with `kid` and `x`; `daftar key export` writes such a file".to_owned());
        }
        Ok(keys)
    }
}

/// The members of the file.
#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Envelope<'a> {
    daftar_evidence: u64,
    key: VerificationKey,
    seal: String,
    #[serde(borrow)]
    content: &'a RawValue,
}

/// The member that every version of the format has.
#[derive(Deserialize)]
struct Version {
    daftar_evidence: u64,
}

/// Returns the file of a bundle, signed with the current key.
///
/// # Errors
/// The content cannot be written as JSON, which is a defect.
pub fn sign(keys: &DecisionKeys, content: &Content) -> Result<Vec<u8>, serde_json::Error> {
    let content = to_raw_value(content)?;
    let key = VerificationKey::new(keys.current().id(), keys.current().public_key().unwrap_or_default());
    let seal = keys.seal(&signed_bytes(&key.kid, content.get()));
    file_of(&Envelope { daftar_evidence: FORMAT, key, seal, content: &content })
}

fn file_of(envelope: &Envelope<'_>) -> Result<Vec<u8>, serde_json::Error> {
    let mut file = serde_json::to_vec(envelope)?;
    file.push(b'\n');
    Ok(file)
}

fn signed_bytes(kid: &str, content: &str) -> Vec<u8> {
    format!("daftar evidence {FORMAT} {kid}\n{content}").into_bytes()
}

/// A bundle whose signature matches the key that it names. The caller decides if it trusts this key.
#[derive(Debug)]
pub struct Bundle {
    /// The key.
    pub key: VerificationKey,
    /// The content.
    pub content: Content,
}

/// Reads the file of a bundle and verifies its signature with the key in it.
///
/// # Errors
/// One sentence that states why the file is not a bundle, or that it was changed.
pub fn open(file: &[u8]) -> Result<Bundle, String> {
    if file.len() > BUNDLE_BYTES_MAX {
        return Err(format!("it has more than {BUNDLE_BYTES_MAX} bytes, the maximum of an evidence bundle"));
    }
    let not_a_bundle = |error: serde_json::Error| format!("it is not an evidence bundle: {error}");
    let Version { daftar_evidence: version } = serde_json::from_slice(file).map_err(not_a_bundle)?;
    if version != FORMAT {
        return Err(format!("it has the format {version}, and this program reads format {FORMAT}"));
    }
    let envelope: Envelope<'_> = serde_json::from_slice(file).map_err(not_a_bundle)?;
    if file_of(&envelope).map_err(not_a_bundle)? != file {
        return Err("it was changed after it was signed: its JSON is formatted in another way".to_owned());
    }
    let Envelope { key, seal, content, .. } = envelope;
    if !key.is_ed25519() {
        return Err("its key is not an Ed25519 key".to_owned());
    }
    let signed = signed_bytes(&key.kid, content.get());
    verify_with((&key.kid, &key.x), &signed, &seal).map_err(|_| {
        format!("it was changed after it was signed: the signature of the key `{}` does not match its bytes", key.kid)
    })?;
    let content = serde_json::from_str(content.get()).map_err(|error| format!("its content is invalid: {error}"))?;
    Ok(Bundle { key, content })
}

#[cfg(test)]
mod tests;
