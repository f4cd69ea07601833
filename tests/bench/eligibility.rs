//! Eligibility: rules A, B and C in the sandbox, by columns and row by row, and previews over a whole register.
//!
//! What the same rules take natively, by the CEL crate alone and by a function written by hand is measured by `plugins/cel/benches`, which
//! `cargo xtask bench eligibility` runs before: only the engine may link the crate.

mod engines;
mod previews;

use daftar::domain::subject::Subject;

use crate::start::runtime;

/// How many people the register has, unless it is said.
const PEOPLE: u64 = 1_000_000;

/// A rule of DESIGN's targets.
pub struct Rule {
    /// Its letter.
    pub name: &'static str,
    /// Whom it is asked about.
    pub subject: Subject,
    /// The rule.
    pub expression: &'static str,
    /// How many million evaluations a second and core it is to reach in the sandbox.
    pub target: u32,
}

/// The rules.
pub const RULES: [Rule; 3] = [
    Rule {
        name: "A",
        subject: Subject::Individual,
        expression: "me.gender == code('urn:iso:std:iso:5218#2') && age_years(me.birth_date) >= 18 && age_years(me.birth_date) < 60",
        target: 80,
    },
    Rule {
        name: "B",
        subject: Subject::Group,
        expression: "members.exists(m, is_head(m) && age_years(m.birth_date) >= 60)",
        target: 12,
    },
    Rule {
        name: "C",
        subject: Subject::Individual,
        expression: "in_group(me.gender, 'feminine_gender') && me.income.amount < 5000.0",
        target: 80,
    },
];

/// Runs the benchmark, with registers of those sizes, and prints its figures.
pub fn run(sizes: &[String]) -> Result<(), String> {
    let sizes: Result<Vec<u64>, _> = sizes.iter().map(|size| size.parse()).collect();
    let sizes = sizes.map_err(|error| format!("a number of people is wanted: {error}"))?;
    runtime()?.block_on(engines::measure())?;
    for people in if sizes.is_empty() { vec![PEOPLE] } else { sizes } {
        previews::measure(people)?;
    }
    Ok(())
}
