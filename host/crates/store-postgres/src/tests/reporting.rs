//! The schema `reporting`: its views, the labels, and the rights to read it.

use super::opening::name_of;
use super::*;
use daftar_store::shared::CodeLabel;
use daftar_test_postgres::{OPERATIONS, sql_blocks};

async fn opened(server: &Server) -> (PostgresStore, String) {
    let url = server.create_database();
    (PostgresStore::open(options(&url)).await.unwrap(), url)
}

fn label(uri: &str, language: &str, place: usize, text: &str) -> CodeLabel {
    CodeLabel { uri: uri.to_owned(), language: language.to_owned(), place, text: text.to_owned() }
}

const COLUMNS: &str = "SELECT string_agg(table_name || '.' || column_name || ' ' || data_type, ',' ORDER BY table_name, ordinal_position) \
    FROM information_schema.columns WHERE table_schema = 'reporting'";

#[tokio::test]
async fn there_is_a_view_of_each_table_of_the_schema_with_a_comment_on_every_column() {
    let server = Server::shared();
    let (_store, url) = opened(&server).await;
    let columns = server.run_sql(name_of(&url), COLUMNS);
    for table in daftar_domain::schema::reporting::tables() {
        let named = table.columns.iter().map(|column| format!("{}.{} ", table.name, column.name));
        let there: Vec<&str> = columns.split(',').filter(|it| it.starts_with(&format!("{}.", table.name))).collect();
        assert_eq!(there.len(), table.columns.len(), "{columns}");
        for (there, named) in there.iter().zip(named) {
            assert!(there.starts_with(&named), "{there} for {named}");
        }
    }
    for typed in [
        "individual.birth_date date",
        "individual.last_updated timestamp with time zone",
        "individual.income_amount numeric",
        "audit_entry.at timestamp with time zone",
        "household_member.inactive boolean",
        "individual.extension jsonb",
        "individual.key bigint",
        "program_membership.beneficiary_key bigint",
        "audit_entry.month date",
        "audit_entry.client_name text",
    ] {
        assert!(columns.split(',').any(|column| column == typed), "{typed}: {columns}");
    }
    let without = "SELECT count(*) FROM pg_class JOIN pg_attribute ON attrelid = pg_class.oid AND attnum >= 0 \
        WHERE relnamespace = 'reporting'::regnamespace AND coalesce(col_description(attrelid, attnum), '') = ''";
    assert_eq!(server.run_sql(name_of(&url), without), "0");
    let views =
        "SELECT count(*) FROM pg_class WHERE relnamespace = 'reporting'::regnamespace AND obj_description(oid) <> ''";
    assert_eq!(server.run_sql(name_of(&url), views), "8");
}

#[tokio::test]
async fn views_are_created_again_after_a_schema_change_and_dependent_views_stay() {
    let server = Server::shared();
    let (store, url) = opened(&server).await;
    store.close().await;
    let database = name_of(&url);
    let before = server.run_sql(database, COLUMNS);
    // As an older program left it: without the last columns, and with another order.
    let older = "CREATE VIEW kept AS SELECT id, name FROM reporting.program; \
        DROP VIEW reporting.consent; CREATE VIEW reporting.consent AS SELECT NULL::text AS purpose, NULL::text AS id; \
        CREATE VIEW others AS SELECT id FROM reporting.consent; \
        DROP VIEW reporting.household; CREATE VIEW reporting.household AS SELECT 1 AS gone; \
        UPDATE daftar.reporting_state SET views = ''";
    server.run_sql(database, older);
    PostgresStore::open(options(&url)).await.unwrap().close().await;
    let after = server.run_sql(database, COLUMNS);
    assert!(after.contains("consent.purpose text,consent.id text,"), "{after}");
    let sorted = |columns: &str| {
        let mut columns: Vec<String> = columns.split(',').map(str::to_owned).collect();
        columns.sort();
        columns
    };
    assert_eq!(sorted(&after), sorted(&before));
    assert_eq!(server.run_sql(database, "SELECT count(*) FROM others"), "0");

    // Those of a newer program stay.
    server.run_sql(
        database,
        "UPDATE daftar.reporting_state SET schema_revision = 30000, views = ''; DROP VIEW reporting.audit_entry",
    );
    PostgresStore::open(options(&url)).await.unwrap().close().await;
    assert_eq!(server.run_sql(database, "SELECT to_regclass('reporting.audit_entry') IS NULL"), "t");
}

#[tokio::test]
async fn a_register_is_opened_even_if_the_views_cannot_be_created() {
    let server = Server::shared();
    let url = server.create_database();
    let database = name_of(&url);
    let role = format!("bare_{database}");
    server.run_sql(database, &format!("CREATE ROLE {role} LOGIN; CREATE SCHEMA daftar AUTHORIZATION {role}"));
    let bare = url.replacen(&format!("{}@", server.role()), &format!("{role}@"), 1);
    PostgresStore::open(options(&bare)).await.unwrap().close().await;
    assert_eq!(server.run_sql(database, "SELECT to_regnamespace('reporting') IS NULL"), "t");
    // Once it may, the next start creates them.
    server.run_sql(database, &format!("CREATE SCHEMA reporting AUTHORIZATION {role}"));
    PostgresStore::open(options(&bare)).await.unwrap().close().await;
    assert_eq!(server.run_sql(database, "SELECT to_regclass('reporting.individual') IS NOT NULL"), "t");
    server.run_sql(database, &format!("DROP OWNED BY {role} CASCADE; DROP ROLE {role}"));
}

#[tokio::test]
async fn labels_are_those_of_the_last_snapshot_and_codes_that_it_lacks_keep_theirs() {
    let server = Server::shared();
    let (store, url) = opened(&server).await;
    let database = name_of(&url);
    let first = vec![
        label("urn:a#1", "en", 0, "one"),
        label("urn:a#1", "fr", 1, "un"),
        label("urn:a#2", "en", 0, "two"),
        label("urn:b#1", "pt-BR", 0, "gone later"),
    ];
    assert!(store.put_labels(first.clone()).await.unwrap());
    assert!(!store.put_labels(first.into_iter().rev().collect()).await.unwrap(), "they are there");
    let requested = |uri: &str, language: &str| {
        server.run_sql(database, &format!("SELECT coalesce(reporting.label('{uri}', {language}), '-')"))
    };
    assert_eq!(requested("urn:a#1", "'fr-CA'"), "un");
    assert_eq!(requested("urn:a#1", "'FR'"), "un");
    assert_eq!(requested("urn:a#1", "'de'"), "one");
    assert_eq!(requested("urn:a#1", "NULL"), "one");
    assert_eq!(requested("urn:x#1", "'en'"), "-");
    let second = vec![label("urn:a#1", "en", 0, "uno"), label("urn:a#2", "sw", 0, "mbili")];
    assert!(store.put_labels(second).await.unwrap());
    let all = "SELECT string_agg(uri || ' ' || language || ' ' || text, ',' ORDER BY uri, language) FROM daftar.label";
    assert_eq!(server.run_sql(database, all), "urn:a#1 en uno,urn:a#2 sw mbili,urn:b#1 pt-BR gone later");
}

/// The cases are those of `LanguagePreference` in the vocabulary crate, by which responses choose a language.
#[tokio::test]
async fn a_language_without_a_label_is_tried_without_its_last_subtags() {
    let server = Server::shared();
    let (store, url) = opened(&server).await;
    let database = name_of(&url);
    let languages: [(&str, &[&str]); 4] = [
        ("urn:a#1", &["en", "pt", "pt-br"]),
        ("urn:a#2", &["en", "pt"]),
        ("urn:a#3", &["en", "zh", "zh-Hant", "zh-Hant-HK"]),
        ("urn:a#4", &["en", "fr", "f"]),
    ];
    let labels = languages.iter().flat_map(|(uri, languages)| {
        languages.iter().enumerate().map(move |(place, language)| label(uri, language, place, language))
    });
    assert!(store.put_labels(labels.collect()).await.unwrap());
    for (uri, language, found) in [
        ("urn:a#1", "pt-BR", "pt-br"),
        ("urn:a#2", "pt-BR", "pt"),
        ("urn:a#3", "zh-Hant-TW", "zh-Hant"),
        ("urn:a#3", "zh-Hant-HK-x-private", "zh-Hant-HK"),
        ("urn:a#3", "ZH-HANT-x-private", "zh-Hant"),
        ("urn:a#3", "zh-Hans-CN", "zh"),
        ("urn:a#3", "zh-Hantx", "zh"),
        ("urn:a#4", "pt-BR", "en"),
        ("urn:a#4", "fra", "en"),
        ("urn:a#4", "", "en"),
    ] {
        let requested = format!("SELECT reporting.label('{uri}', '{language}')");
        assert_eq!(server.run_sql(database, &requested), found, "{uri} in `{language}`");
    }
}

#[tokio::test]
async fn servers_that_publish_the_same_snapshot_insert_its_labels_once() {
    let server = Server::shared();
    let (one, url) = opened(&server).await;
    let two = PostgresStore::open(options(&url)).await.unwrap();
    // More than fit one statement, with codes in several languages at the batch boundaries.
    let labels: Vec<CodeLabel> = (0..6_000)
        .flat_map(|code| {
            ["en", "fr"].map(|language| label(&format!("urn:a#{code}"), language, 0, &format!("{code} {language}")))
        })
        .collect();
    let put = tokio::join!(one.put_labels(labels.clone()), two.put_labels(labels));
    assert_eq!([put.0.unwrap(), put.1.unwrap()].iter().filter(|was_put| **was_put).count(), 1);
    assert_eq!(server.run_sql(name_of(&url), "SELECT count(*) FROM daftar.label"), "12000");
}

#[tokio::test]
async fn a_reader_of_the_views_reads_nothing_else() {
    let server = Server::shared();
    let (store, url) = opened(&server).await;
    let database = name_of(&url);
    store.put_labels(vec![label("urn:a#1", "en", 0, "one")]).await.unwrap();
    let role = format!("reader_{database}");
    server.run_sql(
        database,
        &format!("CREATE ROLE {role} LOGIN; GRANT USAGE ON SCHEMA reporting TO {role}; GRANT SELECT ON ALL TABLES IN SCHEMA reporting TO {role}"),
    );
    let requested = |statement: &str| server.try_sql(database, &format!("SET ROLE {role}; {statement}"));
    for view in [
        "individual",
        "individual_identifier",
        "household",
        "household_member",
        "program",
        "program_membership",
        "consent",
        "audit_entry",
    ] {
        requested(&format!("SELECT * FROM reporting.{view}")).unwrap();
    }
    assert_eq!(requested("SELECT reporting.label('urn:a#1', 'en')").unwrap(), "one");
    for refused in [
        "SELECT * FROM daftar.record",
        "SELECT * FROM daftar.label",
        "DELETE FROM reporting.program",
        "CREATE TABLE reporting.mine ()",
    ] {
        let error = requested(refused).unwrap_err();
        assert!(error.contains("permission denied"), "{refused}: {error}");
    }
    server.run_sql(database, &format!("DROP OWNED BY {role}; DROP ROLE {role}"));
}

/// An individual, and a program in which the individual is enrolled.
const SAMPLE: &str = r#"
    INSERT INTO daftar.record VALUES
    (1, 1, 2, '{"meta": {"version_id": 2, "last_updated": "2026-06-01T10:00:00.250Z", "source": "client-1"},
        "identifier": [{"system": "urn:old", "value": "1", "period": {"end": "2020-01-01"}}, {"system": "urn:new", "value": "A|1"}],
        "name": {"family": "Diallo"}, "birth_date": "1961-04-02", "gender": {"uri": "urn:sex#2", "number": 1, "edition_number": 0},
        "languages": [{"uri": "urn:lang#fr", "number": 2, "edition_number": 0}, {"uri": "urn:lang#sw", "number": 3, "edition_number": 0}],
        "address": [{"line": ["1", "2"]}, {"region": "South"}], "income": {"amount": 1200.5},
        "extension": {"farmer.plots": {"type": "integer", "value": 3},
            "farmer.crops": [{"type": "coded", "value": {"uri": "urn:crop#1", "number": 4, "edition_number": 0}}]}}'),
    (1, 2, 1, '{"meta": {"version_id": 1, "last_updated": "2026-06-01T10:00:00.000Z"}, "active": false}'),
    (2, 1, 1, '{"meta": {"version_id": 1, "last_updated": "2026-06-01T10:00:00.000Z"}, "identifier": [{"system": "urn:h", "value": "1"}],
        "member": [{"entity": {"kind": "individual", "id": 1}}, {"entity": {"kind": "individual", "id": 2}, "inactive": true},
            {"entity": {"kind": "individual", "id": 2}, "period": {"end": "2020-01-01"}}]}'),
    (3, 1, 1, '{"meta": {"version_id": 1, "last_updated": "2026-06-01T10:00:00.000Z"}, "identifier": [{"system": "urn:p", "value": "1"}], "name": "Pension"}'),
    (4, 1, 1, '{"meta": {"version_id": 1, "last_updated": "2026-06-01T10:00:00.000Z"}, "program": {"kind": "program", "id": 1},
        "beneficiary": {"kind": "group", "id": 1}, "status": "enrolled", "enrollment_date": "2026-01-10"}'),
    (4, 2, 1, '{"meta": {"version_id": 1, "last_updated": "2026-06-01T10:00:00.000Z"}, "has_no_identifier": true,
        "program": {"kind": "program", "id": 1}, "beneficiary": {"kind": "individual", "id": 1}, "status": "draft"}'),
    (4, 3, 1, '{"meta": {"version_id": 1, "last_updated": "2026-06-01T10:00:00.000Z"}, "identifier": [{"system": "urn:m", "value": "1"}],
        "program": {"kind": "program", "id": 1}, "beneficiary": {"kind": "individual", "id": 1}, "status": "exited"}'),
    (5, 1, 1, '{"meta": {"version_id": 1, "last_updated": "2026-06-01T10:00:00.000Z"}, "consent_id": "123e4567-e89b-42d3-a456-426614174000",
        "subject": {"kind": "individual", "id": 1}, "grantee": "clinic", "effective_date": "2026-01-01", "expiry_date": "2026-01-31"}'),
    (5, 2, 1, '{"meta": {"version_id": 1, "last_updated": "2026-06-01T10:00:00.000Z"}, "consent_id": "223e4567-e89b-42d3-a456-426614174000",
        "subject": {"kind": "individual", "id": 1}, "grantee": "clinic", "withdrawn": true, "expiry_date": "2026-01-31"}')
"#;

#[tokio::test]
async fn views_show_the_values_of_stored_json() {
    let server = Server::shared();
    let (store, url) = opened(&server).await;
    let database = name_of(&url);
    server.run_sql(database, SAMPLE);
    store
        .put_labels(vec![
            label("urn:sex#2", "en", 0, "Female"),
            label("urn:sex#2", "fr", 1, "Femme"),
            label("urn:lang#fr", "en", 0, "French"),
        ])
        .await
        .unwrap();
    for (requested, shown) in [
        (
            "SELECT id, active, birth_date, gender, gender_label FROM individual ORDER BY 1",
            "urn:new|A|1|t|1961-04-02|urn:sex#2|Female\n|f|||",
        ),
        (
            "SET reporting.language = 'fr-CA'; SELECT gender_label FROM individual WHERE birth_date < '1970-01-01'",
            "Femme",
        ),
        (
            "SELECT languages, languages_label FROM individual WHERE version_id = 2",
            "{urn:lang#fr,urn:lang#sw}|{French,sw}",
        ),
        (
            "SELECT address_line, address_region, address_count, income_amount FROM individual WHERE version_id = 2",
            "{1,2}||2|1200.5",
        ),
        (
            "SELECT last_updated AT TIME ZONE 'UTC', source FROM individual WHERE version_id = 2",
            "2026-06-01 10:00:00.25|client-1",
        ),
        (
            "SELECT extension ->> 'farmer.plots', extension -> 'farmer.crops' FROM individual WHERE version_id = 2",
            "3|[\"urn:crop#1\"]",
        ),
        ("SELECT count(*) FROM individual WHERE extension IS NULL", "1"),
        (
            "SELECT individual_id, system, value, period_end FROM individual_identifier ORDER BY system",
            "urn:new|A|1|urn:new|A|1|\nurn:new|A|1|urn:old|1|2020-01-01",
        ),
        ("SELECT key, birth_date FROM individual ORDER BY 1", "1|1961-04-02\n2|"),
        ("SELECT individual_key, system FROM individual_identifier ORDER BY system", "1|urn:new\n1|urn:old"),
        ("SELECT id, quantity FROM household", "urn:h|1|1"),
        ("SELECT household_key, individual_key, inactive FROM household_member ORDER BY 2, 3", "1|1|f\n1|2|f\n1|2|t"),
        // A person without an identifier is joined, too.
        (
            "SELECT person.key, person.id, member.household_id FROM household_member AS member \
             JOIN individual AS person ON person.key = member.individual_key WHERE member.inactive",
            "2||urn:h|1",
        ),
        (
            "SELECT key, program_key, beneficiary_kind, beneficiary_key, status FROM program_membership ORDER BY key",
            "1|1|Group|1|enrolled\n2|1|Individual|1|draft\n3|1|Individual|1|exited",
        ),
        (
            "SELECT key, subject_kind, subject_key, status FROM consent ORDER BY key",
            "1|Individual|1|expired\n2|Individual|1|withdrawn",
        ),
        (
            "SELECT p.name, h.id FROM program AS p JOIN program_membership AS m ON m.program_key = p.key \
             JOIN household AS h ON m.beneficiary_kind = 'Group' AND h.key = m.beneficiary_key",
            "Pension|urn:h|1",
        ),
        (
            "SELECT household_id, individual_id, inactive FROM household_member WHERE period_end IS NULL ORDER BY 3",
            "urn:h|1|urn:new|A|1|f\nurn:h|1||t",
        ),
        (
            "SELECT program_id, beneficiary_kind, beneficiary_id, status, enrollment_date FROM program_membership WHERE status = 'enrolled'",
            "urn:p|1|Group|urn:h|1|enrolled|2026-01-10",
        ),
        ("SELECT status, identifier_count FROM program_membership ORDER BY 1", "draft|0\nenrolled|\nexited|1"),
        (
            "SELECT subject_kind, subject_id, status FROM consent ORDER BY status",
            "Individual|urn:new|A|1|expired\nIndividual|urn:new|A|1|withdrawn",
        ),
        (
            "SELECT p.name, h.id FROM program AS p JOIN program_membership AS m ON m.program_id = p.id JOIN household AS h ON h.id = m.beneficiary_id",
            "Pension|urn:h|1",
        ),
    ] {
        assert_eq!(
            server.run_sql(database, &format!("SET search_path = reporting; {requested}")),
            shown,
            "{requested}"
        );
    }
}

#[tokio::test]
async fn joins_by_key_can_use_the_primary_key_and_a_month_of_the_audit_log_reads_its_partition() {
    let server = Server::shared();
    let (_store, url) = opened(&server).await;
    let database = name_of(&url);
    server.run_sql(database, SAMPLE);
    let more = "INSERT INTO daftar.record SELECT 1, number, 1, '{}' FROM generate_series(3, 3000) AS number";
    server.run_sql(database, &format!("{more}; ANALYZE daftar.record"));
    let plan = |statement: &str| {
        let settings = "SET search_path = reporting; SET enable_hashjoin = off; SET enable_mergejoin = off";
        server.run_sql(database, &format!("{settings}; EXPLAIN {statement}"))
    };
    for (table, key) in [("program_membership", "beneficiary_key"), ("household_member", "individual_key")] {
        let statement =
            format!("SELECT person.birth_date FROM {table} JOIN individual AS person ON person.key = {key}");
        let plan = plan(&statement);
        assert!(plan.contains("Index Cond: ((kind = 1) AND (id = "), "{plan}");
    }
    let months = |condition: &str| plan(&format!("SELECT number FROM audit_entry {condition}")).contains("audit_2");
    assert!(months(""), "the partitions of this month and the next two");
    assert!(months("WHERE month >= date_trunc('month', now() AT TIME ZONE 'UTC')::date"));
    assert!(!months("WHERE month < DATE '2001-01-01'"));
}

/// Runs a PostgreSQL program as in the documentation.
fn run(program: &str, arguments: &[&str]) -> Vec<u8> {
    let programs = daftar_test_needs::postgres_programs().unwrap();
    let output = std::process::Command::new(programs.join(program)).args(arguments).output().unwrap();
    assert!(output.status.success(), "{program}: {}", String::from_utf8_lossy(&output.stderr));
    output.stdout
}

#[tokio::test]
async fn a_dump_is_restored_with_views_and_labels() {
    let server = Server::shared();
    let (store, url) = opened(&server).await;
    server.run_sql(name_of(&url), SAMPLE);
    store.put_labels(vec![label("urn:sex#2", "en", 0, "Female")]).await.unwrap();
    let (folder, restored) = (tempfile::tempdir().unwrap(), server.create_database());
    let file = folder.path().join("daftar.dump");
    let file = file.to_str().unwrap();
    run("pg_dump", &["--format", "custom", "--schema", "daftar", "--schema", "reporting", "--file", file, &url]);
    run("pg_restore", &["--exit-on-error", "--dbname", &restored, file]);
    let again = PostgresStore::open(options(&restored)).await.unwrap();
    assert_eq!(again.register.0, store.register.0);
    let requested = "SELECT id, gender_label FROM reporting.individual WHERE active";
    assert_eq!(server.run_sql(name_of(&restored), requested), "urn:new|A|1|Female");
    assert!(!again.put_labels(vec![label("urn:sex#2", "en", 0, "Female")]).await.unwrap(), "they are there");
}

#[tokio::test]
async fn a_warehouse_follows_by_logical_replication_and_has_the_same_views() {
    let register = Server::start(&[("wal_level", "logical"), ("fsync", "off")]);
    let warehouse = Server::start(&[("fsync", "off")]);
    let roles = register.create_roles();
    PostgresStore::prepare(options(&roles.owner)).await.unwrap();
    let store = PostgresStore::open(options(&roles.server)).await.unwrap();
    let (database, copy) = (roles.database.as_str(), warehouse.create_database());
    let url = register.url(database);
    register.run_sql(database, SAMPLE);
    // The role of the warehouse and the publication; the same for the audit log; what the warehouse repeats.
    let blocks: Vec<&str> = sql_blocks(OPERATIONS, "## Logical replication to a warehouse").collect();
    let of_database = |block: &str| block.replace("DATABASE daftar", &format!("DATABASE {database}"));
    register.run_sql(database, &of_database(blocks[0]));
    let dumped = run(
        "pg_dump",
        &[
            "--schema-only",
            "--no-owner",
            "--no-privileges",
            "--no-publications",
            "--schema",
            "daftar",
            "--schema",
            "reporting",
            &url,
        ],
    );
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("schema.sql");
    std::fs::write(&file, dumped).unwrap();
    run("psql", &["--no-psqlrc", "--quiet", "--set", "ON_ERROR_STOP=1", "--file", file.to_str().unwrap(), &copy]);
    let subscription = format!(
        "CREATE SUBSCRIPTION daftar_reporting CONNECTION 'host=127.0.0.1 port={} dbname={database} user=warehouse' PUBLICATION daftar_reporting",
        register.port()
    );
    warehouse.run_sql(name_of(&copy), &subscription);
    let awaited = async |requested: &str, shown: &str| {
        let mut last = String::new();
        for _ in 0..600 {
            last = warehouse.run_sql(name_of(&copy), requested);
            if last == shown {
                return;
            }
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
        panic!("{requested}: {last}");
    };
    awaited("SELECT count(*) FROM reporting.individual", "2").await;
    store.put_labels(vec![label("urn:sex#2", "en", 0, "Female")]).await.unwrap();
    awaited("SELECT count(*) FROM reporting.individual WHERE gender_label = 'Female'", "1").await;
    register.run_sql(
        database,
        "UPDATE daftar.record SET value = value || '{\"name\": \"Old-age pension\"}' WHERE kind = 3",
    );
    awaited("SELECT name FROM reporting.program", "Old-age pension").await;

    register.run_sql(
        database,
        "SELECT daftar.make_audit_months(); \
         INSERT INTO daftar.audit (number, month, at, actor, request_id, action, outcome, count) \
         VALUES (1000000, date_trunc('month', now() AT TIME ZONE 'UTC'), now(), 'system', 'new', 'read', 'allowed', 1), \
                (1000256, '2001-01-01', '2001-01-02', 'system', 'old', 'read', 'allowed', 1)",
    );
    register.run_sql(database, &of_database(blocks[1]));
    warehouse.run_sql(name_of(&copy), "SELECT daftar.make_audit_months()");
    warehouse.run_sql(name_of(&copy), "ALTER SUBSCRIPTION daftar_reporting REFRESH PUBLICATION");
    let entries =
        "SELECT string_agg(request_id, ',' ORDER BY number) FROM daftar.audit WHERE request_id IN ('new', 'old')";
    awaited(entries, "new,old").await;
    warehouse.run_sql(name_of(&copy), blocks[2]);
    awaited(entries, "new").await;
}
