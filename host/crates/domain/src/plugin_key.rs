//! The public keys that plugins are signed with (Ed25519, RFC 8032).
//!
//! **Invariant:** a key that exists is a point of the curve that no forged signature fits: the weak ones are refused.

use std::fmt;
use std::str::FromStr;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use ed25519_dalek::VerifyingKey;
use ed25519_dalek::pkcs8::DecodePublicKey as _;
use serde::Deserialize;
use sha2::{Digest as _, Sha256};

/// What a key in one line begins with.
const PREFIX: &str = "ed25519:";
/// The longest name of a key, in bytes.
const NAME_BYTES_MAX: usize = 64;
/// How much of a text that is no key is repeated in the error.
const SHOWN_CHARACTERS_MAX: usize = 60;

/// Names a key: the first eight bytes of the SHA-256 of its 32 bytes, written as 16 hexadecimal digits.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct PluginKeyId([u8; 8]);

impl PluginKeyId {
    /// The id of a key.
    #[must_use]
    pub fn of(key: &VerifyingKey) -> Self {
        let digest: [u8; 32] = Sha256::digest(key.as_bytes()).into();
        let mut id = [0; 8];
        id.iter_mut().zip(digest).for_each(|(to, from)| *to = from);
        Self(id)
    }
}

impl fmt::Display for PluginKeyId {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.iter().try_for_each(|byte| write!(formatter, "{byte:02x}"))
    }
}

impl FromStr for PluginKeyId {
    type Err = InvalidPluginKeyId;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let is_plain = text.bytes().all(|byte| matches!(byte, b'0'..=b'9' | b'a'..=b'f'));
        let number = u64::from_str_radix(text, 16).ok().filter(|_| text.len() == 16 && is_plain);
        number.map(|number| Self(number.to_be_bytes())).ok_or(InvalidPluginKeyId)
    }
}

/// A text that is no key id.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("a key id has 16 lower-case hexadecimal digits")]
pub struct InvalidPluginKeyId;

/// A public key, with the name that the operator gave it.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(try_from = "String")]
pub struct PluginKey {
    key: VerifyingKey,
    name: Option<String>,
}

/// A text that is no public key, and why.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error(
    "`{shown}` is no public key for plugins: {reason}; `daftar plugin keygen` prints one, as `ed25519:<base64> [name]` or as PEM"
)]
pub struct InvalidPluginKey {
    shown: String,
    reason: &'static str,
}

impl PluginKey {
    /// A key without a name.
    #[must_use]
    pub fn new(key: VerifyingKey) -> Self {
        Self { key, name: None }
    }

    /// Reads one line, `ed25519:` with the base64 of the 32 bytes and a name if wanted, or a PEM public key.
    ///
    /// # Errors
    /// What is wrong with the text.
    pub fn parse(text: &str) -> Result<Self, InvalidPluginKey> {
        let text = text.trim();
        let wrong = |reason| InvalidPluginKey { shown: shown(text), reason };
        let (key, name) = if text.starts_with("-----BEGIN") {
            let key = VerifyingKey::from_public_key_pem(text);
            (key.map_err(|_| wrong("this is no PEM of an Ed25519 public key"))?, None)
        } else {
            let line = text.strip_prefix(PREFIX).ok_or_else(|| wrong("it does not begin with `ed25519:`"))?;
            let (key, name) = line.split_once(' ').map_or((line, None), |(key, name)| (key, Some(name.trim())));
            let bytes = STANDARD.decode(key).map_err(|_| wrong("what follows `ed25519:` is not base64"))?;
            let bytes: [u8; 32] = bytes.try_into().map_err(|_| wrong("the key does not have 32 bytes"))?;
            let key = VerifyingKey::from_bytes(&bytes).map_err(|_| wrong("its bytes are no point of the curve"))?;
            (key, name)
        };
        if key.is_weak() {
            return Err(wrong("it is a weak key, which fits signatures that nobody made"));
        }
        let name = name.filter(|name| !name.is_empty());
        if name.is_some_and(|name| name.len() > NAME_BYTES_MAX || name.chars().any(char::is_control)) {
            return Err(wrong("its name has more than 64 bytes or control characters"));
        }
        Ok(Self { key, name: name.map(str::to_owned) })
    }

    /// The key itself.
    #[must_use]
    pub fn key(&self) -> &VerifyingKey {
        &self.key
    }

    /// Its id.
    #[must_use]
    pub fn id(&self) -> PluginKeyId {
        PluginKeyId::of(&self.key)
    }

    /// What the operator calls it.
    #[must_use]
    pub fn name(&self) -> Option<&str> {
        self.name.as_deref()
    }
}

/// One line, as it is pasted into `trusted_keys`.
impl fmt::Display for PluginKey {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "{PREFIX}{}", STANDARD.encode(self.key.as_bytes()))?;
        self.name.iter().try_for_each(|name| write!(formatter, " {name}"))
    }
}

impl TryFrom<String> for PluginKey {
    type Error = InvalidPluginKey;

    fn try_from(text: String) -> Result<Self, Self::Error> {
        Self::parse(&text)
    }
}

fn shown(text: &str) -> String {
    let mut shown: String = text
        .chars()
        .take(SHOWN_CHARACTERS_MAX)
        .map(|character| if character.is_control() { ' ' } else { character })
        .collect();
    if text.chars().nth(SHOWN_CHARACTERS_MAX).is_some() {
        shown.push('…');
    }
    shown
}

#[cfg(test)]
mod tests {
    use ed25519_dalek::pkcs8::EncodePublicKey as _;

    use super::*;

    fn key() -> VerifyingKey {
        ed25519_dalek::SigningKey::from_bytes(&[7; 32]).verifying_key()
    }

    #[test]
    fn reads_the_line_that_it_writes_with_and_without_a_name() {
        let line = PluginKey::new(key()).to_string();
        assert_eq!(line, "ed25519:6kpsY+KcUgq+9VB7Ey7F+ZVHdq6+vnuSQh7qaRRG0iw=");
        for text in [line.clone(), format!("{line} ministry 2026"), format!("  {line}  \n")] {
            let read = PluginKey::parse(&text).unwrap();
            assert_eq!(read.key(), &key());
            assert_eq!(read.to_string(), text.trim());
        }
        assert_eq!(PluginKey::parse(&format!("{line} ministry 2026")).unwrap().name(), Some("ministry 2026"));
    }

    #[test]
    fn reads_a_pem_and_gives_the_same_id() {
        let pem = key().to_public_key_pem(ed25519_dalek::pkcs8::spki::der::pem::LineEnding::LF).unwrap();
        assert_eq!(PluginKey::parse(&pem).unwrap().id(), PluginKeyId::of(&key()));
    }

    #[test]
    fn an_id_is_the_beginning_of_the_digest_of_the_key() {
        let id = PluginKeyId::of(&key());
        let digest: [u8; 32] = Sha256::digest(key().as_bytes()).into();
        let begin: String = digest.iter().take(8).map(|byte| format!("{byte:02x}")).collect();
        assert_eq!(id.to_string(), begin);
        assert_eq!(begin.parse(), Ok(id));
        for wrong in ["", "0123", "0123456789ABCDEF", "+123456789abcdef", "0123456789abcdef0"] {
            assert_eq!(wrong.parse::<PluginKeyId>(), Err(InvalidPluginKeyId), "{wrong}");
        }
    }

    #[test]
    fn what_is_no_key_is_named_with_the_reason() {
        let not_on_the_curve = format!("ed25519:{}", STANDARD.encode([2; 32]));
        let weak = format!("ed25519:{}", STANDARD.encode([0; 32]));
        for (text, reason) in [
            ("", "does not begin"),
            ("rsa:AAAA", "does not begin"),
            ("ed25519:%%", "not base64"),
            ("ed25519:AAAA", "32 bytes"),
            (not_on_the_curve.as_str(), "curve"),
            (weak.as_str(), "weak"),
            ("-----BEGIN PUBLIC KEY-----\nAAAA\n-----END PUBLIC KEY-----", "PEM"),
        ] {
            let error = PluginKey::parse(text).unwrap_err().to_string();
            assert!(error.contains(reason) && error.contains("plugin keygen"), "{text}: {error}");
        }
        let long = format!("{} {}", PluginKey::new(key()), "x".repeat(NAME_BYTES_MAX));
        assert!(PluginKey::parse(&long).is_ok());
        assert!(PluginKey::parse(&format!("{long}x")).is_err());
    }
}
