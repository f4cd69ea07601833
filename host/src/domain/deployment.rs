//! What a deployment decides about vocabularies, beside the packs that it installs.
//!
//! **Invariant:** it is changed as a whole: whoever holds one value of it sees codes and concept groups that go together.

use std::collections::BTreeMap;

use super::code::{CodeUri, Namespace};
use super::local_code::LocalCode;
use super::vocabulary::{Concept, ConceptGroup};

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
    KeptConcepts(KeptConcepts),
}

/// What a setting is about; there is one setting of each.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum SettingKey {
    /// The local code of that URI.
    LocalCode(CodeUri),
    /// The concept group of that name.
    ConceptGroup(String),
    /// That part of the kept codes of a vocabulary, counted from 0.
    KeptConcepts(Namespace, u32),
}

/// Codes of earlier versions of a vocabulary that the installed one does not have any more.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct KeptConcepts {
    /// The vocabulary.
    pub namespace: Namespace,
    /// Which part of the codes, counted from 0.
    pub part: u32,
    /// The codes as the last version that had them described them, each inactive.
    pub concepts: Vec<Concept>,
}

impl Setting {
    /// What it is about.
    #[must_use]
    pub fn key(&self) -> SettingKey {
        match self {
            Self::LocalCode(code) => SettingKey::LocalCode(code.uri.clone()),
            Self::ConceptGroup(group) => SettingKey::ConceptGroup(group.name.clone()),
            Self::KeptConcepts(kept) => SettingKey::KeptConcepts(kept.namespace.clone(), kept.part),
        }
    }
}

/// Everything that a deployment decided.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Deployment {
    local_codes: BTreeMap<CodeUri, LocalCode>,
    concept_groups: BTreeMap<String, ConceptGroup>,
    kept: BTreeMap<(Namespace, u32), Vec<Concept>>,
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
            Setting::KeptConcepts(kept) => drop(self.kept.insert((kept.namespace, kept.part), kept.concepts)),
        }
    }

    /// Takes a setting out.
    pub fn remove(&mut self, key: &SettingKey) {
        match key {
            SettingKey::LocalCode(uri) => drop(self.local_codes.remove(uri)),
            SettingKey::ConceptGroup(name) => drop(self.concept_groups.remove(name)),
            SettingKey::KeptConcepts(namespace, part) => drop(self.kept.remove(&(namespace.clone(), *part))),
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

    /// The parts in which the kept codes of a vocabulary lie.
    pub fn kept_parts_of<'a>(&'a self, namespace: &'a Namespace) -> impl Iterator<Item = SettingKey> + 'a {
        let parts = self.kept.keys().filter(move |(of, _)| of == namespace);
        parts.map(|(of, part)| SettingKey::KeptConcepts(of.clone(), *part))
    }
}
