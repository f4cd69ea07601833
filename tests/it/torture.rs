//! The server is killed a few times under load; `cargo xtask torture` does it some hundred times.

use daftar_tests::torture::{Options, run};

#[test]
fn nothing_acknowledged_is_lost_when_the_server_is_killed() {
    let folder = tempfile::tempdir().unwrap();
    let options = Options { rounds: 3, seed: 42, workers: 6, answers_max: 120 };
    let summary = run(folder.path(), options, |_| ()).unwrap_or_else(|lost| panic!("seed {}: {lost}", options.seed));
    assert_eq!(summary.rounds, 3);
    assert!(summary.acknowledged > 0 && summary.checked > 0, "{summary}");
}
