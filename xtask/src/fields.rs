//! `cargo xtask fields`: writes the documentation pages that are generated from the code: the schema of records, the
//! error codes, the commands, and the description of the API.
//!
//! Each page is rendered by its own crate: this program depends on no crate of the server. Tests fail while a page is
//! out of date.

use std::process::Command;

use crate::build;
use crate::failure::Failure;
use crate::files;
use crate::steps::{Steps, shown};
use crate::workspace::{Profile, Workspace};

/// The pages that an example of the domain prints, by its argument.
const TABLES: [(&str, &str); 2] = [("fields", "host/docs/FIELDS.md"), ("errors", "host/docs/ERRORS.md")];
/// The folder of the pages that the program writes.
const PAGES: &str = "host/docs";

/// Compiles the tables and the program, and writes the pages.
pub fn run(workspace: &Workspace, steps: &Steps) -> Result<(), Failure> {
    for (name, page) in TABLES {
        steps.say("compile and render the table");
        let text = output(workspace.cargo(&["run", "--quiet", "--package=daftar-domain", "--example=page", name]))?;
        files::write_if_changed(&workspace.root().join(page), &text)?;
        steps.say(page);
    }
    build::server(workspace, steps, Profile::Dev)?;
    let folder = workspace.root().join(PAGES);
    let mut manual = workspace.command(workspace.server(Profile::Dev));
    manual.args(["manual", "--markdown"]).arg(&folder);
    output(manual)?;
    let mut openapi = workspace.command(workspace.server(Profile::Dev));
    openapi.arg("openapi");
    files::write_if_changed(&folder.join("openapi.json"), &output(openapi)?)?;
    steps.say("host/docs/COMMANDS.md, host/docs/openapi.json");
    Ok(())
}

/// The standard output of a command.
fn output(mut command: Command) -> Result<Vec<u8>, Failure> {
    let output = command.output().map_err(|error| Failure::new(format!("{}: {error}", shown(&command))))?;
    if output.status.success() {
        return Ok(output.stdout);
    }
    let message = String::from_utf8_lossy(&output.stderr).into_owned();
    Err(Failure::new(format!("`{}` failed: {}\n{message}", shown(&command), output.status)))
}
