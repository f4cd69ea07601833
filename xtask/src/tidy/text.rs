//! Text that no file may contain; and files that have grown long.

use super::Finding;
use super::source::Sources;
use crate::workspace::Workspace;

/// A Rust file with more lines is reported as a candidate for splitting.
const LINES_MAX: usize = 400;

/// Names of files that do not describe their content.
const NAMELESS: [&str; 3] = ["mod.rs", "utils.rs", "util.rs"];

/// Attributes that are not permitted, and the reason.
const SILENCERS: [(&str, &str); 3] = [
    ("#[allow(", SILENCES_A_LINT),
    ("#![allow(", SILENCES_A_LINT),
    ("#[ignore", "a test that is not run tests nothing: fix it or remove it"),
];
const SILENCES_A_LINT: &str =
    "silences a lint for good: write `#[expect(…, reason = \"…\")]`, which ends when it is no longer needed";

/// Home folders on the usual systems. Split, so that this file does not match itself.
const HOMES: [&str; 3] = [concat!("/ho", "me/"), concat!("/Us", "ers/"), concat!("C:\\Us", "ers\\")];

/// Checks every file.
pub fn check(sources: &Sources, machine_paths: &[String]) -> Vec<Finding> {
    let mut findings = Vec::new();
    for file in sources.files() {
        for (number, line) in (1..).zip(file.text.lines()) {
            for path in machine_paths.iter().filter(|path| line.contains(path.as_str())) {
                let message = format!("holds the path `{path}` of one machine");
                findings.push(Finding::at(&file.path, number, message));
            }
        }
        if !file.path.ends_with(".rs") {
            continue;
        }
        let name = file.path.rsplit('/').next().unwrap_or_default();
        if NAMELESS.contains(&name) {
            let message = "is named after nothing: `foo.rs` stands beside `foo/`, and what is shared has a noun";
            findings.push(Finding::whole(&file.path, message));
        }
        for (number, line) in (1..).zip(file.text.lines()) {
            for (attribute, reason) in SILENCERS {
                if line.trim_start().starts_with(attribute) {
                    findings.push(Finding::at(&file.path, number, reason));
                }
            }
        }
    }
    findings
}

/// Paths that are valid on this machine only: homes, this project's folder, the folders of cargo.
pub fn machine_paths(workspace: &Workspace) -> Vec<String> {
    let own = [
        Some(workspace.root()),
        Some(workspace.target()),
        Some(workspace.cargo_home()),
        workspace.cargo_home().parent(),
    ];
    let own = own.into_iter().flatten().map(|path| format!("{}/", path.display())).filter(|path| path.len() > 1);
    let mut paths: Vec<String> = HOMES.into_iter().map(str::to_owned).chain(own).collect();
    paths.sort();
    paths.dedup();
    paths
}

/// Rust files that are too long, with their number of lines.
pub fn long_files(sources: &Sources) -> Vec<(&str, usize)> {
    let rust = sources.files().iter().filter(|file| file.path.ends_with(".rs"));
    rust.map(|file| (file.path.as_str(), file.text.lines().count())).filter(|(_, lines)| *lines > LINES_MAX).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn findings(files: &[(&str, &str)]) -> Vec<String> {
        let paths = ["/home-of-user/".to_owned()];
        check(&Sources::of(files), &paths).iter().map(ToString::to_string).collect()
    }

    #[test]
    fn refuses_a_path_of_one_machine() {
        let found = findings(&[("README.md", "fine\nsee /home-of-user/notes"), ("a.rs", "// fine")]);
        assert_eq!(found, ["README.md:2: holds the path `/home-of-user/` of one machine"]);
    }

    #[test]
    fn refuses_attributes_that_silence_lints_and_tests() {
        let found = findings(&[(
            "a.rs",
            "#[allow(dead_code)]\nfn f() {}\n    #[ignore]\n    fn g() {}\n// #[allow(dead_code)]",
        )]);
        assert_eq!(found.len(), 2, "{found:?}");
    }

    #[test]
    fn refuses_files_named_after_nothing() {
        assert_eq!(findings(&[("host/src/store/mod.rs", ""), ("host/src/utils.rs", "")]).len(), 2);
    }

    #[test]
    fn a_file_of_the_greatest_length_is_not_reported() {
        let (longest, longer) = ("\n".repeat(LINES_MAX), "\n".repeat(LINES_MAX + 1));
        let sources = Sources::of(&[("a.rs", &longest), ("b.rs", &longer), ("c.md", &longer)]);
        assert_eq!(long_files(&sources), [("b.rs", LINES_MAX + 1)]);
    }
}
