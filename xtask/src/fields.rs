//! `cargo xtask fields`: writes the pages of the documentation that show the schema of records and the table of error codes.
//!
//! Both render themselves, in `host/crates/domain`: this program depends on no crate of the server. A test of that crate fails while a page
//! is out of date.

use crate::failure::Failure;
use crate::files;
use crate::steps::{Steps, shown};
use crate::workspace::Workspace;

/// The pages by the names that the example knows, and from the project's folder.
const PAGES: [(&str, &str); 2] = [("fields", "host/docs/FIELDS.md"), ("errors", "host/docs/ERRORS.md")];

/// Compiles the tables and writes the pages.
pub fn run(workspace: &Workspace, steps: &Steps) -> Result<(), Failure> {
    PAGES.iter().try_for_each(|(name, page)| write(workspace, steps, name, page))
}

fn write(workspace: &Workspace, steps: &Steps, name: &str, page: &str) -> Result<(), Failure> {
    steps.say("compile and render the table");
    let mut render = workspace.cargo(&["run", "--quiet", "--package=daftar-domain", "--example=page", name]);
    let output = render.output().map_err(|error| Failure::new(format!("{}: {error}", shown(&render))))?;
    if !output.status.success() {
        let message = String::from_utf8_lossy(&output.stderr).into_owned();
        return Err(Failure::new(format!("`{}` failed: {}\n{message}", shown(&render), output.status)));
    }
    files::write_if_changed(&workspace.root().join(page), &output.stdout)?;
    steps.say(page);
    Ok(())
}
