//! `daftar code`

use clap::{Args, Subcommand};
use serde_json::{Map, Value, json};

use super::admin_client::{AdminClient, Payload};
use super::client::part;
use super::{CliError, GlobalArgs, output};

/// What is done with codes of the deployment's own.
#[derive(Debug, Subcommand)]
pub enum CodeCommand {
    /// Add a local code to ID types, ethnocultural status or pregnancy status; effective at once
    Add {
        /// The code, written `<namespace>#<code>`
        code: String,
        /// The code of the same vocabulary that it is a kind of; it counts wherever that one does
        #[arg(long, value_name = "CODE")]
        specialises: Option<String>,
        #[command(flatten)]
        said: CodeArgs,
    },
    /// Change what a local code is called or how its values look
    Set {
        /// The code, written `<namespace>#<code>`
        code: String,
        #[command(flatten)]
        said: CodeArgs,
        /// Take the pattern out: any value is accepted
        #[arg(long, conflicts_with = "pattern")]
        no_pattern: bool,
        /// Take the reference out
        #[arg(long, conflicts_with = "reference")]
        no_reference: bool,
    },
    /// Set a local or starter code aside: refused in new records, valid in old ones
    Deprecate {
        /// The code, written `<namespace>#<code>`
        code: String,
        /// The code to use in its place
        #[arg(long, value_name = "CODE")]
        replaced_by: Option<String>,
    },
    /// List all local codes
    List,
    /// Show all that is known of one local code
    Show {
        /// The code, written `<namespace>#<code>`
        code: String,
    },
}

/// What is said about a local code.
#[derive(Debug, Args)]
pub struct CodeArgs {
    /// What it is called, as `<language>=<label>`; may be repeated
    #[arg(long = "label", value_name = "LANGUAGE=LABEL")]
    labels: Vec<String>,
    /// Where more is said about it, a URI
    #[arg(long, value_name = "URI")]
    reference: Option<String>,
    /// For an ID type: a regular expression that whole values have to match
    #[arg(long, value_name = "REGEX", requires = "pattern_description")]
    pattern: Option<String>,
    /// The same in words, as whoever writes a wrong value will read it
    #[arg(long, value_name = "TEXT", requires = "pattern")]
    pattern_description: Option<String>,
    /// For an ID type: what carries it
    #[arg(long, value_parser = ["individual", "group", "both"])]
    target: Option<String>,
}

/// Runs the command.
pub fn run(global: &GlobalArgs, command: CodeCommand) -> Result<(), CliError> {
    let admin = match &command {
        CodeCommand::Add { .. } => AdminClient::connect_or_begin(global)?,
        _ => AdminClient::connect(global)?,
    };
    let result = execute(global, &admin, command);
    admin.close();
    result
}

fn execute(global: &GlobalArgs, admin: &AdminClient, command: CodeCommand) -> Result<(), CliError> {
    let (done, answer) = match command {
        CodeCommand::Add { code, specialises, said } => {
            let mut body = said.body()?;
            body.insert("code".to_owned(), json!(code));
            body.insert("specialises".to_owned(), json!(specialises));
            ("added", admin.call("POST", "/local-codes", Payload::Json(&body.into()))?)
        }
        CodeCommand::Set { code, said, no_pattern, no_reference } => {
            let mut body = said.body()?;
            // What is not given stays; `null` takes it out.
            body.retain(|_, value| !value.is_null());
            if no_pattern {
                body.insert("value_pattern".to_owned(), Value::Null);
            }
            if no_reference {
                body.insert("reference".to_owned(), Value::Null);
            }
            let path = format!("/local-codes/{}", part(&code));
            ("changed", admin.call("PATCH", &path, Payload::Json(&body.into()))?)
        }
        CodeCommand::Deprecate { code, replaced_by } => {
            let path = format!("/local-codes/{}/deprecate", part(&code));
            let body = json!({"replaced_by": replaced_by});
            ("deprecated", admin.call("POST", &path, Payload::Json(&body))?)
        }
        CodeCommand::Show { code } => {
            let code = admin.call("GET", &format!("/local-codes/{}", part(&code)), Payload::Empty)?;
            if global.json {
                output::json(&code)
            } else {
                output::members(&code)
            }
            return Ok(());
        }
        CodeCommand::List => {
            let codes = admin.call("GET", "/local-codes", Payload::Empty)?;
            if global.json {
                output::json(&codes);
            } else {
                list(&codes);
            }
            return Ok(());
        }
    };
    if global.json {
        output::json(&answer);
    } else {
        let held = records(&answer).map(|count| format!(" ({count} records hold it)")).unwrap_or_default();
        output::line(format_args!("{done} {}{held}", output::text_of(&answer, "uri")));
    }
    Ok(())
}

impl CodeArgs {
    fn body(self) -> Result<Map<String, Value>, CliError> {
        let mut labels = Map::new();
        for label in &self.labels {
            let Some((language, text)) = label.split_once('=') else {
                return Err(CliError::usage(format!("`{label}` is no label: write it as `en=Farmer ID`")));
            };
            if labels.insert(language.to_owned(), json!(text)).is_some() {
                return Err(CliError::usage(format!("there are two labels in the language `{language}`")));
            }
        }
        let labels = if labels.is_empty() { Value::Null } else { Value::Object(labels) };
        let body = json!({
            "labels": labels,
            "reference": self.reference,
            "value_pattern": self.pattern,
            "value_pattern_description": self.pattern_description,
            "target_type": self.target,
        });
        match body {
            Value::Object(body) => Ok(body),
            other => Err(CliError::failed(format!("a body is an object, not {other}"))),
        }
    }
}

/// How many records hold a code; not told of an ID type.
fn records(code: &Value) -> Option<u64> {
    code.get("records").and_then(Value::as_u64)
}

fn list(codes: &Value) {
    let rows = codes.get("data").and_then(Value::as_array).map(Vec::as_slice).unwrap_or_default();
    let rows: Vec<Vec<String>> = rows
        .iter()
        .map(|code| {
            let text = |name| output::text_of(code, name).to_owned();
            let labels = code.get("labels").and_then(Value::as_object);
            let label = labels.and_then(|labels| labels.get("en").or(labels.values().next())).and_then(Value::as_str);
            let label = label.unwrap_or_default().to_owned();
            let records = records(code).map(|count| count.to_string()).unwrap_or_default();
            vec![text("uri"), text("status"), text("replaced_by"), label, records]
        })
        .collect();
    output::table(&["code", "status", "replaced by", "label", "records"], &rows);
}
