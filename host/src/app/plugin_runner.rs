//! Runs the file of a plugin without a server: in the sandbox of the server, with its limits and its checks.

use std::collections::BTreeMap;
use std::sync::Arc;

use tempfile::TempDir;

use daftar_domain::code::{Code, Namespace};
use daftar_domain::config::plugin_limits::PluginLimitsConfig;
use daftar_domain::context::{Cancellation, Clock, SystemClock};
use daftar_domain::manifest::{PluginManifest, PluginName};
use daftar_sandbox::{
    CodeResolution, CompileIn, EngineError, InstalledPlugin, PluginHost, PluginHostSettings, PluginLibrary,
    PluginOffer, PluginUsage, Priority, RuleRequest, RuleSession, UnsignedPlugins,
};
use daftar_vocabulary::CheckedPack;

/// A plugin that passed every step of an installation, without a signature.
pub struct PluginRunner {
    host: Arc<PluginHost>,
    plugin: InstalledPlugin,
    /// Retains the lock of the folder until dropped.
    _library: PluginLibrary,
    _folder: TempDir,
}

impl PluginRunner {
    /// Runs the steps of an installation on a file, in a temporary folder, with the limits that the operator set for
    /// plugins. Every log line of the plugin is logged.
    ///
    /// # Errors
    /// The step that rejects it, with the reason.
    pub fn start(bytes: Vec<u8>, limits: BTreeMap<PluginName, PluginLimitsConfig>) -> Result<Self, String> {
        let folder = tempfile::tempdir().map_err(|error| format!("no temporary folder can be created: {error}"))?;
        let compile_in = CompileIn::this_program();
        let settings =
            PluginHostSettings { compile_in, limits, shows_all_lines: true, ..PluginHostSettings::default() };
        let host = Arc::new(PluginHost::start(settings).map_err(|error| error.to_string())?);
        let library = PluginLibrary::open(host.clone(), folder.path(), None).map_err(|error| error.to_string())?;
        let offer = PluginOffer { unsigned: UnsignedPlugins::Allowed, ..bytes.into() };
        let installed = library.install(offer, SystemClock.now(), &|_| Ok(()));
        let plugin = installed.map_err(|error| error.to_string())?;
        Ok(Self { host, plugin, _library: library, _folder: folder })
    }

    /// Returns its manifest.
    #[must_use]
    pub fn manifest(&self) -> &PluginManifest {
        self.plugin.manifest()
    }

    /// Returns the checked content of a pack.
    ///
    /// # Errors
    /// It is not a pack, the call failed, or the content is invalid: all problems.
    pub fn contents(&self) -> Result<CheckedPack, String> {
        let contents = self.host.load_pack(&self.plugin).map_err(|error| error.to_string())?;
        daftar_vocabulary::check(contents)
            .map_err(|problems| format!("the content of the pack is invalid:\n{problems}"))
    }

    /// Resolves codes of an open vocabulary, with one result per code.
    ///
    /// # Errors
    /// It is not a pack, or the call failed.
    pub fn resolve(&self, namespace: &Namespace, codes: &[Code]) -> Result<Vec<CodeResolution>, String> {
        self.host.resolve_codes(self.plugin.loaded(), namespace, codes).map_err(|error| error.to_string())
    }

    /// Returns its name, version and digest, as decisions name an engine.
    #[must_use]
    pub fn reference(&self) -> String {
        self.plugin.loaded().reference()
    }

    /// Runs a task with a compiled rule of an engine, on a thread of the sandbox, and waits for its value.
    ///
    /// # Errors
    /// It is not an engine, the rule is invalid, or the engine failed.
    pub fn with_rule<R: Send + 'static>(
        &self,
        rule: RuleRequest,
        task: impl FnOnce(&mut RuleSession) -> R + Send + 'static,
    ) -> Result<R, EngineError> {
        let (sender, receiver) = std::sync::mpsc::sync_channel(1);
        let task = move |session: Result<&mut RuleSession, EngineError>| drop(sender.send(session.map(task)));
        let (plugin, cancellation) = (self.plugin.loaded(), Cancellation::default());
        self.host.submit_rule(Priority::Interactive, plugin, rule, cancellation, Box::new(task))?;
        receiver.recv().map_err(|_| EngineError::Abandoned)?
    }

    /// Returns the resources used since the start.
    #[must_use]
    pub fn usage(&self) -> PluginUsage {
        self.plugin.loaded().usage()
    }

    /// Returns the fuel limit of a call with that number of codes or rows.
    #[must_use]
    pub fn fuel_for(&self, rows: u32) -> u64 {
        self.plugin.loaded().limits().fuel_for(rows)
    }
}
