//! Decisions of a deployment about vocabularies and identifiers, in addition to the installed packs.
//!
//! **Invariant:** all settings change together: codes and concept groups of one value are consistent with each other.

use std::collections::BTreeMap;
use std::sync::Arc;

use super::code::{CodeUri, Namespace};
use super::identifier::IdentifierSystem;
use super::identifier::SystemUri;
use super::local_code::LocalCode;
use super::record::VersionId;
use super::rule_draft::{DraftOwner, RuleDraft, RuleDraftId};
use super::vocabulary::{Concept, ConceptGroup, VocabularyDescription};

/// Maximum number of concept groups of a deployment.
pub const CONCEPT_GROUPS_MAX: usize = 1_000;

/// A stored decision of a deployment.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Setting {
    /// A local code, or an override of a starter code.
    LocalCode(LocalCode),
    /// A concept group of the deployment, which overrides the definition of any pack.
    ConceptGroup(ConceptGroup),
    /// A chunk of the codes of earlier versions of a vocabulary that records may contain.
    RetainedConcepts(RetainedConcepts),
    /// A chunk of the previous version of a vocabulary.
    EarlierVersion(Arc<EarlierVersion>),
    /// A valid system of identifiers.
    IdentifierSystem(IdentifierSystem),
    /// The present version of a rule draft. Not part of the [`Deployment`]: drafts do not affect vocabularies.
    RuleDraft(Arc<RuleDraft>),
    /// A version of a rule draft.
    RuleDraftVersion(Arc<RuleDraft>),
}

/// The key of a setting. Keys are unique.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum SettingKey {
    /// The local code of this URI.
    LocalCode(CodeUri),
    /// The concept group of this name.
    ConceptGroup(String),
    /// This chunk of the retained codes of a vocabulary, counted from 0.
    RetainedConcepts(Namespace, u32),
    /// This chunk of the previous version, counted from 0.
    EarlierVersion(Namespace, u32),
    /// The system of this URI.
    IdentifierSystem(SystemUri),
    /// The draft of this owner and id.
    RuleDraft(DraftOwner, RuleDraftId),
    /// This version of a draft.
    RuleDraftVersion(RuleDraftId, VersionId),
}

/// Codes of earlier versions of a vocabulary that the installed version no longer contains.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RetainedConcepts {
    /// The vocabulary.
    pub namespace: Namespace,
    /// Index of this chunk of the codes, counted from 0.
    pub part: u32,
    /// The codes as described by the last version that contained them, each inactive.
    pub concepts: Vec<Concept>,
}

/// A chunk of the previous version of a vocabulary. It contains the meaning of codes in records that were coded with
/// that version.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct EarlierVersion {
    /// The description of its pack.
    pub description: VocabularyDescription,
    /// Index of this chunk of the codes, counted from 0.
    pub part: u32,
    /// Number of chunks; 0 if the version was too large to store.
    pub parts: u32,
    /// Codes, in the order of the pack.
    pub concepts: Vec<Concept>,
}

impl Setting {
    /// Returns the key of the setting.
    #[must_use]
    pub fn key(&self) -> SettingKey {
        match self {
            Self::LocalCode(code) => SettingKey::LocalCode(code.uri.clone()),
            Self::ConceptGroup(group) => SettingKey::ConceptGroup(group.name.clone()),
            Self::RetainedConcepts(retained) => SettingKey::RetainedConcepts(retained.namespace.clone(), retained.part),
            Self::EarlierVersion(earlier) => {
                SettingKey::EarlierVersion(earlier.description.namespace.clone(), earlier.part)
            }
            Self::IdentifierSystem(system) => SettingKey::IdentifierSystem(system.uri.clone()),
            Self::RuleDraft(draft) => SettingKey::RuleDraft(draft.author.owner(), draft.id),
            Self::RuleDraftVersion(draft) => SettingKey::RuleDraftVersion(draft.id, draft.version),
        }
    }
}

/// All decisions of a deployment.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Deployment {
    local_codes: BTreeMap<CodeUri, LocalCode>,
    concept_groups: BTreeMap<String, ConceptGroup>,
    retained: BTreeMap<(Namespace, u32), Vec<Concept>>,
    earlier: BTreeMap<(Namespace, u32), Arc<EarlierVersion>>,
    identifier_systems: BTreeMap<SystemUri, IdentifierSystem>,
}

impl Deployment {
    /// Combines settings; a later setting replaces an earlier one with the same key.
    #[must_use]
    pub fn of(settings: impl IntoIterator<Item = Setting>) -> Self {
        let mut deployment = Self::default();
        settings.into_iter().for_each(|setting| deployment.put(setting));
        deployment
    }

    /// Adds a setting, or replaces the one with the same key.
    pub fn put(&mut self, setting: Setting) {
        match setting {
            Setting::LocalCode(code) => drop(self.local_codes.insert(code.uri.clone(), code)),
            Setting::ConceptGroup(group) => drop(self.concept_groups.insert(group.name.clone(), group)),
            Setting::RetainedConcepts(retained) => {
                drop(self.retained.insert((retained.namespace, retained.part), retained.concepts))
            }
            Setting::EarlierVersion(earlier) => {
                drop(self.earlier.insert((earlier.description.namespace.clone(), earlier.part), earlier));
            }
            Setting::IdentifierSystem(system) => {
                drop(self.identifier_systems.insert(system.uri.clone(), system));
            }
            Setting::RuleDraft(_) | Setting::RuleDraftVersion(_) => {}
        }
    }

    /// Removes a setting.
    pub fn remove(&mut self, key: &SettingKey) {
        match key {
            SettingKey::LocalCode(uri) => drop(self.local_codes.remove(uri)),
            SettingKey::ConceptGroup(name) => drop(self.concept_groups.remove(name)),
            SettingKey::RetainedConcepts(namespace, part) => drop(self.retained.remove(&(namespace.clone(), *part))),
            SettingKey::EarlierVersion(namespace, part) => drop(self.earlier.remove(&(namespace.clone(), *part))),
            SettingKey::IdentifierSystem(uri) => drop(self.identifier_systems.remove(uri)),
            SettingKey::RuleDraft(..) | SettingKey::RuleDraftVersion(..) => {}
        }
    }

    /// Returns the local codes, by URI.
    pub fn local_codes(&self) -> impl ExactSizeIterator<Item = &LocalCode> {
        self.local_codes.values()
    }

    /// Returns the local code of a URI.
    #[must_use]
    pub fn local_code(&self, uri: &CodeUri) -> Option<&LocalCode> {
        self.local_codes.get(uri)
    }

    /// Returns the valid systems of identifiers, by URI.
    pub fn identifier_systems(&self) -> impl ExactSizeIterator<Item = &IdentifierSystem> {
        self.identifier_systems.values()
    }

    /// Returns the system of a URI.
    #[must_use]
    pub fn identifier_system(&self, uri: &SystemUri) -> Option<&IdentifierSystem> {
        self.identifier_systems.get(uri)
    }

    /// Returns the concept groups of the deployment, by name.
    pub fn concept_groups(&self) -> impl ExactSizeIterator<Item = &ConceptGroup> {
        self.concept_groups.values()
    }

    /// Returns the concept group of a name, if the deployment defines it.
    #[must_use]
    pub fn concept_group(&self, name: &str) -> Option<&ConceptGroup> {
        self.concept_groups.get(name)
    }

    /// Returns the retained codes of earlier versions of a vocabulary.
    pub fn retained_of<'a>(&'a self, namespace: &'a Namespace) -> impl Iterator<Item = &'a Concept> {
        self.retained.iter().filter(move |((of, _), _)| of == namespace).flat_map(|(_, concepts)| concepts)
    }

    /// Returns the version of a vocabulary before the installed one, and its codes in order. Chunks left over from a
    /// longer version are ignored.
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

    /// Returns the keys of the chunks of a vocabulary's retained codes.
    pub fn retained_parts_of<'a>(&'a self, namespace: &'a Namespace) -> impl Iterator<Item = SettingKey> + 'a {
        let parts = self.retained.keys().filter(move |(of, _)| of == namespace);
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
    fn an_earlier_version_is_combined_from_its_own_parts_only() {
        let codes = |deployment: &Deployment| {
            let (description, concepts) = deployment.earlier_of(&Namespace::parse("urn:x").unwrap())?;
            let codes: Vec<String> = concepts.iter().map(|concept| concept.code.to_string()).collect();
            Some((description.version.clone(), codes.join(" ")))
        };
        let mut deployment = Deployment::of([part("1", 0, 3, "a"), part("1", 2, 3, "c")]);
        assert_eq!(codes(&deployment), None, "a chunk is missing");
        deployment.put(part("1", 1, 3, "b"));
        assert_eq!(codes(&deployment), Some(("1".into(), "a b c".into())));
        deployment.put(part("2", 0, 1, "d"));
        assert_eq!(codes(&deployment), Some(("2".into(), "d".into())), "chunks of a longer version are ignored");
        deployment.put(part("2", 0, 0, "d"));
        assert_eq!(codes(&deployment), None, "too large to store");
        deployment.put(part("3", 0, 2, "e"));
        assert_eq!(codes(&deployment), None, "a chunk of another version");
        deployment.remove(&part("3", 0, 2, "e").key());
        assert_eq!(codes(&deployment), None);
    }
}
