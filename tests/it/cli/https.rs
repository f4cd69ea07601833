//! HTTPS from certificate files.

use std::sync::Arc;
use std::sync::atomic::AtomicU16;

use daftar_tests::process::{command, run};
use daftar_tests::{Connection, Server, artifacts, template};
use serde_json::{Value, json};
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
    let mut response = trusting.get(&metadata).call().unwrap();
    assert_eq!(response.status(), 200);
    let described: serde_json::Value = response.body_mut().read_json().unwrap();
    assert_eq!(described["issuer"], server.url);
    assert_eq!(trusting.get(format!("{}/api/v2/Individual", server.url)).call().unwrap().status(), 401);

    assert!(agent(&[]).get(&metadata).call().is_err(), "who does not trust the certificate gets no answer");
    let plain = server.connection().exchange(b"GET /health/live HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n");
    assert!(!plain.starts_with(b"HTTP/"), "plain HTTP is not spoken on this port");
    drop(server.stop().expect_success());
}

#[test]
fn the_admin_listener_leaves_the_machine_by_https_and_the_commands_here_need_no_certificate() {
    let folder = tempfile::tempdir().unwrap();
    let pair = rcgen::generate_simple_self_signed(["127.0.0.1".to_owned()]).unwrap();
    let write = |name: &str, text: String| {
        let path = folder.path().join(name);
        std::fs::write(&path, text).unwrap();
        path.to_str().unwrap().to_owned()
    };
    let cert = write("cert.pem", pair.cert.pem());
    let key = write("key.pem", pair.signing_key.serialize_pem());
    let config = write("daftar.toml", format!("[server.tls]\ncert = '{cert}'\nkey = '{key}'\n"));
    let data_dir = folder.path().join("data");
    template::copy_compiled_to(&data_dir);
    let mut command = command(&data_dir, &["serve", "--json", "--config", &config, "--listen", "127.0.0.1:0"]);
    command.args(["--admin-listen", "0.0.0.0:0", "--plugins"]).arg(artifacts::plugins());
    let mut server = Server::begin(command);
    let ready: Value = serde_json::from_str(&server.next_line().unwrap()).unwrap();
    assert!(ready["listening_on"].as_str().unwrap().starts_with("https://127.0.0.1:"), "{ready}");
    let offered = ready["admin_on"].as_str().unwrap();
    assert!(offered.starts_with("https://0.0.0.0:"), "{ready}");
    let url = offered.replace("0.0.0.0", "127.0.0.1");

    assert_eq!(run(&data_dir, &["client", "list", "--json"]).expect_success().json(), json!({"data": []}));
    let token = data_dir.join("admin.token");
    let distant = |more: &[&str]| {
        let arguments =
            ["client", "list", "--json", "--admin-url", &url, "--admin-token-file", token.to_str().unwrap()];
        run(&folder.path().join("elsewhere"), &[&arguments[..], more].concat())
    };
    assert_eq!(distant(&["--admin-ca", &cert]).expect_success().json(), json!({"data": []}));
    for (more, what, code) in [
        (&["--admin-ca", &key][..], "there is no certificate in", 66),
        (&["--admin-ca", "/nowhere/ca.pem"], "cannot read `/nowhere/ca.pem`", 66),
        (&[], "certificate", 69),
    ] {
        let refused = distant(more);
        assert!(refused.code == code && refused.stderr.contains(what), "{refused:?}");
    }
    let port = url.rsplit(':').next().unwrap().parse().unwrap();
    let plain = Connection::new(Arc::new(AtomicU16::new(port)));
    let plain = plain.exchange(b"GET /admin/v1/clients HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n");
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
    assert_eq!(refused.code, 78, "{refused:?}");
    assert!(refused.stderr.contains("/nowhere/cert.pem"), "{refused:?}");
}
