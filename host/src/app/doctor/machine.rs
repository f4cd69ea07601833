//! The clock: not before the last write, not before the build of the program, synchronized.

use std::fs;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use jiff::{SignedDuration, Timestamp};
use rustix::process::{Resource, getrlimit};

use super::{Patient, age};
use crate::app::disk_space::bytes_in;
use crate::app::recovery::CHECKPOINTS_FOLDER;
use crate::app::serve::accept::OTHERS;
use daftar_domain::checkup::{Check, CheckArea};
use daftar_domain::config::{PostgresIndexPlace, StoreBackend};

const CLOCK: CheckArea = CheckArea::Clock;
/// Maximum time by which the newest file of the store may be ahead of the clock: the two clocks of a network disk
/// differ slightly.
const AHEAD_MAX: SignedDuration = SignedDuration::from_secs(120);
/// Time without a write after which the clock may have jumped ahead: tokens and consents would expire immediately.
const SILENCE_MAX: SignedDuration = SignedDuration::from_hours(24 * 365);
const SET_IT: &str = "set the machine's clock and synchronize it: `timedatectl set-ntp true`, or chrony";

/// State of the clock, reported by the system.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum ClockSync {
    Synchronized,
    Unsynchronized,
    Unknown,
}

/// Checks the clock.
pub(super) fn clock(patient: &Patient) -> Vec<Check> {
    let mut checks: Vec<Check> =
        patient.built_from.map(|built| against_build(patient.now, built)).into_iter().collect();
    checks.extend(last_write(&patient.store()).map(|at| against_store(patient.now, at)));
    checks.push(clock_check(clock_sync(patient)));
    checks
}

/// Returns the time at which the newest file of the store was written, by the clock at that time.
fn last_write(store: &Path) -> Option<Timestamp> {
    let entries = fs::read_dir(store).ok()?;
    let times = entries.filter_map(|entry| entry.ok()?.metadata().ok()?.modified().ok());
    times.max().and_then(|at| Timestamp::try_from(at).ok())
}

fn against_build(now: Timestamp, built: Timestamp) -> Check {
    if now < built {
        let message = format!("the clock shows {now}, and this program was made after {built}");
        return Check::problem(CLOCK, "build", message, SET_IT);
    }
    Check::ok(CLOCK, "build", format_args!("the clock shows {now}, after this program was made"))
}

fn against_store(now: Timestamp, at: Timestamp) -> Check {
    let ahead = at.duration_since(now);
    if ahead > AHEAD_MAX {
        let message = format!(
            "the clock shows {now}, and the register was written at {at}: the clock was put back, or was ahead then"
        );
        return Check::problem(CLOCK, "store", message, SET_IT);
    }
    if ahead < -SILENCE_MAX {
        let message =
            format!("the register was last written {}: is the clock, which shows {now}, right?", age(now, at));
        return Check::warning(CLOCK, "store", message, SET_IT);
    }
    Check::ok(CLOCK, "store", format_args!("the register was last written {}", age(now, at)))
}

fn clock_check(stored: ClockSync) -> Check {
    match stored {
        ClockSync::Synchronized => Check::ok(CLOCK, "ntp", "the system keeps the clock right"),
        ClockSync::Unsynchronized => {
            let message = "nothing keeps the clock right: tokens, consents and limits go by it";
            Check::warning(CLOCK, "ntp", message, "`timedatectl set-ntp true`, or install chrony")
        }
        ClockSync::Unknown => {
            let message = "it is unknown here whether the clock is synchronized, as in a container, which uses the clock of the machine";
            Check::not_known(CLOCK, "ntp", message)
        }
    }
}

fn clock_sync(patient: &Patient) -> ClockSync {
    if Path::new("/run/systemd/timesync/synchronized").exists() {
        return ClockSync::Synchronized;
    }
    // A server starts no programs for this check; a command does, if systemd responds.
    if patient.is_server() || !Path::new("/run/systemd/system").is_dir() {
        return ClockSync::Unknown;
    }
    let requested = Command::new("timedatectl")
        .args(["show", "--property=NTPSynchronized", "--value"])
        .stdin(Stdio::null())
        .stderr(Stdio::null())
        .output();
    match requested.as_ref().map(|output| output.stdout.trim_ascii()) {
        Ok(b"yes") => ClockSync::Synchronized,
        Ok(b"no") => ClockSync::Unsynchronized,
        Ok(_) | Err(_) => ClockSync::Unknown,
    }
}

const DISK: CheckArea = CheckArea::Disk;
const MIB: u64 = 1 << 20;
/// Free space below which the next checkpoint, or the next segment of the database, may not fit.
const FREE_PROBLEM_BYTES: u64 = 256 * MIB;
/// Free space below which the operator should free space; also if it is below the current size of the register.
const FREE_WARNING_BYTES: u64 = 1_024 * MIB;
/// Number of test writes that are measured.
const SYNCS: usize = 5;
/// Written content.
const SYNC_BYTES: usize = 4_096;
/// Maximum time of a write to disk: every write waits for the disk once, so slower disks permit only a few per second.
const SYNC_WARNING: Duration = Duration::from_millis(50);

/// Checks each folder that exists; folders on the same disk are checked once.
pub(super) fn disks(patient: &Patient) -> Vec<Check> {
    let mut seen = Vec::new();
    let mut checks = Vec::new();
    for folder in [patient.data_dir.clone(), patient.store()] {
        let device = fs::metadata(&folder).map(|metadata| std::os::unix::fs::MetadataExt::dev(&metadata));
        if let Ok(device) = device
            && !seen.contains(&device)
        {
            seen.push(device);
            checks.extend(inspect(patient, &folder));
        }
    }
    checks
}

fn inspect(patient: &Patient, folder: &Path) -> Vec<Check> {
    let mut checks = Vec::new();
    match rustix::fs::statvfs(folder) {
        Ok(disk) => {
            let free = disk.f_bavail.saturating_mul(disk.f_frsize);
            let register = bytes_in(&patient.data_dir).saturating_add(bytes_in(&patient.store()));
            checks.push(room(folder, free, register));
            if disk.f_files > 0 && disk.f_favail < 1_000 {
                let message = format!("the disk of {} has {} inodes left", Patient::shown(folder), disk.f_favail);
                checks.push(Check::problem(DISK, "inodes", message, "remove small files, or use a disk with more"));
            }
        }
        Err(error) => {
            let message = format!("the free space of {} is unknown: {error}", Patient::shown(folder));
            checks.push(Check::not_known(DISK, "room", message));
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
        format!("free disk space, or move the register: `df -h {0}` and `du -sh {0}/*` show the use", folder.display());
    if free < FREE_PROBLEM_BYTES {
        return Check::problem(DISK, "room", message, remedy);
    }
    if free < FREE_WARNING_BYTES.max(register) {
        return Check::warning(DISK, "room", message, remedy);
    }
    Check::ok(DISK, "room", message)
}

/// Checks the kind of a file system, from the numbers of `statfs` (Linux, `linux/magic.h`).
fn kind(folder: &Path, magic: u64) -> Check {
    let shown = Patient::shown(folder);
    let on_disk = "put the data folder on a disk of this machine: move it while the server is stopped, and name it with --data-dir";
    // Some numbers have 32 bits and are sign-extended.
    match magic & 0xffff_ffff {
        0x0102_1994 | 0x8584_58f6 => {
            let message = format!("{shown} is in memory (tmpfs): a restart of the machine loses the register");
            Check::problem(DISK, "kind", message, on_disk)
        }
        0x6969 | 0xff53_4d42 | 0xfe53_4d42 | 0x517b | 0x0102_1997 | 0x00c3_6400 => {
            let message = format!(
                "{shown} is on a network disk: locks and acknowledged writes may be lost when the network fails"
            );
            Check::warning(DISK, "kind", message, on_disk)
        }
        0x794c_7630 => {
            let message = format!("{shown} is in the layers of a container (overlayfs): it goes with the container");
            Check::warning(DISK, "kind", message, "give the container a volume for the data folder")
        }
        0x6573_5546 => {
            let message = format!(
                "{shown} is on a disk that a program makes (FUSE): whether it keeps what it acknowledges is its business"
            );
            Check::warning(DISK, "kind", message, on_disk)
        }
        other => Check::ok(DISK, "kind", format_args!("{shown} is on a disk of this machine (kind {other:#x})")),
    }
}

/// Measures the durations of writes of a few bytes. The file has no name and is deleted with its last handle.
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
                return Check::warning(DISK, "sync", message, remedy);
            }
            Check::ok(DISK, "sync", message)
        }
        Err(error) => {
            let remedy =
                "see that the disk is not full or read-only, and that the folder belongs to the account of the server";
            Check::problem(DISK, "sync", format_args!("nothing can be written to {shown}: {error}"), remedy)
        }
    }
}

const OPEN_FILES: CheckArea = CheckArea::OpenFiles;

/// Compares the limit with `[server.connections] max`.
pub(super) fn open_files(patient: &Patient) -> Vec<Check> {
    // A server raises its limit as far as permitted.
    let most = getrlimit(Resource::Nofile).maximum.unwrap_or(u64::MAX);
    vec![judge_files(patient.config.server.connections.max, most)]
}

fn judge_files(connections: u64, most: u64) -> Check {
    let wanted = connections.saturating_add(OTHERS);
    if most >= wanted {
        let message =
            format!("a process of this account may have {} files open, and {wanted} are wanted", files_shown(most));
        return Check::ok(OPEN_FILES, "limit", message);
    }
    let message = format!(
        "a process of this account may have {most} files open, and `server.connections.max` of {connections} wants {wanted}: fewer connections are taken"
    );
    let remedy = format!(
        "`LimitNOFILE={wanted}` in the systemd unit (or `ulimit -Hn {wanted}` as root), or a lower `server.connections.max`"
    );
    Check::warning(OPEN_FILES, "limit", message, remedy)
}

fn files_shown(limit: u64) -> String {
    if limit == u64::MAX { "any number of".to_owned() } else { limit.to_string() }
}

const MEMORY: CheckArea = CheckArea::Memory;
/// Memory of a server with all packs and few records (host/docs/SCALE.md).
const BASE_BYTES: u64 = 150 * MIB;
/// Additional memory to compile a plugin, in a separate process.
const COMPILING_BYTES: u64 = 256 * MIB;
const CGROUPS: &str = "/sys/fs/cgroup";

/// Compares the memory limit with the required memory.
pub(super) fn memory(patient: &Patient) -> Vec<Check> {
    let store = &patient.config.store;
    let stored_mib = match store.backend {
        StoreBackend::Sled => store.cache_mib,
        StoreBackend::Postgres => match store.postgres.index {
            PostgresIndexPlace::Database => store.postgres.partitions_mib,
            // The size of the checkpoint indicates the size of the register.
            PostgresIndexPlace::Memory => 0,
        },
    };
    let caches = stored_mib.saturating_add(store.preview_cache_mib).saturating_mul(MIB);
    // A checkpoint has about the size of the register in memory.
    let register = largest_file(&patient.data_dir.join(CHECKPOINTS_FOLDER));
    let guess = BASE_BYTES.saturating_add(COMPILING_BYTES).saturating_add(caches).saturating_add(register);
    match available() {
        Some(allowed) => vec![judge_memory(&allowed, guess)],
        None => vec![Check::not_known(MEMORY, "limit", "the size of the memory is unknown here")],
    }
}

fn largest_file(folder: &Path) -> u64 {
    let entries = fs::read_dir(folder).into_iter().flatten().flatten();
    entries.filter_map(|entry| entry.metadata().ok()).map(|metadata| metadata.len()).max().unwrap_or_default()
}

/// Memory limit of the process, and its source.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Allowed {
    bytes: u64,
    by: &'static str,
}

fn judge_memory(allowed: &Allowed, guess: u64) -> Check {
    let (have, want) = (allowed.bytes / MIB, guess.div_ceil(MIB));
    let message =
        format!("{have} MiB of memory by {}; this register with these settings takes about {want} MiB", allowed.by);
    let remedy = format!(
        "allow {want} MiB or more (`MemoryMax=` of the unit, the limit of the container), or lower `store.cache_mib` (`store.postgres.partitions_mib` in PostgreSQL) and `store.preview_cache_mib`"
    );
    if allowed.bytes < guess / 2 {
        return Check::problem(MEMORY, "limit", message, remedy);
    }
    if allowed.bytes < guess {
        return Check::warning(MEMORY, "limit", message, remedy);
    }
    Check::ok(MEMORY, "limit", message)
}

/// Returns the minimum of the machine's memory and the limits of the control groups of the process.
fn available() -> Option<Allowed> {
    let machine = fs::read_to_string("/proc/meminfo").ok().and_then(|text| total_of(&text));
    let machine = machine.map(|bytes| Allowed { bytes, by: "the machine" });
    let groups = fs::read_to_string("/proc/self/cgroup").unwrap_or_default();
    let group =
        limit_of(&groups, Path::new(CGROUPS)).map(|bytes| Allowed { bytes, by: "the limit of its group (cgroup)" });
    machine.into_iter().chain(group).min_by_key(|allowed| allowed.bytes)
}

fn total_of(meminfo: &str) -> Option<u64> {
    let line = meminfo.lines().find_map(|line| line.strip_prefix("MemTotal:"))?;
    line.trim().strip_suffix("kB")?.trim().parse::<u64>().ok().map(|kibibytes| kibibytes.saturating_mul(1_024))
}

/// Returns the minimum limit of the control group of the process and its ancestors, in version 2 or version 1 of
/// cgroups.
fn limit_of(groups: &str, root: &Path) -> Option<u64> {
    let mut limits = Vec::new();
    for line in groups.lines() {
        let mut parts = line.splitn(3, ':').skip(1);
        let (Some(controllers), Some(group)) = (parts.next(), parts.next()) else { continue };
        let (base, file) = match controllers {
            "" => (root.to_owned(), "memory.max"),
            names if names.split(',').any(|name| name == "memory") => (root.join("memory"), "memory.limit_in_bytes"),
            _ => continue,
        };
        let mut folder: PathBuf = base.join(group.trim_start_matches('/'));
        // A container sees its own control group as the root, independent of the name outside the container.
        while folder.starts_with(&base) {
            let limit = fs::read_to_string(folder.join(file)).ok().and_then(|text| text.trim().parse::<u64>().ok());
            limits.extend(limit);
            if !folder.pop() {
                break;
            }
        }
    }
    limits.into_iter().min()
}

#[cfg(test)]
mod tests {
    use super::*;
    use daftar_domain::checkup::CheckState;

    #[test]
    fn a_clock_before_the_last_write_or_the_build_is_a_problem() {
        let at = |text: &str| -> Timestamp { text.parse().unwrap() };
        let now = at("2026-03-01T12:00:00Z");
        for (written, state) in [
            ("2026-03-01T12:02:00Z", CheckState::Ok),
            ("2026-03-01T12:02:01Z", CheckState::Problem),
            ("2025-03-01T12:00:00Z", CheckState::Ok),
            ("2025-03-01T11:59:59Z", CheckState::Warning),
        ] {
            assert_eq!(against_store(now, at(written)).state, state, "{written}");
        }
        assert_eq!(against_build(now, at("2026-03-01T12:00:01Z")).state, CheckState::Problem);
        assert_eq!(against_build(now, now).state, CheckState::Ok);
    }

    #[test]
    fn an_unsynchronized_clock_is_a_warning_except_in_a_container() {
        let states = [ClockSync::Synchronized, ClockSync::Unsynchronized, ClockSync::Unknown]
            .map(|stored| clock_check(stored).state);
        assert_eq!(states, [CheckState::Ok, CheckState::Warning, CheckState::NotKnown]);
    }

    #[test]
    fn the_last_write_is_that_of_the_newest_file() {
        let folder = tempfile::tempdir().unwrap();
        assert_eq!(last_write(&folder.path().join("none")), None);
        let written: Timestamp = "2026-03-01T12:00:00Z".parse().unwrap();
        for (name, seconds) in [("db", 0), ("acknowledged", 60), ("conf", -3_600)] {
            let file = fs::File::create(folder.path().join(name)).unwrap();
            let at = written + SignedDuration::from_secs(seconds);
            file.set_modified(at.into()).unwrap();
        }
        assert_eq!(last_write(folder.path()), Some(written + SignedDuration::from_secs(60)));
    }
}

#[cfg(test)]
mod disk_tests {
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
    fn a_disk_that_loses_writes_is_reported() {
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

#[cfg(test)]
mod limits_tests {
    use super::*;
    use daftar_domain::checkup::CheckState;

    #[test]
    fn fewer_files_than_connections_need_are_warned_of() {
        assert_eq!(judge_files(4_096, 4_096 + OTHERS).state, CheckState::Ok);
        let short = judge_files(4_096, 4_095 + OTHERS);
        assert_eq!(short.state, CheckState::Warning);
        assert!(short.remedy.unwrap().contains(&format!("LimitNOFILE={}", 4_096 + OTHERS)));
        assert_eq!(judge_files(100_000, u64::MAX).state, CheckState::Ok);
    }
}

#[cfg(test)]
mod memory_tests {
    use super::*;
    use daftar_domain::checkup::CheckState;

    #[test]
    fn insufficient_memory_for_the_register_is_reported() {
        let at = |have: u64| judge_memory(&Allowed { bytes: have * MIB, by: "the machine" }, 600 * MIB).state;
        assert_eq!(
            [at(299), at(300), at(599), at(600)],
            [CheckState::Problem, CheckState::Warning, CheckState::Warning, CheckState::Ok]
        );
    }

    #[test]
    fn the_smallest_limit_on_the_way_up_counts() {
        let root = tempfile::tempdir().unwrap();
        let group = root.path().join("system.slice/daftar.service");
        fs::create_dir_all(&group).unwrap();
        fs::write(group.join("memory.max"), "max\n").unwrap();
        assert_eq!(limit_of("0::/system.slice/daftar.service\n", root.path()), None);
        fs::write(root.path().join("system.slice/memory.max"), "1048576\n").unwrap();
        assert_eq!(limit_of("0::/system.slice/daftar.service\n", root.path()), Some(MIB));
        fs::write(group.join("memory.max"), "524288\n").unwrap();
        assert_eq!(limit_of("0::/system.slice/daftar.service\n", root.path()), Some(MIB / 2));
        assert_eq!(limit_of("0::/elsewhere\n", root.path()), None);

        fs::create_dir_all(root.path().join("memory/docker")).unwrap();
        fs::write(root.path().join("memory/docker/memory.limit_in_bytes"), "4096\n").unwrap();
        assert_eq!(limit_of("7:cpu,memory:/docker\n3:pids:/docker\n", root.path()), Some(4_096));
        assert_eq!(limit_of("", root.path()), None);
    }

    #[test]
    fn memory_and_disk_of_the_machine_are_read() {
        assert_eq!(total_of("MemTotal:       24576 kB\nMemFree: 1 kB\n"), Some(24 * MIB));
        assert_eq!(total_of("MemFree: 1 kB\n"), None);
    }
}
