//! `daftar config`, and settings in the environment.

use std::process::{Command, Output};

use daftar_tests::artifacts;

fn config(arguments: &[&str], variables: &[(&str, &str)]) -> Output {
    let mut command = Command::new(artifacts::program());
    command.arg("config").args(arguments).envs(variables.iter().copied()).output().unwrap()
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

#[test]
fn a_variable_overrides_the_file_and_the_file_the_default() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("daftar.toml");
    std::fs::write(&file, "[server]\nlisten = \"127.0.0.1:9001\"\nadmin_listen = \"127.0.0.1:9002\"\n").unwrap();
    let file = file.to_str().unwrap();
    let variables =
        [("DAFTAR_CONFIG", file), ("DAFTAR_SERVER__LISTEN", "127.0.0.1:9003"), ("DAFTAR_LOG__LEVEL", "warn")];
    let shown = config(&["show", "--json"], &variables);
    assert!(shown.status.success(), "{}", text(&shown.stderr));
    let shown: serde_json::Value = serde_json::from_slice(&shown.stdout).unwrap();
    assert_eq!(shown["server"]["listen"], "127.0.0.1:9003");
    assert_eq!(shown["server"]["admin_listen"], "127.0.0.1:9002");
    assert_eq!(shown["log"]["level"], "warn");
    assert_eq!(shown["server"]["request_timeout_ms"], 30_000);
}

#[test]
fn the_settings_that_are_shown_are_settings_that_can_be_read() {
    let folder = tempfile::tempdir().unwrap();
    let shown = config(&["show"], &[]);
    assert!(shown.status.success(), "{}", text(&shown.stderr));
    let file = folder.path().join("shown.toml");
    std::fs::write(&file, &shown.stdout).unwrap();
    let again = config(&["show", "--config", file.to_str().unwrap()], &[]);
    assert_eq!(text(&again.stdout), text(&shown.stdout), "{}", text(&again.stderr));
    let checked = config(&["check", "--config", file.to_str().unwrap()], &[]);
    assert!(checked.status.success() && text(&checked.stdout).contains("are valid"), "{checked:?}");
}

#[test]
fn every_problem_of_file_and_environment_is_reported() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("daftar.toml");
    std::fs::write(&file, "[server]\nlisen = \"127.0.0.1:9001\"\n").unwrap();
    let refused = config(&["check", "--config", file.to_str().unwrap()], &[("DAFTAR_TOKEN__LIFETIME", "5")]);
    assert_eq!(refused.status.code(), Some(78));
    let reported = text(&refused.stderr);
    assert!(reported.contains("`server.listen`") && reported.contains("token.lifetime_s"), "{reported}");
}

#[test]
fn doctor_checks_the_environment_too() {
    let folder = tempfile::tempdir().unwrap();
    let mut doctor = Command::new(artifacts::program());
    doctor.args(["doctor", "--data-dir"]).arg(folder.path()).env("DAFTAR_LOG__LEVEL", "loud");
    let reported = doctor.output().unwrap();
    assert!(!reported.status.success());
    let message = text(&reported.stdout) + &text(&reported.stderr);
    assert!(message.contains("unknown variant `loud`"), "{message}");
}
