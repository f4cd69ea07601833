//! Data of programs from before the first release: no command opens it, and each prints the solution.

use std::fs;
use std::path::{Path, PathBuf};

use daftar_domain::hexadecimal;
use daftar_tests::postgres::Database;
use daftar_tests::process::run;

/// The size of the embedded database's file: a whole segment but for its last byte, as that program left it.
const DATABASE_BYTES: usize = 2 * 1024 * 1024 - 1;
const REMEDY: &str =
    "made before the first release, and this daftar does not read it: export its records with the program that made it";

/// A file of `tests/data/before-release`: `store/db` without the zeros at its end, and `store/conf`, of a data folder
/// with one client that the last commit before layouts began again at 1 has made.
fn old_file(name: &str) -> Vec<u8> {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("data/before-release").join(name);
    let digits: String = fs::read_to_string(path).unwrap().split_whitespace().collect();
    hexadecimal::decode(&digits).unwrap()
}

fn old_folder(folder: &Path) -> PathBuf {
    let data_dir = folder.join("old");
    fs::create_dir_all(data_dir.join("store")).unwrap();
    let mut database = old_file("db.hex");
    database.resize(DATABASE_BYTES, 0);
    fs::write(data_dir.join("store/db"), database).unwrap();
    fs::write(data_dir.join("store/conf"), old_file("conf.hex")).unwrap();
    data_dir
}

#[test]
fn a_data_folder_is_refused_by_every_command_that_opens_it() {
    let folder = tempfile::tempdir().unwrap();
    let data_dir = old_folder(folder.path());
    let store = format!("the data folder `{}`", data_dir.join("store").display());
    let backup = folder.path().join("backup.daftar").display().to_string();
    for arguments in [
        &["serve", "--listen", "127.0.0.1:0", "--admin-listen", "127.0.0.1:0"][..],
        &["client", "list"],
        &["verify"],
        &["backup", &backup],
    ] {
        let reported = run(&data_dir, arguments);
        assert_eq!(reported.code, 1, "{arguments:?}: {reported:?}");
        assert!(reported.stderr.contains(&format!("{store} was {REMEDY}")), "{arguments:?}: {reported:?}");
        assert!(
            reported.stderr.contains("`daftar export FILE`") && reported.stderr.contains("`daftar import FILE`"),
            "{reported:?}"
        );
    }
    assert!(!Path::new(&backup).exists());
    assert_eq!(fs::read(data_dir.join("store/conf")).unwrap(), old_file("conf.hex"));
    assert!(!data_dir.join("keys").exists(), "nothing is created beside it");
}

#[test]
fn a_backup_is_refused() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("old.daftar");
    let line =
        "daftar-backup 1 {\"daftar\":\"0.1.0\",\"register\":\"302718e2746f4800b0314c7d921930e3\",\"sequence\":1}\n";
    fs::write(&file, line).unwrap();
    let file = file.display().to_string();
    let data_dir = folder.path().join("data");
    for arguments in [&["restore", &file][..], &["backup", &file, "--check"]] {
        let reported = run(&data_dir, arguments);
        assert_ne!(reported.code, 0, "{arguments:?}: {reported:?}");
        assert!(reported.stderr.contains(&format!("the backup was {REMEDY}")), "{arguments:?}: {reported:?}");
    }
    assert!(!data_dir.exists());
}

#[test]
fn a_database_is_refused_and_left_as_it_is() {
    let folder = tempfile::tempdir().unwrap();
    let database = Database::shared();
    drop(database.sql(
        "CREATE SCHEMA daftar; \
         CREATE TABLE daftar.schema_history (version int4 PRIMARY KEY, name text, applied_on text, checksum text); \
         INSERT INTO daftar.schema_history VALUES (1, 'records', '2026-01-01T00:00:00Z', '1'), (7, 'window', '2026-01-01T00:00:00Z', '2')",
    ));
    let config = folder.path().join("daftar.toml");
    let common = folder.path().join("common");
    fs::create_dir(&common).unwrap();
    let url = database.url();
    let text = format!(
        "[store]\nbackend = \"postgres\"\n[store.postgres]\nurl = '{url}'\nshared_dir = '{}'\n",
        common.display()
    );
    fs::write(&config, text).unwrap();
    let config = config.display().to_string();
    let reported = run(
        &folder.path().join("data"),
        &["serve", "--config", &config, "--listen", "127.0.0.1:0", "--admin-listen", "127.0.0.1:0"],
    );
    assert_eq!(reported.code, 1, "{reported:?}");
    assert!(
        reported.stderr.contains("the database `") && reported.stderr.contains(&format!(" was {REMEDY}")),
        "{reported:?}"
    );
    assert_eq!(database.sql("SELECT count(*) FROM pg_tables WHERE schemaname = 'daftar'").trim(), "1");
}
