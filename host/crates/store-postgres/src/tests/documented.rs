//! Procedures of the documents for database administrators, run as their pages have them.

use std::process::Command;

use super::*;
use daftar_store::Operation;
use daftar_store::suite::{Listener, commit, person};
use daftar_test_postgres::{OPERATIONS, ROLES, SETUP, commands, renamed, sql_blocks};

/// All rights in a database, one object on a line.
const RIGHTS: &str = "\
WITH rights AS (
    SELECT format('database of %s', pg_get_userbyid(datdba)) AS object, datacl AS acl FROM pg_database
    WHERE datname = current_database()
    UNION ALL SELECT format('schema %s of %s', nspname, pg_get_userbyid(nspowner)), nspacl FROM pg_namespace
    WHERE nspname IN ('daftar', 'reporting')
    UNION ALL SELECT format('%s of %s', class.oid::regclass, pg_get_userbyid(relowner)), relacl FROM pg_class AS class
    JOIN pg_namespace AS schema ON schema.oid = relnamespace
    WHERE nspname IN ('daftar', 'reporting') AND relkind IN ('r', 'p', 'v', 'S')
    UNION ALL SELECT format('%s of %s', function.oid::regprocedure, pg_get_userbyid(proowner)), proacl FROM pg_proc AS function
    JOIN pg_namespace AS schema ON schema.oid = pronamespace WHERE nspname IN ('daftar', 'reporting')
    UNION ALL SELECT format('default of %s in %s: %s', pg_get_userbyid(defaclrole), nspname, defaclobjtype), defaclacl
    FROM pg_default_acl LEFT JOIN pg_namespace AS schema ON schema.oid = defaclnamespace
)
SELECT object, (SELECT string_agg(item::text, ' ' ORDER BY item::text) FROM unnest(acl) AS item) FROM rights ORDER BY object";

/// Creates the partitions that every server creates.
const MONTHS: &str = "SELECT daftar.make_audit_months()";

/// The rights in a database whose roles have that prefix, with the same names for every prefix.
fn rights(server: &Server, database: &str, prefix: &str) -> Vec<String> {
    let rights = server.run_sql(database, RIGHTS).replace(&format!("{prefix}_"), "daftar_");
    let mut rights: Vec<String> = rights.lines().map(str::to_owned).collect();
    rights.sort_unstable();
    rights
}

#[tokio::test]
async fn a_restored_dump_has_the_rights_of_the_original() {
    const SECTION: &str = "## pg_dump and pg_restore";
    let server = Server::shared();
    let Roles { database, owner, server: url, .. } = server.create_roles();
    PostgresStore::prepare(options(&owner)).await.unwrap();
    let store = PostgresStore::open(options(&url)).await.unwrap();
    store.attach_sink(Arc::new(Listener::default())).unwrap();
    commit(&store, vec![Operation::create(person(&["urn:x:a|1"]))]).await.unwrap();
    server.run_sql(&database, MONTHS);

    let programs = daftar_test_needs::postgres_programs().unwrap();
    let folder = tempfile::tempdir().unwrap();
    let path = std::env::join_paths([programs, "/usr/bin".into(), "/bin".into()]).unwrap();
    let run: Vec<&str> = commands(OPERATIONS, SECTION).collect();
    assert_eq!(run.len(), 3, "{run:?}");
    for command in run {
        // The database is the last word of the first command.
        let command = command.strip_suffix(" daftar").map_or(command.to_owned(), |rest| format!("{rest} {database}"));
        let mut shell = Command::new("sh");
        shell.arg("-c").arg(renamed(&command, &database)).current_dir(folder.path()).env("PATH", &path);
        shell.env("PGHOST", "127.0.0.1").env("PGPORT", server.port().to_string()).env("PGUSER", server.role());
        let output = shell.output().unwrap();
        assert!(output.status.success(), "{command}: {}", String::from_utf8_lossy(&output.stderr));
    }
    let restored = format!("{database}_new");
    let block = sql_blocks(OPERATIONS, SECTION).next().unwrap();
    let before = rights(&server, &restored, &database);
    server.run_sql(&restored, &renamed(block, &database));
    let expected = rights(&server, &database, &database);
    assert_eq!(rights(&server, &restored, &database), expected);
    assert_ne!(before, expected, "the statements are necessary");

    let again = PostgresStore::open(options(&server.url_of(&format!("{database}_server"), &restored))).await.unwrap();
    again.attach_sink(Arc::new(Listener::default())).unwrap();
    commit(&again, vec![Operation::create(person(&["urn:x:a|2"]))]).await.unwrap();
    // A role without any grant.
    let guest = format!("{database}_guest");
    server.run_sql("postgres", &format!("CREATE ROLE {guest} LOGIN"));
    let error = PostgresStore::open(options(&server.url_of(&guest, &restored))).await.err().unwrap();
    assert!(matches!(&error, OpenError::Denied { reason, .. } if reason.contains("(42501)")), "{error}");
}

#[tokio::test]
async fn a_register_of_one_role_gets_three_roles_with_the_same_rights_as_a_new_one() {
    let server = Server::shared();
    let new = server.create_roles();
    PostgresStore::prepare(options(&new.owner)).await.unwrap();
    server.run_sql(&new.database, MONTHS);

    let url = server.create_database();
    let database = url.rsplit_once('/').unwrap().1;
    let single = format!("{database}_single");
    server.run_sql(database, &format!("CREATE ROLE {single} LOGIN; ALTER DATABASE {database} OWNER TO {single}"));
    PostgresStore::open(options(&server.url_of(&single, database))).await.unwrap().close().await;
    server.run_sql(database, MONTHS);

    let blocks: Vec<&str> = sql_blocks(SETUP, ROLES).collect();
    let without = |block: &str, line: &str| -> String {
        block.lines().filter(|known| !known.starts_with(line)).map(|line| format!("{line}\n")).collect()
    };
    let statements = [
        without(blocks[0], "CREATE DATABASE"),
        blocks
            .iter()
            .find(|block| block.starts_with("REASSIGN"))
            .unwrap()
            .replace("BY daftar ", &format!("BY {single} ")),
        without(blocks[1], "CREATE SCHEMA"),
        format!("DROP ROLE {single}"),
    ];
    for statements in statements {
        server.run_sql(database, &renamed(&statements, database));
    }
    assert_eq!(rights(&server, database, database), rights(&server, &new.database, &new.database));
    let store = PostgresStore::open(options(&server.url_of(&format!("{database}_server"), database))).await.unwrap();
    store.attach_sink(Arc::new(Listener::default())).unwrap();
    commit(&store, vec![Operation::create(person(&["urn:x:a|1"]))]).await.unwrap();
    // Its owner migrates it.
    let prepared =
        PostgresStore::prepare(options(&server.url_of(&format!("{database}_owner"), database))).await.unwrap();
    assert_eq!(prepared.before, Some(prepared.layout));
}
