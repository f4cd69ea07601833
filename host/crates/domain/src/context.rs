//! As whom, when and in which request something is done.

pub mod audit_context;
#[cfg(any(test, feature = "testing"))]
mod testing;

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, LazyLock};
use std::time::{Duration, Instant};

use futures_util::future::BoxFuture;
use jiff::Timestamp;

use crate::audit::Actor;
use crate::client::ClientId;
use crate::consent_filter::ConsentFilter;
use crate::field::FieldSet;
use crate::grant::Grants;
use crate::organization::Organization;
use crate::scope::{Action, Resource, Scope, ScopeSet};

use self::audit_context::AuditContext;
#[cfg(any(test, feature = "testing"))]
pub use self::testing::FakeClock;

/// Tells the time. Tests set it.
pub trait Clock: Send + Sync + 'static {
    /// Now.
    fn now(&self) -> Timestamp;

    /// How much time has passed since an instant that is the same for every call. Never goes back, whatever is set: by this it is
    /// told how long something takes.
    fn elapsed(&self) -> Duration;

    /// Waits until so much more time has passed.
    fn sleep(&self, time: Duration) -> BoxFuture<'static, ()> {
        Box::pin(tokio::time::sleep(time))
    }
}

/// The machine's clock.
#[derive(Debug, Clone, Copy, Default)]
pub struct SystemClock;

impl Clock for SystemClock {
    fn now(&self) -> Timestamp {
        #[expect(clippy::disallowed_methods, reason = "this is the one place that reads the machine's clock")]
        Timestamp::now()
    }

    fn elapsed(&self) -> Duration {
        static BEGUN: LazyLock<Instant> = LazyLock::new(Instant::now);
        BEGUN.elapsed()
    }
}

/// Makes names that nobody can guess. Tests fix them.
pub trait IdSource: Send + Sync + 'static {
    /// A new unique name of 32 hexadecimal digits.
    fn next_id(&self) -> String;
}

/// Random names.
#[derive(Debug, Clone, Copy, Default)]
pub struct RandomIds;

impl IdSource for RandomIds {
    fn next_id(&self) -> String {
        // From a generator of this thread, which the operating system seeds: a call of it for each name would cost more than the name.
        uuid::Builder::from_random_bytes(rand::random()).into_uuid().simple().to_string()
    }
}

/// Whether the request that work is done for was given up: its client left, or its time is over.
#[derive(Debug, Clone, Default)]
pub struct Cancellation(Arc<AtomicBool>);

impl Cancellation {
    /// Whether it was.
    #[must_use]
    pub fn is_cancelled(&self) -> bool {
        self.0.load(Ordering::Relaxed)
    }

    /// Cancels the work when the guard is dropped, which is to live as long as the request waits for it.
    #[must_use]
    pub fn guard(&self) -> CancelOnDrop {
        CancelOnDrop(self.clone())
    }
}

/// See [`Cancellation::guard`].
#[derive(Debug)]
pub struct CancelOnDrop(Cancellation);

impl Drop for CancelOnDrop {
    fn drop(&mut self) {
        self.0.0.store(true, Ordering::Relaxed);
    }
}

/// What every operation below the edge is given: nothing acts without saying as whom.
#[derive(Debug, Clone)]
pub struct OpContext {
    /// As whom.
    pub actor: Actor,
    /// The organization that the acting client belongs to.
    pub organization: Option<Organization>,
    /// Which consents open the register to the acting client; absent where it needs none.
    pub consent: Option<ConsentFilter>,
    /// What the actor may do: the token's scopes within the client's present grants.
    pub scopes: ScopeSet,
    /// What the acting client was granted, as it is in the store now.
    pub grants: Grants,
    /// In which request.
    pub request_id: Arc<str>,
    /// The one instant that the whole operation takes for now.
    pub now: Timestamp,
    /// What the request leaves in the audit log.
    pub trail: AuditContext,
}

impl OpContext {
    /// The context of somebody who is no client, and whom neither scopes nor grants nor consents bind.
    #[must_use]
    pub fn unbound(actor: Actor, request_id: Arc<str>, now: Timestamp, trail: AuditContext) -> Self {
        let (scopes, grants) = (ScopeSet::default(), Grants::default());
        Self { actor, organization: None, consent: None, scopes, grants, request_id, now, trail }
    }

    /// The client that acts, unless it is the administrator or the server itself.
    #[must_use]
    pub fn client(&self) -> Option<&ClientId> {
        match &self.actor {
            Actor::Client(client) => Some(client),
            Actor::Administrator | Actor::System | Actor::Unknown => None,
        }
    }

    /// Whether the actor may do that, on whichever fields.
    #[must_use]
    pub fn holds(&self, resource: Resource, action: Action) -> bool {
        match &self.actor {
            Actor::Client(_) => self.scopes.covers(Scope::new(resource, action)),
            Actor::Administrator | Actor::System => true,
            Actor::Unknown => false,
        }
    }

    /// The fields of a resource's records that the actor may do that with: none but what always stays where it may not do it at
    /// all. Who may see which record, and what of it, only `service::visibility` says.
    #[must_use]
    pub fn fields(&self, resource: Resource, action: Action) -> FieldSet {
        match &self.actor {
            Actor::Client(_) if self.holds(resource, action) => self.grants.fields(Scope::new(resource, action)),
            Actor::Client(_) | Actor::Unknown => FieldSet::none(),
            Actor::Administrator | Actor::System => FieldSet::All,
        }
    }
}
