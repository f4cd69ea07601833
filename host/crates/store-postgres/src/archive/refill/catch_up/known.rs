//! What the database holds of the things of which all are told: what is the same is left as it is, what is not told is taken out.

use std::collections::{BTreeMap, HashMap};

use deadpool_postgres::Transaction;
use sha2::{Digest, Sha256};

use daftar_store::archive::{Entry, Kept};
use daftar_store::record;
use daftar_store::record::setting::key_bytes;

use super::super::super::super::failure::corrupt;
use super::super::super::super::group::Broken;
use super::super::super::super::rows::column;

/// What something is kept under.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
enum Name {
    Setting(i16, Vec<u8>),
    Client(String),
    Counter(String),
    Request(String, String, i32),
}

impl Name {
    fn kept(&self) -> Kept {
        match self {
            Self::Setting(..) => Kept::Settings,
            Self::Client(_) => Kept::Clients,
            Self::Counter(_) => Kept::Counters,
            Self::Request(..) => Kept::Requests,
        }
    }
}

/// What the database holds of them.
pub(super) struct Known {
    /// What was not told so far, by the digest of its value.
    there: HashMap<Name, [u8; 32]>,
    /// What comes with another value.
    replaced: Vec<Name>,
}

impl Known {
    /// Reads the names and the digests of the values.
    pub(super) async fn read(transaction: &Transaction<'_>) -> Result<Self, Broken> {
        let mut there = HashMap::new();
        let digest =
            |bytes: &[u8]| <[u8; 32]>::try_from(bytes).map_err(|_| corrupt("digest of a value", "it has not 32 bytes"));
        for row in transaction.query("SELECT kind, key, sha256(value) FROM daftar.setting", &[]).await? {
            there.insert(Name::Setting(column(&row, 0)?, column(&row, 1)?), digest(column(&row, 2)?)?);
        }
        for row in transaction.query("SELECT id, sha256(value) FROM daftar.client", &[]).await? {
            there.insert(Name::Client(column(&row, 0)?), digest(column(&row, 1)?)?);
        }
        for row in transaction.query("SELECT name, value FROM daftar.counter", &[]).await? {
            let value: i64 = column(&row, 1)?;
            there.insert(Name::Counter(column(&row, 0)?), Sha256::digest(value.to_be_bytes()).into());
        }
        for row in transaction.query("SELECT client, key, part, sha256(value) FROM daftar.request", &[]).await? {
            let name = Name::Request(column(&row, 0)?, column(&row, 1)?, column(&row, 2)?);
            there.insert(name, digest(column(&row, 3)?)?);
        }
        Ok(Self { there, replaced: Vec::new() })
    }

    /// Whether the database holds that as it is.
    pub(super) fn holds(&mut self, entry: &Entry) -> Result<bool, Broken> {
        let (name, digest) = match entry {
            Entry::Setting { kind, value } => {
                let key = key_bytes(&record::setting::decode(*kind, value)?.key());
                (Name::Setting(*kind as i16, key), Sha256::digest(value))
            }
            Entry::Client { value } => {
                let id = record::client::decode(value)?.id.as_str().to_owned();
                (Name::Client(id), Sha256::digest(value))
            }
            Entry::Counter { name, value } => (Name::Counter(name.clone()), Sha256::digest(value.to_be_bytes())),
            Entry::Request { name, value } => {
                let (client, key) = (name.client.as_str().to_owned(), name.key.as_str().to_owned());
                (Name::Request(client, key, i32::from(name.part)), Sha256::digest(value))
            }
            Entry::CodeTablePart { .. }
            | Entry::Photo { .. }
            | Entry::Version { .. }
            | Entry::Change { .. }
            | Entry::Audit { .. } => return Ok(false),
        };
        match self.there.remove(&name) {
            Some(there) if there == <[u8; 32]>::from(digest) => Ok(true),
            Some(_) => {
                self.replaced.push(name);
                Ok(false)
            }
            None => Ok(false),
        }
    }

    /// Takes out what comes with another value.
    pub(super) async fn clear_replaced(&mut self, transaction: &Transaction<'_>) -> Result<(), Broken> {
        remove(transaction, std::mem::take(&mut self.replaced)).await
    }

    /// Takes out what was not told, and counts it.
    pub(super) async fn take_out(
        &mut self,
        transaction: &Transaction<'_>,
        taken_out: &mut BTreeMap<Kept, u64>,
    ) -> Result<(), Broken> {
        let left: Vec<Name> = std::mem::take(&mut self.there).into_keys().collect();
        for name in &left {
            *taken_out.entry(name.kept()).or_default() += 1;
        }
        remove(transaction, left).await
    }
}

async fn remove(transaction: &Transaction<'_>, names: Vec<Name>) -> Result<(), Broken> {
    let (mut clients, mut counters) = (Vec::new(), Vec::new());
    let (mut kinds, mut keys) = (Vec::new(), Vec::new());
    let (mut of_clients, mut called, mut parts) = (Vec::new(), Vec::new(), Vec::new());
    for name in names {
        match name {
            Name::Setting(kind, key) => {
                kinds.push(kind);
                keys.push(key);
            }
            Name::Client(id) => clients.push(id),
            Name::Counter(name) => counters.push(name),
            Name::Request(client, key, part) => {
                of_clients.push(client);
                called.push(key);
                parts.push(part);
            }
        }
    }
    if !kinds.is_empty() {
        let statement = "DELETE FROM daftar.setting AS setting USING unnest($1::smallint[], $2::bytea[]) \
                         AS gone (kind, key) WHERE setting.kind = gone.kind AND setting.key = gone.key";
        transaction.execute(statement, &[&kinds, &keys]).await?;
    }
    if !clients.is_empty() {
        transaction.execute("DELETE FROM daftar.client WHERE id = ANY($1)", &[&clients]).await?;
    }
    if !counters.is_empty() {
        transaction.execute("DELETE FROM daftar.counter WHERE name = ANY($1)", &[&counters]).await?;
    }
    if !parts.is_empty() {
        let statement = "DELETE FROM daftar.request AS request \
                         USING unnest($1::text[], $2::text[], $3::integer[]) AS gone (client, key, part) \
                         WHERE request.client = gone.client AND request.key = gone.key AND request.part = gone.part";
        transaction.execute(statement, &[&of_clients, &called, &parts]).await?;
    }
    Ok(())
}
