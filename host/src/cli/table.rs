//! Converts tables with a header to records and back. A mapping assigns columns to fields and defines the format of
//! their values.
//!
//! **Invariant:** anything undefined in a mapping is rejected, not guessed: an unused column, an unknown field, a value
//! without a translation.

mod field;
mod fitting;
#[cfg(test)]
mod tests;
pub mod value;

use std::path::Path as FilePath;

use serde::Deserialize;
use serde_json::{Map, Value, json};

use self::field::{Form, Path};
use self::fitting::Fitting;
use self::value::Writing;
use daftar_domain::error::why_not_read;
use daftar_domain::record::RecordKind;

/// Maximum size of a mapping file, in bytes.
const MAPPING_BYTES_MAX: u64 = 1 << 20;

/// The contents of a mapping file.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
struct MappingFile {
    #[serde(rename = "type")]
    kind: Option<String>,
    delimiter: Option<String>,
    #[serde(default = "empty_cell")]
    empty: Vec<String>,
    #[serde(default)]
    ignore: Vec<String>,
    #[serde(default)]
    column: Vec<Writing>,
    #[serde(default)]
    constant: Vec<ConstantFile>,
    household: Option<HouseholdFile>,
}

#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
struct ConstantFile {
    field: String,
    value: toml::Value,
}

#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
struct HouseholdFile {
    column: String,
    system: String,
    role: Option<Writing>,
    #[serde(default, rename = "field")]
    fields: Vec<Writing>,
    #[serde(default)]
    constant: Vec<ConstantFile>,
}

fn empty_cell() -> Vec<String> {
    vec![String::new()]
}

/// A mapped column.
#[derive(Debug, Clone)]
pub struct Column {
    /// Its index in the row.
    pub at: usize,
    /// Its name.
    pub name: String,
    /// Target of its values.
    pub path: Path,
    /// Type of its values.
    pub form: Form,
    /// Format of its values.
    pub writing: Writing,
}

/// Rows with the same value in one column, imported as a group.
#[derive(Debug, Clone)]
pub struct Household {
    /// Index of the column with the group's name.
    pub at: usize,
    /// The system of that name.
    pub system: String,
    /// The column with the role of the member.
    pub role: Option<Column>,
    /// Properties of the group, from its first row.
    pub columns: Vec<Column>,
    /// Properties of every group.
    pub constants: Vec<(Path, Value)>,
}

/// A mapping that fits a header.
#[derive(Debug, Clone)]
pub struct Mapping {
    /// Kind of the rows.
    pub kind: RecordKind,
    /// Separator of the cells.
    pub delimiter: u8,
    /// Texts of cells without a value.
    pub empty: Vec<String>,
    /// The columns.
    pub columns: Vec<Column>,
    /// Properties of every record.
    pub constants: Vec<(Path, Value)>,
    /// Groups of the individuals.
    pub household: Option<Household>,
    /// Number of columns of the header.
    pub width: usize,
}

/// The text of a mapping file, or none: the header then contains the names of fields.
#[derive(Debug, Clone, Default)]
pub struct MappingText(Option<MappingFile>);

impl MappingText {
    /// Reads a mapping file; returns it with its bytes.
    ///
    /// # Errors
    /// The problem, in one sentence.
    pub fn load(path: &FilePath) -> Result<(Self, Vec<u8>), String> {
        let failed = |what: &dyn std::fmt::Display| format!("the mapping `{}` cannot be used: {what}", path.display());
        let about = std::fs::metadata(path).map_err(|error| failed(&why_not_read(&error)))?;
        if !about.is_file() || about.len() > MAPPING_BYTES_MAX {
            return Err(failed(&format!("it is no file of at most {MAPPING_BYTES_MAX} bytes")));
        }
        let text = std::fs::read(path).map_err(|error| failed(&why_not_read(&error)))?;
        let parsed = std::str::from_utf8(&text).map_err(|_| failed(&"it is not UTF-8"))?;
        let file = toml::from_str(parsed).map_err(|error| failed(&error))?;
        Ok((Self(Some(file)), text))
    }

    /// Returns the separator of cells, if specified.
    ///
    /// # Errors
    /// If the separator is not a single byte.
    pub fn delimiter(&self) -> Result<Option<u8>, String> {
        let Some(text) = self.0.as_ref().and_then(|file| file.delimiter.as_ref()) else { return Ok(None) };
        match text.as_bytes() {
            [byte] if byte.is_ascii() && !b"\"\r\n".contains(byte) => Ok(Some(*byte)),
            _ => Err("`delimiter` is one character, such as `,`, `;` or `\\t`".to_owned()),
        }
    }

    /// Returns the names of the columns for an output table; without a mapping, they are the names of fields.
    #[must_use]
    pub fn header(&self) -> Vec<String> {
        let Some(file) = &self.0 else { return Vec::new() };
        let mut names = Vec::new();
        let household = file.household.iter().flat_map(|household| {
            let fields = household.fields.iter().map(|field| &field.name);
            std::iter::once(&household.column).chain(household.role.iter().map(|role| &role.name)).chain(fields)
        });
        for name in file.column.iter().map(|column| &column.name).chain(household) {
            if !names.contains(name) {
                names.push(name.clone());
            }
        }
        names
    }

    /// Fits the mapping to an output table, which has exactly the columns of the mapping.
    ///
    /// # Errors
    /// All problems, one sentence each.
    pub fn written(&self, header: &[String], delimiter: u8) -> Result<Mapping, Vec<String>> {
        let mut text = self.clone();
        if let Some(file) = &mut text.0 {
            file.ignore = vec!["*".to_owned()];
        }
        text.fit(header, delimiter)
    }

    /// Fits the mapping to a header.
    ///
    /// # Errors
    /// All problems, one sentence each.
    pub fn fit(&self, header: &[String], delimiter: u8) -> Result<Mapping, Vec<String>> {
        let mut fitting = Fitting::new(header);
        fitting.check_header();
        let mapping = match &self.0 {
            Some(file) => fitting.file(file, delimiter),
            None => fitting.header_of_fields(delimiter),
        };
        fitting.end(mapping)
    }
}

/// A record under construction.
pub type Body = Map<String, Value>;

/// The problem with a cell: the field, the kind of fault, one sentence.
pub type CellProblem = (String, &'static str, String);

/// A converted row.
#[derive(Debug, PartialEq)]
pub struct Taken {
    /// The record.
    pub body: Body,
    /// Group of the individual: its name, and the member.
    pub household: Option<(String, Value)>,
}

impl Mapping {
    /// Converts a row to a record.
    ///
    /// # Errors
    /// All problems of its cells.
    pub fn take(&self, cells: &[&str]) -> Result<Taken, Vec<CellProblem>> {
        let mut problems = Vec::new();
        let mut body = Body::new();
        body.insert("type".to_owned(), json!(self.kind.name()));
        fill(&mut body, &self.constants, &self.columns, &|at| self.cell(cells, at), &mut problems);
        let household = match &self.household {
            Some(household) => self.household_of(household, &body, cells, &mut problems),
            None => None,
        };
        if problems.is_empty() { Ok(Taken { body, household }) } else { Err(problems) }
    }

    /// Returns the properties of a row's group, from that row.
    ///
    /// # Errors
    /// All problems of its cells.
    pub fn group(&self, name: &str, cells: &[&str]) -> Result<Body, Vec<CellProblem>> {
        let mut body = Body::new();
        let Some(household) = &self.household else { return Ok(body) };
        body.insert("type".to_owned(), json!("Group"));
        body.insert("identifier".to_owned(), json!([{"system": household.system, "value": name}]));
        let mut problems = Vec::new();
        fill(&mut body, &household.constants, &household.columns, &|at| self.cell(cells, at), &mut problems);
        if problems.is_empty() { Ok(body) } else { Err(problems) }
    }

    /// Writes a value as the cell of a column; empty for a missing value.
    ///
    /// # Errors
    /// If the cell would be read as another value, or as none: the reason and the remedy, in one sentence.
    pub fn write(&self, column: &Column, value: &Value) -> Result<String, String> {
        let cell = column.writing.write(column.form, value)?;
        let word = cell.trim();
        if word.is_empty() {
            return Ok(cell);
        }
        let list = if self.is_empty_word(word) {
            "empty"
        } else if column.writing.is_nothing(word) {
            "codes"
        } else {
            return Ok(cell);
        };
        Err(format!(
            "its cell would be `{word}`, which an import reads as no value: remove `{word}` from `{list}` of the mapping"
        ))
    }

    /// Returns a cell, if it has a value.
    fn cell<'c>(&self, cells: &[&'c str], at: usize) -> Option<&'c str> {
        let cell = cells.get(at)?.trim();
        (!cell.is_empty() && !self.is_empty_word(cell)).then_some(cell)
    }

    /// True if `empty` of the mapping lists a word.
    fn is_empty_word(&self, word: &str) -> bool {
        self.empty.iter().any(|empty| empty == word)
    }

    fn household_of(
        &self,
        household: &Household,
        body: &Body,
        cells: &[&str],
        problems: &mut Vec<CellProblem>,
    ) -> Option<(String, Value)> {
        let name = self.cell(cells, household.at)?;
        let mut member = Body::new();
        let identifier = body.get("identifier").and_then(|all| all.get(0));
        let part = |name: &str| identifier.and_then(|identifier| identifier.get(name)).and_then(Value::as_str);
        let (Some(system), Some(value)) = (part("system"), part("value")) else {
            let message = "a person who goes into a group has an identifier: map a column to `identifier[SYSTEM]`";
            problems.push(("identifier".to_owned(), "required", message.to_owned()));
            return None;
        };
        member.insert("entity".to_owned(), json!({"reference": format!("Individual/{system}|{value}")}));
        let roles: Vec<Column> = household.role.iter().cloned().collect();
        fill(&mut member, &[], &roles, &|at| self.cell(cells, at), problems);
        Some((name.to_owned(), Value::Object(member)))
    }
}

fn fill<'c>(
    body: &mut Body,
    constants: &[(field::Path, Value)],
    columns: &[Column],
    cell: &dyn Fn(usize) -> Option<&'c str>,
    problems: &mut Vec<CellProblem>,
) {
    let (before, mut filled) = (problems.len(), Vec::new());
    for (path, value) in constants {
        path.put(body, value.clone());
        filled.push(("constant", path.as_str(), path));
    }
    for column in columns.iter().filter(|column| !column.writing.label) {
        let Some(cell) = cell(column.at).filter(|cell| !column.writing.is_nothing(cell)) else { continue };
        match column.writing.read(column.form, cell) {
            Ok(value) => {
                column.path.put(body, value);
                filled.push(("column", column.name.as_str(), &column.path));
            }
            Err((code, message)) => {
                let message = format!("column `{}`: {message}", column.name);
                problems.push((column.path.as_str().to_owned(), code, message));
            }
        }
    }
    // An item may be empty because its cell is invalid, which is reported already.
    if problems.len() == before {
        problems.extend(empty_items(body, &filled, columns));
    }
}

/// Returns a problem for each empty item before an item with a value. A `filled` path has a value: of a column or a
/// constant, and its name.
fn empty_items(body: &Body, filled: &[(&str, &str, &Path)], columns: &[Column]) -> Vec<CellProblem> {
    let mut problems: Vec<CellProblem> = Vec::new();
    for (source, name, path) in filled {
        let Some(item) = path.empty_item_before(body) else { continue };
        if problems.iter().any(|(field, _, _)| *field == item) {
            continue;
        }
        let of_item = columns.iter().filter(|column| !column.writing.label && column.path.is_within(&item));
        let of_item: Vec<String> = of_item.map(|column| format!("`{}`", column.name)).collect();
        let remedy = match of_item.as_slice() {
            [] => "map a column to it".to_owned(),
            names => format!("fill {}", names.join(" or ")),
        };
        let message = format!(
            "{source} `{name}`: `{}` has a value, and the item before it, `{item}`, has none: {remedy}, or move the value to that item",
            path.as_str()
        );
        problems.push((item, "required", message));
    }
    problems
}
