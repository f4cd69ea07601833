//! `daftar plugin new`, `build` and `wrap`: for authors of plugins.

use std::path::{Path, PathBuf};

use clap::Args;
use clap::builder::{PossibleValuesParser, TypedValueParser};
use serde_json::json;

use crate::app::packs;
use crate::app::plugin_files::{self, ExportName, PluginSignature, PrivateKey, SIGNATURE_SUFFIX};
use crate::cli::{CliError, GlobalArgs, output};
use daftar_domain::manifest::{PluginKind, PluginName};
use daftar_pack_tools::scaffold;

/// Options of a new plugin.
#[derive(Debug, Args)]
pub struct NewArgs {
    /// Kind of the plugin
    #[arg(long, value_name = "KIND", value_parser = kind_parser())]
    kind: PluginKind,
    /// The plugin's name: lower-case letters, digits and hyphens
    name: String,
    /// Folder to create; named after the plugin if absent
    #[arg(long, value_name = "DIR")]
    dir: Option<PathBuf>,
}

/// The build.
#[derive(Debug, Args)]
pub struct BuildArgs {
    /// Folder with `plugin.toml` and the sources
    dir: PathBuf,
    /// File to write; `NAME.wasm` in the folder if absent
    #[arg(short, long, value_name = "FILE")]
    output: Option<PathBuf>,
    /// Do not run the plugin's own tests
    #[arg(long)]
    skip_tests: bool,
}

/// Options of a wrap.
#[derive(Debug, Args)]
pub struct WrapArgs {
    /// Core module or component, compiled against the plugin interface
    module: PathBuf,
    /// Name that an export of the module gets, for compilers that cannot write `#`, such as
    /// `describe=daftar:plugin/vocabulary@0.1.0#describe`; repeatable
    #[arg(long = "export", value_name = "FROM=TO")]
    exports: Vec<ExportName>,
    /// Manifest of the plugin, as TOML
    #[arg(long, value_name = "FILE")]
    manifest: PathBuf,
    /// File to write
    #[arg(short, long, value_name = "FILE")]
    output: PathBuf,
}

fn kind_parser() -> impl TypedValueParser<Value = PluginKind> {
    PossibleValuesParser::new(PluginKind::NAMES).try_map(|name| PluginKind::parse(&name).ok_or("no kind of plugin"))
}

/// Creates a folder for a new plugin.
pub fn new(global: &GlobalArgs, args: NewArgs) -> Result<(), CliError> {
    let name = PluginName::parse(&args.name).map_err(CliError::usage)?;
    let folder = args.dir.unwrap_or_else(|| PathBuf::from(name.as_str()));
    scaffold::write(&folder, args.kind, &name).map_err(CliError::failed)?;
    let words = format_args!("made {0}; build and test it with\n    daftar plugin build {0}", folder.display());
    output::done(global, &json!({"folder": folder, "name": name.as_str(), "kind": args.kind.name()}), words);
    Ok(())
}

/// Tests, compiles and trial-runs a plugin.
pub fn build(global: &GlobalArgs, args: BuildArgs) -> Result<(), CliError> {
    readable(&args.dir.join("plugin.toml"))?;
    let built = plugin_files::build(&args.dir, !args.skip_tests).map_err(CliError::failed)?;
    let name = built.manifest.name.as_str();
    let file = args.output.unwrap_or_else(|| args.dir.join(format!("{name}.wasm")));
    written(&file, &built.bytes)?;
    let codes = built.codes.map(|codes| format!(", {codes} codes listed")).unwrap_or_default();
    let (version, bytes) = (built.manifest.version.to_string(), built.bytes.len());
    let body = json!({"file": file, "bytes": bytes, "name": name, "version": version, "codes": built.codes});
    let words = format_args!("wrote {} ({name} {version}, {bytes} bytes{codes})", file.display());
    output::done(global, &body, words);
    Ok(())
}

/// Wraps a core module or a component.
pub fn wrap(global: &GlobalArgs, args: WrapArgs) -> Result<(), CliError> {
    readable(&args.manifest)?;
    readable(&args.module)?;
    let bytes = plugin_files::wrap(&args.module, &args.exports, &args.manifest).map_err(CliError::failed)?;
    written(&args.output, &bytes)?;
    let words = format_args!("wrote {} ({} bytes)", args.output.display(), bytes.len());
    output::done(global, &json!({"file": args.output, "bytes": bytes.len()}), words);
    Ok(())
}

/// Checks that a file exists, before any work.
fn readable(file: &Path) -> Result<(), CliError> {
    std::fs::metadata(file).map(|_| ()).map_err(|error| CliError::cannot_read(file, &error))
}

fn written(file: &Path, bytes: &[u8]) -> Result<(), CliError> {
    packs::write_file(file, bytes).map_err(|error| CliError::cannot_write(file, &error))
}

/// A new pair of keys.
#[derive(Debug, Args)]
pub struct KeygenArgs {
    /// File for the private key; an existing file is not overwritten
    #[arg(short, long, value_name = "FILE", default_value = "plugin-key.pem")]
    output: PathBuf,
}

/// A signature.
#[derive(Debug, Args)]
pub struct SignArgs {
    /// The plugin, one `.wasm` component
    file: PathBuf,
    /// The private key, as `plugin keygen` wrote it
    #[arg(long, value_name = "FILE")]
    key: PathBuf,
}

/// Generates a key pair: writes the private key to a file and the public key to standard output.
pub fn generate(global: &GlobalArgs, args: &KeygenArgs) -> Result<(), CliError> {
    let key = PrivateKey::generate().map_err(CliError::failed)?;
    key.write_new(&args.output).map_err(CliError::output)?;
    let public = key.public_key();
    if global.json {
        output::json(&json!({
            "key_id": public.id().to_string(),
            "public_key": public.to_string(),
            "public_key_pem": key.public_pem(),
            "private_key_file": args.output,
        }));
    } else {
        let file = args.output.display();
        output::line(format_args!("wrote the private key to {file}: keep it off servers, and keep a copy"));
        output::line(format_args!("the key {} is trusted where the configuration says", public.id()));
        output::line(format_args!("\n[plugins]\ntrusted_keys = [\"{public}\"]\n\n{}", key.public_pem().trim_end()));
    }
    Ok(())
}

/// Signs a plugin's file.
pub fn sign(global: &GlobalArgs, args: &SignArgs) -> Result<(), CliError> {
    let key = PrivateKey::read(&args.key).map_err(CliError::input)?;
    let plugin = plugin_files::read(&args.file).map_err(CliError::input)?;
    let signature = plugin_files::sign(&args.file, &plugin.bytes, &key).map_err(CliError::failed)?;
    let file = signature_file(&args.file);
    if global.json {
        output::json(&json!({"key_id": signature.key().to_string(), "signature_file": file}));
    } else {
        say_signed(&args.file, &signature);
    }
    Ok(())
}

/// Prints that a file was signed.
pub fn say_signed(file: &Path, signature: &PluginSignature) {
    output::line(format_args!(
        "signed {} with the key {} in {}",
        file.display(),
        signature.key(),
        signature_file(file)
    ));
}

fn signature_file(file: &Path) -> String {
    format!("{}{SIGNATURE_SUFFIX}", file.display())
}
