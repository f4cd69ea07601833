//! A replayed response is returned only if the client is still authorized.

use daftar_tests::records::{path, person};
use daftar_tests::{TestApp, errors};
use serde_json::json;

use super::{is_replay, send};

#[test]
fn without_the_scope_nothing_is_answered_again() {
    let app = TestApp::start();
    let client = app.client(&["individual:read", "individual:create", "individual:update"]);
    drop(client.create_individual(&person("1", json!({}))));
    let create =
        |id: &str| json!({"request": {"method": "POST", "url": "individuals"}, "resource": person(id, json!({}))});
    let patch = json!({"request": {"method": "PATCH", "url": path("Individual", "1")}, "resource": {"active": true}});
    let batch = json!({"type": "batch", "entry": [create("2"), patch]});
    let transaction = json!({"type": "transaction", "entry": [patch, create("3")]});
    let calls = [("/Individual", person("4", json!({}))), ("/$batch", batch), ("/$batch", transaction)];
    for (at, (target, body)) in calls.iter().enumerate() {
        assert!(send(&client, target, &at.to_string(), body).status < 300);
    }
    app.admin().revoke(client.id(), "individual:create");
    let again = |at: usize| send(&client, calls[at].0, &at.to_string(), &calls[at].1);
    let missing = "Missing required scope individual:create. Granted: individual:read individual:update";
    assert_eq!(again(0).expect(403).detail(), missing);
    let entries = again(1).expect(200).json()["entry"].take();
    assert_eq!((&entries[0]["response"]["status"], &entries[0]["problem"]["detail"]), (&json!(403), &json!(missing)));
    assert!(entries[0].get("resource").is_none(), "{entries}");
    assert_eq!((&entries[1]["response"]["status"], &entries[1]["response"]["etag"]), (&json!(200), &json!("\"2\"")));
    let refused = again(2).expect(422);
    assert_eq!(refused.detail(), format!("entry[1]: {missing}; the transaction was made when it was sent before"));
    assert_eq!(errors(&refused.json()), [("entry[1]".to_owned(), "missing_scope".to_owned())]);
    assert!(!is_replay(&refused));
    let id = refused.header("x-request-id").unwrap();
    let lines = app.admin().get(&format!("/audit?request_id={id}")).expect(200).json()["data"].take();
    let outcomes: Vec<_> = lines.as_array().unwrap().iter().map(|line| line["outcome"].as_str().unwrap()).collect();
    assert!(!outcomes.is_empty() && outcomes.iter().all(|outcome| *outcome == "refused"), "{lines}");
    // With the scope it is as before.
    let granted = json!({"scope": "individual:create"});
    drop(app.admin().request("POST", &format!("/clients/{}/grants", client.id())).json(&granted).send().expect(200));
    for at in 0..3 {
        assert!(again(at).status < 300, "{at}");
    }
    assert_eq!(client.get("/Individual?_count=1").expect(200).json()["total"], 4, "nothing was done twice");
}
