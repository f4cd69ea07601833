//! `daftar plugin new`, `build` and `wrap`: for authors of plugins.

use std::path::{Path, PathBuf};

use clap::Args;
use serde_json::json;

use crate::app::{author, packs};
use crate::cli::{CliError, GlobalArgs, output};
use daftar_domain::manifest::PluginName;

/// What a new plugin is.
#[derive(Debug, Args)]
pub struct NewArgs {
    /// `vocabulary-pack` or `eligibility-engine`
    #[arg(long, value_name = "KIND")]
    kind: String,
    /// The plugin's name: lower-case letters, digits and hyphens
    name: String,
    /// Where the folder is made; beside the name where absent
    #[arg(long, value_name = "DIR")]
    dir: Option<PathBuf>,
}

/// What is built.
#[derive(Debug, Args)]
pub struct BuildArgs {
    /// Folder with `plugin.toml` and the sources
    dir: PathBuf,
    /// Where the plugin is written; `NAME.wasm` in the folder where absent
    #[arg(short, long, value_name = "FILE")]
    output: Option<PathBuf>,
    /// Do not run the plugin's own tests
    #[arg(long)]
    skip_tests: bool,
}

/// What is wrapped.
#[derive(Debug, Args)]
pub struct WrapArgs {
    /// Core module, compiled against the plugin interface
    module: PathBuf,
    /// What the plugin says about itself, as TOML
    #[arg(long, value_name = "FILE")]
    manifest: PathBuf,
    /// Where the plugin is written
    #[arg(short, long, value_name = "FILE")]
    output: PathBuf,
}

/// Makes a folder to begin with.
pub fn new(global: &GlobalArgs, args: NewArgs) -> Result<(), CliError> {
    let kind = author::kind_of(&args.kind).map_err(CliError::usage)?;
    let name = PluginName::parse(&args.name).map_err(CliError::usage)?;
    let folder = args.dir.unwrap_or_else(|| PathBuf::from(name.as_str()));
    author::write(&folder, kind, &name).map_err(CliError::failed)?;
    if global.json {
        output::json(&json!({"folder": folder, "name": name.as_str(), "kind": kind.as_str()}));
    } else {
        output::line(format_args!("made {0}; build and test it with\n    daftar plugin build {0}", folder.display()));
    }
    Ok(())
}

/// Tests, compiles and tries out a plugin.
pub fn build(global: &GlobalArgs, args: BuildArgs) -> Result<(), CliError> {
    readable(&args.dir.join("plugin.toml"))?;
    let built = author::build(&args.dir, !args.skip_tests).map_err(CliError::failed)?;
    let name = built.manifest.name.as_str();
    let file = args.output.unwrap_or_else(|| args.dir.join(format!("{name}.wasm")));
    written(&file, &built.bytes)?;
    if global.json {
        output::json(&json!({"file": file, "bytes": built.bytes.len(), "name": name,
            "version": built.manifest.version.to_string(), "codes": built.codes}));
        return Ok(());
    }
    let codes = built.codes.map(|codes| format!(", {codes} codes listed")).unwrap_or_default();
    let version = &built.manifest.version;
    output::line(format_args!("wrote {} ({name} {version}, {} bytes{codes})", file.display(), built.bytes.len()));
    Ok(())
}

/// Wraps a core module.
pub fn wrap(global: &GlobalArgs, args: WrapArgs) -> Result<(), CliError> {
    readable(&args.manifest)?;
    readable(&args.module)?;
    let bytes = author::wrap(&args.module, &args.manifest).map_err(CliError::failed)?;
    written(&args.output, &bytes)?;
    if global.json {
        output::json(&json!({"file": args.output, "bytes": bytes.len()}));
    } else {
        output::line(format_args!("wrote {} ({} bytes)", args.output.display(), bytes.len()));
    }
    Ok(())
}

/// A file that is not there is told before anything is done.
fn readable(file: &Path) -> Result<(), CliError> {
    std::fs::metadata(file).map(|_| ()).map_err(|error| CliError::cannot_read(file, &error))
}

fn written(file: &Path, bytes: &[u8]) -> Result<(), CliError> {
    packs::write_file(file, bytes).map_err(|error| CliError::cannot_write(file, &error))
}
