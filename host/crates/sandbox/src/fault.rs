//! What can go wrong while a plugin runs, each with a name.
//!
//! **Invariant:** a fault says which limit tripped and how high it was; text that came out of the sandbox is shortened and
//! stripped of control characters before it is repeated.

use wasmtime::{PoolConcurrencyLimitError, Trap};

use super::limits::{PluginLimits, STACK_BYTES};
use daftar_domain::manifest::PluginName;

named! {
    /// The kinds of fault. The names are stable: they appear in `plugin list` and in metrics.
    pub enum FaultKind {
        /// It ran past the wall clock's back-stop.
        Timeout = "timeout",
        /// It burnt its fuel.
        Fuel = "fuel",
        /// It wanted more memory than it may have.
        Memory = "memory",
        /// It wanted larger tables than it may have.
        Table = "table",
        /// It wanted more core instances, tables or memories than it may have.
        Instances = "instances",
        /// It called itself too deeply.
        Stack = "stack",
        /// It stopped itself: a panic, or an illegal operation.
        Trap = "trap",
        /// Its answer is larger than the host takes.
        OutputTooLarge = "output_too_large",
        /// It called the host more often, or gave it more, than one call may.
        HostCalls = "host_calls",
        /// Its answer breaks the interface: wrong types, lengths, texts or promises.
        InvalidAnswer = "invalid_answer",
        /// It refused what the host gave it.
        RefusedInput = "refused_input",
        /// The host could not run it.
        Unavailable = "unavailable",
    }
}

impl FaultKind {
    /// Whose doing it is.
    #[must_use]
    pub const fn blame(self) -> Blame {
        if matches!(self, Self::RefusedInput | Self::Unavailable) { Blame::Host } else { Blame::Guest }
    }
}

/// Whose doing a fault is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Blame {
    /// The plugin's.
    Guest,
    /// Ours.
    Host,
}

/// Why the host stopped a call.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{detail}")]
pub(super) struct Stopped {
    pub kind: FaultKind,
    pub detail: String,
}

/// A call that a plugin did not answer.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("plugin `{plugin}`: {kind}: {detail}")]
pub struct PluginFault {
    /// Which plugin.
    pub plugin: PluginName,
    /// What kind of fault.
    pub kind: FaultKind,
    /// One sentence: what happened and which limit applied.
    pub detail: String,
}

impl PluginFault {
    /// A fault of that kind.
    pub(super) fn new(plugin: &PluginName, kind: FaultKind, detail: impl Into<String>) -> Self {
        Self { plugin: plugin.clone(), kind, detail: detail.into() }
    }

    /// The sentence without what it quotes of the plugin: a plugin that was given facts about people may have put them there.
    #[must_use]
    pub fn without_quotes(&self) -> String {
        let is_quote = |character: char| matches!(character, '`' | '"');
        let Some((before, quoted)) = self.detail.split_once(is_quote) else { return self.detail.clone() };
        // An excerpt may have lost the quote at its end.
        let after = quoted.rsplit_once(is_quote).map_or("", |(_, after)| after);
        format!("{before}`…`{after}")
    }

    /// What an error of wasmtime means.
    pub(super) fn classify(plugin: &PluginName, error: &wasmtime::Error, limits: &PluginLimits) -> Self {
        let (kind, detail) = classified(error, limits);
        Self::new(plugin, kind, detail)
    }
}

/// The kind of an error, and a sentence about it.
fn classified(error: &wasmtime::Error, limits: &PluginLimits) -> (FaultKind, String) {
    if let Some(Stopped { kind, detail }) = error.downcast_ref() {
        return (*kind, detail.clone());
    }
    if let Some(trap) = error.downcast_ref::<Trap>() {
        return trapped(*trap, limits);
    }
    if error.downcast_ref::<PoolConcurrencyLimitError>().is_some() {
        return (FaultKind::Unavailable, "all places for instances are taken".to_owned());
    }
    let reason = error.root_cause().to_string();
    // These two have no type of their own in wasmtime; tests with real guests hold the texts in place.
    if reason.contains("fuel allocated for hostcalls has been exhausted") {
        let allowed = limits.output_bytes;
        return (
            FaultKind::OutputTooLarge,
            format!("what it hands over takes more than the {allowed} bytes that one call may return"),
        );
    }
    if reason.starts_with("resource limit exceeded") {
        let allowed = limits.core_instances;
        return (FaultKind::Instances, format!("{}; it may have {allowed} of each", excerpt(&reason)));
    }
    // The whole of it: the cause alone does not say what it is about.
    (FaultKind::InvalidAnswer, excerpt(&format!("{error:#}")))
}

fn trapped(trap: Trap, limits: &PluginLimits) -> (FaultKind, String) {
    match trap {
        Trap::Interrupt => (FaultKind::Timeout, format!("it was stopped after {} ms", limits.call_ms)),
        Trap::OutOfFuel => (FaultKind::Fuel, "it was stopped when its fuel was burnt".to_owned()),
        Trap::StackOverflow => {
            (FaultKind::Stack, format!("it called itself too deeply for its {STACK_BYTES} bytes of stack"))
        }
        Trap::UnreachableCodeReached => {
            (FaultKind::Trap, "it stopped itself (a panic, or an `unreachable`)".to_owned())
        }
        Trap::StringOutOfBounds
        | Trap::ListOutOfBounds
        | Trap::InvalidDiscriminant
        | Trap::InvalidChar
        | Trap::UnalignedPointer => (FaultKind::InvalidAnswer, format!("its answer is malformed: {trap}")),
        // Wasmtime may add more; every other trap is an illegal operation of the guest.
        other => (FaultKind::Trap, other.to_string()),
    }
}

/// The beginning of a text that came out of the sandbox, fit to be shown.
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
    fn a_sentence_without_its_quotes_holds_nothing_of_the_plugin() {
        let told = |detail: &str| {
            let plugin = PluginName::parse("test").unwrap();
            PluginFault::new(&plugin, FaultKind::InvalidAnswer, detail).without_quotes()
        };
        assert_eq!(told("verdicts: 3 verdicts for 2 rows"), "verdicts: 3 verdicts for 2 rows");
        assert_eq!(told("name: `Amina` is `too` long: 5 bytes"), "name: `…` long: 5 bytes");
        assert_eq!(told("name: `Am`in`a` is bad"), "name: `…` is bad", "quotes within the quoted text");
        assert_eq!(told("name \"Amina\": the text is empty"), "name `…`: the text is empty");
        assert_eq!(told("name: `Amina"), "name: `…`", "a quote that is not closed");
    }

    #[test]
    fn a_text_from_the_sandbox_is_shortened_and_stripped() {
        assert_eq!(excerpt("a\u{1b}[31m\nb"), "a [31m b");
        assert_eq!(excerpt(&"x".repeat(10_000)).chars().count(), 301);
    }

    #[test]
    fn a_fault_reads_as_a_sentence() {
        let fault = PluginFault::new(&PluginName::parse("gender").unwrap(), FaultKind::Memory, "it asked for 9 bytes");
        assert_eq!(fault.to_string(), "plugin `gender`: memory: it asked for 9 bytes");
        assert_eq!(fault.kind.blame(), Blame::Guest);
    }
}
