//! `daftar rule-draft`

use clap::Subcommand;
use serde_json::{Value, json};

use super::admin_client::{AdminClient, part};
use super::{CliError, GlobalArgs, output};

/// Operations on rule drafts.
#[derive(Debug, Subcommand)]
pub enum RuleDraftCommand {
    /// List rule drafts, newest first
    List {
        /// Only those for this program
        #[arg(long)]
        program: Option<String>,
        /// Only those that this client created
        #[arg(long, value_name = "CLIENT")]
        author: Option<String>,
        /// Only those with this status
        #[arg(long, value_parser = ["open", "accepted", "rejected"])]
        status: Option<String>,
        /// Only those whose name contains this text
        #[arg(long)]
        name: Option<String>,
    },
    /// Show one rule draft
    Show {
        /// The draft's id
        id: String,
    },
    /// Write the rule of a draft to its program
    Accept {
        /// The draft's id
        id: String,
        /// The version that you have read; a draft that has changed since is not accepted
        #[arg(long, value_name = "N")]
        if_version: u64,
    },
    /// Reject a draft
    Reject {
        /// The draft's id
        id: String,
        /// The version that you have read; a draft that has changed since is not rejected
        #[arg(long, value_name = "N")]
        if_version: u64,
        /// The reason, which the author reads
        #[arg(long, value_name = "TEXT")]
        reason: String,
    },
}

/// Runs the command.
///
/// # Errors
/// The response's `detail` when the server rejects it, or the connection error.
pub fn run(global: &GlobalArgs, command: RuleDraftCommand) -> Result<(), CliError> {
    AdminClient::connect(global)?.run(|admin| execute(global, admin, command))
}

fn execute(global: &GlobalArgs, admin: &AdminClient, command: RuleDraftCommand) -> Result<(), CliError> {
    let draft = match command {
        RuleDraftCommand::List { program, author, status, name } => {
            let parameters = [("program", &program), ("author", &author), ("status", &status), ("name", &name)];
            let parameters = parameters.map(|(name, value)| (name, value.as_deref()));
            let headings = ["id", "version", "status", "name", "program", "author.client", "last_updated"];
            let drafts = admin.records("/rule-drafts", &parameters)?;
            return output::list_of_members(global, drafts, &headings, output::text_at);
        }
        RuleDraftCommand::Show { id } => admin.get(&format!("/rule-drafts/{}", part(&id)))?,
        RuleDraftCommand::Accept { id, if_version } => {
            let body = json!({"version": if_version});
            admin.send_json("POST", &format!("/rule-drafts/{}/accept", part(&id)), &body)?
        }
        RuleDraftCommand::Reject { id, if_version, reason } => {
            let body = json!({"version": if_version, "reason": reason});
            admin.send_json("POST", &format!("/rule-drafts/{}/reject", part(&id)), &body)?
        }
    };
    output::body(global, draft, |draft: Value| {
        output::labelled(19, MEMBERS.map(|name| (name, output::text_at(&draft, name))));
    })
}

/// The printed members of a draft.
const MEMBERS: [&str; 14] = [
    "id",
    "version",
    "status",
    "reason",
    "name",
    "subject",
    "program",
    "engine",
    "comment",
    "as_of",
    "author.client",
    "author.organization",
    "last_updated",
    "expression",
];
