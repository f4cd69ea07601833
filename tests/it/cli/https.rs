//! HTTPS from certificate files.

use std::sync::Arc;

use daftar_tests::Server;
use ureq::tls::{Certificate, RootCerts, TlsConfig};

#[test]
fn https_is_served_from_certificate_files() {
    let folder = tempfile::tempdir().unwrap();
    let pair = rcgen::generate_simple_self_signed(["localhost".to_owned(), "127.0.0.1".to_owned()]).unwrap();
    let write = |name: &str, text: String| {
        let path = folder.path().join(name);
        std::fs::write(&path, text).unwrap();
        path.to_str().unwrap().to_owned()
    };
    let cert = write("cert.pem", pair.cert.pem());
    let key = write("key.pem", pair.signing_key.serialize_pem());
    let config = write("daftar.toml", format!("[server.tls]\ncert = '{cert}'\nkey = '{key}'\n"));
    let server = Server::serve(&folder.path().join("data"), &["--config", &config]);
    assert!(server.url.starts_with("https://127.0.0.1:"), "{}", server.url);

    let root = Certificate::from_pem(pair.cert.pem().as_bytes()).unwrap().to_owned();
    let agent = |roots: &[Certificate<'static>]| -> ureq::Agent {
        let tls = TlsConfig::builder()
            .root_certs(RootCerts::new_with_certs(roots))
            .unversioned_rustls_crypto_provider(Arc::new(rustls::crypto::ring::default_provider()))
            .build();
        ureq::Agent::config_builder().tls_config(tls).http_status_as_error(false).build().into()
    };
    let trusting = agent(&[root]);
    let metadata = format!("{}/.well-known/oauth-authorization-server", server.url);
    let mut answer = trusting.get(&metadata).call().unwrap();
    assert_eq!(answer.status(), 200);
    let described: serde_json::Value = answer.body_mut().read_json().unwrap();
    assert_eq!(described["issuer"], server.url);
    assert_eq!(trusting.get(format!("{}/api/v2/Individual", server.url)).call().unwrap().status(), 401);

    assert!(agent(&[]).get(&metadata).call().is_err(), "who does not trust the certificate gets no answer");
    let plain = server.connection().exchange(b"GET /health/live HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n");
    assert!(!plain.starts_with(b"HTTP/"), "plain HTTP is not spoken on this port");
    drop(server.stop().expect_success());
}

#[test]
fn a_certificate_that_cannot_be_used_is_named() {
    let folder = tempfile::tempdir().unwrap();
    let config = folder.path().join("daftar.toml");
    std::fs::write(&config, "[server.tls]\ncert = '/nowhere/cert.pem'\nkey = '/nowhere/key.pem'\n").unwrap();
    let arguments = ["serve", "--listen", "127.0.0.1:0", "--admin-listen", "127.0.0.1:0", "--config"];
    let refused = daftar_tests::process::run(
        &folder.path().join("data"),
        &[&arguments[..], &[config.to_str().unwrap()]].concat(),
    );
    assert_eq!(refused.code, 1, "{refused:?}");
    assert!(refused.stderr.contains("/nowhere/cert.pem"), "{refused:?}");
}
