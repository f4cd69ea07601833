//! The active signing keys, and their rotation while the server runs.
//!
//! A rotation replaces one file atomically, with the new key in front and the time until which the replaced key is
//! accepted; then the keys in memory are swapped. After a crash in between, the next start uses the new key and accepts
//! tokens of the old one.
//!
//! **Invariant:** the signing key is on disk before it signs; a key dropped from disk is no longer accepted.
//!
//! **Invariant:** a token key is retained until the last token that it signed has expired, independent of the lifetime
//! in the present configuration: its longest token lifetime is stored with it, and its tokens live no longer. The longer
//! lifetime of this process is stored by [`SigningKeyRing::raise_lifetime`]. A decision key is retained forever.
//!
//! **Invariant:** a key file that exists is replaced only by a process with the lock that the processes with this key
//! folder share: without it, the key of a concurrent rotation could be lost.
//!
//! **Invariant:** changes are sequential; everything here but [`SigningKeyRing::load`] does blocking file I/O and must
//! run on a blocking thread.

use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use arc_swap::{ArcSwap, Guard};
use jiff::Timestamp;

use super::decision_key::DecisionMaterial;
use super::key_file::{self, KeyError, StoredKey};
use super::keys::{KEY_FOLDER, KeyMaterial, SigningKeys, TokenMaterial, after};
use super::secret_file::{self, FileStamp};
use daftar_domain::config::TOKEN_LIFETIME_S_MAX;

/// The reason why keys are not rotated.
#[derive(Debug, thiserror::Error)]
pub enum RotationError {
    /// The old key would be dropped before its last token has expired.
    #[error(
        "the old key must be accepted for at least {least_s} seconds, the lifetime of its tokens, and for at most {TOKEN_LIFETIME_S_MAX} seconds"
    )]
    Overlap {
        /// The shortest allowed overlap.
        least_s: u64,
    },
    /// The key file is full of keys that are still accepted.
    #[error(
        "the limit of {stored_max} keys is reached: wait until {until}, when the last token of the oldest key expires"
    )]
    Full {
        /// The limit of keys.
        stored_max: usize,
        /// The time at which a key can be dropped.
        until: Timestamp,
    },
    /// The key file is full of keys that are never dropped.
    #[error(
        "the limit of {stored_max} keys is reached: stop the server and remove the oldest key from `{}`; its signatures are then rejected", .path.display()
    )]
    FullForGood {
        /// The limit of keys.
        stored_max: usize,
        /// The path of the key file.
        path: PathBuf,
    },
    /// An overlap was given for keys that are always accepted.
    #[error("signatures of these keys do not expire and a replaced key stays accepted: omit the overlap")]
    NoOverlap,
    /// Keys cannot be generated, read or written.
    #[error(transparent)]
    Key(#[from] KeyError),
}

/// A prepared rotation: a new key that does not sign yet, and the key that it replaces.
pub struct Rotation {
    new: StoredKey,
    replaced: Arc<str>,
    accepted_until: Option<Timestamp>,
}

impl Rotation {
    /// Returns the id of the new key.
    #[must_use]
    pub fn new_id(&self) -> &str {
        &self.new.id
    }

    /// Returns the id of the replaced key.
    #[must_use]
    pub fn replaced_id(&self) -> &str {
        &self.replaced
    }

    /// Returns the time until which the replaced key is accepted; `None` if its signatures do not expire.
    #[must_use]
    pub fn accepted_until(&self) -> Option<Timestamp> {
        self.accepted_until
    }
}

/// The keys that sign tokens.
pub type KeyRing = SigningKeyRing<TokenMaterial>;
/// The keys that seal decisions.
pub type DecisionKeyRing = SigningKeyRing<DecisionMaterial>;

/// The signing keys of every use.
#[derive(Debug, Clone)]
pub struct SigningKeyRings {
    /// The token signing keys.
    pub tokens: Arc<KeyRing>,
    /// The decision keys.
    pub decisions: Arc<DecisionKeyRing>,
}

impl SigningKeyRings {
    /// Reloads the keys of every use; see [`SigningKeyRing::reload`].
    ///
    /// # Errors
    /// As [`SigningKeyRing::reload`].
    pub fn reload(&self) -> Result<bool, KeyError> {
        let (tokens, decisions) = (self.tokens.reload(), self.decisions.reload());
        Ok(tokens? | decisions?)
    }
}

/// The signing keys of one use in one data folder.
#[derive(Debug)]
pub struct SigningKeyRing<M> {
    path: PathBuf,
    /// The lifetime of the tokens signed now, in seconds; `None` if the signatures do not expire.
    lifetime_s: Option<u64>,
    active: ArcSwap<SigningKeys<M>>,
    /// The stamp of the file when it was last read or written; locked during each change.
    changing: Mutex<Option<FileStamp>>,
}

impl KeyRing {
    /// Reads the token signing keys of a data folder, and creates the first one if there is none. Tokens are valid for
    /// `lifetime_s`; the caller stores that with an existing key by [`Self::raise_lifetime`].
    ///
    /// # Errors
    /// If the key file cannot be read or written, or is not safe to use.
    pub fn load_or_create(data_folder: &Path, lifetime_s: u64, now: Timestamp) -> Result<Self, KeyError> {
        Self::open(data_folder, Some(lifetime_s), now)
    }
}

impl DecisionKeyRing {
    /// Reads the decision keys of a data folder, and creates the first one if there is none.
    ///
    /// # Errors
    /// If the key file cannot be read or written, or is not safe to use.
    pub fn load_or_create(data_folder: &Path, now: Timestamp) -> Result<Self, KeyError> {
        Self::open(data_folder, None, now)
    }
}

impl<M: KeyMaterial> SigningKeyRing<M> {
    /// Reads the keys of a data folder; creates the key folder and a first key if there are none. Removes temporary
    /// files of a crash.
    ///
    /// # Errors
    /// If the file cannot be read or written, other users may read it, or a key is malformed or weak. The message
    /// contains the fix.
    fn open(data_folder: &Path, lifetime_s: Option<u64>, now: Timestamp) -> Result<Self, KeyError> {
        let folder = data_folder.join(KEY_FOLDER);
        secret_file::prepare_folder(&folder)?;
        secret_file::remove_unfinished(&folder)?;
        let path = folder.join(M::FILE);
        let stored = key_file::load_or_create(&path, lifetime_s, now)?;
        let active = ArcSwap::from_pointee(keys_of(&path, &stored)?);
        // No stamp, so that the first reload reads a file that was replaced since.
        Ok(Self { path, lifetime_s, active, changing: Mutex::default() })
    }

    /// Returns the active keys.
    #[must_use]
    pub fn load(&self) -> Guard<Arc<SigningKeys<M>>> {
        self.active.load()
    }

    /// Applies a rotation or a longer lifetime of another process that shares the key folder; returns true if there was
    /// one. Reads the file only if its stamp has changed.
    ///
    /// # Errors
    /// If the file cannot be read or its keys are invalid: the active keys stay active.
    pub fn reload(&self) -> Result<bool, KeyError> {
        let mut seen = self.changing();
        let stamp = FileStamp::of(&self.path);
        if stamp.is_some() && *seen == stamp {
            return Ok(false);
        }
        let gone = || KeyError::Refused { path: self.path.clone(), reason: "the file is missing".to_owned() };
        let stored = key_file::load(&self.path)?.ok_or_else(gone)?;
        let keys = keys_of(&self.path, &stored)?;
        let is_new = !self
            .load()
            .all()
            .map(|key| (key.id(), key.accepted_until(), key.lifetime_s()))
            .eq(keys.all().map(|key| (key.id(), key.accepted_until(), key.lifetime_s())));
        *seen = stamp;
        if is_new {
            self.active.store(Arc::new(keys));
        }
        Ok(is_new)
    }

    /// Returns true if the configured lifetime of tokens is longer than the one stored with the current key: another
    /// process generated it, or the configuration was changed. [`Self::raise_lifetime`] stores the longer one.
    #[must_use]
    pub fn must_raise_lifetime(&self) -> bool {
        let stored_s = self.load().current().lifetime_s();
        self.lifetime_s.is_some_and(|lifetime_s| stored_s < lifetime_s)
    }

    /// Stores the configured lifetime of tokens with the current key, unless a longer one is stored. The caller must have
    /// the lock that the processes with this key folder share.
    ///
    /// # Errors
    /// If the file cannot be read or written, or its keys are invalid: the shorter lifetime stays stored.
    pub fn raise_lifetime(&self) -> Result<(), KeyError> {
        self.reload()?;
        let mut seen = self.changing();
        let mut stored = self.unchanged()?;
        if raise(&mut stored, self.lifetime_s) {
            self.activate(&stored, &mut seen)?;
        }
        Ok(())
    }

    /// Generates a new key, which signs after [`Self::carry_out`]. If its signatures expire, the current key is
    /// accepted for another `overlap_s` seconds; by default for the lifetime of its tokens.
    ///
    /// # Errors
    /// [`RotationError`]; nothing is changed.
    pub fn prepare(&self, overlap_s: Option<u64>, now: Timestamp) -> Result<Rotation, RotationError> {
        let keys = self.load();
        let accepted_until = if M::EXPIRES { Some(self.overlap(&keys, overlap_s, now)?) } else { None };
        if overlap_s.is_some() && accepted_until.is_none() {
            return Err(RotationError::NoOverlap);
        }
        if keys.all().filter(|key| key.is_accepted(now)).count() >= M::RETAINED_MAX {
            let stored_max = M::RETAINED_MAX;
            // There are no other keys: a set has at most as many.
            let until = keys.all().filter_map(|key| key.accepted_until()).min();
            return Err(match until {
                Some(until) => RotationError::Full { stored_max, until },
                None => RotationError::FullForGood { stored_max, path: self.path.clone() },
            });
        }
        let new = key_file::new_key(self.lifetime_s, now).map_err(KeyError::from)?;
        let replaced = Arc::clone(&keys.current().id);
        Ok(Rotation { new, replaced, accepted_until })
    }

    /// Returns the time until which tokens of the current key are accepted after its replacement.
    fn overlap(
        &self,
        keys: &SigningKeys<M>,
        overlap_s: Option<u64>,
        now: Timestamp,
    ) -> Result<Timestamp, RotationError> {
        let least_s = keys.current().lifetime_s().max(self.lifetime_s.unwrap_or_default());
        let overlap_s = overlap_s.unwrap_or(least_s);
        if !(least_s..=TOKEN_LIFETIME_S_MAX).contains(&overlap_s) {
            return Err(RotationError::Overlap { least_s });
        }
        Ok(after(now, overlap_s))
    }

    /// Writes a new key to disk, then activates it.
    ///
    /// # Errors
    /// If the file was changed since it was read, or cannot be written: the old key then continues to sign.
    pub fn carry_out(&self, rotation: Rotation, now: Timestamp) -> Result<(), KeyError> {
        let mut seen = self.changing();
        let mut stored = self.unchanged()?;
        let Rotation { new, replaced, accepted_until } = rotation;
        match stored.first_mut() {
            Some(current) if *current.id == *replaced => current.accepted_until = accepted_until,
            Some(_) | None => return Err(KeyError::Changed(self.path.clone())),
        }
        stored.insert(0, new);
        self.retain_accepted(&mut stored, now);
        self.activate(&stored, &mut seen)
    }

    /// Drops keys whose last token has expired, and returns their ids.
    ///
    /// # Errors
    /// If the file was changed since it was read, or cannot be written. The expired keys are not accepted in any case.
    pub fn drop_expired(&self, now: Timestamp) -> Result<Vec<String>, KeyError> {
        if self.load().all().all(|key| key.is_accepted(now)) {
            return Ok(Vec::new());
        }
        let mut seen = self.changing();
        let mut stored = self.unchanged()?;
        let dropped = self.retain_accepted(&mut stored, now);
        self.activate(&stored, &mut seen)?;
        Ok(dropped)
    }

    /// Retains the accepted keys and returns the ids of the others. Keys unknown to the active set are new.
    fn retain_accepted(&self, stored: &mut Vec<StoredKey>, now: Timestamp) -> Vec<String> {
        let keys = self.load();
        let is_over = |key: &StoredKey| keys.all().any(|known| known.id() == key.id && !known.is_accepted(now));
        let (over, retained) = std::mem::take(stored).into_iter().partition(is_over);
        *stored = retained;
        over.into_iter().map(|key: StoredKey| key.id).collect()
    }

    fn activate(&self, stored: &[StoredKey], seen: &mut Option<FileStamp>) -> Result<(), KeyError> {
        let keys = keys_of(&self.path, stored)?;
        // Forces the next reload to read the file: another process may have replaced it since.
        *seen = None;
        key_file::replace(&self.path, stored)?;
        self.active.store(Arc::new(keys));
        Ok(())
    }

    /// Returns the keys on disk, which must equal the active ones: a file edited by hand is not overwritten.
    fn unchanged(&self) -> Result<Vec<StoredKey>, KeyError> {
        let changed = || KeyError::Changed(self.path.clone());
        let stored = key_file::load(&self.path)?.ok_or_else(changed)?;
        let keys = self.load();
        if keys.all().map(|key| key.id()).eq(stored.iter().map(|key| key.id.as_str())) {
            Ok(stored)
        } else {
            Err(changed())
        }
    }

    fn changing(&self) -> MutexGuard<'_, Option<FileStamp>> {
        self.changing.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Raises the lifetime of the current key to that of the tokens signed now; returns true if it was shorter. A lifetime
/// that is not recorded is the longest.
fn raise(stored: &mut [StoredKey], lifetime_s: Option<u64>) -> bool {
    let (Some(current), Some(lifetime_s)) = (stored.first_mut(), lifetime_s) else { return false };
    let is_shorter = current.lifetime_s.is_some_and(|longest_s| longest_s < lifetime_s);
    if is_shorter {
        current.lifetime_s = Some(lifetime_s);
    }
    is_shorter
}

fn keys_of<M: KeyMaterial>(path: &Path, stored: &[StoredKey]) -> Result<SigningKeys<M>, KeyError> {
    SigningKeys::new(stored).map_err(|reason| KeyError::Refused { path: path.to_owned(), reason })
}

#[cfg(test)]
mod tests;
