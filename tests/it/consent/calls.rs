//! The calls made to both registers.

use daftar_tests::records::{FEMALE, HOUSEHOLD, MALE, NATIONAL_ID, ROLE, path, person, reference};
use serde_json::{Value, json};

use super::world::group_reference;

/// All identifiers in one of the registers, and some in neither.
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
pub struct Call {
    pub method: &'static str,
    pub path: String,
    pub body: Option<Value>,
    pub headers: Vec<(&'static str, &'static str)>,
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

fn encoded(id: &str) -> String {
    format!("{}%7C{id}", NATIONAL_ID.replace('#', "%23"))
}

/// Reads of one record each.
pub fn reads() -> Vec<Call> {
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

/// Searches of every kind.
pub fn searches() -> Vec<Call> {
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
    queries.push(format!("group={}&membership_role={ROLE}%23head", encoded("20")));
    queries.push("district=Kano&birth_date=lt2000-01-01&active=true&_sort=-name".to_owned());
    let mut calls: Vec<Call> = queries.iter().map(|query| get(format!("/Individual?{query}"))).collect();
    let kind = format!("group_type={}", HOUSEHOLD.replace('#', "%23"));
    for query in ["", "_count=1", "name=hidden", "name=n", "_sort=name", "_sort=-name&_count=1", "active=true", &kind] {
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

/// Rules about all people.
pub fn rules() -> Vec<Call> {
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
        ("group", "has(me.name)"),
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

/// Writes to hidden records, and with them.
pub fn refused_writes() -> Vec<Call> {
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
        let related = json!({"relationship": [{"target": {"reference": group_reference(id)}}]});
        calls.push(send("PATCH", path("Group", "20"), related));
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
    calls.push(send("POST", "/$batch", json!({"type": "batch", "entry": entries})));
    calls
}

/// Transactions that fail because of hidden records, each with the code of the rejection.
pub fn refused_transactions() -> Vec<(Call, &'static str)> {
    let seen = json!({"request": {"method": "PATCH", "url": path("Individual", "1")}, "resource": {"active": true}});
    let entry = |method: &str, url: String, resource: Value| json!({"request": {"method": method, "url": url}, "resource": resource});
    let mut calls = Vec::new();
    for id in ["H0", "H1", "H5", "H9", "6", "absent"] {
        let place =
            json!({"program": format!("Program/{NATIONAL_ID}|P"), "beneficiary": reference(id), "status": "draft"});
        let member = json!({"entity": {"reference": reference(id)}});
        let refused = [
            (entry("PATCH", path("Individual", id), json!({"active": true})), "not_found"),
            (entry("POST", format!("{}/$add-member", path("Group", "20")), member), "unresolved_reference"),
            (entry("POST", "ProgramMembership".to_owned(), place), "unresolved_reference"),
        ];
        for (entry, code) in refused.into_iter().take(if id == "6" { 2 } else { 3 }) {
            for entries in [json!([entry]), json!([seen, entry]), json!([entry, seen])] {
                let body = json!({"type": "transaction", "entry": entries});
                calls.push((send("POST", "/$batch", body), code));
            }
        }
    }
    calls
}

/// Writes to visible records.
pub fn accepted_writes() -> Vec<Call> {
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
        send("PATCH", path("Group", "20"), json!({"relationship": null})),
        send("PATCH", path("Group", "23"), json!({"relationship": [{"target": {"reference": group_reference("20")}}]})),
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
