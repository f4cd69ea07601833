//! `daftar eval`: tests a rule, on a running server or in the data folder of a stopped server.
//!
//! **Invariant:** results go to standard output; problems of an expression go to standard error, except with `--json`.

pub(super) mod cases;
pub mod drawing;
mod preview;

use std::borrow::Cow;
use std::io::Read;
use std::path::{Path, PathBuf};

use clap::Args;
use daftar_api_types::public::eligibility::{
    Evaluated, Evaluation, Outcome, SubjectKind, SubjectResult, Validated, Validation,
};
use serde::{Deserialize, Serialize};
use serde_json::Value;

use self::drawing::Paint;
use self::preview::PreviewArgs;
use super::admin_client::{AdminClient, Payload, part, read};
use super::{CliError, GlobalArgs, output};
use crate::app::packs::write_file;
use daftar_service::eligibility::evidence::{self, BUNDLE_BYTES_MAX, Bundle};

/// Maximum size of a file with an expression, in bytes: much larger than the limit of an expression, so that the server
/// reports that limit.
const EXPRESSION_FILE_BYTES_MAX: u64 = 1 << 20;
/// Maximum size of a file of records, in bytes: the limit of a request.
const RECORDS_FILE_BYTES_MAX: u64 = 8 << 20;
/// Number of records sampled if no record is specified.
const SAMPLE: u32 = 10;

/// Expression and subjects of a test.
#[derive(Debug, Args)]
pub struct EvalArgs {
    /// The expression; `@FILE` takes it from a file, `-` from standard input
    #[arg(value_name = "EXPR", required_unless_present_any = ["program", "cases"], conflicts_with_all = ["program", "cases"])]
    expression: Option<String>,
    /// Kind of the subjects
    #[arg(long, value_parser = ["individual", "group"], conflicts_with_all = ["program", "cases"])]
    subject: Option<String>,
    /// Eligibility engine of the expression, by its name; the active engine if absent
    #[arg(long, value_name = "NAME", conflicts_with_all = ["program", "cases"])]
    engine: Option<String>,
    /// Take the rule of that program: `SYSTEM|VALUE`
    #[arg(long, value_name = "SYSTEM|VALUE", conflicts_with = "cases")]
    program: Option<String>,
    /// Decide about that record of the register, by one of its identifiers; may be given several times
    #[arg(long, value_name = "SYSTEM|VALUE", conflicts_with = "cases")]
    of: Vec<String>,
    /// Decide about the record or the list of records in that JSON file, which need not be in the register
    #[arg(long, value_name = "FILE", conflicts_with = "cases")]
    records: Option<PathBuf>,
    /// Decide about that many records, spread over the register; 10 if no record is named
    #[arg(long, value_name = "N", conflicts_with_all = ["of", "records", "cases"])]
    sample: Option<u32>,
    /// The day that counts as today, `YYYY-MM-DD`
    #[arg(long, value_name = "DATE", conflicts_with = "cases")]
    as_of: Option<String>,
    /// Show how the answer about one record comes about: its identifier, or its number in the file of `--records`
    #[arg(long, value_name = "ID", conflicts_with_all = ["of", "sample", "cases"])]
    explain: Option<String>,
    /// Only report the problems of the expression, the fields that it reads and its cost
    #[arg(long, conflicts_with_all = ["of", "records", "sample", "explain", "cases"])]
    check: bool,
    /// Run the named cases of a rule file, or of all rule files of a folder, and compare; repeatable
    #[arg(long, value_name = "PATH")]
    cases: Vec<PathBuf>,
    /// Also write the signed evidence of the decision to that file, which `daftar replay` repeats
    #[arg(long, value_name = "FILE", conflicts_with_all = ["check", "cases", "preview"])]
    evidence: Option<PathBuf>,
    #[command(flatten)]
    preview: PreviewArgs,
}

/// Runs the command. Files are read before the register is opened.
pub fn run(global: &GlobalArgs, args: EvalArgs) -> Result<(), CliError> {
    if !args.cases.is_empty() {
        let files = cases::read(&args.cases)?;
        return AdminClient::connect(global)?.run(|admin| cases::run(global, admin, &files));
    }
    let given = Given::read(&args)?;
    AdminClient::connect(global)?.run(|admin| try_rule(global, admin, &args, given))
}

/// A rule to test on records of a file.
pub(super) struct Trial<'a> {
    /// The expression, or its source as in [`EvalArgs`].
    pub expression: &'a str,
    /// File with the records.
    pub records: &'a Path,
    /// Kind of the records.
    pub subject: &'a str,
    /// The day that counts as today.
    pub as_of: Option<&'a str>,
}

/// Evaluates a rule over records of a file; returns the response body of the evaluation. Problems of the expression are
/// drawn on standard error.
pub(super) fn evaluate_records(admin: &AdminClient, trial: &Trial<'_>) -> Result<Value, CliError> {
    let expression = read_expression(trial.expression)?;
    let subject = if trial.subject == "group" { SubjectKind::Group } else { SubjectKind::Individual };
    let body = Validation { expression: Cow::Borrowed(&expression), engine: None, subject: Some(subject) };
    let checked = admin.send_json("POST", "/eligibility/validate", &body)?;
    let checked: Validated<'_> = read(checked)?;
    complain(&expression, &checked);
    if !checked.valid {
        return Err(CliError::failed("the expression is not valid"));
    }
    let subjects = read_records(trial.records)?.into_iter().map(|record| referred(subject, record)).collect();
    let evaluation = Evaluation {
        subject: Some(subject),
        as_of: trial.as_of.map(Cow::Borrowed),
        subjects,
        expression: Some(Cow::Borrowed(&expression)),
        ..Evaluation::default()
    };
    admin.send_json("POST", "/eligibility/evaluate", &Trying { evaluation, sample: None })
}

/// What the command reads before it opens the register.
struct Given {
    /// The expression; absent for the rule of a program.
    expression: Option<String>,
    /// The expression of the rule that it is compared with.
    compared: Option<String>,
    /// The subjects.
    subjects: Subjects,
}

impl Given {
    fn read(args: &EvalArgs) -> Result<Self, CliError> {
        let (expression, compared) = (args.expression.as_deref(), args.preview.compare.as_deref());
        if expression == Some("-") && compared == Some("-") {
            return Err(CliError::usage(
                "only one of the two expressions can be on standard input: name a file, `@FILE`",
            ));
        }
        let read = |given: Option<&str>| given.map(read_expression).transpose();
        Ok(Self { expression: read(expression)?, compared: read(compared)?, subjects: Subjects::read(args)? })
    }
}

/// The subjects of a test.
struct Subjects {
    /// References and records.
    given: Vec<Value>,
    /// Number of sampled records.
    sample: Option<u32>,
    /// True if a result is explained.
    explain: Option<bool>,
}

impl Subjects {
    fn read(args: &EvalArgs) -> Result<Self, CliError> {
        let records = args.records.as_deref().map(read_records).transpose()?;
        let is_sample = args.of.is_empty() && records.is_none() && args.explain.is_none();
        let given = match (&args.explain, records) {
            (Some(id), Some(records)) => vec![numbered(id, records)?],
            (Some(id), None) => vec![Value::String(id.clone())],
            (None, records) => args.of.iter().cloned().map(Value::String).chain(records.unwrap_or_default()).collect(),
        };
        let sample = is_sample.then(|| args.sample.unwrap_or(SAMPLE));
        Ok(Self { given, sample, explain: args.explain.is_some().then_some(true) })
    }
}

/// A rule with the data required to draw its diagnostics.
struct Rule {
    expression: String,
    engine: Option<String>,
    subject: SubjectKind,
    program: Option<String>,
}

/// A request for an evaluation; the admin API may sample the subjects.
#[derive(Serialize)]
struct Trying<'a> {
    #[serde(flatten)]
    evaluation: Evaluation<'a>,
    #[serde(skip_serializing_if = "Option::is_none")]
    sample: Option<u32>,
}

fn try_rule(global: &GlobalArgs, admin: &AdminClient, args: &EvalArgs, given: Given) -> Result<(), CliError> {
    let Given { expression, compared, subjects } = given;
    let rule = match (expression, &args.program) {
        (Some(expression), _) => {
            let subject = match args.subject.as_deref() {
                Some("group") => SubjectKind::Group,
                _ => SubjectKind::Individual,
            };
            Rule { expression, engine: args.engine.clone(), subject, program: None }
        }
        (None, Some(program)) => rule_of(admin, program)?,
        (None, None) => return Err(CliError::usage("an expression or `--program` is needed")),
    };
    validate(global, admin, args.check, &rule)?;
    if args.check {
        return Ok(());
    }
    if args.preview.preview {
        let compared =
            compared.map(|expression| Rule { expression, program: None, engine: rule.engine.clone(), ..rule });
        if let Some(compared) = &compared {
            validate(global, admin, false, compared)?;
        }
        let compared = compared.as_ref().map(|compared| compared.expression.as_str());
        return preview::run(global, admin, &args.preview, (&rule, compared), args.as_of.as_deref());
    }
    evaluate(global, admin, args, &rule, subjects)
}

/// Validates a rule and reports its problems; `is_shown` also prints what a valid one reads and costs.
fn validate(global: &GlobalArgs, admin: &AdminClient, is_shown: bool, rule: &Rule) -> Result<(), CliError> {
    let body = Validation {
        expression: Cow::Borrowed(&rule.expression),
        engine: rule.engine.as_deref().map(Cow::Borrowed),
        subject: Some(rule.subject),
    };
    let answer = admin.send_json("POST", "/eligibility/validate", &body)?;
    let checked: Validated<'_> = read(answer.clone())?;
    if global.json && (is_shown || !checked.valid) {
        output::json(&answer);
    } else {
        complain(&rule.expression, &checked);
        if is_shown && checked.valid {
            show_checked(&checked);
        }
    }
    if checked.valid { Ok(()) } else { Err(CliError::failed("the expression is not valid")) }
}

fn evaluate(
    global: &GlobalArgs,
    admin: &AdminClient,
    args: &EvalArgs,
    rule: &Rule,
    subjects: Subjects,
) -> Result<(), CliError> {
    let Subjects { given, sample, explain } = subjects;
    let mut evaluation = Evaluation {
        subject: Some(rule.subject),
        as_of: args.as_of.as_deref().map(Cow::Borrowed),
        subjects: given.into_iter().map(|subject| referred(rule.subject, subject)).collect(),
        explain: explain.or(args.evidence.is_some().then_some(true)),
        ..Evaluation::default()
    };
    match &rule.program {
        Some(program) => evaluation.program = Some(Cow::Borrowed(program)),
        None => {
            evaluation.expression = Some(Cow::Borrowed(&rule.expression));
            evaluation.engine = rule.engine.as_deref().map(Cow::Borrowed);
        }
    }
    let answer = match &args.evidence {
        Some(file) => export(admin, &Trying { evaluation, sample }, file)?,
        None => admin.send_json("POST", "/eligibility/evaluate", &Trying { evaluation, sample })?,
    };
    if global.json {
        output::json(&answer);
        return Ok(());
    }
    let evaluated: Evaluated<'_> = read(answer)?;
    match evaluated.results.as_slice() {
        [only] if explain.is_some() => drawing::show(&Paint::of_output(), only),
        results => {
            show_results(results);
            Ok(())
        }
    }
}

/// Writes the evidence bundle of an evaluation to a file, which only its owner may read. Returns the response.
fn export(admin: &AdminClient, body: &Trying<'_>, file: &Path) -> Result<Value, CliError> {
    if file.exists() {
        return Err(CliError::output(format_args!("`{}` exists already: name another file", file.display())));
    }
    let mut bundle = Vec::new();
    let response = admin.download("POST", "/eligibility/evidence", Payload::json(body)?)?;
    let read = response.take(BUNDLE_BYTES_MAX as u64 + 1).read_to_end(&mut bundle);
    read.map_err(|error| CliError::unavailable(format!("the server closed the connection: {error}")))?;
    let none = |problem: String| CliError::failed(format!("the server returned no evidence bundle: {problem}"));
    let Bundle { key, content } = evidence::open(&bundle).map_err(none)?;
    write_file(file, &bundle).map_err(|error| CliError::cannot_write(file, &error))?;
    output::note(format_args!("wrote `{}`, {} bytes, signed with the key {}", file.display(), bundle.len(), key.kid));
    serde_json::from_str(&content.response).map_err(|error| none(error.to_string()))
}

/// Returns the rule of a program.
fn rule_of(admin: &AdminClient, id: &str) -> Result<Rule, CliError> {
    let id = id.strip_prefix("Program/").unwrap_or(id);
    let answer = admin.get(&format!("/programs/{}", part(id)))?;
    let program: Program = read(answer)?;
    let Some(expression) = program.eligibility else {
        return Err(CliError::failed(format!("the program `{id}` has no eligibility expression")));
    };
    let Program { target_type: subject, engine, .. } = program;
    Ok(Rule { expression, engine, subject, program: Some(format!("Program/{id}")) })
}

/// The members of a program that its rule requires.
#[derive(Deserialize)]
struct Program {
    target_type: SubjectKind,
    eligibility: Option<String>,
    engine: Option<String>,
}

/// Returns a reference in the form of the API and adds the kind of record if it is missing; a record is returned
/// unchanged.
fn referred(subject: SubjectKind, given: Value) -> Value {
    let kind = match subject {
        SubjectKind::Individual => "Individual",
        SubjectKind::Group => "Group",
    };
    match given {
        Value::String(id) if id.starts_with("Individual/") || id.starts_with("Group/") => Value::String(id),
        Value::String(id) => Value::String(format!("{kind}/{id}")),
        record => record,
    }
}

/// Returns an expression from the argument, a file or standard input.
pub(super) fn read_expression(given: &str) -> Result<String, CliError> {
    let text = match given.strip_prefix('@') {
        Some(path) => bounded(Path::new(path), EXPRESSION_FILE_BYTES_MAX)?,
        None if given == "-" => {
            let mut text = String::new();
            let mut input = std::io::stdin().lock().take(EXPRESSION_FILE_BYTES_MAX);
            let read = input.read_to_string(&mut text);
            read.map_err(|error| CliError::input(format!("standard input cannot be read: {error}")))?;
            text
        }
        None => return Ok(given.to_owned()),
    };
    // Editors end a file with a line break, which is not part of the expression.
    Ok(text.trim_end().to_owned())
}

/// Reads one record or a list of records.
fn read_records(path: &Path) -> Result<Vec<Value>, CliError> {
    let text = bounded(path, RECORDS_FILE_BYTES_MAX)?;
    let content: Value = serde_json::from_str(&text)
        .map_err(|error| CliError::input(format!("`{}` is not JSON: {error}", path.display())))?;
    match content {
        Value::Array(records) if !records.is_empty() => Ok(records),
        record @ Value::Object(_) => Ok(vec![record]),
        _ => Err(CliError::input(format!("`{}` holds neither a record nor a list of records", path.display()))),
    }
}

/// Returns the record with a number, counted from 1.
fn numbered(id: &str, records: Vec<Value>) -> Result<Value, CliError> {
    let count = records.len();
    let place = id.parse::<usize>().ok().and_then(|number| number.checked_sub(1));
    place.and_then(|place| records.into_iter().nth(place)).ok_or_else(|| {
        CliError::usage(format!("`--explain` takes the number of a record of the file, 1 to {count}, not `{id}`"))
    })
}

/// Reads a text file of at most `bytes_max` bytes.
fn bounded(path: &Path, bytes_max: u64) -> Result<String, CliError> {
    let shown = path.display();
    let file = std::fs::File::open(path).map_err(|error| CliError::cannot_read(path, &error))?;
    let mut text = String::new();
    let read = file.take(bytes_max + 1).read_to_string(&mut text);
    read.map_err(|error| CliError::cannot_read(path, &error))?;
    if text.len() as u64 > bytes_max {
        return Err(CliError::input(format!("`{shown}` has more than {bytes_max} bytes")));
    }
    Ok(text)
}

/// Draws errors and warnings on standard error.
fn complain(expression: &str, checked: &Validated<'_>) {
    let paint = Paint::of_errors();
    for diagnostic in &checked.diagnostics {
        output::error_text(&drawing::draw(&paint, expression, diagnostic));
    }
}

fn show_checked(checked: &Validated<'_>) {
    output::line(format_args!("valid   a rule of type `{}`", checked.result_type.as_deref().unwrap_or_default()));
    let reads = if checked.references.is_empty() { "nothing".to_owned() } else { checked.references.join(", ") };
    output::line(format_args!("reads   {reads}"));
    if let Some(cost) = &checked.cost {
        let most = cost.steps_max.map_or_else(|| "more than can be counted".to_owned(), |steps| steps.to_string());
        let (least, items) = (cost.steps_min, cost.list_items);
        output::line(format_args!("cost    {least} to {most} steps a subject, with up to {items} items in each list"));
    }
}

/// Prints one line for each result, and the number of results of each outcome.
pub(super) fn show_results(results: &[SubjectResult<'_>]) {
    let rows: Vec<Vec<String>> = results
        .iter()
        .map(|result| vec![result.subject.to_string(), outcome_of(result), drawing::lacking(result)])
        .collect();
    output::table(&["subject", "outcome", "missing or wrong"], &rows);
    let count = |outcome: Outcome| results.iter().filter(|result| result.outcome == Some(outcome)).count();
    let errors = results.iter().filter(|result| result.error.is_some()).count();
    let counted = [
        (count(Outcome::Eligible), "eligible"),
        (count(Outcome::NotEligible), "not eligible"),
        (count(Outcome::Undetermined), "undetermined"),
        (errors, "not there"),
    ];
    let reported = counted.iter().filter(|(count, _)| *count > 0).map(|(count, what)| format!("{count} {what}"));
    output::line(reported.collect::<Vec<_>>().join(", "));
}

/// Returns the outcome, or the reason for its absence.
fn outcome_of(result: &SubjectResult<'_>) -> String {
    match (&result.error, result.outcome) {
        (Some(error), _) => error.detail.to_string(),
        (None, outcome) => outcome.map(Outcome::name).unwrap_or_default().replace('_', " "),
    }
}
