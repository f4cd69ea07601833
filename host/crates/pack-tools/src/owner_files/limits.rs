//! How much of a file is read and kept. Each bound is several times what the largest known file needs.

/// A file of RDF, in bytes after unpacking. AGROVOC has 1 GB. It is streamed, so only time grows with it.
pub const RDF_BYTES_MAX: u64 = 16 << 30;

/// A table, in bytes after unpacking. ICD-11 has 7 MB.
pub const TABLE_BYTES_MAX: u64 = 256 << 20;

/// A JSON or XML document, in bytes after unpacking; it is kept whole while it is read. The largest known has 30 MB.
pub const DOCUMENT_BYTES_MAX: u64 = 128 << 20;

/// One line of a table, in bytes. The longest of ICD-11 has 600.
pub const LINE_BYTES_MAX: usize = 1 << 20;

/// Codes of one vocabulary, as packs take them. ICD-11 has 34,663, all of AGROVOC about 42,000.
pub const CODES_MAX: usize = 200_000;

/// Concepts and label nodes of one thesaurus that are told apart while it is read. AGROVOC has 42,000 and 1.2 million.
pub const NODES_MAX: usize = 8_000_000;

/// Links between them that are kept while it is read. AGROVOC has 1.3 million.
pub const LINKS_MAX: usize = 16_000_000;

/// Anonymous nodes of one thesaurus.
pub const BLANK_NODES_MAX: usize = 4_000_000;

/// Bytes of IRIs and labels kept while a thesaurus is read.
pub const TEXT_BYTES_MAX: usize = 512 << 20;

/// One label, URI, alias or property, in bytes, as packs take them.
pub const LABEL_BYTES_MAX: usize = 2_048;

/// One definition, in bytes, as packs take them.
pub const DEFINITION_BYTES_MAX: usize = 16 * 1024;

/// Parents, or aliases, of one code, as packs take them.
pub const LIST_ITEMS_MAX: usize = 64;

/// Languages of one vocabulary, as packs take them.
pub const LANGUAGES_MAX: usize = 100;

/// Different kinds of properties of one vocabulary.
pub const PROPERTIES_MAX: usize = 64;

/// How many refused rows are kept: enough to see the pattern, few enough to print.
pub const REFUSALS_MAX: usize = 1_000;

/// After this many refused rows it is the wrong file, and reading ends.
pub const REFUSALS_READ_MAX: u64 = 100_000;
