//! The versions of the plugin interface that this host speaks.
//!
//! The rest of the host speaks domain types only. The newest version has a module that translates between those and the types
//! generated for it; the version before has one that delegates to it, so an old plugin works as long as that is kept.
//!
//! **Invariant:** what comes out of a guest passes through one of these modules, where it is bounded and becomes domain types.

mod read;
mod v0_1;
mod v0_2;

use v0_2 as latest;
use wasmtime::component::{Component, Linker};
use wasmtime::{Engine, Store};

use super::sandbox::{CallError, HostState};
use crate::domain::code::{Code, Namespace};
use crate::domain::eligibility::{Batch, Bindings, Diagnostic, Outcomes, PlacedQuestion, Reference, Schema};
use crate::domain::explanation::{Explanation, RuleSummary};
use crate::domain::manifest::{PluginKind, PluginVersion};
use crate::domain::vocabulary::{Concept, ConceptGroup, VocabularyDescription};

/// A version of the plugin interface.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum InterfaceVersion {
    V0_2_0,
    V0_1_0,
}

impl InterfaceVersion {
    /// Every version that this host speaks, the newest first.
    pub const SPOKEN: [Self; 2] = [Self::V0_2_0, Self::V0_1_0];

    /// The version of that number, if this host speaks it.
    pub fn of(number: PluginVersion) -> Option<Self> {
        Self::SPOKEN.into_iter().find(|version| version.number() == number)
    }

    /// Its number.
    pub const fn number(self) -> PluginVersion {
        match self {
            Self::V0_2_0 => PluginVersion::new(0, 2, 0),
            Self::V0_1_0 => PluginVersion::new(0, 1, 0),
        }
    }

    /// The interface that a plugin of that kind must export.
    pub const fn export(self, kind: PluginKind) -> &'static str {
        match (self, kind) {
            (Self::V0_2_0, PluginKind::VocabularyPack) => "daftar:plugin/vocabulary@0.2.0",
            (Self::V0_2_0, PluginKind::EligibilityEngine) => "daftar:plugin/eligibility@0.2.0",
            (Self::V0_1_0, PluginKind::VocabularyPack) => "daftar:plugin/vocabulary@0.1.0",
            (Self::V0_1_0, PluginKind::EligibilityEngine) => "daftar:plugin/eligibility@0.1.0",
        }
    }

    /// The imports that hold types only, which every plugin may name: they give it nothing to call.
    pub const fn type_imports(self) -> &'static [&'static str] {
        match self {
            Self::V0_2_0 => &[
                "daftar:plugin/schema@0.2.0",
                "daftar:plugin/columns@0.2.0",
                "daftar:plugin/vocabulary@0.2.0",
                "daftar:plugin/eligibility@0.2.0",
            ],
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
            (Self::V0_2_0, PluginKind::VocabularyPack | PluginKind::EligibilityEngine) => &["daftar:plugin/log@0.2.0"],
            (Self::V0_1_0, PluginKind::VocabularyPack | PluginKind::EligibilityEngine) => &[],
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
    match version {
        InterfaceVersion::V0_2_0 => latest::log::link(&mut linker)?,
        InterfaceVersion::V0_1_0 => {}
    }
    let pre = linker.instantiate_pre(component)?;
    Ok(match (version, kind) {
        (InterfaceVersion::V0_2_0, PluginKind::VocabularyPack) => {
            Linked::Pack(LinkedPack::Latest(latest::vocabulary::Linked::new(pre)?))
        }
        (InterfaceVersion::V0_2_0, PluginKind::EligibilityEngine) => {
            Linked::Engine(LinkedEngine::Latest(latest::eligibility::Linked::new(pre)?))
        }
        (InterfaceVersion::V0_1_0, PluginKind::VocabularyPack) => {
            Linked::Pack(LinkedPack::V0_1(v0_1::vocabulary::Linked::new(pre)?))
        }
        (InterfaceVersion::V0_1_0, PluginKind::EligibilityEngine) => {
            Linked::Engine(LinkedEngine::V0_1(v0_1::eligibility::Linked::new(pre)?))
        }
    })
}

/// A vocabulary pack of any version.
#[derive(Clone)]
pub(super) enum LinkedPack {
    Latest(latest::vocabulary::Linked),
    V0_1(v0_1::vocabulary::Linked),
}

impl LinkedPack {
    /// Makes an instance.
    pub fn instantiate(&self, store: &mut Store<HostState>) -> wasmtime::Result<Pack> {
        match self {
            Self::Latest(linked) => linked.instantiate(store).map(Pack::Latest),
            Self::V0_1(linked) => linked.instantiate(store).map(Pack::V0_1),
        }
    }
}

/// An instance of a vocabulary pack, in the terms of the newest version.
pub(super) enum Pack {
    Latest(latest::vocabulary::Pack),
    V0_1(v0_1::vocabulary::Pack),
}

/// Some concepts and where to go on.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct ConceptPage {
    pub concepts: Vec<Concept>,
    pub next: Option<u32>,
}

impl Pack {
    /// Its vocabularies.
    pub fn describe(&self, store: &mut Store<HostState>) -> Result<Vec<VocabularyDescription>, CallError> {
        match self {
            Self::Latest(pack) => pack.describe(store),
            Self::V0_1(pack) => pack.describe(store),
        }
    }

    /// Its concept groups.
    pub fn concept_groups(&self, store: &mut Store<HostState>) -> Result<Vec<ConceptGroup>, CallError> {
        match self {
            Self::Latest(pack) => pack.concept_groups(store),
            Self::V0_1(pack) => pack.concept_groups(store),
        }
    }

    /// A page of a vocabulary that it described.
    pub fn concepts(
        &self,
        store: &mut Store<HostState>,
        vocabulary: &VocabularyDescription,
        cursor: u32,
        limit: u32,
    ) -> Result<ConceptPage, CallError> {
        match self {
            Self::Latest(pack) => pack.concepts(store, vocabulary, cursor, limit),
            Self::V0_1(pack) => pack.concepts(store, vocabulary, cursor, limit),
        }
    }

    /// The concept of a code of an open vocabulary, or what is wrong with the code.
    pub fn resolve(
        &self,
        store: &mut Store<HostState>,
        namespace: &Namespace,
        code: &Code,
    ) -> Result<Result<Concept, String>, CallError> {
        match self {
            Self::Latest(pack) => pack.resolve(store, namespace, code),
            Self::V0_1(pack) => pack.resolve(store, namespace, code),
        }
    }
}

/// An eligibility engine of any version.
#[derive(Clone)]
pub(super) enum LinkedEngine {
    Latest(latest::eligibility::Linked),
    V0_1(v0_1::eligibility::Linked),
}

impl LinkedEngine {
    /// Makes an instance.
    pub fn instantiate(&self, store: &mut Store<HostState>) -> wasmtime::Result<Rules> {
        match self {
            Self::Latest(linked) => linked.instantiate(store).map(Rules::Latest),
            Self::V0_1(linked) => linked.instantiate(store).map(Rules::V0_1),
        }
    }
}

/// An instance of an eligibility engine, in the terms of the newest version.
pub(super) enum Rules {
    Latest(latest::eligibility::Rules),
    V0_1(v0_1::eligibility::Rules),
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
    /// How large it is, where the engine says so.
    pub allowed: Option<u64>,
}

impl Rules {
    /// Compiles an expression: a rule, or at least one error.
    pub fn compile(
        &self,
        store: &mut Store<HostState>,
        expression: &str,
        schema: &Schema,
    ) -> Result<Result<RuleHandle, Vec<Diagnostic>>, CallError> {
        match self {
            Self::Latest(rules) => rules.compile(store, expression, schema),
            Self::V0_1(rules) => rules.compile(store, expression, schema),
        }
    }

    /// The fields that a rule reads, each of them one of `schema`.
    pub fn references(
        &self,
        store: &mut Store<HostState>,
        rule: RuleHandle,
        schema: &Schema,
    ) -> Result<Vec<Reference>, CallError> {
        match self {
            Self::Latest(rules) => rules.references(store, rule, schema),
            Self::V0_1(rules) => rules.references(store, rule, schema),
        }
    }

    /// What a rule asks about codes.
    pub fn questions(&self, store: &mut Store<HostState>, rule: RuleHandle) -> Result<Vec<PlacedQuestion>, CallError> {
        match self {
            Self::Latest(rules) => rules.questions(store, rule),
            Self::V0_1(rules) => rules.questions(store, rule),
        }
    }

    /// What is doubtful about a rule.
    pub fn warnings(&self, store: &mut Store<HostState>, rule: RuleHandle) -> Result<Vec<Diagnostic>, CallError> {
        match self {
            Self::Latest(rules) => rules.warnings(store, rule),
            Self::V0_1(rules) => rules.warnings(store, rule),
        }
    }

    /// The type of a rule's value and what it costs, where the version has words for it.
    pub fn summary(&self, store: &mut Store<HostState>, rule: RuleHandle) -> Result<Option<RuleSummary>, CallError> {
        match self {
            Self::Latest(rules) => rules.summary(store, rule).map(Some),
            Self::V0_1(_) => Ok(None),
        }
    }

    /// Answers a rule's questions.
    pub fn bind(&self, store: &mut Store<HostState>, rule: RuleHandle, bindings: &Bindings) -> Result<(), CallError> {
        match self {
            Self::Latest(rules) => rules.bind(store, rule, bindings),
            Self::V0_1(rules) => rules.bind(store, rule, bindings),
        }
    }

    /// Evaluates a batch. What comes back has one outcome for each row.
    pub fn evaluate(
        &self,
        store: &mut Store<HostState>,
        rule: RuleHandle,
        batch: &Batch,
    ) -> Result<Answered<Outcomes>, CallError> {
        match self {
            Self::Latest(rules) => rules.evaluate(store, rule, batch),
            Self::V0_1(rules) => rules.evaluate(store, rule, batch),
        }
    }

    /// How the outcome of one row comes about, where the version has words for it.
    pub fn explain(
        &self,
        store: &mut Store<HostState>,
        rule: RuleHandle,
        batch: &Batch,
        row: u32,
        expression: &str,
    ) -> Result<Answered<Option<Explanation>>, CallError> {
        match self {
            Self::Latest(rules) => rules.explain(store, rule, batch, row, expression),
            Self::V0_1(_) => Ok(Answered::Answer(None)),
        }
    }
}
