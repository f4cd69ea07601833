//! The digests of the plugins that are built together with the program, so that these need no signature.
//!
//! They are known only when the packs are made, which takes the program: so it is linked once more when they have changed. The list
//! lies beside the program, and every build of `host` includes the last one, also one without this task: where no plugin has
//! changed, nothing is linked again.

use std::collections::BTreeSet;
use std::ffi::OsStr;
use std::fs;
use std::path::{Path, PathBuf};

use sha2::{Digest, Sha256};

use crate::failure::Failure;
use crate::files;
use crate::workspace::{Profile, Workspace};

/// The list, as `host/build.rs` knows it.
const LIST: &str = "pinned-digests.txt";

/// Whether the plugins in these folders are others than in the last build, and then remembers them.
pub fn have_changed(workspace: &Workspace, profile: Profile, folders: &[&Path]) -> Result<bool, Failure> {
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
    let list = list(workspace, profile);
    if fs::read_to_string(&list).is_ok_and(|present| present == digests) {
        return Ok(false);
    }
    files::write_if_changed(&list, digests.as_bytes())?;
    Ok(true)
}

fn list(workspace: &Workspace, profile: Profile) -> PathBuf {
    workspace.server(profile).with_file_name(LIST)
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}
