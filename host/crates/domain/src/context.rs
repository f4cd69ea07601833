//! Context of an operation: actor, time and request.

pub mod audit_context;
#[cfg(any(test, feature = "testing"))]
mod testing;

use std::cell::Cell;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, LazyLock};
use std::time::{Duration, Instant};

use futures_util::future::BoxFuture;
use jiff::Timestamp;

use crate::audit::Actor;
use crate::client::ClientId;
use crate::consent::ConsentFilter;
use crate::field::FieldSet;
use crate::grant::Grants;
use crate::organization::Organization;
use crate::scope::{Action, Resource, Scope, ScopeSet};

use self::audit_context::AuditContext;
#[cfg(any(test, feature = "testing"))]
pub use self::testing::FakeClock;

/// A source of time, replaceable in tests.
pub trait Clock: Send + Sync + 'static {
    /// Returns the current time.
    fn now(&self) -> Timestamp;

    /// Returns the time elapsed since a fixed origin. Monotonic, independent of changes to the clock: for measuring
    /// durations.
    fn elapsed(&self) -> Duration;

    /// Waits until this much time has elapsed.
    fn sleep(&self, time: Duration) -> BoxFuture<'static, ()> {
        Box::pin(tokio::time::sleep(time))
    }
}

/// The system clock.
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

thread_local! {
    static RUNS_NO_TASKS: Cell<bool> = const { Cell::new(false) };
}

/// States that the calling thread runs no asynchronous tasks, so that a read of the store may block it.
pub fn dedicate_thread() {
    RUNS_NO_TASKS.set(true);
}

/// Returns true if the calling thread may be blocked: see [`dedicate_thread`].
#[must_use]
pub fn is_dedicated_thread() -> bool {
    RUNS_NO_TASKS.get()
}

/// Generates unpredictable names, replaceable in tests.
pub trait IdSource: Send + Sync + 'static {
    /// Returns a new unique name of 32 hexadecimal digits.
    fn next_id(&self) -> String;
}

/// Random names.
#[derive(Debug, Clone, Copy, Default)]
pub struct RandomIds;

impl IdSource for RandomIds {
    fn next_id(&self) -> String {
        // From a thread-local generator seeded by the operating system: a system call for each name would be slow.
        uuid::Builder::from_random_bytes(rand::random()).into_uuid().simple().to_string()
    }
}

/// Signals that the request was abandoned: its client disconnected, or its timeout expired.
#[derive(Debug, Clone, Default)]
pub struct Cancellation(Arc<AtomicBool>);

impl Cancellation {
    /// True if the request was abandoned.
    #[must_use]
    pub fn is_cancelled(&self) -> bool {
        self.0.load(Ordering::Relaxed)
    }

    /// Returns a guard that cancels the work when dropped; the request holds it while it waits for the work.
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

/// The context of every operation below the HTTP layer.
#[derive(Debug, Clone)]
pub struct OpContext {
    /// The actor.
    pub actor: Actor,
    /// The organization of the client.
    pub organization: Option<Organization>,
    /// Filter of the consents that grant access to the client; absent if it requires none.
    pub consent: Option<ConsentFilter>,
    /// Effective scopes: those of the token, limited to the current grants of the client.
    pub scopes: ScopeSet,
    /// Current grants of the client in the store.
    pub grants: Grants,
    /// Request ID.
    pub request_id: Arc<str>,
    /// The current time, the same for the whole operation.
    pub now: Timestamp,
    /// Collects the audit entries of the request.
    pub trail: AuditContext,
}

impl OpContext {
    /// Creates the context of an actor other than a client, not limited by scopes, grants or consents.
    #[must_use]
    pub fn unbound(actor: Actor, request_id: Arc<str>, now: Timestamp, trail: AuditContext) -> Self {
        let (scopes, grants) = (ScopeSet::default(), Grants::default());
        Self { actor, organization: None, consent: None, scopes, grants, request_id, now, trail }
    }

    /// Returns the client, unless the actor is the administrator or the server.
    #[must_use]
    pub fn client(&self) -> Option<&ClientId> {
        match &self.actor {
            Actor::Client(client) => Some(client),
            Actor::Administrator | Actor::System | Actor::Unknown => None,
        }
    }

    /// True if the actor may perform the action on any field.
    #[must_use]
    pub fn holds(&self, resource: Resource, action: Action) -> bool {
        match &self.actor {
            Actor::Client(_) => self.scopes.covers(Scope::new(resource, action)),
            Actor::Administrator | Actor::System => true,
            Actor::Unknown => false,
        }
    }

    /// Returns the fields of a resource on which the actor may perform the action: if it may not, only the fields that
    /// always remain. Only `service::visibility` decides on visibility of records and fields.
    #[must_use]
    pub fn fields(&self, resource: Resource, action: Action) -> FieldSet {
        match &self.actor {
            Actor::Client(_) if self.holds(resource, action) => self.grants.fields(Scope::new(resource, action)),
            Actor::Client(_) | Actor::Unknown => FieldSet::none(),
            Actor::Administrator | Actor::System => FieldSet::All,
        }
    }
}
