//! `daftar eval --preview`: a rule over the whole register, drawn as bars or written as a table of everybody.

use clap::Args;
use indicatif::{ProgressBar, ProgressStyle};
use serde_json::{Map, Value, json};

use super::Rule;
use super::paint::{Meaning, Paint};
use super::text_of;
use crate::cli::admin_client::{AdminClient, Payload};
use crate::cli::{CliError, GlobalArgs, output};

/// How wide the longest bar is, in characters.
const BAR_WIDTH: u64 = 40;

/// How a rule is asked about the whole register.
#[derive(Debug, Args)]
pub struct PreviewArgs {
    /// Ask about everybody in the register, or whom `--filter` finds, and count
    #[arg(long, conflicts_with_all = ["of", "records", "sample", "explain", "check", "cases"])]
    pub preview: bool,
    /// With `--preview`: a filter of a search, such as `active=true` or `birth_date=le1966-01-01`; may be given several times
    #[arg(long, value_name = "NAME=VALUE", requires = "preview")]
    filter: Vec<String>,
    /// With `--preview`: write everybody with outcome and missing facts, as comma-separated values
    #[arg(long, requires = "preview")]
    csv: bool,
}

/// Asks the rule and shows what comes of it.
///
/// # Errors
/// The server refuses, or breaks off.
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
    let mut body = Map::new();
    body.insert("expression".to_owned(), json!(rule.expression));
    body.insert("subject".to_owned(), json!(rule.subject));
    body.insert("filter".to_owned(), filters(&args.filter)?);
    body.insert("subjects".to_owned(), json!(args.csv));
    body.extend(as_of.map(|day| ("as_of".to_owned(), json!(day))));
    let lines = admin.lines("POST", "/eligibility/preview", Payload::for_lines(&body)?)?;
    if args.csv {
        output::line("subject,outcome,missing,errors");
    }
    let bar = bar(global.json);
    let mut result = None;
    for line in lines {
        let line = line?;
        if let Some(progress) = line.get("progress") {
            bar.set_length(number(progress, "total"));
            bar.set_position(number(progress, "done"));
        } else if let Some(error) = line.get("error") {
            bar.finish_and_clear();
            return Err(CliError::failed(text_of(error, "detail")));
        } else if line.get("subject").is_some() {
            bar.suspend(|| output::line(row(&line)));
        } else {
            result = Some(line);
        }
    }
    bar.finish_and_clear();
    let result = result.ok_or_else(|| CliError::unavailable("the server broke off before the result"))?;
    match (global.json, args.csv) {
        (true, _) => output::json(&result),
        (false, true) => output::note(summary(&result)),
        (false, false) => output::line(drawn(&Paint::of_output(), &result)),
    }
    Ok(())
}

/// Filters as the body has them: a list of values under each name.
fn filters(given: &[String]) -> Result<Value, CliError> {
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
    Ok(Value::Object(filter))
}

fn bar(is_hidden: bool) -> ProgressBar {
    let bar = if is_hidden { ProgressBar::hidden() } else { ProgressBar::new(0) };
    let style = ProgressStyle::with_template("[{wide_bar}] {human_pos}/{human_len} {eta}");
    bar.with_style(style.unwrap_or_else(|_| ProgressStyle::default_bar()))
}

fn number(of: &Value, name: &str) -> u64 {
    of.get(name).and_then(Value::as_u64).unwrap_or_default()
}

/// A subject as comma-separated values.
fn row(line: &Value) -> String {
    let list = |name: &str| line.get(name).and_then(Value::as_array).map(Vec::as_slice).unwrap_or_default();
    let missing: Vec<&str> = list("missing").iter().filter_map(Value::as_str).collect();
    let errors: Vec<&str> = list("errors").iter().map(|error| text_of(error, "code")).collect();
    let (missing, errors) = (missing.join(" "), errors.join(" "));
    [text_of(line, "subject"), text_of(line, "outcome"), &missing, &errors].map(quoted).join(",")
}

/// A cell of a table (RFC 4180).
fn quoted(text: &str) -> String {
    if text.contains([',', '"', '\n', '\r']) { format!("\"{}\"", text.replace('"', "\"\"")) } else { text.to_owned() }
}

fn summary(result: &Value) -> String {
    let errors = match number(result, "errors") {
        0 => String::new(),
        errors => format!(" ({errors} with an error)"),
    };
    format!(
        "{} in all: {} eligible, {} not eligible, {} undetermined{errors}",
        number(result, "total"),
        number(result, "eligible"),
        number(result, "not_eligible"),
        number(result, "undetermined"),
    )
}

/// The answer as bars of the eligible, by age and by gender, and what is missing.
fn drawn(paint: &Paint, result: &Value) -> String {
    let list = |name: &str| result.get(name).and_then(Value::as_array).map(Vec::as_slice).unwrap_or_default();
    let age = |band: &Value| match (band.get("from").and_then(Value::as_u64), band.get("to").and_then(Value::as_u64)) {
        (Some(from), Some(to)) => format!("{from} to {to}"),
        (Some(from), None) => format!("{from} and more"),
        (None, _) => "not known".to_owned(),
    };
    let gender = |of: &Value| match text_of(of, "display") {
        "" => "not known".to_owned(),
        display => display.to_owned(),
    };
    let mut lines = vec![paint.paint(Meaning::Strong, &summary(result))];
    let ages: Vec<(String, &Value)> = list("by_age_band").iter().map(|band| (age(band), band)).collect();
    let genders: Vec<(String, &Value)> = list("by_gender").iter().map(|of| (gender(of), of)).collect();
    chart(paint, "eligible by age", &ages, &mut lines);
    chart(paint, "eligible by gender", &genders, &mut lines);
    let missing = list("missing");
    if !missing.is_empty() {
        lines.extend([String::new(), paint.paint(Meaning::Aside, "missing facts that would decide")]);
        lines.extend(missing.iter().map(|of| format!("  {:>9}  {}", number(of, "count"), text_of(of, "field"))));
    }
    lines.join("\n")
}

fn chart(paint: &Paint, title: &str, rows: &[(String, &Value)], lines: &mut Vec<String>) {
    if rows.is_empty() {
        return;
    }
    let most = rows.iter().map(|(_, counts)| number(counts, "eligible")).max().unwrap_or_default();
    let width = rows.iter().map(|(name, _)| name.chars().count()).max().unwrap_or_default();
    lines.extend([String::new(), paint.paint(Meaning::Aside, title)]);
    for (name, counts) in rows {
        let (eligible, total) = (number(counts, "eligible"), number(counts, "total"));
        let bar = "█".repeat(length(eligible, most));
        let padding = " ".repeat(width - name.chars().count());
        let space = if bar.is_empty() { "" } else { " " };
        lines.push(format!("  {name}{padding}  {}{space}{eligible} of {total}", paint.paint(Meaning::Yes, &bar)));
    }
}

/// How long a bar is: something, where there is anything.
fn length(count: u64, most: u64) -> usize {
    let scaled = count.saturating_mul(BAR_WIDTH).checked_div(most).unwrap_or_default();
    usize::try_from(scaled.max(count.min(1))).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bars_are_as_long_as_there_are_eligible_people() {
        let counts = |eligible: u64, total: u64| json!({"eligible": eligible, "total": total});
        let mut result = json!({
            "total": 1_010, "eligible": 81, "not_eligible": 900, "undetermined": 29, "errors": 2,
            "by_age_band": [], "by_gender": [], "missing": [{"field": "me.gender", "count": 27}],
        });
        let mut band = counts(80, 100);
        band["from"] = json!(60);
        band["to"] = json!(64);
        let mut last = counts(1, 900);
        last["from"] = json!(80);
        result["by_age_band"] = json!([band, last, counts(0, 10)]);
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
        let line =
            json!({"subject": "Individual/urn:x|a,\"b\"", "outcome": "undetermined", "missing": ["me.a", "me.b"]});
        assert_eq!(row(&line), "\"Individual/urn:x|a,\"\"b\"\"\",undetermined,me.a me.b,");
    }
}
