//! What the registry binds to vocabularies, and what a vocabulary pack brings.

use serde::{Deserialize, Serialize};

use super::code::{Code, CodeUri, Namespace};

/// Declares the coded fields: the name of each, its path in the API, the vocabularies that it takes codes of, and of which kind of relation
/// these are.
macro_rules! coded_fields {
    ($($(#[$about:meta])* $field:ident: $path:literal, $namespaces:expr $(, $kind:literal)?;)+) => {
        /// A field of a record that holds a code, or a list of codes. Its serialized form is for checkpoints.
        #[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
        pub enum CodedField {
            $($(#[$about])* $field,)+
        }

        impl CodedField {
            /// Every coded field, in the order of their stored numbers.
            pub const ALL: [Self; [$($path),+].len()] = [$(Self::$field),+];

            /// The field's path in the API.
            #[must_use]
            pub const fn path(self) -> &'static str {
                match self {
                    $(Self::$field => $path,)+
                }
            }

            /// The vocabularies that the field takes codes of.
            #[must_use]
            pub const fn namespaces(self) -> &'static [&'static str] {
                match self {
                    $(Self::$field => $namespaces,)+
                }
            }

            /// The kind of relation that its codes are of, where the vocabulary has several.
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
