//! A full disk where servers share a database: the disk of its tables, of the folder with the keys, and of a folder
//! that a register is moved into.

use std::ops::Range;
use std::path::PathBuf;
use std::sync::Arc;

use daftar_test_postgres::{ROLE, Server as Postgres};
use daftar_tests::postgres::{self, Database, Processes, eventually};
use daftar_tests::process::{create_client, run};
use daftar_tests::records::{path, person};
use daftar_tests::{Server, token};
use serde_json::json;

use super::{assert_reported, names};
use crate::faults::{SmallDisk, photo};

const SERVE: [&str; 5] = ["serve", "--listen", "127.0.0.1:0", "--admin-listen", "127.0.0.1:0"];
/// PostgreSQL's code of a full disk, `disk_full`.
const DISK_FULL: &str = "53100";
/// The cause in the log of a server whose own disk is full.
const NO_SPACE: &str = "No space left on device";

/// The disk with the tables of the database is full, and `pg_wal` is on another one. Each write that needs space gets
/// 503 and is rolled back. The log of the server has one entry when that begins, with PostgreSQL's code, and one when
/// it ends.
///
/// 1. Free space on the disk of the tables. Neither PostgreSQL nor a server has to be restarted. If the disk of `pg_wal`
///    is full, PostgreSQL stops itself: free space and start it.
/// 2. Clients repeat the rejected requests, with the same `Idempotency-Key`.
#[test]
fn a_full_disk_of_the_database_stops_writes_and_loses_nothing() {
    let server = Arc::new(Postgres::start(&[]));
    let tables = server.folder().join("tables");
    std::fs::create_dir(&tables).unwrap();
    let Some(disk) = SmallDisk::mount_at(&tables, "512m") else { return };
    server.hand_over(&tables);
    server.run_sql("postgres", &format!("CREATE TABLESPACE small LOCATION '{}'", tables.display()));
    server.run_sql("postgres", &format!("ALTER ROLE {ROLE} SET default_tablespace = 'small'"));
    let database = Arc::new(Database::on(Arc::clone(&server)));
    let mut processes = Processes::start_on(database, 1, "");
    let client = processes.client_of(0, &processes.credentials(0, &["individual:all"]));
    let create = |number: u32| {
        let request = client.request("POST", "/Individual").header("Idempotency-Key", format!("key-{number}"));
        request.json(&person(&number.to_string(), json!({"photo": photo(number)}))).send()
    };
    let read = |number: u32| client.get(&path("Individual", &number.to_string())).status;
    assert_eq!(create(0).status, 201);

    let filler = disk.fill(0);
    let refusal = (1..400).find_map(|number| Some((number, create(number))).filter(|(_, made)| made.status != 201));
    let (refused, response) = refusal.expect("the disk is full");
    let response = response.expect(503);
    assert!(response.number("retry-after") >= 1, "{response:?}");
    assert_eq!(response.code(), "storage_unavailable");
    for _ in 0..3 {
        assert_eq!(create(refused).status, 503);
    }
    let live = processes.server(0).connection().request("GET", "/health/live").send();
    assert_eq!(live.status, 200);

    std::fs::remove_file(filler).unwrap();
    eventually("the rejected write left nothing", || read(refused) == 404);
    eventually("writes succeed again", || create(refused).status == 201);
    for number in 0..=refused {
        assert_eq!(read(number), 200, "{number}");
    }
    assert_eq!(client.get("/Individual?_count=1").expect(200).json()["total"], refused + 1);
    let verified = postgres::run(processes.data_dir(0), &["verify"]);
    assert_eq!(verified.code, 0, "{verified:?}");
    // Seconds after the last rejected write.
    eventually("the outage has ended", || read(0) == 200 && processes.figure(0, "daftar_store_up") == 1.0);
    let (ended, _) = processes.stop(0);
    let ended = ended.expect_success();
    let with = |text: &str| ended.stderr.lines().filter(|line| line.contains(text)).collect::<Vec<_>>();
    let (begun, over) = (with("database outage: "), with("database outage ended"));
    assert_eq!((begun.len(), over.len()), (1, 1), "{ended:?}");
    assert!(begun[0].contains(DISK_FULL), "{begun:?}");
    assert_eq!(with("the store failed"), [""; 0]);
}

/// The disk of `[store.postgres] shared_dir` is full. The first server of a register cannot create keys, and does not
/// start; later no key is rotated, and the key from before signs on every server.
///
/// 1. Free space.
/// 2. Start the server, or `daftar key rotate`, again.
#[test]
fn keys_of_several_servers_that_do_not_fit_are_neither_created_nor_rotated() {
    let folder = tempfile::tempdir().unwrap();
    let shared_dir = folder.path().join("shared");
    std::fs::create_dir(&shared_dir).unwrap();
    let Some(disk) = SmallDisk::mount_at(&shared_dir, "64k") else { return };
    let (keys, database) = (shared_dir.join("keys"), Database::shared());
    let data_dirs = ["one", "other"].map(|name| folder.path().join(name));
    let filler = disk.fill(0);
    let config = postgres::settings(&data_dirs[0], &database.url(), Some(shared_dir.as_path()), "");
    let refused = run(&data_dirs[0], &[&SERVE[..], &["--config", config.to_str().unwrap()]].concat());
    assert_eq!(refused.code, 1, "{refused:?}");
    assert_reported(&refused, &["error: cannot write", NO_SPACE]);
    assert!(names(&keys).is_empty(), "no part of a key is left");

    std::fs::remove_file(filler).unwrap();
    let serve = |data_dir: &PathBuf| postgres::serve(data_dir, &database.url(), Some(shared_dir.as_path()), "");
    let [first, other] = data_dirs.each_ref().map(serve);
    let before = names(&keys);
    let credentials = create_client(&data_dirs[0], &["individual:read"]);
    let status = |server: &Server, token: &str| {
        server.connection().request("GET", "/api/v2/Individual").bearer(token).send().status
    };
    let is_valid_on_both = |token: &str| {
        for server in [&first, &other] {
            eventually("the token is valid", || status(server, token) == 200);
        }
    };
    let issued = token::fetch(&first.connection(), &credentials);
    is_valid_on_both(&issued);
    let filler = disk.fill(0);
    let rotate = || run(&data_dirs[0], &["key", "rotate"]);
    let refused = rotate();
    assert_ne!(refused.code, 0, "{refused:?}");
    assert_reported(&refused, &["error: "]);
    is_valid_on_both(&issued);
    std::fs::remove_file(filler).unwrap();
    assert_eq!(names(&keys), before, "no part of a key file is left");
    drop(rotate().expect_success());
    is_valid_on_both(&issued);
    is_valid_on_both(&token::fetch(&other.connection(), &credentials));
    assert_reported(&first.stop().expect_success(), &[NO_SPACE]);
    drop(other.stop().expect_success());
}

/// Number of people in each part of the register that is moved.
const PEOPLE: u32 = 60;

/// The disk of a data folder is full while a register is moved into it from a database, or while later writes are
/// applied: the command fails, with one log entry of the cause, and no server opens the folder.
///
/// 1. Free space.
/// 2. After an interrupted `fill`: delete the folder `store`, and fill it again.
/// 3. After an interrupted `catch-up`: run it again; it compares everything.
#[test]
fn a_register_that_does_not_fit_is_not_moved() {
    let folder = tempfile::tempdir().unwrap();
    let target = folder.path().join("target");
    std::fs::create_dir(&target).unwrap();
    let Some(disk) = SmallDisk::mount_at(&target, "32m") else { return };
    let mut processes = Processes::start(1);
    let credentials = processes.credentials(0, &["individual:all"]);
    let create = |processes: &Processes, numbers: Range<u32>| {
        let client = processes.client_of(0, &credentials);
        for number in numbers {
            let body = person(&number.to_string(), json!({"photo": photo(number)}));
            drop(client.post("/Individual", &body).expect(201));
        }
    };
    create(&processes, 0..PEOPLE);
    let (_, data_dir) = processes.stop(0);
    let config = postgres::settings(&target, &processes.database().url(), None, "");
    let migrate = |arguments: &[&str]| {
        let more = ["--json", "--verbose", "--config", config.to_str().unwrap()];
        run(&target, &[&["migrate"], arguments, &more].concat())
    };
    let fails = |arguments: &[&str]| {
        let failed = migrate(arguments);
        assert_eq!(failed.code, 1, "{failed:?}");
        assert_reported(&failed, &["the store failed"]);
        let entries = failed.stderr.lines().filter(|line| line.contains("accepts no more writes; check the disk"));
        assert_eq!(entries.count(), 1, "{failed:?}");
    };
    let is_not_served = |remedy: &str| {
        let refused = run(&target, &SERVE);
        assert_eq!(refused.code, 1, "{refused:?}");
        assert_reported(&refused, &["contains a part of a register", remedy]);
    };

    let fill = ["fill", "--to", "sled"];
    fails(&fill);
    disk.remount("size=384m");
    is_not_served("delete it, and copy the register again");
    std::fs::remove_dir_all(target.join("store")).unwrap();
    let filled = migrate(&fill).expect_success().json();
    assert_eq!((&filled["differences"], &filled["same"]["individuals"]), (&json!(0), &json!(PEOPLE)));

    processes.start_again(0, data_dir);
    create(&processes, PEOPLE..2 * PEOPLE);
    drop(processes.stop(0));
    let filler = disk.fill(8 << 20);
    let catch_up = ["catch-up", "--to", "sled"];
    fails(&catch_up);
    std::fs::remove_file(filler).unwrap();
    is_not_served("run `daftar migrate catch-up --to sled` again");
    let caught_up = migrate(&catch_up).expect_success().json();
    assert_eq!((&caught_up["differences"], &caught_up["same"]["individuals"]), (&json!(0), &json!(2 * PEOPLE)));
    drop(run(&target, &["verify"]).expect_success());
}
