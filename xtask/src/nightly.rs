//! `cargo xtask nightly`: the checks that take long.

use crate::failure::Failure;
use crate::steps::Steps;
use crate::workspace::Workspace;
use crate::{bench, conformance, deny, reproduce, torture};

/// Number of kills of the server.
const ROUNDS: &str = "300";
/// Number of states after a power cut that are opened.
const POWER_CUTS: &str = "10000";

/// A check by its name.
type Check<'a> = (&'static str, &'a dyn Fn() -> Result<(), Failure>);

/// Runs every check, even if an earlier one fails, and reports at the end which failed.
pub fn run(workspace: &Workspace, steps: &Steps) -> Result<(), Failure> {
    let words = |words: &[&str]| words.iter().map(|word| (*word).to_owned()).collect::<Vec<_>>();
    let checks: [Check<'_>; 6] = [
        ("advisories", &|| deny::run(workspace, steps, &words(&["advisories"]))),
        ("reproducible builds", &|| reproduce::run(workspace, steps)),
        ("conformance", &|| conformance::run(workspace, steps, &[])),
        ("benchmarks, as a smoke test", &|| bench::run(workspace, steps, &words(&["--smoke"]))),
        ("torture", &|| torture::run(workspace, steps, &words(&["--rounds", ROUNDS]))),
        ("power cuts", &|| torture::run(workspace, steps, &words(&["--power-cuts", POWER_CUTS]))),
    ];
    let mut failed = Vec::new();
    for (name, check) in checks {
        steps.say(&format!("NIGHTLY: {name}"));
        if let Err(failure) = check() {
            steps.say(&format!("FAILED: {name}: {failure}"));
            failed.push(name);
        }
    }
    if failed.is_empty() {
        steps.say(&format!("all {} checks passed", checks.len()));
        return Ok(());
    }
    Err(Failure::new(format!("{} of {} checks failed: {}", failed.len(), checks.len(), failed.join(", "))))
}
