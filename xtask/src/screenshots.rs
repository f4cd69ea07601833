//! `cargo xtask screenshots`: every view of the workbench at three widths, in light and dark, in both directions of
//! writing, and its printed sheets. A browser is driven through the page of a demo server.

use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::{Child, Command, Stdio};

use serde_json::json;

use crate::failure::Failure;
use crate::files;
use crate::steps::{Steps, shown};
use crate::workspace::{Profile, Workspace};
use crate::{build, clients, guests, tools, workbench};

/// The scripts that drive the browser.
const SCRIPTS: &str = "tests/workbench";

/// Builds what is needed and takes the screenshots, in `pictures/screenshots` of the target folder.
pub fn run(workspace: &Workspace, steps: &Steps) -> Result<(), Failure> {
    tools::need("screenshots of the workbench", &["node", "npm", "chromium"])?;
    guests::shipped(workspace, steps)?;
    workbench::build(workspace, steps)?;
    build::server(workspace, steps, Profile::Dev)?;
    build::finish(workspace, steps, Profile::Dev)?;
    clients::install_browser(workspace, steps)?;
    let place = workspace.target().join("clients/browser");
    let scripts = workspace.root().join(SCRIPTS);
    for script in files::all_below(&scripts, &["node_modules"])? {
        if script.extension().is_some_and(|extension| extension == "mjs") {
            files::copy(&scripts.join(&script), &place.join(&script))?;
        }
    }
    let pictures = workspace.target().join("pictures/screenshots");
    files::create_folder(&pictures)?;
    steps.say("start a demo server");
    let demo = Demo::start(workspace)?;
    let mut script = Command::new("node");
    script.arg(place.join("screenshots.mjs")).env("DAFTAR_WORKBENCH_WALK", demo.given(&pictures)?);
    steps.run("take the screenshots", &mut script)?;
    steps.say(&format!("the screenshots are in {}", pictures.display()));
    Ok(())
}

/// A demo server, which is stopped at the end.
struct Demo {
    server: Child,
    url: String,
    client_id: String,
    client_secret: String,
}

impl Demo {
    /// Starts it, and reads its address and its client from its output.
    fn start(workspace: &Workspace) -> Result<Self, Failure> {
        let mut command = Command::new(workspace.server(Profile::Dev));
        command.args(["demo", "--listen", "127.0.0.1:0", "--plugins"]).arg(workspace.plugins());
        let failed = |cause: std::io::Error| Failure::new(format!("the demo server: {cause}"));
        let server = command.stdout(Stdio::piped()).spawn();
        let server = server.map_err(|cause| Failure::new(format!("`{}`: {cause}", shown(&command))))?;
        let mut demo = Self { server, url: String::new(), client_id: String::new(), client_secret: String::new() };
        let output = demo.server.stdout.take().map(BufReader::new);
        for line in output.into_iter().flat_map(BufReader::lines) {
            let line = line.map_err(failed)?;
            let words: Vec<&str> = line.split_whitespace().collect();
            match words.as_slice() {
                ["listening", "on", url] => demo.url = (*url).to_owned(),
                ["#", "client", "id", id] => demo.client_id = (*id).to_owned(),
                ["#", "client", "secret", secret] => {
                    demo.client_secret = (*secret).to_owned();
                    return Ok(demo);
                }
                _ => {}
            }
        }
        Err(Failure::new("the demo server ended before it was ready"))
    }

    /// The input of the script.
    fn given(&self, pictures: &Path) -> Result<String, Failure> {
        let chromium = daftar_test_needs::program("chromium").ok_or_else(|| Failure::new("there is no `chromium`"))?;
        let client = json!({"client_id": self.client_id, "client_secret": self.client_secret});
        let given = json!({"url": self.url, "chromium": chromium, "pictures": pictures, "client": client});
        Ok(given.to_string())
    }
}

impl Drop for Demo {
    /// An interrupted demo removes its folder; a killed one would leave it.
    fn drop(&mut self) {
        let interrupted = Command::new("kill").args(["-INT", &self.server.id().to_string()]).status();
        if !interrupted.is_ok_and(|status| status.success()) {
            let _ = self.server.kill();
        }
        let _ = self.server.wait();
    }
}
