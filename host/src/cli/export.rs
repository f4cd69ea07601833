//! `daftar export`
//!
//! **Invariant:** a file of the asked name is a whole export: until then it is called `FILE.partial`, for its owner alone, with
//! `FILE.progress.json` beside it that says where to go on.

mod output_file;
mod table;

use std::io::{BufRead, BufReader};
use std::path::PathBuf;

use clap::{Args, ValueEnum};
use indicatif::ProgressBar;
use serde_json::{Value, json};

use self::output_file::OutputFile;
use self::table::TableWriter;
use super::admin_client::{AdminClient, Payload};
use super::table::mapping::MappingText;
use super::{CliError, GlobalArgs, output};
use daftar_api_types::admin::operation::{ExportLine, ExportProgress};

/// What is exported.
#[derive(Debug, Args)]
pub struct ExportArgs {
    /// The file: one JSON object a line (`.ndjson`, `.jsonl`), or a table (`.csv`, `.tsv`) by a mapping
    #[arg(value_name = "FILE")]
    file: PathBuf,
    /// Only records of this type; several after one another
    #[arg(long = "type", value_enum, num_args = 1..)]
    kinds: Vec<Kind>,
    /// Only people whom a search finds, as its parameters: `gender=urn:iso:std:iso:5218#2`; several after one another
    #[arg(long, value_name = "NAME=VALUE", num_args = 1..)]
    filter: Vec<String>,
    /// Which field is which column of a table; the mapping of an import, the other way round
    #[arg(long, value_name = "FILE")]
    mapping: Option<PathBuf>,
    /// The language of labels of codes in tables
    #[arg(long, value_name = "TAG")]
    language: Option<String>,
    /// With `meta`: an import with --on-existing update replaces these versions alone
    #[arg(long)]
    with_meta: bool,
    /// Go on with an export to this file that was interrupted
    #[arg(long)]
    resume: bool,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
#[value(rename_all = "PascalCase")]
enum Kind {
    Individual,
    Group,
    Program,
    ProgramMembership,
    Consent,
}

impl Kind {
    fn name(self) -> &'static str {
        match self {
            Self::Individual => "Individual",
            Self::Group => "Group",
            Self::Program => "Program",
            Self::ProgramMembership => "ProgramMembership",
            Self::Consent => "Consent",
        }
    }
}

/// Runs the command.
pub fn run(global: &GlobalArgs, args: &ExportArgs) -> Result<(), CliError> {
    let table = table_of(args)?;
    let query = query(args, table.is_some())?;
    // Two exports go on as one only where the same was asked.
    let asked = format!("{query}\n{}", table.as_ref().map(TableWriter::fingerprint).unwrap_or_default());
    // First: where nobody can be asked, nothing is begun.
    let admin = AdminClient::connect(global)?;
    let mut file = match OutputFile::open(&args.file, &asked, args.resume) {
        Ok(file) => file,
        Err(error) => {
            admin.close();
            return Err(error);
        }
    };
    let bar = if global.json { ProgressBar::hidden() } else { ProgressBar::new_spinner() };
    let outcome = receive(&admin, &query, table.as_ref(), &mut file, &bar);
    bar.finish_and_clear();
    admin.close();
    let as_of = match outcome {
        Ok(as_of) => as_of,
        Err(error) if file.has_begun() => {
            let path = args.file.display();
            return Err(error.with(format_args!(
                "what was written is kept: `daftar export --resume {path}` goes on, with the other options as before"
            )));
        }
        Err(error) => {
            file.discard();
            return Err(error);
        }
    };
    let records = file.records();
    let digest = file.finish()?;
    if global.json {
        output::json(
            &json!({"records": records, "as_of": as_of, "sha256": digest, "file": args.file.display().to_string()}),
        );
    } else {
        output::line(format_args!("{records} records as of {as_of} in `{}`, sha256 {digest}", args.file.display()));
    }
    Ok(())
}

fn table_of(args: &ExportArgs) -> Result<Option<TableWriter>, CliError> {
    let extension = args.file.extension().and_then(|extension| extension.to_str()).unwrap_or_default().to_lowercase();
    match (extension.as_str(), &args.mapping) {
        ("csv" | "tsv", Some(mapping)) => {
            let (text, bytes) = MappingText::load(mapping).map_err(CliError::input)?;
            TableWriter::new(&text, bytes, extension == "tsv").map(Some).map_err(CliError::failed)
        }
        ("csv" | "tsv", None) => Err(CliError::usage(
            "a table needs --mapping FILE, which says which field is which column; `daftar import --example-mapping` shows one",
        )),
        ("ndjson" | "jsonl", None) => Ok(None),
        (_, Some(_)) => Err(CliError::usage("--mapping is for tables: files whose names end with `.csv` or `.tsv`")),
        _ => Err(CliError::usage(format!(
            "`{}` says by its name what it will hold: `.ndjson` or `.jsonl` one JSON object a line, `.csv` or `.tsv` a table",
            args.file.display()
        ))),
    }
}

fn query(args: &ExportArgs, is_table: bool) -> Result<String, CliError> {
    let mut query = form_urlencoded::Serializer::new(String::new());
    for kind in &args.kinds {
        query.append_pair("type", kind.name());
    }
    if is_table {
        query.append_pair("codes", "object");
    }
    if args.with_meta {
        query.append_pair("meta", "true");
    }
    if let Some(language) = &args.language {
        query.append_pair("language", language);
    }
    for filter in &args.filter {
        let Some((name, value)) = filter.split_once('=') else {
            return Err(CliError::usage(format!("--filter `{filter}` is written NAME=VALUE")));
        };
        query.append_pair(name, value);
    }
    Ok(query.finish())
}

/// Writes what arrives; says as of which instant it is.
fn receive(
    admin: &AdminClient,
    query: &str,
    table: Option<&TableWriter>,
    file: &mut OutputFile,
    bar: &ProgressBar,
) -> Result<String, CliError> {
    let mut path = format!("/export?{query}");
    if let Some(cursor) = file.cursor() {
        let cursor: String = form_urlencoded::Serializer::new(String::new()).append_pair("cursor", cursor).finish();
        path = format!("{path}&{cursor}");
    } else if let Some(table) = table {
        file.write(&table.header().map_err(CliError::failed)?)?;
    }
    let before = file.records();
    for line in BufReader::with_capacity(1 << 18, admin.download("GET", &path, Payload::Empty)?).lines() {
        let line = line.map_err(|error| CliError::unavailable(format!("the server went away: {error}")))?;
        if line.starts_with("{\"$export\":") {
            let told: ExportLine = serde_json::from_str(&line).map_err(|_| unexpected())?;
            let (cursor, records) = match &told.export {
                ExportProgress::Stopped { stopped } => return Err(CliError::unavailable(&stopped.detail)),
                ExportProgress::Done { records, .. } => (None, *records),
                ExportProgress::Cursor { cursor, records } => (Some(cursor.as_str()), *records),
            };
            let records = before.saturating_add(records);
            bar.set_message(format!("{records} records"));
            bar.tick();
            file.advance(cursor, records)?;
            if let ExportProgress::Done { as_of, .. } = told.export {
                return Ok(as_of);
            }
            continue;
        }
        match table {
            Some(table) => {
                let record: Value = serde_json::from_str(&line).map_err(|_| unexpected())?;
                file.write(&table.row(&record).map_err(CliError::failed)?)?;
            }
            None => {
                file.write(line.as_bytes())?;
                file.write(b"\n")?;
            }
        }
    }
    Err(CliError::unavailable("the server went away before all was sent"))
}

fn unexpected() -> CliError {
    CliError::failed("the server's answer is none to an export: is it an older one?")
}
