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
    "server.idempotency_keys_max",
    "server.trusted_proxies",
    "server.forwarded_header",
    "server.cors_origins",
    "server.hsts_max_age_s",
    "server.shutdown_timeout_ms",
    "server.connections",
    "server.connections.max",
    "server.connections.per_address_max",
    "server.connections.requests_max",
    "server.connections.responses_mib",
    "server.connections.responses_per_client_mib",
    "server.connections.http2_streams_max",
    "server.connections.header_timeout_ms",
    "server.connections.body_timeout_ms",
    "server.connections.body_stall_timeout_ms",
    "server.connections.idle_timeout_ms",
    "server.connections.write_timeout_ms",
    "server.tls",
    "server.tls.cert",
    "server.tls.key",
    "server.tls.handshake_timeout_ms",
    "server.tls.check_every_s",
    "server.tls.expiry_warning_days",
    "token",
    "token.lifetime_s",
    "token.issuer",
    "token.audience",
    "token.secret_age_warning_days",
    "store",
    "store.backend",
    "store.path",
    "store.cache_mib",
    "store.rule_columns_mib",
    "store.bodies_mib",
    "store.postgres",
    "store.postgres.url",
    "store.postgres.url_file",
    "store.postgres.common_dir",
    "store.postgres.pool_max",
    "store.postgres.connect_timeout_ms",
    "store.postgres.acquire_timeout_ms",
    "store.postgres.statement_timeout_ms",
    "store.postgres.ca_file",
    "store.postgres.partition_keys",
    "store.postgres.partitions_mib",
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
    "otlp",
    "otlp.enabled",
    "otlp.endpoint",
    "otlp.headers_file",
    "otlp.ca",
    "otlp.service_name",
    "otlp.sampling_ratio",
    "otlp.traceparent",
    "otlp.metrics_interval_s",
    "otlp.queue_spans_max",
    "otlp.timeout_ms",
    "otlp.shutdown_timeout_ms",
];

/// One sentence for each key that is not known.
pub(super) fn unknown_keys(table: &Table) -> Vec<String> {
    let mut problems = Vec::new();
    collect("", table, &mut problems);
    problems
}

fn collect(prefix: &str, table: &Table, problems: &mut Vec<String>) {
    for (key, value) in table {
        let path = path_of(prefix, key);
        if !KNOWN.contains(&path.as_str()) {
            problems.push(unknown(prefix, key));
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

/// The keys of a table, sorted.
#[cfg(test)]
pub(super) fn known_in(table: &str) -> Vec<&'static str> {
    let mut keys: Vec<_> = keys_of(table).collect();
    keys.sort_unstable();
    keys
}

/// Whether a key is a table of others, or is to hold some.
#[cfg(test)]
pub(super) fn is_table(path: &str) -> bool {
    path == plugin_limits::TABLE || keys_of(path).next().is_some()
}

#[cfg(test)]
pub(super) fn known_count() -> usize {
    KNOWN.len()
}

/// What is said of a key that a table does not have: the nearest of its keys, or the one of that name in another table, or else
/// all of its keys.
fn unknown(table: &str, key: &str) -> String {
    let path = path_of(table, key);
    if let Some(known) = nearest(table, key) {
        return format!("unknown key `{path}`; did you mean `{}`?", path_of(table, known));
    }
    if let Some(elsewhere) = KNOWN.iter().find(|known| known.rsplit('.').next() == Some(key)) {
        return format!("unknown key `{path}`; did you mean `{elsewhere}`?");
    }
    let known: Vec<&str> = keys_of(table).collect();
    match table {
        "" => format!("unknown key `{path}`; the tables are {}", known.join(", ")),
        table => format!("unknown key `{path}`; the keys of `[{table}]` are {}", known.join(", ")),
    }
}

fn path_of(table: &str, key: &str) -> String {
    if table.is_empty() { key.to_owned() } else { format!("{table}.{key}") }
}

/// The keys of a table, without its path.
fn keys_of(table: &str) -> impl Iterator<Item = &'static str> {
    let within = move |known: &&'static str| {
        let (parent, key) = known.rsplit_once('.').unwrap_or(("", *known));
        (parent == table).then_some(key)
    };
    KNOWN.iter().filter_map(within)
}

fn nearest(table: &str, key: &str) -> Option<&'static str> {
    let is_near = |(distance, known): &(usize, &str)| {
        let is_slip = *distance <= 3 && 2 * distance <= key.len().max(known.len());
        // `certificate` for `cert`.
        is_slip || (known.len() >= 3 && key.starts_with(known)) || (key.len() >= 3 && known.starts_with(key))
    };
    let scored = keys_of(table).map(|known| (strsim::damerau_levenshtein(key, known), known));
    scored.filter(is_near).min().map(|(_, known)| known)
}
