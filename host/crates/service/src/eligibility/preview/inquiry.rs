//! What is asked of each subject of a preview, wherever it is decided about.

use std::sync::Arc;

use jiff::civil::Date;

use super::desk::PreviewDesk;
use super::facts::Facts;
use super::tally::Breakdowns;
use crate::registry::Registry;
use daftar_domain::context::OpContext;
use daftar_domain::eligibility::{Reference, Schema, Subject};
use daftar_index::{RowLimits, Snapshot};
use daftar_sandbox::{EligibilityEngine, RuleRequest};
use daftar_vocabulary::Generation;

/// A rule with all that it needs but subjects.
#[derive(Clone)]
pub(super) struct Inquiry {
    pub ctx: OpContext,
    pub registry: Registry,
    pub engine: Arc<dyn EligibilityEngine>,
    /// The engine that the preview began with.
    pub engine_name: String,
    pub desk: Arc<PreviewDesk>,
    pub generation: Arc<Generation>,
    pub expression: String,
    pub schema: Arc<Schema>,
    pub references: Vec<Reference>,
    pub kind: Subject,
    pub as_of: Date,
    /// The number of the code of groups that are households; absent where no such code was ever stored.
    pub household: Option<u32>,
    pub breakdowns: Breakdowns,
    /// Whether it is told of each subject what the rule says.
    pub tells_subjects: bool,
}

impl Inquiry {
    /// The rule, for the client whose preview it is.
    pub fn rule(&self) -> RuleRequest {
        RuleRequest {
            actor: self.ctx.actor.clone(),
            expression: self.expression.clone(),
            schema: Arc::clone(&self.schema),
        }
    }

    /// What the rule reads of one register at one moment. `people` and `groups` are those that exist for the client; all, where absent.
    pub fn facts(
        &self,
        snapshot: Arc<Snapshot>,
        people: Option<Arc<RowLimits>>,
        groups: Option<Arc<RowLimits>>,
    ) -> Facts {
        Facts {
            ctx: self.ctx.clone(),
            registry: self.registry.clone(),
            snapshot,
            people,
            groups,
            schema: Arc::clone(&self.schema),
            references: self.references.clone(),
            kind: self.kind,
            as_of: self.as_of,
            household: self.household,
            keeping: None,
        }
    }
}
