//! Stored form of a deployment's settings, by kind.

use std::sync::Arc;

use serde::{Deserialize, Serialize};

use crate::StoreError;
use daftar_domain::code::{Code, CodeUri, Namespace};
use daftar_domain::deployment::{EarlierVersion, RetainedConcepts, Setting, SettingKey};
use daftar_domain::identifier::{IdentifierSystem, SystemUri};
use daftar_domain::local_code::{IdTarget, IdTypeRule, LocalCode, LocalOrigin, LocalStanding, ValuePattern};
use daftar_domain::rule_draft::DraftOwner;
use daftar_domain::vocabulary::{
    Completeness, Concept, ConceptGroup, ConceptStatus, LocalizedText, Selection, VocabularyDescription,
};

use super::instant::{as_stored, instant, milliseconds};
use super::rule_draft::{StoredRuleDraftV1, draft_as_stored};
use super::{Unreadable, decode_as};

/// The kinds of setting, as prefixes of their keys. A number is never reused for another kind.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SettingKind {
    /// Local codes.
    LocalCode = 1,
    /// Concept groups.
    ConceptGroup = 2,
    /// Retained codes.
    RetainedConcepts = 3,
    /// Earlier versions.
    EarlierVersion = 4,
    /// Identifier systems.
    IdentifierSystem = 5,
    /// Rule drafts.
    RuleDraft = 6,
    /// Versions of rule drafts.
    RuleDraftVersion = 7,
}

impl SettingKind {
    /// Every kind, by number.
    pub const ALL: [Self; 7] = [
        Self::LocalCode,
        Self::ConceptGroup,
        Self::RetainedConcepts,
        Self::EarlierVersion,
        Self::IdentifierSystem,
        Self::RuleDraft,
        Self::RuleDraftVersion,
    ];
    /// The kinds that every server has in memory: those of the [`Deployment`](daftar_domain::deployment::Deployment).
    pub const OF_DEPLOYMENT: [Self; 5] =
        [Self::LocalCode, Self::ConceptGroup, Self::RetainedConcepts, Self::EarlierVersion, Self::IdentifierSystem];

    /// The kind of a key.
    #[must_use]
    pub fn of(key: &SettingKey) -> Self {
        match key {
            SettingKey::LocalCode(_) => Self::LocalCode,
            SettingKey::ConceptGroup(_) => Self::ConceptGroup,
            SettingKey::RetainedConcepts(..) => Self::RetainedConcepts,
            SettingKey::EarlierVersion(..) => Self::EarlierVersion,
            SettingKey::IdentifierSystem(_) => Self::IdentifierSystem,
            SettingKey::RuleDraft(..) => Self::RuleDraft,
            SettingKey::RuleDraftVersion(..) => Self::RuleDraftVersion,
        }
    }

    /// The kind in words.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::LocalCode => "local code",
            Self::ConceptGroup => "concept group",
            Self::RetainedConcepts => "retained codes",
            Self::EarlierVersion => "earlier version",
            Self::IdentifierSystem => "identifier system",
            Self::RuleDraft => "rule draft",
            Self::RuleDraftVersion => "version of a rule draft",
        }
    }
}

/// The key of a setting among those of its kind, which sorts them. Part of the layout: a namespace contains visible
/// characters only, so that the zero byte ends it.
#[must_use]
pub fn key_bytes(key: &SettingKey) -> Vec<u8> {
    let mut bytes = Vec::new();
    match key {
        SettingKey::LocalCode(uri) => {
            bytes.extend_from_slice(uri.namespace.as_str().as_bytes());
            bytes.push(0);
            bytes.extend_from_slice(uri.code.as_str().as_bytes());
        }
        SettingKey::ConceptGroup(name) => bytes.extend_from_slice(name.as_bytes()),
        SettingKey::IdentifierSystem(uri) => bytes.extend_from_slice(uri.as_str().as_bytes()),
        SettingKey::RuleDraft(owner, id) => {
            bytes.extend_from_slice(&drafts_of(owner));
            bytes.extend_from_slice(&id.to_bytes());
        }
        SettingKey::RuleDraftVersion(id, version) => {
            bytes.extend_from_slice(&id.to_bytes());
            bytes.extend_from_slice(&version.0.to_be_bytes());
        }
        SettingKey::RetainedConcepts(namespace, part) | SettingKey::EarlierVersion(namespace, part) => {
            bytes.extend_from_slice(namespace.as_str().as_bytes());
            bytes.push(0);
            bytes.extend_from_slice(&part.to_be_bytes());
        }
    }
    bytes
}

/// The beginning of the keys of an owner's rule drafts. Part of the layout: the name of an owner contains no control
/// characters, so that the zero byte ends it.
#[must_use]
pub fn drafts_of(owner: &DraftOwner) -> Vec<u8> {
    let (kind, name) = match owner {
        DraftOwner::Organization(organization) => (1, organization.as_str()),
        DraftOwner::Client(client) => (2, client.as_str()),
    };
    [&[kind], name.as_bytes(), &[0]].concat()
}

/// The setting as it will be read: with its timestamps in milliseconds.
#[must_use]
pub fn setting_as_stored(setting: Setting) -> Setting {
    match setting {
        Setting::LocalCode(code) => Setting::LocalCode(LocalCode {
            created_at: as_stored(code.created_at),
            updated_at: as_stored(code.updated_at),
            ..code
        }),
        Setting::IdentifierSystem(system) => {
            Setting::IdentifierSystem(IdentifierSystem { created_at: as_stored(system.created_at), ..system })
        }
        Setting::RuleDraft(draft) => Setting::RuleDraft(draft_as_stored(&draft)),
        Setting::RuleDraftVersion(draft) => Setting::RuleDraftVersion(draft_as_stored(&draft)),
        Setting::ConceptGroup(_) | Setting::RetainedConcepts(_) | Setting::EarlierVersion(_) => setting,
    }
}

/// Encodes a setting.
///
/// # Errors
/// [`StoreError::TooLarge`] if the setting exceeds the limit.
pub fn encode(setting: &Setting) -> Result<Vec<u8>, StoreError> {
    match setting {
        Setting::LocalCode(code) => super::encode(&StoredLocalCodeV1::from(code)),
        Setting::ConceptGroup(group) => super::encode(&StoredConceptGroupV1::from(group)),
        Setting::RetainedConcepts(stored) => super::encode(&StoredRetainedConceptsV1::from(stored)),
        Setting::EarlierVersion(earlier) => super::encode(&StoredEarlierVersionV1::from(&**earlier)),
        Setting::IdentifierSystem(system) => super::encode(&StoredIdentifierSystemV1::from(system)),
        Setting::RuleDraft(draft) | Setting::RuleDraftVersion(draft) => {
            super::encode(&StoredRuleDraftV1::from(&**draft))
        }
    }
}

/// Decodes a setting of that kind.
///
/// # Errors
/// [`StoreError::Corrupt`] if the bytes cannot be read.
pub fn decode(kind: SettingKind, bytes: &[u8]) -> Result<Setting, StoreError> {
    Ok(match kind {
        SettingKind::LocalCode => Setting::LocalCode(decode_as(bytes, |stored: StoredLocalCodeV1| stored.try_into())?),
        SettingKind::ConceptGroup => {
            Setting::ConceptGroup(decode_as(bytes, |stored: StoredConceptGroupV1| stored.try_into())?)
        }
        SettingKind::RetainedConcepts => {
            Setting::RetainedConcepts(decode_as(bytes, |stored: StoredRetainedConceptsV1| stored.try_into())?)
        }
        SettingKind::EarlierVersion => {
            let earlier = decode_as(bytes, |stored: StoredEarlierVersionV1| stored.try_into())?;
            Setting::EarlierVersion(Arc::new(earlier))
        }
        SettingKind::IdentifierSystem => {
            Setting::IdentifierSystem(decode_as(bytes, |stored: StoredIdentifierSystemV1| stored.try_into())?)
        }
        SettingKind::RuleDraft => {
            Setting::RuleDraft(Arc::new(decode_as(bytes, |stored: StoredRuleDraftV1| stored.try_into())?))
        }
        SettingKind::RuleDraftVersion => {
            Setting::RuleDraftVersion(Arc::new(decode_as(bytes, |stored: StoredRuleDraftV1| stored.try_into())?))
        }
    })
}

/// Converts every item of a stored list.
fn each<S, D: TryFrom<S, Error = Unreadable>>(stored: Vec<S>) -> Result<Vec<D>, Unreadable> {
    stored.into_iter().map(D::try_from).collect()
}

fn unreadable<E>(name: &'static str) -> impl FnOnce(E) -> Unreadable {
    move |_| Unreadable::field(name)
}

/// A text in one language.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct StoredTextV1 {
    language: String,
    value: String,
}

/// Texts as they are stored.
fn texts_as_stored(texts: &[LocalizedText]) -> Vec<StoredTextV1> {
    let stored = |text: &LocalizedText| StoredTextV1 { language: text.language.clone(), value: text.value.clone() };
    texts.iter().map(stored).collect()
}

/// Stored texts.
fn texts(stored: Vec<StoredTextV1>) -> Vec<LocalizedText> {
    stored.into_iter().map(|text| LocalizedText { language: text.language, value: text.value }).collect()
}

/// An identifier system, version 1.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct StoredIdentifierSystemV1 {
    uri: String,
    created_at_ms: i64,
}

impl From<&IdentifierSystem> for StoredIdentifierSystemV1 {
    fn from(system: &IdentifierSystem) -> Self {
        Self { uri: system.uri.as_str().to_owned(), created_at_ms: milliseconds(system.created_at) }
    }
}

impl TryFrom<StoredIdentifierSystemV1> for IdentifierSystem {
    type Error = Unreadable;

    fn try_from(stored: StoredIdentifierSystemV1) -> Result<Self, Unreadable> {
        let uri = SystemUri::parse(&stored.uri).map_err(unreadable("uri"))?;
        Ok(Self { uri, created_at: instant(stored.created_at_ms)? })
    }
}

/// A local code, version 1.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct StoredLocalCodeV1 {
    namespace: String,
    code: String,
    #[serde(with = "StoredLocalOriginV1")]
    origin: LocalOrigin,
    specialises: Option<String>,
    labels: Vec<StoredTextV1>,
    reference: Option<String>,
    id_type: Option<StoredIdTypeRuleV1>,
    standing: StoredStandingV1,
    created_at_ms: i64,
    updated_at_ms: i64,
}

#[derive(Serialize, Deserialize)]
#[serde(remote = "LocalOrigin")]
enum StoredLocalOriginV1 {
    Deployment,
    StarterSet,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
enum StoredStandingV1 {
    Active,
    Deprecated { replaced_by: Option<String> },
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
struct StoredIdTypeRuleV1 {
    pattern: Option<StoredPatternV1>,
    #[serde(with = "StoredIdTargetV1")]
    target: IdTarget,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
struct StoredPatternV1 {
    expression: String,
    description: String,
}

#[derive(Serialize, Deserialize)]
#[serde(remote = "IdTarget")]
enum StoredIdTargetV1 {
    Individual,
    Group,
    Both,
}

impl From<&LocalCode> for StoredLocalCodeV1 {
    fn from(code: &LocalCode) -> Self {
        Self {
            namespace: code.uri.namespace.as_str().to_owned(),
            code: code.uri.code.as_str().to_owned(),
            origin: code.origin,
            specialises: code.specialises.as_ref().map(|code| code.as_str().to_owned()),
            labels: texts_as_stored(&code.labels),
            reference: code.reference.clone(),
            id_type: code.id_type.as_ref().map(StoredIdTypeRuleV1::from),
            standing: match &code.standing {
                LocalStanding::Active => StoredStandingV1::Active,
                LocalStanding::Deprecated { replaced_by } => StoredStandingV1::Deprecated {
                    replaced_by: replaced_by.as_ref().map(|code| code.as_str().to_owned()),
                },
            },
            created_at_ms: milliseconds(code.created_at),
            updated_at_ms: milliseconds(code.updated_at),
        }
    }
}

impl TryFrom<StoredLocalCodeV1> for LocalCode {
    type Error = Unreadable;

    fn try_from(stored: StoredLocalCodeV1) -> Result<Self, Unreadable> {
        let code = |text: Option<String>, name| text.as_deref().map(Code::parse).transpose().map_err(unreadable(name));
        Ok(Self {
            uri: CodeUri::from_parts(&stored.namespace, &stored.code).map_err(|_| Unreadable::field("code"))?,
            origin: stored.origin,
            specialises: code(stored.specialises, "specialises")?,
            labels: texts(stored.labels),
            reference: stored.reference,
            id_type: stored.id_type.map(IdTypeRule::try_from).transpose()?,
            standing: match stored.standing {
                StoredStandingV1::Active => LocalStanding::Active,
                StoredStandingV1::Deprecated { replaced_by } => {
                    LocalStanding::Deprecated { replaced_by: code(replaced_by, "replaced_by")? }
                }
            },
            created_at: instant(stored.created_at_ms)?,
            updated_at: instant(stored.updated_at_ms)?,
        })
    }
}

impl From<&IdTypeRule> for StoredIdTypeRuleV1 {
    fn from(rule: &IdTypeRule) -> Self {
        Self {
            pattern: rule.pattern.as_ref().map(|pattern| StoredPatternV1 {
                expression: pattern.expression.clone(),
                description: pattern.description.clone(),
            }),
            target: rule.target,
        }
    }
}

impl TryFrom<StoredIdTypeRuleV1> for IdTypeRule {
    type Error = Unreadable;

    fn try_from(stored: StoredIdTypeRuleV1) -> Result<Self, Unreadable> {
        let pattern = stored.pattern.map(|pattern| ValuePattern::new(pattern.expression, pattern.description));
        Ok(Self { pattern: pattern.transpose().map_err(unreadable("pattern"))?, target: stored.target })
    }
}

/// A concept group, version 1.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct StoredConceptGroupV1 {
    name: String,
    description: String,
    includes: Vec<StoredSelectionV1>,
    excludes: Vec<StoredSelectionV1>,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
enum StoredSelectionV1 {
    Code { namespace: String, code: String },
    DescendantsOf { namespace: String, code: String },
}

impl From<&ConceptGroup> for StoredConceptGroupV1 {
    fn from(group: &ConceptGroup) -> Self {
        Self {
            name: group.name.clone(),
            description: group.description.clone(),
            includes: group.includes.iter().map(StoredSelectionV1::from).collect(),
            excludes: group.excludes.iter().map(StoredSelectionV1::from).collect(),
        }
    }
}

impl TryFrom<StoredConceptGroupV1> for ConceptGroup {
    type Error = Unreadable;

    fn try_from(stored: StoredConceptGroupV1) -> Result<Self, Unreadable> {
        let StoredConceptGroupV1 { name, description, includes, excludes } = stored;
        Ok(Self { name, description, includes: each(includes)?, excludes: each(excludes)? })
    }
}

impl From<&Selection> for StoredSelectionV1 {
    fn from(selection: &Selection) -> Self {
        let parts = |uri: &CodeUri| (uri.namespace.as_str().to_owned(), uri.code.as_str().to_owned());
        match selection {
            Selection::Code(uri) => {
                let (namespace, code) = parts(uri);
                Self::Code { namespace, code }
            }
            Selection::DescendantsOf(uri) => {
                let (namespace, code) = parts(uri);
                Self::DescendantsOf { namespace, code }
            }
        }
    }
}

impl TryFrom<StoredSelectionV1> for Selection {
    type Error = Unreadable;

    fn try_from(stored: StoredSelectionV1) -> Result<Self, Unreadable> {
        let uri = |namespace: &str, code: &str| {
            CodeUri::from_parts(namespace, code).map_err(|_| Unreadable::field("selection"))
        };
        Ok(match stored {
            StoredSelectionV1::Code { namespace, code } => Self::Code(uri(&namespace, &code)?),
            StoredSelectionV1::DescendantsOf { namespace, code } => Self::DescendantsOf(uri(&namespace, &code)?),
        })
    }
}

/// Some retained codes of a vocabulary, version 1. All of them are inactive.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct StoredRetainedConceptsV1 {
    namespace: String,
    part: u32,
    concepts: Vec<StoredConceptV1>,
}

/// A code without its status, which its enclosing form contains.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct StoredConceptV1 {
    code: String,
    is_selectable: bool,
    parents: Vec<String>,
    replaced_by: Option<String>,
    labels: Vec<StoredTextV1>,
    definitions: Vec<StoredTextV1>,
    aliases: Vec<String>,
    uri: Option<String>,
    properties: Vec<(String, String)>,
}

impl From<&RetainedConcepts> for StoredRetainedConceptsV1 {
    fn from(stored: &RetainedConcepts) -> Self {
        Self {
            namespace: stored.namespace.as_str().to_owned(),
            part: stored.part,
            concepts: stored.concepts.iter().map(StoredConceptV1::from).collect(),
        }
    }
}

impl TryFrom<StoredRetainedConceptsV1> for RetainedConcepts {
    type Error = Unreadable;

    fn try_from(stored: StoredRetainedConceptsV1) -> Result<Self, Unreadable> {
        let namespace = Namespace::parse(&stored.namespace).map_err(unreadable("namespace"))?;
        Ok(Self { namespace, part: stored.part, concepts: each(stored.concepts)? })
    }
}

impl From<&Concept> for StoredConceptV1 {
    fn from(concept: &Concept) -> Self {
        let text = |code: &Code| code.as_str().to_owned();
        Self {
            code: text(&concept.code),
            is_selectable: concept.is_selectable,
            parents: concept.parents.iter().map(text).collect(),
            replaced_by: concept.replaced_by.as_ref().map(text),
            labels: texts_as_stored(&concept.labels),
            definitions: texts_as_stored(&concept.definitions),
            aliases: concept.aliases.clone(),
            uri: concept.uri.clone(),
            properties: concept.properties.clone(),
        }
    }
}

impl TryFrom<StoredConceptV1> for Concept {
    type Error = Unreadable;

    fn try_from(stored: StoredConceptV1) -> Result<Self, Unreadable> {
        let code = |text: &str| Code::parse(text).map_err(|_| Unreadable::field("code"));
        let parents: Result<Vec<Code>, Unreadable> = stored.parents.iter().map(|text| code(text)).collect();
        Ok(Self {
            code: code(&stored.code)?,
            status: ConceptStatus::Inactive,
            is_selectable: stored.is_selectable,
            parents: parents?,
            replaced_by: stored.replaced_by.as_deref().map(code).transpose()?,
            labels: texts(stored.labels),
            definitions: texts(stored.definitions),
            aliases: stored.aliases,
            uri: stored.uri,
            properties: stored.properties,
        })
    }
}

/// Some codes of an earlier version, version 1.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct StoredEarlierVersionV1 {
    description: StoredDescriptionV1,
    part: u32,
    parts: u32,
    /// The codes, each with true if new records of that version may contain it.
    concepts: Vec<(bool, StoredConceptV1)>,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
struct StoredDescriptionV1 {
    namespace: String,
    name: String,
    domain: String,
    version: String,
    source: String,
    licence: String,
    attribution: String,
    default_language: String,
    languages: Vec<String>,
    is_hierarchical: bool,
    #[serde(with = "StoredCompletenessV1")]
    completeness: Completeness,
    is_open: bool,
    is_system: bool,
    is_extensible: bool,
    concept_count: u32,
}

#[derive(Serialize, Deserialize)]
#[serde(remote = "Completeness")]
enum StoredCompletenessV1 {
    Full,
    Fragment,
    Empty,
}

impl From<&EarlierVersion> for StoredEarlierVersionV1 {
    fn from(earlier: &EarlierVersion) -> Self {
        let concept = |concept: &Concept| (concept.status == ConceptStatus::Active, concept.into());
        Self {
            description: StoredDescriptionV1::from(&earlier.description),
            part: earlier.part,
            parts: earlier.parts,
            concepts: earlier.concepts.iter().map(concept).collect(),
        }
    }
}

impl TryFrom<StoredEarlierVersionV1> for EarlierVersion {
    type Error = Unreadable;

    fn try_from(stored: StoredEarlierVersionV1) -> Result<Self, Unreadable> {
        let concepts = stored.concepts.into_iter().map(|(is_active, concept)| {
            let status = if is_active { ConceptStatus::Active } else { ConceptStatus::Inactive };
            Ok(Concept { status, ..Concept::try_from(concept)? })
        });
        Ok(Self {
            description: VocabularyDescription::try_from(stored.description)?,
            part: stored.part,
            parts: stored.parts,
            concepts: concepts.collect::<Result<_, Unreadable>>()?,
        })
    }
}

impl From<&VocabularyDescription> for StoredDescriptionV1 {
    fn from(description: &VocabularyDescription) -> Self {
        Self {
            namespace: description.namespace.as_str().to_owned(),
            name: description.name.clone(),
            domain: description.domain.clone(),
            version: description.version.clone(),
            source: description.source.clone(),
            licence: description.licence.clone(),
            attribution: description.attribution.clone(),
            default_language: description.default_language.clone(),
            languages: description.languages.clone(),
            is_hierarchical: description.is_hierarchical,
            completeness: description.completeness,
            is_open: description.is_open,
            is_system: description.is_system,
            is_extensible: description.is_extensible,
            concept_count: description.concept_count,
        }
    }
}

impl TryFrom<StoredDescriptionV1> for VocabularyDescription {
    type Error = Unreadable;

    fn try_from(stored: StoredDescriptionV1) -> Result<Self, Unreadable> {
        Ok(Self {
            namespace: Namespace::parse(&stored.namespace).map_err(|_| Unreadable::field("namespace"))?,
            name: stored.name,
            domain: stored.domain,
            version: stored.version,
            source: stored.source,
            licence: stored.licence,
            attribution: stored.attribution,
            default_language: stored.default_language,
            languages: stored.languages,
            is_hierarchical: stored.is_hierarchical,
            completeness: stored.completeness,
            is_open: stored.is_open,
            is_system: stored.is_system,
            is_extensible: stored.is_extensible,
            concept_count: stored.concept_count,
        })
    }
}
