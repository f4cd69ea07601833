//! Reporting tables for analysts: files of `daftar export --format parquet`, and views of PostgreSQL's schema
//! `reporting`. Both have the columns of this list, derived from the schema, so that a new field is a new column.
//!
//! - A field is a column of its name; fields of a part are columns `<part>_<field>`.
//! - A code is two columns: its URI, and `<column>_label` in the language of the export.
//! - A record has a `key`, by which tables are joined, and an `id`, by which people name it and which may be ambiguous.
//! - A reference is `<field>_id` and `<field>_key`, the id and the key of a row of another table, and `<field>_kind` if
//!   several kinds are possible: each kind has its own keys.
//! - A list of values is a list. Of a list of parts the first one has columns, and `<list>_count` is the number of all;
//!   lists of references, and photos, are excluded. Identifiers and members of groups have their own tables.
//!
//! **Invariant:** a column has one name, type and meaning in both forms. Names are not reserved words of SQL.
//!
//! **Invariant:** a `key` is the record's number in the register: unique in its table, never changed, and not assigned
//! to another record as long as no write is lost (older backup, point in time, failover to an asynchronous standby).
//! Backups, restores and migrations between stores keep it.

use super::{Field, Kind, fields};
use crate::extension::EXTENSION;
use crate::field::computed;
use crate::record::RecordKind;

/// A table: a row for each record of a kind, or for each item of a list of such records.
#[derive(Debug, Clone)]
pub struct Table {
    /// Its name in SQL.
    pub name: &'static str,
    /// The kind of the records of its rows.
    pub kind: RecordKind,
    /// The list whose items are the rows; a row is a record if there is none.
    pub items: Option<&'static str>,
    /// Its columns, in this order.
    pub columns: Vec<Column>,
}

/// A column of a table.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Column {
    /// Its name in SQL.
    pub name: String,
    /// The type of its values, or of each item of its lists.
    pub value: ColumnType,
    /// True if a value is a list.
    pub is_list: bool,
    /// Source of its values.
    pub source: Source,
    /// Member path from the record or from the item of the list. Of a list on the path, the first item is used.
    pub path: Vec<&'static str>,
    /// The value if none is recorded; NULL if absent.
    pub absent: Option<bool>,
}

/// The type of a column.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ColumnType {
    /// A text.
    Text,
    /// A day.
    Date,
    /// A timestamp in UTC, in milliseconds.
    Timestamp,
    /// A whole number of 64 bits.
    Integer,
    /// A floating-point number of 64 bits, as stored in the register.
    Number,
    /// True or false.
    Boolean,
    /// JSON as text.
    Json,
}

/// The source of the values of a column.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Source {
    /// The value at the path.
    Value,
    /// The URI of the code at the path.
    Code,
    /// The label of the code at the path.
    Label,
    /// The id of the record referred to at the path.
    ReferenceId,
    /// The key of that record.
    ReferenceKey,
    /// The kind of that record.
    ReferenceKind,
    /// The number of items of the list at the path.
    Count,
    /// The id of the record: its first identifier without an end, else its first one, as `<system>|<value>`; used in
    /// references. If all have ended, another record may have the same id.
    Id,
    /// The key of the record: its number in the register, counted for each kind.
    Key,
}

impl ColumnType {
    /// Returns the name in the documentation.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Text => "text",
            Self::Date => "date",
            Self::Timestamp => "timestamp",
            Self::Integer => "integer",
            Self::Number => "number",
            Self::Boolean => "boolean",
            Self::Json => "JSON",
        }
    }
}

impl Column {
    fn new(name: &str, value: ColumnType, source: Source, path: &[&'static str]) -> Self {
        Self { name: name.to_owned(), value, is_list: false, source, path: path.to_vec(), absent: None }
    }

    fn listed(self) -> Self {
        Self { is_list: true, ..self }
    }
}

/// Returns all tables.
#[must_use]
pub fn tables() -> Vec<Table> {
    let individual = RecordKind::Individual;
    let identifiers = vec![
        Column::new("individual_id", ColumnType::Text, Source::Id, &[]),
        Column::new("individual_key", ColumnType::Integer, Source::Key, &[]),
        Column::new("system", ColumnType::Text, Source::Value, &["system"]),
        Column::new("value", ColumnType::Text, Source::Value, &["value"]),
        Column::new("period_start", ColumnType::Date, Source::Value, &["period", "start"]),
        Column::new("period_end", ColumnType::Date, Source::Value, &["period", "end"]),
    ];
    let mut members = vec![
        Column::new("household_id", ColumnType::Text, Source::Id, &[]),
        Column::new("household_key", ColumnType::Integer, Source::Key, &[]),
    ];
    add_parts(&mut members, &[], crate::group::MEMBERS.fields);
    vec![
        records("individual", individual),
        Table { name: "individual_identifier", kind: individual, items: Some("identifier"), columns: identifiers },
        records("household", RecordKind::Group),
        Table { name: "household_member", kind: RecordKind::Group, items: Some(MEMBER), columns: members },
        records("program", RecordKind::Program),
        records("program_membership", RecordKind::ProgramMembership),
        records("consent", RecordKind::Consent),
    ]
}

/// The list of a group with its own table.
const MEMBER: &str = "member";

/// Returns the table with a row for each record.
fn records(name: &'static str, kind: RecordKind) -> Table {
    let mut columns = Vec::new();
    let key = Column::new("key", ColumnType::Integer, Source::Key, &[]);
    if kind == RecordKind::Consent {
        columns.push(Column::new("id", ColumnType::Text, Source::Value, &["consent_id"]));
        columns.push(key);
    } else {
        columns.push(Column::new("id", ColumnType::Text, Source::Id, &[]));
        columns.push(key);
        columns.push(Column::new("identifier_count", ColumnType::Integer, Source::Count, &["identifier"]));
    }
    add_parts(&mut columns, &[], fields(kind));
    match kind {
        RecordKind::Group => columns.push(Column::new("quantity", ColumnType::Integer, Source::Value, &["quantity"])),
        RecordKind::Consent => columns.push(Column::new("status", ColumnType::Text, Source::Value, &["status"])),
        RecordKind::Individual | RecordKind::Program | RecordKind::ProgramMembership => {}
    }
    if matches!(kind, RecordKind::Individual | RecordKind::Group) {
        columns.push(Column::new(EXTENSION, ColumnType::Json, Source::Value, &[EXTENSION]));
    }
    columns.push(Column::new("version_id", ColumnType::Integer, Source::Value, &["meta", "version_id"]));
    columns.push(Column::new("last_updated", ColumnType::Timestamp, Source::Value, &["meta", "last_updated"]));
    columns.push(Column::new("source", ColumnType::Text, Source::Value, &["meta", "source"]));
    Table { name, kind, items: None, columns }
}

fn add_parts(columns: &mut Vec<Column>, within: &[&'static str], fields: &'static [Field]) {
    for field in fields.iter().filter(|field| !field.is_internal) {
        let path = [within, &[field.name]].concat();
        add(columns, &path, field);
    }
}

fn add(columns: &mut Vec<Column>, path: &[&'static str], field: &'static Field) {
    let name = path.join("_");
    let mut push = |value, source| columns.push(Column::new(&name, value, source, path));
    match &field.kind {
        Kind::Boolean => {
            let mut column = Column::new(&name, ColumnType::Boolean, Source::Value, path);
            // A record without `active` is active.
            column.absent = if path == ["active"] { Some(true) } else { field.is_flag.then_some(false) };
            columns.push(column);
        }
        Kind::Integer | Kind::Count => push(ColumnType::Integer, Source::Value),
        Kind::Number | Kind::Amount => push(ColumnType::Number, Source::Value),
        Kind::Date => push(ColumnType::Date, Source::Value),
        Kind::Text(_) | Kind::Organization | Kind::Expression | Kind::FieldName | Kind::Word(_) => {
            push(ColumnType::Text, Source::Value);
        }
        Kind::Code(_) | Kind::ModuleCode => {
            push(ColumnType::Text, Source::Code);
            columns.push(Column::new(&format!("{name}_label"), ColumnType::Text, Source::Label, path));
        }
        Kind::Reference(kinds) => {
            // The `entity` of a member is always a person.
            let name = if name == "entity" { "individual" } else { &name };
            if kinds.len() > 1 {
                columns.push(Column::new(&format!("{name}_kind"), ColumnType::Text, Source::ReferenceKind, path));
            }
            columns.push(Column::new(&format!("{name}_id"), ColumnType::Text, Source::ReferenceId, path));
            columns.push(Column::new(&format!("{name}_key"), ColumnType::Integer, Source::ReferenceKey, path));
        }
        // The id of a consent is the id of its row; a photo is not usable in SQL.
        Kind::ConsentId | Kind::Photo => {}
        Kind::Struct(part) => add_parts(columns, path, part.fields),
        Kind::List { of, .. } => add_list(columns, path, of),
    }
}

fn add_list(columns: &mut Vec<Column>, path: &[&'static str], of: &'static Kind) {
    let name = path.join("_");
    match of {
        Kind::Code(_) | Kind::ModuleCode => {
            columns.push(Column::new(&name, ColumnType::Text, Source::Code, path).listed());
            columns.push(Column::new(&format!("{name}_label"), ColumnType::Text, Source::Label, path).listed());
        }
        Kind::Struct(part) => {
            let names_records = part.fields.iter().any(|part| matches!(part.kind, Kind::Reference(_)));
            if !names_records {
                add_parts(columns, path, part.fields);
            }
            if path != [MEMBER] {
                columns.push(Column::new(&format!("{name}_count"), ColumnType::Integer, Source::Count, path));
            }
        }
        _ => columns.push(Column::new(&name, ColumnType::Text, Source::Value, path).listed()),
    }
}

/// Returns the documentation section of the tables, in Markdown.
#[must_use]
pub fn page() -> String {
    let mut page = HEAD.to_owned();
    for table in tables() {
        let items = table.items.map(|items| format!(", a row for each item of `{items}`")).unwrap_or_default();
        page.push_str(&format!(
            "\n### {}\n\nOf {}{items}.\n\n| Column | Type | From |\n|---|---|---|\n",
            table.name, table.kind
        ));
        for column in table.columns {
            let list = if column.is_list { "list of " } else { "" };
            page.push_str(&format!(
                "| `{}` | {list}{} | {} |\n",
                column.name,
                column.value.name(),
                from(table.kind, &column).replace('|', "\\|")
            ));
        }
    }
    page
}

const HEAD: &str = "
## Reporting tables

The columns of `daftar export --format parquet` and of the views of PostgreSQL's schema `reporting`. NULL means not recorded. If a path
contains a list, the column has its first item: for addresses, the most used one. Join tables by keys: an id may be ambiguous
([guide](guides/reporting.md#columns)).
";

/// Describes the source of the values of a column, in Markdown.
#[must_use]
pub fn from(kind: RecordKind, column: &Column) -> String {
    let path = format!("`{}`", column.path.join("."));
    let absent = column.absent.map(|absent| format!("; `{absent}` where it is not recorded")).unwrap_or_default();
    match column.source {
        Source::Value if column.path.len() == 1 && column.path.first().copied() == computed(kind) => {
            format!("{path}, computed on the day of the export or query")
        }
        Source::Value => format!("{path}{absent}"),
        Source::Code => format!("{path}, the URI of the code"),
        Source::Label => format!("{path}, the label of the code"),
        Source::ReferenceId => format!("{path}, the id of the record that it names"),
        Source::ReferenceKey => format!("{path}, the key of the record that it names, for joins"),
        Source::ReferenceKind => format!("{path}, the kind of that record"),
        Source::Count => format!("{path}, the number of items"),
        Source::Id => "the identifier by which references name the record: `<system>|<value>`".to_owned(),
        Source::Key => "the key of the record, for joins: its number in the register, which never changes".to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    /// Words that PostgreSQL or DuckDB reserve; a column with such a name needs quotes.
    const RESERVED: &str = "all analyse analyze and any array as asc asymmetric both case cast check collate column constraint create \
        current_date current_role current_time current_timestamp current_user default deferrable desc describe distinct do else end except \
        false fetch for foreign from grant group having in initially intersect into lambda lateral leading limit localtime localtimestamp not \
        null offset on only or order pivot placing primary qualify references returning select session_user show some summarize symmetric table \
        then to trailing true union unique unpivot user using variadic when where window with";

    #[test]
    fn names_occur_once_and_need_no_quotes() {
        let reserved: BTreeSet<&str> = RESERVED.split_whitespace().collect();
        for table in tables() {
            let names: BTreeSet<&str> = table.columns.iter().map(|column| column.name.as_str()).collect();
            assert_eq!(names.len(), table.columns.len(), "{}", table.name);
            for name in names.into_iter().chain([table.name]) {
                assert!(!reserved.contains(name), "{}.{name}", table.name);
                assert!(name.bytes().all(|byte| byte.is_ascii_lowercase() || byte == b'_'), "{}.{name}", table.name);
            }
        }
    }

    #[test]
    fn every_field_but_a_photo_is_in_a_table() {
        let tables = tables();
        for kind in RecordKind::ALL {
            for field in fields(kind).iter().filter(|field| !field.is_internal && !matches!(field.kind, Kind::Photo)) {
                let is_there = tables.iter().filter(|table| table.kind == kind).any(|table| {
                    table.items == Some(field.name)
                        || table.columns.iter().any(|column| column.path.first() == Some(&field.name))
                });
                assert!(is_there, "{kind} {}", field.name);
            }
        }
    }

    #[test]
    fn codes_have_labels_and_references_to_several_kinds_have_a_kind() {
        let tables = tables();
        let columns = |table: &str| {
            let table = tables.iter().find(|other| other.name == table).expect("the table exists");
            table.columns.iter().map(|column| (column.name.as_str(), column.source, column.is_list)).collect::<Vec<_>>()
        };
        let person = columns("individual");
        for (code, label, is_list) in [
            ("gender", "gender_label", false),
            ("languages", "languages_label", true),
            ("address_country", "address_country_label", false),
        ] {
            let at = person.iter().position(|column| *column == (code, Source::Code, is_list)).expect("it exists");
            assert_eq!(person.get(at + 1), Some(&(label, Source::Label, is_list)));
        }
        let membership = columns("program_membership");
        assert!(membership.contains(&("program_id", Source::ReferenceId, false)));
        assert!(membership.contains(&("beneficiary_kind", Source::ReferenceKind, false)));
        assert!(membership.contains(&("beneficiary_id", Source::ReferenceId, false)));
        assert!(!membership.iter().any(|(name, ..)| *name == "program_kind"));
        assert!(columns("household_member").contains(&("individual_id", Source::ReferenceId, false)));
    }

    #[test]
    fn every_row_and_every_reference_has_a_key_next_to_its_id() {
        for table in tables() {
            let own = table.columns.iter().filter(|column| column.source == Source::Key).collect::<Vec<_>>();
            let named = match table.name {
                "individual_identifier" => "individual_key",
                "household_member" => "household_key",
                _ => "key",
            };
            assert!(matches!(own.as_slice(), [key] if key.name == named), "{}: {own:?}", table.name);
            for (at, column) in table.columns.iter().enumerate() {
                if matches!(column.source, Source::Id | Source::ReferenceId) {
                    let key = table.columns.get(at + 1).expect("a column follows");
                    assert_eq!(key.name.strip_suffix("key"), column.name.strip_suffix("id"), "{}", table.name);
                    assert_eq!((key.value, key.is_list), (ColumnType::Integer, false), "{}.{}", table.name, key.name);
                    assert_eq!(key.path, column.path, "{}.{}", table.name, key.name);
                    let source = if column.source == Source::Id { Source::Key } else { Source::ReferenceKey };
                    assert_eq!(key.source, source, "{}.{}", table.name, key.name);
                }
            }
        }
    }
}
