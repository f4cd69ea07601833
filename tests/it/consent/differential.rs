//! Hidden records are indistinguishable from missing ones: two registers, one with them and one without, return the
//! same bytes for every call.

use daftar_tests::{ApiClient, Response};
use serde_json::json;

use super::calls::{Call, accepted_writes, reads, refused_transactions, refused_writes, rules, searches};
use super::world::{Extent, World};

/// The observable response, without random values.
fn seen(world: &World, response: &Response) -> String {
    let random = ["x-request-id", "date", "x-ratelimit-reset"];
    let headers = response.headers().iter().filter(|(name, _)| !random.contains(&name.as_str()));
    let mut text: String = headers.map(|(name, value)| format!("{name}: {value}\n")).collect();
    text = format!("{}\n{text}\n{}", response.status, response.text());
    let request_id = response.header("x-request-id").expect("an answer has a request id");
    text = text.replace(request_id, "[request_id]");
    for (id, name) in [(world.client.id(), "[client]"), (world.writer.id(), "[writer]")] {
        text = text.replace(id, name);
    }
    for (at, consent) in world.consents.iter().enumerate() {
        text = text.replace(consent, &format!("[consent {at}]"));
    }
    let text = text.replace(&world.app.anonymous().url(), "[url]");
    // Each register has keys of its own.
    without(&without(&text, "_cursor="), "\"seal\":\"")
}

/// The text with the value after a marker, a cursor or a seal, replaced by its length.
fn without(text: &str, mark: &str) -> String {
    let mut parts = text.split(mark);
    let mut shown = parts.next().unwrap_or_default().to_owned();
    for part in parts {
        let end = part.find(['&', '"']).unwrap_or(part.len());
        shown.push_str(&format!("{mark}[{end}]{}", &part[end..]));
    }
    shown
}

fn response(client: &ApiClient, call: &Call) -> Response {
    let mut request = client.request(call.method, &call.path);
    for (name, value) in &call.headers {
        request = request.header(name, value);
    }
    match &call.body {
        Some(body) => request.json(body).send(),
        None => request.send(),
    }
}

/// Makes every call to both registers, follows links to further pages, and compares the responses.
#[track_caller]
fn compare(one: &World, other: &World, calls: &[Call]) {
    for call in calls {
        let (mut left, mut right) = (response(&one.client, call), response(&other.client, call));
        for page in 0..10 {
            assert_eq!(seen(one, &left), seen(other, &right), "{} {} page {page}", call.method, call.path);
            assert!(left.status < 500, "{} {}: {}", call.method, call.path, left.text());
            let next = |response: &Response| {
                let is_page = call.method == "GET" && response.status == 200;
                is_page.then(|| response.json()["links"]["next"].as_str().map(str::to_owned)).flatten()
            };
            let (Some(left_next), Some(right_next)) = (next(&left), next(&right)) else { break };
            (left, right) = (one.client.get(&left_next), other.client.get(&right_next));
        }
    }
}

#[test]
fn the_rules_that_are_compared_are_evaluated_and_explained() {
    let world = World::new(Extent::Whole);
    let mut explained = 0;
    for call in rules().iter().filter(|call| call.path.ends_with("$evaluate")) {
        let response = response(&world.client, call);
        assert_eq!(response.status, 200, "{:?}: {}", call.body, response.text());
        let results = response.json()["results"].clone();
        explained += results.as_array().unwrap().iter().filter(|result| result["explanation"].is_object()).count();
    }
    assert!(explained >= 20, "{explained}");
}

#[test]
fn hidden_records_are_indistinguishable_from_missing_ones() {
    let (whole, consented) = (World::new(Extent::Whole), World::new(Extent::Consented));
    let everything = || [reads(), searches(), rules()].into_iter().flatten().collect::<Vec<Call>>();
    compare(&whole, &consented, &everything());
    compare(&whole, &consented, &refused_writes());
    for (call, code) in refused_transactions() {
        for world in [&whole, &consented] {
            let refused = response(&world.client, &call).expect(422).json();
            assert_eq!(refused["errors"][0]["code"], code, "{refused}");
        }
        compare(&whole, &consented, &[call]);
    }
    compare(&whole, &consented, &accepted_writes());
    compare(&whole, &consented, &everything());
    for (left, right) in whole.consents.iter().zip(&consented.consents).skip(1).step_by(2) {
        let (left_path, right_path) = (format!("/Consent/{left}"), format!("/Consent/{right}"));
        for method in ["GET", "DELETE", "GET", "DELETE"] {
            let responses =
                (whole.client.request(method, &left_path).send(), consented.client.request(method, &right_path).send());
            assert_eq!(seen(&whole, &responses.0), seen(&consented, &responses.1), "{method}");
        }
    }
    compare(&whole, &consented, &everything());
    for world in [&whole, &consented] {
        world.app.advance_seconds(12 * 3_600 - 1);
    }
    compare(&whole, &consented, &searches());
}

#[test]
fn the_register_is_empty_to_a_client_without_consents() {
    let (whole, empty) = (World::new(Extent::Whole), World::new(Extent::Programs));
    let unrelated = |world: &World, organization: &str| {
        super::world::consent_client(&world.app, json!({"organization": organization}))
    };
    let (whole, empty) = (
        World { client: unrelated(&whole, "Absent"), ..whole },
        World { client: unrelated(&empty, "Absent"), ..empty },
    );
    compare(
        &whole,
        &empty,
        &[reads(), searches(), rules(), refused_writes()].into_iter().flatten().collect::<Vec<Call>>(),
    );
}
