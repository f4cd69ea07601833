//! Takes part in the previews of other processes: in one part after the other, as long as there is something to do.
//!
//! **Invariant:** a preview is taken part in only with the engine and the vocabularies that it began with; what goes wrong here is left to the
//! process whose preview it is, which finds out for itself and tells its client.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use super::crossing::{PartTask, Task};
use super::desk::PreviewDesk;
use super::inquiry::Inquiry;
use super::parted::{count_part, defect};
use super::partition::PartedRegister;
use crate::eligibility::failure::Failure;
use crate::eligibility::load::HOUSEHOLD;
use crate::eligibility::schema::schema;
use crate::registry::Registry;
use daftar_domain::code::CodeUri;
use daftar_domain::error::AppError;
use daftar_sandbox::{EligibilityEngine, RuleRequest, RuleSession, run_rule_in_background};
use daftar_store::partition::{Claim, JobId, Moment, Partition};

/// After this time it is looked for jobs again, whether or not something was heard of it: what another process left unfinished makes no
/// noise.
const LOOKED_AGAIN: Duration = Duration::from_secs(2);
/// The most previews that are remembered as not to be taken part in; the oldest are forgotten, and tried again.
const SHUNNED_MAX: usize = 256;

/// Takes part in previews of other processes.
pub struct Sharing {
    registry: Registry,
    register: Arc<PartedRegister>,
    engine: Arc<dyn EligibilityEngine>,
    desk: Arc<PreviewDesk>,
}

/// A preview that is taken part in.
struct Joined {
    job: JobId,
    inquiry: Inquiry,
    moment: Arc<dyn Moment>,
    partition_keys: u32,
}

impl Sharing {
    /// Takes part with that engine, in turns that the desk hands out; nothing, where the register is not in partitions.
    #[must_use]
    pub fn new(registry: Registry, engine: Arc<dyn EligibilityEngine>, desk: Arc<PreviewDesk>) -> Option<Self> {
        let register = Arc::clone(registry.parted.as_ref()?);
        Some(Self { registry, register, engine, desk })
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
                tracing::debug!(reason = failure.name(), "a part of another process's preview is left to it");
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
            None => self.join(claim.job, &claim.task).await?,
        };
        let partition = Partition { kind: present.inquiry.kind, size: present.partition_keys, number: claim.number };
        let part = PartTask::take(&claim.part).map_err(defect)?;
        let outcome = count_part(&self.register, &*present.moment, &present.inquiry, partition, part).await?;
        claim.finish(outcome.put().map_err(defect)?).await.map_err(AppError::from)?;
        *joined = Some(present);
        Ok(())
    }

    async fn join(&self, job: JobId, task: &[u8]) -> Result<Joined, Failure> {
        let task = Task::take(task).map_err(defect)?;
        let generation = self.registry.vocabularies.current();
        if generation.digest().to_string() != task.vocabularies {
            return Err(Failure::App(AppError::Busy));
        }
        let kind = task.kind();
        let schema = Arc::new(schema(kind, generation.extension_fields()));
        let described =
            |session: &mut dyn RuleSession| (session.references().to_vec(), session.engine_name().to_owned());
        let ctx = task.context().map_err(defect)?;
        let rule =
            RuleRequest { actor: ctx.actor.clone(), expression: task.expression.clone(), schema: Arc::clone(&schema) };
        let described = run_rule_in_background(self.engine.as_ref(), rule, described);
        let (references, engine_name) = described.await?;
        if engine_name != task.engine {
            return Err(Failure::App(AppError::Busy));
        }
        let household = CodeUri::parse(HOUSEHOLD).ok().and_then(|uri| generation.number_of(&uri));
        let moment = self.register.partitions.moment_called(&task.moment, &ctx.actor).await.map_err(AppError::from)?;
        let inquiry = Inquiry {
            ctx,
            registry: self.registry.clone(),
            engine: Arc::clone(&self.engine),
            engine_name,
            desk: Arc::clone(&self.desk),
            generation,
            as_of: task.as_of().map_err(defect)?,
            breakdowns: task.breakdowns(),
            tells_subjects: task.tells_subjects,
            expression: task.expression,
            schema,
            references,
            kind,
            household: household.map(|number| number.0),
        };
        Ok(Joined { job, inquiry, moment, partition_keys: task.partition_keys })
    }
}
