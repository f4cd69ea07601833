//! Clients, keys and tokens for the tests of this module.

use std::sync::Arc;

use jiff::{SignedDuration, Timestamp};
use secrecy::{ExposeSecret, SecretString};
use tempfile::TempDir;

use super::authenticate::Authenticator;
use super::directory::ClientDirectory;
use super::key_ring::KeyRing;
use super::keys::TokenKeys;
use super::secret::SecretHasher;
use super::token;
use super::token_cache::{TokenCache, TokenCacheBounds};
use daftar_domain::client::{Client, ClientId, ClientName, ClientSecret, ClientStatus};
use daftar_domain::config::TokenConfig;
use daftar_domain::grant::Grants;
use daftar_domain::scope::{Scope, ScopeSet};

/// Returns the timestamp this many seconds after the start of the tests.
pub fn at(seconds: i64) -> Timestamp {
    let start: Timestamp = "2026-03-01T12:00:00Z".parse().unwrap();
    start + SignedDuration::from_secs(seconds)
}

pub fn scopes(text: &str) -> ScopeSet {
    text.split_whitespace().map(|scope| Scope::parse(scope).unwrap()).collect()
}

pub fn client(id: &str) -> Client {
    Client {
        id: ClientId::parse(id).unwrap(),
        name: ClientName::parse("A client").unwrap(),
        organization: None,
        legal_basis: None,
        purpose: None,
        status: ClientStatus::Active,
        grants: Grants::default(),
        secrets: Vec::new(),
        not_before: None,
        rate_limit_per_minute: None,
        rate_limit_per_day: None,
        created_at: at(0),
        updated_at: at(0),
    }
}

pub fn hasher() -> (TempDir, SecretHasher) {
    let folder = tempfile::tempdir().unwrap();
    let hasher = SecretHasher::load_or_create(folder.path(), at(0)).unwrap();
    (folder, hasher)
}

/// The dependencies of a token endpoint and an API.
pub struct Fixture {
    pub folder: TempDir,
    pub ring: KeyRing,
    /// The initial keys.
    pub keys: Arc<TokenKeys>,
    /// A cache of capacity zero.
    pub no_cache: TokenCache,
    pub hasher: SecretHasher,
    pub directory: ClientDirectory,
    pub config: TokenConfig,
}

impl Fixture {
    pub fn new() -> Self {
        let (folder, hasher) = hasher();
        let config = TokenConfig::default();
        let ring = KeyRing::load_or_create(folder.path(), config.lifetime_s, at(0)).unwrap();
        let keys = Arc::clone(&ring.load());
        let no_cache = TokenCache::new(TokenCacheBounds { entries: 0, bytes: 0 });
        Self { folder, ring, keys, no_cache, hasher, directory: ClientDirectory::default(), config }
    }

    /// Reads the keys as a server started now would.
    pub fn keys_on_disk(&self, now: Timestamp) -> Arc<TokenKeys> {
        let ring = KeyRing::load_or_create(self.folder.path(), self.config.lifetime_s, now).unwrap();
        Arc::clone(&ring.load())
    }

    /// Returns an authenticator that verifies every token.
    pub fn authenticator(&self) -> Authenticator<'_> {
        Authenticator { directory: &self.directory, keys: &self.keys, cache: &self.no_cache, config: &self.config }
    }

    /// Puts a client with the secret `<id>-secret` into the directory.
    pub fn put_client(&self, id: &str, change: impl FnOnce(&mut Client)) {
        let mut client = client(id);
        let secret = SecretString::from(format!("{id}-secret"));
        let hash = self.hasher.hash(id, &secret);
        client.secrets.push(ClientSecret { hash, created_at: at(0), expires_at: None });
        change(&mut client);
        self.directory.put(Arc::new(client));
    }

    pub fn token(&self, id: &str, granted: &str, now: Timestamp) -> String {
        let id = ClientId::parse(id).unwrap();
        let issued = token::issue(&self.keys, &self.config, &id, &scopes(granted), "token-1".to_owned(), now).unwrap();
        issued.text.expose_secret().to_owned()
    }

    /// Returns the bytes of the signing key, to forge tokens with.
    pub fn signing_key(&self) -> Vec<u8> {
        use base64::Engine;
        let text = std::fs::read_to_string(self.folder.path().join("keys/token.json")).unwrap();
        let form: serde_json::Value = serde_json::from_str(&text).unwrap();
        let secret = form["keys"][0]["secret"].as_str().unwrap();
        base64::engine::general_purpose::URL_SAFE_NO_PAD.decode(secret).unwrap()
    }
}
