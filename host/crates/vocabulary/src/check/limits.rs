//! Limits of the contents of a pack. Each limit is several times the size of the largest known classification, and none
//! exceeds the limit of the pack builder.

/// Maximum number of vocabularies of one pack.
pub const VOCABULARIES_MAX: usize = 64;
/// Maximum number of concepts of one vocabulary. ICD-11 with its extension codes has 34,663, all of AGROVOC about
/// 42,000.
pub const CONCEPTS_MAX: usize = 200_000;
/// Maximum total size of the texts of one vocabulary, in bytes. ICD-11 with its URIs has 6 MB for each language.
pub const VOCABULARY_TEXT_BYTES_MAX: usize = 256 * 1024 * 1024;
/// Maximum number of languages of one vocabulary. AGROVOC has about 40.
pub const LANGUAGES_MAX: usize = 100;
/// Maximum length of a name, source, licence or attribution of a vocabulary, in bytes.
pub const DESCRIPTION_TEXT_BYTES_MAX: usize = 4 * 1024;
/// Maximum length of the version of a vocabulary, in bytes. Every record stores it with a code, and every decision
/// repeats it.
pub const VERSION_BYTES_MAX: usize = 64;
/// Maximum length of a label, alias, property value or URI of a concept, in bytes.
pub const LABEL_BYTES_MAX: usize = 2_048;
/// Maximum length of a definition, in bytes.
pub const DEFINITION_BYTES_MAX: usize = 16 * 1024;
/// Maximum number of parents, aliases or properties of one concept.
pub const LIST_ITEMS_MAX: usize = 64;
/// Maximum number of distinct property keys of one vocabulary.
pub const PROPERTY_KEYS_MAX: usize = 1_000;
/// Maximum length of a property key or of the name of a concept group, in bytes.
pub const NAME_BYTES_MAX: usize = 64;
/// Maximum number of concept groups of one pack.
pub const CONCEPT_GROUPS_MAX: usize = 1_000;
/// Maximum number of selections in one concept group, included and excluded.
pub const SELECTIONS_MAX: usize = 10_000;
/// Maximum number of reported problems of one pack; further ones are counted.
pub const PROBLEMS_MAX: usize = 1_000;
