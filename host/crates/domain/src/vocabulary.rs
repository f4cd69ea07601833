//! Coded fields of the registry, and the content of vocabulary packs.

use serde::{Deserialize, Serialize};

use super::code::{Code, CodeUri, Namespace};

/// Declares the coded fields: the name of each, its path in the API, the vocabularies of its codes, and the kind of
/// relation of these codes.
macro_rules! coded_fields {
    ($($(#[$about:meta])* $field:ident: $path:literal, $namespaces:expr $(, $kind:literal)?;)+) => {
        /// A field of a record with a code, or a list of codes. Its serialized form is for checkpoints.
        #[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
        pub enum CodedField {
            $($(#[$about])* $field,)+
        }

        impl CodedField {
            /// All coded fields, in the order of their stored numbers.
            pub const ALL: [Self; [$($path),+].len()] = [$(Self::$field),+];

            /// Returns the field's path in the API.
            #[must_use]
            pub const fn path(self) -> &'static str {
                match self {
                    $(Self::$field => $path,)+
                }
            }

            /// Returns the vocabularies of its codes.
            #[must_use]
            pub const fn namespaces(self) -> &'static [&'static str] {
                match self {
                    $(Self::$field => $namespaces,)+
                }
            }

            /// Returns the kind of relation of its codes, if the vocabulary has several.
            #[must_use]
            pub fn relation_kind(self) -> Option<&'static str> {
                match self {
                    $(Self::$field => [$($kind)?].first().copied(),)+
                }
            }
        }
    };
}

coded_fields! {
    /// `gender` of an individual.
    Gender: "gender", &["urn:iso:std:iso:5218"];
    /// `marital_status` of an individual.
    MaritalStatus: "marital_status", &["urn:un:unsd:pop-census:marital-status"];
    /// `country` of an individual: nationality.
    Country: "country", &["urn:iso:std:iso:3166-1"];
    /// `religion` of an individual.
    Religion: "religion", &["urn:un:unsd:pop-census:religion"];
    /// `ethnocultural_status` of an individual.
    EthnoculturalStatus: "ethnocultural_status", &["urn:svc:vocab:ethnocultural"];
    /// `education` of an individual.
    Education: "education", &["urn:unesco:isced:2011"];
    /// `occupation` of an individual.
    Occupation: "occupation", &["urn:ilo:isco-08"];
    /// `economic_activity` of an individual.
    EconomicActivity: "economic_activity", &["urn:ilo:icse-93"];
    /// `pregnancy_status` of an individual.
    PregnancyStatus: "pregnancy_status", &["urn:svc:vocab:pregnancy-status"];
    /// `languages` of an individual, a list.
    Languages: "languages", &["urn:iso:std:iso:639"];
    /// `disability_codes` of an individual, a list.
    DisabilityCodes: "disability_codes", &["urn:who:icf:b", "urn:who:icf:d"];
    /// `health_conditions` of an individual, a list.
    HealthConditions: "health_conditions", &["urn:who:icd-11"];
    /// `address.country` of an individual or a group.
    AddressCountry: "address.country", &["urn:iso:std:iso:3166-1"];
    /// `income.currency` of an individual.
    IncomeCurrency: "income.currency", &["urn:iso:std:iso:4217"];
    /// `member.role` of a group.
    MemberRole: "member.role", &["urn:svc:vocab:relationship"], "individual";
    /// `group_type` of a group.
    GroupType: "group_type", &["urn:svc:vocab:group-type"];
    /// `housing_type` of a group.
    HousingType: "housing_type", &["urn:un:unsd:pop-census:housing-type"];
    /// `relationship.type` of a group.
    RelationshipType: "relationship.type", &["urn:svc:vocab:relationship"], "group";
    /// `relationship.type` of an individual.
    KinshipType: "relationship.type", &["urn:svc:vocab:relationship"], "individual";
    /// `birth_place.country` of an individual.
    BirthPlaceCountry: "birth_place.country", &["urn:iso:std:iso:3166-1"];
}

/// The vocabulary whose codes are identifier systems: `<namespace>#<code>`.
pub const ID_TYPE_NAMESPACE: &str = "urn:svc:vocab:id-type";

/// Completeness of a vocabulary compared with its source.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Completeness {
    /// Every code of its source release.
    Full,
    /// Some codes only.
    Fragment,
    /// No codes until the publisher's file is imported.
    Empty,
}

/// A text in one language.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LocalizedText {
    /// BCP 47 language tag.
    pub language: String,
    /// The text.
    pub value: String,
}

/// The description of a vocabulary in a pack, before it is checked against its concepts.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct VocabularyDescription {
    /// The URI of its codes.
    pub namespace: Namespace,
    /// Its name in English.
    pub name: String,
    /// Its domain, such as `Core`.
    pub domain: String,
    /// The version that records store with a code.
    pub version: String,
    /// Release and publication of the source.
    pub source: String,
    /// Licence of the data.
    pub licence: String,
    /// The acknowledgement required by its publisher.
    pub attribution: String,
    /// The language in which every concept has a label.
    pub default_language: String,
    /// All languages of labels.
    pub languages: Vec<String>,
    /// True if any concept has a parent.
    pub is_hierarchical: bool,
    /// Completeness compared with the source.
    pub completeness: Completeness,
    /// True if the pack resolves unknown codes.
    pub is_open: bool,
    /// True if its codes are read-only.
    pub is_system: bool,
    /// True if a deployment may add local codes.
    pub is_extensible: bool,
    /// Number of concepts declared by the pack.
    pub concept_count: u32,
}

/// The status of a code in new records.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ConceptStatus {
    /// Valid in new records.
    Active,
    /// Valid only in existing records.
    Inactive,
}

/// A code with its description in the pack.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Concept {
    /// The code.
    pub code: Code,
    /// The status in new records.
    pub status: ConceptStatus,
    /// False for a heading that only groups other codes.
    pub is_selectable: bool,
    /// The parent codes, the primary one first.
    pub parents: Vec<Code>,
    /// The successor of an inactive code.
    pub replaced_by: Option<Code>,
    /// Labels, at most one per language.
    pub labels: Vec<LocalizedText>,
    /// Definitions, at most one per language.
    pub definitions: Vec<LocalizedText>,
    /// Alternative spellings for lookups.
    pub aliases: Vec<String>,
    /// The publisher's URI.
    pub uri: Option<String>,
    /// Other properties, at most one per key.
    pub properties: Vec<(String, String)>,
}

/// A selection of codes of a vocabulary.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Selection {
    /// This code only.
    Code(CodeUri),
    /// This code and all its descendants.
    DescendantsOf(CodeUri),
}

/// A named set of codes for rules.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ConceptGroup {
    /// Its name: lower case, digits, underscores.
    pub name: String,
    /// Description, in one sentence.
    pub description: String,
    /// Included codes.
    pub includes: Vec<Selection>,
    /// Excluded codes.
    pub excludes: Vec<Selection>,
}

/// A code as returned to clients.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DisplayedCode {
    /// `<namespace>#<code>`
    pub uri: String,
    /// The code alone.
    pub code: String,
    /// Display in the requested language if available; the code itself if its vocabulary is missing.
    pub display: String,
    /// The vocabulary.
    pub namespace: String,
}

/// The content of a pack, as read and not yet checked.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct PackContents {
    /// Its vocabularies with their concepts.
    pub vocabularies: Vec<(VocabularyDescription, Vec<Concept>)>,
    /// Its concept groups.
    pub concept_groups: Vec<ConceptGroup>,
}
