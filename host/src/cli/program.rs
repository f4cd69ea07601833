//! `daftar program`

use clap::{Args, Subcommand};
use serde_json::{Map, Value, json};

use super::admin_client::{AdminClient, Payload};
use super::client::part;
use super::eval::drawing::draw;
use super::eval::paint::Paint;
use super::{CliError, GlobalArgs, output};

/// How many programs are asked for at a time.
const PAGE_PROGRAMS: usize = 100;

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
    /// Only those that are still to begin, under way, or over
    #[arg(long, value_parser = ["upcoming", "current", "ended"])]
    status: Option<String>,
    /// Only those last written then, such as `ge2026-01-01`; may be repeated
    #[arg(long, value_name = "CONDITION")]
    last_updated: Vec<String>,
}

/// What is changed of a program.
#[derive(Debug, Args)]
pub struct UpdateArgs {
    /// One of its identifiers: `SYSTEM|VALUE`
    id: String,
    /// What it is called
    #[arg(long)]
    name: Option<String>,
    /// Whether it is in use
    #[arg(long, value_name = "true|false")]
    active: Option<bool>,
    /// Whether nobody is enrolled against the expression's word
    #[arg(long, value_name = "true|false", conflicts_with = "enforce_eligibility")]
    enforce: Option<bool>,
    /// Take the expression out
    #[arg(long, conflicts_with = "eligibility")]
    no_eligibility: bool,
    /// Take the description out
    #[arg(long, conflicts_with = "description")]
    no_description: bool,
    /// Take the kind of program out
    #[arg(long, conflicts_with = "program_type")]
    no_program_type: bool,
    /// Take the first day out
    #[arg(long, conflicts_with = "start")]
    no_start: bool,
    /// Take the last day out: the program goes on
    #[arg(long, conflicts_with = "end")]
    no_end: bool,
    /// Take both days out
    #[arg(long, conflicts_with_all = ["start", "end", "no_start", "no_end"])]
    no_period: bool,
    /// Add an identifier: `SYSTEM|VALUE`; several after one another
    #[arg(long, num_args = 1.., value_name = "SYSTEM|VALUE")]
    add_identifier: Vec<String>,
    /// End an identifier: `SYSTEM|VALUE`; several after one another
    #[arg(long, num_args = 1.., value_name = "SYSTEM|VALUE", requires = "ended_on")]
    end_identifier: Vec<String>,
    /// The last day of the identifiers that are ended, `YYYY-MM-DD`, today at the latest
    #[arg(long, value_name = "D", requires = "end_identifier")]
    ended_on: Option<String>,
    /// Only while it is at this version still, as `meta.version_id` says it
    #[arg(long, value_name = "N")]
    if_version: Option<u64>,
    #[command(flatten)]
    more: MoreArgs,
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
    let admin = AdminClient::connect(global)?;
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
        ProgramCommand::List(conditions) => list(global, admin, &conditions)?,
        ProgramCommand::Show { id } => show(global, &read(admin, &id)?),
        ProgramCommand::Check => check(global, admin)?,
        ProgramCommand::Update(args) => update(global, admin, *args)?,
        ProgramCommand::End { id, on, if_version } => {
            let version = if_version.map(|version| version.to_string());
            show(global, &patch(admin, &id, &json!({"period": {"end": on}}), version.as_deref())?);
        }
    }
    Ok(())
}

fn update(global: &GlobalArgs, admin: &AdminClient, args: UpdateArgs) -> Result<(), CliError> {
    let UpdateArgs { id, add_identifier, end_identifier, ended_on, if_version, .. } = &args;
    let (id, mut version) = (id.clone(), if_version.map(|version| version.to_string()));
    let identifiers = if add_identifier.is_empty() && end_identifier.is_empty() {
        None
    } else {
        // A patch replaces the whole list, so it has to be of the version that was read.
        let program = read(admin, &id)?;
        let read_version = program.pointer("/meta/version_id").and_then(Value::as_str).map(str::to_owned);
        version = version.or(read_version);
        Some(identifiers(&program, add_identifier, end_identifier, ended_on.as_deref())?)
    };
    let body = args.members(identifiers);
    if body.is_empty() {
        return Err(CliError::failed("nothing to change was given; `daftar program update --help` lists what can be"));
    }
    show(global, &patch(admin, &id, &Value::Object(body), version.as_deref())?);
    Ok(())
}

impl UpdateArgs {
    /// The members of a patch, `null` for what is taken out.
    fn members(self, identifiers: Option<Vec<Value>>) -> Map<String, Value> {
        let mut body = self.more.members();
        body.extend(identifiers.map(|identifiers| ("identifier".to_owned(), Value::Array(identifiers))));
        body.extend(self.name.map(|name| ("name".to_owned(), Value::String(name))));
        body.extend(self.active.map(|active| ("active".to_owned(), Value::Bool(active))));
        body.extend(self.enforce.map(|enforce| ("enforce_eligibility".to_owned(), Value::Bool(enforce))));
        let taken_out = [
            ("eligibility", self.no_eligibility),
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

/// The identifiers of a program with some added and some ended.
fn identifiers(
    program: &Value,
    added: &[String],
    ended: &[String],
    last_day: Option<&str>,
) -> Result<Vec<Value>, CliError> {
    let mut all = program.get("identifier").and_then(Value::as_array).cloned().unwrap_or_default();
    for text in ended {
        let wanted = read_identifier(text)?;
        let is_wanted = |one: &&mut Value| ["system", "value"].iter().all(|name| one.get(name) == wanted.get(name));
        let Some(Value::Object(found)) = all.iter_mut().find(is_wanted) else {
            return Err(CliError::failed(format!("the program has no identifier `{text}`")));
        };
        let period = found.entry("period").or_insert_with(|| json!({}));
        if let Value::Object(period) = period {
            period.insert("end".to_owned(), json!(last_day));
        }
    }
    for text in added {
        all.push(read_identifier(text)?);
    }
    Ok(all)
}

fn read(admin: &AdminClient, id: &str) -> Result<Value, CliError> {
    admin.call("GET", &format!("/programs/{}", part(id)), Payload::Empty)
}

fn read_identifier(text: &str) -> Result<Value, CliError> {
    match text.split_once('|') {
        Some((system, value)) => Ok(json!({"system": system, "value": value})),
        None => Err(CliError::failed(format!("an identifier is written `SYSTEM|VALUE`, and `{text}` has no `|`"))),
    }
}

fn patch(admin: &AdminClient, id: &str, body: &Value, version: Option<&str>) -> Result<Value, CliError> {
    admin.call("PATCH", &format!("/programs/{}", part(id)), Payload::Json(body).at(version))
}

impl ListArgs {
    /// The parameters of a page that begins behind so many.
    fn query(&self, offset: usize) -> String {
        let active = self.active.map(|active| active.to_string());
        let mut query = form_urlencoded::Serializer::new(String::new());
        for (name, value) in [
            ("identifier", &self.identifier),
            ("name", &self.name),
            ("active", &active),
            ("target_type", &self.target_type),
            ("status", &self.status),
        ] {
            if let Some(value) = value {
                query.append_pair(name, value);
            }
        }
        for condition in &self.last_updated {
            query.append_pair("_last_updated", condition);
        }
        query.append_pair("_count", &PAGE_PROGRAMS.to_string()).append_pair("_offset", &offset.to_string());
        query.finish()
    }
}

fn list(global: &GlobalArgs, admin: &AdminClient, conditions: &ListArgs) -> Result<(), CliError> {
    let mut programs = Vec::new();
    loop {
        let path = format!("/programs?{}", conditions.query(programs.len()));
        let page = admin.call("GET", &path, Payload::Empty)?;
        let found = page.get("data").and_then(Value::as_array).cloned().unwrap_or_default();
        let is_last = found.len() < PAGE_PROGRAMS;
        programs.extend(found);
        if is_last {
            break;
        }
    }
    if global.json {
        output::json(&json!({"data": programs}));
        return Ok(());
    }
    let rows: Vec<Vec<String>> = programs
        .iter()
        .map(|program| {
            let text = |name| output::text_of(program, name).to_owned();
            vec![identifier(program), text("name"), text("target_type"), period(program), text("eligibility")]
        })
        .collect();
    output::table(&["identifier", "name", "target_type", "period", "eligibility"], &rows);
    Ok(())
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
