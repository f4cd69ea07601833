//! Eligibility engines.

pub(crate) mod idle;
pub(crate) mod rule;
mod v0_1;

use std::sync::Arc;

use wasmtime::component::InstancePre;

use self::generated::EligibilityEnginePre;
use self::rule::{EngineError, RuleRequest, RuleSession, RuleTask};
use super::{KindRow, Linked};
use crate::PluginHost;
use crate::engine::SandboxEngine;
use crate::fault::PluginFault;
use crate::install::LoadedPlugin;
use crate::limits::{CORE_INSTANCES_MAX, PluginLimits};
use crate::pool::{Owner, Priority};
use crate::sandbox::HostState;
use crate::suspension::{self, is_suspicious};
use daftar_domain::context::Cancellation;

mod generated {
    wasmtime::component::bindgen!({
        path: "../../../wit/daftar-plugin/0.1.0",
        world: "eligibility-engine",
        imports: { default: trappable },
        // A batch is lowered from the caller's columns without a copy of them.
        ownership: Borrowing { duplicate_if_necessary: true },
        with: { "daftar:plugin/log": crate::wit::v0_1::log },
    });
}

/// The row of this kind. An expression can exhaust every budget, so only some faults are the engine's own.
pub(super) const ROW: KindRow = KindRow {
    interface: "eligibility",
    limits: LIMITS,
    link: |pre: InstancePre<HostState>| Ok(Box::new(LinkedEngine::new(pre)?)),
    is_own_fault: is_suspicious,
};

/// Engines run for every request that evaluates a rule, with any expression that a client sends.
const LIMITS: PluginLimits = PluginLimits {
    // A parsed expression, the truth tables, and a batch of a few thousand rows with its members.
    memory_bytes: 64 << 20,
    // One element for each function that is called through a pointer.
    table_elements: 10_000,
    core_instances: CORE_INSTANCES_MAX,
    // Compiling the largest expression allowed takes a tenth of this.
    fuel_base: 500_000_000,
    // Walking the syntax tree for a household of twenty takes some fifty thousand instructions.
    fuel_per_row: 200_000,
    // A batch of 4,096 rows may burn 1,300 M: a second or two on a slow machine.
    call_ms: 8_000,
    // 4,096 households with all columns.
    input_bytes: 32 << 20,
    // One verdict and a few missing facts a row.
    output_bytes: 8 << 20,
    // Log lines.
    host_calls: 1_000,
    host_call_bytes: 256 << 10,
    // As many as the machine can process before their clients time out.
    concurrent_requests: 256,
};

/// The exports of an instance of an engine.
use self::generated::EligibilityEngine as Rules;

/// A rule inside an instance.
type RuleHandle = wasmtime::component::ResourceAny;

/// An engine ready to be instantiated.
type LinkedEngine = EligibilityEnginePre<HostState>;

impl Linked for LinkedEngine {
    fn smoke(&self, plugin: &LoadedPlugin, engine: &SandboxEngine) -> Result<(), PluginFault> {
        rule::try_out(plugin, self, engine)
    }
}

impl PluginHost {
    /// Runs `task` with a rule of that engine, which need not be installed, on a plugin thread.
    ///
    /// # Errors
    /// As [`rule::EligibilityEngine::submit`].
    pub fn submit_rule(
        &self,
        priority: Priority,
        plugin: &Arc<LoadedPlugin>,
        request: RuleRequest,
        cancellation: Cancellation,
        task: RuleTask,
    ) -> Result<(), EngineError> {
        let (stats, name) = (plugin.stats.clone(), plugin.manifest().name.clone());
        let trial = plugin.breaker.admit().map_err(|aside| {
            stats.record_rejected();
            EngineError::suspended(&name, aside)
        })?;
        let admitted = stats.admit_request(plugin.limits().concurrent_requests).ok_or(EngineError::Busy)?;
        let (plugin, engine) = (plugin.clone(), self.engine.clone());
        let RuleRequest { actor, expression, schema, idle } = request;
        let terms = (priority, cancellation.clone());
        let job = move || {
            let _admitted = admitted;
            let Some(linked) = plugin.linked::<LinkedEngine>() else { return task(Err(EngineError::NoEngine)) };
            if let Some(trial) = trial
                && let Err(aside) = suspension::retry(trial, &plugin, &engine)
            {
                return task(Err(EngineError::suspended(&plugin.manifest().name, aside)));
            }
            let session = match idle.as_ref().and_then(|idle| idle.take(&plugin)) {
                Some(mut session) => {
                    session.resume(terms.1);
                    Ok(session)
                }
                None => RuleSession::compile(&plugin, linked, &engine, terms, (&expression, &schema)),
            };
            let is_suspicious = match session {
                Ok(mut session) => {
                    task(Ok(&mut session));
                    let is_suspicious = session.has_suspicious_fault();
                    if let Some(idle) = idle {
                        idle.put(session);
                    }
                    is_suspicious
                }
                Err(error) => {
                    let is_suspicious = matches!(&error, EngineError::Fault(fault) if is_suspicious(fault.kind));
                    task(Err(error));
                    is_suspicious
                }
            };
            if is_suspicious {
                suspension::check(&plugin, &engine);
            }
        };
        let owner = Owner { plugin: name, actor };
        self.pool.submit(priority, &owner, cancellation, job).map_err(|_| {
            stats.record_rejected();
            EngineError::Busy
        })
    }
}
