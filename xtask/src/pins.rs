//! The digests of the plugins that are built together with the program, so that these need no signature.
//!
//! They are known only when the packs are made, which takes the program: so it is linked once more when they have changed. The list is
//! kept in the target folder, and every build is given the last one: where no plugin has changed, nothing is linked again.

use std::collections::BTreeSet;
use std::ffi::OsStr;
use std::fs;
use std::path::Path;
use std::process::Command;

use sha2::{Digest, Sha256};

use crate::failure::Failure;
use crate::files;
use crate::workspace::Workspace;

/// What the program reads when it is compiled.
const VARIABLE: &str = "DAFTAR_PINNED_DIGESTS";

/// Gives a call of cargo the digests of the last build.
pub fn give(workspace: &Workspace, command: &mut Command) -> Result<(), Failure> {
    let list = list(workspace);
    let digests = if list.is_file() { files::read_text(&list)? } else { String::new() };
    command.env(VARIABLE, digests);
    Ok(())
}

/// Whether the plugins in these folders are others than in the last build, and then remembers them.
pub fn have_changed(workspace: &Workspace, folders: &[&Path]) -> Result<bool, Failure> {
    let mut digests = BTreeSet::new();
    for folder in folders {
        let Ok(entries) = fs::read_dir(folder) else { continue };
        for path in entries.filter_map(|entry| Some(entry.ok()?.path())) {
            if path.extension() == Some(OsStr::new("wasm")) {
                digests.insert(hex(&Sha256::digest(files::read(&path)?)));
            }
        }
    }
    let digests = digests.into_iter().collect::<Vec<_>>().join(",");
    let list = list(workspace);
    if fs::read_to_string(&list).is_ok_and(|present| present == digests) {
        return Ok(false);
    }
    files::write_if_changed(&list, digests.as_bytes())?;
    Ok(true)
}

fn list(workspace: &Workspace) -> std::path::PathBuf {
    workspace.target().join("pinned-digests.txt")
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}
