//! The conformance tests of the CEL specification, fetched by the ordinary client of their registry: they may not be
//! redistributed.

use std::fs::File;
use std::path::PathBuf;
use std::process::{Command, Stdio};

use crate::failure::Failure;
use crate::steps::Steps;
use crate::tools::{is_there, missing, remember};
use crate::workspace::Workspace;

/// The package, from npm.
const PACKAGE: &str = "@bufbuild/cel-spec@0.6.1";
/// File name of the package's archive.
const ARCHIVE: &str = "bufbuild-cel-spec-0.6.1.tgz";
/// The script that extracts the tests from the package.
const EXTRACT: &str = "plugins/cel/tests/conformance/extract.mjs";

/// The file of the tests, fetched if it is missing; none on a machine without npm.
pub fn fetch(workspace: &Workspace, steps: &Steps) -> Result<Option<PathBuf>, Failure> {
    let folder = workspace.target().join("cel-spec");
    let data = folder.join("cel-spec.jsonl");
    if data.is_file() && is_there(&folder, "tests", PACKAGE) {
        return Ok(Some(data));
    }
    if !missing(&["node", "npm"]).is_empty() {
        return Ok(None);
    }
    std::fs::create_dir_all(&folder).map_err(|cause| Failure::file(&folder, cause))?;
    let within = |program: &str| {
        let mut command = Command::new(program);
        command.current_dir(&folder);
        command
    };
    let mut pack = within("npm");
    steps.run(
        "fetch the specification's tests of CEL",
        pack.args(["pack", "--silent", PACKAGE]).stdout(Stdio::null()),
    )?;
    steps.run("unpack them", within("tar").args(["xzf", ARCHIVE]))?;
    let script = folder.join("extract.mjs");
    std::fs::copy(workspace.root().join(EXTRACT), &script).map_err(|cause| Failure::file(&script, cause))?;
    let file = File::create(&data).map_err(|cause| Failure::file(&data, cause))?;
    steps.run("take out those that need no protocol buffers", within("node").arg("extract.mjs").stdout(file))?;
    remember(&folder, "tests", PACKAGE)?;
    Ok(Some(data))
}
