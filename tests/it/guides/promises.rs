//! The page on what a plugin can and cannot do: each promise names tests, by their names in the output of the runner, with a
//! link to their source.

use std::path::{Path, PathBuf};

use super::linked::links;
use super::sources;

const PAGE: &str = "host/docs/guides/security.md";
/// Fewer rows would mean that the page is not read as it is written.
const PROMISES_MIN: usize = 45;

#[test]
fn every_promise_of_the_security_page_names_a_test_that_there_is() {
    let page = sources().join(PAGE);
    let text = std::fs::read_to_string(&page).unwrap();
    let mut promises = 0;
    let mut problems = Vec::new();
    for row in rows(&text) {
        promises += 1;
        let tests: Vec<(&str, &str)> = links(row).into_iter().filter(|(_, target)| target.ends_with(".rs")).collect();
        if tests.is_empty() {
            problems.push(format!("no test is named: {row}"));
        }
        problems.extend(tests.into_iter().filter_map(|(label, target)| verify(&page, label, target).err()));
    }
    assert!(problems.is_empty(), "{problems:#?}");
    assert!(promises >= PROMISES_MIN, "only {promises} promises are found");
}

/// The rows of all tables without their heads.
fn rows(text: &str) -> impl Iterator<Item = &str> {
    let mut lines = text.lines().peekable();
    std::iter::from_fn(move || {
        loop {
            let line = lines.next()?;
            let is_head = lines.peek().is_some_and(|next| next.starts_with("|---"));
            if line.starts_with("| ") && !is_head {
                return Some(line);
            }
        }
    })
}

/// Fails unless the file of a link has the test, and its name in the output of the runner is the text of the link.
fn verify(page: &Path, label: &str, target: &str) -> Result<(), String> {
    let folder = page.parent().unwrap_or(page);
    let path = folder.join(target).canonicalize().map_err(|error| format!("`{target}`: {error}"))?;
    let source = std::fs::read_to_string(&path).map_err(|error| format!("`{target}`: {error}"))?;
    let label = label.trim_matches('`');
    let (binary, test) = label.split_once(' ').ok_or_else(|| format!("`{label}` has no name of a program"))?;
    let (expected, module) = binary_and_module(&path).ok_or_else(|| format!("`{target}` has no tests"))?;
    if binary != expected {
        return Err(format!("`{label}`: the tests of `{target}` are in `{expected}`"));
    }
    let inner = test.strip_prefix(&module).and_then(|rest| rest.strip_prefix("::"));
    let inner = inner.ok_or_else(|| format!("`{label}`: the tests of `{target}` are in `{module}`"))?;
    let mut inner: Vec<&str> = inner.split("::").collect();
    let name = inner.pop().unwrap_or_default();
    if !inner.iter().all(|module| source.contains(&format!("mod {module} {{"))) {
        return Err(format!("`{target}` has no module `{}`", inner.join("::")));
    }
    if is_test(&source, name) { Ok(()) } else { Err(format!("`{target}` has no test `{name}`")) }
}

/// The name of the test program of a source file, and the path of its module.
fn binary_and_module(path: &Path) -> Option<(String, String)> {
    let root = sources().canonicalize().ok()?;
    let path: PathBuf = path.strip_prefix(root).ok()?.with_extension("");
    let parts: Vec<&str> = path.iter().map(|part| part.to_str()).collect::<Option<_>>()?;
    match parts.as_slice() {
        ["tests", "it", module @ ..] => Some(("daftar-tests::it".to_owned(), module.join("::"))),
        ["host", "crates", name, "src", module @ ..] => Some((format!("daftar-{name}"), module.join("::"))),
        _ => None,
    }
}

/// Tests whether a function of that name is right below a line that makes it a test.
fn is_test(source: &str, name: &str) -> bool {
    let lines: Vec<&str> = source.lines().map(str::trim).collect();
    let is_marked = |line: &&str| line.starts_with("#[test]") || line.starts_with("#[tokio::test");
    let declares = |line: &str| line.contains(&format!("fn {name}("));
    lines.iter().enumerate().any(|(number, line)| {
        declares(line) && lines[..number].iter().rev().take_while(|line| line.starts_with("#[")).any(is_marked)
    })
}

#[test]
fn a_promise_without_its_test_is_found() {
    let page = sources().join(PAGE);
    let target = "../../../tests/it/guides/promises.rs";
    let checked = |label: &str| verify(&page, label, target);
    assert_eq!(checked("`daftar-tests::it guides::promises::a_promise_without_its_test_is_found`"), Ok(()));
    let refused = |label: &str| checked(label).unwrap_err();
    assert!(refused("`daftar-tests::it guides::promises::a_test_that_was_renamed`").contains("no test `a_test_that"));
    assert!(refused("`daftar-tests::it guides::promises::rows`").contains("no test `rows`"), "a function is no test");
    assert!(refused("`daftar-tests::it guides::linked::x`").contains("are in `guides::promises`"));
    assert!(refused("`daftar-sandbox guides::promises::x`").contains("are in `daftar-tests::it`"));
    assert!(refused("`daftar-tests::it guides::promises::tests::rows`").contains("no module `tests`"));
    assert_eq!(rows("| promise | by |\n|---|---|\n| a | b |\ntext").collect::<Vec<_>>(), ["| a | b |"]);
}
