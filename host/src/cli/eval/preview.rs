//! `daftar eval --preview`: evaluates a rule over the complete register, and draws bars or writes a table of all
//! subjects.

use std::borrow::Cow;

use clap::Args;
use daftar_api_types::public::preview::{
    AgeBandCounts, Counts, GenderCounts, PreviewLine, PreviewProgress, PreviewRequest, PreviewSubject, Previewed,
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
    /// With `--preview`: write every subject with outcome and missing facts, as CSV
    #[arg(long, requires = "preview")]
    csv: bool,
}

/// Evaluates the rule and prints the result.
///
/// # Errors
/// If the server rejects it or closes the connection.
pub fn run(
    global: &GlobalArgs,
    admin: &AdminClient,
    args: &PreviewArgs,
    rule: &Rule,
    as_of: Option<&str>,
) -> Result<(), CliError> {
    if args.csv && global.json {
        return Err(CliError::usage("`--csv` writes a table and `--json` an object: name one of them"));
    }
    let body = PreviewRequest {
        expression: Cow::Borrowed(&rule.expression),
        compare: None,
        engine: rule.engine.as_deref().map(Cow::Borrowed),
        subject: Some(rule.subject),
        filter: Some(filters(&args.filter)?),
        sample: None,
        subjects: Some(args.csv),
        as_of: as_of.map(Cow::Borrowed),
    };
    let lines = admin.lines("POST", "/eligibility/preview", Payload::for_lines(&body)?)?;
    if args.csv {
        output::line("subject,outcome,missing,errors");
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
    match (global.json, args.csv) {
        (true, _) => output::json(&body),
        (false, true) => output::note(summary(&result.counts)),
        (false, false) => output::line(drawn(&Paint::of_output(), &result)),
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
    use daftar_api_types::public::eligibility::{Decision, Outcome};
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
    fn a_cell_with_a_comma_or_a_quote_is_quoted() {
        let line = PreviewSubject {
            subject: "Individual/urn:x|a,\"b\"".into(),
            outcome: Outcome::Undetermined,
            compared: None,
            missing: vec!["me.a".to_owned(), "me.b".to_owned()].into(),
            errors: Vec::new(),
        };
        assert_eq!(row(&line), "\"Individual/urn:x|a,\"\"b\"\"\",undetermined,me.a me.b,");
    }
}
