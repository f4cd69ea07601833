//! What the registry binds to vocabularies, and what a vocabulary pack brings.

use serde::{Deserialize, Serialize};

use super::code::{Code, CodeUri, Namespace};

/// A field of a record that holds a code, or a list of codes. Its serialized form is for checkpoints.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub enum CodedField {
    /// `gender` of an individual.
    Gender,
    /// `marital_status` of an individual.
    MaritalStatus,
    /// `country` of an individual: nationality.
    Country,
    /// `religion` of an individual.
    Religion,
    /// `ethnocultural_status` of an individual.
    EthnoculturalStatus,
    /// `education` of an individual.
    Education,
    /// `occupation` of an individual.
    Occupation,
    /// `economic_activity` of an individual.
    EconomicActivity,
    /// `pregnancy_status` of an individual.
    PregnancyStatus,
    /// `languages` of an individual, a list.
    Languages,
    /// `disability_codes` of an individual, a list.
    DisabilityCodes,
    /// `health_conditions` of an individual, a list.
    HealthConditions,
    /// `address.country` of an individual or a group.
    AddressCountry,
    /// `income.currency` of an individual.
    IncomeCurrency,
    /// `member.role` of a group.
    MemberRole,
    /// `group_type` of a group.
    GroupType,
    /// `housing_type` of a group.
    HousingType,
    /// `relationship.type` of a group.
    RelationshipType,
    /// `relationship.type` of an individual.
    KinshipType,
    /// `birth_place.country` of an individual.
    BirthPlaceCountry,
}

impl CodedField {
    /// Every coded field, in the order of their stored numbers.
    pub const ALL: [Self; 20] = [
        Self::Gender,
        Self::MaritalStatus,
        Self::Country,
        Self::Religion,
        Self::EthnoculturalStatus,
        Self::Education,
        Self::Occupation,
        Self::EconomicActivity,
        Self::PregnancyStatus,
        Self::Languages,
        Self::DisabilityCodes,
        Self::HealthConditions,
        Self::AddressCountry,
        Self::IncomeCurrency,
        Self::MemberRole,
        Self::GroupType,
        Self::HousingType,
        Self::RelationshipType,
        Self::KinshipType,
        Self::BirthPlaceCountry,
    ];

    /// The field's path in the API.
    #[must_use]
    pub fn path(self) -> &'static str {
        match self {
            Self::Gender => "gender",
            Self::MaritalStatus => "marital_status",
            Self::Country => "country",
            Self::Religion => "religion",
            Self::EthnoculturalStatus => "ethnocultural_status",
            Self::Education => "education",
            Self::Occupation => "occupation",
            Self::EconomicActivity => "economic_activity",
            Self::PregnancyStatus => "pregnancy_status",
            Self::Languages => "languages",
            Self::DisabilityCodes => "disability_codes",
            Self::HealthConditions => "health_conditions",
            Self::AddressCountry => "address.country",
            Self::IncomeCurrency => "income.currency",
            Self::MemberRole => "member.role",
            Self::GroupType => "group_type",
            Self::HousingType => "housing_type",
            Self::RelationshipType | Self::KinshipType => "relationship.type",
            Self::BirthPlaceCountry => "birth_place.country",
        }
    }

    /// The vocabularies that the field takes codes of.
    #[must_use]
    pub fn namespaces(self) -> &'static [&'static str] {
        match self {
            Self::Gender => &["urn:iso:std:iso:5218"],
            Self::MaritalStatus => &["urn:un:unsd:pop-census:marital-status"],
            Self::Country | Self::AddressCountry | Self::BirthPlaceCountry => &["urn:iso:std:iso:3166-1"],
            Self::Religion => &["urn:un:unsd:pop-census:religion"],
            Self::EthnoculturalStatus => &["urn:svc:vocab:ethnocultural"],
            Self::Education => &["urn:unesco:isced:2011"],
            Self::Occupation => &["urn:ilo:isco-08"],
            Self::EconomicActivity => &["urn:ilo:icse-93"],
            Self::PregnancyStatus => &["urn:svc:vocab:pregnancy-status"],
            Self::Languages => &["urn:iso:std:iso:639"],
            Self::DisabilityCodes => &["urn:who:icf:b", "urn:who:icf:d"],
            Self::HealthConditions => &["urn:who:icd-11"],
            Self::IncomeCurrency => &["urn:iso:std:iso:4217"],
            Self::MemberRole | Self::RelationshipType | Self::KinshipType => &["urn:svc:vocab:relationship"],
            Self::GroupType => &["urn:svc:vocab:group-type"],
            Self::HousingType => &["urn:un:unsd:pop-census:housing-type"],
        }
    }
}

/// The vocabulary whose codes are identifier systems: `<namespace>#<code>`.
pub const ID_TYPE_NAMESPACE: &str = "urn:svc:vocab:id-type";

/// How much of its source a vocabulary holds.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Completeness {
    /// Every code of its source release.
    Full,
    /// Some codes only.
    Fragment,
    /// No codes until the owner's file is imported.
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

/// A vocabulary as a pack describes it, before it is checked against its concepts.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct VocabularyDescription {
    /// The URI that its codes live under.
    pub namespace: Namespace,
    /// Its name in English.
    pub name: String,
    /// The field it belongs to, such as `Core`.
    pub domain: String,
    /// The version that records keep beside a code.
    pub version: String,
    /// Which release of which publication.
    pub source: String,
    /// Licence of the data.
    pub licence: String,
    /// The acknowledgement its owner asks for.
    pub attribution: String,
    /// The language that every concept has a label in.
    pub default_language: String,
    /// Every language that labels occur in.
    pub languages: Vec<String>,
    /// Whether any concept has a parent.
    pub is_hierarchical: bool,
    /// How much of the source is here.
    pub completeness: Completeness,
    /// Whether unknown codes are put to the pack.
    pub is_open: bool,
    /// Whether its codes are read-only.
    pub is_system: bool,
    /// Whether a deployment may add local codes.
    pub is_extensible: bool,
    /// How many concepts the pack promises.
    pub concept_count: u32,
}

/// Whether a code may be used in new records.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ConceptStatus {
    /// May be used.
    Active,
    /// Kept for old records, refused in new ones.
    Inactive,
}

/// One code with everything that its pack says about it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Concept {
    /// The code.
    pub code: Code,
    /// Whether it may be used in new records.
    pub status: ConceptStatus,
    /// False for a heading that only groups others.
    pub is_selectable: bool,
    /// The codes one level up, the primary one first.
    pub parents: Vec<Code>,
    /// The successor of an inactive code.
    pub replaced_by: Option<Code>,
    /// What it is called, at most once a language.
    pub labels: Vec<LocalizedText>,
    /// What it means, at most once a language.
    pub definitions: Vec<LocalizedText>,
    /// Other spellings that a look-up accepts.
    pub aliases: Vec<String>,
    /// The owner's own URI for it.
    pub uri: Option<String>,
    /// Anything else, at most once a key.
    pub properties: Vec<(String, String)>,
}

/// A part of a vocabulary.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Selection {
    /// That code alone.
    Code(CodeUri),
    /// That code and everything below it.
    DescendantsOf(CodeUri),
}

/// A set of codes that rules speak of by name.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ConceptGroup {
    /// Its name: lower case, digits, underscores.
    pub name: String,
    /// What belongs to it, in one sentence.
    pub description: String,
    /// What is in it.
    pub includes: Vec<Selection>,
    /// What is taken out again.
    pub excludes: Vec<Selection>,
}

/// A code as a client is shown it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DisplayedCode {
    /// `<namespace>#<code>`
    pub uri: String,
    /// The code alone.
    pub code: String,
    /// What it is called, in the language asked for where there is one; the code itself where its vocabulary is gone.
    pub display: String,
    /// The vocabulary.
    pub namespace: String,
}

/// Everything that a pack brought, as read from it and not yet checked.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct PackContents {
    /// Its vocabularies with their concepts.
    pub vocabularies: Vec<(VocabularyDescription, Vec<Concept>)>,
    /// Its concept groups.
    pub concept_groups: Vec<ConceptGroup>,
}
