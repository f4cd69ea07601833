//! The tables of labels and definitions, one for each language.

use std::collections::{HashMap, HashSet};

use super::files::PackFiles;
use super::table::Table;
use crate::pack::limits::{DEFINITION_BYTES_MAX, LABEL_BYTES_MAX};
use crate::pack::problem::{PackErrors, PackProblemKind};
use daftar_domain::vocabulary::{Concept, LocalizedText};

const KNOWN: &str = "code, label and definition";

/// Reads `labels/<language>/<table>` into the concepts, which `index` finds by code; what is wrong is reported.
pub fn read(
    files: &PackFiles,
    table: &str,
    language: &str,
    index: &HashMap<String, usize>,
    concepts: &mut [Concept],
    errors: &mut PackErrors,
) {
    let Some(table) = Table::read(files, &format!("labels/{language}/{table}"), errors) else { return };
    let is_known = |column: &str| matches!(column, "code" | "label" | "definition");
    table.check_columns(&["code", "label"], KNOWN, is_known, errors);
    let columns = (table.column("code"), table.column("label"), table.column("definition"));
    let mut seen = HashSet::new();
    for row in table.rows() {
        let (code, label, definition) = (row.cell(columns.0), row.cell(columns.1), row.cell(columns.2));
        let mut push = |kind| errors.push(&table.file, Some(row.line), Some(code), kind);
        let Some(concept) = index.get(code).and_then(|index| concepts.get_mut(*index)) else {
            push(PackProblemKind::TextForUnknownCode);
            continue;
        };
        if !seen.insert(code) {
            push(PackProblemKind::Repeated { what: "the line for the code", value: code.to_owned() });
            continue;
        }
        if label.is_empty() {
            push(PackProblemKind::EmptyLabel);
            continue;
        }
        for (what, text, max) in [
            ("bytes in its label", label, LABEL_BYTES_MAX),
            ("bytes in its definition", definition, DEFINITION_BYTES_MAX),
        ] {
            if text.len() > max {
                push(PackProblemKind::TooMany { what, actual: text.len(), max });
            }
        }
        concept.labels.push(LocalizedText { language: language.to_owned(), value: label.to_owned() });
        if !definition.is_empty() {
            concept.definitions.push(LocalizedText { language: language.to_owned(), value: definition.to_owned() });
        }
    }
}
