//! `daftar migrate`

use std::path::{Path, PathBuf};

use clap::{Args, Subcommand, ValueEnum};
use serde_json::{Value, json};

use super::backup::{Progress, open, print_authenticity, trust_of};
use super::error::ErrorKind;
use super::{CliError, GlobalArgs, output};
use crate::app::migrate::{Action, MigrateError, Migrated, Prepared, Step, ViewsOutcome, migrate, prepare};
use daftar_domain::config::{Config, StoreBackend};
use daftar_service::backup::BackupFile;
use daftar_service::migrate::Counts;

/// Location of a register.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Backend {
    /// In the data folder
    Sled,
    /// In the database of the settings `[store.postgres]`
    Postgres,
}

/// The steps of a move.
#[derive(Debug, Args)]
pub struct MigrateArgs {
    #[command(subcommand)]
    command: MigrateCommand,
}

#[derive(Debug, Subcommand)]
enum MigrateCommand {
    /// Fill an empty backend with the register of the other one, or with a backup, and compare both
    Fill(FillArgs),
    /// Apply the changes that were written to one backend after the other was filled from it, and compare them; the
    /// servers are stopped
    CatchUp(CatchUpArgs),
    /// Compare the register in the folder with the one in the database, whole; nothing is written
    Compare,
    /// Make the tables and views in the database, or bring them up to date, as the role that owns them; servers then
    /// need a role without that right
    Prepare(PrepareArgs),
}

/// The role that prepares the database, and the outcome that is a success.
#[derive(Debug, Args)]
struct PrepareArgs {
    /// A file with the URL of the role that owns the tables, in place of the settings' one; only its owner may read it
    #[arg(long, value_name = "FILE")]
    url_file: Option<PathBuf>,
    /// Exit with 0, and not with 3, if only the views for reports could not be created or updated: servers need only
    /// the tables
    #[arg(long)]
    allow_outdated_views: bool,
}

/// Target and source of a fill.
#[derive(Debug, Args)]
struct FillArgs {
    /// Target of the register: must be empty. Without --backup it comes from the other backend, whose servers are
    /// stopped
    #[arg(long, value_enum)]
    to: Backend,
    /// Fill it from this backup, while the server of the backup continues to run
    #[arg(long, value_name = "FILE")]
    backup: Option<PathBuf>,
    /// With --backup: refuse one that this public key did not sign; `ed25519:…`, or a file with that line or a PEM
    #[arg(long, value_name = "KEY", requires = "backup")]
    trusted_key: Option<String>,
}

/// Target of later changes.
#[derive(Debug, Args)]
struct CatchUpArgs {
    /// The backend that was filled before
    #[arg(long, value_enum, default_value = "postgres")]
    to: Backend,
}

/// Runs the command.
pub fn run(global: &GlobalArgs, MigrateArgs { command }: &MigrateArgs) -> Result<(), CliError> {
    if global.admin_url.is_some() {
        return Err(CliError::usage(
            "a register is moved by this command itself, and not by a server: name the data folder with --data-dir, on its own machine; or the backup of a running server with --backup",
        ));
    }
    let config = global.config()?;
    let action = match command {
        MigrateCommand::Fill(FillArgs { to: Backend::Sled, backup: Some(_), .. }) => {
            return Err(CliError::usage(
                "a backup is put into a folder, with its keys and plugins, by `daftar restore FILE`; `--backup` fills a database: `daftar migrate fill --to postgres --backup FILE`",
            ));
        }
        MigrateCommand::Fill(FillArgs { to, backup, trusted_key }) => {
            let backup = backup.as_deref().map(|file| verified(global, &config, file, trusted_key.as_deref()));
            Action::Fill { to: to.end(), backup: backup.transpose()? }
        }
        MigrateCommand::CatchUp(CatchUpArgs { to }) => Action::CatchUp { to: to.end() },
        MigrateCommand::Compare => Action::Compare,
        MigrateCommand::Prepare(arguments) => return run_prepare(global, arguments),
    };
    let is_from_backup = matches!(action, Action::Fill { backup: Some(_), .. });
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build().map_err(CliError::failed)?;
    let mut copying = Progress::new(global.json, "copied");
    let mut catching_up = Progress::new(global.json, "caught up");
    let mut comparing = Progress::new(global.json, "compared");
    let heard = |step: Step, about: u64, items: u64| match step {
        Step::Copying => copying.at_about(about, items),
        Step::CatchingUp => catching_up.at_about(about, items),
        Step::Comparing => comparing.at_about(about, items),
    };
    let migrated = runtime.block_on(migrate(&config, &global.data_dir, action, heard));
    let migrated = migrated.map_err(|error| CliError::of(ErrorKind::from(&error), error))?;
    drop((copying, catching_up, comparing));
    if global.json {
        print_json(&migrated);
    } else {
        print_text(is_from_backup, &migrated);
    }
    let differences = migrated.comparison.differences;
    if differences == 0 {
        return Ok(());
    }
    Err(CliError::failed(format!(
        "the two registers are not the same: {differences} differences; do not serve from the new one"
    )))
}

fn run_prepare(global: &GlobalArgs, arguments: &PrepareArgs) -> Result<(), CliError> {
    let mut config = global.config()?;
    if let Some(file) = &arguments.url_file {
        (config.store.postgres.url, config.store.postgres.url_file) = (None, Some(file.clone()));
    }
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build().map_err(CliError::failed)?;
    let prepared = runtime.block_on(prepare(&config));
    let prepared = prepared.map_err(|error| CliError::of(ErrorKind::from(&error), error))?;
    if global.json {
        output::json(&prepared_json(&prepared));
    } else {
        output::line(prepared_text(&prepared));
    }
    let ViewsOutcome::Failed(error) = &prepared.views else { return Ok(()) };
    let message = format!(
        "the tables are up to date and servers can start, but the views of the schema `reporting` were not created or updated: {error}"
    );
    if !arguments.allow_outdated_views {
        return Err(CliError::findings(message));
    }
    if !global.json {
        output::line(message);
    }
    Ok(())
}

fn prepared_json(Prepared { before, layout, views }: &Prepared) -> Value {
    let (views, error) = match views {
        ViewsOutcome::Unchanged => ("unchanged", None),
        ViewsOutcome::Updated => ("updated", None),
        ViewsOutcome::Failed(error) => ("failed", Some(error.to_string())),
    };
    json!({"layout": layout, "layout_before": before, "views": views, "views_error": error})
}

fn prepared_text(Prepared { before, layout, views }: &Prepared) -> String {
    let has_changed = *before != Some(*layout);
    let tables = format!("the tables are of layout {layout} {}", if has_changed { "now" } else { "already" });
    match (views, has_changed) {
        (ViewsOutcome::Unchanged, false) => {
            format!("{tables}, and the views of the schema `reporting` are up to date: nothing was changed")
        }
        (ViewsOutcome::Unchanged, true) => {
            format!("{tables}, and the views of the schema `reporting` are up to date; servers can start")
        }
        (ViewsOutcome::Updated, _) => {
            format!("{tables}, and the views of the schema `reporting` were updated; servers can start")
        }
        (ViewsOutcome::Failed(_), _) => tables,
    }
}

/// Verifies the signature of a backup before the database is filled from it.
fn verified(
    global: &GlobalArgs,
    config: &Config,
    file: &Path,
    trusted_key: Option<&str>,
) -> Result<BackupFile, CliError> {
    let judged = trust_of(config, trusted_key)?.judge_file(&mut open(file)?);
    let (authenticity, verified) =
        judged.map_err(|problem| CliError::input(format!("`{}`: {problem}", file.display())))?;
    if !global.json {
        print_authenticity(authenticity);
    }
    Ok(BackupFile { path: file.to_owned(), verified })
}

impl Backend {
    fn end(self) -> StoreBackend {
        match self {
            Self::Sled => StoreBackend::Sled,
            Self::Postgres => StoreBackend::Postgres,
        }
    }
}

fn print_json(migrated: &Migrated) {
    let named = |counts: &Counts| -> serde_json::Map<String, Value> {
        counts.iter().map(|(stored, count)| (stored.name().to_owned(), json!(count))).collect()
    };
    let Migrated { copied, caught_up, comparison } = migrated;
    let mark = copied.as_ref().map(|(mark, _)| mark).or(caught_up.as_ref().map(|caught_up| &caught_up.mark));
    let mut reported = json!({
        "sequence": mark.map(|mark| mark.sequence.0),
        "copied": copied.as_ref().map(|(_, counts)| named(counts)),
        "same": named(&comparison.same),
        "differences": comparison.differences,
        "reported": comparison.reported,
    });
    if let Some(caught_up) = caught_up {
        let more = json!({
            "since": caught_up.held.sequence.0,
            "caught_up": named(&caught_up.brought.written),
            "taken_out": named(&caught_up.brought.taken_out),
        });
        reported = output::joined(reported, more);
    }
    output::json(&reported);
}

fn print_text(is_from_backup: bool, migrated: &Migrated) {
    let listed = |counts: &Counts| {
        for (stored, count) in counts {
            output::line(format_args!("  {count} {}", stored.name()));
        }
    };
    let Migrated { copied, caught_up, comparison } = migrated;
    if let Some((mark, counts)) = copied {
        output::line(format_args!("copied the register as of write {}", mark.sequence.0));
        listed(counts);
    }
    match caught_up {
        Some(caught_up) if caught_up.brought.is_empty() => {
            output::line(format_args!("there is nothing to bring: both stand at write {}", caught_up.mark.sequence.0))
        }
        Some(caught_up) => {
            let (since, now) = (caught_up.held.sequence.0, caught_up.mark.sequence.0);
            output::line(format_args!("brought what was written since write {since}, up to write {now}"));
            listed(&caught_up.brought.written);
            if !caught_up.brought.taken_out.is_empty() {
                output::line("took out what is not there any more");
                listed(&caught_up.brought.taken_out);
            }
        }
        None => {}
    }
    let same: u64 = comparison.same.values().sum();
    let what = match (is_from_backup, caught_up) {
        (true, _) => "the backup and the database",
        (false, Some(caught_up)) if !caught_up.was_interrupted => "what was written since, in both",
        (false, _) => "both",
    };
    output::line(format_args!("compared {what}: {same} things are the same, {} are not", comparison.differences));
    for reported in &comparison.reported {
        output::line(format_args!("  {reported}"));
    }
    if is_from_backup && comparison.differences == 0 {
        output::line("the old server continues; after it is stopped, apply its later changes: daftar migrate catch-up");
    }
}

impl From<&MigrateError> for ErrorKind {
    fn from(error: &MigrateError) -> Self {
        match error {
            MigrateError::Backup { .. } => Self::Input,
            MigrateError::Open(error) => error.into(),
            MigrateError::Folder(_) | MigrateError::NotEarlier(_) | MigrateError::Store { .. } => Self::Failed,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::app::migrate::ViewsError;

    #[test]
    fn a_preparation_reports_tables_and_views() {
        let prepared = |before, views: ViewsOutcome| Prepared { before, layout: 4, views };
        let failed = ViewsOutcome::Failed(ViewsError::Denied("no".to_owned()));
        for (prepared, text, views) in [
            (
                prepared(Some(4), ViewsOutcome::Unchanged),
                "the tables are of layout 4 already, and the views of the schema `reporting` are up to date: nothing was changed",
                "unchanged",
            ),
            (
                prepared(Some(4), ViewsOutcome::Updated),
                "the tables are of layout 4 already, and the views of the schema `reporting` were updated; servers can start",
                "updated",
            ),
            (
                prepared(None, ViewsOutcome::Updated),
                "the tables are of layout 4 now, and the views of the schema `reporting` were updated; servers can start",
                "updated",
            ),
            (
                prepared(Some(3), ViewsOutcome::Unchanged),
                "the tables are of layout 4 now, and the views of the schema `reporting` are up to date; servers can start",
                "unchanged",
            ),
            (prepared(None, failed), "the tables are of layout 4 now", "failed"),
        ] {
            assert_eq!(prepared_text(&prepared), text);
            let error = (views == "failed").then_some("no");
            let shown = json!({"layout": 4, "layout_before": prepared.before, "views": views, "views_error": error});
            assert_eq!(prepared_json(&prepared), shown);
        }
    }
}
