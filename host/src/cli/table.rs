//! Tables with a header, as records and back: which column is which field, and how its values are written.
//!
//! **Invariant:** what a mapping does not say is refused, not guessed: a column that nothing takes, a field that there is not, a
//! value that a translation does not have.

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

/// The biggest mapping file, in bytes.
const MAPPING_BYTES_MAX: u64 = 1 << 20;

/// The file.
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

/// A column that is taken.
#[derive(Debug, Clone)]
pub struct Column {
    /// Its place in the row.
    pub at: usize,
    /// Its name.
    pub name: String,
    /// Target of its values.
    pub path: Path,
    /// Their kind.
    pub form: Form,
    /// Their format.
    pub writing: Writing,
}

/// Rows of one value that become a group.
#[derive(Debug, Clone)]
pub struct Household {
    /// The column whose value names it.
    pub at: usize,
    /// The system of that name.
    pub system: String,
    /// The column that says as what a person is a member, and how.
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
    /// Between the cells.
    pub delimiter: u8,
    /// Cells that say nothing.
    pub empty: Vec<String>,
    /// The columns.
    pub columns: Vec<Column>,
    /// Properties of every record.
    pub constants: Vec<(Path, Value)>,
    /// Into which groups people go.
    pub household: Option<Household>,
    /// Number of columns the header has.
    pub width: usize,
}

/// The text of a mapping file, or of none: then the header names fields.
#[derive(Debug, Clone, Default)]
pub struct MappingText(Option<MappingFile>);

impl MappingText {
    /// Reads a file.
    ///
    /// # Errors
    /// One sentence.
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

    /// Separator of cells, if given.
    ///
    /// # Errors
    /// If it is no single byte.
    pub fn delimiter(&self) -> Result<Option<u8>, String> {
        let Some(text) = self.0.as_ref().and_then(|file| file.delimiter.as_ref()) else { return Ok(None) };
        match text.as_bytes() {
            [byte] if byte.is_ascii() && !b"\"\r\n".contains(byte) => Ok(Some(*byte)),
            _ => Err("`delimiter` is one character, such as `,`, `;` or `\\t`".to_owned()),
        }
    }

    /// The names of the columns, for a table that is written; the header names fields where there is no mapping.
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

    /// Fits the mapping to the table that it writes, which has its columns and no others.
    ///
    /// # Errors
    /// Everything that is wrong, a sentence each.
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
    /// Everything that is wrong, a sentence each.
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

/// A record that is being put together.
pub type Body = Map<String, Value>;

/// The problem with a cell: the field, the kind of fault, one sentence.
pub type CellProblem = (String, &'static str, String);

/// A row that was taken.
#[derive(Debug, PartialEq)]
pub struct Taken {
    /// The record.
    pub body: Body,
    /// Into which group the person goes: its name, and the member.
    pub household: Option<(String, Value)>,
}

impl Mapping {
    /// Makes a record of a row.
    ///
    /// # Errors
    /// Everything that is wrong with its cells.
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

    /// Properties of a row's group, from that row.
    ///
    /// # Errors
    /// Everything that is wrong with its cells.
    pub fn group(&self, name: &str, cells: &[&str]) -> Result<Body, Vec<CellProblem>> {
        let mut body = Body::new();
        let Some(household) = &self.household else { return Ok(body) };
        body.insert("type".to_owned(), json!("Group"));
        body.insert("identifier".to_owned(), json!([{"system": household.system, "value": name}]));
        let mut problems = Vec::new();
        fill(&mut body, &household.constants, &household.columns, &|at| self.cell(cells, at), &mut problems);
        if problems.is_empty() { Ok(body) } else { Err(problems) }
    }

    /// A cell that says something.
    fn cell<'c>(&self, cells: &[&'c str], at: usize) -> Option<&'c str> {
        let cell = cells.get(at)?.trim();
        (!cell.is_empty() && !self.empty.iter().any(|empty| empty == cell)).then_some(cell)
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
    for (path, value) in constants {
        path.put(body, value.clone());
    }
    for column in columns.iter().filter(|column| !column.writing.label) {
        let Some(cell) = cell(column.at).filter(|cell| !column.writing.is_nothing(cell)) else { continue };
        match column.writing.read(column.form, cell) {
            Ok(value) => column.path.put(body, value),
            Err((code, message)) => {
                let message = format!("column `{}`: {message}", column.name);
                problems.push((column.path.as_str().to_owned(), code, message));
            }
        }
    }
}
