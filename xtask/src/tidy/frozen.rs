//! A released version of the plugin interface is never edited: `wit/FROZEN` keeps the digest of each of its files.
//!
//! The file has the form that `sha256sum` writes and checks: `sha256sum daftar-plugin/<version>/*.wit >> FROZEN` in
//! `wit/` freezes a version.

use std::collections::{BTreeMap, BTreeSet};

use sha2::{Digest, Sha256};

use super::Finding;
use super::source::Sources;
use crate::files::hexadecimal;

const FOLDER: &str = "wit";
const LIST: &str = "wit/FROZEN";

/// Compares the files of frozen versions with their digests.
pub fn check(sources: &Sources) -> Vec<Finding> {
    let mut findings = Vec::new();
    let Some(list) = sources.find(LIST) else {
        // Without the list nothing would be frozen.
        if sources.below(FOLDER).next().is_some() {
            findings.push(Finding::whole(LIST, "is gone, and with it what keeps released versions as they are"));
        }
        return findings;
    };
    let mut frozen: BTreeMap<&str, &str> = BTreeMap::new();
    for (number, line) in (1..).zip(list.text.lines()) {
        if line.is_empty() || line.starts_with('#') {
            continue;
        }
        match line.split_once("  ") {
            Some((digest, path)) if digest.len() == 64 => drop(frozen.insert(path, digest)),
            _ => findings.push(Finding::at(LIST, number, "a line is `<sha256>  <file>`, as `sha256sum` writes it")),
        }
    }
    let files: BTreeMap<&str, String> =
        sources.below(FOLDER).map(|(path, file)| (path, hexadecimal(Sha256::new_with_prefix(&file.text)))).collect();
    for (path, digest) in &frozen {
        match files.get(path) {
            None => findings.push(Finding::whole(format!("{FOLDER}/{path}"), "is frozen and is gone")),
            Some(present) if present != digest => {
                let message = "is frozen and was edited: a change is a new version in a folder of its own";
                findings.push(Finding::whole(format!("{FOLDER}/{path}"), message));
            }
            Some(_) => {}
        }
    }
    let folders: BTreeSet<&str> = frozen.keys().filter_map(|path| Some(path.rsplit_once('/')?.0)).collect();
    for path in files.keys().filter(|path| !frozen.contains_key(**path)) {
        if path.rsplit_once('/').is_some_and(|(folder, _)| folders.contains(folder)) {
            findings.push(Finding::whole(format!("{FOLDER}/{path}"), "was added to a version that is frozen"));
        }
    }
    findings
}

#[cfg(test)]
mod tests {
    use super::*;

    const TEXT: &str = "package daftar:plugin@0.1.0;\n";

    fn findings(list: &str, files: &[(&str, &str)]) -> Vec<String> {
        let files: Vec<(&str, &str)> = [("wit/FROZEN", list)].into_iter().chain(files.iter().copied()).collect();
        check(&Sources::of(&files)).iter().map(ToString::to_string).collect()
    }

    fn line() -> String {
        format!("{}  daftar-plugin/0.1.0/a.wit\n", hexadecimal(Sha256::new_with_prefix(TEXT)))
    }

    #[test]
    fn a_frozen_version_as_it_was_is_fine_and_others_may_change() {
        let files = [("wit/daftar-plugin/0.1.0/a.wit", TEXT), ("wit/daftar-plugin/0.2.0/a.wit", "anything")];
        assert!(findings(&line(), &files).is_empty());
    }

    #[test]
    fn refuses_one_changed_byte() {
        let found = findings(&line(), &[("wit/daftar-plugin/0.1.0/a.wit", "package daftar:plugin@0.1.0; ")]);
        assert!(matches!(found.as_slice(), [only] if only.contains("was edited")), "{found:?}");
    }

    #[test]
    fn refuses_a_file_gone_and_a_file_added() {
        let found = findings(&line(), &[("wit/daftar-plugin/0.1.0/b.wit", TEXT)]);
        let expected = [
            "wit/daftar-plugin/0.1.0/a.wit: is frozen and is gone",
            "wit/daftar-plugin/0.1.0/b.wit: was added to a version that is frozen",
        ];
        assert_eq!(found, expected);
    }

    #[test]
    fn refuses_an_interface_without_a_list() {
        let check = |path: &str| check(&Sources::of(&[(path, TEXT)])).len();
        assert_eq!((check("wit/daftar-plugin/0.1.0/a.wit"), check("host/src/a.rs")), (1, 0));
    }

    #[test]
    fn refuses_a_list_that_cannot_be_read() {
        assert_eq!(findings("# note\n\nabc daftar\n", &[]).len(), 1);
    }
}
