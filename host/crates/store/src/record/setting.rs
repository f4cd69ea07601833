//! Stored form of a deployment's settings, by kind.

use std::sync::Arc;

use serde::{Deserialize, Serialize};

use crate::StoreError;
use daftar_domain::code::CodeUri;
use daftar_domain::deployment::{EarlierVersion, RetainedConcepts, Setting, SettingKey};
use daftar_domain::identifier::IdentifierSystem;
use daftar_domain::local_code::{IdTarget, IdTypeRule, LocalCode, LocalOrigin, LocalStanding, ValuePattern};
use daftar_domain::rule_draft::DraftOwner;
use daftar_domain::vocabulary::{
    Completeness, Concept, ConceptGroup, ConceptStatus, LocalizedText, Selection, VocabularyDescription,
};

use super::form::{self, FormOf, converted, stored};
use super::instant::as_stored;
use super::rule_draft::{StoredRuleDraftV1, draft_as_stored};

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

/// A range of the settings of a kind, in the order of their keys ([`key_bytes`]).
#[derive(Debug, Clone, Copy)]
pub struct SettingRange<'a> {
    /// The beginning of their keys.
    pub prefix: &'a [u8],
    /// The key after which the range begins, with that beginning; empty for the first one.
    pub after: &'a [u8],
    /// Maximum number of settings.
    pub limit: usize,
}

impl<'a> SettingRange<'a> {
    /// All settings whose keys begin with those bytes.
    #[must_use]
    pub fn of(prefix: &'a [u8]) -> Self {
        Self { prefix, after: &[], limit: usize::MAX }
    }
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
        Setting::LocalCode(code) => super::encode(&StoredLocalCodeV1::of(code)),
        Setting::ConceptGroup(group) => super::encode(&StoredConceptGroupV1::of(group)),
        Setting::RetainedConcepts(retained) => super::encode(&StoredRetainedConceptsV1::of(retained)),
        Setting::EarlierVersion(earlier) => super::encode(&StoredEarlierVersionV1::of(&**earlier)),
        Setting::IdentifierSystem(system) => super::encode(&StoredIdentifierSystemV1::of(system)),
        Setting::RuleDraft(draft) | Setting::RuleDraftVersion(draft) => super::encode(&StoredRuleDraftV1::of(&**draft)),
    }
}

/// Decodes a setting of that kind.
///
/// # Errors
/// [`StoreError::Corrupt`] if the bytes cannot be read.
pub fn decode(kind: SettingKind, bytes: &[u8]) -> Result<Setting, StoreError> {
    let draft = || form::decode::<StoredRuleDraftV1, _>(bytes).map(Arc::new);
    Ok(match kind {
        SettingKind::LocalCode => Setting::LocalCode(form::decode::<StoredLocalCodeV1, _>(bytes)?),
        SettingKind::ConceptGroup => Setting::ConceptGroup(form::decode::<StoredConceptGroupV1, _>(bytes)?),
        SettingKind::RetainedConcepts => Setting::RetainedConcepts(form::decode::<StoredRetainedConceptsV1, _>(bytes)?),
        SettingKind::EarlierVersion => {
            Setting::EarlierVersion(Arc::new(form::decode::<StoredEarlierVersionV1, _>(bytes)?))
        }
        SettingKind::IdentifierSystem => Setting::IdentifierSystem(form::decode::<StoredIdentifierSystemV1, _>(bytes)?),
        SettingKind::RuleDraft => Setting::RuleDraft(draft()?),
        SettingKind::RuleDraftVersion => Setting::RuleDraftVersion(draft()?),
    })
}

stored! {
    /// A text in one language.
    pub struct StoredTextV1 {
        language: String,
        value: String,
    }
    means LocalizedText { language, value }
}

stored! {
    /// An identifier system, version 1.
    pub struct StoredIdentifierSystemV1 {
        uri: String,
        created_at_ms: i64,
    }
    means IdentifierSystem { uri, created_at: created_at_ms }
}

stored! {
    /// A local code, version 1.
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
    means LocalCode {
        uri: CodeUri { namespace, code },
        origin,
        specialises,
        labels,
        reference,
        id_type,
        standing,
        created_at: created_at_ms,
        updated_at: updated_at_ms,
    }
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

stored! {
    struct StoredIdTypeRuleV1 {
        pattern: Option<StoredPatternV1>,
        #[serde(with = "StoredIdTargetV1")]
        target: IdTarget,
    }
    means IdTypeRule { pattern, target }
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

stored! {
    /// A concept group, version 1.
    pub struct StoredConceptGroupV1 {
        name: String,
        description: String,
        includes: Vec<StoredSelectionV1>,
        excludes: Vec<StoredSelectionV1>,
    }
    means ConceptGroup { name, description, includes, excludes }
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
enum StoredSelectionV1 {
    Code(StoredCodeUriV1),
    DescendantsOf(StoredCodeUriV1),
}

stored! {
    struct StoredCodeUriV1 {
        namespace: String,
        code: String,
    }
    means CodeUri { namespace, code }
}

stored! {
    /// Some retained codes of a vocabulary, version 1. All of them are inactive.
    pub struct StoredRetainedConceptsV1 {
        namespace: String,
        part: u32,
        concepts: Vec<StoredConceptV1>,
    }
    means RetainedConcepts { namespace, part, concepts }
}

stored! {
    /// A code, inactive unless its enclosing form says otherwise.
    pub struct StoredConceptV1 {
        code: String,
        #[serde(skip)]
        status: (),
        is_selectable: bool,
        parents: Vec<String>,
        replaced_by: Option<String>,
        labels: Vec<StoredTextV1>,
        definitions: Vec<StoredTextV1>,
        aliases: Vec<String>,
        uri: Option<String>,
        properties: Vec<(String, String)>,
    }
    means Concept {
        code, status, is_selectable, parents, replaced_by, labels, definitions, aliases, uri, properties
    }
}

stored! {
    /// Some codes of an earlier version, version 1.
    pub struct StoredEarlierVersionV1 {
        description: StoredDescriptionV1,
        part: u32,
        parts: u32,
        /// The codes, each with true if new records of that version may contain it.
        concepts: Vec<(bool, StoredConceptV1)>,
    }
    means EarlierVersion { description, part, parts, concepts }
}

stored! {
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
    means VocabularyDescription {
        namespace, name, domain, version, source, licence, attribution, default_language, languages,
        is_hierarchical, completeness, is_open, is_system, is_extensible, concept_count
    }
}

#[derive(Serialize, Deserialize)]
#[serde(remote = "Completeness")]
enum StoredCompletenessV1 {
    Full,
    Fragment,
    Empty,
}

converted! {
    LocalOrigin as LocalOrigin: Clone::clone, Some;
    IdTarget as IdTarget: Clone::clone, Some;
    Completeness as Completeness: Clone::clone, Some;
    () as ConceptStatus: |_| (), |()| Some(ConceptStatus::Inactive);
    StoredPatternV1 as ValuePattern:
        |pattern| Self { expression: pattern.expression.clone(), description: pattern.description.clone() },
        |stored| ValuePattern::new(stored.expression, stored.description).ok();
    StoredStandingV1 as LocalStanding:
        |standing| match standing {
            LocalStanding::Active => Self::Active,
            LocalStanding::Deprecated { replaced_by } => Self::Deprecated { replaced_by: FormOf::of(replaced_by) },
        },
        |stored| match stored {
            Self::Active => Some(LocalStanding::Active),
            Self::Deprecated { replaced_by } => {
                Some(LocalStanding::Deprecated { replaced_by: replaced_by.value("replaced_by").ok()? })
            }
        };
    StoredSelectionV1 as Selection:
        |selection| match selection {
            Selection::Code(uri) => Self::Code(FormOf::of(uri)),
            Selection::DescendantsOf(uri) => Self::DescendantsOf(FormOf::of(uri)),
        },
        |stored| Some(match stored {
            Self::Code(uri) => Selection::Code(uri.value("code").ok()?),
            Self::DescendantsOf(uri) => Selection::DescendantsOf(uri.value("code").ok()?),
        });
    (bool, StoredConceptV1) as Concept:
        |concept| (concept.status == ConceptStatus::Active, FormOf::of(concept)),
        |(is_active, stored)| {
            let status = if is_active { ConceptStatus::Active } else { ConceptStatus::Inactive };
            Some(Concept { status, ..stored.value("concepts").ok()? })
        };
}
