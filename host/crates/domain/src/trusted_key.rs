//! A public key that the operator trusts, and what it is trusted for.
//!
//! **Invariant:** a limit that is written down is kept: an entry with an empty list, an unknown kind or an unknown member is refused, never
//! taken for one without limits.

use std::fmt;

use serde::Deserialize;
use serde::de::value::MapAccessDeserializer;
use serde::de::{Deserializer, Error as _, MapAccess, Visitor};

use super::manifest::{PluginKind, PluginName};
use super::plugin_key::{PluginKey, PluginKeyId};

/// What is signed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum SignedKind {
    /// A vocabulary pack.
    VocabularyPack,
    /// An eligibility engine.
    EligibilityEngine,
    /// A backup of the register.
    Backup,
}

impl SignedKind {
    /// Its name in the configuration.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::VocabularyPack => "vocabulary-pack",
            Self::EligibilityEngine => "eligibility-engine",
            Self::Backup => "backup",
        }
    }
}

impl From<PluginKind> for SignedKind {
    fn from(kind: PluginKind) -> Self {
        match kind {
            PluginKind::VocabularyPack => Self::VocabularyPack,
            PluginKind::EligibilityEngine => Self::EligibilityEngine,
        }
    }
}

/// An entry of `[plugins] trusted_keys`: a key alone, trusted for everything, or a table with the key and its limits.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TrustedKey {
    key: PluginKey,
    /// The plugins that it may sign; all where absent.
    names: Option<Vec<PluginName>>,
    /// The kinds that it may sign; all where absent.
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
    /// A key without limits.
    fn from(key: PluginKey) -> Self {
        Self { key, names: None, kinds: None }
    }
}

impl TrustedKey {
    /// A key that is trusted for plugins of these names and these kinds alone.
    #[must_use]
    pub fn limited(key: PluginKey, names: Option<Vec<PluginName>>, kinds: Option<Vec<SignedKind>>) -> Self {
        Self { key, names, kinds }
    }

    /// The key.
    #[must_use]
    pub fn key(&self) -> &PluginKey {
        &self.key
    }

    /// Its id.
    #[must_use]
    pub fn id(&self) -> PluginKeyId {
        self.key.id()
    }

    /// Whether it may sign a plugin of that name and kind.
    #[must_use]
    pub fn may_sign(&self, name: &PluginName, kind: PluginKind) -> bool {
        self.names.as_ref().is_none_or(|names| names.contains(name)) && self.may_sign_kind(kind.into())
    }

    /// Whether it may sign backups: a key that is limited to names of plugins is for plugins.
    #[must_use]
    pub fn may_sign_backups(&self) -> bool {
        self.names.is_none() && self.may_sign_kind(SignedKind::Backup)
    }

    fn may_sign_kind(&self, kind: SignedKind) -> bool {
        self.kinds.as_ref().is_none_or(|kinds| kinds.contains(&kind))
    }

    /// What it is limited to, for messages.
    #[must_use]
    pub fn limits(&self) -> String {
        let names = self.names.iter().map(|names| {
            let names: Vec<String> = names.iter().map(|name| format!("`{name}`")).collect();
            format!("the names {}", names.join(", "))
        });
        let kinds = self.kinds.iter().map(|kinds| {
            let kinds: Vec<&str> = kinds.iter().copied().map(SignedKind::as_str).collect();
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
                        "the key {id} is limited to an empty list: name what it is trusted for, or leave the member out"
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
        assert!(!named.may_sign_backups(), "a key of one plugin's publisher signs no register");
    }

    #[test]
    fn an_entry_that_is_not_understood_is_refused() {
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
