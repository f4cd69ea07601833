//! Limits of the content of a pack. Each bound is several times what the largest known classification needs, and none
//! is more than what the pack builder takes.

/// Vocabularies of one pack.
pub const VOCABULARIES_MAX: usize = 64;
/// Concepts of one vocabulary. ICD-11 with its extension codes has 34,663, all of AGROVOC about 42,000.
pub const CONCEPTS_MAX: usize = 200_000;
/// Texts of one vocabulary taken together, in bytes. ICD-11 with its URIs has 6 MB a language.
pub const VOCABULARY_TEXT_BYTES_MAX: usize = 256 * 1024 * 1024;
/// Languages of one vocabulary. AGROVOC has some 40.
pub const LANGUAGES_MAX: usize = 100;
/// One name, source, licence or attribution of a vocabulary, in bytes.
pub const DESCRIPTION_TEXT_BYTES_MAX: usize = 4 * 1024;
/// One version of a vocabulary, in bytes: every record keeps it beside a code, and every decision repeats it.
pub const VERSION_BYTES_MAX: usize = 64;
/// One label, alias, property value or URI of a concept, in bytes.
pub const LABEL_BYTES_MAX: usize = 2_048;
/// One definition, in bytes.
pub const DEFINITION_BYTES_MAX: usize = 16 * 1024;
/// Parents, aliases or properties of one concept.
pub const LIST_ITEMS_MAX: usize = 64;
/// Different property keys of one vocabulary.
pub const PROPERTY_KEYS_MAX: usize = 1_000;
/// One property key or name of a concept group, in bytes.
pub const NAME_BYTES_MAX: usize = 64;
/// Concept groups of one pack.
pub const CONCEPT_GROUPS_MAX: usize = 1_000;
/// Selections in one concept group, included and excluded ones together.
pub const SELECTIONS_MAX: usize = 10_000;
/// Maximum number of reported problems of one pack; further ones are counted.
pub const PROBLEMS_MAX: usize = 1_000;
