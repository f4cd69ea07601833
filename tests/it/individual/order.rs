//! Ordered people, and walks through pages while the register changes.

use daftar_tests::records::{FEMALE, MALE, path, person};
use daftar_tests::{ApiClient, TestApp};
use serde_json::{Value, json};

/// Six people, some without a name or a day of birth.
fn six_people() -> (TestApp, ApiClient) {
    let app = TestApp::start();
    let client = app.client(&["individual:all"]);
    for (id, more) in [
        ("1", json!({"name": {"family": "Zèbre", "given": "Ana"}, "birth_date": "1980-01-01", "gender": FEMALE})),
        ("2", json!({"name": {"family": "Álvarez", "given": "José"}, "birth_date": "1990-01-01", "gender": MALE})),
        ("3", json!({"name": {"family": "alvarez", "given": "Ana"}, "birth_date": "1980-01-01", "gender": MALE})),
        (
            "4",
            json!({"birth_date": "1970-01-01", "registration_date": "2026-03-01", "birth_place": {"region": "Nord-Est", "city": "Sima"}}),
        ),
        ("5", json!({"name": {"text": "مريم"}, "gender": FEMALE, "registration_date": "2026-02-01"})),
        ("6", json!({"name": {"family": "Alvarez", "given": "Ana", "middle": "B."}})),
    ] {
        drop(client.create_individual(&person(id, more)));
    }
    (app, client)
}

fn ids(page: &Value) -> Vec<String> {
    let people = page["data"].as_array().unwrap();
    people.iter().map(|person| person["identifier"][0]["value"].as_str().unwrap().to_owned()).collect()
}

#[test]
fn records_come_in_the_order_that_is_asked_for_and_those_without_a_value_last() {
    let (_app, client) = six_people();
    let cases: &[(&str, &[&str])] = &[
        ("_sort=name", &["3", "6", "2", "1", "5", "4"]),
        ("_sort=-name", &["5", "1", "2", "6", "3", "4"]),
        ("_sort=birth_date", &["4", "1", "3", "2", "5", "6"]),
        ("_sort=-birth_date", &["2", "1", "3", "4", "5", "6"]),
        ("_sort=-birth_date,name", &["2", "3", "1", "4", "6", "5"]),
        ("_sort=birth_date,-name", &["4", "1", "3", "2", "5", "6"]),
        ("_sort=gender", &["2", "3", "1", "5", "4", "6"]),
        ("_sort=-gender,name", &["1", "5", "3", "2", "6", "4"]),
        ("_sort=deceased_date", &["1", "2", "3", "4", "5", "6"]),
        ("_sort=registration_date", &["5", "4", "1", "2", "3", "6"]),
        ("registration_date=gt2026-02-01", &["4"]),
        ("birth_place.region=nord+est", &["4"]),
        ("region=nord+est", &[]),
        ("_sort=-_last_updated", &["1", "2", "3", "4", "5", "6"]),
        ("_sort=name&_offset=2&_count=2", &["2", "1"]),
        ("_sort=name&birth_date=1980-01-01", &["3", "1"]),
    ];
    for (query, expected) in cases {
        assert_eq!(client.found(query), *expected, "{query}");
    }
    for (query, what) in [
        ("_sort=nam", "known: name, birth_date"),
        ("_sort=address", "`address`"),
        ("_sort=identifier", "`identifier`"),
        ("_sort=", "`_sort`"),
        ("_sort=name,name", "twice"),
        ("_sort=name,birth_date,gender,country,religion,education", "more than 5"),
        ("_sort=name&_sort=gender", "more than once"),
    ] {
        let refused = client.get(&format!("/Individual?{query}")).expect(400);
        assert!(refused.detail().contains(what), "{query}: {}", refused.detail());
    }
}

/// Walks through all pages of two; before each page but the first `between` is called.
fn walk(client: &ApiClient, query: &str, mut between: impl FnMut(usize)) -> Vec<String> {
    let mut link = format!("/Individual?{query}&_count=2");
    let mut seen = Vec::new();
    for page_number in 1.. {
        let page = client.get(&link).expect(200).json();
        assert_eq!(page["meta"]["offset"], seen.len());
        seen.extend(ids(&page));
        let Some(next) = page["links"]["next"].as_str() else { break };
        link = next.to_owned();
        between(page_number);
    }
    seen
}

#[test]
fn a_walk_neither_repeats_nor_skips_while_others_write() {
    for (query, expected) in [("", ["1", "2", "3", "4", "5", "6"]), ("_sort=name", ["3", "6", "2", "1", "5", "4"])] {
        let (_app, client) = six_people();
        let seen = walk(&client, query, |page| {
            if page > 2 {
                // Otherwise there would be two more to come after every page of two.
                return;
            }
            // One new person sorts first, another one last; a person shown already changes.
            let (first, last) = (format!("{page}-a"), format!("{page}-z"));
            drop(client.create_individual(&person(&first, json!({"name": {"family": "Aaa"}}))));
            drop(client.create_individual(&person(&last, json!({}))));
            let changed =
                client.request("PATCH", &path("Individual", expected[0])).json(&json!({"active": true})).send();
            drop(changed.expect(200));
        });
        let old: Vec<&String> = seen.iter().filter(|id| !id.contains('-')).collect();
        assert_eq!(old, expected.iter().collect::<Vec<_>>(), "{query}");
        let mut once = seen.clone();
        once.sort_unstable();
        once.dedup();
        assert_eq!(once.len(), seen.len(), "{query}: {seen:?}");
    }
}

#[test]
fn a_cursor_is_good_for_its_own_search_and_client_alone() {
    let (app, client) = six_people();
    let page = client.get("/Individual?_sort=name&gender=urn:iso:std:iso:5218%232&_count=1").expect(200).json();
    let next = page["links"]["next"].as_str().unwrap().to_owned();
    let cursor = next.split("_cursor=").nth(1).unwrap().to_owned();
    let same = format!("/Individual?gender=urn:iso:std:iso:5218%7C2&_sort=name&_count=5&_cursor={cursor}");
    let refused = client.get(&same).expect(400);
    assert!(refused.detail().contains("`_cursor`"), "another spelling is another search: {}", refused.detail());
    let more =
        format!("/Individual?gender=urn:iso:std:iso:5218%232&_sort=name&_count=5&_elements=name&_cursor={cursor}");
    assert_eq!(ids(&client.get(&more).expect(200).json()), ["5"], "pages may grow and parts may change");
    for query in [
        format!("_sort=-name&gender=urn:iso:std:iso:5218%232&_cursor={cursor}"),
        format!("_sort=name&_cursor={cursor}"),
        format!("_sort=name&gender=urn:iso:std:iso:5218%232&name=a&_cursor={cursor}"),
        format!("_sort=name&gender=urn:iso:std:iso:5218%232&_offset=1&_cursor={cursor}"),
        format!("_sort=name&gender=urn:iso:std:iso:5218%232&_cursor={cursor}&_cursor={cursor}"),
        format!("_sort=name&gender=urn:iso:std:iso:5218%232&_cursor=A{cursor}"),
        "_cursor=".to_owned(),
        "_cursor=AAAA".to_owned(),
        format!("_cursor={}", "A".repeat(5_000)),
    ] {
        let refused = client.get(&format!("/Individual?{query}")).expect(400);
        assert!(refused.detail().contains("`_cursor`"), "{query}: {}", refused.detail());
    }
    let other = app.client(&["individual:all"]);
    drop(other.get(&next).expect(400));
    assert!(!next.contains("Zebre") && !next.to_lowercase().contains("zebre"));
}

#[test]
fn a_cursor_outlives_a_restart() {
    let (mut app, client) = six_people();
    let page = client.get("/Individual?_sort=-birth_date,name&_count=4").expect(200).json();
    let credentials = client.credentials().clone();
    let next = page["links"]["next"].as_str().unwrap().split("/api/v2").nth(1).unwrap().to_owned();
    app.restart();
    let client = app.client_of(&credentials);
    assert_eq!(ids(&client.get(&next).expect(200).json()), ["6", "5"]);
}
