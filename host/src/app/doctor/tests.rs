//! Each test breaks one item of a valid folder and checks the report.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;

use jiff::{SignedDuration, Timestamp};

use super::{CheckedBy, Patient, examine, settings};
use crate::app::PinnedDigests;
use daftar_auth::admin_token::AdminToken;
use daftar_auth::cursor_seal::CursorSeal;
use daftar_auth::secret::SecretHasher;
use daftar_auth::{DecisionKeyRing, KeyRing};
use daftar_domain::checkup::{Check, CheckArea, CheckState};
use daftar_domain::config::Config;

/// A valid data folder, without plugins.
struct Folder {
    folder: tempfile::TempDir,
    now: Timestamp,
}

impl Folder {
    fn new() -> Self {
        let folder = tempfile::tempdir().unwrap();
        let now: Timestamp = "2026-03-01T12:00:00Z".parse().unwrap();
        let made = Self { folder, now };
        fs::create_dir_all(made.path().join("store")).unwrap();
        made.mode("", 0o700);
        made.written("store/db", now);
        KeyRing::load_or_create(&made.path(), 86_400, now).unwrap();
        SecretHasher::load_or_create(&made.path(), now).unwrap();
        CursorSeal::load_or_create(&made.path(), now).unwrap();
        DecisionKeyRing::load_or_create(&made.path(), now).unwrap();
        AdminToken::load_or_create(&made.path()).unwrap();
        made
    }

    fn path(&self) -> std::path::PathBuf {
        self.folder.path().join("data")
    }

    fn mode(&self, name: &str, mode: u32) {
        fs::set_permissions(self.path().join(name), fs::Permissions::from_mode(mode)).unwrap();
    }

    fn written(&self, name: &str, at: Timestamp) {
        let file = fs::File::create(self.path().join(name)).unwrap();
        file.set_modified(at.into()).unwrap();
    }

    fn patient(&self) -> Patient {
        let free = "[server]\nlisten = '127.0.0.1:0'\nadmin_listen = '127.0.0.1:0'\n";
        Patient {
            config: Config::parse(free).unwrap(),
            data_dir: self.path(),
            now: self.now,
            built_from: None,
            pinned: PinnedDigests::default(),
            checked_by: CheckedBy::Command,
        }
    }

    /// Returns the findings, except those that depend on the test machine.
    fn found(&self) -> Vec<(CheckArea, &'static str, CheckState)> {
        bad(&examine(&self.patient()))
    }
}

fn bad(checks: &[Check]) -> Vec<(CheckArea, &'static str, CheckState)> {
    let of_machine = [CheckArea::Disk, CheckArea::Memory, CheckArea::OpenFiles];
    let checks = checks
        .iter()
        .filter(|check| check.state >= CheckState::Warning && !of_machine.contains(&check.area) && check.name != "ntp");
    let reported: Vec<_> = checks
        .map(|check| {
            assert!(check.remedy.as_ref().is_some_and(|remedy| !remedy.is_empty()), "{check:?}");
            (check.area, check.name, check.state)
        })
        .collect();
    reported
}

#[test]
fn a_folder_as_a_server_leaves_it_has_nothing_wrong() {
    let folder = Folder::new();
    assert_eq!(folder.found(), []);
    let before = listing(&folder.path());
    let areas: Vec<CheckArea> = examine(&folder.patient()).iter().map(|check| check.area).collect();
    for area in [CheckArea::Keys, CheckArea::Clock, CheckArea::Disk, CheckArea::OpenFiles, CheckArea::Memory] {
        assert!(areas.contains(&area), "{area:?}");
    }
    assert_eq!(listing(&folder.path()), before, "nothing is changed");
}

/// Lists every file with its size and modification time.
fn listing(folder: &Path) -> Vec<(String, u64, std::time::SystemTime)> {
    let mut found = Vec::new();
    for entry in fs::read_dir(folder).unwrap().map(Result::unwrap) {
        let metadata = entry.metadata().unwrap();
        if metadata.is_dir() {
            found.extend(listing(&entry.path()));
        }
        found.push((entry.path().display().to_string(), metadata.len(), metadata.modified().unwrap()));
    }
    found.sort();
    found
}

#[test]
fn a_missing_folder_and_a_file_are_reported() {
    let folder = Folder::new();
    fs::rename(folder.path(), folder.folder.path().join("elsewhere")).unwrap();
    assert_eq!(folder.found(), [(CheckArea::DataFolder, "present", CheckState::Warning)]);
    fs::write(folder.path(), "").unwrap();
    assert_eq!(folder.found(), [(CheckArea::DataFolder, "present", CheckState::Problem)]);
}

#[test]
fn readable_secrets_are_reported_with_the_command_that_fixes_it() {
    use CheckState::{Problem, Warning};
    for (name, open, found) in [
        ("", 0o755, (CheckArea::DataFolder, "mode", Warning)),
        ("keys", 0o755, (CheckArea::Keys, "mode", Problem)),
        ("keys/token.json", 0o644, (CheckArea::Keys, "usable", Problem)),
        ("keys/client-secrets.json", 0o640, (CheckArea::Keys, "usable", Problem)),
        ("admin.token", 0o604, (CheckArea::Keys, "admin_token", Problem)),
    ] {
        let folder = Folder::new();
        folder.mode(name, open);
        assert_eq!(folder.found(), [found], "{name}");
        let reported: Vec<Check> =
            examine(&folder.patient()).into_iter().filter(|check| check.name == found.1).collect();
        let text = reported.iter().map(|check| format!("{} {:?}", check.message, check.remedy)).collect::<String>();
        assert!(text.contains("chmod"), "{text}");
    }
}

#[test]
fn missing_weak_and_old_keys_are_reported() {
    let folder = Folder::new();
    fs::remove_file(folder.path().join("keys/client-secrets.json")).unwrap();
    assert_eq!(folder.found(), [(CheckArea::Keys, "usable", CheckState::Problem)]);
    fs::remove_dir_all(folder.path().join("store")).unwrap();
    let without_register = folder.found();
    assert_eq!(without_register, [(CheckArea::DataFolder, "register", CheckState::Warning)], "a new one is made then");

    let folder = Folder::new();
    let weak = fs::read_to_string(folder.path().join("keys/token.json")).unwrap();
    let weak = weak.replacen("\"secret\": \"", "\"secret\": \"!", 1);
    fs::write(folder.path().join("keys/token.json"), &weak).unwrap();
    assert_eq!(folder.found(), [(CheckArea::Keys, "usable", CheckState::Problem)]);

    let mut folder = Folder::new();
    folder.now += SignedDuration::from_hours(24 * 366);
    folder.written("store/db", folder.now);
    assert_eq!(folder.found(), [(CheckArea::Keys, "age", CheckState::Warning)]);
}

#[test]
fn a_clock_behind_the_register_or_the_release_is_reported() {
    let folder = Folder::new();
    folder.written("store/db", folder.now + SignedDuration::from_hours(1));
    assert_eq!(folder.found(), [(CheckArea::Clock, "store", CheckState::Problem)]);
    let folder = Folder::new();
    let patient = Patient { built_from: Some(folder.now + SignedDuration::from_hours(1)), ..folder.patient() };
    assert_eq!(bad(&examine(&patient)), [(CheckArea::Clock, "build", CheckState::Problem)]);
}

#[test]
fn a_store_outside_of_the_data_folder_is_checked_as_well() {
    let folder = Folder::new();
    let store = folder.folder.path().join("records");
    fs::rename(folder.path().join("store"), &store).unwrap();
    let text = format!(
        "[server]\nlisten = '127.0.0.1:0'\nadmin_listen = '127.0.0.1:0'\n[store]\npath = '{}'\n",
        store.display()
    );
    let patient = Patient { config: Config::parse(&text).unwrap(), ..folder.patient() };
    let found = |mode| {
        fs::set_permissions(&store, fs::Permissions::from_mode(mode)).unwrap();
        bad(&examine(&patient))
    };
    assert_eq!(found(0o755), [(CheckArea::DataFolder, "mode", CheckState::Warning)]);
    assert_eq!(found(0o700), []);
}

#[test]
fn unfinished_operations_are_reported() {
    for (name, found) in [
        ("restore.unfinished", (CheckArea::DataFolder, "restore", CheckState::Problem)),
        ("server.json", (CheckArea::DataFolder, "in_use", CheckState::Warning)),
    ] {
        let folder = Folder::new();
        fs::write(folder.path().join(name), "{}").unwrap();
        assert_eq!(folder.found(), [found], "{name}");
    }
    let folder = Folder::new();
    fs::create_dir(folder.path().join("checkpoints")).unwrap();
    fs::write(folder.path().join("checkpoints/00000000000000000007.checkpoint"), "half of it").unwrap();
    assert_eq!(folder.found(), [(CheckArea::DataFolder, "checkpoint", CheckState::Warning)]);

    let folder = Folder::new();
    fs::create_dir(folder.path().join("plugins")).unwrap();
    let lock = fs::File::create(folder.path().join("plugins/lock")).unwrap();
    lock.try_lock().unwrap();
    let found = folder.found();
    assert!(found.contains(&(CheckArea::DataFolder, "in_use", CheckState::Warning)), "{found:?}");
}

#[test]
fn a_damaged_list_of_plugins_and_a_register_without_an_engine_are_reported() {
    let folder = Folder::new();
    fs::create_dir(folder.path().join("plugins")).unwrap();
    assert_eq!(folder.found(), [(CheckArea::Plugins, "engine", CheckState::Warning)]);
    fs::write(folder.path().join("plugins/installed.json"), "{").unwrap();
    assert_eq!(folder.found(), [(CheckArea::Plugins, "list", CheckState::Problem)]);
    let digest = "0".repeat(64);
    let list = format!(
        r#"{{"format":1,"installed":[{{"name":"gender","version":"1.0.0","kind":"vocabulary-pack","digest":"{digest}",
        "signer":"unsigned","installed_at":"2026-03-01T12:00:00Z"}}],"removed":[]}}"#
    );
    fs::write(folder.path().join("plugins/installed.json"), list).unwrap();
    let expected =
        [("files", CheckState::Problem), ("signature", CheckState::Warning), ("engine", CheckState::Problem)];
    assert_eq!(folder.found(), expected.map(|(name, state)| (CheckArea::Plugins, name, state)));
    fs::write(folder.path().join(format!("plugins/{digest}.wasm")), "another file").unwrap();
    let changed = examine(&folder.patient());
    let changed = changed.iter().find(|check| check.name == "files").unwrap();
    assert!(changed.message.contains("is not the one that was installed"), "{changed:?}");
}

#[test]
fn certificates_that_clients_would_reject_are_reported() {
    let folder = Folder::new();
    let (cert, key) = (folder.folder.path().join("cert.pem"), folder.folder.path().join("key.pem"));
    let look = |url: &str, now: &str| {
        let text = format!(
            "[server]\nlisten = '127.0.0.1:0'\nadmin_listen = '127.0.0.1:0'\npublic_url = '{url}'\n[server.tls]\ncert = '{}'\nkey = '{}'\n",
            cert.display(),
            key.display()
        );
        let patient = Patient { config: Config::parse(&text).unwrap(), now: now.parse().unwrap(), ..folder.patient() };
        let found = bad(&examine(&patient)).into_iter().filter(|(area, _, _)| *area == CheckArea::Certificate);
        found.map(|(_, name, state)| (name, state)).collect::<Vec<_>>()
    };
    use CheckState::{Problem, Warning};
    let (url, now) = ("https://registry.example.org:8443", "2026-03-01T12:00:00Z");
    assert_eq!(look(url, now), [("usable", Problem)], "there is none");

    let pair = rcgen::KeyPair::generate().unwrap();
    let mut parameters = rcgen::CertificateParams::new(["registry.example.org".to_owned()]).unwrap();
    parameters.not_before = rcgen::date_time_ymd(2026, 1, 1);
    parameters.not_after = rcgen::date_time_ymd(2026, 7, 1);
    fs::write(&cert, parameters.self_signed(&pair).unwrap().pem()).unwrap();
    fs::write(&key, rcgen::KeyPair::generate().unwrap().serialize_pem()).unwrap();
    fs::set_permissions(&key, fs::Permissions::from_mode(0o600)).unwrap();
    assert_eq!(look(url, now), [("usable", Problem)], "the key is another's");
    fs::write(&key, pair.serialize_pem()).unwrap();
    assert_eq!(look(url, now), []);
    assert_eq!(look("https://other.example.org", now), [("name", Problem)]);
    assert_eq!(look(url, "2025-12-31T23:59:59Z"), [("validity", Problem)]);
    assert_eq!(look(url, "2026-06-15T00:00:00Z"), [("validity", Warning)]);
    assert_eq!(look(url, "2026-07-01T00:00:00Z"), [("validity", Problem)]);
    fs::set_permissions(&key, fs::Permissions::from_mode(0o644)).unwrap();
    assert_eq!(look(url, now), [("key_mode", Warning)]);
}

#[test]
fn invalid_settings_are_reported_together_and_the_rest_is_checked() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("daftar.toml");
    fs::write(&file, "[server]\nlistne = 'x'\n[tokn]\n").unwrap();
    let (config, checks) = settings(Some(&file));
    assert_eq!(config.server.listen, Config::default().server.listen);
    let problems: Vec<_> = checks.iter().filter(|check| check.state == CheckState::Problem).collect();
    assert!(problems.len() == 2 && problems[0].message.contains("server.listen"), "{checks:?}");
    assert_eq!(settings(Some(&folder.path().join("none"))).1[0].state, CheckState::Problem);
    assert_eq!(settings(None).1[0].state, CheckState::Ok);
}
