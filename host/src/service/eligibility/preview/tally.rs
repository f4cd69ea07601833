//! Counts what a rule says of many subjects, as a whole and broken down.

use std::collections::BTreeMap;

use jiff::ToSpan;
use jiff::civil::Date;

use super::super::layout::bit;
use super::facts::Facts;
use crate::columns::RowMarks;
use crate::domain::calendar::days_since_epoch;
use crate::domain::code::CodeNumber;
use crate::domain::eligibility::{ColumnValues, Outcomes, RowError, Subject, Verdict};

/// The first year of each age band; each ends where the next begins, the last never. Ages that rules ask for begin a band.
pub const AGE_BANDS: [u8; 14] = [0, 5, 10, 15, 18, 25, 35, 45, 55, 60, 65, 70, 75, 80];

/// How many of some subjects have which outcome.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Counts {
    /// All of them.
    pub total: u64,
    /// The rule holds.
    pub eligible: u64,
    /// It does not.
    pub not_eligible: u64,
    /// The facts do not decide.
    pub undetermined: u64,
    /// Undetermined because something went wrong while the rule was evaluated.
    pub errors: u64,
}

/// What the rule says of one subject, by row.
#[derive(Debug, Clone)]
pub(super) struct RowOutcome {
    pub row: u32,
    pub verdict: Verdict,
    pub missing: Vec<String>,
    pub errors: Vec<RowError>,
}

/// What was counted so far.
#[derive(Debug, Default)]
pub(super) struct Tally {
    pub counts: Counts,
    /// By code; those without one under none.
    pub by_gender: BTreeMap<Option<CodeNumber>, Counts>,
    /// By place in [`AGE_BANDS`]; those whose age is not known under none.
    pub by_age_band: BTreeMap<Option<usize>, Counts>,
    pub missing: BTreeMap<String, u64>,
    pub eligible: RowMarks,
    pub undetermined: RowMarks,
    pub errors: RowMarks,
}

/// What is broken down.
#[derive(Debug, Clone, Copy)]
pub(super) struct Breakdowns {
    pub by_gender: bool,
    pub by_age_band: bool,
    pub by_region: bool,
}

impl Counts {
    fn add(&mut self, verdict: Verdict, has_error: bool) {
        self.total += 1;
        match verdict {
            Verdict::Eligible => self.eligible += 1,
            Verdict::NotEligible => self.not_eligible += 1,
            Verdict::Undetermined => self.undetermined += 1,
        }
        self.errors += u64::from(has_error);
    }

    fn merge(&mut self, other: Self) {
        self.total += other.total;
        self.eligible += other.eligible;
        self.not_eligible += other.not_eligible;
        self.undetermined += other.undetermined;
        self.errors += other.errors;
    }
}

impl Tally {
    /// Counts the outcomes of some subjects.
    pub fn add(&mut self, facts: &Facts, asked: Breakdowns, rows: &[u32], outcomes: &Outcomes) {
        let mut has_error = vec![false; rows.len()];
        for error in &outcomes.errors {
            if let Some(at) = has_error.get_mut(error.row as usize) {
                *at = true;
            }
        }
        let genders = asked.by_gender.then(|| genders(facts, rows));
        let ages = asked.by_age_band.then(|| ages(facts, rows));
        let mut marked: [Vec<u32>; 3] = Default::default();
        for (at, ((row, verdict), has_error)) in rows.iter().zip(&outcomes.verdicts).zip(&has_error).enumerate() {
            self.counts.add(*verdict, *has_error);
            if let Some(genders) = &genders {
                let gender = genders.get(at).copied().flatten();
                self.by_gender.entry(gender).or_default().add(*verdict, *has_error);
            }
            if let Some(ages) = &ages {
                self.by_age_band.entry(ages.get(at).copied().flatten()).or_default().add(*verdict, *has_error);
            }
            let [eligible, undetermined, errors] = &mut marked;
            match verdict {
                Verdict::Eligible => eligible.push(*row),
                Verdict::NotEligible => {}
                Verdict::Undetermined => undetermined.push(*row),
            }
            if *has_error {
                errors.push(*row);
            }
        }
        let mut by_name = vec![0_u64; outcomes.missing_names.len()];
        for index in &outcomes.missing {
            if let Some(count) = by_name.get_mut(*index as usize) {
                *count += 1;
            }
        }
        for (name, count) in outcomes.missing_names.iter().zip(by_name).filter(|(_, count)| *count > 0) {
            *self.missing.entry(name.clone()).or_default() += count;
        }
        if asked.by_region {
            let [eligible, undetermined, errors] = marked.map(|rows| RowMarks::from_sorted(&rows));
            self.eligible.merge(&eligible);
            self.undetermined.merge(&undetermined);
            self.errors.merge(&errors);
        }
    }

    /// Adds what was counted of others.
    pub fn merge(&mut self, other: Self) {
        self.counts.merge(other.counts);
        for (gender, counts) in other.by_gender {
            self.by_gender.entry(gender).or_default().merge(counts);
        }
        for (band, counts) in other.by_age_band {
            self.by_age_band.entry(band).or_default().merge(counts);
        }
        for (field, count) in other.missing {
            *self.missing.entry(field).or_default() += count;
        }
        self.eligible.merge(&other.eligible);
        self.undetermined.merge(&other.undetermined);
        self.errors.merge(&other.errors);
    }
}

/// The outcome of one subject of a batch.
pub(super) fn outcome_of(outcomes: &Outcomes, at: usize, row: u32) -> RowOutcome {
    let errors = outcomes.errors.iter().filter(|error| error.row as usize == at).cloned();
    RowOutcome {
        row,
        verdict: outcomes.verdicts.get(at).copied().unwrap_or(Verdict::Undetermined),
        missing: outcomes.missing_of(at).into_iter().map(str::to_owned).collect(),
        errors: errors.collect(),
    }
}

fn genders(facts: &Facts, rows: &[u32]) -> Vec<Option<CodeNumber>> {
    match facts.column(Subject::Individual, "gender", rows) {
        Some((valid, ColumnValues::Codes(codes))) => {
            codes.into_iter().enumerate().map(|(at, code)| bit(&valid, at).then_some(CodeNumber(code))).collect()
        }
        Some(_) | None => Vec::new(),
    }
}

/// The place of each subject's age in [`AGE_BANDS`].
fn ages(facts: &Facts, rows: &[u32]) -> Vec<Option<usize>> {
    let Some((valid, ColumnValues::Days(days))) = facts.column(Subject::Individual, "birth_date", rows) else {
        return Vec::new();
    };
    let lasts = last_births(facts.as_of);
    let band = |day: i32| lasts.iter().rposition(|last| day <= *last);
    days.into_iter().enumerate().map(|(at, day)| bit(&valid, at).then(|| band(day)).flatten()).collect()
}

/// For each band the last day on which somebody was born who is old enough for it, in days since 1970-01-01. Somebody born on
/// 29 February has the birthday on 1 March in years without that day.
fn last_births(as_of: Date) -> [i32; AGE_BANDS.len()] {
    AGE_BANDS.map(|years| as_of.checked_sub(i64::from(years).years()).map_or(i32::MIN, days_since_epoch))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_band_begins_on_the_birthday() {
        let band = |as_of: Date, born: Date| {
            let lasts = last_births(as_of);
            lasts.iter().rposition(|last| days_since_epoch(born) <= *last).map(|at| AGE_BANDS[at])
        };
        let day = Date::constant;
        assert_eq!(band(day(2026, 3, 1), day(2026, 3, 1)), Some(0));
        assert_eq!(band(day(2026, 3, 1), day(2026, 3, 2)), None, "not born yet");
        assert_eq!(band(day(2026, 3, 1), day(2008, 3, 1)), Some(18));
        assert_eq!(band(day(2026, 3, 1), day(2008, 3, 2)), Some(15));
        assert_eq!(band(day(2026, 2, 28), day(2008, 2, 29)), Some(15), "the birthday is on 1 March");
        assert_eq!(band(day(2026, 3, 1), day(2008, 2, 29)), Some(18));
        assert_eq!(band(day(2028, 2, 29), day(2010, 2, 28)), Some(18));
        assert_eq!(band(day(2028, 2, 29), day(2010, 3, 1)), Some(15));
        assert_eq!(band(day(2026, 3, 1), day(1901, 1, 1)), Some(80));
    }
}
