//! Compares a mapping with the header of a table, and reports all mismatches together.

use std::collections::BTreeSet;

use serde_json::Value;

use super::field::{Form, Path, form, nearest};
use super::value::Writing;
use super::{Column, ConstantFile, Household, HouseholdFile, Mapping, MappingFile, empty_cell};
use daftar_domain::record::RecordKind;

/// Maximum number of columns listed in a message.
const NAMED_MAX: usize = 20;

/// State of fitting a mapping to a header, with all problems so far.
pub(super) struct Fitting<'h> {
    header: &'h [String],
    /// Indexes of the used columns.
    used: BTreeSet<usize>,
    problems: Vec<String>,
}

impl<'h> Fitting<'h> {
    /// Starts with no used columns.
    pub(super) fn new(header: &'h [String]) -> Self {
        Self { header, used: BTreeSet::new(), problems: Vec::new() }
    }

    /// Returns the mapping, if there are no problems.
    pub(super) fn end(self, mapping: Mapping) -> Result<Mapping, Vec<String>> {
        if self.problems.is_empty() { Ok(mapping) } else { Err(self.problems) }
    }

    /// Checks that column names are unique.
    pub(super) fn check_header(&mut self) {
        for (at, name) in self.header.iter().enumerate() {
            if self.header.iter().take(at).any(|earlier| earlier == name) {
                self.problems.push(format!("the column `{name}` stands twice in the header"));
            }
        }
    }

    /// Fits a mapping file to the header.
    pub(super) fn file(&mut self, file: &MappingFile, delimiter: u8) -> Mapping {
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

    /// Creates the mapping of a header without a mapping file: its columns are fields.
    pub(super) fn header_of_fields(&mut self, delimiter: u8) -> Mapping {
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

    /// Returns the parsed content, or records its problem.
    fn taken<T>(&mut self, read: Result<T, String>) -> Option<T> {
        read.map_err(|problem| self.problems.push(problem)).ok()
    }

    /// Returns a hint with the closest column name, if one is similar.
    fn hint(&self, name: &str) -> String {
        let near = nearest(name, self.header.iter().map(String::as_str));
        near.map(|near| format!("; did you mean `{near}`?")).unwrap_or_default()
    }

    fn kind(&mut self, name: &str) -> Option<RecordKind> {
        let found = RecordKind::ALL.into_iter().find(|kind| kind.name() == name);
        self.taken(found.ok_or_else(|| {
            let names = RecordKind::ALL.map(RecordKind::name);
            format!("`type = \"{name}\"`: a row is one of {}", names.join(", "))
        }))
    }

    fn columns(&mut self, kind: RecordKind, written: &[Writing]) -> Vec<Column> {
        written.iter().filter_map(|writing| self.column(kind, writing)).collect()
    }

    fn column(&mut self, kind: RecordKind, writing: &Writing) -> Option<Column> {
        let at = self.place(&writing.name);
        let path = self.taken(Path::parse(&writing.field));
        let form = path.as_ref().and_then(|path| self.form(kind, path, writing));
        self.check_formats(writing);
        Some(Column { at: at?, name: writing.name.clone(), path: path?, form: form?, writing: writing.clone() })
    }

    fn check_formats(&mut self, writing: &Writing) {
        // A format is checked by writing and reading a date with it; a two-digit year would be read in another century.
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
        let found = found.ok_or_else(|| format!("the table has no column `{name}`{}", self.hint(name)));
        let at = self.taken(found)?;
        self.used.insert(at);
        Some(at)
    }

    fn form(&mut self, kind: RecordKind, path: &Path, writing: &Writing) -> Option<Form> {
        let form = match (form(kind, path), writing.form) {
            (Ok(Form::Text), Some(named)) if path.shape().starts_with("extension.") => Ok(named),
            (Ok(_), Some(_)) => {
                Err(format!("`as` is for fields of `extension` alone: what `{}` is, is known", path.as_str()))
            }
            (known, _) => known,
        };
        self.taken(form)
    }

    fn constants(&mut self, kind: RecordKind, written: &[ConstantFile]) -> Vec<(Path, Value)> {
        let constant = |ConstantFile { field, value }: &ConstantFile| {
            let path = self.taken(Path::parse(field))?;
            self.form(kind, &path, &Writing::default())?;
            let value = serde_json::to_value(value);
            let value =
                self.taken(value.map_err(|_| format!("the constant of `{}` is no JSON value", path.as_str())))?;
            Some((path, value))
        };
        written.iter().filter_map(constant).collect()
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

    /// Reports the columns that are neither used nor ignored.
    fn check_unused(&mut self, ignored: &[String]) {
        if ignored.iter().any(|name| name == "*") {
            return;
        }
        for name in ignored {
            if !self.header.contains(name) {
                let hint = self.hint(name);
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
