//! The installed eligibility engines: the active one decides rules that name no engine, and each decides those that name
//! it.

use std::sync::Arc;

use super::{InstalledPlugin, PluginLibrary, PluginSet};
use crate::kind::eligibility_engine::rule::{EligibilityEngine, EngineError, RuleRequest, RuleTask};
use crate::pool::Priority;
use daftar_domain::context::Cancellation;
use daftar_domain::manifest::{PluginKind, PluginManifest, PluginName};

impl PluginSet {
    fn engines(&self) -> impl Iterator<Item = &InstalledPlugin> {
        self.iter().filter(|plugin| plugin.manifest().kind == PluginKind::EligibilityEngine)
    }

    /// The active eligibility engine: the one that the configuration names, else the only one.
    #[must_use]
    pub fn engine(&self) -> Option<&InstalledPlugin> {
        let mut engines = self.engines();
        if let Some(wanted) = &self.wanted_engine {
            return engines.find(|plugin| plugin.manifest().name == *wanted);
        }
        let first = engines.next();
        if engines.next().is_some() { None } else { first }
    }

    /// True if an engine of that name is the active one once it is installed.
    #[must_use]
    pub fn makes_active(&self, name: &PluginName) -> bool {
        match &self.wanted_engine {
            Some(wanted) => wanted == name,
            None => self.engines().all(|engine| engine.manifest().name == *name),
        }
    }

    /// The engine that is active because it is the only one, and would not be beside a plugin of that manifest.
    pub(super) fn engine_displaced_by(&self, manifest: &PluginManifest) -> Option<&PluginName> {
        let is_unnamed_engine = manifest.kind == PluginKind::EligibilityEngine && self.wanted_engine.is_none();
        let serving = &self.engine()?.manifest().name;
        (is_unnamed_engine && *serving != manifest.name).then_some(serving)
    }
}

impl PluginLibrary {
    /// The eligibility engine of that name.
    fn engine_named(&self, name: &str) -> Result<InstalledPlugin, EngineError> {
        let set = self.current();
        if let Some(engine) = set.engines().find(|plugin| plugin.manifest().name.as_str() == name) {
            return Ok(engine.clone());
        }
        let compiling = self.compiling();
        if let Some(engine) = compiling.iter().find(|engine| engine.as_str() == name) {
            return Err(EngineError::Compiling(engine.clone()));
        }
        let installed = set.engines().map(|plugin| plugin.manifest().name.clone()).chain(compiling);
        Err(EngineError::NotInstalled { engine: name.to_owned(), installed: installed.collect() })
    }
}

impl EligibilityEngine for PluginLibrary {
    fn submit(
        &self,
        priority: Priority,
        request: RuleRequest,
        cancellation: Cancellation,
        task: RuleTask,
    ) -> Result<(), EngineError> {
        let set = self.current();
        let engine = set.engine().ok_or_else(|| self.missing_engine())?;
        self.host.submit_rule(priority, engine.loaded(), request, cancellation, task)
    }

    fn background_threads(&self) -> usize {
        self.host.pool_usage().background_threads_max
    }

    fn engine_name(&self) -> Result<String, EngineError> {
        let set = self.current();
        set.engine().map(|engine| engine.loaded().reference()).ok_or_else(|| self.missing_engine())
    }

    fn named(self: Arc<Self>, name: &str) -> Result<Arc<dyn EligibilityEngine>, EngineError> {
        let name = self.engine_named(name)?.manifest().name.clone();
        Ok(Arc::new(NamedEngine { library: self, name }))
    }
}

/// An engine of a library by its name: another version of it may be installed at any time.
struct NamedEngine {
    library: Arc<PluginLibrary>,
    name: PluginName,
}

impl EligibilityEngine for NamedEngine {
    fn submit(
        &self,
        priority: Priority,
        request: RuleRequest,
        cancellation: Cancellation,
        task: RuleTask,
    ) -> Result<(), EngineError> {
        let engine = self.library.engine_named(self.name.as_str())?;
        self.library.host.submit_rule(priority, engine.loaded(), request, cancellation, task)
    }

    fn background_threads(&self) -> usize {
        self.library.background_threads()
    }

    fn engine_name(&self) -> Result<String, EngineError> {
        Ok(self.library.engine_named(self.name.as_str())?.loaded().reference())
    }

    fn named(self: Arc<Self>, name: &str) -> Result<Arc<dyn EligibilityEngine>, EngineError> {
        Arc::clone(&self.library).named(name)
    }
}
