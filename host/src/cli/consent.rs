//! `daftar consent`

use clap::Subcommand;
use serde_json::{Value, json};

use super::admin_client::{AdminClient, Payload, part};
use super::{CliError, GlobalArgs, output};
use daftar_domain::organization::LegalBasis;

/// Operations on consents.
#[derive(Debug, Subcommand)]
pub enum ConsentCommand {
    /// Record a consent
    Create {
        /// Subject: `Individual/SYSTEM|VALUE` or `Group/SYSTEM|VALUE`
        #[arg(long)]
        subject: String,
        /// Recipient organization, as named by its clients
        #[arg(long, value_name = "ORGANIZATION")]
        grantee: String,
        /// Record types to grant access to, separated by commas or spaces; repeatable
        #[arg(long, required = true, num_args = 1.., value_delimiter = ',', value_parser = ["individual", "group", "program_membership"])]
        scope: Vec<String>,
        /// Fields to grant access to, separated by commas; all if not given
        #[arg(long, value_delimiter = ',', value_name = "FIELD")]
        fields: Option<Vec<String>>,
        /// Purpose
        #[arg(long)]
        purpose: Option<String>,
        /// Legal basis; `consent` if not given
        #[arg(long, value_name = "BASIS", value_parser = LegalBasis::NAMES)]
        legal_basis: Option<String>,
        /// The first day, `YYYY-MM-DD`
        #[arg(long, value_name = "DATE")]
        effective: String,
        /// The last day, `YYYY-MM-DD`; without it the consent does not end
        #[arg(long, value_name = "DATE")]
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
    /// Withdraw a consent permanently
    Withdraw {
        /// The consent's id
        id: String,
        /// Only if this is the current version (`meta.version_id`)
        #[arg(long, value_name = "N")]
        if_version: Option<u64>,
    },
}

/// Runs the command.
pub fn run(global: &GlobalArgs, command: ConsentCommand) -> Result<(), CliError> {
    AdminClient::connect(global)?.run(|admin| execute(global, admin, command))
}

fn execute(global: &GlobalArgs, admin: &AdminClient, command: ConsentCommand) -> Result<(), CliError> {
    let consent = match command {
        ConsentCommand::Create { subject, grantee, scope, fields, purpose, legal_basis, effective, expires } => {
            // Absent values are sent as null, which equals absent.
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
            admin.send_json("POST", "/consents", &body)?
        }
        ConsentCommand::List { subject, grantee } => {
            let parameters = [("subject", subject.as_deref()), ("grantee", grantee.as_deref())];
            let headings = ["consent_id", "status", "subject", "grantee", "dates", "scopes"];
            return output::list_of_members(global, admin.records("/consents", &parameters)?, &headings, text);
        }
        ConsentCommand::Show { id } => admin.get(&format!("/consents/{}", part(&id)))?,
        ConsentCommand::Withdraw { id, if_version } => {
            let payload = Payload::default().at(if_version.map(|version| version.to_string()));
            admin.call("POST", &format!("/consents/{}/withdraw", part(&id)), payload)?
        }
    };
    output::body(global, consent, |consent: Value| {
        output::labelled(11, MEMBERS.map(|name| (name, text(&consent, name))));
    })
}

/// The printed members of a consent.
const MEMBERS: [&str; 9] =
    ["consent_id", "status", "subject", "grantee", "purpose", "dates", "scopes", "fields", "legal_basis"];

fn text(consent: &Value, name: &'static str) -> String {
    match name {
        "dates" => output::days(consent, "effective_date", "expiry_date"),
        plain => output::text_at(consent, plain),
    }
}
