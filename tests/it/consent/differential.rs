//! What a client may not see is to it as if it did not exist: two registers, one with it and one without, give the same bytes to
//! every call.

use daftar_tests::records::{FEMALE, MALE, NATIONAL_ID, ROLE, path, person, reference};
use daftar_tests::{ApiClient, Response};
use serde_json::{Value, json};

use super::world::{Extent, World, group_reference};

/// Everybody and everything that is in one of the registers, and some that is in none.
const IDS: [&str; 27] = [
    "1",
    "2",
    "3",
    "4",
    "6",
    "6-OTHER",
    "H0",
    "H1",
    "H2",
    "H3",
    "H4",
    "H5",
    "H7",
    "H8",
    "H9",
    "20",
    "21",
    "22",
    "23",
    "M0",
    "M1",
    "M2",
    "M3",
    "TAKEN-OVER",
    "CARRIED",
    "NOW-HIDDEN",
    "absent",
];

/// One call.
struct Call {
    method: &'static str,
    path: String,
    body: Option<Value>,
    headers: Vec<(&'static str, &'static str)>,
}

fn get(path: impl Into<String>) -> Call {
    Call { method: "GET", path: path.into(), body: None, headers: Vec::new() }
}

fn send(method: &'static str, path: impl Into<String>, body: Value) -> Call {
    Call { method, path: path.into(), body: Some(body), headers: Vec::new() }
}

fn send_if(method: &'static str, path: impl Into<String>, body: Value, version: &'static str) -> Call {
    Call { headers: vec![("If-Match", version)], ..send(method, path, body) }
}

/// What a client learns from an answer, but for what is made at random.
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
    without_cursors(&text.replace(&world.app.anonymous().url(), "[url]"))
}

/// The text with what a cursor holds replaced by its length.
fn without_cursors(text: &str) -> String {
    let mut parts = text.split("_cursor=");
    let mut shown = parts.next().unwrap_or_default().to_owned();
    for part in parts {
        let end = part.find(['&', '"']).unwrap_or(part.len());
        shown.push_str(&format!("_cursor=[{end}]{}", &part[end..]));
    }
    shown
}

fn answer(client: &ApiClient, call: &Call) -> Response {
    let mut request = client.request(call.method, &call.path);
    for (name, value) in &call.headers {
        request = request.header(name, value);
    }
    match &call.body {
        Some(body) => request.json(body).send(),
        None => request.send(),
    }
}

/// Makes every call to both registers, follows links to further pages, and holds the answers against each other.
#[track_caller]
fn compare(one: &World, other: &World, calls: &[Call]) {
    for call in calls {
        let (mut left, mut right) = (answer(&one.client, call), answer(&other.client, call));
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

fn encoded(id: &str) -> String {
    format!("{}%7C{id}", NATIONAL_ID.replace('#', "%23"))
}

fn reads() -> Vec<Call> {
    let mut calls = Vec::new();
    for id in IDS {
        for resource in ["Individual", "Group", "ProgramMembership"] {
            calls.push(get(path(resource, id)));
            calls.push(get(format!("{}?_elements=name,member,quantity", path(resource, id))));
        }
        calls.push(get(format!("{}/groups", path("Individual", id))));
        calls.push(get(format!("{}/membership-history", path("Group", id))));
        calls.push(get(format!("{}?program=Program/{}", path("ProgramMembership", id), encoded("P"))));
    }
    calls
}

fn searches() -> Vec<Call> {
    let gender = |code: &str| format!("gender={}", code.replace('#', "%23"));
    let mut queries: Vec<String> = [
        "",
        "_count=1",
        "_count=1&_offset=1",
        "_count=2&_offset=100",
        "_count=2&_sort=name",
        "_count=1&_sort=-birth_date,name",
        "_sort=-_last_updated",
        "name=a",
        "name=diallo",
        "name=hawa",
        "birth_date=1950-01-01",
        "birth_date=gt1960-01-01&_count=1",
        "birth_date=ne1950-01-01",
        "active=true",
        "active=false",
        "address=kano",
        "district=Kano",
        "region=North",
        "group=none",
        "_last_updated=ge2026-01-01",
        "_elements=name",
        "_sort=gender",
    ]
    .map(str::to_owned)
    .to_vec();
    queries.extend([gender(FEMALE), gender(MALE), format!("{}&name=amina", gender(FEMALE))]);
    queries.push(format!("membership_role={ROLE}%23head"));
    queries.push(format!("membership_role={ROLE}%23child&_count=1"));
    for id in IDS {
        queries.push(format!("identifier={}", encoded(id)));
        queries.push(format!("group={}", encoded(id)));
    }
    let mut calls: Vec<Call> = queries.iter().map(|query| get(format!("/Individual?{query}"))).collect();
    for query in ["", "_count=1", "name=hidden", "name=n", "_sort=name", "_sort=-name&_count=1", "active=true"] {
        calls.push(get(format!("/Group?{query}")));
        calls.push(get(format!("/ProgramMembership?{query}")));
    }
    for query in ["status=enrolled", "status=draft", "_count=1&_offset=1"] {
        calls.push(get(format!("/ProgramMembership?{query}")));
    }
    for id in IDS {
        for kind in ["", "Individual/", "Group/"] {
            calls.push(get(format!("/ProgramMembership?beneficiary={kind}{}", encoded(id))));
        }
        calls.push(get(format!("/Group?identifier={}", encoded(id))));
        calls.push(get(format!("/Group?member={}", encoded(id))));
    }
    for program in ["P", "G", "absent"] {
        calls.push(get(format!("/ProgramMembership?program={}&_count=1", encoded(program))));
    }
    calls
}

fn rules() -> Vec<Call> {
    let mut calls = Vec::new();
    for (subject, expression) in [
        ("individual", "age_years(me.birth_date) >= 60"),
        ("individual", "is_female(me)"),
        ("individual", "members.exists(m, age_years(m.birth_date) >= 60)"),
        ("individual", "members.exists(m, is_head(m))"),
        ("individual", "programs.exists(p, p.status == 'enrolled')"),
        ("group", "members.exists(m, is_female(m))"),
        ("group", "members.size() == 2"),
        ("group", "programs.size() > 0"),
        ("group", "me.quantity == 2"),
    ] {
        let kind = if subject == "group" { "Group" } else { "Individual" };
        for id in IDS {
            let subjects = json!([format!("{kind}/{NATIONAL_ID}|{id}")]);
            let body = json!({"expression": expression, "subject": subject, "subjects": subjects, "explain": true});
            calls.push(send("POST", "/Eligibility/$evaluate", body));
        }
        let subjects: Vec<String> = IDS.iter().map(|id| format!("{kind}/{NATIONAL_ID}|{id}")).collect();
        let body = json!({"expression": expression, "subject": subject, "subjects": subjects});
        calls.push(send("POST", "/Eligibility/$evaluate", body));
        let body = json!({"expression": expression, "subject": subject, "sample": 10});
        calls.push(send("POST", "/Eligibility/$preview", body));
    }
    calls
}

fn refused_writes() -> Vec<Call> {
    let mut calls = Vec::new();
    let entity = |id: &str| json!({"entity": {"reference": reference(id)}});
    for id in ["H0", "H1", "H5", "H9", "6", "absent"] {
        calls.push(send("PATCH", path("Individual", id), json!({"name": {"given": "X"}})));
        calls.push(send_if("PATCH", path("Individual", id), json!({}), "\"7\""));
        calls.push(send("PUT", path("Individual", id), person(id, json!({}))));
        calls.push(send("POST", format!("{}/$add-member", path("Group", "20")), entity(id)));
        calls.push(send("POST", format!("{}/$remove-member", path("Group", "20")), entity(id)));
        let member = format!("{}{}", path("Group", "20"), path("/member", id).replace("//", "/"));
        calls.push(send("PATCH", member, json!({"inactive": true})));
        let group = json!({"identifier": [{"system": NATIONAL_ID, "value": "30"}], "member": [entity(id)]});
        calls.push(send("POST", "/Group", group));
        let place =
            json!({"program": format!("Program/{NATIONAL_ID}|P"), "beneficiary": reference(id), "status": "draft"});
        if id != "6" {
            calls.push(send("POST", "/ProgramMembership", place));
        }
    }
    for id in ["21", "absent"] {
        calls.push(send("PATCH", path("Group", id), json!({"name": "X"})));
        calls.push(send("POST", format!("{}/$add-member", path("Group", id)), entity("1")));
        calls.push(send("PUT", path("Group", id), json!({"identifier": [], "member": []})));
    }
    for id in ["M0", "M2", "M5", "absent"] {
        let body =
            json!({"program": format!("Program/{NATIONAL_ID}|P"), "beneficiary": reference("1"), "status": "exited"});
        calls.push(send("PUT", path("ProgramMembership", id), body));
    }
    let entries = json!([
        {"request": {"method": "GET", "url": path("Individual", "H1")}},
        {"request": {"method": "PATCH", "url": path("Individual", "H1")}, "resource": {}},
        {"request": {"method": "GET", "url": path("Individual", "1")}},
    ]);
    for kind in ["batch", "transaction"] {
        calls.push(send("POST", "/$batch", json!({"type": kind, "entry": entries})));
    }
    calls
}

fn accepted_writes() -> Vec<Call> {
    let entity = |id: &str| json!({"entity": {"reference": reference(id)}});
    let identifiers = |id: &str| json!([{"system": NATIONAL_ID, "value": id}]);
    vec![
        send("PATCH", path("Individual", "1"), json!({"name": {"given": "Aminata"}})),
        send_if("PATCH", path("Individual", "1"), json!({"birth_date": "1951-01-01"}), "\"2\""),
        send("POST", format!("{}/$add-member", path("Group", "20")), entity("3")),
        send("POST", format!("{}/$remove-member", path("Group", "20")), entity("2")),
        send("PATCH", path("Group", "20"), json!({"name": "Diallo and others"})),
        send(
            "PUT",
            path("Group", "20"),
            json!({"identifier": identifiers("20"), "member": [entity("4"), entity("1")]}),
        ),
        send("PUT", path("Group", "23"), json!({"identifier": identifiers("23"), "member": []})),
        send("PATCH", path("Group", "23"), json!({"member": null})),
        send("POST", format!("{}/$add-member", path("Group", "23")), entity("4")),
        send("POST", "/Individual", person("new", json!({"name": {"given": "New"}}))),
        send("POST", "/Individual", person("new", json!({}))),
        send(
            "PUT",
            path("ProgramMembership", "M1"),
            json!({
                "identifier": identifiers("M1"), "program": format!("Program/{NATIONAL_ID}|P"), "beneficiary": reference("1"),
                "status": "paused",
            }),
        ),
        send(
            "POST",
            "/ProgramMembership",
            json!({
                "program": format!("Program/{NATIONAL_ID}|G"), "beneficiary": group_reference("20"), "status": "draft",
            }),
        ),
    ]
}

#[test]
fn what_is_hidden_is_as_if_it_did_not_exist() {
    let (whole, consented) = (World::new(Extent::Whole), World::new(Extent::Consented));
    let everything = || [reads(), searches(), rules()].concat_calls();
    compare(&whole, &consented, &everything());
    compare(&whole, &consented, &refused_writes());
    compare(&whole, &consented, &accepted_writes());
    compare(&whole, &consented, &everything());
    for (left, right) in whole.consents.iter().zip(&consented.consents).skip(1).step_by(2) {
        let (left_path, right_path) = (format!("/Consent/{left}"), format!("/Consent/{right}"));
        for method in ["GET", "DELETE", "GET", "DELETE"] {
            let answers =
                (whole.client.request(method, &left_path).send(), consented.client.request(method, &right_path).send());
            assert_eq!(seen(&whole, &answers.0), seen(&consented, &answers.1), "{method}");
        }
    }
    compare(&whole, &consented, &everything());
    for world in [&whole, &consented] {
        world.app.advance_seconds(12 * 3_600 - 1);
    }
    compare(&whole, &consented, &searches());
}

#[test]
fn to_whom_nobody_consents_the_register_is_empty() {
    let (whole, empty) = (World::new(Extent::Whole), World::new(Extent::Programs));
    let stranger = |world: &World, organization: &str| {
        super::world::consent_client(&world.app, json!({"organization": organization}))
    };
    let (whole, empty) =
        (World { client: stranger(&whole, "Nobody"), ..whole }, World { client: stranger(&empty, "Nobody"), ..empty });
    compare(&whole, &empty, &[reads(), searches(), rules(), refused_writes()].concat_calls());
}

/// Lists of calls put together.
trait ConcatCalls {
    fn concat_calls(self) -> Vec<Call>;
}

impl<const N: usize> ConcatCalls for [Vec<Call>; N] {
    fn concat_calls(self) -> Vec<Call> {
        self.into_iter().flatten().collect()
    }
}
