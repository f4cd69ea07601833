//! The state that handlers share.
//!
//! The package `daftar` fills it; handlers know of the program around it by [`Program`] alone.

use std::ops::Deref;
use std::path::PathBuf;
use std::sync::{Arc, Weak};
use std::time::Duration;

use async_trait::async_trait;
use jiff::Timestamp;
use tokio::sync::Semaphore;

use crate::api::endpoint::RouteTable;
use crate::api::lines::Spools;
use crate::api::openapi::document::ServedDescription;
use crate::transport::Transport;
use daftar_auth::admin_token::AdminToken;
use daftar_auth::cursor_seal::CursorSeal;
use daftar_auth::issue::TokenIssuer;
use daftar_auth::limits::Limits;
use daftar_auth::limits::response_memory::ResponseMemory;
use daftar_auth::{
    AuthFault, Authenticated, Authenticator, DecisionKeyRing, FailedSignIns, KeyRing, TokenCache, authenticate,
};
use daftar_domain::audit::Actor;
use daftar_domain::checkup::Check;
use daftar_domain::config::{Config, StoreBackend};
use daftar_domain::context::audit_context::AuditContext;
use daftar_domain::context::{Clock, IdSource, OpContext};
use daftar_domain::error::AppError;
use daftar_sandbox::EligibilityEngine;
use daftar_service::audit::AuditLog;
use daftar_service::backup::Backups;
use daftar_service::bulk::ImportScheduler;
use daftar_service::client::ClientAdministration;
use daftar_service::eligibility::preview::Previews;
use daftar_service::follow::{ClockDifference, Follower};
use daftar_service::idempotency::Requests;
use daftar_service::plugin::PluginAdministration;
use daftar_service::registry::Registry;
use daftar_service::signing_key::SigningKeyAdministration;
use daftar_service::verify::Verifier;
use daftar_service::vocabulary_publisher::VocabularyPublisher;

/// Everything that handlers work with.
pub struct StateParts {
    /// The settings.
    pub config: Config,
    /// The folder of the register.
    pub data_dir: PathBuf,
    /// The URL by which clients know the server.
    pub public_url: String,
    /// The endpoints of the public API, by method and path, and the routes of `$batch`.
    pub routes: RouteTable,
    /// What the server says of itself.
    pub description: ServedDescription,
    /// Tells the time.
    pub clock: Arc<dyn Clock>,
    /// Names requests, clients and tokens.
    pub ids: Arc<dyn IdSource>,
    /// Records, indexes, vocabularies, audit log.
    pub registry: Registry,
    /// Decides eligibility.
    pub engine: Arc<dyn EligibilityEngine>,
    /// Looks through the audit log.
    pub audit: AuditLog,
    /// Looks through the register for damage.
    pub verifier: Verifier,
    /// Makes backups.
    pub backups: Backups,
    /// Clients.
    pub clients: ClientAdministration,
    /// Plugins.
    pub plugins: PluginAdministration,
    /// Publishes vocabularies, and changes what the deployment decided about codes.
    pub vocabulary_publisher: VocabularyPublisher,
    /// Requests that clients named, so that they are done once.
    pub requests: Arc<Requests>,
    /// Whose turn it is to bring many records.
    pub imports: Arc<ImportScheduler>,
    /// How many exports may be sent at once: each holds a page in memory for as long as its reader takes nothing.
    pub exports: Arc<Semaphore>,
    /// Admits previews, schedules them and caches what they read of records.
    pub previews: Arc<Previews>,
    /// Where lines of responses wait for their readers.
    pub spools: Arc<Spools>,
    /// The four buckets.
    pub limits: Arc<Limits>,
    /// What the listeners count, and how many requests they let in.
    pub transport: Arc<Transport>,
    /// The memory of finished responses that wait for their clients.
    pub response_memory: Arc<ResponseMemory>,
    /// What signs tokens.
    pub token_keys: Arc<KeyRing>,
    /// What seals decisions.
    pub decision_keys: Arc<DecisionKeyRing>,
    /// Rotates what signs tokens.
    pub signing_keys: SigningKeyAdministration,
    /// Tokens that were verified before.
    pub token_cache: Arc<TokenCache>,
    /// Who guesses at secrets.
    pub failed_sign_ins: FailedSignIns,
    /// What seals the cursors of searches.
    pub cursors: CursorSeal,
    /// What opens the admin API.
    pub admin_token: AdminToken,
    /// Follows other processes of the register; nothing where there are none.
    pub follower: Option<Arc<Follower>>,
    /// The program around it.
    pub program: Arc<dyn Program>,
}

/// A handle to the one [`StateParts`] of a server, with the register as one request meets it.
#[derive(Clone)]
pub struct AppState {
    parts: Arc<StateParts>,
    /// The register that requests work on: the server's own, or in a transaction one that shows the operations done in it.
    pub registry: Arc<Registry>,
}

impl AppState {
    /// The state of a server.
    #[must_use]
    pub fn new(parts: StateParts) -> Self {
        Self { registry: Arc::new(parts.registry.clone()), parts: Arc::new(parts) }
    }

    /// The same server with another view of the register.
    #[must_use]
    pub fn with_registry(&self, registry: Arc<Registry>) -> Self {
        Self { parts: Arc::clone(&self.parts), registry }
    }

    /// A handle that keeps nothing of the server.
    #[must_use]
    pub fn downgrade(&self) -> Weak<StateParts> {
        Arc::downgrade(&self.parts)
    }
}

impl Deref for AppState {
    type Target = StateParts;

    fn deref(&self) -> &StateParts {
        &self.parts
    }
}

/// The program that handlers run in, as far as they tell it something or show something of it.
#[async_trait]
pub trait Program: Send + Sync {
    /// Counts a request. `route` is the pattern that matched, never the path.
    fn count_request(&self, method: &str, route: Option<&str>, status: u16, time: Duration);

    /// Whether spans of requests are sent to a collector.
    fn is_traced(&self) -> bool;

    /// Notes that a request failed by an outage of a service that the store depends on.
    fn note_outage(&self);

    /// The metrics page as it is now.
    fn metrics_page(&self, state: &StateParts) -> String;

    /// Checks the set-up and the health of this server.
    ///
    /// # Errors
    /// When the audit log cannot be read.
    async fn checkup(&self, state: &StateParts) -> Result<Vec<Check>, AppError>;
}

impl StateParts {
    /// What issues tokens.
    #[must_use]
    pub fn token_desk(&self) -> TokenIssuer<'_> {
        TokenIssuer {
            directory: &self.clients.directory,
            hasher: &self.clients.hasher,
            keys: Arc::clone(&self.token_keys.load()),
            config: &self.config.token,
            ids: &*self.ids,
        }
    }

    /// Finds out who calls, from the values of all `Authorization` headers of a request.
    ///
    /// # Errors
    /// As [`authenticate()`].
    pub fn authenticate<'a>(
        &self,
        authorization: impl IntoIterator<Item = &'a [u8]>,
        now: Timestamp,
    ) -> Result<Authenticated, AuthFault> {
        let keys = self.token_keys.load();
        let (directory, config) = (&self.clients.directory, &self.config.token);
        authenticate(authorization, Authenticator { directory, keys: &keys, cache: &self.token_cache, config }, now)
    }

    /// The context of what the server does by itself.
    #[must_use]
    pub fn system_context(&self) -> OpContext {
        OpContext::unbound(Actor::System, self.ids.next_id().into(), self.clock.now(), AuditContext::default())
    }

    /// Whether requests can be served now; a phrase for each part of the service that is degraded. A plugin that fails, or is missing, never
    /// makes the server unready: restarting it would not help, and every call that does not need the plugin is served.
    ///
    /// # Errors
    /// One phrase that says what is missing.
    pub fn readiness(&self) -> Result<Vec<String>, String> {
        if self.registry.store.readiness().is_err() {
            return Err(match self.config.store.backend {
                StoreBackend::Sled => "the store has stopped after a failure; its log says why".to_owned(),
                StoreBackend::Postgres => "the database does not answer; its log says why".to_owned(),
            });
        }
        if self.registry.shared_index.as_ref().is_some_and(|index| !index.was_built()) {
            return Err("the register is being read into memory".to_owned());
        }
        let mut degraded = Vec::new();
        if self.engine.engine_name().is_none() {
            degraded.push("no eligibility engine is active, so calls that evaluate an expression are 503".to_owned());
        }
        let inactive = self.plugins.unloaded().len();
        if inactive > 0 {
            degraded.push(format!("installed plugins that are not active: {inactive}"));
        }
        Ok(degraded)
    }

    /// Makes sure that clients and settings are known as they are now, where another process may have changed them and this one does not
    /// hear of it.
    ///
    /// # Errors
    /// When the store does not answer.
    pub async fn be_current(&self) -> Result<(), AppError> {
        match &self.follower {
            Some(follower) => follower.be_current().await,
            None => Ok(()),
        }
    }

    /// Whether clients and settings are known as they are now, as far as this process knows; [`Self::be_current`] makes sure of it.
    #[must_use]
    pub fn is_current(&self) -> bool {
        self.follower.as_ref().is_none_or(|follower| follower.is_current())
    }

    /// As [`Self::be_current`], whatever is heard: before somebody gets a token or changes how the server is set up.
    ///
    /// # Errors
    /// When the store does not answer.
    pub async fn be_current_for_sure(&self) -> Result<(), AppError> {
        match &self.follower {
            Some(follower) => follower.compare().await,
            None => Ok(()),
        }
    }

    /// Looks whether another process made the key of a token that is not known here, or changed its client; whether it is worth looking at
    /// the token again.
    ///
    /// # Errors
    /// When the store does not answer, and what is known here of clients may be out of date.
    pub async fn look_again(&self, fault: &AuthFault) -> Result<bool, AppError> {
        let Some(follower) = &self.follower else { return Ok(false) };
        if fault.is_of_unknown_key() {
            follower.look_for_key().await;
            return Ok(true);
        }
        if fault.is_of_client() && !follower.is_current() {
            follower.refresh_clients().await?;
            return Ok(true);
        }
        // Another process may have created it, and the notification may be on its way.
        Ok(fault.is_of_unknown_client() && follower.refresh_clients().await.is_ok())
    }

    /// By how much the clock of this server differs from the database's; nothing where there is none, or it was not asked yet.
    #[must_use]
    pub fn clock_difference(&self) -> Option<ClockDifference> {
        self.follower.as_ref()?.clock_difference()
    }

    /// Looks whether another process made a signing key that is not known here; whether one may have been found.
    pub async fn look_for_signing_key(&self) -> bool {
        let Some(follower) = &self.follower else { return false };
        follower.look_for_key().await;
        true
    }
}
