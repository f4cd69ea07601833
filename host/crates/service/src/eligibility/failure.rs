//! Maps errors of rules to responses, and caches expressions that exhausted a budget for a short time. If a client
//! sends such an expression again, the server responds immediately and occupies no thread of the sandbox.
//!
//! **Invariant:** an engine fault that an expression causes is an error of its author: 422, never a 5xx.
//!
//! **Invariant:** an exhausted budget affects only requests of the same client with the same expression.
//!
//! **Invariant:** the number of entries is bounded per client and in total, and entries expire.

use std::collections::{HashMap, VecDeque};
use std::sync::{Mutex, PoisonError};

use jiff::{SignedDuration, Timestamp};

use super::codes::with_known_codes;
use crate::registry::Registry;
use daftar_domain::audit::Actor;
use daftar_domain::client::ClientId;
use daftar_domain::context::OpContext;
use daftar_domain::eligibility::{Diagnostic, Severity};
use daftar_domain::error::{AppError, ExpressionProblem};
use daftar_sandbox::{EngineError, FaultKind};

/// Error of an evaluation, of the server or of the engine.
pub(super) enum Failure {
    /// Error of the server.
    App(AppError),
    /// Error of the engine.
    Engine(EngineError),
    /// Error of the engine with the expression of this member of the request.
    EngineIn(&'static str, EngineError),
}

impl Failure {
    /// Names the member of the request that contains the expression.
    pub fn of_field(self, field: &'static str) -> Self {
        match self {
            Self::App(AppError::Expression(problem)) => Self::App(AppError::Expression(problem.of_field(field))),
            Self::Engine(error) => Self::EngineIn(field, error),
            Self::App(_) | Self::EngineIn(..) => self,
        }
    }
}

impl From<AppError> for Failure {
    fn from(error: AppError) -> Self {
        Self::App(error)
    }
}

impl From<EngineError> for Failure {
    fn from(error: EngineError) -> Self {
        Self::Engine(error)
    }
}

/// Runs the future that evaluates an expression, unless the same expression of the same client recently exhausted a
/// budget.
///
/// # Errors
/// [`AppError::Expression`] naming the budget, and every error of `run`.
pub(super) async fn unless_exhausted<T>(
    ctx: &OpContext,
    registry: &Registry,
    requested: RequestIdentity,
    run: impl Future<Output = Result<T, Failure>>,
) -> Result<T, AppError> {
    if let Some((message, field)) = registry.exhausted.recall(&ctx.actor, &requested, ctx.now) {
        return Err(in_field(budget_problem(message), field));
    }
    run.await.map_err(|failure| {
        let (error, field) = match failure {
            Failure::App(error) => return error,
            Failure::Engine(error) => (error, None),
            Failure::EngineIn(field, error) => (error, Some(field)),
        };
        if let Some(message) = exhaustion(&error) {
            registry.exhausted.remember(&ctx.actor, requested, (message, field), ctx.now);
        }
        let error = match error {
            EngineError::Diagnostics(diagnostics) => {
                refused(with_known_codes(&registry.vocabularies.current(), diagnostics))
            }
            other => engine_error(other),
        };
        in_field(error, field)
    })
}

fn in_field(error: AppError, field: Option<&'static str>) -> AppError {
    match (error, field) {
        (AppError::Expression(problem), Some(field)) => AppError::Expression(problem.of_field(field)),
        (error, _) => error,
    }
}

/// Returns the error of an expression with these diagnostics. Its message is that of the first error.
pub(super) fn refused(diagnostics: Vec<Diagnostic>) -> AppError {
    let first = diagnostics.iter().find(|diagnostic| diagnostic.severity == Severity::Error);
    let message = match first.or(diagnostics.first()) {
        Some(first) => format!("line {}, column {}: {}", first.line, first.column, first.message),
        None => "it was refused".to_owned(),
    };
    AppError::Expression(ExpressionProblem { message, diagnostics, field: None })
}

/// Returns a message with the budget that an expression exhausted, or `None` for another error.
fn exhaustion(error: &EngineError) -> Option<String> {
    match error {
        EngineError::Exhausted { budget, allowed } => Some(format!(
            "it exhausted its budget of {allowed} for `{budget}`; make it simpler or ask about fewer subjects"
        )),
        EngineError::EngineBudget { budget, allowed } => {
            Some(format!("it exhausted the engine's own budget of {allowed} for `{budget}`; make it simpler"))
        }
        EngineError::Diagnostics(_)
        | EngineError::Fault(_)
        | EngineError::Suspended { .. }
        | EngineError::Busy
        | EngineError::Compiling(_)
        | EngineError::NotInstalled { .. }
        | EngineError::NoEngine
        | EngineError::Abandoned => None,
    }
}

/// Returns the error of an expression that exhausted a budget.
pub(super) fn budget_problem(message: String) -> AppError {
    AppError::Expression(ExpressionProblem { message, diagnostics: Vec::new(), field: None })
}

/// Returns the error for the client if the engine fails. A fault that the expression caused is an error of its author
/// and never a 5xx.
pub(super) fn engine_error(error: EngineError) -> AppError {
    match error {
        EngineError::Diagnostics(diagnostics) => refused(diagnostics),
        EngineError::Exhausted { .. } | EngineError::EngineBudget { .. } => {
            budget_problem(exhaustion(&error).unwrap_or_default())
        }
        EngineError::Suspended { plugin, retry_after_s } => AppError::PluginSuspended { plugin, retry_after_s },
        EngineError::Busy | EngineError::Abandoned => AppError::Busy,
        EngineError::Compiling(engine) => AppError::EngineCompiling(engine),
        EngineError::NotInstalled { engine, .. } => AppError::EngineNotInstalled(engine),
        EngineError::NoEngine => AppError::NoEngine,
        EngineError::Fault(fault) => {
            let (kind, reason) = (fault.kind.name(), fault.without_quotes());
            tracing::warn!(plugin = %fault.plugin, fault = kind, reason, "the eligibility engine failed");
            match fault.kind {
                // The wall-clock limit is the last safeguard: the machine is overloaded, which proves nothing about the
                // rule.
                FaultKind::Timeout | FaultKind::Unavailable => AppError::Busy,
                FaultKind::Fuel
                | FaultKind::Memory
                | FaultKind::Table
                | FaultKind::Instances
                | FaultKind::Stack
                | FaultKind::Trap
                | FaultKind::OutputTooLarge
                | FaultKind::HostCalls
                | FaultKind::InvalidAnswer
                | FaultKind::RefusedInput => {
                    budget_problem(format!("the engine could not evaluate it ({})", fault.kind.name()))
                }
            }
        }
    }
}

/// Lifetime of an entry.
const REMEMBERED: SignedDuration = SignedDuration::from_secs(30);

/// Maximum number of entries of one client.
const OF_CLIENT_MAX: usize = 64;

/// Maximum number of entries in total.
const ALL_MAX: usize = 4_096;

/// Identity of a request: all inputs that determine its cost, and the number of subjects.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct RequestIdentity {
    /// Digest of the expression.
    pub expression_digest: String,
    /// Kind of its subjects, and name of its engine.
    pub under: String,
    /// Number of subjects.
    pub subjects: usize,
}

/// Cache of expressions that recently exhausted a budget, by client.
#[derive(Debug, Default)]
pub struct ExhaustedExpressions(Mutex<HashMap<ClientId, VecDeque<Entry>>>);

/// The message about an exhausted budget, and the member of the request with the expression if it is not `expression`.
type Exhaustion = (String, Option<&'static str>);

#[derive(Debug)]
struct Entry {
    requested: RequestIdentity,
    exhaustion: Exhaustion,
    until: Timestamp,
}

impl ExhaustedExpressions {
    /// Returns the reason for which the request would exhaust its budget again, if the same client recently sent the
    /// same expression for as many subjects or fewer.
    pub(super) fn recall(&self, actor: &Actor, requested: &RequestIdentity, now: Timestamp) -> Option<Exhaustion> {
        let Actor::Client(client) = actor else { return None };
        let clients = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let entry = clients.get(client)?.iter().rev().find(|entry| entry.forbids(requested, now))?;
        let seconds = entry.until.duration_since(now).as_millis().max(0).unsigned_abs().div_ceil(1_000);
        let (message, field) = &entry.exhaustion;
        Some((format!("{message} (this was found out a moment ago; it is tried again in {seconds} s)"), *field))
    }

    /// Stores that the request exhausted a budget.
    pub(super) fn remember(&self, actor: &Actor, requested: RequestIdentity, exhaustion: Exhaustion, now: Timestamp) {
        let Actor::Client(client) = actor else { return };
        let Ok(until) = now.checked_add(REMEMBERED) else { return };
        let mut clients = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if clients.values().map(VecDeque::len).sum::<usize>() >= ALL_MAX {
            for entries in clients.values_mut() {
                entries.retain(|entry| entry.is_remembered(now));
            }
            clients.retain(|_, entries| !entries.is_empty());
        }
        let is_full = clients.values().map(VecDeque::len).sum::<usize>() >= ALL_MAX;
        let entries = clients.entry(client.clone()).or_default();
        if entries.len() >= OF_CLIENT_MAX || (is_full && !entries.is_empty()) {
            entries.pop_front();
        } else if is_full {
            // The entries of other clients have not expired. The next request of this client is simply evaluated.
            clients.remove(client);
            return;
        }
        entries.push_back(Entry { requested, exhaustion, until });
    }
}

impl Entry {
    /// If the system clock was set back, the entry counts as expired.
    fn is_remembered(&self, now: Timestamp) -> bool {
        now < self.until && self.until.duration_since(now) <= REMEMBERED
    }

    fn forbids(&self, requested: &RequestIdentity, now: Timestamp) -> bool {
        let is_same =
            self.requested.expression_digest == requested.expression_digest && self.requested.under == requested.under;
        is_same && requested.subjects >= self.requested.subjects && self.is_remembered(now)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn client(name: &str) -> Actor {
        Actor::Client(ClientId::parse(name).unwrap())
    }

    fn requested(expression: &str, subjects: usize) -> RequestIdentity {
        RequestIdentity { expression_digest: expression.to_owned(), under: "individual".to_owned(), subjects }
    }

    fn at(seconds: i64) -> Timestamp {
        Timestamp::from_second(1_800_000_000 + seconds).unwrap()
    }

    fn remembered(memory: &ExhaustedExpressions) -> usize {
        memory.0.lock().unwrap().values().map(VecDeque::len).sum()
    }

    #[test]
    fn it_is_held_against_that_client_and_that_expression_for_a_while() {
        let memory = ExhaustedExpressions::default();
        let (one, other) = (client("client_one"), client("client_other"));
        memory.remember(&one, requested("a", 10), ("too much".to_owned(), None), at(0));
        let reported = memory.recall(&one, &requested("a", 10), at(29)).unwrap();
        assert_eq!(reported.0, "too much (this was found out a moment ago; it is tried again in 1 s)");
        assert_eq!(memory.recall(&other, &requested("a", 10), at(0)), None);
        assert_eq!(memory.recall(&one, &requested("b", 10), at(0)), None);
        assert_eq!(memory.recall(&one, &requested("a", 10), at(30)), None, "it is forgotten");
    }

    #[test]
    fn fewer_subjects_may_fit_and_more_do_not() {
        let memory = ExhaustedExpressions::default();
        let one = client("client_one");
        memory.remember(&one, requested("a", 10), ("too much".to_owned(), None), at(0));
        let is_refused = |subjects| memory.recall(&one, &requested("a", subjects), at(0)).is_some();
        assert_eq!([9, 10, 11].map(is_refused), [false, true, true]);
    }

    #[test]
    fn what_is_remembered_is_bounded_for_one_client_and_for_all() {
        let memory = ExhaustedExpressions::default();
        for number in 0..10_000 {
            memory.remember(&client("client_one"), requested(&number.to_string(), 1), (String::new(), None), at(0));
        }
        assert_eq!(remembered(&memory), OF_CLIENT_MAX);
        assert!(memory.recall(&client("client_one"), &requested("9999", 1), at(0)).is_some(), "the latest is kept");
        for number in 0..10_000 {
            memory.remember(&client(&format!("client_{number}")), requested("a", 1), (String::new(), None), at(0));
        }
        assert_eq!(remembered(&memory), ALL_MAX);
        memory.remember(&client("client_late"), requested("a", 1), (String::new(), None), at(60));
        assert_eq!(remembered(&memory), 1, "expired entries are evicted");
    }
}
