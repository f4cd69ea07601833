//! `daftar client`

pub(super) mod overlap;

use clap::Subcommand;
use serde_json::{Map, Value, json};

use super::admin_client::{AdminClient, Payload};
use super::{CliError, GlobalArgs, output};

/// What is done with clients.
#[derive(Debug, Subcommand)]
pub enum ClientCommand {
    /// Register a client; its secret is shown this once
    Create {
        /// What people call it
        #[arg(long)]
        name: String,
        /// What it may do, such as `individual:read`; several after one another
        #[arg(long, num_args = 1..)]
        scope: Vec<String>,
        /// Requests a minute instead of 60
        #[arg(long, value_name = "N")]
        rate_limit_per_minute: Option<u32>,
        /// Requests a day instead of 10000
        #[arg(long, value_name = "N")]
        rate_limit_per_day: Option<u32>,
        /// The organization that it belongs to, as consents name it
        #[arg(long, value_name = "O")]
        organization: Option<String>,
        /// On what ground it looks at personal data: with `consent` it sees what is consented to its organization, and nothing else
        #[arg(long, value_name = "B")]
        legal_basis: Option<String>,
        /// With the legal basis `consent`: only what is consented to for this purpose
        #[arg(long, value_name = "P")]
        purpose: Option<String>,
    },
    /// List all clients
    List,
    /// Show one client
    Show {
        /// The client's id
        id: String,
    },
    /// Refuse a client's next call and the tokens it holds
    Disable {
        /// The client's id
        id: String,
    },
    /// Let a disabled client in again
    Enable {
        /// The client's id
        id: String,
    },
    /// Give a client another secret, which is shown this once
    RotateSecret {
        /// The client's id
        id: String,
        /// How long the older secrets stay good, such as `24h`, `90m` or `7d`; without it they, and the tokens that the client
        /// holds, are refused at once
        #[arg(long, value_name = "TIME", value_parser = overlap::parse)]
        overlap: Option<u32>,
    },
    /// Change settings of a client
    Set {
        /// The client's id
        id: String,
        /// What people call it
        #[arg(long)]
        name: Option<String>,
        /// The organization that it belongs to, as consents name it; empty for none
        #[arg(long, value_name = "O")]
        organization: Option<String>,
        /// On what ground it looks at personal data, such as `consent` or `public_task`; empty for none
        #[arg(long, value_name = "B")]
        legal_basis: Option<String>,
        /// With the legal basis `consent`: only what is consented to for this purpose; empty for whatever purpose
        #[arg(long, value_name = "P")]
        purpose: Option<String>,
        /// Requests a minute; 0 for as many as by default
        #[arg(long, value_name = "N")]
        rate_limit_per_minute: Option<u32>,
        /// Requests a day; 0 for as many as by default
        #[arg(long, value_name = "N")]
        rate_limit_per_day: Option<u32>,
    },
    /// Grant a scope; of one that is held the fields are replaced
    Grant {
        /// The client's id
        id: String,
        /// The scope
        #[arg(long)]
        scope: String,
        /// The only fields that it opens, such as `name,birth_date,extension.farmer`; all of them where it is not given
        #[arg(long, value_delimiter = ',', value_name = "A,B")]
        fields: Option<Vec<String>>,
    },
    /// Revoke a scope
    Revoke {
        /// The client's id
        id: String,
        /// The scope
        #[arg(long)]
        scope: String,
    },
}

/// Runs the command.
pub fn run(global: &GlobalArgs, command: ClientCommand) -> Result<(), CliError> {
    let admin = match &command {
        ClientCommand::Create { .. } => AdminClient::connect_or_begin(global)?,
        _ => AdminClient::connect(global)?,
    };
    let result = execute(global, &admin, command);
    admin.close();
    result
}

fn execute(global: &GlobalArgs, admin: &AdminClient, command: ClientCommand) -> Result<(), CliError> {
    match command {
        ClientCommand::Create {
            name,
            scope,
            rate_limit_per_minute,
            rate_limit_per_day,
            organization,
            legal_basis,
            purpose,
        } => {
            // What is not given is sent as null, which is like absent.
            let body = json!({
                "name": name,
                "scopes": scope,
                "rate_limit_per_minute": rate_limit_per_minute,
                "rate_limit_per_day": rate_limit_per_day,
                "organization": organization,
                "legal_basis": legal_basis,
                "purpose": purpose,
            });
            let created = admin.call("POST", "/clients", Payload::Json(&body))?;
            if global.json {
                output::json(&json!({
                    "client_id": created.get("client_id"),
                    "client_secret": created.get("client_secret"),
                    "scopes": created.get("scopes"),
                }));
            } else {
                output::line(format_args!("client_id      {}", output::text_of(&created, "client_id")));
                output::line(format_args!("client_secret  {}", output::text_of(&created, "client_secret")));
                output::line(format_args!("scopes         {}", scopes(&created)));
                output::line("The secret is shown this once: keep it in a safe place.");
            }
        }
        ClientCommand::List => {
            let clients = admin.call("GET", "/clients", Payload::Empty)?;
            if global.json {
                output::json(&clients);
            } else {
                let rows = clients.get("data").and_then(Value::as_array).map(Vec::as_slice).unwrap_or_default();
                let rows: Vec<Vec<String>> = rows
                    .iter()
                    .map(|client| {
                        let text = |name| output::text_of(client, name).to_owned();
                        vec![text("client_id"), text("status"), text("name"), secret_age(client), scopes(client)]
                    })
                    .collect();
                output::table(&["client_id", "status", "name", "secret", "scopes"], &rows);
            }
        }
        ClientCommand::Show { id } => {
            show(global, &admin.call("GET", &format!("/clients/{}", part(&id)), Payload::Empty)?)
        }
        ClientCommand::Disable { id } => {
            show(global, &admin.call("POST", &format!("/clients/{}/disable", part(&id)), Payload::Empty)?);
        }
        ClientCommand::Enable { id } => {
            show(global, &admin.call("POST", &format!("/clients/{}/enable", part(&id)), Payload::Empty)?);
        }
        ClientCommand::RotateSecret { id, overlap } => {
            let body = json!({"overlap_s": overlap});
            let path = format!("/clients/{}/rotate-secret", part(&id));
            let rotated = admin.call("POST", &path, Payload::Json(&body))?;
            if global.json {
                output::json(&json!({
                    "client_id": rotated.get("client_id"),
                    "client_secret": rotated.get("client_secret"),
                    "older_secrets_expire_at": rotated.get("older_secrets_expire_at"),
                }));
                return Ok(());
            }
            output::line(format_args!("client_id      {}", output::text_of(&rotated, "client_id")));
            output::line(format_args!("client_secret  {}", output::text_of(&rotated, "client_secret")));
            output::line(match output::text_of(&rotated, "older_secrets_expire_at") {
                "" => "The older secrets and the tokens got with them are refused from now on.".to_owned(),
                until => format!("The older secrets are good until {until}."),
            });
            output::line("The secret is shown this once: keep it in a safe place.");
        }
        ClientCommand::Set {
            id,
            name,
            organization,
            legal_basis,
            purpose,
            rate_limit_per_minute,
            rate_limit_per_day,
        } => {
            let mut body = Map::new();
            body.extend(name.map(|name| ("name".to_owned(), Value::String(name))));
            for (name, text) in [("organization", organization), ("legal_basis", legal_basis), ("purpose", purpose)] {
                let value = text.map(|text| if text.is_empty() { Value::Null } else { Value::String(text) });
                body.extend(value.map(|value| (name.to_owned(), value)));
            }
            for (name, limit) in
                [("rate_limit_per_minute", rate_limit_per_minute), ("rate_limit_per_day", rate_limit_per_day)]
            {
                let value = limit.map(|limit| if limit == 0 { Value::Null } else { json!(limit) });
                body.extend(value.map(|value| (name.to_owned(), value)));
            }
            if body.is_empty() {
                return Err(CliError::usage(
                    "nothing to change was given; `daftar client set --help` lists what can be",
                ));
            }
            show(
                global,
                &admin.call("PATCH", &format!("/clients/{}", part(&id)), Payload::Json(&Value::Object(body)))?,
            );
        }
        ClientCommand::Grant { id, scope, fields } => {
            let body = json!({"scope": scope, "fields": fields});
            show(global, &admin.call("POST", &format!("/clients/{}/grants", part(&id)), Payload::Json(&body))?);
        }
        ClientCommand::Revoke { id, scope } => {
            let path = format!("/clients/{}/grants/{}", part(&id), part(&scope));
            show(global, &admin.call("DELETE", &path, Payload::Empty)?);
        }
    }
    Ok(())
}

/// A path part, whatever was typed.
pub fn part(text: &str) -> String {
    percent_encoding::utf8_percent_encode(text, percent_encoding::NON_ALPHANUMERIC).to_string()
}

/// The fields of a grant that is restricted, separated by commas.
fn fields_of(client: &Value, scope: &str) -> Option<String> {
    let fields = client.get("fields")?.get(scope)?.as_array()?;
    Some(fields.iter().filter_map(Value::as_str).collect::<Vec<_>>().join(","))
}

/// The scopes of a client, each with its fields in brackets where it does not open all.
fn scopes(client: &Value) -> String {
    let scopes = client.get("scopes").and_then(Value::as_array).map(Vec::as_slice).unwrap_or_default();
    let shown = scopes.iter().filter_map(Value::as_str).map(|scope| match fields_of(client, scope) {
        Some(fields) => format!("{scope}[{fields}]"),
        None => scope.to_owned(),
    });
    shown.collect::<Vec<_>>().join(" ")
}

fn secrets_of(client: &Value) -> &[Value] {
    client.get("secrets").and_then(Value::as_array).map(Vec::as_slice).unwrap_or_default()
}

fn age_days(secret: &Value) -> u64 {
    secret.get("age_days").and_then(Value::as_u64).unwrap_or_default()
}

/// How old the oldest of a client's secrets is that nobody has replaced, and whether that is too old.
fn secret_age(client: &Value) -> String {
    let present = secrets_of(client).iter().filter(|secret| secret.get("expires_at").is_none());
    let Some(oldest) = present.max_by_key(|secret| age_days(secret)) else { return String::new() };
    let warning = if oldest.get("warning").is_some() { ", too old" } else { "" };
    format!("{} d{warning}", age_days(oldest))
}

/// A secret in a line: how old it is, until when it is good, and what to do.
fn secret_line(secret: &Value) -> String {
    let mut line = format!("{} days old, made {}", age_days(secret), output::text_of(secret, "created_at"));
    for (name, before) in [("expires_at", ", good until "), ("warning", "; ")] {
        if let Some(text) = secret.get(name).and_then(Value::as_str) {
            line.push_str(before);
            line.push_str(text);
        }
    }
    line
}

fn show(global: &GlobalArgs, client: &Value) {
    if global.json {
        output::json(client);
        return;
    }
    for (label, value) in [
        ("client_id", output::text_of(client, "client_id").to_owned()),
        ("name", output::text_of(client, "name").to_owned()),
        ("belongs_to", output::text_of(client, "organization").to_owned()),
        ("status", output::text_of(client, "status").to_owned()),
        ("scopes", scopes(client)),
        ("created_at", output::text_of(client, "created_at").to_owned()),
        ("updated_at", output::text_of(client, "updated_at").to_owned()),
    ] {
        output::line(format_args!("{label:<11} {value}"));
    }
    for secret in secrets_of(client) {
        output::line(format_args!("{:<11} {}", "secret", secret_line(secret)));
    }
    for name in ["legal_basis", "purpose"] {
        if let Some(text) = client.get(name).and_then(Value::as_str) {
            output::line(format_args!("{name:<11} {text}"));
        }
    }
    for name in ["rate_limit_per_minute", "rate_limit_per_day"] {
        if let Some(limit) = client.get(name).and_then(Value::as_u64) {
            output::line(format_args!("{name} {limit}"));
        }
    }
}
