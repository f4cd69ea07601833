//! Tokens that were verified already, so that a client's next call costs a look instead of a signature.
//!
//! What is kept is what [`token::verify`] found, under the whole text of the token: two tokens that differ in one character have
//! nothing in common here. Only sound tokens are kept, so that forged ones take no room; how many there are of these is bounded in
//! number and in bytes, and the one not used for longest (about: a clock, not a list) makes room.
//!
//! **Invariant:** an answer from here is the answer that [`token::verify`] would give now. What of it depends on the time and on the keys is
//! looked at on every call: `exp`, `iat`, and whether the key that signed it is still accepted. Whatever does not hold is no hit, and
//! is verified anew. Issuer and audience do not change while the server runs.
//!
//! **Invariant:** nothing of a client is kept. Whether it is active, what it may do and which of its tokens are revoked is looked up
//! behind the cache on every call (`authenticate.rs`), so none of them waits for anything to be thrown out here.
//!
//! **Invariant:** what is kept is never shown: it opens the register.

use std::collections::HashMap;
use std::fmt;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, PoisonError, RwLock};

use jiff::Timestamp;

use super::keys::TokenKeys;
use super::token::{self, TOKEN_BYTES_MAX, TokenFault, VerifiedToken};
use daftar_domain::config::TokenConfig;

/// In how many parts the cache is locked. A token's part is chosen by its signature, which nobody can choose.
const SHARDS: usize = 16;
/// What a token takes beside its text: what it says (at most as many scopes as there are), and its places in the tables.
const ENTRY_BYTES: usize = 640;

/// What the cache holds at most.
#[derive(Debug, Clone, Copy)]
pub struct TokenCacheBounds {
    /// Tokens; none are kept with 0.
    pub entries: usize,
    /// Bytes of memory.
    pub bytes: usize,
}

impl Default for TokenCacheBounds {
    /// Some tens of thousands of clients with a token each. A token of a usual client takes about a kilobyte.
    fn default() -> Self {
        Self { entries: 32_768, bytes: 32 << 20 }
    }
}

/// Verified tokens.
pub struct TokenCache {
    shards: Vec<Shard>,
    /// Of one shard.
    bounds: TokenCacheBounds,
}

/// What the cache did and holds.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct TokenCacheUsage {
    /// Tokens that were found.
    pub hits: u64,
    /// Tokens that had to be verified, forged ones among them.
    pub misses: u64,
    /// Sound tokens that had to make room for others.
    pub dropped: u64,
    /// Tokens that are kept.
    pub entries: usize,
    /// What they take, in bytes, rounded up.
    pub bytes: usize,
}

#[derive(Default)]
struct Shard {
    hits: AtomicU64,
    misses: AtomicU64,
    dropped: AtomicU64,
    kept: RwLock<Kept>,
}

#[derive(Default)]
struct Kept {
    places: HashMap<Arc<str>, usize>,
    slots: Vec<Slot>,
    /// The slot that is looked at next for one to drop.
    hand: usize,
    bytes: usize,
}

struct Slot {
    text: Arc<str>,
    token: Arc<VerifiedToken>,
    /// Whether it was found since the hand passed.
    was_used: AtomicBool,
}

impl TokenCache {
    /// An empty cache.
    #[must_use]
    pub fn new(bounds: TokenCacheBounds) -> Self {
        let bounds =
            TokenCacheBounds { entries: bounds.entries.div_ceil(SHARDS), bytes: bounds.bytes.div_ceil(SHARDS) };
        Self { shards: std::iter::repeat_with(Shard::default).take(SHARDS).collect(), bounds }
    }

    /// Checks a token, as [`token::verify`] does.
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
        let shard = self.shard_of(text);
        if let Some(token) = shard.and_then(|shard| shard.find(text, keys, now)) {
            return Ok(token);
        }
        let token = Arc::new(token::verify(text, keys, config, now)?);
        if let Some(shard) = shard {
            shard.keep(text, &token, self.bounds);
        }
        Ok(token)
    }

    /// Throws out what is of no use any more. To be called each minute.
    pub fn prune(&self, keys: &TokenKeys, now: Timestamp) {
        for shard in &self.shards {
            shard.write().prune(keys, now);
        }
    }

    /// What it did and holds.
    #[must_use]
    pub fn usage(&self) -> TokenCacheUsage {
        let mut usage = TokenCacheUsage::default();
        for shard in &self.shards {
            usage.hits += shard.hits.load(Ordering::Relaxed);
            usage.misses += shard.misses.load(Ordering::Relaxed);
            usage.dropped += shard.dropped.load(Ordering::Relaxed);
            let kept = shard.kept.read().unwrap_or_else(PoisonError::into_inner);
            usage.entries += kept.slots.len();
            usage.bytes += kept.bytes;
        }
        usage
    }

    /// The part that a token is kept in; none for a text that is too long to be a token.
    fn shard_of(&self, text: &str) -> Option<&Shard> {
        if text.len() > TOKEN_BYTES_MAX {
            return None;
        }
        let sum = text.bytes().rev().take(8).fold(0_usize, |sum, byte| sum.wrapping_mul(31).wrapping_add(byte.into()));
        self.shards.get(sum % SHARDS)
    }
}

impl Default for TokenCache {
    fn default() -> Self {
        Self::new(TokenCacheBounds::default())
    }
}

impl fmt::Debug for TokenCache {
    /// Shows how much there is, never what.
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_struct("TokenCache").field("usage", &self.usage()).finish_non_exhaustive()
    }
}

impl Shard {
    fn find(&self, text: &str, keys: &TokenKeys, now: Timestamp) -> Option<Arc<VerifiedToken>> {
        let kept = self.kept.read().unwrap_or_else(PoisonError::into_inner);
        let slot = kept.places.get(text).and_then(|place| kept.slots.get(*place));
        let Some(slot) = slot.filter(|slot| is_sound(&slot.token, keys, now)) else {
            self.misses.fetch_add(1, Ordering::Relaxed);
            return None;
        };
        self.hits.fetch_add(1, Ordering::Relaxed);
        slot.was_used.store(true, Ordering::Relaxed);
        Some(Arc::clone(&slot.token))
    }

    fn keep(&self, text: &str, token: &Arc<VerifiedToken>, bounds: TokenCacheBounds) {
        let bytes = bytes_of(text);
        if bounds.entries == 0 || bytes > bounds.bytes {
            return;
        }
        let mut kept = self.write();
        if kept.places.contains_key(text) {
            // Another call of the same client was quicker, or a clock that was set back made it sound again.
            return;
        }
        while kept.slots.len() >= bounds.entries || kept.bytes + bytes > bounds.bytes {
            kept.drop_one();
            self.dropped.fetch_add(1, Ordering::Relaxed);
        }
        let text: Arc<str> = text.into();
        let place = kept.slots.len();
        kept.places.insert(Arc::clone(&text), place);
        kept.slots.push(Slot { text, token: Arc::clone(token), was_used: AtomicBool::new(false) });
        kept.bytes += bytes;
    }

    fn write(&self) -> std::sync::RwLockWriteGuard<'_, Kept> {
        // No call in between can panic, so a poisoned lock guards a sound table all the same.
        self.kept.write().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Kept {
    /// Drops the next one that was not used since the hand passed it; there is at least one.
    fn drop_one(&mut self) {
        loop {
            if self.hand >= self.slots.len() {
                self.hand = 0;
            }
            let Some(slot) = self.slots.get_mut(self.hand) else { return };
            if !std::mem::take(slot.was_used.get_mut()) {
                return self.remove(self.hand);
            }
            self.hand += 1;
        }
    }

    fn prune(&mut self, keys: &TokenKeys, now: Timestamp) {
        let mut place = 0;
        while let Some(slot) = self.slots.get(place) {
            if is_sound(&slot.token, keys, now) { place += 1 } else { self.remove(place) }
        }
    }

    /// Takes a slot out; the last one takes its place.
    fn remove(&mut self, place: usize) {
        if place >= self.slots.len() {
            return;
        }
        let slot = self.slots.swap_remove(place);
        self.places.remove(&slot.text);
        self.bytes = self.bytes.saturating_sub(bytes_of(&slot.text));
        if let Some(moved) = self.slots.get(place)
            && let Some(known) = self.places.get_mut(&moved.text)
        {
            *known = place;
        }
    }
}

/// Whether what depends on the time and on the keys still holds of a token that was sound once.
fn is_sound(token: &VerifiedToken, keys: &TokenKeys, now: Timestamp) -> bool {
    token.issued_at <= now && now < token.expires_at && keys.find(&token.key_id, now).is_some()
}

fn bytes_of(text: &str) -> usize {
    text.len() + ENTRY_BYTES
}

#[cfg(test)]
mod tests;
