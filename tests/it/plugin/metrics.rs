//! The metrics page.

use std::collections::{BTreeMap, BTreeSet};

use daftar_tests::records::{FEMALE, person};
use daftar_tests::{TestApp, artifacts};
use serde_json::json;

/// Reads a page as Prometheus does, line by line, and gives each series with its value.
fn parsed(page: &str) -> BTreeMap<String, f64> {
    let is_name = |name: &str| {
        let mut bytes = name.bytes();
        bytes.next().is_some_and(|first| first.is_ascii_alphabetic() || first == b'_')
            && bytes.all(|byte| byte.is_ascii_alphanumeric() || byte == b'_')
    };
    let (mut series, mut types) = (BTreeMap::new(), BTreeMap::new());
    let mut helped = BTreeSet::new();
    assert!(page.ends_with('\n'));
    for line in page.lines().filter(|line| !line.is_empty()) {
        if let Some(comment) = line.strip_prefix("# ") {
            let parts: Vec<&str> = comment.splitn(3, ' ').collect();
            let [keyword, name, rest] = parts[..] else { panic!("{line}") };
            assert!(is_name(name), "{line}");
            match keyword {
                "HELP" => assert!(helped.insert(name.to_owned()), "a second help: {line}"),
                "TYPE" => {
                    assert!(["counter", "gauge", "histogram"].contains(&rest), "{line}");
                    assert!(types.insert(name.to_owned(), rest.to_owned()).is_none(), "a second type: {line}");
                }
                _ => panic!("{line}"),
            }
            continue;
        }
        let (whole, value) = line.rsplit_once(' ').unwrap_or_else(|| panic!("{line}"));
        let value: f64 = value.parse().unwrap_or_else(|_| panic!("{line}"));
        let (name, labels) = whole.split_once('{').unwrap_or((whole, "}"));
        assert!(is_name(name), "{line}");
        let labels = labels.strip_suffix('}').unwrap_or_else(|| panic!("{line}"));
        for label in labels.split("\",").filter(|label| !label.is_empty()) {
            let (key, text) = label.split_once("=\"").unwrap_or_else(|| panic!("{line}"));
            assert!(is_name(key) && !text.trim_end_matches('"').contains('"'), "{line}");
        }
        let family = ["_bucket", "_sum", "_count"].into_iter().find_map(|suffix| {
            let family = name.strip_suffix(suffix)?;
            types.get(family).is_some_and(|kind| kind == "histogram").then_some(family)
        });
        let family = family.unwrap_or(name);
        let kind = types.get(family).unwrap_or_else(|| panic!("no type before {line}"));
        assert!(kind != "counter" || name.ends_with("_total"), "{line}");
        assert!(helped.contains(family), "no help for {line}");
        assert!(series.insert(whole.to_owned(), value).is_none(), "a second time: {line}");
    }
    series
}

#[test]
fn the_page_can_be_read_by_prometheus_and_reports_requests_and_plugins() {
    let app = TestApp::start();
    let client = app.client(&["individual:all", "eligibility:all"]);
    drop(client.create_individual(&person("MARKED-4711", json!({"gender": FEMALE}))));
    drop(client.get("/Individual/urn:svc:vocab:id-type%23national_id%7CMARKED-4711"));
    let body = json!({"expression": "true", "subject": "individual", "subjects": [{"type": "individual"}]});
    drop(client.post("/Eligibility/$evaluate", &body).expect(200));
    drop(app.admin().install(&std::fs::read(artifacts::fixture("loop-in-describe")).unwrap()));

    let admin = app.admin();
    let response = app.admin_listener().request("GET", "/metrics").bearer(admin.token()).send().expect(200);
    assert_eq!(response.header("content-type"), Some("text/plain; version=0.0.4; charset=utf-8"));
    let page = response.text();
    assert!(!page.contains("MARKED") && !page.contains(client.id()) && !page.contains(client.token()), "{page}");
    let series = parsed(&page);
    let value = |name: &str| *series.get(name).unwrap_or_else(|| panic!("{name} is not on the page:\n{page}"));
    let read = "daftar_http_request_duration_seconds_count{method=\"GET\",route=\"/api/v2/Individual/{identifier}\",status=\"200\"}";
    assert_eq!(value(read), 1.0);
    assert!(value("daftar_plugin_calls_total{plugin=\"eligibility-cel\"}") > 0.0);
    assert_eq!(value("daftar_plugin_breaker_state{plugin=\"gender\",state=\"closed\"}"), 1.0);
    assert_eq!(value("daftar_plugin_breaker_state{plugin=\"gender\",state=\"open\"}"), 0.0);
    assert_eq!(value("daftar_plugin_limit{plugin=\"eligibility-cel\",limit=\"call_ms\"}"), 8_000.0);
    assert!(value("daftar_plugin_limit_peak{plugin=\"eligibility-cel\",limit=\"memory_bytes\"}") > 65_536.0);
    assert_eq!(value("daftar_plugin_queue_waiting{priority=\"interactive\"}"), 0.0);
    assert!(!page.contains("plugin=\"loop-in-describe\",limit="), "what was refused is not installed");
}

#[test]
fn the_admin_listener_shows_it_with_the_token_only_and_a_listener_of_its_own_without() {
    let app =
        TestApp::builder().config(|config| config.server.metrics_listen = Some(([127, 0, 0, 1], 0).into())).start();
    assert_eq!(app.admin_listener().request("GET", "/metrics").send().status, 401);
    assert_eq!(app.anonymous().request("GET", "/metrics").send().status, 404);
    let page = app.metrics_listener().request("GET", "/metrics").send().expect(200).text();
    assert!(parsed(&page).keys().any(|series| series.starts_with("daftar_build_info{version=")), "{page}");
    let token = app.admin().token().to_owned();
    for path in ["/", "/admin/v1/plugins", "/admin/v1/clients", "/api/v2/metadata", "/health/live"] {
        assert_eq!(app.metrics_listener().request("GET", path).bearer(&token).send().status, 404, "{path}");
    }
    assert_eq!(app.metrics_listener().request("POST", "/metrics").send().status, 405);
}
