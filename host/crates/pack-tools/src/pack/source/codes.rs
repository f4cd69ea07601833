//! The table of codes, and its hierarchy by parents or by a rule.

use std::collections::HashMap;

use super::SourceReader;
use super::table::{Row, Table};
use crate::pack::problem::{PackErrors, too_many};
use crate::source_rules::{CODES_MAX, HierarchyRule, LABEL_BYTES_MAX, LIST_ITEMS_MAX, cycles, is_key};
use daftar_domain::code::{CODE_BYTES_MAX, Code};
use daftar_domain::vocabulary::{Concept, ConceptStatus};

const KNOWN: &str = "code, parents, status, replaced_by, aliases, uri, selectable and prop:<key>";
const PROPERTY: &str = "prop:";

/// The codes of one vocabulary with their lines, without labels.
pub struct Codes {
    pub file: String,
    pub concepts: Vec<Concept>,
    pub lines: Vec<usize>,
    /// The position of each code among the concepts.
    pub names: HashMap<String, usize>,
    /// True if the table has a column of parents.
    has_parents: bool,
}

/// Reads `codes/<table>` with its hierarchy, and reports problems. Returns none if the table is unusable.
pub fn read(reader: &mut SourceReader<'_>, table: &str, rule: HierarchyRule) -> Option<Codes> {
    let table = Table::read(reader, &format!("codes/{table}"))?;
    let errors = &mut reader.errors;
    table.check_columns(&["code"], KNOWN, is_known, errors);
    if table.row_count() > CODES_MAX {
        errors.push(&table.file, None, None, too_many("codes", table.row_count(), CODES_MAX));
        return None;
    }
    if !table.has_column("code") {
        return None;
    }
    let mut codes = Codes {
        file: table.file.clone(),
        concepts: Vec::new(),
        lines: Vec::new(),
        names: HashMap::new(),
        has_parents: table.has_column("parents"),
    };
    let properties = table.columns().iter().enumerate();
    let properties = properties.filter_map(|(index, name)| Some((name.strip_prefix(PROPERTY)?, index)));
    let properties: Vec<(&str, usize)> = properties.collect();
    for row in table.rows() {
        let code = row.cell("code");
        let mut push = |reason: String| errors.push(&table.file, Some(row.line), Some(code), reason);
        let Some(parsed) = parse_code(code) else {
            push(format!("a code is 1 to {CODE_BYTES_MAX} bytes without white space, `#` and `|`"));
            continue;
        };
        if let Some(first_line) = codes.names.get(code).and_then(|index| codes.lines.get(*index)) {
            push(format!("the code occurs again; it is already on line {first_line}"));
            continue;
        }
        codes.names.insert(code.to_owned(), codes.concepts.len());
        codes.concepts.push(Cells { row: &row, push: &mut push }.concept(parsed, &properties));
        codes.lines.push(row.line);
    }
    check_references(&codes, errors);
    check_aliases(&codes, errors);
    apply_rule(&mut codes, rule, errors);
    check_hierarchy(&codes, errors);
    Some(codes)
}

fn is_known(column: &str) -> bool {
    match column {
        "code" | "parents" | "status" | "replaced_by" | "aliases" | "uri" | "selectable" => true,
        other => other.strip_prefix(PROPERTY).is_some_and(is_key),
    }
}

/// Parses a code of a pack built from files, where `|` separates codes.
fn parse_code(text: &str) -> Option<Code> {
    Code::parse(text).ok().filter(|_| !text.contains('|'))
}

/// The cells of one line, with the receiver of their problems.
struct Cells<'a, 't, F> {
    row: &'a Row<'t>,
    push: F,
}

impl<F: FnMut(String)> Cells<'_, '_, F> {
    fn concept(mut self, code: Code, properties: &[(&str, usize)]) -> Concept {
        let is_active = self.choice("status", ["active", "inactive"]);
        let is_selectable = self.choice("selectable", ["yes", "no"]);
        let replaced_by = self.option("replaced_by").and_then(|named| self.code("replaced_by", &named));
        if is_active && replaced_by.is_some() {
            (self.push)("`replaced_by` is only for inactive codes".to_owned());
        }
        let parents = self.list("parents");
        let parents = parents.iter().filter_map(|named| self.code("parents", named)).collect();
        let aliases = self.list("aliases");
        let uri = self.option("uri");
        let properties = properties.iter().filter_map(|(key, index)| {
            let value = self.bounded(self.row.at(*index))?;
            Some(((*key).to_owned(), value))
        });
        Concept {
            properties: properties.collect(),
            status: if is_active { ConceptStatus::Active } else { ConceptStatus::Inactive },
            is_selectable,
            parents,
            replaced_by,
            labels: Vec::new(),
            definitions: Vec::new(),
            aliases,
            uri,
            code,
        }
    }

    fn option(&mut self, column: &str) -> Option<String> {
        self.bounded(self.row.cell(column))
    }

    fn bounded(&mut self, cell: &str) -> Option<String> {
        if cell.len() > LABEL_BYTES_MAX {
            (self.push)(too_many("bytes in one cell", cell.len(), LABEL_BYTES_MAX));
        }
        (!cell.is_empty()).then(|| cell.to_owned())
    }

    /// Parses a code in a cell. An invalid code is reported as unknown.
    fn code(&mut self, column: &str, named: &str) -> Option<Code> {
        let code = parse_code(named);
        if code.is_none() {
            (self.push)(unknown_code(column, named));
        }
        code
    }

    /// Splits a cell at `|`.
    fn list(&mut self, column: &str) -> Vec<String> {
        let Some(cell) = self.option(column) else { return Vec::new() };
        let items: Vec<String> = cell.split('|').map(str::to_owned).collect();
        if items.len() > LIST_ITEMS_MAX {
            (self.push)(too_many("items in one cell", items.len(), LIST_ITEMS_MAX));
        }
        for (index, item) in items.iter().enumerate() {
            if item.is_empty() || item.trim() != item {
                (self.push)(format!("`{column}` begins or ends with white space"));
            } else if items.iter().take(index).any(|other| other == item) {
                (self.push)(format!("{column} `{item}` occurs again"));
            }
        }
        items
    }

    /// Returns true if a cell has the first of two values or is empty.
    fn choice(&mut self, column: &str, [first, second]: [&str; 2]) -> bool {
        let cell = self.row.cell(column);
        if cell.is_empty() || cell == first {
            return true;
        }
        if cell != second {
            (self.push)(format!("`{column}` is `{cell}`; it can be {first} or {second}"));
        }
        false
    }
}

fn unknown_code(column: &str, named: &str) -> String {
    format!("`{column}` names `{named}`, which is not a code of this vocabulary")
}

/// Checks that all parents and successors exist.
fn check_references(codes: &Codes, errors: &mut PackErrors) {
    for (concept, line) in codes.concepts.iter().zip(&codes.lines) {
        let parents = concept.parents.iter().map(|parent| ("parents", parent));
        let successor = concept.replaced_by.iter().map(|successor| ("replaced_by", successor));
        for (column, named) in parents.chain(successor) {
            // A code that is its own parent is reported as a cycle; one that is its own successor is an error.
            if !codes.names.contains_key(named.as_str()) || (column == "replaced_by" && *named == concept.code) {
                let reason = unknown_code(column, named.as_str());
                errors.push(&codes.file, Some(*line), Some(concept.code.as_str()), reason);
            }
        }
    }
}

/// Checks that each alias identifies one code.
fn check_aliases(codes: &Codes, errors: &mut PackErrors) {
    let mut taken: HashMap<&str, &str> = HashMap::new();
    for (concept, line) in codes.concepts.iter().zip(&codes.lines) {
        for alias in &concept.aliases {
            let taken_by = match codes.names.get_key_value(alias) {
                Some((code, _)) => Some(code.as_str()),
                None => taken.insert(alias, concept.code.as_str()),
            };
            if let Some(taken_by) = taken_by {
                let reason = format_args!("the alias `{alias}` is already used by the code `{taken_by}`");
                errors.push(&codes.file, Some(*line), Some(concept.code.as_str()), reason);
            }
        }
    }
}

/// Reports one problem for each cycle found. Missing parents are reported elsewhere.
fn check_hierarchy(codes: &Codes, errors: &mut PackErrors) {
    let concepts = codes.concepts.iter();
    for cycle in cycles(concepts.map(|concept| (concept.code.as_str(), concept.parents.iter().map(Code::as_str)))) {
        let first = cycle.codes.first().copied().unwrap_or_default();
        let code = codes.concepts.get(first).map(|concept| concept.code.as_str());
        let reason = format_args!("the code is below itself: {}", cycle.path);
        errors.push(&codes.file, codes.lines.get(first).copied(), code, reason);
    }
}

/// Sets the parents of all codes by the rule, and reports problems.
fn apply_rule(codes: &mut Codes, rule: HierarchyRule, errors: &mut PackErrors) {
    if rule == HierarchyRule::Parents {
        return;
    }
    let name = rule.name();
    if codes.has_parents {
        let reason = format_args!(
            "the column `parents` is not allowed: `hierarchy = \"{name}\"` in pack.toml determines the parents"
        );
        return errors.push(&codes.file, Some(1), None, reason);
    }
    let mut parents = Vec::with_capacity(codes.concepts.len());
    for (concept, line) in codes.concepts.iter().zip(&codes.lines) {
        let code = concept.code.as_str();
        let mut push = |reason: String| errors.push(&codes.file, Some(*line), Some(code), reason);
        let parent = rule.parent(code).unwrap_or_else(|wanted| {
            push(format!("the rule `{name}` of the hierarchy is for codes made of {wanted}"));
            None
        });
        let found = parent.and_then(|parent| codes.names.get(parent)).and_then(|index| codes.concepts.get(*index));
        if let (Some(parent), None) = (parent, found) {
            push(format!("by the rule `{name}` it is below `{parent}`, which is not a code of this vocabulary"));
        }
        parents.push(found.map(|found| found.code.clone()));
    }
    for (concept, parent) in codes.concepts.iter_mut().zip(parents) {
        concept.parents = parent.into_iter().collect();
    }
}
