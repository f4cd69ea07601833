//! `cargo xtask mutants`: small defects in the code that decides on access, limits and writes, one at a time, and whether
//! a test detects each.
//!
//! Mutants that no test can detect are left out, with the reason, in `.cargo/mutants.toml`.
//!
//! **Invariant:** the sources of the project are never changed: a copy of them is.

use std::fmt;
use std::fs;
use std::path::Path;

use crate::failure::Failure;
use crate::files;
use crate::reproduce;
use crate::steps::Steps;
use crate::tools;
use crate::workspace::Workspace;

/// The tool, from crates.io.
const TOOL: (&str, &str) = ("cargo-mutants", "27.1.0");
/// Maximum duration of the tests with one mutant, in seconds. Without a mutant they take a few.
const TEST_SECONDS_MAX: &str = "60";
/// Maximum duration of a compilation, in seconds: the first one compiles the dependencies.
const BUILD_SECONDS_MAX: &str = "1800";
/// Exit codes of the tool after a complete run: all detected, some not detected, tests that did not end.
const COMPLETE: [i32; 3] = [0, 2, 3];

/// Code in which mutants are made.
#[derive(Debug)]
struct Area {
    name: &'static str,
    /// The package with the code.
    package: &'static str,
    /// Patterns of its files.
    files: &'static [&'static str],
    /// Patterns of files that are left out of these.
    without: &'static [&'static str],
    /// The packages whose tests are run.
    tests: &'static [&'static str],
}

const AREAS: [Area; 5] = [
    Area {
        name: "visibility",
        package: "daftar-service",
        files: &["host/crates/service/src/visibility.rs"],
        without: &[],
        tests: &["daftar-service"],
    },
    Area {
        name: "auth",
        package: "daftar-auth",
        files: &["host/crates/auth/src/**"],
        without: &["host/crates/auth/src/limits*", "host/crates/auth/src/limits/**", "fixtures.rs", "tests.rs"],
        tests: &["daftar-auth"],
    },
    Area {
        name: "limits",
        package: "daftar-auth",
        files: &["host/crates/auth/src/limits.rs", "host/crates/auth/src/limits/**"],
        without: &["fixtures.rs", "tests.rs"],
        tests: &["daftar-auth"],
    },
    Area {
        name: "planner",
        package: "daftar-store",
        files: &["host/crates/store/src/plan.rs", "host/crates/store/src/plan/*.rs"],
        without: &[],
        tests: &["daftar-store", "daftar-store-sled"],
    },
    Area {
        name: "consents",
        package: "daftar-index",
        files: &["host/crates/index/src/consent_index.rs", "host/crates/index/src/consent_index/*.rs"],
        without: &["testing.rs", "tests.rs"],
        tests: &["daftar-index"],
    },
];

/// The result of an area.
struct Outcome {
    area: &'static str,
    /// Number of mutants that a test detected.
    detected: usize,
    /// The mutants that no test detected, as the tool names them.
    survivors: Vec<String>,
}

impl fmt::Display for Outcome {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { area, detected, survivors } = self;
        write!(formatter, "{area}: {detected} mutants were detected, {} survived", survivors.len())?;
        survivors.iter().try_for_each(|survivor| write!(formatter, "\n  {survivor}"))
    }
}

/// Makes the mutants of the named areas or of all, sequentially, and fails if one survives.
pub fn run(workspace: &Workspace, steps: &Steps, names: &[String]) -> Result<(), Failure> {
    let areas = selected(names)?;
    let tool = tools::cargo_tool(workspace, steps, TOOL, &[])?;
    let folder = workspace.target().join("mutants");
    let sources = folder.join("sources");
    if sources.exists() {
        fs::remove_dir_all(&sources).map_err(|error| Failure::file(&sources, error))?;
    }
    reproduce::copy_project(workspace, &sources)?;
    let copy = workspace.at(sources, folder.join("target"));
    let mut outcomes = Vec::new();
    for area in areas {
        outcomes.push(area.run(&copy, steps, &tool, &folder.join(area.name))?);
    }
    outcomes.iter().for_each(|outcome| steps.say(&outcome.to_string()));
    let survivors: usize = outcomes.iter().map(|outcome| outcome.survivors.len()).sum();
    if survivors == 0 {
        return Ok(());
    }
    Err(Failure::new(format!("{survivors} mutants survived: CONTRIBUTING.md says how to treat them")))
}

fn selected(names: &[String]) -> Result<Vec<&'static Area>, Failure> {
    if let Some(unknown) = names.iter().find(|name| !AREAS.iter().any(|area| area.name == **name)) {
        let known: Vec<&str> = AREAS.iter().map(|area| area.name).collect();
        return Err(Failure::new(format!("there is no area `{unknown}`; known are {}", known.join(", "))));
    }
    let is_selected = |area: &&Area| names.is_empty() || names.iter().any(|name| name == area.name);
    Ok(AREAS.iter().filter(is_selected).collect())
}

impl Area {
    fn run(&self, copy: &Workspace, steps: &Steps, tool: &Path, output: &Path) -> Result<Outcome, Failure> {
        let Self { name, package, files, without, tests } = self;
        files::create_folder(output)?;
        let mut mutants = copy.command(tool);
        mutants.args(["mutants", "--in-place", "--colors", "never", "--package", package]);
        mutants.args(["--timeout", TEST_SECONDS_MAX, "--build-timeout", BUILD_SECONDS_MAX]);
        for (flag, values) in [("--file", files), ("--exclude", without), ("--test-package", tests)] {
            for value in *values {
                mutants.args([flag, value]);
            }
        }
        // Each mutant is compiled: what takes long is left out.
        mutants.arg(format!("--cargo-arg=--config=profile.dev.package.{package}.opt-level=0"));
        mutants.args(["--cargo-test-arg=--lib", "--output"]).arg(output);
        mutants.env("CARGO_PROFILE_DEV_DEBUG", "0").env("CARGO_INCREMENTAL", "1");
        steps.say(&format!("make the mutants of `{name}`"));
        let status = mutants.status().map_err(|error| Failure::file(tool, error))?;
        if !status.code().is_some_and(|code| COMPLETE.contains(&code)) {
            return Err(Failure::new(format!("the run of `{name}` is not complete: {status}")));
        }
        let lines = |file: &str| -> Result<Vec<String>, Failure> {
            let text = files::read_text(&output.join("mutants.out").join(file))?;
            Ok(text.lines().map(str::to_owned).collect())
        };
        // A test that does not end has detected the mutant as well.
        let detected = lines("caught.txt")?.len() + lines("timeout.txt")?.len();
        Ok(Outcome { area: self.name, detected, survivors: lines("missed.txt")? })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn areas_are_selected_by_their_names() {
        let names = |words: &[&str]| {
            let words: Vec<String> = words.iter().map(|word| (*word).to_owned()).collect();
            selected(&words).map(|areas| areas.iter().map(|area| area.name).collect::<Vec<_>>())
        };
        assert_eq!(names(&[]).unwrap().len(), AREAS.len());
        assert_eq!(names(&["consents", "auth"]).unwrap(), ["auth", "consents"]);
        let unknown = names(&["aut"]).unwrap_err().to_string();
        assert_eq!(unknown, "there is no area `aut`; known are visibility, auth, limits, planner, consents");
    }

    #[test]
    fn the_files_of_every_area_exist() {
        let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
        for Area { files, .. } in AREAS {
            for file in files {
                let fixed = file.split('*').next().unwrap();
                assert!(root.join(fixed).exists(), "{file}");
            }
        }
    }

    #[test]
    fn survivors_are_listed() {
        let survivors = vec!["a.rs:1:2: replace x with y".to_owned()];
        let outcome = Outcome { area: "limits", detected: 3, survivors };
        assert_eq!(outcome.to_string(), "limits: 3 mutants were detected, 1 survived\n  a.rs:1:2: replace x with y");
    }
}
