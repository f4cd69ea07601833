//! What is left of a client's tokens when its secret is changed.

use daftar_tests::{TestApp, token};

#[test]
fn a_token_taken_while_the_secret_is_being_rotated_does_not_outlive_the_rotation() {
    let app = TestApp::start();
    let (admin, client) = (app.admin(), app.client(&["individual:read"]));
    assert_eq!(client.get("/Individual").status, 200);
    let mut taken = None;
    let head = format!(
        "POST /admin/v1/clients/{}/rotate-secret HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer {}\r\nContent-Type: application/json\r\n",
        client.id(),
        admin.token()
    );
    let rotated = app.admin_listener().exchange_slowly(&head, "{}", || {
        app.advance_seconds(5);
        taken = Some(token::fetch(&app.anonymous(), client.credentials()));
    });
    drop(rotated.expect(200));
    let taken = taken.unwrap();
    let call = || app.anonymous().request("GET", "/api/v2/Individual").bearer(&taken).send();
    assert_eq!(call().expect(401).detail(), "the access token has expired: get a new one");
    admin.disable(client.id());
    admin.enable(client.id());
    assert_eq!(call().status, 401);
    assert_eq!(client.get("/Individual").status, 401);
}
