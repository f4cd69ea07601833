//! Requests that a client may send twice and that are done once.
//!
//! **Invariant:** what was done is remembered in the same write, so that whoever was answered finds it remembered, and whoever
//! finds nothing remembered can be sure that nothing was done.
//!
//! **Invariant:** a request that was refused is not remembered: sent again, it is looked at again.

use std::collections::{HashMap, HashSet};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use jiff::Timestamp;

use super::registry::Registry;
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
        registry: &Registry,
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
        let earlier = registry.store.remembered(&once.client, &once.key).await?;
        once.earlier = earlier.into_iter().filter(|request| request.is_kept_at(ctx.now)).collect();
        if once.earlier.iter().any(|request| request.digest != digest) {
            let message = "it was given to another request: take a new key for each request";
            return Err(AppError::invalid("Idempotency-Key", "reused_key", message));
        }
        if once.earlier.is_empty() {
            self.check_room(registry, &once.client).await?;
        }
        Ok(once)
    }

    async fn check_room(&self, registry: &Registry, client: &ClientId) -> Result<(), AppError> {
        let known = lock(&self.remembered).get(client).copied();
        let count = match known {
            Some(count) => count,
            None => {
                let count = registry.store.remembered_count(client).await?;
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
