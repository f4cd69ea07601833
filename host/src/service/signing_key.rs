//! What the administrator does with the keys that sign tokens.
//!
//! **Invariant:** that a key is replaced is in the audit log before it is; a rotation that has begun runs to its end, whoever stops waiting
//! for it.

use std::sync::Arc;

use jiff::Timestamp;
use tokio::sync::Mutex as AsyncMutex;

use super::client::to_the_end;
use crate::auth::keys::KeyError;
use crate::auth::{KeyRing, RotationError};
use crate::context::{Clock, OpContext};
use crate::domain::audit::{AuditAction, AuditOutcome};
use crate::error::AppError;
use crate::service::audit::{self, AuditLog};
use crate::store::shared::{Shared, Turn};

/// What the audit log calls the keys that sign tokens.
const TARGET: &str = "signing-keys";

/// A key that signs tokens, or whose tokens are accepted. Never the key itself.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SigningKey {
    /// Its name, the `kid` of the tokens that it signs.
    pub id: String,
    /// When it was made.
    pub created_at: Timestamp,
    /// Until when its tokens are accepted; absent for the one that signs.
    pub accepted_until: Option<Timestamp>,
}

/// What signing keys are administered with.
#[derive(Clone)]
pub struct SigningKeyAdministration {
    ring: Arc<KeyRing>,
    log: AuditLog,
    /// Tells from when on a key is replaced.
    clock: Arc<dyn Clock>,
    /// Held while keys are changed.
    changing: Arc<AsyncMutex<()>>,
    /// Whose turn it is among processes that have one folder of keys.
    shared: Option<Arc<dyn Shared>>,
}

impl SigningKeyAdministration {
    /// The administration of those keys.
    #[must_use]
    pub fn new(ring: Arc<KeyRing>, log: AuditLog, clock: Arc<dyn Clock>) -> Self {
        Self { ring, log, clock, changing: Arc::default(), shared: None }
    }

    /// The same beside other processes with the same folder of keys: one of them changes keys at a time, and begins with what the others
    /// left.
    #[must_use]
    pub fn among(self, shared: Option<Arc<dyn Shared>>) -> Self {
        Self { shared, ..self }
    }

    async fn turn(&self) -> Result<Option<Box<dyn Turn>>, AppError> {
        let Some(shared) = &self.shared else { return Ok(None) };
        let turn = shared.turn().await?;
        let ring = Arc::clone(&self.ring);
        blocking(move || ring.take_up()).await?.map_err(unusable)?;
        Ok(Some(turn))
    }

    /// The keys that are accepted, the one that signs first.
    #[must_use]
    pub fn list(&self) -> Vec<SigningKey> {
        let now = self.clock.now();
        let keys = self.ring.load();
        let accepted = keys.all().filter(|key| key.accepted_until().is_none_or(|until| now < until));
        let told = accepted.map(|key| SigningKey {
            id: key.id().to_owned(),
            created_at: key.created_at(),
            accepted_until: key.accepted_until(),
        });
        told.collect()
    }

    /// Lets a new key sign from now on. Tokens of the one that signed are accepted for so many seconds more: as long as they are good,
    /// where nothing is said.
    ///
    /// # Errors
    /// [`AppError::Invalid`] for fewer seconds than tokens are good; [`AppError::Conflict`] where there is no room for another key or
    /// somebody changed the file of keys; when it cannot be audited or written.
    pub async fn rotate(&self, ctx: &OpContext, overlap_s: Option<u32>) -> Result<Vec<SigningKey>, AppError> {
        let (this, ctx) = (self.clone(), ctx.clone());
        to_the_end(async move { this.rotate_alone(&ctx, overlap_s).await }).await
    }

    async fn rotate_alone(&self, ctx: &OpContext, overlap_s: Option<u32>) -> Result<Vec<SigningKey>, AppError> {
        let _changing = self.changing.lock().await;
        let _turn = self.turn().await?;
        ctx.trail.about([TARGET.to_owned()]);
        let now = self.clock.now();
        self.drop_alone(ctx, now).await?;
        let rotation = self.ring.prepare(overlap_s.map(u64::from), now).map_err(refused)?;
        let note = format!(
            "signing key {} signs from now on; tokens of {} are accepted until {}",
            rotation.new_id(),
            rotation.replaced_id(),
            rotation.accepted_until()
        );
        let (new, replaced) = (rotation.new_id().to_owned(), rotation.replaced_id().to_owned());
        self.tell(ctx, note).await?;
        let ring = Arc::clone(&self.ring);
        blocking(move || ring.carry_out(rotation, now)).await?.map_err(unusable)?;
        tracing::info!(key.id = %new, key.replaced = %replaced, "a new key signs tokens");
        Ok(self.list())
    }

    /// Drops keys whose last token has expired. To be called each minute.
    ///
    /// # Errors
    /// When the file of keys cannot be read or written, or it cannot be audited. Their tokens are refused all the same.
    pub async fn drop_expired(&self, ctx: &OpContext) -> Result<(), AppError> {
        let _changing = self.changing.lock().await;
        let now = self.clock.now();
        if !self.is_one_over(now) {
            return Ok(());
        }
        let _turn = self.turn().await?;
        self.drop_alone(ctx, now).await
    }

    fn is_one_over(&self, now: Timestamp) -> bool {
        self.ring.load().all().any(|key| key.accepted_until().is_some_and(|until| until <= now))
    }

    async fn drop_alone(&self, ctx: &OpContext, now: Timestamp) -> Result<(), AppError> {
        if !self.is_one_over(now) {
            return Ok(());
        }
        let ring = Arc::clone(&self.ring);
        let dropped = blocking(move || ring.drop_expired(now)).await?.map_err(unusable)?;
        for id in dropped {
            tracing::info!(key.id = %id, "a signing key was dropped: its last token has expired");
            self.tell(ctx, format!("signing key {id} dropped: its last token has expired")).await?;
        }
        Ok(())
    }

    async fn tell(&self, ctx: &OpContext, note: String) -> Result<(), AppError> {
        let entry = audit::entry(ctx, AuditAction::Administer, AuditOutcome::Allowed, vec![TARGET.to_owned()]);
        self.log.record_now(vec![entry.with_note(note)]).await
    }
}

fn refused(error: RotationError) -> AppError {
    match error {
        RotationError::Overlap { .. } => AppError::invalid("overlap_s", "out_of_range", error.to_string()),
        RotationError::Full { .. } => AppError::Conflict(error.to_string()),
        RotationError::Key(error) => unusable(error),
    }
}

fn unusable(error: KeyError) -> AppError {
    match error {
        KeyError::Changed(_) => AppError::Conflict(error.to_string()),
        KeyError::File(_) | KeyError::Entropy(_) | KeyError::Refused { .. } => AppError::Unavailable(error.into()),
    }
}

/// Reads and writes files away from the threads that serve requests.
async fn blocking<R: Send + 'static>(work: impl FnOnce() -> R + Send + 'static) -> Result<R, AppError> {
    tokio::task::spawn_blocking(work).await.map_err(|error| AppError::Internal(error.into()))
}
