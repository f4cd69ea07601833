//! The notices of licences: of every crate that is linked, and of every code list.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::Path;

use super::packages::{CodeList, Crate, Shipped};
use crate::failure::Failure;

/// Prefixes of the names of files that contain a licence or a notice.
const BEGINNINGS: [&str; 7] = ["LICENSE", "LICENCE", "COPYING", "NOTICE", "UNLICENSE", "COPYRIGHT", "PATENTS"];
/// Maximum length of a licence text; a longer file is not one.
const TEXT_BYTES_MAX: u64 = 128 * 1024;

/// The MIT licence (SPDX: MIT) without its first line, the copyright notice.
const MIT: &str = include_str!("mit.txt");

/// All notices, as one document.
pub fn text(shipped: &Shipped, lists: &[CodeList]) -> Result<String, Failure> {
    let mut out = String::from(
        "# Licences of what is in this release\n\ndaftar itself is under the Apache License, version 2.0. The program is linked with the Rust standard library (MIT or Apache-2.0).\n\n## Code lists and other plugins\n\nThe data of code lists belong to their owners.\n",
    );
    for list in lists {
        out.push_str(&format!("\n### {} {}\n\n- licence: {}\n", list.name, list.version, list.licence));
        if !list.attribution.is_empty() {
            out.push_str(&format!("- attribution: {}\n", list.attribution));
        }
        if let Some(note) = &list.note {
            let body = note.trim().strip_prefix("# Licence of the data").unwrap_or(note.trim());
            out.push_str(&format!("\n{}\n", body.trim()));
        }
    }
    out.push_str("\n## Crates\n\n| crate | licence |\n|---|---|\n");
    let mut texts: BTreeMap<String, BTreeSet<String>> = BTreeMap::new();
    let mut without = Vec::new();
    for one in shipped.of_others() {
        let name = format!("{} {}", one.name, one.version);
        out.push_str(&format!("| {name} | {} |\n", licence_of(one)?));
        let found = texts_in(&one.folder)?;
        if found.is_empty() {
            without.push(one);
        }
        for text in found {
            texts.entry(text).or_default().insert(name.clone());
        }
    }
    if !without.is_empty() {
        out.push_str("\nThe packages of these come without a text. Where the licence is MIT, it is the one below, with the copyright of the named authors or, if there are none, of the contributors; the Apache License and its LLVM exception are among the texts at the end.\n\n");
        for one in without {
            let source = one.repository.as_deref().unwrap_or("https://crates.io");
            let by = if one.authors.is_empty() { "its contributors".to_owned() } else { one.authors.join(", ") };
            out.push_str(&format!("- {} {} ({}), by {by}: <{source}>\n", one.name, one.version, licence_of(one)?));
        }
        out.push_str(&format!("\n```text\n{}\n```\n", MIT.trim()));
    }
    out.push_str("\n## Texts\n");
    let mut sorted: Vec<(&String, &BTreeSet<String>)> = texts.iter().collect();
    sorted.sort_by_key(|(_, crates)| crates.first());
    for (text, crates) in sorted {
        let names: Vec<&str> = crates.iter().map(String::as_str).collect();
        out.push_str(&format!("\n### {}\n\n```text\n{text}\n```\n", names.join(", ")));
    }
    Ok(out)
}

fn licence_of(one: &Crate) -> Result<&str, Failure> {
    let licence = one.licence.as_deref();
    licence.ok_or_else(|| Failure::new(format!("the crate `{}` does not say its licence", one.name)))
}

/// The texts of licences and notices in a folder, without differences between systems.
fn texts_in(folder: &Path) -> Result<BTreeSet<String>, Failure> {
    let mut texts = BTreeSet::new();
    let entries = fs::read_dir(folder).map_err(|error| Failure::file(folder, error))?;
    for entry in entries {
        let entry = entry.map_err(|error| Failure::file(folder, error))?;
        let name = entry.file_name().to_string_lossy().to_uppercase();
        let is_text = entry.metadata().is_ok_and(|metadata| metadata.is_file() && metadata.len() <= TEXT_BYTES_MAX);
        if !is_text || !BEGINNINGS.iter().any(|beginning| name.starts_with(beginning)) {
            continue;
        }
        let bytes = fs::read(entry.path()).map_err(|error| Failure::file(&entry.path(), error))?;
        let text = String::from_utf8_lossy(&bytes).replace("\r\n", "\n").replace("```", "'''");
        let lines: Vec<&str> = text.trim_matches('\n').lines().map(str::trim_end).collect();
        texts.insert(lines.join("\n"));
    }
    Ok(texts)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn folder(name: &str, files: &[(&str, &str)]) -> std::path::PathBuf {
        let folder = std::env::temp_dir().join(format!("daftar-xtask-notices-{}-{name}", std::process::id()));
        fs::create_dir_all(&folder).unwrap();
        for (name, text) in files {
            fs::write(folder.join(name), text).unwrap();
        }
        folder
    }

    fn one(name: &str, folder: std::path::PathBuf, licence: Option<&str>) -> Crate {
        Crate {
            name: name.to_owned(),
            version: "1.0.0".to_owned(),
            licence: licence.map(str::to_owned),
            repository: Some(format!("https://example.org/{name}")),
            authors: vec!["Ada <ada@example.org>".to_owned()],
            checksum: None,
            folder,
            is_own: false,
            dependencies: BTreeSet::new(),
        }
    }

    #[test]
    fn one_text_is_printed_once_for_all_packages_and_every_list_names_its_publisher() {
        let (a, b, c) = (
            folder("a", &[("LICENSE-MIT", "Permission\r\nis granted\n"), ("README.md", "no licence")]),
            folder("b", &[("license-mit.txt", "Permission\nis granted"), ("NOTICE", "by b")]),
            folder("c", &[]),
        );
        let mut shipped = Shipped::default();
        for (name, folder) in [("a", &a), ("b", &b), ("c", &c)] {
            shipped.crates.insert(format!("{name}@1.0.0"), one(name, folder.clone(), Some("MIT")));
        }
        let list = CodeList {
            name: "agrovoc".to_owned(),
            version: "2.0.0".to_owned(),
            licence: "CC BY 4.0".to_owned(),
            attribution: "FAO".to_owned(),
            note: Some("# Licence of the data\n\nChanged: subset.\n".to_owned()),
        };
        let message = text(&shipped, &[list]).unwrap();
        assert_eq!(message.matches("Permission\nis granted").count(), 1, "{message}");
        assert!(
            message.contains("### a 1.0.0, b 1.0.0\n") && message.contains("by b") && !message.contains("no licence"),
            "{message}"
        );
        assert!(message.contains("- c 1.0.0 (MIT), by Ada <ada@example.org>: <https://example.org/c>"), "{message}");
        assert!(
            message.contains("### agrovoc 2.0.0\n\n- licence: CC BY 4.0\n- attribution: FAO\n\nChanged: subset.\n"),
            "{message}"
        );
        shipped.crates.insert("d@1.0.0".to_owned(), one("d", c.clone(), None));
        assert!(text(&shipped, &[]).is_err(), "a crate without a licence is not shipped");
        for folder in [a, b, c] {
            fs::remove_dir_all(folder).unwrap();
        }
    }
}
