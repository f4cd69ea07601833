//! A server that is killed: acknowledged writes are present when it starts again.

use daftar_tests::process::create_client;
use daftar_tests::records::{FEMALE, path, person};
use daftar_tests::{Server, token};
use serde_json::json;

#[test]
fn every_acknowledged_write_outlives_a_kill() {
    let folder = tempfile::tempdir().unwrap();
    let data_dir = folder.path().join("data");
    let mut server = Server::serve(&data_dir, &[]);
    let credentials = create_client(&data_dir, &["individual:all"]);
    let mut written = 0;
    for round in 0..3 {
        let connection = server.connection();
        let token = token::fetch(&connection, &credentials);
        for _ in 0..20 {
            let body = person(&written.to_string(), json!({"gender": FEMALE}));
            let request = connection.request("POST", "/api/v2/Individual").bearer(&token);
            assert_eq!(request.json(&body).send().status, 201);
            written += 1;
        }
        server.kill();
        assert!(data_dir.join("server.json").exists(), "nothing was cleaned up");
        server = Server::serve(&data_dir, &[]);
        let connection = server.connection();
        let call = |path: &str| connection.request("GET", &format!("/api/v2{path}")).bearer(&token).send();
        let found = call("/Individual?gender=urn:iso:std:iso:5218%232&_count=1").expect(200).json();
        assert_eq!(found["total"], written, "after kill {round}");
        for id in 0..written {
            assert_eq!(call(&path("Individual", &id.to_string())).status, 200, "{id} after kill {round}");
        }
    }
    drop(server.stop().expect_success());
}
