//! `cargo xtask nightly`: the checks that take long, and a page with their results.

use std::fmt::Write as _;
use std::path::PathBuf;
use std::time::{Duration, Instant};

use crate::commit::Commit;
use crate::failure::Failure;
use crate::files;
use crate::fuzz::{self, Outcome};
use crate::steps::Steps;
use crate::workspace::Workspace;
use crate::{bench, conformance, deny, reproduce, torture};

/// Number of kills of the server.
const ROUNDS: &str = "300";
/// Number of sequences of operations that are compared with the model, on each kind of server.
const SEQUENCES: &str = "20";
/// Number of states after a power cut that are opened.
const POWER_CUTS: &str = "10000";

/// The parts of a check that succeeded, for the page.
type Parts = Vec<Outcome>;
/// A check by its name, with the number of what it does.
type Check<'a> = (&'static str, String, &'a dyn Fn() -> Result<Parts, Failure>);

/// The result of a check.
struct Checked {
    name: &'static str,
    amount: String,
    duration: Duration,
    result: Result<(), String>,
    parts: Parts,
}

/// Runs every check, even if an earlier one fails, writes the page and reports at the end which failed.
pub fn run(workspace: &Workspace, steps: &Steps) -> Result<(), Failure> {
    let words = |words: &[&str]| words.iter().map(|word| (*word).to_owned()).collect::<Vec<_>>();
    let whole = |result: Result<(), Failure>| result.map(|()| Vec::new());
    let checks: [Check<'_>; 8] = [
        ("advisories", String::new(), &|| whole(deny::run(workspace, steps, &words(&["advisories"])))),
        ("reproducible builds", "2 builds of each plugin".to_owned(), &|| whole(reproduce::run(workspace, steps))),
        ("conformance", String::new(), &|| whole(conformance::run(workspace, steps, &[]))),
        ("benchmarks, as a smoke test", String::new(), &|| whole(bench::run(workspace, steps, &words(&["--smoke"])))),
        ("torture", format!("{ROUNDS} kills"), &|| {
            whole(torture::run(workspace, steps, &words(&["--rounds", ROUNDS])))
        }),
        ("power cuts", format!("{POWER_CUTS} states of a disk"), &|| {
            whole(torture::run(workspace, steps, &words(&["--power-cuts", POWER_CUTS])))
        }),
        ("model of the register", format!("{SEQUENCES} sequences on each kind of server"), &|| {
            whole(torture::run(workspace, steps, &words(&["--model", SEQUENCES])))
        }),
        ("fuzzing", String::new(), &|| fuzz::outcomes(workspace, steps, &[])),
    ];
    let mut results = Vec::new();
    for (name, amount, check) in checks {
        steps.say(&format!("NIGHTLY: {name}"));
        let started = Instant::now();
        let checked = of(name, amount, check(), started);
        if let Err(failure) = &checked.result {
            steps.say(&format!("FAILED: {name}: {failure}"));
        }
        results.push(checked);
    }
    let page = page_file(workspace);
    let commit = Commit::of(workspace.root()).name.unwrap_or_else(|| "an unknown commit".to_owned());
    files::write_if_changed(&page, page_of(&commit, &results).as_bytes())?;
    steps.say(&format!("the results are in {}", page.display()));
    let failed: Vec<&str> =
        results.iter().filter(|checked| checked.result.is_err()).map(|checked| checked.name).collect();
    if failed.is_empty() {
        steps.say(&format!("all {} checks passed", results.len()));
        return Ok(());
    }
    Err(Failure::new(format!("{} of {} checks failed: {}", failed.len(), results.len(), failed.join(", "))))
}

fn page_file(workspace: &Workspace) -> PathBuf {
    workspace.target().join("nightly").join("report.md")
}

fn of(name: &'static str, amount: String, result: Result<Parts, Failure>, started: Instant) -> Checked {
    let duration = started.elapsed();
    match result {
        Ok(parts) => {
            let failed = parts.iter().filter(|part| part.failure.is_some()).map(ToString::to_string);
            let failed: Vec<String> = failed.collect();
            let runs: u64 = parts.iter().map(|part| part.runs).sum();
            let amount = if parts.is_empty() { amount } else { format!("{} targets, {runs} inputs", parts.len()) };
            let result = if failed.is_empty() { Ok(()) } else { Err(failed.join("; ")) };
            Checked { name, amount, duration, result, parts }
        }
        Err(failure) => Checked { name, amount, duration, result: Err(failure.to_string()), parts: Vec::new() },
    }
}

/// The page, in Markdown.
fn page_of(commit: &str, results: &[Checked]) -> String {
    let mut page =
        format!("# Nightly checks of {commit}\n\n| check | outcome | duration | amount |\n|---|---|---|---|\n");
    for Checked { name, amount, duration, result, .. } in results {
        let outcome =
            result.as_ref().map_or_else(|failure| format!("**failed**: {}", cell(failure)), |()| "passed".to_owned());
        let _ = writeln!(page, "| {name} | {outcome} | {} | {amount} |", time(*duration));
    }
    let parts: Vec<&Outcome> = results.iter().flat_map(|checked| &checked.parts).collect();
    if parts.is_empty() {
        return page;
    }
    page.push_str(
        "\n## Fuzz targets\n\n| target | outcome | duration | inputs | inputs per second |\n|---|---|---|---|---|\n",
    );
    for Outcome { target, runs, duration, failure } in parts {
        let outcome =
            failure.as_ref().map_or_else(|| "passed".to_owned(), |failure| format!("**failed**: {}", cell(failure)));
        let rate = *runs as f64 / duration.as_secs_f64().max(1.0);
        let _ = writeln!(page, "| `{target}` | {outcome} | {} | {runs} | {rate:.0} |", time(*duration));
    }
    page
}

/// A text as a cell of a table.
fn cell(text: &str) -> String {
    text.replace('|', "\\|").split_whitespace().collect::<Vec<_>>().join(" ")
}

fn time(duration: Duration) -> String {
    let seconds = duration.as_secs();
    format!("{}:{:02} min", seconds / 60, seconds % 60)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn part(target: &str, failure: Option<&str>) -> Outcome {
        let failure = failure.map(str::to_owned);
        Outcome { target: target.to_owned(), runs: 1_800, duration: Duration::from_secs(180), failure }
    }

    #[test]
    fn the_page_has_a_row_for_each_check_and_each_target() {
        let checked = |name, result: Result<Parts, Failure>| Checked {
            duration: Duration::from_secs(61),
            ..of(name, "300 kills".to_owned(), result, Instant::now())
        };
        let results = [
            checked("torture", Ok(Vec::new())),
            checked("conformance", Err(Failure::new("a | b\nc"))),
            checked("fuzzing", Ok(vec![part("rule", None), part("token", Some("an input fails"))])),
        ];
        let page = page_of("abc", &results);
        let expected = "# Nightly checks of abc\n\n\
            | check | outcome | duration | amount |\n|---|---|---|---|\n\
            | torture | passed | 1:01 min | 300 kills |\n\
            | conformance | **failed**: a \\| b c | 1:01 min | 300 kills |\n\
            | fuzzing | **failed**: token: 1800 inputs in 180 s; an input fails | 1:01 min | 2 targets, 3600 inputs |\n\n\
            ## Fuzz targets\n\n| target | outcome | duration | inputs | inputs per second |\n|---|---|---|---|---|\n\
            | `rule` | passed | 3:00 min | 1800 | 10 |\n\
            | `token` | **failed**: an input fails | 3:00 min | 1800 | 10 |\n";
        assert_eq!(page, expected);
    }
}
