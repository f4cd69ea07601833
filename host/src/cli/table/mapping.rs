//! A mapping file: which column is which field.

mod fitting;
#[cfg(test)]
mod tests;

use std::path::Path as FilePath;

use serde::Deserialize;
use serde_json::{Map, Value};

use self::fitting::Fitting;
use super::field::Form;
use super::path::Path;
use super::value::Writing;
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
    /// Where its values go.
    pub path: Path,
    /// What they are.
    pub form: Form,
    /// How they are written.
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
    /// What is said of the group by its first row.
    pub columns: Vec<Column>,
    /// What is said of every group.
    pub constants: Vec<(Path, Value)>,
}

/// A mapping that fits a header.
#[derive(Debug, Clone)]
pub struct Mapping {
    /// What rows are.
    pub kind: RecordKind,
    /// Between the cells.
    pub delimiter: u8,
    /// Cells that say nothing.
    pub empty: Vec<String>,
    /// The columns.
    pub columns: Vec<Column>,
    /// What is said of every record.
    pub constants: Vec<(Path, Value)>,
    /// Into which groups people go.
    pub household: Option<Household>,
    /// How many columns the header has.
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

    /// What stands between cells, where it is said.
    ///
    /// # Errors
    /// When it is no single byte.
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
