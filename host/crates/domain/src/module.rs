//! Inactive modules with their content, so that an error can name the module that a request lacks.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;

use super::extension::overlap;
use super::manifest::PluginName;

/// The packs of this project: name, namespaces, extension fields. A test compares them with their manifests.
pub const PROJECT_MODULES: &[(&str, &[&str], &[&str])] = &[
    ("country", &["urn:iso:std:iso:3166-1"], &[]),
    ("currency", &["urn:iso:std:iso:4217"], &[]),
    ("economic-activity", &["urn:ilo:icse-93"], &[]),
    ("education", &["urn:unesco:isced:2011"], &[]),
    ("ethnocultural", &["urn:svc:vocab:ethnocultural"], &[]),
    ("farmer-registry", &["urn:fao:agrovoc"], &["farmer.crops"]),
    ("gender", &["urn:iso:std:iso:5218"], &[]),
    ("group-type", &["urn:svc:vocab:group-type"], &[]),
    ("housing-type", &["urn:un:unsd:pop-census:housing-type"], &[]),
    ("icd-11", &["urn:who:icd-11"], &[]),
    ("icf", &["urn:who:icf:b", "urn:who:icf:d"], &[]),
    ("id-type", &["urn:svc:vocab:id-type"], &[]),
    ("isco-08", &["urn:ilo:isco-08"], &[]),
    ("language", &["urn:iso:std:iso:639"], &[]),
    ("language-tag", &["urn:ietf:bcp:47"], &[]),
    ("marital-status", &["urn:un:unsd:pop-census:marital-status"], &[]),
    ("relationship", &["urn:svc:vocab:relationship"], &[]),
    ("religion", &["urn:un:unsd:pop-census:religion"], &[]),
];

/// An inactive module that would provide an item named by a request.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct InactiveModule {
    /// Its name.
    pub name: String,
    /// True if it is installed but inactive.
    pub is_installed: bool,
}

/// The content of known modules, active or not.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct KnownModules {
    by_namespace: BTreeMap<String, String>,
    /// Modules by the path below `extension`.
    by_field: BTreeMap<String, String>,
    /// The installed but inactive modules.
    installed: BTreeSet<String>,
}

impl KnownModules {
    /// Returns the packs of this project.
    #[must_use]
    pub fn of_project() -> Self {
        let mut known = Self::default();
        for (name, namespaces, fields) in PROJECT_MODULES {
            known.add(name, namespaces.iter().copied(), fields.iter().copied());
        }
        known
    }

    /// Adds a module; of several modules with the same content the last one is used.
    pub fn add<'b>(
        &mut self,
        name: &str,
        namespaces: impl IntoIterator<Item = &'b str>,
        fields: impl IntoIterator<Item = &'b str>,
    ) {
        self.by_namespace.extend(namespaces.into_iter().map(|namespace| (namespace.to_owned(), name.to_owned())));
        self.by_field.extend(fields.into_iter().map(|field| (field.to_owned(), name.to_owned())));
    }

    /// Sets the installed but inactive modules.
    #[must_use]
    pub fn with_installed<'n>(self, names: impl IntoIterator<Item = &'n PluginName>) -> Self {
        Self { installed: names.into_iter().map(ToString::to_string).collect(), ..self }
    }

    /// Returns the module of a namespace that no active module provides.
    #[must_use]
    pub fn of_namespace(&self, namespace: &str) -> Option<InactiveModule> {
        self.by_namespace.get(namespace).map(|name| self.named(name))
    }

    /// Returns the module of a path below `extension` that no active module declares, nor a field above or below it.
    #[must_use]
    pub fn of_field(&self, path: &str) -> Option<InactiveModule> {
        let mut fields = self.by_field.iter();
        let found = fields.find(|(field, _)| overlap(field, path));
        found.map(|(_, name)| self.named(name))
    }

    fn named(&self, name: &str) -> InactiveModule {
        InactiveModule { name: name.to_owned(), is_installed: self.installed.contains(name) }
    }
}

impl fmt::Display for InactiveModule {
    /// Formats the remedy: "the module `isco-08` provides it: …".
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { name, is_installed } = self;
        if *is_installed {
            return write!(
                formatter,
                "the module `{name}` provides it and is installed but not active: `daftar plugin list` shows why"
            );
        }
        write!(formatter, "the module `{name}` provides it: the administrator installs it with `daftar plugin install`")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn modules_are_found_by_namespace_and_by_fields_above_and_below() {
        let mut known = KnownModules::of_project();
        known.add("crops", ["urn:example:crops"], ["farm.crops.main"]);
        let name = |module: Option<InactiveModule>| module.map(|module| module.name);
        assert_eq!(name(known.of_namespace("urn:fao:agrovoc")), Some("farmer-registry".to_owned()));
        assert_eq!(name(known.of_namespace("urn:example:crops")), Some("crops".to_owned()));
        assert_eq!(known.of_namespace("urn:example"), None);
        for (path, module) in [
            ("farmer.crops", Some("farmer-registry")),
            ("farmer", Some("farmer-registry")),
            ("farm.crops", Some("crops")),
            ("farm.crops.main.first", Some("crops")),
            ("far", None),
            ("farmers", None),
        ] {
            assert_eq!(name(known.of_field(path)).as_deref(), module, "{path}");
        }
    }

    #[test]
    fn an_installed_inactive_module_has_its_own_remedy() {
        let crops = PluginName::parse("crops").unwrap();
        let mut known = KnownModules::default();
        known.add("crops", ["urn:example:crops"], []);
        let reported = |known: &KnownModules| known.of_namespace("urn:example:crops").unwrap().to_string();
        assert!(reported(&known).ends_with("`daftar plugin install`"), "{}", reported(&known));
        let known = known.with_installed([&crops]);
        assert!(reported(&known).ends_with("`daftar plugin list` shows why"), "{}", reported(&known));
    }
}
