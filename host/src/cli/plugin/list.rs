//! `daftar plugin list`, for people.

use std::collections::BTreeMap;

use crate::cli::output;
use daftar_api_types::admin::plugin::{PluginBody, PluginsBody, UnloadedPluginBody, UseBody};

/// How much of a digest is shown: `sha256:` and twelve digits.
const DIGEST_CHARACTERS: usize = 19;

const HEADINGS: [&str; 9] =
    ["name", "version", "kind", "digest", "signer", "state", "calls", "faults", "memory, fuel, time"];

/// Prints the installed plugins by name, then why some of them are not active.
pub fn print(plugins: &PluginsBody) {
    let PluginsBody { data, unloaded } = plugins;
    let reasons: BTreeMap<&str, &str> =
        unloaded.iter().map(|plugin| (plugin.name.as_str(), plugin.reason.as_str())).collect();
    // A plugin that is loaded and not active is in both lists; the one of the loaded ones says more.
    let mut rows: BTreeMap<&str, Vec<String>> =
        unloaded.iter().map(|plugin| (plugin.name.as_str(), unloaded_row(plugin))).collect();
    rows.extend(
        data.iter().map(|plugin| (plugin.name.as_str(), row(plugin, reasons.contains_key(plugin.name.as_str())))),
    );
    output::table(&HEADINGS, &rows.into_values().collect::<Vec<_>>());
    for (name, reason) in reasons {
        output::line(format_args!("{name} is not in force: {reason}"));
    }
}

fn row(plugin: &PluginBody, is_inactive: bool) -> Vec<String> {
    let state = match plugin.breaker.state.as_str() {
        _ if is_inactive => "not in force",
        "open" => "set aside",
        "half_open" => "being tried",
        _ => "in force",
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
        "not in force".to_owned(),
        String::new(),
        String::new(),
        String::new(),
    ]
}

fn short(digest: &str) -> String {
    digest.chars().take(DIGEST_CHARACTERS).collect()
}
