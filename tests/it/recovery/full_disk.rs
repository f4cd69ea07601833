//! A full disk during each kind of write. Records are in `faults`, restores too.

use std::collections::BTreeSet;

use daftar_tests::packs;
use daftar_tests::postgres::eventually;
use daftar_tests::process::run;
use serde_json::Value;

use super::{Register, assert_reported, names};
use crate::faults::SmallDisk;

/// Exit code of a file that cannot be written.
const CANNOT_WRITE: i32 = 73;
/// The cause in the log.
const NO_SPACE: &str = "No space left on device";

/// The disk with `checkpoints` is full. The server works and stops normally; the next start reads the records.
///
/// 1. Free space. Nothing else has to be done.
#[test]
fn a_checkpoint_that_does_not_fit_stops_nothing() {
    let register = Register::new();
    let checkpoints = register.data_dir().join("checkpoints");
    std::fs::remove_dir_all(&checkpoints).unwrap();
    std::fs::create_dir(&checkpoints).unwrap();
    let Some(disk) = SmallDisk::mount_at(&checkpoints, "64k") else { return };
    let filler = disk.fill(0);
    let server = register.serve();
    register.create(&server, &["1", "2"]);
    let stopped = server.stop().expect_success();
    assert_reported(&stopped, &["no checkpoint could be written", NO_SPACE]);
    assert_eq!(names(&checkpoints), ["filler"], "no part of a checkpoint uses the disk");
    std::fs::remove_file(filler).unwrap();
    let server = register.serve();
    assert_eq!(register.statuses(&server, ["1", "2"]), [200, 200]);
    assert_reported(&server.stop().expect_success(), &["a checkpoint was written"]);
    drop(run(&register.data_dir(), &["verify"]).expect_success());
}

/// The disk with `keys` is full while a key is rotated: the rotation fails, the log names the disk, and the key
/// from before signs.
///
/// 1. Free space.
/// 2. `daftar key rotate` again.
#[test]
fn a_key_that_does_not_fit_is_not_rotated() {
    let register = Register::new();
    let keys = register.data_dir().join("keys");
    let stored = register.folder.path().join("stored");
    std::fs::rename(&keys, &stored).unwrap();
    std::fs::create_dir(&keys).unwrap();
    let Some(disk) = SmallDisk::mount_at(&keys, "64k") else { return };
    for name in names(&stored) {
        super::copy(&stored.join(&name), &keys.join(&name));
    }
    let before = names(&keys);
    let server = register.serve();
    let token = register.token(&server);
    let listed = || run(&register.data_dir(), &["key", "list", "--json"]).expect_success().stdout;
    let keys_before = listed();
    let filler = disk.fill(0);
    let refused = run(&register.data_dir(), &["key", "rotate"]);
    assert_ne!(refused.code, 0, "{refused:?}");
    assert_reported(&refused, &["error: "]);
    assert_eq!(listed(), keys_before, "the key from before signs");
    let status = || server.connection().request("GET", "/api/v2/Individual").bearer(&token).send().status;
    assert_eq!(status(), 200);
    std::fs::remove_file(filler).unwrap();
    assert_eq!(names(&keys), before, "no part of a key file is left");
    drop(run(&register.data_dir(), &["key", "rotate"]).expect_success());
    assert_ne!(listed(), keys_before);
    assert_eq!(status(), 200, "the replaced key is accepted");
    assert_reported(&server.stop().expect_success(), &[NO_SPACE]);
    let server = register.serve();
    assert_eq!(register.statuses(&server, ["1"]), [404]);
    drop(server.stop().expect_success());
}

/// The disk with `plugins` is full while a plugin is installed: it is rejected, the log names the disk, and the installed
/// ones serve.
///
/// 1. Free space.
/// 2. `daftar plugin install FILE` again.
#[test]
fn a_plugin_that_does_not_fit_is_not_installed() {
    let register = Register::new();
    let (plugins, stored) = (register.data_dir().join("plugins"), register.folder.path().join("stored"));
    std::fs::rename(&plugins, &stored).unwrap();
    std::fs::create_dir(&plugins).unwrap();
    let Some(disk) = SmallDisk::mount_at(&plugins, "512m") else { return };
    for name in names(&stored) {
        super::copy(&stored.join(&name), &plugins.join(&name));
    }
    let pack = packs::build(register.folder.path(), "1.0.0", None);
    let server = register.serve();
    let before = names(&plugins);
    let filler = disk.fill(4_096);
    let install = || run(&register.data_dir(), &["plugin", "install", pack.to_str().unwrap(), "--allow-unsigned"]);
    let refused = install();
    assert_ne!(refused.code, 0, "{refused:?}");
    assert_reported(&refused, &["error: "]);
    std::fs::remove_file(filler).unwrap();
    assert_eq!(names(&plugins), before, "no part of it is left");
    let installed = || {
        let list = run(&register.data_dir(), &["plugin", "list", "--json"]).expect_success().json();
        assert_eq!(list["unloaded"].as_array().map(Vec::len), Some(0), "{list}");
        list["data"].as_array().unwrap().iter().any(|plugin| plugin["name"] == "small")
    };
    assert!(!installed());
    drop(install().expect_success());
    assert!(installed());
    assert_reported(&server.stop().expect_success(), &[NO_SPACE]);
    let server = register.serve();
    assert!(installed());
    drop(server.stop().expect_success());
}

/// The disk of a backup is full: the command says so, and leaves no file.
///
/// 1. Free space, or name a file on another disk.
/// 2. `daftar backup FILE` again.
#[test]
fn a_backup_that_does_not_fit_leaves_no_file() {
    let register = Register::new();
    let target = register.folder.path().join("backups");
    std::fs::create_dir(&target).unwrap();
    let Some(disk) = SmallDisk::mount_at(&target, "64m") else { return };
    let filler = disk.fill(8_192);
    let server = register.serve();
    register.create(&server, &["1"]);
    let file = disk.path().join("register.daftar");
    let back_up = || run(&register.data_dir(), &["backup", file.to_str().unwrap()]);
    let refused = back_up();
    assert_eq!(refused.code, CANNOT_WRITE, "{refused:?}");
    assert_reported(&refused, &["the disk is full"]);
    assert_eq!(names(&target), ["filler"]);
    std::fs::remove_file(filler).unwrap();
    // The server ends the interrupted backup when it notices that its client has gone.
    eventually("the next backup is made", || {
        let made = back_up();
        assert!(made.code == 0 || made.stderr.contains("a backup is being made"), "{made:?}");
        made.code == 0
    });
    drop(run(&register.data_dir(), &["backup", file.to_str().unwrap(), "--check"]).expect_success());
    register.create(&server, &["2"]);
    drop(server.stop().expect_success());
}

/// The disk of an export is full: the command fails and names the disk. The written part is removed, or retained if
/// its progress is saved.
///
/// 1. Free space.
/// 2. `daftar export --resume FILE` where the message names it; otherwise the same export again.
#[test]
fn an_export_that_does_not_fit_is_resumed_or_leaves_nothing() {
    let register = Register::new();
    let target = register.folder.path().join("exports");
    std::fs::create_dir(&target).unwrap();
    let Some(disk) = SmallDisk::mount_at(&target, "64m") else { return };
    let (file, tables) = (disk.path().join("register.ndjson"), disk.path().join("tables"));
    let (to_file, to_tables) = ([file.to_str().unwrap()], ["--format", "parquet", "--out", tables.to_str().unwrap()]);
    let export = |arguments: &[&str]| run(&register.data_dir(), &[&["export"], arguments].concat());
    let refused = |arguments: &[&str]| {
        let refused = export(arguments);
        assert_eq!(refused.code, CANNOT_WRITE, "{refused:?}");
        assert_reported(&refused, &["the disk is full"]);
        refused
    };
    let server = register.serve();
    register.create(&server, &["1"]);
    let filler = disk.fill(0);
    for arguments in [&to_file[..], &to_tables] {
        let refused = refused(arguments);
        assert!(!refused.stderr.contains("--resume"), "nothing can be resumed: {refused:?}");
        assert_eq!(names(&target), ["filler"], "no part of it is left");
    }
    std::fs::remove_file(filler).unwrap();

    register.create_with_photos(&server, 0..20);
    let filler = disk.fill(4 << 20);
    assert_reported(&refused(&to_file), &["daftar export --resume"]);
    assert_eq!(names(&target), ["filler", "register.ndjson.partial", "register.ndjson.progress.json"]);
    std::fs::remove_file(filler).unwrap();
    let resumed = export(&["--resume", "--json", to_file[0]]).expect_success().json();
    assert_eq!(resumed["records"], 21);
    let text = std::fs::read_to_string(&file).unwrap();
    let records: Vec<Value> = text.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    let ids: BTreeSet<String> = records.iter().map(|record| record["identifier"].to_string()).collect();
    assert_eq!((records.len(), ids.len()), (21, 21), "each record once");
    drop(export(&to_tables).expect_success());
    assert!(names(&tables).contains(&"individual.parquet".to_owned()), "{:?}", names(&tables));
    drop(server.stop().expect_success());
}

/// The disk with `compiled` is full after an upgrade: the server compiles the plugins and cannot store their code, so that
/// the next start compiles them again.
///
/// 1. Free space. Nothing else has to be done.
#[test]
fn compiled_code_that_does_not_fit_stops_nothing() {
    let folder = tempfile::tempdir().unwrap();
    let (data_dir, plugins) = (folder.path().join("data"), folder.path().join("plugins"));
    std::fs::create_dir(&plugins).unwrap();
    std::fs::copy(packs::build(folder.path(), "1.0.0", None), plugins.join("small.wasm")).unwrap();
    let serve = || super::plugin::serve(&data_dir, &plugins, "[plugins]\nallow_unsigned = true\n");
    drop(serve().stop().expect_success());
    let compiled = data_dir.join("compiled");
    let stored = names(&compiled);
    let has_code = |names: &[String]| names.iter().any(|name| name.ends_with(".code"));
    assert!(has_code(&stored), "{stored:?}");

    let key = folder.path().join("key");
    std::fs::rename(compiled.join("key"), &key).unwrap();
    std::fs::remove_dir_all(&compiled).unwrap();
    std::fs::create_dir(&compiled).unwrap();
    let Some(disk) = SmallDisk::mount_at(&compiled, "64k") else { return };
    super::copy(&key, &compiled.join("key"));
    let filler = disk.fill(0);
    let active = || run(&data_dir, &["plugin", "list", "--json"]).expect_success().json()["data"][0]["name"] == "small";
    for _ in 0..2 {
        let server = serve();
        assert!(active());
        drop(server.stop().expect_success());
        assert_eq!(names(&compiled), ["filler", "key"], "no part of the code is left");
    }
    std::fs::remove_file(filler).unwrap();
    // The code of one small pack does not fit into 64 KiB, and that of all plugins into more.
    drop(disk);
    super::copy(&key, &compiled.join("key"));
    let server = serve();
    assert!(active());
    drop(server.stop().expect_success());
    assert!(has_code(&names(&compiled)));
}
