//! `/RuleDraft`, and the administrator's decisions on drafts.

use daftar_tests::postgres::Processes;
use daftar_tests::records::NATIONAL_ID;
use daftar_tests::{ApiClient, Response, TestApp};
use serde_json::{Value, json};

use crate::program;

const ORGANIZATION: &str = "Ministry of Health";

/// A client of an organization with these scopes.
fn client_of(app: &TestApp, organization: Option<&str>, scopes: &[&str]) -> ApiClient {
    let body = json!({"name": "analyst", "organization": organization, "scopes": scopes});
    app.client_of(&app.admin().create_client(&body))
}

fn analyst(app: &TestApp) -> ApiClient {
    client_of(app, Some(ORGANIZATION), &["eligibility:read", "eligibility:create"])
}

fn draft(more: Value) -> Value {
    let mut body = json!({"name": "Pension", "expression": "age_years(me.birth_date) >= 65", "subject": "individual"});
    body.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
    body
}

fn create(client: &ApiClient, more: Value) -> Value {
    client.post("/RuleDraft", &draft(more)).expect(201).json()
}

fn path_of(draft: &Value) -> String {
    format!("/RuleDraft/{}", draft["id"].as_str().unwrap())
}

fn replace(client: &ApiClient, draft: &Value, version: &str, body: &Value) -> Response {
    client.request("PUT", &path_of(draft)).header("If-Match", version).json(body).send()
}

fn decide(app: &TestApp, draft: &Value, decision: &str, body: &Value) -> Response {
    let path = format!("/rule-drafts/{}/{decision}", draft["id"].as_str().unwrap());
    app.admin().request("POST", &path).json(body).send()
}

fn reference(program: &str) -> String {
    format!("Program/{NATIONAL_ID}|{program}")
}

#[test]
fn a_draft_is_created_read_changed_and_deleted() {
    let app = TestApp::start();
    let client = analyst(&app);
    let cases = json!([{"name": "old", "record": {"birth_date": "1950-01-01"}, "outcome": "eligible"}]);
    let more = json!({
        "comment": "First line\nsecond line", "program": reference("P"), "engine": "cel", "cases": cases,
        "as_of": "2026-02-28", "expression": "not valid yet (",
    });
    let response = client.post("/RuleDraft", &draft(more.clone())).expect(201);
    let created = response.json();
    assert_eq!(response.header("etag"), Some("\"1\""));
    assert!(response.header("location").unwrap().ends_with(&path_of(&created)));
    assert_eq!(
        (&created["type"], &created["version"], &created["status"]),
        (&json!("RuleDraft"), &json!(1), &json!("open"))
    );
    for name in ["comment", "program", "engine", "cases", "as_of", "expression"] {
        assert_eq!(created[name], more[name]);
    }
    assert_eq!(created["author"], json!({"client": client.id(), "organization": ORGANIZATION}));
    let read = client.get(&path_of(&created)).expect(200);
    assert_eq!((read.json(), read.header("etag")), (created.clone(), Some("\"1\"")));
    let unchanged = client.request("GET", &path_of(&created)).header("If-None-Match", "\"1\"").send();
    assert_eq!(unchanged.status, 304);

    let changed = replace(&client, &created, "\"1\"", &draft(json!({"name": "Pension, revised"}))).expect(200);
    let second = changed.json();
    assert_eq!(
        (&second["version"], &second["name"], changed.header("etag")),
        (&json!(2), &json!("Pension, revised"), Some("\"2\""))
    );
    assert!(
        ["comment", "as_of"].iter().all(|name| second.get(name).is_none())
            && second["created_at"] == created["created_at"],
        "{second}"
    );
    let history = client.get(&format!("{}/history", path_of(&created))).expect(200).json();
    assert_eq!((&history["total"], &history["data"]), (&json!(2), &json!([second, created])));

    drop(client.request("DELETE", &path_of(&created)).header("If-Match", "\"1\"").send().expect(412));
    drop(client.request("DELETE", &path_of(&created)).send().expect(204));
    for path in [path_of(&created), format!("{}/history", path_of(&created))] {
        assert_eq!(client.get(&path).status, 404);
    }
    assert_eq!(replace(&client, &created, "*", &draft(json!({}))).status, 404);
    assert_eq!(client.get("/RuleDraft").expect(200).json()["data"], json!([]));
}

#[test]
fn a_change_names_the_version_that_its_client_has_read() {
    let app = TestApp::start();
    let client = analyst(&app);
    let created = create(&client, json!({}));
    let without = client.request("PUT", &path_of(&created)).json(&draft(json!({}))).send().expect(428);
    assert_eq!(without.code(), "precondition_required");
    drop(replace(&client, &created, "\"1\"", &draft(json!({}))).expect(200));
    let outdated = replace(&client, &created, "\"1\"", &draft(json!({"name": "lost"}))).expect(412);
    assert_eq!(outdated.code(), "precondition_failed");
    assert!(outdated.detail().contains("version 2, not 1"), "{}", outdated.detail());
    let excluded = client.request("PUT", &path_of(&created)).header("If-Match", "*").header("If-None-Match", "\"2\"");
    assert_eq!(excluded.json(&draft(json!({}))).send().expect(412).code(), "precondition_failed");
    drop(replace(&client, &created, "*", &draft(json!({}))).expect(200));
    assert_eq!(client.get(&path_of(&created)).expect(200).json()["version"], 3);
}

#[test]
fn an_invalid_draft_is_reported_by_its_members() {
    let app = TestApp::start();
    let client = analyst(&app);
    for (more, field) in [
        (json!({"name": null}), "name"),
        (json!({"name": "x".repeat(201)}), "name"),
        (json!({"expression": null}), "expression"),
        (json!({"expression": "x".repeat(8_193)}), "expression"),
        (json!({"subject": "household"}), "subject"),
        (json!({"comment": "x".repeat(4_001)}), "comment"),
        (json!({"program": "Group/urn:x|1"}), "program"),
        (json!({"cases": [{"name": "a", "record": {}}]}), "cases"),
        (json!({"cases": [{"name": "a", "record": {}, "outcome": "eligible", "outcom": 1}]}), "cases"),
        (json!({"cases": [{"name": "x".repeat(65_536), "record": {}, "outcome": "eligible"}]}), "cases"),
        (json!({"as_of": "2026-02-29"}), "as_of"),
        (json!({"as_of": 20_260_228}), "as_of"),
        (json!({"status": "accepted"}), "status"),
    ] {
        let refused = client.post("/RuleDraft", &draft(more.clone())).expect(422).json();
        assert_eq!(refused["errors"][0]["field"], field, "{more}: {refused}");
    }
    drop(client.post("/RuleDraft", &draft(json!({"expression": "", "name": "x".repeat(200)}))).expect(201));
    assert_eq!(client.get("/RuleDraft/1").status, 400);
    assert_eq!(client.get("/RuleDraft?status=deleted").status, 400);
}

#[test]
fn a_client_sees_the_drafts_of_its_organization() {
    let app = TestApp::start();
    let scopes = ["eligibility:read", "eligibility:create"];
    let client = analyst(&app);
    let [colleague, other, alone, alone_too] =
        [Some(ORGANIZATION), Some("Ministry of Labour"), None, None].map(|of| client_of(&app, of, &scopes));
    let [ours, theirs, own] = [&client, &other, &alone].map(|client| create(client, json!({})));
    for (reader, visible) in [
        (&client, vec![&ours]),
        (&colleague, vec![&ours]),
        (&other, vec![&theirs]),
        (&alone, vec![&own]),
        (&alone_too, vec![]),
    ] {
        assert_eq!(reader.get("/RuleDraft").expect(200).json()["data"], json!(visible));
        for draft in [&ours, &theirs, &own] {
            let is_visible = visible.contains(&draft);
            let status = if is_visible { 200 } else { 404 };
            assert_eq!(reader.get(&path_of(draft)).status, status);
            assert_eq!(reader.get(&format!("{}/history", path_of(draft))).status, status);
            if !is_visible {
                assert_eq!(replace(reader, draft, "*", &self::draft(json!({}))).status, 404);
                assert_eq!(reader.request("DELETE", &path_of(draft)).send().status, 404);
            }
        }
    }
    drop(replace(&colleague, &ours, "\"1\"", &draft(json!({}))).expect(200));
    let reader = client_of(&app, Some(ORGANIZATION), &["eligibility:read"]);
    assert_eq!(reader.get(&path_of(&ours)).status, 200);
    for refused in [reader.post("/RuleDraft", &draft(json!({}))), replace(&reader, &ours, "*", &draft(json!({})))] {
        assert!(refused.status == 403 && refused.text().contains("eligibility:create"), "{}", refused.text());
    }
    assert_eq!(app.admin().get("/rule-drafts").expect(200).json()["total"], 3);
}

#[test]
fn a_list_is_filtered_and_in_pages() {
    let app = TestApp::start();
    let client = analyst(&app);
    let names = ["Pension A", "Child grant", "pension b"];
    let drafts: Vec<Value> = names
        .iter()
        .map(|name| {
            let program = if *name == "Child grant" {
                json!({"name": name, "program": reference("C")})
            } else {
                json!({"name": name})
            };
            app.advance_seconds(1);
            create(&client, program)
        })
        .collect();
    drop(decide(&app, &drafts[2], "reject", &json!({"version": 1, "reason": "no"})).expect(200));
    let found = |query: &str| -> Vec<String> {
        let page = client.get(&format!("/RuleDraft?{query}")).expect(200).json();
        page["data"].as_array().unwrap().iter().map(|draft| draft["name"].as_str().unwrap().to_owned()).collect()
    };
    assert_eq!(found(""), ["pension b", "Child grant", "Pension A"], "the newest is first");
    assert_eq!(found("name=PENSION"), ["pension b", "Pension A"]);
    assert_eq!(found("status=rejected"), ["pension b"]);
    assert_eq!(found("status=open&name=pension"), ["Pension A"]);
    assert_eq!(found(&format!("program=Program/{}|C", NATIONAL_ID.replace('#', "%23"))), ["Child grant"]);
    assert_eq!(found(&format!("author={}", client.id())).len(), 3);
    assert_eq!(found("author=client_none"), [""; 0]);
    let page = client.get("/RuleDraft?_count=2").expect(200).json();
    assert_eq!((&page["total"], page["data"].as_array().unwrap().len()), (&json!(3), 2));
    assert!(page["links"]["next"].as_str().unwrap().contains("_count=2&_offset=2"), "{page}");
}

#[test]
fn an_accepted_draft_is_the_rule_of_its_program() {
    let app = TestApp::start();
    let client = analyst(&app);
    program::create(&app, "P", json!({"eligibility": "is_female(me)"}));
    let created = create(&client, json!({"program": reference("P"), "engine": "eligibility-cel"}));
    let accepted = decide(&app, &created, "accept", &json!({"version": 1})).expect(200);
    let body = accepted.json();
    assert_eq!((&body["status"], &body["version"]), (&json!("accepted"), &json!(2)));
    assert_eq!(client.get(&path_of(&created)).expect(200).json(), body);
    let path = format!("/programs/{}%7CP", NATIONAL_ID.replace('#', "%23"));
    let program = app.admin().get(&path).expect(200).json();
    assert_eq!((&program["eligibility"], &program["engine"]), (&created["expression"], &json!("eligibility-cel")));
    let audited = crate::audit::lines(&app, &accepted);
    assert_eq!(audited.len(), 1, "{audited:#?}");
    let records = json!([format!("RuleDraft/{}", created["id"].as_str().unwrap()), reference("P")]);
    assert_eq!((&audited[0]["note"], &audited[0]["records"]), (&json!("rule draft accepted"), &records));
    assert_eq!(audited[0]["fields"], json!(["eligibility", "engine"]));
    for refused in [
        replace(&client, &created, "\"2\"", &draft(json!({}))),
        decide(&app, &created, "accept", &json!({"version": 2})),
        decide(&app, &created, "reject", &json!({"version": 2, "reason": "late"})),
    ] {
        assert!(refused.status == 409 && refused.detail().contains("accepted"), "{}", refused.text());
    }
}

#[test]
fn a_draft_that_cannot_be_accepted_changes_nothing() {
    let app = TestApp::start();
    let client = analyst(&app);
    program::create(&app, "P", json!({"eligibility": "is_female(me)"}));
    program::create(&app, "G", json!({"target_type": "group"}));
    let invalid = create(&client, json!({"program": reference("P"), "expression": "me.birthdate > today()"}));
    let refused = decide(&app, &invalid, "accept", &json!({"version": 1})).expect(422).json();
    assert_eq!(
        (&refused["code"], &refused["diagnostics"][0]["suggestion"]),
        (&json!("invalid_expression"), &json!("birth_date"))
    );
    let outdated = create(&client, json!({"program": reference("P")}));
    drop(replace(&client, &outdated, "\"1\"", &draft(json!({"program": reference("P")}))).expect(200));
    for decision in ["accept", "reject"] {
        let body = if decision == "accept" { json!({"version": 1}) } else { json!({"version": 1, "reason": "no"}) };
        let refused = decide(&app, &outdated, decision, &body).expect(409);
        assert_eq!(refused.code(), "version_mismatch", "{}", refused.text());
    }
    for (more, reported) in [
        (json!({}), "names no program"),
        (json!({"program": reference("absent")}), "there is no program"),
        (json!({"program": reference("G")}), "type `group`"),
    ] {
        let refused = decide(&app, &create(&client, more), "accept", &json!({"version": 1})).expect(409);
        assert!(refused.detail().contains(reported), "{}", refused.detail());
    }
    let engine = create(&client, json!({"program": reference("P"), "engine": "gear"}));
    let refused = decide(&app, &engine, "accept", &json!({"version": 1})).expect(422).json();
    assert_eq!(refused["errors"][0]["field"], "engine", "{refused}");
    for (body, field) in
        [(json!({}), "version"), (json!({"version": 0}), "version"), (json!({"version": 1, "x": 1}), "x")]
    {
        let refused = decide(&app, &invalid, "accept", &body).expect(422).json();
        assert_eq!(refused["errors"][0]["field"], field, "{refused}");
    }
    assert_eq!(decide(&app, &invalid, "reject", &json!({"version": 1})).status, 422, "a reason is required");
    let path = format!("/programs/{}%7CP", NATIONAL_ID.replace('#', "%23"));
    assert_eq!(app.admin().get(&path).expect(200).json()["eligibility"], "is_female(me)");
    assert_eq!(client.get(&path_of(&invalid)).expect(200).json(), invalid);
    let rejected =
        decide(&app, &invalid, "reject", &json!({"version": 1, "reason": "misspelt\nfield"})).expect(200).json();
    assert_eq!((&rejected["status"], &rejected["reason"]), (&json!("rejected"), &json!("misspelt\nfield")));
}

#[test]
fn drafts_survive_a_restart() {
    let mut app = TestApp::start();
    let client = analyst(&app);
    let created = create(&client, json!({}));
    drop(replace(&client, &created, "\"1\"", &draft(json!({"name": "second"}))).expect(200));
    let history = client.get(&format!("{}/history", path_of(&created))).expect(200).json();
    app.restart();
    let client = app.client_of(client.credentials());
    assert_eq!(client.get(&format!("{}/history", path_of(&created))).expect(200).json()["data"], history["data"]);
    assert_eq!(client.get("/RuleDraft").expect(200).json()["data"], json!([history["data"][0]]));
}

#[test]
fn of_two_servers_one_change_of_a_version_is_written() {
    let processes = Processes::start(2);
    let credentials = processes.credentials(0, &["eligibility:read", "eligibility:create"]);
    let clients = [0, 1].map(|number| processes.client_of(number, &credentials));
    let created = create(&clients[0], json!({}));
    for version in 1..=5 {
        let tag = format!("\"{version}\"");
        let statuses = std::thread::scope(|scope| {
            let change = |client: &ApiClient| replace(client, &created, &tag, &draft(json!({}))).status;
            let tasks = clients.each_ref().map(|client| scope.spawn(move || change(client)));
            let mut statuses = tasks.map(|task| task.join().unwrap());
            statuses.sort_unstable();
            statuses
        });
        assert_eq!(statuses, [200, 412]);
    }
    let history = clients[1].get(&format!("{}/history", path_of(&created))).expect(200).json();
    assert_eq!(history["total"], 6);
    drop(clients[1].request("DELETE", &path_of(&created)).send().expect(204));
    assert_eq!(clients[0].get(&path_of(&created)).status, 404);
}
