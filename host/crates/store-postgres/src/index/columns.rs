//! The columns of the index: those of every row, and one for each day and code that has a column in the schema.
//!
//! **Invariant:** a row of the schema that gets a column also gets one in its table, by a migration.

use std::sync::LazyLock;

use tokio_postgres::types::Type;

use super::order::SortColumn;
use super::time::Day;
use daftar_domain::record::RecordKind;
use daftar_domain::schema::{self, Field, Kind, Tag};
use daftar_domain::search::order::SortField;
use daftar_domain::value::{Value, Values};
use daftar_domain::vocabulary::CodedField;

/// The table of individuals.
pub(super) static INDIVIDUALS: LazyLock<Columns> =
    LazyLock::new(|| Columns::of(RecordKind::Individual, "search_individual", SUBJECT));
/// The table of groups.
pub(super) static GROUPS: LazyLock<Columns> = LazyLock::new(|| Columns::of(RecordKind::Group, "search_group", SUBJECT));
/// The table of memberships in programs.
pub(super) static MEMBERSHIPS: LazyLock<Columns> =
    LazyLock::new(|| Columns::of(RecordKind::ProgramMembership, "search_membership", MEMBERSHIP));

/// The first columns of every row of an individual or a group.
const SUBJECT: &[Column<'static>] = &[
    Column { name: "id", parameter: "bigint", held: "bigint", copied: Type::INT8 },
    Column { name: "terms", parameter: "text", held: "tsvector", copied: Type::TS_VECTOR },
    Column { name: "more_words", parameter: "text", held: "text[]", copied: Type::TEXT_ARRAY },
    Column { name: "is_inactive", parameter: "boolean", held: "boolean", copied: Type::BOOL },
    Column { name: "name", parameter: "text", held: "text", copied: Type::TEXT },
    Column { name: "last_updated", parameter: "timestamptz", held: "timestamptz", copied: Type::TIMESTAMPTZ },
];
/// The first columns of every row of a membership.
const MEMBERSHIP: &[Column<'static>] = &[
    Column { name: "id", parameter: "bigint", held: "bigint", copied: Type::INT8 },
    Column { name: "beneficiary_kind", parameter: "smallint", held: "smallint", copied: Type::INT2 },
    Column { name: "beneficiary", parameter: "bigint", held: "bigint", copied: Type::INT8 },
    Column { name: "program", parameter: "bigint", held: "bigint", copied: Type::INT8 },
    Column { name: "status", parameter: "text", held: "text", copied: Type::TEXT },
    Column { name: "last_updated", parameter: "timestamptz", held: "timestamptz", copied: Type::TIMESTAMPTZ },
];

/// A column with its types.
struct Column<'n> {
    name: &'n str,
    /// Type of one row in the parameter of a statement.
    parameter: &'static str,
    /// Type in the table.
    held: &'static str,
    /// Type in rows that are copied.
    copied: Type,
}

/// The columns of a table: first those that are not derived from the schema, then those of days, then those of codes.
pub(super) struct Columns {
    /// The table.
    pub(super) table: &'static str,
    fields: &'static [Field],
    fixed: &'static [Column<'static>],
    days: Vec<(&'static str, Tag)>,
    codes: Vec<(String, CodedField)>,
}

impl Columns {
    fn of(kind: RecordKind, table: &'static str, fixed: &'static [Column<'static>]) -> Self {
        let fields = schema::fields(kind);
        let days = fields.iter().filter(|field| field.has_column && matches!(field.kind, Kind::Date));
        let coded = fields.iter().flat_map(|field| match &field.kind {
            Kind::Struct(part) => part.fields,
            _ => std::slice::from_ref(field),
        });
        let coded = coded.filter(|field| field.has_column).filter_map(|field| match &field.kind {
            Kind::Code(coded) => Some((coded.path().replace('.', "_"), *coded)),
            _ => None,
        });
        Self { table, fields, fixed, days: days.map(|field| (field.name, field.tag)).collect(), codes: coded.collect() }
    }

    fn all(&self) -> impl Iterator<Item = Column<'_>> {
        let fixed = self.fixed.iter().map(|Column { name, parameter, held, copied }| Column {
            name,
            parameter,
            held,
            copied: copied.clone(),
        });
        let of = |name, held, copied| Column { name, parameter: held, held, copied };
        let days = self.days.iter().map(move |(name, _)| of(*name, "date", Type::DATE));
        let codes = self.codes.iter().map(move |(name, _)| of(name.as_str(), "bigint", Type::INT8));
        fixed.chain(days).chain(codes)
    }

    fn each(&self, write: impl Fn(Column<'_>) -> String) -> String {
        self.all().map(write).collect::<Vec<_>>().join(", ")
    }

    /// Number of columns.
    pub(super) fn count(&self) -> usize {
        self.all().count()
    }

    /// The part of a statement that replaces rows of the same key. Its first parameters are the columns, each an array.
    pub(super) fn insert(&self) -> String {
        let table = self.table;
        let names = self.each(|column| column.name.to_owned());
        let selected = self.each(|column| format!("{}::{}", column.name, column.held));
        let parameters = self.all().zip(1..).map(|(column, number)| format!("${number}::{}[]", column.parameter));
        let parameters = parameters.collect::<Vec<_>>().join(", ");
        let replaced = self.all().skip(1).map(|column| format!("{0} = excluded.{0}", column.name));
        let replaced = replaced.collect::<Vec<_>>().join(", ");
        format!(
            "INSERT INTO daftar.{table} ({names}) SELECT {selected} FROM unnest({parameters}) AS new({names}) \
             ON CONFLICT (id) DO UPDATE SET {replaced}"
        )
    }

    /// The statement that returns the keys of those rows that are missing or different in the table. Its parameters are
    /// those of [`Self::insert`].
    pub(super) fn differing(&self) -> String {
        let table = self.table;
        let names = self.each(|column| column.name.to_owned());
        let held = self.each(|column| format!("held.{}", column.name));
        let new = self.each(|column| format!("new.{}::{}", column.name, column.held));
        let parameters = self.all().zip(1..).map(|(column, number)| format!("${number}::{}[]", column.parameter));
        let parameters = parameters.collect::<Vec<_>>().join(", ");
        format!(
            "SELECT new.id FROM unnest({parameters}) AS new({names}) LEFT JOIN daftar.{table} AS held ON held.id = new.id \
             WHERE ROW({held}) IS DISTINCT FROM ROW({new})"
        )
    }

    /// The table with its columns, into which new rows are copied, and their types.
    pub(super) fn copy(&self) -> (String, Vec<Type>) {
        let names = self.each(|column| column.name.to_owned());
        let types = self.all().map(|column| column.copied).collect();
        (format!("{} ({names})", self.table), types)
    }

    /// The days of a record, column by column.
    pub(super) fn days(&self, values: &Values) -> Vec<Option<Day>> {
        let day = |tag: Tag| match values.value(tag) {
            Some(Value::Date(day)) => Some(Day::from(*day)),
            _ => None,
        };
        self.days.iter().map(|(_, tag)| day(*tag)).collect()
    }

    /// The codes of a record, column by column.
    pub(super) fn codes(&self, values: &Values) -> Vec<Option<i64>> {
        let all = values.codes(self.fields);
        let code = |wanted: CodedField| {
            let found = all.iter().find(|(field, _)| *field == wanted);
            found.map(|(_, code)| i64::from(code.number.0))
        };
        self.codes.iter().map(|(_, field)| code(*field)).collect()
    }

    /// True if it has the codes of that field, of which no record has two.
    pub(super) fn has_code(&self, field: CodedField) -> bool {
        self.codes.iter().any(|(_, known)| *known == field)
    }

    /// Column by which an order sorts: of a day, of a code, or of the last update of the record.
    pub(super) fn sorted(&'static self, field: SortField) -> SortColumn {
        match field {
            SortField::Date(wanted) => {
                let day = self.days.iter().find(|(name, _)| *name == wanted);
                day.map_or(SortColumn::Nothing, |(name, _)| SortColumn::Day(name))
            }
            SortField::Code(wanted) => {
                let code = self.codes.iter().find(|(_, field)| *field == wanted);
                code.map_or(SortColumn::Nothing, |(name, field)| SortColumn::Code(name, *field))
            }
            SortField::LastUpdated => SortColumn::Instant,
            SortField::Name | SortField::Word(_) => SortColumn::Nothing,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn columns_follow_from_the_schema() {
        let names = |columns: &Columns| columns.each(|column| column.name.to_owned());
        assert!(
            names(&INDIVIDUALS).starts_with("id, terms, more_words, is_inactive, name, last_updated, birth_date, ")
        );
        assert!(names(&INDIVIDUALS).contains(", income_currency"), "a code within a part");
        assert!(names(&MEMBERSHIPS).contains(", enrollment_date"));
        let (columns, types) = GROUPS.copy();
        assert!(columns.starts_with("search_group (id, terms, "), "{columns}");
        assert_eq!(types.len(), GROUPS.count());
    }

    #[test]
    fn every_column_is_made_by_a_migration() {
        let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/src/migrations");
        let files = std::fs::read_dir(folder).unwrap().map(|file| file.unwrap().path());
        let migrations: String = files.map(|path| std::fs::read_to_string(path).unwrap()).collect();
        for columns in [&INDIVIDUALS, &GROUPS, &MEMBERSHIPS] {
            let table = format!("TABLE daftar.{} ", columns.table);
            let made: String = migrations.split(';').filter(|statement| statement.contains(&table)).collect();
            for column in columns.all() {
                let defined = format!(" {} {}", column.name, column.held);
                assert!(made.contains(&defined), "{table}has no column{defined}");
            }
        }
    }
}
