//! Power cuts, simulated; `cargo xtask torture --power-cuts` tries thousands.

use std::collections::BTreeMap;

use daftar_tests::power::{Options, Recording, missing, run};

/// Tests whether a disk can be mounted here; otherwise that is reported.
fn can_mount() -> bool {
    let Some(why) = missing() else { return true };
    daftar_test_needs::not_run(
        &format!("a disk of FUSE ({why})"),
        "run as root, or with CAP_SYS_ADMIN, where `/dev/fuse` is (in a container: `--device /dev/fuse --cap-add SYS_ADMIN`)",
    );
    false
}

fn survives(options: Options) {
    if !can_mount() {
        return;
    }
    let summary = run(options, |_| ()).unwrap_or_else(|lost| panic!("seed {}: {lost}", options.seed));
    assert_eq!(summary.states, options.states);
    assert!(summary.acknowledged > 0 && summary.whole > 0 && summary.absent > 0, "{summary}");
    assert_eq!(summary.failed > 0, options.has_faults, "{summary}");
}

#[test]
fn nothing_acknowledged_is_lost_when_the_power_is_cut() {
    survives(Options { states: 200, seed: 42, has_faults: false });
}

#[test]
fn nothing_acknowledged_is_lost_when_the_disk_fails_and_the_power_is_cut() {
    survives(Options { states: 100, seed: 43, has_faults: true });
}

/// The files and folders whose syncs are required. Others, such as the snapshots of the store's tree, only shorten a
/// start or show that files were replaced.
const NEEDED: [&str; 4] = ["/", "store/", "store/conf", "store/db"];

#[test]
fn a_store_without_any_one_of_its_syncs_loses_something() {
    if !can_mount() {
        return;
    }
    let mut losses: BTreeMap<String, Option<String>> = BTreeMap::new();
    for seed in 0..4 {
        let recording = Recording::make(seed, false);
        for path in recording.synced_paths() {
            let loss = losses.entry(path.clone()).or_default();
            if loss.is_none() {
                *loss = recording.check(40, Some(&path)).err();
            }
        }
    }
    let survived: Vec<&str> =
        NEEDED.into_iter().filter(|path| losses.get(*path).is_none_or(|loss| loss.is_none())).collect();
    assert!(survived.is_empty(), "nothing was lost without the syncs of {survived:?}: {losses:#?}");
}
