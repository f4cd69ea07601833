//! Expensive rules of one client: another one is served in the meantime, a request costs no more than one budget, and
//! work whose client disconnected is not started.

use daftar_tests::records::{FEMALE, ROLE};
use daftar_tests::{ApiClient, Held, TestApp};
use serde_json::{Value, json};

use super::preview::turns::{figures, looping, until};

fn requested(expression: &str) -> Value {
    json!({"expression": expression, "subjects": [{"type": "individual"}]})
}

/// Sends a rule without waiting for the response. Blanks make each a different expression: one that was stopped is not
/// tried again.
fn begin(client: &ApiClient, rule: &str, number: usize) -> Held {
    let rule = rule.replacen(' ', &" ".repeat(number + 1), 1);
    client.request("POST", "/Eligibility/$evaluate").json(&requested(&rule)).hold()
}

/// Requests that wait for a plugin thread, and those that wait or run.
fn requests(app: &TestApp) -> (u64, u64) {
    let token = app.admin().token().to_owned();
    let page = app.admin_listener().request("GET", "/metrics").bearer(&token).send().expect(200).text();
    let figure = |series: &str| {
        let line = page.lines().find_map(|line| line.strip_prefix(series)?.strip_prefix(' '));
        line.map_or(0, |figure| figure.parse().unwrap())
    };
    let waiting = figure("daftar_plugin_queue_waiting{priority=\"interactive\"}");
    (waiting, figure("daftar_plugin_requests{plugin=\"misbehaving-engine\"}"))
}

/// Sends this number of rules that loop, and waits until the server has them; returns the number of running ones.
fn occupy(app: &TestApp, client: &ApiClient, rule: &str, count: usize) -> (Vec<Held>, u64) {
    let held = (0..count).map(|number| begin(client, rule, number)).collect();
    let expected = u64::try_from(count).unwrap();
    for _ in 0..100_000 {
        let (waiting, all) = requests(app);
        if all == expected && waiting < expected {
            return (held, all - waiting);
        }
        std::thread::yield_now();
    }
    panic!("not all of {count} requests are there: {:?}", requests(app));
}

#[test]
fn rules_of_one_client_that_take_their_whole_time_do_not_delay_the_rule_of_another() {
    let (app, _folder) = looping(20_000);
    let (greedy, modest) = (app.client(&["eligibility:read"]), app.client(&["eligibility:read"]));
    let (held, _) = occupy(&app, &greedy, "loop in evaluate", 12);
    assert_eq!(modest.evaluate(&requested("all_eligible"))["results"][0]["outcome"], "eligible");
    let [.., stopped] = figures(&app);
    // One thread is reserved for other clients. In order of arrival it would be all twelve.
    assert!(stopped <= 2, "{stopped} of the other client came first");
    drop(held);
}

#[test]
fn a_rule_whose_client_left_before_its_turn_is_never_begun() {
    let (app, _folder) = looping(15_000);
    let client = app.client(&["eligibility:read"]);
    // During compilation, before any data of the request is read.
    let (held, running) = occupy(&app, &client, "loop in compile", 20);
    drop(held);
    // Not every thread has begun a call when the first ones are seen to run.
    let threads = u64::try_from(std::thread::available_parallelism().unwrap().get()).unwrap() + 2;
    for _ in 0..100_000 {
        if requests(&app) == (0, 0) {
            break;
        }
        std::thread::yield_now();
    }
    assert_eq!(requests(&app), (0, 0));
    let [.., stopped] = figures(&app);
    // A thread may have started its next one before the server detected the disconnect.
    assert!(stopped <= 2 * threads, "{stopped} were begun by {threads} threads, {running} of them at first");
    until(&app, |figures| figures[..3] == [0; 3]);
}

/// A rule that costs nothing to evaluate and almost the maximum of one call to explain.
fn expensive_to_explain() -> String {
    let list = "[1,2,3,4,5,6,7,8,9,10]";
    let opened: String = ["a", "b", "c", "d", "e"].map(|name| format!("{list}.all({name}, ")).concat();
    format!("me.active || {opened}a+b+c+d+e > 0)))))")
}

#[test]
fn one_budget_covers_the_explanations_of_every_subject() {
    let app = TestApp::builder().call_ms("eligibility-cel", 25_000).start();
    let client = app.client(&["eligibility:read"]);
    let body = |subjects: usize, explain: bool| {
        let subjects = vec![json!({"type": "individual", "active": true}); subjects];
        json!({"expression": expensive_to_explain(), "subjects": subjects, "explain": explain})
    };
    drop(client.post("/Eligibility/$evaluate", &body(20, false)).expect(200));
    drop(client.post("/Eligibility/$evaluate", &body(1, true)).expect(200));
    let refused = client.post("/Eligibility/$evaluate", &body(20, true)).expect(422);
    let detail = refused.detail().to_owned();
    assert!(detail.contains("it exhausted its budget of") && detail.contains("for `fuel`"), "{detail}");
    let again = client.post("/Eligibility/$evaluate", &body(20, true)).expect(422);
    assert!(again.detail().contains("this was found out a moment ago"), "{}", again.detail());
    drop(client.post("/Eligibility/$evaluate", &body(1, true)).expect(200));
}

#[test]
fn large_requests_about_households_stay_within_the_budget() {
    let app = TestApp::builder().call_ms("eligibility-cel", 25_000).start();
    let client = app.client(&["eligibility:read"]);
    let rule = "is_female(me) && age_years(me.birth_date) >= 18 \
                && members.filter(m, age_years(m.birth_date) < 18 || is_head(m)).size() >= 2 \
                && members.exists(m, is_head(m) && age_years(m.birth_date) >= 20)";
    let subject = |members: usize| {
        let member = |number: usize| {
            let (role, year) = if number == 0 { ("head", 1960) } else { ("child", 2010 + number % 10) };
            json!({"role": format!("{ROLE}#{role}"), "gender": FEMALE, "birth_date": format!("{year}-01-01")})
        };
        let members: Vec<Value> = (0..members).map(member).collect();
        json!({"type": "individual", "gender": FEMALE, "birth_date": "1980-01-01", "members": members})
    };
    for (subjects, members, explain) in [(1_000, 19, false), (100, 6, true), (25, 19, true)] {
        let body = json!({"expression": rule, "subjects": vec![subject(members); subjects], "explain": explain});
        let response = client.post("/Eligibility/$evaluate", &body).expect(200).json();
        let results = response["results"].as_array().unwrap();
        assert!(results.len() == subjects && results.iter().all(|result| result["outcome"] == "eligible"));
        assert_eq!(results.iter().filter(|result| result["explanation"].is_object()).count() == subjects, explain);
        let engine = app.admin().get("/plugins/eligibility-cel").expect(200).json();
        eprintln!("{subjects} subjects of {members}: explain {explain}: {engine}");
    }
}
