//! Administration of the keys that sign tokens and seal decisions.
//!
//! **Invariant:** the replacement of a key is in the audit log before it happens. A rotation that has begun is
//! completed even if its caller stops waiting.

use std::sync::Arc;

use jiff::Timestamp;
use tokio::sync::Mutex as AsyncMutex;

use crate::audit::{self, AuditLog};
use crate::client::spawn_uncancellable;
use crate::vocabulary_publisher::blocking;
use daftar_auth::key_ring::SigningKeyRing;
use daftar_auth::keys::{KeyError, KeyMaterial};
use daftar_auth::{RotationError, SigningKeyRings};
use daftar_domain::audit::{AuditAction, AuditOutcome};
use daftar_domain::context::{Clock, OpContext};
use daftar_domain::error::AppError;
use daftar_domain::error_code::ErrorCode;
use daftar_store::shared::{Shared, Turn};

/// The name of signing keys in the audit log.
const TARGET: &str = "signing-keys";

/// The use of a key.
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

/// A key that signs, or whose signatures are accepted. Never the key itself.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SigningKey {
    /// Its name, such as the `kid` of the tokens that it signs.
    pub id: String,
    /// Its use.
    pub usage: KeyUse,
    /// True if it is the active signing key.
    pub is_current: bool,
    /// Time of its creation.
    pub created_at: Timestamp,
    /// End of the acceptance of its signatures; absent for the active key, and for keys of decisions.
    pub accepted_until: Option<Timestamp>,
    /// The public key as URL-safe base64 without padding; absent for keys of tokens, which are shared secrets.
    pub public_key: Option<String>,
}

/// Administers signing keys.
#[derive(Clone)]
pub struct SigningKeyAdministration {
    rings: SigningKeyRings,
    log: AuditLog,
    /// Announces the time of the replacement of a key.
    clock: Arc<dyn Clock>,
    /// Locked while keys are changed.
    changing: Arc<AsyncMutex<()>>,
    /// Lock shared by the processes with one folder of keys.
    shared: Option<Arc<dyn Shared>>,
}

impl SigningKeyAdministration {
    /// Returns the administration of those keys.
    #[must_use]
    pub fn new(rings: SigningKeyRings, log: AuditLog, clock: Arc<dyn Clock>) -> Self {
        Self { rings, log, clock, changing: Arc::default(), shared: None }
    }

    /// Returns the same with other processes that use the same key folder: one of them changes keys at a time, and
    /// starts from the changes of the others.
    #[must_use]
    pub fn with_shared(self, shared: Option<Arc<dyn Shared>>) -> Self {
        Self { shared, ..self }
    }

    async fn turn(&self) -> Result<Option<Turn>, AppError> {
        let Some(shared) = &self.shared else { return Ok(None) };
        let turn = shared.turn().await?;
        let rings = self.rings.clone();
        blocking(move || rings.reload()).await?.map_err(unusable)?;
        Ok(Some(turn))
    }

    /// The accepted keys, by use, the active one first.
    #[must_use]
    pub fn list(&self) -> Vec<SigningKey> {
        [self.list_of(KeyUse::Tokens), self.list_of(KeyUse::Decisions)].concat()
    }

    /// The accepted keys of one use, the active one first.
    #[must_use]
    pub fn list_of(&self, usage: KeyUse) -> Vec<SigningKey> {
        let now = self.clock.now();
        match usage {
            KeyUse::Tokens => accepted(&self.rings.tokens, usage, now),
            KeyUse::Decisions => accepted(&self.rings.decisions, usage, now),
        }
    }

    /// Activates a new signing key; returns the keys of that use. Tokens of the replaced key are accepted for the
    /// given number of seconds: by default, for the lifetime of tokens. Decisions of the replaced key stay authentic.
    ///
    /// # Errors
    /// [`AppError::Invalid`] for fewer seconds than the lifetime of tokens, and for any with decisions;
    /// [`AppError::Conflict`] if no other key can be stored or the file of keys was changed by hand; when it cannot be
    /// audited or written.
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
        self.record_note(ctx, note).await?;
        let ring = Arc::clone(ring);
        blocking(move || ring.carry_out(rotation, now)).await?.map_err(unusable)?;
        tracing::info!(key.id = %new, key.replaced = %replaced, key.r#use = usage.name(), "a new key signs");
        Ok(())
    }

    /// Drops keys whose last token has expired. To be called each minute.
    ///
    /// # Errors
    /// If the file of keys cannot be read or written, or the removal cannot be audited. Their tokens are rejected
    /// nevertheless.
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
            self.record_note(ctx, format!("signing key {id} dropped: its last token has expired")).await?;
        }
        Ok(())
    }

    async fn record_note(&self, ctx: &OpContext, note: String) -> Result<(), AppError> {
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
        public_key: key.public_key(),
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
