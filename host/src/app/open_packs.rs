//! Puts codes of open vocabularies to the installed packs.

use std::sync::Arc;

use daftar_domain::code::{Code, Namespace};
use daftar_domain::manifest::PluginName;
use daftar_sandbox::{PluginHost, PluginLibrary};
use daftar_vocabulary::{CallingThread, OpenAnswer, OpenPacks, PackOrigin};

/// Asks the installed pack that a vocabulary came from, and no other version of it.
pub struct InstalledPacks {
    /// Runs it.
    pub host: Arc<PluginHost>,
    /// Has it.
    pub library: Arc<PluginLibrary>,
}

impl OpenPacks for InstalledPacks {
    fn resolve(
        &self,
        pack: &PackOrigin,
        namespace: &Namespace,
        codes: &[Code],
        thread: CallingThread,
    ) -> Result<Vec<OpenAnswer>, String> {
        let name = PluginName::parse(&pack.plugin).map_err(|error| error.to_string())?;
        let current = self.library.current();
        let installed = current.get(&name).filter(|installed| installed.loaded().digest().to_string() == pack.digest);
        let installed = installed.ok_or_else(|| format!("`{name}` was replaced or removed meanwhile"))?;
        let answers = match thread {
            CallingThread::MayWait => self.host.resolve_codes(installed, namespace, codes),
            CallingThread::Sandbox => self.host.resolve_codes_here(installed, namespace, codes),
        };
        answers.map_err(|error| error.to_string())
    }
}
