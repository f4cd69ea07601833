//! Social programs in which individuals or households can be enrolled.

use jiff::civil::Date;

use super::calendar::Period;
use super::manifest::PluginName;
use super::record::{Fields, Record};
use super::schema::{self, Field, Kind};
use super::subject::Subject;
use super::value::{Key, Text, WordOf};

/// A stored program.
pub type Program = Record<ProgramDetails>;

/// Maximum number of programs in a register. All of them are in memory.
pub const PROGRAMS_MAX: u64 = 10_000;
/// Maximum length of the name and of the type of a program, in bytes.
pub const PROGRAM_NAME_BYTES_MAX: usize = 300;
/// Maximum length of the description of a program, in bytes.
pub const PROGRAM_DESCRIPTION_BYTES_MAX: usize = 4_000;

record_type!(ProgramRecord is Program);

/// The details of a program.
pub type ProgramDetails = Fields<ProgramRecord>;

/// True or absent if it is active.
pub const ACTIVE: Key<bool> = Key::new(1);
/// Name. Required.
pub const NAME: Key<Text> = Key::new(2);
/// Purpose.
pub const DESCRIPTION: Key<Text> = Key::new(3);
/// Type of program, as named by the deployment.
pub const PROGRAM_TYPE: Key<Text> = Key::new(4);
/// Kind of beneficiaries. Required, immutable.
pub const TARGET_TYPE: Key<WordOf<Subject>> = Key::new(5);
/// Eligibility rule: an expression, opaque here.
pub const ELIGIBILITY: Key<Text> = Key::new(6);
/// True if the server rejects enrolments against the expression's result.
pub const ENFORCE_ELIGIBILITY: Key<bool> = Key::new(7);
/// Period of operation.
pub const PERIOD: Key<Period> = Key::new(8);

/// Name of the eligibility engine of the rule; the active engine if absent.
pub const ENGINE: Key<Text> = Key::new(9);

/// The fields of a program.
pub const FIELDS: &[Field] = &[
    Field::new(ACTIVE, "active", Kind::Boolean).about("A record without it is active.").filter(),
    Field::new(NAME, "name", Kind::Text(PROGRAM_NAME_BYTES_MAX))
        .required("the name of the program is required")
        .sort()
        .filter(),
    Field::new(DESCRIPTION, "description", Kind::Text(PROGRAM_DESCRIPTION_BYTES_MAX)),
    Field::new(PROGRAM_TYPE, "program_type", Kind::Text(PROGRAM_NAME_BYTES_MAX)),
    Field::new(TARGET_TYPE, "target_type", Kind::Word(&Subject::NAMES))
        .required("the kind of beneficiaries is required: `individual` or `group`")
        .filter(),
    Field::new(ELIGIBILITY, "eligibility", Kind::Expression).about("The expression that decides who is eligible."),
    Field::new(ENFORCE_ELIGIBILITY, "enforce_eligibility", Kind::Boolean)
        .flag()
        .about("True if the server rejects enrolments against the result of the expression."),
    Field::new(PERIOD, "period", Kind::Struct(&schema::PERIOD)),
    Field::new(ENGINE, "engine", Kind::Text(PluginName::LENGTH_MAX))
        .about("The eligibility engine of the expression, by name; the active engine if absent."),
];

/// The phase of a program on a day.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum ProgramPhase {
    /// Not started.
    Upcoming,
    /// Running.
    Current,
    /// Ended.
    Ended,
}

impl ProgramDetails {
    /// Returns the phase on a day, by the period alone.
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

    /// True if the program is active.
    #[must_use]
    pub fn is_active(&self) -> bool {
        self.get(ACTIVE).unwrap_or(true)
    }

    /// Returns the name.
    #[must_use]
    pub fn name(&self) -> &str {
        self.get(NAME).unwrap_or_default()
    }

    /// Returns the kind of beneficiaries.
    #[must_use]
    pub fn target_type(&self) -> Subject {
        self.get(TARGET_TYPE).unwrap_or(Subject::Individual)
    }

    /// True if the server rejects enrolments against the expression's result.
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
