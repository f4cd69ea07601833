//! A mapping file: which column is which field.

use std::collections::BTreeSet;
use std::path::Path as FilePath;

use serde::Deserialize;
use serde_json::{Map, Value};

use super::field::{Form, form, nearest};
use super::path::Path;
use super::value::Writing;
use crate::domain::record::RecordKind;

/// The kinds that rows may be of.
const KINDS: [RecordKind; 5] = [
    RecordKind::Individual,
    RecordKind::Group,
    RecordKind::Program,
    RecordKind::ProgramMembership,
    RecordKind::Consent,
];
/// The biggest mapping file, in bytes.
const MAPPING_BYTES_MAX: u64 = 1 << 20;
/// How many columns are named in a message.
const NAMED_MAX: usize = 20;

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
        let about = std::fs::metadata(path).map_err(|error| failed(&error))?;
        if !about.is_file() || about.len() > MAPPING_BYTES_MAX {
            return Err(failed(&format!("it is no file of at most {MAPPING_BYTES_MAX} bytes")));
        }
        let text = std::fs::read(path).map_err(|error| failed(&error))?;
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
        let mut fitting = Fitting { header, used: BTreeSet::new(), problems: Vec::new() };
        fitting.check_header();
        let mapping = match &self.0 {
            Some(file) => fitting.file(file, delimiter),
            None => fitting.header_of_fields(delimiter),
        };
        if fitting.problems.is_empty() { Ok(mapping) } else { Err(fitting.problems) }
    }
}

struct Fitting<'h> {
    header: &'h [String],
    used: BTreeSet<usize>,
    problems: Vec<String>,
}

impl Fitting<'_> {
    fn check_header(&mut self) {
        for (at, name) in self.header.iter().enumerate() {
            if self.header.iter().take(at).any(|earlier| earlier == name) {
                self.problems.push(format!("the column `{name}` stands twice in the header"));
            }
        }
    }

    fn file(&mut self, file: &MappingFile, delimiter: u8) -> Mapping {
        let kind = match &file.kind {
            None => RecordKind::Individual,
            Some(name) => self.kind(name).unwrap_or(RecordKind::Individual),
        };
        let columns = self.columns(kind, &file.column);
        let constants = self.constants(kind, &file.constant);
        let household = file.household.as_ref().and_then(|household| {
            if kind != RecordKind::Individual {
                self.problems
                    .push("`[household]` puts people into groups: rows are of type `Individual` then".to_owned());
            }
            self.household(household)
        });
        self.check_unused(&file.ignore);
        let taken = columns.iter().filter(|column| !column.writing.label);
        let mut paths: Vec<&str> = taken.map(|column| column.path.as_str()).collect();
        paths.extend(constants.iter().map(|(path, _)| path.as_str()));
        self.check_twice(&paths);
        let (empty, width) = (file.empty.clone(), self.header.len());
        Mapping { kind, delimiter, empty, columns, constants, household, width }
    }

    fn header_of_fields(&mut self, delimiter: u8) -> Mapping {
        let kind = RecordKind::Individual;
        let writings: Vec<Writing> = self
            .header
            .iter()
            .map(|name| Writing { name: name.clone(), field: name.clone(), ..Writing::default() })
            .collect();
        let columns = self.columns(kind, &writings);
        if !self.problems.is_empty() {
            let hint = "without --mapping the header names fields, such as `identifier[SYSTEM]` and `name.given`; `daftar import --example-mapping` shows a mapping";
            self.problems.push(hint.to_owned());
        }
        let width = self.header.len();
        Mapping { kind, delimiter, empty: empty_cell(), columns, constants: Vec::new(), household: None, width }
    }

    fn kind(&mut self, name: &str) -> Option<RecordKind> {
        let found = KINDS.into_iter().find(|kind| kind.name() == name);
        if found.is_none() {
            let names: Vec<&str> = KINDS.iter().map(|kind| kind.name()).collect();
            self.problems.push(format!("`type = \"{name}\"`: a row is one of {}", names.join(", ")));
        }
        found
    }

    fn columns(&mut self, kind: RecordKind, written: &[Writing]) -> Vec<Column> {
        written.iter().filter_map(|writing| self.column(kind, writing)).collect()
    }

    fn column(&mut self, kind: RecordKind, writing: &Writing) -> Option<Column> {
        let at = self.place(&writing.name);
        let path = self.path(&writing.field);
        let form = path.as_ref().and_then(|path| self.form(kind, path, writing));
        self.check_formats(writing);
        Some(Column { at: at?, name: writing.name.clone(), path: path?, form: form?, writing: writing.clone() })
    }

    fn check_formats(&mut self, writing: &Writing) {
        // A format is checked by writing and reading a day with it; two digits would mean another century.
        let Ok(day) = jiff::civil::Date::new(1925, 11, 23) else { return };
        for format in &writing.date {
            let written = jiff::fmt::strtime::format(format, day);
            let is_right = written.is_ok_and(|text| jiff::civil::Date::strptime(format, &text).ok() == Some(day));
            if !is_right {
                self.problems.push(format!(
                    "the column `{}`: `{format}` says no whole day; a format is such as `%d/%m/%Y`, with the year in four digits",
                    writing.name
                ));
            }
        }
        if writing.separator.as_ref().is_some_and(String::is_empty) {
            self.problems.push(format!("the column `{}`: `separator` is not empty", writing.name));
        }
    }

    fn place(&mut self, name: &str) -> Option<usize> {
        let found = self.header.iter().position(|column| column == name);
        match found {
            Some(at) => {
                self.used.insert(at);
            }
            None => {
                let near = nearest(name, self.header.iter().map(String::as_str));
                let hint = near.map(|near| format!("; did you mean `{near}`?")).unwrap_or_default();
                self.problems.push(format!("the table has no column `{name}`{hint}"));
            }
        }
        found
    }

    fn path(&mut self, text: &str) -> Option<Path> {
        match Path::parse(text) {
            Ok(path) => Some(path),
            Err(problem) => {
                self.problems.push(problem);
                None
            }
        }
    }

    fn form(&mut self, kind: RecordKind, path: &Path, writing: &Writing) -> Option<Form> {
        let known = form(kind, path);
        match (known, writing.form) {
            (Ok(Form::Text), Some(named)) if path.shape().starts_with("extension.") => Some(named.form()),
            (Ok(_), Some(_)) => {
                self.problems
                    .push(format!("`as` is for fields of `extension` alone: what `{}` is, is known", path.as_str()));
                None
            }
            (Ok(form), None) => Some(form),
            (Err(problem), _) => {
                self.problems.push(problem);
                None
            }
        }
    }

    fn constants(&mut self, kind: RecordKind, written: &[ConstantFile]) -> Vec<(Path, Value)> {
        let mut constants = Vec::new();
        for constant in written {
            let Some(path) = self.path(&constant.field) else { continue };
            if self.form(kind, &path, &Writing::default()).is_none() {
                continue;
            }
            match serde_json::to_value(&constant.value) {
                Ok(value) => constants.push((path, value)),
                Err(_) => self.problems.push(format!("the constant of `{}` is no JSON value", path.as_str())),
            }
        }
        constants
    }

    fn household(&mut self, file: &HouseholdFile) -> Option<Household> {
        let at = self.place(&file.column);
        let role = file.role.as_ref().and_then(|role| {
            let at = self.place(&role.name)?;
            let path = Path::parse("role").ok()?;
            Some(Column { at, name: role.name.clone(), path, form: Form::Code, writing: role.clone() })
        });
        let columns = self.columns(RecordKind::Group, &file.fields);
        let constants = self.constants(RecordKind::Group, &file.constant);
        let mut paths: Vec<&str> = columns.iter().map(|column| column.path.as_str()).collect();
        paths.extend(constants.iter().map(|(path, _)| path.as_str()));
        self.check_twice(&paths);
        Some(Household { at: at?, system: file.system.clone(), role, columns, constants })
    }

    fn check_twice(&mut self, paths: &[&str]) {
        for (at, path) in paths.iter().enumerate() {
            if paths.iter().take(at).any(|earlier| earlier == path) {
                self.problems.push(format!("the field `{path}` is given twice"));
            }
        }
    }

    /// Nothing of a table is lost without being told.
    fn check_unused(&mut self, ignored: &[String]) {
        if ignored.iter().any(|name| name == "*") {
            return;
        }
        for name in ignored {
            if !self.header.contains(name) {
                let near = nearest(name, self.header.iter().map(String::as_str));
                let hint = near.map(|near| format!("; did you mean `{near}`?")).unwrap_or_default();
                self.problems.push(format!("`ignore` names `{name}`, and the table has no such column{hint}"));
            }
        }
        let left =
            self.header.iter().enumerate().filter(|(at, name)| !self.used.contains(at) && !ignored.contains(name));
        let left: Vec<String> = left.map(|(_, name)| format!("`{name}`")).collect();
        if !left.is_empty() {
            let named = left.iter().take(NAMED_MAX).cloned().collect::<Vec<_>>().join(", ");
            self.problems.push(format!(
                "nothing takes the column {named}: map it, or name it in `ignore = [..]` (`ignore = [\"*\"]` passes over all others)"
            ));
        }
    }
}

/// A record that is being put together.
pub type Body = Map<String, Value>;

#[cfg(test)]
mod tests {
    use super::*;

    fn fit(toml: &str, header: &[&str]) -> Result<Mapping, Vec<String>> {
        let header: Vec<String> = header.iter().map(|name| (*name).to_owned()).collect();
        MappingText(Some(toml::from_str(toml).unwrap())).fit(&header, b',')
    }

    #[test]
    fn everything_that_is_wrong_is_told_at_once() {
        let toml = r#"
            ignore = ["gpss"]
            [[column]]
            name = "Naem"
            field = "name.given"
            [[column]]
            name = "dob"
            field = "birthdate"
            date = ["%d/%m/%y", "%d"]
            [[constant]]
            field = "countri"
            value = "x"
        "#;
        let problems = fit(toml, &["Name", "dob", "gps"]).unwrap_err();
        let text = problems.join("\n");
        for what in [
            "no column `Naem`; did you mean `Name`?",
            "no field `birthdate`; did you mean `birth_date`?",
            "`%d` says no whole day",
            "did you mean `country`?",
            "`ignore` names `gpss`, and the table has no such column; did you mean `gps`?",
            "nothing takes the column `Name`, `gps`",
        ] {
            assert!(text.contains(what), "{what}\n{text}");
        }
    }

    #[test]
    fn a_header_may_name_fields() {
        let header = ["identifier[urn:x:a]", "name.given", "birth_date"].map(str::to_owned);
        let mapping = MappingText::default().fit(&header, b',').unwrap();
        assert_eq!(
            mapping.columns.iter().map(|column| column.form).collect::<Vec<_>>(),
            [Form::Text, Form::Text, Form::Date]
        );
        let problems = MappingText::default().fit(&["Given name".to_owned()], b',').unwrap_err();
        assert!(problems.join(" ").contains("--mapping"), "{problems:?}");
    }
}
