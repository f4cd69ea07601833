//! `cargo xtask guests`: everything that runs in the sandbox and is compiled from Rust.
//!
//! It leaves `guests/codelist.wasm` (the core module that the server embeds), `plugins/eligibility-cel.wasm` and
//! `fixtures/*.wasm` (misbehaving guests for tests) in the target folder.

use std::path::{Path, PathBuf};
use std::process::Command;

use serde::Deserialize;
use serde_json::{Value, json};

use crate::failure::Failure;
use crate::files;
use crate::steps::Steps;
use crate::workspace::{GUEST_TARGET, Workspace};
use crate::wrap;

/// The engine's manifest; while it is absent there is no engine to build.
const ENGINE_MANIFEST: &str = "plugins/cel/plugin.toml";
const ENGINE_PLUGIN: &str = "eligibility-cel.wasm";
/// The engine's loops over columns become SIMD instructions; relaxed ones, whose results differ between machines, stay
/// off.
const ENGINE_FLAG: &str = "-Ctarget-feature=+simd128";
/// The engine of a benchmark, by name.
const ROWS_ENGINE: &str = "eligibility-cel-rows";
const FIXTURES: &str = "tests/fixtures/guests";

/// Packs with logic of their own, by package and folder. They are optional: their plugins go to the modules.
const LOGIC_PACKS: [(&str, &str); 1] = [("daftar-language-tag", "plugins/language-tag")];

/// Everything, the guests for tests included.
pub fn run(workspace: &Workspace, steps: &Steps) -> Result<(), Failure> {
    shipped(workspace, steps)?;
    fixtures(workspace, steps)
}

/// Builds the guests that a server requires.
pub fn shipped(workspace: &Workspace, steps: &Steps) -> Result<(), Failure> {
    ensure_target(workspace, steps)?;
    let engine_manifest = workspace.root().join(ENGINE_MANIFEST);
    let has_engine = engine_manifest.is_file();
    let mut arguments = vec!["-p", "daftar-codelist", "--lib"];
    for (package, _) in LOGIC_PACKS {
        arguments.extend(["-p", package]);
    }
    compile(workspace, steps, "compile the guests for the sandbox", &arguments, &[])?;
    if has_engine {
        let arguments = ["-p", "daftar-cel", "--lib"];
        compile(workspace, steps, "compile the eligibility engine for the sandbox", &arguments, &[ENGINE_FLAG])?;
    }
    let codelist = files::read(&compiled(workspace, "daftar_codelist.wasm"))?;
    files::write_if_changed(&workspace.target().join("guests").join("codelist.wasm"), &codelist)?;
    if has_engine {
        steps.say("wrap the eligibility engine");
        let manifest = wrap::read_manifest(&engine_manifest)?;
        let plugin = workspace.plugins().join(ENGINE_PLUGIN);
        let core = compiled(workspace, "daftar_cel.wasm");
        // `packs` builds it once more with the server's help; until its code changes, that one stays.
        let stored = workspace.target().join("guests").join("daftar_cel.wasm");
        if !plugin.is_file() || files::read(&stored).ok() != Some(files::read(&core)?) {
            wrap::wrap(&core, &manifest, &plugin)?;
            files::copy(&core, &stored)?;
        }
    } else {
        steps.say(&format!("no eligibility engine: {ENGINE_MANIFEST} is not there"));
    }
    for ((package, folder), plugin) in LOGIC_PACKS.into_iter().zip(modules(workspace)) {
        let manifest = wrap::read_manifest(&workspace.root().join(folder).join("plugin.toml"))?;
        wrap::wrap(&compiled(workspace, format!("{}.wasm", package.replace('-', "_"))), &manifest, &plugin)?;
    }
    Ok(())
}

/// The files of the packs with logic of their own.
pub fn modules(workspace: &Workspace) -> Vec<PathBuf> {
    let name = |folder: &str| folder.rsplit('/').next().unwrap_or(folder).to_owned();
    LOGIC_PACKS.iter().map(|(_, folder)| workspace.modules().join(format!("{}.wasm", name(folder)))).collect()
}

/// The eligibility engine, if there is one.
pub fn engine(workspace: &Workspace) -> Option<PathBuf> {
    Some(workspace.plugins().join(ENGINE_PLUGIN)).filter(|plugin| plugin.is_file())
}

/// Wraps the engine with the program `server`, which runs its initialisation first: an instance then begins with the
/// tables of the parser in its memory.
pub fn initialise_engine(workspace: &Workspace, steps: &Steps, server: &Path) -> Result<(), Failure> {
    let core = workspace.target().join("guests").join("daftar_cel.wasm");
    let (Some(plugin), true) = (engine(workspace), core.is_file()) else { return Ok(()) };
    let manifest = workspace.root().join(ENGINE_MANIFEST);
    let built = files::changed(&plugin);
    let is_newer = |file: &Path| built > files::changed(file);
    let marker = core.with_extension("initialised");
    let is_done = marker.is_file() && files::changed(&marker) >= built;
    if is_done && is_newer(&core) && is_newer(&manifest) && is_newer(server) {
        return Ok(());
    }
    let mut wrap = Command::new(server);
    wrap.args(["plugin", "wrap"]).arg(&core).arg("--manifest").arg(&manifest).arg("-o").arg(&plugin);
    steps.run("initialise the eligibility engine", &mut wrap)?;
    std::fs::write(&marker, []).map_err(|error| Failure::file(&marker, error))
}

/// The row-by-row build of the engine, as `bench/eligibility-cel-rows.wasm`: the columns are compared with it in the
/// sandbox.
pub fn rows_engine(workspace: &Workspace, steps: &Steps) -> Result<(), Failure> {
    let folder = workspace.target().join("bench");
    let built = folder.join("guest");
    let target = built.display().to_string();
    // A folder of its own: the shipped engine keeps its place.
    let arguments = ["-p", "daftar-cel", "--lib", "--features", "rows", "--target-dir", &target];
    compile(workspace, steps, "compile the eligibility engine that goes row by row", &arguments, &[ENGINE_FLAG])?;
    let mut manifest = wrap::read_manifest(&workspace.root().join(ENGINE_MANIFEST))?;
    if let Some(name) = manifest.get_mut("name") {
        *name = json!(ROWS_ENGINE);
    }
    let core = built.join(GUEST_TARGET).join("guest").join("daftar_cel.wasm");
    wrap::wrap(&core, &manifest, &folder.join(format!("{ROWS_ENGINE}.wasm")))
}

/// The misbehaving guests.
fn fixtures(workspace: &Workspace, steps: &Steps) -> Result<(), Failure> {
    let arguments = ["-p", "daftar-fixture-guests", "--examples", "--features", "guest"];
    compile(workspace, steps, "compile the misbehaving guests", &arguments, &[])?;
    steps.say("wrap the misbehaving guests");
    let file = workspace.root().join(FIXTURES).join("plugins.toml");
    let list: FixtureList = toml::from_str(&files::read_text(&file)?).map_err(|error| Failure::file(&file, error))?;
    for fixture in &list.plugin {
        let module = Path::new("examples").join(format!("{}.wasm", fixture.name.replace('-', "_")));
        let plugin = workspace.target().join("fixtures").join(format!("{}.wasm", fixture.name));
        wrap::wrap(&compiled(workspace, &module), &fixture.manifest(), &plugin)?;
    }
    Ok(())
}

/// The manifests of the misbehaving guests.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct FixtureList {
    plugin: Vec<Fixture>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Fixture {
    name: String,
    description: String,
    kind: Option<String>,
    interface: Option<String>,
    /// The limits that it requests.
    #[serde(default)]
    limits: toml::Table,
}

impl Fixture {
    fn manifest(&self) -> Value {
        json!({
            "name": self.name,
            "version": "1.0.0",
            "kind": self.kind.as_deref().unwrap_or("vocabulary-pack"),
            "interface": self.interface.as_deref().unwrap_or("0.1.0"),
            "description": self.description,
            "licence": "Apache-2.0",
            "limits": self.limits,
        })
    }
}

fn compile(
    workspace: &Workspace,
    steps: &Steps,
    what: &str,
    arguments: &[&str],
    more_flags: &[&str],
) -> Result<(), Failure> {
    let mut command = workspace.cargo(&["build", "--profile", "guest", "--target", GUEST_TARGET]);
    // Panic messages name source files: without this the same guest would have other bytes on every machine.
    let remaps = [(workspace.root(), "/daftar"), (workspace.cargo_home(), "/cargo")];
    let remaps = remaps.map(|(folder, name)| format!("--remap-path-prefix={}={name}", folder.display()));
    let flags: Vec<String> = remaps.into_iter().chain(more_flags.iter().map(|flag| (*flag).to_owned())).collect();
    let config = format!("target.{GUEST_TARGET}.rustflags={}", toml::Value::from(flags));
    steps.compile(what, command.arg("--config").arg(config).args(arguments))
}

/// Path of a file that cargo compiled for the sandbox.
fn compiled(workspace: &Workspace, file: impl AsRef<Path>) -> PathBuf {
    workspace.target().join(GUEST_TARGET).join("guest").join(file)
}

/// Installs the standard library for the sandbox when it is missing.
fn ensure_target(workspace: &Workspace, steps: &Steps) -> Result<(), Failure> {
    let output = Command::new("rustc")
        .current_dir(workspace.root())
        .args(["--print", "target-libdir", "--target", GUEST_TARGET])
        .output()
        .map_err(|error| Failure::new(format!("rustc: {error}")))?;
    let folder = String::from_utf8_lossy(&output.stdout).trim().to_owned();
    if output.status.success() && Path::new(&folder).is_dir() {
        return Ok(());
    }
    let what = format!("install Rust's library for {GUEST_TARGET}, which is missing");
    let mut rustup = Command::new("rustup");
    steps.run(&what, rustup.current_dir(workspace.root()).args(["target", "add", GUEST_TARGET]))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_misbehaving_guest_has_a_manifest() {
        let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("..").join(FIXTURES);
        let names = |file: &str, table: &str| -> Vec<String> {
            let toml: toml::Table = toml::from_str(&std::fs::read_to_string(folder.join(file)).unwrap()).unwrap();
            let entries = toml.get(table).and_then(toml::Value::as_array).unwrap();
            let mut names: Vec<String> =
                entries.iter().map(|entry| entry.get("name").unwrap().as_str().unwrap().to_owned()).collect();
            names.sort();
            names
        };
        assert_eq!(names("Cargo.toml", "example"), names("plugins.toml", "plugin"));
    }

    #[test]
    fn omitted_properties_of_a_misbehaving_guest_are_defaults() {
        let fixture = Fixture {
            name: "x".to_owned(),
            description: "X.".to_owned(),
            kind: None,
            interface: None,
            limits: toml::Table::new(),
        };
        let manifest = fixture.manifest();
        assert_eq!(manifest.get("kind"), Some(&Value::from("vocabulary-pack")));
        assert_eq!(manifest.get("interface"), Some(&Value::from("0.1.0")));
    }
}
