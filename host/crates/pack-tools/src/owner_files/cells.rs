//! Tables whose cells are separated by tabs and may be quoted: WHO, SIL and our own; and those that spreadsheets save as CSV.

use crate::owner_files::input::{Input, without_mark};
use crate::owner_files::problem::{ImportError, excerpt};
use crate::owner_files::tally::Tally;

/// What a quotation mark at the beginning of a cell means.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Quotes {
    /// The cell ends with another one, and may hold tabs and doubled marks.
    Enclose,
    /// Nothing.
    Plain,
}

/// A row of CSV: its line, and its cells where they are UTF-8.
type CsvRow = (u64, Option<Vec<String>>);

/// The names of a table's columns, from its header line.
#[derive(Debug)]
pub struct Header {
    names: Vec<String>,
}

/// One row.
pub struct Row<'a> {
    /// Its line, from 1.
    pub line: u64,
    cells: &'a [String],
}

impl Row<'_> {
    /// A cell; empty where the table has no such column or the row ends before it.
    pub fn cell(&self, column: Option<usize>) -> &str {
        column.and_then(|index| self.cells.get(index)).map_or("", String::as_str)
    }
}

impl Header {
    /// Where the column of one of these names is. Capitals do not count.
    pub fn find(&self, names: &[&str]) -> Option<usize> {
        names.iter().find_map(|name| self.names.iter().position(|other| other.eq_ignore_ascii_case(name)))
    }

    /// Where a column that must be there is.
    ///
    /// # Errors
    /// It is not there; says which names it could have and which there are.
    pub fn require(&self, input: &Input<'_>, names: &[&str]) -> Result<usize, ImportError> {
        self.find(names).ok_or_else(|| {
            let wanted: Vec<String> = names.iter().map(|name| format!("`{name}`")).collect();
            let found: Vec<String> =
                self.names.iter().take(40).filter(|name| !name.is_empty()).map(|name| excerpt(name)).collect();
            let reason = format!("the column {} is missing; there are: {}", wanted.join(" or "), found.join(", "));
            input.unusable(Some(1), reason)
        })
    }

    /// The names.
    pub fn names(&self) -> &[String] {
        &self.names
    }
}

/// Reads a table: hands the header to `open`, and each row with what `open` made of it to `each`. Rows that cannot be read are
/// refused.
///
/// # Errors
/// There is no header, the file cannot be read on, or `open` or `each` end it.
pub fn read<T>(
    input: &Input<'_>,
    quotes: Quotes,
    tally: &mut Tally,
    open: impl FnOnce(&Header) -> Result<T, ImportError>,
    mut each: impl FnMut(&mut T, &Row<'_>, &mut Tally) -> Result<(), ImportError>,
) -> Result<T, ImportError> {
    read_all(input, quotes, tally, open, |state, row, tally| match row {
        Some(row) => each(state, row, tally),
        None => Ok(()),
    })
}

/// As [`read`], for tables whose rows depend on the rows before them: `each` hears of a row that could not be read too, as
/// `None`, after it was refused.
///
/// # Errors
/// As [`read`].
pub fn read_all<T>(
    input: &Input<'_>,
    quotes: Quotes,
    tally: &mut Tally,
    open: impl FnOnce(&Header) -> Result<T, ImportError>,
    mut each: impl FnMut(&mut T, Option<&Row<'_>>, &mut Tally) -> Result<(), ImportError>,
) -> Result<T, ImportError> {
    let split = |line: &str| match quotes {
        Quotes::Enclose => split(line),
        Quotes::Plain => Some(line.split('\t').map(str::to_owned).collect()),
    };
    let mut lines = input.lines()?;
    let header = match lines.next()? {
        Some(line) => match line.text.map(&split) {
            Some(Some(names)) => Header { names: names.iter().map(|name| name.trim().to_owned()).collect() },
            Some(None) => return Err(input.unusable(Some(1), "a quoted cell of the header does not end")),
            None => return Err(input.unusable(Some(1), "the line is not UTF-8")),
        },
        None => return Err(input.unusable(Some(1), "the header line is missing")),
    };
    let mut state = open(&header)?;
    while let Some(line) = lines.next()? {
        if line.text.is_some_and(|text| text.trim().is_empty()) {
            continue;
        }
        tally.rows += 1;
        match line.text.map(&split) {
            Some(Some(cells)) if cells.len() > header.names.len() => {
                let reason = format!("the row has {} cells, the header {}", cells.len(), header.names.len());
                tally.refuse(Some(line.number), cells.first().map(String::as_str), reason);
                each(&mut state, None, tally)?;
            }
            Some(Some(cells)) => each(&mut state, Some(&Row { line: line.number, cells: &cells }), tally)?,
            Some(None) => {
                tally.refuse(Some(line.number), None, "a quoted cell does not end on its line");
                each(&mut state, None, tally)?;
            }
            None => {
                tally.refuse(Some(line.number), None, "the line is not UTF-8");
                each(&mut state, None, tally)?;
            }
        }
        tally.check_on()?;
    }
    Ok(state)
}

/// Reads a table that a spreadsheet saved as CSV (RFC 4180): cells may be quoted and hold line breaks. Between them stands a comma or,
/// where the header has none, a semicolon, as spreadsheets write in countries where the comma is the decimal point.
///
/// # Errors
/// As [`read`], and where it is not UTF-8.
pub fn read_csv<T>(
    input: &Input<'_>,
    tally: &mut Tally,
    open: impl FnOnce(&Header) -> Result<T, ImportError>,
    mut each: impl FnMut(&mut T, &Row<'_>, &mut Tally) -> Result<(), ImportError>,
) -> Result<T, ImportError> {
    let bytes = without_mark(input.read_whole()?);
    let header = bytes.split(|byte| *byte == b'\n').next().unwrap_or_default();
    let delimiter = if header.contains(&b',') || !header.contains(&b';') { b',' } else { b';' };
    let mut reader =
        csv::ReaderBuilder::new().flexible(true).has_headers(false).delimiter(delimiter).from_reader(&*bytes);
    let mut records = reader.byte_records();
    let unusable = |error: &csv::Error| {
        input.unusable(error.position().map(csv::Position::line), format_args!("it is no table of this kind: {error}"))
    };
    let mut next = || -> Result<Option<CsvRow>, ImportError> {
        let Some(record) = records.next().transpose().map_err(|error| unusable(&error))? else { return Ok(None) };
        let line = record.position().map_or(1, csv::Position::line);
        let cells = record.iter().map(|cell| std::str::from_utf8(cell).map(str::to_owned).ok()).collect();
        Ok(Some((line, cells)))
    };
    let header = match next()? {
        Some((_, Some(names))) => Header { names: names.iter().map(|name| name.trim().to_owned()).collect() },
        Some((line, None)) => {
            return Err(input.unusable(Some(line), "the line is not UTF-8: save the table as `CSV UTF-8`"));
        }
        None => return Err(input.unusable(Some(1), "the header line is missing")),
    };
    let mut state = open(&header)?;
    while let Some((line, cells)) = next()? {
        tally.rows += 1;
        match cells {
            // What a spreadsheet leaves of rows that were emptied.
            Some(cells) if cells.iter().all(|cell| cell.trim().is_empty()) => tally.leave_out("an empty row"),
            Some(cells) if cells.len() > header.names.len() => {
                let reason = format!("the row has {} cells, the header {}", cells.len(), header.names.len());
                tally.refuse(Some(line), cells.first().map(String::as_str), reason);
            }
            Some(cells) => each(&mut state, &Row { line, cells: &cells }, tally)?,
            None => tally.refuse(Some(line), None, "the line is not UTF-8: save the table as `CSV UTF-8`"),
        }
        tally.check_on()?;
    }
    Ok(state)
}

/// The cells of a line. A cell that begins with `"` ends with one; in between `""` stands for `"`, and a tab is a tab. None
/// where a quoted cell does not end.
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

/// The content of a quoted cell, from behind its first quote, and what follows the tab behind it.
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
            // A quote that neither ends the cell nor is doubled: the cell is not quoted as it should be.
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
