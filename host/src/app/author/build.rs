//! From an author's folder to a plugin: its tests, the compiler, wrapping, and a try in the sandbox.

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use serde_json::Value;

use daftar_domain::manifest::PluginManifest;
use daftar_sandbox::{self, CompileIn, PluginHost, PluginHostSettings};

/// What guests are compiled for.
const TARGET: &str = "wasm32-unknown-unknown";

/// The file with what a plugin says about itself.
const MANIFEST_FILE: &str = "plugin.toml";

/// A plugin that was built, and passed every step of an install but the last.
#[derive(Debug)]
pub struct BuiltPlugin {
    /// What it says about itself.
    pub manifest: PluginManifest,
    /// The component.
    pub bytes: Vec<u8>,
    /// How many codes it lists, if it is a pack.
    pub codes: Option<usize>,
}

/// Tests, compiles, wraps and tries out the plugin in a folder. The compiler is cargo's, which writes to standard error.
///
/// # Errors
/// One sentence that says which step failed, and why.
pub fn build(folder: &Path, runs_tests: bool) -> Result<BuiltPlugin, String> {
    let manifest = read_manifest(&folder.join(MANIFEST_FILE))?;
    if runs_tests {
        // With the profile of the module, so that what both need is compiled once.
        let mut test = cargo(folder, &["test", "--release", "--lib"]);
        let status = test.stdout(std::io::stderr()).status().map_err(no_cargo)?;
        if !status.success() {
            return Err("the plugin's own tests failed; see above, or leave them out with --skip-tests".to_owned());
        }
    }
    let module = compile(folder)?;
    let core = std::fs::read(&module).map_err(|error| format!("cannot read `{}`: {error}", module.display()))?;
    let bytes = daftar_pack_tools::author::wrap(&core, &manifest).map_err(|error| error.to_string())?;
    let codes = rehearse(&bytes)?;
    Ok(BuiltPlugin { manifest, bytes, codes })
}

/// Wraps a core module that was compiled otherwise, with the manifest in a file.
///
/// # Errors
/// One sentence that says what is wrong.
pub fn wrap(module: &Path, manifest: &Path) -> Result<Vec<u8>, String> {
    let manifest = read_manifest(manifest)?;
    let core = std::fs::read(module).map_err(|error| format!("cannot read `{}`: {error}", module.display()))?;
    daftar_pack_tools::author::wrap(&core, &manifest).map_err(|error| format!("`{}`: {error}", module.display()))
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

/// The module that a message of cargo tells of, if it is that of the folder's own library.
fn module_of(message: &Value, folder: &Path) -> Option<PathBuf> {
    let text = |name: &str| message.get(name).and_then(Value::as_str);
    let is_own = text("reason")? == "compiler-artifact" && Path::new(text("manifest_path")?).parent()? == folder;
    let files = message.get("filenames").filter(|_| is_own)?.as_array()?;
    files.iter().filter_map(Value::as_str).find(|file| file.ends_with(".wasm")).map(PathBuf::from)
}

/// Takes the plugin through the steps of an install, and checks what a pack brings.
fn rehearse(bytes: &[u8]) -> Result<Option<usize>, String> {
    let settings = PluginHostSettings { compile_in: CompileIn::this_program(), ..PluginHostSettings::default() };
    let host = PluginHost::start(settings).map_err(|error| error.to_string())?;
    let Some(contents) = host.rehearse(bytes.to_vec()).map_err(|error| error.to_string())? else { return Ok(None) };
    let pack = daftar_vocabulary::check(contents)
        .map_err(|problems| format!("what the pack brings is not sound:\n{problems}"))?;
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
