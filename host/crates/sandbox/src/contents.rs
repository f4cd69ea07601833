//! Reads what a pack brings, page by page, and puts codes of open vocabularies to the pack that brings them.
//!
//! **Invariant:** reading ends: a page that is not the last holds something and has a greater cursor, no vocabulary goes past the
//! number of concepts that it promised, and all calls together have one budget of fuel.
//! **Invariant:** what is kept has a bound in concepts and in bytes.
//! **Invariant:** every question is asked of a fresh instance under the pack's limits, on a plugin thread; a question that ends in
//! a fault spoils no other.
//! **Invariant:** all codes of one question share one budget of fuel, which grows with their number: a batch of some hundreds costs a
//! plugin thread a tenth of a second, whatever the pack does with them.

use super::breaker::{SetAside, Trial};
use super::engine::SandboxEngine;
use super::fault::{Blame, PluginFault};
use super::install::LoadedPlugin;
use super::pool::{Owner, Priority};
use super::sandbox::Sandbox;
use super::stats::Counted;
use super::wit::{Linked, LinkedPack, Pack};
use super::{InstalledPlugin, PluginHost, rule};
use daftar_domain::code::{Code, Namespace};
use daftar_domain::vocabulary::{Concept, LocalizedText, PackContents, VocabularyDescription};

/// How many concepts are asked for at a time: a call costs little beside a thousand concepts, and they take few megabytes.
const PAGE_CONCEPTS: u32 = 1_000;

/// The most concepts of a pack. The largest list that we know has 42,000.
const CONCEPTS_MAX: u64 = 200_000;

/// The most that the host keeps of a pack, in bytes. The largest list that we know takes 60 MB with all its languages.
const CONTENTS_BYTES_MAX: usize = 256 << 20;

/// Fuel for reading a whole pack: some ten seconds, where the largest list that we know takes less than one.
const READING_FUEL: u64 = 10_000_000_000;

/// What a concept or a text takes beside its letters, in bytes.
const OVERHEAD_BYTES: usize = 48;

/// The vocabularies of a pack, asked of a fresh instance.
///
/// # Errors
/// The fault of the start or the call.
pub(super) fn describe(
    plugin: &LoadedPlugin,
    pack: &LinkedPack,
    engine: &SandboxEngine,
) -> Result<Vec<VocabularyDescription>, PluginFault> {
    Reading::start(plugin, pack, engine)?.describe()
}

/// Everything that a pack brings, asked of a fresh instance. It must describe itself in the same way before and after.
///
/// # Errors
/// The fault that ended the reading.
pub(super) fn read(
    plugin: &LoadedPlugin,
    pack: &LinkedPack,
    engine: &SandboxEngine,
) -> Result<PackContents, PluginFault> {
    let mut reading = Reading::start(plugin, pack, engine)?;
    let descriptions = reading.describe()?;
    let mut vocabularies = Vec::with_capacity(descriptions.len());
    for description in &descriptions {
        vocabularies.push((description.clone(), reading.concepts(description)?));
    }
    let fuel = reading.fuel(0);
    let concept_groups = reading.sandbox.call(fuel, |store, pack| pack.concept_groups(store))?;
    if reading.describe()? != descriptions {
        return Err(reading.sandbox.distrust("it described itself differently when it was asked again"));
    }
    Ok(PackContents { vocabularies, concept_groups })
}

/// An instance of a pack that is being read.
struct Reading {
    sandbox: Sandbox<Pack>,
    kept_bytes: usize,
}

impl Reading {
    fn start(plugin: &LoadedPlugin, pack: &LinkedPack, engine: &SandboxEngine) -> Result<Self, PluginFault> {
        let sandbox = Sandbox::start(plugin.sandbox_of(engine), |store| pack.instantiate(store))?;
        Ok(Self { sandbox, kept_bytes: 0 })
    }

    /// The fuel of a call for that many concepts, within what is left for the whole reading.
    fn fuel(&self, concepts: u32) -> u64 {
        let left = READING_FUEL.saturating_sub(self.sandbox.usage().fuel);
        self.sandbox.limits().fuel_for(concepts).min(left)
    }

    fn describe(&mut self) -> Result<Vec<VocabularyDescription>, PluginFault> {
        let fuel = self.fuel(0);
        let descriptions = self.sandbox.call(fuel, |store, pack| pack.describe(store))?;
        if descriptions.is_empty() {
            return Err(self.sandbox.distrust("it describes no vocabulary"));
        }
        let promised: u64 = descriptions.iter().map(|description| u64::from(description.concept_count)).sum();
        if promised > CONCEPTS_MAX {
            return Err(self
                .sandbox
                .overflow(format!("it promises {promised} concepts; at most {CONCEPTS_MAX} are read")));
        }
        Ok(descriptions)
    }

    fn concepts(&mut self, vocabulary: &VocabularyDescription) -> Result<Vec<Concept>, PluginFault> {
        let promised = usize::try_from(vocabulary.concept_count).unwrap_or(usize::MAX);
        let namespace = &vocabulary.namespace;
        let mut concepts = Vec::new();
        let mut cursor = 0;
        loop {
            let fuel = self.fuel(PAGE_CONCEPTS);
            let page =
                self.sandbox.call(fuel, |store, pack| pack.concepts(store, vocabulary, cursor, PAGE_CONCEPTS))?;
            let is_empty = page.concepts.is_empty();
            self.keep(&page.concepts)?;
            concepts.extend(page.concepts);
            if concepts.len() > promised {
                let reason = format!("`{namespace}` has more than the {promised} concepts that it promised");
                return Err(self.sandbox.distrust(reason));
            }
            let Some(next) = page.next else { break };
            if is_empty || next <= cursor {
                let reason = format!("the pages of `{namespace}` do not end: after cursor {cursor} comes {next}");
                return Err(self.sandbox.distrust(reason));
            }
            cursor = next;
        }
        if concepts.len() < promised {
            let reason = format!("`{namespace}` has {} concepts; it promised {promised}", concepts.len());
            return Err(self.sandbox.distrust(reason));
        }
        Ok(concepts)
    }

    fn keep(&mut self, concepts: &[Concept]) -> Result<(), PluginFault> {
        let bytes: usize = concepts.iter().map(concept_bytes).sum();
        self.sandbox.note_output(bytes);
        self.kept_bytes = self.kept_bytes.saturating_add(bytes);
        if self.kept_bytes > CONTENTS_BYTES_MAX {
            let reason = format!("its concepts take more than the {CONTENTS_BYTES_MAX} bytes that are kept of a pack");
            return Err(self.sandbox.overflow(reason));
        }
        Ok(())
    }
}

/// About what a concept takes on the host.
fn concept_bytes(concept: &Concept) -> usize {
    let texts = |texts: &[LocalizedText]| -> usize {
        texts.iter().map(|text| text.language.len() + text.value.len() + 2 * OVERHEAD_BYTES).sum()
    };
    let strings = concept.aliases.iter().map(String::len).chain(concept.parents.iter().map(|code| code.as_str().len()));
    let properties = concept.properties.iter().map(|(key, value)| key.len() + value.len() + OVERHEAD_BYTES);
    size_of::<Concept>()
        + concept.code.as_str().len()
        + texts(&concept.labels)
        + texts(&concept.definitions)
        + strings.map(|length| length + OVERHEAD_BYTES).chain(properties).sum::<usize>()
}

/// What a pack says of a code: its concept in its normal spelling, or the sentence that says what is wrong with it.
pub type CodeAnswer = Result<Concept, String>;

/// Why there is no answer at all.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ResolveError {
    /// Too much is waiting already.
    #[error("too much plugin work is waiting")]
    Busy,
    /// The plugin is no vocabulary pack.
    #[error("it is no vocabulary pack")]
    NoPack,
    /// The pack fails by itself and is left alone for a while.
    #[error("it keeps failing and is set aside for {retry_after_s} s")]
    SetAside {
        /// Seconds until it is worth asking again.
        retry_after_s: u64,
    },
    /// The pack did not answer as it should.
    #[error(transparent)]
    Fault(#[from] PluginFault),
}

impl PluginHost {
    /// Asks a pack about codes of a vocabulary that it declared open, one answer a code, in order. Waits for a plugin thread: not
    /// for async code, and not for a plugin thread itself.
    ///
    /// # Errors
    /// [`ResolveError`]; then there is no answer to any of the codes.
    pub fn resolve_codes(
        &self,
        installed: &InstalledPlugin,
        namespace: &Namespace,
        codes: &[Code],
    ) -> Result<Vec<CodeAnswer>, ResolveError> {
        let (plugin, engine) = (installed.loaded().clone(), self.engine.clone());
        let name = plugin.manifest().name.clone();
        let (namespace, codes) = (namespace.clone(), codes.to_vec());
        let admitted = Admitted::to(&plugin)?;
        let ask = move || ask(admitted, &plugin, &engine, &namespace, &codes);
        self.pool.run(Priority::Interactive, &Owner::system(&name), ask).unwrap_or(Err(ResolveError::Busy))
    }

    /// The same from a plugin thread, which must not wait for another one: the pack is called here.
    ///
    /// # Errors
    /// As [`Self::resolve_codes`].
    pub fn resolve_codes_here(
        &self,
        installed: &InstalledPlugin,
        namespace: &Namespace,
        codes: &[Code],
    ) -> Result<Vec<CodeAnswer>, ResolveError> {
        let plugin = installed.loaded();
        ask(Admitted::to(plugin)?, plugin, &self.engine, namespace, codes)
    }
}

/// A question that may be put to a pack.
struct Admitted {
    trial: Option<Trial>,
    _counted: Counted,
}

impl Admitted {
    fn to(plugin: &LoadedPlugin) -> Result<Self, ResolveError> {
        let trial = plugin.breaker.admit().map_err(|aside| {
            plugin.stats.record_rejected();
            ResolveError::set_aside(aside)
        })?;
        let counted = plugin.stats.admit_request(plugin.limits().concurrent_requests).ok_or(ResolveError::Busy)?;
        Ok(Self { trial, _counted: counted })
    }
}

/// Puts the question. What fails without a part of whoever asked counts against the pack, which is set aside when it goes on so.
fn ask(
    admitted: Admitted,
    plugin: &LoadedPlugin,
    engine: &SandboxEngine,
    namespace: &Namespace,
    codes: &[Code],
) -> Result<Vec<CodeAnswer>, ResolveError> {
    let Linked::Pack(pack) = &plugin.linked else { return Err(ResolveError::NoPack) };
    let try_out = || describe(plugin, pack, engine).map(drop);
    if let Some(trial) = admitted.trial {
        rule::tried_again(trial, plugin, try_out).map_err(ResolveError::set_aside)?;
    }
    let mut sandbox =
        Sandbox::start(plugin.sandbox_of(engine), |store| pack.instantiate(store)).inspect_err(|fault| {
            if fault.kind.blame() == Blame::Guest {
                rule::report_own_fault(plugin, fault);
            }
        })?;
    let mut fuel = plugin.limits().fuel_for(u32::try_from(codes.len()).unwrap_or(u32::MAX));
    let mut answers = Vec::with_capacity(codes.len());
    for code in codes {
        let before = sandbox.usage().fuel;
        let answer = sandbox.call(fuel, |store, pack| pack.resolve(store, namespace, code)).inspect_err(|fault| {
            if rule::is_suspicious(fault.kind) {
                rule::check(plugin, try_out);
            }
        });
        answers.push(answer?);
        fuel = fuel.saturating_sub(sandbox.usage().fuel.saturating_sub(before));
    }
    Ok(answers)
}

impl ResolveError {
    fn set_aside(SetAside { retry_after_s }: SetAside) -> Self {
        Self::SetAside { retry_after_s }
    }
}
