//! A register that is opened in this process, without a listener, for in-process benchmarks.

use daftar::app::{App, AppOptions, CompileIn};
use daftar::config::Config;
use daftar::domain::client::{ClientName, RateLimit};
use daftar::domain::field::FieldSet;
use daftar::domain::grant::Grants;
use daftar::domain::scope::Scope;
use daftar::plugin::CompileBounds;
use daftar::service::client::ClientChanges;
use secrecy::ExposeSecret;
use tokio::runtime::Runtime;

use crate::server::{artifacts, program};
use crate::setup::Register;

/// An open register and the runtime of its tasks.
pub struct Opened {
    app: App,
    /// The runtime.
    pub runtime: Runtime,
}

impl Opened {
    /// The register.
    pub fn state(&self) -> &App {
        &self.app
    }
}

impl Drop for Opened {
    fn drop(&mut self) {
        self.app.close();
    }
}

/// Opens the register in a folder with the default plugins, and with the configuration changes of `change`.
pub fn open(register: &Register, change: impl FnOnce(&mut Config)) -> Result<Opened, String> {
    let mut config = Config::default();
    // This program has no built-in digests of plugins.
    config.plugins.allow_unsigned = true;
    change(&mut config);
    let compile_in = CompileIn::Child { program: program()?, bounds: CompileBounds::default() };
    let plugins_dir = Some(artifacts()?.join("plugins"));
    let options = AppOptions { plugins_dir, compile_in, ..AppOptions::new(register.folder.join("data")) };
    let runtime =
        tokio::runtime::Builder::new_multi_thread().enable_all().build().map_err(|error| error.to_string())?;
    let app = runtime.block_on(App::open(config, options)).map_err(|error| error.to_string())?;
    Ok(Opened { app, runtime })
}

/// Returns a token of a new client with all permissions that the benchmarks need.
pub fn token_of(opened: &Opened) -> Result<String, String> {
    let app = opened.state();
    let mut grants = Grants::default();
    for scope in ["individual:all", "group:all", "eligibility:all", "vocabulary:read"] {
        grants.insert(Scope::parse(scope).map_err(|error| error.to_string())?, FieldSet::All);
    }
    let limit = RateLimit::parse(daftar::domain::client::RATE_LIMIT_MAX).map_err(|error| error.to_string())?;
    let new = (ClientName::parse("bench").map_err(|error| error.to_string())?, grants.clone());
    let limit = Some(Some(limit));
    let settings =
        ClientChanges { rate_limit_per_minute: limit, rate_limit_per_day: limit, ..ClientChanges::default() };
    let created = opened.runtime.block_on(app.clients.create(&app.system_context(), new, settings));
    let (client, _) = created.map_err(|error| error.to_string())?;
    let (id, now) = (app.ids.next_id(), app.clock.now());
    let issued =
        daftar::auth::token::issue(&app.token_keys.load(), &app.config.token, &client.id, &grants.scopes(), id, now);
    issued.map(|token| token.text.expose_secret().to_owned()).map_err(|error| error.to_string())
}
