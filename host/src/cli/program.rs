//! `daftar program`

mod list;
mod update;

use clap::{Args, Subcommand};
use serde_json::{Map, Value, json};

pub use self::list::ListArgs;
pub use self::update::UpdateArgs;

use super::admin_client::{AdminClient, Payload};
use super::client::part;
use super::eval::drawing::draw;
use super::eval::paint::Paint;
use super::{CliError, GlobalArgs, output};

/// What is done with programs.
#[derive(Debug, Subcommand)]
pub enum ProgramCommand {
    /// Add a program
    Create {
        /// What it is found by: `SYSTEM|VALUE`; several after one another
        #[arg(long, required = true, num_args = 1.., value_name = "SYSTEM|VALUE")]
        identifier: Vec<String>,
        /// What it is called
        #[arg(long)]
        name: String,
        /// Whom it enrols
        #[arg(long, value_parser = ["individual", "group"])]
        target_type: String,
        #[command(flatten)]
        more: MoreArgs,
    },
    /// List programs
    List(ListArgs),
    /// Show one program
    Show {
        /// One of its identifiers: `SYSTEM|VALUE`
        id: String,
    },
    /// Change what is given, and leave the rest as it is
    Update(Box<UpdateArgs>),
    /// Name the programs whose rules a change of packs, concept groups or engine has broken, and what is wrong
    Check,
    /// Give a program its last day
    End {
        /// One of its identifiers: `SYSTEM|VALUE`
        id: String,
        /// The last day, `YYYY-MM-DD`
        #[arg(long, value_name = "D")]
        on: String,
        /// Only while it is at this version still, as `meta.version_id` says it
        #[arg(long, value_name = "N")]
        if_version: Option<u64>,
    },
}

/// What a program may have.
#[derive(Debug, Args)]
pub struct MoreArgs {
    /// Who may be enrolled, such as `age_years(me.birth_date) >= 60`
    #[arg(long, value_name = "EXPR")]
    eligibility: Option<String>,
    /// Enrol nobody against the expression's word
    #[arg(long)]
    enforce_eligibility: bool,
    /// What it is for
    #[arg(long)]
    description: Option<String>,
    /// What kind of program, in your own words
    #[arg(long)]
    program_type: Option<String>,
    /// The first day, `YYYY-MM-DD`
    #[arg(long, value_name = "D")]
    start: Option<String>,
    /// The last day, `YYYY-MM-DD`
    #[arg(long, value_name = "D")]
    end: Option<String>,
}

impl MoreArgs {
    /// The members of a body that were given.
    fn members(self) -> Map<String, Value> {
        let mut members = Map::new();
        let texts =
            [("eligibility", self.eligibility), ("description", self.description), ("program_type", self.program_type)];
        for (name, text) in texts {
            members.extend(text.map(|text| (name.to_owned(), Value::String(text))));
        }
        if self.enforce_eligibility {
            members.insert("enforce_eligibility".to_owned(), Value::Bool(true));
        }
        let mut period = Map::new();
        for (name, day) in [("start", self.start), ("end", self.end)] {
            period.extend(day.map(|day| (name.to_owned(), Value::String(day))));
        }
        if !period.is_empty() {
            members.insert("period".to_owned(), Value::Object(period));
        }
        members
    }
}

/// Runs the command.
pub fn run(global: &GlobalArgs, command: ProgramCommand) -> Result<(), CliError> {
    let admin = match &command {
        ProgramCommand::Create { .. } => AdminClient::connect_or_begin(global)?,
        _ => AdminClient::connect(global)?,
    };
    let result = execute(global, &admin, command);
    admin.close();
    result
}

fn execute(global: &GlobalArgs, admin: &AdminClient, command: ProgramCommand) -> Result<(), CliError> {
    match command {
        ProgramCommand::Create { identifier, name, target_type, more } => {
            let identifiers: Result<Vec<Value>, CliError> =
                identifier.iter().map(|text| read_identifier(text)).collect();
            let mut body = more.members();
            body.insert("identifier".to_owned(), Value::Array(identifiers?));
            body.insert("name".to_owned(), Value::String(name));
            body.insert("target_type".to_owned(), Value::String(target_type));
            let created = admin.call("POST", "/programs", Payload::Json(&Value::Object(body)))?;
            show(global, &created);
        }
        ProgramCommand::List(conditions) => list::list(global, admin, &conditions)?,
        ProgramCommand::Show { id } => show(global, &read(admin, &id)?),
        ProgramCommand::Check => check(global, admin)?,
        ProgramCommand::Update(args) => update::update(global, admin, *args)?,
        ProgramCommand::End { id, on, if_version } => {
            let version = if_version.map(|version| version.to_string());
            show(global, &patch(admin, &id, &json!({"period": {"end": on}}), version.as_deref())?);
        }
    }
    Ok(())
}

fn read(admin: &AdminClient, id: &str) -> Result<Value, CliError> {
    admin.call("GET", &format!("/programs/{}", part(id)), Payload::Empty)
}

fn read_identifier(text: &str) -> Result<Value, CliError> {
    match text.split_once('|') {
        Some((system, value)) => Ok(json!({"system": system, "value": value})),
        None => Err(CliError::usage(format!("an identifier is written `SYSTEM|VALUE`, and `{text}` has no `|`"))),
    }
}

fn patch(admin: &AdminClient, id: &str, body: &Value, version: Option<&str>) -> Result<Value, CliError> {
    admin.call("PATCH", &format!("/programs/{}", part(id)), Payload::Json(body).at(version))
}

/// Draws what is wrong with the rules of programs.
fn check(global: &GlobalArgs, admin: &AdminClient) -> Result<(), CliError> {
    let answer = admin.call("GET", "/program-rules", Payload::Empty)?;
    let broken = answer.get("data").and_then(Value::as_array).map(Vec::as_slice).unwrap_or_default();
    if global.json {
        output::json(&answer);
    } else if broken.is_empty() {
        output::line("the rules of all programs are valid");
    }
    let paint = Paint::of_errors();
    for rule in broken.iter().filter(|_| !global.json) {
        output::line(format_args!("{}: {}", output::text_of(rule, "program"), output::text_of(rule, "message")));
        for diagnostic in rule.get("diagnostics").and_then(Value::as_array).into_iter().flatten() {
            output::error_text(&draw(&paint, output::text_of(rule, "eligibility"), diagnostic));
        }
    }
    match broken.len() {
        0 => Ok(()),
        1 => Err(CliError::failed("the rule of one program is not valid any more")),
        count => Err(CliError::failed(format!("the rules of {count} programs are not valid any more"))),
    }
}

/// The first identifier, as it is typed.
fn identifier(program: &Value) -> String {
    let first = program.get("identifier").and_then(|identifiers| identifiers.get(0)).unwrap_or(&Value::Null);
    format!("{}|{}", output::text_of(first, "system"), output::text_of(first, "value"))
}

fn period(program: &Value) -> String {
    let period = program.get("period").unwrap_or(&Value::Null);
    match (output::text_of(period, "start"), output::text_of(period, "end")) {
        ("", "") => String::new(),
        (start, end) => format!("{start}..{end}"),
    }
}

fn show(global: &GlobalArgs, program: &Value) {
    if global.json {
        output::json(program);
        return;
    }
    let text = |name| output::text_of(program, name).to_owned();
    let is = |name| program.get(name).and_then(Value::as_bool).unwrap_or(true).to_string();
    for (label, value) in [
        ("identifier", identifier(program)),
        ("name", text("name")),
        ("active", is("active")),
        ("target_type", text("target_type")),
        ("eligibility", text("eligibility")),
        ("enforced", is("enforce_eligibility")),
        ("period", period(program)),
    ] {
        output::line(format_args!("{label:<11} {value}"));
    }
    for warning in program.get("warnings").and_then(Value::as_array).into_iter().flatten() {
        output::line(format_args!("warning     {}", output::text_of(warning, "message")));
    }
}
