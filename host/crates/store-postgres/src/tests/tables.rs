//! Comments and contents of the tables themselves.

use super::crossing::{fill, taken};
use super::opening::name_of;
use super::*;
use daftar_domain::program_membership::MembershipStatus;
use daftar_store::suite::archive::furnished;
use daftar_store_sled::testing::Folder;

#[tokio::test]
async fn every_object_has_a_comment() {
    let server = Server::shared();
    let url = server.create_database();
    PostgresStore::prepare(options(&url)).await.unwrap();
    let schemas = "('daftar', 'reporting')";
    let without = format!(
        "WITH class AS (
             SELECT class.oid, nspname || '.' || relname AS name, relkind FROM pg_class AS class
             JOIN pg_namespace AS schema ON schema.oid = relnamespace
             WHERE nspname IN {schemas} AND NOT relispartition
         )
         SELECT nspname FROM pg_namespace WHERE nspname IN {schemas} AND obj_description(oid, 'pg_namespace') IS NULL
         UNION ALL
         -- The index of a constraint has the comment of the constraint.
         SELECT name FROM class WHERE relkind <> 'c' AND obj_description(oid, 'pg_class') IS NULL
         AND NOT EXISTS (SELECT FROM pg_constraint WHERE conindid = class.oid AND contype IN ('p', 'u', 'x'))
         UNION ALL
         SELECT name || '.' || attname FROM class JOIN pg_attribute ON attrelid = oid
         WHERE relkind IN ('r', 'p', 'v', 'm') AND attnum > 0 AND NOT attisdropped AND col_description(oid, attnum) IS NULL
         UNION ALL
         -- NOT NULL is a constraint since PostgreSQL 18.
         SELECT name || ' ' || conname FROM class JOIN pg_constraint AS made ON conrelid = class.oid
         WHERE contype <> 'n' AND obj_description(made.oid, 'pg_constraint') IS NULL
         UNION ALL
         SELECT nspname || '.' || proname FROM pg_proc AS procedure
         JOIN pg_namespace AS schema ON schema.oid = pronamespace
         WHERE nspname IN {schemas} AND obj_description(procedure.oid, 'pg_proc') IS NULL
         ORDER BY 1"
    );
    assert_eq!(server.run_sql(name_of(&url), &without), "", "these have no comment");
    server.run_sql(
        name_of(&url),
        "COMMENT ON COLUMN daftar.search_member.role IS NULL; COMMENT ON FUNCTION daftar.minute_cell IS NULL; \
         COMMENT ON INDEX daftar.code_part IS NULL; COMMENT ON CONSTRAINT code_pkey ON daftar.code IS NULL; \
         COMMENT ON SCHEMA daftar IS NULL; COMMENT ON SEQUENCE daftar.audit_value IS NULL",
    );
    let found = server.run_sql(name_of(&url), &without);
    let removed = [
        "daftar",
        "daftar.audit_value",
        "daftar.code code_pkey",
        "daftar.code_part",
        "daftar.minute_cell",
        "daftar.search_member.role",
    ];
    assert_eq!(found, removed.join("\n"), "the query finds missing comments");
}

/// A fill drops indexes and foreign keys, and creates them again.
#[tokio::test]
async fn a_filled_database_has_the_indexes_constraints_and_comments_of_an_empty_one() {
    let server = Server::shared();
    let (empty, filled) = (server.create_database(), server.create_database());
    PostgresStore::prepare(options(&empty)).await.unwrap();
    let (furnished, _) = furnished::<Folder>().await;
    let there = taken(furnished.opened().snapshot().await.unwrap()).await;
    fill(Box::new(PostgresRefill::open(options(&filled)).await.unwrap()), &there).await;
    let indexes = "SELECT pg_get_indexdef(oid), obj_description(oid, 'pg_class') FROM pg_class \
                   WHERE relnamespace = 'daftar'::regnamespace AND relkind IN ('i', 'I') AND NOT relispartition ORDER BY 1";
    let constraints = "SELECT conrelid::regclass::text, conname, pg_get_constraintdef(made.oid), obj_description(made.oid, 'pg_constraint') \
                       FROM pg_constraint AS made JOIN pg_class AS class ON class.oid = conrelid \
                       WHERE connamespace = 'daftar'::regnamespace AND NOT relispartition ORDER BY 1, 2";
    for (query, known) in [(indexes, "Guard: no two records"), (constraints, "The consent exists.")] {
        let expected = server.run_sql(name_of(&empty), query);
        assert!(expected.contains(known), "{expected}");
        assert_eq!(server.run_sql(name_of(&filled), query), expected);
    }
}

#[tokio::test]
async fn a_membership_has_one_of_the_statuses_and_a_subject_one_of_two_kinds() {
    let server = Server::shared();
    let url = server.create_database();
    PostgresStore::prepare(options(&url)).await.unwrap();
    let records = "INSERT INTO daftar.record SELECT 4, id, 1, '{}' FROM generate_series(1, 10) AS id";
    server.run_sql(name_of(&url), records);
    let put = |kind: i16, status: &str| {
        let row = format!(
            "INSERT INTO daftar.search_membership (id, beneficiary_kind, beneficiary, program, status, last_updated) \
             SELECT count(*) + 1, {kind}, 1, 1, '{status}', now() FROM daftar.search_membership"
        );
        server.try_sql(name_of(&url), &row)
    };
    for status in MembershipStatus::NAMES {
        put(1, status).unwrap();
    }
    assert!(put(1, "other").unwrap_err().contains("search_membership_status_is_known"));
    assert!(put(3, "draft").unwrap_err().contains("search_membership_beneficiary_kind_check"));
    let by_name =
        server.run_sql(name_of(&url), "SELECT string_agg(status, ',' ORDER BY status) FROM daftar.search_membership");
    let mut statuses = MembershipStatus::ALL;
    statuses.sort_by_key(|status| status.place());
    assert_eq!(by_name, statuses.map(MembershipStatus::name).join(","), "the order by place is the order by name");
}

/// Like the query of a DBA: enrolled, and dead.
#[tokio::test]
async fn days_and_instants_are_columns_that_sql_understands() {
    let server = Server::shared();
    let url = server.create_database();
    PostgresStore::prepare(options(&url)).await.unwrap();
    let types = "SELECT string_agg(DISTINCT data_type || ' ' || column_name, ', ' ORDER BY data_type || ' ' || column_name) \
                 FROM information_schema.columns WHERE table_schema = 'daftar' AND table_name LIKE 'search_%' \
                 AND (column_name LIKE '%\\_date' OR column_name LIKE '%\\_day' OR column_name = 'last_updated')";
    let expected = "date birth_date, date deceased_date, date enrollment_date, date exit_date, date first_day, date last_day, \
                    date registration_date, timestamp with time zone last_updated";
    assert_eq!(server.run_sql(name_of(&url), types), expected);
    let requested = "INSERT INTO daftar.search_individual (id, terms, is_inactive, deceased_date, last_updated) \
                 VALUES (1, '', false, '2026-01-01', now()), (2, '', false, NULL, now()); \
                 INSERT INTO daftar.record SELECT 4, id, 1, '{}' FROM generate_series(7, 9) AS id; \
                 INSERT INTO daftar.search_membership (id, beneficiary_kind, beneficiary, program, status, last_updated) \
                 VALUES (7, 1, 1, 1, 'enrolled', now()), (8, 1, 2, 1, 'enrolled', now()), (9, 2, 1, 1, 'enrolled', now()); \
                 SELECT membership.id FROM daftar.search_membership AS membership \
                 JOIN daftar.search_individual AS person ON membership.beneficiary_kind = 1 AND person.id = membership.beneficiary \
                 WHERE membership.status = 'enrolled' AND person.deceased_date <= current_date";
    assert_eq!(server.run_sql(name_of(&url), requested), "7");
}
