//! Requests that a client may send twice and that are done once.
//!
//! **Invariant:** what was done is remembered in the same write, so that whoever was answered finds it remembered, and whoever
//! finds nothing remembered can be sure that nothing was done.
//!
//! **Invariant:** a request that was refused is not remembered: sent again, it is looked at again.

use std::collections::{HashMap, HashSet};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use jiff::Timestamp;

use crate::context::OpContext;
use crate::domain::client::ClientId;
use crate::domain::idempotency::{
    IdempotencyKey, REMEMBERED_PER_CLIENT_MAX, RememberedAnswer, RememberedRequest, RequestName,
};
use crate::error::AppError;
use crate::store::Store;

/// The requests that are being done, and how many are remembered.
#[derive(Debug, Default)]
pub struct Requests {
    in_flight: Mutex<HashSet<(ClientId, IdempotencyKey)>>,
    /// By client, counted when one is first asked for; exact or too high.
    remembered: Mutex<HashMap<ClientId, u64>>,
}

/// A request that is being done: until it is dropped, no other of its name is.
#[derive(Debug)]
pub struct Once {
    requests: Arc<Requests>,
    client: ClientId,
    key: IdempotencyKey,
    digest: [u8; 32],
    earlier: Vec<Arc<RememberedRequest>>,
}

impl Requests {
    /// Begins a request of that name.
    ///
    /// # Errors
    /// [`AppError::Conflict`] while another one of that name is being done, and when the client has as many names as are kept;
    /// [`AppError::Invalid`] when the name was given to another request.
    pub async fn begin(
        self: &Arc<Self>,
        ctx: &OpContext,
        store: &dyn Store,
        key: IdempotencyKey,
        digest: [u8; 32],
    ) -> Result<Once, AppError> {
        let client = ctx.client().cloned();
        let client = client.ok_or_else(|| AppError::internal("somebody who is no client names a request"))?;
        if !lock(&self.in_flight).insert((client.clone(), key.clone())) {
            let detail =
                "a request with this `Idempotency-Key` is being done: send it again in a moment for its answer";
            return Err(AppError::Conflict(detail.to_owned()));
        }
        // From here on dropping it ends it.
        let mut once = Once { requests: Arc::clone(self), client, key, digest, earlier: Vec::new() };
        let earlier = store.remembered(&once.client, &once.key).await?;
        once.earlier = earlier.into_iter().filter(|request| request.is_kept_at(ctx.now)).collect();
        if once.earlier.iter().any(|request| request.digest != digest) {
            let message = "it was given to another request: take a new key for each request";
            return Err(AppError::invalid("Idempotency-Key", "reused_key", message));
        }
        if once.earlier.is_empty() {
            self.check_room(store, &once.client).await?;
        }
        Ok(once)
    }

    async fn check_room(&self, store: &dyn Store, client: &ClientId) -> Result<(), AppError> {
        let known = lock(&self.remembered).get(client).copied();
        let count = match known {
            Some(count) => count,
            None => {
                let count = store.remembered_count(client).await?;
                *lock(&self.remembered).entry(client.clone()).or_insert(count)
            }
        };
        if count < REMEMBERED_PER_CLIENT_MAX {
            return Ok(());
        }
        Err(AppError::Conflict(format!(
            "{count} requests of this client are remembered by their `Idempotency-Key`, and no more are for the time being: send requests without one, or wait until the oldest are a day old"
        )))
    }

    /// Forgets what is not kept any more.
    ///
    /// # Errors
    /// When the store fails; the next call tries again.
    pub async fn forget(&self, store: &dyn Store, now: Timestamp) -> Result<u64, AppError> {
        let forgotten = store.forget_requests(now).await?;
        if forgotten > 0 {
            lock(&self.remembered).clear();
        }
        Ok(forgotten)
    }
}

impl Once {
    /// How that part of the request was answered earlier; part 0 is the whole.
    #[must_use]
    pub fn earlier(&self, part: u16) -> Option<&RememberedRequest> {
        self.earlier.iter().find(|request| request.name.part == part).map(|request| &**request)
    }

    /// Looks again how that part was answered, after it could not be done: whoever sent it before may have left before it was
    /// answered, while it was being written.
    ///
    /// # Errors
    /// When the store fails.
    pub async fn is_done_meanwhile(&mut self, ctx: &OpContext, store: &dyn Store, part: u16) -> Result<bool, AppError> {
        let found = store.remembered(&self.client, &self.key).await?;
        let is_same = |request: &Arc<RememberedRequest>| request.is_kept_at(ctx.now) && request.digest == self.digest;
        self.earlier = found.into_iter().filter(is_same).collect();
        Ok(self.earlier(part).is_some())
    }

    /// What is to be remembered of that part.
    #[must_use]
    pub fn answered(&self, ctx: &OpContext, part: u16, answers: Vec<RememberedAnswer>) -> RememberedRequest {
        let name = RequestName { client: self.client.clone(), key: self.key.clone(), part };
        RememberedRequest { name, digest: self.digest, at: ctx.now, answers }
    }

    /// Counts a part that is remembered from now on.
    pub fn note(&self) {
        if let Some(count) = lock(&self.requests.remembered).get_mut(&self.client) {
            *count = count.saturating_add(1);
        }
    }
}

impl Drop for Once {
    fn drop(&mut self) {
        lock(&self.requests.in_flight).remove(&(self.client.clone(), self.key.clone()));
    }
}

/// A panic elsewhere leaves the sets whole: each change is one insertion or removal.
fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::context::trail::Trail;
    use crate::domain::audit::Actor;
    use crate::domain::grant::Grants;
    use crate::domain::scope::ScopeSet;
    use crate::store::Write;
    use crate::store::memory::MemoryStore;

    fn context() -> OpContext {
        OpContext {
            actor: Actor::Client(ClientId::parse("c").unwrap()),
            organization: None,
            consent: None,
            scopes: ScopeSet::default(),
            grants: Grants::default(),
            request_id: "r".into(),
            now: "2026-03-01T12:00:00Z".parse().unwrap(),
            trail: Trail::default(),
        }
    }

    fn key(text: &str) -> IdempotencyKey {
        IdempotencyKey::parse(text).unwrap()
    }

    async fn do_it(ctx: &OpContext, store: &MemoryStore, once: &Once) {
        let write = Write { at: ctx.now, source: None, operations: Vec::new(), audit: Vec::new() };
        store.commit_once(write, once.answered(ctx, 0, Vec::new())).await.unwrap();
        once.note();
    }

    #[tokio::test]
    async fn a_name_stands_for_one_request_at_a_time_and_for_one_at_all() {
        let (ctx, store, requests) = (context(), MemoryStore::new(), Arc::new(Requests::default()));
        let mut first = requests.begin(&ctx, &store, key("k"), [1; 32]).await.unwrap();
        let error = requests.begin(&ctx, &store, key("k"), [1; 32]).await.unwrap_err();
        assert!(matches!(error, AppError::Conflict(_)), "{error}");
        assert!(!first.is_done_meanwhile(&ctx, &store, 0).await.unwrap());
        do_it(&ctx, &store, &first).await;
        assert!(first.is_done_meanwhile(&ctx, &store, 0).await.unwrap());
        assert!(!first.is_done_meanwhile(&ctx, &store, 1).await.unwrap());
        drop(first);
        let again = requests.begin(&ctx, &store, key("k"), [1; 32]).await.unwrap();
        assert!(again.earlier(0).is_some());
        drop(again);
        let error = requests.begin(&ctx, &store, key("k"), [2; 32]).await.unwrap_err();
        assert!(matches!(error, AppError::Invalid(_)), "{error}");
        drop(requests.begin(&ctx, &store, key("other"), [2; 32]).await.unwrap());
    }

    #[tokio::test]
    async fn so_many_are_remembered_of_one_client_until_they_are_forgotten() {
        let (ctx, store, requests) = (context(), MemoryStore::new(), Arc::new(Requests::default()));
        for number in 0..REMEMBERED_PER_CLIENT_MAX {
            let once = requests.begin(&ctx, &store, key(&number.to_string()), [1; 32]).await.unwrap();
            do_it(&ctx, &store, &once).await;
        }
        let error = requests.begin(&ctx, &store, key("more"), [1; 32]).await.unwrap_err();
        assert!(error.to_string().starts_with("100000 requests of this client"), "{error}");
        drop(requests.begin(&ctx, &store, key("7"), [1; 32]).await.unwrap());
        let tomorrow = ctx.now + crate::domain::idempotency::REMEMBERED_FOR;
        assert_eq!(requests.forget(&store, tomorrow).await.unwrap(), REMEMBERED_PER_CLIENT_MAX);
        drop(requests.begin(&ctx, &store, key("more"), [1; 32]).await.unwrap());
    }
}
