//! Runs the file of a plugin without a server: in the sandbox of the server, with its limits and its checks.

use std::collections::BTreeMap;
use std::sync::Arc;

use tempfile::TempDir;

use daftar_domain::code::{Code, Namespace};
use daftar_domain::config::plugin_limits::PluginLimitsConfig;
use daftar_domain::context::{Clock, SystemClock};
use daftar_domain::manifest::{PluginManifest, PluginName};
use daftar_sandbox::{
    CodeResolution, CompileIn, InstalledPlugin, PluginHost, PluginHostSettings, PluginLibrary, PluginOffer,
    PluginUsage, UnsignedPlugins,
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
