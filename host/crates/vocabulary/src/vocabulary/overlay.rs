//! A vocabulary with codes in addition to those of its pack: codes of earlier versions, and local codes of the
//! deployment.
//!
//! **Invariant:** a code of the installed pack has precedence over a retained one. A local code never replaces a code
//! of a pack.

use std::collections::BTreeMap;

use super::{ConceptRef, Vocabulary};
use crate::compact::ConceptIndex;
use daftar_domain::code::Code;
use daftar_domain::deployment::Deployment;
use daftar_domain::local_code::{LocalCode, LocalOrigin, STARTER_PROPERTY};
use daftar_domain::vocabulary::{Completeness, Concept, ConceptStatus, LocalizedText, VocabularyDescription};

/// The property with the last version that contained a retained code.
pub(crate) const LAST_VERSION: &str = "last_version";

/// Reason why local codes conflict with a vocabulary.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum OverlayFault {
    /// The pack contains codes or aliases that are active local codes.
    Taken(Vec<Code>),
    /// The pack does not permit local codes, and active ones exist.
    NotExtensible(usize),
    /// With the local codes the hierarchy exceeds its maximum depth.
    TooDeep,
}

/// Concepts by code.
type Concepts = BTreeMap<Code, Concept>;

impl ConceptRef<'_> {
    /// Converts the concept to a concept of a pack.
    #[must_use]
    pub fn to_concept(self) -> Option<Concept> {
        let code = |concept: Self| Code::parse(concept.code()).ok();
        let localized =
            |(language, value): (&str, &str)| LocalizedText { language: language.to_owned(), value: value.to_owned() };
        Some(Concept {
            code: code(self)?,
            status: self.status(),
            is_selectable: self.is_selectable(),
            parents: self.parents().filter_map(code).collect(),
            replaced_by: self.replaced_by().and_then(code),
            labels: self.labels().map(localized).collect(),
            definitions: self.every_definition().map(localized).collect(),
            aliases: self.aliases().map(str::to_owned).collect(),
            uri: self.owner_uri().map(str::to_owned),
            properties: self.properties().map(|(key, value)| (key.to_owned(), value.to_owned())).collect(),
        })
    }

    /// Returns true if the active version does not contain the concept. It is retained only for existing records.
    #[must_use]
    pub fn is_only_retained(self) -> bool {
        self.property(LAST_VERSION).is_some()
    }

    /// Returns true if the administrator may deactivate the code although a pack contains it.
    #[must_use]
    pub fn is_starter(self) -> bool {
        self.property(STARTER_PROPERTY) == Some("true")
    }
}

impl Vocabulary {
    /// Returns the codes of this version that `newer` lacks, in their retained form: inactive, with the last version
    /// that contained them. A code that `newer` contains only as retained of an earlier version is included, because
    /// this version describes it.
    #[must_use]
    pub fn gone_in(&self, newer: &Self) -> Vec<Concept> {
        let is_gone = |concept: &ConceptRef<'_>| match newer.find(concept.code()) {
            None => true,
            Some(found) => found.is_only_retained() && !concept.is_only_retained(),
        };
        let gone = self.concepts().filter(|concept| !concept.is_local() && is_gone(concept));
        gone.filter_map(|concept| self.retained(concept)).collect()
    }

    /// Returns the retained form of a code of a replaced version.
    #[must_use]
    pub fn retained(&self, concept: ConceptRef<'_>) -> Option<Concept> {
        let mut retained = concept.to_concept()?;
        retained.status = ConceptStatus::Inactive;
        if !concept.is_only_retained() {
            retained.properties.push((LAST_VERSION.to_owned(), self.description.version.clone()));
        }
        Some(retained)
    }

    /// Returns the previous version, which is stored completely.
    #[must_use]
    pub(crate) fn earlier(&self, deployment: &Deployment) -> Option<Self> {
        let (description, concepts) = deployment.earlier_of(&self.description.namespace)?;
        let concepts: Vec<Concept> = concepts.into_iter().cloned().collect();
        let is_another = description.version != self.description.version;
        // The version was valid when it was active, and its codes are sorted.
        Self::build(description.clone(), &concepts).ok().filter(|_| is_another)
    }

    /// Returns the vocabulary with codes of earlier versions; the last description of a code replaces the earlier ones.
    /// Returns `None` if the vocabulary contains all of them itself.
    #[must_use]
    pub(crate) fn with_retained<'a>(&self, retained: impl Iterator<Item = &'a Concept>) -> Option<Self> {
        let is_own = |code: &Code| self.find(code.as_str()).is_some_and(|own| !own.is_only_retained());
        let mut concepts = self.by_code();
        let mut is_changed = false;
        for concept in retained.filter(|concept| !is_own(&concept.code)) {
            let before = concepts.insert(concept.code.clone(), concept.clone());
            is_changed |= before.as_ref() != Some(concept);
        }
        if !is_changed {
            return None;
        }
        drop_dangling(&mut concepts);
        let flat = || {
            // The combined parents of two versions may exceed the maximum depth. In that case the old codes are added
            // without parents.
            let mut concepts = concepts.clone();
            for (code, concept) in &mut concepts {
                if !is_own(code) {
                    concept.parents.clear();
                }
            }
            concepts
        };
        self.rebuilt(concepts.clone()).or_else(|| self.rebuilt(flat()))
    }

    /// Returns the vocabulary with the deployment's local codes, and with starter codes in the state that the
    /// deployment configures.
    pub(crate) fn with_local(&self, codes: &[&LocalCode]) -> Result<Self, OverlayFault> {
        let mut concepts = self.by_code();
        let mut local = Vec::new();
        let mut taken = Vec::new();
        let is_alias = |code: &LocalCode| self.find_alias(code.uri.code.as_str()).is_some();
        for code in codes {
            match (code.origin, concepts.get_mut(&code.uri.code)) {
                (LocalOrigin::StarterSet, Some(starter)) => deprecate_starter(starter, code),
                (LocalOrigin::StarterSet, None) => {}
                (LocalOrigin::Deployment, Some(_)) if code.is_active() => taken.push(code.uri.code.clone()),
                // A locally deprecated code that a pack contains again belongs to the pack.
                (LocalOrigin::Deployment, Some(_)) => {}
                (LocalOrigin::Deployment, None) if code.is_active() && is_alias(code) => {
                    taken.push(code.uri.code.clone())
                }
                (LocalOrigin::Deployment, None) => local.push(*code),
            }
        }
        if !taken.is_empty() {
            return Err(OverlayFault::Taken(taken));
        }
        let active = local.iter().filter(|code| code.is_active()).count();
        if active > 0 && !self.description.is_extensible {
            return Err(OverlayFault::NotExtensible(active));
        }
        concepts.extend(local.iter().map(|code| (code.uri.code.clone(), concept_of(code))));
        drop_dangling(&mut concepts);
        let mut vocabulary = self.rebuilt(concepts).ok_or(OverlayFault::TooDeep)?;
        let mut places: Vec<ConceptIndex> =
            local.iter().filter_map(|code| vocabulary.find(code.uri.code.as_str()).map(ConceptRef::index)).collect();
        places.sort_unstable();
        vocabulary.local = places;
        Ok(vocabulary)
    }

    fn by_code(&self) -> Concepts {
        let concepts = self.concepts().filter_map(ConceptRef::to_concept);
        concepts.map(|concept| (concept.code.clone(), concept)).collect()
    }

    fn rebuilt(&self, concepts: Concepts) -> Option<Self> {
        let mut description = self.description.clone();
        describe(&mut description, &concepts);
        let concepts: Vec<Concept> = concepts.into_values().collect();
        Self::build(description, &concepts).ok()
    }
}

/// Updates a description to match its concepts.
fn describe(description: &mut VocabularyDescription, concepts: &Concepts) {
    description.concept_count = crate::compact::to_u32(concepts.len());
    for concept in concepts.values() {
        description.is_hierarchical |= !concept.parents.is_empty();
        for text in concept.labels.iter().chain(&concept.definitions) {
            if !description.languages.contains(&text.language) {
                description.languages.push(text.language.clone());
            }
        }
    }
    if description.completeness == Completeness::Empty && !concepts.is_empty() {
        description.completeness = Completeness::Full;
    }
}

/// Removes nonexistent parents and successors.
fn drop_dangling(concepts: &mut Concepts) {
    let codes: std::collections::BTreeSet<Code> = concepts.keys().cloned().collect();
    for concept in concepts.values_mut() {
        concept.parents.retain(|parent| codes.contains(parent));
        concept.replaced_by = concept.replaced_by.take().filter(|successor| codes.contains(successor));
    }
}

fn deprecate_starter(starter: &mut Concept, code: &LocalCode) {
    let is_starter = starter.properties.iter().any(|(key, value)| key == STARTER_PROPERTY && value == "true");
    if is_starter && !code.is_active() {
        starter.status = ConceptStatus::Inactive;
        starter.replaced_by = code.replaced_by().cloned();
    }
}

fn concept_of(code: &LocalCode) -> Concept {
    let mut properties = Vec::new();
    if let Some(rule) = &code.id_type {
        properties.push(("target_type".to_owned(), rule.target.name().to_owned()));
        if let Some(pattern) = &rule.pattern {
            properties.push(("value_pattern".to_owned(), pattern.expression.clone()));
            properties.push(("value_pattern_description".to_owned(), pattern.description.clone()));
        }
    }
    Concept {
        code: code.uri.code.clone(),
        status: if code.is_active() { ConceptStatus::Active } else { ConceptStatus::Inactive },
        is_selectable: true,
        parents: code.specialises.iter().cloned().collect(),
        replaced_by: code.replaced_by().cloned(),
        labels: code.labels.clone(),
        definitions: Vec::new(),
        aliases: Vec::new(),
        uri: code.reference.clone(),
        properties,
    }
}
