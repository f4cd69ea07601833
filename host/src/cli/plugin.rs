//! `daftar plugin`

mod author;
mod inspect;
mod keys;
mod list;
mod upgrade_report;

use std::path::{Path, PathBuf};

use clap::Subcommand;
use serde_json::json;

use self::inspect::InspectArgs;
pub use self::keys::say_signed;
use self::keys::{KeygenArgs, SignArgs};
use super::admin_client::{AdminClient, Payload, part};
use super::{CliError, GlobalArgs, output};
use crate::app::plugin_files;
use daftar_api_types::admin::plugin::{PluginBody, PluginsBody};

/// What is done with plugins.
#[derive(Debug, Subcommand)]
pub enum PluginCommand {
    /// List what is installed: version, digest, who vouched for it, its use and its faults
    List,
    /// Show all that is known of one plugin, its limits and what was used of them included
    Show {
        /// The plugin's name
        name: String,
    },
    /// Tell what is in a plugin's file without running anything of it; needs no server
    Inspect(InspectArgs),
    /// Install a plugin, or replace the one of its name
    Install {
        /// The plugin, one `.wasm` component; its signature is read from `FILE.sig` if that is there
        file: PathBuf,
        /// Also when nobody who is trusted vouches for it; the audit log says so
        #[arg(long)]
        allow_unsigned: bool,
        /// Also when a newer version of it is installed
        #[arg(long)]
        allow_downgrade: bool,
    },
    /// Say what installing a plugin would mean for the records there are; changes nothing
    Report {
        /// The plugin, one `.wasm` component
        file: PathBuf,
        /// Name up to so many of the records that hold codes which would be gone or no longer in use
        #[arg(long, value_name = "N", default_value_t = 0)]
        records: u32,
    },
    /// Remove a plugin; it stays removed when the server starts again
    Remove {
        /// The plugin's name
        name: String,
        /// Also when records use its codes
        #[arg(long)]
        force: bool,
    },
    /// Make a folder to begin a plugin with; it stands alone, and needs Rust to be built
    New(author::NewArgs),
    /// Test, compile and try out the plugin in a folder
    Build(author::BuildArgs),
    /// Make a plugin of a core module that was compiled already
    Wrap(author::WrapArgs),
    /// Make a pair of keys for signing plugins
    Keygen(KeygenArgs),
    /// Sign a plugin's file; the signature is left beside it in `FILE.sig`
    Sign(SignArgs),
}

/// Runs the command.
pub fn run(global: &GlobalArgs, command: PluginCommand) -> Result<(), CliError> {
    match command {
        PluginCommand::New(args) => author::new(global, args),
        PluginCommand::Build(args) => author::build(global, args),
        PluginCommand::Wrap(args) => author::wrap(global, args),
        PluginCommand::Inspect(args) => inspect::run(global, &args),
        PluginCommand::Keygen(args) => keys::generate(global, &args),
        PluginCommand::Sign(args) => keys::sign(global, &args),
        PluginCommand::List => {
            let plugins = AdminClient::connect(global)?.run(|admin| admin.get("/plugins"))?;
            output::body(global, plugins, |plugins: PluginsBody| list::print(&plugins))
        }
        PluginCommand::Show { name } => {
            let path = format!("/plugins/{}", part(&name));
            output::whole(global, &AdminClient::connect(global)?.run(|admin| admin.get(&path))?);
            Ok(())
        }
        PluginCommand::Report { file, records } => upgrade_report::run(global, &file, records),
        PluginCommand::Install { file, allow_unsigned, allow_downgrade } => {
            install(global, &file, [("allow_unsigned", allow_unsigned), ("allow_downgrade", allow_downgrade)])
        }
        PluginCommand::Remove { name, force } => {
            let query = if force { "?force=true" } else { "" };
            let path = format!("/plugins/{}{query}", part(&name));
            AdminClient::connect(global)?.run(|admin| admin.call("DELETE", &path, Payload::Empty))?;
            if global.json {
                output::json(&json!({"name": name, "removed": true}))
            } else {
                output::line(format_args!("removed {name}"))
            }
            Ok(())
        }
    }
}

fn install(global: &GlobalArgs, file: &Path, allowed: [(&str, bool); 2]) -> Result<(), CliError> {
    let plugin = plugin_files::read(file).map_err(CliError::input)?;
    let allowed = allowed.into_iter().filter(|(_, is_allowed)| *is_allowed);
    let query: Vec<String> = allowed.map(|(parameter, _)| format!("{parameter}=true")).collect();
    let path = if query.is_empty() { "/plugins".to_owned() } else { format!("/plugins?{}", query.join("&")) };
    let payload = Payload::Plugin { bytes: plugin.bytes, signature: plugin.signature };
    let installed = AdminClient::connect_or_begin(global)?.run(|admin| admin.call("POST", &path, payload))?;
    output::body(global, installed, |PluginBody { name, version, digest, signer, .. }| {
        output::line(format_args!("installed {name} {version} ({digest}, {signer})"));
    })
}
