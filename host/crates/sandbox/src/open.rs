//! Codes of open vocabularies, put to the pack that brings them.
//!
//! **Invariant:** every question is asked of a fresh instance under the pack's limits, on a plugin thread; a question that ends in
//! a fault spoils no other.
//!
//! **Invariant:** all codes of one question share one budget of fuel, which grows with their number: a batch of some hundreds costs a
//! plugin thread a tenth of a second, whatever the pack does with them.

use super::breaker::{Admission, SetAside};
use super::engine::SandboxEngine;
use super::fault::{Blame, FaultKind, PluginFault};
use super::install::LoadedPlugin;
use super::pool::{Owner, Priority};
use super::sandbox::Sandbox;
use super::stats::Counted;
use super::wit::Linked;
use super::{InstalledPlugin, PluginHost};
use super::{contents, rule};
use daftar_domain::code::{Code, Namespace};
use daftar_domain::vocabulary::Concept;

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
    admission: Admission,
    _counted: Counted,
}

impl Admitted {
    fn to(plugin: &LoadedPlugin) -> Result<Self, ResolveError> {
        let admission = plugin.breaker.admit().map_err(|aside| {
            plugin.stats.record_rejected();
            ResolveError::set_aside(aside)
        })?;
        let counted = plugin.stats.admit_request(plugin.limits().concurrent_requests).ok_or(ResolveError::Busy)?;
        Ok(Self { admission, _counted: counted })
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
    let try_out = || contents::describe(plugin, pack, engine).map(drop);
    if let Admission::Trial(trial) = admitted.admission {
        rule::tried_again(trial, plugin, try_out).map_err(ResolveError::set_aside)?;
    }
    let mut sandbox =
        Sandbox::start(plugin.sandbox_of(engine), |store| pack.instantiate(store)).inspect_err(|fault| {
            if fault.blame == Blame::Guest {
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

    /// The kind of fault, where a fault it was.
    #[must_use]
    pub fn fault(&self) -> Option<FaultKind> {
        match self {
            Self::Fault(fault) => Some(fault.kind),
            Self::Busy | Self::NoPack | Self::SetAside { .. } => None,
        }
    }
}
