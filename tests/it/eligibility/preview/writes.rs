//! A preview reads one snapshot: concurrent writes do not change it, and the next one reads all of them.

use daftar_tests::records::{FEMALE, MALE, household, path, person, with};
use daftar_tests::{ApiClient, Held, Request, TestApp};
use serde_json::{Value, json};

use super::{preview, register};

/// Rules that read a column, records, both, and households; and one whose values are texts, lists and codes of lists.
const RULES: [&str; 6] = [
    "is_female(me)",
    "me.address.exists(a, a.region == 'Nord-Est')",
    "me.name.family == 'Before' || me.languages.size() > 0",
    "members.exists(m, m.name.family == 'Before')",
    "members.size() == 3",
    "programs.size() == 0",
];

fn body(rule: &str) -> Value {
    json!({"expression": rule, "sample": 100, "as_of": "2026-03-01"})
}

fn streamed(client: &ApiClient, rule: &str) -> Request {
    client.request("POST", "/Eligibility/$preview").header("Accept", "application/x-ndjson").json(&body(rule))
}

/// Keeps the threads of previews busy for a while, so that later ones have to wait. The assertions hold without it as
/// well.
fn occupy(client: &ApiClient) -> Vec<Held> {
    let list = "[1,2,3,4,5,6,7,8,9,10]";
    let inner = (0..5).fold("me.active".to_owned(), |inner, level| format!("{list}.all(x{level}, {inner})"));
    (0..3)
        .map(|number| streamed(client, &format!("{}{inner}", " ".repeat(number))).hold_after("\"progress\""))
        .collect()
}

fn replace(client: &ApiClient, resource: &str, id: &str, body: &Value) {
    let at = client.get(&path(resource, id)).expect(200);
    let etag = at.header("etag").unwrap().to_owned();
    drop(client.request("PUT", &path(resource, id)).header("If-Match", etag).json(body).send().expect(200));
}

/// Changes all data that the rules read: people, households, and which people exist.
fn change(client: &ApiClient) {
    let changed = json!({
        "gender": FEMALE, "name": {"family": "After"}, "address": [{"region": "Nord-Est"}, {"region": "Île"}],
        "languages": ["urn:iso:std:iso:639#fr"],
    });
    for number in 0..12 {
        replace(client, "Individual", &number.to_string(), &person(&number.to_string(), changed.clone()));
        // Again in the same millisecond: the clock of the tests does not advance.
        let gender = if number % 2 == 0 { FEMALE } else { MALE };
        let again = with(changed.clone(), json!({"gender": gender, "name": {"family": "Again"}}));
        replace(client, "Individual", &number.to_string(), &person(&number.to_string(), again));
    }
    replace(client, "Group", "H-1", &household("H-1", &[("0", "head"), ("11", "child")]));
    drop(client.create_individual(&person("NEW", changed)));
}

#[test]
fn writes_during_a_preview_do_not_show_in_it_and_all_show_in_the_next() {
    let (_app, client) = register();
    for number in 0..6 {
        let before = json!({"gender": FEMALE, "name": {"family": "Before"}, "birth_date": "1960-01-01"});
        replace(&client, "Individual", &number.to_string(), &person(&number.to_string(), before));
    }
    let before: Vec<Value> = RULES.iter().map(|rule| preview(&client, &body(rule))).collect();
    let busy = occupy(&client);
    let begun: Vec<Held> = RULES.iter().map(|rule| streamed(&client, rule).hold_after("\"progress\"")).collect();
    change(&client);
    for ((begun, before), rule) in begun.into_iter().zip(&before).zip(RULES) {
        assert_eq!(begun.finish().lines().last(), Some(before), "{rule}");
    }
    drop(busy);
    for (rule, before) in RULES.iter().zip(&before) {
        let after = preview(&client, &body(rule));
        assert_eq!((&before["total"], &after["total"]), (&json!(12), &json!(13)), "{rule}");
        assert_ne!(before["eligible"], after["eligible"], "{rule}");
    }
}

fn parts(app: &TestApp) -> [u64; 3] {
    let token = app.admin().token().to_owned();
    let page = app.admin_listener().request("GET", "/metrics").bearer(&token).send().expect(200).text();
    let figure = |series: &str| {
        let line = page.lines().find_map(|line| line.strip_prefix(series)?.strip_prefix(' '));
        line.unwrap_or_else(|| panic!("{series}: {page}")).parse().unwrap()
    };
    [
        figure("daftar_preview_cache_lookups_total{from=\"records\"}"),
        figure("daftar_preview_cache_lookups_total{from=\"memory\"}"),
        figure("daftar_preview_cache_bytes"),
    ]
}

#[test]
fn facts_read_from_records_are_cached_until_a_record_is_written() {
    let (app, client) = register();
    let rule = "me.address.exists(a, a.region == 'Nord-Est') || me.languages.size() > 9";
    let first = preview(&client, &body(rule));
    let [read, found, bytes] = parts(&app);
    assert_eq!((read, found), (3, 0), "addresses, their regions, and languages");
    assert!(bytes > 0);
    assert_eq!(preview(&client, &body(rule)), first);
    assert_eq!(parts(&app), [3, 3, bytes]);
    // For a few people the records are read, and the cache stays unchanged.
    let few = json!({"expression": rule, "filter": {"gender": FEMALE}});
    assert_eq!(preview(&client, &few)["total"], 4);
    assert_eq!(parts(&app), [3, 3, bytes]);

    replace(&client, "Individual", "1", &person("1", json!({"address": [{"region": "Nord-Est"}]})));
    let after = preview(&client, &body(rule));
    assert_eq!(after["eligible"].as_u64(), first["eligible"].as_u64().map(|before| before + 1));
    assert_eq!(parts(&app)[..2], [6, 3], "the parts do not fit any more");
}

#[test]
fn without_a_cache_every_response_is_the_same() {
    let (mut app, client) = register();
    let rule = "me.address.exists(a, a.region == 'Nord-Est')";
    let with_memory = preview(&client, &body(rule));
    app.restart_with(|config| config.store.preview_cache_mib = 0);
    assert_eq!(preview(&client, &body(rule)), with_memory);
    assert_eq!(preview(&client, &body(rule)), with_memory);
    assert_eq!(parts(&app), [4, 0, 0], "addresses and their regions, twice");
}
