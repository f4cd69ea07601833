//! Every call of the product that syncs a file or a folder, with the loss that follows without it, or the reason why
//! none does.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

use daftar_tests::power::{Recording, Subject};

/// Consequence of the absence of a sync.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Need {
    /// Needed: data is lost without one sync of this class, an operation and a path.
    Alone(Subject, &'static str),
    /// Needed with others of this path: data is lost without all of them.
    Together(Subject, &'static str),
    /// Needed: data is lost if files of this class are synced for acknowledgements only.
    Between(Subject, &'static str),
    /// Needed, for this reason, in a state that the simulation does not reach.
    Unshown(&'static str),
    /// Not needed, for this reason.
    No(&'static str),
}

use Need::{Alone, Between, No, Together, Unshown};
use Subject::{DataFolder, LargePhotos, Store};

const ORDERED: &str = "a later sync of the same folder covers it, and names of one folder reach the disk in order";
const FIRST_MARK: &str = "without the marker a start repeats an interrupted first start only while `daftar.new` exists";
const MADE_AGAIN: &str = "each later part that creates a folder below it syncs it too";
const MARK: &str = "an older marker detects less, and loses nothing";
const CLOSED: &str = "the database syncs its file when it is closed, before the copy is reported";
const OUTPUT: &str = "the output of a command, which is run again after a power failure";
const PROGRESS: &str = "the progress of a command, which repeats what it does not know";

/// The files below `host` that sync, with their calls in order.
pub const CALLS: &[(&str, &[Need])] = &[
    (
        "crates/auth/src/secret_file.rs",
        &[
            Alone(DataFolder, "shared keys: shared/"),
            Alone(DataFolder, "rotate: srv/data/keys/.daftar-*"),
            Alone(DataFolder, "rotate: srv/data/keys/"),
        ],
    ),
    ("crates/domain/src/folders.rs", &[Alone(DataFolder, "start: /")]),
    (
        "crates/index/src/checkpoint/folder.rs",
        &[
            No("a start without checkpoints reads the records, and every start syncs the data folder later"),
            Alone(DataFolder, "checkpoint: srv/data/checkpoints/"),
            Alone(DataFolder, "checkpoint: srv/data/checkpoints/*.checkpoint.writing"),
            No("it limits the time for which transactions wait for the disk"),
        ],
    ),
    (
        "crates/sandbox/src/files.rs",
        &[
            Alone(DataFolder, "plugins: srv/data/"),
            Alone(DataFolder, "install: srv/data/plugins/.unfinished-*"),
            Alone(DataFolder, "install: srv/data/plugins/"),
        ],
    ),
    ("crates/sandbox/src/library/archive.rs", &[Alone(DataFolder, "restore: restored/plugins/*.wasm")]),
    ("crates/sandbox/src/signature/private_key.rs", &[No(OUTPUT)]),
    (
        "crates/store-sled/src/archive/refill.rs",
        &[
            No("servers reject a folder whose comparison was not noted, until it is compared again"),
            No("it limits the memory: what the database writes is on disk in order"),
            No(CLOSED),
            No(MARK),
            No(CLOSED),
        ],
    ),
    ("crates/store-sled/src/committer.rs", &[Alone(Store, "write: store/db")]),
    (
        "crates/store-sled/src/disk.rs",
        &[
            Alone(Store, "open: store/conf"),
            Unshown("the power fails during a start after a process with a complete store was killed"),
        ],
    ),
    ("crates/store-sled/src/database.rs", &[No("the database syncs its file when it is closed")]),
    ("crates/store-sled/src/lib.rs", &[Alone(Store, "write: store/db"), No(MARK)]),
    ("crates/store-sled/src/mark.rs", &[No(MARK)]),
    ("crates/store-sled/src/reader.rs", &[No("the database syncs its file when it is closed")]),
    (
        "crates/store-sled/src/sync.rs",
        &[Between(LargePhotos, "write: store/db"), No("it reports failed writes where the system has no other call")],
    ),
    (
        "crates/store-sled/src/open.rs",
        &[
            Alone(Store, "open: /"),
            Alone(Store, "open: store/db"),
            Together(Store, "store/"),
            No(FIRST_MARK),
            Together(Store, "store/"),
            No(ORDERED),
        ],
    ),
    (
        "crates/store-sled/src/unfinished.rs",
        &[
            Unshown(
                "a transaction that was repeated after a failure would be repeated again, over later audit entries",
            ),
            Unshown(
                "a batch may be on disk in part if a call fails in the middle of it and the power fails right then",
            ),
            Unshown("a group that was saved would be repeated over later audit entries"),
        ],
    ),
    ("src/app/doctor/machine.rs", &[No("it measures the disk")]),
    ("src/app/open.rs", &[No(MADE_AGAIN)]),
    (
        "src/app/packs.rs",
        &[Alone(DataFolder, "backup: backups/.daftar-backup-*"), Alone(DataFolder, "backup: backups/")],
    ),
    ("src/app/recovery.rs", &[No("the store syncs the same folders when it is opened")]),
    (
        "src/app/restore.rs",
        &[No(MADE_AGAIN), No("the marker counts, not its text"), No(ORDERED), Alone(DataFolder, "restore: restored/")],
    ),
    ("src/cli/export/output_file.rs", &[No(PROGRESS), No(OUTPUT), No(OUTPUT)]),
    ("src/cli/export/reporting.rs", &[No(OUTPUT), No(OUTPUT)]),
    ("src/cli/export/reporting_file.rs", &[No(OUTPUT)]),
    ("src/cli/import/openspp.rs", &[No(OUTPUT)]),
    ("src/cli/import/send.rs", &[No(PROGRESS)]),
];

/// Calls that sync, anywhere.
const SYNCING: [&str; 8] = [
    "sync_all(",
    "sync_data(",
    "fdatasync(",
    "fsync(",
    "folders::make(",
    "folders::make_all(",
    "folders::sync(",
    "folders::sync_where_possible(",
];
/// Calls of the embedded store that sync by one of these.
const SYNCING_IN_STORE: [&str; 4] = [".flush()", ".sync()", "disk::flush(", "write_durably("];
const STORE: &str = "crates/store-sled/";
/// The beginning of unit tests in a file.
const UNIT_TESTS: &str = "#[cfg(test)]\nmod tests {";
/// Files and folders with tests, or with what tests share.
const TESTS: [&str; 5] = ["tests", "tests.rs", "testing", "testing.rs", "suite"];

#[test]
fn every_call_that_syncs_is_listed() {
    let host = Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap().join("host");
    let mut found = BTreeMap::new();
    let mut folders = vec![host.join("src"), host.join("crates")];
    while let Some(folder) = folders.pop() {
        for path in fs::read_dir(&folder).unwrap().map(|entry| entry.unwrap().path()) {
            if TESTS.iter().any(|name| path.ends_with(name)) {
                continue;
            }
            if path.is_dir() {
                folders.push(path);
            } else if path.extension().is_some_and(|extension| extension == "rs") {
                let (name, count) = calls_in(&host, &path);
                found.insert(name, count);
            }
        }
    }
    found.retain(|_, count| *count > 0);
    let listed: BTreeMap<String, usize> = CALLS.iter().map(|(file, calls)| ((*file).to_owned(), calls.len())).collect();
    let differ = |(file, count): (&String, &usize)| {
        let listed = listed.get(file).copied().unwrap_or_default();
        (listed != *count).then(|| format!("`host/{file}` has {count} calls that sync, and {listed} are listed"))
    };
    let mut problems: Vec<String> = found.iter().filter_map(differ).collect();
    let missing = listed.keys().filter(|file| !found.contains_key(*file));
    problems.extend(missing.map(|file| format!("`host/{file}` is listed, and has no call that syncs")));
    assert!(
        problems.is_empty(),
        "{}\nList each call in `CALLS` of tests/it/power/syncs.rs, in the order of the file: `Alone` with the class of \
         a sync without which the simulation loses data, or `No` with the reason why it loses nothing.",
        problems.join("\n")
    );
}

/// Returns the path of a source file from `host`, and its number of calls that sync.
fn calls_in(host: &Path, path: &Path) -> (String, usize) {
    let name = path.strip_prefix(host).unwrap().to_str().unwrap().to_owned();
    let text = fs::read_to_string(path).unwrap();
    let code = text.split(UNIT_TESTS).next().unwrap();
    let in_store: &[&str] = if name.starts_with(STORE) { &SYNCING_IN_STORE } else { &[] };
    let is_code = |line: &&str| !line.trim_start().starts_with("//") && !line.contains("fn ");
    let count = |line: &str| -> usize { SYNCING.iter().chain(in_store).map(|call| line.matches(call).count()).sum() };
    let count = code.lines().filter(is_code).map(count).sum();
    (name, count)
}

/// The loss that follows in a recording without a sync; `None` if nothing is lost, or if the recording has no such
/// sync.
pub fn loss(recording: &Recording, need: Need) -> Option<String> {
    match need {
        Alone(_, class) => recording.loss_without_one(class),
        Together(_, path) => recording.loss_without_all(path),
        Between(_, class) => recording.loss_between_acknowledgements(class),
        Unshown(_) | No(_) => None,
    }
}

/// The subject whose recordings show the loss.
pub fn subject(need: Need) -> Option<Subject> {
    match need {
        Alone(subject, _) | Together(subject, _) | Between(subject, _) => Some(subject),
        Unshown(_) | No(_) => None,
    }
}
