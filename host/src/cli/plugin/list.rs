//! `daftar plugin list`, for people.

use std::collections::BTreeMap;

use serde_json::Value;

use crate::cli::output;

/// How much of a digest is shown: `sha256:` and twelve digits.
const DIGEST_CHARACTERS: usize = 19;

const HEADINGS: [&str; 9] =
    ["name", "version", "kind", "digest", "signer", "state", "calls", "faults", "memory, fuel, time"];

/// Prints what is installed, by name, then why some of it is not in force.
pub fn print(plugins: &Value) {
    let members = |name| plugins.get(name).and_then(Value::as_array).map(Vec::as_slice).unwrap_or_default();
    let (loaded, unloaded) = (members("data"), members("unloaded"));
    let name_of = |plugin: &Value| output::text_of(plugin, "name").to_owned();
    let reasons: BTreeMap<String, &str> =
        unloaded.iter().map(|plugin| (name_of(plugin), output::text_of(plugin, "reason"))).collect();
    // What is loaded and not in force is in both lists; the first one says more.
    let all: BTreeMap<String, &Value> = unloaded.iter().chain(loaded).map(|plugin| (name_of(plugin), plugin)).collect();
    let rows: Vec<Vec<String>> = all
        .iter()
        .map(|(name, plugin)| {
            let state = if reasons.contains_key(name) { "not in force" } else { state(plugin) };
            row(plugin, state)
        })
        .collect();
    output::table(&HEADINGS, &rows);
    for (name, reason) in reasons {
        output::line(format_args!("{name} is not in force: {reason}"));
    }
}

/// Whether what is installed is used, or set aside because it keeps failing.
fn state(plugin: &Value) -> &'static str {
    match plugin.pointer("/breaker/state").and_then(Value::as_str) {
        Some("open") => "set aside",
        Some("half_open") => "being tried",
        _ => "in force",
    }
}

/// The most that was used of a plugin's memory, fuel and time; nothing of one that is not loaded.
fn peaks(plugin: &Value) -> String {
    if plugin.get("use").is_none() {
        return String::new();
    }
    let number = |path: &str| plugin.pointer(path).and_then(Value::as_f64).unwrap_or_default();
    let share = |limit: &str| number(&format!("/use/{limit}/peak")) / number(&format!("/use/{limit}/limit")).max(1.0);
    let shares = [share("memory_bytes"), number("/use/fuel/peak_share"), share("call_ms")];
    shares.map(|share| format!("{:.0} %", 100.0 * share)).join(", ")
}

fn row(plugin: &Value, state: &str) -> Vec<String> {
    let text = |name| output::text_of(plugin, name).to_owned();
    let count = |name| plugin.get(name).and_then(Value::as_u64).map(|count| count.to_string()).unwrap_or_default();
    let digest: String = text("digest").chars().take(DIGEST_CHARACTERS).collect();
    vec![
        text("name"),
        text("version"),
        text("kind"),
        digest,
        text("signer"),
        state.to_owned(),
        count("calls"),
        count("faults"),
        peaks(plugin),
    ]
}
