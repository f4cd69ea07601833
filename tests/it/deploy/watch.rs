//! Alerts and dashboard.

use std::collections::BTreeSet;
use std::process::Command;

use daftar_tests::process::{create_client, run};
use daftar_tests::records::FEMALE;
use daftar_tests::{Server, artifacts};
use serde_json::{Value, json};

use super::{path, read};

/// The words of an expression that are names of series; what a histogram adds is taken off where the rest is a
/// histogram.
fn series(expression: &str, into: &mut BTreeSet<String>) {
    let words = expression.split(|character: char| !(character.is_ascii_alphanumeric() || character == '_'));
    into.extend(words.filter(|word| word.starts_with("daftar_") || word.starts_with("process_")).map(str::to_owned));
}

/// Every series that can be on a page: of a server with HTTPS and a collector, after a backup, a fault and a refusal.
fn page() -> String {
    let folder = tempfile::tempdir().unwrap();
    let file = |name: &str| folder.path().join(name).to_str().unwrap().to_owned();
    let pair = rcgen::generate_simple_self_signed(["localhost".to_owned()]).unwrap();
    std::fs::write(file("cert.pem"), pair.cert.pem()).unwrap();
    std::fs::write(file("key.pem"), pair.signing_key.serialize_pem()).unwrap();
    let settings = format!(
        "[server.tls]\ncert = '{}'\nkey = '{}'\n[otlp]\nenabled = true\nendpoint = 'http://127.0.0.1:9'\nshutdown_timeout_ms = 100\n[plugins]\nallow_unsigned = true\n[plugins.limits.eligibility-cel]\ncall_ms = 25000\n",
        file("cert.pem"),
        file("key.pem")
    );
    std::fs::write(file("daftar.toml"), settings).unwrap();
    let data_dir = folder.path().join("data");
    // The end of a server leaves a checkpoint to the next.
    drop(Server::serve(&data_dir, &["--config", &file("daftar.toml")]).stop());
    let server = Server::serve(&data_dir, &["--config", &file("daftar.toml")]);
    let _client = create_client(&data_dir, &["individual:all"]);
    let admin = Server::admin(&data_dir);
    drop(run(&data_dir, &["backup", &file("backup")]).expect_success());
    // A rule that takes too much is a fault of the engine's call.
    let deep = format!("{}1 == 2{}", "[0,1,2,3,4,5,6,7,8,9].exists(a, ".repeat(8), ")".repeat(8));
    let rule = json!({"expression": deep, "subjects": [{"type": "individual", "gender": FEMALE}]});
    let refused = admin.request("POST", "/eligibility/evaluate").json(&rule).send().expect(422);
    assert!(refused.text().contains("`fuel`"), "{}", refused.text());
    drop(admin.install(&std::fs::read(artifacts::fixture("loop-in-describe")).unwrap()));
    let page = admin.metrics();
    drop(server.stop());
    page
}

#[test]
fn every_series_that_alerts_and_dashboard_ask_for_is_on_the_page_and_described() {
    let page = page();
    let mut there: BTreeSet<String> = BTreeSet::new();
    for line in page.lines().filter(|line| !line.starts_with('#')) {
        there.extend(line.split(['{', ' ']).next().map(str::to_owned));
    }
    let dashboard: Value = serde_json::from_str(&read("grafana/daftar.json")).unwrap();
    let mut wanted = BTreeSet::new();
    let panels = dashboard["panels"].as_array().unwrap();
    for expression in panels.iter().filter_map(|panel| panel["targets"].as_array()).flatten() {
        series(expression["expr"].as_str().unwrap(), &mut wanted);
    }
    let alerts = read("prometheus/alerts.yaml");
    series(&alerts, &mut wanted);
    assert!(wanted.len() > 40, "{wanted:?}");
    assert_eq!(wanted.difference(&there).collect::<Vec<_>>(), Vec::<&String>::new(), "not on the page:\n{page}");

    let described = described(&std::fs::read_to_string(path("../host/docs/METRICS.md")).unwrap());
    let families: BTreeSet<String> =
        page.lines().filter_map(|line| line.strip_prefix("# TYPE ")?.split(' ').next().map(str::to_owned)).collect();
    let missing: Vec<_> = families.difference(&described).collect();
    assert!(missing.is_empty(), "host/docs/METRICS.md does not describe {missing:?}");
}

/// The series in the first column of the table, each by its whole name.
fn described(text: &str) -> BTreeSet<String> {
    let cells = text.lines().filter_map(|line| line.strip_prefix("| `")?.split_once("` |"));
    cells.flat_map(|(names, _)| names.split("`, `").map(str::to_owned)).collect()
}

#[test]
fn a_series_is_described_by_its_whole_name_alone() {
    let page = "`in_text`\n| series | |\n|---|---|\n| `a_total`, `b_total` | | `in_text` |\n| `c` | kind | |\n";
    assert_eq!(described(page), BTreeSet::from(["a_total", "b_total", "c"].map(str::to_owned)));
}

#[test]
fn panels_have_unique_titles_positions_and_descriptions() {
    let dashboard: Value = serde_json::from_str(&read("grafana/daftar.json")).unwrap();
    let panels = dashboard["panels"].as_array().unwrap();
    let ids: BTreeSet<u64> = panels.iter().filter_map(|panel| panel["id"].as_u64()).collect();
    assert_eq!(ids.len(), panels.len());
    for panel in panels.iter().filter(|panel| panel["type"] != "row") {
        assert!(panel["description"].as_str().is_some_and(|text| !text.is_empty()), "{panel}");
        let place = &panel["gridPos"];
        assert!(place["x"].as_u64().unwrap() + place["w"].as_u64().unwrap() <= 24, "{panel}");
        for target in panel["targets"].as_array().unwrap() {
            assert!(target["expr"].as_str().unwrap().contains("$instance"), "one server can be chosen: {target}");
        }
    }
}

#[test]
fn every_alert_has_a_summary_and_a_runbook_section() {
    let (alerts, runbook) = (read("prometheus/alerts.yaml"), read("RUNBOOK.md"));
    let names: Vec<&str> = alerts.lines().filter_map(|line| line.trim().strip_prefix("- alert: ")).collect();
    assert!(names.len() > 25);
    for name in &names {
        let (_, rule) = alerts.split_once(&format!("- alert: {name}\n")).unwrap();
        let rule = rule.split("- alert: ").next().unwrap();
        // Headings become anchors in lower case.
        assert!(rule.contains(&format!("runbook: deploy/RUNBOOK.md#{}\n", name.to_lowercase())), "{rule}");
        assert!(rule.contains("summary: ") && rule.contains("severity: "), "{rule}");
        let (_, reported) =
            runbook.split_once(&format!("\n### {name}\n")).unwrap_or_else(|| panic!("no heading for {name}"));
        assert!(reported.lines().next().is_some_and(|line| line.len() > 10), "{name}");
    }
    let headings: Vec<&str> = runbook.lines().filter_map(|line| line.strip_prefix("### ")).collect();
    assert_eq!(headings, names, "in the same order, and none of an alert that is gone");
    let cases = read("prometheus/alerts.test.yaml");
    for name in names {
        assert!(cases.contains(&format!("- name: {name}\n")), "no case in which {name} fires");
    }
}

/// The cases of `alerts.test.yaml`.
#[test]
fn prometheus_takes_the_rules_and_each_fires_in_its_case_alone() {
    let Some(promtool) = daftar_test_needs::program("promtool") else { return };
    for arguments in [["check", "rules", "alerts.yaml"], ["test", "rules", "alerts.test.yaml"]] {
        let output = Command::new(&promtool).args(arguments).current_dir(path("prometheus")).output().unwrap();
        let reported = [output.stdout, output.stderr].concat();
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&reported));
    }
}
