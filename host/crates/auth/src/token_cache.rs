//! Verified tokens in memory: the next request of the same client costs a lookup instead of a signature.
//!
//! An entry is the result of [`token::verify`] under the whole text of the token: two tokens that differ in one
//! character have nothing in common here. Only valid tokens are cached, so forged ones take no space. Their number and
//! their bytes are bounded; `quick_cache` evicts the ones that are used least.
//!
//! **Invariant:** a result from here is the result that [`token::verify`] would return now. The parts that depend on
//! the time and on the keys are checked on every call: `exp`, `iat`, and whether the key that signed the token is still
//! accepted. An entry that fails is a miss, and the token is verified again. Issuer and audience do not change while
//! the server runs.
//!
//! **Invariant:** nothing of a client is cached. Whether it is active, its grants and its revoked tokens are looked up
//! behind the cache on every call (`authenticate.rs`), so none of them waits for an eviction here.
//!
//! **Invariant:** a client cannot choose the shard of a token: the hash has a random key.
//!
//! **Invariant:** a cached token is never shown: it grants access to the register.

use std::fmt;
use std::hash::RandomState;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use jiff::Timestamp;
use quick_cache::sync::Cache;
use quick_cache::{Lifecycle, Weighter};

use super::keys::TokenKeys;
use super::token::{self, TOKEN_BYTES_MAX, TokenFault, VerifiedToken};
use daftar_domain::config::TokenConfig;

/// Bytes of an entry in addition to the token's text: the verified claims (at most as many scopes as there are), and
/// its slots in the tables.
const ENTRY_BYTES: usize = 640;

/// The limits of the cache.
#[derive(Debug, Clone, Copy)]
pub struct TokenCacheBounds {
    /// Tokens; none are cached with less than 2.
    pub entries: usize,
    /// Bytes of memory. A token that takes more than half of a shard is not cached.
    pub bytes: usize,
}

impl Default for TokenCacheBounds {
    /// Tens of thousands of clients with a token each. A token of a typical client takes about a kilobyte.
    fn default() -> Self {
        Self { entries: 32_768, bytes: 32 << 20 }
    }
}

/// Verified tokens.
pub struct TokenCache {
    tokens: Cache<Arc<str>, Arc<VerifiedToken>, Weights, RandomState, Evictions>,
    weights: Weights,
    /// The weight limit of a token: a heavier one would evict most of its shard.
    weight_max: u64,
    hits: AtomicU64,
    misses: AtomicU64,
    dropped: AtomicU64,
}

/// Counters and size of the cache.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct TokenCacheUsage {
    /// Cache hits.
    pub hits: u64,
    /// Cache misses, including forged tokens.
    pub misses: u64,
    /// Valid tokens that were evicted.
    pub dropped: u64,
    /// Cached tokens.
    pub entries: usize,
    /// Their memory in bytes, rounded up: each counts at least its equal share of the bound.
    pub bytes: usize,
}

impl TokenCache {
    /// Creates an empty cache.
    #[must_use]
    pub fn new(bounds: TokenCacheBounds) -> Self {
        let capacity = if bounds.entries == 0 { 0 } else { bounds.bytes as u64 };
        let weights = Weights { least: capacity.div_ceil(bounds.entries.max(1) as u64) };
        let tokens = Cache::with(bounds.entries, capacity, weights, RandomState::new(), Evictions);
        Self {
            weight_max: tokens.shard_capacity() / 2,
            tokens,
            weights,
            hits: AtomicU64::new(0),
            misses: AtomicU64::new(0),
            dropped: AtomicU64::new(0),
        }
    }

    /// Verifies a token, like [`token::verify`], from the cache if possible.
    ///
    /// # Errors
    /// As [`token::verify`].
    pub fn verify(
        &self,
        text: &str,
        keys: &TokenKeys,
        config: &TokenConfig,
        now: Timestamp,
    ) -> Result<Arc<VerifiedToken>, TokenFault> {
        // Too long to be a token, and too long to be hashed.
        if text.len() > TOKEN_BYTES_MAX {
            return token::verify(text, keys, config, now).map(Arc::new);
        }
        if let Some(token) = self.tokens.get(text).filter(|token| is_valid(token, keys, now)) {
            self.hits.fetch_add(1, Ordering::Relaxed);
            return Ok(token);
        }
        self.misses.fetch_add(1, Ordering::Relaxed);
        let token = Arc::new(token::verify(text, keys, config, now)?);
        self.insert(text, &token);
        Ok(token)
    }

    /// Removes tokens that are expired or whose key is no longer accepted. Called every minute.
    pub fn prune(&self, keys: &TokenKeys, now: Timestamp) {
        self.tokens.retain(|_, token| is_valid(token, keys, now));
    }

    /// Returns the counters and the size.
    #[must_use]
    pub fn usage(&self) -> TokenCacheUsage {
        TokenCacheUsage {
            hits: self.hits.load(Ordering::Relaxed),
            misses: self.misses.load(Ordering::Relaxed),
            dropped: self.dropped.load(Ordering::Relaxed),
            entries: self.tokens.len(),
            bytes: usize::try_from(self.tokens.weight()).unwrap_or(usize::MAX),
        }
    }

    fn insert(&self, text: &str, token: &Arc<VerifiedToken>) {
        if self.weights.of(text) > self.weight_max {
            return;
        }
        let mut evicted = Vec::new();
        self.tokens.insert_with_lifecycle(text.into(), Arc::clone(token), &mut evicted);
        // A concurrent call of the same client may have inserted the token before: it is replaced by itself.
        let dropped = evicted.iter().filter(|other| ***other != *text).count();
        self.dropped.fetch_add(dropped as u64, Ordering::Relaxed);
    }
}

impl Default for TokenCache {
    fn default() -> Self {
        Self::new(TokenCacheBounds::default())
    }
}

impl fmt::Debug for TokenCache {
    /// Shows the counters, never a token.
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_struct("TokenCache").field("usage", &self.usage()).finish_non_exhaustive()
    }
}

/// Bounds bytes and number by one sum: no token weighs less than an equal share of the bytes.
#[derive(Clone, Copy)]
struct Weights {
    least: u64,
}

impl Weights {
    fn of(self, text: &str) -> u64 {
        self.least.max(bytes_of(text) as u64)
    }
}

impl Weighter<Arc<str>, Arc<VerifiedToken>> for Weights {
    fn weight(&self, text: &Arc<str>, _: &Arc<VerifiedToken>) -> u64 {
        self.of(text)
    }
}

/// Collects the evicted tokens of one insertion, without pruned tokens.
#[derive(Clone)]
struct Evictions;

impl Lifecycle<Arc<str>, Arc<VerifiedToken>> for Evictions {
    type RequestState = Vec<Arc<str>>;

    fn on_evict(&self, evicted: &mut Self::RequestState, text: Arc<str>, _: Arc<VerifiedToken>) {
        evicted.push(text);
    }
}

/// Returns true if a verified token still passes the checks that depend on the time and on the keys.
fn is_valid(token: &VerifiedToken, keys: &TokenKeys, now: Timestamp) -> bool {
    token.issued_at <= now && now < token.expires_at && keys.find(&token.key_id, now).is_some()
}

fn bytes_of(text: &str) -> usize {
    text.len() + ENTRY_BYTES
}

#[cfg(test)]
mod tests;
