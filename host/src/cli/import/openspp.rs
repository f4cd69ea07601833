//! `daftar import --from openspp`: what OpenSPP's API says of people and groups, as lines that an import takes.
//!
//! The file is read several times: who is in which group, then the people, then the groups, since a line may refer to earlier ones
//! alone. The lines go to a file beside it, which is imported as any other; what has no place in a record here goes to another.
//!
//! **Invariant:** nothing is lost silently. A member of an object that nothing takes is told with its value; a value that
//! is taken and not right is refused by the import, whose rejects keep the whole line.
//!
//! **Invariant:** the same file and options give the same lines, so that an import that was interrupted goes on.

mod codes;
mod fields;
mod group;
mod individual;
mod input;
mod places;
mod unplaced;

use std::collections::BTreeMap;
use std::io::{BufWriter, Write};
use std::path::{Path, PathBuf};

use serde_json::Value;
use tempfile::NamedTempFile;

use self::codes::Codes;
use self::input::{Input, Piece};
use self::places::Places;
use self::unplaced::{Lost, Why};
use super::beside;
use crate::cli::CliError;

/// How many fields are counted by themselves: their names come from the file.
const FIELDS_MAX: usize = 1_000;

/// The lines, and what is not in them.
#[derive(Debug)]
pub struct Translated {
    /// The file of lines.
    pub lines: PathBuf,
    /// The file of what has no place; none where everything has.
    pub unplaced: Option<PathBuf>,
    /// How often which field has none.
    pub counts: BTreeMap<String, u64>,
}

impl Translated {
    /// How many things have no place.
    pub fn count(&self) -> u64 {
        self.counts.values().sum()
    }

    /// In words; nothing where everything has its place.
    pub fn sentence(&self) -> Option<String> {
        let file = self.unplaced.as_ref()?;
        let mut counts: Vec<(&String, &u64)> = self.counts.iter().collect();
        counts.sort_by_key(|(field, count)| (std::cmp::Reverse(**count), *field));
        let shown: Vec<String> = counts.iter().take(8).map(|(field, count)| format!("{field} {count}")).collect();
        let more = if counts.len() > shown.len() { ", …" } else { "" };
        let count = self.count();
        Some(format!(
            "{count} values have no place in a record here and are kept in `{}` ({}{more})",
            file.display(),
            shown.join(", ")
        ))
    }
}

/// Reads a file of OpenSPP's JSON and writes the lines beside it.
///
/// # Errors
/// When a file cannot be read or written, when it is no JSON, and when a code that was given is none.
pub fn translate(file: &Path, more_codes: &[String]) -> Result<Translated, CliError> {
    let codes = Codes::with(more_codes).map_err(CliError::usage)?;
    let input = Input::open(file)?;
    let mut places = Places::default();
    input.each(&mut |_, piece| {
        match piece {
            Piece::Record(record) => places.look_at(&record),
            Piece::Total(kind, total) => places.expect(kind, total),
            Piece::Envelope(_) | Piece::Broken(_) => {}
        }
        Ok(())
    })?;
    if places.has_short() {
        input.each(&mut |_, piece| {
            if let Piece::Record(Value::Object(record)) = piece {
                places.meet(&record);
            }
            Ok(())
        })?;
    }
    let mut told = Told::new(file)?;
    for kind in ["Individual", "Group"] {
        input.each(&mut |place, piece| match piece {
            Piece::Record(Value::Object(record)) if record.get("type").and_then(Value::as_str) == Some(kind) => {
                let mut lost = Vec::new();
                let who = fields::who(&record);
                let line = match kind {
                    "Group" => group::translate(record, &codes, &places, &mut lost),
                    _ => individual::translate(record, &codes, &places, &mut lost),
                };
                told.line(&line)?;
                told.lost(place, &who, lost)
            }
            // Everything that is neither is told once, with the people.
            Piece::Record(record) if kind == "Individual" && !fields::is_taken(&record) => {
                told.lost(place, "", vec![Lost::new("", Why::OtherRecord, record)])
            }
            Piece::Envelope(value) if kind == "Individual" => {
                told.lost(place, "", vec![Lost::new("", Why::NoRecord, value)])
            }
            Piece::Broken(text) if kind == "Individual" => told.raw(&text),
            _ => Ok(()),
        })?;
    }
    for (kind, count, total) in places.missing() {
        let lost = Lost::new("meta.total", Why::PagesMissing { count }, Value::from(total));
        told.lost(&format!("pages of {kind}"), "", vec![lost])?;
    }
    told.finish()
}

/// The files that are written, under other names until they are whole.
struct Told {
    lines: BufWriter<NamedTempFile>,
    unplaced: BufWriter<NamedTempFile>,
    lines_path: PathBuf,
    unplaced_path: PathBuf,
    counts: BTreeMap<String, u64>,
}

impl Told {
    fn new(file: &Path) -> Result<Self, CliError> {
        let folder = file.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."));
        // Both are for nobody else to read, as such files are made.
        let make = || {
            NamedTempFile::new_in(folder)
                .map(BufWriter::new)
                .map_err(|error| CliError::output(format!("cannot write into `{}`: {error}", folder.display())))
        };
        Ok(Self {
            lines: make()?,
            unplaced: make()?,
            lines_path: beside(file, ".daftar.ndjson"),
            unplaced_path: beside(file, ".unplaced.ndjson"),
            counts: BTreeMap::new(),
        })
    }

    fn line(&mut self, line: &Value) -> Result<(), CliError> {
        writeln!(self.lines, "{line}").map_err(CliError::output)
    }

    /// A line that is no JSON goes as it is to the import, which refuses it and keeps it.
    fn raw(&mut self, text: &[u8]) -> Result<(), CliError> {
        self.lines.write_all(text).and_then(|()| self.lines.write_all(b"\n")).map_err(CliError::output)
    }

    fn lost(&mut self, place: &str, who: &str, lost: Vec<Lost>) -> Result<(), CliError> {
        for lost in lost {
            let field = lost.summary();
            let is_known = self.counts.contains_key(&field) || self.counts.len() < FIELDS_MAX;
            let count = self.counts.entry(if is_known { field } else { "others".to_owned() }).or_default();
            *count = count.saturating_add(1);
            writeln!(self.unplaced, "{}", lost.line(place, who)).map_err(CliError::output)?;
        }
        Ok(())
    }

    fn finish(self) -> Result<Translated, CliError> {
        let Self { lines, unplaced, lines_path, unplaced_path, counts } = self;
        keep(lines, &lines_path)?;
        let unplaced = if counts.is_empty() {
            // What an earlier run left would be taken for this one's.
            match std::fs::remove_file(&unplaced_path) {
                Err(error) if error.kind() != std::io::ErrorKind::NotFound => {
                    return Err(CliError::output(format!("cannot remove `{}`: {error}", unplaced_path.display())));
                }
                _ => None,
            }
        } else {
            keep(unplaced, &unplaced_path)?;
            Some(unplaced_path)
        };
        Ok(Translated { lines: lines_path, unplaced, counts })
    }
}

fn keep(file: BufWriter<NamedTempFile>, path: &Path) -> Result<(), CliError> {
    let failed =
        |error: &dyn std::fmt::Display| CliError::output(format!("cannot write `{}`: {error}", path.display()));
    let file = file.into_inner().map_err(|error| failed(&error))?;
    file.as_file().sync_data().map_err(|error| failed(&error))?;
    file.persist(path).map_err(|error| failed(&error))?;
    Ok(())
}
