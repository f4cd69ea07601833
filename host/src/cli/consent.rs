//! `daftar consent`

use clap::Subcommand;
use serde::Deserialize;
use serde_json::json;

use super::admin_client::{AdminClient, Payload, part};
use super::{CliError, GlobalArgs, output};

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

/// The members of a consent that are shown.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct Consent {
    consent_id: String,
    status: String,
    subject: String,
    grantee: String,
    purpose: Option<String>,
    effective_date: Option<String>,
    expiry_date: Option<String>,
    scopes: Vec<String>,
    fields: Option<Vec<String>>,
    legal_basis: Option<String>,
}

/// Runs the command.
pub fn run(global: &GlobalArgs, command: ConsentCommand) -> Result<(), CliError> {
    AdminClient::connect(global)?.run(|admin| execute(global, admin, command))
}

fn execute(global: &GlobalArgs, admin: &AdminClient, command: ConsentCommand) -> Result<(), CliError> {
    let consent = match command {
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
            admin.send_json("POST", "/consents", &body)?
        }
        ConsentCommand::List { subject, grantee } => {
            let parameters = [("subject", subject.as_deref()), ("grantee", grantee.as_deref())];
            let headings = ["consent_id", "status", "subject", "grantee", "dates", "scopes"];
            return output::list(global, admin.records("/consents", &parameters)?, &headings, |consent: &Consent| {
                let Consent { consent_id, status, subject, grantee, scopes, .. } = consent;
                let texts = [consent_id, status, subject, grantee, &consent.dates(), &scopes.join(", ")];
                Vec::from(texts.map(String::clone))
            });
        }
        ConsentCommand::Show { id } => admin.get(&format!("/consents/{}", part(&id)))?,
        ConsentCommand::Withdraw { id, if_version } => {
            let payload = Payload::Empty.at(if_version.map(|version| version.to_string()));
            admin.call("POST", &format!("/consents/{}/withdraw", part(&id)), payload)?
        }
    };
    output::body(global, consent, |consent: Consent| consent.print())
}

impl Consent {
    fn dates(&self) -> String {
        let day = |day: &Option<String>| day.clone().unwrap_or_default();
        format!("{}..{}", day(&self.effective_date), day(&self.expiry_date))
    }

    fn print(&self) {
        let rows = [
            ("consent_id", self.consent_id.as_str()),
            ("status", &self.status),
            ("subject", &self.subject),
            ("grantee", &self.grantee),
            ("purpose", self.purpose.as_deref().unwrap_or_default()),
            ("dates", &self.dates()),
            ("scopes", &self.scopes.join(", ")),
            ("fields", &self.fields.as_deref().unwrap_or_default().join(", ")),
            ("legal_basis", self.legal_basis.as_deref().unwrap_or_default()),
        ];
        output::labelled(11, rows);
    }
}
