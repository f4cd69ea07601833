//! The roles of the documents: the role that owns the tables creates them, and servers require access to rows only.

use std::fs::{self, Permissions};
use std::os::unix::fs::PermissionsExt as _;
use std::sync::Arc;

use daftar_test_postgres::Server as Postgres;
use daftar_tests::packs;
use daftar_tests::postgres::{Database, Processes, eventually, run, settings};
use daftar_tests::records::{FEMALE, path, person};
use serde_json::{Value, json};

/// A check of the database.
fn checked(data_dir: &std::path::Path, name: &str) -> Value {
    let report = run(data_dir, &["doctor", "--json"]).json();
    let checks = report["checks"].as_array().expect("a list of checks");
    let found = checks.iter().find(|check| check["area"] == "database" && check["check"] == name);
    found.expect("the database is checked").clone()
}

#[test]
fn servers_need_only_the_rows_of_the_tables_that_the_owner_prepares() {
    // Roles of other tests could read the register on a server that all share, and `doctor` would name them.
    let database = Database::on(Arc::new(Postgres::start(&[])));
    let roles = database.server().create_roles();
    let folder = tempfile::tempdir().unwrap();
    let data_dir = folder.path().join("owner");
    let common = folder.path().join("common");
    fs::create_dir(&common).unwrap();
    let _config = settings(&data_dir, &roles.server, Some(&common), "");
    let refused = run(&data_dir, &["serve", "--listen", "127.0.0.1:0", "--admin-listen", "127.0.0.1:0"]);
    assert_eq!(refused.code, 77, "{refused:?}");
    let owner = format!("belongs to the role `{}_owner`", roles.database);
    assert!(refused.stderr.contains(&owner) && refused.stderr.contains("`daftar migrate prepare`"), "{refused:?}");

    let url_file = folder.path().join("owner-url");
    fs::write(&url_file, &roles.owner).unwrap();
    fs::set_permissions(&url_file, Permissions::from_mode(0o600)).unwrap();
    let prepare = ["migrate", "prepare", "--json", "--url-file", url_file.to_str().unwrap()];
    let prepared = run(&data_dir, &prepare).expect_success().json();
    assert_eq!(prepared["layout_before"], Value::Null, "{prepared}");
    assert_eq!(prepared["views"], "updated", "{prepared}");
    let again = run(&data_dir, &prepare).expect_success().json();
    let layout = &prepared["layout"];
    let unchanged = json!({"layout": layout, "layout_before": layout, "views": "unchanged", "views_error": null});
    assert_eq!(again, unchanged);

    let mut processes = Processes::start_on(Arc::new(database), 0, "");
    let servers = [processes.start_one_by(&roles.server), processes.start_one_by(&roles.server)];
    let credentials = processes.credentials(servers[0], &["individual:all"]);
    let client = processes.client_of(servers[0], &credentials);
    drop(client.create_individual(&person("1", json!({"gender": FEMALE, "birth_date": "1960-02-29"}))));
    let read = processes.at(servers[1], &client).get(&path("Individual", "1")).expect(200).json();
    assert_eq!(read["birth_date"], "1960-02-29");
    let entries = processes.admin(servers[1]).get("/audit?action=read").expect(200).json();
    assert_eq!(entries["data"].as_array().map(Vec::len), Some(1), "{entries}");
    let package = fs::read(packs::build(folder.path(), "1.0.0", None)).unwrap();
    drop(processes.admin(servers[0]).install(&package).expect(201));
    eventually("the plugin runs on both", || {
        let plugins = processes.admin(servers[1]).get("/plugins").expect(200).json();
        plugins["data"].as_array().is_some_and(|plugins| plugins.iter().any(|plugin| plugin["name"] == "small"))
    });

    let readers = checked(processes.data_dir(servers[0]), "readers");
    assert_eq!(readers["state"], "ok", "{readers}");
    let guest = format!("{}_guest", roles.database);
    let grants = format!(
        "CREATE ROLE {guest} LOGIN; GRANT USAGE ON SCHEMA daftar TO {guest}; GRANT SELECT ON daftar.record TO {guest}"
    );
    processes.database().server().run_sql(&roles.database, &grants);
    let warned = checked(processes.data_dir(servers[0]), "readers");
    let message = warned["message"].as_str().unwrap_or_default();
    assert_eq!(warned["state"], "warning", "{warned}");
    assert!(message.contains(&guest) && message.contains("past consent, field limits and the audit log"), "{warned}");

    // Views that are missing, and a preparation that cannot create them.
    let sql = |statements: &str| processes.database().server().run_sql(&roles.database, statements);
    assert_eq!(checked(processes.data_dir(servers[0]), "views")["state"], "ok");
    sql("DROP SCHEMA reporting CASCADE");
    let warned = checked(processes.data_dir(servers[0]), "views");
    assert_eq!(warned["state"], "warning", "{warned}");
    assert!(warned["message"].as_str().unwrap_or_default().contains("`individual`"), "{warned}");
    assert!(warned["remedy"].as_str().unwrap_or_default().contains("`daftar migrate prepare"), "{warned}");
    sql(&format!("CREATE SCHEMA reporting AUTHORIZATION {guest}"));
    let failed = run(&data_dir, &prepare);
    assert_eq!(failed.code, 3, "the tables are ready: {failed:?}");
    assert!(failed.stdout.contains("\"views\": \"failed\""), "{failed:?}");
    assert!(failed.stderr.contains("the tables are up to date") && failed.stderr.contains("(42501)"), "{failed:?}");
    let allowed = run(&data_dir, &[&prepare[..], &["--allow-outdated-views"]].concat()).expect_success().json();
    assert_eq!(allowed["views"], "failed", "{allowed}");
    assert!(allowed["views_error"].as_str().is_some_and(|error| error.contains("(42501)")), "{allowed}");
    sql(&format!("ALTER SCHEMA reporting OWNER TO {}_owner", roles.database));
    assert_eq!(run(&data_dir, &prepare).expect_success().json()["views"], "updated");
    assert_eq!(checked(processes.data_dir(servers[0]), "views")["state"], "ok");
}
