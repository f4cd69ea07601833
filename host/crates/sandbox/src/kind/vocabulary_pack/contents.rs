//! Reads the contents of packs page by page, and resolves codes of open vocabularies.
//!
//! **Invariant:** reading always ends: a page that is not the last has concepts and a greater cursor, no vocabulary
//! exceeds the number of concepts that it declared, and all calls together share one budget of fuel.
//! **Invariant:** the contents in memory are limited in concepts and in bytes.
//! **Invariant:** every resolution runs in a fresh instance under the pack's limits, on a plugin thread; a fault has no
//! effect on another one.
//! **Invariant:** all codes of one resolution share one budget of fuel, which grows with their number: a batch of some
//! hundreds costs a plugin thread at most a tenth of a second.

use super::{LinkedPack, Pack};
use crate::breaker::{Suspended, Trial};
use crate::engine::SandboxEngine;
use crate::fault::{Blame, PluginFault};
use crate::install::LoadedPlugin;
use crate::pool::{Owner, Priority};
use crate::sandbox::Sandbox;
use crate::stats::Counted;
use crate::suspension;
use crate::{InstalledPlugin, PluginHost};
use daftar_domain::code::{Code, Namespace};
use daftar_domain::vocabulary::{Concept, LocalizedText, PackContents, VocabularyDescription};
use std::sync::Arc;

/// The concepts of one page: the cost of a call is small compared with a thousand concepts, which take a few megabytes.
const PAGE_CONCEPTS: u32 = 1_000;

/// The most concepts of a pack. The largest known list has 42,000.
const CONCEPTS_MAX: u64 = 200_000;

/// The most memory for the contents of a pack, in bytes. The largest known list takes 60 MB with all its languages.
const CONTENTS_BYTES_MAX: usize = 256 << 20;

/// Fuel for reading a whole pack: about ten seconds; the largest known list takes less than one.
const READING_FUEL: u64 = 10_000_000_000;

/// The overhead of a concept or a text, in bytes.
const OVERHEAD_BYTES: usize = 48;

/// Reads the descriptions of a pack's vocabularies in a fresh instance.
///
/// # Errors
/// The fault of the start or of the call.
pub(super) fn describe(
    plugin: &LoadedPlugin,
    pack: &LinkedPack,
    engine: &SandboxEngine,
) -> Result<Vec<VocabularyDescription>, PluginFault> {
    Reading::start(plugin, pack, engine)?.describe()
}

/// Reads the contents of a pack in a fresh instance. Its descriptions must be the same before and after.
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
        return Err(reading.sandbox.distrust("its second description differs from the first"));
    }
    Ok(PackContents { vocabularies, concept_groups })
}

/// A pack instance while its contents are read.
struct Reading {
    sandbox: Sandbox<Pack>,
    stored_bytes: usize,
}

impl Reading {
    fn start(plugin: &LoadedPlugin, pack: &LinkedPack, engine: &SandboxEngine) -> Result<Self, PluginFault> {
        let sandbox = Sandbox::start(plugin.sandbox_of(engine), |store| pack.instantiate(store))?;
        Ok(Self { sandbox, stored_bytes: 0 })
    }

    /// The fuel of a call for that many concepts, limited to the rest of the budget.
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
            return Err(self.sandbox.overflow(format!("it declares {promised} concepts; the limit is {CONCEPTS_MAX}")));
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
            self.add(&page.concepts)?;
            concepts.extend(page.concepts);
            if concepts.len() > promised {
                let reason = format!("`{namespace}` has more than the {promised} concepts that it declared");
                return Err(self.sandbox.distrust(reason));
            }
            let Some(next) = page.next else { break };
            if is_empty || next <= cursor {
                let reason = format!("the pages of `{namespace}` do not end: cursor {cursor} is followed by {next}");
                return Err(self.sandbox.distrust(reason));
            }
            cursor = next;
        }
        if concepts.len() < promised {
            let reason = format!("`{namespace}` has {} concepts; it declared {promised}", concepts.len());
            return Err(self.sandbox.distrust(reason));
        }
        Ok(concepts)
    }

    fn add(&mut self, concepts: &[Concept]) -> Result<(), PluginFault> {
        let bytes: usize = concepts.iter().map(concept_bytes).sum();
        self.sandbox.note_output(bytes);
        self.stored_bytes = self.stored_bytes.saturating_add(bytes);
        if self.stored_bytes > CONTENTS_BYTES_MAX {
            let reason = format!("its concepts exceed the limit of {CONTENTS_BYTES_MAX} bytes");
            return Err(self.sandbox.overflow(reason));
        }
        Ok(())
    }
}

/// The approximate memory of a concept, in bytes.
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

/// The result for one code: its concept in normalized spelling, or a sentence why the code is invalid.
pub type CodeResolution = Result<Concept, String>;

/// The reason why a resolution has no results.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ResolveError {
    /// The queue of the plugin threads is full.
    #[error("too much plugin work is waiting")]
    Busy,
    /// The plugin is not a vocabulary pack.
    #[error("it is not a vocabulary pack")]
    NoPack,
    /// The pack is suspended after repeated faults.
    #[error("it is suspended after repeated faults, retry in {retry_after_s} s")]
    Suspended {
        /// Time until a retry is useful, in seconds.
        retry_after_s: u64,
    },
    /// The call ended with a fault.
    #[error(transparent)]
    Fault(#[from] PluginFault),
}

impl PluginHost {
    /// Resolves codes of an open vocabulary by its pack, with one result per code, in order. Blocks until a plugin
    /// thread is free: not for async code, and not for a plugin thread itself.
    ///
    /// # Errors
    /// [`ResolveError`]; then none of the codes has a result.
    pub fn resolve_codes(
        &self,
        plugin: &Arc<LoadedPlugin>,
        namespace: &Namespace,
        codes: &[Code],
    ) -> Result<Vec<CodeResolution>, ResolveError> {
        let (plugin, engine) = (plugin.clone(), self.engine.clone());
        let name = plugin.manifest().name.clone();
        let (namespace, codes) = (namespace.clone(), codes.to_vec());
        let admitted = Admitted::to(&plugin)?;
        let ask = move || ask(admitted, &plugin, &engine, &namespace, &codes);
        self.pool.run(Priority::Interactive, &Owner::system(&name), ask).unwrap_or(Err(ResolveError::Busy))
    }

    /// Resolves codes on the current plugin thread, which must not wait for another one.
    ///
    /// # Errors
    /// As [`Self::resolve_codes`].
    pub fn resolve_codes_here(
        &self,
        installed: &InstalledPlugin,
        namespace: &Namespace,
        codes: &[Code],
    ) -> Result<Vec<CodeResolution>, ResolveError> {
        let plugin = installed.loaded();
        ask(Admitted::to(plugin)?, plugin, &self.engine, namespace, codes)
    }
}

/// The admission of one resolution.
struct Admitted {
    trial: Option<Trial>,
    _counted: Counted,
}

impl Admitted {
    fn to(plugin: &LoadedPlugin) -> Result<Self, ResolveError> {
        let trial = plugin.breaker.admit().map_err(|aside| {
            plugin.stats.record_rejected();
            ResolveError::suspended(aside)
        })?;
        let counted = plugin.stats.admit_request(plugin.limits().concurrent_requests).ok_or(ResolveError::Busy)?;
        Ok(Self { trial, _counted: counted })
    }
}

/// Resolves codes in a fresh instance. A fault that no caller can have caused counts against the pack, which repeated
/// faults suspend.
fn ask(
    admitted: Admitted,
    plugin: &LoadedPlugin,
    engine: &SandboxEngine,
    namespace: &Namespace,
    codes: &[Code],
) -> Result<Vec<CodeResolution>, ResolveError> {
    let pack = plugin.linked::<LinkedPack>().ok_or(ResolveError::NoPack)?;
    if let Some(trial) = admitted.trial {
        suspension::retry(trial, plugin, engine).map_err(ResolveError::suspended)?;
    }
    let mut sandbox =
        Sandbox::start(plugin.sandbox_of(engine), |store| pack.instantiate(store)).inspect_err(|fault| {
            if fault.kind.blame() == Blame::Guest {
                suspension::report_own_fault(plugin, fault);
            }
        })?;
    // A client may have written anything in place of a code.
    sandbox.silence();
    let mut fuel = plugin.limits().fuel_for(u32::try_from(codes.len()).unwrap_or(u32::MAX));
    let mut answers = Vec::with_capacity(codes.len());
    for code in codes {
        let before = sandbox.usage().fuel;
        let answer = sandbox.call(fuel, |store, pack| pack.resolve(store, namespace, code)).inspect_err(|fault| {
            if suspension::is_suspicious(fault.kind) {
                suspension::check(plugin, engine);
            }
        });
        answers.push(answer?);
        fuel = fuel.saturating_sub(sandbox.usage().fuel.saturating_sub(before));
    }
    Ok(answers)
}

impl ResolveError {
    fn suspended(Suspended { retry_after_s }: Suspended) -> Self {
        Self::Suspended { retry_after_s }
    }
}
