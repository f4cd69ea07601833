//! `daftar migrate`

use std::path::{Path, PathBuf};

use clap::{Args, ValueEnum};
use serde_json::{Value, json};

use super::backup::{Progress, config_of, open, print_authenticity, trust_of};
use super::error::ErrorKind;
use super::{CliError, GlobalArgs, output};
use crate::app::migrate::{End, Extent, MigrateError, Migrated, Step, migrate};
use daftar_domain::config::Config;
use daftar_service::migrate::Counts;

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
    /// Where it goes: there must be none yet, unless it is caught up or compared
    #[arg(long, value_enum)]
    to: Backend,
    /// Fill the database from this backup, while the server that it was made of goes on
    #[arg(long, value_name = "FILE")]
    backup: Option<PathBuf>,
    /// With --backup: refuse one that this public key did not sign; `ed25519:…`, or a file with that line or a PEM
    #[arg(long, value_name = "KEY", requires = "backup")]
    trusted_key: Option<String>,
    /// Bring what was written to the folder since the database was filled from it; its server is stopped
    #[arg(long)]
    catch_up: bool,
    /// Copy nothing: compare the two registers that are there, whole
    #[arg(long)]
    compare: bool,
}

impl MigrateArgs {
    /// What is to be done.
    fn extent(&self) -> Result<Extent, CliError> {
        if self.from == self.to {
            return Err(CliError::usage(
                "a register is moved from one backend into another: `--from` and `--to` are the same",
            ));
        }
        let is_into_database = self.to == Backend::Postgres;
        let extent = match (&self.backup, self.catch_up, self.compare) {
            (None, false, false) => Extent::CopyAndCompare,
            (None, false, true) => Extent::CompareOnly,
            (Some(file), false, false) if is_into_database => {
                open(file)?;
                Extent::FromBackup(file.clone())
            }
            (None, true, false) if is_into_database => Extent::CatchUp,
            (Some(_), false, false) => {
                return Err(CliError::usage(
                    "a backup is put into a folder with `daftar restore FILE`; `--backup` fills a database: `--from sled --to postgres --backup FILE`",
                ));
            }
            (None, true, false) => {
                return Err(CliError::usage(
                    "only a database is caught up with a folder: `--from sled --to postgres --catch-up`; out of a database a register is moved at once, while its servers are stopped: `--from postgres --to sled`",
                ));
            }
            (Some(_), _, _) | (None, true, true) => {
                return Err(CliError::usage(
                    "`--backup`, `--catch-up` and `--compare` are steps of their own: first `--backup FILE` while the server goes on, then, once it is stopped, `--catch-up`; `--compare` afterwards, for who wants both compared whole",
                ));
            }
        };
        Ok(extent)
    }
}

/// Runs the command.
pub fn run(global: &GlobalArgs, args: &MigrateArgs) -> Result<(), CliError> {
    if global.admin_url.is_some() {
        return Err(CliError::usage(
            "a register is moved by this command itself, and not by a server: name the data folder with --data-dir, on its own machine; or the backup of a server that goes on with --backup",
        ));
    }
    let extent = args.extent()?;
    let config = config_of(global)?;
    if let Some(file) = &args.backup {
        verify(global, &config, file, args.trusted_key.as_deref())?;
    }
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build().map_err(CliError::failed)?;
    let mut copying = Progress::new(global.json, "copied");
    let mut catching_up = Progress::new(global.json, "caught up");
    let mut comparing = Progress::new(global.json, "compared");
    let heard = |step: Step, about: u64, things: u64| match step {
        Step::Copying => copying.at_about(about, things),
        Step::CatchingUp => catching_up.at_about(about, things),
        Step::Comparing => comparing.at_about(about, things),
    };
    let ends = (args.from.end(), args.to.end());
    let migrated = runtime.block_on(migrate(&config, &global.data_dir, ends, extent, heard));
    let migrated = migrated.map_err(|error| CliError::of(ErrorKind::from(&error), error))?;
    drop((copying, catching_up, comparing));
    tell(global, args, &migrated);
    let differences = migrated.comparison.differences;
    if differences == 0 {
        return Ok(());
    }
    Err(CliError::failed(format!(
        "the two registers are not the same: {differences} differences; do not serve from the new one"
    )))
}

/// Verifies the signature of a backup before the database is filled from it.
fn verify(global: &GlobalArgs, config: &Config, file: &Path, trusted_key: Option<&str>) -> Result<(), CliError> {
    let judged = trust_of(config, trusted_key)?.judge_file(&mut open(file)?);
    let (authenticity, _) = judged.map_err(|problem| CliError::input(format!("`{}`: {problem}", file.display())))?;
    if !global.json {
        print_authenticity(authenticity);
    }
    Ok(())
}

impl Backend {
    fn end(self) -> End {
        match self {
            Self::Sled => End::Sled,
            Self::Postgres => End::Postgres,
        }
    }
}

fn tell(global: &GlobalArgs, args: &MigrateArgs, migrated: &Migrated) {
    if global.json { tell_json(migrated) } else { tell_text(args, migrated) }
}

fn tell_json(migrated: &Migrated) {
    let named = |counts: &Counts| -> serde_json::Map<String, Value> {
        counts.iter().map(|(kept, count)| (kept.name().to_owned(), json!(count))).collect()
    };
    let Migrated { copied, caught_up, comparison } = migrated;
    let mark = copied.as_ref().map(|(mark, _)| mark).or(caught_up.as_ref().map(|caught_up| &caught_up.mark));
    let mut told = json!({
        "sequence": mark.map(|mark| mark.sequence.0),
        "copied": copied.as_ref().map(|(_, counts)| named(counts)),
        "same": named(&comparison.same),
        "differences": comparison.differences,
        "told": comparison.told,
    });
    if let (Some(caught_up), Some(members)) = (caught_up, told.as_object_mut()) {
        members.insert("since".to_owned(), json!(caught_up.held.sequence.0));
        members.insert("caught_up".to_owned(), json!(named(caught_up.written())));
        members.insert("taken_out".to_owned(), json!(named(caught_up.taken_out())));
    }
    output::json(&told);
}

fn tell_text(args: &MigrateArgs, migrated: &Migrated) {
    let listed = |counts: &Counts| {
        for (kept, count) in counts {
            output::line(format_args!("  {count} {}", kept.name()));
        }
    };
    let Migrated { copied, caught_up, comparison } = migrated;
    if let Some((mark, counts)) = copied {
        output::line(format_args!("copied the register as of write {}", mark.sequence.0));
        listed(counts);
    }
    match caught_up {
        Some(caught_up) if caught_up.is_nothing() => {
            output::line(format_args!("there is nothing to bring: both stand at write {}", caught_up.mark.sequence.0))
        }
        Some(caught_up) => {
            let (since, now) = (caught_up.held.sequence.0, caught_up.mark.sequence.0);
            output::line(format_args!("brought what was written since write {since}, up to write {now}"));
            listed(caught_up.written());
            if !caught_up.taken_out().is_empty() {
                output::line("took out what is not there any more");
                listed(caught_up.taken_out());
            }
        }
        None => {}
    }
    let same: u64 = comparison.same.values().sum();
    let what = match (args.backup.is_some(), caught_up.is_some()) {
        (true, _) => "the backup and the database",
        (false, true) => "what was written since, in both",
        (false, false) => "both",
    };
    output::line(format_args!("compared {what}: {same} things are the same, {} are not", comparison.differences));
    for told in &comparison.told {
        output::line(format_args!("  {told}"));
    }
    if args.backup.is_some() && comparison.differences == 0 {
        output::line(
            "the old server goes on; once it is stopped, bring what it wrote since: daftar migrate --from sled --to postgres --catch-up",
        );
    }
}

impl From<&MigrateError> for ErrorKind {
    fn from(error: &MigrateError) -> Self {
        match error {
            MigrateError::Backup { .. } => Self::Input,
            MigrateError::NoCatchUp => Self::Usage,
            MigrateError::Open(error) => error.into(),
            MigrateError::Folder(_) | MigrateError::NotEarlier(_) | MigrateError::Store { .. } => Self::Failed,
        }
    }
}
