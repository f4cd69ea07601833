//! How large a pack's source may be. Each bound is several times what the largest known classification needs.

/// `pack.toml`, in bytes.
pub const SETTINGS_BYTES_MAX: usize = 256 * 1024;

/// One table of codes or labels, in bytes. ICD-11 with its extension codes has 6 MB.
pub const TABLE_BYTES_MAX: usize = 64 * 1024 * 1024;

/// Codes of one vocabulary. ICD-11 has 34,663, all of AGROVOC about 42,000.
pub const CODES_MAX: usize = 200_000;

/// Vocabularies of one pack.
pub const VOCABULARIES_MAX: usize = 64;

/// Languages of one vocabulary.
pub const LANGUAGES_MAX: usize = 100;

/// Concept groups of one pack.
pub const CONCEPT_GROUPS_MAX: usize = 1_000;

/// Selections in one concept group.
pub const SELECTIONS_MAX: usize = 10_000;

/// Parents, or aliases, of one code.
pub const LIST_ITEMS_MAX: usize = 64;

/// One label, URI, alias or property, in bytes.
pub const LABEL_BYTES_MAX: usize = 2_048;

/// One definition, in bytes.
pub const DEFINITION_BYTES_MAX: usize = 16 * 1024;

/// Everything that is put into a pack's memory, in bytes.
pub const BLOB_BYTES_MAX: usize = 128 * 1024 * 1024;

/// Files in one folder of a pack.
pub const FILES_MAX: usize = 1_000;
