//! Tab-separated tables: a header and rows, with every cell checked for what no cell may hold.

use std::collections::HashSet;

use super::files::PackFiles;
use crate::pack::limits::TABLE_BYTES_MAX;
use crate::pack::problem::{PackErrors, PackProblemKind};

/// A table whose lines all have one cell for each column.
pub struct Table {
    /// Its file, for messages.
    pub file: String,
    columns: Vec<String>,
    rows: Vec<Row>,
}

/// One line of a table.
pub struct Row {
    /// Its number, from 1; the header is line 1.
    pub line: usize,
    cells: Vec<String>,
}

impl Row {
    /// The cell of a column; empty where the table has no such column.
    pub fn cell(&self, column: Option<usize>) -> &str {
        column.and_then(|index| self.cells.get(index)).map_or("", String::as_str)
    }
}

impl Table {
    /// Reads a table; what is wrong is reported, and lines that cannot be used are left out. None when there is no header.
    pub fn read(files: &PackFiles, file: &str, errors: &mut PackErrors) -> Option<Self> {
        let bytes = files.read(file, TABLE_BYTES_MAX, errors)?;
        // Spreadsheets put a byte order mark first and a carriage return last; neither means anything.
        let bytes = bytes.strip_prefix(b"\xef\xbb\xbf").unwrap_or(&bytes);
        let mut lines = bytes.split(|byte| *byte == b'\n').map(|line| line.strip_suffix(b"\r").unwrap_or(line));
        let columns = match lines.next().map(str::from_utf8) {
            Some(Ok(header)) if !header.is_empty() => header.split('\t').map(str::to_owned).collect(),
            Some(Err(_)) => {
                errors.push(file, Some(1), None, PackProblemKind::NotUtf8);
                return None;
            }
            Some(Ok(_)) | None => {
                errors.push(file, Some(1), None, PackProblemKind::NoHeader);
                return None;
            }
        };
        let mut table = Self { file: file.to_owned(), columns, rows: Vec::new() };
        for (index, line) in lines.enumerate() {
            if !line.is_empty() {
                table.add_line(index + 2, line, errors);
            }
        }
        Some(table)
    }

    fn add_line(&mut self, line: usize, bytes: &[u8], errors: &mut PackErrors) {
        let Ok(text) = str::from_utf8(bytes) else {
            errors.push(&self.file, Some(line), None, PackProblemKind::NotUtf8);
            return;
        };
        let cells: Vec<String> = text.split('\t').map(str::to_owned).collect();
        if cells.len() != self.columns.len() {
            let kind = PackProblemKind::CellCount { cells: cells.len(), columns: self.columns.len() };
            errors.push(&self.file, Some(line), cells.first().map(String::as_str), kind);
            return;
        }
        for (column, cell) in self.columns.iter().zip(&cells) {
            if let Some(kind) = fault(column, cell) {
                errors.push(&self.file, Some(line), cells.first().map(String::as_str), kind);
            }
        }
        self.rows.push(Row { line, cells });
    }

    /// The lines after the header.
    pub fn rows(&self) -> &[Row] {
        &self.rows
    }

    /// The names of the columns.
    pub fn columns(&self) -> &[String] {
        &self.columns
    }

    /// Where a column is.
    pub fn column(&self, name: &str) -> Option<usize> {
        self.columns.iter().position(|column| column == name)
    }

    /// Reports repeated columns, those that `is_known` does not know, and those of `required` that are missing.
    pub fn check_columns(
        &self,
        required: &[&'static str],
        known: &'static str,
        is_known: impl Fn(&str) -> bool,
        errors: &mut PackErrors,
    ) {
        let mut seen = HashSet::new();
        for column in &self.columns {
            if !seen.insert(column) {
                let kind = PackProblemKind::Repeated { what: "the column", value: column.clone() };
                errors.push(&self.file, Some(1), None, kind);
            } else if !is_known(column) {
                let kind = PackProblemKind::UnknownColumn { name: column.escape_debug().to_string(), known };
                errors.push(&self.file, Some(1), None, kind);
            }
        }
        for name in required {
            if self.column(name).is_none() {
                errors.push(&self.file, Some(1), None, PackProblemKind::MissingColumn(name));
            }
        }
    }
}

/// What no cell may be, whatever its column.
fn fault(column: &str, cell: &str) -> Option<PackProblemKind> {
    let column = || column.escape_debug().to_string();
    if let Some(character) = cell.chars().find(|character| character.is_control()) {
        return Some(PackProblemKind::ControlCharacter { column: column(), character });
    }
    if cell.trim() != cell {
        return Some(PackProblemKind::Untrimmed { column: column() });
    }
    if !unicode_normalization::is_nfc(cell) {
        return Some(PackProblemKind::NotNormalized { column: column() });
    }
    None
}
