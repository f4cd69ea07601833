//! `daftar program update`

use clap::Args;
use serde_json::{Map, Value, json};

use super::{Identifier, MoreArgs, Program, patch, read_identifier, show};
use crate::cli::CliError;
use crate::cli::admin_client::{AdminClient, read};

/// What is changed of a program.
#[derive(Debug, Args)]
pub struct UpdateArgs {
    /// One of its identifiers: `SYSTEM|VALUE`
    id: String,
    /// What it is called
    #[arg(long)]
    name: Option<String>,
    /// Whether it is in use
    #[arg(long, value_name = "true|false")]
    active: Option<bool>,
    /// Whether nobody is enrolled against the expression's word
    #[arg(long, value_name = "true|false", conflicts_with = "enforce_eligibility")]
    enforce: Option<bool>,
    /// Take the expression out
    #[arg(long, conflicts_with = "eligibility")]
    no_eligibility: bool,
    /// Take the description out
    #[arg(long, conflicts_with = "description")]
    no_description: bool,
    /// Take the kind of program out
    #[arg(long, conflicts_with = "program_type")]
    no_program_type: bool,
    /// Take the first day out
    #[arg(long, conflicts_with = "start")]
    no_start: bool,
    /// Take the last day out: the program goes on
    #[arg(long, conflicts_with = "end")]
    no_end: bool,
    /// Take both days out
    #[arg(long, conflicts_with_all = ["start", "end", "no_start", "no_end"])]
    no_period: bool,
    /// Add an identifier: `SYSTEM|VALUE`; several after one another
    #[arg(long, num_args = 1.., value_name = "SYSTEM|VALUE")]
    add_identifier: Vec<String>,
    /// End an identifier: `SYSTEM|VALUE`; several after one another
    #[arg(long, num_args = 1.., value_name = "SYSTEM|VALUE", requires = "ended_on")]
    end_identifier: Vec<String>,
    /// The last day of the identifiers that are ended, `YYYY-MM-DD`, today at the latest
    #[arg(long, value_name = "D", requires = "end_identifier")]
    ended_on: Option<String>,
    /// Only while it is at this version still, as `meta.version_id` says it
    #[arg(long, value_name = "N")]
    if_version: Option<u64>,
    #[command(flatten)]
    more: MoreArgs,
}

/// Changes what is given; returns the program.
pub(super) fn update(admin: &AdminClient, args: UpdateArgs) -> Result<Value, CliError> {
    let UpdateArgs { id, add_identifier, end_identifier, ended_on, if_version, .. } = &args;
    let (id, mut version) = (id.clone(), if_version.map(|version| version.to_string()));
    let identifiers = if add_identifier.is_empty() && end_identifier.is_empty() {
        None
    } else {
        // A patch replaces the whole list, so it has to be of the version that was read.
        let program: Program = read(show(admin, &id)?)?;
        version = version.or(program.meta.version_id);
        Some(identifiers(program.identifier, add_identifier, end_identifier, ended_on.as_deref())?)
    };
    let body = args.members(identifiers);
    if body.is_empty() {
        return Err(CliError::usage("nothing to change was given; `daftar program update --help` lists what can be"));
    }
    patch(admin, &id, &body, version)
}

impl UpdateArgs {
    /// The members of a patch, `null` for what is taken out.
    fn members(self, identifiers: Option<Vec<Identifier>>) -> Map<String, Value> {
        let mut body = self.more.members();
        body.extend(identifiers.map(|identifiers| ("identifier".to_owned(), json!(identifiers))));
        body.extend(self.name.map(|name| ("name".to_owned(), Value::String(name))));
        body.extend(self.active.map(|active| ("active".to_owned(), Value::Bool(active))));
        body.extend(self.enforce.map(|enforce| ("enforce_eligibility".to_owned(), Value::Bool(enforce))));
        let taken_out = [
            ("eligibility", self.no_eligibility),
            ("description", self.no_description),
            ("program_type", self.no_program_type),
            ("period", self.no_period),
        ];
        for (name, _) in taken_out.iter().filter(|(_, is_taken_out)| *is_taken_out) {
            body.insert((*name).to_owned(), Value::Null);
        }
        for (day, _) in [("start", self.no_start), ("end", self.no_end)].iter().filter(|(_, is_open)| *is_open) {
            let period = body.entry("period").or_insert_with(|| json!({}));
            if let Value::Object(period) = period {
                period.insert((*day).to_owned(), Value::Null);
            }
        }
        body
    }
}

/// The identifiers of a program with some added and some ended.
fn identifiers(
    mut all: Vec<Identifier>,
    added: &[String],
    ended: &[String],
    last_day: Option<&str>,
) -> Result<Vec<Identifier>, CliError> {
    for text in ended {
        let Identifier { system, value, .. } = read_identifier(text)?;
        let Some(found) = all.iter_mut().find(|one| one.system == system && one.value == value) else {
            return Err(CliError::failed(format!("the program has no identifier `{text}`")));
        };
        found.period.get_or_insert_default().end = last_day.map(str::to_owned);
    }
    for text in added {
        all.push(read_identifier(text)?);
    }
    Ok(all)
}
