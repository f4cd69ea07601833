//! `daftar backup`

use std::fs::File;
use std::io::{self, BufReader, BufWriter, IsTerminal, Read, Write};
use std::path::{Path, PathBuf};

use clap::Args;
use indicatif::ProgressBar;
use serde_json::{Value, json};
use tempfile::NamedTempFile;

use super::admin_client::{AdminClient, Payload};
use super::{CliError, GlobalArgs, output};
use crate::app::packs::{folder_of, persist};
use crate::app::plugin_files::PrivateKey;
use daftar_domain::config::Config;
use daftar_domain::plugin_key::PluginKey;
use daftar_service::backup::{
    Authenticity, BackupProblem, BackupSignature, BackupTrust, Contents, Depth, FORMAT, Head, inspect,
};

/// The largest file with a public key that is read, in bytes.
const KEY_FILE_BYTES_MAX: u64 = 16 << 10;

/// State of standard output after a failure: its first part is already written.
const INCOMPLETE_OUTPUT: &str = "the output is incomplete and must be discarded";

/// Source and destination of a backup.
#[derive(Debug, Args)]
pub struct BackupArgs {
    /// Output file; `-` for standard output
    file: PathBuf,
    /// Overwrite an existing file
    #[arg(long)]
    force: bool,
    /// Exclude the keys that sign tokens and protect client secrets
    #[arg(long)]
    without_keys: bool,
    /// Sign it with this private key, as `plugin keygen` wrote it; the server never sees the key
    #[arg(long, value_name = "KEY")]
    sign: Option<PathBuf>,
    /// Create no backup: read all of FILE and print its contents, validity and signer
    #[arg(long, conflicts_with_all = ["force", "without_keys", "sign"])]
    check: bool,
    /// With --check: reject a backup that is not signed by this public key; `ed25519:…`, or a file with that line or a
    /// PEM
    #[arg(long, value_name = "KEY", requires = "check")]
    trusted_key: Option<String>,
}

/// Runs the command.
pub fn run(global: &GlobalArgs, args: &BackupArgs) -> Result<(), CliError> {
    if args.check {
        return check(global, &args.file, args.trusted_key.as_deref());
    }
    let key = args.sign.as_deref().map(PrivateKey::read).transpose().map_err(CliError::input)?;
    let is_stdout = is_standard_output(&args.file);
    if !is_stdout && !args.force && args.file.exists() {
        return Err(taken(&args.file));
    }
    let temporary = if is_stdout { None } else { Some(temporary(&args.file)?) };
    let admin = AdminClient::connect(global)?;
    let made = make(global, &admin, args, key.as_ref(), temporary);
    admin.close();
    let contents = made?;
    if global.json {
        let summary = json_of(&contents, &args.file);
        if is_stdout { output::complain_json(&summary) } else { output::json(&summary) }
    } else if is_stdout {
        output::note(format_args!("wrote the register as of write {}", contents.head.sequence));
    } else {
        output::line(format_args!("wrote `{}`", args.file.display()));
        print(&contents);
        if let Some(signature) = &contents.signature {
            output::line(format_args!("signed with the key {}", signature.key()));
        }
    }
    Ok(())
}

/// True if the backup goes to standard output.
fn is_standard_output(file: &Path) -> bool {
    file == Path::new("-")
}

/// Creates a temporary file in the same folder, readable by its owner only.
fn temporary(file: &Path) -> Result<NamedTempFile, CliError> {
    let mut options = tempfile::Builder::new();
    let made = options.prefix(".daftar-backup-").suffix(".unfinished").tempfile_in(folder_of(file));
    made.map_err(|error| cannot_write(file, &error))
}

/// Creates a backup, on standard output if no file is passed. The file gets its name only after all its data is on
/// disk.
fn make(
    global: &GlobalArgs,
    admin: &AdminClient,
    args: &BackupArgs,
    key: Option<&PrivateKey>,
    temporary: Option<NamedTempFile>,
) -> Result<Contents, CliError> {
    let path = if args.without_keys { "/backup?keys=false" } else { "/backup" };
    let from = BufReader::new(admin.download("POST", path, Payload::default())?);
    let Some(mut temporary) = temporary else { return copy(global, args, key, from, io::stdout().lock()) };
    let contents = copy(global, args, key, from, temporary.as_file_mut())?;
    let named = persist(temporary, &args.file, args.force);
    named.map_err(|error| match error.kind() {
        io::ErrorKind::AlreadyExists => taken(&args.file),
        _ => cannot_write(&args.file, &error),
    })?;
    Ok(contents)
}

/// Copies a backup and checks its blocks: an interrupted or modified backup is detected here. If a key is passed, the
/// received bytes are signed at the end.
fn copy(
    global: &GlobalArgs,
    args: &BackupArgs,
    key: Option<&PrivateKey>,
    from: impl Read,
    to: impl Write,
) -> Result<Contents, CliError> {
    let failed = |error: io::Error| cannot_write(&args.file, &error);
    let mut to = BufWriter::new(to);
    let mut progress = Progress::new(global.json, "backed up");
    let mut copying = Copying { from, to: &mut to, failed: None };
    let inspected = inspect(&mut copying, Depth::Blocks, &mut |head, things| progress.at(head, things));
    drop(progress);
    if let Some(error) = copying.failed {
        return Err(failed(error));
    }
    let mut contents = inspected.map_err(|problem| {
        let reason = match problem {
            BackupProblem::Io(_) | BackupProblem::CutOff { .. } => "the log of the server says why".to_owned(),
            problem => problem.to_string(),
        };
        let outcome = if is_standard_output(&args.file) { INCOMPLETE_OUTPUT } else { "nothing was written" };
        CliError::failed(format!("the backup was interrupted, and {outcome}: {reason}"))
    })?;
    if let Some(key) = key {
        let signature = BackupSignature::sign(key, &contents.checksum);
        let line = signature.line();
        to.write_all(line.as_bytes()).map_err(failed)?;
        contents.bytes = contents.bytes.saturating_add(u64::try_from(line.len()).unwrap_or(u64::MAX));
        contents.signature = Some(signature);
    }
    to.flush().map_err(failed)?;
    Ok(contents)
}

/// A reader that copies all bytes read to a writer.
struct Copying<R, W> {
    from: R,
    to: W,
    /// Write error, if any.
    failed: Option<io::Error>,
}

impl<R: Read, W: Write> Read for Copying<R, W> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let read = self.from.read(buffer)?;
        if let Err(error) = self.to.write_all(buffer.get(..read).unwrap_or_default()) {
            self.failed = Some(error);
            return Err(io::Error::other("what was read could not be written"));
        }
        Ok(read)
    }
}

/// Reads a complete backup and prints its contents and its signer.
///
/// # Errors
/// The error of the backup or of its signature.
pub(super) fn check(global: &GlobalArgs, file: &Path, trusted_key: Option<&str>) -> Result<(), CliError> {
    let config = global.config()?;
    let trust = trust_of(&config, trusted_key)?;
    let contents = check_file(global, file)?;
    let authenticity = trust.judge(&contents);
    let authenticity = authenticity.map_err(|problem| CliError::input(format!("`{}`: {problem}", file.display())))?;
    if global.json {
        let signature = json!({"signature": name_of(authenticity)});
        output::json(&output::joined(json_of(&contents, file), signature));
    } else {
        output::line(format_args!("`{}` is valid and can be restored completely", file.display()));
        print(&contents);
        print_authenticity(authenticity);
    }
    Ok(())
}

/// Trusted signers of backups: the named key, or the keys of the configuration that may sign backups.
pub(super) fn trust_of(config: &Config, trusted_key: Option<&str>) -> Result<BackupTrust, CliError> {
    let Some(text) = trusted_key else {
        let keys = config.plugins.trusted_keys.iter().filter(|key| key.may_sign_backups());
        return Ok(BackupTrust::configured(keys.map(|key| key.key().clone()).collect()));
    };
    if let Ok(key) = PluginKey::parse(text) {
        return Ok(BackupTrust::required(key));
    }
    let path = Path::new(text);
    let mut read = String::new();
    let opened = File::open(path).and_then(|file| file.take(KEY_FILE_BYTES_MAX).read_to_string(&mut read));
    opened.map_err(|error| CliError::cannot_read(path, &error))?;
    let key = PluginKey::parse(&read).map_err(|error| CliError::input(format!("`{}`: {error}", path.display())))?;
    Ok(BackupTrust::required(key))
}

fn check_file(global: &GlobalArgs, file: &Path) -> Result<Contents, CliError> {
    let opened = open(file)?;
    let mut progress = Progress::new(global.json, "checked");
    let inspected = inspect(BufReader::new(opened), Depth::Everything, &mut |head, things| progress.at(head, things));
    drop(progress);
    inspected.map_err(|problem| CliError::input(format!("`{}`: {problem}", file.display())))
}

/// Opens a backup.
///
/// # Errors
/// When the file does not exist or cannot be read.
pub(super) fn open(file: &Path) -> Result<File, CliError> {
    let opened = File::open(file).and_then(|opened| {
        if opened.metadata()?.is_dir() { Err(io::ErrorKind::IsADirectory.into()) } else { Ok(opened) }
    });
    opened.map_err(|error| CliError::cannot_read(file, &error))
}

fn taken(file: &Path) -> CliError {
    CliError::output(format!(
        "`{}` is there already, and was left as it is: name another file, or replace it with --force",
        file.display()
    ))
}

fn cannot_write(file: &Path, error: &io::Error) -> CliError {
    let left = if is_standard_output(file) { INCOMPLETE_OUTPUT } else { "no backup was left under that name" };
    CliError::cannot_write(file, error).with(left)
}

/// The contents as JSON.
pub(in crate::cli) fn json_of(contents: &Contents, file: &Path) -> Value {
    let Contents { head, counts, blocks, bytes, checksum, signature } = contents;
    json!({
        "file": file, "format": FORMAT, "daftar": head.daftar, "register": head.register, "sequence": head.sequence, "at": head.at, "keys": head.keys,
        "counts": counts, "blocks": blocks, "bytes": bytes, "checksum": checksum.to_hex(),
        "signed_by": signature.as_ref().map(|signature| signature.key().to_string()),
    })
}

/// Prints the contents.
pub(in crate::cli) fn print(contents: &Contents) {
    let Contents { head, counts, bytes, checksum, .. } = contents;
    output::line(format_args!(
        "the register {} as of write {}, {}, by daftar {}",
        head.register, head.sequence, head.at, head.daftar
    ));
    for (name, count) in counts {
        output::line(format_args!("  {:<22} {count}", name.replace('_', " ")));
    }
    output::line(format_args!("{bytes} bytes, checksum {}", checksum.to_hex()));
    output::line(if head.keys {
        "it contains the keys: a holder of the file can issue tokens and read the register; protect it like the server"
    } else {
        "the keys are not in it: keep the folder `keys` of the server too, as no client's secret is good without it"
    });
}

/// Signer of a backup, as a machine-readable word.
pub(in crate::cli) const fn name_of(authenticity: Authenticity) -> &'static str {
    match authenticity {
        Authenticity::Signed(_) => "verified",
        Authenticity::UnknownKey(_) => "not_verified",
        Authenticity::Unsigned => "none",
    }
}

/// Prints the signer of a backup.
pub(in crate::cli) fn print_authenticity(authenticity: Authenticity) {
    match authenticity {
        Authenticity::Signed(key) => output::line(format_args!("signed by the trusted key {key}")),
        Authenticity::UnknownKey(key) => output::line(format_args!(
            "signed by the key {key}; the signature was NOT verified, as no key is trusted for backups: name one with --trusted-key, or in `[plugins] trusted_keys` with --config"
        )),
        Authenticity::Unsigned => output::line(
            "there is NO signature: checksums detect damage, not a deliberate change (`daftar backup --sign KEY` signs)",
        ),
    }
}

/// Minimum number of items for which progress is printed.
const REPORTED_FROM: u64 = 10_000;

/// Prints the progress of an operation.
pub(in crate::cli) struct Progress {
    bar: ProgressBar,
    /// Name of the completed operation, such as `backed up`.
    done: &'static str,
    says_lines: bool,
    tenths: u64,
}

impl Progress {
    /// Starts at zero. No progress is printed when the command writes JSON.
    pub(in crate::cli) fn new(is_json: bool, done: &'static str) -> Self {
        let is_terminal = std::io::stderr().is_terminal();
        let bar = output::bar(is_json, 0, "{msg} [{wide_bar}] {human_pos}/~{human_len} {per_sec} {eta}");
        Self { bar: bar.with_message(done), done, says_lines: !is_json && !is_terminal, tenths: 0 }
    }

    /// Reports the number of completed items.
    pub(in crate::cli) fn at(&mut self, head: &Head, things: u64) {
        self.at_about(head.about(), things);
    }

    /// Reports the number of completed items and the approximate total.
    pub(in crate::cli) fn at_about(&mut self, about: u64, things: u64) {
        let about = about.max(things);
        self.bar.set_length(about);
        self.bar.set_position(things);
        let tenths = things.saturating_mul(10).checked_div(about).unwrap_or_default();
        if self.says_lines && about >= REPORTED_FROM && tenths > self.tenths {
            self.tenths = tenths;
            output::note(format_args!("{} {things} of about {about} things", self.done));
        }
    }
}

impl Drop for Progress {
    fn drop(&mut self) {
        self.bar.finish_and_clear();
    }
}
