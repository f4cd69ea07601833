//! All valid keys of a configuration file, to suggest the closest match for an unknown key.

use std::sync::LazyLock;

use serde::de::value::Error;
use serde::de::{Deserialize, Deserializer, Error as _, Visitor};
use serde::forward_to_deserialize_any;
use toml::{Table, Value};

use super::{
    AuditConfig, Config, ConnectionsConfig, LogConfig, OtlpConfig, PluginsConfig, PostgresConfig, ServerConfig,
    StoreConfig, TlsConfig, TokenConfig, VocabularyConfig, plugin_limits,
};

/// All tables, with the names of their keys. Limits of plugins are keyed by plugin name and checked separately.
pub(super) static TABLES: LazyLock<[(&str, &[&str]); 12]> = LazyLock::new(|| {
    [
        ("", fields_of::<Config>()),
        ("server", fields_of::<ServerConfig>()),
        ("server.connections", fields_of::<ConnectionsConfig>()),
        ("server.tls", fields_of::<TlsConfig>()),
        ("token", fields_of::<TokenConfig>()),
        ("store", fields_of::<StoreConfig>()),
        ("store.postgres", fields_of::<PostgresConfig>()),
        ("plugins", fields_of::<PluginsConfig>()),
        ("vocabulary", fields_of::<VocabularyConfig>()),
        ("audit", fields_of::<AuditConfig>()),
        ("log", fields_of::<LogConfig>()),
        ("otlp", fields_of::<OtlpConfig>()),
    ]
});

/// Returns the names of a struct's fields, as its derived deserializer requests them.
fn fields_of<'de, T: Deserialize<'de>>() -> &'static [&'static str] {
    let mut fields: &[&str] = &[];
    // A probe has no values, so nothing is deserialized.
    drop(T::deserialize(Probe(&mut fields)));
    fields
}

/// Records the fields that a deserializer requests.
struct Probe<'p>(&'p mut &'static [&'static str]);

impl<'de> Deserializer<'de> for Probe<'_> {
    type Error = Error;

    fn deserialize_any<V: Visitor<'de>>(self, _: V) -> Result<V::Value, Error> {
        Err(Error::custom("a probe has no values"))
    }

    fn deserialize_struct<V: Visitor<'de>>(
        self,
        _: &'static str,
        fields: &'static [&'static str],
        visitor: V,
    ) -> Result<V::Value, Error> {
        *self.0 = fields;
        self.deserialize_any(visitor)
    }

    forward_to_deserialize_any! {
        bool i8 i16 i32 i64 i128 u8 u16 u32 u64 u128 f32 f64 char str string bytes byte_buf option unit unit_struct newtype_struct seq tuple
        tuple_struct map enum identifier ignored_any
    }
}

/// Returns one sentence for each unknown key.
pub(super) fn unknown_keys(table: &Table) -> Vec<String> {
    let mut problems = Vec::new();
    collect("", table, &mut problems);
    problems
}

fn collect(prefix: &str, table: &Table, problems: &mut Vec<String>) {
    for (key, value) in table {
        let path = path_of(prefix, key);
        if !keys_of(prefix).contains(&key.as_str()) {
            problems.push(unknown(prefix, key));
        } else if let (plugin_limits::TABLE, Value::Table(limits)) = (path.as_str(), value) {
            // Its keys are plugin names.
            problems.extend(plugin_limits::problems(limits));
        } else if let Value::Table(inner) = value {
            collect(&path, inner, problems);
        }
    }
}

/// Returns the message for an unknown key of a table: the closest of its keys, or the same key in another table, or
/// else all of its keys.
fn unknown(table: &str, key: &str) -> String {
    let path = path_of(table, key);
    if let Some(known) = nearest(table, key) {
        return format!("unknown key `{path}`; did you mean `{}`?", path_of(table, known));
    }
    if let Some((elsewhere, _)) = TABLES.iter().find(|(_, keys)| keys.contains(&key)) {
        return format!("unknown key `{path}`; did you mean `{}`?", path_of(elsewhere, key));
    }
    let known = keys_of(table).join(", ");
    match table {
        "" => format!("unknown key `{path}`; the tables are {known}"),
        table => format!("unknown key `{path}`; the keys of `[{table}]` are {known}"),
    }
}

pub(super) fn path_of(table: &str, key: &str) -> String {
    if table.is_empty() { key.to_owned() } else { format!("{table}.{key}") }
}

/// Returns the keys of a table, without its path.
pub(super) fn keys_of(table: &str) -> &'static [&'static str] {
    TABLES.iter().find(|(known, _)| *known == table).map_or(&[], |(_, keys)| *keys)
}

fn nearest(table: &str, key: &str) -> Option<&'static str> {
    let is_near = |(distance, known): &(usize, &str)| {
        let is_slip = *distance <= 3 && 2 * distance <= key.len().max(known.len());
        // `certificate` for `cert`.
        is_slip || (known.len() >= 3 && key.starts_with(known)) || (key.len() >= 3 && known.starts_with(key))
    };
    let scored = keys_of(table).iter().map(|known| (strsim::damerau_levenshtein(key, known), *known));
    scored.filter(is_near).min().map(|(_, known)| known)
}
