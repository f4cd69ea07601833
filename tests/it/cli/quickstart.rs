//! `examples/quickstart`: the script runs against a real server.

use std::path::Path;
use std::process::Command;

use daftar_tests::TestApp;

#[test]
fn the_quick_start_gets_through_its_calls() {
    if !daftar_test_needs::programs(&["curl"]) {
        return;
    }
    let app = TestApp::start();
    let client = app.client(&["individual:all", "eligibility:read"]);
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("../examples/quickstart/quickstart.sh");
    let credentials = client.credentials();
    let run = Command::new("sh")
        .arg(script)
        .args([&client.connection().url(), &credentials.id, &credentials.secret])
        .env_remove("http_proxy")
        .output()
        .unwrap();
    assert!(run.status.success(), "{}", String::from_utf8_lossy(&run.stderr));
    let printed = String::from_utf8(run.stdout).unwrap();
    assert!(printed.contains("\"outcome\":\"eligible\""), "{printed}");
    assert!(printed.contains("\"total\":1"), "{printed}");
}
