//! `daftar export --format parquet`: a folder with a file for each reporting table.
//!
//! **Invariant:** a file gets its name when all files of the export are complete and on disk; until then its name ends
//! with `.partial`. A failed export removes its files.

use std::fs::DirBuilder;
use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};

use indicatif::ProgressBar;
use serde_json::{Value, json};

use super::reporting_file::ReportingFile;
use super::{ExportArgs, Line, query, read_lines};
use crate::app::packs::folder_of;
use crate::cli::admin_client::AdminClient;
use crate::cli::{CliError, GlobalArgs, output};
use daftar_domain::folders;
use daftar_domain::schema::reporting;

/// Writes the tables of the requested types of records.
///
/// # Errors
/// When the folder is not empty or cannot be written, or the export fails.
pub fn run(global: &GlobalArgs, args: &ExportArgs, out: &Path) -> Result<(), CliError> {
    let kinds = if args.filter.is_empty() { args.kinds.clone() } else { vec!["Individual".to_owned()] };
    let query = query(args, true)?;
    // Labels are requested as objects; photos are in no table. Tables are joined by keys.
    let path = format!("/export?{query}&meta=true&photos=false&keys=true");
    // First: without a server or folder, no file is created.
    let (as_of, records, files) = AdminClient::connect(global)?.run(|admin| {
        let mut folder = Folder::begin(out, &kinds)?;
        let bar = if global.json { ProgressBar::hidden() } else { ProgressBar::new_spinner() };
        let received = folder.receive(admin, &path, &bar).map_err(|error| explained(error, args));
        bar.finish_and_clear();
        received.and_then(|(as_of, records)| Ok((folder.finish(&as_of)?, as_of, records))).map_or_else(
            |error| {
                folder.discard();
                Err(error)
            },
            |(files, as_of, records)| Ok((as_of, records, files)),
        )
    })?;
    let written: Vec<Value> =
        files.iter().map(|file| json!({"file": file.0, "rows": file.1, "sha256": file.2})).collect();
    let body = json!({"records": records, "as_of": as_of, "folder": out.display().to_string(), "files": written});
    let lines: Vec<String> =
        files.iter().map(|(file, rows, digest)| format!("{file}  {rows} rows, sha256 {digest}")).collect();
    let folder = out.display();
    output::done(global, &body, format_args!("{records} records as of {as_of} in `{folder}`\n{}", lines.join("\n")));
    Ok(())
}

/// Adds the remedy to the rejection by an older server, which takes the parameter `keys` for an unknown filter.
fn explained(error: CliError, args: &ExportArgs) -> CliError {
    let is_of_keys = match error.code.as_deref() {
        Some("unknown_parameter") => error.message.contains("`keys`"),
        // A request without filters has none that could be wrong.
        Some("malformed_request") => args.filter.is_empty(),
        _ => false,
    };
    if !is_of_keys {
        return error;
    }
    error.with("the server is of an older version, whose exports have no keys: export with the program of that version")
}

/// The output folder of a running export.
struct Folder {
    path: PathBuf,
    is_new: bool,
    files: Vec<ReportingFile>,
}

impl Folder {
    fn begin(path: &Path, kinds: &[String]) -> Result<Self, CliError> {
        let is_new = !path.exists();
        if is_new {
            let made = DirBuilder::new().mode(0o700).create(path);
            made.map_err(|error| CliError::cannot_write(path, &error))?;
        } else {
            refuse_unless_empty(path)?;
        }
        let mut folder = Self { path: path.to_owned(), is_new, files: Vec::new() };
        for table in reporting::tables() {
            if !kinds.is_empty() && !kinds.iter().any(|kind| kind == table.kind.name()) {
                continue;
            }
            match ReportingFile::begin(path, table) {
                Ok(file) => folder.files.push(file),
                Err(error) => {
                    folder.discard();
                    return Err(error);
                }
            }
        }
        Ok(folder)
    }

    /// Writes the received records; returns the timestamp of the snapshot and the number of records.
    fn receive(&mut self, admin: &AdminClient, path: &str, bar: &ProgressBar) -> Result<(String, u64), CliError> {
        let mut total = 0;
        let as_of = read_lines(admin, path, |line| match line {
            Line::Record(line) => {
                let record: Value = serde_json::from_str(line).map_err(|_| CliError::none_to("an export"))?;
                self.files.iter_mut().try_for_each(|file| file.add(&record))
            }
            Line::Progress { records, .. } => {
                total = records;
                bar.set_message(format!("{records} records"));
                bar.tick();
                Ok(())
            }
        })?;
        Ok((as_of, total))
    }

    /// Renames the files after all are on disk; returns the name, number of rows and SHA-256 of each file.
    fn finish(&mut self, as_of: &str) -> Result<Vec<(String, u64, String)>, CliError> {
        let digests = self.files.iter_mut().map(|file| file.finish(as_of)).collect::<Result<Vec<_>, _>>()?;
        let mut finished = Vec::with_capacity(digests.len());
        for (file, digest) in self.files.iter_mut().zip(digests) {
            file.name_it()?;
            finished.push((file.name(), file.rows(), digest));
        }
        let synced = folders::sync_where_possible(&self.path);
        let synced = synced.and_then(|()| folders::sync_where_possible(folder_of(&self.path)));
        synced.map_err(|error| CliError::cannot_write(&self.path, &error))?;
        Ok(finished)
    }

    /// Removes the files of a failed export.
    fn discard(&mut self) {
        self.files.iter().for_each(ReportingFile::discard);
        if self.is_new {
            // The folder remains if another program concurrently added a file.
            let _is_gone = std::fs::remove_dir(&self.path).is_ok();
        }
    }
}

fn refuse_unless_empty(path: &Path) -> Result<(), CliError> {
    let mut entries = std::fs::read_dir(path).map_err(|error| CliError::cannot_write(path, &error))?;
    match entries.next() {
        None => Ok(()),
        Some(Err(error)) => Err(CliError::cannot_write(path, &error)),
        Some(Ok(entry)) => Err(CliError::output(format_args!(
            "`{}` is not empty, it has `{}`: name another folder, or empty it",
            path.display(),
            entry.file_name().display()
        ))),
    }
}
