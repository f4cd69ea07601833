//! Signed backups: their signer, verification before a restore, and the plugins of a backup that are loaded.

use std::fs;
use std::path::Path;

use daftar_tests::{packs, template};

use super::*;

fn run_on(data_dir: &Path, arguments: &[&str]) -> Finished {
    run(data_dir, &[arguments, &["--json"]].concat())
}

#[test]
fn a_backup_is_signed_and_a_restore_verifies_it_before_it_writes_anything() {
    let (folder, file, app) = small();
    let (key, reported) = packs::key(folder.path(), "key.pem");
    let (_, foreign) = packs::key(folder.path(), "foreign.pem");
    let (id, public) = (reported["key_id"].as_str().unwrap(), reported["public_key"].as_str().unwrap());
    let foreign = foreign["public_key"].as_str().unwrap();
    let signed = folder.path().join("signed.daftar");
    let made = back_up(app.data_dir(), &signed, &["--sign", text(&key)]).expect_success().json();
    assert_eq!(made["signed_by"], id, "{made}");
    let config = packs::config_that_trusts(folder.path(), &reported);

    let check =
        |file: &Path, more: &[&str]| run_on(folder.path(), &[&["backup", text(file), "--check"], more].concat());
    assert_eq!(check(&signed, &["--trusted-key", public]).expect_success().json()["signature"], "verified");
    assert_eq!(check(&signed, &["--config", text(&config)]).expect_success().json()["signature"], "verified");
    assert_eq!(check(&signed, &[]).expect_success().json()["signature"], "not_verified");
    assert_eq!(check(&file, &["--config", text(&config)]).expect_success().json()["signature"], "none");
    let pem = folder.path().join("public.pem");
    fs::write(&pem, reported["public_key_pem"].as_str().unwrap()).unwrap();
    assert_eq!(check(&signed, &["--trusted-key", text(&pem)]).expect_success().json()["signature"], "verified");

    // An attacker with write access recomputes the checksums: here by taking the blocks of another backup.
    let plain = fs::read(&file).unwrap();
    let whole = fs::read(&signed).unwrap();
    let begin = whole.windows(24).rposition(|window| window == b"daftar-backup-signature ").unwrap();
    let forged = folder.path().join("forged.daftar");
    fs::write(&forged, [plain.as_slice(), &whole[begin..]].concat()).unwrap();
    let data_dir = folder.path().join("restored");
    let restored = |file: &Path, more: &[&str]| run_on(&data_dir, &[&["restore", text(file)], more].concat());
    for (file, more, reason) in [
        (&forged, ["--trusted-key", public], "is not of this backup"),
        (&forged, ["--config", text(&config)], "is not of this backup"),
        (&file, ["--trusted-key", public], "is not signed"),
        (&signed, ["--trusted-key", foreign], "not trusted for backups"),
    ] {
        let refused = restored(file, &more);
        assert!(refused.code == 66 && refused.stderr.contains(reason), "{reason}: {refused:?}");
        assert!(!data_dir.exists(), "{reason}: nothing was written");
    }
    let limited = folder.path().join("limited.toml");
    fs::write(
        &limited,
        format!("[plugins]\ntrusted_keys = [{{ key = \"{public}\", kinds = [\"vocabulary-pack\"] }}]\n"),
    )
    .unwrap();
    assert_eq!(check(&signed, &["--config", text(&limited)]).expect_success().json()["signature"], "not_verified");
    let reported = restored(&signed, &["--config", text(&config)]).expect_success().json();
    assert_eq!((&reported["signature"], &reported["signed_by"]), (&json!("verified"), &json!(id)), "{reported}");
    let again = run(&folder.path().join("unsigned"), &["restore", text(&file)]).expect_success().stdout;
    assert!(again.contains("there is NO signature"), "{again}");
}

#[test]
fn a_signed_backup_goes_to_standard_output_and_the_key_stays_with_the_command() {
    let (folder, _, app) = small();
    let (key, reported) = packs::key(folder.path(), "key.pem");
    let arguments = ["backup", "-", "--sign", text(&key)];
    let output = daftar_tests::process::command(app.data_dir(), &arguments).output().unwrap();
    assert!(output.status.success());
    let file = folder.path().join("piped.daftar");
    fs::write(&file, &output.stdout).unwrap();
    let checked = run_on(
        folder.path(),
        &["backup", text(&file), "--check", "--trusted-key", reported["public_key"].as_str().unwrap()],
    );
    assert_eq!(checked.expect_success().json()["signature"], "verified");
    let nowhere = back_up(app.data_dir(), &folder.path().join("b"), &["--sign", text(&folder.path().join("none.pem"))]);
    assert!(nowhere.code == 66 && !folder.path().join("b").exists(), "{nowhere:?}");
}

#[test]
fn plugins_of_a_backup_are_verified_by_the_configuration_of_the_restore() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("register.daftar");
    let (key, reported) = packs::key(folder.path(), "key.pem");
    let (backup_key, backup_reported) = packs::key(folder.path(), "backup.pem");
    let app = TestApp::start();
    let pack = packs::build(folder.path(), "1.0.0", Some(&key));
    drop(run(app.data_dir(), &["plugin", "install", text(&pack), "--allow-unsigned"]).expect_success());
    drop(back_up(app.data_dir(), &file, &[]).expect_success());
    let signed = folder.path().join("signed.daftar");
    drop(back_up(app.data_dir(), &signed, &["--sign", text(&backup_key)]).expect_success());

    let state_of = |data_dir: &Path, config: &[&str]| {
        let listed = run_on(data_dir, &[&["plugin", "list"], config].concat()).expect_success().json();
        let find = |list: &Value| list.as_array().unwrap().iter().find(|plugin| plugin["name"] == "small").cloned();
        (find(&listed["data"]), find(&listed["unloaded"]))
    };
    // No key trusted by this deployment signed it, and the signer named in the backup is ignored.
    let strict = folder.path().join("strict");
    let restored = run_on(&strict, &["restore", text(&file)]).expect_success().json();
    let refused = restored["refused_plugins"].as_array().unwrap();
    let small = refused.iter().find(|plugin| plugin["name"] == "small").unwrap_or_else(|| panic!("{restored}"));
    assert!(small["reason"].as_str().unwrap().contains("not in `[plugins] trusted_keys`"), "{small}");
    template::copy_compiled_to(&strict);
    let (loaded, unloaded) = state_of(&strict, &[]);
    assert!(loaded.is_none() && unloaded.unwrap()["reason"].as_str().unwrap().contains("step `signature`"));
    // Once its key is trusted it is loaded, from the same folder.
    let config = packs::config_that_trusts(folder.path(), &reported);
    let (loaded, unloaded) = state_of(&strict, &["--config", text(&config)]);
    assert_eq!(
        (loaded.unwrap()["signer"].as_str(), unloaded),
        (Some(&*format!("key {}", reported["key_id"].as_str().unwrap())), None)
    );
    // If the backup itself is verified, permissions given by the administrator there are trusted.
    let verified = folder.path().join("verified");
    let key = backup_reported["public_key"].as_str().unwrap();
    let restored = run_on(&verified, &["restore", text(&signed), "--trusted-key", key]).expect_success().json();
    let refused = restored["refused_plugins"].as_array().unwrap();
    assert!(refused.iter().all(|plugin| plugin["name"] != "small"), "{restored}");
    template::copy_compiled_to(&verified);
    assert_eq!(state_of(&verified, &[]).0.unwrap()["signer"], "unsigned");
}
