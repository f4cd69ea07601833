//! `cargo xtask mutants`: small defects in the code that decides on access, limits and writes, one at a time, and whether
//! a test detects each.
//!
//! Mutants that no test can detect are left out, with the reason, in `.cargo/mutants.toml`. A complete run of areas
//! writes a page with their counts.
//!
//! **Invariant:** the sources of the project are never changed: a copy of them is.

use std::fmt;
use std::fmt::Write as _;
use std::fs;
use std::path::Path;

use crate::commit::Commit;
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
    /// Number of these whose tests did not end in time.
    timeouts: usize,
    /// Number of mutants that do not compile.
    unviable: usize,
    /// The mutants that no test detected, as the tool names them.
    survivors: Vec<String>,
}

impl fmt::Display for Outcome {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { area, detected, survivors, .. } = self;
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
    if !selection.continues && selection.only.is_none() {
        let page = workspace.target().join("nightly").join("mutants.md");
        let commit = Commit::of(workspace.root()).name.unwrap_or_else(|| "an unknown commit".to_owned());
        files::write_if_changed(&page, page_of(&commit, &outcomes).as_bytes())?;
        steps.say(&format!("the counts are in {}", page.display()));
    }
    let survivors: usize = outcomes.iter().map(|outcome| outcome.survivors.len()).sum();
    if survivors == 0 {
        return Ok(());
    }
    Err(Failure::new(format!("{survivors} mutants survived: CONTRIBUTING.md says how to treat them")))
}

/// The page, in Markdown.
fn page_of(commit: &str, outcomes: &[Outcome]) -> String {
    let mut page = format!(
        "# Mutants of {commit}\n\n| area | mutants | detected | of these by the time limit | survived | not built |\n\
         |---|---:|---:|---:|---:|---:|\n"
    );
    for Outcome { area, detected, timeouts, unviable, survivors } in outcomes {
        let survived = survivors.len();
        let mutants = detected.saturating_add(survived);
        let _ = writeln!(page, "| {area} | {mutants} | {detected} | {timeouts} | {survived} | {unviable} |");
    }
    page
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
        let timeouts = lines("timeout.txt")?.len();
        let detected = lines("caught.txt")?.len().saturating_add(timeouts);
        let unviable = lines("unviable.txt")?.len();
        Ok(Outcome { area: self.name, detected, timeouts, unviable, survivors: lines("missed.txt")? })
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;
    use std::path::PathBuf;

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

    fn patterns() -> Vec<String> {
        let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../.cargo/mutants.toml");
        let patterns: toml::Table = files::read_text(&path).unwrap().parse().unwrap();
        let patterns = patterns["exclude_re"].as_array().unwrap().iter();
        patterns.map(|pattern| pattern.as_str().unwrap().to_owned()).collect()
    }

    /// The sources of every area.
    fn sources() -> BTreeMap<PathBuf, String> {
        let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
        let mut sources = BTreeMap::new();
        for Area { files: patterns, .. } in AREAS {
            for pattern in patterns {
                let fixed = root.join(pattern.split('*').next().unwrap());
                let found = if fixed.is_dir() { files::all_below(&fixed, &[]).unwrap() } else { vec![PathBuf::new()] };
                for file in found {
                    let path = if file.as_os_str().is_empty() { fixed.clone() } else { fixed.join(file) };
                    let text = files::read_text(&path).unwrap();
                    sources.insert(path, text);
                }
            }
        }
        sources
    }

    /// The functions of that name in a file: the line of the `impl` above each, and its own lines.
    fn functions<'t>(text: &'t str, name: &str) -> Vec<(&'t str, Vec<&'t str>)> {
        let lines: Vec<&str> = text.lines().collect();
        let begins = [format!("fn {name}("), format!("fn {name}<")];
        let mut found = Vec::new();
        for (at, line) in lines.iter().enumerate() {
            if !begins.iter().any(|begin| line.contains(begin.as_str())) {
                continue;
            }
            let end = format!("{}}}", &line[..line.len() - line.trim_start().len()]);
            let body = lines[at..].iter().copied().take_while(|line| *line != end).collect();
            let owner = lines[..at].iter().rev().find(|line| line.starts_with("impl")).copied().unwrap_or_default();
            found.push((owner, body));
        }
        found
    }

    /// The columns of an operator in a line, as the tool counts them.
    fn columns(line: &str, operator: &str) -> Vec<usize> {
        line.match_indices(&format!(" {operator} ")).map(|(at, _)| line[..at].chars().count() + 2).collect()
    }

    /// Number of places in the sources that a pattern excludes.
    fn places(pattern: &str, sources: &BTreeMap<PathBuf, String>) -> usize {
        let plain = pattern.replace('\\', "");
        if let Some(types) = plain.strip_prefix("with .*(") {
            let types: Vec<&str> = types.split(')').next().unwrap().split('|').collect();
            let returns = |of: &str| {
                let mut lines = sources.values().flat_map(|text| text.lines());
                lines.any(|line| line.contains("-> ") && line.contains(of.trim_end_matches('?')))
            };
            assert!(types.iter().all(|of| returns(of)), "no function returns one of {types:?}");
            return types.len();
        }
        let (place, name) = match plain.split_once(":d+:") {
            Some((file, rest)) => {
                let (column, name) = rest.split_once(": ").unwrap();
                (Some((file, column.parse::<usize>().unwrap())), name)
            }
            None => (None, plain.as_str()),
        };
        let (owner, function) = match (name.split_once(" in "), name.split_once(">::")) {
            (Some((_, path)), _) => path.rsplit_once("::").unwrap_or(("", path)),
            (None, Some((owner, rest))) => (owner.rsplit("<impl ").next().unwrap(), rest.split(' ').next().unwrap()),
            (None, None) => ("", name.trim_start_matches("replace ").split(' ').next().unwrap()),
        };
        let operator = name.strip_prefix("replace ").and_then(|rest| rest.split(' ').next());
        let operator = operator.filter(|word| !word.contains(|letter: char| letter.is_alphanumeric()));
        let mut found = 0;
        for (path, text) in sources {
            if place.is_some_and(|(file, _)| !path.ends_with(file)) {
                continue;
            }
            for (line, body) in functions(text, function) {
                if !owner.split(".*").all(|part| line.contains(part)) {
                    continue;
                }
                let Some(operator) = operator else {
                    found += 1;
                    continue;
                };
                let columns = body.iter().flat_map(|line| columns(line, operator));
                found += columns.filter(|column| place.is_none_or(|(_, wanted)| wanted == *column)).count();
            }
        }
        assert!(operator.is_none() || found <= 1, "`{pattern}` excludes {found} operators: add the column of one");
        found
    }

    #[test]
    fn every_mutant_that_is_left_out_is_in_the_sources() {
        let sources = sources();
        for pattern in patterns() {
            let has_line = pattern.replace('\\', "").contains(".rs:") && !pattern.contains(":\\d+:");
            assert!(!has_line, "`{pattern}` has the number of a line, which other changes move: write `\\d+`");
            assert!(places(&pattern, &sources) > 0, "`{pattern}` excludes nothing: its code has changed");
        }
    }

    #[test]
    fn a_pattern_without_its_code_excludes_nothing() {
        let code = "impl Window {\n    fn charge(&self) {\n        self.list.retain(|at| *at > now);\n        \
                    if calls > limit {}\n    }\n}\n";
        let sources = BTreeMap::from([(PathBuf::from("limits/allowance.rs"), code.to_owned())]);
        for (pattern, expected) in [
            ("limits/allowance\\.rs:\\d+:35: replace > with >= in Window::charge", 1),
            ("limits/allowance\\.rs:\\d+:18: replace > with >= in Window::charge", 1),
            ("limits/allowance\\.rs:\\d+:19: replace > with >= in Window::charge", 0),
            ("limits/day\\.rs:\\d+:18: replace > with >= in Window::charge", 0),
            ("replace > with >= in Bucket::charge", 0),
            ("replace < with <= in Window::charge", 0),
            ("replace charge -> u32 with 0", 1),
            ("<impl fmt::Debug for .*>::fmt", 0),
        ] {
            assert_eq!(places(pattern, &sources), expected, "{pattern}");
        }
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
        let outcome = Outcome { area: "limits", detected: 3, timeouts: 1, unviable: 2, survivors };
        assert_eq!(
            outcome.to_string(),
            "limits: 3 mutants were detected in this run, 1 survived\n  a.rs:1:2: replace x with y"
        );
        let page = page_of("abc", &[outcome]);
        assert!(page.starts_with("# Mutants of abc\n") && page.ends_with("| limits | 4 | 3 | 1 | 1 | 2 |\n"), "{page}");
    }
}
