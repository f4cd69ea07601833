//! `daftar consent`

use clap::Subcommand;
use serde_json::{Value, json};

use super::admin_client::{AdminClient, Payload};
use super::client::part;
use super::{CliError, GlobalArgs, output};

/// How many consents are asked for at a time.
const PAGE_CONSENTS: usize = 100;

/// What is done with consents.
#[derive(Debug, Subcommand)]
pub enum ConsentCommand {
    /// Write down that somebody consents
    Create {
        /// Who: `Individual/SYSTEM|VALUE` or `Group/SYSTEM|VALUE`
        #[arg(long)]
        subject: String,
        /// To which organization, as its clients name theirs
        #[arg(long, value_name = "ORGANIZATION")]
        grantee: String,
        /// What it opens: `individual`, `group`, `program_membership`; several after one another
        #[arg(long, required = true, num_args = 1..)]
        scope: Vec<String>,
        /// Which fields of these, separated by commas; all of them, where not given
        #[arg(long, value_delimiter = ',', value_name = "a,b")]
        fields: Option<Vec<String>>,
        /// What for
        #[arg(long)]
        purpose: Option<String>,
        /// On what ground, such as `consent` (the default) or `public_task`
        #[arg(long, value_name = "BASIS")]
        legal_basis: Option<String>,
        /// The first day, `YYYY-MM-DD`
        #[arg(long, value_name = "D")]
        effective: String,
        /// The last day, `YYYY-MM-DD`; none, where not given
        #[arg(long, value_name = "D")]
        expires: Option<String>,
    },
    /// List consents
    List {
        /// Only those of this person or group
        #[arg(long)]
        subject: Option<String>,
        /// Only those given to this organization
        #[arg(long, value_name = "ORGANIZATION")]
        grantee: Option<String>,
    },
    /// Show one consent
    Show {
        /// The consent's id
        id: String,
    },
    /// Withdraw a consent, for good
    Withdraw {
        /// The consent's id
        id: String,
        /// Only while it is at this version still, as `meta.version_id` says it
        #[arg(long, value_name = "N")]
        if_version: Option<u64>,
    },
}

/// Runs the command.
pub fn run(global: &GlobalArgs, command: ConsentCommand) -> Result<(), CliError> {
    let admin = AdminClient::connect(global)?;
    let result = execute(global, &admin, command);
    admin.close();
    result
}

fn execute(global: &GlobalArgs, admin: &AdminClient, command: ConsentCommand) -> Result<(), CliError> {
    match command {
        ConsentCommand::Create { subject, grantee, scope, fields, purpose, legal_basis, effective, expires } => {
            // What is not given is sent as null, which is like absent.
            let body = json!({
                "subject": subject,
                "grantee": grantee,
                "scopes": scope,
                "fields": fields,
                "purpose": purpose,
                "legal_basis": legal_basis,
                "effective_date": effective,
                "expiry_date": expires,
            });
            show(global, &admin.call("POST", "/consents", Payload::Json(&body))?);
        }
        ConsentCommand::List { subject, grantee } => list(global, admin, subject, grantee)?,
        ConsentCommand::Show { id } => {
            show(global, &admin.call("GET", &format!("/consents/{}", part(&id)), Payload::Empty)?);
        }
        ConsentCommand::Withdraw { id, if_version } => {
            let version = if_version.map(|version| version.to_string());
            let payload = Payload::Empty.at(version.as_deref());
            show(global, &admin.call("POST", &format!("/consents/{}/withdraw", part(&id)), payload)?);
        }
    }
    Ok(())
}

fn list(
    global: &GlobalArgs,
    admin: &AdminClient,
    subject: Option<String>,
    grantee: Option<String>,
) -> Result<(), CliError> {
    let mut consents = Vec::new();
    loop {
        let mut query = form_urlencoded::Serializer::new(String::new());
        for (name, value) in [("subject", &subject), ("grantee", &grantee)] {
            if let Some(value) = value {
                query.append_pair(name, value);
            }
        }
        query.append_pair("_count", &PAGE_CONSENTS.to_string()).append_pair("_offset", &consents.len().to_string());
        let page = admin.call("GET", &format!("/consents?{}", query.finish()), Payload::Empty)?;
        let found = page.get("data").and_then(Value::as_array).cloned().unwrap_or_default();
        let is_last = found.len() < PAGE_CONSENTS;
        consents.extend(found);
        if is_last {
            break;
        }
    }
    if global.json {
        output::json(&json!({"data": consents}));
        return Ok(());
    }
    let rows: Vec<Vec<String>> = consents
        .iter()
        .map(|consent| {
            let text = |name| output::text_of(consent, name).to_owned();
            vec![
                text("consent_id"),
                text("status"),
                text("subject"),
                text("grantee"),
                dates(consent),
                words(consent, "scopes"),
            ]
        })
        .collect();
    output::table(&["consent_id", "status", "subject", "grantee", "dates", "scopes"], &rows);
    Ok(())
}

fn dates(consent: &Value) -> String {
    format!("{}..{}", output::text_of(consent, "effective_date"), output::text_of(consent, "expiry_date"))
}

fn words(consent: &Value, name: &str) -> String {
    let words = consent.get(name).and_then(Value::as_array).map(Vec::as_slice).unwrap_or_default();
    words.iter().filter_map(Value::as_str).collect::<Vec<_>>().join(", ")
}

fn show(global: &GlobalArgs, consent: &Value) {
    if global.json {
        output::json(consent);
        return;
    }
    let text = |name| output::text_of(consent, name).to_owned();
    for (label, value) in [
        ("consent_id", text("consent_id")),
        ("status", text("status")),
        ("subject", text("subject")),
        ("grantee", text("grantee")),
        ("purpose", text("purpose")),
        ("dates", dates(consent)),
        ("scopes", words(consent, "scopes")),
        ("fields", words(consent, "fields")),
        ("legal_basis", text("legal_basis")),
    ] {
        output::line(format_args!("{label:<11} {value}"));
    }
}
