//! `daftar export`
//!
//! **Invariant:** a file with the requested name is a complete export. An incomplete export is named `FILE.partial`, is
//! accessible to its owner only, and has a `FILE.progress.json` next to it with the position to resume from.

mod output_file;
mod reporting;
mod reporting_file;

use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};

use clap::{Args, ValueEnum};
use indicatif::ProgressBar;
use serde_json::{Value, json};

use self::output_file::OutputFile;
use super::admin_client::{AdminClient, Payload};
use super::error::ErrorKind;
use super::table::{Mapping, MappingText};
use super::{CliError, GlobalArgs, output};
use daftar_api_types::admin::operation::{ExportLine, ExportProgress};

/// The types of records.
const KINDS: [&str; 5] = ["Individual", "Group", "Program", "ProgramMembership", "Consent"];

/// The form of several files; that of one file follows from its name.
#[derive(Debug, Clone, Copy, ValueEnum)]
enum Format {
    /// A Parquet file for each table, with codes and their labels
    Parquet,
}

/// Options of an export.
#[derive(Debug, Args)]
pub struct ExportArgs {
    /// The file: one JSON object a line (`.ndjson`, `.jsonl`), or a table (`.csv`, `.tsv`) by a mapping
    #[arg(value_name = "FILE", required_unless_present = "format", conflicts_with_all = ["format", "out"])]
    file: Option<PathBuf>,
    /// Tables for analysts in place of FILE: `individual.parquet` and others in the folder of --out
    #[arg(long, value_enum, requires = "out", conflicts_with_all = ["mapping", "with_meta", "resume"])]
    format: Option<Format>,
    /// The folder of the tables; it is made, or it is empty
    #[arg(long, value_name = "DIR", requires = "format")]
    out: Option<PathBuf>,
    /// Only records of these types, separated by commas; repeatable
    #[arg(long = "type", value_parser = KINDS, value_delimiter = ',')]
    kinds: Vec<String>,
    /// Only individuals that a search finds, as its parameters: `gender=urn:iso:std:iso:5218#2`; repeatable
    #[arg(long, value_name = "NAME=VALUE")]
    filter: Vec<String>,
    /// Which field is which column of a table; the mapping of an import, the other way round
    #[arg(long, value_name = "FILE")]
    mapping: Option<PathBuf>,
    /// The language of labels of codes in tables and Parquet files
    #[arg(long, value_name = "TAG")]
    language: Option<String>,
    /// With `meta`: an import with --on-existing update replaces these versions alone
    #[arg(long)]
    with_meta: bool,
    /// Resume an interrupted export to this file; not with --filter
    #[arg(long, conflicts_with = "filter")]
    resume: bool,
}

/// Runs the command.
pub fn run(global: &GlobalArgs, args: &ExportArgs) -> Result<(), CliError> {
    match (args.format, &args.out, &args.file) {
        (Some(Format::Parquet), Some(out), _) => reporting::run(global, args, out),
        (_, _, Some(file)) => write_file(global, args, file),
        // The argument parser rejects this combination.
        _ => Err(CliError::usage("name a FILE, or --format parquet --out DIR")),
    }
}

fn write_file(global: &GlobalArgs, args: &ExportArgs, path: &Path) -> Result<(), CliError> {
    let table = table_of(args, path)?;
    let query = query(args, table.is_some())?;
    // An export resumes only with the same options.
    let options = format!("{query}\n{}", table.as_ref().map(|table| table.fingerprint.as_str()).unwrap_or_default());
    // A search that runs again may find other individuals.
    let requested = FileRequest { query: &query, table: table.as_ref(), can_resume: args.filter.is_empty() };
    // First: without a server or folder, no file is created.
    let (file, as_of) = AdminClient::connect(global)?.run(|admin| {
        let mut file = OutputFile::open(path, &options, args.resume)?;
        let bar = if global.json { ProgressBar::hidden() } else { ProgressBar::new_spinner() };
        let received = receive(admin, &requested, &mut file, &bar);
        bar.finish_and_clear();
        match received {
            Ok(as_of) => Ok((file, as_of)),
            Err(error) => Err(interrupted(error, &requested, file, path)),
        }
    })?;
    let records = file.progress.records;
    let digest = file.finish()?;
    let path = path.display();
    let body = json!({"records": records, "as_of": as_of, "sha256": digest, "file": path.to_string()});
    output::done(global, &body, format_args!("{records} records as of {as_of} in `{path}`, sha256 {digest}"));
    Ok(())
}

/// A requested export to one file.
struct FileRequest<'a> {
    /// The parameters of the request.
    query: &'a str,
    /// The form of the records; lines of JSON if there is none.
    table: Option<&'a TableWriter>,
    /// True if the export resumes after an interruption.
    can_resume: bool,
}

/// Returns the error of an incomplete export with the next step. The written part is removed if no export resumes it.
fn interrupted(error: CliError, requested: &FileRequest<'_>, file: OutputFile, path: &Path) -> CliError {
    // A record that the mapping cannot write is in a resumed export, too.
    if file.has_begun() && error.kind != ErrorKind::Input {
        return error.with(format_args!(
            "the written part is kept: `daftar export --resume {}` resumes, with the same other options",
            path.display()
        ));
    }
    file.discard();
    if requested.can_resume || error.kind != ErrorKind::Unavailable {
        return error;
    }
    error.with("an export with --filter does not resume, and the written part is removed: start it again")
}

fn table_of(args: &ExportArgs, file: &Path) -> Result<Option<TableWriter>, CliError> {
    let extension = file.extension().and_then(|extension| extension.to_str()).unwrap_or_default().to_lowercase();
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
            file.display()
        ))),
    }
}

fn query(args: &ExportArgs, is_table: bool) -> Result<String, CliError> {
    let mut query = form_urlencoded::Serializer::new(String::new());
    query.extend_pairs(args.kinds.iter().map(|kind| ("type", kind)));
    query.extend_pairs(is_table.then_some(("codes", "object")));
    query.extend_pairs(args.with_meta.then_some(("meta", "true")));
    query.extend_pairs(args.language.as_ref().map(|language| ("language", language)));
    for filter in &args.filter {
        let Some((name, value)) = filter.split_once('=') else {
            return Err(CliError::usage(format!("--filter `{filter}` is written NAME=VALUE")));
        };
        query.append_pair(name, value);
    }
    Ok(query.finish())
}

/// Writes the received records; returns the timestamp of the snapshot.
fn receive(
    admin: &AdminClient,
    requested: &FileRequest<'_>,
    file: &mut OutputFile,
    bar: &ProgressBar,
) -> Result<String, CliError> {
    let table = requested.table;
    let mut path = format!("/export?{}", requested.query);
    if let Some(cursor) = &file.progress.cursor {
        let cursor: String = form_urlencoded::Serializer::new(String::new()).append_pair("cursor", cursor).finish();
        path = format!("{path}&{cursor}");
    } else if let Some(table) = table {
        file.write(&table.header().map_err(CliError::failed)?)?;
    }
    let before = file.progress.records;
    let mut received = before;
    read_lines(admin, &path, |line| match (line, table) {
        (Line::Progress { cursor, records }, _) => {
            let records = before.saturating_add(records);
            bar.set_message(format!("{records} records"));
            bar.tick();
            file.advance(cursor.filter(|_| requested.can_resume), records)
        }
        (Line::Record(line), Some(table)) => {
            let record: Value = serde_json::from_str(line).map_err(|_| CliError::none_to("an export"))?;
            received = received.saturating_add(1);
            file.write(&table.row(&record, received)?)
        }
        (Line::Record(line), None) => {
            file.write(line.as_bytes())?;
            file.write(b"\n")
        }
    })
}

/// Lines of an export.
enum Line<'a> {
    /// A record as JSON.
    Record(&'a str),
    /// Number of records sent so far, and the position to resume from; none at the end.
    Progress { cursor: Option<&'a str>, records: u64 },
}

/// Passes on each received line; returns the timestamp of the snapshot.
fn read_lines(
    admin: &AdminClient,
    path: &str,
    mut take: impl FnMut(Line<'_>) -> Result<(), CliError>,
) -> Result<String, CliError> {
    for line in BufReader::with_capacity(1 << 18, admin.download("GET", path, Payload::default())?).lines() {
        let line = line.map_err(|error| CliError::unavailable(format!("the server went away: {error}")))?;
        if !line.starts_with("{\"$export\":") {
            take(Line::Record(&line))?;
            continue;
        }
        let reported: ExportLine = serde_json::from_str(&line).map_err(|_| CliError::none_to("an export"))?;
        match reported.export {
            ExportProgress::Stopped { stopped } => return Err(CliError::unavailable(&stopped.detail)),
            ExportProgress::Cursor { cursor, records } => take(Line::Progress { cursor: Some(&cursor), records })?,
            ExportProgress::Done { records, as_of, .. } => {
                take(Line::Progress { cursor: None, records })?;
                return Ok(as_of);
            }
        }
    }
    Err(CliError::unavailable("the server went away before all was sent"))
}

/// Writes records as rows of a table.
pub struct TableWriter {
    mapping: Mapping,
    names: Vec<String>,
    /// Key that selects the table.
    fingerprint: String,
}

impl TableWriter {
    /// Creates a table from a mapping.
    ///
    /// # Errors
    /// The problem with the mapping.
    pub fn new(text: &MappingText, bytes: Vec<u8>, is_tabs: bool) -> Result<Self, String> {
        let names = text.header();
        let delimiter = text.delimiter()?.unwrap_or(if is_tabs { b'\t' } else { b',' });
        let mapping = text.written(&names, delimiter).map_err(|problems| problems.join("\n  "))?;
        if mapping.household.is_some() {
            return Err("a mapping with `[household]` reads tables and does not write them: export people and groups each by a mapping of their own".to_owned());
        }
        Ok(Self { mapping, names, fingerprint: String::from_utf8_lossy(&bytes).into_owned() })
    }

    /// Returns the header row.
    ///
    /// # Errors
    /// If the row cannot be written, which is a defect.
    pub fn header(&self) -> Result<Vec<u8>, String> {
        self.write(&self.names)
    }

    /// Returns the row of a record; empty if the record is of another type. `number` counts the records of the export
    /// from 1.
    ///
    /// # Errors
    /// If an import would read a cell as another value, with the column and the number of the record.
    pub fn row(&self, record: &Value, number: u64) -> Result<Vec<u8>, CliError> {
        if record.get("type").and_then(Value::as_str) != Some(self.mapping.kind.name()) {
            return Ok(Vec::new());
        }
        let mut cells = vec![String::new(); self.names.len()];
        for column in &self.mapping.columns {
            let Some(value) = column.path.get(record) else { continue };
            let cell = if column.writing.label { Ok(label(value)) } else { self.mapping.write(column, value) };
            let cell = cell.map_err(|problem| {
                CliError::input(format_args!(
                    "column `{}` of record {number} of the export cannot be written: {problem}; or export lines (`.ndjson`)",
                    column.name
                ))
            })?;
            if let Some(place) = cells.get_mut(column.at) {
                *place = cell;
            }
        }
        self.write(&cells).map_err(CliError::failed)
    }

    fn write(&self, cells: &[String]) -> Result<Vec<u8>, String> {
        let mut writer = csv::WriterBuilder::new().delimiter(self.mapping.delimiter).from_writer(Vec::new());
        writer.write_record(cells).map_err(|error| error.to_string())?;
        writer.into_inner().map_err(|error| error.to_string())
    }
}

/// Returns the label of a code.
fn label(value: &Value) -> String {
    let one = |value: &Value| value.get("display").and_then(Value::as_str).unwrap_or_default().to_owned();
    let labels = match value {
        Value::Array(items) => items.iter().map(one).collect::<Vec<_>>().join("; "),
        other => one(other),
    };
    crate::cli::table::value::guarded(&labels)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn rows_are_written_by_the_mapping_that_reads_them() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("m.toml");
        let toml = r#"
            [[column]]
            name = "id"
            field = "identifier[urn:x:id]"
            [[column]]
            name = "name"
            field = "name.given"
            [[column]]
            name = "born"
            field = "birth_date"
            date = ["%d/%m/%Y"]
            [[column]]
            name = "sex"
            field = "gender"
            codes = { F = "urn:iso:std:iso:5218#2" }
            [[column]]
            name = "sex_label"
            field = "gender"
            label = true
            [[column]]
            name = "languages"
            field = "languages"
            system = "urn:x:l"
        "#;
        std::fs::write(&path, toml).unwrap();
        let (text, bytes) = MappingText::load(&path).unwrap();
        let table = TableWriter::new(&text, bytes, false).unwrap();
        let code = |uri: &str, display: &str| json!({"uri": uri, "code": "x", "display": display, "namespace": "n"});
        let record = json!({
            "type": "Individual", "identifier": [{"system": "urn:x:id", "value": "7"}], "name": {"given": "=A, \"b\""},
            "birth_date": "1990-03-07", "gender": code("urn:iso:std:iso:5218#2", "Female"),
            "languages": [code("urn:x:l#ne", "Nepali"), code("urn:y#en", "English")]
        });
        let written =
            [table.header().unwrap(), table.row(&record, 1).unwrap(), table.row(&json!({"type": "Group"}), 2).unwrap()];
        let text = String::from_utf8(written.concat()).unwrap();
        assert_eq!(
            text,
            "id,name,born,sex,sex_label,languages\n7,\"'=A, \"\"b\"\"\",07/03/1990,F,Female,ne;urn:y#en\n"
        );
    }

    #[test]
    fn a_row_that_an_import_reads_as_another_record_is_refused_with_its_column_and_record() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("m.toml");
        let toml = r#"
            empty = ["", "NA"]
            [[column]]
            name = "family"
            field = "name.family"
            [[column]]
            name = "lines"
            field = "address.line"
        "#;
        std::fs::write(&path, toml).unwrap();
        let (text, bytes) = MappingText::load(&path).unwrap();
        let table = TableWriter::new(&text, bytes, false).unwrap();
        let record = |family: &str, lines: Value| {
            json!({
                "type": "Individual", "identifier": [{"system": "urn:x:id", "value": "7"}],
                "name": {"family": family}, "address": [{"line": lines}]
            })
        };
        assert_eq!(table.row(&record("Rai", json!(["House 4", "Block B"])), 1).unwrap(), b"Rai,House 4;Block B\n");
        for (refused, column, remedy) in [
            (record("NA", json!([])), "column `family`", "remove `NA` from `empty`"),
            (record("Rai", json!(["House 4; Block B"])), "column `lines`", "a `separator` that no item contains"),
        ] {
            let error = table.row(&refused, 7).unwrap_err();
            assert_eq!(error.kind, ErrorKind::Input);
            for part in [column, "record 7 of the export", remedy] {
                assert!(error.message.contains(part), "{part}: {error}");
            }
        }
    }
}
