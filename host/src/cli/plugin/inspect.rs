//! `daftar plugin inspect`

use std::path::PathBuf;

use clap::Args;
use serde_json::{Value, json};

use crate::app::plugin_files::{self, Inspection, SignatureState};
use crate::cli::{CliError, GlobalArgs, output};

/// The file to inspect.
#[derive(Debug, Args)]
pub struct InspectArgs {
    /// The plugin, one `.wasm` component; its signature is read from `FILE.sig` if that is there
    file: PathBuf,
}

/// Prints the contents of the file. A file that the server would reject is printed too, then the command fails with the
/// reason.
pub fn run(global: &GlobalArgs, args: &InspectArgs) -> Result<(), CliError> {
    let config = global.config()?;
    let file = plugin_files::read(&args.file).map_err(CliError::input)?;
    let inspection = plugin_files::inspect(file, &config.plugins, global.pinned.clone()).map_err(CliError::failed)?;
    if global.json {
        output::json(&body(&inspection)?);
    } else {
        print(&inspection);
    }
    match inspection.refusal {
        None => Ok(()),
        Some(refusal) => Err(CliError::failed(refusal)),
    }
}

/// Returns the members of the manifest, and the other findings of the inspection.
fn body(inspection: &Inspection) -> Result<Value, CliError> {
    let Inspection { manifest, digest, size_bytes, compiled_bytes, compile_time, surface, signature, refusal } =
        inspection;
    let surface = surface.as_ref();
    let body = serde_json::to_value(manifest).map_err(CliError::failed)?;
    let found = json!({
        "digest": digest.to_string(),
        "size_bytes": size_bytes,
        "compiled_bytes": compiled_bytes,
        "compile_ms": compile_time.map(|time| time.as_millis()),
        "code_bytes": surface.map(|surface| surface.code_bytes),
        "functions": surface.map(|surface| surface.functions),
        "imports": surface.map(|surface| &surface.imports),
        "exports": surface.map(|surface| &surface.exports),
        "signature": {
            "state": signature.name(),
            "key_id": signature.key().map(|key| key.to_string()),
            "reason": reason(signature),
        },
        "refusal": refusal.as_ref().map(|refusal| json!({"step": refusal.step.name(), "reason": refusal.reason})),
    });
    Ok(output::joined(body, found))
}

fn reason(signature: &SignatureState) -> Option<&str> {
    match signature {
        SignatureState::Bad(reason) => Some(reason),
        SignatureState::UnknownKey(_) => Some("the key is not in `[plugins] trusted_keys`; name them with --config"),
        SignatureState::OutsideLimits(..) => Some("`[plugins] trusted_keys` limits the key to other plugins"),
        SignatureState::Signed(_) | SignatureState::Pinned | SignatureState::Unsigned => None,
    }
}

fn print(inspection: &Inspection) {
    let Inspection { manifest, digest, size_bytes, compiled_bytes, compile_time, surface, signature, refusal } =
        inspection;
    let row = |name: &str, value: &dyn std::fmt::Display| output::line(format_args!("{name:<18}{value}"));
    row("name", &manifest.name);
    row("version", &manifest.version);
    row("kind", &manifest.kind);
    row("interface", &manifest.interface);
    row("description", &shown(&manifest.description));
    row("licence", &shown(&manifest.licence));
    row("attribution", &shown(&manifest.attribution));
    row("source", &shown(manifest.source.as_deref().unwrap_or_default()));
    row("digest", digest);
    row("signature", &signature_text(signature));
    row("size", &format_args!("{size_bytes} bytes"));
    if let (Some(compiled_bytes), Some(compile_time)) = (compiled_bytes, compile_time) {
        row("compiled", &format_args!("{compiled_bytes} bytes in {} ms", compile_time.as_millis()));
    }
    if let Some(surface) = surface {
        row("code", &format_args!("{} bytes in {} functions", surface.code_bytes, surface.functions));
        row("imports", &names(&surface.imports));
        row("exports", &names(&surface.exports));
    }
    let limits = &manifest.limits;
    for (name, wanted) in [
        ("memory_bytes", &limits.memory_bytes),
        ("fuel", &limits.fuel),
        ("time_ms", &limits.time_ms),
        ("stack_bytes", &limits.stack_bytes),
        ("output_bytes", &limits.output_bytes),
    ] {
        if let Some(wanted) = wanted {
            row("wanted limit", &format_args!("{name} {}: {}", wanted.value, shown(&wanted.reason)));
        }
    }
    for field in &manifest.extension_fields {
        let repeated = if field.repeated { "[]" } else { "" };
        let vocabulary = field.vocabulary.as_deref().map(|vocabulary| format!(" of {}", shown(vocabulary)));
        let kind = serde_json::to_value(field.kind).ok();
        let kind = kind.as_ref().and_then(Value::as_str).unwrap_or_default();
        row("extension field", &format_args!("{}{repeated}: {kind}{}", field.path, vocabulary.unwrap_or_default()));
    }
    if let Some(refusal) = refusal {
        row("refused at", &refusal.step);
    }
}

fn names(names: &[String]) -> String {
    if names.is_empty() { "none".to_owned() } else { names.join(", ") }
}

fn signature_text(signature: &SignatureState) -> String {
    match signature {
        SignatureState::Signed(key) => format!("signed by the trusted key {key}"),
        SignatureState::Pinned => "pinned: this program was built with it".to_owned(),
        SignatureState::Unsigned => "unsigned".to_owned(),
        SignatureState::UnknownKey(key) => {
            format!("signed by the key {key}, which is not in `[plugins] trusted_keys` (name them with --config)")
        }
        SignatureState::OutsideLimits(key, limits) => {
            format!("signed by the key {key}, which `[plugins] trusted_keys` limits to {limits}")
        }
        SignatureState::Bad(reason) => format!("bad: {reason}"),
    }
}

/// Escapes an untrusted text for a terminal.
fn shown(text: &str) -> String {
    if text.is_empty() {
        return "-".to_owned();
    }
    text.chars().map(|character| if character.is_control() { ' ' } else { character }).collect()
}
