//! Bodies of people as they were sent, kept for the next who asks for the same.
//!
//! A body is kept under everything that decides what it says beside the records: the identifier that was asked for, the fields that may
//! be shown, the languages, and the digest of the vocabularies and of the declared extension fields. Which records it says something of, it rests on (`Stamps`).
//!
//! **Invariant:** what is found here is what would be made now: once a write is acknowledged, nothing is found any more that was made
//! of what it changed. Who may ask is decided before on every call, and the call is audited as any other.
//!
//! **Invariant:** nothing is kept for clients whose legal basis is consent, whose view of a record changes with the day.
//!
//! **Invariant:** whatever changes has another stamp afterwards. That something has another stamp does not mean that it changed: what
//! shares its place may have.

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

/// A bigger body is not kept: one with a photo would take the room of thousands.
const BODY_BYTES_MAX: usize = 16 << 10;
/// What a kept body takes beside its bytes and names, about.
const ENTRY_BYTES: u64 = 512;

/// A body as it is sent, and what the audit log is reported it.
#[derive(Clone)]
pub struct SentBody {
    /// The version that it shows.
    pub version: VersionId,
    /// The bytes.
    pub bytes: Arc<[u8]>,
    /// The fields that it shows.
    pub shown: Arc<[String]>,
    /// Whom it shows besides: the groups of a person, and the people that it has a relationship to.
    pub named: Arc<[String]>,
}

impl fmt::Debug for SentBody {
    /// Says how long it is, never what it says.
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_struct("SentBody").field("bytes", &self.bytes.len()).finish_non_exhaustive()
    }
}

/// Everything that decides what a body says, but the records.
#[derive(Clone, PartialEq, Eq, Hash)]
pub struct BodyKey {
    person: IdentifierKey,
    fields: FieldSet,
    /// What may be shown of the person's groups; nothing, where these are not shown at all.
    groups: Option<FieldSet>,
    languages: LanguagePreference,
    vocabularies: ContentDigest,
}

impl BodyKey {
    /// Under what the body of the person is kept that this client asks for; none for one whose view of it depends on more.
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

/// Bodies that are kept, up to a bound; those that nobody asks for free space first.
#[derive(Default)]
pub struct ResponseCache {
    kept: Option<BodyCache>,
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

/// What was found, and what is kept.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct ResponseCacheUsage {
    /// Bodies that were found.
    pub hits: u64,
    /// Bodies that had to be made.
    pub misses: u64,
    /// Bodies that are kept.
    pub entries: usize,
    /// Their memory in bytes, about.
    pub bytes: u64,
}

/// Taken before a body is made, so that it is known whether anything changed in the meantime.
pub struct PendingFill(Option<(BodyKey, u64)>);

impl ResponseCache {
    /// Keeps bodies in so many bytes; none with 0.
    #[must_use]
    pub fn new(bytes: u64) -> Self {
        /// What a usual body takes, with what lies beside it.
        const USUAL_BYTES: u64 = 1_536;
        let estimated = usize::try_from(bytes / USUAL_BYTES).unwrap_or(usize::MAX).max(1);
        let make = || BodyCache {
            bodies: Cache::with(estimated, bytes, Weights, RandomState::new(), DefaultLifecycle::default()),
            stamps: Stamps::new(),
            hits: AtomicU64::new(0),
            misses: AtomicU64::new(0),
        };
        Self { kept: (bytes > 0).then(make) }
    }

    /// True if any are kept at all.
    #[must_use]
    pub fn keeps(&self) -> bool {
        self.kept.is_some()
    }

    /// The body that is kept under a key, as long as nothing changed that it was made of.
    #[must_use]
    pub fn find(&self, key: &BodyKey) -> Option<SentBody> {
        let kept = self.kept.as_ref()?;
        let entry = kept.bodies.get(key).filter(|entry| kept.stamps.are_unchanged(&entry.read_set));
        let count = if entry.is_some() { &kept.hits } else { &kept.misses };
        count.fetch_add(1, Ordering::Relaxed);
        Some(entry?.body)
    }

    /// To be called before anything is read that a body is made of.
    #[must_use]
    pub fn begin(&self, key: Option<BodyKey>) -> PendingFill {
        PendingFill(self.kept.as_ref().zip(key).map(|(kept, key)| (key, kept.stamps.changes())))
    }

    /// Keeps a body that was made since `making` began, unless anything at all changed in the meantime: it may show what was before.
    pub fn keep(&self, making: PendingFill, view: &IndividualView, body: &SentBody) {
        let (Some(kept), Some((key, changes_before))) = (self.kept.as_ref(), making.0) else { return };
        // Another generation may have come into force after the key was made.
        if body.bytes.len() > BODY_BYTES_MAX || *view.codes.vocabularies() != key.vocabularies {
            return;
        }
        let stamps = &kept.stamps;
        let mut read_set =
            vec![stamps.of_identifier(&key.person), stamps.of_record(RecordKind::Individual, view.individual.id)];
        let places = view.beside.places.iter().flatten();
        read_set.extend(places.map(|place| stamps.of_record(RecordKind::Group, place.group.record.id)));
        read_set.extend(view.beside.related.keys().map(|id| stamps.of_record(RecordKind::Individual, *id)));
        // After the stamps: whoever changes counts first and stamps then.
        if stamps.changes() == changes_before {
            kept.bodies.insert(key, Entry { body: body.clone(), read_set: read_set.into() });
        }
    }

    /// Hears of changes, after everything else that bodies are made of has.
    pub fn heed(&self, changes: &[Change]) {
        if let Some(kept) = &self.kept {
            kept.stamps.change(changes);
        }
    }

    /// What was found, and what is kept.
    #[must_use]
    pub fn usage(&self) -> ResponseCacheUsage {
        self.kept.as_ref().map_or_else(ResponseCacheUsage::default, |BodyCache { bodies, hits, misses, .. }| {
            ResponseCacheUsage {
                hits: hits.load(Ordering::Relaxed),
                misses: misses.load(Ordering::Relaxed),
                entries: bodies.len(),
                bytes: bodies.weight(),
            }
        })
    }
}

/// Number of places: a mebibyte.
const PLACES: usize = 1 << 18;

/// A place with the stamp that it had.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Seen {
    place: u32,
    stamp: u32,
}

/// How often what a body rests on was changed: a table of fixed size, in which many records share a place.
struct Stamps {
    hasher: RandomState,
    /// Number of changes in all.
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

    /// The stamp of whom an identifier addresses.
    fn of_identifier(&self, key: &IdentifierKey) -> Seen {
        self.seen(key)
    }

    /// True if all have the stamps that they had.
    fn are_unchanged(&self, seen: &[Seen]) -> bool {
        seen.iter().all(|seen| self.place(seen.place).is_some_and(|place| place.load(Ordering::SeqCst) == seen.stamp))
    }

    /// Gives new stamps to what changed, and to whom it says something of.
    fn change(&self, changes: &[Change]) {
        for change in changes {
            match &change.record {
                ChangedRecord::Individual(person) => {
                    self.changes.fetch_add(1, Ordering::SeqCst);
                    self.stamp((RecordKind::Individual, person.id));
                    // Who else was addressed by one of them, until it was given to this one.
                    person.details.identifiers.iter().for_each(|identifier| self.stamp(&identifier.key));
                }
                ChangedRecord::Group(group) => {
                    self.changes.fetch_add(1, Ordering::SeqCst);
                    self.stamp((RecordKind::Group, group.id));
                    // Whoever is a member now may not have been; whoever was rests on the group already.
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
        // Below the number of places, which fits.
        u32::try_from(self.hasher.hash_one(of) % PLACES as u64).unwrap_or_default()
    }

    fn place(&self, place: u32) -> Option<&AtomicU32> {
        self.places.get(place as usize)
    }
}
