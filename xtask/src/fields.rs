//! `cargo xtask fields`: writes the page of the documentation that shows the schema of records.
//!
//! The schema renders itself, in `host/crates/domain`: this program depends on no crate of the server. A test of that crate fails while the
//! page is another one.

use crate::failure::Failure;
use crate::files;
use crate::steps::{Steps, shown};
use crate::workspace::Workspace;

/// The page, from the project's folder.
const PAGE: &str = "host/docs/FIELDS.md";

/// Compiles the schema and writes the page.
pub fn run(workspace: &Workspace, steps: &Steps) -> Result<(), Failure> {
    steps.say("compile and render the schema");
    let mut render = workspace.cargo(&["run", "--quiet", "--package=daftar-domain", "--example=fields"]);
    let output = render.output().map_err(|error| Failure::new(format!("{}: {error}", shown(&render))))?;
    if !output.status.success() {
        let message = String::from_utf8_lossy(&output.stderr).into_owned();
        return Err(Failure::new(format!("`{}` failed: {}\n{message}", shown(&render), output.status)));
    }
    files::write_if_changed(&workspace.root().join(PAGE), &output.stdout)?;
    steps.say(PAGE);
    Ok(())
}
