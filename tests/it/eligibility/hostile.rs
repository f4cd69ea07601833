//! Malicious rules: each is rejected or evaluated, and the next request is served.

use std::time::{Duration, Instant};

use daftar_tests::records::FEMALE;
use daftar_tests::{ApiClient, TestApp, artifacts};
use serde_json::{Value, json};

/// Maximum time of one rule, on a machine under other load.
const PATIENCE: Duration = Duration::from_secs(55);
/// Time limit of a rule, below the timeout of a request: other limits end hostile rules first.
const CALL_MS: u64 = 25_000;

fn app() -> TestApp {
    TestApp::builder().call_ms("eligibility-cel", CALL_MS).start()
}

fn evaluate(client: &ApiClient, expression: &str) -> (u16, Value) {
    let body = json!({"expression": expression, "subjects": [{"type": "individual", "gender": FEMALE}]});
    let started = Instant::now();
    let response = client.post("/Eligibility/$evaluate", &body);
    assert!(started.elapsed() < PATIENCE, "{} s", started.elapsed().as_secs());
    (response.status, response.json())
}

fn repeated(first: &str, link: &str, count: usize) -> String {
    format!("{first}{}", link.repeat(count))
}

/// `[..].macro(a, [..].macro(b, … true))`, that many levels of ten items each.
fn nested(name: &str, levels: usize) -> String {
    let open = |level: usize| format!("[0,1,2,3,4,5,6,7,8,9].{name}(x{level}, ");
    let opened: String = (0..levels).map(open).collect();
    // Neither `exists` nor `all` can stop early.
    let last = match name {
        "exists" => "1 == 2",
        _ => "1 == 1",
    };
    format!("{opened}{last}{}", ")".repeat(levels))
}

/// Expressions that crash or hang the library outside a sandbox, with the expected message about the exceeded limit.
fn hostile() -> Vec<(&'static str, String, &'static str)> {
    let doubled = repeated("['aaaaaaaaaaaaaaaa']", ".map(x, x + x)", 28);
    let garbage = "@#$".repeat(2_700);
    vec![
        ("a sum of 1,450 terms", repeated("1", "+1", 1_450) + " > 0", "more than 250 operations"),
        ("a chain of 1,000 sizes", repeated("'a'", ".size()", 1_000) + " > 0", "more than 250 operations"),
        ("a chain of 1,450 indexes", repeated("me", "['a']", 1_450) + " == 1", "more than 250 operations"),
        ("a chain of 4,000 fields", repeated("me", ".a", 4_000) + " == 1", "more than 250 operations"),
        ("a text doubled 28 times", doubled.clone() + ".size() > 0", "of 65536 for `text_bytes`"),
        ("a text doubled 28 times, compared", doubled + "[0] == 'a'", "of 65536 for `text_bytes`"),
        (
            "a range of ranges",
            "lists.range(10000).map(i, lists.range(10000)).size() > 0".to_owned(),
            "it exhausted its budget of",
        ),
        ("garbage", garbage, "`@` has no meaning"),
        ("eight levels of map", nested("map", 8) + ".size() > 0", "for `fuel`"),
        ("eight levels of exists", nested("exists", 8), "for `fuel`"),
        ("seven levels of all", nested("all", 7), "for `fuel`"),
        ("300 parentheses", "(".repeat(300) + "true" + &")".repeat(300), "more than 64 levels"),
        ("4,000 parentheses left open", "(".repeat(4_000), "more than 64 levels"),
        ("100 brackets in each other", "[".repeat(100) + &"]".repeat(100) + " == []", "more than 64 levels"),
        ("4,000 brackets", "[".repeat(4_000), "more than 64 levels"),
        ("a chain of ternaries", "true ? ".repeat(500) + "true" + &" : true".repeat(500), "more than 64 levels"),
        ("1,000 negations", "!".repeat(1_000) + "true", "more than 250 operations"),
        ("a great pattern", format!("'a'.matches('{}')", "a?".repeat(4_000)), ""),
        ("a pattern of great repetition", "'a'.matches('((a{100}){100}){100}')".to_owned(), "not a regular expression"),
        ("a name of 8,000 characters", "a".repeat(8_000), "there is no"),
        ("a text left open", format!("'{}", "a".repeat(8_000)), "no closing quote"),
        ("bytes that are no text", "\u{1}\u{2}\u{7f}\u{feff}\u{202e}".to_owned(), "has no meaning"),
        ("a number beyond all bounds", "99999999999999999999999999 > 1".to_owned(), "does not fit"),
        ("a list made of lists", repeated("[1]", ".map(x, [x, x]).flatten()", 20) + ".size() > 0", "for `list_items`"),
        (
            "a map as large as memory",
            "lists.range(10000).transformMap(i, x, lists.range(10000)).size() > 0".to_owned(),
            "it exhausted its budget of",
        ),
        ("a range beyond all bounds", "lists.range(1000000000).size() > 0".to_owned(), ""),
        ("a text of a million blanks", "'%1000000s'.format(['a']) == ''".to_owned(), ""),
        (
            "a word joined with itself",
            repeated("cel.bind(a, 'aaaaaaaaaaaaaaaa', ", "cel.bind(a, a + a, ", 13) + "a == ''" + &")".repeat(14),
            "of 65536 for `text_bytes`",
        ),
    ]
}

/// Expressions beyond the maximum length: they crash the library by their length alone.
fn oversized() -> Vec<(&'static str, String)> {
    vec![
        ("a parse error beyond column 65,535", format!("{}@", " ".repeat(66_000))),
        ("30,000 characters of garbage", "@#$".repeat(10_000)),
        ("90,000 characters of garbage", "@#$".repeat(30_000)),
        ("a pattern of 2 MB", format!("'a'.matches('{}')", "a?".repeat(1_000_000))),
        ("one byte too many", "1".repeat(8 * 1024 + 1)),
    ]
}

/// The budget named by a response, if any: its name and its size.
fn names_a_budget(response: &Value) -> bool {
    let detail = response["detail"].as_str().unwrap_or_default();
    let after = |mark: &str| detail.split_once(mark).map(|(_, rest)| rest);
    let sized = after("budget of ").is_some_and(|rest| rest.starts_with(|one: char| one.is_ascii_digit()));
    sized && after(" for `").is_some_and(|rest| rest.contains('`'))
}

#[test]
fn no_expression_harms_the_server() {
    let app = app();
    let client = app.client(&["eligibility:read", "individual:read"]);
    let other = app.client(&["individual:read"]);
    let oversized = oversized().into_iter().map(|(name, expression)| (name, expression, "8192"));
    for (name, expression, message) in hostile().into_iter().chain(oversized) {
        let mut served = 0;
        let (status, response) = std::thread::scope(|scope| {
            let attack = scope.spawn(|| evaluate(&client, &expression));
            while served == 0 || !attack.is_finished() {
                assert_eq!(other.get("/Individual").status, 200, "during {name}");
                served += 1;
                // Leaves the processors to the rule.
                std::thread::sleep(Duration::from_millis(20));
            }
            attack.join().unwrap()
        });
        if status == 200 && message.is_empty() {
            // It is limited by its own size.
            assert_ne!(response["results"][0]["outcome"], "eligible", "{name}: {response}");
        } else {
            assert!(status == 422 || status == 400, "{name}: {status} {response}");
            assert!(response["detail"].is_string(), "{name}: {response}");
            assert!(response.to_string().contains(message), "{name}: not `{message}`: {response}");
        }
        let (status, response) = evaluate(&client, "is_female(me)");
        assert_eq!((status, &response["results"][0]["outcome"]), (200, &json!("eligible")), "after {name}");
        let engine = app.admin().get("/plugins/eligibility-cel").expect(200).json();
        assert_eq!(engine["breaker"]["state"], "closed", "after {name}: {engine}");
    }
}

#[test]
fn every_exhausted_budget_is_named_with_its_size() {
    let app = app();
    let client = app.client(&["eligibility:read"]);
    for (name, expression, _) in hostile().into_iter().filter(|(_, _, message)| !message.is_empty()) {
        let (status, response) = evaluate(&client, &expression);
        let is_diagnosed = response["diagnostics"].as_array().is_some_and(|diagnostics| !diagnostics.is_empty());
        assert!(status == 422 && (is_diagnosed || names_a_budget(&response)), "{name}: {status} {response}");
        let body = json!({"expression": expression});
        let checked = client.post("/Eligibility/$validate", &body);
        let is_reported = match checked.status {
            // Expressions that are only too expensive to evaluate are valid.
            200 => checked.json()["valid"].is_boolean(),
            422 => names_a_budget(&checked.json()),
            _ => false,
        };
        assert!(is_reported, "{name}: {} {}", checked.status, checked.text());
    }
    for (name, expression) in oversized() {
        let (status, response) = evaluate(&client, &expression);
        assert_eq!((status, &response["errors"][0]["code"]), (422, &json!("too_long")), "{name}: {response}");
        assert!(response["detail"].as_str().unwrap().contains("8192 bytes"), "{name}: {response}");
    }
    let (_, response) = evaluate(&client, &nested("exists", 8));
    assert!(response["detail"].as_str().unwrap().contains("for `fuel`"), "{response}");
}

#[test]
fn harmless_rules_that_look_dangerous_are_evaluated() {
    let app = app();
    let client = app.client(&["eligibility:read"]);
    for (name, expression) in [
        ("a sum of 200 terms", repeated("1", "+1", 199) + " == 200"),
        ("a conjunction of 200", repeated("true", "&&true", 199)),
        ("a pattern that ties others up", format!("!'{}!'.matches('^(a+)+$')", "a".repeat(40))),
        ("two levels of exists", "[1,2,3].exists(x, [4,5,6].exists(y, x + y == 9))".to_owned()),
        ("an expression of nearly 8 KiB", format!("true{}", " ".repeat(8_000))),
    ] {
        let (status, response) = evaluate(&client, &expression);
        assert_eq!((status, &response["results"][0]["outcome"]), (200, &json!("eligible")), "{name}: {response}");
    }
}

#[test]
fn hostile_rules_at_the_same_time_leave_room_for_others() {
    let app = app();
    let (attacker, other) = (app.client(&["eligibility:read"]), app.client(&["individual:read"]));
    std::thread::scope(|scope| {
        let attacks: Vec<_> = (0..6).map(|_| scope.spawn(|| evaluate(&attacker, &nested("exists", 8)))).collect();
        let started = Instant::now();
        for _ in 0..10 {
            assert_eq!(other.get("/Individual").status, 200);
        }
        assert!(started.elapsed() < PATIENCE);
        for attack in attacks {
            let (status, response) = attack.join().unwrap();
            assert!([422, 503].contains(&status), "{status} {response}");
        }
    });
    assert_eq!(evaluate(&attacker, "is_female(me)").0, 200);
}

#[test]
fn a_misbehaving_engine_is_stopped_and_serves_later_requests() {
    let folder = tempfile::tempdir().unwrap();
    for path in std::fs::read_dir(artifacts::plugins()).unwrap().map(|entry| entry.unwrap().path()) {
        if path.file_stem().unwrap() != "eligibility-cel" {
            std::fs::copy(&path, folder.path().join(path.file_name().unwrap())).unwrap();
        }
    }
    std::fs::copy(artifacts::fixture("misbehaving-engine"), folder.path().join("engine.wasm")).unwrap();
    let app = TestApp::builder().plugins(folder.path()).call_ms("misbehaving-engine", CALL_MS).start();
    let client = app.client(&["eligibility:read"]);
    for fault in ["loop", "panic", "allocate", "recurse"] {
        for place in ["compile", "evaluate"] {
            let (status, response) = evaluate(&client, &format!("{fault} in {place}"));
            assert_eq!(status, 422, "{fault} in {place}: {response}");
            assert_eq!(response["code"], "evaluation_failed", "{fault} in {place}: {response}");
            assert_eq!(evaluate(&client, "anything").0, 200, "after {fault} in {place}");
        }
    }
    let (status, response) = evaluate(&client, "answer too much");
    assert_eq!(status, 422, "{response}");
    let plugins = app.admin().get("/plugins").expect(200).json();
    let engine =
        plugins["data"].as_array().unwrap().iter().find(|plugin| plugin["kind"] == "eligibility-engine").unwrap();
    assert!(engine["faults"].as_u64() >= Some(9), "{engine}");
}
