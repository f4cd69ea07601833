//! Administrative operations on clients.
//!
//! **Invariant:** a change that has begun runs to completion, even if its caller stops waiting: the store and the
//! directory never diverge.

use std::sync::Arc;

use jiff::{SignedDuration, Timestamp, ToSpan};
use secrecy::SecretString;
use tokio::sync::Mutex as AsyncMutex;
use tracing::Instrument as _;

use crate::{audit, records};
use daftar_auth::directory::ClientDirectory;
use daftar_auth::secret::{SecretHasher, new_client_secret};
use daftar_domain::audit::{AuditAction, AuditOutcome};
use daftar_domain::client::{Client, ClientId, ClientName, ClientSecret, ClientStatus, RateLimit, SecretHash};
use daftar_domain::consent::Purpose;
use daftar_domain::context::{Clock, IdSource, OpContext};
use daftar_domain::error::{AppError, FieldProblem};
use daftar_domain::error_code::ErrorCode;
use daftar_domain::field::{FieldName, FieldSet};
use daftar_domain::grant::Grants;
use daftar_domain::organization::{LegalBasis, Organization};
use daftar_domain::scope::Scope;
use daftar_store::{Operation, Store, StoreError, Written};

/// Maximum attempts for a change that conflicts with changes by other processes.
const ATTEMPTS_MAX: usize = 8;

/// Dependencies of client administration.
#[derive(Clone)]
pub struct ClientAdministration {
    /// Store of clients.
    pub store: Arc<dyn Store>,
    /// Client directory that authenticates requests.
    pub directory: Arc<ClientDirectory>,
    /// Hashes secrets for storage.
    pub hasher: Arc<SecretHasher>,
    /// Generates ids of new clients.
    pub ids: Arc<dyn IdSource>,
    /// Clock for the time from which tokens and secrets are rejected. The timestamp of the request is too early: the
    /// client may still get tokens while the request body arrives and while the change waits for the lock.
    pub clock: Arc<dyn Clock>,
    /// Locked while a client is changed. Changes run one at a time, so that no change starts from a state that another
    /// change is replacing.
    pub changing: Arc<AsyncMutex<()>>,
}

/// Changes of a client. Absent members stay unchanged; `Some(None)` removes a setting.
#[derive(Debug, Clone, Default)]
pub struct ClientChanges {
    /// Its display name.
    pub name: Option<ClientName>,
    /// Its owner.
    pub organization: Option<Option<Organization>>,
    /// Legal basis on which it checks personal data.
    pub legal_basis: Option<Option<LegalBasis>>,
    /// Purpose, if its legal basis is `consent`.
    pub purpose: Option<Option<Purpose>>,
    /// Its own limit per minute.
    pub rate_limit_per_minute: Option<Option<RateLimit>>,
    /// Its own limit per day.
    pub rate_limit_per_day: Option<Option<RateLimit>>,
}

impl ClientChanges {
    /// Lists the names of the changed settings, never their values.
    fn names(&self) -> String {
        let named = [
            ("name", self.name.is_some()),
            ("organization", self.organization.is_some()),
            ("legal_basis", self.legal_basis.is_some()),
            ("purpose", self.purpose.is_some()),
            ("rate_limit_per_minute", self.rate_limit_per_minute.is_some()),
            ("rate_limit_per_day", self.rate_limit_per_day.is_some()),
        ];
        let names: Vec<&str> = named.iter().filter(|(_, is_named)| *is_named).map(|(name, _)| *name).collect();
        if names.is_empty() { "nothing".to_owned() } else { names.join(", ") }
    }

    fn apply(self, client: &mut Client) {
        client.name = self.name.unwrap_or_else(|| client.name.clone());
        client.organization = self.organization.unwrap_or_else(|| client.organization.clone());
        client.legal_basis = self.legal_basis.unwrap_or(client.legal_basis);
        client.purpose = self.purpose.unwrap_or_else(|| client.purpose.clone());
        client.rate_limit_per_minute = self.rate_limit_per_minute.unwrap_or(client.rate_limit_per_minute);
        client.rate_limit_per_day = self.rate_limit_per_day.unwrap_or(client.rate_limit_per_day);
    }
}

impl ClientAdministration {
    /// Registers a client. Returns the secret, which is never returned again.
    ///
    /// # Errors
    /// [`AppError::Invalid`] if legal basis, organization and purpose are inconsistent; if no random bytes are
    /// available or the store fails.
    pub async fn create(
        &self,
        ctx: &OpContext,
        (name, grants): (ClientName, Grants),
        settings: ClientChanges,
    ) -> Result<(Arc<Client>, SecretString), AppError> {
        let (this, ctx) = (self.clone(), ctx.clone());
        let create = async move {
            let _changing = this.changing.lock().await;
            let id = ClientId::parse(&format!("client-{}", this.ids.next_id()))
                .map_err(|error| AppError::internal(error.to_string()))?;
            let secret = new_client_secret().map_err(|error| AppError::Unavailable(error.into()))?;
            let hash = this.hasher.hash(id.as_str(), &secret);
            let mut client = Client {
                id,
                name,
                organization: None,
                legal_basis: None,
                purpose: None,
                status: ClientStatus::Active,
                grants,
                secrets: vec![ClientSecret { hash, created_at: ctx.now, expires_at: None }],
                not_before: None,
                rate_limit_per_minute: None,
                rate_limit_per_day: None,
                created_at: ctx.now,
                updated_at: ctx.now,
            };
            settings.apply(&mut client);
            check_consent(&client)?;
            let stored = this.write(&ctx, Operation::CreateClient(client.clone()), client, "created").await?;
            Ok((stored, secret))
        };
        spawn_uncancellable(create).await
    }

    /// Returns every client that is not deleted, by id.
    #[must_use]
    pub fn list(&self) -> Vec<Arc<Client>> {
        let mut clients = self.directory.all();
        clients.retain(|client| client.status != ClientStatus::Deleted);
        clients
    }

    /// Returns one client.
    ///
    /// # Errors
    /// [`AppError::UnknownClient`] if it does not exist or was deleted.
    pub fn show(&self, id: &ClientId) -> Result<Arc<Client>, AppError> {
        let found = self.directory.find(id).filter(|client| client.status != ClientStatus::Deleted);
        found.ok_or_else(|| AppError::UnknownClient(id.clone()))
    }

    /// Deletes a client: its name, organization, scopes, limits and secrets are removed, its tokens are rejected. The
    /// id stays reserved, so that an entry of the audit log never refers to another client.
    ///
    /// # Errors
    /// [`AppError::UnknownClient`], or when the store fails.
    pub async fn delete(&self, ctx: &OpContext, id: &ClientId) -> Result<(), AppError> {
        let name = ClientName::parse("deleted").map_err(|error| AppError::internal(error.to_string()))?;
        let delete = move |client: &mut Client, now| {
            client.status = ClientStatus::Deleted;
            client.grants = Grants::default();
            client.secrets.clear();
            refuse_tokens_until(client, now);
            let settings = ClientChanges {
                name: Some(name),
                organization: Some(None),
                legal_basis: Some(None),
                purpose: Some(None),
                rate_limit_per_minute: Some(None),
                rate_limit_per_day: Some(None),
            };
            settings.apply(client);
            Ok(())
        };
        self.change(ctx, id, "deleted".to_owned(), (Tokens::Ended, delete)).await.map(drop)
    }

    /// Disables a client: its next call is rejected. Its current tokens are rejected permanently.
    ///
    /// # Errors
    /// [`AppError::UnknownClient`], or when the store fails.
    pub async fn disable(&self, ctx: &OpContext, id: &ClientId) -> Result<Arc<Client>, AppError> {
        let disable = |client: &mut Client, now| {
            client.status = ClientStatus::Disabled;
            refuse_tokens_until(client, now);
            Ok(())
        };
        self.change(ctx, id, "disabled".to_owned(), (Tokens::Ended, disable)).await
    }

    /// Enables a disabled client; it must request a new token.
    ///
    /// # Errors
    /// [`AppError::UnknownClient`], or when the store fails.
    pub async fn enable(&self, ctx: &OpContext, id: &ClientId) -> Result<Arc<Client>, AppError> {
        let enable = |client: &mut Client, now| {
            if client.status == ClientStatus::Disabled {
                // Another process may have issued a token before it was notified that the client is disabled.
                refuse_tokens_until(client, now);
            }
            client.status = ClientStatus::Active;
            Ok(())
        };
        self.change(ctx, id, "enabled".to_owned(), (Tokens::Valid, enable)).await
    }

    /// Changes settings of a client, effective from its next call.
    ///
    /// # Errors
    /// As [`Self::create`], and [`AppError::UnknownClient`].
    pub async fn set(&self, ctx: &OpContext, id: &ClientId, changes: ClientChanges) -> Result<Arc<Client>, AppError> {
        let note = format!("set {}", changes.names());
        let set = move |client: &mut Client, _| {
            changes.apply(client);
            check_consent(client)
        };
        self.change(ctx, id, note, (Tokens::Valid, set)).await
    }

    /// Grants a scope on some fields. If the scope is granted already, these fields replace its current fields.
    ///
    /// # Errors
    /// [`AppError::UnknownClient`], or when the store fails.
    pub async fn grant(
        &self,
        ctx: &OpContext,
        id: &ClientId,
        scope: Scope,
        fields: FieldSet,
    ) -> Result<Arc<Client>, AppError> {
        let note = match &fields {
            FieldSet::All => format!("granted {scope}"),
            FieldSet::Only(names) => {
                let names: Vec<&str> = names.iter().map(FieldName::as_str).collect();
                format!(
                    "granted {scope} on {}",
                    if names.is_empty() { "no field".to_owned() } else { names.join(", ") }
                )
            }
        };
        let grant = move |client: &mut Client, _| {
            client.grants.insert(scope, fields);
            Ok(())
        };
        self.change(ctx, id, note, (Tokens::Valid, grant)).await
    }

    /// Revokes a scope. A scope that the client does not have is a conflict, since the caller probably meant another
    /// one.
    ///
    /// # Errors
    /// [`AppError::UnknownClient`], [`AppError::Conflict`], or when the store fails.
    pub async fn revoke(&self, ctx: &OpContext, id: &ClientId, scope: Scope) -> Result<Arc<Client>, AppError> {
        let revoke = move |client: &mut Client, _| {
            let (id, held) = (&client.id, client.grants.scopes());
            if !held.contains(scope) {
                let detail = format!("`{id}` does not hold `{scope}` itself; it holds: {held}");
                return Err(AppError::Conflict(ErrorCode::Conflict, detail));
            }
            client.grants.remove(scope);
            Ok(())
        };
        self.change(ctx, id, format!("revoked {scope}"), (Tokens::Valid, revoke)).await
    }

    /// Makes one change, which receives the time from which it is effective.
    async fn change(
        &self,
        ctx: &OpContext,
        id: &ClientId,
        note: String,
        (tokens, change): (
            Tokens,
            impl FnOnce(&mut Client, Timestamp) -> Result<(), AppError> + Clone + Send + 'static,
        ),
    ) -> Result<Arc<Client>, AppError> {
        let (this, ctx, id) = (self.clone(), ctx.clone(), id.clone());
        let changing = async move {
            let _changing = this.changing.lock().await;
            for _ in 0..ATTEMPTS_MAX {
                match this.change_once(&ctx, &id, &note, (tokens, change.clone())).await? {
                    Ok(stored) => return Ok(stored),
                    // Another process changed the client: retry from its new state.
                    Err(StoreError::ClientChanged(_)) => this.directory.synchronize(this.store.clients().await?),
                    Err(error) => return Err(error.into()),
                }
            }
            Err(StoreError::ClientChanged(id).into())
        };
        spawn_uncancellable(changing).await
    }

    /// Changes the client from its state in the directory. Returns the result of the store, or the error that rejected
    /// the change.
    async fn change_once(
        &self,
        ctx: &OpContext,
        id: &ClientId,
        note: &str,
        (tokens, change): (Tokens, impl FnOnce(&mut Client, Timestamp) -> Result<(), AppError> + Send),
    ) -> Result<Result<Arc<Client>, StoreError>, AppError> {
        let present = self.show(id)?;
        if tokens == Tokens::Ended {
            // No token is issued from here on, so that no token is newer than the time up to which tokens are
            // rejected.
            self.directory.put(Arc::new(without_secrets(&present)));
        }
        let now = self.clock.now();
        let mut changed = Client::clone(&present);
        let outcome = match change(&mut changed, now) {
            Ok(()) => {
                changed.updated_at = after(present.updated_at, now);
                Ok(self.write(ctx, Operation::UpdateClient(changed.clone(), present.updated_at), changed, note).await)
            }
            Err(refused) => Err(refused),
        };
        if !matches!(outcome, Ok(Ok(_))) && tokens == Tokens::Ended {
            self.directory.put(present);
        }
        outcome
    }

    async fn write(
        &self,
        ctx: &OpContext,
        operation: Operation,
        client: Client,
        note: &str,
    ) -> Result<Arc<Client>, StoreError> {
        let entry = audit::entry(ctx, AuditAction::Administer, AuditOutcome::Allowed, vec![client.id.to_string()]);
        let write = records::write(ctx, vec![operation], entry.with_note(format!("client {note}")));
        let committed = self.store.commit(write).await?;
        let client = |written| if let Written::Client(client) = written { Some(client) } else { None };
        let stored = committed.written.into_iter().find_map(client);
        let stored = stored.ok_or_else(|| StoreError::Corrupt {
            what: "client",
            reason: "the store answered the change of a client with something else".to_owned(),
        })?;
        self.directory.put(stored.clone());
        Ok(stored)
    }
}

/// Effect of a change on the tokens of a client.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Tokens {
    /// They stay valid.
    Valid,
    /// They are rejected from then on.
    Ended,
}

/// Rejects the tokens issued until then. The limit never decreases, even if the clock goes back.
fn refuse_tokens_until(client: &mut Client, now: Timestamp) {
    client.not_before = client.not_before.max(Some(now));
}

/// The same client, in a state in which no token is issued to it.
fn without_secrets(client: &Client) -> Client {
    let mut client = client.clone();
    for secret in &mut client.secrets {
        secret.expires_at = Some(Timestamp::MIN);
    }
    client
}

/// Checks that a client with the legal basis `consent` has an organization, and that only such a client has a purpose.
fn check_consent(client: &Client) -> Result<(), AppError> {
    let is_by_consent = client.legal_basis == Some(LegalBasis::Consent);
    let mut problems = Vec::new();
    let mut add = |field: &str, code, message: &str| {
        problems.push(FieldProblem::new(field, code, message));
    };
    if is_by_consent && client.organization.is_none() {
        let message =
            "a client whose legal basis is `consent` sees what is consented to its organization: name the organization";
        add("organization", "required", message);
    }
    if !is_by_consent && client.purpose.is_some() {
        let message = "a purpose chooses among consents: it goes with the legal basis `consent` alone";
        add("purpose", "contradiction", message);
    }
    AppError::check(&mut problems)
}

/// Runs an administrative change in a separate task and waits for it. A request is dropped if its client disconnects;
/// its change continues.
pub(super) async fn spawn_uncancellable<T: Send + 'static>(
    change: impl Future<Output = Result<T, AppError>> + Send + 'static,
) -> Result<T, AppError> {
    tokio::spawn(change.in_current_span()).await.map_err(AppError::of_task)?
}

/// The current time, or the next millisecond after the last change if the clock fails or went back: this timestamp
/// determines the order of changes.
fn after(last: Timestamp, now: Timestamp) -> Timestamp {
    let earliest = last.checked_add(1.millisecond()).unwrap_or(last);
    now.max(earliest)
}

/// Maximum number of secrets of a client, which equals the number that an authentication compares for any client.
pub const SECRETS_MAX: usize = 4;
/// Maximum time that an old secret stays valid beside a new one, in seconds: one month.
pub const OVERLAP_S_MAX: u32 = 30 * 86_400;

/// A client with its new secret.
pub struct RotatedSecret {
    /// The client.
    pub client: Arc<Client>,
    /// Its new secret, returned here and never again.
    pub secret: SecretString,
    /// Expiry of its older secrets; absent if it has none.
    pub older_expire_at: Option<Timestamp>,
}

impl ClientAdministration {
    /// Adds a new secret to a client. The older secrets stay valid for the given number of seconds; with 0, they and
    /// the current tokens of the client are rejected immediately.
    ///
    /// # Errors
    /// [`AppError::UnknownClient`]; [`AppError::Conflict`] if it has the maximum number of valid secrets; if no random
    /// bytes are available or the store fails. Where several servers share the register, the older secrets may be
    /// rejected after a failure of the store: another rotation gives the client a secret.
    pub async fn rotate_secret(
        &self,
        ctx: &OpContext,
        id: &ClientId,
        overlap_s: u32,
    ) -> Result<RotatedSecret, AppError> {
        self.show(id)?;
        let secret = new_client_secret().map_err(|error| AppError::Unavailable(error.into()))?;
        let hash = self.hasher.hash(id.as_str(), &secret);
        let added = hash.clone();
        let rotate = move |client: &mut Client, now: Timestamp| {
            let until = now.saturating_add(SignedDuration::from_secs(i64::from(overlap_s))).unwrap_or(now);
            client.secrets.retain(|old| old.expires_at.is_none_or(|expires_at| now < expires_at));
            if overlap_s == 0 {
                client.secrets.clear();
                refuse_tokens_until(client, now);
            }
            if client.secrets.len() >= SECRETS_MAX {
                return Err(AppError::Conflict(ErrorCode::LimitReached, too_many(client)));
            }
            for old in &mut client.secrets {
                old.expires_at = Some(old.expires_at.map_or(until, |expires_at| expires_at.min(until)));
            }
            client.secrets.push(ClientSecret { hash, created_at: now, expires_at: None });
            Ok(())
        };
        let note = match overlap_s {
            0 => "got another secret; the older ones and its tokens are refused from now on".to_owned(),
            seconds => format!("got another secret; the older ones are good for {seconds} s more"),
        };
        let tokens = if overlap_s == 0 { Tokens::Ended } else { Tokens::Valid };
        let (this, ctx, id) = (self.clone(), ctx.clone(), id.clone());
        let rotating = async move {
            let client = this.change(&ctx, &id, note, (tokens, rotate)).await?;
            if tokens == Tokens::Ended && this.directory.is_shared() {
                return this.end_tokens_of_other_servers(&ctx, &id, added).await;
            }
            Ok(client)
        };
        let client = spawn_uncancellable(rotating).await?;
        let older_expire_at = client.secrets.iter().filter_map(|old| old.expires_at).max();
        Ok(RotatedSecret { client, secret, older_expire_at })
    }

    /// Rejects the tokens that other servers issued for the replaced secrets before the rotation was committed: they
    /// may be newer than the time up to which the rotation rejects tokens. The client has no token of its new secret,
    /// which the caller receives afterwards.
    ///
    /// # Errors
    /// If the store fails, or another server replaced the new secret since: the tokens of its successor stay valid.
    async fn end_tokens_of_other_servers(
        &self,
        ctx: &OpContext,
        id: &ClientId,
        added: SecretHash,
    ) -> Result<Arc<Client>, AppError> {
        let end = move |client: &mut Client, now| {
            if !client.secrets.iter().any(|secret| secret.hash == added) {
                return Err(StoreError::ClientChanged(client.id.clone()).into());
            }
            refuse_tokens_until(client, now);
            Ok(())
        };
        let note = "lost the tokens that other servers issued during the rotation".to_owned();
        self.change(ctx, id, note, (Tokens::Valid, end)).await
    }
}

fn too_many(client: &Client) -> String {
    let next = client.secrets.iter().filter_map(|old| old.expires_at).min();
    let next = next.map(|at| format!("wait until {at}, when the first of them ends, or ")).unwrap_or_default();
    format!(
        "`{}` has {} secrets that are good: {next}rotate without an overlap, which ends them all",
        client.id,
        client.secrets.len()
    )
}

#[cfg(test)]
mod tests;
