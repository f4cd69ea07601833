//! Trust in plugins: signed, pinned, unsigned, tampered with; on a running server, a stopped one, and without any.

use std::fs;
use std::path::Path;
use std::process::Command;

use daftar_tests::process::{Finished, run};
use daftar_tests::{Server, artifacts, packs};
use serde_json::{Value, json};

fn install(data_dir: &Path, file: &Path, more: &[&str]) -> Finished {
    run(data_dir, &[&["plugin", "install", file.to_str().unwrap()], more].concat())
}

fn inspect(folder: &Path, file: &Path, more: &[&str]) -> Finished {
    run(folder, &[&["plugin", "inspect", file.to_str().unwrap()], more].concat())
}

#[test]
fn a_signed_pack_is_installed_and_one_changed_byte_is_refused_naming_digest_and_key() {
    let folder = tempfile::tempdir().unwrap();
    let (key, reported) = packs::key(folder.path(), "key.pem");
    let id = reported["key_id"].as_str().unwrap();
    let config = packs::config_that_trusts(folder.path(), &reported);
    let config = config.to_str().unwrap();
    let pack = packs::build(folder.path(), "1.0.0", Some(&key));
    let data_dir = folder.path().join("data");
    let server = Server::serve(&data_dir, &["--config", config]);

    let mut changed = fs::read(&pack).unwrap();
    // A byte inside a name of the manifest: the file is as well-formed as before.
    let place = changed.windows(10).position(|window| window == b"Two codes.").unwrap();
    changed[place] = b'N';
    let tampered = folder.path().join("tampered.wasm");
    fs::write(&tampered, &changed).unwrap();
    fs::copy(format!("{}.sig", pack.display()), format!("{}.sig", tampered.display())).unwrap();
    // And one that ends a text of the manifest, so that the manifest is invalid.
    let mut broken = changed.clone();
    broken[place + 10] = b' ';
    let broken_file = folder.path().join("broken.wasm");
    fs::write(&broken_file, &broken).unwrap();
    fs::copy(format!("{}.sig", pack.display()), format!("{}.sig", broken_file.display())).unwrap();
    let refused = install(&data_dir, &broken_file, &[]);
    let digest = daftar::plugin::Digest::of(&broken).to_string();
    for named in ["the plugin was rejected at step `signature`", id, &digest] {
        assert!(refused.code == 1 && refused.stderr.contains(named), "{named}: {refused:?}");
    }
    let digest = inspect(folder.path(), &tampered, &["--json"]).expect_success().json();
    let digest = digest["digest"].as_str().unwrap();
    for more in [&[][..], &["--allow-unsigned"]] {
        let refused = install(&data_dir, &tampered, more);
        assert_eq!(refused.code, 1, "{refused:?}");
        for named in ["plugin `small` was rejected at step `signature`", id, digest] {
            assert!(refused.stderr.contains(named), "{named}: {refused:?}");
        }
    }

    let installed = install(&data_dir, &pack, &["--json"]).expect_success().json();
    assert_eq!(installed["signer"], format!("key {id}"));
    let list = run(&data_dir, &["plugin", "list"]).expect_success().stdout;
    let row = list.lines().find(|line| line.starts_with("small ")).unwrap();
    assert!(row.contains(id) && row.contains("active"), "{row}");
    let engine = list.lines().find(|line| line.starts_with("eligibility-cel ")).unwrap();
    assert!(engine.contains("pinned"), "{engine}");
    drop(server.stop().expect_success());

    // A stopped server's folder: the configuration lists trusted keys.
    let newer = packs::build(folder.path(), "1.1.0", Some(&key));
    let refused = install(&data_dir, &newer, &[]);
    assert!(refused.code == 1 && refused.stderr.contains(id), "{refused:?}");
    drop(install(&data_dir, &newer, &["--config", config]).expect_success());
    let list = run(&data_dir, &["plugin", "list", "--json"]).expect_success().json();
    let small = list["data"].as_array().unwrap().iter().find(|plugin| plugin["name"] == "small").unwrap();
    assert_eq!((&small["version"], &small["signer"]), (&"1.1.0".into(), &format!("key {id}").into()));
}

#[test]
fn a_key_that_is_limited_in_the_configuration_is_trusted_for_nothing_else() {
    let folder = tempfile::tempdir().unwrap();
    let (key, reported) = packs::key(folder.path(), "key.pem");
    let pack = packs::build(folder.path(), "1.0.0", Some(&key));
    let config = |limits: &str| {
        let file = folder.path().join("limited.toml");
        let key = reported["public_key"].as_str().unwrap();
        fs::write(&file, format!("[plugins]\ntrusted_keys = [{{ key = \"{key}\", {limits} }}]\n")).unwrap();
        file.to_str().unwrap().to_owned()
    };
    let data_dir = folder.path().join("data");
    for limits in ["names = [\"gear\"]", "kinds = [\"eligibility-engine\"]"] {
        let config = config(limits);
        let refused = install(&data_dir, &pack, &["--config", &config]);
        assert!(refused.code == 1 && refused.stderr.contains("`[plugins] trusted_keys` limits to"), "{refused:?}");
        let inspected = inspect(folder.path(), &pack, &["--json", "--config", &config]).expect_success().json();
        assert_eq!(inspected["signature"]["state"], "outside_limits", "{inspected}");
        // Nor from a folder of plugins.
        let plugins = folder.path().join("plugins");
        let _made = fs::create_dir(&plugins);
        fs::copy(&pack, plugins.join("small.wasm")).unwrap();
        fs::copy(format!("{}.sig", pack.display()), plugins.join("small.wasm.sig")).unwrap();
        let server = Server::serve_plugins(&folder.path().join("served"), &plugins, &["--config", &config]);
        let log = server.stop().expect_success().stderr;
        assert!(log.contains("plugin `small` was rejected at step `signature`"), "{log}");
    }
    let config = config("names = [\"small\"], kinds = [\"vocabulary-pack\"]");
    let installed = install(&data_dir, &pack, &["--json", "--config", &config]).expect_success().json();
    assert_eq!(installed["signer"], format!("key {}", reported["key_id"].as_str().unwrap()));
}

#[test]
fn an_older_version_needs_a_word_by_hand_and_is_never_taken_from_a_folder() {
    let folder = tempfile::tempdir().unwrap();
    let data_dir = folder.path().join("data");
    let [older, newer] = ["1.0.0", "1.1.0"].map(|version| packs::build(folder.path(), version, None));
    let server = Server::serve(&data_dir, &[]);
    drop(install(&data_dir, &newer, &["--allow-unsigned"]).expect_success());
    let refused = install(&data_dir, &older, &["--allow-unsigned"]);
    assert_eq!(refused.code, 1, "{refused:?}");
    for named in ["step `downgrade`", "1.1.0", "--allow-downgrade"] {
        assert!(refused.stderr.contains(named), "{named}: {refused:?}");
    }
    let reported = run(&data_dir, &["plugin", "report", older.to_str().unwrap(), "--json"]);
    assert!(reported.stdout.contains("step `downgrade`"), "{reported:?}");
    let installed = install(&data_dir, &older, &["--allow-unsigned", "--allow-downgrade", "--json"]);
    assert_eq!(installed.expect_success().json()["version"], "1.0.0");
    drop(install(&data_dir, &newer, &["--allow-unsigned"]).expect_success());
    drop(server.stop().expect_success());
    let plugins = folder.path().join("plugins");
    fs::create_dir(&plugins).unwrap();
    fs::copy(&older, plugins.join("small.wasm")).unwrap();
    let config = folder.path().join("lax.toml");
    fs::write(&config, "[plugins]\nallow_unsigned = true\n").unwrap();
    let server = Server::serve_plugins(&data_dir, &plugins, &["--config", config.to_str().unwrap()]);
    let list = run(&data_dir, &["plugin", "list", "--json"]).expect_success().json();
    let small = list["data"].as_array().unwrap().iter().find(|plugin| plugin["name"] == "small").unwrap();
    assert_eq!(small["version"], "1.1.0");
    drop(server.stop().expect_success());
}

#[test]
fn an_unsigned_plugin_requires_confirmation_and_a_built_in_one_does_not() {
    let folder = tempfile::tempdir().unwrap();
    let pack = packs::build(folder.path(), "1.0.0", None);
    let data_dir = folder.path().join("data");
    let server = Server::serve(&data_dir, &[]);
    let refused = install(&data_dir, &pack, &[]);
    assert!(refused.code == 1 && refused.stderr.contains("step `signature`"), "{refused:?}");
    assert!(refused.stderr.contains("--allow-unsigned") && refused.stderr.contains("sha256:"), "{refused:?}");
    let installed = install(&data_dir, &pack, &["--allow-unsigned"]).expect_success().stdout;
    assert!(installed.trim_end().ends_with(", unsigned)"), "{installed}");
    let pinned = install(&data_dir, &artifacts::plugins().join("gender.wasm"), &[]).expect_success().stdout;
    assert!(pinned.trim_end().ends_with(", pinned)"), "{pinned}");
    // A folder of plugins follows the same rule.
    drop(server.stop().expect_success());
    let plugins = folder.path().join("plugins");
    fs::create_dir(&plugins).unwrap();
    let newer = packs::build(folder.path(), "2.0.0", None);
    fs::copy(&newer, plugins.join("small.wasm")).unwrap();
    let server = Server::serve_plugins(&data_dir, &plugins, &[]);
    let list = run(&data_dir, &["plugin", "list", "--json"]).expect_success().json();
    let small = list["data"].as_array().unwrap().iter().find(|plugin| plugin["name"] == "small").unwrap();
    assert_eq!(small["version"], "1.0.0");
    let log = server.stop().expect_success().stderr;
    assert!(log.contains("plugin `small` was rejected at step `signature`"), "{log}");
}

#[test]
fn a_file_is_inspected_without_a_server_and_without_running_it() {
    let folder = tempfile::tempdir().unwrap();
    let (key, reported) = packs::key(folder.path(), "key.pem");
    let config = packs::config_that_trusts(folder.path(), &reported);
    let pack = packs::build(folder.path(), "1.0.0", Some(&key));
    let seen = inspect(folder.path(), &pack, &["--json", "--config", config.to_str().unwrap()]).expect_success().json();
    for (member, value) in
        [("name", "small"), ("version", "1.0.0"), ("kind", "vocabulary-pack"), ("licence", "CC0-1.0")]
    {
        assert_eq!(seen[member], value, "{seen}");
    }
    assert_eq!(seen["size_bytes"], fs::metadata(&pack).unwrap().len());
    assert!(seen["compiled_bytes"].as_u64().unwrap() > seen["code_bytes"].as_u64().unwrap(), "{seen}");
    assert!(seen["compile_ms"].is_u64(), "{seen}");
    assert_eq!((&seen["signature"]["state"], &seen["signature"]["key_id"]), (&"signed".into(), &reported["key_id"]));
    assert!(seen["exports"][0].as_str().unwrap().starts_with("daftar:plugin/vocabulary@"), "{seen}");
    let unknown = inspect(folder.path(), &pack, &["--json"]).expect_success().json();
    assert_eq!(unknown["signature"]["state"], "unknown_key");
    let ours = inspect(folder.path(), &artifacts::plugins().join("gender.wasm"), &["--json"]).expect_success().json();
    assert_eq!(ours["signature"]["state"], "pinned");
    let text = inspect(folder.path(), &pack, &[]).expect_success().stdout;
    assert!(text.contains("\nlicence           CC0-1.0\n") && text.contains("\nimports           none\n"), "{text}");

    // A pack that would never return is described all the same: none of it runs.
    let loops = inspect(folder.path(), &artifacts::fixture("loop-in-describe"), &["--json"]).expect_success().json();
    assert_eq!((&loops["name"], &loops["signature"]["state"]), (&"loop-in-describe".into(), &"unsigned".into()));
    // Requested limits are listed with their reason, and reasons for a rejection with the rest.
    let greedy = artifacts::fixture("memory-bomb");
    let wanted = &inspect(folder.path(), &greedy, &["--json"]).expect_success().json()["limits"];
    assert_eq!(*wanted, json!({"memory_bytes": {"value": 4_294_967_296_u64, "reason": "It wants all of it."}}));
    let text = inspect(folder.path(), &greedy, &[]).expect_success().stdout;
    assert!(text.contains("\nwanted limit      memory_bytes 4294967296: It wants all of it.\n"), "{text}");
    let import = inspect(folder.path(), &artifacts::fixture("unlinked-import"), &["--json"]);
    assert!(import.code == 1 && import.stderr.contains("step `imports`"), "{import:?}");
    let import = import.json();
    assert_eq!((&import["refusal"]["step"], &import["compiled_bytes"]), (&json!("imports"), &Value::Null), "{import}");
    assert_eq!(import["compile_ms"], Value::Null);
    assert_eq!(import["imports"], json!(["acme:pack/disk", "acme:pack/network"]));
    fs::write(folder.path().join("broken.wasm"), b"broken").unwrap();
    let broken = inspect(folder.path(), &folder.path().join("broken.wasm"), &[]);
    assert!(broken.code == 1 && broken.stderr.contains("step `unreadable`"), "{broken:?}");
    fs::write(format!("{}.sig", pack.display()), "nonsense").unwrap();
    let bad = inspect(folder.path(), &pack, &["--json"]).expect_success().json();
    assert_eq!(bad["signature"]["state"], "bad");
    assert!(!folder.path().join("data").exists() && !folder.path().join("store").exists(), "no register was opened");
}

#[test]
fn the_same_folder_makes_the_same_pack() {
    let (one, two) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let [first, second] = [&one, &two].map(|folder| fs::read(packs::build(folder.path(), "1.0.0", None)).unwrap());
    assert_eq!(first, second);
}

#[test]
fn the_signature_is_one_that_openssl_makes_and_checks() {
    let Some(openssl) = daftar_test_needs::program("openssl") else { return };
    let folder = tempfile::tempdir().unwrap();
    let (key, reported) = packs::key(folder.path(), "key.pem");
    let pack = packs::build(folder.path(), "1.0.0", Some(&key));
    let line = fs::read_to_string(format!("{}.sig", pack.display())).unwrap();
    let encoded = line.trim_end().rsplit(' ').next().unwrap();
    let raw = base64::Engine::decode(&base64::engine::general_purpose::STANDARD, encoded).unwrap();
    let (signature, public) = (folder.path().join("raw.sig"), folder.path().join("public.pem"));
    fs::write(&signature, raw).unwrap();
    fs::write(&public, reported["public_key_pem"].as_str().unwrap()).unwrap();
    let check = |file: &Path| {
        let mut openssl = Command::new(&openssl);
        openssl.args(["pkeyutl", "-verify", "-pubin", "-rawin", "-inkey"]).arg(&public).arg("-in").arg(file);
        openssl.arg("-sigfile").arg(&signature).output().unwrap()
    };
    let checked = check(&pack);
    assert!(checked.status.success(), "{}", String::from_utf8_lossy(&checked.stderr));
    let mut changed = fs::read(&pack).unwrap();
    *changed.last_mut().unwrap() ^= 1;
    fs::write(folder.path().join("changed.wasm"), changed).unwrap();
    assert!(!check(&folder.path().join("changed.wasm")).status.success());
}

#[test]
fn a_wrong_key_in_the_settings_refuses_the_start_and_is_named() {
    let folder = tempfile::tempdir().unwrap();
    let config = folder.path().join("daftar.toml");
    fs::write(&config, "[plugins]\ntrusted_keys = [\"ed25519:AAAA\"]\n").unwrap();
    let refused = run(&folder.path().join("data"), &["serve", "--config", config.to_str().unwrap()]);
    assert_eq!(refused.code, 78, "{refused:?}");
    assert!(refused.stderr.contains("ed25519:AAAA") && refused.stderr.contains("trusted_keys"), "{refused:?}");
}
