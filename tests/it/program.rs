//! `/Program`, and administration of programs.

mod engine;

use daftar_tests::records::{NATIONAL_ID, path, with};
use daftar_tests::{TestApp, errors, redacted};
use serde_json::{Value, json};

/// A program with that id and these further members.
pub fn program(id: &str, more: Value) -> Value {
    let body = json!({"identifier": [{"system": NATIONAL_ID, "value": id}], "name": format!("Program {id}"), "target_type": "individual"});
    with(body, more)
}

/// Adds a program and returns the body of the response.
#[track_caller]
pub fn create(app: &TestApp, id: &str, more: Value) -> Value {
    app.admin().request("POST", "/programs").json(&program(id, more)).send().expect(201).json()
}

/// The path of a program in the admin API.
pub fn admin_path(id: &str) -> String {
    path("programs", id)
}

#[test]
fn a_program_of_the_administrator_is_read_by_clients() {
    let app = TestApp::start();
    let more = json!({
        "active": true,
        "description": "A pension for the old",
        "program_type": "pension",
        "eligibility": "age_years(me.birth_date)\n  >= 60",
        "enforce_eligibility": true,
        "period": {"start": "2026-01-01", "end": "2026-12-31"},
    });
    let created = create(&app, "P-1", more);
    insta::assert_json_snapshot!(redacted(&created), @r#"
    {
      "active": true,
      "description": "A pension for the old",
      "eligibility": "age_years(me.birth_date)\n  >= 60",
      "enforce_eligibility": true,
      "identifier": [
        {
          "system": "urn:svc:vocab:id-type#national_id",
          "value": "P-1"
        }
      ],
      "meta": {
        "last_updated": "2026-03-01T12:00:00.000Z",
        "version_id": "1"
      },
      "name": "Program P-1",
      "period": {
        "end": "2026-12-31",
        "start": "2026-01-01"
      },
      "program_type": "pension",
      "target_type": "individual",
      "type": "Program"
    }
    "#);
    let client = app.client(&["program:read"]);
    for resource in ["Program", "programs"] {
        let read = client.get(&path(resource, "P-1")).expect(200);
        assert_eq!(read.header("etag"), Some("\"1\""));
        assert_eq!(read.json(), created);
    }
    assert_eq!(client.get(&path("Program", "P-2")).expect(404).detail(), "no such Program");
    assert_eq!(client.get("/Program/urn:svc:vocab:id-type").status, 400, "cut short by a raw #");
    assert_eq!(client.post("/Program", &program("P-2", json!({}))).status, 405, "clients write no programs");
}

#[test]
fn programs_are_searched_and_paged() {
    let app = TestApp::start();
    create(&app, "P-1", json!({"name": "Pensión básica", "period": {"end": "2026-02-28"}}));
    create(&app, "P-2", json!({"name": "School meals", "target_type": "group", "active": false}));
    create(&app, "P-3", json!({"name": "School fees", "period": {"start": "2026-03-02"}}));
    let client = app.client(&["program:search"]);
    let found = |query: &str| -> Vec<String> {
        let page = client.get(&format!("/Program?{query}")).expect(200).json();
        let programs = page["data"].as_array().unwrap();
        programs.iter().map(|one| one["identifier"][0]["value"].as_str().unwrap().to_owned()).collect()
    };
    for (query, expected) in [
        ("", &["P-1", "P-2", "P-3"][..]),
        ("name=basica", &["P-1"]),
        ("name=school&name=me", &["P-2"]),
        ("active=true", &["P-1", "P-3"]),
        ("active=false", &["P-2"]),
        ("target_type=group", &["P-2"]),
        ("status=ended", &["P-1"]),
        ("status=current", &["P-2"]),
        ("status=upcoming", &["P-3"]),
        ("status=upcoming&active=false", &[]),
        ("identifier=urn:svc:vocab:id-type%23national_id%7CP-3", &["P-3"]),
        ("identifier=urn:svc:vocab:id-type%23national_id%7CP-9", &[]),
    ] {
        assert_eq!(found(query), expected, "{query}");
    }
    let page = client.get("/programs?_count=2&_offset=0").expect(200).json();
    assert_eq!(page["total"], 3);
    let next = client.get(page["links"]["next"].as_str().unwrap()).expect(200).json();
    assert_eq!((next["data"].as_array().unwrap().len(), &next["links"]["next"]), (1, &Value::Null));
    for wrong in
        ["status=over", "target_type=person", "colour=red", "name=--", "identifier=urn:x", "_count=0", "_count=101"]
    {
        assert_eq!(client.get(&format!("/Program?{wrong}")).status, 400, "{wrong}");
    }
}

#[test]
fn an_expression_that_does_not_compile_is_refused_where_it_is_wrong() {
    let app = TestApp::start();
    let send = |more| app.admin().request("POST", "/programs").json(&program("P-1", more)).send();
    let refused = send(json!({"eligibility": "true &&\n me.birth_dat > as_of"})).expect(422).json();
    let diagnostic = &refused["diagnostics"][0];
    assert_eq!((&diagnostic["line"], &diagnostic["suggestion"]), (&json!(2), &json!("birth_date")), "{refused}");
    assert_eq!(
        send(json!({"eligibility": "in_group(me.gender, 'absent')"})).expect(422).json()["diagnostics"][0]["line"],
        1
    );
    assert_eq!(send(json!({"eligibility": "me.group_type.code == 'x'"})).status, 422, "a field of groups");
    assert_eq!(send(json!({"eligibility": "1 + 1"})).status, 422, "no answer is yes or no");
    assert_eq!(app.client(&["program:read"]).get(&path("Program", "P-1")).status, 404, "nothing was kept");
    create(&app, "P-1", json!({"eligibility": "me.group_type.code == 'household'", "target_type": "group"}));
}

#[test]
fn wrong_programs_are_refused_and_named() {
    let app = TestApp::start();
    for (body, field, code) in [
        (json!({"name": "x", "target_type": "group"}), "identifier", "required"),
        (program("P", json!({"name": null})), "name", "required"),
        (program("P", json!({"name": "x".repeat(301)})), "name", "too_long"),
        (program("P", json!({"description": "x".repeat(4_001)})), "description", "too_long"),
        (program("P", json!({"target_type": null})), "target_type", "required"),
        (program("P", json!({"target_type": "person"})), "target_type", "unknown_value"),
        (program("P", json!({"eligibility": "x".repeat(8 * 1024 + 1)})), "eligibility", "too_long"),
        (program("P", json!({"eligibility": 1})), "eligibility", "wrong_type"),
        (program("P", json!({"enforce_eligibility": true})), "enforce_eligibility", "contradiction"),
        (program("P", json!({"enforce_eligibility": "yes"})), "enforce_eligibility", "wrong_type"),
        (program("P", json!({"period": {"start": "2026-02-30"}})), "period.start", "invalid_date"),
        (program("P", json!({"period": {"start": "2026-02-02", "end": "2026-02-01"}})), "period.end", "invalid_period"),
        (program("P", json!({"target_typ": "group"})), "target_typ", "unknown_field"),
        (program("P", json!({"type": "Group"})), "type", "wrong_type"),
        (
            program("P", json!({"identifier": [{"system": "urn:x:y", "value": "1"}]})),
            "identifier[0].system",
            "unknown_system",
        ),
    ] {
        let refused = app.admin().request("POST", "/programs").json(&body).send();
        assert_eq!(refused.status, 422, "{body}: {}", refused.text());
        assert_eq!(errors(&refused.json()), [(field.to_owned(), code.to_owned())], "{body}");
    }
    create(&app, "P", json!({"name": "x".repeat(300), "description": "x".repeat(4_000)}));
    let again = app.admin().request("POST", "/programs").json(&program("P", json!({}))).send();
    assert_eq!(again.status, 409);
    for body in ["{\"name\": \"a\", \"name\": \"b\"}", "[]", "", "{\"name\": \"a\\u0000\"}"] {
        assert_eq!(
            app.admin().request("POST", "/programs").body("application/json", body).send().status,
            400,
            "{body}"
        );
    }
}

#[test]
fn a_program_is_changed_in_parts_at_the_version_that_was_read() {
    let app = TestApp::start();
    create(&app, "P-1", json!({"eligibility": "is_female(me)", "period": {"start": "2026-01-01"}}));
    let patch = |body: Value| app.admin().request("PATCH", &admin_path("P-1")).json(&body).send();
    let changed = patch(json!({"period": {"end": "2026-06-30"}, "eligibility": null})).expect(200);
    assert_eq!(changed.header("etag"), Some("\"2\""));
    let changed = changed.json();
    assert_eq!(changed["period"], json!({"start": "2026-01-01", "end": "2026-06-30"}));
    assert!(changed.get("eligibility").is_none());
    assert_eq!(errors(&patch(json!({"target_type": "group"})).expect(422).json())[0].0, "target_type");
    assert_eq!(errors(&patch(json!({"identifier": []})).expect(422).json())[0].1, "required");
    let other = json!({"identifier": [{"system": NATIONAL_ID, "value": "P-2"}]});
    assert_eq!(errors(&patch(other).expect(422).json())[0].1, "immutable");
    assert_eq!(patch(json!({"eligibility": "me.gendr == me.gender"})).status, 422);
    let at = |version: &str, name: &str| {
        let request = app.admin().request("PATCH", &admin_path("P-1")).json(&json!({"name": name}));
        request.header("If-Match", version).send()
    };
    let refused = at("\"1\"", "late").expect(409);
    assert_eq!(refused.detail(), "the record is at version 2, not 1: read it again and repeat the change");
    assert_eq!(at("W/\"2\"", "weak").status, 400);
    assert_eq!(at("\"2\"", "in time").expect(200).json()["name"], "in time");
    let excluded = app.admin().request("PATCH", &admin_path("P-1")).header("If-None-Match", "*");
    assert_eq!(excluded.json(&json!({"name": "x"})).send().expect(412).code(), "precondition_failed");
    assert_eq!(app.admin().request("PATCH", &admin_path("P-9")).json(&json!({})).send().status, 404);
}

#[test]
fn programs_outlive_a_restart() {
    let mut app = TestApp::start();
    let created = create(&app, "P-1", json!({}));
    app.restart();
    let client = app.client(&["program:read"]);
    assert_eq!(client.get(&path("Program", "P-1")).expect(200).json(), created);
    assert_eq!(client.get("/Program").expect(200).json()["total"], 1);
}

#[test]
fn changes_at_the_same_time_that_name_no_version_are_all_made() {
    let app = TestApp::start();
    create(&app, "P", json!({}));
    let target = path("programs", "P");
    for round in 0..3 {
        // A change is attempted four times in all: of four writers with one change each, none has more conflicts.
        let parts = [
            json!({"name": format!("name {round}")}),
            json!({"description": format!("description {round}")}),
            json!({"program_type": format!("type {round}")}),
            json!({"active": round % 2 == 0}),
        ];
        let together = std::sync::Barrier::new(parts.len());
        std::thread::scope(|scope| {
            for body in &parts {
                let (admin, target, together) = (app.admin(), &target, &together);
                scope.spawn(move || {
                    together.wait();
                    drop(admin.request("PATCH", target).json(body).send().expect(200));
                });
            }
        });
        let program = app.admin().get(&target).expect(200).json();
        let made: Vec<bool> = parts.iter().map(|part| with(program.clone(), part.clone()) == program).collect();
        assert_eq!(made, [true; 4], "{program}");
    }
    assert_eq!(app.admin().get(&target).expect(200).json()["meta"]["version_id"], "13");
}
