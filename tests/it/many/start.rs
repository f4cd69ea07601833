//! A server that cannot start on its database: each cause has the exit code that CLI.md gives it, and names the setting
//! and the remedy.

use std::os::unix::fs::PermissionsExt;
use std::path::Path;

use daftar_tests::postgres::Database;
use daftar_tests::process;

const CONFIGURATION: i32 = 78;
const INPUT: i32 = 66;
const UNAVAILABLE: i32 = 69;
const DENIED: i32 = 77;

/// Starts a server that does not come to serve.
fn refused(folder: &Path, name: &str, postgres: &str, code: i32, says: &str) {
    let data_dir = folder.join(name);
    let config = folder.join(format!("{name}.toml"));
    let text = format!("[store]\nbackend = \"postgres\"\n[store.postgres]\n{postgres}\n");
    std::fs::write(&config, text).unwrap();
    let config = config.display().to_string();
    let listen = ["--listen", "127.0.0.1:0", "--admin-listen", "127.0.0.1:0"];
    let reported = process::run(&data_dir, &[&["serve", "--config", &config][..], &listen].concat());
    assert_eq!(reported.code, code, "{name}: {reported:?}");
    assert!(reported.stderr.contains(says), "{name} should say {says:?}: {reported:?}");
    assert!(!reported.stderr.contains("panicked") && !reported.stderr.contains("geheim"), "{name}: {reported:?}");
}

#[test]
fn each_cause_has_the_exit_code_of_its_kind() {
    let database = Database::shared();
    let folder = tempfile::tempdir().unwrap();
    let (url, port, owner) = (database.url(), database.server().port(), database.server().role());
    let name = url.rsplit('/').next().unwrap().to_owned();
    let guest = format!("guest_{name}");
    let read_only = format!("reader_{name}");
    database.sql(&format!("CREATE ROLE {guest} LOGIN; CREATE ROLE {read_only} LOGIN SUPERUSER"));
    database.sql(&format!("ALTER ROLE {read_only} SET default_transaction_read_only = on"));
    let file = |name: &str, text: &str, mode: u32| {
        let path = folder.path().join(name);
        std::fs::write(&path, text).unwrap();
        std::fs::set_permissions(&path, std::fs::Permissions::from_mode(mode)).unwrap();
        format!("url_file = \"{}\"", path.display())
    };
    let by = |role: &str, database: &str| format!("url = \"postgres://{role}@127.0.0.1:{port}/{database}\"");
    let ours = by(owner, &name);
    let none = folder.path().join("none").display().to_string();
    let with_password = format!("postgres://{owner}:geheim@127.0.0.1:{port}/{name}");
    for (cause, postgres, code, says) in [
        ("not_running", "url = \"postgres://daftar@127.0.0.1:1/r\"".to_owned(), UNAVAILABLE, "cannot be reached"),
        ("no_database", by(owner, "nowhere"), CONFIGURATION, "createdb"),
        ("no_role", by("unknown_role", &name), DENIED, "see that the role"),
        ("no_right", by(&guest, &name), DENIED, "GRANT CREATE ON DATABASE"),
        ("read_only", by(&read_only, &name), UNAVAILABLE, "takes no writes"),
        ("no_url_file", format!("url_file = \"{none}\""), INPUT, "store.postgres.url_file"),
        ("open_url_file", file("open", &with_password, 0o644), DENIED, "chmod 600"),
        ("other_url_file", file("other", "geheim", 0o600), INPUT, "contains no URL"),
        ("both", format!("{ours}\nurl_file = \"{none}\""), CONFIGURATION, "keep one of them"),
        ("pool", format!("{ours}\npool_max = 1"), CONFIGURATION, "store.postgres.pool_max"),
        (
            "no_ca_file",
            format!("url = \"postgres://{owner}@127.0.0.1:{port}/{name}?sslmode=verify-full\"\nca_file = \"{none}\""),
            CONFIGURATION,
            "cannot be read",
        ),
        ("no_shared_dir", format!("{ours}\nshared_dir = \"{none}\""), INPUT, "`store.postgres.shared_dir`"),
        ("no_shared_dir_remedy", format!("{ours}\nshared_dir = \"{none}\""), INPUT, "install -d -m 700"),
    ] {
        refused(folder.path(), cause, &postgres, code, says);
    }
    assert!(!Path::new(&none).exists(), "the folder of all is not made by one of them");
}
