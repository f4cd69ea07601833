//! `daftar import --from openspp`: translates individuals and groups of OpenSPP's API into import lines.
//!
//! The file is read several times: memberships first, then individuals, then groups, since a line may refer only to
//! earlier lines. The lines are written to a file next to the input, which is imported like any other file; unmapped
//! values are written to another file.
//!
//! **Invariant:** nothing is lost silently. A member of an object without a target is reported with its value; an
//! invalid value is rejected by the import, and its rejects file contains the complete line.
//!
//! **Invariant:** the same file and options produce the same lines, so that an interrupted import can resume.

mod fields;
mod input;
mod records;

use std::collections::BTreeMap;
use std::io::{BufWriter, Write};
use std::path::{Path, PathBuf};

use serde_json::Value;
use tempfile::NamedTempFile;

use self::fields::{Lost, Why};
use self::input::{Input, Piece};
use self::records::Places;
use crate::app::packs::folder_of;
use crate::cli::CliError;
use crate::cli::files::{remove, with_suffix};

/// Maximum number of fields that are counted separately: their names are read from the file.
const FIELDS_MAX: usize = 1_000;

/// The translated lines and the unmapped values.
#[derive(Debug)]
pub struct Translated {
    /// The file with the translated lines.
    pub lines: PathBuf,
    /// The file with the unmapped values; none if every value is mapped.
    pub unmapped: Option<PathBuf>,
    /// Fields without a target, with their counts.
    pub counts: BTreeMap<String, u64>,
}

impl Translated {
    /// Returns the number of unmapped values.
    pub fn count(&self) -> u64 {
        self.counts.values().sum()
    }

    /// Returns a summary of the unmapped values; none if every value is mapped.
    pub fn sentence(&self) -> Option<String> {
        let file = self.unmapped.as_ref()?;
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

/// Reads a file with OpenSPP's JSON and writes the translated lines next to it.
///
/// # Errors
/// When a file cannot be read or written, when it is not JSON, and when an entry of `more_codes` is invalid.
pub fn translate(file: &Path, more_codes: &[String]) -> Result<Translated, CliError> {
    let codes = Codes::with(more_codes).map_err(CliError::usage)?;
    let input = Input::open(file)?;
    let mut places = Places::default();
    input.each(&mut |_, piece| {
        match piece {
            Piece::Record(record) => places.inspect(&record),
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
    let mut reported = OutputFiles::new(file)?;
    for kind in ["Individual", "Group"] {
        input.each(&mut |place, piece| match piece {
            Piece::Record(Value::Object(record)) if record.get("type").and_then(Value::as_str) == Some(kind) => {
                let mut lost = Vec::new();
                let who = fields::who(&record);
                let line = match kind {
                    "Group" => records::group(record, &codes, &places, &mut lost),
                    _ => records::individual(record, &codes, &places, &mut lost),
                };
                reported.line(&line)?;
                reported.lost(place, &who, lost)
            }
            // All other members are reported once, with the individuals.
            Piece::Record(record) if kind == "Individual" && !fields::is_taken(&record) => {
                reported.lost(place, "", vec![Lost::new("", Why::OtherRecord, record)])
            }
            Piece::Envelope(value) if kind == "Individual" => {
                reported.lost(place, "", vec![Lost::new("", Why::NoRecord, value)])
            }
            Piece::Broken(text) if kind == "Individual" => reported.raw(&text),
            _ => Ok(()),
        })?;
    }
    for (kind, count, total) in places.missing() {
        let lost = Lost::new("meta.total", Why::PagesMissing { count }, Value::from(total));
        reported.lost(&format!("pages of {kind}"), "", vec![lost])?;
    }
    reported.finish()
}

/// The output files, under temporary names until they are complete.
struct OutputFiles {
    lines: BufWriter<NamedTempFile>,
    unmapped: BufWriter<NamedTempFile>,
    lines_path: PathBuf,
    unmapped_path: PathBuf,
    counts: BTreeMap<String, u64>,
}

impl OutputFiles {
    fn new(file: &Path) -> Result<Self, CliError> {
        let folder = folder_of(file);
        // Both files are readable by this account only.
        let make = || {
            NamedTempFile::new_in(folder)
                .map(BufWriter::new)
                .map_err(|error| CliError::output(format!("cannot write into `{}`: {error}", folder.display())))
        };
        Ok(Self {
            lines: make()?,
            unmapped: make()?,
            lines_path: with_suffix(file, ".daftar.ndjson"),
            unmapped_path: with_suffix(file, ".unmapped.ndjson"),
            counts: BTreeMap::new(),
        })
    }

    fn line(&mut self, line: &Value) -> Result<(), CliError> {
        writeln!(self.lines, "{line}").map_err(CliError::output)
    }

    /// Passes a line that is not JSON unchanged to the import, which rejects it and writes it to the rejects file.
    fn raw(&mut self, text: &[u8]) -> Result<(), CliError> {
        self.lines.write_all(text).and_then(|()| self.lines.write_all(b"\n")).map_err(CliError::output)
    }

    fn lost(&mut self, place: &str, who: &str, lost: Vec<Lost>) -> Result<(), CliError> {
        for lost in lost {
            let field = lost.summary();
            let is_known = self.counts.contains_key(&field) || self.counts.len() < FIELDS_MAX;
            let count = self.counts.entry(if is_known { field } else { "others".to_owned() }).or_default();
            *count = count.saturating_add(1);
            writeln!(self.unmapped, "{}", lost.line(place, who)).map_err(CliError::output)?;
        }
        Ok(())
    }

    fn finish(self) -> Result<Translated, CliError> {
        let Self { lines, unmapped, lines_path, unmapped_path, counts } = self;
        keep(lines, &lines_path)?;
        let unmapped = if counts.is_empty() {
            // Files of an earlier run would be mistaken for those of this run.
            if unmapped_path.exists() {
                remove(&unmapped_path)?;
            }
            None
        } else {
            keep(unmapped, &unmapped_path)?;
            Some(unmapped_path)
        };
        Ok(Translated { lines: lines_path, unmapped, counts })
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

/// The table of codes: OpenSPP's code, a tab, the register's code. `#*` matches every code of a vocabulary without a
/// line of its own; an empty right side omits the code, and the omission is reported. `groupType` is OpenSPP's list of
/// group types, which has no URI.
const TABLE: &str = include_str!("openspp/codes.tsv");

/// The table of codes, with the additions of the command.
#[derive(Debug)]
struct Codes {
    rows: BTreeMap<String, String>,
}

impl Codes {
    /// Returns the table with additional lines `THEIRS=OURS`, which precede those of the table.
    ///
    /// # Errors
    /// When a line is not such a pair.
    pub fn with(more: &[String]) -> Result<Self, String> {
        let shipped = TABLE.lines().filter_map(|line| line.split_once('\t'));
        let mut rows: BTreeMap<String, String> =
            shipped.map(|(theirs, ours)| (theirs.to_owned(), ours.to_owned())).collect();
        for line in more {
            let pair = line.split_once('=').map(|(theirs, ours)| (theirs.trim(), ours.trim()));
            let is_code =
                |text: &str| text.split_once('#').is_some_and(|(system, code)| !system.is_empty() && !code.is_empty());
            let Some((theirs, ours)) =
                pair.filter(|(theirs, ours)| is_code(theirs) && (ours.is_empty() || is_code(ours)))
            else {
                return Err(format!(
                    "`--code {line}` is no pair of codes: write `THEIRS=OURS`, both `SYSTEM#CODE`, or `THEIRS=` to leave it out"
                ));
            };
            rows.insert(theirs.to_owned(), ours.to_owned());
        }
        Ok(Self { rows })
    }

    /// Returns the register's code; `None` if the table omits the code. A code of a vocabulary that is not in the table
    /// is returned unchanged.
    pub fn of(&self, theirs: &str) -> Option<String> {
        let (system, code) = theirs.split_once('#').unwrap_or((theirs, ""));
        let row = self.rows.get(theirs).or_else(|| self.rows.get(&format!("{system}#*")));
        match row.map(String::as_str) {
            None => Some(theirs.to_owned()),
            Some("") => None,
            Some(ours) => {
                Some(ours.strip_suffix('*').map_or_else(|| ours.to_owned(), |prefix| format!("{prefix}{code}")))
            }
        }
    }

    /// Returns the system of an identifier. A system is never omitted, since a record without it would be a different
    /// record.
    pub fn system(&self, theirs: &str) -> String {
        self.of(theirs).unwrap_or_else(|| theirs.to_owned())
    }

    /// Returns the URI of a coding, `{system, code}`.
    pub fn uri_of(coding: &Value) -> Option<String> {
        let text = |name: &str| coding.get(name).and_then(Value::as_str).filter(|text| !text.is_empty());
        Some(format!("{}#{}", text("system")?, text("code")?))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_of_its_own_goes_before_that_of_the_vocabulary() {
        let codes = Codes::with(&[]).unwrap();
        let of = |theirs: &str| codes.of(theirs);
        assert_eq!(of("urn:openspp:vocab:id-type#tax_id").as_deref(), Some("urn:svc:vocab:id-type#tax_id"));
        assert_eq!(
            of("urn:openspp:vocab:group-membership-type#head").as_deref(),
            Some("urn:svc:vocab:relationship#head")
        );
        assert_eq!(of("urn:openspp:vocab:group-membership-type#tenant"), None);
        assert_eq!(of("urn:iso:std:iso:5218#2").as_deref(), Some("urn:iso:std:iso:5218#2"));
        assert_eq!(codes.system("urn:gov:ph:psa:national-id"), "urn:gov:ph:psa:national-id");
    }

    #[test]
    fn options_of_the_command_override_the_table() {
        let more =
            ["urn:openspp:vocab:group-membership-type#tenant=urn:svc:vocab:relationship#non_relative", "urn:x#a="];
        let codes = Codes::with(&more.map(str::to_owned)).unwrap();
        let tenant = codes.of("urn:openspp:vocab:group-membership-type#tenant");
        assert_eq!(tenant.as_deref(), Some("urn:svc:vocab:relationship#non_relative"));
        assert_eq!(codes.of("urn:x#a"), None);
        for wrong in ["urn:x#a", "=urn:y#b", "urn:x=urn:y#b", "urn:x#a=urn:y"] {
            assert!(Codes::with(&[wrong.to_owned()]).unwrap_err().contains(wrong), "{wrong}");
        }
    }

    #[test]
    fn every_line_of_the_table_is_a_pair() {
        for line in TABLE.lines() {
            let (theirs, ours) = line.split_once('\t').unwrap();
            assert!(theirs.contains('#') && (ours.is_empty() || ours.contains('#')), "{line}");
            assert!(!ours.ends_with('*') || theirs.ends_with('*'), "{line}");
        }
    }
}
