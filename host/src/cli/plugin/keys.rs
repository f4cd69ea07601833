//! `daftar plugin keygen` and `daftar plugin sign`

use std::path::{Path, PathBuf};

use clap::Args;
use serde_json::json;

use crate::app::plugin_files::{self, PluginSignature, PrivateKey, SIGNATURE_SUFFIX};
use crate::cli::{CliError, GlobalArgs, output};

/// A new pair of keys.
#[derive(Debug, Args)]
pub struct KeygenArgs {
    /// Where the private key is written; an existing file is not written over
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

/// Makes a pair of keys: the private one in a file, the public one on standard output.
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

/// Says that a file was signed.
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
