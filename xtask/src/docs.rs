//! `cargo xtask docs`: builds the documentation site with mdBook from `host/docs` and other sources: settings, plugin
//! interfaces, the operations of the API, the change log.
//!
//! The pages are assembled in the target folder. Its subfolder `docs/` receives the site with each file compressed. The
//! server embeds these files.
//!
//! **Invariant:** a link of a page leads to a page or a file of the site. A link to a file outside `host/docs` is
//! replaced by a file of the site or by text.

mod links;
mod operations;
mod settings;

use std::collections::BTreeSet;
use std::fs;
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::process::Stdio;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use flate2::Compression;
use flate2::write::GzEncoder;
use sha2::{Digest, Sha256};

use crate::failure::Failure;
use crate::files;
use crate::steps::Steps;
use crate::tools;
use crate::workspace::Workspace;

const MDBOOK: (&str, &str) = ("mdbook", "0.5.4");
const FEATURES: [&str; 3] = ["--no-default-features", "--features", "search"];
/// The pages that are written by hand, and the ones that tests compare with the program.
const PAGES: &str = "host/docs";
const PICTURES: &str = "pictures";
const BOOK: &str = "book.toml";
const STYLE: &str = "site.css";

/// Pages from elsewhere in the project, by their path in the site.
const OTHER_PAGES: [(&str, &str); 4] = [
    (SETTINGS, "settings.md"),
    ("CHANGELOG.md", "changelog.md"),
    ("vocab-packs/README.md", "vocabularies.md"),
    ("examples/rules/README.md", "example-rules.md"),
];
/// The interfaces of plugins.
const WIT: &str = "wit/daftar-plugin/0.1.0";
const SETTINGS: &str = "deploy/daftar.example.toml";
const OPENAPI: &str = "host/docs/openapi.json";
/// The content security policy of the site, beside its files.
const POLICY: &str = "content-security-policy.txt";

/// Builds the site unless it is up to date.
pub fn build(workspace: &Workspace, steps: &Steps) -> Result<(), Failure> {
    let place = workspace.target().join("docs-build");
    let embedded = workspace.target().join("docs");
    files::create_folder(&place)?;
    let pages = assemble(workspace)?;
    let version = digest(&pages);
    if tools::is_there(&place, "site", &version) && embedded.join(compressed(Path::new(POLICY))).is_file() {
        return Ok(());
    }
    let mdbook = tools::cargo_tool(workspace, steps, MDBOOK, &FEATURES)?;
    remove(&place.join("src"))?;
    for (path, bytes) in &pages {
        files::write_if_changed(&place.join(path), bytes)?;
    }
    let mut run = workspace.command(&mdbook);
    run.arg("build").arg(&place).stdout(Stdio::null());
    steps.run("build the documentation site", &mut run)?;
    check_links(&place.join("book"))?;
    embed(&place.join("book"), &embedded)?;
    tools::remember(&place, "site", &version)
}

/// Copies the site of the last [`build`] into a folder, for readers without a server.
pub fn lay_out(workspace: &Workspace, folder: &Path) -> Result<(), Failure> {
    let book = workspace.target().join("docs-build/book");
    for file in files::all_below(&book, &[])? {
        files::copy(&book.join(&file), &folder.join(&file))?;
    }
    Ok(())
}

/// Builds the site and prints the path of its first page, which is readable without a server.
pub fn run(workspace: &Workspace, steps: &Steps) -> Result<(), Failure> {
    build(workspace, steps)?;
    steps.say(&format!("ready: {}", workspace.target().join("docs-build/book/index.html").display()));
    Ok(())
}

/// Every file that mdBook reads, by its path in the folder of the book.
fn assemble(workspace: &Workspace) -> Result<Vec<(PathBuf, Vec<u8>)>, Failure> {
    let root = workspace.root();
    let mut pages = Vec::new();
    for file in [BOOK, STYLE] {
        pages.push((PathBuf::from(file), files::read(&root.join(PAGES).join(file))?));
    }
    let mut carried = BTreeSet::new();
    let mut add = |path: &str, from: &str, text: &str| {
        let text = links::rewritten(root, from, text, &OTHER_PAGES, &mut carried);
        pages.push((Path::new("src").join(path), text.into_bytes()));
    };
    for file in files::all_below(&root.join(PAGES), &[])? {
        if let Some(path) = file.to_str().filter(|path| path.ends_with(".md")) {
            let from = format!("{PAGES}/{path}");
            add(path, &from, &files::read_text(&root.join(&from))?);
        }
    }
    for (from, path) in OTHER_PAGES {
        let text = files::read_text(&root.join(from))?;
        add(path, from, &if from == SETTINGS { settings::page(&text)? } else { text });
    }
    add("plugin-interfaces.md", WIT, &interfaces(&root.join(WIT))?);
    for (path, text) in operations::pages(&files::read(&root.join(OPENAPI))?)? {
        add(&path, OPENAPI, &text);
    }
    for file in carried {
        pages.push((Path::new("src/files").join(&file), files::read(&root.join(&file))?));
    }
    let pictures = root.join(PAGES).join(PICTURES);
    for file in files::all_below(&pictures, &[])? {
        pages.push((Path::new("src").join(PICTURES).join(&file), files::read(&pictures.join(&file))?));
    }
    Ok(pages)
}

/// The interfaces, a section for each file.
fn interfaces(folder: &Path) -> Result<String, Failure> {
    let mut text = "# Plugin interfaces\n\nThe WIT package `daftar:plugin@0.1.0`, file by file. [Plugins](../../../host/docs/PLUGINS.md) \
                    describes how the server calls a plugin, and the guides show how to write one.\n"
        .to_owned();
    for file in files::all_below(folder, &[])? {
        let source = files::read_text(&folder.join(&file))?;
        text.push_str(&format!("\n## `{}`\n\n```wit\n{}\n```\n", file.display(), source.trim_end()));
    }
    Ok(text)
}

/// Writes each file of the site, compressed, and the policy of its scripts; removes everything else.
fn embed(book: &Path, embedded: &Path) -> Result<(), Failure> {
    remove(embedded)?;
    let mut scripts = BTreeSet::new();
    // Hidden files are for other hosts of pages.
    let is_shown = |file: &PathBuf| !file.to_string_lossy().starts_with('.');
    for file in files::all_below(book, &[])?.into_iter().filter(is_shown) {
        let bytes = files::read(&book.join(&file))?;
        if file.extension().is_some_and(|extension| extension == "html") {
            scripts.extend(inline_scripts(&String::from_utf8_lossy(&bytes)).map(script_digest));
        }
        write_compressed(embedded, &file, &bytes)?;
    }
    let scripts: Vec<String> = scripts.into_iter().collect();
    let policy = format!(
        "default-src 'none'; script-src 'self' {}; style-src 'self' 'unsafe-inline'; img-src 'self' data:; font-src 'self'; \
         connect-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'",
        scripts.join(" ")
    );
    write_compressed(embedded, Path::new(POLICY), policy.as_bytes())
}

fn write_compressed(embedded: &Path, file: &Path, bytes: &[u8]) -> Result<(), Failure> {
    let mut packed = GzEncoder::new(Vec::new(), Compression::best());
    let packed = packed.write_all(bytes).and_then(|()| packed.finish()).map_err(|cause| Failure::file(file, cause))?;
    files::write_if_changed(&embedded.join(compressed(file)), &packed)
}

/// Fails if a link of a page leads nowhere, and names all of these.
fn check_links(book: &Path) -> Result<(), Failure> {
    let pages: Vec<PathBuf> = files::all_below(book, &[])?
        .into_iter()
        .filter(|file| file.extension().is_some_and(|is| is == "html"))
        .collect();
    let mut broken = Vec::new();
    for page in &pages {
        let html = files::read_text(&book.join(page))?;
        let folder = book.join(page.parent().unwrap_or(Path::new("")));
        for target in html.split("href=\"").skip(1).filter_map(|rest| rest.split('"').next()) {
            let (path, anchor) = target.split_once('#').unwrap_or((target, ""));
            let is_elsewhere = target.contains("://") || target.starts_with('/');
            if is_elsewhere || page.ends_with("404.html") {
                continue;
            }
            let file = if path.is_empty() { book.join(page) } else { folder.join(path) };
            let has_anchor = || {
                let there = files::read_text(&file).unwrap_or_default();
                anchor.is_empty() || there.contains(&format!("id=\"{anchor}\""))
            };
            if !file.is_file() || !has_anchor() {
                broken.push(format!("  {}: {target}", page.display()));
            }
        }
    }
    if broken.is_empty() {
        return Ok(());
    }
    broken.dedup();
    Err(Failure::new(format!("links of the documentation lead nowhere:\n{}", broken.join("\n"))))
}

/// The text of each script that a page contains itself.
fn inline_scripts(html: &str) -> impl Iterator<Item = &str> {
    html.split("<script").skip(1).filter_map(|rest| {
        let (head, body) = rest.split_once('>')?;
        let (body, _) = body.split_once("</script>")?;
        (!head.contains("src=")).then_some(body)
    })
}

/// A script as a content security policy names it (CSP level 3, section 2.3.1).
fn script_digest(script: &str) -> String {
    format!("'sha256-{}'", STANDARD.encode(Sha256::digest(script)))
}

/// The name of a file in the program.
fn compressed(file: &Path) -> PathBuf {
    PathBuf::from(format!("{}.gz", file.display()))
}

fn digest(pages: &[(PathBuf, Vec<u8>)]) -> String {
    let mut digest = Sha256::new();
    for (path, bytes) in pages {
        digest.update(path.to_string_lossy().as_bytes());
        digest.update([0]);
        digest.update(bytes.len().to_le_bytes());
        digest.update(bytes);
    }
    files::hexadecimal(digest)
}

fn remove(folder: &Path) -> Result<(), Failure> {
    match fs::remove_dir_all(folder) {
        Err(error) if error.kind() != std::io::ErrorKind::NotFound => Err(Failure::file(folder, error)),
        Ok(()) | Err(_) => Ok(()),
    }
}
