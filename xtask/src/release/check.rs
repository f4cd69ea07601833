//! `cargo xtask materials`: generates the bill of materials and the notices of the development build, and validates
//! them against their schema with a third-party tool.

use std::process::Command;

use super::{Shipped, notices, packages, plugins, sbom};
use crate::commit::Commit;
use crate::failure::Failure;
use crate::steps::Steps;
use crate::workspace::Workspace;
use crate::{files, tools};

/// The validator with the schemas of CycloneDX, from PyPI.
const VALIDATOR: &str = "cyclonedx-python-lib[json-validation]==11.7.0";
/// Prints the schema errors of a file.
const SCRIPT: &str = "\
import sys
from cyclonedx.schema import SchemaVersion
from cyclonedx.validation.json import JsonStrictValidator
error = JsonStrictValidator(SchemaVersion.V1_6).validate_str(open(sys.argv[1], encoding='utf-8').read())
sys.exit(0 if error is None else f'{sys.argv[1]}: {error}')
";

/// Writes both files into the target folder, twice, and runs the validator.
pub fn run(workspace: &Workspace, steps: &Steps) -> Result<(), Failure> {
    let folder = workspace.target().join("materials");
    files::create_folder(&folder)?;
    steps.say("write the bill of materials and the notices");
    let commit = Commit::of(workspace.root());
    let make = || -> Result<_, Failure> {
        let (shipped, lists) = (Shipped::read(workspace)?, packages::code_lists(workspace)?);
        let bom = sbom::document(&shipped, &lists, &plugins(workspace.target())?, &commit)?;
        Ok((bom, notices::text(&shipped, &lists)?))
    };
    let (bom, text) = make()?;
    if make()? != (bom.clone(), text.clone()) {
        return Err(Failure::new("the same sources make other materials the second time"));
    }
    let file = folder.join("daftar.cdx.json");
    files::write_if_changed(&file, &bom)?;
    files::write_if_changed(&folder.join("THIRD-PARTY.md"), text.as_bytes())?;
    if !tools::is_there(&folder, "validator", VALIDATOR) {
        tools::install_python(steps, &folder.join("venv"), "install the validator of CycloneDX", &[VALIDATOR])?;
        tools::remember(&folder, "validator", VALIDATOR)?;
    }
    let mut validate = Command::new(folder.join("venv/bin/python"));
    steps.run("hold the bill of materials to its schema", validate.args(["-c", SCRIPT]).arg(&file))
}
