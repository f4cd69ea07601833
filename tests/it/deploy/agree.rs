//! Settings, image, compose file, manifests and unit are consistent.

use std::path::Path;

use daftar::config::{Config, LogFormat};
use daftar_tests::Server;
use daftar_tests::process::run;
use serde_json::{Value, json};

use super::{lines, path, read};

/// Start command of the server, in every deployment.
const START: [&str; 5] = ["serve", "--config", "/etc/daftar/daftar.toml", "--data-dir", "/var/lib/daftar"];
/// Health check of a container.
const HEALTH: [&str; 4] = ["/usr/bin/daftar", "health", "--data-dir", "/var/lib/daftar"];
const USER: u32 = 10_001;
/// The folder that several servers on one database share. Docker gives a new volume the owner of the image's folder.
const SHARED: &str = "/var/lib/daftar-common";

fn settings() -> Config {
    Config::load(&path("daftar.container.toml")).unwrap()
}

/// The server of the compose file.
fn compose() -> Value {
    let file: Value = serde_saphyr::from_str(&read("compose/compose.yaml")).unwrap();
    assert_eq!(file["volumes"], json!({"data": {}}));
    file["services"]["daftar"].clone()
}

/// The one manifest of that kind and name.
fn manifest(kind: &str, name: &str) -> Value {
    let all: Vec<Value> = serde_saphyr::from_multiple(&read("kubernetes/daftar.yaml")).unwrap();
    let mut found = all.into_iter().filter(|one| one["kind"] == kind && one["metadata"]["name"] == name);
    let manifest = found.next().unwrap_or_else(|| panic!("no {kind} `{name}`"));
    assert!(found.next().is_none(), "{kind} `{name}` twice");
    manifest
}

/// The specification of a pod, and its one container.
fn pod() -> (Value, Value) {
    let pod = manifest("StatefulSet", "daftar")["spec"]["template"]["spec"].clone();
    let [container] = &pod["containers"].as_array().unwrap()[..] else { panic!("one container") };
    let container = container.clone();
    (pod, container)
}

/// The instructions of the image's last stage, and those before it.
struct Image {
    before: Vec<(String, String)>,
    last: Vec<(String, String)>,
}

impl Image {
    fn read() -> Self {
        let text = read("Dockerfile");
        let uncommented: Vec<&str> = lines(&text).collect();
        // An instruction continues if a line ends in a backslash.
        let whole = uncommented.join("\n").replace("\\\n", " ");
        let instructions = whole.lines().map(|line| line.split_once(' ').expect("an instruction and what it is given"));
        let mut before: Vec<(String, String)> = instructions
            .map(|(name, rest)| (name.to_owned(), rest.split_whitespace().collect::<Vec<_>>().join(" ")))
            .collect();
        let from = before.iter().rposition(|(name, _)| name == "FROM").expect("a stage");
        let last = before.split_off(from);
        Self { before, last }
    }

    /// The argument of that instruction in the last stage, which has it once.
    fn only(&self, name: &str) -> &str {
        let found: Vec<&str> =
            self.last.iter().filter(|(found, _)| found == name).map(|(_, rest)| rest.as_str()).collect();
        let [only] = found[..] else { panic!("{name}: {found:?}") };
        only
    }

    /// The words of an instruction in the form without a shell.
    fn words(&self, name: &str) -> Value {
        serde_json::from_str(self.only(name)).unwrap_or_else(|error| panic!("{name}: {error}"))
    }
}

#[test]
fn everything_starts_the_server_in_the_same_way() {
    let (image, compose, (_, container)) = (Image::read(), compose(), pod());
    assert_eq!((image.words("ENTRYPOINT"), image.words("CMD")), (json!(["/usr/bin/daftar"]), json!(START)));
    assert_eq!(compose["command"], json!(START));
    assert_eq!(container["args"], json!(START));
    assert!(container["command"].is_null() && compose["entrypoint"].is_null(), "the image's own program");
    let unit = read("systemd/daftar.service");
    let exec = lines(&unit).find_map(|line| line.strip_prefix("ExecStart=")).unwrap();
    assert_eq!(exec.split(' ').collect::<Vec<_>>(), [&["/usr/bin/daftar"], &START[..]].concat());
    // The program accepts each of these words.
    let help = run(Path::new("unused"), &["serve", "--help"]).expect_success().stdout;
    assert!(START.iter().filter(|word| word.starts_with("--")).all(|flag| help.contains(flag)), "{help}");
    let (_, probe) = image.only("HEALTHCHECK").split_once(" CMD ").unwrap();
    assert_eq!(serde_json::from_str::<Value>(probe).unwrap(), json!(HEALTH));
    assert_eq!(compose["healthcheck"]["test"], json!([&["CMD"], &HEALTH[..]].concat()));
}

/// The mount of a container at that path.
fn mount(container: &Value, path: &str) -> Value {
    let mounts = container["volumeMounts"].as_array().unwrap();
    mounts.iter().find(|mount| mount["mountPath"] == path).unwrap_or_else(|| panic!("nothing at `{path}`")).clone()
}

fn holds(list: &Value, item: &str) -> bool {
    list.as_array().unwrap().iter().any(|found| found == item)
}

#[test]
fn settings_are_the_same_in_the_file_and_in_the_config_map() {
    let map = manifest("ConfigMap", "daftar");
    let (file, (pod, container)) = (read("daftar.container.toml"), pod());
    let map = map["data"]["daftar.toml"].as_str().unwrap();
    assert_eq!(lines(map).collect::<Vec<_>>(), lines(&file).collect::<Vec<_>>());
    let mounted = mount(&container, START[2]);
    assert_eq!((&mounted["name"], &mounted["subPath"]), (&json!("config"), &json!("daftar.toml")));
    let volumes = pod["volumes"].as_array().unwrap();
    let config = volumes.iter().find(|volume| volume["name"] == "config").unwrap();
    assert_eq!(config["configMap"]["name"], "daftar");
    assert!(holds(&compose()["volumes"], "../daftar.container.toml:/etc/daftar/daftar.toml:ro"));
}

#[test]
fn ports_and_paths_are_those_of_the_settings() {
    let settings = settings();
    let (image, compose, (_, container)) = (Image::read(), compose(), pod());
    let (api, metrics) = (settings.server.listen.port(), settings.server.metrics_listen.unwrap().port());
    assert_eq!((api, metrics), (8443, 9464));
    let is_loopback = settings.server.admin_listen.ip().is_loopback();
    assert!(is_loopback, "the administrator's listener is not reached from outside");
    // These ports and no others, so that the administrator's is not published.
    assert_eq!(image.only("EXPOSE"), format!("{api} {metrics}"));
    assert_eq!(compose["ports"], json!([format!("443:{api}"), format!("127.0.0.1:{metrics}:{metrics}")]));
    let port = |name, number| json!({"name": name, "containerPort": number, "protocol": "TCP"});
    assert_eq!(container["ports"], json!([port("https", api), port("metrics", metrics)]));
    let service = |name: &str| manifest("Service", name)["spec"]["ports"].clone();
    let port = |name, number| json!([{"name": name, "port": number, "targetPort": name, "protocol": "TCP"}]);
    assert_eq!(service("daftar"), port("https", 443));
    assert_eq!(service("daftar-metrics"), port("metrics", metrics));
    let requested = |probe: &str| container[probe]["httpGet"].clone();
    let by_https = |path| json!({"path": path, "port": "https", "scheme": "HTTPS"});
    let [live, ready] = daftar::api::endpoint::HEALTH_PATHS;
    assert_eq!((requested("startupProbe"), requested("livenessProbe")), (by_https(live), by_https(live)));
    assert_eq!(requested("readinessProbe"), by_https(ready));

    let tls = settings.server.tls.unwrap();
    let folder = Path::new("/etc/daftar/tls");
    assert_eq!((tls.cert, tls.key), (folder.join("tls.crt"), folder.join("tls.key")));
    assert!(holds(&compose["volumes"], "./tls:/etc/daftar/tls:ro"));
    let mounted = mount(&container, "/etc/daftar/tls");
    assert_eq!((&mounted["name"], &mounted["readOnly"]), (&json!("tls"), &json!(true)));
    let plugins = settings.plugins.dir.unwrap();
    assert_eq!(plugins.to_str(), Some("/usr/lib/daftar/plugins"));
    let copied = "cp -r dist/plugins dist/modules /out/usr/lib/daftar/";
    assert!(image.before.iter().any(|(name, rest)| name == "RUN" && rest.split(" && ").any(|step| step == copied)));
    assert_eq!(image.only("COPY"), "--from=build /out/ /");
    // The data folder, everywhere.
    assert_eq!(image.words("VOLUME"), json!([START[4]]));
    assert!(holds(&compose["volumes"], "data:/var/lib/daftar"));
    assert_eq!(mount(&container, START[4])["name"], "data");
    let claims = manifest("StatefulSet", "daftar")["spec"]["volumeClaimTemplates"].clone();
    assert_eq!(claims[0]["metadata"]["name"], "data");
    assert!(lines(&read("systemd/daftar.service")).any(|line| line == "StateDirectory=daftar"));
    assert_eq!(settings.log.format, LogFormat::Json);
}

#[test]
fn no_process_is_root_and_only_data_is_written() {
    let (image, compose, (pod, container)) = (Image::read(), compose(), pod());
    assert_eq!(image.only("USER"), format!("{USER}:{USER}"));
    let steps: Vec<&str> = image.only("RUN").split(" && ").collect();
    assert!(steps.iter().any(|step| step.starts_with("useradd ") && step.contains(&format!(" --uid {USER} "))));
    let folders = format!("install -d -m 0700 -o {USER} -g {USER} {} {SHARED}", START[4]);
    assert!(steps.contains(&folders.as_str()), "{steps:?}");
    for (key, expected) in [
        ("user", json!(format!("{USER}:{USER}"))),
        ("read_only", json!(true)),
        ("cap_drop", json!(["ALL"])),
        ("security_opt", json!(["no-new-privileges:true"])),
        ("cap_add", Value::Null),
        ("privileged", Value::Null),
    ] {
        assert_eq!(compose[key], expected, "{key}");
    }
    let expected = json!({
        "runAsNonRoot": true, "runAsUser": USER, "runAsGroup": USER, "fsGroup": USER,
        "fsGroupChangePolicy": "OnRootMismatch", "seccompProfile": {"type": "RuntimeDefault"},
    });
    assert_eq!(pod["securityContext"], expected);
    let expected = json!({
        "allowPrivilegeEscalation": false, "readOnlyRootFilesystem": true, "privileged": false,
        "capabilities": {"drop": ["ALL"]},
    });
    assert_eq!(container["securityContext"], expected);
    assert_eq!(manifest("StatefulSet", "daftar")["spec"]["replicas"], 1, "two processes never share a store");
    let images =
        image.before.iter().filter(|(name, _)| name == "ARG").filter_map(|(_, rest)| rest.split_once("_IMAGE="));
    let images: Vec<&str> = images.map(|(_, image)| image).collect();
    assert_eq!(images.len(), 3);
    for image in images {
        let tag = image.rsplit_once(':').unwrap_or_else(|| panic!("no tag: {image:?}")).1;
        assert!(tag != "latest" && !tag.is_empty(), "{image:?}");
    }
}

#[test]
fn several_servers_write_into_the_folder_that_they_share() {
    let servers: Value = serde_saphyr::from_str(&read("postgres/compose.yaml")).unwrap();
    let server = &servers["services"]["daftar"];
    assert_eq!(server["user"], json!(format!("{USER}:{USER}")));
    assert!(holds(&server["volumes"], &format!("common:{SHARED}")));
    let settings = Config::load(&path("postgres/daftar.toml")).unwrap();
    assert_eq!(settings.store.postgres.shared_dir.as_deref(), Some(Path::new(SHARED)));
}

#[test]
fn service_managers_wait_longer_than_a_stop_takes() {
    let most_s =
        settings().server.shutdown_timeout_ms.div_ceil(1_000) + settings().otlp.shutdown_timeout_ms.div_ceil(1_000);
    let unit = read("systemd/daftar.service");
    let by_systemd =
        lines(&unit).find_map(|line| line.strip_prefix("TimeoutStopSec=")).unwrap().parse::<u64>().unwrap();
    let by_compose = compose()["stop_grace_period"].as_str().and_then(|period| period.strip_suffix('s')?.parse().ok());
    let by_kubernetes = pod().0["terminationGracePeriodSeconds"].as_u64();
    for (file, waits) in [
        ("systemd/daftar.service", by_systemd),
        ("compose/compose.yaml", by_compose.unwrap()),
        ("kubernetes/daftar.yaml", by_kubernetes.unwrap()),
    ] {
        assert!(waits >= most_s + 30, "{file} waits {waits} s, the server may take {most_s} s and its checkpoint");
    }
}

#[test]
fn the_probe_of_containers_detects_whether_a_server_is_ready() {
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
    // Without the engine the server is ready: only calls that require it are rejected.
    let empty = folder.path().join("no-plugins");
    std::fs::create_dir(&empty).unwrap();
    let bare = folder.path().join("bare");
    let server = Server::serve_plugins(&bare, &empty, &[]);
    let reported = run(&bare, &["health"]).expect_success().stdout;
    assert!(reported.starts_with("ready\ndegraded: no eligibility engine is active"), "{reported}");
    let reported = run(&bare, &["health", "--json"]).expect_success().json();
    assert!(
        reported["ready"] == true && reported["degraded"].as_array().is_some_and(|parts| parts.len() == 1),
        "{reported}"
    );
    drop(server.stop());
}

/// Tests whether a pattern of `.dockerignore`, of the few forms in ours, matches a path.
fn matches(pattern: &str, path: &str) -> bool {
    let mut parts = path.split('/');
    match pattern.strip_prefix("**/") {
        None => match pattern.strip_suffix("/*") {
            Some(folder) => path.strip_prefix(folder).is_some_and(|rest| rest.starts_with('/')),
            None => path == pattern || parts.next() == Some(pattern),
        },
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
    // The last pattern that matches decides; one with `!` takes the path back in.
    let is_left_out = |path: &str| {
        lines(&ignored).fold(false, |is_out, pattern| match pattern.strip_prefix('!') {
            Some(pattern) => is_out && !matches(pattern, path),
            None => is_out || matches(pattern, path),
        })
    };
    let of_root = ["Cargo.toml", "Cargo.lock", "CHANGELOG.md", "tests/Cargo.toml", "deploy/daftar.example.toml"];
    let mut sources: Vec<String> = of_root.map(str::to_owned).to_vec();
    for folder in ["host", "plugins", "vocab-packs", "wit", "xtask", "examples"] {
        files(&path("..").join(folder), &mut sources);
    }
    assert!(sources.len() > 1_000);
    let missing: Vec<&String> = sources.iter().filter(|path| is_left_out(path)).collect();
    assert!(missing.is_empty(), "{missing:?}");
    for secret in [
        "data/keys/token.json",
        "deploy/compose/tls/tls.key",
        "deploy/postgres/secrets/database-url",
        "my.pem",
        "register/admin.token",
        "daftar.toml",
        ".git/config",
    ] {
        assert!(is_left_out(secret), "{secret}");
    }
}
