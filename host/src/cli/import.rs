//! `daftar import`
//!
//! A file is sent in parts. After the response to a part, its rejects are written to disk and the progress file is
//! updated. If a response is lost, the writes of its part are read from the audit log when the import resumes.
//!
//! **Invariant:** every line is written exactly once or is in the rejects file exactly once, even if the command or the
//! server is interrupted repeatedly.

mod openspp;
mod progress;
mod send;
mod sheet;
mod source;

use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use clap::{Args, ValueEnum};
use indicatif::ProgressBar;
use serde_json::json;

use self::openspp::Translated;
use self::progress::{Identity, Progress, sentence};
use self::send::{Rejects, Sender, Unsent};
use self::source::{PART_BYTES_MAX, Source};
use super::admin_client::AdminClient;
use super::files::{remove, with_suffix};
use super::{CliError, GlobalArgs, output};
use daftar_api_types::admin::operation::ImportCounts;
use daftar_domain::context::{IdSource, RandomIds};

/// An example that contains every member of a mapping.
const EXAMPLE_MAPPING: &str = include_str!("import/example-mapping.toml");

/// Options of an import.
#[derive(Debug, Args)]
pub struct ImportArgs {
    /// The file: one JSON object a line (`.ndjson`, `.jsonl`), or a table with a header (`.csv`, `.tsv`)
    #[arg(value_name = "FILE", required_unless_present = "example_mapping")]
    file: Option<PathBuf>,
    /// Source system to convert from; the converted NDJSON is written next to FILE
    #[arg(long, value_enum, value_name = "SYSTEM")]
    from: Option<From>,
    /// With --from: a code of theirs and the code for it here, `THEIRS=OURS`, or `THEIRS=` to leave it out; may be
    /// repeated
    #[arg(long = "code", value_name = "THEIRS=OURS", requires = "from")]
    codes: Vec<String>,
    /// Which column of a table is which field; without it the header names fields
    #[arg(long, value_name = "FILE")]
    mapping: Option<PathBuf>,
    /// Print a mapping file to begin with
    #[arg(long)]
    example_mapping: bool,
    /// Handling of a record that already exists
    #[arg(long, value_enum, default_value_t = Existing::Reject)]
    on_existing: Existing,
    /// Resume an interrupted import of this file
    #[arg(long)]
    resume: bool,
    /// Validate everything and write nothing; report rejected records and reasons
    #[arg(long, conflicts_with = "resume")]
    dry_run: bool,
    /// File for rejected records; `FILE.rejects.ndjson` if not given
    #[arg(long, value_name = "FILE")]
    rejects: Option<PathBuf>,
    /// Bytes to send per request
    #[arg(long, hide = true, default_value_t = PART_BYTES_MAX, value_name = "N")]
    part_bytes: usize,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum From {
    /// People and groups as the second version of OpenSPP's API gives them: JSON lines, or whole answers
    Openspp,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Existing {
    /// Reject it and write it to the rejects file
    Reject,
    /// Skip it
    Skip,
    /// Replace the record, as PUT does; with `meta.version_id` only at that version
    Update,
}

impl Existing {
    fn name(self) -> &'static str {
        match self {
            Self::Reject => "reject",
            Self::Skip => "skip",
            Self::Update => "update",
        }
    }
}

/// Runs the command.
pub fn run(global: &GlobalArgs, args: &ImportArgs) -> Result<(), CliError> {
    if args.example_mapping {
        output::line(EXAMPLE_MAPPING.trim_end());
        return Ok(());
    }
    let Some(file) = args.file.as_deref() else {
        return Err(CliError::usage("name the file to import, or ask for --example-mapping"));
    };
    let translated = match args.from {
        Some(From::Openspp) => Some(openspp::translate(file, &args.codes)?),
        None => None,
    };
    let file = translated.as_ref().map_or(file, |translated| translated.lines.as_path());
    let mut source = Source::open(file, args.mapping.as_deref())?;
    let on_existing = args.on_existing.name();
    let identity = Identity { sha256: source.digest()?, bytes: source.bytes, on_existing: on_existing.to_owned() };
    let progress_path = with_suffix(file, ".progress.json");
    let suffix = if args.dry_run { ".dry-run.rejects.ndjson" } else { ".rejects.ndjson" };
    let named = args.rejects.as_deref().map(absolute).transpose()?;
    let rejects_path = absolute(&with_suffix(file, suffix))?;
    let (mut progress, rejects_path, resumes) = match (Progress::load(&progress_path)?, args.resume) {
        (None, false) => {
            let rejects = named.unwrap_or(rejects_path);
            let begun = Progress::begin(RandomIds.next_id(), identity.clone(), rejects.clone(), source.mark);
            (begun, rejects, false)
        }
        (Some(progress), true) => {
            progress.check(&identity, &progress_path)?;
            let rejects = progress.rejects(named, rejects_path)?;
            (progress, rejects, true)
        }
        (Some(_), false) => {
            return Err(CliError::usage(format!(
                "an import of `{}` was interrupted: resume with --resume, or remove `{}` to start again",
                file.display(),
                progress_path.display()
            )));
        }
        (None, true) => {
            return Err(CliError::usage(format!(
                "there is nothing to resume: `{}` does not exist",
                progress_path.display()
            )));
        }
    };
    let rows_path = source.header().map(|_| rows_file(&rejects_path, file)).transpose()?;
    (source.part_bytes, source.mark) = (args.part_bytes, progress.next);
    // First: without a server or folder, no file is created.
    let admin = AdminClient::connect_or_begin(global, true)?;
    let (started, before) = (Instant::now(), progress.counts);
    let (rejects, counts) = admin.run(|admin| {
        let table = rows_path.as_deref().zip(source.header());
        let mut rejects = Rejects::open(&rejects_path, table, resumes.then_some(progress.rejects_bytes))?;
        // The progress file is saved before the first request: the name in it identifies the writes of this import.
        if !args.dry_run {
            progress.save(&progress_path)?;
        }
        let mut sender = Sender { admin, on_existing, id: progress.import.clone(), is_dry_run: args.dry_run };
        let bar = output::bar(global.json, identity.bytes, "{bar:30} {bytes}/{total_bytes} {msg} {eta}");
        let written = write_all(&mut source, &mut sender, (&mut progress, &progress_path), &mut rejects, resumes, &bar);
        bar.finish_and_clear();
        let ended = written.and_then(|()| {
            sender.end(&format!("file of sha256 {}: {}", identity.sha256, sentence(&progress.counts)))?;
            source.check_unchanged(&identity.sha256)?;
            if args.dry_run { Ok(()) } else { remove(&progress_path) }
        });
        ended.map(|()| (rejects, progress.counts)).map_err(|error| hint(error, file, &progress_path))
    })?;
    if args.dry_run && !global.json {
        output::line("checked, nothing was written: this is what would be done");
    }
    let seconds = started.elapsed().as_secs_f64();
    summary(global, (counts, before), seconds, &rejects_path, translated.as_ref());
    rejects.remove_empty()?;
    if counts.rejected == 0 {
        return Ok(());
    }
    Err(CliError::findings(format!(
        "{} lines were rejected: `{}` has the reasons; fix the lines there, and import that file",
        counts.rejected,
        rejects_path.display()
    )))
}

/// The same path for an import that resumes in another folder.
fn absolute(path: &Path) -> Result<PathBuf, CliError> {
    std::path::absolute(path).map_err(|error| CliError::cannot_write(path, &error))
}

/// Returns the file of the rejected rows of a table: the rejects file with the extension of the table, by which an import
/// knows its delimiter.
fn rows_file(rejects: &Path, table: &Path) -> Result<PathBuf, CliError> {
    let rows = rejects.with_extension(table.extension().unwrap_or_default());
    if rows != rejects {
        return Ok(rows);
    }
    Err(CliError::usage(format_args!(
        "the rejected rows of the table go to `{}`: name another file for the rejected lines, such as `--rejects {}`",
        rows.display(),
        rows.with_extension("ndjson").display()
    )))
}

/// Number of times that a dry run starts again, each time after twice the delay: about a minute in all.
const RESTARTS_MAX: u32 = 6;
/// The first of these delays.
const RESTART_DELAY: Duration = Duration::from_secs(1);

/// Sends all parts. A dry run that the server stopped starts again from the first line, under another id: lines of the
/// stopped part may be checked already, and the server would reject them as duplicates of themselves.
fn write_all(
    source: &mut Source,
    sender: &mut Sender<'_>,
    (progress, progress_path): (&mut Progress, &Path),
    rejects: &mut Rejects,
    resumes: bool,
    bar: &ProgressBar,
) -> Result<(), CliError> {
    let begun = progress.clone();
    let mut restarts = 0;
    loop {
        let reason = match write(source, sender, (&mut *progress, progress_path), rejects, resumes, bar) {
            Ok(()) => return Ok(()),
            Err(Unsent::Failed(error)) => return Err(error),
            Err(Unsent::DryRunStopped(reason)) => reason,
        };
        if restarts == RESTARTS_MAX {
            return Err(CliError::unavailable(format_args!(
                "{reason}; the dry run started again {RESTARTS_MAX} times: run it later"
            )));
        }
        bar.suspend(|| output::note(format_args!("{reason}: the dry run starts again from the first line")));
        std::thread::sleep(RESTART_DELAY.saturating_mul(1_u32 << restarts));
        restarts += 1;
        sender.begin_again();
        rejects.clear()?;
        *progress = begun.clone();
    }
}

/// Sends the parts from the current position.
fn write(
    source: &mut Source,
    sender: &Sender<'_>,
    (progress, progress_path): (&mut Progress, &Path),
    rejects: &mut Rejects,
    mut resumes: bool,
    bar: &ProgressBar,
) -> Result<(), Unsent> {
    bar.set_position(progress.next.offset);
    source.parts(|part| -> Result<(), Unsent> {
        let answer = sender.send(&part, resumes)?;
        resumes = false;
        let counts = rejects.add(&part, answer)?;
        progress.advance(part.next, counts, rejects.bytes());
        if !sender.is_dry_run {
            progress.save(progress_path)?;
        }
        let counts = progress.counts;
        bar.set_position(part.next.offset);
        bar.set_message(format!("{} lines, {} refused", counts.read, counts.rejected));
        Ok(())
    })
}

/// Adds the instructions for resuming to an error.
fn hint(error: CliError, file: &Path, progress: &Path) -> CliError {
    if !progress.exists() {
        return error;
    }
    error.with(format_args!("the written part is kept: `daftar import --resume {}` resumes from there", file.display()))
}

fn summary(
    global: &GlobalArgs,
    (counts, before): (ImportCounts, ImportCounts),
    seconds: f64,
    rejects: &Path,
    translated: Option<&Translated>,
) {
    let here = counts.read.saturating_sub(before.read);
    let per_second = if seconds > 0.0 { (here as f64 / seconds).round() } else { 0.0 };
    let ImportCounts { read, created, updated, skipped, rejected } = counts;
    if global.json {
        let mut reported = json!({
            "read": read, "created": created, "updated": updated, "skipped": skipped, "rejected": rejected,
            "seconds": (seconds * 1_000.0).round() / 1_000.0, "per_second": per_second,
            "rejects": if rejected > 0 { Some(rejects.display().to_string()) } else { None },
        });
        if let Some(of @ Translated { lines, unmapped, counts }) = translated {
            let unmapped = json!({"count": of.count(), "file": unmapped, "fields": counts});
            reported = output::joined(reported, json!({"lines": lines, "unmapped": unmapped}));
        }
        output::json(&reported);
        return;
    }
    output::line(format_args!("{}; {seconds:.1} s, {per_second} lines/s", sentence(&counts)));
    if let Some(sentence) = translated.and_then(Translated::sentence) {
        output::line(sentence);
    }
}
