//! The items of a backup and their encoding: postcard of [`ItemV1`], sequentially.

use std::fmt;
use std::sync::Arc;

use secrecy::{ExposeSecret, SecretString};
use serde::de::{Deserializer, Visitor};
use serde::{Deserialize, Serialize, Serializer};

use daftar_domain::change::Sequence;
use daftar_domain::client::ClientId;
use daftar_domain::idempotency::{IdempotencyKey, RequestName};
use daftar_domain::photo::PhotoDigest;
use daftar_domain::record::{RecordId, RecordKind, VersionId};
use daftar_store::archive::{Entry, SettingKind};

/// One item of a backup.
#[derive(Debug)]
pub enum Item {
    /// A key file.
    Key {
        /// Its name in the key folder.
        name: String,
        /// Its content.
        text: SecretString,
    },
    /// The list of installed plugins, with the content of its file.
    PluginList {
        /// The file.
        bytes: Vec<u8>,
    },
    /// A chunk of a plugin file. The chunks of one file are consecutive.
    PluginPart {
        /// The digest of the complete file.
        digest: [u8; 32],
        /// The chunk number, counted from 0.
        part: u32,
        /// Its bytes.
        bytes: Vec<u8>,
    },
    /// A stored item.
    ItemKind(Entry),
}

impl Item {
    /// The kind under which it is counted.
    #[must_use]
    pub fn counted(&self) -> &'static str {
        match self {
            Self::Key { .. } => "keys",
            Self::PluginList { .. } => "plugin_lists",
            Self::PluginPart { .. } => "plugin_parts",
            Self::ItemKind(entry) => entry.kind().name(),
        }
    }

    /// Encodes the item.
    pub(super) fn write(&self, to: Vec<u8>) -> Result<Vec<u8>, postcard::Error> {
        postcard::to_extend(&ItemV1::from(self), to)
    }

    /// Decodes the first of several items; returns it with the remaining bytes.
    pub(super) fn read(bytes: &[u8]) -> Result<(Self, &[u8]), String> {
        let (stored, rest) = postcard::take_from_bytes::<ItemV1<'_>>(bytes).map_err(|error| error.to_string())?;
        Ok((Self::try_from(stored)?, rest))
    }
}

/// An item as encoded in format 1.
#[derive(Serialize, Deserialize)]
enum ItemV1<'a> {
    Key { name: &'a str, text: &'a str },
    PluginList { bytes: Bytes<'a> },
    PluginPart { sha256: [u8; 32], part: u32, bytes: Bytes<'a> },
    Setting { kind: SettingKindV1, value: Bytes<'a> },
    Client { value: Bytes<'a> },
    Counter { name: &'a str, value: u64 },
    CodeTablePart { number: u64, value: Bytes<'a> },
    Request { client: &'a str, key: &'a str, part: u16, value: Bytes<'a> },
    Photo { sha256: [u8; 32], bytes: Bytes<'a> },
    Version { kind: RecordKind, id: u64, version: u64, is_present: bool, value: Bytes<'a> },
    Change { sequence: u64, value: Bytes<'a> },
    Audit { number: u64, value: Bytes<'a> },
}

/// The number of a kind of setting, counted from 0.
#[derive(Serialize, Deserialize)]
struct SettingKindV1(u32);

/// Bytes, written in one operation and read without a copy.
struct Bytes<'a>(&'a [u8]);

impl Serialize for Bytes<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_bytes(self.0)
    }
}

impl<'de: 'a, 'a> Deserialize<'de> for Bytes<'a> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Borrowed;

        impl<'de> Visitor<'de> for Borrowed {
            type Value = &'de [u8];

            fn expecting(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
                formatter.write_str("bytes")
            }

            fn visit_borrowed_bytes<E: serde::de::Error>(self, bytes: &'de [u8]) -> Result<Self::Value, E> {
                Ok(bytes)
            }

            fn visit_bytes<E: serde::de::Error>(self, _: &[u8]) -> Result<Self::Value, E> {
                Err(E::custom("the bytes do not lie in memory"))
            }
        }

        deserializer.deserialize_bytes(Borrowed).map(Self)
    }
}

impl<'a> From<&'a Item> for ItemV1<'a> {
    fn from(item: &'a Item) -> Self {
        match item {
            Item::Key { name, text } => Self::Key { name, text: text.expose_secret() },
            Item::PluginList { bytes } => Self::PluginList { bytes: Bytes(bytes) },
            Item::PluginPart { digest, part, bytes } => {
                Self::PluginPart { sha256: *digest, part: *part, bytes: Bytes(bytes) }
            }
            Item::ItemKind(entry) => Self::from(entry),
        }
    }
}

impl<'a> From<&'a Entry> for ItemV1<'a> {
    fn from(entry: &'a Entry) -> Self {
        match entry {
            Entry::Setting { kind, value } => Self::Setting { kind: SettingKindV1::from(*kind), value: Bytes(value) },
            Entry::Client { value } => Self::Client { value: Bytes(value) },
            Entry::Counter { name, value } => Self::Counter { name, value: *value },
            Entry::CodeTablePart { number, value } => Self::CodeTablePart { number: *number, value: Bytes(value) },
            Entry::Request { name: RequestName { client, key, part }, value } => {
                Self::Request { client: client.as_str(), key: key.as_str(), part: *part, value: Bytes(value) }
            }
            Entry::Photo { digest, bytes } => Self::Photo { sha256: digest.0, bytes: Bytes(bytes) },
            Entry::Version { kind, id, version, is_present, value } => Self::Version {
                kind: *kind,
                id: id.0,
                version: version.0,
                is_present: *is_present,
                value: Bytes(value),
            },
            Entry::Change { sequence, value } => Self::Change { sequence: sequence.0, value: Bytes(value) },
            Entry::Audit { number, value } => Self::Audit { number: *number, value: Bytes(value) },
        }
    }
}

impl TryFrom<ItemV1<'_>> for Item {
    type Error = String;

    fn try_from(stored: ItemV1<'_>) -> Result<Self, String> {
        let entry = match stored {
            ItemV1::Key { name, text } => {
                return Ok(Self::Key { name: name.to_owned(), text: SecretString::from(text) });
            }
            ItemV1::PluginList { bytes } => return Ok(Self::PluginList { bytes: bytes.0.to_vec() }),
            ItemV1::PluginPart { sha256, part, bytes } => {
                return Ok(Self::PluginPart { digest: sha256, part, bytes: bytes.0.to_vec() });
            }
            ItemV1::Setting { kind, value } => Entry::Setting { kind: kind.try_into()?, value: value.0.to_vec() },
            ItemV1::Client { value } => Entry::Client { value: value.0.to_vec() },
            ItemV1::Counter { name, value } => Entry::Counter { name: name.to_owned(), value },
            ItemV1::CodeTablePart { number, value } => Entry::CodeTablePart { number, value: value.0.to_vec() },
            ItemV1::Request { client, key, part, value } => {
                let client = ClientId::parse(client).map_err(|_| "the client of a request that was done is none");
                let key = IdempotencyKey::parse(key).map_err(|error| error.to_string())?;
                Entry::Request { name: RequestName { client: client?, key, part }, value: value.0.to_vec() }
            }
            ItemV1::Photo { sha256, bytes } => Entry::Photo { digest: PhotoDigest(sha256), bytes: Arc::from(bytes.0) },
            ItemV1::Version { kind, id, version, is_present, value } => Entry::Version {
                kind,
                id: RecordId(id),
                version: VersionId(version),
                is_present,
                value: value.0.to_vec(),
            },
            ItemV1::Change { sequence, value } => {
                Entry::Change { sequence: Sequence(sequence), value: value.0.to_vec() }
            }
            ItemV1::Audit { number, value } => Entry::Audit { number, value: value.0.to_vec() },
        };
        Ok(Self::ItemKind(entry))
    }
}

impl From<SettingKind> for SettingKindV1 {
    fn from(kind: SettingKind) -> Self {
        Self((kind as u32).saturating_sub(1))
    }
}

impl TryFrom<SettingKindV1> for SettingKind {
    type Error = String;

    fn try_from(SettingKindV1(number): SettingKindV1) -> Result<Self, String> {
        let kind = Self::ALL.into_iter().find(|kind| SettingKindV1::from(*kind).0 == number);
        kind.ok_or_else(|| format!("a setting is of the kind {number}, which this program does not know"))
    }
}
