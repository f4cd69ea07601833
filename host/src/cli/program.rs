//! `daftar program`

use clap::{Args, Subcommand};
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value, json};

use super::admin_client::{AdminClient, Payload, part, read};
use super::eval::drawing::{Paint, draw};
use super::eval::read_expression;
use super::{CliError, GlobalArgs, output};
use daftar_api_types::admin::ListBody;
use daftar_api_types::admin::operation::BrokenRuleBody;
use daftar_api_types::public::eligibility::Diagnostic;

/// Operations on programs.
#[derive(Debug, Subcommand)]
pub enum ProgramCommand {
    /// Add a program
    Create {
        /// Identifier of the program: `SYSTEM|VALUE`; repeatable
        #[arg(long, required = true, value_name = "SYSTEM|VALUE")]
        identifier: Vec<String>,
        /// Display name
        #[arg(long)]
        name: String,
        /// Type of its members
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
    /// Change the given settings of a program; the others stay
    Update(Box<UpdateArgs>),
    /// List the programs whose rules a change of packs, concept groups or engine has broken, with the errors
    Check,
    /// Give a program its last day
    End {
        /// One of its identifiers: `SYSTEM|VALUE`
        id: String,
        /// The last day, `YYYY-MM-DD`
        #[arg(long, value_name = "DATE")]
        on: String,
        /// Only if this is the current version (`meta.version_id`)
        #[arg(long, value_name = "N")]
        if_version: Option<u64>,
    },
}

/// Optional properties of a program.
#[derive(Debug, Args)]
pub struct MoreArgs {
    /// Eligibility rule, such as `age_years(me.birth_date) >= 60`; `@FILE` reads a file, `-` standard input
    #[arg(long, value_name = "EXPR", value_parser = read_expression)]
    eligibility: Option<String>,
    /// Eligibility engine of the rule, by its name; the active engine if absent
    #[arg(long, value_name = "NAME")]
    engine: Option<String>,
    /// Reject enrolments that do not meet the eligibility rule
    #[arg(long)]
    enforce_eligibility: bool,
    /// Purpose of the program
    #[arg(long)]
    description: Option<String>,
    /// Type of the program, as free text
    #[arg(long)]
    program_type: Option<String>,
    /// The first day, `YYYY-MM-DD`
    #[arg(long, value_name = "DATE")]
    start: Option<String>,
    /// The last day, `YYYY-MM-DD`
    #[arg(long, value_name = "DATE")]
    end: Option<String>,
}

/// Which programs are listed; all conditions must hold.
#[derive(Debug, Args)]
pub struct ListArgs {
    /// Only the one that has this identifier: `SYSTEM|VALUE`
    #[arg(long, value_name = "SYSTEM|VALUE")]
    identifier: Option<String>,
    /// Only those whose name has these words, or words that begin so
    #[arg(long)]
    name: Option<String>,
    /// Only those in use, or only the others
    #[arg(long, value_name = "true|false")]
    active: Option<bool>,
    /// Only those that enrol people, or groups
    #[arg(long, value_parser = ["individual", "group"])]
    target_type: Option<String>,
    /// Only programs that have not started, are in progress, or have ended
    #[arg(long, value_parser = ["upcoming", "current", "ended"])]
    status: Option<String>,
    /// Only those last written then, such as `ge2026-01-01`; may be repeated
    #[arg(long, value_name = "CONDITION")]
    last_updated: Vec<String>,
}

impl MoreArgs {
    /// Returns the passed options as members of a body.
    fn members(self) -> Map<String, Value> {
        let period = given(json!({"start": self.start, "end": self.end}));
        given(json!({
            "eligibility": self.eligibility,
            "engine": self.engine,
            "description": self.description,
            "program_type": self.program_type,
            "enforce_eligibility": self.enforce_eligibility.then_some(true),
            "period": (!period.is_empty()).then_some(period),
        }))
    }
}

/// Returns the members of an object that are not null.
fn given(object: Value) -> Map<String, Value> {
    let Value::Object(members) = object else { return Map::new() };
    members.into_iter().filter(|(_, value)| !value.is_null()).collect()
}

/// The members of a program that are required to change its identifiers.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct Program {
    identifier: Vec<Identifier>,
    meta: Meta,
}

/// An identifier of a program, with its unknown members.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
struct Identifier {
    system: String,
    value: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    period: Option<Period>,
    #[serde(flatten)]
    others: Map<String, Value>,
}

#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
struct Period {
    #[serde(skip_serializing_if = "Option::is_none")]
    start: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    end: Option<String>,
}

#[derive(Debug, Default, Deserialize)]
struct Meta {
    version_id: Option<String>,
}

/// Runs the command.
pub fn run(global: &GlobalArgs, command: ProgramCommand) -> Result<(), CliError> {
    let begins = matches!(command, ProgramCommand::Create { .. });
    AdminClient::connect_or_begin(global, begins)?.run(|admin| execute(global, admin, command))
}

fn execute(global: &GlobalArgs, admin: &AdminClient, command: ProgramCommand) -> Result<(), CliError> {
    let program = match command {
        ProgramCommand::Create { identifier, name, target_type, more } => {
            let identifiers: Result<Vec<Identifier>, CliError> =
                identifier.iter().map(|text| read_identifier(text)).collect();
            let mut body = more.members();
            body.insert("identifier".to_owned(), json!(identifiers?));
            body.insert("name".to_owned(), Value::String(name));
            body.insert("target_type".to_owned(), Value::String(target_type));
            admin.send_json("POST", "/programs", &body)?
        }
        ProgramCommand::List(conditions) => return list(global, admin, &conditions),
        ProgramCommand::Show { id } => show(admin, &id)?,
        ProgramCommand::Check => return check(global, admin),
        ProgramCommand::Update(args) => update(admin, *args)?,
        ProgramCommand::End { id, on, if_version } => {
            patch(admin, &id, &json!({"period": {"end": on}}), if_version.map(|version| version.to_string()))?
        }
    };
    output::body(global, program, |program: Value| print(&program))
}

fn show(admin: &AdminClient, id: &str) -> Result<Value, CliError> {
    admin.get(&format!("/programs/{}", part(id)))
}

fn read_identifier(text: &str) -> Result<Identifier, CliError> {
    match text.split_once('|') {
        Some((system, value)) => {
            Ok(Identifier { system: system.to_owned(), value: value.to_owned(), ..Identifier::default() })
        }
        None => Err(CliError::usage(format!("an identifier is written `SYSTEM|VALUE`, and `{text}` has no `|`"))),
    }
}

fn patch(admin: &AdminClient, id: &str, body: &impl Serialize, version: Option<String>) -> Result<Value, CliError> {
    admin.call("PATCH", &format!("/programs/{}", part(id)), Payload::json(body)?.at(version))
}

fn list(global: &GlobalArgs, admin: &AdminClient, conditions: &ListArgs) -> Result<(), CliError> {
    let active = conditions.active.map(|active| active.to_string());
    let mut parameters = vec![
        ("identifier", conditions.identifier.as_deref()),
        ("name", conditions.name.as_deref()),
        ("active", active.as_deref()),
        ("target_type", conditions.target_type.as_deref()),
        ("status", conditions.status.as_deref()),
    ];
    parameters.extend(conditions.last_updated.iter().map(|condition| ("_last_updated", Some(condition.as_str()))));
    let headings = ["identifier", "name", "target_type", "period", "eligibility"];
    output::list_of_members(global, admin.records("/programs", &parameters)?, &headings, text)
}

/// Draws the diagnostics of the rules of programs.
fn check(global: &GlobalArgs, admin: &AdminClient) -> Result<(), CliError> {
    let body = admin.get("/program-rules")?;
    let broken: ListBody<BrokenRuleBody<Diagnostic<'static>>> = read(body.clone())?;
    if global.json {
        output::json(&body);
    } else if broken.data.is_empty() {
        output::line("the rules of all programs are valid");
    }
    let paint = Paint::of_errors();
    for rule in broken.data.iter().filter(|_| !global.json) {
        output::line(format_args!("{}: {}", rule.program, rule.message));
        for diagnostic in &rule.diagnostics {
            output::error_text(&draw(&paint, &rule.eligibility, diagnostic));
        }
    }
    match broken.data.len() {
        0 => Ok(()),
        1 => Err(CliError::failed("the rule of one program is not valid any more")),
        count => Err(CliError::failed(format!("the rules of {count} programs are not valid any more"))),
    }
}

/// Returns the text of a member, as printed in lists and by [`print()`].
fn text(program: &Value, name: &'static str) -> String {
    let flag = |name: &str| program.get(name).and_then(Value::as_bool).unwrap_or(true).to_string();
    match name {
        "identifier" => {
            let first = program.pointer("/identifier/0").unwrap_or(&Value::Null);
            format!("{}|{}", output::text_at(first, "system"), output::text_at(first, "value"))
        }
        "active" => flag(name),
        "enforced" => flag("enforce_eligibility"),
        "period" => {
            Some(output::days(program, "period.start", "period.end")).filter(|days| days != "..").unwrap_or_default()
        }
        plain => output::text_at(program, plain),
    }
}

fn print(program: &Value) {
    let names = ["identifier", "name", "active", "target_type", "eligibility", "engine", "enforced", "period"];
    output::labelled(11, names.map(|name| (name, text(program, name))));
    let warnings = program.get("warnings").and_then(Value::as_array).into_iter().flatten();
    output::labelled(11, warnings.map(|warning| ("warning", output::text_at(warning, "message"))));
}

/// Changes of a program.
#[derive(Debug, Args)]
pub struct UpdateArgs {
    /// One of its identifiers: `SYSTEM|VALUE`
    id: String,
    /// Display name
    #[arg(long)]
    name: Option<String>,
    /// Set the program active or inactive
    #[arg(long, value_name = "true|false")]
    active: Option<bool>,
    /// Reject enrolments of subjects that the expression does not find eligible
    #[arg(long, value_name = "true|false", conflicts_with = "enforce_eligibility")]
    enforce: Option<bool>,
    /// Remove the expression
    #[arg(long, conflicts_with = "eligibility")]
    no_eligibility: bool,
    /// Remove the engine: the active one decides
    #[arg(long, conflicts_with = "engine")]
    no_engine: bool,
    /// Remove the description
    #[arg(long, conflicts_with = "description")]
    no_description: bool,
    /// Remove the kind of program
    #[arg(long, conflicts_with = "program_type")]
    no_program_type: bool,
    /// Remove the first day
    #[arg(long, conflicts_with = "start")]
    no_start: bool,
    /// Remove the last day: the program continues
    #[arg(long, conflicts_with = "end")]
    no_end: bool,
    /// Remove both days
    #[arg(long, conflicts_with_all = ["start", "end", "no_start", "no_end"])]
    no_period: bool,
    /// Add an identifier: `SYSTEM|VALUE`; repeatable
    #[arg(long, value_name = "SYSTEM|VALUE")]
    add_identifier: Vec<String>,
    /// End an identifier: `SYSTEM|VALUE`; repeatable
    #[arg(long, value_name = "SYSTEM|VALUE", requires = "ended_on")]
    end_identifier: Vec<String>,
    /// The last day of the identifiers that are ended, `YYYY-MM-DD`, today at the latest
    #[arg(long, value_name = "DATE", requires = "end_identifier")]
    ended_on: Option<String>,
    /// Only if this is the current version (`meta.version_id`)
    #[arg(long, value_name = "N")]
    if_version: Option<u64>,
    #[command(flatten)]
    more: MoreArgs,
}

/// Changes the passed members; returns the program.
fn update(admin: &AdminClient, args: UpdateArgs) -> Result<Value, CliError> {
    let UpdateArgs { id, add_identifier, end_identifier, ended_on, if_version, .. } = &args;
    let (id, mut version) = (id.clone(), if_version.map(|version| version.to_string()));
    let identifiers = if add_identifier.is_empty() && end_identifier.is_empty() {
        None
    } else {
        // A patch replaces the complete list, so it must apply to the version that was read.
        let program: Program = read(show(admin, &id)?)?;
        version = version.or(program.meta.version_id);
        Some(identifiers(program.identifier, add_identifier, end_identifier, ended_on.as_deref())?)
    };
    let body = args.members(identifiers);
    if body.is_empty() {
        return Err(CliError::usage("nothing to change was given; `daftar program update --help` lists what can be"));
    }
    patch(admin, &id, &body, version)
}

impl UpdateArgs {
    /// Returns the members of a patch, `null` for removed members.
    fn members(self, identifiers: Option<Vec<Identifier>>) -> Map<String, Value> {
        let mut body = self.more.members();
        let (name, active, enforce) = (self.name, self.active, self.enforce);
        body.extend(given(json!({
            "identifier": identifiers, "name": name, "active": active, "enforce_eligibility": enforce,
        })));
        let taken_out = [
            ("eligibility", self.no_eligibility),
            ("engine", self.no_engine),
            ("description", self.no_description),
            ("program_type", self.no_program_type),
            ("period", self.no_period),
        ];
        for (name, _) in taken_out.iter().filter(|(_, is_taken_out)| *is_taken_out) {
            body.insert((*name).to_owned(), Value::Null);
        }
        for (day, _) in [("start", self.no_start), ("end", self.no_end)].iter().filter(|(_, is_open)| *is_open) {
            let period = body.entry("period").or_insert_with(|| json!({}));
            if let Value::Object(period) = period {
                period.insert((*day).to_owned(), Value::Null);
            }
        }
        body
    }
}

/// Returns the identifiers of a program with additions and with end dates set.
fn identifiers(
    mut all: Vec<Identifier>,
    added: &[String],
    ended: &[String],
    last_day: Option<&str>,
) -> Result<Vec<Identifier>, CliError> {
    for text in ended {
        let Identifier { system, value, .. } = read_identifier(text)?;
        let Some(found) = all.iter_mut().find(|one| one.system == system && one.value == value) else {
            return Err(CliError::failed(format!("the program has no identifier `{text}`")));
        };
        found.period.get_or_insert_default().end = last_day.map(str::to_owned);
    }
    for text in added {
        all.push(read_identifier(text)?);
    }
    Ok(all)
}
