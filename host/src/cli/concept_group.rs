//! `daftar concept-group`

use clap::Subcommand;
use serde_json::{Value, json};

use super::admin_client::{AdminClient, Payload};
use super::client::part;
use super::{CliError, GlobalArgs, output};

/// What is done with concept groups.
#[derive(Debug, Subcommand)]
pub enum ConceptGroupCommand {
    /// Define a concept group for this deployment, in place of any pack's definition; effective at once
    Set {
        /// The group's name, such as `pregnant_eligible`
        name: String,
        /// A code that belongs to it, written `<namespace>#<code>`; may be repeated
        #[arg(long, value_name = "CODE")]
        code: Vec<String>,
        /// A code that belongs to it with everything below it; may be repeated
        #[arg(long, value_name = "CODE")]
        descendants_of: Vec<String>,
        /// A code that does not belong to it, with everything below it; may be repeated
        #[arg(long, value_name = "CODE")]
        except: Vec<String>,
        /// What belongs to it, in one sentence
        #[arg(long)]
        description: Option<String>,
        /// Take the deployment's definition back: the pack's counts again
        #[arg(long, conflicts_with_all = ["code", "descendants_of", "except", "description"])]
        reset: bool,
    },
    /// List all concept groups and who defines them
    List,
    /// Show all that is known of one concept group
    Show {
        /// The group's name
        name: String,
    },
}

/// Runs the command.
pub fn run(global: &GlobalArgs, command: ConceptGroupCommand) -> Result<(), CliError> {
    let admin = match &command {
        ConceptGroupCommand::Set { .. } => AdminClient::connect_or_begin(global)?,
        _ => AdminClient::connect(global)?,
    };
    let result = execute(global, &admin, command);
    admin.close();
    result
}

fn execute(global: &GlobalArgs, admin: &AdminClient, command: ConceptGroupCommand) -> Result<(), CliError> {
    let answer = match command {
        ConceptGroupCommand::Set { name, reset: true, .. } => {
            let answer = admin.call("DELETE", &format!("/concept-groups/{}", part(&name)), Payload::Empty)?;
            if !global.json {
                let plugin = output::text_of(&answer, "plugin");
                let by = if plugin.is_empty() { "nobody".to_owned() } else { format!("`{plugin}`") };
                output::line(format_args!("reset {name}; it is now defined by {by}"));
                return Ok(());
            }
            answer
        }
        ConceptGroupCommand::Set { name, code, descendants_of, except, description, reset: false } => {
            let codes = code.iter().map(|code| json!({"code": code}));
            let below = |codes: &[String]| codes.iter().map(|code| json!({"descendants_of": code})).collect::<Vec<_>>();
            let includes: Vec<Value> = codes.chain(below(&descendants_of)).collect();
            let body = json!({"description": description, "includes": includes, "excludes": below(&except)});
            let path = format!("/concept-groups/{}", part(&name));
            let answer = admin.call("PUT", &path, Payload::Json(&body))?;
            if !global.json {
                output::line(format_args!("set {name}: {} codes", members(&answer)));
                return Ok(());
            }
            answer
        }
        ConceptGroupCommand::Show { name } => {
            let group = admin.call("GET", &format!("/concept-groups/{}", part(&name)), Payload::Empty)?;
            if !global.json {
                output::members(&group);
                return Ok(());
            }
            group
        }
        ConceptGroupCommand::List => {
            let groups = admin.call("GET", "/concept-groups", Payload::Empty)?;
            if !global.json {
                list(&groups);
                return Ok(());
            }
            groups
        }
    };
    output::json(&answer);
    Ok(())
}

fn members(group: &Value) -> u64 {
    group.get("members").and_then(Value::as_u64).unwrap_or_default()
}

fn list(groups: &Value) {
    let rows = groups.get("data").and_then(Value::as_array).map(Vec::as_slice).unwrap_or_default();
    let rows: Vec<Vec<String>> = rows
        .iter()
        .map(|group| {
            let text = |name| output::text_of(group, name).to_owned();
            let is_set = group.get("is_set").and_then(Value::as_bool).unwrap_or(false);
            let codes = if is_set { members(group).to_string() } else { "not set".to_owned() };
            let by = if text("plugin").is_empty() { text("defined_by") } else { text("plugin") };
            vec![text("name"), by, codes, text("description")]
        })
        .collect();
    output::table(&["name", "defined by", "codes", "description"], &rows);
}
