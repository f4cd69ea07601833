//! The versions of the plugin interface that this host speaks.
//!
//! The rest of the host speaks domain types only. A version has a module that translates between those and the types generated for
//! it. There is one version. An older one gets a module beside it that delegates to the newest, and a case in [`InterfaceVersion`].
//!
//! **Invariant:** what comes out of a guest passes through one of these modules, where it is bounded and becomes domain types.

mod read;
mod v0_1;

use v0_1 as latest;
use wasmtime::Engine;
use wasmtime::component::{Component, Linker};

pub(super) use self::latest::eligibility::{Linked as LinkedEngine, Rules};
pub(super) use self::latest::vocabulary::{Linked as LinkedPack, Pack};
use super::sandbox::HostState;
use daftar_domain::manifest::{PluginKind, PluginVersion};
use daftar_domain::vocabulary::Concept;

/// A version of the plugin interface.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum InterfaceVersion {
    V0_1_0,
}

impl InterfaceVersion {
    /// Every version that this host speaks, the newest first.
    pub const SPOKEN: [Self; 1] = [Self::V0_1_0];

    /// The version of that number, if this host speaks it.
    pub fn of(number: PluginVersion) -> Option<Self> {
        Self::SPOKEN.into_iter().find(|version| version.number() == number)
    }

    /// Its number.
    pub const fn number(self) -> PluginVersion {
        match self {
            Self::V0_1_0 => PluginVersion::new(0, 1, 0),
        }
    }

    /// The interface that a plugin of that kind must export.
    pub const fn export(self, kind: PluginKind) -> &'static str {
        match (self, kind) {
            (Self::V0_1_0, PluginKind::VocabularyPack) => "daftar:plugin/vocabulary@0.1.0",
            (Self::V0_1_0, PluginKind::EligibilityEngine) => "daftar:plugin/eligibility@0.1.0",
        }
    }

    /// The imports that hold types only, which every plugin may name: they give it nothing to call.
    pub const fn type_imports(self) -> &'static [&'static str] {
        match self {
            Self::V0_1_0 => &[
                "daftar:plugin/schema@0.1.0",
                "daftar:plugin/columns@0.1.0",
                "daftar:plugin/vocabulary@0.1.0",
                "daftar:plugin/eligibility@0.1.0",
            ],
        }
    }

    /// The imports with functions that the host links for that kind: a plugin's rights.
    pub const fn granted_imports(self, kind: PluginKind) -> &'static [&'static str] {
        match (self, kind) {
            (Self::V0_1_0, PluginKind::VocabularyPack | PluginKind::EligibilityEngine) => &["daftar:plugin/log@0.1.0"],
        }
    }
}

/// A compiled plugin with its imports linked, ready to be instantiated.
#[derive(Clone)]
pub(super) enum Linked {
    Pack(LinkedPack),
    Engine(LinkedEngine),
}

/// Links a component as a plugin of that kind.
///
/// # Errors
/// It imports what is not linked, or lacks an export.
pub(super) fn link(
    version: InterfaceVersion,
    kind: PluginKind,
    engine: &Engine,
    component: &Component,
) -> wasmtime::Result<Linked> {
    let mut linker = Linker::<HostState>::new(engine);
    for import in version.type_imports() {
        linker.instance(import)?;
    }
    let InterfaceVersion::V0_1_0 = version;
    latest::log::link(&mut linker)?;
    let pre = linker.instantiate_pre(component)?;
    Ok(match kind {
        PluginKind::VocabularyPack => Linked::Pack(LinkedPack::new(pre)?),
        PluginKind::EligibilityEngine => Linked::Engine(LinkedEngine::new(pre)?),
    })
}

/// Some concepts and where to go on.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct ConceptPage {
    pub concepts: Vec<Concept>,
    pub next: Option<u32>,
}

/// A rule inside an instance.
#[derive(Debug, Clone, Copy)]
pub(super) struct RuleHandle(wasmtime::component::ResourceAny);

/// What an engine says about a batch.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Answered<T> {
    /// What was asked for.
    Answer(T),
    /// The rule needs more than that budget of the engine's own.
    Exhausted(EngineBudget),
}

/// A budget of an engine's own.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct EngineBudget {
    /// The engine's name for it.
    pub name: String,
    /// How large it is.
    pub allowed: u64,
}
