//! Metrics of the store, of limits and of backups. Plugins are in `plugin/metrics.rs`.

use daftar_tests::TestApp;
use daftar_tests::process::run;
use daftar_tests::records::{FEMALE, person};
use serde_json::json;

/// The value of a series; none if it is not on the page.
fn figure(page: &str, series: &str) -> Option<f64> {
    let line = page.lines().find_map(|line| line.strip_prefix(series)?.strip_prefix(' '))?;
    Some(line.parse().unwrap_or_else(|_| panic!("{series} {line}")))
}

#[test]
fn writes_are_counted_by_outcome_with_their_times_and_the_queue() {
    let app = TestApp::start();
    let client = app.client(&["individual:all"]);
    let written = |page: &str, outcome: &str| {
        figure(page, &format!("daftar_store_writes_total{{outcome=\"{outcome}\"}}")).unwrap()
    };
    let before = app.admin().metrics();
    drop(client.create_individual(&person("1", json!({"gender": FEMALE}))));
    drop(client.post("/Individual", &person("1", json!({"gender": FEMALE}))).expect(409));
    let after = app.admin().metrics();
    assert_eq!(written(&after, "committed") - written(&before, "committed"), 1.0, "{after}");
    assert_eq!((written(&after, "overloaded"), written(&after, "failed")), (0.0, 0.0));
    let sequence = |page: &str| figure(page, "daftar_store_sequence_total").unwrap();
    assert_eq!(sequence(&after) - sequence(&before), 1.0);
    assert_eq!(figure(&after, "daftar_records{kind=\"individual\"}"), Some(1.0));
    for histogram in ["commit_duration_seconds", "sync_duration_seconds", "commit_group_size"] {
        let count = figure(&after, &format!("daftar_store_{histogram}_count"));
        assert!(count.is_some_and(|count| count >= 1.0), "{histogram}: {after}");
    }
    // A waiting write is counted, and none waits now.
    for series in ["daftar_store_writes_waiting", "daftar_audit_entries_waiting"] {
        let (now, limit) = (figure(&after, series).unwrap(), figure(&after, &format!("{series}_limit")).unwrap());
        assert!(now < limit && limit >= 1_024.0, "{series}: {now} of {limit}");
    }
    for folder in ["data", "store"] {
        let of = |what: &str| figure(&after, &format!("daftar_disk_{what}_bytes{{folder=\"{folder}\"}}")).unwrap();
        assert!(of("free") > 0.0 && of("free") <= of("size"), "{after}");
    }
    assert!(figure(&after, "daftar_store_disk_bytes").is_some_and(|bytes| bytes > 0.0), "{after}");
    assert_eq!((figure(&after, "daftar_store_up"), figure(&after, "daftar_ready")), (Some(1.0), Some(1.0)));
    assert!(figure(&after, "daftar_checkpoint_lag_writes").is_some(), "{after}");
    assert_eq!(figure(&after, "daftar_otlp_spans_queued"), None, "nothing is sent");
}

#[test]
fn rejections_are_counted_by_bucket_and_reason() {
    let app = TestApp::start();
    let limited =
        json!({"name": "slow", "scopes": ["individual:read"], "rate_limit_per_minute": 2, "rate_limit_per_day": 3});
    let client = app.client_of(&app.admin().create_client(&limited));
    let refused = |bucket: &str, reason: &str| {
        let series = format!("daftar_rate_limit_rejections_total{{bucket=\"{bucket}\",reason=\"{reason}\"}}");
        figure(&app.admin().metrics(), &series).unwrap()
    };
    let statuses: Vec<u16> = (0..3).map(|_| client.get("/Individual").status).collect();
    assert_eq!(statuses, [200, 200, 429]);
    app.advance_seconds(60);
    let statuses: Vec<u16> = (0..3).map(|_| client.get("/Individual").status).collect();
    assert_eq!(statuses, [200, 429, 429]);
    assert_eq!((refused("client", "minute"), refused("client", "day")), (1.0, 2.0));
    let anonymous = app.anonymous();
    let statuses: Vec<u16> =
        (0..32).map(|_| anonymous.request("GET", "/api/v2/Individual").bearer("nonsense").send().status).collect();
    let turned_away = statuses.iter().filter(|status| **status == 429).count();
    assert!(turned_away > 0, "{statuses:?}");
    assert_eq!(refused("unauthenticated", "minute"), turned_away as f64);
    assert_eq!(refused("token", "minute"), 0.0);
    let keys = figure(&app.admin().metrics(), "daftar_rate_limit_keys{bucket=\"client\"}");
    assert_eq!(keys, Some(1.0));
}

#[test]
fn the_last_complete_backup_is_reported_after_a_restart_too() {
    const LAST: &str = "daftar_backup_last_timestamp_seconds";
    let mut app = TestApp::start();
    assert_eq!(figure(&app.admin().metrics(), LAST), None, "none was made");
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("backup");
    let _made = run(app.data_dir(), &["backup", file.to_str().unwrap()]).expect_success();
    // It is recorded when all of it has been sent, which its reader may see first.
    let reported = loop {
        if let Some(reported) = figure(&app.admin().metrics(), LAST) {
            break reported;
        }
    };
    let begun: jiff::Timestamp = "2026-03-01T12:00:00Z".parse().unwrap();
    assert_eq!(reported, begun.as_second() as f64, "the register as it stood then");
    app.restart();
    assert_eq!(figure(&app.admin().metrics(), LAST), Some(reported));
}
