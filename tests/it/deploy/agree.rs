//! Settings, image, compose file, manifests and unit say the same.

use std::path::Path;

use daftar::config::{Config, LogFormat};
use daftar_tests::Server;
use daftar_tests::process::run;

use super::{lines, path, read};

/// How the server is started, wherever.
const START: [&str; 5] = ["serve", "--config", "/etc/daftar/daftar.toml", "--data-dir", "/var/lib/daftar"];
const USER: &str = "10001";

fn settings() -> Config {
    Config::load(&path("daftar.container.toml")).unwrap()
}

/// What stands in brackets after that: `"a", "b"`.
fn listed<'t>(text: &'t str, before: &str) -> Vec<&'t str> {
    let line = lines(text).find_map(|line| line.strip_prefix(before)).unwrap_or_else(|| panic!("no `{before}`"));
    line.trim_matches(['[', ']', ' ']).split(", ").map(|word| word.trim_matches('"')).collect()
}

#[test]
fn everything_starts_the_server_in_the_same_way() {
    let (docker, compose) = (read("Dockerfile"), read("compose/compose.yaml"));
    let (kubernetes, unit) = (read("kubernetes/daftar.yaml"), read("systemd/daftar.service"));
    assert_eq!(listed(&docker, "CMD [\"serve"), ["", "--config", START[2], "--data-dir", START[4]]);
    assert_eq!(listed(&docker, "ENTRYPOINT "), ["/usr/bin/daftar"]);
    assert_eq!(listed(&compose, "command: "), START);
    assert_eq!(listed(&kubernetes, "args: "), START);
    let exec = lines(&unit).find_map(|line| line.strip_prefix("ExecStart=")).unwrap();
    assert_eq!(exec.split(' ').collect::<Vec<_>>(), [&["/usr/bin/daftar"], &START[..]].concat());
    // And the program knows each of these words.
    let help = run(Path::new("unused"), &["serve", "--help"]).expect_success().stdout;
    assert!(START.iter().filter(|word| word.starts_with("--")).all(|flag| help.contains(flag)), "{help}");
    let health = ["/usr/bin/daftar", "health", "--data-dir", "/var/lib/daftar"];
    let probe = listed(&docker, "CMD [\"/usr");
    assert_eq!(probe[1..], health[1..]);
    assert_eq!(listed(&compose, "test: [\"CMD\", "), health);
}

#[test]
fn settings_are_the_same_in_the_file_and_in_the_config_map() {
    let (file, kubernetes) = (read("daftar.container.toml"), read("kubernetes/daftar.yaml"));
    let (_, map) = kubernetes.split_once("daftar.toml: |\n").unwrap();
    let (map, _) = map.split_once("\n---\n").unwrap();
    assert_eq!(lines(map).collect::<Vec<_>>(), lines(&file).collect::<Vec<_>>());
    assert!(kubernetes.contains("mountPath: /etc/daftar/daftar.toml, subPath: daftar.toml"));
    assert!(read("compose/compose.yaml").contains("- ../daftar.container.toml:/etc/daftar/daftar.toml:ro"));
}

#[test]
fn ports_and_paths_are_those_of_the_settings() {
    let settings = settings();
    let (docker, compose) = (read("Dockerfile"), read("compose/compose.yaml"));
    let (kubernetes, unit) = (read("kubernetes/daftar.yaml"), read("systemd/daftar.service"));
    let (api, metrics) = (settings.server.listen.port(), settings.server.metrics_listen.unwrap().port());
    assert_eq!((api, metrics), (8443, 9464));
    assert!(
        settings.server.admin_listen.ip().is_loopback(),
        "nobody reaches the administrator's listener from outside"
    );
    assert!(docker.contains(&format!("EXPOSE {api} {metrics}\n")));
    assert!(
        compose.contains(&format!("\"443:{api}\"")) && compose.contains(&format!("\"127.0.0.1:{metrics}:{metrics}\""))
    );
    for port in [format!("name: https, containerPort: {api},"), format!("name: metrics, containerPort: {metrics},")] {
        assert!(kubernetes.contains(&port), "{port}");
    }
    assert!(!kubernetes.contains("8081, ") && !docker.contains("8081"), "the administrator's port is not published");
    assert_eq!(kubernetes.matches("path: /health/live, port: https, scheme: HTTPS").count(), 2);
    assert_eq!(kubernetes.matches("path: /health/ready, port: https, scheme: HTTPS").count(), 1);
    assert_eq!(daftar::api::router::HEALTH_PATHS, ["/health/live", "/health/ready"]);

    let tls = settings.server.tls.unwrap();
    assert_eq!(
        (tls.cert.to_str(), tls.key.to_str()),
        (Some("/etc/daftar/tls/tls.crt"), Some("/etc/daftar/tls/tls.key"))
    );
    assert!(compose.contains(":/etc/daftar/tls:ro") && kubernetes.contains("mountPath: /etc/daftar/tls,"));
    let plugins = settings.plugins.dir.unwrap();
    assert_eq!(plugins.to_str(), Some("/usr/lib/daftar/plugins"));
    assert!(docker.contains("cp -r dist/plugins dist/modules /out/usr/lib/daftar/"));
    for (file, volume) in [
        (&docker, "VOLUME [\"/var/lib/daftar\"]"),
        (&compose, "- data:/var/lib/daftar"),
        (&kubernetes, "name: data, mountPath: /var/lib/daftar }"),
        (&unit, "StateDirectory=daftar\n"),
    ] {
        assert!(file.contains(volume), "{volume}");
    }
    assert_eq!(settings.log.format, LogFormat::Json);
}

#[test]
fn nobody_is_root_and_nothing_but_the_data_is_written() {
    let (docker, compose) = (read("Dockerfile"), read("compose/compose.yaml"));
    let kubernetes = read("kubernetes/daftar.yaml");
    assert!(docker.contains(&format!("USER {USER}:{USER}\n")) && docker.contains(&format!("--uid {USER} ")));
    assert!(docker.contains(&format!("-m 0700 -o {USER} -g {USER} /var/lib/daftar")));
    assert!(compose.contains(&format!("user: \"{USER}:{USER}\"")) && compose.contains("read_only: true"));
    assert!(compose.contains("cap_drop: [\"ALL\"]") && compose.contains("no-new-privileges:true"));
    for line in [
        "runAsNonRoot: true",
        &format!("runAsUser: {USER}"),
        &format!("fsGroup: {USER}"),
        "fsGroupChangePolicy: OnRootMismatch",
        "readOnlyRootFilesystem: true",
        "allowPrivilegeEscalation: false",
        "capabilities: { drop: [\"ALL\"] }",
        "seccompProfile: { type: RuntimeDefault }",
        "replicas: 1",
    ] {
        assert!(lines(&kubernetes).any(|found| found == line), "{line}");
    }
    for image in lines(&docker).filter_map(|line| line.strip_prefix("ARG ")?.split_once("_IMAGE=")) {
        let tag = image.1.rsplit_once(':').unwrap_or_else(|| panic!("no tag: {image:?}")).1;
        assert!(tag != "latest" && !tag.is_empty(), "{image:?}");
    }
}

#[test]
fn whoever_stops_the_server_waits_longer_than_it_takes() {
    let most_s =
        settings().server.shutdown_timeout_ms.div_ceil(1_000) + settings().otlp.shutdown_timeout_ms.div_ceil(1_000);
    let seconds = |file: &str, before: &str| -> u64 {
        let text = read(file);
        let value =
            lines(&text).find_map(|line| line.strip_prefix(before)).unwrap_or_else(|| panic!("{file}: {before}"));
        value.trim_end_matches('s').parse().unwrap()
    };
    for (file, before) in [
        ("systemd/daftar.service", "TimeoutStopSec="),
        ("compose/compose.yaml", "stop_grace_period: "),
        ("kubernetes/daftar.yaml", "terminationGracePeriodSeconds: "),
    ] {
        let waits = seconds(file, before);
        assert!(waits >= most_s + 30, "{file} waits {waits} s, the server may take {most_s} s and its checkpoint");
    }
}

#[test]
fn the_probe_of_containers_tells_a_server_that_is_ready_from_none() {
    let folder = tempfile::tempdir().unwrap();
    let data_dir = folder.path().join("data");
    let none = run(&data_dir, &["health"]);
    assert_eq!((none.code, none.stdout.as_str()), (1, ""), "{none:?}");
    assert!(none.stderr.contains("no server uses the data folder"), "{none:?}");
    let server = Server::serve(&data_dir, &[]);
    assert_eq!(run(&data_dir, &["health"]).expect_success().stdout, "ready\n");
    assert_eq!(run(&data_dir, &["health", "--json"]).expect_success().json(), serde_json::json!({"ready": true}));
    drop(server.stop());
    assert_eq!(run(&data_dir, &["health"]).code, 1);
    // Without the engine the server is ready: only calls that need it are refused.
    let empty = folder.path().join("no-plugins");
    std::fs::create_dir(&empty).unwrap();
    let bare = folder.path().join("bare");
    let server = Server::serve_plugins(&bare, &empty, &[]);
    let told = run(&bare, &["health"]).expect_success().stdout;
    assert!(told.starts_with("ready\ndegraded: no eligibility engine is active"), "{told}");
    let told = run(&bare, &["health", "--json"]).expect_success().json();
    assert!(told["ready"] == true && told["degraded"].as_array().is_some_and(|parts| parts.len() == 1), "{told}");
    drop(server.stop());
}

/// Whether a pattern of `.dockerignore`, of the few forms that ours has, leaves out a path.
fn leaves_out(pattern: &str, path: &str) -> bool {
    let mut parts = path.split('/');
    match pattern.strip_prefix("**/") {
        None => parts.next() == Some(pattern),
        Some(name) => match name.strip_prefix('*') {
            Some(ending) => path.ends_with(ending),
            None => parts.any(|part| part == name),
        },
    }
}

/// Every file below a folder of the project.
fn files(folder: &Path, into: &mut Vec<String>) {
    let root = path("..");
    for entry in std::fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path()) {
        if entry.is_dir() {
            files(&entry, into);
        } else {
            into.push(entry.strip_prefix(&root).unwrap().to_str().unwrap().to_owned());
        }
    }
}

#[test]
fn the_image_is_built_from_all_sources_and_from_no_secret() {
    let ignored = read("../.dockerignore");
    let is_left_out = |path: &str| lines(&ignored).any(|pattern| leaves_out(pattern, path));
    let mut sources = vec!["Cargo.toml".to_owned(), "Cargo.lock".to_owned(), "tests/Cargo.toml".to_owned()];
    for folder in ["host", "plugins", "vocab-packs", "wit", "xtask", "examples"] {
        files(&path("..").join(folder), &mut sources);
    }
    assert!(sources.len() > 1_000);
    let missing: Vec<&String> = sources.iter().filter(|path| is_left_out(path)).collect();
    assert!(missing.is_empty(), "{missing:?}");
    for secret in [
        "data/keys/token.json",
        "deploy/compose/tls/tls.key",
        "my.pem",
        "register/admin.token",
        "daftar.toml",
        ".git/config",
    ] {
        assert!(is_left_out(secret), "{secret}");
    }
}
