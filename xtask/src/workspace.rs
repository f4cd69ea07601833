//! Paths of the project, and calls of cargo.

use std::ffi::{OsStr, OsString};
use std::path::{Path, PathBuf};
use std::process::Command;

use serde::Deserialize;

use crate::failure::Failure;

/// The target that guests are compiled for.
pub const GUEST_TARGET: &str = "wasm32-unknown-unknown";

/// Build profile of the server.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Profile {
    Dev,
    Release,
}

impl Profile {
    /// The folder of the target folder that its programs are in.
    fn folder(self) -> &'static str {
        match self {
            Self::Dev => "debug",
            Self::Release => "release",
        }
    }

    /// The flags for cargo.
    pub fn flags(self) -> &'static [&'static str] {
        match self {
            Self::Dev => &[],
            Self::Release => &["--release"],
        }
    }
}

/// The project's folder and the folder that cargo builds into.
pub struct Workspace {
    root: PathBuf,
    target: PathBuf,
    cargo: OsString,
    cargo_home: PathBuf,
}

/// The used part of `cargo metadata`.
#[derive(Deserialize)]
struct Metadata {
    workspace_root: PathBuf,
    target_directory: PathBuf,
}

impl Workspace {
    /// Asks cargo.
    pub fn find() -> Result<Self, Failure> {
        let cargo = std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
        let output = Command::new(&cargo)
            .args(["metadata", "--no-deps", "--format-version", "1"])
            .output()
            .map_err(|error| Failure::new(format!("cargo metadata: {error}")))?;
        if !output.status.success() {
            let message = String::from_utf8_lossy(&output.stderr).into_owned();
            return Err(Failure::new(format!("`cargo metadata` failed: {message}")));
        }
        let metadata: Metadata = serde_json::from_slice(&output.stdout)
            .map_err(|error| Failure::new(format!("`cargo metadata` said something else: {error}")))?;
        let home = std::env::home_dir().unwrap_or_default();
        let cargo_home = std::env::var_os("CARGO_HOME").map_or_else(|| home.join(".cargo"), PathBuf::from);
        Ok(Self { root: metadata.workspace_root, target: metadata.target_directory, cargo, cargo_home })
    }

    /// The same project at another place, built into another folder.
    pub fn at(&self, root: PathBuf, target: PathBuf) -> Self {
        Self { root, target, cargo: self.cargo.clone(), cargo_home: self.cargo_home.clone() }
    }

    /// Folder in which cargo keeps the sources of dependencies.
    pub fn cargo_home(&self) -> &Path {
        &self.cargo_home
    }

    /// The project's folder.
    pub fn root(&self) -> &Path {
        &self.root
    }

    /// The target folder, in which the tests also find the files built for them.
    pub fn target(&self) -> &Path {
        &self.target
    }

    /// A call of cargo in the project's folder.
    ///
    /// Cargo sets variables for the package of the program that it runs. Dependencies whose build reads them would be
    /// compiled again after each direct call of cargo without this program in between.
    pub fn cargo(&self, arguments: &[&str]) -> Command {
        let mut command = self.command(&self.cargo);
        command.args(arguments);
        command
    }

    /// A call of a program that calls cargo.
    pub fn command(&self, program: impl AsRef<OsStr>) -> Command {
        let mut command = Command::new(program);
        command.current_dir(&self.root).env("CARGO", &self.cargo).env("CARGO_TARGET_DIR", &self.target);
        let of_package = |name: &OsString| {
            name.to_str()
                .is_some_and(|name| ["CARGO_PKG_", "CARGO_MANIFEST_"].iter().any(|start| name.starts_with(start)))
        };
        for (name, _) in std::env::vars_os().filter(|(name, _)| of_package(name)) {
            command.env_remove(name);
        }
        command
    }

    /// The server's program.
    pub fn server(&self, profile: Profile) -> PathBuf {
        self.target.join(profile.folder()).join(format!("daftar{}", std::env::consts::EXE_SUFFIX))
    }

    /// A program of the tests.
    pub fn program(&self, profile: Profile, name: &str) -> PathBuf {
        self.target.join(profile.folder()).join(format!("{name}{}", std::env::consts::EXE_SUFFIX))
    }

    /// The plugins that a server loads by default.
    pub fn plugins(&self) -> PathBuf {
        self.target.join("plugins")
    }

    /// The optional plugins, installed on request.
    pub fn modules(&self) -> PathBuf {
        self.target.join("modules")
    }
}
