//! `daftar audit`

use clap::{Args, Subcommand};
use serde_json::Value;

use super::admin_client::{AdminClient, read, with_query};
use super::{CliError, GlobalArgs, output};
use daftar_api_types::admin::operation::{AuditEntryBody, PageBody};
use daftar_domain::audit::{AuditAction, AuditOutcome};

/// Number of entries in a page.
const PAGE_ENTRIES: usize = 500;

/// Operations on the audit log.
#[derive(Debug, Subcommand)]
pub enum AuditCommand {
    /// Search the audit log, newest entries first
    Query(QueryArgs),
}

/// Conditions of a query: all must match.
#[derive(Debug, Args)]
pub struct QueryArgs {
    /// From this time or day, such as `2026-01-31T12:00:00Z` or `2026-01-31` (UTC)
    #[arg(long, value_name = "TIME")]
    from: Option<String>,
    /// Before this time or day
    #[arg(long, value_name = "TIME")]
    to: Option<String>,
    /// By this client
    #[arg(long, value_name = "ID", conflicts_with = "actor")]
    client: Option<String>,
    /// By this actor; `unknown` are calls without a valid token
    #[arg(long, value_parser = ["administrator", "system", "unknown"])]
    actor: Option<String>,
    /// Actions, separated by commas or spaces; repeatable
    #[arg(long, num_args = 1.., value_delimiter = ',', value_parser = AuditAction::NAMES)]
    action: Vec<String>,
    /// By outcome
    #[arg(long, value_parser = AuditOutcome::NAMES)]
    outcome: Option<String>,
    /// On this record: `Individual/SYSTEM|VALUE`, or `SYSTEM|VALUE` for any kind; also a client's id or a plugin's name
    #[arg(long, value_name = "RECORD")]
    record: Option<String>,
    /// By request id
    #[arg(long, value_name = "ID")]
    request_id: Option<String>,
    /// Containing this text in the call, the fields, the reason or the note
    #[arg(long)]
    text: Option<String>,
    /// Maximum number of entries to show
    #[arg(long, default_value_t = 100, value_name = "N")]
    limit: usize,
}

/// Runs the command.
pub fn run(global: &GlobalArgs, command: AuditCommand) -> Result<(), CliError> {
    let AuditCommand::Query(args) = command;
    AdminClient::connect(global)?.run(|admin| query(global, admin, &args))
}

/// Prints one page after another, so that the memory usage is that of one page.
fn query(global: &GlobalArgs, admin: &AdminClient, args: &QueryArgs) -> Result<(), CliError> {
    let mut left = args.limit;
    let mut cursor: Option<String> = None;
    let mut has_printed = false;
    while left > 0 {
        let count = left.min(PAGE_ENTRIES).to_string();
        let one_of_each = [
            ("from", &args.from),
            ("to", &args.to),
            ("client", &args.client),
            ("actor", &args.actor),
            ("outcome", &args.outcome),
            ("record", &args.record),
            ("request_id", &args.request_id),
            ("text", &args.text),
            ("cursor", &cursor),
        ];
        let parameters = one_of_each.into_iter().map(|(name, value)| (name, value.as_deref()));
        let parameters = parameters.chain(args.action.iter().map(|action| ("action", Some(action.as_str()))));
        let path = with_query("/audit", parameters.chain([("_count", Some(count.as_str()))]));
        let page: PageBody<Value> = read(admin.get(&path)?)?;
        left = left.saturating_sub(page.data.len());
        for entry in page.data {
            if global.json {
                // Each entry is one line of JSON, so that the output can be piped and memory usage is bounded.
                output::line(entry);
            } else {
                if !has_printed {
                    output::line(row(["AT", "WHO", "ACTION", "OUTCOME", "STATUS", "RECORDS"]));
                }
                print(&read(entry)?);
            }
            has_printed = true;
        }
        cursor = page.next;
        if cursor.is_none() {
            break;
        }
    }
    if !has_printed && !global.json {
        output::line("no line of the audit log meets these conditions");
    }
    Ok(())
}

/// Prints a row, and below it the members that do not fit into the row.
fn print(entry: &AuditEntryBody) {
    let AuditEntryBody { at, actor, client, action, outcome, .. } = entry;
    let status = entry.status.map(|status| status.to_string()).unwrap_or_default();
    let who = client.as_ref().unwrap_or(actor);
    output::line(row([at, who, action, outcome, &status, &entry.records.join(", ")]));
    let count = (entry.count != 1).then(|| entry.count.to_string());
    for (name, text) in [
        ("operation", entry.operation.clone()),
        ("reason", entry.reason.clone()),
        ("note", entry.note.clone()),
        ("address", entry.address.clone()),
        ("fields", Some(entry.fields.join(", "))),
        ("consents", Some(entry.consents.join(", "))),
        ("count", count),
        ("request", Some(entry.request_id.clone())),
    ] {
        if let Some(text) = text.filter(|text| !text.is_empty() || name == "request") {
            output::line(format_args!("    {name}: {text}"));
        }
    }
}

fn row(cells: [&str; 6]) -> String {
    let [at, who, action, outcome, status, records] = cells;
    format!("{at:<24}  {who:<39}  {action:<12}  {outcome:<7}  {status:<6}  {records}").trim_end().to_owned()
}
