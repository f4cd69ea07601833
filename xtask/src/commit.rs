//! The commit of the sources, if git knows it.

use std::path::Path;
use std::process::{Command, Stdio};

/// The commit of a release.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Commit {
    /// Its name, with the suffix `-modified` if a file was changed after it.
    pub name: Option<String>,
    /// Commit time, in seconds since 1970.
    pub committed_s: Option<i64>,
}

impl Commit {
    /// Reads it from git; it is unknown for sources without git, or without its folder. `SOURCE_DATE_EPOCH` is the time
    /// of those.
    pub fn of(root: &Path) -> Self {
        let git = |arguments: &[&str]| {
            let mut command = Command::new("git");
            let output = command.current_dir(root).args(arguments).stderr(Stdio::null()).output().ok()?;
            output.status.success().then(|| String::from_utf8_lossy(&output.stdout).trim().to_owned())
        };
        // A folder within another repository has no commit of its own.
        let is_ours = root.join(".git").exists();
        let name = is_ours.then(|| git(&["rev-parse", "--verify", "HEAD"])).flatten();
        let Some(name) = name else {
            let given = std::env::var_os("SOURCE_DATE_EPOCH").and_then(|text| text.to_str()?.parse().ok());
            return Self { name: None, committed_s: given };
        };
        let is_changed =
            git(&["status", "--porcelain", "--untracked-files=no"]).is_none_or(|changes| !changes.is_empty());
        let committed_s = git(&["show", "--no-patch", "--format=%ct", "HEAD"]).and_then(|text| text.parse().ok());
        Self { name: Some(if is_changed { format!("{name}-modified") } else { name }), committed_s }
    }

    /// Commit time, as RFC 3339 in UTC.
    pub fn rfc3339(&self) -> Option<String> {
        let seconds = self.committed_s.filter(|seconds| *seconds >= 0)?;
        let (days, second) = (seconds.div_euclid(86_400), seconds.rem_euclid(86_400));
        // The calendar counted from 1 March of the year 0, in eras of 400 years.
        let day = days + 719_468;
        let (era, day) = (day.div_euclid(146_097), day.rem_euclid(146_097));
        let year = (day - day / 1_460 + day / 36_524 - day / 146_096) / 365;
        let day = day - (365 * year + year / 4 - year / 100);
        let month = (5 * day + 2) / 153;
        let (day, month) = (day - (153 * month + 2) / 5 + 1, if month < 10 { month + 3 } else { month - 9 });
        let year = year + era * 400 + i64::from(month <= 2);
        let (hour, minute) = (second / 3_600, second / 60 % 60);
        Some(format!("{year:04}-{month:02}-{day:02}T{hour:02}:{minute:02}:{:02}Z", second % 60))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn seconds_become_a_day_and_a_time() {
        for (seconds, text) in [
            (0, "1970-01-01T00:00:00Z"),
            (951_782_399, "2000-02-28T23:59:59Z"),
            (951_782_400, "2000-02-29T00:00:00Z"),
            (1_772_366_400, "2026-03-01T12:00:00Z"),
            (4_102_444_799, "2099-12-31T23:59:59Z"),
        ] {
            let commit = Commit { name: None, committed_s: Some(seconds) };
            assert_eq!(commit.rfc3339().as_deref(), Some(text));
        }
        assert_eq!(Commit::default().rfc3339(), None);
    }

    #[test]
    fn sources_without_git_have_no_commit_and_changed_ones_are_reported() {
        let root = std::env::temp_dir().join(format!("daftar-xtask-commit-{}", std::process::id()));
        std::fs::create_dir_all(&root).unwrap();
        std::fs::write(root.join("file"), "one").unwrap();
        assert_eq!(Commit::of(&root).name, None, "a folder inside of another repository is none of its own either");
        let git = |arguments: &[&str]| {
            let mut command = Command::new("git");
            command.current_dir(&root).args(["-c", "user.name=x", "-c", "user.email=x@example.org"]).args(arguments);
            let date = "2026-03-01T12:00:00Z";
            command.env("GIT_COMMITTER_DATE", date).stdout(Stdio::null()).stderr(Stdio::null());
            assert!(command.status().unwrap().success(), "{arguments:?}");
        };
        git(&["init"]);
        assert_eq!(Commit::of(&root).name, None, "nothing is committed yet");
        git(&["add", "file"]);
        git(&["commit", "--message", "one"]);
        let commit = Commit::of(&root);
        let name = commit.name.clone().unwrap();
        assert!(name.len() == 40 && name.bytes().all(|byte| byte.is_ascii_hexdigit()), "{name}");
        assert_eq!(commit.committed_s, Some(1_772_366_400));
        std::fs::write(root.join("file"), "two").unwrap();
        assert_eq!(Commit::of(&root).name, Some(format!("{name}-modified")));
        std::fs::remove_dir_all(root).unwrap();
    }
}
