//! Checks a running server against its OpenAPI document, with third-party tools: a linter for the document, a fuzzer
//! for the server. `cargo xtask conformance` installs the tools and runs this.
//!
//! **Invariant:** no limit of the server is switched off. Each request comes from an address of its own, as if from another
//! client; the client's own bucket has the maximum size that an administrator can configure.

#![expect(
    clippy::expect_used,
    clippy::print_stdout,
    clippy::indexing_slicing,
    reason = "a panic is how the task fails"
)]

mod register;
mod relay;

use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode};

use daftar_tests::Server;

/// The folder with the configuration of the tools.
const SETTINGS: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/conformance");
/// Maximum number of requests of the fuzzer for each operation and phase.
const EXAMPLES: &str = "15";
/// Every run makes the same requests.
const SEED: &str = "20260301";

fn main() -> ExitCode {
    let mut arguments = std::env::args().skip(1);
    let tools = PathBuf::from(arguments.next().expect("the folder of the tools is named"));
    let more: Vec<String> = arguments.collect();
    let folder = tempfile::tempdir().expect("a temporary folder can be made");
    let data_dir = folder.path().join("data");
    let server = Server::serve(&data_dir, &["--config", &format!("{SETTINGS}/daftar.toml")]);
    let token = register::fill(&server, &data_dir);
    let document = folder.path().join("openapi.json");
    std::fs::write(&document, server.connection().request("GET", "/openapi.json").send().expect(200).bytes())
        .expect("the document can be kept");
    let is_described = lint(&tools, &document);
    let relay = relay::start(&server.url);
    let is_served = fuzz(&tools, &document, folder.path(), &relay, &token, &more);
    let stopped = server.stop();
    let panics = stopped.stderr.lines().filter(|line| line.contains("panicked")).count();
    println!("the server stopped with code {}, {panics} panics in its log", stopped.code);
    if is_described && is_served && stopped.code == 0 && panics == 0 { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}

/// Tests whether the linter reports no problem.
fn lint(tools: &Path, document: &Path) -> bool {
    let mut linter = Command::new(tools.join("node_modules/.bin/redocly"));
    linter
        .arg("lint")
        .arg(document)
        .arg("--config")
        .arg(format!("{SETTINGS}/redocly.yaml"))
        .args(["--max-problems", "50"]);
    linter.env("REDOCLY_TELEMETRY", "off").env("REDOCLY_SUPPRESS_UPDATE_NOTICE", "true");
    let output = linter.output().expect("the linter can be run");
    let reported = String::from_utf8_lossy(&output.stdout) + String::from_utf8_lossy(&output.stderr);
    println!("{reported}");
    // A warning is a failure too.
    output.status.success() && !reported.contains("Warning was generated")
}

/// Tests whether the fuzzer finds no undocumented response. It runs in a new `folder`: it would else repeat the failures
/// that it has kept there, which were made against an earlier document.
fn fuzz(tools: &Path, document: &Path, folder: &Path, url: &str, token: &str, more: &[String]) -> bool {
    let mut fuzzer = Command::new(tools.join("venv/bin/schemathesis"));
    fuzzer.arg("--config-file").arg(format!("{SETTINGS}/schemathesis.toml"));
    fuzzer.arg("run").arg(document).args(["--url", url]);
    fuzzer.args(["--max-examples", EXAMPLES, "--seed", SEED, "--generation-deterministic"]);
    // A connection for each request, and so an address.
    fuzzer.args(["--header", "Connection: close", "--header", &format!("Authorization: Bearer {token}")]);
    fuzzer.args(more).env("SCHEMATHESIS_HOOKS", "hooks").env("PYTHONPATH", SETTINGS).current_dir(folder);
    fuzzer.env("PYTHONDONTWRITEBYTECODE", "1");
    fuzzer.status().expect("the fuzzer can be run").success()
}
