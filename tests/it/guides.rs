//! The guides and the examples, run as by a reader: their commands in one shell, sequentially, with the real program in
//! a folder of its own, their output compared with the text.
//!
//! Meaning of a guide's fences:
//!
//! - `sh` runs in the guide's shell, which stops at the first command that fails; a `text` fence after it is what it prints, where `…`
//!   matches any text, and alone on a line any lines.
//! - `sh server` is one `daftar serve` that runs next to the shell until the guide's end; `127.0.0.1:8080` elsewhere means that server.
//! - A fence with `file=NAME` is written to that file first.
//! - `sh not-run` is skipped; the line before it gives the reason, beginning with `Not run by the tests:`.
//!
//! **Invariant:** every guide and every example's README is run by a test here.

mod clients;
mod document;
mod linked;
mod promises;
mod session;

use std::path::{Path, PathBuf};

use daftar_test_needs::TOOLS;
use daftar_tests::artifacts;

use self::document::Document;
use self::session::Session;

/// Maximum number of skipped fences, in all guides and examples together.
const NOT_RUN_MAX: usize = 4;

/// The folder of the sources.
fn sources() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).parent().expect("the tests lie in the sources").to_owned()
}

macro_rules! guides {
    ($($test:ident => $file:literal),+ $(,)?) => {
        /// All that are run.
        const GUIDES: &[&str] = &[$($file),+];

        $(
            #[test]
            fn $test() {
                run($file);
            }
        )+
    };
}

guides! {
    quick_start => "host/docs/guides/quick-start.md",
    api_clients => "host/docs/guides/api-clients.md",
    deployments => "host/docs/guides/deployments.md",
    analysts => "host/docs/guides/analysts.md",
    reporting => "host/docs/guides/reporting.md",
    writing_a_pack => "host/docs/guides/writing-a-pack.md",
    writing_a_plugin => "host/docs/guides/writing-a-plugin.md",
    security => "host/docs/guides/security.md",
    openspp => "host/docs/guides/openspp.md",
    first_registry => "host/docs/tutorials/first-registry.md",
    first_rule => "host/docs/tutorials/first-rule.md",
    nginx => "host/docs/how-to/nginx.md",
    payment_client => "host/docs/how-to/payment-client.md",
    plugin_languages => "host/docs/how-to/plugin-languages.md",
    plugin_cookbook => "host/docs/how-to/plugin-cookbook.md",
    undetermined => "host/docs/how-to/undetermined.md",
    a_plugin_in_c => "examples/c-plugin/README.md",
    a_plugin_in_cpp => "examples/cpp-plugin/README.md",
    a_plugin_in_zig => "examples/zig-plugin/README.md",
    a_plugin_in_assemblyscript => "examples/assemblyscript-plugin/README.md",
    a_farmer_registry => "examples/farmer/README.md",
    a_household_survey => "examples/household-survey/README.md",
    a_job_that_brings_in_forms => "examples/openfn/README.md",
    a_table_for_qgis => "examples/qgis/README.md",
    twenty_rules => "examples/rules/README.md",
    a_code_list_from_a_spreadsheet => "examples/spreadsheet-pack/README.md",
}

fn run(file: &str) {
    let document = Document::read(&sources().join(file));
    if !daftar_test_needs::programs(&programs(&document)) {
        return;
    }
    let mut session = Session::start();
    bring_owners_files(file, session.folder());
    session.follow(&document);
}

/// The programs called by a guide's commands and by their builds.
fn programs(document: &Document) -> Vec<&'static str> {
    let mut called = vec!["bash"];
    called.extend(TOOLS.iter().map(|tool| tool.program).filter(|program| document.calls(program)));
    // The examples' makefiles compile with the one, and it links with the other.
    if called.contains(&"make") || called.contains(&"clang") {
        called.extend(["clang", "wasm-ld"]);
    }
    // The compiler of AssemblyScript is a package of the clients in JavaScript.
    if document.calls("asc") {
        called.extend(["node", "npm"]);
    }
    // The compiler of Zig is a package of the clients in Python.
    if document.calls("python-zig") {
        called.push("python3");
    }
    called.sort_unstable();
    called.dedup();
    called
}

/// Files of the publishers of vocabularies, which a reader has fetched: small invented ones, in the publishers'
/// formats.
fn bring_owners_files(guide: &str, folder: &Path) {
    if !guide.ends_with("deployments.md") {
        return;
    }
    let icf = sources().join("tests/data/owner-files/LinearizationMiniOutput-ICF-en.txt");
    std::fs::copy(icf, folder.join("SimpleTabulation-ICF-en.txt")).unwrap();
    std::fs::write(folder.join("agrovoc_core.nt"), thesaurus()).unwrap();
}

/// Concepts in the form of AGROVOC's Core dump: the roots, those in the concept groups of the module, and an invented
/// one.
fn thesaurus() -> String {
    const AGROVOC: &str = "http://aims.fao.org/aos/agrovoc/";
    const SKOS: &str = "http://www.w3.org/2004/02/skos/core#";
    const XL: &str = "http://www.w3.org/2008/05/skos-xl#";
    let roots = ["c_5993", "c_8171", "c_5966", "c_7634", "c_1731"].map(|code| (code, None));
    let groups = ["c_1474", "c_4255", "c_25490", "c_8174", "c_3131"].map(|code| (code, Some("c_8171")));
    let mut text = String::new();
    for (code, parent) in roots.into_iter().chain(groups).chain([("c_900001", Some("c_1474"))]) {
        let (concept, label) = (format!("<{AGROVOC}{code}>"), format!("<{AGROVOC}xl_en_{code}>"));
        text += &format!("{concept} <http://www.w3.org/1999/02/22-rdf-syntax-ns#type> <{SKOS}Concept> .\n");
        text += &format!("{concept} <{XL}prefLabel> {label} .\n{label} <{XL}literalForm> \"invented {code}\"@en .\n");
        if let Some(parent) = parent {
            text += &format!("{concept} <{SKOS}broader> <{AGROVOC}{parent}> .\n");
        }
    }
    text + &format!("<{AGROVOC}> <http://www.w3.org/2002/07/owl#versionInfo> \"2031-03\" .\n")
}

/// All files with that ending below a folder of the sources, by their relative paths.
fn files_below(folder: &str, ending: &str) -> Vec<String> {
    let mut found = Vec::new();
    let mut open = vec![sources().join(folder)];
    while let Some(folder) = open.pop() {
        for entry in std::fs::read_dir(&folder).unwrap().map(|entry| entry.unwrap().path()) {
            if entry.is_dir() {
                open.push(entry);
            } else if entry.to_string_lossy().ends_with(ending) {
                found.push(entry.strip_prefix(sources()).unwrap().to_string_lossy().into_owned());
            }
        }
    }
    found.sort();
    found
}

#[test]
fn every_guide_and_every_example_is_run() {
    let index = "host/docs/guides/README.md";
    let mut there = files_below("host/docs/guides", ".md");
    there.retain(|file| file != index);
    there.extend(["host/docs/tutorials", "host/docs/how-to"].into_iter().flat_map(|folder| files_below(folder, ".md")));
    there.extend(files_below("examples", "README.md"));
    there.sort();
    let mut run: Vec<&str> = GUIDES.to_vec();
    run.sort_unstable();
    assert_eq!(there, run);
    let listed = std::fs::read_to_string(sources().join(index)).unwrap();
    for guide in GUIDES.iter().filter_map(|guide| guide.strip_prefix("host/docs/guides/")) {
        assert!(listed.contains(&format!("]({guide})")), "`{index}` does not list `{guide}`");
    }
}

#[test]
fn little_of_the_guides_is_not_run() {
    let not_run: Vec<(String, String)> = GUIDES
        .iter()
        .flat_map(|file| {
            let document = Document::read(&sources().join(file));
            document.not_run().map(|reason| ((*file).to_owned(), reason.to_owned())).collect::<Vec<_>>()
        })
        .collect();
    assert!(not_run.len() <= NOT_RUN_MAX, "{not_run:#?}");
}

#[test]
fn the_programs_that_a_guide_calls_are_known() {
    let called = |file: &str| programs(&Document::read(&sources().join(file)));
    assert_eq!(called("host/docs/guides/api-clients.md"), ["bash", "curl", "node", "python3"]);
    assert_eq!(called("examples/c-plugin/README.md"), ["bash", "clang", "curl", "make", "wasm-ld"]);
    assert_eq!(called("examples/rules/README.md"), ["bash"]);
}

/// The program as a reader's shell finds it, and the files that a release contains besides.
fn lay_out(folder: &Path) {
    let link = |target: &Path, name: &str| std::os::unix::fs::symlink(target, folder.join(name)).unwrap();
    std::fs::create_dir(folder.join("dist")).unwrap();
    link(&artifacts::program(), "dist/daftar");
    link(&artifacts::plugins(), "dist/plugins");
    link(artifacts::module("farmer-registry").parent().unwrap(), "dist/modules");
    link(&sources().join("vocab-packs"), "vocab-packs");
    // Copied: build output of examples does not remain in the sources.
    copy(&sources().join("examples"), &folder.join("examples"));
}

fn copy(from: &Path, to: &Path) {
    std::fs::create_dir(to).unwrap();
    for entry in std::fs::read_dir(from).unwrap().map(|entry| entry.unwrap().path()) {
        let to = to.join(entry.file_name().unwrap());
        if entry.is_dir() {
            copy(&entry, &to);
        } else {
            std::fs::copy(&entry, &to).unwrap();
        }
    }
}

#[test]
fn the_page_of_commands_is_the_one_that_the_program_writes() {
    let folder = tempfile::tempdir().unwrap();
    let written = std::process::Command::new(artifacts::program())
        .args(["manual", "--markdown"])
        .arg(folder.path())
        .output()
        .unwrap();
    assert!(written.status.success(), "{}", String::from_utf8_lossy(&written.stderr));
    let written = std::fs::read_to_string(folder.path().join("COMMANDS.md")).unwrap();
    let page = std::fs::read_to_string(sources().join("host/docs/COMMANDS.md")).unwrap();
    assert!(written == page, "host/docs/COMMANDS.md is out of date: `cargo xtask fields` writes it");
}
