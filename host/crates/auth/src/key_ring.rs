//! The signing keys in force, and how they are replaced while the server runs.
//!
//! A rotation writes one file, whole, with the new key in front and until when the replaced one is accepted; then the keys in memory
//! are swapped. A crash in between leaves a folder from which the next start goes on with the new key: tokens of the old one are
//! accepted by it as well.
//!
//! **Invariant:** what signs is on disk already; what is dropped from disk is accepted no more.
//!
//! **Invariant:** a key of tokens is kept until the last token that it signed has expired, whatever the settings say of the lifetime now:
//! how long its tokens live is written beside it, before it signs the first of them. A key of decisions is kept for good.
//!
//! **Invariant:** one change at a time; everything here but [`SigningKeyRing::load`] reads and writes files, and belongs on a thread that may
//! wait.

use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use arc_swap::{ArcSwap, Guard};
use jiff::Timestamp;

use super::decision_key::DecisionMaterial;
use super::key_file::{self, KeyError, StoredKey};
use super::keys::{KEY_FOLDER, KeyMaterial, SigningKeys, TokenMaterial, after};
use super::secret_file::{self, FileStamp};
use daftar_domain::config::TOKEN_LIFETIME_S_MAX;

/// Why keys are not rotated.
#[derive(Debug, thiserror::Error)]
pub enum RotationError {
    /// The old key would be dropped before its last token has expired.
    #[error(
        "the old key is kept for {least_s} seconds at least, as long as the tokens that it signed are good, and for {TOKEN_LIFETIME_S_MAX} at most"
    )]
    Overlap {
        /// The shortest time that it can be kept.
        least_s: u64,
    },
    /// There are so many keys that are still accepted that there is no room for another.
    #[error(
        "{kept_max} keys are in use, and no more are kept: wait until {until}, when tokens of the first of them are over"
    )]
    Full {
        /// How many are kept.
        kept_max: usize,
        /// When there is room.
        until: Timestamp,
    },
    /// There are as many keys as are kept of a use whose keys are never dropped.
    #[error(
        "{kept_max} keys are kept, and no more: stop the server and remove the oldest from `{}`; what it signed is refused from then on", .path.display()
    )]
    FullForGood {
        /// How many are kept.
        kept_max: usize,
        /// Where.
        path: PathBuf,
    },
    /// An overlap was given for keys that stay accepted.
    #[error("what these keys sign does not expire, and a replaced key stays accepted: leave the overlap out")]
    NoOverlap,
    /// Keys cannot be made, read or written.
    #[error(transparent)]
    Key(#[from] KeyError),
}

/// A new key that does not sign yet, and what becomes of the one that does.
pub struct Rotation {
    new: StoredKey,
    replaced: Arc<str>,
    accepted_until: Option<Timestamp>,
}

impl Rotation {
    /// The name of the new key.
    #[must_use]
    pub fn new_id(&self) -> &str {
        &self.new.id
    }

    /// The name of the key that it replaces.
    #[must_use]
    pub fn replaced_id(&self) -> &str {
        &self.replaced
    }

    /// Until when what the replaced key signed is accepted; absent where that does not expire.
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
    /// Those of tokens.
    pub tokens: Arc<KeyRing>,
    /// Those of decisions.
    pub decisions: Arc<DecisionKeyRing>,
}

impl SigningKeyRings {
    /// As [`SigningKeyRing::reload`], of every use.
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
    /// How long the tokens are good that are signed now, in seconds; absent where what is signed does not expire.
    lifetime_s: Option<u64>,
    in_force: ArcSwap<SigningKeys<M>>,
    /// The file as it was when it was last read or written; held while it is.
    changing: Mutex<Option<FileStamp>>,
}

impl KeyRing {
    /// Reads the keys that sign tokens from a data folder, and makes the first one where there is none. Tokens are good for that many seconds.
    ///
    /// # Errors
    /// When the file of keys cannot be read or written, or is not safe to use.
    pub fn load_or_create(data_folder: &Path, lifetime_s: u64, now: Timestamp) -> Result<Self, KeyError> {
        Self::open(data_folder, Some(lifetime_s), now)
    }
}

impl DecisionKeyRing {
    /// Reads the keys that seal decisions from a data folder, and makes the first one where there is none.
    ///
    /// # Errors
    /// When the file of keys cannot be read or written, or is not safe to use.
    pub fn load_or_create(data_folder: &Path, now: Timestamp) -> Result<Self, KeyError> {
        Self::open(data_folder, None, now)
    }
}

impl<M: KeyMaterial> SigningKeyRing<M> {
    /// Reads the keys of a data folder; makes the folder of keys and a first key when there are none. What a crash left of unfinished
    /// files is removed.
    ///
    /// # Errors
    /// When the file cannot be read or written, others may read it, or a key is malformed or weak. The message says what to do.
    fn open(data_folder: &Path, lifetime_s: Option<u64>, now: Timestamp) -> Result<Self, KeyError> {
        let folder = data_folder.join(KEY_FOLDER);
        secret_file::prepare_folder(&folder)?;
        secret_file::remove_unfinished(&folder)?;
        let path = folder.join(M::FILE);
        let mut stored = key_file::load_or_create(&path, lifetime_s, now)?;
        if let Some(current) = stored.first_mut()
            && current.lifetime_s.is_some_and(|longest_s| lifetime_s.is_some_and(|lifetime_s| longest_s < lifetime_s))
        {
            // Before it signs the first of them.
            current.lifetime_s = lifetime_s;
            key_file::replace(&path, &stored)?;
        }
        let in_force = ArcSwap::from_pointee(keys_of(&path, &stored)?);
        // Of no file, so that one that was replaced since it was read is read again.
        Ok(Self { path, lifetime_s, in_force, changing: Mutex::default() })
    }

    /// The keys in force.
    #[must_use]
    pub fn load(&self) -> Guard<Arc<SigningKeys<M>>> {
        self.in_force.load()
    }

    /// Takes up what another process with the same folder of keys wrote; says whether there was anything new. Looks at the file, and reads it
    /// only where it is another one.
    ///
    /// # Errors
    /// When it cannot be read, or its keys are refused: those in force stay so.
    pub fn reload(&self) -> Result<bool, KeyError> {
        let mut seen = self.changing();
        let stamp = FileStamp::of(&self.path);
        if stamp.is_some() && *seen == stamp {
            return Ok(false);
        }
        let gone = || KeyError::Refused { path: self.path.clone(), reason: "the file is gone".to_owned() };
        let stored = key_file::load(&self.path)?.ok_or_else(gone)?;
        let keys = keys_of(&self.path, &stored)?;
        let is_new = !self
            .load()
            .all()
            .map(|key| (key.id(), key.accepted_until()))
            .eq(keys.all().map(|key| (key.id(), key.accepted_until())));
        *seen = stamp;
        if is_new {
            self.in_force.store(Arc::new(keys));
        }
        Ok(is_new)
    }

    /// Makes a new key, which signs once it is [put in force](Self::carry_out). Where what it signs expires, the one that signs now is
    /// accepted for `overlap_s` seconds from then on: as long as its tokens are good, where nothing is said.
    ///
    /// # Errors
    /// [`RotationError`]; nothing is changed.
    pub fn prepare(&self, overlap_s: Option<u64>, now: Timestamp) -> Result<Rotation, RotationError> {
        let keys = self.load();
        let accepted_until = if M::EXPIRES { Some(self.overlap(&keys, overlap_s, now)?) } else { None };
        if overlap_s.is_some() && accepted_until.is_none() {
            return Err(RotationError::NoOverlap);
        }
        if keys.all().filter(|key| key.is_accepted(now)).count() >= M::KEPT_MAX {
            let kept_max = M::KEPT_MAX;
            let until = keys.all().filter_map(|key| key.accepted_until().filter(|until| now < *until)).min();
            return Err(match until {
                Some(until) => RotationError::Full { kept_max, until },
                None => RotationError::FullForGood { kept_max, path: self.path.clone() },
            });
        }
        let new = key_file::new_key(self.lifetime_s, now).map_err(KeyError::from)?;
        let replaced = Arc::clone(&keys.current().id);
        Ok(Rotation { new, replaced, accepted_until })
    }

    /// Until when tokens of the key that signs now are accepted once it is replaced.
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

    /// Writes a new key to disk, then lets it sign.
    ///
    /// # Errors
    /// When the file is not the one that was read, or cannot be written: the old key then signs on.
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
        self.put_in_force(&stored, &mut seen)
    }

    /// Drops keys whose last token has expired, and names them.
    ///
    /// # Errors
    /// When the file is not the one that was read, or cannot be written. Such keys are not accepted all the same.
    pub fn drop_expired(&self, now: Timestamp) -> Result<Vec<String>, KeyError> {
        if self.load().all().all(|key| key.is_accepted(now)) {
            return Ok(Vec::new());
        }
        let mut seen = self.changing();
        let mut stored = self.unchanged()?;
        let dropped = self.retain_accepted(&mut stored, now);
        self.put_in_force(&stored, &mut seen)?;
        Ok(dropped)
    }

    /// Leaves those that are accepted, and names the others. Keys that the present ones do not know are new.
    fn retain_accepted(&self, stored: &mut Vec<StoredKey>, now: Timestamp) -> Vec<String> {
        let keys = self.load();
        let is_over = |key: &StoredKey| keys.all().any(|known| known.id() == key.id && !known.is_accepted(now));
        let (over, kept) = std::mem::take(stored).into_iter().partition(is_over);
        *stored = kept;
        over.into_iter().map(|key: StoredKey| key.id).collect()
    }

    fn put_in_force(&self, stored: &[StoredKey], seen: &mut Option<FileStamp>) -> Result<(), KeyError> {
        let keys = keys_of(&self.path, stored)?;
        // Read again by the next who looks: what is there by then may be another's.
        *seen = None;
        key_file::replace(&self.path, stored)?;
        self.in_force.store(Arc::new(keys));
        Ok(())
    }

    /// The keys on disk, which have to be those in force: somebody who changed the file by hand wants something else.
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

fn keys_of<M: KeyMaterial>(path: &Path, stored: &[StoredKey]) -> Result<SigningKeys<M>, KeyError> {
    SigningKeys::new(stored).map_err(|reason| KeyError::Refused { path: path.to_owned(), reason })
}

#[cfg(test)]
mod tests;
