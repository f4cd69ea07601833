//! The documentation page of the schema, `host/docs/FIELDS.md`, written by `cargo xtask fields`.

use super::{Field, Kind, fields, reporting};
use crate::record::RecordKind;

const HEAD: &str = "\
# Fields of records

Written by `cargo xtask fields` from the schema, `host/crates/domain/src/schema.rs`: a change of this page alone is lost.

Every record but a consent also has `identifier`, a list of `{system, value, period}`, and `meta`, which the server writes. Individuals and
groups have `extension`: the fields that installed modules add. [API.md](API.md) describes bodies and searches, [RULES.md](RULES.md) the
language of rules, [BULK.md](BULK.md) tables.

- **Field**: the path in a body; `[]` stands for each item of a list.
- **Type**: the type of a value, or of each item of a list. A code is given as a URI of one of the vocabularies named, and returned as an object.
- **Limit**: the greatest length of a text, in bytes of UTF-8, or the most items of a list.
- **Required**: the server rejects a record, or a part of one, without it.
- **Rules**: expressions can read it.
- **Sort**, **Filter**: a search of these records takes it in `_sort`, or has a filter for it.
- **Table**: imports and exports of tables have it.
";

const COLUMNS: &str = "\
| Field | Type | Limit | Required | Rules | Sort | Filter | Table |
|---|---|---|---|---|---|---|---|
";

/// Returns the page in Markdown.
#[must_use]
pub fn page() -> String {
    let mut page = HEAD.to_owned();
    for kind in RecordKind::ALL {
        page.push_str(&format!("\n## {kind}\n\n{COLUMNS}"));
        fields(kind).iter().for_each(|field| add(&mut page, "", field, (true, true)));
    }
    page.push_str(&reporting::page());
    page
}

/// Adds the row of a field and those of its parts: rules and tables include a part only if they include its parent.
fn add(page: &mut String, within: &str, field: &Field, (in_rules, is_tabular): (bool, bool)) {
    if field.is_internal {
        return;
    }
    let is_list = matches!(field.kind, Kind::List { .. });
    let path = format!("{within}{}{}", field.name, if is_list { "[]" } else { "" });
    let (in_rules, is_tabular) = (in_rules && field.in_rules, is_tabular && !field.is_not_tabular);
    let marks = [field.required.is_some(), in_rules, field.is_sortable, field.is_filterable, is_tabular];
    let marks = marks.map(|is_marked| if is_marked { "yes" } else { "" }).join(" | ");
    let absent = if field.is_flag { "; absent is `false`" } else { "" };
    page.push_str(&format!("| `{path}` | {}{absent} | {} | {marks} |\n", type_of(&field.kind), limit(&field.kind)));
    let within = format!("{path}.");
    field.kind.parts().iter().for_each(|part| add(page, &within, part, (in_rules, is_tabular)));
}

/// Returns the type of a value, or of each item of a list.
fn type_of(kind: &Kind) -> String {
    let quoted = |words: &[&str]| words.iter().map(|word| format!("`{word}`")).collect::<Vec<_>>().join(", ");
    match kind {
        Kind::Boolean => "`true` or `false`".to_owned(),
        Kind::Integer => "whole number".to_owned(),
        Kind::Number => "number".to_owned(),
        Kind::Count => "whole number from 1".to_owned(),
        Kind::Amount => "number from 0".to_owned(),
        Kind::Text(_) => "text".to_owned(),
        Kind::Organization => "name of an organization".to_owned(),
        Kind::Expression => "expression".to_owned(),
        Kind::FieldName => "name of a field".to_owned(),
        Kind::Date => "date".to_owned(),
        Kind::Word(words) => format!("one of {}", quoted(words)),
        Kind::Code(coded) => format!("code of {}", quoted(coded.namespaces())),
        Kind::ModuleCode => "code".to_owned(),
        Kind::Reference(kinds) => {
            let kinds: Vec<&str> = kinds.iter().map(|kind| kind.name()).collect();
            format!("reference to {}", quoted(&kinds))
        }
        Kind::ConsentId => "UUID".to_owned(),
        Kind::Photo => "photo, in base64".to_owned(),
        Kind::List { of, .. } => type_of(of),
        Kind::Struct(part) => format!("object: {}", part.about.trim_end_matches('.')),
    }
}

/// Returns the limit of a value; of a list of texts, the number of items and then the length of one.
fn limit(kind: &Kind) -> String {
    match kind {
        Kind::Text(bytes_max) => format!("{bytes_max} bytes"),
        Kind::List { of, items_max } => {
            let of = limit(of);
            if of.is_empty() { format!("{items_max} items") } else { format!("{items_max} items of {of}") }
        }
        _ => String::new(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_documentation_page_is_generated_from_the_schema() {
        let written = include_str!("../../../../docs/FIELDS.md");
        assert!(written == page(), "`host/docs/FIELDS.md` is out of date: run `cargo xtask fields`");
    }
}
