//! Fair scheduling of previews: a disconnect ends the work, no client is starved, and their number is limited.
//!
//! The engine here behaves as its expression specifies. One that loops occupies a slot until its timeout, so that
//! others certainly wait.

use daftar::domain::manifest::PluginName;
use daftar_tests::records::person;
use daftar_tests::{ApiClient, Held, TestApp, artifacts};
use serde_json::{Value, json};

/// A register of two people whose engine loops for this time if the expression requests it.
pub fn looping(call_ms: u64) -> (TestApp, tempfile::TempDir) {
    let folder = tempfile::tempdir().unwrap();
    for path in std::fs::read_dir(artifacts::plugins()).unwrap().map(|entry| entry.unwrap().path()) {
        if path.file_stem().unwrap() != "eligibility-cel" {
            std::fs::copy(&path, folder.path().join(path.file_name().unwrap())).unwrap();
        }
    }
    std::fs::copy(artifacts::fixture("misbehaving-engine"), folder.path().join("engine.wasm")).unwrap();
    let app = TestApp::builder().plugins(folder.path()).config(|config| {
        let limits = config.plugins.limits.entry(PluginName::parse("misbehaving-engine").unwrap()).or_default();
        // Enough fuel for the timeout to be what stops it.
        (limits.call_ms, limits.fuel_base) = (Some(call_ms), Some(50_000_000_000));
    });
    let app = app.start();
    let clerk = app.client(&["individual:all"]);
    for number in ["1", "2"] {
        drop(clerk.create_individual(&person(number, json!({}))));
    }
    (app, folder)
}

fn analyst(app: &TestApp) -> ApiClient {
    app.client(&["individual:read", "eligibility:read"])
}

/// A preview that loops, started and not ended. Blanks make each a different expression: one that was stopped is not
/// tried again soon.
fn begin(client: &ApiClient, number: usize) -> Held {
    let body = json!({"expression": format!("loop{} in evaluate", " ".repeat(number))});
    let request = client.request("POST", "/Eligibility/$preview").header("Accept", "application/x-ndjson");
    request.json(&body).hold_after("\"progress\"")
}

fn counted(client: &ApiClient) -> Value {
    client.post("/Eligibility/$preview", &json!({"expression": "all_eligible"})).expect(200).json()["eligible"].clone()
}

/// Metrics of the server: previews, occupied slots, waiting previews, calls stopped by the timeout.
pub fn figures(app: &TestApp) -> [u64; 4] {
    let token = app.admin().token().to_owned();
    let page = app.admin_listener().request("GET", "/metrics").bearer(&token).send().expect(200).text();
    let figure = |series: &str| {
        let line = page.lines().find_map(|line| line.strip_prefix(series)?.strip_prefix(' '));
        line.map_or(0, |figure| figure.parse().unwrap())
    };
    [
        figure("daftar_previews"),
        figure("daftar_preview_time_slices{state=\"running\"}"),
        figure("daftar_preview_time_slices{state=\"waiting\"}"),
        figure("daftar_plugin_faults_total{plugin=\"misbehaving-engine\",kind=\"timeout\"}"),
    ]
}

/// Number of polls of the metrics before a test gives up: for minutes, however fast the machine is.
const LOOKS_MAX: u32 = 100_000;

/// Polls until the metrics are as expected; returns them.
#[track_caller]
pub fn until(app: &TestApp, are_right: impl Fn([u64; 4]) -> bool) -> [u64; 4] {
    let mut now = figures(app);
    for _ in 0..LOOKS_MAX {
        if are_right(now) {
            return now;
        }
        std::thread::yield_now();
        now = figures(app);
    }
    panic!("previews, turns that run and wait, calls that were stopped: {now:?}");
}

#[test]
fn a_disconnect_ends_running_and_queued_previews() {
    let (app, _folder) = looping(15_000);
    let client = analyst(&app);
    let held: Vec<Held> = (0..8).map(|number| begin(&client, number)).collect();
    let [previews, running, waiting, _] = until(&app, |[_, running, waiting, _]| running > 0 && running + waiting == 8);
    assert_eq!(previews, 8);
    assert!(waiting > 0, "{running} of 8 run at once");
    drop(held);
    // Waiting previews end immediately, running ones after their batch. None of the waiting ones was ever started.
    let [.., stopped] = until(&app, |[previews, running, waiting, _]| previews + running + waiting == 0);
    assert!(stopped <= running, "{stopped} were stopped by the clock, of {running} that ran");
    assert_eq!(counted(&client), 2);
    let lines = app.admin().get("/audit?action=evaluate").expect(200).json();
    let left = lines["data"].as_array().unwrap().iter().filter(|line| line["status"] == 499).count();
    assert_eq!(left, 8, "{lines}");
}

#[test]
fn a_preview_answered_as_one_object_ends_as_well_when_its_caller_leaves() {
    let (app, _folder) = looping(5_000);
    let client = analyst(&app);
    let body = json!({"expression": "loop in evaluate"});
    let held = client.request("POST", "/Eligibility/$preview").json(&body).hold();
    assert_eq!(until(&app, |[_, running, ..]| running == 1)[0], 1);
    drop(held);
    until(&app, |[previews, running, ..]| previews + running == 0);
    assert_eq!(counted(&client), 2);
}

#[test]
fn many_previews_of_one_client_do_not_starve_that_of_another() {
    let (app, _folder) = looping(3_000);
    let (greedy, modest) = (analyst(&app), analyst(&app));
    let held: Vec<Held> = (0..12).map(|number| begin(&greedy, number)).collect();
    let [_, running, ..] = until(&app, |[_, running, waiting, _]| running > 0 && waiting > 0);
    let [.., before] = figures(&app);
    assert_eq!(counted(&modest), 2);
    let [previews, _, _, after] = figures(&app);
    // Those that ran have to end, and may be followed by as many; in order of arrival it would be all twelve.
    assert!(after - before <= 2 * running, "{} turns of the other client came first", after - before);
    assert!(previews + after >= 12 && previews > 0, "{previews} of the others still wait");
    drop(held);
    until(&app, |[previews, running, waiting, _]| previews + running + waiting == 0);
}

#[test]
fn a_client_has_sixty_four_previews_at_once_and_no_more() {
    let (app, _folder) = looping(20_000);
    let (greedy, modest) = (analyst(&app), analyst(&app));
    // Several at the same time, so that the last one has begun before the first one is stopped.
    let mut held: Vec<Held> = std::thread::scope(|scope| {
        let beginning: Vec<_> = (0..8)
            .map(|first| {
                let greedy = &greedy;
                scope.spawn(move || (first..63).step_by(8).map(|number| begin(greedy, number)).collect::<Vec<_>>())
            })
            .collect();
        beginning.into_iter().flat_map(|thread| thread.join().unwrap()).collect()
    });
    // On a slow machine the server has stopped the first ones by now: others take their places.
    for number in 65.. {
        if figures(&app)[0] == 63 {
            break;
        }
        held.push(begin(&greedy, number));
    }
    held.push(begin(&greedy, 63));
    let refused = greedy.post("/Eligibility/$preview", &json!({"expression": "all_eligible"})).expect(503);
    assert!(refused.number("retry-after") > 0, "{refused:?}");
    let streamed = greedy.request("POST", "/Eligibility/$preview").header("Accept", "application/x-ndjson");
    let refused = streamed.json(&json!({"expression": "all_eligible"})).send().expect(503);
    assert_eq!(refused.header("content-type"), Some("application/problem+json"));
    let _of_another = begin(&modest, 0);
    assert_eq!(figures(&app)[0], 65);
    drop(held.pop());
    until(&app, |[previews, ..]| previews == 64);
    held.push(begin(&greedy, 64));
    assert_eq!(figures(&app)[0], 65);
}

#[test]
fn a_preview_in_progress_completes_when_the_server_stops() {
    let (app, _folder) = looping(1_000);
    let held = begin(&analyst(&app), 0);
    let stopping = crate::edge::stopping::begin_to_stop(app);
    let lines = held.finish().expect(200).lines();
    assert_eq!(lines.last().unwrap()["error"]["status"], 503, "the engine is stopped by the clock: {lines:?}");
    stopping.join().unwrap();
}
