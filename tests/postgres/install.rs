//! Where PostgreSQL's programs are; they are installed where they are not.

use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::process::Command;

use rustix::fs::FlockOperation;

/// Where Debian puts the programs of each version.
const VERSIONS: &str = "/usr/lib/postgresql";
/// Keeps the package from starting a server of its own.
const NO_CLUSTER: (&str, &str) =
    ("/etc/postgresql-common/createcluster.d/daftar-tests.conf", "create_main_cluster = false\n");

/// The folder of the newest version's programs.
///
/// # Panics
/// When they are not there and cannot be installed.
pub(super) fn programs() -> PathBuf {
    if let Some(found) = newest() {
        return found;
    }
    // Several test programs may find out at once.
    let lock = File::create(std::env::temp_dir().join("daftar-tests-postgres.lock")).expect("a file for a lock");
    rustix::fs::flock(&lock, FlockOperation::LockExclusive).expect("the lock of the installation");
    if newest().is_none() {
        install();
    }
    newest().expect(
        "the tests of the PostgreSQL backend need Debian's package `postgresql`: install it, or run them as root",
    )
}

fn newest() -> Option<PathBuf> {
    let versions = fs::read_dir(VERSIONS).ok()?;
    let number = |path: &Path| path.file_name()?.to_str()?.parse::<u32>().ok();
    let mut found: Vec<(u32, PathBuf)> =
        versions.flatten().filter_map(|entry| Some((number(&entry.path())?, entry.path().join("bin")))).collect();
    found.retain(|(_, programs)| programs.join("initdb").is_file() && programs.join("postgres").is_file());
    found.sort();
    found.pop().map(|(_, programs)| programs)
}

fn install() {
    let (file, content) = NO_CLUSTER;
    if let Some(folder) = Path::new(file).parent() {
        // Where this cannot be written the installation fails as well, and says why.
        let _ = fs::create_dir_all(folder);
    }
    let _ = fs::write(file, content);
    for step in [&["update", "-q"][..], &["install", "-y", "-q", "--no-install-recommends", "postgresql"]] {
        let done = Command::new("apt-get").args(step).env("DEBIAN_FRONTEND", "noninteractive").status();
        if !done.is_ok_and(|status| status.success()) {
            eprintln!("apt-get {} failed", step.join(" "));
        }
    }
}
