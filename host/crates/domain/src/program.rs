//! A social program: what people or households can be enrolled in.

use jiff::civil::Date;

use super::calendar::Period;
use super::identifier::Identifier;
use super::record::Record;
use super::subject::Subject;

/// A stored program.
pub type Program = Record<ProgramDetails>;

/// The most programs of one register. All of them are kept in memory.
pub const PROGRAMS_MAX: u64 = 10_000;
/// The longest name and type of a program, in bytes.
pub const PROGRAM_NAME_BYTES_MAX: usize = 300;
/// The longest description of a program, in bytes.
pub const PROGRAM_DESCRIPTION_BYTES_MAX: usize = 4_000;

/// What the register says of a program.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ProgramDetails {
    /// At least one.
    pub identifiers: Vec<Identifier>,
    /// Whether it is in use; a program that does not say is.
    pub active: Option<bool>,
    /// What it is called.
    pub name: String,
    /// What it is for.
    pub description: Option<String>,
    /// What kind of program, in the deployment's own words.
    pub program_type: Option<String>,
    /// Whom it enrols. Never changes.
    pub target_type: Subject,
    /// Who may be enrolled: an expression, opaque here.
    pub eligibility: Option<String>,
    /// Whether nobody is enrolled against the expression's word.
    pub enforce_eligibility: bool,
    /// When it runs.
    pub period: Option<Period>,
}

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
        let period = self.period.unwrap_or_default();
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
        self.active.unwrap_or(true)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::calendar::parse_date;

    #[test]
    fn the_first_and_the_last_day_belong_to_a_program() {
        let day = |text: &str| parse_date(text).unwrap();
        let program = |start: Option<&str>, end: Option<&str>| ProgramDetails {
            identifiers: Vec::new(),
            active: None,
            name: "p".into(),
            description: None,
            program_type: None,
            target_type: Subject::Individual,
            eligibility: None,
            enforce_eligibility: false,
            period: Some(Period { start: start.map(day), end: end.map(day) }),
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
