//! `daftar eval --preview`: evaluates a rule over the complete register, alone or compared with a second one, and draws
//! the counts or writes a table of all subjects.

use std::borrow::Cow;

use clap::Args;
use daftar_api_types::public::eligibility::Outcome;
use daftar_api_types::public::preview::{
    AgeBandCounts, Cell, Counts, GenderCounts, PreviewLine, PreviewProgress, PreviewRequest, PreviewSubject, Previewed,
};
use serde_json::{Map, Value, json};

use super::Rule;
use super::drawing::{Meaning, Paint};
use crate::cli::admin_client::{AdminClient, Payload, read};
use crate::cli::{CliError, GlobalArgs, output};

/// Width of the longest bar, in characters.
const BAR_WIDTH: u64 = 40;

/// Request of a preview.
#[derive(Debug, Args)]
pub struct PreviewArgs {
    /// Evaluate all records of the register, or those that `--filter` finds, and count
    #[arg(long, conflicts_with_all = ["of", "records", "sample", "explain", "check", "cases"])]
    pub preview: bool,
    /// With `--preview`: a filter of a search, such as `active=true` or `birth_date=le1966-01-01`; may be given several
    /// times
    #[arg(long, value_name = "NAME=VALUE", requires = "preview")]
    filter: Vec<String>,
    /// With `--preview`: compare with that rule (B), an expression, `@FILE` or `-`, over the same records
    #[arg(long, value_name = "EXPR", requires = "preview")]
    pub compare: Option<String>,
    /// With `--preview`: write every subject with outcome and missing facts, or with both outcomes, as CSV
    #[arg(long, requires = "preview")]
    csv: bool,
}

/// Evaluates the rule, and the expression that it is compared with, and prints the result.
///
/// # Errors
/// If the server rejects it or closes the connection.
pub fn run(
    global: &GlobalArgs,
    admin: &AdminClient,
    args: &PreviewArgs,
    (rule, compare): (&Rule, Option<&str>),
    as_of: Option<&str>,
) -> Result<(), CliError> {
    if args.csv && global.json {
        return Err(CliError::usage("`--csv` writes a table and `--json` an object: name one of them"));
    }
    let body = PreviewRequest {
        expression: Cow::Borrowed(&rule.expression),
        compare: compare.map(Cow::Borrowed),
        engine: rule.engine.as_deref().map(Cow::Borrowed),
        subject: Some(rule.subject),
        filter: Some(filters(&args.filter)?),
        sample: None,
        subjects: Some(args.csv),
        as_of: as_of.map(Cow::Borrowed),
    };
    let lines = admin.lines("POST", "/eligibility/preview", Payload::for_lines(&body)?)?;
    if args.csv {
        let columns = if compare.is_some() { "subject,outcome_a,outcome_b" } else { "subject,outcome,missing,errors" };
        output::line(columns);
    }
    let bar = output::bar(global.json, 0, "[{wide_bar}] {human_pos}/{human_len} {eta}");
    let mut result = None;
    for line in lines {
        let line = line?;
        match read::<PreviewLine<'_>>(line.clone())? {
            PreviewLine::Progress(PreviewProgress { progress }) => {
                bar.set_length(progress.total);
                bar.set_position(progress.done);
            }
            PreviewLine::Failed(failed) => {
                bar.finish_and_clear();
                return Err(CliError::failed(failed.error.detail));
            }
            PreviewLine::Subject(subject) => bar.suspend(|| output::line(row(&subject))),
            PreviewLine::Result(previewed) => result = Some((line, previewed)),
        }
    }
    bar.finish_and_clear();
    let (body, result) =
        result.ok_or_else(|| CliError::unavailable("the server closed the connection before the result"))?;
    let paint = Paint::of_output();
    match (global.json, args.csv, &result.comparison) {
        (true, _, _) => output::json(&body),
        (false, true, _) => output::note(summary(&result.counts)),
        (false, false, Some(comparison)) => output::line(drawn_comparison(&paint, &result.counts, &comparison.cells)),
        (false, false, None) => output::line(drawn(&paint, &result)),
    }
    Ok(())
}

/// Returns the filters in the form of the body: a list of values for each name.
fn filters(given: &[String]) -> Result<Map<String, Value>, CliError> {
    let mut filter = Map::new();
    for text in given {
        let (name, value) = text
            .split_once('=')
            .ok_or_else(|| CliError::usage(format!("`--filter` takes `NAME=VALUE`, not `{text}`")))?;
        let values = filter.entry(name).or_insert_with(|| json!([]));
        if let Some(values) = values.as_array_mut() {
            values.push(json!(value));
        }
    }
    Ok(filter)
}

/// Returns a subject as comma-separated values.
fn row(line: &PreviewSubject<'_>) -> String {
    if let Some(compared) = line.compared {
        return [line.subject.as_ref(), line.outcome.name(), compared.name()].map(quoted).join(",");
    }
    let errors: Vec<&str> = line.errors.iter().map(|error| error.code.as_ref()).collect();
    let (missing, errors) = (line.missing.join(" "), errors.join(" "));
    [line.subject.as_ref(), line.outcome.name(), missing.as_str(), errors.as_str()].map(quoted).join(",")
}

/// Returns a quoted cell of a table (RFC 4180).
fn quoted(text: &str) -> String {
    if text.contains([',', '"', '\n', '\r']) { format!("\"{}\"", text.replace('"', "\"\"")) } else { text.to_owned() }
}

fn summary(counts: &Counts) -> String {
    let Counts { total, eligible, not_eligible, undetermined, errors } = counts;
    let errors = if *errors == 0 { String::new() } else { format!(" ({errors} with an error)") };
    format!("{total} in all: {eligible} eligible, {not_eligible} not eligible, {undetermined} undetermined{errors}")
}

/// Returns the result as bars of eligible subjects by age and by gender, with the missing facts.
fn drawn(paint: &Paint, result: &Previewed<'_>) -> String {
    let age = |band: &AgeBandCounts| match (band.from, band.to) {
        (Some(from), Some(to)) => format!("{from} to {to}"),
        (Some(from), None) => format!("{from} and more"),
        (None, _) => "not known".to_owned(),
    };
    let gender = |of: &GenderCounts<'_>| of.display.as_deref().unwrap_or("not known").to_owned();
    let mut lines = vec![paint.paint(Meaning::Strong, &summary(&result.counts))];
    let ages: Vec<(String, Counts)> =
        result.by_age_band.iter().flatten().map(|band| (age(band), band.counts)).collect();
    let genders: Vec<(String, Counts)> = result.by_gender.iter().flatten().map(|of| (gender(of), of.counts)).collect();
    chart(paint, "eligible by age", &ages, &mut lines);
    chart(paint, "eligible by gender", &genders, &mut lines);
    if !result.missing.is_empty() {
        lines.extend([String::new(), paint.paint(Meaning::Aside, "missing facts that would decide")]);
        lines.extend(result.missing.iter().map(|of| format!("  {:>9}  {}", of.count, of.field)));
    }
    lines.join("\n")
}

/// The outcomes, in the order of the table.
const OUTCOMES: [Outcome; 3] = [Outcome::Eligible, Outcome::NotEligible, Outcome::Undetermined];

/// Returns the counts of both rules, the subjects by both outcomes as a table, and the numbers of those that B adds and
/// removes.
fn drawn_comparison(paint: &Paint, of_a: &Counts, cells: &[Cell]) -> String {
    let count = |is_counted: &dyn Fn(Outcome, Outcome) -> bool| -> u64 {
        cells.iter().filter(|cell| is_counted(cell.a, cell.b)).map(|cell| cell.count).sum()
    };
    let of_b = |outcome: Outcome| count(&|_, b| b == outcome);
    let [eligible, not_eligible, undetermined] = OUTCOMES.map(of_b);
    let of_b = Counts { total: of_a.total, eligible, not_eligible, undetermined, errors: 0 };
    let gained = count(&|a, b| b == Outcome::Eligible && a != b);
    let lost = count(&|a, b| a == Outcome::Eligible && a != b);
    let label = |outcome: Outcome, rule: &str| format!("{} by {rule}", outcome.name().replace('_', " "));
    let columns = OUTCOMES.map(|outcome| label(outcome, "B"));
    let width = OUTCOMES.map(|outcome| label(outcome, "A").len()).into_iter().max().unwrap_or_default();
    let mut lines = vec![
        paint.paint(Meaning::Strong, &format!("A: {}", summary(of_a))),
        paint.paint(Meaning::Strong, &format!("B: {}", summary(&of_b))),
        String::new(),
        paint.paint(Meaning::Aside, &format!("{:width$}  {}", "", columns.join("  "))),
    ];
    for a in OUTCOMES {
        let counts = OUTCOMES.iter().zip(&columns).map(|(outcome, column)| {
            let count = count(&|of_a, of_b| (of_a, of_b) == (a, *outcome));
            format!("{count:>0$}", column.len())
        });
        lines.push(format!("{:width$}  {}", label(a, "A"), counts.collect::<Vec<_>>().join("  ")));
    }
    lines.extend([String::new(), format!("{gained} gained (eligible by B only), {lost} lost (eligible by A only)")]);
    lines.join("\n")
}

fn chart(paint: &Paint, title: &str, rows: &[(String, Counts)], lines: &mut Vec<String>) {
    if rows.is_empty() {
        return;
    }
    let most = rows.iter().map(|(_, counts)| counts.eligible).max().unwrap_or_default();
    let width = rows.iter().map(|(name, _)| name.chars().count()).max().unwrap_or_default();
    lines.extend([String::new(), paint.paint(Meaning::Aside, title)]);
    for (name, Counts { eligible, total, .. }) in rows {
        let bar = "█".repeat(length(*eligible, most));
        let padding = " ".repeat(width - name.chars().count());
        let space = if bar.is_empty() { "" } else { " " };
        lines.push(format!("  {name}{padding}  {}{space}{eligible} of {total}", paint.paint(Meaning::Yes, &bar)));
    }
}

/// Returns the length of a bar: at least one character for a count above zero.
fn length(count: u64, most: u64) -> usize {
    let scaled = count.saturating_mul(BAR_WIDTH).checked_div(most).unwrap_or_default();
    usize::try_from(scaled.max(count.min(1))).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use daftar_api_types::public::eligibility::Decision;
    use daftar_api_types::public::preview::MissingFact;

    use super::*;

    #[test]
    fn bars_are_as_long_as_there_are_eligible_people() {
        let band = |from: Option<u8>, to: Option<u8>, eligible: u64, total: u64| AgeBandCounts {
            from,
            to,
            counts: Counts { eligible, total, ..Counts::default() },
        };
        let result = Previewed {
            counts: Counts { total: 1_010, eligible: 81, not_eligible: 900, undetermined: 29, errors: 2 },
            by_age_band: Some(vec![
                band(Some(60), Some(64), 80, 100),
                band(Some(80), None, 1, 900),
                band(None, None, 0, 10),
            ]),
            by_gender: Some(Vec::new()),
            by_region: None,
            missing: vec![MissingFact { field: "me.gender".into(), count: 27 }],
            sample: Vec::new(),
            comparison: None,
            withheld: Vec::new(),
            decision: Decision::default(),
            warnings: Vec::new(),
        };
        let drawn = drawn(&Paint::fixed(false), &result);
        insta::assert_snapshot!(drawn, @"
        1010 in all: 81 eligible, 900 not eligible, 29 undetermined (2 with an error)

        eligible by age
          60 to 64     ████████████████████████████████████████ 80 of 100
          80 and more  █ 1 of 900
          not known    0 of 10

        missing facts that would decide
                 27  me.gender
        ");
    }

    #[test]
    fn outcomes_of_two_rules_are_a_table_of_nine_cells() {
        let counts = [80, 1, 0, 9, 890, 1, 1, 1, 27];
        let pairs = OUTCOMES.into_iter().flat_map(|a| OUTCOMES.map(|b| (a, b)));
        let cells: Vec<Cell> = pairs.zip(counts).map(|((a, b), count)| Cell { a, b, count }).collect();
        let of_a = Counts { total: 1_010, eligible: 81, not_eligible: 900, undetermined: 29, errors: 2 };
        insta::assert_snapshot!(drawn_comparison(&Paint::fixed(false), &of_a, &cells), @"
        A: 1010 in all: 81 eligible, 900 not eligible, 29 undetermined (2 with an error)
        B: 1010 in all: 90 eligible, 892 not eligible, 28 undetermined

                           eligible by B  not eligible by B  undetermined by B
        eligible by A                 80                  1                  0
        not eligible by A              9                890                  1
        undetermined by A              1                  1                 27

        10 gained (eligible by B only), 1 lost (eligible by A only)
        ");
    }

    #[test]
    fn a_cell_with_a_comma_or_a_quote_is_quoted() {
        let line = PreviewSubject {
            subject: "Individual/urn:x|a,\"b\"".into(),
            outcome: Outcome::Undetermined,
            compared: None,
            missing: vec!["me.a".to_owned(), "me.b".to_owned()].into(),
            errors: Vec::new(),
        };
        assert_eq!(row(&line), "\"Individual/urn:x|a,\"\"b\"\"\",undetermined,me.a me.b,");
        let compared = PreviewSubject { compared: Some(Outcome::NotEligible), ..line };
        assert_eq!(row(&compared), "\"Individual/urn:x|a,\"\"b\"\"\",undetermined,not_eligible");
    }
}
