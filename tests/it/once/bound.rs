//! Number of stored idempotency keys of a client.

use daftar_tests::records::person;
use daftar_tests::{ApiClient, Response, TestApp};
use serde_json::{Value, json};

use super::{DAY_S, is_replay, people, send};

/// A register that stores this number of keys of a client, and a client.
fn register(bound: u64) -> (TestApp, ApiClient) {
    let app = TestApp::builder().config(|config| config.server.idempotency_keys_max = bound).start();
    let client = app.client(&["individual:all"]);
    (app, client)
}

fn create(client: &ApiClient, key: &str) -> Response {
    send(client, "/Individual", key, &person(key, json!({})))
}

#[track_caller]
fn assert_refused(refused: Response, (bound, remembered, more): (u64, u64, &str)) {
    let refused = refused.expect(409);
    assert_eq!(refused.code(), "idempotency_keys_exhausted");
    let detail = refused.detail();
    let reported = format!(
        "at most {bound} requests of a client are remembered by their `Idempotency-Key`, {remembered} of this client are, and it would be {more} more: send it without a key, or wait until the oldest are a day old"
    );
    assert_eq!(detail, reported);
}

#[test]
fn one_more_than_the_bound_is_refused_and_nothing_of_it_done() {
    for bound in [1, 3] {
        let (mut app, client) = register(bound);
        for number in 1..=bound {
            drop(create(&client, &number.to_string()).expect(201));
        }
        assert_refused(create(&client, "more"), (bound, bound, "one"));
        assert_eq!(people(&client), bound as i64);
        assert!(is_replay(&create(&client, "1").expect(201)), "what is remembered is answered");
        drop(create(&app.client(&["individual:all"]), "other").expect(201));
        drop(client.post("/Individual", &person("without", json!({}))).expect(201));
        app.restart();
        assert_refused(create(&client, "more"), (bound, bound, "one"));
    }
}

#[test]
fn there_is_room_again_when_the_oldest_are_a_day_old() {
    let (app, client) = register(2);
    drop(create(&client, "1").expect(201));
    app.advance_seconds(120);
    drop(create(&client, "2").expect(201));
    assert_refused(create(&client, "3"), (2, 2, "one"));
    app.advance_seconds(DAY_S - 121);
    let client = app.client_of(client.credentials());
    assert_refused(create(&client, "3"), (2, 2, "one"));
    app.advance_seconds(61);
    drop(create(&client, "3").expect(201));
    assert_refused(create(&client, "4"), (2, 2, "one"));
    assert!(is_replay(&create(&client, "2").expect(201)));
}

#[test]
fn each_write_of_a_batch_counts_and_a_transaction_is_one() {
    let (_app, client) = register(3);
    let entry =
        |id: &str| json!({"request": {"method": "POST", "url": "Individual"}, "resource": person(id, json!({}))});
    let read = json!({"request": {"method": "GET", "url": "Individual?_count=1"}});
    let submit = |kind: &str, key: &str, entries: &[Value]| {
        send(&client, "/$batch", key, &json!({"type": kind, "entry": entries}))
    };
    let four: Vec<Value> = ["1", "2", "3", "4"].map(entry).into();
    assert_refused(submit("batch", "a", &four), (3, 0, "4"));
    assert_eq!(people(&client), 0);
    drop(submit("transaction", "a", &four).expect(200));
    assert_refused(submit("batch", "b", &["5", "6", "7"].map(entry)), (3, 1, "3"));
    let two = [entry("5"), read, entry("6")];
    drop(submit("batch", "b", &two).expect(200));
    assert_eq!(people(&client), 6);
    assert_refused(create(&client, "7"), (3, 3, "one"));
    drop(submit("batch", "b", &two).expect(200));
    assert_eq!(people(&client), 6, "sent again it takes no more room");
}
