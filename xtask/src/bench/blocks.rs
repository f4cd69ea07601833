//! The tables of a document that are made from figures: from `<!-- bench:NAME … -->` to `<!-- /bench -->`, written by
//! this program alone.
//!
//! A table is older than the code if one of the sources that it measures was changed by a commit after the measured
//! one.

use std::path::Path;
use std::process::{Command, Stdio};

use super::figures::Figures;
use crate::failure::Failure;
use crate::files;

const BEGIN: &str = "<!-- bench:";
const BEGIN_END: &str = "-->";
const END: &str = "<!-- /bench -->";
const NOT_MEASURED: &str = "Not measured yet.";

/// The sources that all tables measure: reading and writing of requests, and the load generator.
const COMMON: &[&str] = &[
    "Cargo.lock",
    "host/crates/http",
    "host/src/app",
    "host/crates/auth",
    "host/crates/domain",
    "host/src/telemetry",
    "tests/bench/load.rs",
];
/// Those of the register: records, indexes, operations.
const REGISTER: &[&str] = &[
    "host/crates/index",
    "host/crates/service",
    "host/crates/store",
    "host/crates/store-postgres",
    "host/crates/store-sled",
];
/// Those of plugins and rules.
const PLUGINS: &[&str] = &["host/crates/sandbox", "host/crates/vocabulary", "plugins", "wit"];

/// The sources that a table measures.
fn sources(name: &str) -> Vec<String> {
    let groups: &[&[&str]] = match name {
        "engine" => &[PLUGINS, &["Cargo.lock"]],
        "import" | "postgres" | "postgres-1m" | "read" | "search" | "start" | "write" => &[COMMON, REGISTER],
        "limits" | "sign-in" | "token" | "unread" => &[COMMON],
        "workbench" => &[&["host/workbench"]],
        _ => &[COMMON, REGISTER, PLUGINS],
    };
    let own = format!("tests/bench/{}.rs", name.trim_end_matches("-1m").trim_end_matches("-10m").replace('-', "_"));
    groups.iter().flat_map(|group| group.iter().map(|path| (*path).to_owned())).chain([own]).collect()
}

/// A part of the document.
#[derive(Debug)]
enum Part {
    Text(String),
    /// A table by the name of its benchmark, with the rest of its marker and its content.
    Block {
        name: String,
        attributes: String,
        content: String,
    },
}

/// A document.
#[derive(Debug)]
pub struct Blocks(Vec<Part>);

impl Blocks {
    /// Reads a document.
    pub fn read(path: &Path) -> Result<Self, Failure> {
        Self::parse(&files::read_text(path)?).map_err(|problem| Failure::file(path, problem))
    }

    fn parse(mut text: &str) -> Result<Self, String> {
        let mut parts = Vec::new();
        while let Some((before, rest)) = text.split_once(BEGIN) {
            let (marker, rest) = rest.split_once(BEGIN_END).ok_or("the marker of a table does not end")?;
            let (content, rest) =
                rest.split_once(END).ok_or_else(|| format!("`{END}` is missing after `{}`", marker.trim()))?;
            if content.contains(BEGIN) {
                return Err(format!("`{END}` is missing after `{}`", marker.trim()));
            }
            let (name, attributes) = marker.trim().split_once(' ').unwrap_or((marker.trim(), ""));
            parts.push(Part::Text(before.to_owned()));
            parts.push(Part::Block {
                name: name.to_owned(),
                attributes: attributes.to_owned(),
                content: content.to_owned(),
            });
            text = rest;
        }
        parts.push(Part::Text(text.to_owned()));
        Ok(Self(parts))
    }

    /// The names of the tables, in their order.
    pub fn names(&self) -> Vec<String> {
        let name = |part: &Part| match part {
            Part::Text(_) => None,
            Part::Block { name, .. } => Some(name.clone()),
        };
        self.0.iter().filter_map(name).collect()
    }

    /// Writes every table from the figures in a folder, with a mark where it is older than the code. A table without
    /// figures says so.
    pub fn write_all(&mut self, figures: &Path, root: &Path) -> Result<(), Failure> {
        for part in &mut self.0 {
            let Part::Block { name, attributes, content } = part else { continue };
            let file = figures.join(format!("{name}.json"));
            if !file.exists() {
                attributes.clear();
                *content = format!("\n{NOT_MEASURED}\n");
                continue;
            }
            let figures = Figures::read(&file)?;
            *attributes = figures.attributes();
            let mark = why_old(root, &figures.commit, &sources(name)).map(|why| format!("**{why}.**\n\n"));
            *content = format!("\n{}{}", mark.unwrap_or_default(), figures.table());
        }
        Ok(())
    }

    /// The tables that are older than the code they measure, with the reason.
    pub fn old(&self, root: &Path) -> Vec<(String, String)> {
        let why = |part: &Part| {
            let Part::Block { name, attributes, .. } = part else { return None };
            let commit = attributes.split_whitespace().find_map(|attribute| attribute.strip_prefix("commit="));
            let why = match commit {
                None => Some("it was never measured".to_owned()),
                Some(commit) => why_old(root, commit, &sources(name)),
            };
            why.map(|why| (name.clone(), why))
        };
        self.0.iter().filter_map(why).collect()
    }

    /// Writes the document.
    pub fn save(&self, path: &Path) -> Result<(), Failure> {
        files::write_if_changed(path, self.text().as_bytes())
    }

    fn text(&self) -> String {
        let text = |part: &Part| match part {
            Part::Text(text) => text.clone(),
            Part::Block { name, attributes, content } => {
                let space = if attributes.is_empty() { "" } else { " " };
                format!("{BEGIN}{name}{space}{attributes} {BEGIN_END}{content}{END}")
            }
        };
        self.0.iter().map(text).collect()
    }
}

/// Reason why figures of a commit are no longer those of the sources, if any. None without git.
fn why_old(root: &Path, commit: &str, sources: &[String]) -> Option<String> {
    let git = |arguments: &[&str]| {
        let mut command = Command::new("git");
        let output = command.current_dir(root).args(arguments).stderr(Stdio::null()).output().ok()?;
        output.status.success().then(|| String::from_utf8_lossy(&output.stdout).trim().to_owned())
    };
    git(&["rev-parse", "--verify", "HEAD"])?;
    let short = commit.get(..12).unwrap_or(commit);
    let range = format!("{commit}..HEAD");
    let mut arguments = vec!["log", "-1", "--format=%h", &range, "--"];
    arguments.extend(sources.iter().map(String::as_str));
    match git(&arguments) {
        Some(newer) if newer.is_empty() => None,
        Some(_) => Some(format!("Measured at `{short}`, older than the code")),
        None => Some(format!("Measured at `{short}`, a commit that is not among those of this repository")),
    }
}

#[cfg(test)]
mod tests {
    use super::super::figures::tests::example;
    use super::*;

    const DOCUMENT: &str =
        "# Figures\n\n<!-- bench:read -->\n<!-- /bench -->\n\nText.\n\n<!-- bench:workbench -->old<!-- /bench -->\n";

    /// A repository with one source of `read`, and the folder of its figures.
    struct Repository(std::path::PathBuf);

    impl Repository {
        fn new(name: &str) -> Self {
            let root = std::env::temp_dir().join(format!("daftar-xtask-blocks-{name}-{}", std::process::id()));
            std::fs::create_dir_all(root.join("host/crates/http")).unwrap();
            std::fs::create_dir_all(root.join("figures")).unwrap();
            let repository = Self(root);
            repository.git(&["init", "--quiet"]);
            repository.commit("host/crates/http/read.rs", "1");
            repository
        }

        fn git(&self, arguments: &[&str]) -> String {
            let identity = ["-c", "user.name=test", "-c", "user.email=test@example.org", "-c", "commit.gpgsign=false"];
            let output = Command::new("git").current_dir(&self.0).args(identity).args(arguments).output().unwrap();
            assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
            String::from_utf8_lossy(&output.stdout).trim().to_owned()
        }

        fn commit(&self, file: &str, text: &str) {
            std::fs::write(self.0.join(file), text).unwrap();
            self.git(&["add", "--all"]);
            self.git(&["commit", "--quiet", "--message", "A change"]);
        }

        fn measured(&self) -> Blocks {
            let figures = example(&self.git(&["rev-parse", "HEAD"]));
            std::fs::write(self.0.join("figures/read.json"), figures).unwrap();
            let mut blocks = Blocks::parse(DOCUMENT).unwrap();
            blocks.write_all(&self.0.join("figures"), &self.0).unwrap();
            blocks
        }

        fn old(&self, blocks: &Blocks) -> Vec<String> {
            blocks.old(&self.0).into_iter().map(|(name, _)| name).collect()
        }
    }

    impl Drop for Repository {
        fn drop(&mut self) {
            let _ = std::fs::remove_dir_all(&self.0);
        }
    }

    #[test]
    fn a_table_is_marked_once_a_source_that_it_measures_was_changed() {
        let repository = Repository::new("marked");
        let blocks = repository.measured();
        assert_eq!(repository.old(&blocks), ["workbench"], "the other was never measured");
        repository.commit("README.md", "another file");
        assert_eq!(repository.old(&blocks), ["workbench"]);
        repository.commit("host/crates/http/read.rs", "2");
        assert_eq!(repository.old(&blocks), ["read", "workbench"]);

        let mut marked = Blocks::parse(&blocks.text()).unwrap();
        marked.write_all(&repository.0.join("figures"), &repository.0).unwrap();
        let (text, mark) = (marked.text(), "**Measured at `");
        assert!(text.contains(mark) && text.contains("`, older than the code.**"), "{text}");
        assert!(text.contains("| reads | 12,346 |"), "the figures stay: {text}");
        assert!(!repository.measured().text().contains(mark), "a new run takes the mark away");
    }

    #[test]
    fn a_table_of_an_unknown_commit_is_old() {
        let repository = Repository::new("unknown");
        std::fs::write(repository.0.join("figures/read.json"), example(&"0".repeat(40))).unwrap();
        let mut blocks = Blocks::parse(DOCUMENT).unwrap();
        blocks.write_all(&repository.0.join("figures"), &repository.0).unwrap();
        assert!(blocks.text().contains("a commit that is not among those of this repository"), "{}", blocks.text());
    }

    #[test]
    fn text_outside_of_tables_stays_as_it_is() {
        let repository = Repository::new("text");
        let text = repository.measured().text();
        assert!(text.starts_with("# Figures\n\n<!-- bench:read commit="), "{text}");
        assert!(
            text.contains("<!-- /bench -->\n\nText.\n\n<!-- bench:workbench -->\nNot measured yet.\n<!-- /bench -->\n"),
            "{text}"
        );
        assert_eq!(Blocks::parse(&text).unwrap().text(), text);
    }

    #[test]
    fn a_table_without_an_end_is_refused() {
        for text in
            ["<!-- bench:read -->", "<!-- bench:read", "<!-- bench:read -->a<!-- bench:write -->b<!-- /bench -->"]
        {
            assert!(Blocks::parse(text).is_err(), "{text}");
        }
    }

    #[test]
    fn every_source_of_the_tables_is_there() {
        let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
        let blocks = Blocks::read(&root.join(super::super::DOCUMENT)).unwrap();
        assert!(!blocks.names().is_empty());
        for name in blocks.names() {
            for source in sources(&name) {
                assert!(root.join(&source).exists(), "`{name}`: `{source}` is not there");
            }
        }
    }
}
