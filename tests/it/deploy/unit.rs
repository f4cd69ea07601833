//! The systemd unit.

use std::process::Command;

use daftar_tests::artifacts;

use super::{lines, read};

#[test]
fn systemd_takes_the_unit_and_finds_it_closed() {
    let Some(analyze) = daftar_test_needs::program("systemd-analyze") else { return };
    let folder = tempfile::tempdir().unwrap();
    let unit = folder.path().join("daftar.service");
    let program = artifacts::program();
    // The program is not installed here.
    std::fs::write(&unit, read("systemd/daftar.service").replace("/usr/bin/daftar", program.to_str().unwrap()))
        .unwrap();
    let unit = unit.to_str().unwrap();
    let run = |arguments: &[&str]| {
        let output = Command::new(&analyze).args(arguments).arg(unit).output().unwrap();
        (output.status.success(), String::from_utf8_lossy(&[output.stdout, output.stderr].concat()).into_owned())
    };
    let (is_right, reported) = run(&["verify", "--man=no"]);
    assert!(is_right && reported.trim().is_empty(), "{reported}");
    let (is_closed, reported) = run(&["security", "--offline=true", "--threshold=15"]);
    assert!(is_closed, "its exposure is more than 1.5: {reported}");
}

#[test]
fn system_calls_of_plugins_are_permitted_and_others_are_not() {
    let unit = read("systemd/daftar.service");
    let has = |line: &str| lines(&unit).any(|found| found == line);
    for line in [
        "User=daftar",
        "NoNewPrivileges=yes",
        "CapabilityBoundingSet=",
        "ProtectSystem=strict",
        "UMask=0077",
        "StateDirectoryMode=0700",
        "SystemCallFilter=@system-service",
        "SystemCallArchitectures=native",
        // A child that compiles and runs out of memory must not take the server with it.
        "OOMPolicy=continue",
        // Wrong settings stay wrong: the exit code of the program.
        "RestartPreventExitStatus=2 77 78",
        // A database that is back after an hour has its server back; so has one after a signal.
        "Restart=always",
        "StartLimitIntervalSec=0",
    ] {
        assert!(has(line), "{line}");
    }
    let set = |name: &str| lines(&unit).filter(|line| line.starts_with(name)).collect::<Vec<_>>();
    assert!(set("MemoryDenyWriteExecute").is_empty(), "machine code of plugins is written, then made executable");
    let filters = set("SystemCallFilter=~").join(" ");
    // Lower priorities and limits of the compiling child; its pipes.
    assert!(!filters.contains("@resources") && !filters.contains("@ipc") && !filters.contains("@process"), "{filters}");
    assert!(set("LimitAS").is_empty(), "instances of plugins reserve address space, not memory");
}
