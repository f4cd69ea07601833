//! All limits of the engine, each with its reason.
//!
//! The host limits time and memory from outside. These limits exist so that a rule author gets a message with a
//! position for likely mistakes, not an aborted call.

/// Longest expression, in bytes. The parser's memory grows faster than its input.
pub const SOURCE_BYTES_MAX: usize = 8 * 1024;

/// Deepest nesting of brackets and ternaries. The parser itself stops at 96 with an error without a position.
pub const NESTING_MAX: u32 = 64;

/// Deepest syntax tree. The parser recurses once per link of a chain such as `1 + 1 + …` and ran out of stack at 700.
pub const DEPTH_MAX: u32 = 250;

/// Most diagnostics of one expression.
pub const DIAGNOSTICS_MAX: usize = 20;

/// Longest message, in characters: messages quote names and texts of the expression.
pub const MESSAGE_CHARACTERS_MAX: usize = 500;

/// Longest parameter of a message, in characters.
pub const PARAMETER_CHARACTERS_MAX: usize = 200;

/// Longest suggestion, in bytes: it repeats a part of the expression.
pub const SUGGESTION_BYTES_MAX: usize = 500;

/// Longest name of a concept group or URI of a code, in bytes: they are passed to the host.
pub const QUESTION_BYTES_MAX: usize = 1_000;

/// Most fields that one rule may read. Missing facts are one bit each of a 128-bit set.
pub const FIELDS_READ_MAX: usize = 64;

/// Most questions about codes of one rule. They share the 128-bit set with the fields.
pub const QUESTIONS_MAX: usize = 62;

/// Most fields of a schema.
pub const SCHEMA_FIELDS_MAX: usize = 4_096;

/// Most subjects of one batch.
pub const ROWS_MAX: usize = 65_536;

/// Most members, memberships or items of one column of a batch.
pub const CHILD_ROWS_MAX: usize = 1 << 20;

/// Most bytes of text in one column of a batch.
pub const COLUMN_TEXT_BYTES_MAX: usize = 16 << 20;

/// The assumed size of the registry's lists in cost estimates: few households have more members.
pub const COST_LIST_ITEMS: u32 = 100;

/// Most parts of one explanation; each costs an evaluation.
pub const EXPLAINED_PARTS_MAX: usize = 1_000;

/// Longest text in an explanation, in characters.
pub const EXPLAINED_TEXT_CHARACTERS_MAX: usize = 200;

/// Longest text that a rule may build, in bytes: doubling a text 28 times needs 340 bytes of expression.
pub const TEXT_BYTES_MAX: usize = 64 * 1024;

/// Longest list that a rule may build.
pub const LIST_ITEMS_MAX: usize = 10_000;

/// Most subjects of a block of column evaluation: intermediate results then fit into the processor's first-level cache.
pub const BLOCK_ROWS_MAX: usize = 1_024;

/// Most items of one list of such a block, for the same reason. A larger household is evaluated row by row.
pub const BLOCK_ITEMS_MAX: usize = 8_192;
