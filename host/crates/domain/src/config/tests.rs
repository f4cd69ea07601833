//! Parsing and validation of the configuration file.

use std::path::Path;

use super::*;

/// Returns the known keys that are missing from a table; the example file has all of them.
fn known_but_absent(table: &toml::Table) -> Vec<String> {
    let is_there = |path: &str| {
        let mut parts = path.split('.');
        let first = parts.next().and_then(|part| table.get(part));
        parts.fold(first, |value, part| value.and_then(|value| value.get(part))).is_some()
    };
    let paths = keys::TABLES.iter().flat_map(|(table, keys)| keys.iter().map(move |key| keys::path_of(table, key)));
    paths.filter(|path| !is_there(path)).collect()
}

/// Returns the keys of a table, sorted.
fn known_in(table: &str) -> Vec<&'static str> {
    let mut keys = keys::keys_of(table).to_vec();
    keys.sort_unstable();
    keys
}

#[test]
fn an_empty_file_gives_the_defaults() {
    let config = Config::parse("").unwrap();
    assert_eq!(config.server.listen.to_string(), "127.0.0.1:8080");
    assert_eq!(config.server.admin_listen.to_string(), "127.0.0.1:8081");
    assert_eq!(config.token.issuer, "svc-api-v2");
}

/// The example contains every key; all values except paths and the URL are the defaults.
#[test]
fn the_example_file_can_be_loaded_and_has_the_defaults() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../deploy/daftar.example.toml");
    let example = Config::load(&path).unwrap();
    let default = Config::default();
    assert_eq!(example.server.listen, default.server.listen);
    assert_eq!(example.server.admin_listen, default.server.admin_listen);
    assert_eq!(example.server.request_timeout_ms, default.server.request_timeout_ms);
    assert_eq!(example.server.idempotency_keys_max, default.server.idempotency_keys_max);
    assert_eq!(example.server.trusted_proxies, [], "a copy of the example trusts no proxy");
    assert_eq!(example.server.forwarded_header, default.server.forwarded_header);
    assert_eq!(example.server.cors_origins, []);
    assert_eq!(example.server.hsts_max_age_s, default.server.hsts_max_age_s);
    assert_eq!(example.server.shutdown_timeout_ms, default.server.shutdown_timeout_ms);
    assert_eq!(example.server.connections, default.server.connections);
    let tls = example.server.tls.unwrap();
    let times = (tls.handshake_timeout_ms, tls.check_every_s, tls.expiry_warning_days);
    assert_eq!(times, (HANDSHAKE_TIMEOUT_MS_DEFAULT, CERTIFICATE_CHECK_S_DEFAULT, EXPIRY_WARNING_DAYS_DEFAULT));
    assert_eq!(example.token.lifetime_s, default.token.lifetime_s);
    assert_eq!(example.token.issuer, default.token.issuer);
    assert_eq!(example.token.audience, default.token.audience);
    assert_eq!(example.token.secret_age_warning_days, default.token.secret_age_warning_days);
    assert_eq!(default.store.folder(Path::new("d")), Path::new("d/store"));
    assert_eq!(example.store.backend, default.store.backend);
    let (ours, postgres) = (&default.store.postgres, &example.store.postgres);
    assert_eq!((postgres.pool_max, postgres.connect_timeout_ms), (ours.pool_max, ours.connect_timeout_ms));
    assert_eq!((postgres.partition_keys, postgres.partitions_mib), (ours.partition_keys, ours.partitions_mib));
    assert_eq!(postgres.index, ours.index);
    let times = (postgres.acquire_timeout_ms, postgres.statement_timeout_ms);
    assert_eq!(times, (ours.acquire_timeout_ms, ours.statement_timeout_ms));
    assert_eq!(example.store.cache_mib, default.store.cache_mib);
    assert_eq!(example.store.preview_cache_mib, default.store.preview_cache_mib);
    assert_eq!(example.store.response_cache_mib, default.store.response_cache_mib);
    assert_eq!(example.plugins.allow_unsigned, default.plugins.allow_unsigned);
    assert_eq!(example.plugins.trusted_keys, [], "a copy of the example trusts no key");
    assert_eq!(example.vocabulary.default_language, default.vocabulary.default_language);
    assert_eq!(example.audit.retention_days, default.audit.retention_days);
    assert_eq!(example.log.level, default.log.level);
    assert_eq!(example.log.format, default.log.format);
    let otlp = OtlpConfig { headers_file: None, ca: None, ..example.otlp.clone() };
    assert_eq!(
        (otlp, example.otlp.headers_file.is_some()),
        (default.otlp, true),
        "a copy of the example sends nothing"
    );
    let table: toml::Table = std::fs::read_to_string(path).unwrap().parse().unwrap();
    assert_eq!(known_but_absent(&table), ["store.postgres.url"], "`url_file` is set instead");
}

#[test]
fn an_unknown_key_is_rejected_with_the_closest_match() {
    let error = Config::parse("[server]\nlistne = '127.0.0.1:1'\n[tokens]\nissuer = 'x'\n").unwrap_err();
    assert_eq!(
        error.problems,
        ["unknown key `server.listne`; did you mean `server.listen`?", "unknown key `tokens`; did you mean `token`?"]
    );
}

#[test]
fn an_unknown_key_is_compared_with_those_of_its_table() {
    for (text, reported) in [
        ("[server.tls]\ncertificate = 'c'", "unknown key `server.tls.certificate`; did you mean `server.tls.cert`?"),
        ("[token]\nlife = 1", "unknown key `token.life`; did you mean `token.lifetime_s`?"),
        ("[server]\nissuer = 'x'", "unknown key `server.issuer`; did you mean `token.issuer`?"),
        (
            "[server.tls]\nchain = 'c'",
            "unknown key `server.tls.chain`; the keys of `[server.tls]` are cert, key, handshake_timeout_ms, check_every_s, expiry_warning_days",
        ),
        ("[audit]\nsunshine = 1", "unknown key `audit.sunshine`; the keys of `[audit]` are retention_days"),
        (
            "[sunshine]",
            "unknown key `sunshine`; the tables are server, token, store, plugins, vocabulary, audit, log, otlp",
        ),
    ] {
        assert_eq!(Config::parse(text).unwrap_err().problems, [reported], "{text}");
    }
}

#[test]
fn keys_for_plugins_are_read_and_an_invalid_one_is_named() {
    let key = "ed25519:6kpsY+KcUgq+9VB7Ey7F+ZVHdq6+vnuSQh7qaRRG0iw=";
    let keys = Config::parse(&format!("[plugins]\ntrusted_keys = ['{key} ours']")).unwrap().plugins.trusted_keys;
    assert_eq!(keys.iter().map(|key| key.key().to_string()).collect::<Vec<_>>(), [format!("{key} ours")]);
    let error = Config::parse(&format!("[plugins]\ntrusted_keys = ['{key}', 'ed25519:AAAA']")).unwrap_err();
    assert!(error.to_string().contains("`ed25519:AAAA` is not a public key for plugins"), "{error}");
    assert!(error.to_string().contains("trusted_keys"), "{error}");
    let error = Config::parse(&format!("[plugins]\ntrusted_keys = ['{key}', '{key} again']")).unwrap_err();
    assert!(error.to_string().contains("twice") && error.to_string().contains(" again"), "{error}");
}

#[test]
fn plain_http_stays_on_loopback() {
    let open = "[server]\nlisten = '0.0.0.0:8080'\nadmin_listen = '0.0.0.0:8081'";
    let error = Config::parse(open).unwrap_err();
    assert_eq!(error.problems.len(), 2, "{error}");
    assert!(error.problems.iter().all(|problem| problem.contains("server.tls.cert")), "{error}");
    assert!(error.problems[0].contains("`server.trusted_proxies`"), "the proxy setting is named as well: {error}");
    assert!(Config::parse(&format!("{open}\n[server.tls]\ncert = 'c'\nkey = 'k'")).is_ok());
    let error = Config::parse(&format!("{open}\ntrusted_proxies = ['10.1.0.0/16']")).unwrap_err();
    assert_eq!(error.problems.len(), 1, "the administrator does not use a proxy: {error}");
    assert!(error.problems[0].contains("server.admin_listen"), "{error}");
    assert!(Config::parse("[server]\nlisten = '0.0.0.0:8080'\ntrusted_proxies = ['10.1.0.0/16']").is_ok());
}

#[test]
fn proxies_are_listed_by_network_and_an_invalid_one_is_reported() {
    let parse = |list: &str| Config::parse(&format!("[server]\ntrusted_proxies = [{list}]"));
    let right = parse("'10.1.0.0/16', '192.0.2.7', '2001:db8::/32', '::1'").unwrap();
    assert_eq!(right.server.trusted_proxies.len(), 4);
    for (entry, reported) in [
        ("'10.1.0.1/16'", "`10.1.0.1/16` is not the first address of its network: write `10.1.0.0/16`"),
        ("'192.0.2.7', 'proxy.example.org'", "`proxy.example.org` is not a network"),
        ("'10.0.0.0/64'", "`10.0.0.0/64` has no valid prefix length"),
        ("'0.0.0.0/0'", "has `0.0.0.0/0`, which is most of the internet"),
        ("'10.0.0.0/8', '::/0'", "has `::/0`, which is most of the internet"),
    ] {
        let error = parse(entry).unwrap_err();
        assert!(error.to_string().contains(reported) && error.to_string().contains("trusted_proxies"), "{error}");
    }
    let many = |count: usize| parse(&vec!["'10.0.0.1'"; count].join(","));
    assert!(many(64).is_ok());
    assert!(many(65).unwrap_err().to_string().contains("65 entries; the maximum is 64"));
    assert!(Config::parse("[server]\nforwarded_header = 'forwarded'").is_ok());
    let error = Config::parse("[server]\nforwarded_header = 'x-real-ip'").unwrap_err();
    assert!(error.to_string().contains("`x-forwarded-for` or `forwarded`"), "{error}");
}

#[test]
fn origins_are_listed_individually() {
    let parse = |list: &str| Config::parse(&format!("[server]\ncors_origins = [{list}]"));
    assert_eq!(parse("'https://portal.example.org', 'http://localhost:3000'").unwrap().server.cors_origins.len(), 2);
    for (entry, reported) in [
        ("'*'", "lets any page call the register"),
        ("'https://a.example', 'https://b.example/'", "`https://b.example/` is not an origin in the form of browsers"),
        ("'http://a.example'", "is served without HTTPS"),
    ] {
        let error = parse(entry).unwrap_err();
        assert!(error.to_string().contains(reported) && error.to_string().contains("cors_origins"), "{error}");
    }
}

#[test]
fn limits_of_connections_have_bounds() {
    let certificate = "[server.tls]\ncert = 'c'\nkey = 'k'";
    for (table, key, least, most) in [
        ("[server.connections]", "server.connections.max", 1, 100_000),
        ("[server.connections]", "server.connections.per_address_max", 1, 100_000),
        ("[server.connections]", "server.connections.requests_max", 1, 100_000),
        ("[server.connections]", "server.connections.http2_streams_max", 1, 1_000),
        ("[server.connections]", "server.connections.header_timeout_ms", 100, 120_000),
        ("[server.connections]", "server.connections.body_timeout_ms", 100, 600_000),
        ("[server.connections]", "server.connections.body_stall_timeout_ms", 100, 600_000),
        ("[server.connections]", "server.connections.idle_timeout_ms", 100, 3_600_000),
        ("[server.connections]", "server.connections.write_timeout_ms", 100, 600_000),
        ("[server]", "server.shutdown_timeout_ms", 100, 600_000),
        ("[server]", "server.hsts_max_age_s", 0, 63_072_000),
        (certificate, "server.tls.handshake_timeout_ms", 100, 120_000),
        (certificate, "server.tls.check_every_s", 1, 86_400),
        (certificate, "server.tls.expiry_warning_days", 1, 365),
    ] {
        let name = key.rsplit('.').next().unwrap();
        let parse = |value: u64| Config::parse(&format!("{table}\n{name} = {value}"));
        for value in [least, least + 1, most - 1, most] {
            assert!(parse(value).is_ok(), "{key} = {value}");
        }
        for value in [least.checked_sub(1), Some(most + 1)].into_iter().flatten() {
            let problems = parse(value).unwrap_err().problems;
            assert!(
                problems.len() == 1 && problems[0].starts_with(&format!("`{key}` must be between {least} and {most}")),
                "{problems:?}"
            );
        }
    }
}

#[test]
fn metrics_listen_requires_https_beyond_loopback_and_its_own_address() {
    let parse = |address: &str| Config::parse(&format!("[server]\nmetrics_listen = '{address}'"));
    assert!(parse("127.0.0.1:9090").is_ok());
    assert!(parse("0.0.0.0:9090").unwrap_err().problems[0].contains("without HTTPS"));
    assert!(parse("127.0.0.1:8081").unwrap_err().problems[0].contains("`server.admin_listen` are the same"));
    let tls = "[server]\nmetrics_listen = '0.0.0.0:9090'\n[server.tls]\ncert = 'c'\nkey = 'k'";
    assert!(Config::parse(tls).is_ok());
}

#[test]
fn the_memory_of_the_response_cache_has_bounds() {
    let parse = |mib: u64| Config::parse(&format!("[store]\nresponse_cache_mib = {mib}"));
    for mib in [0, 1, RESPONSE_CACHE_MIB_MAX] {
        assert_eq!(parse(mib).unwrap().store.response_cache_mib, mib);
    }
    let problems = parse(RESPONSE_CACHE_MIB_MAX + 1).unwrap_err().problems;
    assert_eq!(problems, ["`store.response_cache_mib` must be between 0 and 65536"]);
}

#[test]
fn the_memory_of_the_preview_cache_has_bounds() {
    let parse = |mib: u64| Config::parse(&format!("[store]\npreview_cache_mib = {mib}"));
    for mib in [0, 1, PREVIEW_CACHE_MIB_MAX - 1, PREVIEW_CACHE_MIB_MAX] {
        assert_eq!(parse(mib).unwrap().store.preview_cache_mib, mib);
    }
    let problems = parse(PREVIEW_CACHE_MIB_MAX + 1).unwrap_err().problems;
    assert_eq!(problems, ["`store.preview_cache_mib` must be between 0 and 65536"]);
}

#[test]
fn the_age_of_secrets_for_a_warning_has_bounds() {
    let parse = |days: u32| Config::parse(&format!("[token]\nsecret_age_warning_days = {days}"));
    assert_eq!(Config::default().token.secret_age_warning(), Some(90));
    for (days, warning) in [(0, None), (1, Some(1)), (3_649, Some(3_649)), (3_650, Some(3_650))] {
        assert_eq!(parse(days).unwrap().token.secret_age_warning(), warning);
    }
    let problems = parse(3_651).unwrap_err().problems;
    assert_eq!(problems, ["`token.secret_age_warning_days` must be between 0 and 3650"]);
}

#[test]
fn all_problems_are_reported_together() {
    let text = "[token]\nlifetime_s = 1\nissuer = ''\n[store]\ncache_mib = 1\n[server]\npublic_url = 'https://a/b'";
    assert_eq!(Config::parse(text).unwrap_err().problems.len(), 4);
}

/// Returns the field names of a table's struct, as listed by its error for an unknown field.
fn fields_of(table: &str) -> Vec<String> {
    let text = if table.is_empty() { "zzz = 1".to_owned() } else { format!("[{table}]\nzzz = 1") };
    let reported = toml::from_str::<Config>(&text).unwrap_err().to_string();
    let (_, listed) = reported.split_once("expected").unwrap_or_else(|| panic!("{table}: {reported}"));
    let mut names: Vec<String> = listed.split('`').skip(1).step_by(2).map(str::to_owned).collect();
    names.sort();
    names
}

/// Together with [`the_example_file_can_be_loaded_and_has_the_defaults`]: the example has every setting.
#[test]
fn every_field_of_every_table_is_a_known_key_and_in_the_example() {
    let mut tables = vec![String::new()];
    let mut seen = 0;
    while let Some(table) = tables.pop() {
        let names = fields_of(&table);
        assert_eq!(names, known_in(&table), "`[{table}]`");
        seen += names.len();
        for name in names {
            let path = if table.is_empty() { name } else { format!("{table}.{name}") };
            // Limits are keyed by plugin name; the keys of each are tested with them.
            if path != plugin_limits::TABLE && !keys::keys_of(&path).is_empty() {
                tables.push(path);
            }
        }
    }
    assert_eq!(seen, keys::TABLES.iter().map(|(_, keys)| keys.len()).sum::<usize>());
    let example =
        std::fs::read_to_string(Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../deploy/daftar.example.toml"));
    let example = example.unwrap();
    for limit in fields_of("plugins.limits.some-plugin") {
        assert!(example.contains(&format!("\n{limit} = ")), "the example lacks the limit `{limit}`");
    }
}

#[test]
fn the_otlp_export_is_off_and_its_settings_have_bounds() {
    assert!(!Config::default().otlp.enabled);
    let parse = |text: &str| Config::parse(&format!("[otlp]\nenabled = true\n{text}"));
    for right in [
        "",
        "endpoint = 'https://collector.example.org'",
        "endpoint = 'http://[::1]:4318'",
        "endpoint = 'https://collector.example.org:443/otlp/tenant-1'",
        "headers_file = 'h'",
        "headers_file = 'h'\nendpoint = 'http://[::1]:4318'",
        "headers_file = 'h'\nendpoint = 'http://localhost:4318'",
        "headers_file = 'h'\nendpoint = 'https://collector'",
        "sampling_ratio = 0.0\nmetrics_interval_s = 0",
        "sampling_ratio = 1.0\nmetrics_interval_s = 3600\nqueue_spans_max = 1000000\ntimeout_ms = 60000\nshutdown_timeout_ms = 60000",
        "metrics_interval_s = 1\nqueue_spans_max = 1\ntimeout_ms = 100\nshutdown_timeout_ms = 100\ntraceparent = 'trusted-proxies'",
    ] {
        assert!(parse(right).is_ok(), "{right}: {:?}", parse(right).err());
    }
    for (wrong, key) in [
        ("endpoint = ''", "otlp.endpoint"),
        ("endpoint = 'collector:4318'", "otlp.endpoint"),
        ("endpoint = 'grpc://collector:4317'", "otlp.endpoint"),
        ("endpoint = 'https://key@collector'", "otlp.endpoint"),
        ("endpoint = 'https://collector/?key=1'", "otlp.endpoint"),
        ("endpoint = 'https://collector/'", "otlp.endpoint"),
        ("headers_file = 'h'\nendpoint = 'http://collector:4318'", "otlp.headers_file"),
        ("headers_file = 'h'\nendpoint = 'http://127.0.0.1.example.org'", "otlp.headers_file"),
        ("service_name = ''", "otlp.service_name"),
        ("service_name = \"a\\nb\"", "otlp.service_name"),
        ("sampling_ratio = 1.1", "otlp.sampling_ratio"),
        ("sampling_ratio = -0.1", "otlp.sampling_ratio"),
        ("sampling_ratio = nan", "otlp.sampling_ratio"),
        ("metrics_interval_s = 3601", "otlp.metrics_interval_s"),
        ("queue_spans_max = 0", "otlp.queue_spans_max"),
        ("queue_spans_max = 1000001", "otlp.queue_spans_max"),
        ("timeout_ms = 99", "otlp.timeout_ms"),
        ("timeout_ms = 60001", "otlp.timeout_ms"),
        ("shutdown_timeout_ms = 99", "otlp.shutdown_timeout_ms"),
        ("shutdown_timeout_ms = 60001", "otlp.shutdown_timeout_ms"),
    ] {
        let problems = parse(wrong).unwrap_err().problems;
        assert!(problems.len() == 1 && problems[0].starts_with(&format!("`{key}`")), "{wrong}: {problems:?}");
    }
    assert!(parse("traceparent = 'all'").unwrap_err().to_string().contains("traceparent"));
}
