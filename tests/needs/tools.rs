//! The programs that tests run, and how to install them.

use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::Command;

/// Folder of PostgreSQL's programs on Debian, with a folder for each version.
const POSTGRES_VERSIONS: &str = "/usr/lib/postgresql";

/// A program that tests run.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Tool {
    /// Its name, as it is on `PATH`.
    pub program: &'static str,
    /// The packages of Debian that contain it.
    pub package: &'static str,
    /// The tests that run it.
    pub tests: &'static str,
}

/// Every program that a test runs, except those of any system (`sh`, `cp`) and Rust's own.
pub const TOOLS: [Tool; 15] = [
    tool("bash", "bash", "guides, completions"),
    tool("chromium", "chromium", "workbench"),
    tool("clang", "clang", "guides on plugins in C and C++"),
    tool("curl", "curl", "clients, demo, guides, quick start"),
    tool("initdb", "postgresql", "PostgreSQL: store, index, many"),
    tool("make", "make", "guides on plugins in C and C++"),
    tool("mount", "mount", "full and read-only disks"),
    tool("node", "nodejs npm", "clients, guides, workbench"),
    tool("npm", "npm", "packages of clients and of the workbench"),
    tool("openssl", "openssl", "signatures of plugins"),
    tool("promtool", "prometheus", "alert rules"),
    tool("python3", "python3 python3-venv", "clients, guides"),
    tool("setpriv", "util-linux", "PostgreSQL: store, index, many"),
    tool("systemd-analyze", "systemd", "the systemd unit"),
    tool("wasm-ld", "lld", "guides on plugins in C and C++"),
];

/// A program that does not exist, for the tests of this crate.
#[cfg(test)]
const NOWHERE: Tool = tool("no-such-program-for-tests", "no-such-package", "none");

const fn tool(program: &'static str, package: &'static str, tests: &'static str) -> Tool {
    Tool { program, package, tests }
}

impl Tool {
    /// Its path on this machine.
    #[must_use]
    pub fn find(&self) -> Option<PathBuf> {
        if self.program == "initdb" {
            return postgres_programs().map(|folder| folder.join(self.program));
        }
        on_path(self.program)
    }
}

/// The row of a program.
#[track_caller]
pub(super) fn row(program: &str) -> &'static Tool {
    let row = TOOLS.iter().find(|tool| tool.program == program);
    #[cfg(test)]
    let row = row.or((program == NOWHERE.program).then_some(&NOWHERE));
    row.unwrap_or_else(|| panic!("`{program}` is no row of `daftar_test_needs::TOOLS`"))
}

/// The folder of PostgreSQL's programs: that of `initdb` on `PATH`, else the one that `pg_config` names, else that of
/// Debian's newest version.
#[must_use]
pub fn postgres_programs() -> Option<PathBuf> {
    let by_path = || on_path("initdb").and_then(|initdb| Some(initdb.parent()?.to_owned()));
    by_path().filter(|folder| is_complete(folder)).or_else(configured).or_else(|| newest(Path::new(POSTGRES_VERSIONS)))
}

fn configured() -> Option<PathBuf> {
    let output = Command::new("pg_config").arg("--bindir").output().ok()?;
    let folder = PathBuf::from(String::from_utf8(output.stdout).ok()?.trim());
    is_complete(&folder).then_some(folder)
}

fn newest(versions: &Path) -> Option<PathBuf> {
    let number = |path: &Path| path.file_name()?.to_str()?.parse::<u32>().ok();
    let versions = std::fs::read_dir(versions).ok()?.flatten().map(|entry| entry.path());
    let found = versions.filter_map(|path| Some((number(&path)?, path.join("bin"))));
    found.filter(|(_, programs)| is_complete(programs)).max().map(|(_, programs)| programs)
}

/// Tests whether a folder has the programs of a server and of its clients.
fn is_complete(folder: &Path) -> bool {
    ["initdb", "pg_basebackup", "pg_isready", "postgres", "psql"].iter().all(|name| is_program(&folder.join(name)))
}

fn on_path(program: &str) -> Option<PathBuf> {
    let path = std::env::var_os("PATH")?;
    std::env::split_paths(&path).map(|folder| folder.join(program)).find(|file| is_program(file))
}

fn is_program(file: &Path) -> bool {
    std::fs::metadata(file).is_ok_and(|found| found.is_file() && found.permissions().mode() & 0o111 != 0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_rows_are_sorted_and_complete() {
        assert!(TOOLS.is_sorted_by_key(|tool| tool.program));
        for tool in TOOLS {
            assert!(!tool.program.is_empty() && !tool.package.is_empty() && !tool.tests.is_empty(), "{tool:?}");
        }
    }

    #[test]
    fn a_program_is_found_where_it_can_be_run() {
        assert_eq!(on_path("sh").and_then(|sh| Some(sh.file_name()?.to_owned())), Some("sh".into()));
        assert_eq!(on_path("passwd.no-program"), None);
        assert!(!is_program(Path::new("/etc/passwd")) && !is_program(Path::new("/etc")));
    }

    #[test]
    fn the_newest_version_that_is_whole_is_taken() {
        let folder = crate::scratch().join(format!("versions-{}", std::process::id()));
        let all = ["initdb", "pg_basebackup", "pg_isready", "postgres", "psql"];
        for (version, programs) in [("9", &all[..]), ("15", &all), ("16", &all[..4]), ("other", &all)] {
            let bin = folder.join(version).join("bin");
            std::fs::create_dir_all(&bin).expect("a folder can be made");
            for program in programs {
                std::fs::copy("/bin/sh", bin.join(program)).expect("a program can be copied");
            }
        }
        let found = newest(&folder);
        std::fs::remove_dir_all(&folder).expect("the folder can be removed");
        assert_eq!(found, Some(folder.join("15/bin")));
        assert_eq!(newest(&folder), None);
    }
}
