//! `daftar program list`

use clap::Args;
use serde_json::{Value, json};

use super::{identifier, period};
use crate::cli::admin_client::{AdminClient, Payload};
use crate::cli::{CliError, GlobalArgs, output};

/// How many programs are asked for at a time.
const PAGE_PROGRAMS: usize = 100;

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

/// Lists them, page after page.
pub(super) fn list(global: &GlobalArgs, admin: &AdminClient, conditions: &ListArgs) -> Result<(), CliError> {
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
