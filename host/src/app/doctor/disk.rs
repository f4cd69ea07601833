//! The disks of the data folder and the store: room, kind, and how long they take to write something down.

use std::fs;
use std::io::Write;
use std::path::Path;
use std::time::{Duration, Instant};

use super::Patient;
use crate::app::room::bytes_in;
use daftar_domain::checkup::{Check, CheckArea};

const AREA: CheckArea = CheckArea::Disk;
const MIB: u64 = 1 << 20;
/// With less than this the next checkpoint, or the next part of the database, may find no room.
const FREE_PROBLEM_BYTES: u64 = 256 * MIB;
/// With less than this, or less than the register takes now, it is time to make room.
const FREE_WARNING_BYTES: u64 = 1_024 * MIB;
/// How often something is written down to see how long it takes.
const SYNCS: usize = 5;
/// What is written.
const SYNC_BYTES: usize = 4_096;
/// Every write waits for the disk once: past this few are done in a second.
const SYNC_WARNING: Duration = Duration::from_millis(50);

/// Looks at each of the folders that exists; those on one disk are looked at once.
pub(super) fn examine(patient: &Patient) -> Vec<Check> {
    let mut seen = Vec::new();
    let mut checks = Vec::new();
    for folder in [patient.data_dir.clone(), patient.store()] {
        let device = fs::metadata(&folder).map(|metadata| std::os::unix::fs::MetadataExt::dev(&metadata));
        if let Ok(device) = device
            && !seen.contains(&device)
        {
            seen.push(device);
            checks.extend(look_at(patient, &folder));
        }
    }
    checks
}

fn look_at(patient: &Patient, folder: &Path) -> Vec<Check> {
    let mut checks = Vec::new();
    match rustix::fs::statvfs(folder) {
        Ok(disk) => {
            let free = disk.f_bavail.saturating_mul(disk.f_frsize);
            let register = bytes_in(&patient.data_dir).saturating_add(bytes_in(&patient.store()));
            checks.push(room(folder, free, register));
            if disk.f_files > 0 && disk.f_favail < 1_000 {
                let message = format!("the disk of {} has {} inodes left", Patient::shown(folder), disk.f_favail);
                checks.push(Check::problem(AREA, "inodes", message, "remove small files, or use a disk with more"));
            }
        }
        Err(error) => {
            let message = format!("how much room is left in {} cannot be told: {error}", Patient::shown(folder));
            checks.push(Check::not_known(AREA, "room", message));
        }
    }
    checks.extend(rustix::fs::statfs(folder).ok().map(|disk| kind(folder, disk.f_type as u64)));
    checks.push(written(folder, sync_times(folder)));
    checks
}

fn room(folder: &Path, free: u64, register: u64) -> Check {
    let (shown, free_mib, register_mib) = (Patient::shown(folder), free / MIB, register.div_ceil(MIB));
    let message = format!("{free_mib} MiB are free on the disk of {shown}, and the register takes {register_mib} MiB");
    let remedy =
        format!("make room, or move the register: `df -h {0}` and `du -sh {0}/*` show what takes it", folder.display());
    if free < FREE_PROBLEM_BYTES {
        return Check::problem(AREA, "room", message, remedy);
    }
    if free < FREE_WARNING_BYTES.max(register) {
        return Check::warning(AREA, "room", message, remedy);
    }
    Check::ok(AREA, "room", message)
}

/// What kind of disk it is, by the numbers of `statfs` (Linux, `linux/magic.h`).
fn kind(folder: &Path, magic: u64) -> Check {
    let shown = Patient::shown(folder);
    let on_disk = "put the data folder on a disk of this machine: move it while the server is stopped, and name it with --data-dir";
    // Some numbers have 32 bits and come with their sign.
    match magic & 0xffff_ffff {
        0x0102_1994 | 0x8584_58f6 => {
            let message = format!("{shown} is in memory (tmpfs): a restart of the machine loses the register");
            Check::problem(AREA, "kind", message, on_disk)
        }
        0x6969 | 0xff53_4d42 | 0xfe53_4d42 | 0x517b | 0x0102_1997 | 0x00c3_6400 => {
            let message = format!(
                "{shown} is on a network disk: locks and what is said to be written may not hold when the network fails"
            );
            Check::warning(AREA, "kind", message, on_disk)
        }
        0x794c_7630 => {
            let message = format!("{shown} is in the layers of a container (overlayfs): it goes with the container");
            Check::warning(AREA, "kind", message, "give the container a volume for the data folder")
        }
        0x6573_5546 => {
            let message = format!(
                "{shown} is on a disk that a program makes (FUSE): whether it keeps what it acknowledges is its business"
            );
            Check::warning(AREA, "kind", message, on_disk)
        }
        other => Check::ok(AREA, "kind", format_args!("{shown} is on a disk of this machine (kind {other:#x})")),
    }
}

/// How long it takes to write a few bytes down, each time. The file has no name, and is gone with its last handle.
fn sync_times(folder: &Path) -> std::io::Result<Vec<Duration>> {
    let mut file = tempfile::tempfile_in(folder)?;
    let mut times = Vec::with_capacity(SYNCS);
    for _ in 0..SYNCS {
        let begun = Instant::now();
        file.write_all(&[0; SYNC_BYTES])?;
        file.sync_data()?;
        times.push(begun.elapsed());
    }
    Ok(times)
}

fn written(folder: &Path, times: std::io::Result<Vec<Duration>>) -> Check {
    let shown = Patient::shown(folder);
    match times {
        Ok(mut times) => {
            times.sort_unstable();
            let median = times.get(times.len() / 2).copied().unwrap_or_default();
            let message = format!(
                "the disk of {shown} takes {:.2} ms to write something down (median of {})",
                median.as_secs_f64() * 1_000.0,
                times.len()
            );
            if median > SYNC_WARNING {
                let remedy =
                    "use a faster disk, or find what else writes to it: each write of the register waits for this";
                return Check::warning(AREA, "sync", message, remedy);
            }
            Check::ok(AREA, "sync", message)
        }
        Err(error) => {
            let remedy =
                "see that the disk is not full or read-only, and that the folder belongs to the account of the server";
            Check::problem(AREA, "sync", format_args!("nothing can be written to {shown}: {error}"), remedy)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use daftar_domain::checkup::CheckState;

    #[test]
    fn little_room_is_a_problem_and_less_than_the_register_takes_a_warning() {
        let at = |free_mib: u64, register_mib: u64| room(Path::new("x"), free_mib * MIB, register_mib * MIB).state;
        assert_eq!(at(255, 1), CheckState::Problem);
        assert_eq!(at(256, 1), CheckState::Warning);
        assert_eq!(at(1_024, 1), CheckState::Ok);
        assert_eq!(at(9_999, 10_000), CheckState::Warning);
        assert_eq!(at(10_000, 10_000), CheckState::Ok);
    }

    #[test]
    fn a_disk_that_does_not_keep_what_it_is_given_is_told() {
        let at = |magic| kind(Path::new("x"), magic).state;
        assert_eq!(at(0x0102_1994), CheckState::Problem, "tmpfs");
        assert_eq!(at(0xffff_ffff_8584_58f6), CheckState::Problem, "ramfs, with its sign");
        assert_eq!([0x6969, 0xff53_4d42, 0x794c_7630, 0x6573_5546].map(at), [CheckState::Warning; 4]);
        assert_eq!([0xef53, 0x5846_5342, 0x9123_683e].map(at), [CheckState::Ok; 3], "ext4, xfs, btrfs");
    }

    #[test]
    fn a_slow_disk_is_warned_of_and_one_that_takes_nothing_is_a_problem() {
        let times = |ms: u64| Ok([1, ms, ms, ms, 900].map(Duration::from_millis).to_vec());
        assert_eq!(written(Path::new("x"), times(50)).state, CheckState::Ok);
        assert_eq!(written(Path::new("x"), times(51)).state, CheckState::Warning);
        assert_eq!(written(Path::new("x"), Err(std::io::ErrorKind::StorageFull.into())).state, CheckState::Problem);
        let folder = tempfile::tempdir().unwrap();
        assert_eq!(sync_times(folder.path()).unwrap().len(), SYNCS);
        assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 0, "nothing is left");
        assert!(sync_times(&folder.path().join("none")).is_err());
    }
}
