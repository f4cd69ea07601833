//! Types exchanged between the registry and the eligibility engine. An expression is opaque text here.
//!
//! The types match `wit/daftar-plugin/0.1.0/{schema,columns,eligibility}.wit`, which describes each field.

use super::code::CodeNumber;
pub use super::subject::Subject;

named_enum! {
    /// The row space of a field.
    #[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
    pub enum RowSpace {
        /// The subject itself.
        Me = "me",
        /// The active members of the subject's household.
        Members = "members",
        /// The program memberships of the subject.
        Programs = "programs",
    }
}

named_enum! {
    /// The type of one value of a field.
    #[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
    pub enum FieldType {
        /// True or false.
        Boolean = "boolean",
        /// A whole number.
        Integer = "integer",
        /// A number with a fraction.
        Number = "number",
        /// Text.
        Text = "text",
        /// A day.
        Date = "date",
        /// A code.
        Coded = "coded",
        /// A repeated structure.
        Structure = "structure",
    }
}

/// A field that an expression may read.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Field {
    /// Its rows.
    pub space: RowSpace,
    /// Its dotted path.
    pub path: String,
    /// Its type.
    pub kind: FieldType,
    /// True if it is a list.
    pub is_repeated: bool,
    /// The vocabularies of its codes.
    pub vocabularies: Vec<String>,
}

/// The fields that an expression may read.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Schema {
    /// Digest of this schema.
    pub version: String,
    /// The subject of rules.
    pub subject: Subject,
    /// The fields.
    pub fields: Vec<Field>,
}

impl Schema {
    /// Returns the field that a rule refers to.
    #[must_use]
    pub fn field(&self, reference: &Reference) -> Option<&Field> {
        self.fields.iter().find(|field| field.space == reference.space && field.path == reference.path)
    }
}

/// The values of a column.
#[derive(Debug, Clone, PartialEq)]
pub enum ColumnValues {
    /// 0 or 1.
    Booleans(Vec<u8>),
    /// Whole numbers.
    Integers(Vec<i64>),
    /// Numbers, never NaN.
    Numbers(Vec<f64>),
    /// Days since 1970-01-01.
    Days(Vec<i32>),
    /// Code numbers.
    Codes(Vec<u32>),
    /// Concatenated texts.
    Texts {
        /// Number of rows + 1.
        offsets: Vec<u32>,
        /// UTF-8.
        bytes: Vec<u8>,
    },
    /// Offsets into the column of items.
    Lists(Vec<u32>),
}

/// The values of one field, one per row.
#[derive(Debug, Clone, PartialEq)]
pub struct Column {
    /// Its rows.
    pub space: RowSpace,
    /// Its path.
    pub path: String,
    /// Bitmap of the rows with a value, lowest bit first; empty means all.
    pub valid: Vec<u8>,
    /// The values.
    pub values: ColumnValues,
}

/// The assignment of rows to subjects.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Children {
    /// Number of subjects + 1.
    pub offsets: Vec<u32>,
    /// Bitmap of the subjects whose children are known; empty means all.
    pub known: Vec<u8>,
}

/// A batch of subjects with the columns that a rule reads.
#[derive(Debug, Clone, PartialEq)]
pub struct Batch {
    /// Evaluation date, in days since 1970-01-01.
    pub as_of: i32,
    /// Number of subjects.
    pub rows: u32,
    /// The assignment of members to subjects.
    pub members: Option<Children>,
    /// The assignment of program memberships to subjects.
    pub programs: Option<Children>,
    /// The columns.
    pub columns: Vec<Column>,
}

/// The severity of a diagnostic.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Severity {
    /// The expression cannot run.
    Error,
    /// The expression can run, perhaps not as intended.
    Warning,
}

/// A problem in an expression, with its position in characters, counted from 1.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Diagnostic {
    /// The severity.
    pub severity: Severity,
    /// Stable name of the kind of problem.
    pub code: String,
    /// Message, one sentence.
    pub message: String,
    /// Stable name of the message; empty if it has none.
    pub reason: String,
    /// The parts of the message that come from the expression, the schema or the vocabularies.
    pub parameters: Vec<String>,
    /// The line.
    pub line: u32,
    /// The column.
    pub column: u32,
    /// Length in characters.
    pub length: u32,
    /// The suggested correction.
    pub suggestion: Option<String>,
}

/// A field that a rule reads.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Reference {
    /// Its rows.
    pub space: RowSpace,
    /// Its path.
    pub path: String,
    /// True if the texts of its codes are required.
    pub needs_texts: bool,
    /// Line of its first use; 0 if the engine does not report it.
    pub line: u32,
    /// Its column.
    pub column: u32,
    /// Its length in characters.
    pub length: u32,
}

impl Column {
    /// Returns its name, such as `me.birth_date`.
    #[must_use]
    pub fn name(&self) -> String {
        format!("{}.{}", self.space.name(), self.path)
    }
}

impl Reference {
    /// Returns the name in reports: `me.birth_date`; `members` if only the existence of rows is read.
    #[must_use]
    pub fn name(&self) -> String {
        if self.path.is_empty() { self.space.name().to_owned() } else { format!("{}.{}", self.space.name(), self.path) }
    }
}

/// A query about codes that the host resolves.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Question {
    /// The codes of a concept group.
    InGroup(String),
    /// The codes that equal the code of this URI or descend from it.
    DescendsFrom(String),
    /// The number of the code of this URI.
    Code(String),
}

/// A query with its position in the expression.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PlacedQuestion {
    /// The query.
    pub question: Question,
    /// Line of the literal.
    pub line: u32,
    /// Column of the literal.
    pub column: u32,
    /// Its length in characters.
    pub length: u32,
}

/// Three-valued truth of a statement about a code.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(u8)]
pub enum Truth {
    /// False.
    No = 0,
    /// True.
    Yes = 1,
    /// Undetermined.
    Unknown = 2,
}

/// The host's result for a query.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Answer {
    /// By code number; false beyond the end.
    Truths {
        /// The values.
        truths: Vec<Truth>,
        /// The missing fact for undetermined values; the field that contains the code, if absent.
        missing: Option<String>,
    },
    /// The number of a code.
    Number(CodeNumber),
}

/// The readable texts of one code.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CodeTexts {
    /// Its number.
    pub number: CodeNumber,
    /// Its vocabulary.
    pub namespace: String,
    /// The code.
    pub code: String,
    /// Display in the default language.
    pub display: String,
}

/// The data on codes that a rule requires.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Bindings {
    /// One result per query.
    pub answers: Vec<Answer>,
    /// Texts of the codes in columns that require them, and of those that the rule names.
    pub texts: Vec<CodeTexts>,
}

named_enum! {
    /// The result of a rule for one subject.
    #[derive(Debug, Clone, Copy, PartialEq, Eq)]
    #[repr(u8)]
    pub enum Verdict {
        /// The rule does not hold.
        NotEligible = "not_eligible",
        /// The rule holds.
        Eligible = "eligible",
        /// The facts are insufficient to decide.
        Undetermined = "undetermined",
    }
}

/// An error in the evaluation of one subject.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RowError {
    /// The subject's row.
    pub row: u32,
    /// Stable name, such as `division_by_zero`.
    pub code: String,
    /// Line of the failed part.
    pub line: u32,
    /// Its column.
    pub column: u32,
}

/// The result of a rule for one subject, with the reasons if it is undetermined.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RowOutcome {
    /// The outcome.
    pub verdict: Verdict,
    /// The facts that would decide, sorted.
    pub missing: Vec<String>,
    /// Errors of the evaluation.
    pub errors: Vec<RowError>,
}

/// The results of a rule for every subject of a batch, in order.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Outcomes {
    /// One per row.
    pub verdicts: Vec<Verdict>,
    /// The distinct names of missing facts.
    pub missing_names: Vec<String>,
    /// Number of rows + 1.
    pub missing_offsets: Vec<u32>,
    /// Indices into `missing_names`.
    pub missing: Vec<u32>,
    /// At most one per row.
    pub errors: Vec<RowError>,
}

impl Outcomes {
    /// Returns the result of one row; undetermined if the batch has no such row.
    #[must_use]
    pub fn of(&self, row: usize) -> RowOutcome {
        RowOutcome {
            verdict: self.verdicts.get(row).copied().unwrap_or(Verdict::Undetermined),
            missing: self.missing_of(row).into_iter().map(str::to_owned).collect(),
            errors: self.errors.iter().filter(|error| error.row as usize == row).cloned().collect(),
        }
    }

    /// Returns the missing facts of one row, sorted by name.
    #[must_use]
    pub fn missing_of(&self, row: usize) -> Vec<&str> {
        let bounds = (self.missing_offsets.get(row), self.missing_offsets.get(row + 1));
        let (Some(start), Some(end)) = bounds else { return Vec::new() };
        let indices = self.missing.get(*start as usize..*end as usize).unwrap_or_default();
        indices.iter().filter_map(|index| self.missing_names.get(*index as usize)).map(String::as_str).collect()
    }
}
