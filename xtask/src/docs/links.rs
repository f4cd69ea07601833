//! Links of pages that leave the folder of the documentation.

use std::collections::BTreeSet;
use std::path::{Component, Path, PathBuf};

/// Folders whose files the site carries, so that a reader can take them.
const CARRIED: [&str; 2] = ["deploy/", "examples/"];
const PAGES: &str = "host/docs/";
const PICTURES: &str = "pictures/";

/// The text of a page with its links rewritten for the site; `from` is its path in the project. Files that the site has
/// to carry are added to `carried`.
pub fn rewritten(
    root: &Path,
    from: &str,
    text: &str,
    others: &[(&str, &str)],
    carried: &mut BTreeSet<String>,
) -> String {
    // Place of the page in the site, for relative links.
    let place = others.iter().find(|(other, _)| *other == from).map(|(_, place)| (*place).to_owned());
    let place = place.or_else(|| Some(from.strip_prefix(PAGES)?.to_owned())).unwrap_or_default();
    let up = "../".repeat(place.matches('/').count());
    let mut page = String::with_capacity(text.len());
    for (is_code, part) in parts(text) {
        let mut rest = part.as_str();
        while let Some((before, label, target, after)) = next_link(rest).filter(|_| !is_code) {
            page.push_str(before);
            match site_target(root, from, target, others, carried) {
                None => page.push_str(&format!("[{label}]({target})")),
                Some(Some(target)) => page.push_str(&format!("[{label}]({up}{target})")),
                Some(None) => page.push_str(label),
            }
            rest = after;
        }
        page.push_str(rest);
    }
    page
}

/// The text in parts that are code or not. A link may span lines, so lines without code are one part.
fn parts(text: &str) -> Vec<(bool, String)> {
    let mut parts: Vec<(bool, String)> = Vec::new();
    let mut is_fenced = false;
    for line in text.split_inclusive('\n') {
        let is_fence = line.trim_start().starts_with("```");
        let is_code = is_fenced || is_fence || line.starts_with("    ");
        is_fenced ^= is_fence;
        match parts.last_mut().filter(|(of, _)| *of == is_code) {
            Some((_, part)) => part.push_str(line),
            None => parts.push((is_code, line.to_owned())),
        }
    }
    parts
}

/// The text before the next link, its label, its target, and the text behind it.
fn next_link(text: &str) -> Option<(&str, &str, &str, &str)> {
    let (before, rest) = text.split_once("](")?;
    let at = before.rfind('[')?;
    let (target, after) = rest.split_once(')')?;
    Some((before.get(..at)?, before.get(at + 1..)?, target, after))
}

/// `None` if a link stays as it is; else its target from the top of the site, or nothing if the site does not have it.
fn site_target(
    root: &Path,
    from: &str,
    target: &str,
    others: &[(&str, &str)],
    carried: &mut BTreeSet<String>,
) -> Option<Option<String>> {
    if target.contains("://") || target.starts_with(['#', '/']) {
        return None;
    }
    let (path, anchor) = target.split_once('#').map_or((target, String::new()), |(path, at)| (path, format!("#{at}")));
    let path = resolved(&Path::new(from).parent()?.join(path));
    if let Some(page) = path.strip_prefix(PAGES).filter(|page| page.ends_with(".md") || page.starts_with(PICTURES)) {
        return Some(Some(format!("{page}{anchor}")));
    }
    if let Some((_, page)) = others.iter().find(|(other, page)| *other == path || format!("files/{page}") == path) {
        return Some(Some(format!("{page}{anchor}")));
    }
    let file = if root.join(&path).is_dir() { format!("{path}/README.md") } else { path };
    let is_carried = CARRIED.iter().any(|folder| file.starts_with(folder)) && root.join(&file).is_file();
    if !is_carried || file.ends_with(".md") {
        return Some(None);
    }
    carried.insert(file.clone());
    Some(Some(format!("files/{file}")))
}

/// A path without `.` and `..`.
fn resolved(path: &Path) -> String {
    let mut whole = PathBuf::new();
    for part in path.components() {
        match part {
            Component::ParentDir => {
                whole.pop();
            }
            Component::Normal(name) => whole.push(name),
            Component::CurDir | Component::RootDir | Component::Prefix(_) => {}
        }
    }
    whole.to_string_lossy().into_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    const OTHERS: [(&str, &str); 1] = [("vocab-packs/README.md", "vocabularies.md")];

    fn page(from: &str, text: &str) -> (String, Vec<String>) {
        let mut carried = BTreeSet::new();
        let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
        let page = rewritten(&root, from, text, &OTHERS, &mut carried);
        (page, carried.into_iter().collect())
    }

    #[test]
    fn links_lead_to_pages_and_files_of_the_site() {
        let text = "[a](../API.md#calls), [b](../../../vocab-packs/README.md#form) and [c](../../../deploy/daftar.example.toml)\n";
        let (page, carried) = page("host/docs/guides/x.md", text);
        assert_eq!(
            page,
            "[a](../API.md#calls), [b](../vocabularies.md#form) and [c](../files/deploy/daftar.example.toml)\n"
        );
        assert_eq!(carried, ["deploy/daftar.example.toml"]);
    }

    #[test]
    fn a_link_to_a_source_file_becomes_text() {
        assert_eq!(page("host/docs/X.md", "see [pool.rs](../crates/sandbox/src/pool.rs).").0, "see pool.rs.");
    }

    #[test]
    fn code_addresses_and_anchors_stay() {
        let text = "[a](#b) [c](https://example.org/x)\n```\n[d](../e.rs)\n```\n    [f](../g.rs)\n";
        assert_eq!(page("host/docs/X.md", text).0, text);
    }
}
