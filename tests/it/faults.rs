//! Full or read-only disks, folders in use, truncated files: the messages for the operator, and the remaining files.

use std::path::{Path, PathBuf};
use std::process::Command;

use daftar_tests::process::{command, create_client, finish, run};
use daftar_tests::records::{path, person};
use daftar_tests::{Finished, Server, artifacts, token};
use serde_json::json;

const SERVE: [&str; 5] = ["serve", "--listen", "127.0.0.1:0", "--admin-listen", "127.0.0.1:0"];

/// A server that is not expected to start.
fn refused(data_dir: &Path) -> Finished {
    refused_with(data_dir, 1)
}

/// The same, with that exit code.
fn refused_with(data_dir: &Path, code: i32) -> Finished {
    let reported = finish(command(data_dir, &SERVE));
    assert_eq!(reported.code, code, "{reported:?}");
    let last = reported.stderr.lines().last().unwrap_or_default();
    assert!(last.starts_with("error: "), "the last line says why: {reported:?}");
    for noise in ["panicked", "RUST_BACKTRACE", "PLEASE", "a defect of daftar"] {
        assert!(!reported.stderr.contains(noise), "`{noise}`: {reported:?}");
    }
    reported
}

/// A stopped register with one person.
fn register(data_dir: &Path) -> String {
    let server = Server::serve(data_dir, &[]);
    let credentials = create_client(data_dir, &["individual:all", "vocabulary:read"]);
    let token = token::fetch(&server.connection(), &credentials);
    let request = server.connection().request("POST", "/api/v2/Individual").bearer(&token);
    drop(request.json(&person("first", json!({}))).send().expect(201));
    drop(server.stop().expect_success());
    token
}

fn files(folder: &Path) -> Vec<(String, u64)> {
    let entries = std::fs::read_dir(folder).unwrap().map(|entry| entry.unwrap());
    let mut files: Vec<_> = entries
        .map(|entry| (entry.file_name().to_string_lossy().into_owned(), entry.metadata().unwrap().len()))
        .collect();
    files.sort();
    files
}

/// Writes people with photos until the disk is full, then checks the behaviour of the server, and the remaining files.
fn fill(server: Server, data_dir: &Path, token: &str) {
    let connection = server.connection();
    let mut acknowledged = Vec::new();
    let refusal = (0..400).find_map(|number| {
        let id = format!("full-{number}");
        let body = person(&id, json!({"photo": photo(number)}));
        let response = connection.request("POST", "/api/v2/Individual").bearer(token).json(&body).send();
        if response.status == 201 {
            acknowledged.push(id);
            return None;
        }
        Some(response)
    });
    let refusal = refusal.expect("the disk has room for a few of them only").expect(503);
    assert!(refusal.number("retry-after") >= 1, "{refusal:?}");
    assert_eq!(refusal.json()["status"], 503);
    // Every write of any client, and reads of people, which are audited.
    let again = connection.request("POST", "/api/v2/Individual").bearer(token).json(&person("x", json!({}))).send();
    let again = again.expect(503);
    assert_eq!((again.number("retry-after") >= 1, again.code().as_str()), (true, "storage_unavailable"));
    // Requests without an audit entry still succeed.
    drop(connection.request("GET", "/api/v2/Vocabulary").bearer(token).send().expect(200));
    let ready = connection.request("GET", "/health/ready").try_send().unwrap();
    assert_eq!((ready.status, ready.code().as_str()), (503, "not_ready"), "{}", ready.text());
    assert!(ready.text().contains("the store has stopped after a failure; its log says why"), "{}", ready.text());
    assert_eq!(connection.request("GET", "/health/live").try_send().unwrap().status, 200);
    let ended = server.stop();
    let reported = ended.stderr.lines().filter(|line| line.contains("the store failed and accepts no more writes"));
    assert_eq!(reported.count(), 1, "once, and clearly: {}", ended.stderr);

    let room = Server::serve(data_dir, &[]);
    let connection = room.connection();
    for id in acknowledged.iter().map(String::as_str).chain(["first"]) {
        let target = format!("/api/v2{}", path("Individual", id));
        drop(connection.request("GET", &target).bearer(token).send().expect(200));
    }
    let looked = run(data_dir, &["verify"]).expect_success();
    assert!(looked.stdout.contains("no errors"), "{looked:?}");
    drop(
        connection
            .request("POST", "/api/v2/Individual")
            .bearer(token)
            .json(&person("after", json!({})))
            .send()
            .expect(201),
    );
    drop(room.stop().expect_success());
}

/// A photo in base64 that no other person has: the store holds each once.
pub fn photo(number: u32) -> String {
    format!("{number:08}{}", "Zm9vYmFyYmF6cXV4".repeat(44_000))
}

#[test]
fn a_file_that_may_not_grow_stops_writes_and_loses_nothing() {
    let folder = tempfile::tempdir().unwrap();
    let data_dir = folder.path().join("data");
    let token = register(&data_dir);
    let grown = std::fs::metadata(data_dir.join("store/db")).unwrap().len() + (6 << 20);
    // The shell counts in blocks of 512 bytes; a write beyond is an error, not a signal.
    let mut limited = Command::new("sh");
    limited.args(["-c", "trap '' XFSZ; ulimit -f \"$0\" && exec \"$@\""]).arg((grown / 512).to_string());
    limited.arg(artifacts::program()).args(SERVE).arg("--plugins").arg(artifacts::plugins());
    limited.arg("--data-dir").arg(&data_dir);
    fill(Server::start(limited), &data_dir, &token);
}

/// A separate disk of limited size; a test is not run if this process may not mount one.
pub struct SmallDisk {
    path: PathBuf,
    /// The mount point, where it is a folder of its own.
    folder: Option<tempfile::TempDir>,
}

impl SmallDisk {
    fn mount(megabytes: u32) -> Option<Self> {
        let folder = tempfile::tempdir().unwrap();
        let mut disk = Self::mount_at(folder.path(), &format!("{megabytes}m"))?;
        disk.folder = Some(folder);
        Some(disk)
    }

    /// Mounts a disk of this size, such as `64k`, on an existing folder, whose files are hidden then.
    pub fn mount_at(folder: &Path, size: &str) -> Option<Self> {
        let mut mount = Command::new(daftar_test_needs::program("mount")?);
        mount.args(["-t", "tmpfs", "-o", &format!("size={size},mode=700"), "tmpfs"]).arg(folder);
        let is_mounted = mount.output().is_ok_and(|output| output.status.success());
        if !is_mounted {
            daftar_test_needs::not_run("the right to mount a file system", "run the tests as root, with CAP_SYS_ADMIN");
        }
        is_mounted.then(|| Self { path: folder.to_owned(), folder: None })
    }

    /// The folder where it is mounted.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Fills all but this number of bytes with a file, and returns its path.
    pub fn fill(&self, left: u64) -> PathBuf {
        let filler = self.path.join("filler");
        let mut file = std::fs::File::create(&filler).unwrap();
        let bytes = free_bytes(&self.path).saturating_sub(left);
        std::io::copy(&mut std::io::Read::take(std::io::repeat(1), bytes), &mut file).unwrap();
        filler
    }

    /// Changes options of the mount, such as `size=1g`.
    pub fn remount(&self, options: &str) {
        let mut mount = Command::new("mount");
        mount.args(["-o", &format!("remount,{options}")]).arg(&self.path);
        assert!(mount.status().unwrap().success());
    }
}

impl Drop for SmallDisk {
    fn drop(&mut self) {
        let mut unmount = Command::new("umount");
        let _is_unmounted = unmount.arg("-l").arg(&self.path).status().is_ok();
    }
}

#[test]
fn a_full_disk_stops_writes_and_loses_nothing() {
    let Some(disk) = SmallDisk::mount(1_024) else { return };
    let data_dir = disk.path().join("data");
    let token = register(&data_dir);
    let server = Server::serve(&data_dir, &[]);
    // All but a few megabytes is used by another file.
    let filler = disk.fill(5 << 20);
    // The space is freed before the server starts again, as when an operator clears the disk.
    disk_is_cleared_when(server, &data_dir, &token, &filler);
}

fn disk_is_cleared_when(server: Server, data_dir: &Path, token: &str, filler: &Path) {
    let connection = server.connection();
    let refusal = (0..400).find_map(|number| {
        let body = person(&format!("full-{number}"), json!({"photo": photo(number)}));
        let response = connection.request("POST", "/api/v2/Individual").bearer(token).json(&body).send();
        (response.status != 201).then_some((number, response))
    });
    let (count, refusal) = refusal.expect("the disk has room for a few of them only");
    assert!(refusal.expect(503).number("retry-after") >= 1);
    let ended = server.stop();
    assert!(ended.stderr.contains("the store failed and accepts no more writes"), "{}", ended.stderr);
    std::fs::remove_file(filler).unwrap();
    let room = Server::serve(data_dir, &[]);
    for number in 0..count {
        let target = format!("/api/v2{}", path("Individual", &format!("full-{number}")));
        drop(room.connection().request("GET", &target).bearer(token).send().expect(200));
    }
    drop(run(data_dir, &["verify"]).expect_success());
    drop(room.stop().expect_success());
}

#[test]
fn a_backup_without_free_space_reports_the_required_space_and_leaves_nothing_that_is_served() {
    let Some(disk) = SmallDisk::mount(48) else { return };
    let folder = tempfile::tempdir().unwrap();
    let (data_dir, file) = (folder.path().join("data"), folder.path().join("register.daftar"));
    let token = register(&data_dir);
    let server = Server::serve(&data_dir, &[]);
    for number in 0..160 {
        let body = person(&format!("full-{number}"), json!({"photo": photo(number)}));
        let request = server.connection().request("POST", "/api/v2/Individual").bearer(&token).json(&body);
        drop(request.send().expect(201));
    }
    drop(server.stop().expect_success());
    let backup = file.to_str().unwrap();
    drop(run(&data_dir, &["backup", backup]).expect_success());
    assert!(std::fs::metadata(&file).unwrap().len() < 40 << 20, "packed it would fit");

    let target = disk.path().join("restored");
    let reported = run(&target, &["restore", backup]);
    assert_eq!((reported.code, reported.stdout.as_str()), (73, ""), "{reported:?}");
    let sentence = format!("error: the disk of `{}` is full: ", target.join("store").display());
    assert!(reported.stderr.contains(&sentence), "{reported:?}");
    let after = format!("`{backup}` was not restored; `{}` is not served as it is", target.display());
    assert!(reported.stderr.contains(&after), "{reported:?}");
    for noise in ["panicked", "RUST_BACKTRACE", "PLEASE", "a defect of daftar"] {
        assert!(!reported.stderr.contains(noise), "`{noise}`: {reported:?}");
    }
    let needed = reported.stderr.split("and about ").nth(1).and_then(|rest| rest.split(' ').next()?.parse().ok());
    let needed: u64 = needed.unwrap_or_else(|| panic!("how much is needed is not told: {reported:?}"));
    assert!((50..1_000).contains(&needed), "{needed}");
    for arguments in [&SERVE[..], &["client", "list"]] {
        let refused = run(&target, arguments);
        assert_ne!(refused.code, 0);
        assert!(refused.stderr.contains("holds a restore that was not finished"), "{refused:?}");
    }
    assert_ne!(run(&target, &["verify"]).code, 0);

    // As reported: the folder is deleted, and there is more space, also for verification.
    std::fs::remove_dir_all(&target).unwrap();
    disk.remount(&format!("size={}m", needed * 3));
    drop(run(&target, &["restore", backup]).expect_success());
    drop(run(&target, &["verify"]).expect_success());
}

fn free_bytes(folder: &Path) -> u64 {
    let free = rustix::fs::statvfs(folder).unwrap();
    free.f_bavail * free.f_frsize
}

#[test]
fn a_read_only_folder_is_refused_and_named() {
    let Some(disk) = SmallDisk::mount(1_024) else { return };
    let data_dir = disk.path().join("data");
    let _token = register(&data_dir);
    disk.remount("ro");
    let before = files(&data_dir.join("store"));
    let reported = refused(&data_dir);
    let sentence =
        format!("the data folder `{}` cannot be used: Read-only file system", data_dir.join("store").display());
    assert!(reported.stderr.contains(&sentence), "{reported:?}");
    assert_eq!(files(&data_dir.join("store")), before);
    disk.remount("rw");
    drop(Server::serve(&data_dir, &[]).stop().expect_success());
}

#[test]
fn a_folder_that_a_server_uses_is_refused_to_another() {
    let folder = tempfile::tempdir().unwrap();
    let data_dir = folder.path().join("data");
    let token = register(&data_dir);
    let server = Server::serve(&data_dir, &[]);
    let reported = refused_with(&data_dir, 69);
    assert!(
        reported.stderr.contains("is in use by another process: stop that daftar first, or use another folder"),
        "{reported:?}"
    );
    let target = format!("/api/v2{}", path("Individual", "first"));
    drop(server.connection().request("GET", &target).bearer(&token).send().expect(200));
    drop(run(&data_dir, &["verify"]).expect_success());
    drop(server.stop().expect_success());
}

fn copy(from: &Path, to: &Path) {
    std::fs::create_dir_all(to).unwrap();
    for entry in std::fs::read_dir(from).unwrap().map(|entry| entry.unwrap()) {
        let target = to.join(entry.file_name());
        if entry.file_type().unwrap().is_dir() {
            copy(&entry.path(), &target);
        } else {
            std::fs::copy(entry.path(), target).unwrap();
        }
    }
}

#[test]
fn cut_and_missing_files_are_refused_and_named() {
    let folder = tempfile::tempdir().unwrap();
    let (data_dir, stored) = (folder.path().join("data"), folder.path().join("kept"));
    let _token = register(&data_dir);
    let store = data_dir.join("store");
    copy(&store, &stored);
    let database = store.join("db");

    let whole = std::fs::read(&database).unwrap();
    std::fs::write(&database, &whole[..4_096]).unwrap();
    let reported = refused(&data_dir);
    assert!(reported.stderr.contains(&format!("the data folder `{}`", store.display())), "{reported:?}");
    assert_eq!(run(&data_dir, &["verify"]).code, 1);

    std::fs::remove_file(&database).unwrap();
    let before = files(&store);
    let reported = refused(&data_dir);
    assert!(reported.stderr.contains("lacks the file `db`, which contains the register"), "{reported:?}");
    assert_eq!(files(&store), before, "nothing new was begun");

    // Restored to its place, the register is as it was.
    std::fs::remove_dir_all(&store).unwrap();
    copy(&stored, &store);
    drop(run(&data_dir, &["verify"]).expect_success());
    drop(Server::serve(&data_dir, &[]).stop().expect_success());
}
