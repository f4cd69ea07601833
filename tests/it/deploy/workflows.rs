//! The workflows in `.github` pass actionlint.

use std::path::PathBuf;
use std::process::Command;

use daftar_tests::artifacts;

#[test]
fn actionlint_takes_the_workflows() {
    if !daftar_test_needs::programs(&["node", "npm"]) {
        return;
    }
    let root = PathBuf::from(env!("CARGO_MANIFEST_DIR"));
    let folder = root.join("../.github/workflows");
    let workflows: Vec<PathBuf> = std::fs::read_dir(&folder).unwrap().map(|entry| entry.unwrap().path()).collect();
    assert!(workflows.len() >= 2, "{workflows:?}");
    // Beside the packages that it imports.
    let clients = artifacts::clients().join("node");
    let script = clients.join("workflows.mjs");
    std::fs::copy(root.join("clients/node/workflows.mjs"), &script).unwrap();
    let output = Command::new("node").arg(&script).args(&workflows).output().unwrap();
    assert!(
        output.status.success(),
        "{}{}",
        String::from_utf8_lossy(&output.stdout),
        String::from_utf8_lossy(&output.stderr)
    );
}
