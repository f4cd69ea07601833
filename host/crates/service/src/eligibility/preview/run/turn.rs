//! Some subjects of a preview, decided about on a thread of the sandbox.
//!
//! **Invariant:** a turn is over when its subjects are decided about, after the batch in which its time ran out, or before the batch that
//! would begin after the preview was cancelled.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use tokio::runtime::Handle;

use super::super::super::failure::{Failure, refused};
use super::super::super::questions;
use super::super::facts::{Facts, codes_with_texts};
use super::super::inquiry::Inquiry;
use super::super::tally::{RowOutcome, Tally, outcome_of};
use daftar_domain::consent::ConsentId;
use daftar_domain::error::AppError;
use daftar_sandbox::{EngineError, RuleSession, run_rule_in_background};

/// How long the calls of a turn may take before the next one begins: many times what they take for a rule of ordinary cost, so that a
/// rule that is expensive for each subject does not delay the previews of others by every subject of its turn.
const TURN_MAX: Duration = Duration::from_millis(250);

/// What a turn brought.
#[derive(Default)]
pub(super) struct Part {
    pub tally: Tally,
    pub decided: u64,
    pub sample: Vec<RowOutcome>,
    pub told: Vec<RowOutcome>,
    pub consents: BTreeSet<ConsentId>,
    /// Subjects for whom there was no room or no time.
    pub left: Vec<u32>,
}

/// Everything that a turn needs on its thread.
#[derive(Clone)]
pub(super) struct Work {
    pub inquiry: Arc<Inquiry>,
    pub facts: Arc<Facts>,
    pub sample: Arc<[u32]>,
}

impl Work {
    /// Decides about some subjects, in as many turns as they need.
    ///
    /// # Errors
    /// As a preview as a whole.
    pub async fn turn(self, mut rows: Vec<u32>) -> Result<Part, Failure> {
        let mut whole = Part::default();
        let runtime = Handle::current();
        while !rows.is_empty() {
            let turn = self.inquiry.desk.turn(&self.facts.ctx.actor).await;
            let (work, runtime) = (self.clone(), runtime.clone());
            let decide = move |session: &mut dyn RuleSession| {
                let _turn = turn;
                work.decide(&runtime, session, rows)
            };
            let part = run_rule_in_background(self.inquiry.engine.as_ref(), self.inquiry.rule(), decide).await??;
            whole.tally.merge(part.tally);
            whole.decided += part.decided;
            whole.sample.extend(part.sample);
            whole.told.extend(part.told);
            whole.consents.extend(part.consents);
            rows = part.left;
        }
        Ok(whole)
    }

    /// One turn, on a thread of the sandbox.
    fn decide(&self, runtime: &Handle, session: &mut dyn RuleSession, rows: Vec<u32>) -> Result<Part, Failure> {
        if session.engine_name() != self.inquiry.engine_name {
            return Err(Failure::App(AppError::Busy));
        }
        let mut part = Part::default();
        let mut left = rows.as_slice();
        let mut is_bound = false;
        while !left.is_empty() && (part.decided == 0 || session.usage().time < TURN_MAX) {
            if session.cancellation().is_cancelled() {
                return Err(Failure::Engine(EngineError::Abandoned));
            }
            let (batch, taken) = runtime.block_on(self.facts.batch(left))?;
            let with_texts = codes_with_texts(&self.facts.references, &batch);
            // A rule is bound once, to the texts of the codes that it meets.
            if is_bound && !with_texts.is_empty() {
                break;
            }
            if !is_bound {
                let bindings =
                    questions::bindings(&self.inquiry.generation, session.questions(), &with_texts).map_err(refused)?;
                session.bind(&bindings)?;
                is_bound = true;
            }
            let outcomes = session.evaluate(&batch)?;
            let (these, others) = left.split_at_checked(taken).unwrap_or((left, &[]));
            part.tally.add(&self.facts, self.inquiry.breakdowns, these, &outcomes);
            part.decided += these.len() as u64;
            for (at, row) in these.iter().enumerate() {
                if self.sample.binary_search(row).is_ok() {
                    part.sample.push(outcome_of(&outcomes, at, *row));
                }
                if self.inquiry.tells_subjects {
                    part.told.push(outcome_of(&outcomes, at, *row));
                    part.consents.extend(self.facts.consents(self.facts.kind, *row));
                }
            }
            left = others;
        }
        part.left = left.to_vec();
        Ok(part)
    }
}
