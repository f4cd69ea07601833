//! Embeds the generic pack, which `cargo xtask build` compiles for the sandbox beforehand, and the workbench's page where it was
//! built, and says for what and by what the program is built. This script never calls cargo, npm or git.

use std::fmt::Write as _;
use std::io;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode};

const MODULE: &str = "codelist.wasm";
/// The page's files, each with the same bytes compressed beside it; an empty folder where no page was built.
const WORKBENCH: &str = "workbench";
/// How the name of a compressed file ends.
const COMPRESSED: &str = "gz";

fn main() -> ExitCode {
    println!("cargo::rerun-if-env-changed=DAFTAR_GUESTS");
    println!("cargo::rerun-if-changed=build.rs");
    let Some(out_dir) = std::env::var_os("OUT_DIR").map(PathBuf::from) else {
        println!("cargo::error=OUT_DIR is not set");
        return ExitCode::FAILURE;
    };
    let folder = std::env::var_os("DAFTAR_GUESTS").map(PathBuf::from);
    let Some(module) = find(folder.as_deref(), &out_dir) else {
        println!(
            "cargo::error=guests/{MODULE} is not in the target folder: run `cargo xtask build`, which compiles it first"
        );
        return ExitCode::FAILURE;
    };
    println!("cargo::rerun-if-changed={}", module.display());
    if let Err(error) = std::fs::copy(&module, out_dir.join(MODULE)) {
        println!("cargo::error=cannot copy {}: {error}", module.display());
        return ExitCode::FAILURE;
    }
    tell_what_builds();
    if let Err(error) = workbench(&module, &out_dir) {
        println!("cargo::error=cannot embed the page of the workbench: {error}");
        return ExitCode::FAILURE;
    }
    ExitCode::SUCCESS
}

/// The target, the compiler, and the version of the sandbox by the lock file. What cannot be told is said to be unknown.
fn tell_what_builds() {
    let unknown = || "unknown".to_owned();
    let target = std::env::var_os("TARGET").and_then(|target| target.into_string().ok());
    println!("cargo::rustc-env=DAFTAR_TARGET={}", target.unwrap_or_else(unknown));
    let rustc = std::env::var_os("RUSTC").unwrap_or_else(|| "rustc".into());
    let said =
        Command::new(rustc).arg("--version").output().ok().and_then(|output| String::from_utf8(output.stdout).ok());
    let said = said.map(|said| said.trim().to_owned()).filter(|said| !said.is_empty());
    println!("cargo::rustc-env=DAFTAR_RUSTC={}", said.unwrap_or_else(unknown));
    let lock = Path::new(env!("CARGO_MANIFEST_DIR")).join("../Cargo.lock");
    let wasmtime = std::fs::read_to_string(&lock).ok().and_then(|text| {
        let (_, package) = text.split_once("name = \"wasmtime\"\nversion = \"")?;
        package.split_once('"').map(|(version, _)| version.to_owned())
    });
    println!("cargo::rerun-if-changed={}", lock.display());
    println!("cargo::rustc-env=DAFTAR_WASMTIME={}", wasmtime.unwrap_or_else(unknown));
}

/// The module in the folder named by `DAFTAR_GUESTS`, or in `guests/` of the target folder, which is an ancestor of `OUT_DIR`.
fn find(folder: Option<&Path>, out_dir: &Path) -> Option<PathBuf> {
    let module = match folder {
        Some(folder) => folder.join(MODULE),
        None => out_dir.ancestors().map(|ancestor| ancestor.join("guests").join(MODULE)).find(|path| path.is_file())?,
    };
    module.is_file().then_some(module)
}

/// Writes the list of the page's files, which lie beside the folder of the guests or in the one that `DAFTAR_WORKBENCH` names.
fn workbench(module: &Path, out_dir: &Path) -> io::Result<()> {
    println!("cargo::rerun-if-env-changed=DAFTAR_WORKBENCH");
    let beside = module.ancestors().nth(2).map(|target| target.join(WORKBENCH));
    let named = std::env::var_os("DAFTAR_WORKBENCH").map(PathBuf::from);
    let folder = named.or(beside).ok_or_else(|| io::Error::other("the guests are in no target folder"))?;
    // Cargo would run this script every time for a folder that is not there.
    std::fs::create_dir_all(&folder)?;
    println!("cargo::rerun-if-changed={}", folder.display());
    let copies = out_dir.join(WORKBENCH);
    std::fs::create_dir_all(&copies)?;
    let mut names = Vec::new();
    for entry in std::fs::read_dir(&folder)? {
        let name = entry?.file_name().to_string_lossy().into_owned();
        std::fs::copy(folder.join(&name), copies.join(&name))?;
        names.push(name);
    }
    names.sort();
    let mut list = "&[\n".to_owned();
    for name in &names {
        let compressed = format!("{name}.{COMPRESSED}");
        if !names.contains(&compressed) {
            continue;
        }
        let _ = writeln!(
            list,
            "    File {{ name: {name:?}, bytes: include_bytes!({:?}), compressed: include_bytes!({:?}) }},",
            format!("{WORKBENCH}/{name}"),
            format!("{WORKBENCH}/{compressed}"),
        );
    }
    list.push(']');
    std::fs::write(out_dir.join("workbench.rs"), list)
}
