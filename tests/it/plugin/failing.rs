//! Callers affected by a failing engine: the client of the expression, or, if it fails by itself, all clients for a
//! while.

use daftar::domain::manifest::PluginName;
use daftar_tests::{TestApp, artifacts};
use serde_json::{Value, json};

fn with_misbehaving_engine() -> (TestApp, tempfile::TempDir) {
    let folder = tempfile::tempdir().unwrap();
    std::fs::copy(artifacts::fixture("misbehaving-engine"), folder.path().join("engine.wasm")).unwrap();
    (TestApp::builder().plugins(folder.path()).start(), folder)
}

fn asking(expression: &str) -> Value {
    let person = json!({"type": "individual"});
    json!({"expression": expression, "subject": "individual", "subjects": [person]})
}

const PATH: &str = "/Eligibility/$evaluate";

#[test]
fn an_exhausted_budget_counts_against_that_client_and_expression_only() {
    let (app, _folder) = with_misbehaving_engine();
    let (greedy, other) = (app.client(&["eligibility:all"]), app.client(&["eligibility:all"]));
    let calls = || app.admin().get("/plugins/misbehaving-engine").expect(200).json()["calls"].as_u64().unwrap();

    let first = greedy.post(PATH, &asking("recurse in compile")).expect(422);
    assert!(first.detail().contains("`stack`"), "{}", first.detail());
    let before = calls();
    let second = greedy.post(PATH, &asking("recurse in compile")).expect(422);
    assert!(second.detail().contains("found out a moment ago; it is tried again in 30 s"), "{}", second.detail());
    assert_eq!(calls(), before, "the sandbox is not entered again");

    assert_eq!(greedy.post(PATH, &asking("anything else")).status, 200);
    assert_eq!(other.post(PATH, &asking("anything else")).status, 200);
    let of_other = other.post(PATH, &asking("recurse in compile")).expect(422);
    assert!(!of_other.detail().contains("a moment ago"), "{}", of_other.detail());

    app.advance_seconds(31);
    let before = calls();
    drop(greedy.post(PATH, &asking("recurse in compile")).expect(422));
    assert!(calls() > before, "after a while it is tried again");
}

#[test]
fn no_client_can_switch_eligibility_off_for_others() {
    let (app, _folder) = with_misbehaving_engine();
    let (hostile, other) = (app.client(&["eligibility:all"]), app.client(&["eligibility:all"]));
    for round in 0..8 {
        for what in ["panic", "allocate", "recurse", "log", "flood"] {
            // Blanks make it a different expression each time.
            let expression = format!("{what}{} in compile", " ".repeat(round));
            drop(hostile.post(PATH, &asking(&expression)).expect(422));
            app.advance_seconds(2);
        }
        assert_eq!(other.post(PATH, &asking("all")).status, 200, "round {round}");
    }
    let shown = app.admin().get("/plugins/misbehaving-engine").expect(200).json();
    assert_eq!(shown["breaker"], json!({"state": "closed", "suspensions": 0}));
    assert_eq!(shown["last_fault"]["kind"], "host_calls");
    assert!(shown["faults"].as_u64().unwrap() >= 40, "{shown}");
}

#[test]
fn an_engine_that_cannot_start_is_suspended_by_name_and_resumed_by_itself_or_by_the_operator() {
    let (mut app, _folder) = with_misbehaving_engine();
    let client = app.client(&["eligibility:all"]);
    // It requires three core instances, so with two it fails before any expression is read.
    let name = PluginName::parse("misbehaving-engine").unwrap();
    app.restart_with(|config| {
        config.plugins.limits.entry(name.clone()).or_default().core_instances = Some(2);
    });
    let mut waits = Vec::new();
    for _ in 0..8 {
        let refused = client.post(PATH, &asking("all")).expect(503);
        assert!(refused.detail().contains("plugin `misbehaving-engine` is suspended"), "{}", refused.detail());
        assert_eq!(refused.code(), "plugin_suspended");
        let wait = refused.number("retry-after");
        waits.push(wait);
        if waits.len() > 5 {
            app.advance_seconds(wait);
        }
    }
    assert_eq!(waits, [1, 1, 1, 1, 1, 1, 2, 4], "five faults, then each trial fails");
    let shown = app.admin().get("/plugins/misbehaving-engine").expect(200).json();
    assert_eq!((&shown["breaker"]["state"], &shown["last_fault"]["kind"]), (&json!("open"), &json!("instances")));
    app.restart_with(|config| {
        config.plugins.limits.remove(&name);
    });
    assert_eq!(client.post(PATH, &asking("all")).status, 200);
}

#[test]
fn an_engine_that_was_given_a_rule_writes_nothing_into_the_log() {
    let (app, _folder) = with_misbehaving_engine();
    let client = app.client(&["eligibility:all"]);
    drop(client.post(PATH, &asking("say whom this is about")).expect(200));
    let shown = app.admin().get("/plugins/misbehaving-engine").expect(200).json();
    assert_eq!(shown["log_lines"], json!({"written": 0, "suppressed": 1}));
}

#[test]
fn a_second_engine_is_refused_where_none_is_named_and_the_first_serves_on() {
    let (app, _folder) = with_misbehaving_engine();
    let client = app.client(&["eligibility:all"]);
    let second = std::fs::read(artifacts::plugin("eligibility-cel")).unwrap();
    let refused = app.admin().install(&second).expect(422);
    assert!(
        refused.detail().contains("the eligibility engine `misbehaving-engine` is already installed"),
        "{}",
        refused.detail()
    );
    assert!(refused.detail().contains("`engine` in `[plugins]`"), "{}", refused.detail());
    drop(client.post(PATH, &asking("true")).expect(200));
    let named = PluginName::parse("misbehaving-engine").ok();
    let folder = tempfile::tempdir().unwrap();
    std::fs::copy(artifacts::fixture("misbehaving-engine"), folder.path().join("engine.wasm")).unwrap();
    let app = TestApp::builder().plugins(folder.path()).config(|config| config.plugins.engine = named).start();
    drop(app.admin().install(&second).expect(201));
    let client = app.client(&["eligibility:all"]);
    let decided = client.post(PATH, &asking("true")).expect(200).json();
    assert!(decided.to_string().contains("misbehaving-engine"), "the one that is named serves: {decided}");
}
