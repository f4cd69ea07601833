//! Calls across resources require the scope of each of them, and no other.

use daftar_tests::records::{FEMALE, NATIONAL_ID, household, path, person, reference};
use daftar_tests::{ApiClient, Response, TestApp};
use serde_json::{Value, json};

/// A call with all scopes that it requires.
struct Reach {
    name: &'static str,
    scopes: &'static [&'static str],
    call: fn(&ApiClient) -> Response,
}

const REACHES: &[Reach] = &[
    Reach {
        name: "a person's groups",
        scopes: &["individual:read", "group:read"],
        call: |client| client.get(&format!("{}/groups", path("Individual", "P-1"))),
    },
    Reach {
        name: "a change of a member",
        scopes: &["group:update", "group:read"],
        call: |client| {
            let member = format!("{}{}", path("Group", "H-1"), path("/member", "P-1").replace("//", "/"));
            client.request("PATCH", &member).json(&json!({"inactive": false})).send()
        },
    },
    Reach {
        name: "a rule on a record of the request",
        scopes: &["eligibility:read"],
        call: |client| rule(client, "is_female(me)", json!({"gender": FEMALE})),
    },
    Reach {
        name: "a rule on a stored person",
        scopes: &["eligibility:read", "individual:read"],
        call: |client| rule(client, "is_female(me)", json!(reference("P-1"))),
    },
    Reach {
        name: "a rule on members",
        scopes: &["eligibility:read", "individual:read", "group:read"],
        call: |client| rule(client, "members.exists(m, is_female(m))", json!(reference("P-1"))),
    },
    Reach {
        name: "a rule on memberships",
        scopes: &["eligibility:read", "individual:read", "program_membership:read"],
        call: |client| rule(client, "programs.exists(p, p.status == 'enrolled')", json!(reference("P-1"))),
    },
    Reach { name: "a program's rule", scopes: &["eligibility:read", "program:read"], call: of_program },
];

fn rule(client: &ApiClient, expression: &str, subject: Value) -> Response {
    client.post("/Eligibility/$evaluate", &json!({"expression": expression, "subjects": [subject]}))
}

fn of_program(client: &ApiClient) -> Response {
    let program = format!("Program/{NATIONAL_ID}|PENSION");
    client.post("/Eligibility/$evaluate", &json!({"program": program, "subjects": [{"gender": FEMALE}]}))
}

/// A register with a household and a program.
fn register() -> TestApp {
    let app = TestApp::start();
    let writer = app.client(&["individual:create", "group:create"]);
    drop(writer.create_individual(&person("P-1", json!({"gender": FEMALE, "name": {"given": "Amina"}}))));
    drop(writer.create_group(&household("H-1", &[("P-1", "head")])));
    let program = json!({
        "identifier": [{"system": NATIONAL_ID, "value": "PENSION"}], "name": "Pension", "target_type": "individual",
        "eligibility": "is_female(me)",
    });
    drop(app.admin().request("POST", "/programs").json(&program).send().expect(201));
    app
}

#[test]
fn each_needs_every_one_of_its_scopes_and_no_other() {
    let app = register();
    for reach in REACHES {
        let response = (reach.call)(&app.client(reach.scopes));
        assert_eq!(response.status, 200, "{}: {}", reach.name, response.text());
        for missing in reach.scopes {
            let held: Vec<&str> = reach.scopes.iter().copied().filter(|scope| scope != missing).collect();
            let refused = (reach.call)(&app.client(&held));
            assert_eq!(refused.status, 403, "{} without {missing}: {}", reach.name, refused.text());
            let detail = refused.detail();
            assert!(
                detail.starts_with(&format!("Missing required scope {missing}. Granted: ")),
                "{}: {detail}",
                reach.name
            );
        }
    }
}

#[test]
fn all_of_a_resource_covers_and_other_actions_do_not() {
    let app = register();
    for reach in REACHES {
        let all = |action: &str| -> Vec<String> {
            let resource = |scope: &&str| scope.split_once(':').unwrap().0.to_owned();
            reach.scopes.iter().map(|scope| format!("{}:{action}", resource(scope))).collect()
        };
        let client = |scopes: &[String]| app.client(&scopes.iter().map(String::as_str).collect::<Vec<_>>());
        let response = (reach.call)(&client(&all("all")));
        assert_eq!(response.status, 200, "{}: {}", reach.name, response.text());
        for action in ["search", "create", "update", "delete"] {
            let refused = (reach.call)(&client(&all(action)));
            assert_eq!(refused.status, 403, "{} with {action}: {}", reach.name, refused.text());
        }
    }
}

#[test]
fn a_member_is_named_to_whom_may_read_people() {
    let app = register();
    let entity = |scopes: &[&str]| {
        let group = app.client(scopes).get(&path("Group", "H-1")).expect(200).json();
        group["member"][0]["entity"].clone()
    };
    assert_eq!(entity(&["group:read"]), json!({"reference": reference("P-1")}));
    assert_eq!(entity(&["group:read", "individual:search"]), json!({"reference": reference("P-1")}));
    assert_eq!(entity(&["group:read", "individual:read"])["display"], "Amina");
}

#[test]
fn a_token_allows_no_more_than_its_client_holds_now() {
    let app = register();
    let client = app.client(&["individual:read", "group:read"]);
    let groups = format!("{}/groups", path("Individual", "P-1"));
    drop(client.get(&groups).expect(200));
    app.admin().revoke(client.id(), "group:read");
    assert_eq!(client.get(&groups).expect(403).detail(), "Missing required scope group:read. Granted: individual:read");
    app.admin().grant(client.id(), "group:all");
    drop(client.get(&groups).expect(200));
}
