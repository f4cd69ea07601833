//! Suspension of plugins that keep failing: which faults count, and the calls that check a plugin.

use super::breaker::{Suspended, Trial};
use super::engine::SandboxEngine;
use super::fault::{Blame, FaultKind, PluginFault};
use super::install::LoadedPlugin;

/// True if the plugin itself may be the cause of a fault under a caller's input. It is not if the input exhausted a
/// budget.
pub(super) fn is_suspicious(kind: FaultKind) -> bool {
    use FaultKind::{Instances, InvalidAnswer, Table, Timeout, Trap};
    matches!(kind, Timeout | Table | Instances | Trap | InvalidAnswer)
}

/// Counts a fault that no caller can have caused.
pub(super) fn report_own_fault(plugin: &LoadedPlugin, fault: &PluginFault) {
    tracing::warn!(plugin.name = %fault.plugin, plugin.fault = fault.kind.name(), reason = %fault, "plugin fault");
    if plugin.breaker.record_fault() {
        tracing::error!(
            plugin.name = %fault.plugin, plugin.fault = fault.kind.name(),
            "plugin suspended after repeated faults"
        );
    }
}

/// Calls a suspended plugin with the host's own input, and lifts the suspension if it works again.
///
/// # Errors
/// It still fails, and is suspended for longer.
pub(super) fn retry(trial: Trial, plugin: &LoadedPlugin, engine: &SandboxEngine) -> Result<(), Suspended> {
    match plugin.smoke(engine) {
        Ok(()) => {
            trial.succeeded();
            tracing::info!(plugin.name = %plugin.manifest().name, "plugin works again, suspension lifted");
            Ok(())
        }
        Err(fault) => {
            tracing::warn!(
                plugin.name = %plugin.manifest().name, plugin.fault = fault.kind.name(),
                "plugin still fails, suspension extended"
            );
            Err(trial.failed())
        }
    }
}

/// Checks a plugin that failed under a caller's input with the host's own input: if this call fails too, the plugin is
/// the cause and not the input.
pub(super) fn check(plugin: &LoadedPlugin, engine: &SandboxEngine) {
    if plugin.breaker.should_check()
        && let Err(fault) = plugin.smoke(engine)
        && fault.kind.blame() == Blame::Guest
    {
        report_own_fault(plugin, &fault);
    }
}
