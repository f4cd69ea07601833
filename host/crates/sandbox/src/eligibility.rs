//! How the rest of the host evaluates rules: by traits over domain types, with the sandbox out of sight.
//!
//! **Invariant:** a budget that an expression exhausts is its own [`EngineError::Exhausted`], charged to whoever sent the
//! expression; it is never a fault of the engine, or one client could switch eligibility off for all.

use std::sync::Arc;

use super::breaker::SetAside;
use super::fault::PluginFault;
use super::stats::Usage;
use daftar_domain::audit::Actor;
use daftar_domain::context::Cancellation;
use daftar_domain::eligibility::{Batch, Bindings, Diagnostic, Outcomes, PlacedQuestion, Reference, Schema, Severity};
use daftar_domain::explanation::{Explanation, RuleSummary};
use daftar_domain::manifest::PluginName;

/// A compiled rule in its sandbox, for one request.
pub trait RuleSession {
    /// The fields that it reads, all of them fields of the schema.
    fn references(&self) -> &[Reference];

    /// What it asks about codes.
    fn questions(&self) -> &[PlacedQuestion];

    /// What is doubtful about it; it runs all the same.
    fn warnings(&self) -> &[Diagnostic];

    /// The type of its value and what it costs.
    fn summary(&self) -> &RuleSummary;

    /// Answers its questions. Once, before the first `evaluate`, also when it asks nothing.
    ///
    /// # Errors
    /// A budget was exhausted, or a fault ended the session.
    fn bind(&mut self, bindings: &Bindings) -> Result<(), EngineError>;

    /// Evaluates a batch: one outcome for each row, in order.
    ///
    /// # Errors
    /// A budget was exhausted, or a fault ended the session.
    fn evaluate(&mut self, batch: &Batch) -> Result<Outcomes, EngineError>;

    /// How the outcome of one row of a batch comes about. The first part is the whole expression, and its value is the outcome that
    /// [`RuleSession::evaluate`] gives.
    ///
    /// # Errors
    /// A budget was exhausted, or a fault ended the session.
    fn explain(&mut self, batch: &Batch, row: u32) -> Result<Explanation, EngineError>;

    /// The engine that compiled it, as the decision block names it: another may be active by now.
    fn engine_name(&self) -> &str;

    /// What the session has used so far.
    fn usage(&self) -> Usage;

    /// Whether the request was given up: then every further call is [`EngineError::Abandoned`], and what is done between calls is to end.
    fn cancellation(&self) -> &Cancellation;
}

/// A rule that is to be run, and for whom.
#[derive(Debug, Clone)]
pub struct RuleRequest {
    /// Its thread is scheduled fairly among those that ask.
    pub actor: Actor,
    /// The rule.
    pub expression: String,
    /// What it may read.
    pub schema: Arc<Schema>,
}

/// Why a rule gave no outcomes.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum EngineError {
    /// The expression is wrong; at least one of these is an error.
    #[error("{}", first_error(.0))]
    Diagnostics(Vec<Diagnostic>),
    /// The expression needs more than one request may use.
    #[error("the expression exhausts the budget `{budget}` of {allowed}")]
    Exhausted {
        /// `fuel`, `memory`, `stack`, `output` or `host_calls`.
        budget: &'static str,
        /// How large the budget is: fuel, or bytes.
        allowed: u64,
    },
    /// The expression needs more room than the engine allows itself.
    #[error("the expression exhausts the engine's own budget `{budget}` of {allowed}")]
    EngineBudget {
        /// The engine's name for it.
        budget: String,
        /// How large it is.
        allowed: u64,
    },
    /// The engine did not answer as it should.
    #[error(transparent)]
    Fault(#[from] PluginFault),
    /// The engine fails by itself and is left alone for a while.
    #[error("plugin `{plugin}` keeps failing and is set aside, retry in {retry_after_s} s")]
    SetAside {
        /// Its name.
        plugin: PluginName,
        /// Seconds until it is worth asking again.
        retry_after_s: u64,
    },
    /// Too much is waiting already.
    #[error("too many rules are being evaluated, retry later")]
    Busy,
    /// No engine is active.
    #[error("no eligibility engine is active: install one, or name one of several as `engine` in `[plugins]`")]
    NoEngine,
    /// The work was dropped before it was done: the server is stopping, or the task panicked.
    #[error("the evaluation was given up before it was done")]
    Abandoned,
}

impl EngineError {
    /// That plugin is set aside.
    pub(super) fn set_aside(plugin: &PluginName, SetAside { retry_after_s }: SetAside) -> Self {
        Self::SetAside { plugin: plugin.clone(), retry_after_s }
    }
}

/// What is done with a rule, on a plugin thread.
pub type RuleTask = Box<dyn FnOnce(Result<&mut dyn RuleSession, EngineError>) + Send>;

/// Compiles and evaluates rules.
pub trait EligibilityEngine: Send + Sync {
    /// Runs `task` on a plugin thread with the compiled rule in its sandbox, or with the reason why there is none. One budget of fuel and one
    /// of time are for everything that the task does with the rule, its compilation included. The task is dropped without having run when
    /// the request is cancelled before.
    ///
    /// # Errors
    /// [`EngineError::Busy`], [`EngineError::SetAside`] or [`EngineError::NoEngine`]; the task is then dropped without having run.
    fn submit(&self, request: RuleRequest, cancellation: Cancellation, task: RuleTask) -> Result<(), EngineError>;

    /// The same at low priority: it waits while requests do, and never takes the last thread from them. Each call has budgets of its own,
    /// since the number of batches has no bound.
    ///
    /// # Errors
    /// As [`EligibilityEngine::submit`].
    fn submit_background(
        &self,
        request: RuleRequest,
        cancellation: Cancellation,
        task: RuleTask,
    ) -> Result<(), EngineError>;

    /// How many rules can be evaluated in the background at once.
    fn background_threads(&self) -> usize;

    /// The active engine as the decision block names it: `name@version sha256:…`.
    fn engine_name(&self) -> Option<String>;
}

/// Runs `task` on a plugin thread with the compiled rule, and waits for its value. When this is dropped, a task that has not begun never
/// does, and one that has ends at its next call of the rule.
///
/// # Errors
/// There is no rule: see [`EngineError`]. What goes wrong inside `task` is for its value to say.
pub async fn run_rule<R: Send + 'static>(
    engine: &dyn EligibilityEngine,
    request: RuleRequest,
    task: impl FnOnce(&mut dyn RuleSession) -> R + Send + 'static,
) -> Result<R, EngineError> {
    answered(task, |cancellation, task| engine.submit(request, cancellation, task)).await
}

/// The same as background work.
///
/// # Errors
/// As [`run_rule`].
pub async fn run_rule_in_background<R: Send + 'static>(
    engine: &dyn EligibilityEngine,
    request: RuleRequest,
    task: impl FnOnce(&mut dyn RuleSession) -> R + Send + 'static,
) -> Result<R, EngineError> {
    answered(task, |cancellation, task| engine.submit_background(request, cancellation, task)).await
}

/// Submits a task and waits for its value.
async fn answered<R: Send + 'static>(
    task: impl FnOnce(&mut dyn RuleSession) -> R + Send + 'static,
    submit: impl FnOnce(Cancellation, RuleTask) -> Result<(), EngineError>,
) -> Result<R, EngineError> {
    let (sender, receiver) = tokio::sync::oneshot::channel();
    let cancellation = Cancellation::default();
    let _cancelled_when_this_is_dropped = cancellation.guard();
    let answer = move |session: Result<&mut dyn RuleSession, EngineError>| drop(sender.send(session.map(task)));
    submit(cancellation, Box::new(answer))?;
    receiver.await.map_err(|_| EngineError::Abandoned)?
}

fn first_error(diagnostics: &[Diagnostic]) -> String {
    let first = diagnostics.iter().find(|diagnostic| diagnostic.severity == Severity::Error);
    first.map_or_else(
        || "the expression is not valid".to_owned(),
        |error| format!("{} (line {}, column {})", error.message, error.line, error.column),
    )
}
