//! `cargo xtask fields`: writes the pages of the documentation that show what the code says: the schema of records, the error codes, the
//! commands, and the description of the API.
//!
//! Each renders itself: this program depends on no crate of the server. Tests fail while a page is out of date.

use std::process::Command;

use crate::failure::Failure;
use crate::files;
use crate::steps::{Steps, shown};
use crate::workspace::Workspace;

/// The pages by the package whose example prints them, its argument, and their place in the project.
const PAGES: [(&str, &str, &str); 3] = [
    ("daftar-domain", "fields", "host/docs/FIELDS.md"),
    ("daftar-domain", "errors", "host/docs/ERRORS.md"),
    ("daftar-http", "openapi", "host/docs/openapi.json"),
];

/// Compiles the tables and writes the pages.
pub fn run(workspace: &Workspace, steps: &Steps) -> Result<(), Failure> {
    for (package, name, page) in PAGES {
        steps.say("compile and render the table");
        let package = format!("--package={package}");
        let text = output(workspace.cargo(&["run", "--quiet", &package, "--example=page", name]))?;
        files::write_if_changed(&workspace.root().join(page), &text)?;
        steps.say(page);
    }
    let mut manual =
        workspace.cargo(&["run", "--quiet", "--package=daftar", "--bin=daftar", "--", "manual", "--markdown"]);
    manual.arg(workspace.root().join("host/docs"));
    output(manual)?;
    steps.say("host/docs/COMMANDS.md");
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
