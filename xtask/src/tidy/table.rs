//! What may use what, read from `directions.toml`.

use serde::Deserialize;

use crate::failure::Failure;

/// The table, which is part of this program so that it is checked with its sources.
const TEXT: &str = include_str!("directions.toml");

/// What may use what.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Table {
    /// The folder of the crate whose modules have a direction.
    pub sources: String,
    pub module: Vec<Module>,
    #[serde(rename = "crate")]
    pub crates: Vec<Crate>,
    pub package: Vec<Package>,
}

/// A module of the host.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Module {
    pub name: String,
    /// The other modules that it may use, or parts of them such as `app::AppState`.
    pub uses: Vec<String>,
    /// What its tests may use beside them.
    #[serde(default)]
    pub tests_use: Vec<String>,
    /// Paths that it never names, such as `tokio` or `std::fs`.
    #[serde(default)]
    pub never: Vec<String>,
}

/// A crate that few modules may name.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Crate {
    pub name: String,
    /// The modules, such as `store::sled`; none at all where empty.
    pub only_in: Vec<String>,
    /// The modules whose tests may name it beside them.
    #[serde(default)]
    pub tests_in: Vec<String>,
    pub why: String,
}

/// Packages of the workspace that never depend on others, however far away.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Package {
    /// The packages: a name, or a folder ending in `/` for all that lie in it.
    pub of: String,
    pub never: Vec<String>,
    pub why: String,
}

impl Table {
    /// Reads it.
    pub fn read() -> Result<Self, Failure> {
        toml::from_str(TEXT).map_err(|error| Failure::new(format!("xtask/src/tidy/directions.toml: {error}")))
    }

    pub fn module(&self, name: &str) -> Option<&Module> {
        self.module.iter().find(|module| module.name == name)
    }
}

/// Whether `path` is `prefix` or lies in it, both written with `::`.
pub fn is_within(path: &str, prefix: &str) -> bool {
    path.strip_prefix(prefix).is_some_and(|rest| rest.is_empty() || rest.starts_with("::"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_module_uses_itself_through_others() {
        let table = Table::read().unwrap();
        for module in &table.module {
            let mut reached: Vec<&str> = Vec::new();
            let mut waiting: Vec<&str> = vec![&module.name];
            while let Some(name) = waiting.pop() {
                let uses = table.module(name).map_or(&[][..], |module| &module.uses);
                for used in uses.iter().filter_map(|used| used.split("::").next()) {
                    // The composition root hands its state to `api` and `admin`: the one circle, wanted and bounded.
                    if used != "app" && !reached.contains(&used) {
                        reached.push(used);
                        waiting.push(used);
                    }
                }
            }
            assert!(!reached.contains(&module.name.as_str()), "{} reaches itself", module.name);
        }
    }

    #[test]
    fn every_module_that_is_used_is_in_the_table() {
        let table = Table::read().unwrap();
        for module in &table.module {
            for used in module.uses.iter().chain(&module.tests_use) {
                let top = used.split("::").next().unwrap();
                assert!(table.module(top).is_some(), "{} uses {used}", module.name);
            }
        }
    }

    #[test]
    fn a_path_is_within_itself_and_what_is_above_it() {
        assert!(is_within("store::sled::keys", "store::sled"));
        assert!(is_within("store", "store"));
        assert!(!is_within("store_more", "store"));
        assert!(!is_within("store", "store::sled"));
    }
}
