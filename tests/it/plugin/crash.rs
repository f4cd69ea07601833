//! A server that is killed while plugins are installed, replaced and removed: it starts again with the set from before
//! the interrupted call or from after it, and serves.

use std::path::Path;
use std::sync::mpsc::channel;
use std::time::Duration;

use daftar_tests::process::run;
use daftar_tests::{Admin, Connection, Server, packs};

/// Number of kills of the server.
const KILLS: u32 = 18;
/// The kill follows the acknowledgement of the install, the replacement and the removal, alternately.
const CHANGES: u32 = 3;
/// Increment of the delay before the kill, in each cycle.
const STEP: Duration = Duration::from_millis(20);

fn small_of(data_dir: &Path) -> Option<String> {
    let list = run(data_dir, &["plugin", "list", "--json"]).expect_success().json();
    assert_eq!(list["unloaded"].as_array().map(Vec::len), Some(0), "{list}");
    let plugins = list["data"].as_array().unwrap();
    assert!(plugins.iter().any(|plugin| plugin["name"] == "gender"), "the others are there: {list}");
    let small = plugins.iter().find(|plugin| plugin["name"] == "small")?;
    Some(small["version"].as_str().unwrap().to_owned())
}

fn admin_of(data_dir: &Path) -> Admin {
    let read = |file: &str| std::fs::read_to_string(data_dir.join(file)).unwrap();
    let running: serde_json::Value = serde_json::from_str(&read("server.json")).unwrap();
    let port = running["admin_url"].as_str().unwrap().rsplit(':').next().unwrap().parse().unwrap();
    Admin::new(
        Connection::to_operator(std::sync::Arc::new(std::sync::atomic::AtomicU16::new(port))),
        read("admin.token").trim().to_owned(),
    )
}

#[test]
fn a_kill_at_any_point_leaves_the_old_set_or_the_new_one() {
    let folder = tempfile::tempdir().unwrap();
    let data_dir = folder.path().join("data");
    let versions = ["1.0.0", "2.0.0"].map(|version| std::fs::read(packs::build(folder.path(), version, None)).unwrap());
    let mut server = Server::serve(&data_dir, &[]);
    let mut seen = std::collections::BTreeSet::new();
    for kill in 0..KILLS {
        let admin = admin_of(&data_dir);
        let (acknowledged, acknowledgements) = channel::<Option<String>>();
        let versions = versions.clone();
        // Install, replace, remove, repeatedly, until the server stops responding.
        let changing = std::thread::spawn(move || {
            let steps = [Some(0), Some(1), None].into_iter().cycle();
            for step in steps {
                let sent = match step {
                    Some(version) => {
                        let request = admin.request("POST", "/plugins?allow_unsigned=true");
                        request.body("application/wasm", &versions[version]).try_send()
                    }
                    None => admin.request("DELETE", "/plugins/small").try_send(),
                };
                // The connection breaks when the server is killed; any other response than success fails the test.
                let Some(response) = sent else { return };
                assert_eq!(response.status, if step.is_some() { 201 } else { 204 }, "{}", response.text());
                let done = step.map(|version| ["1.0.0", "2.0.0"][version].to_owned());
                if acknowledged.send(done).is_err() {
                    return;
                }
            }
        });
        let mut last = None;
        for _ in 0..=kill % CHANGES {
            last = acknowledgements.recv().expect("the change is acknowledged");
        }
        let moment = STEP * (kill / CHANGES);
        let end = std::time::Instant::now() + moment;
        while let Ok(done) = acknowledgements.recv_timeout(end.saturating_duration_since(std::time::Instant::now())) {
            last = done;
        }
        server.kill();
        while let Ok(done) = acknowledgements.recv() {
            last = done;
        }
        changing.join().unwrap();
        // The change after the last acknowledged one was interrupted: it is done or it is not.
        let next = match last.as_deref() {
            None => Some("1.0.0"),
            Some("1.0.0") => Some("2.0.0"),
            Some(_) => None,
        };
        server = Server::serve(&data_dir, &[]);
        assert_eq!(server.connection().request("GET", "/health/ready").send().status, 200);
        let now = small_of(&data_dir);
        assert!(now == last || now.as_deref() == next, "kill {kill}: {now:?} after {last:?}");
        let left = std::fs::read_dir(data_dir.join("plugins")).unwrap().map(|entry| entry.unwrap().file_name());
        let left: Vec<String> = left.map(|name| name.to_string_lossy().into_owned()).collect();
        assert!(left.iter().all(|name| !name.starts_with(".unfinished")), "{left:?}");
        seen.insert(now);
        // Every round begins without it.
        let removed = admin_of(&data_dir).request("DELETE", "/plugins/small").send().status;
        assert!([204, 404].contains(&removed), "{removed}");
    }
    assert!(seen.len() > 1, "the kills came at different points: {seen:?}");
    drop(server.stop().expect_success());
}
