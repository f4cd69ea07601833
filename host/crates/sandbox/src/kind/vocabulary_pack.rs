//! Vocabulary packs.

pub(crate) mod contents;
mod v0_1;

use wasmtime::component::InstancePre;

use self::generated::VocabularyPackPre;
use super::{KindRow, Linked};
use crate::engine::SandboxEngine;
use crate::fault::PluginFault;
use crate::install::LoadedPlugin;
use crate::limits::{CORE_INSTANCES_MAX, PluginLimits};
use crate::sandbox::HostState;
use daftar_domain::vocabulary::PackContents;

mod generated {
    wasmtime::component::bindgen!({
        path: "../../../wit/daftar-plugin/0.1.0",
        world: "vocabulary-pack",
        // A call that exceeds its budget traps.
        imports: { default: trappable },
        with: { "daftar:plugin/log": crate::wit::v0_1::log },
    });
}

/// The row of this kind. Only the host calls packs, so every fault is their own.
pub(super) const ROW: KindRow = KindRow {
    interface: "vocabulary",
    limits: LIMITS,
    link: |pre: InstancePre<HostState>| Ok(Box::new(LinkedPack::new(pre)?)),
    is_own_fault: |_| true,
};

/// Packs run sequentially at install; those of open vocabularies also when a code is looked up that they do not
/// list.
const LIMITS: PluginLimits = PluginLimits {
    // The codes are in memory: the largest known list takes 40 MB with all its languages.
    memory_bytes: 96 << 20,
    table_elements: 4_000,
    core_instances: CORE_INSTANCES_MAX,
    // `describe` and `concept-groups` copy a few kilobytes.
    fuel_base: 50_000_000,
    // A concept with forty labels takes some ten thousand instructions, reading a code by a grammar some tens of
    // thousands.
    fuel_per_row: 100_000,
    // A page of a thousand concepts may burn 150 M: a fifth of a second where an instruction takes more than a
    // nanosecond.
    call_ms: 1_000,
    // A namespace and two numbers.
    input_bytes: 4 << 10,
    // A thousand concepts of eight kilobytes.
    output_bytes: 8 << 20,
    // Log lines.
    host_calls: 1_000,
    host_call_bytes: 256 << 10,
    // The installer and a few look-ups in open vocabularies.
    concurrent_requests: 16,
};

/// The exports of an instance of a pack.
use self::generated::VocabularyPack as Pack;

/// A pack ready to be instantiated.
type LinkedPack = VocabularyPackPre<HostState>;

impl Linked for LinkedPack {
    fn smoke(&self, plugin: &LoadedPlugin, engine: &SandboxEngine) -> Result<(), PluginFault> {
        contents::describe(plugin, self, engine).map(drop)
    }

    fn contents(&self, plugin: &LoadedPlugin, engine: &SandboxEngine) -> Result<Option<PackContents>, PluginFault> {
        contents::read(plugin, self, engine).map(Some)
    }
}
