//! `daftar code`, `daftar concept-group` and `daftar identifier-system`: codes, concept groups and identifier systems
//! of a deployment.

use std::collections::BTreeMap;

use clap::{Args, Subcommand};
use serde_json::json;

use super::admin_client::{AdminClient, Payload, part};
use super::{CliError, GlobalArgs, output};
use daftar_api_types::admin::deployment::{
    ConceptGroupBody, IdentifierSystemBody, LocalCodeBody, LocalCodeChange, LocalCodeDeprecation, NewConceptGroup,
    NewIdentifierSystem, NewLocalCode, Selection,
};

/// The keyed lists of a deployment.
#[derive(Debug, Subcommand)]
pub enum DeploymentCommand {
    /// Add and deprecate codes of this deployment's own
    #[command(subcommand)]
    Code(CodeCommand),
    /// Manage concept groups (named sets of codes used in rules)
    #[command(subcommand)]
    ConceptGroup(ConceptGroupCommand),
    /// Manage identifier systems
    #[command(subcommand)]
    IdentifierSystem(IdentifierSystemCommand),
}

/// Operations on local codes.
#[derive(Debug, Subcommand)]
pub enum CodeCommand {
    /// Add a local code to ID types, ethnocultural status or pregnancy status; effective immediately
    #[command(visible_alias = "create")]
    Add {
        /// The code, written `<namespace>#<code>`
        code: String,
        /// The code of the same vocabulary that it is a kind of; it counts wherever that one does
        #[arg(long, value_name = "CODE")]
        specialises: Option<String>,
        #[command(flatten)]
        message: CodeArgs,
    },
    /// Change the labels or the value pattern of a local code
    #[command(visible_alias = "update")]
    Set {
        /// The code, written `<namespace>#<code>`
        code: String,
        #[command(flatten)]
        message: CodeArgs,
        /// Remove the pattern: any value is accepted
        #[arg(long, conflicts_with = "pattern")]
        no_pattern: bool,
        /// Remove the reference
        #[arg(long, conflicts_with = "reference")]
        no_reference: bool,
    },
    /// Deprecate a local or starter code: rejected in new records, valid in existing ones
    Deprecate {
        /// The code, written `<namespace>#<code>`
        code: String,
        /// The code to use in its place
        #[arg(long, value_name = "CODE")]
        replaced_by: Option<String>,
    },
    /// List all local codes
    List,
    /// Show one local code
    Show {
        /// The code, written `<namespace>#<code>`
        code: String,
    },
}

/// Properties of a local code.
#[derive(Debug, Args)]
pub struct CodeArgs {
    /// Its name, as `<language>=<label>`; may be repeated
    #[arg(long = "label", value_name = "LANGUAGE=LABEL")]
    labels: Vec<String>,
    /// URI of a page about it
    #[arg(long, value_name = "URI")]
    reference: Option<String>,
    /// For an ID type: a regular expression that whole values have to match
    #[arg(long, value_name = "REGEX", requires = "pattern_description")]
    pattern: Option<String>,
    /// The same in words, which a client reads when a value is wrong
    #[arg(long, value_name = "TEXT", requires = "pattern")]
    pattern_description: Option<String>,
    /// For an ID type: the records that carry it
    #[arg(long, value_parser = ["individual", "group", "both"])]
    target: Option<String>,
}

/// Operations on concept groups.
#[derive(Debug, Subcommand)]
pub enum ConceptGroupCommand {
    /// Define a concept group for this deployment, in place of any pack's definition; effective immediately
    #[command(visible_alias = "update")]
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
        /// Its content, in one sentence
        #[arg(long)]
        description: Option<String>,
        /// Take the deployment's definition back: the pack's counts again
        #[arg(long, conflicts_with_all = ["code", "descendants_of", "except", "description"])]
        reset: bool,
    },
    /// List all concept groups and who defines them
    List,
    /// Show one concept group
    Show {
        /// The group's name
        name: String,
    },
}

/// Operations on identifier systems.
#[derive(Debug, Subcommand)]
pub enum IdentifierSystemCommand {
    /// Register a system that identifiers may be of, beside the codes of the ID types; effective immediately
    #[command(visible_alias = "create")]
    Add {
        /// Its URI, such as `https://example.org/farmer-id`
        uri: String,
    },
    /// List every system that new identifiers may be of
    List,
    /// Take a system out: no new identifiers may be of it, and those of records stay
    #[command(visible_alias = "delete")]
    Remove {
        /// Its URI
        uri: String,
    },
}

/// Runs the command. Commands that add or set create a missing register.
pub fn run(global: &GlobalArgs, command: DeploymentCommand) -> Result<(), CliError> {
    let begins = matches!(
        command,
        DeploymentCommand::Code(CodeCommand::Add { .. })
            | DeploymentCommand::ConceptGroup(ConceptGroupCommand::Set { .. })
            | DeploymentCommand::IdentifierSystem(IdentifierSystemCommand::Add { .. })
    );
    AdminClient::connect_or_begin(global, begins)?.run(|admin| match command {
        DeploymentCommand::Code(command) => code(global, admin, command),
        DeploymentCommand::ConceptGroup(command) => concept_group(global, admin, command),
        DeploymentCommand::IdentifierSystem(command) => identifier_system(global, admin, command),
    })
}

fn code(global: &GlobalArgs, admin: &AdminClient, command: CodeCommand) -> Result<(), CliError> {
    let path = |code: &str, below: &str| format!("/local-codes/{}{below}", part(code));
    let (done, body) = match command {
        CodeCommand::Add { code, specialises, message } => {
            let new = NewLocalCode { code, specialises, details: message.body()? };
            ("added", admin.send_json("POST", "/local-codes", &new)?)
        }
        CodeCommand::Set { code, message, no_pattern, no_reference } => {
            let mut change = message.body()?;
            if no_pattern {
                change.value_pattern = Some(None);
            }
            if no_reference {
                change.reference = Some(None);
            }
            ("changed", admin.send_json("PATCH", &path(&code, ""), &change)?)
        }
        CodeCommand::Deprecate { code, replaced_by } => {
            let body = LocalCodeDeprecation { replaced_by };
            ("deprecated", admin.send_json("POST", &path(&code, "/deprecate"), &body)?)
        }
        CodeCommand::Show { code } => {
            output::whole(global, &admin.get(&path(&code, ""))?);
            return Ok(());
        }
        CodeCommand::List => {
            let headings = ["code", "status", "replaced by", "label", "records"];
            return output::list(global, admin.get("/local-codes")?, &headings, |code: &LocalCodeBody| {
                let label = code.labels.get("en").or(code.labels.values().next()).cloned().unwrap_or_default();
                let records = code.records.map(|count| count.to_string()).unwrap_or_default();
                let replaced_by = code.replaced_by.clone().unwrap_or_default();
                vec![code.uri.clone(), code.status.clone(), replaced_by, label, records]
            });
        }
    };
    output::body(global, body, |code: LocalCodeBody| {
        let held = code.records.map(|count| format!(" ({count} records hold it)")).unwrap_or_default();
        output::line(format_args!("{done} {}{held}", code.uri));
    })
}

impl CodeArgs {
    fn body(self) -> Result<LocalCodeChange, CliError> {
        let mut labels = BTreeMap::new();
        for label in &self.labels {
            let Some((language, text)) = label.split_once('=') else {
                return Err(CliError::usage(format!("`{label}` is no label: write it as `en=Farmer ID`")));
            };
            if labels.insert(language.to_owned(), text.to_owned()).is_some() {
                return Err(CliError::usage(format!("there are two labels in the language `{language}`")));
            }
        }
        Ok(LocalCodeChange {
            labels: (!labels.is_empty()).then_some(labels),
            reference: self.reference.map(Some),
            value_pattern: self.pattern.map(Some),
            value_pattern_description: self.pattern_description,
            target_type: self.target,
        })
    }
}

fn concept_group(global: &GlobalArgs, admin: &AdminClient, command: ConceptGroupCommand) -> Result<(), CliError> {
    let path = |name: &str| format!("/concept-groups/{}", part(name));
    match command {
        ConceptGroupCommand::Set { name, reset: true, .. } => {
            let body = admin.call("DELETE", &path(&name), Payload::default())?;
            output::body(global, body, |group: Option<ConceptGroupBody>| {
                let plugin = group.and_then(|group| group.plugin);
                let by = plugin.map_or_else(|| "none".to_owned(), |plugin| format!("`{plugin}`"));
                output::line(format_args!("reset {name}; it is now defined by {by}"));
            })
        }
        ConceptGroupCommand::Set { name, code, descendants_of, except, description, reset: false } => {
            let below = |codes: Vec<String>| codes.into_iter().map(Selection::DescendantsOf);
            let includes = code.into_iter().map(Selection::Code).chain(below(descendants_of)).collect();
            let new = NewConceptGroup { description, includes, excludes: below(except).collect() };
            output::body(global, admin.send_json("PUT", &path(&name), &new)?, |group: ConceptGroupBody| {
                output::line(format_args!("set {name}: {} codes", group.members));
            })
        }
        ConceptGroupCommand::Show { name } => {
            output::whole(global, &admin.get(&path(&name))?);
            Ok(())
        }
        ConceptGroupCommand::List => {
            let headings = ["name", "defined by", "codes", "description"];
            output::list(global, admin.get("/concept-groups")?, &headings, |group: &ConceptGroupBody| {
                let codes = if group.is_set { group.members.to_string() } else { "not set".to_owned() };
                let by = group.plugin.as_ref().unwrap_or(&group.defined_by);
                vec![group.name.clone(), by.clone(), codes, group.description.clone()]
            })
        }
    }
}

fn identifier_system(
    global: &GlobalArgs,
    admin: &AdminClient,
    command: IdentifierSystemCommand,
) -> Result<(), CliError> {
    match command {
        IdentifierSystemCommand::Add { uri } => {
            let body = admin.send_json("POST", "/identifier-systems", &NewIdentifierSystem { uri })?;
            output::body(global, body, |system: IdentifierSystemBody| {
                output::line(format_args!("added {}", system.uri));
            })
        }
        IdentifierSystemCommand::Remove { uri } => {
            admin.call("DELETE", &format!("/identifier-systems/{}", part(&uri)), Payload::default())?;
            let words = format_args!("removed {uri}: no new identifiers of it; those that records carry stay");
            output::done(global, &json!({"uri": uri, "removed": true}), words);
            Ok(())
        }
        IdentifierSystemCommand::List => {
            output::list_of_members(global, admin.get("/identifier-systems")?, &["uri", "origin"], output::text_at)
        }
    }
}
