//! What the administrator does with the keys that sign tokens and seal decisions.
//!
//! **Invariant:** that a key is replaced is in the audit log before it is; a rotation that has begun runs to its end, whoever stops waiting
//! for it.

use std::sync::Arc;

use jiff::Timestamp;
use tokio::sync::Mutex as AsyncMutex;

use crate::audit::{self, AuditLog};
use crate::client::spawn_uncancellable;
use daftar_auth::key_ring::SigningKeyRing;
use daftar_auth::keys::{KeyError, KeyMaterial};
use daftar_auth::{RotationError, SigningKeyRings};
use daftar_domain::audit::{AuditAction, AuditOutcome};
use daftar_domain::context::{Clock, OpContext};
use daftar_domain::error::AppError;
use daftar_domain::error_code::ErrorCode;
use daftar_store::shared::{Shared, Turn};

/// What the audit log calls the keys that sign.
const TARGET: &str = "signing-keys";

/// What a key signs.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum KeyUse {
    /// Tokens.
    #[default]
    Tokens,
    /// Decisions.
    Decisions,
}

impl KeyUse {
    /// The name in the administrator's API and on the command line.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Tokens => "tokens",
            Self::Decisions => "decisions",
        }
    }
}

/// A key that signs, or what it signed is accepted. Never the key itself.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SigningKey {
    /// Its name, such as the `kid` of the tokens that it signs.
    pub id: String,
    /// What it signs.
    pub usage: KeyUse,
    /// True if it is the one that signs.
    pub is_current: bool,
    /// When it was made.
    pub created_at: Timestamp,
    /// Until when what it signed is accepted; absent for the one that signs, and for those of decisions.
    pub accepted_until: Option<Timestamp>,
}

/// What signing keys are administered with.
#[derive(Clone)]
pub struct SigningKeyAdministration {
    rings: SigningKeyRings,
    log: AuditLog,
    /// Reports from when on a key is replaced.
    clock: Arc<dyn Clock>,
    /// Held while keys are changed.
    changing: Arc<AsyncMutex<()>>,
    /// Whose turn it is among processes that have one folder of keys.
    shared: Option<Arc<dyn Shared>>,
}

impl SigningKeyAdministration {
    /// The administration of those keys.
    #[must_use]
    pub fn new(rings: SigningKeyRings, log: AuditLog, clock: Arc<dyn Clock>) -> Self {
        Self { rings, log, clock, changing: Arc::default(), shared: None }
    }

    /// The same beside other processes with the same folder of keys: one of them changes keys at a time, and begins with what the others
    /// left.
    #[must_use]
    pub fn among(self, shared: Option<Arc<dyn Shared>>) -> Self {
        Self { shared, ..self }
    }

    async fn turn(&self) -> Result<Option<Turn>, AppError> {
        let Some(shared) = &self.shared else { return Ok(None) };
        let turn = shared.turn().await?;
        let rings = self.rings.clone();
        blocking(move || rings.reload()).await?.map_err(unusable)?;
        Ok(Some(turn))
    }

    /// The keys that are accepted, by use, the one that signs first.
    #[must_use]
    pub fn list(&self) -> Vec<SigningKey> {
        [self.list_of(KeyUse::Tokens), self.list_of(KeyUse::Decisions)].concat()
    }

    /// The keys of one use that are accepted, the one that signs first.
    #[must_use]
    pub fn list_of(&self, usage: KeyUse) -> Vec<SigningKey> {
        let now = self.clock.now();
        match usage {
            KeyUse::Tokens => accepted(&self.rings.tokens, usage, now),
            KeyUse::Decisions => accepted(&self.rings.decisions, usage, now),
        }
    }

    /// Lets a new key sign from now on; returns the keys of that use. Tokens of the one that signed are accepted for so many seconds more:
    /// as long as they are good, where nothing is said. Decisions of the one that sealed stay authentic.
    ///
    /// # Errors
    /// [`AppError::Invalid`] for fewer seconds than tokens are good, and for any with decisions; [`AppError::Conflict`] where no other
    /// key can be kept or somebody changed the file of keys; when it cannot be audited or written.
    pub async fn rotate(
        &self,
        ctx: &OpContext,
        usage: KeyUse,
        overlap_s: Option<u32>,
    ) -> Result<Vec<SigningKey>, AppError> {
        let (this, ctx) = (self.clone(), ctx.clone());
        let rotating = async move {
            let _changing = this.changing.lock().await;
            let _turn = this.turn().await?;
            ctx.trail.about([TARGET.to_owned()]);
            let now = this.clock.now();
            this.drop_alone(&ctx, now).await?;
            match usage {
                KeyUse::Tokens => this.rotate_ring(&ctx, &this.rings.tokens, (usage, overlap_s), now).await?,
                KeyUse::Decisions => this.rotate_ring(&ctx, &this.rings.decisions, (usage, overlap_s), now).await?,
            }
            Ok(this.list_of(usage))
        };
        spawn_uncancellable(rotating).await
    }

    async fn rotate_ring<M: KeyMaterial>(
        &self,
        ctx: &OpContext,
        ring: &Arc<SigningKeyRing<M>>,
        (usage, overlap_s): (KeyUse, Option<u32>),
        now: Timestamp,
    ) -> Result<(), AppError> {
        let rotation = ring.prepare(overlap_s.map(u64::from), now).map_err(refused)?;
        let (new, replaced) = (rotation.new_id().to_owned(), rotation.replaced_id().to_owned());
        let note = match rotation.accepted_until() {
            Some(until) => {
                format!("signing key {new} signs from now on; tokens of {replaced} are accepted until {until}")
            }
            None => format!("signing key {new} seals decisions from now on; decisions of {replaced} stay authentic"),
        };
        self.tell(ctx, note).await?;
        let ring = Arc::clone(ring);
        blocking(move || ring.carry_out(rotation, now)).await?.map_err(unusable)?;
        tracing::info!(key.id = %new, key.replaced = %replaced, key.r#use = usage.name(), "a new key signs");
        Ok(())
    }

    /// Drops keys whose last token has expired. To be called each minute.
    ///
    /// # Errors
    /// If the file of keys cannot be read or written, or it cannot be audited. Their tokens are refused all the same.
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
        self.rings.tokens.load().all().any(|key| key.accepted_until().is_some_and(|until| until <= now))
    }

    async fn drop_alone(&self, ctx: &OpContext, now: Timestamp) -> Result<(), AppError> {
        if !self.is_one_over(now) {
            return Ok(());
        }
        let ring = Arc::clone(&self.rings.tokens);
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

/// The keys of a ring whose signatures are accepted.
fn accepted<M: KeyMaterial>(ring: &SigningKeyRing<M>, usage: KeyUse, now: Timestamp) -> Vec<SigningKey> {
    let keys = ring.load();
    let accepted = keys.all().filter(|key| key.accepted_until().is_none_or(|until| now < until));
    let listed = accepted.enumerate().map(|(at, key)| SigningKey {
        id: key.id().to_owned(),
        usage,
        is_current: at == 0,
        created_at: key.created_at(),
        accepted_until: key.accepted_until(),
    });
    listed.collect()
}

fn refused(error: RotationError) -> AppError {
    match error {
        RotationError::Overlap { .. } => AppError::invalid("overlap_s", "out_of_range", error.to_string()),
        RotationError::NoOverlap => AppError::invalid("overlap_s", "contradiction", error.to_string()),
        RotationError::Full { .. } | RotationError::FullForGood { .. } => {
            AppError::conflict(ErrorCode::LimitReached, error.to_string())
        }
        RotationError::Key(error) => unusable(error),
    }
}

fn unusable(error: KeyError) -> AppError {
    match error {
        KeyError::Changed(_) => AppError::conflict(ErrorCode::Conflict, error.to_string()),
        KeyError::File(_) | KeyError::Entropy(_) | KeyError::Refused { .. } => AppError::Unavailable(error.into()),
    }
}

/// Reads and writes files away from the threads that serve requests.
async fn blocking<R: Send + 'static>(work: impl FnOnce() -> R + Send + 'static) -> Result<R, AppError> {
    tokio::task::spawn_blocking(work).await.map_err(|error| AppError::Internal(error.into()))
}
