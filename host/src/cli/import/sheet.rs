//! Reads a table in parts: each row is converted to a line of JSON, and the rows of a household to a group.
//!
//! **Invariant:** a row is never lost: it is converted to a line, or is in the rejects file with its problem. An
//! unclosed quotation mark invalidates one line, not the rest of the file.

use std::io::Read;
use std::sync::Arc;

use serde_json::{Value, json};

use super::source::{EarlyReject, Mark, Part};
use crate::cli::table::{Body, CellProblem, Mapping, MappingText, Taken};
use daftar_http::admin::import_lines::LINE_BYTES_MAX;

/// Maximum number of columns.
const COLUMNS_MAX: usize = 1_000;

/// Result of the header: the mapping, and the start of the rows.
///
/// # Errors
/// All problems, in sentences.
pub fn open(mut reader: impl Read, mapping: &MappingText, is_tabs: bool) -> Result<(Mapping, Vec<u8>, Mark), String> {
    let mut beginning = Vec::new();
    reader.by_ref().take(3).read_to_end(&mut beginning).map_err(|error| error.to_string())?;
    let is_utf_16 = beginning.starts_with(b"\xff\xfe") || beginning.starts_with(b"\xfe\xff");
    if is_utf_16 || beginning.contains(&0) {
        return Err("the table is in UTF-16, and UTF-8 is read: save it as `CSV UTF-8`".to_owned());
    }
    let mark_bytes = if beginning.starts_with(b"\xef\xbb\xbf") { 3 } else { 0 };
    let rest = beginning.get(mark_bytes..).unwrap_or_default();
    let delimiter = mapping.delimiter()?.unwrap_or(if is_tabs { b'\t' } else { b',' });
    let mut scanner = Scanner::new(rest.chain(reader), delimiter);
    let header = scanner.next().map_err(|error| error.to_string())?;
    let Some(header) = header.filter(|header| !header.raw.trim_ascii().is_empty()) else {
        return Err("the table is empty: its first row names the columns".to_owned());
    };
    if header.is_open {
        return Err("the header has a quotation mark that is never closed".to_owned());
    }
    let names = cells(&header.raw, delimiter)
        .map_err(|at| format!("the name of column {} is not UTF-8: save the table as `CSV UTF-8`", at + 1))?;
    let names: Vec<String> = names.iter().map(|name| name.trim().to_owned()).collect();
    if names.len() > COLUMNS_MAX {
        return Err(format!("the header names {} columns, and {COLUMNS_MAX} are taken", names.len()));
    }
    let others = [b',', b';', b'\t', b'|'].into_iter().filter(|other| *other != delimiter);
    let better = others.into_iter().find(|other| names.len() == 1 && header.raw.contains(other));
    if let Some(better) = better {
        return Err(format!(
            "the header is one column: if `{}` stands between the columns, say `delimiter = \"{}\"` in the mapping",
            char::from(better).escape_default(),
            char::from(better).escape_default()
        ));
    }
    let fitted = mapping.fit(&names, delimiter).map_err(|problems| problems.join("\n  "))?;
    let offset = u64::try_from(mark_bytes.saturating_add(header.raw.len())).unwrap_or(u64::MAX);
    let line = 1 + header.lines;
    Ok((fitted, header.raw, Mark { offset, line, unit: 1 }))
}

/// The rows of a table.
pub struct Sheet<R> {
    scanner: Scanner<R>,
    mapping: Arc<Mapping>,
    mark: Mark,
    open: Option<OpenHousehold>,
}

/// Consecutive rows of one household.
struct OpenHousehold {
    name: String,
    line: u64,
    body: Body,
    members: Vec<Value>,
}

impl<R: Read> Sheet<R> {
    /// Reads the rows from a position.
    pub fn new(reader: R, mapping: Arc<Mapping>, mark: Mark) -> Self {
        let scanner = Scanner::new(reader, mapping.delimiter);
        Self { scanner, mapping, mark, open: None }
    }

    /// Returns the next part, of approximately `part_bytes` bytes; empty at the end of the table.
    ///
    /// # Errors
    /// When the file cannot be read.
    pub fn part(&mut self, part_bytes: usize) -> std::io::Result<Part> {
        let mut part = Part::at(self.mark);
        while part.body.len() < part_bytes {
            let Some(row) = self.scanner.next()? else { break };
            let line = self.mark.line;
            self.mark.offset = self.mark.offset.saturating_add(row.raw.len() as u64);
            self.mark.line = line.saturating_add(row.lines);
            self.row(&mut part, line, &row);
        }
        // A later caller joins the existing group.
        self.close(&mut part);
        self.mark.unit = part.next.unit;
        part.next = self.mark;
        Ok(part)
    }

    fn row(&mut self, part: &mut Part, line: u64, row: &Scanned) {
        if let Err(errors) = self.take(part, line, row) {
            part.rejects.push(EarlyReject { line, errors, text: Some(row.raw.clone()), is_row: true });
        }
    }

    /// Adds a row and starts or extends its group, or returns its problem.
    fn take(&mut self, part: &mut Part, line: u64, row: &Scanned) -> Result<(), Vec<CellProblem>> {
        let wrong = |code, message: String| vec![(String::new(), code, message)];
        if row.is_open {
            let message = "a quotation mark is never closed, or the row is longer than is taken; the rows after this line are read by themselves";
            return Err(wrong("open_quote", message.to_owned()));
        }
        let cells = cells(&row.raw, self.mapping.delimiter)
            .map_err(|at| wrong("not_utf8", format!("cell {} is not UTF-8: save the table as `CSV UTF-8`", at + 1)))?;
        if cells.iter().all(|cell| cell.trim().is_empty()) {
            return Ok(());
        }
        if cells.len() != self.mapping.width {
            let message = format!("the row has {} cells, and the header {} columns", cells.len(), self.mapping.width);
            return Err(wrong("wrong_width", message));
        }
        let cells: Vec<&str> = cells.iter().map(String::as_str).collect();
        let Taken { body, household } = self.mapping.take(&cells)?;
        let joins =
            household.as_ref().is_some_and(|(name, _)| self.open.as_ref().is_some_and(|open| open.name == *name));
        let opened = match &household {
            Some((name, _)) if !joins => Some(self.mapping.group(name, &cells)?),
            _ => None,
        };
        if !joins {
            self.close(part);
        }
        part.push(line, Value::Object(body).to_string().as_bytes());
        if let (Some((name, _)), Some(body)) = (&household, opened) {
            self.open = Some(OpenHousehold { name: name.clone(), line, body, members: Vec::new() });
        }
        if let (Some((_, member)), Some(open)) = (household, &mut self.open) {
            open.members.push(member);
        }
        Ok(())
    }

    /// Writes the group of the previous rows.
    fn close(&mut self, part: &mut Part) {
        let Some(OpenHousehold { line, mut body, members, .. }) = self.open.take() else { return };
        body.insert("member".to_owned(), Value::Array(members));
        body.insert("$on_existing".to_owned(), json!("add-members"));
        part.push(line, Value::Object(body).to_string().as_bytes());
    }
}

/// Size of a read from the disk, in bytes.
const READ_BYTES: usize = 1 << 18;

/// Splits bytes into records according to RFC 4180: line breaks within quotation marks belong to the cell.
struct Scanner<R> {
    reader: R,
    delimiter: u8,
    buffer: Vec<u8>,
    start: usize,
    is_over: bool,
}

/// An unparsed record of the file.
#[derive(Debug, PartialEq, Eq)]
struct Scanned {
    /// Its bytes, with the line ending.
    pub raw: Vec<u8>,
    /// Number of its lines.
    pub lines: u64,
    /// True if a quotation mark was not closed within the limit: `raw` is then only the first line.
    pub is_open: bool,
}

impl<R: Read> Scanner<R> {
    /// Creates a scanner.
    pub fn new(reader: R, delimiter: u8) -> Self {
        Self { reader, delimiter, buffer: Vec::new(), start: 0, is_over: false }
    }

    /// Returns the next record.
    ///
    /// # Errors
    /// When the file cannot be read.
    pub fn next(&mut self) -> std::io::Result<Option<Scanned>> {
        let (mut at, mut in_quotes, mut begins, mut closed) = (0, false, true, false);
        loop {
            let Some(byte) = self.byte(at)? else {
                if at == 0 {
                    return Ok(None);
                }
                return Ok(Some(if in_quotes { self.first_line()? } else { self.take(at, false) }));
            };
            if at >= LINE_BYTES_MAX {
                return Ok(Some(self.first_line()?));
            }
            at += 1;
            if in_quotes {
                if byte == b'"' {
                    (in_quotes, closed) = (false, true);
                }
                continue;
            }
            match byte {
                // The second of two quotation marks: the first one did not close the cell.
                b'"' if closed => (in_quotes, closed) = (true, false),
                b'"' if begins => in_quotes = true,
                b'\n' => return Ok(Some(self.take(at, false))),
                b'\r' => {
                    if self.byte(at)? == Some(b'\n') {
                        at += 1;
                    }
                    return Ok(Some(self.take(at, false)));
                }
                _ => closed = false,
            }
            begins = byte == self.delimiter;
        }
    }

    fn byte(&mut self, at: usize) -> std::io::Result<Option<u8>> {
        while self.start.saturating_add(at) >= self.buffer.len() && !self.is_over {
            self.buffer.drain(..self.start);
            self.start = 0;
            let before = self.buffer.len();
            self.buffer.resize(before.saturating_add(READ_BYTES), 0);
            let read = self.reader.read(self.buffer.get_mut(before..).unwrap_or_default());
            self.buffer.truncate(before.saturating_add(*read.as_ref().unwrap_or(&0)));
            match read {
                Ok(0) => self.is_over = true,
                Ok(_) => {}
                Err(error) if error.kind() == std::io::ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        }
        Ok(self.buffer.get(self.start.saturating_add(at)).copied())
    }

    fn take(&mut self, length: usize, is_open: bool) -> Scanned {
        let end = self.start.saturating_add(length).min(self.buffer.len());
        let raw = self.buffer.get(self.start..end).unwrap_or_default().to_vec();
        self.start = end;
        let mut lines = 0;
        for (at, byte) in raw.iter().enumerate() {
            let is_end = *byte == b'\n' || (*byte == b'\r' && raw.get(at + 1) != Some(&b'\n'));
            lines += u64::from(is_end);
        }
        Scanned { raw, lines, is_open }
    }

    /// Returns the first line of an unterminated record; the excess of a line over the maximum length is skipped.
    fn first_line(&mut self) -> std::io::Result<Scanned> {
        let mut at = 0;
        while let Some(byte) = self.byte(at)? {
            at += 1;
            if byte == b'\n' {
                break;
            }
            if at >= LINE_BYTES_MAX {
                let beginning = self.take(at, true);
                // The rest is ignored.
                while let Some(byte) = self.byte(0)? {
                    self.start += 1;
                    if byte == b'\n' {
                        break;
                    }
                }
                return Ok(Scanned { lines: 1, ..beginning });
            }
        }
        Ok(Scanned { lines: 1, ..self.take(at, true) })
    }
}

/// Returns the cells of a record.
///
/// # Errors
/// The position of a cell that is not UTF-8.
fn cells(raw: &[u8], delimiter: u8) -> Result<Vec<String>, usize> {
    let mut reader = csv::ReaderBuilder::new()
        .has_headers(false)
        .flexible(true)
        .delimiter(delimiter)
        .buffer_capacity(raw.len().max(16))
        .from_reader(raw);
    let mut record = csv::ByteRecord::new();
    if !reader.read_byte_record(&mut record).unwrap_or(false) {
        return Ok(Vec::new());
    }
    let cells = record.iter().enumerate();
    cells.map(|(at, cell)| std::str::from_utf8(cell).map(str::to_owned).map_err(|_| at)).collect()
}

#[cfg(test)]
mod scanner_tests {
    use super::*;

    fn scanned(text: &[u8]) -> Vec<(String, u64, bool)> {
        let mut scanner = Scanner::new(text, b',');
        let mut records = Vec::new();
        while let Some(record) = scanner.next().unwrap() {
            records.push((String::from_utf8_lossy(&record.raw).into_owned(), record.lines, record.is_open));
        }
        records
    }

    #[test]
    fn line_ends_within_quotation_marks_belong_to_the_cell() {
        let record = |raw: &str, lines, is_open| (raw.to_owned(), lines, is_open);
        assert_eq!(
            scanned(b"a,\"b\nc\"\"d\",5\" pipe\r\ne\r,f\n\n\"x\"y\nlast"),
            [
                record("a,\"b\nc\"\"d\",5\" pipe\r\n", 2, false),
                record("e\r", 1, false),
                record(",f\n", 1, false),
                record("\n", 1, false),
                record("\"x\"y\n", 1, false),
                record("last", 0, false),
            ]
        );
    }

    #[test]
    fn an_open_quotation_mark_takes_one_line_with_it() {
        let rows = scanned(b"a,b\n1,\"2\n3,4\n5,6\n");
        let lines: Vec<(&str, bool)> = rows.iter().map(|(raw, _, is_open)| (raw.as_str(), *is_open)).collect();
        assert_eq!(lines, [("a,b\n", false), ("1,\"2\n", true), ("3,4\n", false), ("5,6\n", false)]);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sheet(toml: &str, table: &str) -> Part {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("mapping.toml");
        std::fs::write(&path, toml).unwrap();
        let (text, _) = MappingText::load(&path).unwrap();
        let (mapping, _, mark) = open(table.as_bytes(), &text, false).unwrap();
        let rest = &table.as_bytes()[usize::try_from(mark.offset).unwrap()..];
        Sheet::new(rest, Arc::new(mapping), mark).part(1 << 20).unwrap()
    }

    const MAPPING: &str = r#"
        empty = ["", "NA"]
        [[column]]
        name = "id"
        field = "identifier[urn:x:id]"
        [[column]]
        name = "born"
        field = "birth_date"
        date = ["%d/%m/%Y"]
        [household]
        column = "hh"
        system = "urn:x:hh"
        [household.role]
        name = "rel"
        codes = { head = "urn:x:rel#head" }
        [[household.field]]
        name = "village"
        field = "address.city"
    "#;

    #[test]
    fn rows_become_people_and_rows_of_one_household_a_group() {
        let table = "id,born,hh,rel,village\n1,07/03/1990,H1,head,Jumla\n2,NA,H1,,\n3,1990,H1,,\n4,,H2,,\n5,,,,\n,,,,\n6,,H2,boss,\n";
        let part = sheet(MAPPING, table);
        let lines: Vec<Value> =
            part.units.iter().map(|unit| serde_json::from_slice(&part.body[unit.range.clone()]).unwrap()).collect();
        let person = |id: &str| json!({"type": "Individual", "identifier": [{"system": "urn:x:id", "value": id}]});
        let member = |id: &str| json!({"entity": {"reference": format!("Individual/urn:x:id|{id}")}});
        let group = |id: &str, members: Vec<Value>| json!({"type": "Group", "identifier": [{"system": "urn:x:hh", "value": id}], "member": members, "$on_existing": "add-members"});
        let mut first = person("1");
        first["birth_date"] = json!("1990-03-07");
        let mut head = member("1");
        head["role"] = json!("urn:x:rel#head");
        let mut village = group("H1", vec![head, member("2")]);
        village["address"] = json!([{"city": "Jumla"}]);
        let expected = [first, person("2"), village, person("4"), group("H2", vec![member("4")]), person("5")];
        assert_eq!(lines, expected);
        let rejects: Vec<(u64, &str)> = part.rejects.iter().map(|reject| (reject.line, reject.errors[0].1)).collect();
        assert_eq!(rejects, [(4, "invalid_date"), (8, "not_in_mapping")]);
        assert_eq!(part.unit(3).map(|(line, _)| line), Some(2), "the group stands for its first row");
    }

    #[test]
    fn invalid_rows_are_reported_and_the_rest_is_read() {
        let part = sheet(
            "[[column]]\nname = 'a'\nfield = 'name.given'\n[[column]]\nname='b'\nfield='name.family'",
            "a,b\n1,2,3\n1\n\"x\ny\",z\n",
        );
        assert_eq!(part.rejects.iter().map(|reject| reject.line).collect::<Vec<_>>(), [2, 3]);
        assert!(part.rejects.iter().all(|reject| reject.errors[0].1 == "wrong_width"));
        assert_eq!((part.units.len(), part.next.line), (1, 6));
    }

    #[test]
    fn an_unreadable_header_is_reported() {
        let refused = |table: &[u8]| open(table, &MappingText::default(), false).map(|_| ()).unwrap_err();
        assert!(refused(b"").contains("empty"));
        assert!(refused(b"\xff\xfea\0").contains("UTF-16"));
        assert!(refused(b"n\xe9,b\n").contains("column 1 is not UTF-8"));
        assert!(refused(b"name.given;name.family\n").contains("delimiter = \";\""));
        assert!(refused(b"\"a,b\n").contains("never closed"));
        assert!(open(&b"\xef\xbb\xbfname.given\nx\n"[..], &MappingText::default(), false).is_ok());
    }
}
