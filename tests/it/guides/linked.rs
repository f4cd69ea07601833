//! Links of the guides, and of all other documents, have a target.

use std::path::Path;

use super::{files_below, sources};

/// Texts and targets of the links of a text.
pub(super) fn links(text: &str) -> Vec<(&str, &str)> {
    let mut found = Vec::new();
    for (at, _) in text.match_indices("](") {
        let target = text[at + 2..].split(')').next().unwrap_or_default();
        let label = text[..at].rsplit('[').next().unwrap_or_default();
        found.push((label, target));
    }
    found
}

fn documents() -> Vec<String> {
    let mut all =
        vec!["README.md", "ARCHITECTURE.md", "CONTRIBUTING.md"].into_iter().map(str::to_owned).collect::<Vec<_>>();
    for folder in ["host/docs", "examples", "vocab-packs", "deploy", "plugins"] {
        all.extend(files_below(folder, ".md"));
    }
    // The site's table of contents names generated pages; the site's build checks it.
    all.retain(|document| document != "host/docs/SUMMARY.md");
    all
}

#[test]
fn every_link_between_documents_leads_somewhere() {
    let mut broken = Vec::new();
    for document in documents() {
        let text = std::fs::read_to_string(sources().join(&document)).unwrap();
        let folder = Path::new(&document).parent().unwrap_or(Path::new("")).to_owned();
        for (label, target) in links(&text) {
            let path = target.split('#').next().unwrap_or_default();
            // A path from the root is one of the server.
            let is_elsewhere =
                target.contains("://") || path.is_empty() || target.contains(' ') || path.starts_with('/');
            if !is_elsewhere && !sources().join(&folder).join(path).exists() {
                broken.push(format!("{document}: [{label}]({target})"));
            }
        }
    }
    assert!(broken.is_empty(), "{broken:#?}");
}

#[test]
fn quoted_source_files_match_the_sources() {
    for guide in super::GUIDES {
        let document = super::document::Document::read(&sources().join(guide));
        for (_, step) in document.steps {
            let super::document::Step::File { name, text } = step else { continue };
            if let Ok(there) = std::fs::read_to_string(sources().join(&name)) {
                assert_eq!(text, there, "{guide} shows another `{name}`");
            }
        }
    }
}

#[test]
fn the_guide_from_openspp_shows_the_table_of_codes_that_is_used() {
    let table = std::fs::read_to_string(sources().join("host/src/cli/import/openspp/codes.tsv")).unwrap();
    let guide = std::fs::read_to_string(sources().join("host/docs/guides/openspp.md")).unwrap();
    let rows = guide.split("## Codes").nth(1).unwrap().lines().filter(|line| line.starts_with("| `"));
    let shown: Vec<String> = rows
        .map(|row| {
            let cells: Vec<&str> = row.trim_matches('|').split('|').map(|cell| cell.trim().trim_matches('`')).collect();
            format!("{}\t{}", cells[0], if cells[1] == "left out" { "" } else { cells[1] })
        })
        .collect();
    assert_eq!(shown, table.lines().collect::<Vec<&str>>());
}
