//! HTTPS: versions, protocols, certificates that change.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use daftar::config::{Config, ConnectionsConfig};
use daftar_tests::process::{Server, run};
use daftar_tests::{Response, TestApp};
use rustix::process::{Signal, kill_process};
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, ServerName};
use rustls::{ClientConfig, ClientConnection, RootCertStore, StreamOwned, SupportedProtocolVersion};

use super::http2::{get, runtime, socket, speak};

type Stream = StreamOwned<ClientConnection, TcpStream>;

/// Puts a new certificate and its key into a folder, each atomically; returns the certificate.
fn renew(folder: &Path) -> CertificateDer<'static> {
    let pair = rcgen::generate_simple_self_signed(["localhost".to_owned()]).unwrap();
    for (name, text) in [("key.pem", pair.signing_key.serialize_pem()), ("cert.pem", pair.cert.pem())] {
        let new = folder.join("new");
        std::fs::write(&new, text).unwrap();
        std::fs::rename(new, folder.join(name)).unwrap();
    }
    CertificateDer::from_pem_slice(pair.cert.pem().as_bytes()).unwrap()
}

fn settings(folder: &Path, more: &str) -> String {
    let path = |name: &str| folder.join(name).to_str().unwrap().to_owned();
    format!("[server.tls]\ncert = '{}'\nkey = '{}'\n{more}\n", path("cert.pem"), path("key.pem"))
}

struct Https {
    app: TestApp,
    root: CertificateDer<'static>,
    _folder: tempfile::TempDir,
}

impl Https {
    fn start(more: &str) -> Self {
        Self::start_changed(more, |_| ())
    }

    fn start_changed(more: &str, change: impl FnOnce(&mut ConnectionsConfig)) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let root = renew(folder.path());
        let tls = Config::parse(&settings(folder.path(), more)).unwrap().server.tls;
        let app = TestApp::builder().config(|config| {
            config.server.tls = tls;
            change(&mut config.server.connections);
        });
        Self { app: app.start(), root, _folder: folder }
    }

    fn server(&self) -> SocketAddr {
        self.app.anonymous().url().trim_start_matches("http://").parse().unwrap()
    }
}

fn client(
    root: &CertificateDer<'static>,
    versions: &[&'static SupportedProtocolVersion],
    protocols: &[&str],
) -> Arc<ClientConfig> {
    let mut roots = RootCertStore::empty();
    roots.add(root.clone()).unwrap();
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let builder = ClientConfig::builder_with_provider(provider).with_protocol_versions(versions).unwrap();
    let mut config = builder.with_root_certificates(roots).with_no_client_auth();
    config.alpn_protocols = protocols.iter().map(|protocol| protocol.as_bytes().to_vec()).collect();
    Arc::new(config)
}

fn connect(server: SocketAddr, config: &Arc<ClientConfig>) -> std::io::Result<Stream> {
    let name = ServerName::try_from("localhost").unwrap();
    let stream = TcpStream::connect(server)?;
    stream.set_read_timeout(Some(Duration::from_secs(60)))?;
    let mut stream = StreamOwned::new(ClientConnection::new(Arc::clone(config), name).unwrap(), stream);
    while stream.conn.is_handshaking() {
        stream.conn.complete_io(&mut stream.sock)?;
    }
    Ok(stream)
}

fn ask(stream: &mut Stream, path: &str) -> Response {
    let request = format!("GET {path} HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n");
    stream.write_all(request.as_bytes()).unwrap();
    let mut response = Vec::new();
    stream.read_to_end(&mut response).unwrap();
    Response::parse(&response)
}

#[test]
fn tls_1_2_and_1_3_are_supported_and_hsts_is_sent() {
    let https = Https::start("");
    for version in [&rustls::version::TLS12, &rustls::version::TLS13] {
        let config = client(&https.root, &[version], &[]);
        let mut stream = connect(https.server(), &config).unwrap();
        assert_eq!(stream.conn.protocol_version(), Some(version.version));
        let response = ask(&mut stream, "/health/live").expect(200);
        assert_eq!(response.header("strict-transport-security"), Some("max-age=31536000"));
        assert_eq!(response.header("x-content-type-options"), Some("nosniff"));
        let mut stream = connect(https.server(), &config).unwrap();
        let refused = ask(&mut stream, "/api/v2/Individual").expect(401);
        assert_eq!(refused.header("strict-transport-security"), Some("max-age=31536000"), "errors as well");
    }
    let page = https.app.admin_listener().request("GET", "/metrics").bearer(https.app.admin().token()).send();
    let page = page.expect(200).text();
    assert!(page.contains("daftar_tls_certificate_expiry_timestamp_seconds "), "{page}");
    assert!(page.contains("daftar_tls_certificate_stale 0"), "{page}");
}

#[test]
fn tls_1_1_is_refused_by_name() {
    let https = Https::start("");
    // Handshake of a client limited to older versions (RFC 4346): cipher suites of that time, and its signature
    // algorithms.
    let suites = [0xc0, 0x14, 0xc0, 0x13, 0x00, 0x35, 0x00, 0x2f];
    for minor in [1_u8, 2] {
        let mut hello = vec![3, minor];
        hello.extend([7; 32]);
        hello.extend([0, 0, u8::try_from(suites.len()).unwrap()]);
        hello.extend(suites);
        hello.extend([1, 0]);
        hello.extend([0, 8, 0, 13, 0, 4, 0, 2, 4, 3]);
        let length = u8::try_from(hello.len()).unwrap();
        let mut record = vec![22, 3, 1, 0, length + 4, 1, 0, 0, length];
        record.extend(hello);
        let mut stream = TcpStream::connect(https.server()).unwrap();
        stream.write_all(&record).unwrap();
        let mut response = Vec::new();
        let _is_orderly = stream.read_to_end(&mut response).is_ok();
        // A fatal alert: protocol_version (RFC 8446, section 6.2).
        assert_eq!(
            (response[0], &response[response.len() - 2..]),
            (21, &[2, 70][..]),
            "TLS 1.{}: {response:?}",
            minor - 1
        );
    }
}

#[test]
fn http2_and_http1_are_negotiated() {
    let https = Https::start("");
    let both = [&rustls::version::TLS13, &rustls::version::TLS12];
    for (offered, chosen) in [(&["h2", "http/1.1"][..], "h2"), (&["http/1.1", "h2"], "h2"), (&["http/1.1"], "http/1.1")]
    {
        let stream = connect(https.server(), &client(&https.root, &both, offered)).unwrap();
        assert_eq!(stream.conn.alpn_protocol(), Some(chosen.as_bytes()), "{offered:?}");
    }
    assert!(connect(https.server(), &client(&https.root, &both, &["spdy/1"])).is_err(), "nothing in common");
    runtime().block_on(async {
        let connector = tokio_rustls::TlsConnector::from(client(&https.root, &both, &["h2"]));
        let stream = socket(&https.app.anonymous(), https.server()).await;
        let name = ServerName::try_from("localhost").unwrap();
        let client = speak(connector.connect(name, stream).await.unwrap()).await;
        let (status, headers, body) = get(&client, "/health/live", &[]).await.unwrap();
        assert_eq!((status, body.as_slice()), (200, &b"ok\n"[..]));
        assert_eq!(headers["strict-transport-security"], "max-age=31536000");
        let (status, headers, _) = get(&client, "/api/v2/Individual", &[]).await.unwrap();
        assert_eq!(status, 401);
        assert!(!headers.contains_key("server") && headers.contains_key("www-authenticate"));
    });
}

#[test]
fn a_handshake_that_does_not_come_to_its_end_ends_the_connection() {
    let https = Https::start("handshake_timeout_ms = 1000");
    for begun in [&b""[..], b"\x16\x03\x01\x02\x00\x01", b"GET / HTTP/1.1\r\n\r\n"] {
        let mut stream = TcpStream::connect(https.server()).unwrap();
        stream.write_all(begun).unwrap();
        let mut response = Vec::new();
        let _is_orderly = stream.read_to_end(&mut response).is_ok();
        assert!(!response.starts_with(b"HTTP/"), "{response:?}");
    }
    let config = client(&https.root, &[&rustls::version::TLS13], &[]);
    assert_eq!(ask(&mut connect(https.server(), &config).unwrap(), "/health/live").status, 200);
}

#[test]
fn a_connection_without_a_slot_speaks_http_1_1_inside_and_has_two_seconds_for_its_handshake() {
    let https = Https::start_changed("handshake_timeout_ms = 60000", |connections| connections.per_address_max = 1);
    let both = client(&https.root, &[&rustls::version::TLS13], &["h2", "http/1.1"]);
    let served = connect(https.server(), &both).unwrap();
    assert_eq!(served.conn.alpn_protocol(), Some(&b"h2"[..]));
    let mut reported = connect(https.server(), &both).unwrap();
    assert_eq!(reported.conn.alpn_protocol(), Some(&b"http/1.1"[..]));
    assert_eq!(ask(&mut reported, "/health/live").expect(200).text(), "ok\n");
    assert_eq!(ask(&mut connect(https.server(), &both).unwrap(), "/metadata").status, 503);
    let mut silent = TcpStream::connect(https.server()).unwrap();
    silent.set_read_timeout(Some(Duration::from_secs(30))).unwrap();
    let mut nothing = Vec::new();
    silent.read_to_end(&mut nothing).expect("it is closed long before a handshake may take");
    assert_eq!(nothing, b"");
}

/// Tests whether a server presents that certificate.
fn shows(server: SocketAddr, certificate: &CertificateDer<'static>) -> bool {
    let config = client(certificate, &[&rustls::version::TLS13], &[]);
    connect(server, &config).is_ok_and(|stream| stream.conn.peer_certificates().unwrap()[0] == *certificate)
}

#[test]
fn a_renewed_certificate_is_taken_while_the_server_runs_and_a_broken_one_is_not() {
    let folder = tempfile::tempdir().unwrap();
    let first = renew(folder.path());
    let config = folder.path().join("daftar.toml");
    // The file is not watched: the test triggers the check.
    std::fs::write(&config, settings(folder.path(), "check_every_s = 86400")).unwrap();
    let server = Server::serve(&folder.path().join("data"), &["--config", config.to_str().unwrap()]);
    let address: SocketAddr = server.url.trim_start_matches("https://").parse().unwrap();
    assert!(shows(address, &first));
    let mut stored = connect(address, &client(&first, &[&rustls::version::TLS13], &[])).unwrap();

    let second = renew(folder.path());
    kill_process(server.id(), Signal::HUP).unwrap();
    while !shows(address, &second) {}
    assert_eq!(ask(&mut stored, "/health/live").status, 200, "an open connection stays usable");

    std::fs::write(folder.path().join("cert.pem"), "-----BEGIN CERTIFICATE-----\nbroken").unwrap();
    kill_process(server.id(), Signal::HUP).unwrap();
    let look = || run(&folder.path().join("data"), &["doctor", "--json"]).stdout;
    while !look().contains("the files hold another certificate than the one in use") {}
    assert!(shows(address, &second));
    let third = renew(folder.path());
    kill_process(server.id(), Signal::HUP).unwrap();
    while !shows(address, &third) {}
    let log = server.stop().expect_success().stderr;
    assert!(log.contains("the certificate was taken from its files"), "{log}");
    assert!(!log.contains("BEGIN"), "{log}");
}

#[test]
fn a_request_to_reload_does_not_end_a_server_without_a_certificate() {
    let folder = tempfile::tempdir().unwrap();
    let data = folder.path().join("data");
    let server = Server::serve(&data, &[]);
    kill_process(server.id(), Signal::HUP).unwrap();
    let _ready = run(&data, &["health"]).expect_success();
    let log = server.stop().expect_success().stderr;
    assert!(log.contains("SIGHUP reads the certificate again, and this server has none"), "{log}");
}

#[test]
fn changed_certificate_files_are_detected_without_a_signal() {
    let folder = tempfile::tempdir().unwrap();
    let first = renew(folder.path());
    let config = folder.path().join("daftar.toml");
    std::fs::write(&config, settings(folder.path(), "check_every_s = 1")).unwrap();
    let server = Server::serve(&folder.path().join("data"), &["--config", config.to_str().unwrap()]);
    let address: SocketAddr = server.url.trim_start_matches("https://").parse().unwrap();
    assert!(shows(address, &first));
    let second = renew(folder.path());
    while !shows(address, &second) {}
    drop(server.stop().expect_success());
}
