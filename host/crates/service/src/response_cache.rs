//! Response cache: bodies of individuals as they were sent, for later requests for the same.
//!
//! The cache key contains everything that determines a body besides the records: the identifier of the request, the
//! visible fields, the languages, and the digest of the vocabularies and of the declared extension fields. The records
//! of a body are tracked by their stamps (`Stamps`).
//!
//! **Invariant:** a cached body equals one created now: once a write is acknowledged, no body created from data that it
//! changed is returned. Access is checked before, on every call, and the call is audited like any other.
//!
//! **Invariant:** nothing is cached for clients whose legal basis is consent, whose view of a record changes with the
//! day.
//!
//! **Invariant:** every change assigns another stamp to the changed records. A different stamp does not prove a
//! change:
//! another record in the same slot may have changed.

#[cfg(test)]
mod tests;

use std::fmt;
use std::hash::{BuildHasher, Hash, RandomState};
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};

use quick_cache::Weighter;
use quick_cache::sync::{Cache, DefaultLifecycle};

use crate::individual::IndividualView;
use crate::registry::Registry;
use crate::visibility;
use daftar_domain::change::{Change, ChangedRecord};
use daftar_domain::context::OpContext;
use daftar_domain::error::FieldUse;
use daftar_domain::field::FieldSet;
use daftar_domain::identifier::IdentifierKey;
use daftar_domain::record::{RecordId, RecordKind, VersionId};
use daftar_domain::scope::{Action, Resource};
use daftar_vocabulary::{ContentDigest, LanguagePreference};

/// A larger body is not cached: one with a photo would use the memory of thousands.
const BODY_BYTES_MAX: usize = 16 << 10;
/// Approximate memory of a cached body besides its bytes and names.
const ENTRY_BYTES: u64 = 512;

/// A body as it is sent, with the data for its audit entry.
#[derive(Clone)]
pub struct SentBody {
    /// The version that it shows.
    pub version: VersionId,
    /// The bytes.
    pub bytes: Arc<[u8]>,
    /// The fields that it shows.
    pub shown: Arc<[String]>,
    /// References of other records that it shows: the groups of an individual, and the related individuals.
    pub named: Arc<[String]>,
}

impl fmt::Debug for SentBody {
    /// Shows its length, never its content.
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_struct("SentBody").field("bytes", &self.bytes.len()).finish_non_exhaustive()
    }
}

/// Everything that determines a body, except the records.
#[derive(Clone, PartialEq, Eq, Hash)]
pub struct BodyKey {
    person: IdentifierKey,
    fields: FieldSet,
    /// Visible fields of the individual's groups; none if groups are not part of the body.
    groups: Option<FieldSet>,
    languages: LanguagePreference,
    vocabularies: ContentDigest,
}

impl BodyKey {
    /// The cache key of the body of an individual for this client; none for a client whose view of it depends on more.
    #[must_use]
    pub fn of(
        ctx: &OpContext,
        registry: &Registry,
        languages: &LanguagePreference,
        person: &IdentifierKey,
    ) -> Option<Self> {
        if ctx.consent.is_some() || !registry.bodies.keeps() {
            return None;
        }
        let fields = ctx.fields(Resource::Individual, Action::Read);
        let shows_groups = visibility::check_membership(ctx, FieldUse::Read).is_ok();
        Some(Self {
            person: person.clone(),
            fields,
            groups: shows_groups.then(|| ctx.fields(Resource::Group, Action::Read)),
            languages: languages.clone(),
            vocabularies: *registry.vocabularies.current().digest(),
        })
    }
}

/// Cached bodies, up to a memory limit; bodies without requests are evicted first.
#[derive(Default)]
pub struct ResponseCache {
    cache: Option<BodyCache>,
}

struct BodyCache {
    bodies: Cache<BodyKey, Entry, Weights, RandomState>,
    stamps: Stamps,
    hits: AtomicU64,
    misses: AtomicU64,
}

#[derive(Clone)]
struct Entry {
    body: SentBody,
    read_set: Arc<[Seen]>,
}

#[derive(Clone)]
struct Weights;

impl Weighter<BodyKey, Entry> for Weights {
    fn weight(&self, _: &BodyKey, entry: &Entry) -> u64 {
        let names = entry.body.named.iter().chain(entry.body.shown.iter()).map(String::len).sum::<usize>();
        ENTRY_BYTES.saturating_add(entry.body.bytes.len() as u64).saturating_add(names as u64)
    }
}

/// Numbers of hits, misses and cached bodies.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct ResponseCacheUsage {
    /// Cache hits.
    pub hits: u64,
    /// Cache misses.
    pub misses: u64,
    /// Cached bodies.
    pub entries: usize,
    /// Their approximate memory in bytes.
    pub bytes: u64,
}

/// Snapshot of the change counter before a body is created, to detect concurrent changes.
pub struct PendingFill(Option<(BodyKey, u64)>);

impl ResponseCache {
    /// Creates a cache with that size in bytes; disabled with 0.
    #[must_use]
    pub fn new(bytes: u64) -> Self {
        /// Memory of a usual body with its related data.
        const USUAL_BYTES: u64 = 1_536;
        let estimated = usize::try_from(bytes / USUAL_BYTES).unwrap_or(usize::MAX).max(1);
        let make = || BodyCache {
            bodies: Cache::with(estimated, bytes, Weights, RandomState::new(), DefaultLifecycle::default()),
            stamps: Stamps::new(),
            hits: AtomicU64::new(0),
            misses: AtomicU64::new(0),
        };
        Self { cache: (bytes > 0).then(make) }
    }

    /// True if the cache is enabled.
    #[must_use]
    pub fn keeps(&self) -> bool {
        self.cache.is_some()
    }

    /// The cached body of a key, as long as its source data is unchanged.
    #[must_use]
    pub fn find(&self, key: &BodyKey) -> Option<SentBody> {
        let cache = self.cache.as_ref()?;
        let entry = cache.bodies.get(key).filter(|entry| cache.stamps.are_unchanged(&entry.read_set));
        let count = if entry.is_some() { &cache.hits } else { &cache.misses };
        count.fetch_add(1, Ordering::Relaxed);
        Some(entry?.body)
    }

    /// To be called before any source data of a body is read.
    #[must_use]
    pub fn begin(&self, key: Option<BodyKey>) -> PendingFill {
        PendingFill(self.cache.as_ref().zip(key).map(|(cache, key)| (key, cache.stamps.changes())))
    }

    /// Caches a body created since `making` began, unless anything changed concurrently: it may show the previous
    /// state.
    pub fn keep(&self, making: PendingFill, view: &IndividualView, body: &SentBody) {
        let (Some(cache), Some((key, changes_before))) = (self.cache.as_ref(), making.0) else { return };
        // Another vocabulary snapshot may have become active after the key was created.
        if body.bytes.len() > BODY_BYTES_MAX || *view.codes.vocabularies() != key.vocabularies {
            return;
        }
        let stamps = &cache.stamps;
        let mut read_set =
            vec![stamps.of_identifier(&key.person), stamps.of_record(RecordKind::Individual, view.individual.id)];
        let places = view.beside.places.iter().flatten();
        read_set.extend(places.map(|place| stamps.of_record(RecordKind::Group, place.group.id)));
        read_set.extend(view.beside.related.keys().map(|id| stamps.of_record(RecordKind::Individual, *id)));
        // Runs after the stamps are read: a change increments the counter first and the stamps afterwards.
        if stamps.changes() == changes_before {
            cache.bodies.insert(key, Entry { body: body.clone(), read_set: read_set.into() });
        }
    }

    /// Receives changes, after all other sources of bodies have.
    pub fn heed(&self, changes: &[Change]) {
        if let Some(cache) = &self.cache {
            cache.stamps.change(changes);
        }
    }

    /// Returns the numbers of hits, misses and cached bodies.
    #[must_use]
    pub fn usage(&self) -> ResponseCacheUsage {
        self.cache.as_ref().map_or_else(ResponseCacheUsage::default, |BodyCache { bodies, hits, misses, .. }| {
            ResponseCacheUsage {
                hits: hits.load(Ordering::Relaxed),
                misses: misses.load(Ordering::Relaxed),
                entries: bodies.len(),
                bytes: bodies.weight(),
            }
        })
    }
}

/// Number of slots: a mebibyte.
const PLACES: usize = 1 << 18;

/// A slot with its stamp at that time.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Seen {
    place: u32,
    stamp: u32,
}

/// Change counters for the source data of bodies: a table of fixed size, in which many records share a slot.
struct Stamps {
    hasher: RandomState,
    /// Total number of changes.
    changes: AtomicU64,
    places: Box<[AtomicU32]>,
}

impl Stamps {
    fn new() -> Self {
        let places = (0..PLACES).map(|_| AtomicU32::new(0)).collect();
        Self { hasher: RandomState::new(), changes: AtomicU64::new(0), places }
    }

    /// Number of changes.
    fn changes(&self) -> u64 {
        self.changes.load(Ordering::SeqCst)
    }

    /// The stamp of a record.
    fn of_record(&self, kind: RecordKind, id: RecordId) -> Seen {
        self.seen((kind, id))
    }

    /// The stamp of the owner of an identifier.
    fn of_identifier(&self, key: &IdentifierKey) -> Seen {
        self.seen(key)
    }

    /// True if all stamps are unchanged.
    fn are_unchanged(&self, seen: &[Seen]) -> bool {
        seen.iter().all(|seen| self.place(seen.place).is_some_and(|place| place.load(Ordering::SeqCst) == seen.stamp))
    }

    /// Gives new stamps to the changed records, and to the records whose bodies show them.
    fn change(&self, changes: &[Change]) {
        for change in changes {
            match &change.record {
                ChangedRecord::Individual(person) => {
                    self.changes.fetch_add(1, Ordering::SeqCst);
                    self.stamp((RecordKind::Individual, person.id));
                    // Former owners that one of the identifiers addressed until this record adopted it.
                    person.details.identifiers.iter().for_each(|identifier| self.stamp(&identifier.key));
                }
                ChangedRecord::Group(group) => {
                    self.changes.fetch_add(1, Ordering::SeqCst);
                    self.stamp((RecordKind::Group, group.id));
                    // A current member may be a new one; the bodies of former members depend on the group already.
                    group.details.members().for_each(|member| self.stamp((RecordKind::Individual, member.individual)));
                }
                ChangedRecord::Program(_) | ChangedRecord::ProgramMembership(_) | ChangedRecord::Consent(_) => {}
            }
        }
    }

    fn stamp(&self, of: impl Hash) {
        if let Some(place) = self.place(self.place_of(of)) {
            place.fetch_add(1, Ordering::SeqCst);
        }
    }

    fn seen(&self, of: impl Hash) -> Seen {
        let place = self.place_of(of);
        Seen { place, stamp: self.place(place).map_or(0, |place| place.load(Ordering::SeqCst)) }
    }

    fn place_of(&self, of: impl Hash) -> u32 {
        // Less than the number of slots, so the conversion succeeds.
        u32::try_from(self.hasher.hash_one(of) % PLACES as u64).unwrap_or_default()
    }

    fn place(&self, place: u32) -> Option<&AtomicU32> {
        self.places.get(place as usize)
    }
}
