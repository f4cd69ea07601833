//! `daftar plugin`

mod author;
mod inspect;
mod local;

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use clap::Subcommand;
use serde_json::json;

pub use self::author::say_signed;
use self::author::{KeygenArgs, SignArgs};
use self::inspect::InspectArgs;
use super::admin_client::{AdminClient, Payload, part, with_query};
use super::{CliError, GlobalArgs, output};
use crate::app::plugin_files;
use daftar_api_types::admin::plugin::{
    PluginBody, PluginsBody, ReviewBody, TouchedCodeBody, TouchedRecordBody, UnloadedPluginBody, UpgradeReportBody,
    UseBody,
};

/// Operations on plugins.
#[derive(Debug, Subcommand)]
pub enum PluginCommand {
    /// List installed plugins: version, digest, signer, usage and faults
    List,
    /// Show one plugin with its limits and usage
    Show {
        /// The plugin's name
        name: String,
    },
    /// Inspect a plugin's file without running it; needs no server
    Inspect(InspectArgs),
    /// Install a plugin, or replace the one of its name
    Install {
        /// The plugin, one `.wasm` component; its signature is read from `FILE.sig` if that is there
        file: PathBuf,
        /// Install without a trusted signature (recorded in the audit log)
        #[arg(long)]
        allow_unsigned: bool,
        /// Allow a downgrade from a newer installed version, or other content of the installed version
        #[arg(long)]
        allow_downgrade: bool,
        /// Also when it lacks extension fields or concept groups of the installed version
        #[arg(long)]
        accept_loss: bool,
    },
    /// Install again a version that the installed one replaced; the last three are retained
    Rollback {
        /// The plugin's name
        name: String,
        /// The version to go back to; the latest replaced one if not given
        #[arg(long, value_name = "VERSION")]
        to: Option<String>,
        /// Also when it lacks extension fields or concept groups of the installed version
        #[arg(long)]
        accept_loss: bool,
    },
    /// Preview the effect of installing a plugin on existing records; read-only
    Report {
        /// The plugin, one `.wasm` component
        file: PathBuf,
        /// Name up to so many of the records that hold codes which would be gone or no longer in use
        #[arg(long, value_name = "N", default_value_t = 0)]
        records: u32,
    },
    /// Compare the outcomes of all programs' rules with the active plugins and with a plugin's file, over a sample of
    /// the register; read-only
    Review {
        /// The plugin, one `.wasm` component
        file: PathBuf,
        /// Number of subjects, spread over the register and the programs
        #[arg(long, value_name = "N", default_value_t = 10_000)]
        decisions: u32,
    },
    /// Remove a plugin; it stays removed when the server starts again
    #[command(visible_alias = "delete")]
    Remove {
        /// The plugin's name
        name: String,
        /// Also when records use its codes or programs name it, or it is not active and they cannot be counted
        #[arg(long)]
        force: bool,
    },
    /// Create a folder for a new plugin; it is self-contained, and needs Rust to be built
    New(author::NewArgs),
    /// Test, compile and try out the plugin in a folder
    Build(author::BuildArgs),
    /// Call a function of a plugin's file without a server; prints the result, and on standard error the use of
    /// resources and the plugin's log lines
    Call(local::CallArgs),
    /// Run the cases of a plugin (`tests/*.toml` in its folder) without a server
    Test(local::TestArgs),
    /// Repeat a call of a plugin's file without a server, and print the distribution of its times
    Bench(local::BenchArgs),
    /// Make a plugin of a core module that was compiled already
    Wrap(author::WrapArgs),
    /// Generate a key pair for signing plugins
    Keygen(KeygenArgs),
    /// Sign a plugin's file; the signature is left beside it in `FILE.sig`
    Sign(SignArgs),
}

impl PluginCommand {
    /// True if the command runs a plugin's file without a server.
    pub fn is_local_run(&self) -> bool {
        matches!(self, Self::Call(_) | Self::Test(_) | Self::Bench(_))
    }

    /// True if the command writes files of a plugin's author, and none of a register.
    pub fn is_of_author(&self) -> bool {
        matches!(self, Self::New(_) | Self::Build(_) | Self::Wrap(_) | Self::Sign(_))
    }
}

/// Runs the command.
pub fn run(global: &GlobalArgs, command: PluginCommand) -> Result<(), CliError> {
    match command {
        PluginCommand::New(args) => author::new(global, args),
        PluginCommand::Build(args) => author::build(global, args),
        PluginCommand::Wrap(args) => author::wrap(global, args),
        PluginCommand::Call(args) => local::call(global, &args),
        PluginCommand::Test(args) => local::test(global, &args),
        PluginCommand::Bench(args) => local::bench(global, &args),
        PluginCommand::Inspect(args) => inspect::run(global, &args),
        PluginCommand::Keygen(args) => author::generate(global, &args),
        PluginCommand::Sign(args) => author::sign(global, &args),
        PluginCommand::List => {
            let plugins = AdminClient::connect(global)?.run(|admin| admin.get("/plugins"))?;
            output::body(global, plugins, |plugins: PluginsBody| print_list(&plugins))
        }
        PluginCommand::Show { name } => {
            let path = format!("/plugins/{}", part(&name));
            output::whole(global, &AdminClient::connect(global)?.run(|admin| admin.get(&path))?);
            Ok(())
        }
        PluginCommand::Report { file, records } => report(global, &file, records),
        PluginCommand::Review { file, decisions } => review(global, &file, decisions),
        PluginCommand::Install { file, allow_unsigned, allow_downgrade, accept_loss } => {
            let allowed = [
                ("allow_unsigned", allow_unsigned),
                ("allow_downgrade", allow_downgrade),
                ("accept_loss", accept_loss),
            ];
            let allowed = allowed.map(|(parameter, is_allowed)| (parameter, is_allowed.then_some("true")));
            install(global, &file, &with_query("/plugins", allowed))
        }
        PluginCommand::Rollback { name, to, accept_loss } => {
            let parameters = [("version", to.as_deref()), ("accept_loss", accept_loss.then_some("true"))];
            let path = with_query(&format!("/plugins/{}/rollback", part(&name)), parameters);
            let installed = AdminClient::connect(global)?.run(|admin| admin.call("POST", &path, Payload::default()))?;
            output::body(global, installed, |PluginBody { name, version, digest, signer, .. }| {
                output::line(format_args!("rolled back to {name} {version} ({digest}, {signer})"));
            })
        }
        PluginCommand::Remove { name, force } => {
            let path = with_query(&format!("/plugins/{}", part(&name)), [("force", force.then_some("true"))]);
            AdminClient::connect(global)?.run(|admin| admin.call("DELETE", &path, Payload::default()))?;
            output::done(global, &json!({"name": name, "removed": true}), format_args!("removed {name}"));
            Ok(())
        }
    }
}

fn install(global: &GlobalArgs, file: &Path, path: &str) -> Result<(), CliError> {
    let payload = Payload::plugin(plugin_files::read(file).map_err(CliError::input)?);
    let installed = AdminClient::connect_or_begin(global, true)?.run(|admin| admin.call("POST", path, payload))?;
    output::body(global, installed, |PluginBody { name, version, digest, signer, .. }| {
        output::line(format_args!("installed {name} {version} ({digest}, {signer})"));
    })
}

/// Printed length of a digest: `sha256:` and twelve digits.
const DIGEST_CHARACTERS: usize = 19;

const HEADINGS: [&str; 9] =
    ["name", "version", "kind", "digest", "signer", "state", "calls", "faults", "memory, fuel, time"];

/// Prints the installed plugins by name, then the reasons for inactive plugins.
fn print_list(plugins: &PluginsBody) {
    let PluginsBody { data, unloaded } = plugins;
    let reasons: BTreeMap<&str, &str> =
        unloaded.iter().map(|plugin| (plugin.name.as_str(), plugin.reason.as_str())).collect();
    // A plugin that is loaded but not active is in both lists; the list of loaded plugins has more details.
    let mut rows: BTreeMap<&str, Vec<String>> =
        unloaded.iter().map(|plugin| (plugin.name.as_str(), unloaded_row(plugin))).collect();
    rows.extend(
        data.iter()
            .map(|plugin| (plugin.name.as_str(), plugin_row(plugin, reasons.contains_key(plugin.name.as_str())))),
    );
    output::table(&HEADINGS, &rows.into_values().collect::<Vec<_>>());
    for (name, reason) in reasons {
        output::line(format_args!("{name} is not active: {reason}"));
    }
}

fn plugin_row(plugin: &PluginBody, is_inactive: bool) -> Vec<String> {
    let state = match plugin.breaker.state.as_str() {
        _ if is_inactive => "not active",
        "open" => "suspended",
        "half_open" => "being tried",
        _ => "active",
    };
    // The highest use of memory, fuel and time.
    let share = |of: &UseBody| of.peak / of.limit.max(1.0);
    let shares = [share(&plugin.r#use.memory_bytes), plugin.r#use.fuel.peak_share, share(&plugin.r#use.call_ms)];
    vec![
        plugin.name.clone(),
        plugin.version.clone(),
        plugin.kind.clone(),
        short(&plugin.digest),
        plugin.signer.clone(),
        state.to_owned(),
        plugin.calls.to_string(),
        plugin.faults.to_string(),
        shares.map(|share| format!("{:.0} %", 100.0 * share)).join(", "),
    ]
}

fn unloaded_row(plugin: &UnloadedPluginBody) -> Vec<String> {
    let text = |text: &Option<String>| text.clone().unwrap_or_default();
    vec![
        plugin.name.clone(),
        text(&plugin.version),
        text(&plugin.kind),
        short(&text(&plugin.digest)),
        text(&plugin.signer),
        "not active".to_owned(),
        String::new(),
        String::new(),
        String::new(),
    ]
}

fn short(digest: &str) -> String {
    digest.chars().take(DIGEST_CHARACTERS).collect()
}

/// Prints the effect of installing a plugin on existing records; read-only.
fn report(global: &GlobalArgs, file: &Path, records: u32) -> Result<(), CliError> {
    let payload = Payload::plugin(plugin_files::read(file).map_err(CliError::input)?);
    let admin = AdminClient::connect(global)?;
    let report = admin.run(|admin| admin.call("POST", &format!("/plugin-reports?records={records}"), payload))?;
    output::body(global, report, |report: UpgradeReportBody| print_report(&report))
}

fn review(global: &GlobalArgs, file: &Path, decisions: u32) -> Result<(), CliError> {
    let payload = Payload::plugin(plugin_files::read(file).map_err(CliError::input)?);
    let path = format!("/plugin-reviews?decisions={decisions}");
    let review = AdminClient::connect(global)?.run(|admin| admin.call("POST", &path, payload))?;
    output::body(global, review, |review: ReviewBody| print_review(&review))
}

fn print_review(review: &ReviewBody) {
    let from = review.from.as_deref().unwrap_or("nothing");
    output::line(format_args!("{}: from {from} to {}; nothing was changed", review.plugin, review.to));
    if let Some(reason) = &review.refused {
        output::line(format_args!("it would be refused: {reason}"));
        return;
    }
    for program in &review.programs {
        let changed: u64 = program.changes.iter().map(|change| change.subjects).sum();
        output::line(format_args!("{}: {} subjects compared, {changed} changed", program.program, program.compared));
        if let Some(problem) = &program.problem {
            output::line(format_args!("  {problem}"));
        }
        for change in &program.changes {
            let (before, after) = (&change.before, &change.after);
            let examples = change.examples.join(", ");
            output::line(format_args!("  {before} to {after}: {}, such as {examples}", change.subjects));
        }
    }
    if review.programs.is_empty() {
        output::line("no program has a rule");
    }
}

fn print_report(report: &UpgradeReportBody) {
    let or_none = |version: &Option<String>| version.clone().unwrap_or_else(|| "nothing".to_owned());
    let (plugin, from, to) = (&report.plugin, or_none(&report.from), &report.to);
    output::line(format_args!("{plugin}: from {from} to {to}; nothing was changed"));
    if let Some(reason) = &report.refused {
        output::line(format_args!("it would be refused: {reason}"));
    }
    for (what, gone) in
        [("extension fields", &report.removed_fields), ("concept groups", &report.removed_concept_groups)]
    {
        if !gone.is_empty() {
            output::line(format_args!("{what} that it lacks: {}", gone.join(", ")));
        }
    }
    for rule in &report.broken_rules {
        output::line(format_args!("the rule of {} would be invalid: {}", rule.program, rule.message));
    }
    if !report.unresolved_codes.is_empty() {
        output::line("codes in records that it does not resolve, which would be shown without displays:");
        let rows: Vec<Vec<String>> = report
            .unresolved_codes
            .iter()
            .map(|code| vec![code.uri.clone(), code.records.to_string(), code.reason.clone()])
            .collect();
        output::table(&["code", "records", "reason"], &rows);
    }
    for vocabulary in &report.vocabularies {
        output::line(format_args!(
            "{} from {} to {}: {} codes new, {} gone, {} retired, {} relabelled; {} records hold a code that is gone or retired",
            vocabulary.namespace,
            or_none(&vocabulary.from),
            or_none(&vocabulary.to),
            vocabulary.codes_added,
            vocabulary.removed_codes,
            vocabulary.codes_retired,
            vocabulary.codes_relabelled,
            vocabulary.records_touched,
        ));
        if !vocabulary.unused_codes.is_empty() {
            output::line(format_args!("gone or retired, in no record: {}", vocabulary.unused_codes.join(", ")));
        }
        if vocabulary.codes.is_empty() {
            continue;
        }
        let rows: Vec<Vec<String>> = vocabulary.codes.iter().map(code_row).collect();
        output::table(&["code", "display", "change", "records", "successor or new name"], &rows);
        if vocabulary.codes_not_named > 0 {
            output::line(format_args!("and {} more codes", vocabulary.codes_not_named));
        }
    }
    let records: Vec<Vec<String>> = report.records.iter().flat_map(record_rows).collect();
    if !records.is_empty() {
        output::table(&["record", "field", "code"], &records);
    }
}

fn code_row(code: &TouchedCodeBody) -> Vec<String> {
    let successor = code.successor.as_ref().map(|successor| successor.uri.clone());
    let becomes = code.new_display.clone().or(successor).unwrap_or_default();
    vec![code.uri.clone(), code.display.clone(), code.change.clone(), code.records.to_string(), becomes]
}

fn record_rows(record: &TouchedRecordBody) -> Vec<Vec<String>> {
    record.codes.iter().map(|code| vec![record.reference.clone(), code.field.clone(), code.uri.clone()]).collect()
}
