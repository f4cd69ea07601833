//! What passes between the registry and the eligibility engine. An expression is opaque text here.
//!
//! The types say the same as `wit/daftar-plugin/0.1.0/{schema,columns,eligibility}.wit`, where each field is described.

use super::code::CodeNumber;
pub use super::subject::Subject;

named_enum! {
    /// Which rows a field belongs to.
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

/// The type of one value of a field.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum FieldType {
    /// True or false.
    Boolean,
    /// A whole number.
    Integer,
    /// A number with a fraction.
    Number,
    /// Text.
    Text,
    /// A day.
    Date,
    /// A code.
    Coded,
    /// A repeated structure.
    Structure,
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
    /// Whether it is a list.
    pub is_repeated: bool,
    /// Where its codes come from.
    pub vocabularies: Vec<String>,
}

/// Everything that an expression may speak of.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Schema {
    /// Digest of this schema.
    pub version: String,
    /// What rules decide about.
    pub subject: Subject,
    /// The fields.
    pub fields: Vec<Field>,
}

impl Schema {
    /// The field that a rule refers to.
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
    /// Texts laid end to end.
    Texts {
        /// One more than rows.
        offsets: Vec<u32>,
        /// UTF-8.
        bytes: Vec<u8>,
    },
    /// Offsets into the column of items.
    Lists(Vec<u32>),
}

/// One field of every row.
#[derive(Debug, Clone, PartialEq)]
pub struct Column {
    /// Its rows.
    pub space: RowSpace,
    /// Its path.
    pub path: String,
    /// Bitmap of the rows that have a value, lowest bit first; empty means all.
    pub valid: Vec<u8>,
    /// The values.
    pub values: ColumnValues,
}

/// Which rows belong to which subject.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Children {
    /// One more than subjects.
    pub offsets: Vec<u32>,
    /// Bitmap of the subjects whose children are known; empty means all.
    pub known: Vec<u8>,
}

/// Some subjects with the columns that a rule reads.
#[derive(Debug, Clone, PartialEq)]
pub struct Batch {
    /// The day asked about, in days since 1970-01-01.
    pub as_of: i32,
    /// How many subjects.
    pub rows: u32,
    /// Whose members are whose.
    pub members: Option<Children>,
    /// Whose program memberships are whose.
    pub programs: Option<Children>,
    /// The columns.
    pub columns: Vec<Column>,
}

/// Whether a diagnostic stops an expression from running.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Severity {
    /// It cannot run.
    Error,
    /// It can, perhaps not as meant.
    Warning,
}

/// What is wrong with an expression, and where, counted in characters from 1.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Diagnostic {
    /// Whether it stops the expression from running.
    pub severity: Severity,
    /// Stable name of the kind of fault.
    pub code: String,
    /// One sentence.
    pub message: String,
    /// The line.
    pub line: u32,
    /// The column.
    pub column: u32,
    /// How many characters.
    pub length: u32,
    /// What was probably meant.
    pub suggestion: Option<String>,
}

/// A field that a rule reads.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Reference {
    /// Its rows.
    pub space: RowSpace,
    /// Its path.
    pub path: String,
    /// Whether the texts of its codes are needed.
    pub needs_texts: bool,
    /// Line of the first place where it is read; 0 where the engine does not say.
    pub line: u32,
    /// Its column.
    pub column: u32,
    /// Its length in characters.
    pub length: u32,
}

impl Reference {
    /// The name under which it is reported: `me.birth_date`; `members` where only which rows there are is read.
    #[must_use]
    pub fn name(&self) -> String {
        if self.path.is_empty() { self.space.name().to_owned() } else { format!("{}.{}", self.space.name(), self.path) }
    }
}

/// Something about codes that only the host knows.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Question {
    /// Which codes belong to the concept group?
    InGroup(String),
    /// Which codes are the code of that URI or below it?
    DescendsFrom(String),
    /// Which number has the code of that URI?
    Code(String),
}

/// A question and where it is asked.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PlacedQuestion {
    /// What is asked.
    pub question: Question,
    /// Line of the literal.
    pub line: u32,
    /// Column of the literal.
    pub column: u32,
    /// Its length in characters.
    pub length: u32,
}

/// Whether something holds for a code.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(u8)]
pub enum Truth {
    /// It does not.
    No = 0,
    /// It does.
    Yes = 1,
    /// It cannot be said.
    Unknown = 2,
}

/// The host's answer to a question.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Answer {
    /// By code number; past the end: no.
    Truths {
        /// The truths.
        truths: Vec<Truth>,
        /// What is missing where it cannot be said; the field that held the code, where absent.
        missing: Option<String>,
    },
    /// The number of a code.
    Number(CodeNumber),
}

/// What can be read of one code.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CodeTexts {
    /// Its number.
    pub number: CodeNumber,
    /// Its vocabulary.
    pub namespace: String,
    /// The code.
    pub code: String,
    /// What it is called in the default language.
    pub display: String,
}

/// What a rule needs to know about codes.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Bindings {
    /// One answer a question.
    pub answers: Vec<Answer>,
    /// Texts of the codes in columns that need them.
    pub texts: Vec<CodeTexts>,
}

named_enum! {
    /// What a rule says of one subject.
    #[derive(Debug, Clone, Copy, PartialEq, Eq)]
    #[repr(u8)]
    pub enum Verdict {
        /// The rule does not hold.
        NotEligible = "not_eligible",
        /// The rule holds.
        Eligible = "eligible",
        /// The facts do not decide.
        Undetermined = "undetermined",
    }
}

/// An error while one subject was evaluated.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RowError {
    /// The subject's row.
    pub row: u32,
    /// Stable name, such as `division_by_zero`.
    pub code: String,
    /// Line of the failing part.
    pub line: u32,
    /// Its column.
    pub column: u32,
}

/// What a rule says of one subject, and why it is not decided.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RowOutcome {
    /// The outcome.
    pub verdict: Verdict,
    /// The facts that would decide, sorted.
    pub missing: Vec<String>,
    /// What went wrong while it was evaluated.
    pub errors: Vec<RowError>,
}

/// What a rule says of every subject of a batch, in order.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Outcomes {
    /// One a row.
    pub verdicts: Vec<Verdict>,
    /// The distinct names of missing facts.
    pub missing_names: Vec<String>,
    /// One more than rows.
    pub missing_offsets: Vec<u32>,
    /// Indices into `missing_names`.
    pub missing: Vec<u32>,
    /// At most one a row.
    pub errors: Vec<RowError>,
}

impl Outcomes {
    /// What the rule says of one row; undetermined where the batch has no such row.
    #[must_use]
    pub fn of(&self, row: usize) -> RowOutcome {
        RowOutcome {
            verdict: self.verdicts.get(row).copied().unwrap_or(Verdict::Undetermined),
            missing: self.missing_of(row).into_iter().map(str::to_owned).collect(),
            errors: self.errors.iter().filter(|error| error.row as usize == row).cloned().collect(),
        }
    }

    /// The missing facts of one row, sorted by name.
    #[must_use]
    pub fn missing_of(&self, row: usize) -> Vec<&str> {
        let bounds = (self.missing_offsets.get(row), self.missing_offsets.get(row + 1));
        let (Some(start), Some(end)) = bounds else { return Vec::new() };
        let indices = self.missing.get(*start as usize..*end as usize).unwrap_or_default();
        indices.iter().filter_map(|index| self.missing_names.get(*index as usize)).map(String::as_str).collect()
    }
}
