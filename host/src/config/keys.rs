//! Every key that a configuration file may have, so that an unknown one can be told with the nearest known one.

use toml::{Table, Value};

/// Tables and keys by dotted path. A test holds them against the structs.
const KNOWN: &[&str] = &[
    "server",
    "server.listen",
    "server.admin_listen",
    "server.public_url",
    "server.request_timeout_ms",
    "server.tls",
    "server.tls.cert",
    "server.tls.key",
    "token",
    "token.lifetime_s",
    "token.issuer",
    "token.audience",
    "store",
    "store.cache_mib",
    "plugins",
    "plugins.dir",
    "vocabulary",
    "vocabulary.default_language",
    "log",
    "log.level",
    "log.format",
];

/// One sentence for each key that is not known.
pub(super) fn unknown_keys(table: &Table) -> Vec<String> {
    let mut problems = Vec::new();
    collect("", table, &mut problems);
    problems
}

fn collect(prefix: &str, table: &Table, problems: &mut Vec<String>) {
    for (key, value) in table {
        let path = if prefix.is_empty() { key.clone() } else { format!("{prefix}.{key}") };
        if !KNOWN.contains(&path.as_str()) {
            problems.push(match nearest(&path) {
                Some(known) => format!("unknown key `{path}`; did you mean `{known}`?"),
                None => format!("unknown key `{path}`"),
            });
        } else if let Value::Table(inner) = value {
            collect(&path, inner, problems);
        }
    }
}

fn nearest(path: &str) -> Option<&'static str> {
    let scored = KNOWN.iter().map(|known| (strsim::damerau_levenshtein(path, known), *known));
    scored.min().filter(|(distance, _)| *distance <= 3).map(|(_, known)| known)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::Config;

    /// `deny_unknown_fields` on the structs and the list here must agree: a key of the list is a field.
    #[test]
    fn every_known_key_is_a_field() {
        let text = "[server]\nlisten='127.0.0.1:1'\nadmin_listen='127.0.0.1:2'\npublic_url='https://a'\nrequest_timeout_ms=1000\n\
                    [server.tls]\ncert='c'\nkey='k'\n[token]\nlifetime_s=60\nissuer='i'\naudience='a'\n[store]\ncache_mib=8\n\
                    [plugins]\ndir='p'\n[vocabulary]\ndefault_language='fr'\n[log]\nlevel='debug'\nformat='json'\n";
        Config::parse(text).unwrap();
        let table: Table = text.parse().unwrap();
        let mut given = 0;
        for value in table.values() {
            given += 1;
            let Value::Table(inner) = value else { panic!("a top-level key is a table") };
            given += inner.len() + inner.get("tls").and_then(Value::as_table).map_or(0, Table::len);
        }
        assert_eq!(given, KNOWN.len(), "the list and this test name the same keys");
    }
}
