//! Backups and restores that are killed, and backups of a register that is being written to.

use std::process::Stdio;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};

use daftar_tests::process::command;
use daftar_tests::records::path;

use super::*;

#[test]
fn backups_made_while_much_is_written_hold_whole_registers() {
    let folder = tempfile::tempdir().unwrap();
    let app = TestApp::start();
    let client = furnish(&app);
    let (is_over, written) = (AtomicBool::new(false), AtomicU32::new(0));
    let reported: Vec<Value> = std::thread::scope(|scope| {
        for writer in 0..3 {
            let (client, is_over, written) = (&client, &is_over, &written);
            scope.spawn(move || {
                for number in 0.. {
                    if is_over.load(Ordering::Acquire) {
                        return;
                    }
                    let id = format!("w{writer}-{number}");
                    drop(client.post("/Individual", &person(&id, json!({}))).expect(201));
                    let name = json!({"name": {"family": format!("Changed{number}")}});
                    let change = client.request("PATCH", &path("Individual", &writer.to_string())).json(&name);
                    drop(change.send().expect(200));
                    written.fetch_add(1, Ordering::AcqRel);
                }
            });
        }
        let backups = (0..3).map(|number| {
            while written.load(Ordering::Acquire) < 20 * (number + 1) {
                std::thread::yield_now();
            }
            back_up(app.data_dir(), &folder.path().join(format!("{number}.daftar")), &[]).expect_success().json()
        });
        let reported = backups.collect();
        is_over.store(true, Ordering::Release);
        reported
    });
    for (number, reported) in reported.iter().enumerate() {
        let file = folder.path().join(format!("{number}.daftar"));
        // Nothing is missing in the order of records, versions and writes, and the counts match the first line.
        let checked = check(&file).expect_success().json();
        assert_eq!(&checked["counts"], &reported["counts"]);
        assert_eq!(checked["counts"]["changes"], checked["sequence"]);
        assert!(checked["counts"]["individuals"].as_u64().unwrap() >= 26);
        drop(restore(&folder.path().join(format!("restored{number}")), &file).expect_success());
    }
}

#[test]
fn a_killed_restore_is_never_served() {
    let (folder, file, _app) = small();
    let mut was_killed_midway = false;
    for round in 0..8 {
        let data_dir = folder.path().join(format!("killed{round}"));
        let mut restoring = command(&data_dir, &["restore", text(&file)]);
        let mut child = restoring.stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
        let marker = data_dir.join("restore.unfinished");
        while !marker.exists() && child.try_wait().unwrap().is_none() {
            std::thread::yield_now();
        }
        child.kill().unwrap();
        child.wait().unwrap();
        if !marker.exists() {
            // It was faster than the kill.
            drop(run(&data_dir, &["client", "list"]).expect_success());
            continue;
        }
        was_killed_midway = true;
        for arguments in
            [&["client", "list"][..], &["serve", "--listen", "127.0.0.1:0", "--admin-listen", "127.0.0.1:0"]]
        {
            let refused = run(&data_dir, arguments);
            assert_ne!(refused.code, 0);
            assert!(refused.stderr.contains("holds a restore that was not finished"), "{refused:?}");
        }
        let again = restore(&data_dir, &file);
        assert_eq!(again.code, 1);
        assert!(again.stderr.contains("delete the folder, then restore again"), "{again:?}");
        std::fs::remove_dir_all(&data_dir).unwrap();
        drop(restore(&data_dir, &file).expect_success());
    }
    assert!(was_killed_midway);
}

#[test]
fn a_killed_backup_leaves_no_file_of_its_name() {
    let (folder, _, app) = small();
    let unfinished = || {
        // One may be renamed while the folder is read.
        let mut paths = std::fs::read_dir(folder.path()).unwrap().flatten().map(|entry| entry.path());
        paths.find(|path| path.file_name().is_some_and(|name| name.to_string_lossy().starts_with(".daftar-backup-")))
    };
    let mut was_killed_midway = false;
    for round in 0..8 {
        let file = folder.path().join(format!("killed{round}.daftar"));
        let mut making = command(app.data_dir(), &["backup", text(&file)]);
        let mut child = making.stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
        while unfinished().is_none() && child.try_wait().unwrap().is_none() {
            std::thread::yield_now();
        }
        child.kill().unwrap();
        let is_killed = !child.wait().unwrap().success();
        // A file of that name is a whole backup, made before the kill.
        if file.exists() {
            drop(check(&file).expect_success());
        } else {
            assert!(is_killed, "a backup that was made has its name");
            was_killed_midway |= unfinished().is_some();
        }
        if let Some(left) = unfinished() {
            std::fs::remove_file(left).unwrap();
        }
    }
    assert!(was_killed_midway);
}

#[test]
fn a_full_disk_is_reported_and_leaves_no_file() {
    let app = TestApp::start();
    drop(furnish(&app));
    // A device that takes nothing: every write to it fails as on a full disk.
    let full = std::fs::OpenOptions::new().write(true).open("/dev/full").unwrap();
    let output = command(app.data_dir(), &["backup", "-"]).stdout(full).output().unwrap();
    assert_eq!(output.status.code(), Some(73));
    let text = String::from_utf8_lossy(&output.stderr);
    assert!(text.contains("cannot write `-`") && text.contains("the disk is full"), "{text}");
    assert!(text.contains("the output is incomplete and must be discarded"), "{text}");
    assert_eq!(app.admin().get("/clients").status, 200);
}
