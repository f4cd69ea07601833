//! What can be asked of the register.

use jiff::civil::Date;

use super::code::CodeNumber;
use super::identifier::IdentifierKey;
use super::vocabulary::CodedField;

/// The most records of one page.
pub const PAGE_COUNT_MAX: u32 = 100;
/// The records of a page where nothing is asked.
pub const PAGE_COUNT_DEFAULT: u32 = 20;

/// How a day is compared.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum DateOperator {
    /// On that day.
    Equal,
    /// On another day; a record without the day does not match.
    NotEqual,
    /// After that day.
    After,
    /// On or after that day.
    OnOrAfter,
    /// Before that day.
    Before,
    /// On or before that day.
    OnOrBefore,
}

/// One condition on a day.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct DateCondition {
    /// How it is compared.
    pub operator: DateOperator,
    /// With which day.
    pub date: Date,
}

impl DateCondition {
    /// Whether a day meets the condition.
    #[must_use]
    pub fn holds(&self, day: Date) -> bool {
        match self.operator {
            DateOperator::Equal => day == self.date,
            DateOperator::NotEqual => day != self.date,
            DateOperator::After => day > self.date,
            DateOperator::OnOrAfter => day >= self.date,
            DateOperator::Before => day < self.date,
            DateOperator::OnOrBefore => day <= self.date,
        }
    }
}

/// One condition on a coded field: it holds any of these codes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CodeCondition {
    /// The field; where it holds a list, one of its codes is enough.
    pub field: CodedField,
    /// The codes. None at all matches nothing.
    pub any_of: Vec<CodeNumber>,
}

/// Conditions on individuals, all of which must hold. Empty: everybody.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct IndividualQuery {
    /// Has that identifier, open or ended; each of them.
    pub identifiers: Vec<IdentifierKey>,
    /// Words, each of which begins a word of the name, in the form of [`super::person_name::search_words`].
    pub name_words: Vec<String>,
    /// Conditions on the day of birth.
    pub birth_date: Vec<DateCondition>,
    /// Conditions on coded fields.
    pub codes: Vec<CodeCondition>,
    /// Whether the record is in use; a record that does not say is in use.
    pub active: Option<bool>,
}

/// Which part of an answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Page {
    /// How many records to skip.
    pub offset: u64,
    /// How many to give, 1 to [`PAGE_COUNT_MAX`].
    pub count: u32,
}

impl Default for Page {
    fn default() -> Self {
        Self { offset: 0, count: PAGE_COUNT_DEFAULT }
    }
}
