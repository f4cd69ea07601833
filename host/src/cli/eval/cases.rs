//! Rule files: an expression with named cases, each with a record and the expected result. `examples/rules/` is a
//! library of rule files.

use std::borrow::Cow;
use std::path::{Path, PathBuf};

use daftar_api_types::public::eligibility::{Evaluated, Evaluation, Outcome, SubjectKind, SubjectResult};
use serde::Deserialize;
use serde_json::{Value, json};

use super::bounded;
use super::drawing::{Meaning, Paint};
use crate::cli::admin_client::{self, AdminClient};
use crate::cli::{CliError, GlobalArgs, output};

/// Maximum size of a rule file, in bytes.
const FILE_BYTES_MAX: u64 = 1 << 20;
/// Maximum number of rule files in one folder.
const FILES_MAX: usize = 1_000;

/// One rule with its cases.
#[derive(Debug)]
pub struct RuleFile {
    /// The file's name.
    name: String,
    content: Content,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Content {
    /// Its name.
    title: String,
    /// Its definition, in plain words.
    #[serde(rename = "about")]
    _about: String,
    #[serde(default = "individual")]
    subject: SubjectKind,
    /// The day that counts as today.
    as_of: String,
    /// Requirements in addition to the shipped packs, in plain words.
    #[serde(default)]
    needs: String,
    expression: String,
    #[serde(rename = "case")]
    cases: Vec<Case>,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Case {
    /// Its display.
    name: String,
    /// The record, as the body of a create request.
    record: Value,
    outcome: String,
    #[serde(default)]
    missing: Vec<String>,
    #[serde(default)]
    errors: Vec<String>,
}

fn individual() -> SubjectKind {
    SubjectKind::Individual
}

/// Reads rule files and the rule files of folders.
///
/// # Errors
/// A file cannot be read or is not a rule file; a folder contains no rule files.
pub fn read(paths: &[PathBuf]) -> Result<Vec<RuleFile>, CliError> {
    let mut files = Vec::new();
    for path in paths {
        if !path.is_dir() {
            files.push(read_file(path)?);
            continue;
        }
        let found = listed(path)?;
        if found.is_empty() {
            return Err(CliError::input(format!("`{}` has no rule files (`*.toml`)", path.display())));
        }
        for path in found {
            files.push(read_file(&path)?);
        }
    }
    Ok(files)
}

/// Returns the rule files of a folder, sorted by name.
///
/// # Errors
/// The folder cannot be read, or contains too many rule files.
pub(in crate::cli) fn listed(folder: &Path) -> Result<Vec<PathBuf>, CliError> {
    let unread = |error: std::io::Error| CliError::cannot_read(folder, &error);
    let mut found = Vec::new();
    for entry in std::fs::read_dir(folder).map_err(unread)? {
        let path = entry.map_err(unread)?.path();
        if path.extension().is_some_and(|extension| extension == "toml") {
            found.push(path);
        }
        if found.len() > FILES_MAX {
            return Err(CliError::input(format!("`{}` has more than {FILES_MAX} rule files", folder.display())));
        }
    }
    found.sort();
    Ok(found)
}

fn read_file(path: &Path) -> Result<RuleFile, CliError> {
    let content: Content = toml::from_str(&bounded(path, FILE_BYTES_MAX)?)
        .map_err(|error| CliError::input(format!("`{}` is no rule file: {error}", path.display())))?;
    if content.cases.is_empty() {
        return Err(CliError::input(format!("`{}` has no cases", path.display())));
    }
    let name = path.file_name().map(|name| name.to_string_lossy().into_owned()).unwrap_or_default();
    Ok(RuleFile { name, content })
}

/// Runs all cases and reports the failed ones.
///
/// # Errors
/// A rule cannot be evaluated, or the result of a case differs from its expected result.
pub fn run(global: &GlobalArgs, admin: &AdminClient, files: &[RuleFile]) -> Result<(), CliError> {
    let paint = Paint::of_output();
    let mut reported = Vec::new();
    let mut failed = 0;
    for file in files {
        let problems = problems_of(admin, file);
        failed += usize::from(!problems.is_empty());
        if !global.json {
            show(&paint, file, &problems);
        }
        reported.push(json!({
            "file": file.name, "title": file.content.title, "cases": file.content.cases.len(), "problems": problems,
        }));
    }
    if global.json {
        output::json(&json!({"rules": reported}));
    }
    match failed {
        0 => Ok(()),
        1 => Err(CliError::failed("one rule does not say what its cases say")),
        failed => Err(CliError::failed(format!("{failed} rules do not say what their cases say"))),
    }
}

fn show(paint: &Paint, file: &RuleFile, problems: &[String]) {
    let count = file.content.cases.len();
    let title = format!("{} ({}), {count} cases", file.content.title, file.name);
    if problems.is_empty() {
        output::line(format_args!("{}  {title}", paint.paint(Meaning::Yes, "as expected")));
        return;
    }
    output::line(format_args!("{}  {title}", paint.paint(Meaning::No, "otherwise  ")));
    for problem in problems {
        output::line(format_args!("             {problem}"));
    }
    if !file.content.needs.is_empty() {
        output::line(format_args!("             it needs {}", file.content.needs));
    }
}

/// Returns the differences from the expected results of the file.
fn problems_of(admin: &AdminClient, file: &RuleFile) -> Vec<String> {
    let cases = &file.content.cases;
    let results = match evaluated(admin, &file.content) {
        Ok(evaluated) => evaluated.results,
        Err(error) => return vec![error.to_string()],
    };
    if results.len() != cases.len() {
        return vec![format!("{} results for {} cases", results.len(), cases.len())];
    }
    cases.iter().zip(&results).filter_map(|(case, result)| difference(case, result)).collect()
}

fn evaluated(admin: &AdminClient, content: &Content) -> Result<Evaluated<'static>, CliError> {
    let body = Evaluation {
        expression: Some(Cow::Borrowed(&content.expression)),
        subject: Some(content.subject),
        as_of: Some(Cow::Borrowed(&content.as_of)),
        subjects: content.cases.iter().map(|case| case.record.clone()).collect(),
        ..Evaluation::default()
    };
    admin_client::read(admin.send_json("POST", "/eligibility/evaluate", &body)?)
}

fn difference(case: &Case, result: &SubjectResult<'_>) -> Option<String> {
    let missing = result.missing.as_deref().unwrap_or_default();
    let errors: Vec<String> = result.errors.iter().map(|error| error.code.to_string()).collect();
    let outcome = result.outcome.map(Outcome::name).unwrap_or_default();
    let is_same = outcome == case.outcome && missing == case.missing && errors == case.errors;
    let reported = |outcome: &str, missing: &[String], errors: &[String]| {
        let lacking: Vec<&str> = missing.iter().chain(errors).map(String::as_str).collect();
        if lacking.is_empty() { outcome.to_owned() } else { format!("{outcome} ({})", lacking.join(", ")) }
    };
    (!is_same).then(|| {
        let (expected, found) =
            (reported(&case.outcome, &case.missing, &case.errors), reported(outcome, missing, &errors));
        format!("{}: expected {expected}, found {found}", case.name)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    const RULE: &str = r#"
        title = "Old-age pension"
        about = "People of 60 and more."
        as_of = "2026-01-31"
        expression = "age_years(me.birth_date) >= 60"
        [[case]]
        name = "an unknown fact"
        record = { type = "individual" }
        outcome = "undetermined"
        missing = ["me.birth_date"]
    "#;

    #[test]
    fn a_case_is_compared_with_its_result() {
        let content: Content = toml::from_str(RULE).unwrap();
        assert_eq!(
            (content.subject, &content.cases[0].record),
            (SubjectKind::Individual, &json!({"type": "individual"}))
        );
        let case = &content.cases[0];
        let result = |missing: Value, errors: Value| -> SubjectResult<'static> {
            let (subject, outcome) = ("subjects[0]", "undetermined");
            let result = json!({"subject": subject, "outcome": outcome, "missing": missing, "errors": errors});
            serde_json::from_value(result).unwrap()
        };
        let same = result(json!(["me.birth_date"]), json!([]));
        assert_eq!(difference(case, &same), None);
        let other = result(json!([]), json!([{"code": "overflow", "line": 1, "column": 1}]));
        let reported = "an unknown fact: expected undetermined (me.birth_date), found undetermined (overflow)";
        assert_eq!(difference(case, &other).as_deref(), Some(reported));
    }

    #[test]
    fn a_file_with_a_misspelt_member_is_refused_naming_it() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("rule.toml");
        std::fs::write(&path, RULE.replace("outcome", "outcom")).unwrap();
        let error = read(&[path]).unwrap_err().to_string();
        assert!(error.contains("outcom") && error.contains("is no rule file"), "{error}");
        let empty = read(&[folder.path().join("nothing.toml")]).unwrap_err().to_string();
        assert!(empty.contains("cannot read"), "{empty}");
    }
}
