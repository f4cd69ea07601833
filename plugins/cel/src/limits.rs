//! Every bound of the engine, in one place, each with its reason.
//!
//! The host bounds time and memory from outside. These bounds exist so that what a rule author is likely to meet is
//! answered with a sentence and a place instead of a stopped call.

/// Longest expression, in bytes. The parser's memory grows faster than its input.
pub const SOURCE_BYTES_MAX: usize = 8 * 1024;

/// Deepest nesting of brackets and ternaries. The parser itself stops at 96 with an error that names no place.
pub const NESTING_MAX: u32 = 64;

/// Deepest syntax tree. The parser recurses once per link of a chain such as `1 + 1 + …` and ran out of stack at 700.
pub const DEPTH_MAX: u32 = 250;

/// Most diagnostics of one expression: whoever has twenty to mend does not read a twenty-first.
pub const DIAGNOSTICS_MAX: usize = 20;

/// Longest message, in characters: names and texts of the expression are repeated in it.
pub const MESSAGE_CHARACTERS_MAX: usize = 500;

/// Longest suggestion, in bytes: it repeats a part of the expression.
pub const SUGGESTION_BYTES_MAX: usize = 500;

/// Longest name of a concept group or URI of a code, in bytes: they are handed to the host.
pub const QUESTION_BYTES_MAX: usize = 1_000;

/// Most fields that one rule may read. Missing facts are kept as one bit each of a 128-bit set.
pub const FIELDS_READ_MAX: usize = 64;

/// Most questions about codes that one rule may ask. They share the 128-bit set with the fields.
pub const QUESTIONS_MAX: usize = 62;

/// Most fields of a schema.
pub const SCHEMA_FIELDS_MAX: usize = 4_096;

/// Most subjects of one batch.
pub const ROWS_MAX: usize = 65_536;

/// Most members, memberships or items of one column of a batch.
pub const CHILD_ROWS_MAX: usize = 1 << 20;

/// Most bytes of text in one column of a batch.
pub const COLUMN_TEXT_BYTES_MAX: usize = 16 << 20;

/// Items that every list of the registry is assumed to have where a cost is estimated: few households have more members.
pub const COST_LIST_ITEMS: u32 = 100;

/// Most parts of one explanation: nobody reads more, and each costs an evaluation of its own.
pub const EXPLAINED_PARTS_MAX: usize = 1_000;

/// Longest text that an explanation repeats, in characters.
pub const EXPLAINED_TEXT_CHARACTERS_MAX: usize = 200;

/// Longest text that a rule may build, in bytes: doubling a text 28 times needs 340 bytes of expression.
pub const TEXT_BYTES_MAX: usize = 64 * 1024;

/// Longest list that a rule may build.
pub const LIST_ITEMS_MAX: usize = 10_000;

/// Most subjects that are evaluated column by column at a time: what one step leaves for the next then stays in the processor's
/// nearest memory.
pub const BLOCK_ROWS_MAX: usize = 1_024;

/// Most items of one list of such a block, for the same reason. A household that has more goes row by row.
pub const BLOCK_ITEMS_MAX: usize = 8_192;
