//! `daftar migrate`

use clap::{Args, ValueEnum};
use serde_json::json;

use super::backup::Progress;
use super::error::ErrorKind;
use super::{CliError, GlobalArgs, output};
use crate::app::migrate::{End, Extent, MigrateError, Migrated, Step, migrate};
use crate::config::Config;

/// Where a register is kept.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Backend {
    /// In the data folder
    Sled,
    /// In the database of the settings `[store.postgres]`
    Postgres,
}

/// From where to where.
#[derive(Debug, Args)]
pub struct MigrateArgs {
    /// Where the register is now
    #[arg(long, value_enum)]
    from: Backend,
    /// Where it goes: there must be none yet
    #[arg(long, value_enum)]
    to: Backend,
    /// Copy nothing: compare the two registers that are there
    #[arg(long)]
    compare: bool,
}

/// Runs the command.
pub fn run(global: &GlobalArgs, args: &MigrateArgs) -> Result<(), CliError> {
    if global.admin_url.is_some() {
        return Err(CliError::usage(
            "a register is moved while no server uses it: stop the server, and name its data folder with --data-dir, on its own machine",
        ));
    }
    if args.from == args.to {
        return Err(CliError::usage(
            "a register is moved from one backend into another: `--from` and `--to` are the same",
        ));
    }
    let config = match &global.config {
        Some(path) => Config::load(path)?,
        None => Config::default(),
    };
    let extent = if args.compare { Extent::CompareOnly } else { Extent::CopyAndCompare };
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build().map_err(CliError::failed)?;
    let mut copying = Progress::new(global.json, "copied");
    let mut comparing = Progress::new(global.json, "compared");
    let heard = |step: Step, about: u64, things: u64| match step {
        Step::Copying => copying.at_about(about, things),
        Step::Comparing => comparing.at_about(about, things),
    };
    let ends = (args.from.end(), args.to.end());
    let migrated = runtime.block_on(migrate(&config, &global.data_dir, ends, extent, heard));
    let migrated = migrated.map_err(|error| CliError { kind: ErrorKind::from(&error), message: error.to_string() })?;
    drop((copying, comparing));
    tell(global, &migrated);
    let differences = migrated.comparison.differences;
    if differences == 0 {
        return Ok(());
    }
    Err(CliError::failed(format!(
        "the two registers are not the same: {differences} differences; do not serve from the new one"
    )))
}

impl Backend {
    fn end(self) -> End {
        match self {
            Self::Sled => End::Sled,
            Self::Postgres => End::Postgres,
        }
    }
}

fn tell(global: &GlobalArgs, migrated: &Migrated) {
    let Migrated { copied, comparison } = migrated;
    let named = |counts: &crate::service::migrate::Counts| -> serde_json::Map<String, serde_json::Value> {
        counts.iter().map(|(kept, count)| (kept.name().to_owned(), json!(count))).collect()
    };
    if global.json {
        output::json(&json!({
            "sequence": copied.as_ref().map(|(mark, _)| mark.sequence.0),
            "copied": copied.as_ref().map(|(_, counts)| named(counts)),
            "same": named(&comparison.same),
            "differences": comparison.differences,
            "told": comparison.told,
        }));
        return;
    }
    if let Some((mark, counts)) = copied {
        output::line(format_args!("copied the register as of write {}", mark.sequence.0));
        for (kept, count) in counts {
            output::line(format_args!("  {count} {}", kept.name()));
        }
    }
    let same: u64 = comparison.same.values().sum();
    output::line(format_args!("compared both: {same} things are the same, {} are not", comparison.differences));
    for told in &comparison.told {
        output::line(format_args!("  {told}"));
    }
}

impl From<&MigrateError> for ErrorKind {
    fn from(error: &MigrateError) -> Self {
        match error {
            MigrateError::Open(_)
            | MigrateError::Folder(_)
            | MigrateError::Database(_)
            | MigrateError::Store { .. } => Self::Failed,
        }
    }
}
