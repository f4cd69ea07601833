//! Power cuts, simulated; `cargo xtask torture --power-cuts` tries thousands.

mod syncs;

use std::collections::BTreeSet;

use daftar_tests::power::{Options, Recording, Subject, missing, run, starts_on_a_lost_database};

use self::syncs::{CALLS, Need};

/// Tests whether a disk can be mounted here; otherwise that is reported.
fn can_mount() -> bool {
    let Some(why) = missing() else { return true };
    daftar_test_needs::not_run(
        &format!("a disk of FUSE ({why})"),
        "run as root, or with CAP_SYS_ADMIN, where `/dev/fuse` is (in a container: `--device /dev/fuse \
         --cap-add SYS_ADMIN`)",
    );
    false
}

fn survives(options: Options) {
    if !can_mount() {
        return;
    }
    let summary = run(options, |_| ()).unwrap_or_else(|lost| panic!("seed {}: {lost}", options.seed));
    assert!(summary.acknowledged > 0 && summary.whole + summary.absent > 0, "{summary}");
}

#[test]
fn nothing_acknowledged_is_lost_when_the_power_is_cut() {
    survives(Options { subject: Subject::Store, states: 120, seed: 42, has_faults: false });
}

#[test]
fn nothing_acknowledged_is_lost_when_the_disk_fails_and_the_power_is_cut() {
    // Three histories: calls fail, the disk is full, files cannot be read.
    survives(Options { subject: Subject::Store, states: 80, seed: 43, has_faults: true });
}

#[test]
fn no_part_of_a_data_folder_is_lost_when_the_power_is_cut() {
    survives(Options { subject: Subject::DataFolder, states: 50, seed: 44, has_faults: false });
}

#[test]
fn no_part_of_a_data_folder_is_lost_when_the_disk_fails_and_the_power_is_cut() {
    survives(Options { subject: Subject::DataFolder, states: 30, seed: 45, has_faults: true });
}

#[test]
fn a_start_reads_the_disk_unless_the_stop_was_clean() {
    if !can_mount() {
        return;
    }
    let [after_a_clean_stop, after_a_failure] = starts_on_a_lost_database();
    assert_eq!(after_a_clean_stop, None, "the system has it in memory");
    assert!(after_a_failure.is_some_and(|reason| reason.contains("keep a copy of the folder")));
}

/// Number of recordings in which a loss is searched.
const RECORDINGS_MAX: u64 = 10;

/// Leaves out the required syncs of a subject, and requires that something is lost without each of them, and nothing
/// with all.
fn loses_without_syncs(subject: Subject, states: u32) {
    if !can_mount() {
        return;
    }
    let listed = CALLS.iter().flat_map(|(_, needs)| *needs).copied();
    let mut unproven: BTreeSet<Need> = listed.filter(|need| syncs::subject(*need) == Some(subject)).collect();
    assert!(!unproven.is_empty());
    for seed in 0..RECORDINGS_MAX {
        if unproven.is_empty() {
            break;
        }
        let recording = Recording::make(subject, seed, None);
        recording.check(states).unwrap_or_else(|lost| panic!("something is lost with all syncs: {lost}"));
        unproven.retain(|need| syncs::loss(&recording, *need).is_none());
    }
    assert!(unproven.is_empty(), "nothing is lost without: {unproven:#?}");
}

#[test]
fn a_store_without_any_one_of_its_syncs_loses_something() {
    loses_without_syncs(Subject::Store, 20);
}

#[test]
fn a_data_folder_without_any_one_of_its_syncs_loses_something() {
    loses_without_syncs(Subject::DataFolder, 6);
}

#[test]
fn a_store_that_syncs_for_acknowledgements_only_loses_something() {
    loses_without_syncs(Subject::LargePhotos, 3);
}
