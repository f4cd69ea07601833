//! A social program: what people or households can be enrolled in.

use jiff::civil::Date;

use super::calendar::Period;
use super::record::{Fields, Record};
use super::schema::{self, Field, Kind};
use super::subject::Subject;
use super::value::{Key, Text, WordOf};

/// A stored program.
pub type Program = Record<ProgramDetails>;

/// The most programs of one register. All of them are kept in memory.
pub const PROGRAMS_MAX: u64 = 10_000;
/// The longest name and type of a program, in bytes.
pub const PROGRAM_NAME_BYTES_MAX: usize = 300;
/// The longest description of a program, in bytes.
pub const PROGRAM_DESCRIPTION_BYTES_MAX: usize = 4_000;

record_type!(ProgramRecord is Program);

/// What the register says of a program.
pub type ProgramDetails = Fields<ProgramRecord>;

/// Whether it is in use; a program that does not say is.
pub const ACTIVE: Key<bool> = Key::new(1);
/// What it is called. Every program has it.
pub const NAME: Key<Text> = Key::new(2);
/// What it is for.
pub const DESCRIPTION: Key<Text> = Key::new(3);
/// What kind of program, in the deployment's own words.
pub const PROGRAM_TYPE: Key<Text> = Key::new(4);
/// Whom it enrols. Every program has it, and it never changes.
pub const TARGET_TYPE: Key<WordOf<Subject>> = Key::new(5);
/// Who may be enrolled: an expression, opaque here.
pub const ELIGIBILITY: Key<Text> = Key::new(6);
/// Whether the server refuses to enrol against the expression's result.
pub const ENFORCE_ELIGIBILITY: Key<bool> = Key::new(7);
/// When it runs.
pub const PERIOD: Key<Period> = Key::new(8);

/// The fields of a program.
pub const FIELDS: &[Field] = &[
    Field::new(ACTIVE, "active", Kind::Boolean).about("A record without it is in use.").filter(),
    Field::new(NAME, "name", Kind::Text(PROGRAM_NAME_BYTES_MAX)).required("a program has a name").sort().filter(),
    Field::new(DESCRIPTION, "description", Kind::Text(PROGRAM_DESCRIPTION_BYTES_MAX)),
    Field::new(PROGRAM_TYPE, "program_type", Kind::Text(PROGRAM_NAME_BYTES_MAX)),
    Field::new(TARGET_TYPE, "target_type", Kind::Word(&Subject::NAMES))
        .required("whom the program enrols is needed: `individual` or `group`")
        .filter(),
    Field::new(ELIGIBILITY, "eligibility", Kind::Expression).about("The expression that decides who is eligible."),
    Field::new(ENFORCE_ELIGIBILITY, "enforce_eligibility", Kind::Boolean)
        .flag()
        .about("Whether enrolling against the result of the expression is refused."),
    Field::new(PERIOD, "period", Kind::Struct(&schema::PERIOD)),
];

/// Where a program stands on a day.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum ProgramPhase {
    /// It has not begun.
    Upcoming,
    /// It runs.
    Current,
    /// It is over.
    Ended,
}

impl ProgramDetails {
    /// Where it stands on that day, by its period alone.
    #[must_use]
    pub fn phase(&self, day: Date) -> ProgramPhase {
        let period = self.get(PERIOD).unwrap_or_default();
        if period.end.is_some_and(|end| end < day) {
            ProgramPhase::Ended
        } else if period.start.is_some_and(|start| day < start) {
            ProgramPhase::Upcoming
        } else {
            ProgramPhase::Current
        }
    }

    /// Whether it is in use.
    #[must_use]
    pub fn is_active(&self) -> bool {
        self.get(ACTIVE).unwrap_or(true)
    }

    /// What it is called.
    #[must_use]
    pub fn name(&self) -> &str {
        self.get(NAME).unwrap_or_default()
    }

    /// Whom it enrols.
    #[must_use]
    pub fn target_type(&self) -> Subject {
        self.get(TARGET_TYPE).unwrap_or(Subject::Individual)
    }

    /// Whether the server refuses to enrol against the expression's result.
    #[must_use]
    pub fn enforces_eligibility(&self) -> bool {
        self.get(ENFORCE_ELIGIBILITY).unwrap_or(false)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::calendar::parse_date;

    #[test]
    fn the_first_and_the_last_day_belong_to_a_program() {
        let day = |text: &str| parse_date(text).unwrap();
        let program = |start: Option<&str>, end: Option<&str>| {
            ProgramDetails::default().with(PERIOD, Period { start: start.map(day), end: end.map(day) })
        };
        let year = program(Some("2026-01-01"), Some("2026-12-31"));
        for (on, phase) in [
            ("2025-12-31", ProgramPhase::Upcoming),
            ("2026-01-01", ProgramPhase::Current),
            ("2026-12-31", ProgramPhase::Current),
            ("2027-01-01", ProgramPhase::Ended),
        ] {
            assert_eq!(year.phase(day(on)), phase, "{on}");
        }
        assert_eq!(program(None, None).phase(day("1800-01-01")), ProgramPhase::Current);
    }
}
