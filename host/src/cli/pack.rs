//! `daftar pack`

use std::path::{Path, PathBuf};

use clap::{Args, Subcommand, ValueEnum};
use indicatif::ProgressBar;
use serde_json::{Value, json};

use super::plugin::say_signed;
use super::{CliError, GlobalArgs, output};
use crate::app::packs::{
    self, About, BuildError, ImportError, ImportFailure, ImportFormat, ImportOptions, ImportReport, PackErrors,
    PackProblem, Progress,
};
use crate::app::plugin_files::{self, PrivateKey};

/// Operations on vocabulary packs.
#[derive(Debug, Subcommand)]
pub enum PackCommand {
    /// Build a pack from a folder of plain files; needs no compiler
    Build {
        /// Folder with `pack.toml`, codes and labels
        dir: PathBuf,
        /// File to write
        #[arg(short, long, value_name = "FILE")]
        output: PathBuf,
        /// Pack whose data the folder replaces: what the folder does not have (other vocabularies, concept groups,
        /// extension fields) is taken from it
        #[arg(long, value_name = "FILE")]
        base: Option<PathBuf>,
        /// Private key to sign the pack with; the signature is left beside it in `FILE.sig`
        #[arg(long, value_name = "KEY")]
        sign: Option<PathBuf>,
    },
    /// Make a folder of plain files from a file that the owner of a list publishes
    Import(Box<ImportArgs>),
    /// Validate a folder without building a pack
    Check {
        /// Folder with `pack.toml`, codes and labels
        dir: PathBuf,
    },
}

/// Runs the command.
pub fn run(global: &GlobalArgs, command: PackCommand) -> Result<(), CliError> {
    match command {
        PackCommand::Build { dir, output: file, base, sign } => {
            expect_folder(&dir)?;
            // The key is read first, so that no pack is written without its signature.
            let key = sign.as_deref().map(PrivateKey::read).transpose().map_err(CliError::input)?;
            let bytes = packs::build(&dir, base.as_deref()).map_err(|error| match error {
                BuildError::Source(errors) => reported(global, &errors),
                BuildError::Host(_) => CliError::failed(error),
            })?;
            packs::write_file(&file, &bytes).map_err(|error| CliError::cannot_write(&file, &error))?;
            let signature = key.map(|key| plugin_files::sign(&file, &bytes, &key)).transpose();
            let signature = signature.map_err(CliError::failed)?;
            if global.json {
                let key = signature.map(|signature| signature.key().to_string());
                output::json(&json!({"file": file, "bytes": bytes.len(), "key_id": key}));
            } else {
                output::line(format_args!("wrote {} ({} bytes)", file.display(), bytes.len()));
                if let Some(signature) = &signature {
                    say_signed(&file, signature);
                }
            }
        }
        PackCommand::Import(args) => import(global, *args)?,
        PackCommand::Check { dir } => {
            expect_folder(&dir)?;
            let codes = packs::check(&dir).map_err(|errors| reported(global, &errors))?;
            let words = format_args!("{} is valid: {codes} codes", dir.display());
            output::done(global, &json!({"codes": codes}), words);
        }
    }
    Ok(())
}

/// Checks that the source folder exists: problems of a source only refer to its files.
fn expect_folder(dir: &Path) -> Result<(), CliError> {
    match std::fs::metadata(dir) {
        Ok(about) if about.is_dir() => Ok(()),
        Ok(_) => Err(CliError::input(format_args!("`{}` is no folder: name the one with `pack.toml`", dir.display()))),
        Err(error) => Err(CliError::cannot_read(dir, &error)),
    }
}

/// Returns the problem with a source as the command's error; with JSON, the list is printed and the error is short.
fn reported(global: &GlobalArgs, errors: &PackErrors) -> CliError {
    if !global.json {
        return CliError::input(errors);
    }
    let problem = |problem: &PackProblem| {
        let file = (!problem.file.is_empty()).then_some(&problem.file);
        json!({"file": file, "line": problem.line, "code": problem.code, "message": problem.reason})
    };
    let problems: Vec<Value> = errors.problems().iter().map(problem).collect();
    let count = problems.len().saturating_add(errors.left_out());
    output::json(&json!({"problems": problems, "left_out": errors.left_out()}));
    CliError::input(format!("{count} problems; `problems` on standard output lists them"))
}

/// Source and result of an import.
#[derive(Debug, Args)]
pub struct ImportArgs {
    /// Layout of the file
    #[arg(value_enum)]
    format: Format,
    /// The file, plain or packed with gzip
    file: PathBuf,
    /// Folder that is written; it does not exist yet, or is empty
    #[arg(short, long, value_name = "DIR")]
    output: PathBuf,
    /// Replace the source of a pack that is in the folder
    #[arg(long)]
    replace: bool,
    /// SKOS: take these concepts and their descendants, separated by commas; repeatable
    #[arg(long, value_name = "CODE", value_delimiter = ',')]
    root: Vec<String>,
    /// Take labels in these languages, the default one first, separated by commas; repeatable
    #[arg(long, value_name = "TAG", value_delimiter = ',')]
    language: Vec<String>,
    /// Take this vocabulary only, of a file with several
    #[arg(long, value_name = "NAMESPACE")]
    only: Vec<String>,
    /// ICD-11: leave the chapter of extension codes (X) out
    #[arg(long)]
    without_extension_codes: bool,
    /// Skip rejected rows, and list them
    #[arg(long)]
    leave_out_refused: bool,
    /// The pack's name
    #[arg(long, value_name = "NAME")]
    name: Option<String>,
    /// The pack's version
    #[arg(long, value_name = "VERSION")]
    pack_version: Option<String>,
    /// Content of the pack, in one sentence
    #[arg(long, value_name = "TEXT")]
    description: Option<String>,
    /// The URI that the codes live under
    #[arg(long, value_name = "URI")]
    namespace: Option<String>,
    /// The vocabulary's name
    #[arg(long, value_name = "TEXT")]
    title: Option<String>,
    /// The field that the vocabulary belongs to, such as Health
    #[arg(long, value_name = "TEXT")]
    domain: Option<String>,
    /// The version that records keep beside a code
    #[arg(long, value_name = "TEXT")]
    edition: Option<String>,
    /// Which release of which publication
    #[arg(long, value_name = "TEXT")]
    source: Option<String>,
    /// The licence of the data
    #[arg(long, value_name = "TEXT")]
    licence: Option<String>,
    /// The acknowledgement that the publisher requires
    #[arg(long, value_name = "TEXT")]
    attribution: Option<String>,
}

/// A layout.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Format {
    /// WHO SimpleTabulation or LinearizationMiniOutput, of ICD-11 or ICF
    WhoTabulation,
    /// ILO ISCO-08, "ISCO-08 EN.csv" or the sheet "Structure and definitions" saved as CSV
    IscoCsv,
    /// SKOS or SKOS-XL; N-Triples or Turtle by the file's name
    Skos,
    /// SKOS or SKOS-XL as N-Triples
    SkosNt,
    /// SKOS or SKOS-XL as Turtle
    SkosTtl,
    /// SIX list one: the currencies of ISO 4217
    SixXml,
    /// A list of iso-codes: 3166-1, 639-2, 639-3 or 4217
    IsoJson,
    /// SIL's iso-639-3.tab
    SilTab,
    /// A FHIR CodeSystem, R4 or R5, as JSON
    Fhir,
    /// A table of our own: code, parents, labels by language, uri, status and more
    Tsv,
    /// The same table as a spreadsheet saves it: CSV, in UTF-8
    Csv,
}

impl Format {
    fn of_file(self, file: &Path) -> ImportFormat {
        match self {
            Self::WhoTabulation => ImportFormat::WhoTabulation,
            Self::IscoCsv => ImportFormat::IscoCsv,
            Self::Skos => {
                let name = file.file_name().map(|name| name.to_string_lossy().to_lowercase()).unwrap_or_default();
                let name = name.strip_suffix(".gz").unwrap_or(&name);
                let is_turtle = name.ends_with(".ttl") || name.ends_with(".turtle");
                if is_turtle { ImportFormat::SkosTurtle } else { ImportFormat::SkosNTriples }
            }
            Self::SkosNt => ImportFormat::SkosNTriples,
            Self::SkosTtl => ImportFormat::SkosTurtle,
            Self::SixXml => ImportFormat::SixXml,
            Self::IsoJson => ImportFormat::IsoJson,
            Self::SilTab => ImportFormat::SilTab,
            Self::Fhir => ImportFormat::Fhir,
            Self::Tsv => ImportFormat::Tsv,
            Self::Csv => ImportFormat::Csv,
        }
    }
}

/// Runs the command.
fn import(global: &GlobalArgs, args: ImportArgs) -> Result<(), CliError> {
    let format = args.format.of_file(&args.file);
    let options = ImportOptions {
        about: About {
            pack_name: args.name,
            pack_version: args.pack_version,
            description: args.description,
            namespace: args.namespace,
            title: args.title,
            domain: args.domain,
            edition: args.edition,
            source: args.source,
            licence: args.licence,
            attribution: args.attribution,
        },
        languages: args.language,
        roots: args.root,
        only: args.only,
        without_extension_codes: args.without_extension_codes,
        leave_out_refused: args.leave_out_refused,
    };
    let template = "{msg} [{wide_bar}] {bytes}/{total_bytes} {bytes_per_sec} {eta}";
    let mut bar = Bar { bar: output::bar(global.json, 0, template), pass: 0 };
    let imported = packs::import(format, &args.file, &args.output, &options, args.replace, &mut bar);
    bar.bar.finish_and_clear();
    let report = imported.map_err(|failure| import_failed(global, failure))?;
    if global.json {
        output::json(&output::joined(json!({"folder": args.output}), json!(report)));
    } else {
        print(&report, &args.output);
    }
    Ok(())
}

/// A progress bar on standard error, visible if standard error is a terminal.
struct Bar {
    bar: ProgressBar,
    pass: u32,
}

impl Progress for Bar {
    fn begin(&mut self, bytes: u64) {
        self.pass += 1;
        self.bar.set_length(bytes);
        self.bar.set_position(0);
        self.bar.set_message(format!("pass {}", self.pass));
    }

    fn advance(&mut self, bytes: u64) {
        self.bar.inc(bytes);
    }
}

fn import_failed(global: &GlobalArgs, failure: ImportFailure) -> CliError {
    match failure {
        ImportFailure::Source(errors) => reported(global, &errors),
        ImportFailure::File(ImportError::Refused { file, refusals, left_out, ended }) if global.json => {
            let count = left_out.saturating_add(refusals.len() as u64);
            let ended = ended.map(|ended| ended.to_string());
            output::json(&json!({"file": file, "refused": refusals, "left_out": left_out, "ended": ended}));
            CliError::input(format!("{count} rows are refused; nothing was written"))
        }
        failure => {
            let message = format!("{failure}\nnothing was written");
            match failure {
                ImportFailure::File(ImportError::Option { .. } | ImportError::Missing { .. }) => {
                    CliError::usage(message)
                }
                ImportFailure::File(ImportError::Write { .. })
                | ImportFailure::Taken(_)
                | ImportFailure::WouldLose { .. }
                | ImportFailure::Write { .. } => CliError::output(message),
                ImportFailure::File(ImportError::Refused { .. } | ImportError::Unusable { .. })
                | ImportFailure::Source(_) => CliError::input(message),
            }
        }
    }
}

fn print(report: &ImportReport, folder: &Path) {
    output::line(format_args!("read {} rows", report.rows_read));
    for vocabulary in &report.vocabularies {
        let languages: Vec<String> =
            vocabulary.labels.iter().map(|(language, count)| format!("{language} {count}")).collect();
        output::line(format_args!(
            "imported {} codes of {} ({}), {} of them for records; {} top-level codes, {} further levels; labels: {}",
            vocabulary.codes,
            vocabulary.namespace,
            vocabulary.edition,
            vocabulary.selectable,
            vocabulary.tops,
            vocabulary.depth,
            languages.join(", ")
        ));
    }
    for rule in &report.left_out {
        output::line(format_args!("left out {}: {}", rule.rows, rule.rule));
    }
    for refusal in &report.refused {
        match refusal.line {
            Some(line) => output::line(format_args!("refused, line {line}: {refusal}")),
            None => output::line(format_args!("refused: {refusal}")),
        }
    }
    if report.refused_unlisted > 0 {
        output::line(format_args!("refused {} more", report.refused_unlisted));
    }
    if report.texts_changed > 0 {
        output::line(format_args!("changed white space or Unicode form of {} texts", report.texts_changed));
    }
    for note in &report.notes {
        output::line(format_args!("note: {note}"));
    }
    let (folder, name, version) = (folder.display(), &report.pack_name, &report.pack_version);
    output::line(format_args!("wrote {folder}: {name} {version}; `daftar pack build {folder} -o FILE` makes the pack"));
}
