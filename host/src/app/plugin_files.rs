//! Files of plugins outside of any register, for the command line: their contents and signers.

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use serde_json::Value;

use daftar_domain::config::PluginsConfig;
use daftar_domain::error::why_not_read;
use daftar_domain::manifest::PluginManifest;
use daftar_pack_tools::author;
pub use daftar_pack_tools::author::ExportName;
use daftar_sandbox;
pub use daftar_sandbox::{
    CompileIn, Inspection, PinnedDigests, PluginSignature, PrivateKey, SIGNATURE_SUFFIX, SignatureState,
    UnsignedPlugins,
};
use daftar_sandbox::{PACKAGE_BYTES_MAX, PluginHost, PluginHostSettings, TrustPolicy, read_signature_of};

/// A plugin's file with its detached signature.
pub struct PluginFile {
    /// The file.
    pub bytes: Vec<u8>,
    /// Content of its `.sig` file.
    pub signature: Option<String>,
}

/// Reads a plugin's file and the signature beside it.
///
/// # Errors
/// One of them cannot be read, or is too large; one sentence.
pub fn read(file: &Path) -> Result<PluginFile, String> {
    let shown = file.display();
    let unreadable = |error: std::io::Error| format!("cannot read `{shown}`: {}", why_not_read(&error));
    let metadata = std::fs::metadata(file).map_err(unreadable)?;
    if !metadata.is_file() {
        return Err(format!("cannot read `{shown}`: it is not a file; name a `.wasm` file"));
    }
    if metadata.len() > PACKAGE_BYTES_MAX as u64 {
        let bytes = metadata.len();
        return Err(format!(
            "`{shown}` was rejected at step `too_large`: the file has {bytes} bytes; the limit is {PACKAGE_BYTES_MAX}"
        ));
    }
    let bytes = std::fs::read(file).map_err(unreadable)?;
    let signature = read_signature_of(file).map_err(|error| format!("cannot read the signature {error}"))?;
    Ok(PluginFile { bytes, signature })
}

/// Facts about a plugin file that require no execution.
///
/// # Errors
/// The step that rejects it, with the reason.
pub fn inspect(file: PluginFile, config: &PluginsConfig, pinned: PinnedDigests) -> Result<Inspection, String> {
    let trust = TrustPolicy::new(config.trusted_keys.iter().cloned(), pinned, UnsignedPlugins::Refused);
    let inspection = Inspection::of(file.bytes, file.signature.as_deref(), &trust, &CompileIn::this_program());
    inspection.map_err(|error| error.to_string())
}

/// Signs a plugin's file and writes the signature beside it.
///
/// # Errors
/// The file is no plugin, or the signature cannot be written.
pub fn sign(file: &Path, bytes: &[u8], key: &PrivateKey) -> Result<PluginSignature, String> {
    daftar_sandbox::section::read_manifest(bytes)
        .map_err(|error| format!("`{}` is not signed: {error}", file.display()))?;
    let signature = key.sign(bytes);
    let mut path = file.as_os_str().to_owned();
    path.push(SIGNATURE_SUFFIX);
    super::packs::write_file(Path::new(&path), format!("{signature}\n").as_bytes())
        .map_err(|error| format!("cannot write `{}`: {error}", Path::new(&path).display()))?;
    Ok(signature)
}

/// Compilation target of guests.
const TARGET: &str = "wasm32-unknown-unknown";

/// The file with the metadata that a plugin declares.
const MANIFEST_FILE: &str = "plugin.toml";

/// A plugin that was built, and passed every step of an installation but the last.
#[derive(Debug)]
pub struct BuiltPlugin {
    /// Its manifest.
    pub manifest: PluginManifest,
    /// The component.
    pub bytes: Vec<u8>,
    /// Number of its codes, if it is a pack.
    pub codes: Option<usize>,
}

/// Tests, compiles, packages and validates the plugin in a folder. The compiler is run by cargo, which writes to
/// standard error.
///
/// # Errors
/// One sentence that names the failed step, with the reason.
pub fn build(folder: &Path, runs_tests: bool) -> Result<BuiltPlugin, String> {
    let manifest = read_manifest(&folder.join(MANIFEST_FILE))?;
    if runs_tests {
        // With the profile of the module, so that shared dependencies are compiled once.
        let mut test = cargo(folder, &["test", "--release", "--lib"]);
        let status = test.stdout(std::io::stderr()).status().map_err(no_cargo)?;
        if !status.success() {
            return Err("the plugin's own tests failed; see above, or leave them out with --skip-tests".to_owned());
        }
    }
    let module = compile(folder)?;
    let core = std::fs::read(&module).map_err(|error| format!("cannot read `{}`: {error}", module.display()))?;
    let bytes = author::wrap(&core, &[], &manifest).map_err(|error| error.to_string())?;
    let codes = dry_run(&bytes)?;
    Ok(BuiltPlugin { manifest, bytes, codes })
}

/// Packages a core module that was compiled separately, with the manifest in a file.
///
/// # Errors
/// The problem, in one sentence.
pub fn wrap(module: &Path, exports: &[ExportName], manifest: &Path) -> Result<Vec<u8>, String> {
    let manifest = read_manifest(manifest)?;
    let core = std::fs::read(module).map_err(|error| format!("cannot read `{}`: {error}", module.display()))?;
    author::wrap(&core, exports, &manifest).map_err(|error| format!("`{}`: {error}", module.display()))
}

/// Reads the manifest in `plugin.toml` of a folder.
///
/// # Errors
/// The problem, in one sentence.
pub fn manifest_in(folder: &Path) -> Result<PluginManifest, String> {
    read_manifest(&folder.join(MANIFEST_FILE))
}

/// Returns the manifest of a plugin's file.
///
/// # Errors
/// The problem, in one sentence.
pub fn manifest_of(bytes: &[u8]) -> Result<PluginManifest, String> {
    daftar_sandbox::section::read_manifest(bytes).map_err(|error| error.to_string())
}

fn read_manifest(file: &Path) -> Result<PluginManifest, String> {
    let text = std::fs::read_to_string(file).map_err(|error| format!("cannot read `{}`: {error}", file.display()))?;
    toml::from_str(&text).map_err(|error| format!("`{}` is not a plugin's manifest: {error}", file.display()))
}

fn cargo(folder: &Path, arguments: &[&str]) -> Command {
    let mut command = Command::new("cargo");
    command.current_dir(folder).args(arguments).stdin(Stdio::null());
    command
}

fn no_cargo(error: std::io::Error) -> String {
    format!("cargo cannot be run ({error}); install Rust from https://rustup.rs")
}

/// Compiles the folder's library for the sandbox; returns the core module's file.
fn compile(folder: &Path) -> Result<PathBuf, String> {
    let mut build = cargo(folder, &["build", "--release", "--lib", "--target", TARGET]);
    let output = build.arg("--message-format=json-render-diagnostics").stderr(Stdio::inherit()).output();
    let output = output.map_err(no_cargo)?;
    if !output.status.success() {
        return Err("the plugin does not compile for the sandbox; see above".to_owned());
    }
    let folder = folder.canonicalize().map_err(|error| format!("`{}`: {error}", folder.display()))?;
    let stdout = String::from_utf8_lossy(&output.stdout);
    let messages = stdout.lines().filter_map(|line| serde_json::from_str::<Value>(line).ok());
    let mut modules = messages.filter_map(|message| module_of(&message, &folder));
    modules
        .next_back()
        .ok_or_else(|| "cargo left no module: `[lib]` needs `crate-type = [\"cdylib\", \"rlib\"]`".to_owned())
}

/// Returns the module that a message of cargo reports, if it is that of the folder's own library.
fn module_of(message: &Value, folder: &Path) -> Option<PathBuf> {
    let text = |name: &str| message.get(name).and_then(Value::as_str);
    let is_own = text("reason")? == "compiler-artifact" && Path::new(text("manifest_path")?).parent()? == folder;
    let files = message.get("filenames").filter(|_| is_own)?.as_array()?;
    files.iter().filter_map(Value::as_str).find(|file| file.ends_with(".wasm")).map(PathBuf::from)
}

/// Runs the steps of an installation, and checks the content of a pack.
fn dry_run(bytes: &[u8]) -> Result<Option<usize>, String> {
    let settings = PluginHostSettings { compile_in: CompileIn::this_program(), ..PluginHostSettings::default() };
    let host = PluginHost::start(settings).map_err(|error| error.to_string())?;
    let Some(contents) = host.dry_run(bytes.to_vec()).map_err(|error| error.to_string())? else { return Ok(None) };
    let pack = daftar_vocabulary::check(contents)
        .map_err(|problems| format!("the content of the pack is invalid:\n{problems}"))?;
    Ok(Some(pack.vocabularies().iter().map(|vocabulary| vocabulary.concept_count()).sum()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn finds_the_module_of_the_folder_itself() {
        let message = |manifest: &str| {
            serde_json::json!({"reason": "compiler-artifact", "manifest_path": manifest,
                "filenames": ["/w/target/libx.rlib", "/w/target/x.wasm"]})
        };
        let found = module_of(&message("/w/Cargo.toml"), Path::new("/w"));
        assert_eq!(found, Some(PathBuf::from("/w/target/x.wasm")));
        assert_eq!(module_of(&message("/w/vendor/plugins/sdk/Cargo.toml"), Path::new("/w")), None);
        assert_eq!(module_of(&serde_json::json!({"reason": "build-finished"}), Path::new("/w")), None);
    }

    #[test]
    fn names_the_file_and_the_fault_of_a_manifest() {
        let folder = tempfile::tempdir().unwrap();
        assert!(build(folder.path(), false).unwrap_err().contains("plugin.toml"));
        std::fs::write(folder.path().join(MANIFEST_FILE), "name = \"Water\"").unwrap();
        let refused = build(folder.path(), false).unwrap_err();
        assert!(refused.contains("is not a plugin's manifest") && refused.contains("lower-case"), "{refused}");
    }
}
