//! A valid plugin that writes too many log lines.

use daftar_tests::{Server, TestApp, artifacts};
use serde_json::{Value, json};

#[test]
fn a_chatty_pack_is_installed_and_its_lines_are_counted() {
    let app = TestApp::start();
    let admin = app.admin();
    let chatty = std::fs::read(artifacts::fixture("chatty")).unwrap();
    let installed = admin.install(&chatty).expect(201).json();
    assert_eq!(installed["name"], "chatty");
    let shown = admin.get("/plugins/chatty").expect(200).json();
    let lines = &shown["log_lines"];
    let (written, suppressed) = (lines["written"].as_u64().unwrap(), lines["suppressed"].as_u64().unwrap());
    // Its clock does not advance: one burst, and nothing more.
    assert!(written <= 20 && written + suppressed <= 5_000, "{shown}");
    assert_eq!((&shown["faults"], &shown["last_fault"]), (&json!(0), &json!(null)));
    assert_eq!(shown["breaker"], json!({"state": "closed", "suspensions": 0}));
}

#[test]
fn a_plugin_is_shown_with_its_use_of_each_limit() {
    let app = TestApp::start();
    let client = app.client(&["eligibility:all"]);
    let body = json!({"expression": "true", "subject": "individual", "subjects": [{"type": "individual"}]});
    drop(client.post("/Eligibility/$evaluate", &body).expect(200));
    let shown = app.admin().get("/plugins/eligibility-cel").expect(200).json();
    for limit in ["memory_bytes", "call_ms", "output_bytes", "input_bytes", "concurrent_requests"] {
        let of = &shown["use"][limit];
        let (peak, most) = (of["peak"].as_f64().unwrap(), of["limit"].as_f64().unwrap());
        assert!(peak >= 0.0 && peak < most, "{limit}: {shown}");
    }
    assert!(shown["use"]["memory_bytes"]["peak"].as_f64().unwrap() > 0.0, "{shown}");
    let share = shown["use"]["fuel"]["peak_share"].as_f64().unwrap();
    assert!(share > 0.0 && share < 1.0, "{shown}");
    assert_eq!(
        shown["limits"],
        json!({
            "memory_bytes": 67_108_864, "table_elements": 10_000, "core_instances": 8, "call_ms": 8_000,
            "fuel_base": 500_000_000, "fuel_per_row": 200_000, "input_bytes": 33_554_432, "output_bytes": 8_388_608,
            "host_calls": 1_000, "host_call_bytes": 262_144, "concurrent_requests": 256,
        })
    );
    let unknown = app.admin().get("/plugins/nothing-of-the-kind").expect(404);
    assert!(unknown.detail().contains("`nothing-of-the-kind`"), "{}", unknown.detail());
}

#[test]
fn the_lines_of_a_plugin_are_in_the_log_of_the_server() {
    for (level, is_written) in [("info", true), ("warn", false)] {
        let data_dir = tempfile::tempdir().unwrap();
        let config = data_dir.path().join("daftar.toml");
        std::fs::write(&config, format!("[log]\nlevel = '{level}'\nformat = 'json'\n")).unwrap();
        let server = Server::serve(data_dir.path(), &["--config", config.to_str().unwrap()]);
        let admin = Server::admin(data_dir.path());
        let chatty = std::fs::read(artifacts::fixture("chatty")).unwrap();
        let install = admin.request("POST", "/plugins?allow_unsigned=true").body("application/wasm", &chatty);
        drop(install.send().expect(201));
        let shown = admin.get("/plugins/chatty").expect(200).json();
        let log = server.stop().stderr;
        let lines: Vec<Value> = log.lines().map(|line| serde_json::from_str(line).expect("a line is JSON")).collect();
        let of_plugin = lines.iter().filter(|line| line["fields"]["message"] == "plugin log");
        let texts: Vec<&str> = of_plugin.filter_map(|line| line["fields"]["plugin.line"].as_str()).collect();
        assert_eq!(shown["log_lines"]["written"], json!(texts.len()), "{level}: {shown}");
        assert_eq!(!texts.is_empty(), is_written, "{level}: {log}");
        assert!(texts.iter().all(|text| text.starts_with("line ") && text.contains("forged line  [2J ")), "{texts:?}");
    }
}
