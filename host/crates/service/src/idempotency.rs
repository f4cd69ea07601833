//! Idempotent requests, which a client may repeat and which are executed once, and the records that such a request
//! wrote.
//!
//! **Invariant:** the outcome is stored in the same transaction. If a client received a response, its outcome is
//! stored. If no outcome is stored, nothing was executed.
//!
//! **Invariant:** a rejected request is not stored: a repetition is checked again.
//!
//! **Invariant:** the number of stored results of a client never exceeds its limit: capacity for all results is
//! reserved when a request begins.
//!
//! **Invariant:** replayed records are limited to the data that the client may read now. If the request created a
//! record that the client may no longer read, only type, identifiers and meta are returned, which the client sent
//! itself. A record that the request changed is then absent, as for any other call.

use std::collections::HashMap;
use std::collections::hash_map::Entry;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use jiff::{SignedDuration, Timestamp};

use crate::codes::LanguagePreference;
use crate::group::{self, GroupView};
use crate::individual::{self, IndividualView};
use crate::program_membership::{self, MembershipView};
use crate::records;
use crate::registry::Registry;
use crate::visibility::{self, Seen};
use daftar_domain::client::ClientId;
use daftar_domain::context::OpContext;
use daftar_domain::error::{AppError, FieldProblem};
use daftar_domain::error_code::ErrorCode;
use daftar_domain::field::FieldSet;
use daftar_domain::idempotency::{IdempotencyKey, IdempotentRequest, RequestName, StoredResponse};
use daftar_domain::record::{RecordId, RecordKind, VersionId};
use daftar_store::Store;

/// Minimum interval between two searches for expired entries while a client is at its limit:
/// a search reads all of them.
const LOOKS_APART: SignedDuration = SignedDuration::from_secs(60);
/// Validity of a count while other processes store requests as well.
const COUNTS_HOLD: SignedDuration = SignedDuration::from_secs(1);

/// The requests in progress, and the number of stored ones.
#[derive(Debug)]
pub struct Requests {
    /// The maximum number of stored requests of one client.
    per_client_max: u64,
    /// Validity of a count of stored requests; unlimited if no other process handles requests of this register.
    counts_hold: Option<SignedDuration>,
    /// The number of results that each request in progress may still store.
    in_flight: Mutex<HashMap<(ClientId, IdempotencyKey), u64>>,
    /// Counts by client, with the time of the count. A client is counted on first use; the count is exact or too high,
    /// except for later changes by other processes.
    remembered: Mutex<HashMap<ClientId, (u64, Timestamp)>>,
    /// Time of the last search for expired entries because a client was at its limit.
    inspected: Mutex<Option<Timestamp>>,
}

/// A request with an idempotency key.
#[derive(Debug)]
pub struct NamedRequest {
    /// The key that the client sent.
    pub key: IdempotencyKey,
    /// SHA-256 of the content of the request.
    pub digest: [u8; 32],
    /// Number of parts that are stored separately when they are completed: one if the request is stored as one part.
    pub parts: u64,
}

/// A request in progress: until it is dropped, no other request with its key begins.
#[derive(Debug)]
pub struct Once {
    requests: Arc<Requests>,
    client: ClientId,
    key: IdempotencyKey,
    digest: [u8; 32],
    earlier: Vec<Arc<IdempotentRequest>>,
}

impl Requests {
    /// With no requests in progress and a limit of stored requests per client.
    #[must_use]
    pub fn new(per_client_max: u64) -> Self {
        let (in_flight, remembered, inspected) = (Mutex::default(), Mutex::default(), Mutex::default());
        Self { per_client_max, counts_hold: None, in_flight, remembered, inspected }
    }

    /// For one of several processes that handle requests of the register: stored requests are counted again each
    /// second. If two processes handle the same key at the same time, the store accepts one of them.
    #[must_use]
    pub fn with_other_servers(self) -> Self {
        Self { counts_hold: Some(COUNTS_HOLD), ..self }
    }

    /// Begins a request with that key.
    ///
    /// # Errors
    /// [`AppError::Conflict`] while another request with that key is in progress, and if the client has reached its
    /// limit of keys; [`AppError::InvalidValue`] if the key was used for another request.
    pub async fn begin(
        self: &Arc<Self>,
        ctx: &OpContext,
        store: &dyn Store,
        request: NamedRequest,
    ) -> Result<Once, AppError> {
        let NamedRequest { key, digest, parts } = request;
        let client = ctx.client().cloned();
        let client =
            client.ok_or_else(|| AppError::internal("a caller that is not a client sent an idempotency key"))?;
        match lock(&self.in_flight).entry((client.clone(), key.clone())) {
            Entry::Vacant(free) => drop(free.insert(0)),
            Entry::Occupied(_) => {
                let detail =
                    "a request with this `Idempotency-Key` is being done: send it again in a moment for its answer";
                return Err(AppError::conflict(ErrorCode::RequestInProgress, detail));
            }
        }
        // From here on, dropping the value ends the request.
        let mut once = Once { requests: Arc::clone(self), client, key, digest, earlier: Vec::new() };
        let earlier = store.remembered(&once.client, &once.key).await?;
        once.earlier = earlier.into_iter().filter(|request| request.is_stored_at(ctx.now)).collect();
        if once.earlier.iter().any(|request| request.digest != digest) {
            let message = "it was given to another request: take a new key for each request";
            let problem = FieldProblem::new("Idempotency-Key", "reused_key", message);
            return Err(AppError::InvalidValue(ErrorCode::IdempotencyKeyReused, problem));
        }
        let more = parts.saturating_sub(once.earlier.len() as u64);
        if more > 0 {
            self.make_space(ctx, store, &once, more).await?;
        }
        Ok(once)
    }

    /// Reserves capacity for the results that a request may store.
    async fn make_space(&self, ctx: &OpContext, store: &dyn Store, once: &Once, parts: u64) -> Result<(), AppError> {
        let mut count = self.count(store, &once.client, ctx.now).await?;
        let mut has_room = self.takes(once, (count, parts));
        if !has_room && self.is_time_to_look(ctx.now) && self.forget(store, ctx.now).await? > 0 {
            count = self.count(store, &once.client, ctx.now).await?;
            has_room = self.takes(once, (count, parts));
        }
        if has_room {
            return Ok(());
        }
        let max = self.per_client_max;
        let would_be = if parts == 1 { "it would be one more".to_owned() } else { format!("it would be {parts} more") };
        let detail = format!(
            "at most {max} requests of a client are remembered by their `Idempotency-Key`, {count} of this client are, and {would_be}: send it without a key, or wait until the oldest are a day old"
        );
        Err(AppError::Conflict(ErrorCode::IdempotencyKeysExhausted, detail))
    }

    /// Number of stored requests of a client.
    async fn count(&self, store: &dyn Store, client: &ClientId, now: Timestamp) -> Result<u64, AppError> {
        let holds = |at: Timestamp| self.counts_hold.is_none_or(|holds| now.duration_since(at).abs() < holds);
        if let Some((count, _)) = lock(&self.remembered).get(client).filter(|(_, at)| holds(*at)) {
            return Ok(*count);
        }
        let count = store.remembered_count(client).await?;
        let mut remembered = lock(&self.remembered);
        let known = remembered.entry(client.clone()).or_insert((count, now));
        if !holds(known.1) {
            *known = (count, now);
        }
        Ok(known.0)
    }

    /// Reserves capacity for more parts, besides the stored parts and those of requests in progress. Returns false if
    /// the capacity is insufficient.
    fn takes(&self, once: &Once, (count, parts): (u64, u64)) -> bool {
        let mut in_flight = lock(&self.in_flight);
        let of_client = in_flight.iter().filter(|((client, _), _)| *client == once.client);
        let promised = of_client.fold(0_u64, |sum, (_, parts)| sum.saturating_add(*parts));
        if count.saturating_add(promised).saturating_add(parts) > self.per_client_max {
            return false;
        }
        in_flight.insert((once.client.clone(), once.key.clone()), parts);
        true
    }

    fn is_time_to_look(&self, now: Timestamp) -> bool {
        let mut inspected = lock(&self.inspected);
        let is_time = inspected.is_none_or(|before| now.duration_since(before).abs() >= LOOKS_APART);
        if is_time {
            *inspected = Some(now);
        }
        is_time
    }

    /// Removes expired entries.
    ///
    /// # Errors
    /// If the store fails; the next call tries again.
    pub async fn forget(&self, store: &dyn Store, now: Timestamp) -> Result<u64, AppError> {
        let forgotten = store.forget_requests(now).await?;
        if forgotten > 0 {
            lock(&self.remembered).clear();
        }
        Ok(forgotten)
    }
}

impl Once {
    /// The earlier response to that part of the request; part 0 is the complete request.
    #[must_use]
    pub fn earlier(&self, part: u16) -> Option<&IdempotentRequest> {
        self.earlier.iter().find(|request| request.name.part == part).map(|request| &**request)
    }

    /// Reads the earlier response to that part again after its execution failed: the first client may have
    /// disconnected before the response, while the part was being written.
    /// # Errors
    /// If the store fails.
    pub async fn is_done_concurrently(
        &mut self,
        ctx: &OpContext,
        store: &dyn Store,
        part: u16,
    ) -> Result<bool, AppError> {
        let found = store.remembered(&self.client, &self.key).await?;
        let is_same = |request: &Arc<IdempotentRequest>| request.is_stored_at(ctx.now) && request.digest == self.digest;
        self.earlier = found.into_iter().filter(is_same).collect();
        Ok(self.earlier(part).is_some())
    }

    /// The entry to store for that part.
    #[must_use]
    pub fn answered(&self, ctx: &OpContext, part: u16, responses: Vec<StoredResponse>) -> IdempotentRequest {
        let name = RequestName { client: self.client.clone(), key: self.key.clone(), part };
        IdempotentRequest { name, digest: self.digest, at: ctx.now, responses }
    }

    /// Counts a part that is stored from now on.
    pub fn note(&self) {
        if let Some((count, _)) = lock(&self.requests.remembered).get_mut(&self.client) {
            *count = count.saturating_add(1);
        }
        if let Some(promised) = lock(&self.requests.in_flight).get_mut(&(self.client.clone(), self.key.clone())) {
            *promised = promised.saturating_sub(1);
        }
    }
}

impl Drop for Once {
    fn drop(&mut self) {
        lock(&self.requests.in_flight).remove(&(self.client.clone(), self.key.clone()));
    }
}

/// A panic elsewhere leaves the guarded data valid: each change is one insertion or removal.
fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// A record at the version that was written.
pub enum IdempotentReplay {
    /// An individual.
    Individual(IndividualView),
    /// A group.
    Group(GroupView),
    /// A membership in a program.
    ProgramMembership(MembershipView),
    /// Responses do not contain other records.
    Nothing,
}

/// Returns the display of a record at a version.
///
/// # Errors
/// [`AppError::NotFound`] for a record that was changed, not created, and that the client may no longer read. If the
/// store fails; a missing version is a defect.
pub async fn replay(
    ctx: &OpContext,
    registry: &Registry,
    languages: LanguagePreference,
    (kind, id, version): (RecordKind, RecordId, VersionId),
) -> Result<IdempotentReplay, AppError> {
    let gone = || AppError::internal("a stored request refers to a record that is missing");
    let fields = match visibility::of(ctx, registry, kind, id).await? {
        Some(fields) => fields,
        None if version == VersionId::FIRST => FieldSet::none(),
        None => {
            let changed = registry.store.record_version(kind, id, version).await?.ok_or_else(gone)?;
            ctx.trail.about(records::references(kind, &changed.identifiers()));
            return Err(AppError::NotFound(kind));
        }
    };
    Ok(match kind {
        RecordKind::Individual => {
            let record = registry.store.find_version(id, version).await?.ok_or_else(gone)?;
            let seen = Seen { record, fields };
            IdempotentReplay::Individual(
                individual::view(ctx, registry, languages, seen, individual::Includes::ALL).await?,
            )
        }
        RecordKind::Group => {
            let record = registry.store.find_version(id, version).await?.ok_or_else(gone)?;
            let seen = Seen { record, fields };
            IdempotentReplay::Group(group::written_view(ctx, registry, languages, seen, group::Includes::ALL).await?)
        }
        RecordKind::ProgramMembership => {
            let membership = registry.store.find_version(id, version).await?.ok_or_else(gone)?;
            let view = program_membership::view(registry, membership, fields).await?;
            if view.fields.allows("beneficiary") {
                ctx.trail.names([view.beneficiary.clone()]);
            }
            IdempotentReplay::ProgramMembership(view)
        }
        RecordKind::Program | RecordKind::Consent => IdempotentReplay::Nothing,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use daftar_domain::audit::Actor;
    use daftar_domain::context::audit_context::AuditContext;
    use daftar_store::Write;
    use daftar_store_sled::SledStore;

    fn context() -> OpContext {
        let (client, now) = (ClientId::parse("c").unwrap(), "2026-03-01T12:00:00Z".parse().unwrap());
        OpContext::unbound(Actor::Client(client), "r".into(), now, AuditContext::default())
    }

    fn named(key: &str, digest: [u8; 32]) -> NamedRequest {
        NamedRequest { key: IdempotencyKey::parse(key).unwrap(), digest, parts: 1 }
    }

    fn bounded(per_client_max: u64) -> Arc<Requests> {
        Arc::new(Requests::new(per_client_max))
    }

    async fn do_it(ctx: &OpContext, store: &SledStore, once: &Once) {
        let write =
            Write { at: ctx.now, source: None, operations: Vec::new(), audit: Vec::new(), read_set: Vec::new() };
        store.commit_once(write, once.answered(ctx, 0, Vec::new())).await.unwrap();
        once.note();
    }

    #[tokio::test]
    async fn a_name_stands_for_one_request_at_a_time_and_for_one_at_all() {
        let (ctx, store, requests) = (context(), SledStore::temporary(), bounded(100));
        let mut first = requests.begin(&ctx, &store, named("k", [1; 32])).await.unwrap();
        let error = requests.begin(&ctx, &store, named("k", [1; 32])).await.unwrap_err();
        assert!(matches!(error, AppError::Conflict(ErrorCode::RequestInProgress, _)), "{error}");
        assert!(!first.is_done_concurrently(&ctx, &store, 0).await.unwrap());
        do_it(&ctx, &store, &first).await;
        assert!(first.is_done_concurrently(&ctx, &store, 0).await.unwrap());
        assert!(!first.is_done_concurrently(&ctx, &store, 1).await.unwrap());
        drop(first);
        let again = requests.begin(&ctx, &store, named("k", [1; 32])).await.unwrap();
        assert!(again.earlier(0).is_some());
        drop(again);
        let error = requests.begin(&ctx, &store, named("k", [2; 32])).await.unwrap_err();
        assert!(matches!(error, AppError::InvalidValue(ErrorCode::IdempotencyKeyReused, _)), "{error}");
        drop(requests.begin(&ctx, &store, named("other", [2; 32])).await.unwrap());
    }

    #[tokio::test]
    async fn so_many_are_remembered_of_one_client_until_they_are_forgotten() {
        let (ctx, store, requests) = (context(), SledStore::temporary(), bounded(100));
        for number in 0..100 {
            let once = requests.begin(&ctx, &store, named(&number.to_string(), [1; 32])).await.unwrap();
            do_it(&ctx, &store, &once).await;
        }
        let error = requests.begin(&ctx, &store, named("more", [1; 32])).await.unwrap_err();
        assert!(error.to_string().starts_with("at most 100 requests of a client"), "{error}");
        drop(requests.begin(&ctx, &store, named("7", [1; 32])).await.unwrap());
        let tomorrow = ctx.now + daftar_domain::idempotency::REMEMBERED_FOR;
        assert_eq!(requests.forget(&store, tomorrow).await.unwrap(), 100);
        drop(requests.begin(&ctx, &store, named("more", [1; 32])).await.unwrap());
    }

    #[tokio::test]
    async fn what_another_process_remembers_counts_a_second_later() {
        let (mut ctx, store) = (context(), SledStore::temporary());
        let [one, other] = [1, 2].map(|_| Arc::new(Requests::new(2).with_other_servers()));
        for (requests, key) in [(&one, "a"), (&other, "b")] {
            let once = requests.begin(&ctx, &store, named(key, [1; 32])).await.unwrap();
            do_it(&ctx, &store, &once).await;
        }
        ctx.now += COUNTS_HOLD;
        for requests in [&one, &other] {
            drop(requests.begin(&ctx, &store, named("c", [1; 32])).await.unwrap_err());
            let again = requests.begin(&ctx, &store, named("b", [1; 32])).await.unwrap();
            assert!(again.earlier(0).is_some(), "regardless of the process that handled it");
        }
    }

    #[tokio::test]
    async fn requests_that_are_being_done_have_their_room() {
        let (ctx, store, requests) = (context(), SledStore::temporary(), bounded(3));
        let batch = |parts| NamedRequest { parts, ..named("batch", [1; 32]) };
        drop(requests.begin(&ctx, &store, batch(4)).await.unwrap_err());
        let first = requests.begin(&ctx, &store, batch(2)).await.unwrap();
        let second = requests.begin(&ctx, &store, named("k", [1; 32])).await.unwrap();
        drop(requests.begin(&ctx, &store, named("l", [1; 32])).await.unwrap_err());
        drop(second);
        let third = requests.begin(&ctx, &store, named("l", [1; 32])).await.unwrap();
        do_it(&ctx, &store, &third).await;
        drop((first, third));
        let error = requests.begin(&ctx, &store, batch(3)).await.unwrap_err();
        assert!(error.to_string().contains("1 of this client are, and it would be 3 more"), "{error}");
        drop(requests.begin(&ctx, &store, batch(2)).await.unwrap());
    }

    #[tokio::test]
    async fn a_client_at_its_bound_has_room_as_soon_as_the_oldest_is_a_day_old() {
        let (mut ctx, store, requests) = (context(), SledStore::temporary(), bounded(1));
        let once = requests.begin(&ctx, &store, named("k", [1; 32])).await.unwrap();
        do_it(&ctx, &store, &once).await;
        drop(once);
        let stored_for_s = daftar_domain::idempotency::REMEMBERED_FOR.as_secs();
        for (later_s, is_refused) in [(0, true), (stored_for_s - 60, true), (60, false)] {
            ctx.now += SignedDuration::from_secs(later_s);
            let begun = requests.begin(&ctx, &store, named("l", [1; 32])).await;
            assert_eq!(begun.is_err(), is_refused, "{later_s}");
        }
    }
}
