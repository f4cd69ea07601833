//! The table of codes.

use std::collections::HashMap;

use super::files::PackFiles;
use super::table::{Row, Table};
use crate::pack::limits::{CODES_MAX, LABEL_BYTES_MAX, LIST_ITEMS_MAX};
use crate::pack::problem::{PackErrors, PackProblemKind};
use daftar_domain::code::Code;
use daftar_domain::vocabulary::{Concept, ConceptStatus};

const KNOWN: &str = "code, parents, status, replaced_by, aliases, uri, selectable and prop:<key>";
const PROPERTY: &str = "prop:";

/// The codes of one vocabulary, without labels, with the lines they stand on.
pub struct Codes {
    pub file: String,
    pub concepts: Vec<Concept>,
    pub lines: Vec<usize>,
    /// Where each code is among the concepts.
    pub names: HashMap<String, usize>,
    /// Whether the table has a column of parents.
    pub has_parents: bool,
}

/// Where the columns are.
struct Columns {
    code: Option<usize>,
    parents: Option<usize>,
    status: Option<usize>,
    replaced_by: Option<usize>,
    aliases: Option<usize>,
    uri: Option<usize>,
    selectable: Option<usize>,
    properties: Vec<(String, usize)>,
}

/// Reads `codes/<table>`; what is wrong is reported. None when there is no usable table.
pub fn read(files: &PackFiles, table: &str, errors: &mut PackErrors) -> Option<Codes> {
    let table = Table::read(files, &format!("codes/{table}"), errors)?;
    table.check_columns(&["code"], KNOWN, is_known, errors);
    if table.rows().len() > CODES_MAX {
        let kind = PackProblemKind::TooMany { what: "codes", actual: table.rows().len(), max: CODES_MAX };
        errors.push(&table.file, None, None, kind);
        return None;
    }
    let columns = Columns::of(&table);
    columns.code?;
    let mut codes = Codes {
        file: table.file.clone(),
        concepts: Vec::new(),
        lines: Vec::new(),
        names: HashMap::new(),
        has_parents: columns.parents.is_some(),
    };
    for row in table.rows() {
        let code = row.cell(columns.code);
        let Some(parsed) = parse_code(code) else {
            errors.push(&table.file, Some(row.line), Some(code), PackProblemKind::MalformedCode);
            continue;
        };
        if let Some(first_line) = codes.names.get(code).and_then(|index| codes.lines.get(*index)) {
            let kind = PackProblemKind::DuplicateCode { first_line: *first_line };
            errors.push(&table.file, Some(row.line), Some(code), kind);
            continue;
        }
        codes.names.insert(code.to_owned(), codes.concepts.len());
        codes.concepts.push(columns.concept(&table.file, row, parsed, errors));
        codes.lines.push(row.line);
    }
    check_references(&codes, errors);
    check_aliases(&codes, errors);
    Some(codes)
}

fn is_known(column: &str) -> bool {
    match column {
        "code" | "parents" | "status" | "replaced_by" | "aliases" | "uri" | "selectable" => true,
        other => other.strip_prefix(PROPERTY).is_some_and(is_property_key),
    }
}

fn is_property_key(key: &str) -> bool {
    key.len() <= 64
        && key.starts_with(|first: char| first.is_ascii_lowercase())
        && key.bytes().all(|byte| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'_')
}

/// A code of a pack made of files, where `|` stands between codes.
fn parse_code(text: &str) -> Option<Code> {
    Code::parse(text).ok().filter(|_| !text.contains('|'))
}

impl Columns {
    fn of(table: &Table) -> Self {
        let properties = table.columns().iter().enumerate();
        let properties = properties.filter_map(|(index, name)| Some((name.strip_prefix(PROPERTY)?.to_owned(), index)));
        Self {
            code: table.column("code"),
            parents: table.column("parents"),
            status: table.column("status"),
            replaced_by: table.column("replaced_by"),
            aliases: table.column("aliases"),
            uri: table.column("uri"),
            selectable: table.column("selectable"),
            properties: properties.collect(),
        }
    }

    fn concept(&self, file: &str, row: &Row, code: Code, errors: &mut PackErrors) -> Concept {
        let mut cells = Cells { file, row, code: code.as_str(), errors };
        let is_active = cells.choice(self.status, "status", ["active", "inactive"], "active or inactive");
        let is_selectable = cells.choice(self.selectable, "selectable", ["yes", "no"], "yes or no");
        let replaced_by = cells.option(self.replaced_by).and_then(|named| cells.code("replaced_by", &named));
        if is_active && replaced_by.is_some() {
            cells.push(PackProblemKind::ActiveReplaced);
        }
        let parents = cells.list(self.parents, "parents");
        let parents = parents.iter().filter_map(|named| cells.code("parents", named)).collect();
        let aliases = cells.list(self.aliases, "aliases");
        let uri = cells.option(self.uri);
        let mut properties = Vec::new();
        for (key, index) in &self.properties {
            if let Some(value) = cells.option(Some(*index)) {
                properties.push((key.clone(), value));
            }
        }
        Concept {
            status: if is_active { ConceptStatus::Active } else { ConceptStatus::Inactive },
            is_selectable,
            parents,
            replaced_by,
            labels: Vec::new(),
            definitions: Vec::new(),
            aliases,
            uri,
            properties,
            code,
        }
    }
}

/// The cells of one line, with everything needed to say what is wrong with them.
struct Cells<'a> {
    file: &'a str,
    row: &'a Row,
    code: &'a str,
    errors: &'a mut PackErrors,
}

impl Cells<'_> {
    fn push(&mut self, kind: PackProblemKind) {
        self.errors.push(self.file, Some(self.row.line), Some(self.code), kind);
    }

    fn option(&mut self, column: Option<usize>) -> Option<String> {
        let cell = self.row.cell(column);
        if cell.len() > LABEL_BYTES_MAX {
            self.push(PackProblemKind::TooMany { what: "bytes in one cell", actual: cell.len(), max: LABEL_BYTES_MAX });
        }
        (!cell.is_empty()).then(|| cell.to_owned())
    }

    /// A code that a cell names. What cannot be a code is none that the vocabulary has.
    fn code(&mut self, column: &'static str, named: &str) -> Option<Code> {
        let code = parse_code(named);
        if code.is_none() {
            self.push(PackProblemKind::UnknownCode { column, named: named.to_owned() });
        }
        code
    }

    /// The items of a cell, split at `|`.
    fn list(&mut self, column: Option<usize>, name: &'static str) -> Vec<String> {
        let Some(cell) = self.option(column) else { return Vec::new() };
        let items: Vec<String> = cell.split('|').map(str::to_owned).collect();
        if items.len() > LIST_ITEMS_MAX {
            self.push(PackProblemKind::TooMany { what: "items in one cell", actual: items.len(), max: LIST_ITEMS_MAX });
        }
        for (index, item) in items.iter().enumerate() {
            if item.is_empty() || item.trim() != item {
                self.push(PackProblemKind::Untrimmed { column: name.to_owned() });
            } else if items.iter().take(index).any(|other| other == item) {
                self.push(PackProblemKind::Repeated { what: name, value: item.clone() });
            }
        }
        items
    }

    /// Whether a cell has the first of two values, which is also what an empty cell means.
    fn choice(&mut self, column: Option<usize>, name: &'static str, values: [&str; 2], wanted: &'static str) -> bool {
        let cell = self.row.cell(column);
        let [first, second] = values;
        if cell.is_empty() || cell == first {
            return true;
        }
        if cell != second {
            self.push(PackProblemKind::UnknownValue { column: name, value: cell.to_owned(), wanted });
        }
        false
    }
}

/// Whether every code that is named as a parent or successor is there.
fn check_references(codes: &Codes, errors: &mut PackErrors) {
    for (concept, line) in codes.concepts.iter().zip(&codes.lines) {
        let parents = concept.parents.iter().map(|parent| ("parents", parent));
        let successor = concept.replaced_by.iter().map(|successor| ("replaced_by", successor));
        for (column, named) in parents.chain(successor) {
            // Being one's own parent is a cycle and reported as such; being one's own successor means nothing.
            if !codes.names.contains_key(named.as_str()) || (column == "replaced_by" && *named == concept.code) {
                let kind = PackProblemKind::UnknownCode { column, named: named.as_str().to_owned() };
                errors.push(&codes.file, Some(*line), Some(concept.code.as_str()), kind);
            }
        }
    }
}

/// Whether a look-up by alias has one answer.
fn check_aliases(codes: &Codes, errors: &mut PackErrors) {
    let mut taken: HashMap<&str, &str> = HashMap::new();
    for (concept, line) in codes.concepts.iter().zip(&codes.lines) {
        for alias in &concept.aliases {
            let taken_by = match codes.names.get_key_value(alias) {
                Some((code, _)) => Some(code.as_str()),
                None => taken.insert(alias, concept.code.as_str()),
            };
            if let Some(taken_by) = taken_by {
                let kind = PackProblemKind::DuplicateAlias { alias: alias.clone(), taken_by: taken_by.to_owned() };
                errors.push(&codes.file, Some(*line), Some(concept.code.as_str()), kind);
            }
        }
    }
}
