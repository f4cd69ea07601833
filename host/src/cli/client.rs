//! `daftar client`

use clap::builder::{PossibleValue, PossibleValuesParser};
use clap::{Subcommand, ValueEnum};
use serde_json::json;

use super::admin_client::{AdminClient, Payload, part, read};
use super::{CliError, GlobalArgs, output};
use daftar_api_types::admin::ListBody;
use daftar_api_types::admin::client::{
    ClientBody, ClientChange, Grant, NewClient, NewClientBody, NewGrant, RotatedSecretBody, SecretBody, SecretRotation,
    SigningKeyBody, SigningKeyRotation,
};
use daftar_domain::config::TOKEN_LIFETIME_S_MAX;
use daftar_domain::organization::LegalBasis;
use daftar_service::client::OVERLAP_S_MAX;
use daftar_service::eligibility::evidence::VerificationKey;

/// Note printed after a secret.
const KEEP_SECRET: &str = "The secret is shown this once: keep it in a safe place.";

/// Operations on clients.
#[derive(Debug, Subcommand)]
pub enum ClientCommand {
    /// Register a client; its secret is shown this once
    Create {
        /// Display name
        #[arg(long)]
        name: String,
        /// Scopes, such as `individual:read`, separated by commas or spaces; repeatable
        #[arg(long, num_args = 1.., value_delimiter = ',')]
        scope: Vec<String>,
        /// Requests per minute instead of 60
        #[arg(long, value_name = "N")]
        rate_limit_per_minute: Option<u32>,
        /// Requests per day instead of 10000
        #[arg(long, value_name = "N")]
        rate_limit_per_day: Option<u32>,
        /// The organization that it belongs to, as consents name it
        #[arg(long, value_name = "ORGANIZATION")]
        organization: Option<String>,
        /// Legal basis for processing; with `consent`, the client sees only records covered by a consent to its
        /// organization
        #[arg(long, value_name = "BASIS", value_parser = LegalBasis::NAMES)]
        legal_basis: Option<String>,
        /// With legal basis `consent`: only records whose consent covers this purpose
        #[arg(long, value_name = "PURPOSE")]
        purpose: Option<String>,
    },
    /// List all clients
    List,
    /// Show one client
    Show {
        /// The client's id
        id: String,
    },
    /// Disable a client; its tokens stop working immediately
    Disable {
        /// The client's id
        id: String,
    },
    /// Enable a disabled client
    Enable {
        /// The client's id
        id: String,
    },
    /// Delete a client permanently; its tokens stop working immediately, its id stays in the audit log
    #[command(visible_alias = "remove")]
    Delete {
        /// The client's id
        id: String,
    },
    /// Rotate a client's secret; the new secret is shown this once
    RotateSecret {
        /// The client's id
        id: String,
        /// Overlap in which the older secrets stay valid, such as `24h`, `90m` or `7d`; without it they, and the tokens
        /// that the client holds, are rejected immediately
        #[arg(long, value_name = "TIME", value_parser = overlap_of_secret)]
        overlap: Option<u32>,
    },
    /// Update a client
    #[command(visible_alias = "update")]
    Set {
        /// The client's id
        id: String,
        /// Display name
        #[arg(long)]
        name: Option<String>,
        /// The organization that it belongs to, as consents name it; empty for none
        #[arg(long, value_name = "ORGANIZATION")]
        organization: Option<String>,
        /// Legal basis for processing; empty for none
        #[arg(long, value_name = "BASIS", value_parser = basis_or_none())]
        legal_basis: Option<String>,
        /// With legal basis `consent`: only records whose consent covers this purpose; empty for any purpose
        #[arg(long, value_name = "PURPOSE")]
        purpose: Option<String>,
        /// Requests per minute; 0 for the default
        #[arg(long, value_name = "N")]
        rate_limit_per_minute: Option<u32>,
        /// Requests per day; 0 for the default
        #[arg(long, value_name = "N")]
        rate_limit_per_day: Option<u32>,
    },
    /// Grant a scope; if the client has it already, its fields are replaced
    Grant {
        /// The client's id
        id: String,
        /// The scope
        #[arg(long)]
        scope: String,
        /// Fields that the scope grants access to, such as `name,birth_date,extension.farmer`; all if not given
        #[arg(long, value_delimiter = ',', value_name = "FIELD")]
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
    let begins = matches!(command, ClientCommand::Create { .. });
    AdminClient::connect_or_begin(global, begins)?.run(|admin| execute(global, admin, command))
}

fn execute(global: &GlobalArgs, admin: &AdminClient, command: ClientCommand) -> Result<(), CliError> {
    let path = |id: &str, below: &str| format!("/clients/{}{below}", part(id));
    let client = match command {
        ClientCommand::Create {
            name,
            scope,
            rate_limit_per_minute,
            rate_limit_per_day,
            organization,
            legal_basis,
            purpose,
        } => {
            let scopes = scope.into_iter().map(NewGrant::Scope).collect();
            let new = NewClient {
                name,
                scopes,
                organization,
                legal_basis,
                purpose,
                rate_limit_per_minute,
                rate_limit_per_day,
            };
            return created(global, read(admin.send_json("POST", "/clients", &new)?)?);
        }
        ClientCommand::List => {
            let headings = ["client_id", "status", "name", "secret", "scopes"];
            return output::list(global, admin.get("/clients")?, &headings, |client: &ClientBody| {
                let (id, status, name) = (client.client_id.clone(), client.status.clone(), client.name.clone());
                vec![id, status, name, secret_age(client), scopes(client)]
            });
        }
        ClientCommand::Show { id } => admin.get(&path(&id, ""))?,
        ClientCommand::Disable { id } => admin.call("POST", &path(&id, "/disable"), Payload::default())?,
        ClientCommand::Enable { id } => admin.call("POST", &path(&id, "/enable"), Payload::default())?,
        ClientCommand::Delete { id } => {
            admin.call("DELETE", &path(&id, ""), Payload::default())?;
            output::done(global, &json!({"client_id": id, "deleted": true}), format_args!("deleted {id}"));
            return Ok(());
        }
        ClientCommand::RotateSecret { id, overlap } => {
            let rotation = SecretRotation { overlap_s: overlap };
            return rotated(global, read(admin.send_json("POST", &path(&id, "/rotate-secret"), &rotation)?)?);
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
            let text = |text: Option<String>| text.map(|text| (!text.is_empty()).then_some(text));
            let limit = |limit: Option<u32>| limit.map(|limit| (limit != 0).then_some(limit));
            let change = ClientChange {
                name,
                organization: text(organization),
                legal_basis: text(legal_basis),
                purpose: text(purpose),
                rate_limit_per_minute: limit(rate_limit_per_minute),
                rate_limit_per_day: limit(rate_limit_per_day),
            };
            if change == ClientChange::default() {
                return Err(CliError::usage(
                    "nothing to change was given; `daftar client set --help` lists what can be",
                ));
            }
            admin.send_json("PATCH", &path(&id, ""), &change)?
        }
        ClientCommand::Grant { id, scope, fields } => {
            admin.send_json("POST", &path(&id, "/grants"), &Grant { scope, fields })?
        }
        ClientCommand::Revoke { id, scope } => {
            admin.call("DELETE", &path(&id, &format!("/grants/{}", part(&scope))), Payload::default())?
        }
    };
    output::body(global, client, |client: ClientBody| show(&client))
}

/// Returns the legal bases, and the empty text that removes a legal basis.
fn basis_or_none() -> PossibleValuesParser {
    LegalBasis::NAMES.map(PossibleValue::new).into_iter().chain([PossibleValue::new("").hide(true)]).into()
}

/// Prints a new client with its secret.
fn created(global: &GlobalArgs, NewClientBody { client_secret, client }: NewClientBody) -> Result<(), CliError> {
    let id = &client.client_id;
    let body = json!({"client_id": id, "client_secret": client_secret, "scopes": client.scopes});
    let words = format_args!(
        "client_id      {id}\nclient_secret  {client_secret}\nscopes         {}\n{KEEP_SECRET}",
        scopes(&client)
    );
    output::done(global, &body, words);
    if client.organization.is_none() && client.scopes.iter().any(|scope| scope.starts_with("consent:")) {
        output::note(format_args!(
            "note: a client sees the consents given to its organization, and {id} has none: `daftar client set {id} --organization NAME`"
        ));
    }
    Ok(())
}

/// Prints the new secret of a client.
fn rotated(global: &GlobalArgs, rotated: RotatedSecretBody) -> Result<(), CliError> {
    let RotatedSecretBody { client_secret, older_secrets_expire_at: until, client } = rotated;
    let id = &client.client_id;
    let body = json!({"client_id": id, "client_secret": client_secret, "older_secrets_expire_at": until});
    let older = match &until {
        None => "The older secrets and the tokens got with them are refused from now on.".to_owned(),
        Some(until) => format!("The older secrets are good until {until}."),
    };
    let words = format_args!("client_id      {id}\nclient_secret  {client_secret}\n{older}\n{KEEP_SECRET}");
    output::done(global, &body, words);
    Ok(())
}

/// Returns the scopes of a client, each with its fields in brackets if it is not granted on all fields.
fn scopes(client: &ClientBody) -> String {
    let shown = client.scopes.iter().map(|scope| match client.fields.get(scope) {
        Some(fields) => format!("{scope}[{}]", fields.join(",")),
        None => scope.clone(),
    });
    shown.collect::<Vec<_>>().join(" ")
}

/// Returns the age of the client's oldest secret that is not replaced, and marks a secret that is too old.
fn secret_age(client: &ClientBody) -> String {
    let present = client.secrets.iter().filter(|secret| secret.expires_at.is_none());
    let Some(oldest) = present.max_by_key(|secret| secret.age_days) else { return String::new() };
    let warning = if oldest.warning.is_some() { ", too old" } else { "" };
    format!("{} d{warning}", oldest.age_days)
}

/// Returns a secret's age, creation time, expiry and warning on one line.
fn secret_line(secret: &SecretBody) -> String {
    let mut line = format!("{} days old, made {}", secret.age_days, secret.created_at);
    for (text, before) in [(&secret.expires_at, ", good until "), (&secret.warning, "; ")] {
        if let Some(text) = text {
            line.push_str(before);
            line.push_str(text);
        }
    }
    line
}

fn show(client: &ClientBody) {
    let rows = [
        ("client_id", client.client_id.as_str()),
        ("name", &client.name),
        ("belongs_to", client.organization.as_deref().unwrap_or_default()),
        ("status", &client.status),
        ("scopes", &scopes(client)),
        ("created_at", &client.created_at),
        ("updated_at", &client.updated_at),
    ];
    output::labelled(11, rows);
    output::labelled(11, client.secrets.iter().map(|secret| ("secret", secret_line(secret))));
    let bases = [("legal_basis", &client.legal_basis), ("purpose", &client.purpose)];
    output::labelled(11, bases.into_iter().filter_map(|(name, text)| Some((name, text.as_ref()?))));
    for (name, own, effective) in [
        ("rate_limit_per_minute", client.rate_limit_per_minute, client.effective_rate_limit_per_minute),
        ("rate_limit_per_day", client.rate_limit_per_day, client.effective_rate_limit_per_day),
    ] {
        let default = if own.is_none() { " (default)" } else { "" };
        output::line(format_args!("{name} {effective}{default}"));
    }
}

/// Parses a number with a unit, `s`, `m`, `h` or `d`; returns the seconds during which an old secret stays valid.
///
/// # Errors
/// The solution, in one sentence.
fn overlap_of_secret(text: &str) -> Result<u32, String> {
    overlap_up_to(text, OVERLAP_S_MAX)
}

/// Parses the same duration for a key that signs tokens.
///
/// # Errors
/// As [`overlap_of_secret`].
fn overlap_of_key(text: &str) -> Result<u32, String> {
    overlap_up_to(text, u32::try_from(TOKEN_LIFETIME_S_MAX).unwrap_or(u32::MAX))
}

fn overlap_up_to(text: &str, seconds_max: u32) -> Result<u32, String> {
    let wrong = || {
        let days = seconds_max / 86_400;
        format!("it is a number with its unit, such as `24h`, `90m`, `3600s` or `7d`, and at most `{days}d`")
    };
    let digits = text.trim_end_matches(|letter: char| letter.is_ascii_alphabetic());
    let unit_s: u32 = match text.strip_prefix(digits) {
        Some("s") => 1,
        Some("m") => 60,
        Some("h") => 3_600,
        Some("d") => 86_400,
        Some(_) | None => return Err(wrong()),
    };
    if !digits.bytes().all(|byte| byte.is_ascii_digit()) {
        return Err(wrong());
    }
    let seconds = digits.parse::<u32>().ok().and_then(|number| number.checked_mul(unit_s));
    seconds.filter(|seconds| *seconds <= seconds_max).ok_or_else(wrong)
}

/// Purpose of a key.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum KeyUse {
    /// Access tokens
    Tokens,
    /// Decisions of rules
    Decisions,
}

/// Operations on the keys that sign tokens and seal decisions.
#[derive(Debug, Subcommand)]
pub enum KeyCommand {
    /// Rotate a signing key. Existing tokens and decisions stay valid
    Rotate {
        /// Purpose of the key: keys for decisions stay accepted after rotation, keys for tokens until their tokens
        /// expire
        #[arg(long = "use", value_name = "USE", value_enum, default_value = "tokens")]
        usage: KeyUse,
        /// Time for which tokens of the old key are accepted, such as `48h` or `7d`; at least the token lifetime, which
        /// is the default
        #[arg(long, value_name = "TIME", value_parser = overlap_of_key)]
        overlap: Option<u32>,
    },
    /// List the keys whose tokens and decisions are accepted
    List,
    /// Print the public keys that verify evidence bundles, as a JSON Web Key Set for `daftar replay --key`
    Export,
}

/// Runs the command.
pub fn run_keys(global: &GlobalArgs, command: KeyCommand) -> Result<(), CliError> {
    let is_export = matches!(command, KeyCommand::Export);
    let keys = AdminClient::connect(global)?.run(|admin| match command {
        KeyCommand::Rotate { usage, overlap } => {
            let usage = match usage {
                KeyUse::Tokens => "tokens",
                KeyUse::Decisions => "decisions",
            };
            let rotation = SigningKeyRotation { r#use: Some(usage.to_owned()), overlap_s: overlap };
            admin.send_json("POST", "/signing-keys", &rotation)
        }
        KeyCommand::List | KeyCommand::Export => admin.get("/signing-keys"),
    })?;
    if is_export {
        let keys: ListBody<SigningKeyBody> = read(keys)?;
        let public = keys.data.into_iter().filter_map(|key| Some(VerificationKey::new(key.kid, key.public_key?)));
        output::json(&json!({"keys": public.collect::<Vec<_>>()}));
        return Ok(());
    }
    output::list_of_members(global, keys, &["kid", "use", "status", "created_at", "accepted_until"], output::text_at)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reads_a_number_with_its_unit() {
        for (text, seconds) in [("24h", 86_400), ("90m", 5_400), ("0s", 0), ("30d", 2_592_000), ("720h", 2_592_000)] {
            assert_eq!(overlap_of_secret(text), Ok(seconds), "{text}");
        }
        for wrong in ["", "24", "h", "-1h", "+1h", "1 h", "1w", "31d", "721h", "1.5h", "99999999999s", "1hh"] {
            assert!(overlap_of_secret(wrong).unwrap_err().contains("24h"), "{wrong}");
        }
        assert_eq!(overlap_of_key("31d"), Ok(2_678_400));
        assert!(overlap_of_key("32d").unwrap_err().contains("at most `31d`"));
    }
}
