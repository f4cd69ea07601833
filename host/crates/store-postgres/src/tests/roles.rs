//! The rights of each documented role. The suites of stores show that servers' role suffices.

use super::*;
use daftar_store::shared::{OtherReaders, Shared as _};

async fn denied(url: &str) -> String {
    match PostgresStore::open(options(url)).await.err() {
        Some(OpenError::Denied { reason, .. }) => reason,
        other => panic!("{other:?}"),
    }
}

#[tokio::test]
async fn a_server_creates_no_table_and_names_the_role_and_command_that_do() {
    let server = Server::shared();
    let Roles { database, owner, server: url, .. } = server.create_roles();
    let by_whom =
        format!("belongs to the role `{database}_owner`, not to `{database}_server`: run `daftar migrate prepare`");
    let reported = denied(&url).await;
    assert!(
        reported.starts_with("there are no tables in it yet, this daftar needs layout") && reported.contains(&by_whom),
        "{reported}"
    );
    let known = open::known_layout();
    let first = PostgresStore::prepare(options(&owner)).await.unwrap();
    assert_eq!(first, Prepared { before: None, layout: known, views: ViewsOutcome::Updated });
    let again = PostgresStore::prepare(options(&owner)).await.unwrap();
    assert_eq!(again, Prepared { before: Some(known), layout: known, views: ViewsOutcome::Unchanged });

    let objects = "SELECT string_agg(relname || pg_get_userbyid(relowner), ',' ORDER BY relname) FROM pg_class \
                   WHERE relnamespace = 'daftar'::regnamespace AND NOT relispartition";
    let before = server.run_sql(&database, objects);
    PostgresStore::open(options(&url)).await.unwrap().close().await;
    assert_eq!(
        server.run_sql(&database, objects),
        before,
        "a server creates nothing but months of the audit log, by a function of the owner"
    );
    let by_server = |statement: &str| server.try_sql(&database, &format!("SET ROLE {database}_server; {statement}"));
    for statement in [
        "CREATE TABLE daftar.other ()",
        "CREATE TABLE public.other ()",
        "CREATE SCHEMA other",
        "ALTER TABLE daftar.search_member ADD other text",
        "DROP TABLE daftar.search_member",
        "TRUNCATE daftar.search_member",
        "UPDATE daftar.layout_history SET checksum = '1'",
        "DELETE FROM daftar.layout_history",
    ] {
        let error = by_server(statement).expect_err(statement);
        assert!(error.contains("permission denied") || error.contains("must be owner"), "{statement}: {error}");
    }

    // The tables of an older daftar.
    server.run_sql(&database, &format!("DELETE FROM daftar.layout_history WHERE version = {known}"));
    let reported = denied(&url).await;
    assert!(
        reported.starts_with(&format!("its tables are of layout {}, this daftar needs layout {known}", known - 1)),
        "{reported}"
    );
    assert!(reported.contains(&by_whom), "{reported}");
}

#[tokio::test]
async fn a_reader_reads_no_table_of_the_register() {
    let server = Server::shared();
    let Roles { database, owner, server: url, reader } = server.create_roles();
    PostgresStore::prepare(options(&owner)).await.unwrap();
    let reported = denied(&reader).await;
    assert!(reported.contains("(42501)") && reported.contains("host/docs/POSTGRESQL.md"), "{reported}");
    let read = |statement: &str| server.try_sql(&database, &format!("SET ROLE {database}_analyst; {statement}"));
    let error = read("SELECT * FROM daftar.search_individual").unwrap_err();
    assert!(error.contains("permission denied for schema daftar"), "{error}");
    server.run_sql(
        &database,
        &format!("SET ROLE {database}_owner; CREATE SCHEMA IF NOT EXISTS reporting; CREATE VIEW reporting.shown AS SELECT id FROM daftar.search_individual"),
    );
    assert_eq!(read("SELECT count(*) FROM reporting.shown").unwrap(), "0");
    drop(read("DELETE FROM reporting.shown").unwrap_err());

    let shared = PostgresShared::of(Arc::new(PostgresStore::open(options(&url)).await.unwrap()));
    let analyst = format!("{database}_analyst");
    let mut expected = OtherReaders { of_tables: Vec::new(), of_reports: vec![analyst] };
    assert_eq!(shared.other_readers().await.unwrap(), expected);
    let guest = format!("{database}_guest");
    let grants = format!(
        "CREATE ROLE {guest} LOGIN; GRANT USAGE ON SCHEMA daftar TO {guest}; GRANT SELECT ON daftar.client TO {guest}"
    );
    server.run_sql(&database, &grants);
    expected.of_tables.push(guest);
    assert_eq!(shared.other_readers().await.unwrap(), expected);
}

#[tokio::test]
async fn roles_that_read_single_columns_or_by_set_role_are_listed() {
    let server = Server::shared();
    let Roles { database, owner, server: url, .. } = server.create_roles();
    PostgresStore::prepare(options(&owner)).await.unwrap();
    let shared = PostgresShared::of(Arc::new(PostgresStore::open(options(&url)).await.unwrap()));
    let named = |roles: &[&str]| roles.iter().map(|role| format!("{database}_{role}")).collect::<Vec<_>>();
    let grants = [
        // Of one column.
        "CREATE ROLE X_clerk LOGIN; GRANT USAGE ON SCHEMA daftar TO X_clerk; GRANT SELECT (id) ON daftar.client TO X_clerk",
        // By SET ROLE, directly and by another role.
        "CREATE ROLE X_dba; GRANT USAGE ON SCHEMA daftar TO X_dba; GRANT SELECT ON daftar.record TO X_dba",
        "CREATE ROLE X_indirect LOGIN NOINHERIT; GRANT X_dba TO X_indirect",
        "CREATE ROLE X_office NOINHERIT; GRANT X_dba TO X_office; CREATE ROLE X_remote LOGIN; GRANT X_office TO X_remote",
        "CREATE ROLE X_reports LOGIN NOINHERIT; GRANT X_reader TO X_reports",
        // Without the right to the schema, or with it by a role that has no other.
        "CREATE ROLE X_unused LOGIN NOINHERIT; GRANT SELECT ON daftar.record TO X_unused",
        "CREATE ROLE X_entry; GRANT USAGE ON SCHEMA daftar TO X_entry; GRANT X_entry TO X_unused",
        // A member of the owner, whether it inherits or not.
        "CREATE ROLE X_admin LOGIN NOINHERIT; GRANT X_owner TO X_admin",
        "CREATE ROLE X_operator LOGIN; GRANT X_owner TO X_operator",
    ];
    for statements in grants {
        server.run_sql(&database, &statements.replace("X_", &format!("{database}_")));
    }
    let expected =
        OtherReaders { of_tables: named(&["clerk", "indirect", "remote"]), of_reports: named(&["analyst", "reports"]) };
    assert_eq!(shared.other_readers().await.unwrap(), expected);
}
