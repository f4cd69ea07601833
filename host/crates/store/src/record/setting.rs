//! How what a deployment decided is stored: each kind of setting in its own form. A form of a few members is in this file.

use std::sync::Arc;

use serde::{Deserialize, Serialize};

use crate::StoreError;
use daftar_domain::deployment::{Setting, SettingKey};
use daftar_domain::identifier::IdentifierSystem;
use daftar_domain::identifier::SystemUri;
use daftar_domain::local_code::LocalCode;

use super::instant::{as_stored, instant, milliseconds};
use super::{StoredForm, Unreadable, concept_group, decode_as, earlier_version, kept_concepts, local_code};

/// The kinds of setting, as their keys begin. A number is never given to another kind.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SettingKind {
    /// Local codes.
    LocalCode = 1,
    /// Concept groups.
    ConceptGroup = 2,
    /// Kept codes.
    KeptConcepts = 3,
    /// Earlier versions.
    EarlierVersion = 4,
    /// Identifier systems.
    IdentifierSystem = 5,
}

impl SettingKind {
    /// Every kind, by number.
    pub const ALL: [Self; 5] =
        [Self::LocalCode, Self::ConceptGroup, Self::KeptConcepts, Self::EarlierVersion, Self::IdentifierSystem];

    /// The kind of a key.
    #[must_use]
    pub fn of(key: &SettingKey) -> Self {
        match key {
            SettingKey::LocalCode(_) => Self::LocalCode,
            SettingKey::ConceptGroup(_) => Self::ConceptGroup,
            SettingKey::KeptConcepts(..) => Self::KeptConcepts,
            SettingKey::EarlierVersion(..) => Self::EarlierVersion,
            SettingKey::IdentifierSystem(_) => Self::IdentifierSystem,
        }
    }

    /// The kind in words.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::LocalCode => "local code",
            Self::ConceptGroup => "concept group",
            Self::KeptConcepts => "kept codes",
            Self::EarlierVersion => "earlier version",
            Self::IdentifierSystem => "identifier system",
        }
    }
}

/// What tells a setting from every other one of its kind, in the order in which they are given. Part of the layout: a namespace
/// holds visible characters only, so that the zero byte ends it.
#[must_use]
pub fn key_bytes(key: &SettingKey) -> Vec<u8> {
    let mut bytes = Vec::new();
    match key {
        SettingKey::LocalCode(uri) => {
            bytes.extend_from_slice(uri.namespace.as_str().as_bytes());
            bytes.push(0);
            bytes.extend_from_slice(uri.code.as_str().as_bytes());
        }
        SettingKey::ConceptGroup(name) => bytes.extend_from_slice(name.as_bytes()),
        SettingKey::IdentifierSystem(uri) => bytes.extend_from_slice(uri.as_str().as_bytes()),
        SettingKey::KeptConcepts(namespace, part) | SettingKey::EarlierVersion(namespace, part) => {
            bytes.extend_from_slice(namespace.as_str().as_bytes());
            bytes.push(0);
            bytes.extend_from_slice(&part.to_be_bytes());
        }
    }
    bytes
}

/// The setting as it will be read back: its instants to the millisecond.
#[must_use]
pub fn setting_as_stored(setting: Setting) -> Setting {
    match setting {
        Setting::LocalCode(code) => Setting::LocalCode(LocalCode {
            created_at: as_stored(code.created_at),
            updated_at: as_stored(code.updated_at),
            ..code
        }),
        Setting::IdentifierSystem(system) => {
            Setting::IdentifierSystem(IdentifierSystem { created_at: as_stored(system.created_at), ..system })
        }
        Setting::ConceptGroup(_) | Setting::KeptConcepts(_) | Setting::EarlierVersion(_) => setting,
    }
}

/// The bytes of a setting.
///
/// # Errors
/// [`StoreError::TooLarge`] when they are too many.
pub fn encode(setting: &Setting) -> Result<Vec<u8>, StoreError> {
    match setting {
        Setting::LocalCode(code) => local_code::encode(code),
        Setting::ConceptGroup(group) => concept_group::encode(group),
        Setting::KeptConcepts(kept) => kept_concepts::encode(kept),
        Setting::EarlierVersion(earlier) => earlier_version::encode(earlier),
        Setting::IdentifierSystem(system) => encode_system(system),
    }
}

/// The setting of that kind that the bytes hold.
///
/// # Errors
/// [`StoreError::Corrupt`] when they cannot be read.
pub fn decode(kind: SettingKind, bytes: &[u8]) -> Result<Setting, StoreError> {
    Ok(match kind {
        SettingKind::LocalCode => Setting::LocalCode(local_code::decode(bytes)?),
        SettingKind::ConceptGroup => Setting::ConceptGroup(concept_group::decode(bytes)?),
        SettingKind::KeptConcepts => Setting::KeptConcepts(kept_concepts::decode(bytes)?),
        SettingKind::EarlierVersion => Setting::EarlierVersion(Arc::new(earlier_version::decode(bytes)?)),
        SettingKind::IdentifierSystem => Setting::IdentifierSystem(decode_system(bytes)?),
    })
}

/// An identifier system, version 1.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct StoredIdentifierSystemV1 {
    uri: String,
    created_at_ms: i64,
}

impl StoredForm for StoredIdentifierSystemV1 {
    const VERSION: u8 = 1;
    const WHAT: &'static str = "identifier system";
}

fn encode_system(system: &IdentifierSystem) -> Result<Vec<u8>, StoreError> {
    let (uri, created_at_ms) = (system.uri.as_str().to_owned(), milliseconds(system.created_at));
    super::encode(&StoredIdentifierSystemV1 { uri, created_at_ms })
}

fn decode_system(bytes: &[u8]) -> Result<IdentifierSystem, StoreError> {
    decode_as(bytes, |stored: StoredIdentifierSystemV1| {
        Ok(IdentifierSystem {
            uri: SystemUri::parse(&stored.uri).map_err(|_| Unreadable::field("uri"))?,
            created_at: instant(stored.created_at_ms)?,
        })
    })
}
