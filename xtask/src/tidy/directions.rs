//! The modules of the host point one way, and few name the crates behind them.

use super::Finding;
use super::names::{self, Named};
use super::source::{Sources, TextFile};
use super::table::{Crate, Module, Table, is_within};

/// A file of the host, read.
struct Source<'s> {
    file: &'s TextFile,
    module: Vec<String>,
    names: names::Names,
}

/// Compares every path that the host names with the table.
pub fn check(sources: &Sources, table: &Table) -> Vec<Finding> {
    let mut findings = Vec::new();
    let mut read = Vec::new();
    for (path, file) in sources.below(&table.sources).filter(|(path, _)| path.ends_with(".rs")) {
        let module = module_of(path);
        match names::read(&file.text, &module) {
            Ok(names) => read.push(Source { file, module, names }),
            Err((line, reason)) => findings.push(Finding::at(&file.path, line, format!("is not Rust: {reason}"))),
        }
    }
    let test_modules: Vec<Vec<String>> = read.iter().flat_map(|source| source.names.test_modules.clone()).collect();
    for source in &read {
        // The crate's root and `main` only name modules.
        let Some(top) = source.module.first() else { continue };
        let Some(rules) = table.module(top) else {
            let message =
                format!("the module `{top}` is not in xtask/src/tidy/directions.toml: say there what it may use");
            findings.push(Finding::whole(&source.file.path, message));
            continue;
        };
        let is_test_file = test_modules.iter().any(|test| source.module.starts_with(test));
        for named in &source.names.named {
            let is_test = named.is_test || is_test_file;
            let message = broken_direction(rules, named, is_test)
                .or_else(|| never_named(rules, named))
                .or_else(|| hidden_crate(&table.crates, &source.module.join("::"), named, is_test));
            findings.extend(message.map(|message| Finding::at(&source.file.path, named.line, message)));
        }
    }
    findings
}

/// The module of a file, from the crate's root; nothing for the root itself.
fn module_of(path: &str) -> Vec<String> {
    let path = path.strip_suffix(".rs").unwrap_or(path);
    if path == "lib" || path == "main" { Vec::new() } else { path.split('/').map(str::to_owned).collect() }
}

fn broken_direction(rules: &Module, named: &Named, is_test: bool) -> Option<String> {
    let [first, used @ ..] = named.path.as_slice() else { return None };
    let top = used.first().filter(|_| first == "crate")?;
    if *top == rules.name {
        return None;
    }
    let used = used.join("::");
    let tests_use = rules.tests_use.iter().filter(|_| is_test);
    if rules.uses.iter().chain(tests_use).any(|allowed| is_within(&used, allowed)) {
        return None;
    }
    let allowed = if rules.uses.is_empty() { "no other module of ours".to_owned() } else { rules.uses.join(", ") };
    Some(format!("`{}` may not use `{used}`; it may use {allowed}", rules.name))
}

fn never_named(rules: &Module, named: &Named) -> Option<String> {
    let path = named.path.join("::");
    let never = rules.never.iter().find(|never| is_within(&path, never))?;
    Some(format!("`{}` never names `{never}`", rules.name))
}

fn hidden_crate(crates: &[Crate], module: &str, named: &Named, is_test: bool) -> Option<String> {
    let first = named.path.first()?;
    let hidden = crates.iter().find(|hidden| hidden.name == *first)?;
    let tests_in = hidden.tests_in.iter().filter(|_| is_test);
    if hidden.only_in.iter().chain(tests_in).any(|allowed| is_within(module, allowed)) {
        return None;
    }
    let places = if hidden.only_in.is_empty() { "nowhere in the host".to_owned() } else { hidden.only_in.join(", ") };
    Some(format!("`{first}` may be named in: {places}; {}", hidden.why))
}

#[cfg(test)]
mod tests {
    use super::*;

    const TABLE: &str = r#"
        sources = "host/src"
        package = []
        [[module]]
        name = "domain"
        uses = []
        never = ["tokio", "std::fs"]
        [[module]]
        name = "store"
        uses = ["domain"]
        [[module]]
        name = "vocab"
        uses = ["domain", "app::AppState"]
        tests_use = ["store"]
        [[module]]
        name = "app"
        uses = ["domain", "store", "vocab"]
        [[crate]]
        name = "sled"
        only_in = ["store::sled"]
        tests_in = ["vocab"]
        why = "a backend hides its crate"
        [[crate]]
        name = "cel"
        only_in = []
        why = "never"
    "#;

    fn findings(files: &[(&str, &str)]) -> Vec<String> {
        let table: Table = toml::from_str(TABLE).unwrap();
        check(&Sources::of(files), &table).iter().map(ToString::to_string).collect()
    }

    #[test]
    fn refuses_a_use_against_the_direction() {
        let files = [("host/src/vocab/check.rs", "\nuse crate::{domain::Code, store::Store};")];
        let expected =
            "host/src/vocab/check.rs:2: `vocab` may not use `store::Store`; it may use domain, app::AppState";
        assert_eq!(findings(&files), [expected]);
    }

    #[test]
    fn refuses_a_path_in_code_and_one_by_super() {
        let found =
            findings(&[("host/src/vocab.rs", "fn f() { super::store::get(); }\nfn g() { crate::store::get(); }")]);
        assert_eq!(found.len(), 2, "{found:?}");
    }

    #[test]
    fn a_module_may_use_a_part_of_another_only() {
        assert!(findings(&[("host/src/vocab.rs", "use crate::app::AppState;")]).is_empty());
        assert_eq!(findings(&[("host/src/vocab.rs", "use crate::app::Other;")]).len(), 1);
    }

    #[test]
    fn tests_may_use_more_where_the_table_says_so() {
        let tests = "#[cfg(test)]\nmod tests { use crate::store::Store; use sled::Db; }";
        assert!(findings(&[("host/src/vocab.rs", tests)]).is_empty());
        let in_a_file =
            [("host/src/vocab.rs", "#[cfg(test)]\nmod tests;"), ("host/src/vocab/tests.rs", "use crate::store::A;")];
        assert!(findings(&in_a_file).is_empty());
        assert_eq!(findings(&[("host/src/domain.rs", tests)]).len(), 2);
    }

    #[test]
    fn refuses_a_hidden_crate_elsewhere() {
        assert!(findings(&[("host/src/store/sled/keys.rs", "use sled::Tree;")]).is_empty());
        let found = findings(&[("host/src/store/memory.rs", "fn f(t: sled::Tree) {}")]);
        let expected = "host/src/store/memory.rs:1: `sled` may be named in: store::sled; a backend hides its crate";
        assert_eq!(found, [expected]);
        assert_eq!(findings(&[("host/src/app.rs", "use cel::Program;")]).len(), 1);
    }

    #[test]
    fn refuses_what_a_module_never_names() {
        let found = findings(&[("host/src/domain/code.rs", "use std::{fmt, fs::File};")]);
        assert_eq!(found, ["host/src/domain/code.rs:1: `domain` never names `std::fs`"]);
    }

    #[test]
    fn refuses_a_module_that_the_table_does_not_know() {
        let found = findings(&[("host/src/utils.rs", "fn f() {}"), ("host/src/main.rs", "use daftar::utils;")]);
        assert!(matches!(found.as_slice(), [only] if only.contains("`utils` is not in")), "{found:?}");
    }
}
