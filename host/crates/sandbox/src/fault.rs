//! The faults of a running plugin.
//!
//! **Invariant:** a fault names the exceeded limit and its value; text from the sandbox is truncated, and stripped of
//! control characters, before it is shown.

use wasmtime::{PoolConcurrencyLimitError, Trap};

use super::limits::{PluginLimits, STACK_BYTES};
use daftar_domain::manifest::PluginName;

named! {
    /// The kinds of fault. The names are stable: they appear in `plugin list` and in metrics.
    pub enum FaultKind {
        /// It exceeded the time limit.
        Timeout = "timeout",
        /// It consumed its fuel.
        Fuel = "fuel",
        /// It exceeded its memory limit.
        Memory = "memory",
        /// It exceeded its limit of table elements.
        Table = "table",
        /// It exceeded its limit of core instances, tables or memories.
        Instances = "instances",
        /// It overflowed its stack.
        Stack = "stack",
        /// It trapped: a panic, or an illegal operation.
        Trap = "trap",
        /// Its response exceeds the limit of the host.
        OutputTooLarge = "output_too_large",
        /// It exceeded its limit of calls or bytes to the host.
        HostCalls = "host_calls",
        /// Its response breaks the interface: wrong types, lengths, texts or declarations.
        InvalidAnswer = "invalid_answer",
        /// It rejected the host's input.
        RefusedInput = "refused_input",
        /// The host could not run it.
        Unavailable = "unavailable",
    }
}

impl FaultKind {
    /// The side that caused it.
    #[must_use]
    pub const fn blame(self) -> Blame {
        if matches!(self, Self::RefusedInput | Self::Unavailable) { Blame::Host } else { Blame::Guest }
    }
}

/// The side that caused a fault.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Blame {
    /// The plugin.
    Guest,
    /// The host.
    Host,
}

/// The reason why the host stopped a call.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{detail}")]
pub(super) struct Stopped {
    pub kind: FaultKind,
    pub detail: String,
}

/// A call of a plugin that failed.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("plugin `{plugin}`: {kind}: {detail}")]
pub struct PluginFault {
    /// The plugin.
    pub plugin: PluginName,
    /// The kind of the fault.
    pub kind: FaultKind,
    /// One sentence: the event and the limit that applied.
    pub detail: String,
}

impl PluginFault {
    /// A fault of that kind.
    pub(super) fn new(plugin: &PluginName, kind: FaultKind, detail: impl Into<String>) -> Self {
        Self { plugin: plugin.clone(), kind, detail: detail.into() }
    }

    /// The sentence without text of the plugin: a plugin that received facts about people may have quoted them.
    #[must_use]
    pub fn without_quotes(&self) -> String {
        let is_quote = |character: char| matches!(character, '`' | '"');
        let Some((before, quoted)) = self.detail.split_once(is_quote) else { return self.detail.clone() };
        // The closing quote of an excerpt may be truncated.
        let after = quoted.rsplit_once(is_quote).map_or("", |(_, after)| after);
        format!("{before}`…`{after}")
    }

    /// Converts an error of wasmtime.
    pub(super) fn classify(plugin: &PluginName, error: &wasmtime::Error, limits: &PluginLimits) -> Self {
        let (kind, detail) = classified(error, limits);
        Self::new(plugin, kind, detail)
    }
}

/// Returns the kind of an error, and a sentence about it.
fn classified(error: &wasmtime::Error, limits: &PluginLimits) -> (FaultKind, String) {
    if let Some(Stopped { kind, detail }) = error.downcast_ref() {
        return (*kind, detail.clone());
    }
    if let Some(trap) = error.downcast_ref::<Trap>() {
        return trapped(*trap, limits);
    }
    if error.downcast_ref::<PoolConcurrencyLimitError>().is_some() {
        return (FaultKind::Unavailable, "all instance slots are in use".to_owned());
    }
    let reason = error.root_cause().to_string();
    // These two have no type in wasmtime; tests with real guests verify the texts.
    if reason.contains("fuel allocated for hostcalls has been exhausted") {
        let allowed = limits.output_bytes;
        return (FaultKind::OutputTooLarge, format!("its response exceeds the limit of {allowed} bytes per call"));
    }
    if reason.starts_with("resource limit exceeded") {
        let allowed = limits.core_instances;
        return (FaultKind::Instances, format!("{}; the limit is {allowed} of each", excerpt(&reason)));
    }
    // The whole chain: the root cause alone lacks the context.
    (FaultKind::InvalidAnswer, excerpt(&format!("{error:#}")))
}

fn trapped(trap: Trap, limits: &PluginLimits) -> (FaultKind, String) {
    match trap {
        Trap::Interrupt => (FaultKind::Timeout, format!("it was stopped after {} ms", limits.call_ms)),
        Trap::OutOfFuel => (FaultKind::Fuel, "it was stopped when its fuel was consumed".to_owned()),
        Trap::StackOverflow => (FaultKind::Stack, format!("it overflowed its stack of {STACK_BYTES} bytes")),
        Trap::UnreachableCodeReached => (FaultKind::Trap, "it trapped (a panic, or an `unreachable`)".to_owned()),
        Trap::StringOutOfBounds
        | Trap::ListOutOfBounds
        | Trap::InvalidDiscriminant
        | Trap::InvalidChar
        | Trap::UnalignedPointer => (FaultKind::InvalidAnswer, format!("its answer is malformed: {trap}")),
        // Wasmtime may add more; every other trap is an illegal operation of the guest.
        other => (FaultKind::Trap, other.to_string()),
    }
}

/// Truncates a text from the sandbox and removes its control characters.
pub(super) fn excerpt(text: &str) -> String {
    const CHARACTERS_MAX: usize = 300;
    let mut shown: String = text
        .chars()
        .take(CHARACTERS_MAX)
        .map(|character| if character.is_control() { ' ' } else { character })
        .collect();
    if text.chars().nth(CHARACTERS_MAX).is_some() {
        shown.push('…');
    }
    shown
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    #[test]
    fn every_kind_has_a_name_of_its_own() {
        let names: BTreeSet<_> = FaultKind::ALL.iter().map(|kind| kind.name()).collect();
        assert_eq!(names.len(), FaultKind::ALL.len());
    }

    #[test]
    fn a_sentence_without_its_quotes_contains_no_text_of_the_plugin() {
        let message = |detail: &str| {
            let plugin = PluginName::parse("test").unwrap();
            PluginFault::new(&plugin, FaultKind::InvalidAnswer, detail).without_quotes()
        };
        assert_eq!(message("verdicts: 3 verdicts for 2 rows"), "verdicts: 3 verdicts for 2 rows");
        assert_eq!(message("name: `Amina` is `too` long: 5 bytes"), "name: `…` long: 5 bytes");
        assert_eq!(message("name: `Am`in`a` is bad"), "name: `…` is bad", "quotes within the quoted text");
        assert_eq!(message("name \"Amina\": the text is empty"), "name `…`: the text is empty");
        assert_eq!(message("name: `Amina"), "name: `…`", "a quote that is not closed");
    }

    #[test]
    fn a_text_from_the_sandbox_is_shortened_and_stripped() {
        assert_eq!(excerpt("a\u{1b}[31m\nb"), "a [31m b");
        assert_eq!(excerpt(&"x".repeat(10_000)).chars().count(), 301);
    }

    #[test]
    fn a_fault_reads_as_a_sentence() {
        let fault = PluginFault::new(&PluginName::parse("gender").unwrap(), FaultKind::Memory, "it requested 9 bytes");
        assert_eq!(fault.to_string(), "plugin `gender`: memory: it requested 9 bytes");
        assert_eq!(fault.kind.blame(), Blame::Guest);
    }
}
