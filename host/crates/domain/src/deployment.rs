//! What a deployment decides about vocabularies and identifiers, beside the packs that it installs.
//!
//! **Invariant:** it is changed as a whole: whoever holds one value of it sees codes and concept groups that go together.

use std::collections::BTreeMap;
use std::sync::Arc;

use super::code::{CodeUri, Namespace};
use super::identifier::IdentifierSystem;
use super::identifier::SystemUri;
use super::local_code::LocalCode;
use super::vocabulary::{Concept, ConceptGroup, VocabularyDescription};

/// The most concept groups that a deployment defines.
pub const CONCEPT_GROUPS_MAX: usize = 1_000;

/// One thing that a deployment decided, as it is kept.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Setting {
    /// A code of its own, or its word on a starter code.
    LocalCode(LocalCode),
    /// A concept group as the deployment wants it, in place of any pack's.
    ConceptGroup(ConceptGroup),
    /// A part of the codes that an earlier version of a vocabulary had and records may hold.
    RetainedConcepts(RetainedConcepts),
    /// A part of the version that a vocabulary had before the installed one.
    EarlierVersion(Arc<EarlierVersion>),
    /// A system that identifiers may be of.
    IdentifierSystem(IdentifierSystem),
}

/// What a setting is about; there is one setting of each.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum SettingKey {
    /// The local code of that URI.
    LocalCode(CodeUri),
    /// The concept group of that name.
    ConceptGroup(String),
    /// That part of the kept codes of a vocabulary, counted from 0.
    RetainedConcepts(Namespace, u32),
    /// That part of the version before, counted from 0.
    EarlierVersion(Namespace, u32),
    /// The system of that URI.
    IdentifierSystem(SystemUri),
}

/// Codes of earlier versions of a vocabulary that the installed one does not have any more.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RetainedConcepts {
    /// The vocabulary.
    pub namespace: Namespace,
    /// Which part of the codes, counted from 0.
    pub part: u32,
    /// The codes as the last version that had them described them, each inactive.
    pub concepts: Vec<Concept>,
}

/// A part of the version that a vocabulary had before the installed one, whole: beside the installed one it can be asked what a
/// code meant when records were coded with it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct EarlierVersion {
    /// What its pack said about it.
    pub description: VocabularyDescription,
    /// Which part of its codes, counted from 0.
    pub part: u32,
    /// In how many parts its codes lie; none of a version that was too large to be kept.
    pub parts: u32,
    /// Codes, in their order.
    pub concepts: Vec<Concept>,
}

impl Setting {
    /// What it is about.
    #[must_use]
    pub fn key(&self) -> SettingKey {
        match self {
            Self::LocalCode(code) => SettingKey::LocalCode(code.uri.clone()),
            Self::ConceptGroup(group) => SettingKey::ConceptGroup(group.name.clone()),
            Self::RetainedConcepts(kept) => SettingKey::RetainedConcepts(kept.namespace.clone(), kept.part),
            Self::EarlierVersion(earlier) => {
                SettingKey::EarlierVersion(earlier.description.namespace.clone(), earlier.part)
            }
            Self::IdentifierSystem(system) => SettingKey::IdentifierSystem(system.uri.clone()),
        }
    }
}

/// Everything that a deployment decided.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Deployment {
    local_codes: BTreeMap<CodeUri, LocalCode>,
    concept_groups: BTreeMap<String, ConceptGroup>,
    kept: BTreeMap<(Namespace, u32), Vec<Concept>>,
    earlier: BTreeMap<(Namespace, u32), Arc<EarlierVersion>>,
    identifier_systems: BTreeMap<SystemUri, IdentifierSystem>,
}

impl Deployment {
    /// Puts settings together; of two about one thing the later counts.
    #[must_use]
    pub fn of(settings: impl IntoIterator<Item = Setting>) -> Self {
        let mut deployment = Self::default();
        settings.into_iter().for_each(|setting| deployment.put(setting));
        deployment
    }

    /// Adds a setting, or replaces the one about the same thing.
    pub fn put(&mut self, setting: Setting) {
        match setting {
            Setting::LocalCode(code) => drop(self.local_codes.insert(code.uri.clone(), code)),
            Setting::ConceptGroup(group) => drop(self.concept_groups.insert(group.name.clone(), group)),
            Setting::RetainedConcepts(kept) => drop(self.kept.insert((kept.namespace, kept.part), kept.concepts)),
            Setting::EarlierVersion(earlier) => {
                drop(self.earlier.insert((earlier.description.namespace.clone(), earlier.part), earlier));
            }
            Setting::IdentifierSystem(system) => {
                drop(self.identifier_systems.insert(system.uri.clone(), system));
            }
        }
    }

    /// Takes a setting out.
    pub fn remove(&mut self, key: &SettingKey) {
        match key {
            SettingKey::LocalCode(uri) => drop(self.local_codes.remove(uri)),
            SettingKey::ConceptGroup(name) => drop(self.concept_groups.remove(name)),
            SettingKey::RetainedConcepts(namespace, part) => drop(self.kept.remove(&(namespace.clone(), *part))),
            SettingKey::EarlierVersion(namespace, part) => drop(self.earlier.remove(&(namespace.clone(), *part))),
            SettingKey::IdentifierSystem(uri) => drop(self.identifier_systems.remove(uri)),
        }
    }

    /// The local codes, by URI.
    pub fn local_codes(&self) -> impl ExactSizeIterator<Item = &LocalCode> {
        self.local_codes.values()
    }

    /// The local code of a URI.
    #[must_use]
    pub fn local_code(&self, uri: &CodeUri) -> Option<&LocalCode> {
        self.local_codes.get(uri)
    }

    /// The systems that identifiers may be of, by URI.
    pub fn identifier_systems(&self) -> impl ExactSizeIterator<Item = &IdentifierSystem> {
        self.identifier_systems.values()
    }

    /// The system of a URI.
    #[must_use]
    pub fn identifier_system(&self, uri: &SystemUri) -> Option<&IdentifierSystem> {
        self.identifier_systems.get(uri)
    }

    /// The concept groups that the deployment defines, by name.
    pub fn concept_groups(&self) -> impl ExactSizeIterator<Item = &ConceptGroup> {
        self.concept_groups.values()
    }

    /// The concept group of a name, where the deployment defines it.
    #[must_use]
    pub fn concept_group(&self, name: &str) -> Option<&ConceptGroup> {
        self.concept_groups.get(name)
    }

    /// The codes of earlier versions of a vocabulary.
    pub fn kept_of<'a>(&'a self, namespace: &'a Namespace) -> impl Iterator<Item = &'a Concept> {
        self.kept.iter().filter(move |((of, _), _)| of == namespace).flat_map(|(_, concepts)| concepts)
    }

    /// The version that a vocabulary had before the installed one, and its codes in their order. A part that a longer version
    /// left behind is not taken for one of it.
    #[must_use]
    pub fn earlier_of(&self, namespace: &Namespace) -> Option<(&VocabularyDescription, Vec<&Concept>)> {
        let first = self.earlier.get(&(namespace.clone(), 0)).filter(|first| first.parts > 0)?;
        let mut concepts = Vec::new();
        for part in 0..first.parts {
            let earlier = self.earlier.get(&(namespace.clone(), part))?;
            if earlier.description.version != first.description.version {
                return None;
            }
            concepts.extend(&earlier.concepts);
        }
        Some((&first.description, concepts))
    }

    /// The parts in which the kept codes of a vocabulary lie.
    pub fn kept_parts_of<'a>(&'a self, namespace: &'a Namespace) -> impl Iterator<Item = SettingKey> + 'a {
        let parts = self.kept.keys().filter(move |(of, _)| of == namespace);
        parts.map(|(of, part)| SettingKey::RetainedConcepts(of.clone(), *part))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::code::Code;
    use crate::vocabulary::{Completeness, ConceptStatus};

    fn part(version: &str, part: u32, parts: u32, code: &str) -> Setting {
        let description = VocabularyDescription {
            namespace: Namespace::parse("urn:x").unwrap(),
            name: String::new(),
            domain: String::new(),
            version: version.to_owned(),
            source: String::new(),
            licence: String::new(),
            attribution: String::new(),
            default_language: "en".to_owned(),
            languages: Vec::new(),
            is_hierarchical: false,
            completeness: Completeness::Full,
            is_open: false,
            is_system: true,
            is_extensible: false,
            concept_count: 1,
        };
        let concept = Concept {
            code: Code::parse(code).unwrap(),
            status: ConceptStatus::Active,
            is_selectable: true,
            parents: Vec::new(),
            replaced_by: None,
            labels: Vec::new(),
            definitions: Vec::new(),
            aliases: Vec::new(),
            uri: None,
            properties: Vec::new(),
        };
        Setting::EarlierVersion(Arc::new(EarlierVersion { description, part, parts, concepts: vec![concept] }))
    }

    #[test]
    fn an_earlier_version_is_put_together_from_its_own_parts_alone() {
        let codes = |deployment: &Deployment| {
            let (description, concepts) = deployment.earlier_of(&Namespace::parse("urn:x").unwrap())?;
            let codes: Vec<String> = concepts.iter().map(|concept| concept.code.to_string()).collect();
            Some((description.version.clone(), codes.join(" ")))
        };
        let mut deployment = Deployment::of([part("1", 0, 3, "a"), part("1", 2, 3, "c")]);
        assert_eq!(codes(&deployment), None, "a part is missing");
        deployment.put(part("1", 1, 3, "b"));
        assert_eq!(codes(&deployment), Some(("1".into(), "a b c".into())));
        deployment.put(part("2", 0, 1, "d"));
        assert_eq!(codes(&deployment), Some(("2".into(), "d".into())), "what a longer one left behind does not count");
        deployment.put(part("2", 0, 0, "d"));
        assert_eq!(codes(&deployment), None, "too large to be kept");
        deployment.put(part("3", 0, 2, "e"));
        assert_eq!(codes(&deployment), None, "a part of another version");
        deployment.remove(&part("3", 0, 2, "e").key());
        assert_eq!(codes(&deployment), None);
    }
}
