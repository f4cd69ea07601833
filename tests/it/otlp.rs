//! Traces and metrics for a collector: they arrive, they contain no personal data, and a failing collector does not
//! affect requests.

use std::collections::BTreeSet;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

use daftar_domain::hexadecimal;
use daftar_tests::collector::{Answers, Collector, Received, attribute, points};
use daftar_tests::process::{command, create_client, finish};
use daftar_tests::records::{FEMALE, person};
use daftar_tests::{Server, artifacts, token};
use serde_json::json;

const READ: &str = "GET /api/v2/Individual/{identifier}";
const CREATE: &str = "POST /api/v2/Individual";
const PERSON: &str = "/api/v2/Individual/urn:svc:vocab:id-type%23national_id%7COTLP-1";
const SCOPES: [&str; 2] = ["individual:all", "eligibility:all"];

/// A server that sends, with its folder.
struct Sending {
    server: Option<Server>,
    data_dir: PathBuf,
    token: String,
    _folder: tempfile::TempDir,
}

impl Sending {
    fn start(endpoint: &str, otlp: &str, more: &str) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let (data_dir, config) = (folder.path().join("data"), folder.path().join("daftar.toml"));
        // A busy machine is not a slow collector.
        let patient = |key: &str| match otlp.lines().any(|line| line.starts_with(key)) {
            true => String::new(),
            false => format!("{key} = 60000\n"),
        };
        let patience = patient("timeout_ms") + &patient("shutdown_timeout_ms");
        let sending = format!("[otlp]\nenabled = true\nendpoint = '{endpoint}'\n{otlp}\n{patience}");
        std::fs::write(&config, format!("{more}\n{sending}")).unwrap();
        let server = Server::serve(&data_dir, &["--config", config.to_str().unwrap()]);
        let credentials = create_client(&data_dir, &SCOPES);
        let token = token::fetch(&server.connection(), &credentials);
        Self { server: Some(server), data_dir, token, _folder: folder }
    }

    fn call(&self, method: &str, path: &str, headers: &[(&str, &str)]) -> u16 {
        let request = self.server.as_ref().unwrap().connection().request(method, path).bearer(&self.token);
        headers.iter().fold(request, |request, (name, value)| request.header(name, value)).send().status
    }

    fn create(&self, id: &str) {
        let connection = self.server.as_ref().unwrap().connection();
        let body = person(id, json!({"gender": FEMALE}));
        let response = connection.request("POST", "/api/v2/Individual").bearer(&self.token).json(&body).send();
        assert_eq!(response.status, 201);
    }

    fn evaluate(&self) {
        let connection = self.server.as_ref().unwrap().connection();
        let body =
            json!({"expression": "is_female(me)", "subjects": ["Individual/urn:svc:vocab:id-type#national_id|OTLP-1"]});
        let response =
            connection.request("POST", "/api/v2/Eligibility/$evaluate").bearer(&self.token).json(&body).send();
        assert_eq!(response.status, 200, "{}", response.text());
    }

    fn page(&self) -> String {
        Server::admin(&self.data_dir).metrics()
    }

    fn stop(mut self) -> String {
        self.server.take().unwrap().stop().expect_success().stderr
    }
}

/// The value of a series on the page.
fn value(page: &str, series: &str) -> f64 {
    let line = page.lines().find_map(|line| line.strip_prefix(series)?.strip_prefix(' '));
    line.unwrap_or_else(|| panic!("{series} is not on the page:\n{page}")).parse().unwrap()
}

fn families(page: &str) -> BTreeSet<String> {
    let types = page.lines().filter_map(|line| line.strip_prefix("# TYPE ")?.split(' ').next());
    types.map(str::to_owned).collect()
}

#[test]
fn spans_of_requests_with_their_children_and_all_metrics_arrive() {
    let collector = Collector::start();
    let folder = tempfile::tempdir().unwrap();
    let headers = folder.path().join("headers");
    std::fs::write(&headers, "# a key\nAuthorization: Bearer THEKEY\n").unwrap();
    std::fs::set_permissions(&headers, std::fs::Permissions::from_mode(0o600)).unwrap();
    let otlp = format!(
        "metrics_interval_s = 1\nservice_name = 'the register'\nheaders_file = '{}'",
        headers.to_str().unwrap()
    );
    let sending = Sending::start(&collector.url, &otlp, "");
    sending.create("OTLP-1");
    assert_eq!(sending.call("GET", PERSON, &[]), 200);
    assert_eq!(sending.call("GET", "/api/v2/Individual/nonsense", &[]), 400);
    assert_eq!(sending.call("BREW", "/api/v2/Coffee", &[]), 404);
    assert_eq!(sending.call("GET", "/health/ready", &[]), 200);
    sending.evaluate();
    let module = std::fs::read(artifacts::module("farmer-registry")).unwrap();
    drop(Server::admin(&sending.data_dir).install(&module));
    let page = sending.page();

    let is_whole = |received: &Received| {
        received.pages > 1
            && ["POST /api/v2/Eligibility/$evaluate", "POST /admin/v1/plugins"]
                .iter()
                .all(|name| !received.named(name).is_empty())
    };
    collector.wait("the last span and a second page", is_whole, |received| {
        let read = received.named(READ);
        assert_eq!(read.len(), 2, "the route and not the path names both: {:?}", received.spans);
        let status = |span| attribute(span, "http.response.status_code");
        assert_eq!(
            read.iter().map(|span| status(&span.attributes)).collect::<Vec<_>>(),
            [Some("200".to_owned()), Some("400".to_owned())]
        );
        assert!(read[0].parent_span_id.is_empty() && read[0].trace_id.len() == 16, "a trace of its own: {:?}", read[0]);
        assert_ne!(read[0].trace_id, read[1].trace_id);
        assert!(read[0].end_time_unix_nano > read[0].start_time_unix_nano);
        assert_eq!(attribute(&read[0].attributes, "http.route").as_deref(), Some("/api/v2/Individual/{identifier}"));
        assert!(attribute(&read[0].attributes, "request.id").is_some_and(|id| id.len() > 8), "{:?}", read[0]);
        assert_eq!(received.named("other none").len(), 1, "a word of the client's is no name: {:?}", received.spans);
        assert!(received.spans.iter().all(|span| !span.name.contains("health")), "probes leave no spans");
        for (inner, outer) in [
            ("store.commit", CREATE),
            ("store.read", READ),
            ("plugin.run", "POST /api/v2/Eligibility/$evaluate"),
            ("plugin.call", "plugin.run"),
            ("plugin.install", "POST /admin/v1/plugins"),
        ] {
            let outers = received.named(outer);
            let belongs = received.named(inner).into_iter().any(|span| {
                outers.iter().any(|outer| outer.span_id == span.parent_span_id && outer.trace_id == span.trace_id)
            });
            assert!(belongs, "no {inner} within {outer}: {:?}", received.spans);
        }
        let roots: Vec<&str> = received
            .spans
            .iter()
            .filter(|span| span.parent_span_id.is_empty())
            .map(|span| span.name.as_str())
            .collect();
        assert!(roots.iter().all(|name| name.contains(' ')), "what belongs to no request begins no trace: {roots:?}");
        let call = received.named("plugin.call");
        assert!(
            call.iter().any(|span| attribute(&span.attributes, "plugin.name").as_deref() == Some("eligibility-cel"))
        );

        let sent: BTreeSet<String> = received.metrics.iter().map(|metric| metric.name.clone()).collect();
        assert_eq!(
            families(&page).difference(&sent).collect::<Vec<_>>(),
            Vec::<&String>::new(),
            "all of the page is sent"
        );
        assert!(received.metrics.iter().all(|metric| points(metric) > 0 && !metric.description.is_empty()));
        assert!(received.resources.contains(&"service.name=the register".to_owned()), "{:?}", received.resources);
        for attribute in ["service.version=", "service.instance.id="] {
            assert!(received.resources.iter().any(|resource| resource.starts_with(attribute)), "{attribute}");
        }
        assert!(received.holds("authorization: Bearer THEKEY"), "the collector asks for a key");
    });
    assert!(!page.contains("THEKEY") && !sending.stop().contains("THEKEY"), "it is not exposed elsewhere");
}

#[test]
fn queued_data_is_sent_when_the_server_stops() {
    let collector = Collector::start();
    let sending = Sending::start(&collector.url, "metrics_interval_s = 3600", "");
    sending.create("OTLP-1");
    let _log = sending.stop();
    // The process has ended: all data was sent by now or never will be.
    collector.look(|received| {
        assert_eq!(received.named(CREATE).len(), 1, "{:?}", received.spans);
        assert_eq!(received.pages, 1, "the last page");
        let writes = received.metrics.iter().find(|metric| metric.name == "daftar_store_commit_duration_seconds");
        assert!(writes.is_some_and(|metric| points(metric) == 1), "{writes:?}");
    });
}

#[test]
fn an_unavailable_collector_delays_no_request_and_is_reported_once() {
    // A port that the system assigns to no process.
    let sending = Sending::start("http://127.0.0.1:1", "metrics_interval_s = 1\nshutdown_timeout_ms = 100", "");
    sending.create("OTLP-1");
    let failed = "daftar_otlp_requests_total{signal=\"metrics\",outcome=\"failed\"}";
    // Each read of the page is a further request; the page itself shows when the collector was unavailable.
    while value(&sending.page(), failed) < 2.0 {
        assert_eq!(sending.call("GET", PERSON, &[]), 200);
    }
    let log = sending.stop();
    assert_eq!(log.matches("the collector does not take telemetry").count(), 1, "{log}");
    assert!(log.contains("the collector did not take everything before the server stopped"), "{log}");
}

#[test]
fn a_collector_that_hangs_fills_the_queue_and_nothing_else() {
    let collector = Collector::answering(Answers::Never);
    let otlp = "queue_spans_max = 2\nmetrics_interval_s = 0\ntimeout_ms = 60000\nshutdown_timeout_ms = 100";
    let sending = Sending::start(&collector.url, otlp, "");
    sending.create("OTLP-1");
    let full = "daftar_otlp_spans_total{outcome=\"queue_full\"}";
    while value(&sending.page(), full) < 10.0 {
        assert_eq!(sending.call("GET", PERSON, &[]), 200);
    }
    let page = sending.page();
    assert!(value(&page, "daftar_otlp_spans_queued") <= 2.0, "{page}");
    assert_eq!(value(&page, "daftar_otlp_spans_queued_limit"), 2.0);
    assert_eq!(value(&page, "daftar_otlp_spans_total{outcome=\"sent\"}"), 0.0);
    // It ends although a request to the collector has a minute left.
    let log = sending.stop();
    assert!(log.contains("the collector did not take everything before the server stopped"), "{log}");
}

#[test]
fn permanent_rejections_of_the_collector_are_dropped_and_temporary_ones_are_retried() {
    let collector = Collector::answering(Answers::With(503));
    let sending = Sending::start(&collector.url, "metrics_interval_s = 0", "");
    let failed = "daftar_otlp_requests_total{signal=\"traces\",outcome=\"failed\"}";
    sending.create("OTLP-1");
    while value(&sending.page(), failed) < 1.0 {}
    collector.response(Answers::With(200));
    collector.wait("the span that was refused at first", |received| !received.named(CREATE).is_empty(), |_| ());
    collector.response(Answers::With(400));
    let refused = "daftar_otlp_spans_total{outcome=\"rejected\"}";
    while value(&sending.page(), refused) < 1.0 {
        assert_eq!(sending.call("GET", PERSON, &[]), 200);
    }
    let log = sending.stop();
    assert!(log.contains("it answered 503") && log.contains("the collector takes telemetry again"), "{log}");
}

#[test]
fn a_trace_of_the_caller_is_continued_only_from_trusted_proxies_and_where_configured() {
    let (trace, span) = ("4bf92f3577b34da6a3ce929d0e0e4736", "00f067aa0ba902b7");
    let sampled = format!("00-{trace}-{span}-01");
    let proxies = "[server]\ntrusted_proxies = ['127.0.0.0/8']";
    for (otlp, more, is_taken_up) in [
        ("traceparent = 'trusted-proxies'", proxies, true),
        ("", proxies, false),
        ("traceparent = 'trusted-proxies'", "", false),
    ] {
        let collector = Collector::start();
        let sending = Sending::start(&collector.url, otlp, more);
        let forwarded = ("X-Forwarded-For", "192.0.2.7");
        sending.create("OTLP-1");
        let state = ("tracestate", "vendor=MARKEDSTATE");
        assert_eq!(sending.call("GET", PERSON, &[forwarded, ("traceparent", &sampled), state]), 200);
        // No trace, and two traces, count as none.
        assert_eq!(sending.call("GET", PERSON, &[forwarded, ("traceparent", "MARKEDSTATE")]), 200);
        assert_eq!(
            sending.call("GET", PERSON, &[forwarded, ("traceparent", &sampled), ("traceparent", &sampled)]),
            200
        );
        let _log = sending.stop();
        collector.look(|received| {
            let reads = received.named(READ);
            assert_eq!(reads.len(), 3, "{:?}", received.spans);
            let taken: Vec<bool> = reads.iter().map(|read| hexadecimal::encode(&read.trace_id) == trace).collect();
            assert_eq!(taken, [is_taken_up, false, false], "{otlp} {more}");
            assert_eq!(hexadecimal::encode(&reads[0].parent_span_id), if is_taken_up { span } else { "" });
            assert!(!received.holds("MARKEDSTATE"), "what a caller writes goes nowhere");
        });
    }
    let collector = Collector::start();
    let sending = Sending::start(&collector.url, "traceparent = 'trusted-proxies'", proxies);
    sending.create("OTLP-1");
    let unsampled = format!("00-{trace}-{span}-00");
    assert_eq!(sending.call("GET", PERSON, &[("X-Forwarded-For", "192.0.2.7"), ("traceparent", &unsampled)]), 200);
    let _log = sending.stop();
    collector.look(|received| assert_eq!((received.named(CREATE).len(), received.named(READ).len()), (1, 0)));
}

#[test]
fn of_no_request_a_trace_is_made_where_none_is_wanted_and_series_are_sent_all_the_same() {
    let collector = Collector::start();
    let sending = Sending::start(&collector.url, "sampling_ratio = 0.0\nmetrics_interval_s = 3600", "");
    sending.create("OTLP-1");
    let _log = sending.stop();
    collector.look(|received| assert_eq!((received.spans.len(), received.pages), (0, 1)));
}

#[test]
fn a_server_whose_files_for_the_collector_cannot_be_used_does_not_start() {
    let folder = tempfile::tempdir().unwrap();
    let write = |name: &str, text: &str, mode: u32| {
        let path = folder.path().join(name);
        std::fs::write(&path, text).unwrap();
        std::fs::set_permissions(&path, std::fs::Permissions::from_mode(mode)).unwrap();
        path.to_str().unwrap().to_owned()
    };
    let (open, wrong) = (write("open", "key: MARKED", 0o644), write("wrong", "MARKED", 0o600));
    let none = write("none.pem", "no certificate", 0o644);
    for (otlp, reported) in [
        (format!("headers_file = '{open}'"), "chmod 600"),
        (format!("headers_file = '{wrong}'"), "line 1: write `name: value`"),
        ("headers_file = '/nowhere/headers'".to_owned(), "/nowhere/headers"),
        (format!("endpoint = 'https://127.0.0.1:1'\nca = '{none}'"), "there is no certificate in"),
        ("endpoint = 'https://user:MARKED@collector'".to_owned(), "`otlp.endpoint` is not the URL of a collector"),
    ] {
        let config = write("daftar.toml", &format!("[otlp]\nenabled = true\n{otlp}\n"), 0o600);
        let data_dir: &Path = &folder.path().join("data");
        let ended = finish(command(
            data_dir,
            &["serve", "--listen", "127.0.0.1:0", "--admin-listen", "127.0.0.1:0", "--config", &config],
        ));
        assert_eq!(ended.code, 78, "{ended:?}");
        assert!(ended.stderr.contains(reported) && !ended.stderr.contains("MARKED"), "{ended:?}");
    }
}
