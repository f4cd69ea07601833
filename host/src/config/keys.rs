//! Every key that a configuration file may have, so that an unknown one can be told with the nearest known one.

use toml::{Table, Value};

use super::plugin_limits;

/// Tables and keys by dotted path. A test holds them against the structs.
const KNOWN: &[&str] = &[
    "server",
    "server.listen",
    "server.admin_listen",
    "server.metrics_listen",
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
    "plugins.engine",
    "plugins.trusted_keys",
    "plugins.allow_unsigned",
    "plugins.limits",
    "vocabulary",
    "vocabulary.default_language",
    "audit",
    "audit.retention_days",
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
        } else if let (plugin_limits::TABLE, Value::Table(limits)) = (path.as_str(), value) {
            // Its keys are the names of plugins.
            problems.extend(plugin_limits::problems(limits));
        } else if let Value::Table(inner) = value {
            collect(&path, inner, problems);
        }
    }
}

/// The known keys that a table does not have; the example file has them all.
#[cfg(test)]
pub(super) fn known_but_absent(table: &Table) -> Vec<&'static str> {
    let is_there = |path: &str| {
        let mut parts = path.split('.');
        let first = parts.next().and_then(|part| table.get(part));
        parts.fold(first, |value, part| value.and_then(|value| value.get(part))).is_some()
    };
    KNOWN.iter().copied().filter(|path| !is_there(path)).collect()
}

fn nearest(path: &str) -> Option<&'static str> {
    let scored = KNOWN.iter().map(|known| (strsim::damerau_levenshtein(path, known), *known));
    scored.min().filter(|(distance, _)| *distance <= 3).map(|(_, known)| known)
}
