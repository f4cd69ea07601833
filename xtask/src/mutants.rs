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
const TEST_SECONDS_MAX: &str = "30";
/// Maximum duration of a compilation, in seconds: the first one compiles the dependencies.
const BUILD_SECONDS_MAX: &str = "1800";
/// Number of cases of a property test that does not set it, a quarter of the default: enough to detect a mutant.
const PROPERTY_CASES: &str = "64";
/// Arguments of the command.
const USAGE: &str = "usage: cargo xtask mutants [AREA …] [--continue] [--only REGEX]";
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
    /// Parts of the names of tests that are left out: they take long and test other code.
    slow: &'static [&'static str],
}

const AREAS: [Area; 5] = [
    Area {
        name: "visibility",
        package: "daftar-service",
        files: &["host/crates/service/src/visibility.rs"],
        without: &[],
        tests: &["daftar-service"],
        slow: &["audit::", "backup::", "eligibility::", "group::", "idempotency::", "plugin::", "shared_index::"],
    },
    Area {
        name: "auth",
        package: "daftar-auth",
        files: &["host/crates/auth/src/**"],
        without: &["host/crates/auth/src/limits*", "host/crates/auth/src/limits/**", "fixtures.rs", "tests.rs"],
        tests: &["daftar-auth"],
        slow: &["limits::", "a_million_claimed_ids", "at_the_key_limit", "with_and_without_the_cache"],
    },
    Area {
        name: "limits",
        package: "daftar-auth",
        files: &["host/crates/auth/src/limits.rs", "host/crates/auth/src/limits/**"],
        without: &["fixtures.rs", "tests.rs"],
        tests: &["daftar-auth"],
        slow: &["cursor_seal::", "decision_key::", "failed_sign_ins::", "key_", "token_cache::"],
    },
    Area {
        name: "planner",
        package: "daftar-store",
        files: &["host/crates/store/src/plan.rs", "host/crates/store/src/plan/*.rs"],
        without: &[],
        tests: &["daftar-store", "daftar-store-sled"],
        slow: &["archive", "audit", "damage", "entries_left", "photo", "record::", "segment::", "torn::", "verify::"],
    },
    Area {
        name: "consents",
        package: "daftar-index",
        files: &["host/crates/index/src/consent_index.rs", "host/crates/index/src/consent_index/*.rs"],
        without: &["testing.rs", "tests.rs"],
        tests: &["daftar-index"],
        slow: &["a_flipped_bit", "of_many_segments", "tests::property", "tests::searches", "terms::", "tree::"],
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
        write!(formatter, "{area}: {detected} mutants were detected in this run, {} survived", survivors.len())?;
        survivors.iter().try_for_each(|survivor| write!(formatter, "\n  {survivor}"))
    }
}

/// The mutants to make.
#[derive(Debug, Default)]
struct Selection {
    /// The names of areas; all if there are none.
    areas: Vec<String>,
    /// Leaves out the mutants that earlier runs detected.
    continues: bool,
    /// A regular expression that the names of the mutants match.
    only: Option<String>,
}

impl Selection {
    fn of(arguments: &[String]) -> Result<Self, Failure> {
        let mut selection = Self::default();
        let mut arguments = arguments.iter();
        while let Some(argument) = arguments.next() {
            match argument.as_str() {
                "--continue" => selection.continues = true,
                "--only" => selection.only = Some(arguments.next().ok_or_else(|| Failure::new(USAGE))?.clone()),
                flag if flag.starts_with('-') => return Err(Failure::new(USAGE)),
                area => selection.areas.push(area.to_owned()),
            }
        }
        Ok(selection)
    }
}

/// Makes the mutants of the named areas or of all, sequentially, and fails if one survives.
pub fn run(workspace: &Workspace, steps: &Steps, arguments: &[String]) -> Result<(), Failure> {
    let selection = Selection::of(arguments)?;
    let areas = selected(&selection.areas)?;
    let tool = tools::cargo_tool(workspace, steps, TOOL, &[])?;
    let folder = workspace.target().join("mutants");
    let sources = folder.join("sources");
    update(workspace, &sources)?;
    let copy = workspace.at(sources, folder.join("target"));
    let mut outcomes = Vec::new();
    for area in areas {
        outcomes.push(area.run(&copy, steps, &tool, &selection, &folder.join(area.name))?);
    }
    outcomes.iter().for_each(|outcome| steps.say(&outcome.to_string()));
    let survivors: usize = outcomes.iter().map(|outcome| outcome.survivors.len()).sum();
    if survivors == 0 {
        return Ok(());
    }
    Err(Failure::new(format!("{survivors} mutants survived: CONTRIBUTING.md says how to treat them")))
}

/// Makes a copy of the sources, or updates it: files that are equal stay, so that only the changed ones are compiled.
fn update(workspace: &Workspace, sources: &Path) -> Result<(), Failure> {
    reproduce::copy_project(workspace, sources)?;
    for file in files::all_below(sources, &[])? {
        if !workspace.root().join(&file).exists() {
            let removed = sources.join(&file);
            fs::remove_file(&removed).map_err(|error| Failure::file(&removed, error))?;
        }
    }
    Ok(())
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
    fn run(
        &self,
        copy: &Workspace,
        steps: &Steps,
        tool: &Path,
        selection: &Selection,
        output: &Path,
    ) -> Result<Outcome, Failure> {
        let Self { name, package, files, without, tests, slow } = self;
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
        if selection.continues {
            mutants.arg("--iterate");
        }
        if let Some(pattern) = &selection.only {
            mutants.args(["--re", pattern]);
        }
        // The first of the two ends the arguments of the tool, the second those of cargo.
        mutants.args(["--", "--"]).args(slow.iter().flat_map(|tests| ["--skip", tests]));
        mutants.env("CARGO_PROFILE_DEV_DEBUG", "0").env("CARGO_INCREMENTAL", "1");
        mutants.env("PROPTEST_CASES", PROPERTY_CASES);
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
    fn options_and_areas_are_read() {
        let of = |words: &[&str]| Selection::of(&words.iter().map(|word| (*word).to_owned()).collect::<Vec<_>>());
        let selection = of(&["limits", "--continue", "--only", "replace <"]).unwrap();
        assert_eq!((selection.areas, selection.continues), (vec!["limits".to_owned()], true));
        assert_eq!(selection.only.as_deref(), Some("replace <"));
        for wrong in [&["--only"][..], &["--all"]] {
            assert_eq!(of(wrong).unwrap_err().to_string(), USAGE);
        }
    }

    #[test]
    fn the_patterns_of_mutants_that_no_test_can_detect_are_valid() {
        let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../.cargo/mutants.toml");
        let patterns: toml::Table = files::read_text(&path).unwrap().parse().unwrap();
        assert!(patterns["exclude_re"].as_array().unwrap().iter().all(toml::Value::is_str));
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
        assert_eq!(
            outcome.to_string(),
            "limits: 3 mutants were detected in this run, 1 survived\n  a.rs:1:2: replace x with y"
        );
    }
}
