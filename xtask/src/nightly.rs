//! `cargo xtask nightly`: the checks that take long, and a page with their results.
//!
//! **Invariant:** a run whose checks take longer than [`DURATION_MAX`] together fails, even if each of them passed.

use std::fmt::Write as _;
use std::path::PathBuf;
use std::time::{Duration, Instant};

use crate::commit::Commit;
use crate::failure::Failure;
use crate::files;
use crate::fuzz::{self, Outcome};
use crate::runner::ShortForm;
use crate::steps::Steps;
use crate::workspace::Workspace;
use crate::{bench, conformance, coverage, deny, reproduce, test, torture};

const USAGE: &str = "usage: cargo xtask nightly [--minutes N]";
/// Maximum duration of all checks, with what they compile.
const DURATION_MAX: Duration = Duration::from_secs(180 * 60);
/// The aim for the duration of a run of the tests that are the short form of these checks, in seconds. The page
/// states whether it is reached; no test depends on it.
const SHORT_SECONDS_AIM: f64 = 120.0;

/// What the checks do that can do more or less.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Amounts {
    /// Number of kills of the server.
    kills: u64,
    /// Number of states after a power cut that are opened.
    power_cuts: u64,
    /// Number of sequences of operations that are compared with the model, on each kind of server.
    sequences: u64,
    /// Duration of the run of each fuzz target, in seconds.
    fuzz_seconds: u64,
}

impl Amounts {
    const FULL: Self = Self { kills: 300, power_cuts: 10_000, sequences: 20, fuzz_seconds: 180 };
    /// Duration of the full amounts on a machine with two processors, in minutes: the sum of their four rows in
    /// `host/docs/VERIFY.md`, rounded up.
    const MINUTES: u64 = 90;

    /// The full amounts, or for fewer minutes a part of each.
    fn read(arguments: &[String]) -> Result<Self, Failure> {
        let minutes = match arguments {
            [] => Self::MINUTES,
            [flag, number] if flag == "--minutes" => {
                number.parse().ok().filter(|minutes| *minutes > 0).ok_or_else(|| Failure::new(USAGE))?
            }
            _ => return Err(Failure::new(USAGE)),
        };
        // A quarter of the power cuts are of disks that fail as well.
        let part = |full: u64, least: u64| (full * minutes.min(Self::MINUTES) / Self::MINUTES).max(least);
        let Self { kills, power_cuts, sequences, fuzz_seconds } = Self::FULL;
        Ok(Self {
            kills: part(kills, 1),
            power_cuts: part(power_cuts, 4),
            sequences: part(sequences, 1),
            fuzz_seconds: part(fuzz_seconds, 1),
        })
    }
}

/// What a check that succeeded did, for the page.
#[derive(Default)]
struct Done {
    /// The amount, if it is known only afterwards.
    amount: Option<String>,
    /// The parts of the check.
    parts: Vec<Outcome>,
}

/// A check by its name, with the number of what it does.
type Check<'a> = (&'static str, String, &'a dyn Fn() -> Result<Done, Failure>);

/// The result of a check.
struct Checked {
    name: &'static str,
    amount: String,
    duration: Duration,
    result: Result<(), String>,
    parts: Vec<Outcome>,
}

/// Runs every check, even if an earlier one fails, writes the page and reports at the end which failed.
pub fn run(workspace: &Workspace, steps: &Steps, arguments: &[String]) -> Result<(), Failure> {
    let Amounts { kills, power_cuts, sequences, fuzz_seconds } = Amounts::read(arguments)?;
    let words = |words: &[&str]| words.iter().map(|word| (*word).to_owned()).collect::<Vec<_>>();
    let whole = |result: Result<(), Failure>| result.map(|()| Done::default());
    let tortured =
        |flag: &str, amount: u64| whole(torture::run(workspace, steps, &words(&[flag, &amount.to_string()])));
    let checks: [Check<'_>; 10] = [
        ("advisories", String::new(), &|| whole(deny::run(workspace, steps, &words(&["advisories"])))),
        ("reproducible builds", "2 builds of each plugin".to_owned(), &|| whole(reproduce::run(workspace, steps))),
        ("conformance", String::new(), &|| whole(conformance::run(workspace, steps, &[]))),
        ("short form of the long checks", String::new(), &|| test::run_short(workspace, steps).map(Done::from)),
        ("benchmarks, as a smoke test", String::new(), &|| whole(bench::run(workspace, steps, &words(&["--smoke"])))),
        ("torture", format!("{kills} kills"), &|| tortured("--rounds", kills)),
        ("power cuts", format!("{power_cuts} states of a disk"), &|| tortured("--power-cuts", power_cuts)),
        ("model of the register", format!("{sequences} sequences on each kind of server"), &|| {
            tortured("--model", sequences)
        }),
        ("fuzzing", String::new(), &|| {
            let parts = fuzz::outcomes(workspace, steps, &words(&["--seconds", &fuzz_seconds.to_string()]))?;
            Ok(Done { amount: None, parts })
        }),
        ("coverage", "the tests that need Rust only".to_owned(), &|| {
            whole(coverage::run(workspace, steps, &words(&["--fast"])))
        }),
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
    conclusion(&results).map(|text| steps.say(&text)).map_err(Failure::new)
}

/// The last message: every check passed in time, or what failed.
fn conclusion(results: &[Checked]) -> Result<String, String> {
    let failed: Vec<&str> =
        results.iter().filter(|checked| checked.result.is_err()).map(|checked| checked.name).collect();
    let mut problems = Vec::new();
    if !failed.is_empty() {
        problems.push(format!("{} of {} checks failed: {}", failed.len(), results.len(), failed.join(", ")));
    }
    let total = total(results);
    if total > DURATION_MAX {
        problems.push(format!("the checks took {}, and {} are allowed", time(total), time(DURATION_MAX)));
    }
    if problems.is_empty() { Ok(format!("all {} checks passed", results.len())) } else { Err(problems.join("; ")) }
}

fn total(results: &[Checked]) -> Duration {
    results.iter().map(|checked| checked.duration).sum()
}

impl From<(ShortForm, f64)> for Done {
    fn from((short, seconds): (ShortForm, f64)) -> Self {
        let is_reached = seconds <= SHORT_SECONDS_AIM;
        let aim = if is_reached { "within the aim of" } else { "**longer than the aim of**" };
        let amount = format!("{short}; run in {seconds:.1} s, {aim} {SHORT_SECONDS_AIM:.0} s");
        Self { amount: Some(amount), parts: Vec::new() }
    }
}

fn page_file(workspace: &Workspace) -> PathBuf {
    workspace.target().join("nightly").join("report.md")
}

fn of(name: &'static str, amount: String, result: Result<Done, Failure>, started: Instant) -> Checked {
    let duration = started.elapsed();
    match result {
        Ok(Done { amount: done, parts }) => {
            let failed = parts.iter().filter(|part| part.failure.is_some()).map(ToString::to_string);
            let failed: Vec<String> = failed.collect();
            let runs: u64 = parts.iter().map(|part| part.runs).sum();
            let amount = match done {
                Some(done) => done,
                None if parts.is_empty() => amount,
                None => format!("{} targets, {runs} inputs", parts.len()),
            };
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
    let total = total(results);
    let outcome = if total > DURATION_MAX { "**failed**: too long" } else { "in time" };
    let _ = writeln!(page, "| all | {outcome} | {} | {} at most |", time(total), time(DURATION_MAX));
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
        let checked = |name, result: Result<Done, Failure>| Checked {
            duration: Duration::from_secs(61),
            ..of(name, "300 kills".to_owned(), result, Instant::now())
        };
        let results = [
            checked("torture", Ok(Done::default())),
            checked("conformance", Err(Failure::new("a | b\nc"))),
            checked(
                "fuzzing",
                Ok(Done { amount: None, parts: vec![part("rule", None), part("token", Some("an input fails"))] }),
            ),
        ];
        let page = page_of("abc", &results);
        let expected = "# Nightly checks of abc\n\n\
            | check | outcome | duration | amount |\n|---|---|---|---|\n\
            | torture | passed | 1:01 min | 300 kills |\n\
            | conformance | **failed**: a \\| b c | 1:01 min | 300 kills |\n\
            | fuzzing | **failed**: token: 1800 inputs in 180 s; an input fails | 1:01 min | 2 targets, 3600 inputs |\n\
            | all | in time | 3:03 min | 180:00 min at most |\n\n\
            ## Fuzz targets\n\n| target | outcome | duration | inputs | inputs per second |\n|---|---|---|---|---|\n\
            | `rule` | passed | 3:00 min | 1800 | 10 |\n\
            | `token` | **failed**: an input fails | 3:00 min | 1800 | 10 |\n";
        assert_eq!(page, expected);
    }

    fn lasting(minutes: u64, result: Result<Done, Failure>) -> Checked {
        Checked { duration: Duration::from_secs(minutes * 60), ..of("torture", String::new(), result, Instant::now()) }
    }

    #[test]
    fn a_run_that_takes_longer_than_three_hours_fails() {
        let done = |minutes| lasting(minutes, Ok(Done::default()));
        assert_eq!(conclusion(&[done(90), done(90)]), Ok("all 2 checks passed".to_owned()));
        let late = [done(90), done(91)];
        let expected = "the checks took 181:00 min, and 180:00 min are allowed";
        assert_eq!(conclusion(&late), Err(expected.to_owned()));
        assert!(page_of("abc", &late).contains("| all | **failed**: too long | 181:00 min | 180:00 min at most |"));
        let failed = conclusion(&[lasting(181, Err(Failure::new("no")))]);
        assert_eq!(failed, Err(format!("1 of 1 checks failed: torture; {expected}")));
    }

    #[test]
    fn the_durations_of_the_short_form_are_the_amount_of_its_check() {
        let amount = |seconds: f64| {
            let report = "<testcase name=\"power::a\" classname=\"daftar-tests::it\" time=\"150\"/>";
            let short = ShortForm::of(report).unwrap();
            of("short", String::new(), Ok((short, seconds).into()), Instant::now()).amount
        };
        let sum = "1 tests, 150.0 s in sum (power 150.0 s)";
        assert_eq!(amount(120.0), format!("{sum}; run in 120.0 s, within the aim of 120 s"));
        assert_eq!(amount(120.5), format!("{sum}; run in 120.5 s, **longer than the aim of** 120 s"));
    }

    #[test]
    fn fewer_minutes_do_a_part_of_everything() {
        let read = |text: &str| {
            let words: Vec<String> = text.split_whitespace().map(str::to_owned).collect();
            Amounts::read(&words)
        };
        assert_eq!(read("").unwrap(), Amounts::FULL);
        assert_eq!(read("--minutes 500").unwrap(), Amounts::FULL, "it is never more");
        let half = Amounts { kills: 150, power_cuts: 5_000, sequences: 10, fuzz_seconds: 90 };
        assert_eq!(read("--minutes 45").unwrap(), half);
        let least = Amounts { kills: 3, power_cuts: 111, sequences: 1, fuzz_seconds: 2 };
        assert_eq!(read("--minutes 1").unwrap(), least);
        for wrong in ["--minutes", "--minutes 0", "--minutes x", "40", "--minutes 1 2"] {
            assert!(read(wrong).is_err(), "{wrong}");
        }
    }
}
