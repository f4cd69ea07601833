//! Cuts a table into records and records into cells, by the rules of RFC 4180.

use std::io::Read;

use daftar_http::admin::import_lines::LINE_BYTES_MAX;

/// How many bytes are read from the disk at once.
const READ_BYTES: usize = 1 << 18;

/// Cuts records out of bytes, by the rules of RFC 4180: line ends within quotation marks belong to the cell.
pub struct Scanner<R> {
    reader: R,
    delimiter: u8,
    buffer: Vec<u8>,
    start: usize,
    is_over: bool,
}

/// A record as it lies in the file.
#[derive(Debug, PartialEq, Eq)]
pub struct Scanned {
    /// Its bytes, with the line end.
    pub raw: Vec<u8>,
    /// How many lines it takes.
    pub lines: u64,
    /// Whether a quotation mark was never closed, or too late: then it is the first line alone.
    pub is_open: bool,
}

impl<R: Read> Scanner<R> {
    /// A scanner.
    pub fn new(reader: R, delimiter: u8) -> Self {
        Self { reader, delimiter, buffer: Vec::new(), start: 0, is_over: false }
    }

    /// The next record.
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
                // The second of two marks: the first one did not close the cell.
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

    /// The first line of a record that has no end; one that is longer than is taken is passed over to its end.
    fn first_line(&mut self) -> std::io::Result<Scanned> {
        let mut at = 0;
        while let Some(byte) = self.byte(at)? {
            at += 1;
            if byte == b'\n' {
                break;
            }
            if at >= LINE_BYTES_MAX {
                let beginning = self.take(at, true);
                // The rest is of no use, and not kept.
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

/// The cells of a record.
///
/// # Errors
/// The place of a cell that is not UTF-8.
pub fn cells(raw: &[u8], delimiter: u8) -> Result<Vec<String>, usize> {
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
mod tests {
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
