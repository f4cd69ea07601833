//! Codes of open vocabularies, put to the pack that brings them.
//!
//! **Invariant:** every question is asked of a fresh instance under the pack's limits, on a plugin thread; a question that ends in
//! a fault spoils no other.
//!
//! **Invariant:** all codes of one question share one budget of fuel, which grows with their number: a batch of some hundreds costs a
//! plugin thread a tenth of a second, whatever the pack does with them.

use super::fault::{FaultKind, PluginFault};
use super::install::LoadedPlugin;
use super::pool::Priority;
use super::sandbox::Sandbox;
use super::wit::Linked;
use super::{InstalledPlugin, PluginHost};
use crate::domain::code::{Code, Namespace};
use crate::domain::vocabulary::Concept;

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
        let (namespace, codes) = (namespace.clone(), codes.to_vec());
        let admitted = admit(&plugin)?;
        let ask = move || {
            let _admitted = admitted;
            ask(&plugin, &engine, &namespace, &codes)
        };
        self.pool.run(Priority::Interactive, ask).unwrap_or(Err(ResolveError::Busy))
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
        let _admitted = admit(plugin)?;
        ask(plugin, &self.engine, namespace, codes)
    }
}

fn admit(plugin: &LoadedPlugin) -> Result<super::stats::Counted, ResolveError> {
    plugin.stats().admit_request(plugin.limits().concurrent_requests).ok_or(ResolveError::Busy)
}

fn ask(
    plugin: &LoadedPlugin,
    engine: &super::engine::SandboxEngine,
    namespace: &Namespace,
    codes: &[Code],
) -> Result<Vec<CodeAnswer>, ResolveError> {
    let Linked::Pack(pack) = plugin.linked() else { return Err(ResolveError::NoPack) };
    let mut sandbox = Sandbox::start(plugin.sandbox_of(engine), |store| pack.instantiate(store))?;
    let mut fuel = plugin.limits().fuel_for(u32::try_from(codes.len()).unwrap_or(u32::MAX));
    let mut answers = Vec::with_capacity(codes.len());
    for code in codes {
        let before = sandbox.usage().fuel;
        answers.push(sandbox.call(fuel, |store, pack| pack.resolve(store, namespace, code))?);
        fuel = fuel.saturating_sub(sandbox.usage().fuel.saturating_sub(before));
    }
    Ok(answers)
}

impl ResolveError {
    /// The kind of fault, where a fault it was.
    #[must_use]
    pub fn fault(&self) -> Option<FaultKind> {
        match self {
            Self::Fault(fault) => Some(fault.kind),
            Self::Busy | Self::NoPack => None,
        }
    }
}
