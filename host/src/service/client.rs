//! What the administrator does with clients.

use std::sync::Arc;

use jiff::{Timestamp, ToSpan};
use secrecy::SecretString;

use crate::auth::directory::ClientDirectory;
use crate::auth::secret::{SecretHasher, new_client_secret};
use crate::context::{IdSource, OpContext};
use crate::domain::audit::{AuditAction, AuditOutcome};
use crate::domain::client::{Client, ClientId, ClientName, ClientSecret, ClientStatus, RateLimit};
use crate::domain::scope::{Scope, ScopeSet};
use crate::error::AppError;
use crate::service::audit;
use crate::store::{Operation, Store, Write};

/// What clients are administered with.
#[derive(Clone)]
pub struct ClientAdministration {
    /// Where clients are kept.
    pub store: Arc<dyn Store>,
    /// Where requests look them up.
    pub directory: Arc<ClientDirectory>,
    /// Turns secrets into what is kept of them.
    pub hasher: Arc<SecretHasher>,
    /// Names new clients.
    pub ids: Arc<dyn IdSource>,
}

/// A client to be registered.
#[derive(Debug, Clone)]
pub struct NewClient {
    /// What people call it.
    pub name: ClientName,
    /// What it may do.
    pub grants: ScopeSet,
    /// Its own limit a minute.
    pub rate_limit_per_minute: Option<RateLimit>,
    /// Its own limit a day.
    pub rate_limit_per_day: Option<RateLimit>,
}

impl ClientAdministration {
    /// Registers a client. The secret is told here and never again.
    ///
    /// # Errors
    /// When no random bytes are had or the store fails.
    pub async fn create(&self, ctx: &OpContext, new: NewClient) -> Result<(Arc<Client>, SecretString), AppError> {
        let id = ClientId::parse(&format!("client-{}", self.ids.next_id()))
            .map_err(|error| AppError::internal(error.to_string()))?;
        let secret = new_client_secret().map_err(|error| AppError::Unavailable(error.into()))?;
        let hash = self.hasher.hash(id.as_str(), &secret);
        let client = Client {
            id,
            name: new.name,
            status: ClientStatus::Active,
            grants: new.grants,
            secrets: vec![ClientSecret { hash, created_at: ctx.now, expires_at: None }],
            not_before: None,
            rate_limit_per_minute: new.rate_limit_per_minute,
            rate_limit_per_day: new.rate_limit_per_day,
            created_at: ctx.now,
            updated_at: ctx.now,
        };
        let stored = self.write(ctx, Operation::CreateClient(client.clone()), client, "created").await?;
        Ok((stored, secret))
    }

    /// Every client, by id.
    #[must_use]
    pub fn list(&self) -> Vec<Arc<Client>> {
        self.directory.all()
    }

    /// One client.
    ///
    /// # Errors
    /// [`AppError::UnknownClient`].
    pub fn show(&self, id: &ClientId) -> Result<Arc<Client>, AppError> {
        self.directory.find(id).ok_or_else(|| AppError::UnknownClient(id.clone()))
    }

    /// Disables a client: its next call is refused, and so are the tokens it holds, for good.
    ///
    /// # Errors
    /// [`AppError::UnknownClient`], or when the store fails.
    pub async fn disable(&self, ctx: &OpContext, id: &ClientId) -> Result<Arc<Client>, AppError> {
        self.change(ctx, id, "disabled", |client| {
            client.status = ClientStatus::Disabled;
            client.not_before = Some(ctx.now);
        })
        .await
    }

    /// Lets a disabled client in again; it has to get a new token.
    ///
    /// # Errors
    /// [`AppError::UnknownClient`], or when the store fails.
    pub async fn enable(&self, ctx: &OpContext, id: &ClientId) -> Result<Arc<Client>, AppError> {
        self.change(ctx, id, "enabled", |client| client.status = ClientStatus::Active).await
    }

    /// Grants a scope.
    ///
    /// # Errors
    /// [`AppError::UnknownClient`], or when the store fails.
    pub async fn grant(&self, ctx: &OpContext, id: &ClientId, scope: Scope) -> Result<Arc<Client>, AppError> {
        let note = format!("granted {scope}");
        self.change(ctx, id, &note, |client| {
            client.grants.insert(scope);
        })
        .await
    }

    /// Revokes a scope; a scope that the client does not hold is a conflict, since something else was meant.
    ///
    /// # Errors
    /// [`AppError::UnknownClient`], [`AppError::Conflict`], or when the store fails.
    pub async fn revoke(&self, ctx: &OpContext, id: &ClientId, scope: Scope) -> Result<Arc<Client>, AppError> {
        let held = self.show(id)?.grants.clone();
        if !held.contains(scope) {
            return Err(AppError::Conflict(format!("`{id}` does not hold `{scope}` itself; it holds: {held}")));
        }
        let note = format!("revoked {scope}");
        self.change(ctx, id, &note, |client| {
            client.grants.remove(scope);
        })
        .await
    }

    async fn change(
        &self,
        ctx: &OpContext,
        id: &ClientId,
        note: &str,
        change: impl FnOnce(&mut Client),
    ) -> Result<Arc<Client>, AppError> {
        let present = self.show(id)?;
        let mut changed = Client::clone(&present);
        change(&mut changed);
        changed.updated_at = after(present.updated_at, ctx.now);
        self.write(ctx, Operation::UpdateClient(changed.clone(), present.updated_at), changed, note).await
    }

    async fn write(
        &self,
        ctx: &OpContext,
        operation: Operation,
        client: Client,
        note: &str,
    ) -> Result<Arc<Client>, AppError> {
        let mut entry = audit::entry(ctx, AuditAction::Administer, AuditOutcome::Allowed, vec![client.id.to_string()]);
        entry.note = Some(format!("client {note}"));
        let write = Write { at: ctx.now, source: None, operations: vec![operation], audit: vec![entry] };
        let committed = self.store.commit(write).await?;
        let stored = committed.written.into_iter().find_map(|written| match written {
            crate::store::Written::Client(client) => Some(client),
            crate::store::Written::Individual(_) | crate::store::Written::Group(_) => None,
        });
        let stored = stored
            .ok_or_else(|| AppError::internal("the store answered the change of a client with something else"))?;
        self.directory.put(stored.clone());
        Ok(stored)
    }
}

/// Now, or the next millisecond after the last change where the clock stands still or went back: the order of changes is
/// told by this instant.
fn after(last: Timestamp, now: Timestamp) -> Timestamp {
    let earliest = last.checked_add(1.millisecond()).unwrap_or(last);
    now.max(earliest)
}
