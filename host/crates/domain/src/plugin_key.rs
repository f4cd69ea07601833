//! Public keys for verifying plugin signatures (Ed25519, RFC 8032).
//!
//! **Invariant:** every key is a valid point of the curve; weak keys, which accept forged signatures, are rejected.
//!
//! **Invariant:** a configured limit is always enforced: an entry with an empty list, an unknown kind or an unknown
//! member is rejected, never treated as unlimited.

use std::fmt;
use std::str::FromStr;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use ed25519_dalek::VerifyingKey;
use ed25519_dalek::pkcs8::DecodePublicKey as _;
use serde::de::value::MapAccessDeserializer;
use serde::de::{Deserializer, Error as _, MapAccess, Visitor};
use serde::{Deserialize, Serialize, Serializer};
use sha2::{Digest as _, Sha256};

use super::hexadecimal;
use super::hidden::shown;
use super::manifest::{PluginKind, PluginName};

/// Prefix of a key in one line.
const PREFIX: &str = "ed25519:";
/// Maximum length of the name of a key, in bytes.
const NAME_BYTES_MAX: usize = 64;

/// The id of a key: the first eight bytes of the SHA-256 of its 32 bytes, written as 16 hexadecimal digits.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct PluginKeyId([u8; 8]);

impl PluginKeyId {
    /// Returns the id of a key.
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
        formatter.write_str(&hexadecimal::encode(&self.0))
    }
}

impl FromStr for PluginKeyId {
    type Err = InvalidPluginKeyId;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let bytes = hexadecimal::decode(text).and_then(|bytes| bytes.try_into().ok());
        bytes.map(Self).filter(|id| id.to_string() == text).ok_or(InvalidPluginKeyId)
    }
}

/// Error: a text is not a key id.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("a key id has 16 lower-case hexadecimal digits")]
pub struct InvalidPluginKeyId;

/// A public key, with the name given by the operator.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(try_from = "String")]
pub struct PluginKey {
    key: VerifyingKey,
    name: Option<String>,
}

/// Error: a text is not a public key.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error(
    "`{shown}` is not a public key for plugins: {reason}; `daftar plugin keygen` prints one, as `ed25519:<base64> [name]` or as PEM"
)]
pub struct InvalidPluginKey {
    shown: String,
    reason: &'static str,
}

read_by_parse!(PluginKey or InvalidPluginKey);

impl PluginKey {
    /// Creates a key without a name.
    #[must_use]
    pub fn new(key: VerifyingKey) -> Self {
        Self { key, name: None }
    }

    /// Parses one line, `ed25519:` with the base64 of the 32 bytes and an optional name, or a PEM public key.
    ///
    /// # Errors
    /// The problem of the text.
    pub fn parse(text: &str) -> Result<Self, InvalidPluginKey> {
        let text = text.trim();
        let wrong = |reason| InvalidPluginKey { shown: shown(text), reason };
        let (key, name) = if text.starts_with("-----BEGIN") {
            let key = VerifyingKey::from_public_key_pem(text);
            (key.map_err(|_| wrong("it is not the PEM of an Ed25519 public key"))?, None)
        } else {
            let line = text.strip_prefix(PREFIX).ok_or_else(|| wrong("it does not begin with `ed25519:`"))?;
            let (key, name) = line.split_once(' ').map_or((line, None), |(key, name)| (key, Some(name.trim())));
            let bytes = STANDARD.decode(key).map_err(|_| wrong("what follows `ed25519:` is not base64"))?;
            let bytes: [u8; 32] = bytes.try_into().map_err(|_| wrong("the key does not have 32 bytes"))?;
            let key = VerifyingKey::from_bytes(&bytes).map_err(|_| wrong("its bytes are not a point of the curve"))?;
            (key, name)
        };
        if key.is_weak() {
            return Err(wrong("it is a weak key, which accepts forged signatures"));
        }
        let name = name.filter(|name| !name.is_empty());
        if name.is_some_and(|name| name.len() > NAME_BYTES_MAX || name.chars().any(char::is_control)) {
            return Err(wrong("its name has more than 64 bytes or control characters"));
        }
        Ok(Self { key, name: name.map(str::to_owned) })
    }

    /// Returns the key itself.
    #[must_use]
    pub fn key(&self) -> &VerifyingKey {
        &self.key
    }

    /// Returns its id.
    #[must_use]
    pub fn id(&self) -> PluginKeyId {
        PluginKeyId::of(&self.key)
    }

    /// Returns the name given by the operator.
    #[must_use]
    pub fn name(&self) -> Option<&str> {
        self.name.as_deref()
    }
}

impl Serialize for PluginKey {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

/// Formats the key in one line, for `trusted_keys`.
impl fmt::Display for PluginKey {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "{PREFIX}{}", STANDARD.encode(self.key.as_bytes()))?;
        self.name.iter().try_for_each(|name| write!(formatter, " {name}"))
    }
}

/// The kind of signed content.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize, Serialize)]
#[serde(try_from = "String", into = "&'static str")]
pub enum SignedKind {
    /// A plugin of that kind.
    Plugin(PluginKind),
    /// A backup of the register.
    Backup,
}

impl SignedKind {
    const BACKUP: &'static str = "backup";

    /// Returns the name used in the configuration.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Plugin(kind) => kind.name(),
            Self::Backup => Self::BACKUP,
        }
    }
}

impl From<SignedKind> for &'static str {
    fn from(kind: SignedKind) -> Self {
        kind.name()
    }
}

impl TryFrom<String> for SignedKind {
    type Error = String;

    fn try_from(name: String) -> Result<Self, String> {
        let plugin = PluginKind::parse(&name).map(Self::Plugin);
        plugin.or_else(|| (name == Self::BACKUP).then_some(Self::Backup)).ok_or_else(|| {
            let known = PluginKind::NAMES.join("`, `");
            format!("`{name}` is no kind of signed content; there are `{known}` and `{}`", Self::BACKUP)
        })
    }
}

/// An entry of `[plugins] trusted_keys`: a key without limits, or a table with the key and its limits.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct TrustedKey {
    key: PluginKey,
    /// Names of the plugins that it may sign; all if absent.
    #[serde(skip_serializing_if = "Option::is_none")]
    names: Option<Vec<PluginName>>,
    /// Kinds that it may sign; all if absent.
    #[serde(skip_serializing_if = "Option::is_none")]
    kinds: Option<Vec<SignedKind>>,
}

/// The form with limits.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Limited {
    key: PluginKey,
    names: Option<Vec<PluginName>>,
    kinds: Option<Vec<SignedKind>>,
}

impl From<PluginKey> for TrustedKey {
    /// Creates a key without limits.
    fn from(key: PluginKey) -> Self {
        Self { key, names: None, kinds: None }
    }
}

impl TrustedKey {
    /// Creates a key that is trusted only for plugins of these names and these kinds.
    #[must_use]
    pub fn limited(key: PluginKey, names: Option<Vec<PluginName>>, kinds: Option<Vec<SignedKind>>) -> Self {
        Self { key, names, kinds }
    }

    /// Returns the key.
    #[must_use]
    pub fn key(&self) -> &PluginKey {
        &self.key
    }

    /// Returns its id.
    #[must_use]
    pub fn id(&self) -> PluginKeyId {
        self.key.id()
    }

    /// True if the key may sign a plugin of this name and kind.
    #[must_use]
    pub fn may_sign(&self, name: &PluginName, kind: PluginKind) -> bool {
        self.names.as_ref().is_none_or(|names| names.contains(name)) && self.may_sign_kind(SignedKind::Plugin(kind))
    }

    /// True if the key may sign backups: a key limited to names of plugins may not.
    #[must_use]
    pub fn may_sign_backups(&self) -> bool {
        self.names.is_none() && self.may_sign_kind(SignedKind::Backup)
    }

    fn may_sign_kind(&self, kind: SignedKind) -> bool {
        self.kinds.as_ref().is_none_or(|kinds| kinds.contains(&kind))
    }

    /// Returns its limits, for messages.
    #[must_use]
    pub fn limits(&self) -> String {
        let names = self.names.iter().map(|names| {
            let names: Vec<String> = names.iter().map(|name| format!("`{name}`")).collect();
            format!("the names {}", names.join(", "))
        });
        let kinds = self.kinds.iter().map(|kinds| {
            let kinds: Vec<&str> = kinds.iter().copied().map(SignedKind::name).collect();
            format!("the kinds {}", kinds.join(", "))
        });
        let limits: Vec<String> = names.chain(kinds).collect();
        if limits.is_empty() { "nothing".to_owned() } else { limits.join(" and ") }
    }
}

impl<'de> Deserialize<'de> for TrustedKey {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Entry;

        impl<'de> Visitor<'de> for Entry {
            type Value = TrustedKey;

            fn expecting(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
                formatter.write_str("a public key, or a table with `key` and `names`, `kinds` or both")
            }

            fn visit_str<E: serde::de::Error>(self, text: &str) -> Result<Self::Value, E> {
                PluginKey::parse(text).map(TrustedKey::from).map_err(E::custom)
            }

            fn visit_map<A: MapAccess<'de>>(self, map: A) -> Result<Self::Value, A::Error> {
                let Limited { key, names, kinds } = Limited::deserialize(MapAccessDeserializer::new(map))?;
                if names.as_ref().is_some_and(Vec::is_empty) || kinds.as_ref().is_some_and(Vec::is_empty) {
                    let id = key.id();
                    return Err(A::Error::custom(format!(
                        "the key {id} is limited to an empty list: list the permitted names or kinds, or omit the member"
                    )));
                }
                Ok(TrustedKey { key, names, kinds })
            }
        }

        deserializer.deserialize_any(Entry)
    }
}

#[cfg(test)]
mod tests {
    use ed25519_dalek::pkcs8::EncodePublicKey as _;

    use super::*;

    fn key() -> VerifyingKey {
        ed25519_dalek::SigningKey::from_bytes(&[7; 32]).verifying_key()
    }

    #[test]
    fn round_trips_with_and_without_a_name() {
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
    fn reads_a_pem_with_the_same_id() {
        let pem = key().to_public_key_pem(ed25519_dalek::pkcs8::spki::der::pem::LineEnding::LF).unwrap();
        assert_eq!(PluginKey::parse(&pem).unwrap().id(), PluginKeyId::of(&key()));
    }

    #[test]
    fn an_id_is_a_prefix_of_the_digest_of_the_key() {
        let id = PluginKeyId::of(&key());
        let digest: [u8; 32] = Sha256::digest(key().as_bytes()).into();
        let begin = hexadecimal::encode(digest.iter().take(8));
        assert_eq!(id.to_string(), begin);
        assert_eq!(begin.parse(), Ok(id));
        for wrong in ["", "0123", "0123456789ABCDEF", "+123456789abcdef", "0123456789abcdef0"] {
            assert_eq!(wrong.parse::<PluginKeyId>(), Err(InvalidPluginKeyId), "{wrong}");
        }
    }

    #[test]
    fn an_invalid_key_is_reported_with_the_reason() {
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

#[cfg(test)]
mod trusted_key_tests {
    use super::*;

    const KEY: &str = "ed25519:6kpsY+KcUgq+9VB7Ey7F+ZVHdq6+vnuSQh7qaRRG0iw=";

    #[derive(Deserialize)]
    struct Document {
        keys: Vec<TrustedKey>,
    }

    fn read(entry: &str) -> Result<TrustedKey, String> {
        let read = toml::from_str::<Document>(&format!("keys = [{entry}]")).map_err(|error| error.to_string())?;
        Ok(read.keys.into_iter().next().unwrap())
    }

    fn name(text: &str) -> PluginName {
        PluginName::parse(text).unwrap()
    }

    #[test]
    fn a_key_alone_is_trusted_for_everything() {
        let key = read(&format!("'{KEY} ministry'")).unwrap();
        assert_eq!(key.key().name(), Some("ministry"));
        assert!(key.may_sign(&name("cel"), PluginKind::EligibilityEngine) && key.may_sign_backups());
        assert_eq!(key.limits(), "nothing");
    }

    #[test]
    fn a_key_with_limits_is_trusted_within_all_of_them() {
        let key =
            read(&format!("{{ key = '{KEY}', names = ['crops', 'gear'], kinds = ['vocabulary-pack'] }}")).unwrap();
        assert!(key.may_sign(&name("gear"), PluginKind::VocabularyPack));
        assert!(!key.may_sign(&name("gear"), PluginKind::EligibilityEngine));
        assert!(!key.may_sign(&name("gender"), PluginKind::VocabularyPack));
        assert!(!key.may_sign_backups());
        assert_eq!(key.limits(), "the names `crops`, `gear` and the kinds vocabulary-pack");
        let backups = read(&format!("{{ key = '{KEY}', kinds = ['backup'] }}")).unwrap();
        assert!(backups.may_sign_backups() && !backups.may_sign(&name("gear"), PluginKind::VocabularyPack));
        let named = read(&format!("{{ key = '{KEY}', names = ['gear'] }}")).unwrap();
        assert!(!named.may_sign_backups(), "a key of a plugin publisher signs no backups");
    }

    #[test]
    fn an_invalid_entry_is_rejected() {
        for (entry, reason) in [
            ("'ed25519:AAAA'".to_owned(), "ed25519:AAAA"),
            ("{ names = ['gear'] }".to_owned(), "key"),
            (format!("{{ key = '{KEY}', names = [] }}"), "empty list"),
            (format!("{{ key = '{KEY}', kinds = [] }}"), "empty list"),
            (format!("{{ key = '{KEY}', kinds = ['packs'] }}"), "packs"),
            (format!("{{ key = '{KEY}', name = ['gear'] }}"), "name"),
            ("7".to_owned(), "public key"),
        ] {
            let error = read(&entry).unwrap_err();
            assert!(error.contains(reason), "{entry}: {error}");
        }
    }
}
