//! Previews that servers share: what of them crosses from one server to another, and how a server takes part in those of others, in one task
//! after the other, as long as there is something to do.
//!
//! **Invariant:** what crosses begins with a version byte, since servers of two versions may work side by side while one replaces the other; what
//! another version wrote is left to its own.
//!
//! **Invariant:** a server takes part in a preview only with the engine and the vocabularies that it began with; what goes wrong here is left to the
//! server whose preview it is, which finds out for itself and reports it to its client.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use jiff::Timestamp;
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};

use super::partition::PartedRegister;
use super::population::count_partition;
use super::tally::Counted;
use super::{Inquiry, Previews, Question, Shown};
use crate::eligibility::failure::Failure;
use crate::registry::Registry;
use daftar_domain::audit::Actor;
use daftar_domain::client::ClientId;
use daftar_domain::consent::ConsentId;
use daftar_domain::consent_filter::{ConsentFilter, Purpose};
use daftar_domain::context::OpContext;
use daftar_domain::context::trail::{Trail, TrailOf};
use daftar_domain::error::AppError;
use daftar_domain::field::{FieldName, FieldSet};
use daftar_domain::grant::Grants;
use daftar_domain::organization::Organization;
use daftar_domain::scope::Scope;
use daftar_sandbox::{EligibilityEngine, Priority};
use daftar_store::partition::{Claim, JobId, Moment, Partition};

/// The version of all forms here.
const VERSION: u8 = 1;
/// After this time it is looked for jobs again, whether or not the database has notified of one: nothing notifies of what another server left
/// unfinished.
const LOOKED_AGAIN: Duration = Duration::from_secs(2);
/// The most previews that are remembered as not to be taken part in; the oldest are forgotten, and tried again.
const SHUNNED_MAX: usize = 256;

/// A preview as another server takes it up.
#[derive(Serialize, Deserialize)]
pub(super) struct Task {
    caller: Caller,
    question: Question,
    /// The snapshot at which the register is looked at.
    moment: String,
    partition_keys: u32,
    engine: String,
    /// Digest of the active vocabularies.
    vocabularies: String,
}

/// The client of a preview, as far as it decides what is seen.
#[derive(Serialize, Deserialize)]
struct Caller {
    /// The client; the administrator, where absent.
    client: Option<String>,
    /// The organization and the purpose by which consents are found; absent where none are needed.
    consent: Option<(Option<Organization>, Option<String>)>,
    scopes: Vec<String>,
    /// Scopes with their fields; all, where absent.
    grants: Vec<(String, Option<Vec<String>>)>,
    request_id: String,
    now_ms: i64,
}

/// A part of it: subjects of one partition by their place in it.
#[derive(Serialize, Deserialize)]
pub(super) struct PartTask {
    /// A bitmap in roaring's portable form.
    pub subjects: Vec<u8>,
    /// Those of the sample, ascending.
    pub sample: Vec<u32>,
}

/// What came of a part: what was counted, and what goes into the audit log.
#[derive(Serialize, Deserialize)]
pub(super) struct PartOutcome {
    pub counted: Counted,
    /// What the rule says of each subject, where that is shown.
    pub shown: Vec<Shown>,
    consents_shown: Vec<[u8; 16]>,
    consents: Vec<[u8; 16]>,
}

/// The bytes of what crosses.
pub(super) fn encode<T: Serialize>(form: &T) -> Result<Vec<u8>, AppError> {
    postcard::to_extend(form, vec![VERSION]).map_err(|error| AppError::Internal(error.into()))
}

/// What crossed; an error where another version wrote it.
pub(super) fn decode<T: DeserializeOwned>(bytes: &[u8]) -> Result<T, AppError> {
    let form = bytes.strip_prefix(&[VERSION]).and_then(|body| postcard::from_bytes(body).ok());
    form.ok_or_else(other_version)
}

fn other_version() -> AppError {
    AppError::internal("a part of a preview was written by another version")
}

impl Task {
    /// A preview at that snapshot, in partitions of so many keys.
    pub fn of(inquiry: &Inquiry, moment: &str, partition_keys: u32) -> Self {
        Self {
            caller: Caller::of(&inquiry.ctx),
            question: inquiry.question.clone(),
            moment: moment.to_owned(),
            partition_keys,
            engine: inquiry.decision.engine.clone(),
            vocabularies: inquiry.generation.digest().to_string(),
        }
    }
}

impl Caller {
    fn of(ctx: &OpContext) -> Self {
        let fields = |fields: &FieldSet| match fields {
            FieldSet::All => None,
            FieldSet::Only(names) => Some(names.iter().map(ToString::to_string).collect()),
        };
        let purpose = |filter: &ConsentFilter| filter.purpose.as_ref().map(ToString::to_string);
        Self {
            client: ctx.client().map(|client| client.as_str().to_owned()),
            consent: ctx.consent.as_ref().map(|filter| (filter.organization.clone(), purpose(filter))),
            scopes: ctx.scopes.iter().map(|scope| scope.to_string()).collect(),
            grants: ctx.grants.iter().map(|(scope, of)| (scope.to_string(), fields(of))).collect(),
            request_id: ctx.request_id.to_string(),
            now_ms: ctx.now.as_millisecond(),
        }
    }

    /// As whom a part is decided: it collects the consents that are relied on. Nothing where this version cannot read it.
    fn context(self) -> Option<OpContext> {
        let actor = match self.client {
            Some(client) => Actor::Client(ClientId::parse(&client).ok()?),
            None => Actor::Administrator,
        };
        let consent = match self.consent {
            Some((organization, purpose)) => {
                let purpose = purpose.as_deref().map(Purpose::parse).transpose().ok()?;
                Some(ConsentFilter { organization, purpose })
            }
            None => None,
        };
        let mut grants = Grants::default();
        for (granted, fields) in &self.grants {
            let granted = Scope::parse(granted).ok()?;
            let fields = match fields {
                None => FieldSet::All,
                Some(names) => {
                    let names = names.iter().map(|name| FieldName::parse(granted.resource, name));
                    FieldSet::only(names.collect::<Result<Vec<_>, _>>().ok()?)
                }
            };
            grants.insert(granted, fields);
        }
        let request_id: Arc<str> = self.request_id.into();
        let trail = Trail::new(TrailOf {
            request_id: Arc::clone(&request_id),
            operation: "part of a preview".into(),
            address: None,
            success_status: 200,
        });
        let now = Timestamp::from_millisecond(self.now_ms).ok()?;
        let scopes = self.scopes.iter().map(|scope| Scope::parse(scope)).collect::<Result<_, _>>().ok()?;
        Some(OpContext { consent, scopes, grants, ..OpContext::unbound(actor, request_id, now, trail) })
    }
}

impl PartOutcome {
    pub fn new(
        counted: Counted,
        shown: Vec<Shown>,
        consents_shown: BTreeSet<ConsentId>,
        consents: Vec<ConsentId>,
    ) -> Self {
        let consents_shown = consents_shown.into_iter().map(ConsentId::to_bytes).collect();
        Self { counted, shown, consents_shown, consents: consents.into_iter().map(ConsentId::to_bytes).collect() }
    }

    /// The consents that open the records of the subjects that are shown.
    pub fn consents_shown(&self) -> Vec<ConsentId> {
        self.consents_shown.iter().copied().map(ConsentId::from_bytes).collect()
    }

    /// Every consent that the part relied on.
    pub fn consents(&self) -> Vec<ConsentId> {
        self.consents.iter().copied().map(ConsentId::from_bytes).collect()
    }
}

/// Takes part in previews of other servers.
pub struct Sharing {
    registry: Registry,
    register: Arc<PartedRegister>,
    engine: Arc<dyn EligibilityEngine>,
    previews: Arc<Previews>,
}

/// A preview that is taken part in.
struct Joined {
    job: JobId,
    inquiry: Inquiry,
    moment: Arc<dyn Moment>,
    partition_keys: u32,
}

impl Sharing {
    /// Takes part with that engine, in time slices that are scheduled with those of the server's own previews; nothing, where the register is not
    /// in partitions that servers share.
    #[must_use]
    pub fn new(registry: Registry, engine: Arc<dyn EligibilityEngine>, previews: Arc<Previews>) -> Option<Self> {
        let register = Arc::clone(registry.parted.as_ref()?);
        Some(Self { registry, register, engine, previews })
    }

    /// Goes on for as long as the server runs.
    pub async fn keep_up(&self) {
        let mut shunned: BTreeSet<JobId> = BTreeSet::new();
        let mut joined: Option<Joined> = None;
        loop {
            let lane = self.register.lane().await;
            let claim = match self.register.claim_of_others(&shunned).await {
                Ok(Some(claim)) => claim,
                Ok(None) | Err(_) => {
                    // What fails here fails for requests too, which say so.
                    joined = None;
                    drop(lane);
                    self.register.partitions.heard(LOOKED_AGAIN).await;
                    continue;
                }
            };
            let job = claim.job;
            if let Err(failure) = self.take_part(claim, &mut joined).await {
                tracing::debug!(reason = failure.name(), "a part of another server's preview is left to it");
                joined = None;
                if shunned.len() >= SHUNNED_MAX {
                    shunned.pop_first();
                }
                shunned.insert(job);
            }
            drop(lane);
        }
    }

    async fn take_part(&self, claim: Claim, joined: &mut Option<Joined>) -> Result<(), Failure> {
        // The snapshot of another preview is given back before one is asked for.
        let present = match joined.take().filter(|present| present.job == claim.job) {
            Some(present) => present,
            None => self.join(claim.job, decode(&claim.task)?).await?,
        };
        let Joined { inquiry, moment, partition_keys, .. } = &present;
        let partition = Partition { kind: inquiry.question.kind, size: *partition_keys, number: claim.number };
        let outcome = count_partition(&self.register, &**moment, inquiry, partition, decode(&claim.part)?).await?;
        claim.finish(encode(&outcome)?).await.map_err(AppError::from)?;
        *joined = Some(present);
        Ok(())
    }

    async fn join(&self, job: JobId, task: Task) -> Result<Joined, Failure> {
        let Task { caller, question, moment, partition_keys, engine, vocabularies } = task;
        let ctx = caller.context().ok_or_else(other_version)?;
        let (registry, previews) = (self.registry.clone(), Arc::clone(&self.previews));
        let compiled = Inquiry::compile(ctx, registry, &self.engine, previews, question, Priority::Background).await?;
        if compiled.decision.engine != engine || compiled.generation.digest().to_string() != vocabularies {
            return Err(Failure::App(AppError::Busy));
        }
        let moment = self.register.partitions.moment_called(&moment, &compiled.ctx.actor).await;
        Ok(Joined { job, inquiry: compiled, moment: moment.map_err(AppError::from)?, partition_keys })
    }
}
