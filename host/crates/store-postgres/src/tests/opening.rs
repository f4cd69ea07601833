//! Opening a database, and the errors if that fails.

use std::os::unix::fs::PermissionsExt;

use daftar_test_postgres::Stop;

use super::*;
use daftar_store::suite::audit_entry;

pub(super) fn name_of(url: &str) -> &str {
    url.rsplit_once('/').unwrap().1
}

async fn refused(url: &str) -> String {
    let options = PostgresOptions { connect_timeout: Duration::from_secs(30), ..options(url) };
    PostgresStore::open(options).await.err().expect("it is not opened").to_string()
}

#[tokio::test]
async fn errors_of_opening_name_the_database_but_not_its_password() {
    let server = Server::shared();
    let (role, port) = (server.role(), server.port());
    // A port that is never assigned as an ephemeral port.
    let unused = 1;
    for (url, says) in [
        (format!("postgres://{role}:geheim@127.0.0.1:{port}/nowhere"), "create the database first"),
        (format!("postgres://daftar:geheim@127.0.0.1:{unused}/register"), "see that it runs"),
        (format!("postgres://unknown:geheim@127.0.0.1:{port}/postgres"), "see that the role"),
        (format!("postgres://{role}:geheim@127.0.0.1:{port}/postgres?sslmode=verify-full"), "TLS"),
    ] {
        let reported = refused(&url).await;
        let database = format!("`{}` at 127.0.0.1:", name_of(url.split('?').next().unwrap()));
        assert!(
            reported.contains(says) && reported.contains(&database) && !reported.contains("geheim"),
            "{url}: {reported}"
        );
    }
}

#[tokio::test]
async fn a_database_that_a_newer_daftar_changed_is_left_unchanged() {
    let server = Server::shared();
    let url = server.create_database();
    PostgresStore::open(options(&url)).await.unwrap().close().await;
    let newer = "INSERT INTO daftar.layout_history SELECT 1000, name, applied_on, checksum FROM daftar.layout_history LIMIT 1; \
         UPDATE daftar.last SET oldest_layout = 1000";
    server.run_sql(name_of(&url), newer);
    let error = PostgresStore::open(options(&url)).await.err().unwrap();
    assert!(matches!(error, OpenError::Newer { found: 1000, .. }), "{error}");
    assert!(error.to_string().contains("use the newer daftar"), "{error}");
}

#[tokio::test]
async fn a_database_from_before_the_first_release_is_rejected_and_left_unchanged() {
    let server = Server::shared();
    let url = server.create_database();
    let before = "CREATE SCHEMA daftar; \
                  CREATE TABLE daftar.schema_history (version int4 PRIMARY KEY, name text, applied_on text, checksum text); \
                  INSERT INTO daftar.schema_history VALUES (1, 'records', '2026-01-01T00:00:00Z', '1'), (7, 'window', '2026-01-01T00:00:00Z', '2'); \
                  CREATE TABLE daftar.last (is_only boolean PRIMARY KEY, register bytea NOT NULL)";
    server.run_sql(name_of(&url), before);
    for _ in 0..2 {
        let error = PostgresStore::open(options(&url)).await.err().unwrap();
        assert!(matches!(error, OpenError::BeforeFirstRelease { .. }), "{error}");
        let reported = error.to_string();
        assert!(reported.starts_with(&format!("the database `{}` at ", name_of(&url))), "{reported}");
        assert!(
            reported.contains("was made before the first release") && reported.contains("`daftar export FILE`"),
            "{reported}"
        );
    }
    let refill = PostgresRefill::open(options(&url)).await.err().unwrap();
    assert!(matches!(refill, OpenError::BeforeFirstRelease { .. }), "{refill}");
    let tables = server.run_sql(name_of(&url), "SELECT count(*) FROM pg_tables WHERE schemaname = 'daftar'");
    assert_eq!(tables.trim(), "2");
}

/// The steps have the same numbers there, but are different.
#[tokio::test]
async fn a_database_of_other_steps_of_the_same_number_is_from_before_the_first_release() {
    let server = Server::shared();
    for other in [
        "UPDATE daftar.layout_history SET checksum = '1' WHERE version = 1",
        "UPDATE daftar.layout_history SET name = 'other' WHERE version = (SELECT max(version) FROM daftar.layout_history)",
        "DELETE FROM daftar.layout_history WHERE version = 2",
        // A database with fewer steps, and one with more.
        "UPDATE daftar.layout_history SET checksum = '1' WHERE version = 1; DELETE FROM daftar.layout_history WHERE version > 1",
        "UPDATE daftar.layout_history SET checksum = '1' WHERE version = 1; \
         INSERT INTO daftar.layout_history SELECT 1000, name, applied_on, checksum FROM daftar.layout_history LIMIT 1",
    ] {
        let url = server.create_database();
        PostgresStore::open(options(&url)).await.unwrap().close().await;
        server.run_sql(name_of(&url), other);
        let history = "SELECT * FROM daftar.layout_history ORDER BY version";
        let before = server.run_sql(name_of(&url), history);
        for error in [
            PostgresStore::open(options(&url)).await.err().unwrap(),
            PostgresStore::open_existing(options(&url)).await.err().unwrap(),
            PostgresStore::prepare(options(&url)).await.err().unwrap(),
        ] {
            assert!(matches!(error, OpenError::BeforeFirstRelease { .. }), "{other}: {error}");
        }
        assert_eq!(server.run_sql(name_of(&url), history), before, "{other}");
    }
}

/// The row is inserted after the tables are created, in another transaction.
#[tokio::test]
async fn a_database_with_tables_but_without_its_row_is_opened_by_the_next_process() {
    let server = Server::shared();
    let url = server.create_database();
    let before = PostgresStore::open(options(&url)).await.unwrap();
    server.run_sql(name_of(&url), "DELETE FROM daftar.last");
    let first = PostgresStore::open(options(&url)).await.unwrap();
    assert_ne!(first.register.0, before.register.0);
    // Another process is about to insert it: the second waits for that.
    let about_to = first.database.link("about to").await.unwrap();
    about_to.client.batch_execute("DELETE FROM daftar.last").await.unwrap();
    about_to.client.execute("SELECT pg_advisory_lock($1)", &[&locks::TABLES]).await.unwrap();
    let put_in = async {
        let waits = "SELECT FROM pg_locks WHERE locktype = 'advisory' AND NOT granted \
                     AND database = (SELECT oid FROM pg_database WHERE datname = current_database())";
        while about_to.client.query(waits, &[]).await.unwrap().is_empty() {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
        let row = "INSERT INTO daftar.last (register) VALUES ($1)";
        about_to.client.execute(row, &[&[7_u8; 16].as_slice()]).await.unwrap();
        about_to.client.execute("SELECT pg_advisory_unlock($1)", &[&locks::TABLES]).await.unwrap();
    };
    let opened = async { tokio::join!(PostgresStore::open(options(&url)), put_in).0 };
    let opened = tokio::time::timeout(Duration::from_secs(30), opened).await.expect("it waits for the lock").unwrap();
    assert_eq!(opened.register.0, [7; 16]);
}

#[tokio::test]
async fn a_register_that_lost_its_row_is_not_initialized_again() {
    let server = Server::shared();
    let url = server.create_database();
    let store = PostgresStore::open(options(&url)).await.unwrap();
    store.append_audit(vec![audit_entry("before")]).await.unwrap();
    store.close().await;
    server.run_sql(name_of(&url), "DELETE FROM daftar.last");
    let reported = refused(&url).await;
    assert!(reported.contains("has lost its row: restore the database from a backup"), "{reported}");
}

/// On every connection: a host that disappears holds no lock for longer.
#[tokio::test]
async fn the_server_detects_a_lost_host_soon() {
    let server = Server::shared();
    let store = PostgresStore::open(options(&server.create_database())).await.unwrap();
    let requested = "SELECT current_setting('tcp_keepalives_idle'), current_setting('tcp_keepalives_interval'), \
                 current_setting('tcp_keepalives_count'), current_setting('tcp_user_timeout')";
    let link = store.database.link("link").await.unwrap();
    for row in [
        store.database.query_opt(requested, &[]).await.unwrap().unwrap(),
        store.database.search(requested, &[]).await.unwrap().pop().unwrap(),
        store.database.writer().await.unwrap().query(requested, &[]).await.unwrap().pop().unwrap(),
        link.client.query_one(requested, &[]).await.unwrap(),
    ] {
        assert_eq!([0, 1, 2, 3].map(|at| row.get::<_, String>(at)), ["10", "5", "3", "30000"]);
    }
}

#[tokio::test]
async fn the_error_for_a_role_without_the_right_to_create_tables_names_the_right() {
    let server = Server::shared();
    let url = server.create_database();
    let role = format!("guest_of_{}", name_of(&url));
    server.run_sql("postgres", &format!("CREATE ROLE {role} LOGIN"));
    let reported = refused(&url.replace(&format!("{}@", server.role()), &format!("{role}@"))).await;
    assert!(reported.contains("GRANT CREATE ON DATABASE"), "{reported}");
    // A role that owns the schema requires no more than that.
    server.run_sql(name_of(&url), &format!("CREATE SCHEMA daftar AUTHORIZATION {role}"));
    PostgresStore::open(options(&url.replace(&format!("{}@", server.role()), &format!("{role}@")))).await.unwrap();
}

#[tokio::test]
async fn tls_connects_only_to_a_server_with_a_trusted_certificate() {
    let key = rcgen::KeyPair::generate().unwrap();
    let certificate = |name: &str| {
        let parameters = rcgen::CertificateParams::new([name.to_owned()]).unwrap();
        parameters.self_signed(&key).unwrap().pem()
    };
    let server = Server::start(&[]);
    let file = |name: &str, text: &str| {
        let path = server.folder().join(name);
        std::fs::write(&path, text).unwrap();
        // The server rejects a key that others may read.
        std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o600)).unwrap();
        server.hand_over(&path);
        path.display().to_string()
    };
    let (cert, private) = (file("server.crt", &certificate("localhost")), file("server.key", &key.serialize_pem()));
    for (name, value) in [("ssl_cert_file", cert.as_str()), ("ssl_key_file", private.as_str()), ("ssl", "on")] {
        server.run_sql("postgres", &format!("ALTER SYSTEM SET {name} = '{value}'"));
    }
    server.stop(Stop::Fast);
    server.start_again();
    let url = server.create_database();
    let folder = tempfile::TempDir::new().unwrap();
    let trusted = |text: String| {
        let path = folder.path().join("ca.pem");
        std::fs::write(&path, text).unwrap();
        Some(path)
    };
    let with = |host: &str, ca_file| PostgresOptions {
        ca_file,
        ..options(&format!("{}?sslmode=verify-full", url.replace("127.0.0.1", host)))
    };
    let store = PostgresStore::open(with("localhost", trusted(certificate("localhost")))).await.unwrap();
    let rows = store.database.query("SELECT ssl FROM pg_stat_ssl WHERE pid = pg_backend_pid()", &[]).await.unwrap();
    assert!(rows[0].get::<_, bool>(0));
    let other = rcgen::KeyPair::generate().unwrap();
    let untrusted = rcgen::CertificateParams::new(["localhost".to_owned()]).unwrap().self_signed(&other).unwrap().pem();
    for (host, ca, says) in [
        ("127.0.0.1", trusted(certificate("localhost")), "certificate"),
        ("localhost", trusted(untrusted), "certificate"),
        ("localhost", trusted("no certificate".to_owned()), "holds no certificate"),
        ("localhost", Some(folder.path().join("absent.pem")), "cannot be read"),
    ] {
        let reported = PostgresStore::open(with(host, ca)).await.err().unwrap().to_string();
        assert!(reported.contains(says), "{host}: {reported}");
    }
}

#[tokio::test]
async fn an_existing_register_is_opened_without_creating_tables() {
    let url = Server::shared().create_database();
    let refused = PostgresStore::open_existing(options(&url)).await.map(drop).unwrap_err().to_string();
    assert!(refused.contains("there is no register in it"), "{refused}");
    let (client, connection) = tokio_postgres::connect(&url, tokio_postgres::NoTls).await.unwrap();
    let _connection = tokio::spawn(connection);
    let made = client.query_one("SELECT to_regnamespace('daftar') IS NULL", &[]).await.unwrap();
    assert!(made.get::<_, bool>(0), "nothing was created");
    PostgresStore::open(options(&url)).await.unwrap().close().await;
    PostgresStore::open_existing(options(&url)).await.unwrap().close().await;
}

/// A pooler between a store and its database: it drops session options or, like PgBouncer by default, rejects them.
async fn pooler(to: u16, refuses: bool) -> u16 {
    use tokio::io::{AsyncReadExt, AsyncWriteExt};
    let listener = tokio::net::TcpListener::bind((std::net::Ipv4Addr::LOCALHOST, 0)).await.unwrap();
    let port = listener.local_addr().unwrap().port();
    tokio::spawn(async move {
        while let Ok((mut client, _)) = listener.accept().await {
            tokio::spawn(async move {
                let length = client.read_u32().await.unwrap() as usize;
                let mut startup = vec![0; length - 4];
                client.read_exact(&mut startup).await.unwrap();
                if refuses {
                    let fields = b"SFATAL\0C08P01\0Munsupported startup parameter: options\0\0";
                    let mut error = vec![b'E'];
                    error.extend((fields.len() as u32 + 4).to_be_bytes());
                    error.extend(fields);
                    client.write_all(&error).await.unwrap();
                    return;
                }
                let (version, pairs) = startup.split_at(4);
                let texts: Vec<&[u8]> = pairs.split(|byte| *byte == 0).collect();
                let stored =
                    texts.chunks(2).filter(|pair| pair.len() == 2 && !pair[0].is_empty() && pair[0] != b"options");
                let mut passed = version.to_vec();
                stored.flatten().for_each(|text| passed.extend([text, b"\0".as_slice()].concat()));
                passed.push(0);
                let mut server = tokio::net::TcpStream::connect((std::net::Ipv4Addr::LOCALHOST, to)).await.unwrap();
                server.write_u32(passed.len() as u32 + 4).await.unwrap();
                server.write_all(&passed).await.unwrap();
                let _ended = tokio::io::copy_bidirectional(&mut client, &mut server).await;
            });
        }
    });
    port
}

#[tokio::test]
async fn a_pooler_that_drops_or_rejects_session_options_is_named() {
    let server = Server::shared();
    let url = server.create_database();
    for refuses in [false, true] {
        let port = pooler(server.port(), refuses).await;
        let error =
            PostgresStore::open(options(&url.replace(&format!(":{}/", server.port()), &format!(":{port}/")))).await;
        let error = error.err().expect("it is not opened");
        assert!(matches!(error, OpenError::Pooled { .. }), "{error}");
        assert!(error.to_string().contains("name PostgreSQL itself"), "{error}");
    }
}
