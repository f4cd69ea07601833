//! Shared state of the handlers.
//!
//! The package `daftar` creates it. Handlers depend on the surrounding program by [`Program`] alone.

use std::ops::Deref;
use std::path::PathBuf;
use std::sync::{Arc, Weak};
use std::time::Duration;

use async_trait::async_trait;
use jiff::Timestamp;
use tokio::sync::Semaphore;

use crate::api::endpoint::RouteTable;
use crate::api::extract::body_memory::BodyMemory;
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
use daftar_sandbox::{EligibilityEngine, EngineError};
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

/// Dependencies of the handlers.
pub struct StateParts {
    /// The settings.
    pub config: Config,
    /// The folder of the register.
    pub data_dir: PathBuf,
    /// The URL of the server for clients.
    pub public_url: String,
    /// The endpoints of the public API, by method and path, and the routes of `$batch`.
    pub routes: RouteTable,
    /// The description of the API.
    pub description: ServedDescription,
    /// Current time.
    pub clock: Arc<dyn Clock>,
    /// Generates ids of requests, clients and tokens.
    pub ids: Arc<dyn IdSource>,
    /// Records, indexes, vocabularies, audit log.
    pub registry: Registry,
    /// Decides eligibility.
    pub engine: Arc<dyn EligibilityEngine>,
    /// Verifies the audit log.
    pub audit: AuditLog,
    /// Verifies the register.
    pub verifier: Verifier,
    /// Creates backups.
    pub backups: Backups,
    /// Clients.
    pub clients: ClientAdministration,
    /// Plugins.
    pub plugins: PluginAdministration,
    /// Publishes vocabularies, and changes the deployment's settings for codes.
    pub vocabulary_publisher: VocabularyPublisher,
    /// Stored responses by idempotency key.
    pub requests: Arc<Requests>,
    /// Schedules imports fairly between clients.
    pub imports: Arc<ImportScheduler>,
    /// Limit of concurrent exports: each holds a page in memory until its client reads it.
    pub exports: Arc<Semaphore>,
    /// Admits previews, schedules them and caches the records that they read.
    pub previews: Arc<Previews>,
    /// Buffers of response lines that clients have not read yet.
    pub spools: Arc<Spools>,
    /// The four rate limits.
    pub limits: Arc<Limits>,
    /// Counters of the listeners, and the limit of concurrent requests.
    pub transport: Arc<Transport>,
    /// Memory of the bodies of requests.
    pub body_memory: BodyMemory,
    /// Memory of finished responses that clients have not read yet.
    pub response_memory: Arc<ResponseMemory>,
    /// Keys that sign tokens.
    pub token_keys: Arc<KeyRing>,
    /// Keys that seal decisions.
    pub decision_keys: Arc<DecisionKeyRing>,
    /// Rotates the keys that sign tokens.
    pub signing_keys: SigningKeyAdministration,
    /// Cache of verified tokens.
    pub token_cache: Arc<TokenCache>,
    /// Detects brute-force attempts on client secrets.
    pub failed_sign_ins: FailedSignIns,
    /// Seals the cursors of searches.
    pub cursors: CursorSeal,
    /// Token of the admin API.
    pub admin_token: AdminToken,
    /// Change feed of other processes of the register; `None` without any.
    pub follower: Option<Arc<Follower>>,
    /// The surrounding program.
    pub program: Arc<dyn Program>,
}

/// A handle to the [`StateParts`] of a server, with the view of the register of one request.
#[derive(Clone)]
pub struct AppState {
    parts: Arc<StateParts>,
    /// The register of the request: the server's own, or the view of a transaction with its pending writes.
    pub registry: Arc<Registry>,
}

impl AppState {
    /// The state of a server.
    #[must_use]
    pub fn new(parts: StateParts) -> Self {
        Self { registry: Arc::new(parts.registry.clone()), parts: Arc::new(parts) }
    }

    /// Returns the same server with another view of the register.
    #[must_use]
    pub fn with_registry(&self, registry: Arc<Registry>) -> Self {
        Self { parts: Arc::clone(&self.parts), registry }
    }

    /// Returns a weak handle.
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

/// Interface of the program around the handlers.
#[async_trait]
pub trait Program: Send + Sync {
    /// Counts a request. `route` is the matched pattern, never the path.
    fn count_request(&self, method: &str, route: Option<&str>, status: u16, time: Duration);

    /// True if spans of requests are sent to a collector.
    fn is_traced(&self) -> bool;

    /// Counts a request that failed because a service that the store depends on is unavailable.
    fn note_outage(&self);

    /// Returns the current metrics page.
    fn metrics_page(&self, state: &StateParts) -> String;

    /// Checks the set-up and the health of this server.
    ///
    /// # Errors
    /// If the audit log cannot be read.
    async fn checkup(&self, state: &StateParts) -> Result<Vec<Check>, AppError>;
}

impl StateParts {
    /// Returns the token issuer.
    #[must_use]
    pub fn token_issuer(&self) -> TokenIssuer<'_> {
        TokenIssuer {
            directory: &self.clients.directory,
            hasher: &self.clients.hasher,
            keys: &self.token_keys,
            config: &self.config.token,
            ids: &*self.ids,
        }
    }

    /// Identifies the caller from all `Authorization` headers of a request.
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

    /// Context of operations that the server does by itself.
    #[must_use]
    pub fn system_context(&self) -> OpContext {
        OpContext::unbound(Actor::System, self.ids.next_id().into(), self.clock.now(), AuditContext::default())
    }

    /// Returns one phrase for each degraded part of a server that is ready. A failing or missing plugin never makes the
    /// server unready: a restart would not help, and calls that do not need the plugin work.
    ///
    /// # Errors
    /// One phrase that names the missing part.
    pub fn readiness(&self) -> Result<Vec<String>, String> {
        if self.registry.store.readiness().is_err() {
            return Err(match self.config.store.backend {
                StoreBackend::Sled => "the store has stopped after a failure; its log says why".to_owned(),
                StoreBackend::Postgres => "the database does not respond; see the server's log".to_owned(),
            });
        }
        if self.registry.shared_index.as_ref().is_some_and(|index| !index.was_built()) {
            return Err("the register is being read into memory".to_owned());
        }
        let mut degraded = Vec::new();
        match self.engine.engine_name() {
            Ok(_) => {}
            Err(EngineError::Compiling(engine)) => degraded.push(format!(
                "the eligibility engine `{engine}` is being compiled, so calls that evaluate an expression are 503"
            )),
            Err(_) => degraded
                .push("no eligibility engine is active, so calls that evaluate an expression are 503".to_owned()),
        }
        let compiling = self.plugins.compiling();
        let inactive = self.plugins.unloaded();
        let inactive = inactive.iter().filter(|plugin| !compiling.contains(&plugin.name)).count();
        if inactive > 0 {
            degraded.push(format!("installed plugins that are not active: {inactive}"));
        }
        Ok(degraded)
    }

    /// Refreshes clients and settings from the store where the change feed is down and another process may have changed
    /// them.
    ///
    /// # Errors
    /// If the store does not respond.
    pub async fn be_current(&self) -> Result<(), AppError> {
        match &self.follower {
            Some(follower) => follower.be_current().await,
            None => Ok(()),
        }
    }

    /// True if clients and settings are current as far as this process knows; [`Self::be_current`] refreshes them.
    #[must_use]
    pub fn is_current(&self) -> bool {
        self.follower.as_ref().is_none_or(|follower| follower.is_current())
    }

    /// As [`Self::be_current`], also with a working change feed: before changing the set-up.
    ///
    /// # Errors
    /// If the store does not respond.
    pub async fn be_current_for_sure(&self) -> Result<(), AppError> {
        match &self.follower {
            Some(follower) => follower.compare().await,
            None => Ok(()),
        }
    }

    /// Refreshes clients from the store, before issuing a token.
    ///
    /// # Errors
    /// If the store does not respond.
    pub async fn refresh_clients(&self) -> Result<(), AppError> {
        match &self.follower {
            Some(follower) => follower.compare_clients().await,
            None => Ok(()),
        }
    }

    /// Searches the store for an unknown key of a token, or for a changed client. Returns true if the token should be
    /// authenticated again.
    ///
    /// # Errors
    /// If the store does not respond, and the known clients may be out of date.
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

    /// Offset of this server's clock from the database's; absent without a database or before the first measurement.
    #[must_use]
    pub fn clock_difference(&self) -> Option<ClockDifference> {
        self.follower.as_ref()?.clock_difference()
    }

    /// Searches the store for an unknown signing key; true if one may have been found.
    pub async fn look_for_signing_key(&self) -> bool {
        let Some(follower) = &self.follower else { return false };
        follower.look_for_key().await;
        true
    }
}
