//! The input file: NDJSON lines or complete JSON documents, each a record or an API response with records.
//!
//! **Invariant:** at most one line is in memory or, if the file is not NDJSON, a file of bounded size.

use std::fs::File;
use std::io::{BufRead, BufReader, Read};
use std::path::{Path, PathBuf};

use serde_json::{Deserializer, Value};

use crate::cli::CliError;
use daftar_http::admin::import_lines::strict_value;

/// Maximum size of a line, and of a file that is not NDJSON, in bytes: a page of a hundred individuals with photos. A
/// hostile file may use thirty times as much memory.
const JSON_BYTES_MAX: usize = 64 << 20;

/// An item of the input.
pub enum Piece {
    /// A record, or the item in place of one.
    Record(Value),
    /// The text of a response in place of a missing record.
    Envelope(Value),
    /// A line that is not JSON.
    Broken(Vec<u8>),
    /// Total number of records of that kind, from a response with some of them.
    Total(String, u64),
}

/// The input file.
pub struct Input {
    path: PathBuf,
    /// Documents of a file that does not consist of lines.
    documents: Option<Vec<Value>>,
}

impl Input {
    /// Opens a file and detects its format.
    ///
    /// # Errors
    /// If the file cannot be read, or is not JSON.
    pub fn open(path: &Path) -> Result<Self, CliError> {
        let mut input = Self { path: path.to_owned(), documents: None };
        let mut reader = input.reader()?;
        let first = loop {
            match input.line(&mut reader)? {
                Some(line) if line.trim_ascii().is_empty() => {}
                other => break other.unwrap_or_default(),
            }
        };
        if parse(&first).is_err() {
            input.documents = Some(input.read_documents()?);
        }
        Ok(input)
    }

    /// Passes every item with its position to `take`, in the order of the file.
    ///
    /// # Errors
    /// Those of `take`, and when the file cannot be read.
    pub fn each(&self, take: &mut dyn FnMut(&str, Piece) -> Result<(), CliError>) -> Result<(), CliError> {
        if let Some(documents) = &self.documents {
            for (number, document) in documents.iter().enumerate() {
                let place = if documents.len() == 1 { String::new() } else { format!("document {}", number + 1) };
                pieces(&place, document.clone(), take)?;
            }
            return Ok(());
        }
        let mut reader = self.reader()?;
        let mut number = 0_u64;
        while let Some(line) = self.line(&mut reader)? {
            number = number.saturating_add(1);
            if line.trim_ascii().is_empty() {
                continue;
            }
            let place = format!("line {number}");
            match parse(&line) {
                Ok(value) => pieces(&place, value, take)?,
                Err(_) => take(&place, Piece::Broken(line))?,
            }
        }
        Ok(())
    }

    fn reader(&self) -> Result<BufReader<File>, CliError> {
        let about = std::fs::metadata(&self.path).map_err(|error| self.failed(&error))?;
        if !about.is_file() {
            return Err(self.failed(&"it is no regular file; write what the API answers to a file first"));
        }
        let mut reader = BufReader::new(File::open(&self.path).map_err(|error| self.failed(&error))?);
        let begins = reader.fill_buf().map_err(|error| self.failed(&error))?;
        if begins.starts_with(b"\xff\xfe") || begins.starts_with(b"\xfe\xff") {
            return Err(self.failed(&"it is in UTF-16, and UTF-8 is read"));
        }
        if begins.starts_with(b"\xef\xbb\xbf") {
            reader.consume(3);
        }
        Ok(reader)
    }

    /// Returns the next line without its line ending.
    fn line(&self, reader: &mut BufReader<File>) -> Result<Option<Vec<u8>>, CliError> {
        let mut line = Vec::new();
        let read = reader.take(JSON_BYTES_MAX as u64 + 1).read_until(b'\n', &mut line);
        if read.map_err(|error| self.failed(&error))? == 0 {
            return Ok(None);
        }
        if line.len() > JSON_BYTES_MAX {
            return Err(self.too_long());
        }
        while line.last().is_some_and(|last| matches!(last, b'\n' | b'\r')) {
            line.pop();
        }
        Ok(Some(line))
    }

    fn read_documents(&self) -> Result<Vec<Value>, CliError> {
        let mut text = Vec::new();
        let read = self.reader()?.take(JSON_BYTES_MAX as u64 + 1).read_to_end(&mut text);
        if read.map_err(|error| self.failed(&error))? > JSON_BYTES_MAX {
            return Err(self.too_long());
        }
        let text = std::str::from_utf8(&text).map_err(|_| self.failed(&"it is not UTF-8"))?;
        let mut deserializer = Deserializer::from_str(text);
        let mut documents = Vec::new();
        while deserializer.end().is_err() {
            let document = strict_value(&mut deserializer);
            documents.push(document.map_err(|error| self.failed(&format!("it is no JSON: {error}")))?);
        }
        if documents.is_empty() {
            return Err(self.failed(&"it is empty"));
        }
        Ok(documents)
    }

    fn too_long(&self) -> CliError {
        self.failed(&format!(
            "a line, or a file that has no lines of JSON, has at most {} MiB; write one record, or one page, a line",
            JSON_BYTES_MAX >> 20
        ))
    }

    fn failed(&self, reason: &dyn std::fmt::Display) -> CliError {
        CliError::input(format!("cannot read `{}`: {reason}", self.path.display()))
    }
}

fn parse(line: &[u8]) -> Result<Value, ()> {
    let text = std::str::from_utf8(line).map_err(|_| ())?;
    let mut deserializer = Deserializer::from_str(text);
    let value = strict_value(&mut deserializer).map_err(|_| ())?;
    deserializer.end().map(|()| value).map_err(|_| ())
}

/// Passes the records of a value: the value itself, or the records of a response: `data` of a search, `entry` of a
/// bundle, `entries` of a batch, `items` of a bulk export, or the items of an array.
fn pieces(
    place: &str,
    value: Value,
    take: &mut dyn FnMut(&str, Piece) -> Result<(), CliError>,
) -> Result<(), CliError> {
    let join = |part: &str| if place.is_empty() { part.to_owned() } else { format!("{place} {part}") };
    let mut object = match value {
        Value::Array(items) => {
            for (number, item) in items.into_iter().enumerate() {
                pieces(&join(&format!("[{number}]")), item, take)?;
            }
            return Ok(());
        }
        Value::Object(object) if !super::fields::is_one_taken(&object) => object,
        other => return take(place, Piece::Record(other)),
    };
    for (list, within) in [("data", ""), ("entry", "resource"), ("entries", "body"), ("items", "resource")] {
        let Some(Value::Array(items)) = object.remove(list) else { continue };
        let kinds = items.iter().map(|item| {
            let record = if within.is_empty() { Some(item) } else { item.get(within) };
            record.and_then(|record| record.get("type")).and_then(Value::as_str)
        });
        // The total of a response with several kinds does not specify the counted kind.
        let kind = kinds.reduce(|first, kind| if first == kind { first } else { None }).flatten();
        let total = object.get("meta").and_then(|meta| meta.get("total")).or_else(|| object.get("total"));
        if let (Some(kind), Some(total)) = (kind, total.and_then(Value::as_u64).filter(|_| list != "items")) {
            take(&join(list), Piece::Total(kind.to_owned(), total))?;
        }
        for (number, mut item) in items.into_iter().enumerate() {
            let place = join(&format!("{list}[{number}]"));
            let inner = if within.is_empty() { Some(item.take()) } else { item.get_mut(within).map(Value::take) };
            match inner.filter(|inner| !inner.is_null()) {
                Some(record) => take(&place, Piece::Record(record))?,
                None => take(&place, Piece::Envelope(item))?,
            }
        }
        return Ok(());
    }
    take(place, Piece::Record(Value::Object(object)))
}
