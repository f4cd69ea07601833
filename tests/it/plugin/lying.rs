//! Packs that return false data, loop or exhaust memory: each is rejected by name and reason, and the rest is served.

use daftar_tests::records::{FEMALE, person};
use daftar_tests::{Server, TestApp, artifacts};
use serde_json::json;

/// Each misbehaving pack with the step that refuses it and a word of the reason.
const LIARS: [(&str, &str, &str); 19] = [
    ("changing-answers", "content", "second description differs"),
    ("count-lie", "content", "declared 100"),
    ("cycle", "content", "above itself"),
    ("deep-recursion", "smoke", "stack"),
    ("duplicate-code", "content", "occurs 2 times"),
    ("future-interface", "interface_version", "9.9.9"),
    ("huge-string", "content", "output_too_large"),
    ("infinite-paging", "content", "declared"),
    ("log-loop", "smoke", "host_calls"),
    ("loop-in-concepts", "content", "fuel"),
    ("loop-in-describe", "smoke", "fuel"),
    ("memory-bomb", "smoke", "memory"),
    ("panic-in-concepts", "content", "trap"),
    ("panic-in-describe", "smoke", "trap"),
    ("stuck-paging", "content", "do not end"),
    ("unknown-parent", "content", "nowhere"),
    ("unlinked-import", "imports", "acme:pack/disk"),
    ("wasi-import", "imports", "`wasi:clocks/wall-clock@0.2.0`"),
    ("wrong-types", "smoke", "type mismatch"),
];

#[test]
fn every_fixture_is_a_liar_the_engine_or_chatty() {
    let mut known: Vec<&str> = LIARS.iter().map(|(name, _, _)| *name).collect();
    known.extend(["chatty", "misbehaving-engine", "open-occupation"]);
    known.sort_unstable();
    assert_eq!(artifacts::fixture_names(), known);
}

#[test]
fn each_liar_is_refused_at_its_step_with_its_name() {
    let of_loops = ["loop-in-concepts", "loop-in-describe"];
    let app = of_loops.into_iter().fold(TestApp::builder(), |builder, name| builder.call_ms(name, 30_000)).start();
    let admin = app.admin();
    let installed = admin.plugin_names();
    let client = app.client(&["individual:all"]);
    let mut problems = Vec::new();
    for (name, step, reason) in LIARS {
        let refused = admin.install(&std::fs::read(artifacts::fixture(name)).unwrap());
        assert_eq!(refused.status, 422, "{name}: {}", refused.text());
        let detail = refused.detail();
        let reported = format!("plugin `{name}` was rejected at step `{step}`: ");
        if !(detail.starts_with(&reported) && detail.contains(reason) && detail.len() < 4_000) {
            problems.push(format!("{reported}..{reason}.. is expected: {detail}"));
        }
        drop(client.create_individual(&person(name, json!({"gender": FEMALE}))));
    }
    assert!(problems.is_empty(), "{}", problems.join("\n"));
    assert_eq!(admin.plugin_names(), installed);
}

#[test]
fn a_server_starts_with_the_rest_and_names_every_liar() {
    let folder = tempfile::tempdir().unwrap();
    let plugins = folder.path().join("plugins");
    std::fs::create_dir(&plugins).unwrap();
    let copy = |from: std::path::PathBuf| {
        let to = plugins.join(from.file_name().unwrap());
        std::fs::copy(from, to).unwrap();
    };
    let good = std::fs::read_dir(artifacts::plugins()).unwrap().map(|entry| entry.unwrap().path());
    good.for_each(copy);
    LIARS.iter().for_each(|(name, _, _)| copy(artifacts::fixture(name)));
    std::fs::write(plugins.join("broken.wasm"), b"broken").unwrap();
    let data_dir = folder.path().join("data");
    let config = folder.path().join("daftar.toml");
    std::fs::write(&config, "[plugins]\nallow_unsigned = true\n").unwrap();
    let server = Server::serve_plugins(&data_dir, &plugins, &["--config", config.to_str().unwrap()]);
    let call = server.connection();
    assert_eq!(call.request("GET", "/health/ready").send().status, 200);
    let list = daftar_tests::process::run(&data_dir, &["plugin", "list", "--json"]).expect_success().json();
    let finished = server.stop().expect_success();
    let listed: Vec<&str> =
        list["data"].as_array().unwrap().iter().map(|plugin| plugin["name"].as_str().unwrap()).collect();
    let all = artifacts::plugin_names();
    assert!(all.len() > 10 && all.iter().any(|name| name == "eligibility-cel"), "{all:?}");
    assert_eq!(listed, all);
    for (name, step, _) in LIARS {
        let reported = format!("plugin `{name}` was rejected at step `{step}`");
        assert!(finished.stderr.contains(&reported), "{reported}\n{}", finished.stderr);
    }
    assert!(finished.stderr.contains("broken.wasm"), "{}", finished.stderr);
    assert!(!finished.stderr.contains('\u{1b}'), "a log that is no terminal holds no colours: {}", finished.stderr);
}
