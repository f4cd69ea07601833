//! Tables with tab-separated cells, which may be quoted: WHO, SIL and our own format; and tables saved as CSV by
//! spreadsheets.

use std::io::Cursor;
use std::path::Path;

use crate::publisher_files::counts::Counts;
use crate::publisher_files::input::Input;
use crate::publisher_files::problem::{ImportError, excerpt};

/// The most columns of a table.
const COLUMNS_MAX: usize = 1_000;

/// The meaning of a quotation mark at the beginning of a cell.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Quotes {
    /// The cell ends with another one, and may contain tabs and doubled marks.
    Enclose,
    /// None.
    Plain,
}

/// The number of a line, and its cells or the reason why they cannot be read.
type Line = (u64, Result<Vec<String>, &'static str>);

/// A table, read up to its header.
pub struct Table<'i> {
    path: &'i Path,
    columns: Vec<String>,
    next: Box<dyn FnMut() -> Result<Option<Line>, ImportError> + 'i>,
    is_csv: bool,
}

/// One row.
pub struct Row<'a> {
    /// Its line, from 1.
    pub line: u64,
    columns: &'a [String],
    cells: &'a [String],
}

impl<'a> Row<'a> {
    /// The trimmed cell of a column; empty if the table has no such column or the row is shorter. Alternative names of
    /// one column are joined with `|`.
    pub fn cell(&self, names: &str) -> &'a str {
        self.raw(names).trim()
    }

    /// The untrimmed cell of a column.
    pub fn raw(&self, names: &str) -> &'a str {
        position(self.columns, names).map_or("", |column| self.at(column))
    }

    /// As [`raw`](Self::raw), by the position of the column.
    pub fn at(&self, column: usize) -> &'a str {
        self.cells.get(column).map_or("", String::as_str)
    }
}

/// The position of the column with one of these names, ignoring case.
fn position(columns: &[String], names: &str) -> Option<usize> {
    names.split('|').find_map(|name| columns.iter().position(|other| other.eq_ignore_ascii_case(name)))
}

impl<'i> Table<'i> {
    /// Opens a table with one row per line and tab-separated cells.
    ///
    /// # Errors
    /// There is no header, or reading failed.
    pub fn open(input: &'i Input<'_>, quotes: Quotes) -> Result<Self, ImportError> {
        let mut lines = input.lines()?;
        let next = move || -> Result<Option<Line>, ImportError> {
            while let Some(line) = lines.next()? {
                let is_header = line.number == 1;
                let cells = match (line.text, quotes) {
                    (Some(text), _) if text.trim().is_empty() && !is_header => continue,
                    (Some(text), Quotes::Plain) => Ok(text.split('\t').map(str::to_owned).collect()),
                    (Some(text), Quotes::Enclose) if is_header => {
                        split(text).ok_or("a quoted cell of the header does not end")
                    }
                    (Some(text), Quotes::Enclose) => split(text).ok_or("a quoted cell does not end on its line"),
                    (None, _) => Err("the line is not UTF-8"),
                };
                return Ok(Some((line.number, cells)));
            }
            Ok(None)
        };
        Self::with_header(input, false, next)
    }

    /// Opens a table that a spreadsheet saved as CSV (RFC 4180): cells may be quoted and contain line breaks. The
    /// separator is a comma or, if the header has none, a semicolon, as spreadsheets use in countries with a decimal
    /// comma.
    ///
    /// # Errors
    /// As [`open`](Self::open), and if it is not UTF-8.
    pub fn open_csv(input: &'i Input<'_>, bytes: Vec<u8>) -> Result<Self, ImportError> {
        let header = bytes.split(|byte| *byte == b'\n').next().unwrap_or_default();
        let delimiter = if header.contains(&b',') || !header.contains(&b';') { b',' } else { b';' };
        let mut reader = csv::ReaderBuilder::new();
        reader.flexible(true).has_headers(false).delimiter(delimiter);
        let mut records = reader.from_reader(Cursor::new(bytes)).into_byte_records();
        let next = move || -> Result<Option<Line>, ImportError> {
            let record = records.next().transpose().map_err(|error| {
                let line = error.position().map(csv::Position::line);
                input.unusable(line, format_args!("it is not a table of this kind: {error}"))
            })?;
            Ok(record.map(|record| {
                let line = record.position().map_or(1, csv::Position::line);
                let cells = record.iter().map(|cell| str::from_utf8(cell).map(str::to_owned));
                let cells = cells.collect::<Result<_, _>>();
                (line, cells.map_err(|_| "the line is not UTF-8: save the table as `CSV UTF-8`"))
            }))
        };
        Self::with_header(input, true, next)
    }

    fn with_header(
        input: &'i Input<'_>,
        is_csv: bool,
        mut next: impl FnMut() -> Result<Option<Line>, ImportError> + 'i,
    ) -> Result<Self, ImportError> {
        match next()? {
            // Cells are found by the name of their column.
            Some((line, Ok(names))) if names.len() > COLUMNS_MAX => {
                let fault = format!("the header has {} columns; the limit is {COLUMNS_MAX}", names.len());
                Err(input.unusable(Some(line), fault))
            }
            Some((_, Ok(names))) => {
                let columns = names.iter().map(|name| name.trim().to_owned()).collect();
                Ok(Self { path: input.path(), columns, next: Box::new(next), is_csv })
            }
            Some((line, Err(fault))) => Err(input.unusable(Some(line), fault)),
            None => Err(input.unusable(Some(1), "the header line is missing")),
        }
    }

    /// The names of the columns.
    pub fn columns(&self) -> &[String] {
        &self.columns
    }

    /// Returns true if there is a column of one of these names, joined with `|`.
    pub fn has_column(&self, names: &str) -> bool {
        position(&self.columns, names).is_some()
    }

    /// Checks that the required columns exist.
    ///
    /// # Errors
    /// A missing column, with its possible names and the existing columns.
    pub fn require(&self, columns: &[&str]) -> Result<(), ImportError> {
        let Some(missing) = columns.iter().find(|names| !self.has_column(names)) else { return Ok(()) };
        let wanted = missing.replace('|', "` or `");
        let found = self.columns.iter().take(40).filter(|name| !name.is_empty()).map(|name| excerpt(name));
        let found = found.collect::<Vec<_>>().join(", ");
        let reason = format_args!("the column `{wanted}` is missing; there are: {found}");
        Err(ImportError::unusable(self.path, Some(1), reason))
    }

    /// Passes each row to `each`. An unreadable row is rejected; `each` receives none for it, for formats in which rows
    /// depend on earlier ones.
    ///
    /// # Errors
    /// Reading failed, or too many rows are rejected.
    pub fn read(
        mut self,
        counts: &mut Counts,
        mut each: impl FnMut(Option<&Row<'_>>, &mut Counts),
    ) -> Result<(), ImportError> {
        while let Some((line, cells)) = (self.next)()? {
            counts.rows += 1;
            match cells {
                // Spreadsheets leave such rows after their cells were cleared.
                Ok(cells) if self.is_csv && cells.iter().all(|cell| cell.trim().is_empty()) => {
                    counts.leave_out("an empty row");
                }
                Ok(cells) if cells.len() > self.columns.len() => {
                    let reason = format!("the row has {} cells, the header {}", cells.len(), self.columns.len());
                    counts.refuse(Some(line), cells.first().map(String::as_str), reason);
                    each(None, counts);
                }
                Ok(cells) => each(Some(&Row { line, columns: &self.columns, cells: &cells }), counts),
                Err(fault) => {
                    counts.refuse(Some(line), None, fault);
                    each(None, counts);
                }
            }
            counts.check_on()?;
        }
        Ok(())
    }
}

/// Splits a line into cells. A cell that begins with `"` ends with one; in between `""` means `"`, and a tab is part of
/// the cell. None if a quoted cell does not end.
fn split(line: &str) -> Option<Vec<String>> {
    let mut cells = Vec::new();
    let mut rest = line;
    loop {
        let (cell, after) = match rest.strip_prefix('"') {
            Some(quoted) => unquoted(quoted)?,
            None => match rest.split_once('\t') {
                Some((cell, after)) => (cell.to_owned(), Some(after)),
                None => (rest.to_owned(), None),
            },
        };
        cells.push(cell);
        match after {
            Some(after) => rest = after,
            None => return Some(cells),
        }
    }
}

/// The content of a quoted cell after its first quote, and the rest after the next tab.
fn unquoted(mut rest: &str) -> Option<(String, Option<&str>)> {
    let mut cell = String::new();
    loop {
        let (before, after) = rest.split_once('"')?;
        cell.push_str(before);
        match after.chars().next() {
            None => return Some((cell, None)),
            Some('\t') => return Some((cell, after.strip_prefix('\t'))),
            Some('"') => {
                cell.push('"');
                rest = after.strip_prefix('"')?;
            }
            // A quote that neither ends the cell nor is doubled: invalid quoting.
            Some(_) => return None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::split;

    #[test]
    fn quotes_hold_tabs_and_doubled_quotes() {
        assert_eq!(split("a\t\"b \"\"c\"\"\td\"\t").unwrap(), ["a", "b \"c\"\td", ""]);
        assert_eq!(split("").unwrap(), [""]);
        assert_eq!(split("a\"b\tc").unwrap(), ["a\"b", "c"]);
        for broken in ["\"a", "\"a\"b\tc", "a\t\"", "\"\"\""] {
            assert_eq!(split(broken), None, "{broken}");
        }
    }
}
