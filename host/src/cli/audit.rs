//! `daftar audit`

use clap::{Args, Subcommand};
use serde_json::Value;

use super::admin_client::{AdminClient, Payload};
use super::{CliError, GlobalArgs, output};

/// How many lines are asked for at a time.
const PAGE_LINES: usize = 500;

/// What is done with the audit log.
#[derive(Debug, Subcommand)]
pub enum AuditCommand {
    /// Look through the audit log, newest lines first
    Query(QueryArgs),
}

/// What to look for: all conditions have to hold.
#[derive(Debug, Args)]
pub struct QueryArgs {
    /// Not before this instant or day, such as `2026-01-31T12:00:00Z` or `2026-01-31` (UTC)
    #[arg(long, value_name = "T")]
    from: Option<String>,
    /// Before this instant or day
    #[arg(long, value_name = "T")]
    to: Option<String>,
    /// As this client
    #[arg(long, value_name = "ID", conflicts_with = "actor")]
    client: Option<String>,
    /// As `administrator`, `system` or `unknown` (calls without a sound token)
    #[arg(long)]
    actor: Option<String>,
    /// What was done: `read`, `search`, `create`, `update`, `evaluate`, `administer`, `plugin`, `authenticate`, `audit`; several
    /// after one another
    #[arg(long, num_args = 1..)]
    action: Vec<String>,
    /// How it ended: `allowed`, `refused` or `failed`
    #[arg(long)]
    outcome: Option<String>,
    /// On this record: `Individual/SYSTEM|VALUE`, or `SYSTEM|VALUE` for any kind; also a client's id or a plugin's name
    #[arg(long, value_name = "RECORD")]
    record: Option<String>,
    /// In this request
    #[arg(long, value_name = "ID")]
    request_id: Option<String>,
    /// With this text in the call, the fields, the reason or the note
    #[arg(long)]
    text: Option<String>,
    /// How many lines to show at most
    #[arg(long, default_value_t = 100, value_name = "N")]
    limit: usize,
}

/// Runs the command.
pub fn run(global: &GlobalArgs, command: AuditCommand) -> Result<(), CliError> {
    let AuditCommand::Query(args) = command;
    let admin = AdminClient::connect(global)?;
    let result = query(global, &admin, &args);
    admin.close();
    result
}

/// Prints page after page, so that any number of lines takes the memory of one page.
fn query(global: &GlobalArgs, admin: &AdminClient, args: &QueryArgs) -> Result<(), CliError> {
    let mut left = args.limit;
    let mut cursor: Option<String> = None;
    let mut has_printed = false;
    while left > 0 {
        let mut query = form_urlencoded::Serializer::new(String::new());
        for (name, value) in [
            ("from", &args.from),
            ("to", &args.to),
            ("client", &args.client),
            ("actor", &args.actor),
            ("outcome", &args.outcome),
            ("record", &args.record),
            ("request_id", &args.request_id),
            ("text", &args.text),
            ("cursor", &cursor),
        ] {
            if let Some(value) = value {
                query.append_pair(name, value);
            }
        }
        for action in &args.action {
            query.append_pair("action", action);
        }
        query.append_pair("_count", &left.min(PAGE_LINES).to_string());
        let page = admin.call("GET", &format!("/audit?{}", query.finish()), Payload::Empty)?;
        let lines = page.get("data").and_then(Value::as_array).map(Vec::as_slice).unwrap_or_default();
        left = left.saturating_sub(lines.len());
        print(global, lines, !has_printed);
        has_printed |= !lines.is_empty();
        cursor = page.get("next").and_then(Value::as_str).map(str::to_owned);
        if cursor.is_none() {
            break;
        }
    }
    if !has_printed && !global.json {
        output::line("no line of the audit log meets these conditions");
    }
    Ok(())
}

fn print(global: &GlobalArgs, lines: &[Value], is_first: bool) {
    for (index, line) in lines.iter().enumerate() {
        if global.json {
            // One line of JSON each, so that it can be piped and never grows in memory.
            output::line(line);
            continue;
        }
        if is_first && index == 0 {
            output::line(row(["AT", "WHO", "ACTION", "OUTCOME", "STATUS", "RECORDS"]));
        }
        let text = |name| output::text_of(line, name);
        let who = if text("actor") == "client" { text("client") } else { text("actor") };
        let status = line.get("status").and_then(Value::as_u64).map(|status| status.to_string()).unwrap_or_default();
        let records = list(line, "records");
        output::line(row([text("at"), who, text("action"), text("outcome"), &status, &records]));
        details(line);
    }
}

/// What does not fit into the row, each on a line below it.
fn details(line: &Value) {
    for name in ["operation", "reason", "note", "address"] {
        let text = output::text_of(line, name);
        if !text.is_empty() {
            output::line(format_args!("    {name}: {text}"));
        }
    }
    for name in ["fields", "consents"] {
        let texts = list(line, name);
        if !texts.is_empty() {
            output::line(format_args!("    {name}: {texts}"));
        }
    }
    let count = line.get("count").and_then(Value::as_u64).unwrap_or(1);
    if count != 1 {
        output::line(format_args!("    count: {count}"));
    }
    output::line(format_args!("    request: {}", output::text_of(line, "request_id")));
}

fn row(cells: [&str; 6]) -> String {
    let [at, who, action, outcome, status, records] = cells;
    format!("{at:<24}  {who:<39}  {action:<12}  {outcome:<7}  {status:<6}  {records}").trim_end().to_owned()
}

fn list(line: &Value, name: &str) -> String {
    let texts = line.get(name).and_then(Value::as_array).map(Vec::as_slice).unwrap_or_default();
    texts.iter().filter_map(Value::as_str).collect::<Vec<_>>().join(", ")
}
