//! Tab-separated tables: a header and rows, with every cell checked.

use std::collections::HashSet;

use super::SourceReader;
use crate::pack::problem::PackErrors;

/// The largest table of codes or labels, in bytes. ICD-11 with its extension codes has 6 MB.
const TABLE_BYTES_MAX: usize = 64 * 1024 * 1024;

/// A table whose rows have one cell for each column.
pub struct Table {
    /// Its file, for messages.
    pub file: String,
    columns: Vec<String>,
    /// Line numbers, from 1, and cells; the header is line 1.
    rows: Vec<(usize, Vec<String>)>,
}

/// One line of a table.
pub struct Row<'t> {
    /// Its number, from 1; the header is line 1.
    pub line: usize,
    columns: &'t [String],
    cells: &'t [String],
}

impl<'t> Row<'t> {
    /// The cell of a column; empty where the table has no such column.
    pub fn cell(&self, column: &str) -> &'t str {
        self.columns.iter().position(|other| other == column).map_or("", |index| self.at(index))
    }

    /// The cell of a column by its position.
    pub fn at(&self, column: usize) -> &'t str {
        self.cells.get(column).map_or("", String::as_str)
    }
}

impl Table {
    /// Reads a table; reports problems and omits unusable lines. Returns none if there is no header.
    pub fn read(reader: &mut SourceReader<'_>, file: &str) -> Option<Self> {
        let bytes = reader.read(file, TABLE_BYTES_MAX)?;
        let errors = &mut reader.errors;
        // Spreadsheets add a byte order mark and carriage returns, which are ignored.
        let bytes = bytes.strip_prefix(b"\xef\xbb\xbf").unwrap_or(&bytes);
        let mut lines = bytes.split(|byte| *byte == b'\n').map(|line| line.strip_suffix(b"\r").unwrap_or(line));
        let columns = match lines.next().map(str::from_utf8) {
            Some(Ok(header)) if !header.is_empty() => header.split('\t').map(str::to_owned).collect(),
            Some(Err(_)) => {
                errors.push(file, Some(1), None, "the line is not UTF-8");
                return None;
            }
            Some(Ok(_)) | None => {
                errors.push(file, Some(1), None, "the header line is missing");
                return None;
            }
        };
        let mut table = Self { file: file.to_owned(), columns, rows: Vec::new() };
        for (index, line) in lines.enumerate().filter(|(_, line)| !line.is_empty()) {
            table.add_line(index + 2, line, errors);
        }
        Some(table)
    }

    fn add_line(&mut self, line: usize, bytes: &[u8], errors: &mut PackErrors) {
        let Ok(text) = str::from_utf8(bytes) else {
            return errors.push(&self.file, Some(line), None, "the line is not UTF-8");
        };
        let cells: Vec<String> = text.split('\t').map(str::to_owned).collect();
        let mut push = |reason: String| errors.push(&self.file, Some(line), cells.first().map(String::as_str), reason);
        if cells.len() != self.columns.len() {
            let (cells, columns) = (cells.len(), self.columns.len());
            return push(format!(
                "the line has {cells} cells, the header {columns}; empty cells at the end keep their tab"
            ));
        }
        for (column, cell) in self.columns.iter().zip(&cells) {
            if let Some(fault) = fault(cell) {
                push(format!("`{}` {fault}", column.escape_debug()));
            }
        }
        self.rows.push((line, cells));
    }

    /// The lines after the header.
    pub fn rows(&self) -> impl Iterator<Item = Row<'_>> {
        self.rows.iter().map(|(line, cells)| Row { line: *line, columns: &self.columns, cells })
    }

    /// The number of lines after the header.
    pub fn row_count(&self) -> usize {
        self.rows.len()
    }

    /// The names of the columns.
    pub fn columns(&self) -> &[String] {
        &self.columns
    }

    /// Returns true if there is a column of that name.
    pub fn has_column(&self, name: &str) -> bool {
        self.columns.iter().any(|column| column == name)
    }

    /// Reports repeated columns, columns that `is_known` rejects, and missing columns of `required`.
    pub fn check_columns(
        &self,
        required: &[&str],
        known: &str,
        is_known: impl Fn(&str) -> bool,
        errors: &mut PackErrors,
    ) {
        let mut push = |reason: String| errors.push(&self.file, Some(1), None, reason);
        let mut seen = HashSet::new();
        for column in &self.columns {
            if !seen.insert(column) {
                push(format!("the column `{column}` occurs again"));
            } else if !is_known(column) {
                push(format!("there is no column `{}`; known are {known}", column.escape_debug()));
            }
        }
        for name in required.iter().filter(|name| !self.has_column(name)) {
            push(format!("the column `{name}` is missing"));
        }
    }
}

/// Returns the problem of a cell that is independent of its column.
fn fault(cell: &str) -> Option<String> {
    if let Some(character) = cell.chars().find(|character| character.is_control()) {
        Some(format!("contains the control character {character:?}"))
    } else if cell.trim() != cell {
        Some("begins or ends with white space".to_owned())
    } else if !unicode_normalization::is_nfc(cell) {
        Some("is not in Unicode normal form C".to_owned())
    } else {
        None
    }
}
