//! Memory: what the process may have, against a guess of what it takes.

use std::fs;
use std::path::{Path, PathBuf};

use super::Patient;
use crate::app::recovery::CHECKPOINTS_FOLDER;
use daftar_domain::checkup::{Check, CheckArea};
use daftar_domain::config::StoreBackend;

const AREA: CheckArea = CheckArea::Memory;
const MIB: u64 = 1 << 20;
/// What a server takes with all packs and hardly any record (host/docs/SCALE.md).
const BASE_BYTES: u64 = 150 * MIB;
/// What compiling a plugin takes beside it, in a process of its own.
const COMPILING_BYTES: u64 = 256 * MIB;
const CGROUPS: &str = "/sys/fs/cgroup";

/// Compares.
pub(super) fn examine(patient: &Patient) -> Vec<Check> {
    let store = &patient.config.store;
    let kept_mib = match store.backend {
        StoreBackend::Sled => store.cache_mib,
        StoreBackend::Postgres => store.postgres.partitions_mib,
    };
    let caches = kept_mib.saturating_add(store.rule_columns_mib).saturating_mul(MIB);
    // A checkpoint is about the register in memory.
    let register = largest_file(&patient.data_dir.join(CHECKPOINTS_FOLDER));
    let guess = BASE_BYTES.saturating_add(COMPILING_BYTES).saturating_add(caches).saturating_add(register);
    match available() {
        Some(allowed) => vec![judge(&allowed, guess)],
        None => vec![Check::not_known(AREA, "limit", "how much memory there is cannot be told here")],
    }
}

fn largest_file(folder: &Path) -> u64 {
    let entries = fs::read_dir(folder).into_iter().flatten().flatten();
    entries.filter_map(|entry| entry.metadata().ok()).map(|metadata| metadata.len()).max().unwrap_or_default()
}

/// How much memory the process may have, and who says so.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Allowed {
    bytes: u64,
    by: &'static str,
}

fn judge(allowed: &Allowed, guess: u64) -> Check {
    let (have, want) = (allowed.bytes / MIB, guess.div_ceil(MIB));
    let message =
        format!("{have} MiB of memory by {}; this register with these settings takes about {want} MiB", allowed.by);
    let remedy = format!(
        "allow {want} MiB or more (`MemoryMax=` of the unit, the limit of the container), or lower `store.cache_mib` (`store.postgres.partitions_mib` in PostgreSQL) and `store.rule_columns_mib`"
    );
    if allowed.bytes < guess / 2 {
        return Check::problem(AREA, "limit", message, remedy);
    }
    if allowed.bytes < guess {
        return Check::warning(AREA, "limit", message, remedy);
    }
    Check::ok(AREA, "limit", message)
}

/// The smallest of what the machine has and what the groups of the process allow.
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

/// The smallest limit of the group of the process and those that it is in; in version 2 of cgroups, or in version 1.
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
        // A container sees its own group as the root, whatever it is called outside.
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
    fn less_memory_than_the_register_takes_is_told() {
        let at = |have: u64| judge(&Allowed { bytes: have * MIB, by: "the machine" }, 600 * MIB).state;
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
    fn the_machine_says_how_much_it_has() {
        assert_eq!(total_of("MemTotal:       24576 kB\nMemFree: 1 kB\n"), Some(24 * MIB));
        assert_eq!(total_of("MemFree: 1 kB\n"), None);
    }
}
