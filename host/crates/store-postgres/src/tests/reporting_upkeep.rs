//! Updates of the views of the schema `reporting`: reports in progress, missing views, rights, and other programs.

use super::opening::name_of;
use super::*;
use crate::reporting::{PATIENCE, make_within};
use daftar_store::shared::{ReportViews, Shared as _};

/// As left by a program with other statements.
const OUTDATED: &str = "UPDATE daftar.reporting_state SET views = ''";

async fn prepared(url: &str) -> ViewsOutcome {
    PostgresStore::prepare(options(url)).await.unwrap().views
}

/// A report in progress: it uses a view until its transaction ends.
async fn report(database: &Database, view: &str) -> database::Link {
    let link = database.link("report").await.unwrap();
    let begun = format!("SET idle_in_transaction_session_timeout = 0; BEGIN; SELECT count(*) FROM reporting.{view}");
    link.client.batch_execute(&begun).await.unwrap();
    link
}

/// The outcome of an update that does not wait longer than one attempt.
async fn attempt(database: &Database) -> ViewsOutcome {
    let mut link = database.link("views").await.unwrap();
    make_within(&mut link.client, Duration::ZERO).await
}

#[tokio::test]
async fn a_preparation_waits_for_a_report_that_uses_a_view() {
    let server = Server::shared();
    let url = server.create_database();
    assert_eq!(prepared(&url).await, ViewsOutcome::Updated);
    server.run_sql(name_of(&url), OUTDATED);
    let database = Database::new(&options(&url)).unwrap();
    let report = report(&database, "consent").await;
    let observer = database.link("observer").await.unwrap();
    // In the pause after an attempt that has failed.
    let ended = async {
        let failed = "SELECT EXISTS (SELECT FROM pg_stat_activity WHERE datname = current_database() \
                      AND application_name = 'daftar (open)' AND state = 'idle' AND query = 'ROLLBACK')";
        while !observer.client.query_one(failed, &[]).await.unwrap().get::<_, bool>(0) {
            tokio::time::sleep(Duration::from_millis(25)).await;
        }
        report.client.batch_execute("COMMIT").await.unwrap();
    };
    let both = async { tokio::join!(prepared(&url), ended).0 };
    let outcome = tokio::time::timeout(PATIENCE, both).await.expect("it waits for the report");
    assert_eq!(outcome, ViewsOutcome::Updated);
    assert_eq!(prepared(&url).await, ViewsOutcome::Unchanged);
}

#[tokio::test]
async fn a_report_that_does_not_end_is_the_reason_of_a_failure_and_delays_no_start() {
    let server = Server::shared();
    let url = server.create_database();
    assert_eq!(prepared(&url).await, ViewsOutcome::Updated);
    server.run_sql(name_of(&url), OUTDATED);
    let database = Database::new(&options(&url)).unwrap();
    let report = report(&database, "individual").await;
    let reason = match attempt(&database).await {
        ViewsOutcome::Failed(ViewsError::Unavailable(reason)) => reason,
        other => panic!("{other:?}"),
    };
    assert!(reason.contains("(55P03)") && reason.contains("a report uses a view"), "{reason}");
    let starts = async || {
        let options = PostgresOptions { statement_timeout: PATIENCE, ..options(&url) };
        tokio::time::timeout(PATIENCE / 2, PostgresStore::open(options)).await.map(Result::unwrap)
    };
    starts().await.expect("it does not wait for the report").close().await;
    // As a preparation does while it waits for the report.
    report.client.batch_execute(&format!("SELECT pg_advisory_xact_lock({})", locks::TABLES)).await.unwrap();
    starts().await.expect("it does not wait for the preparation").close().await;
    report.client.batch_execute("COMMIT").await.unwrap();
    assert_eq!(attempt(&database).await, ViewsOutcome::Updated);
}

#[tokio::test]
async fn a_preparation_without_the_right_to_create_the_schema_reports_that_immediately() {
    let server = Server::shared();
    let url = server.create_database();
    let database = name_of(&url);
    let role = format!("tables_of_{database}");
    server.run_sql(database, &format!("CREATE ROLE {role} LOGIN; CREATE SCHEMA daftar AUTHORIZATION {role}"));
    let owner = url.replacen(&format!("{}@", server.role()), &format!("{role}@"), 1);
    let preparing = tokio::time::timeout(PATIENCE / 2, PostgresStore::prepare(options(&owner))).await;
    let Prepared { before, layout, views } = preparing.expect("it does not retry").unwrap();
    assert_eq!((before, layout), (None, open::known_layout()));
    let reason = match views {
        ViewsOutcome::Failed(ViewsError::Denied(reason)) => reason,
        other => panic!("{other:?}"),
    };
    assert!(reason.contains("(42501)") && reason.contains("CREATE SCHEMA reporting AUTHORIZATION"), "{reason}");
    server.run_sql(database, &format!("CREATE SCHEMA reporting AUTHORIZATION {role}"));
    assert_eq!(prepared(&owner).await, ViewsOutcome::Updated);
    server.run_sql(database, &format!("DROP OWNED BY {role} CASCADE; DROP ROLE {role}"));
}

#[tokio::test]
async fn missing_views_and_a_missing_function_are_created_again() {
    let server = Server::shared();
    let url = server.create_database();
    let database = name_of(&url);
    assert_eq!(prepared(&url).await, ViewsOutcome::Updated);
    let objects = "SELECT (SELECT count(*) FROM pg_class WHERE relnamespace = 'reporting'::regnamespace), \
                   to_regprocedure('reporting.label(text, text)') IS NOT NULL";
    let before = server.run_sql(database, objects);
    for dropped in
        ["VIEW reporting.household_member", "FUNCTION reporting.label(text, text)", "SCHEMA reporting CASCADE"]
    {
        server.run_sql(database, &format!("SET client_min_messages = warning; DROP {dropped}"));
        assert_eq!(prepared(&url).await, ViewsOutcome::Updated, "{dropped}");
        assert_eq!(server.run_sql(database, objects), before, "{dropped}");
        assert_eq!(prepared(&url).await, ViewsOutcome::Unchanged, "{dropped}");
    }
    // A start creates them too.
    server.run_sql(database, "DROP VIEW reporting.consent");
    PostgresStore::open(options(&url)).await.unwrap().close().await;
    assert_eq!(server.run_sql(database, objects), before);
}

/// Two releases may have the same schema of records.
#[tokio::test]
async fn views_of_a_newer_revision_stay_and_those_of_an_older_one_are_replaced() {
    let server = Server::shared();
    let url = server.create_database();
    let database = name_of(&url);
    assert_eq!(prepared(&url).await, ViewsOutcome::Updated);
    let of_newer = "UPDATE daftar.reporting_state SET views_revision = views_revision + 1, views = ''; DROP VIEW reporting.program";
    server.run_sql(database, of_newer);
    assert_eq!(prepared(&url).await, ViewsOutcome::Unchanged);
    assert_eq!(server.run_sql(database, "SELECT to_regclass('reporting.program') IS NULL"), "t");
    server.run_sql(database, "UPDATE daftar.reporting_state SET views_revision = views_revision - 2");
    assert_eq!(prepared(&url).await, ViewsOutcome::Updated);
    assert_eq!(server.run_sql(database, "SELECT to_regclass('reporting.program') IS NULL"), "f");
}

#[tokio::test]
async fn a_view_that_is_created_again_has_the_owner_rights_and_options_of_before() {
    let server = Server::shared();
    let Roles { database, owner, .. } = server.create_roles();
    assert_eq!(prepared(&owner).await, ViewsOutcome::Updated);
    // As on the page, and rights of single columns; `daftar_reader` loses what default privileges gave it.
    let grants = format!(
        "CREATE ROLE {database}_auditor; CREATE ROLE {database}_clerk; SET ROLE {database}_owner; \
         GRANT SELECT ON reporting.audit_entry TO {database}_auditor WITH GRANT OPTION; \
         REVOKE SELECT ON reporting.audit_entry FROM {database}_reader; \
         GRANT SELECT (number, at, note), REFERENCES (number) ON reporting.audit_entry TO {database}_clerk; \
         GRANT SELECT (number) ON reporting.audit_entry TO PUBLIC; \
         ALTER VIEW reporting.audit_entry SET (security_barrier = true); \
         ALTER VIEW reporting.program SET (security_barrier = true)"
    );
    server.run_sql(&database, &grants);
    let rights = "SELECT relname, pg_get_userbyid(relowner), reloptions, ARRAY(SELECT item::text FROM unnest(relacl) AS item ORDER BY 1) \
                  FROM pg_class WHERE oid IN ('reporting.audit_entry'::regclass, 'reporting.program'::regclass) \
                  UNION ALL SELECT attname, NULL, NULL, ARRAY(SELECT item::text FROM unnest(attacl) AS item ORDER BY 1) \
                  FROM pg_attribute WHERE attrelid = 'reporting.audit_entry'::regclass AND attacl IS NOT NULL AND attname <> 'remark' \
                  ORDER BY 1";
    // The owner itself, and a superuser, whose views would be its own.
    for (url, renamed) in [(owner, "note"), (server.url(&database), "client")] {
        // As of a program with another column, whose rights are no longer needed.
        let change = format!(
            "ALTER VIEW reporting.audit_entry RENAME COLUMN {renamed} TO remark; GRANT SELECT (remark) ON reporting.audit_entry TO {database}_clerk"
        );
        server.run_sql(&database, &change);
        let before = server.run_sql(&database, rights);
        assert!(before.contains(&format!("{database}_auditor=r*/{database}_owner")), "{before}");
        server.run_sql(&database, OUTDATED);
        assert_eq!(prepared(&url).await, ViewsOutcome::Updated);
        assert_eq!(server.run_sql(&database, rights), before, "after an update by {url}");
        let columns = "SELECT count(*) FROM pg_attribute WHERE attrelid = 'reporting.audit_entry'::regclass AND attname = 'remark'";
        assert_eq!(server.run_sql(&database, columns), "0", "it was dropped and created again");
        let read = |role: &str| {
            let statement = format!(
                "SET ROLE {database}_{role}; SELECT count(*) FROM (SELECT at FROM reporting.audit_entry) AS entry"
            );
            server.try_sql(&database, &format!("GRANT USAGE ON SCHEMA reporting TO {database}_{role}; {statement}"))
        };
        assert!(read("auditor").is_ok() && read("clerk").is_ok());
        assert!(read("reader").unwrap_err().contains("permission denied for view audit_entry"));
    }
}

#[tokio::test]
async fn views_of_others_that_read_a_view_to_be_dropped_are_named() {
    let server = Server::shared();
    let url = server.create_database();
    let database = name_of(&url);
    assert_eq!(prepared(&url).await, ViewsOutcome::Updated);
    let other = "CREATE VIEW public.benefits AS SELECT id FROM reporting.program; \
                 ALTER VIEW reporting.program RENAME COLUMN name TO title";
    server.run_sql(database, &format!("{other}; {OUTDATED}"));
    let reason = match prepared(&url).await {
        ViewsOutcome::Failed(ViewsError::Rejected(reason)) => reason,
        other => panic!("{other:?}"),
    };
    assert!(reason.contains("`reporting.program`") && reason.contains("`public.benefits`"), "{reason}");
    assert_eq!(server.run_sql(database, "SELECT count(*) FROM public.benefits"), "0", "nothing was changed");
    server.run_sql(database, "DROP VIEW public.benefits");
    assert_eq!(prepared(&url).await, ViewsOutcome::Updated);
}

#[tokio::test]
async fn the_role_of_servers_sees_the_state_of_the_views() {
    let server = Server::shared();
    let Roles { database, owner, server: url, .. } = server.create_roles();
    assert_eq!(prepared(&owner).await, ViewsOutcome::Updated);
    let shared = PostgresShared::of(Arc::new(PostgresStore::open(options(&url)).await.unwrap()));
    assert_eq!(shared.report_views().await.unwrap(), ReportViews::Current);
    server.run_sql(&database, OUTDATED);
    assert_eq!(shared.report_views().await.unwrap(), ReportViews::Outdated);
    server.run_sql(&database, "DROP VIEW reporting.consent; DROP FUNCTION reporting.label(text, text)");
    let missing = vec!["consent".to_owned(), "label(text, text)".to_owned()];
    assert_eq!(shared.report_views().await.unwrap(), ReportViews::Missing(missing));
    server.run_sql(&database, "UPDATE daftar.reporting_state SET schema_revision = schema_revision + 1");
    assert_eq!(shared.report_views().await.unwrap(), ReportViews::Current, "a newer program manages them");
    server.run_sql(&database, "UPDATE daftar.reporting_state SET schema_revision = schema_revision - 1");
    assert_eq!(prepared(&owner).await, ViewsOutcome::Updated);
    assert_eq!(shared.report_views().await.unwrap(), ReportViews::Current);
}
