//! The statements of one view, from its columns in the schema of records.

use super::super::rows::kind_number;
use daftar_domain::record::RecordKind;
use daftar_domain::schema::reporting::{self, Column, ColumnType, Source, Table, tables};
use daftar_domain::schema::{self, Field, Kind};

/// A view.
pub(super) struct View {
    /// Its name.
    pub(super) name: &'static str,
    about: String,
    columns: Vec<ViewColumn>,
    from: String,
}

/// A column of a view.
struct ViewColumn {
    name: String,
    held: String,
    value: String,
    about: String,
}

/// The audit log: the columns of its table that reports read, with their types, and the name of the client.
const AUDIT: [(&str, &str, &str); 20] = [
    ("number", "bigint", "Position in the log; higher numbers are newer entries."),
    ("at", "timestamp with time zone", "When it was done."),
    ("client", "text", "The id of the client that did it; NULL where `actor` names another."),
    (
        CLIENT_NAME,
        "text",
        "The name of that client today, or `deleted`; NULL where it was no client. The log has ids: a name may change. Costs a lookup per row.",
    ),
    ("actor", "text", "administrator, system or unknown, where it was no client."),
    ("address", "inet", "The network address of the caller; of IPv6 its network of 64 bits."),
    ("request_id", "text", "The id of the request."),
    ("operation", "text", "Method and matched route, without values."),
    ("action", "text", "read, search, create, update, evaluate, administer, plugin, authenticate or audit."),
    ("outcome", "text", "allowed, refused or failed."),
    ("status", "integer", "The HTTP status of the response."),
    ("record_kind", "text", "The kind of the first target, where that is a record."),
    ("record_id", "text", "The first target: the id of a record, as in the other views, of a client or of a plugin."),
    ("other_targets", "text[]", "The other targets, records as `Individual/<id>`."),
    ("fields", "text[]", "The fields that were shown or changed."),
    ("consents", "uuid[]", "The consents that permitted it."),
    ("reason", "text", "Reason for the refusal."),
    ("note", "text", "Further details of the entry."),
    ("count", "bigint", "Number of similar events that the entry represents."),
    ("month", "date", "The first day of the month of `at`, in UTC. A condition on it excludes the other partitions."),
];

/// The column of the audit log with the name of the client, which its table does not have.
const CLIENT_NAME: &str = "client_name";
/// Its value: a lookup for each row of a report that reads it, as of labels. With a join, a report of the newest
/// entries would read the whole log where nested loops are off.
const NAME_OF_CLIENT: &str = "(SELECT c.name FROM daftar.client AS c WHERE c.id = a.\"client\")";

/// All views.
pub(super) fn views() -> Vec<View> {
    let columns = AUDIT.map(|(name, held, about)| ViewColumn {
        name: name.to_owned(),
        held: held.to_owned(),
        value: if name == CLIENT_NAME { NAME_OF_CLIENT.to_owned() } else { format!("a.\"{name}\"") },
        about: about.to_owned(),
    });
    let audit = View {
        name: "audit_entry",
        about: "The audit log, one row per entry.".to_owned(),
        columns: columns.into(),
        from: "daftar.audit AS a".to_owned(),
    };
    tables().iter().map(View::of).chain([audit]).collect()
}

impl View {
    fn of(table: &Table) -> Self {
        let number = kind_number(table.kind);
        let stored = format!("daftar.record AS r WHERE r.kind = {number}");
        let (from, fields, about) = match table.items {
            None => (stored, schema::fields(table.kind), format!("One row per record of the kind {}.", table.kind)),
            Some(items) => (
                format!(
                    "daftar.record AS r CROSS JOIN LATERAL jsonb_array_elements(r.value -> '{items}') AS item (value) WHERE r.kind = {number}"
                ),
                schema::find(schema::fields(table.kind), items).map(|list| list.kind.parts()).unwrap_or_default(),
                format!("One row per item of `{items}` of the records of the kind {}.", table.kind),
            ),
        };
        let base = if table.items.is_some() { "item.value" } else { "r.value" };
        let columns = table.columns.iter().map(|column| ViewColumn::of(table.kind, base, fields, column));
        Self { name: table.name, about, columns: columns.collect(), from }
    }

    /// True if it has a column of that name and type.
    pub(super) fn has(&self, name: &str, held: &str) -> bool {
        self.columns.iter().any(|column| column.name == name && column.held == held)
    }

    /// Returns the statements that create it, or replace a view whose columns are in that order; new columns are last.
    pub(super) fn statements(&self, order: &[&str]) -> String {
        let place = |column: &&ViewColumn| order.iter().position(|name| *name == column.name).unwrap_or(order.len());
        let mut columns: Vec<&ViewColumn> = self.columns.iter().collect();
        columns.sort_by_key(place);
        let values = columns.iter().map(|column| format!("{}::{} AS \"{}\"", column.value, column.held, column.name));
        let values = values.collect::<Vec<_>>().join(",\n    ");
        let Self { name, about, from, .. } = self;
        let mut statements = format!("CREATE OR REPLACE VIEW reporting.{name} AS SELECT\n    {values}\nFROM {from};\n");
        statements.push_str(&format!("COMMENT ON VIEW reporting.{name} IS {};\n", literal(about)));
        for ViewColumn { name: column, about, .. } in columns {
            statements.push_str(&format!("COMMENT ON COLUMN reporting.{name}.\"{column}\" IS {};\n", literal(about)));
        }
        statements
    }
}

impl ViewColumn {
    fn of(kind: RecordKind, base: &str, fields: &'static [Field], column: &Column) -> Self {
        let place = Place::of(base, fields, &column.path);
        let value = match column.source {
            Source::Id => id("r.value"),
            Source::Key => "r.id".to_owned(),
            Source::Value => written(kind, base, column, &place),
            Source::Code if column.is_list => each(&place.json(), "c.value ->> 'uri'"),
            Source::Code => format!("({} ->> 'uri')", place.json()),
            Source::Label if column.is_list => each(&place.json(), &shown("c.value ->> 'uri'")),
            Source::Label => shown(&format!("{} ->> 'uri'", place.json())),
            Source::ReferenceKind => place.by_kind(|kind| format!("'{kind}'")),
            // Of this row alone: a join condition on it can use the primary key of `daftar.record`, `(kind, id)`.
            Source::ReferenceKey => format!("({} ->> 'id')", place.json()),
            Source::ReferenceId => format!(
                "(SELECT {} FROM daftar.record AS named WHERE named.kind = {} AND named.id = ({} ->> 'id')::bigint)",
                id("named.value"),
                place.by_kind(|kind| kind_number(kind).to_string()),
                place.json()
            ),
            // As in bodies: `[]` for a membership that is known to have no identifier, absent where that is not known.
            Source::Count if kind == RecordKind::ProgramMembership && column.path == ["identifier"] => format!(
                "CASE WHEN {base} ? 'identifier' THEN jsonb_array_length({}) WHEN ({base} ->> 'has_no_identifier')::boolean THEN 0 END",
                place.json()
            ),
            Source::Count => format!("jsonb_array_length({})", place.json()),
        };
        let value = match column.absent {
            Some(absent) => format!("coalesce({value}::boolean, {absent})"),
            None => value,
        };
        let list = if column.is_list { "[]" } else { "" };
        let held = format!("{}{list}", held(column.value));
        Self { name: column.name.clone(), held, value, about: about(kind, column, place.field) }
    }
}

/// Describes a column, for its comment.
fn about(kind: RecordKind, column: &Column, field: Option<&Field>) -> String {
    let field = field.map(|field| field.about).unwrap_or_default();
    format!("{} {field}", reporting::from(kind, column)).trim().to_owned()
}

/// The type of PostgreSQL.
fn held(column: ColumnType) -> &'static str {
    match column {
        ColumnType::Text => "text",
        ColumnType::Date => "date",
        ColumnType::Timestamp => "timestamp with time zone",
        ColumnType::Integer => "bigint",
        ColumnType::Number => "numeric",
        ColumnType::Boolean => "boolean",
        ColumnType::Json => "jsonb",
    }
}

/// Place of a value in stored JSON.
struct Place {
    /// Expression of its parent object.
    holder: String,
    member: &'static str,
    /// Its row in the schema, if it has one.
    field: Option<&'static Field>,
}

impl Place {
    fn of(base: &str, mut fields: &'static [Field], path: &[&'static str]) -> Self {
        let (mut holder, mut found, mut member) = (base.to_owned(), None, "");
        for name in path {
            if !member.is_empty() {
                holder = format!("{holder} -> '{member}'");
                let parts = found.map(|field: &'static Field| {
                    if matches!(field.kind, Kind::List { .. }) {
                        holder.push_str(" -> 0");
                    }
                    field.kind.parts()
                });
                fields = parts.unwrap_or_default();
            }
            (found, member) = (schema::find(fields, name), name);
        }
        Self { holder, member, field: found }
    }

    fn json(&self) -> String {
        format!("({} -> '{}')", self.holder, self.member)
    }

    fn text(&self) -> String {
        format!("({} ->> '{}')", self.holder, self.member)
    }

    /// Builds an expression on the kind of record that the reference names.
    fn by_kind(&self, message: impl Fn(RecordKind) -> String) -> String {
        let kinds = match self.field.map(|field| &field.kind) {
            Some(Kind::Reference(kinds)) => *kinds,
            _ => &[],
        };
        if let [only] = kinds {
            return message(*only);
        }
        let cases = kinds.iter().map(|kind| format!(" WHEN '{}' THEN {}", kind.resource().name(), message(*kind)));
        format!("CASE {} ->> 'kind'{} END", self.json(), cases.collect::<String>())
    }
}

/// A value as it is stored, or as it is computed today.
fn written(kind: RecordKind, base: &str, column: &Column, place: &Place) -> String {
    // By the day in UTC, as in the register.
    const TODAY: &str = "(now() AT TIME ZONE 'UTC')::date";
    match (kind, column.path.as_slice()) {
        (_, ["meta", "version_id"]) => "r.version".to_owned(),
        (RecordKind::Group, ["quantity"]) => format!(
            "CASE WHEN {base} ? 'member' THEN (SELECT count(*) FROM jsonb_array_elements({base} -> 'member') AS m (value) \
             WHERE NOT coalesce((m.value ->> 'inactive')::boolean, false) \
             AND coalesce((m.value -> 'period' ->> 'start')::date <= {TODAY}, true) \
             AND coalesce((m.value -> 'period' ->> 'end')::date >= {TODAY}, true)) END"
        ),
        (RecordKind::Consent, ["status"]) => format!(
            "CASE WHEN ({base} ->> 'withdrawn')::boolean THEN 'withdrawn' \
             WHEN ({base} ->> 'expiry_date')::date < {TODAY} THEN 'expired' ELSE 'given' END"
        ),
        _ if column.is_list => each(&place.json(), "c.value #>> '{}'"),
        _ if column.value == ColumnType::Json => extension(&place.json()),
        _ => place.text(),
    }
}

/// The fields of modules as in bodies, without their types; for a code its URI.
fn extension(stored: &str) -> String {
    let bare = |value: &str| {
        format!("CASE {value} ->> 'type' WHEN 'coded' THEN {value} -> 'value' -> 'uri' ELSE {value} -> 'value' END")
    };
    format!(
        "(SELECT jsonb_object_agg(e.path, CASE jsonb_typeof(e.value) WHEN 'array' THEN (SELECT coalesce(jsonb_agg({} ORDER BY c.place), '[]') \
         FROM jsonb_array_elements(e.value) WITH ORDINALITY AS c (value, place)) ELSE {} END) FROM jsonb_each({stored}) AS e (path, value))",
        bare("c.value"),
        bare("e.value")
    )
}

/// An expression for each item of a list; NULL if there is no list.
fn each(list: &str, of: &str) -> String {
    format!(
        "CASE WHEN jsonb_typeof({list}) = 'array' THEN ARRAY(SELECT {of} FROM jsonb_array_elements({list}) WITH ORDINALITY AS c (value, place) ORDER BY c.place) END"
    )
}

/// The identifier by which a record is named: the first that is open, else the first.
fn id(value: &str) -> String {
    format!(
        "(SELECT (i.value ->> 'system') || '|' || (i.value ->> 'value') FROM jsonb_array_elements({value} -> 'identifier') WITH ORDINALITY AS i (value, place) \
         ORDER BY (i.value -> 'period' ->> 'end') IS NOT NULL, i.place LIMIT 1)"
    )
}

/// The label of a code in the language that the session chose; for a code without a label, as of a removed pack, the
/// code without its namespace, as in bodies.
fn shown(uri: &str) -> String {
    let label = label(uri, "current_setting('reporting.language', true)");
    format!("coalesce(({label}), substr({uri}, strpos({uri}, '#') + 1))")
}

/// The label of a code in a language, else in the language without its last subtags, removed one by one from the end
/// (`zh-Hant-TW`, `zh-Hant`, `zh`), else in the default one: the lookup of RFC 4647, section 3.4, by which responses
/// choose a language (`LanguagePreference` of the vocabulary crate). Tags that end with a single letter, which the
/// lookup skips, are no language of a label.
pub(super) fn label(uri: &str, language: &str) -> String {
    format!(
        "SELECT l.text FROM daftar.label AS l WHERE l.uri = {uri} ORDER BY \
         CASE WHEN starts_with(lower({language} COLLATE \"C\") || '-', lower(l.language) || '-') THEN length(l.language) END DESC NULLS LAST, \
         l.place LIMIT 1"
    )
}

/// A text in a statement.
pub(super) fn literal(text: &str) -> String {
    format!("'{}'", text.replace('\'', "''"))
}
