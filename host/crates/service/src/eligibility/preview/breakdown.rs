//! Counts the outcomes of a rule for many subjects, in total and by breakdown.

use std::collections::BTreeMap;

use jiff::ToSpan;
use jiff::civil::Date;

use super::Shown;
use super::comparison::{Cells, Moved};
use super::facts::Facts;
use crate::eligibility::layout::bit;
use daftar_domain::calendar::days_since_epoch;
use daftar_domain::code::CodeNumber;
use daftar_domain::eligibility::{ColumnValues, Outcomes, Subject, Verdict};
use daftar_domain::record::RecordId;
use daftar_index::RowMarks;

/// The first year of each age band. A band ends at the start of the next; the last has no end. Ages that rules commonly
/// query start a band.
pub const AGE_BANDS: [u8; 14] = [0, 5, 10, 15, 18, 25, 35, 45, 55, 60, 65, 70, 75, 80];

/// Number of subjects by outcome.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Counts {
    /// All subjects.
    pub total: u64,
    /// The rule evaluates to true.
    pub eligible: u64,
    /// The rule evaluates to false.
    pub not_eligible: u64,
    /// The known facts do not determine the result.
    pub undetermined: u64,
    /// Undetermined because an error occurred while the rule was evaluated.
    pub errors: u64,
    /// By the outcomes of the rule and of the one that it is compared with. Without one its outcome counts as
    /// [`Verdict::NotEligible`].
    pub cells: Cells,
}

/// Counts of some subjects. Counts of several sets of subjects can be merged.
#[derive(Debug, Clone, Default)]
pub(super) struct Counted {
    pub counts: Counts,
    /// By code; `None` for subjects without one.
    pub by_gender: BTreeMap<Option<CodeNumber>, Counts>,
    /// By index in [`AGE_BANDS`]; `None` for subjects of unknown age.
    pub by_age_band: BTreeMap<Option<usize>, Counts>,
    /// By region in its normalized form; `None` for subjects without one.
    pub by_region: BTreeMap<Option<String>, OfRegion>,
    pub missing: BTreeMap<String, u64>,
    /// The sampled subjects, in the order of registration.
    pub sample: Vec<Shown>,
    /// The first subjects whose eligibility differs between the rules.
    pub moved: Moved,
}

/// The subjects of a region.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct OfRegion {
    /// The first subject, whose record has the spelling of the region.
    pub first: RecordId,
    pub counts: Counts,
}

/// Counts with the rows of the subjects. Regions are counted at the end, by intersection of row sets.
#[derive(Debug, Default)]
pub(super) struct SubjectCounter {
    pub counted: Counted,
    pub eligible: RowMarks,
    pub undetermined: RowMarks,
    pub errors: RowMarks,
    /// By the compared rule.
    pub compared_eligible: RowMarks,
    /// By the compared rule.
    pub compared_undetermined: RowMarks,
}

/// Requested breakdowns.
#[derive(Debug, Clone, Copy)]
pub(super) struct Breakdowns {
    pub by_gender: bool,
    pub by_age_band: bool,
    pub by_region: bool,
}

impl Counts {
    /// Adds other counts.
    fn merge(&mut self, other: Self) {
        self.total += other.total;
        self.eligible += other.eligible;
        self.not_eligible += other.not_eligible;
        self.undetermined += other.undetermined;
        self.errors += other.errors;
        self.cells.merge(other.cells);
    }

    /// Adds outcomes of one kind.
    fn add(&mut self, kind: Kind, count: u64) {
        let verdict = kind % WITH_ERROR;
        self.total += count;
        *match verdict {
            NOT_ELIGIBLE => &mut self.not_eligible,
            ELIGIBLE => &mut self.eligible,
            _ => &mut self.undetermined,
        } += count;
        if kind % COMPARED >= WITH_ERROR {
            self.errors += count;
        }
        self.cells.add((usize::from(verdict), usize::from(kind / COMPARED)), count);
    }
}

fn merge_each<K: Ord>(counts: &mut BTreeMap<K, Counts>, others: BTreeMap<K, Counts>) {
    for (key, other) in others {
        counts.entry(key).or_default().merge(other);
    }
}

impl Counted {
    /// Adds the counts of subjects that were registered later.
    pub fn merge(&mut self, later: Self) {
        self.counts.merge(later.counts);
        merge_each(&mut self.by_gender, later.by_gender);
        merge_each(&mut self.by_age_band, later.by_age_band);
        for (region, of_region) in later.by_region {
            let none = OfRegion { first: of_region.first, counts: Counts::default() };
            self.by_region.entry(region).or_insert(none).counts.merge(of_region.counts);
        }
        for (field, count) in later.missing {
            *self.missing.entry(field).or_default() += count;
        }
        self.sample.extend(later.sample);
        self.moved.merge(later.moved);
    }
}

/// Index of the counter of an outcome: its verdict, plus [`WITH_ERROR`] if there was an error, plus [`COMPARED`] times
/// the verdict of the compared rule.
type Kind = u8;
/// Offset of the kinds with an error.
const WITH_ERROR: Kind = 3;
/// Factor of the verdict of the compared rule.
const COMPARED: Kind = 6;
/// Number of kinds.
const KINDS: usize = 18;
const NOT_ELIGIBLE: Kind = Verdict::NotEligible as Kind;
const ELIGIBLE: Kind = Verdict::Eligible as Kind;
const UNDETERMINED: Kind = Verdict::Undetermined as Kind;

/// Number of outcomes of each kind.
#[derive(Debug, Clone, Copy, Default)]
struct OfKind([u32; KINDS]);

impl OfKind {
    fn count(&mut self, kind: Kind) {
        if let Some(count) = self.0.get_mut(usize::from(kind)) {
            *count += 1;
        }
    }

    fn counts(self) -> Counts {
        let mut counts = Counts::default();
        for (kind, count) in (0..).zip(self.0).filter(|(_, count)| *count > 0) {
            counts.add(kind, count.into());
        }
        counts
    }
}

impl SubjectCounter {
    /// Counts the outcomes of some subjects, also by those of the compared rule.
    pub fn add(&mut self, facts: &Facts, rows: &[u32], outcomes: &Outcomes, compared: Option<&Outcomes>) {
        let requested = facts.inquiry.question.breakdowns;
        let sums = &mut self.counted;
        let kinds = kinds(rows.len(), outcomes, compared);
        let genders = if requested.by_gender { genders(facts, rows) } else { Genders::default() };
        let bands = if requested.by_age_band { bands(facts, rows) } else { Vec::new() };
        // Counts by gender and band in one pass, so that each subject is counted once.
        let mut counted = vec![[OfKind::default(); BANDS]; genders.codes.len().max(1)];
        for (at, kind) in kinds.iter().enumerate() {
            let gender = genders.places.get(at).copied().unwrap_or_default();
            let band = bands.get(at).copied().unwrap_or_default();
            let counted = counted.get_mut(usize::from(gender)).and_then(|bands| bands.get_mut(usize::from(band)));
            if let Some(counted) = counted {
                counted.count(*kind);
            }
        }
        for (gender, bands) in counted.iter().enumerate() {
            for (band, counts) in bands.iter().map(|counted| counted.counts()).enumerate() {
                if counts.total == 0 {
                    continue;
                }
                sums.counts.merge(counts);
                if requested.by_gender {
                    sums.by_gender.entry(genders.codes.get(gender).copied().flatten()).or_default().merge(counts);
                }
                if requested.by_age_band {
                    sums.by_age_band.entry(band.checked_sub(1)).or_default().merge(counts);
                }
            }
        }
        let mut by_name = vec![0_u64; outcomes.missing_names.len()];
        for index in &outcomes.missing {
            if let Some(count) = by_name.get_mut(*index as usize) {
                *count += 1;
            }
        }
        for (name, count) in outcomes.missing_names.iter().zip(by_name).filter(|(_, count)| *count > 0) {
            *sums.missing.entry(name.clone()).or_default() += count;
        }
        if requested.by_region {
            self.eligible.merge(&marked(rows, &kinds, |kind| kind % WITH_ERROR == ELIGIBLE));
            self.undetermined.merge(&marked(rows, &kinds, |kind| kind % WITH_ERROR == UNDETERMINED));
            self.errors.merge(&marked(rows, &kinds, |kind| kind % COMPARED >= WITH_ERROR));
        }
        if let Some(compared) = compared {
            if requested.by_region {
                self.compared_eligible.merge(&marked(rows, &kinds, |kind| kind / COMPARED == ELIGIBLE));
                self.compared_undetermined.merge(&marked(rows, &kinds, |kind| kind / COMPARED == UNDETERMINED));
            }
            self.counted.moved.add(facts, rows, outcomes, compared);
        }
    }

    /// Adds the counts of other subjects.
    pub fn merge(&mut self, other: Self) {
        self.counted.merge(other.counted);
        self.eligible.merge(&other.eligible);
        self.undetermined.merge(&other.undetermined);
        self.errors.merge(&other.errors);
        self.compared_eligible.merge(&other.compared_eligible);
        self.compared_undetermined.merge(&other.compared_undetermined);
    }

    /// Returns the sets of rows that [`counts_of_marks`] requires.
    pub fn marks(&self) -> Vec<RowMarks> {
        let Self { eligible, undetermined, errors, compared_eligible, compared_undetermined, .. } = self;
        let single = [eligible, undetermined, errors, compared_eligible, compared_undetermined].map(Clone::clone);
        let second = [compared_eligible, compared_undetermined];
        let both = [eligible, undetermined].into_iter().flat_map(|one| second.map(|other| one.intersection(other)));
        single.into_iter().chain(both).collect()
    }
}

/// Returns the counts of subjects from their number in total and in each of [`SubjectCounter::marks`].
pub(super) fn counts_of_marks(total: u64, marked: &[u64]) -> Counts {
    let [eligible, undetermined, errors, second_eligible, second_undetermined, ee, eu, ue, uu] =
        std::array::from_fn(|at| marked.get(at).copied().unwrap_or_default());
    let not_eligible = total.saturating_sub(eligible).saturating_sub(undetermined);
    let mut cells = Cells::default();
    let [n, e, u] = [Verdict::NotEligible, Verdict::Eligible, Verdict::Undetermined].map(|verdict| verdict as usize);
    let (en, un) = (eligible.saturating_sub(ee + eu), undetermined.saturating_sub(ue + uu));
    let (ne, nu) = (second_eligible.saturating_sub(ee + ue), second_undetermined.saturating_sub(eu + uu));
    let nn = not_eligible.saturating_sub(ne + nu);
    let counted = [((e, e), ee), ((e, u), eu), ((e, n), en), ((u, e), ue), ((u, u), uu), ((u, n), un)];
    for (cell, count) in counted.into_iter().chain([((n, e), ne), ((n, u), nu), ((n, n), nn)]) {
        cells.add(cell, count);
    }
    Counts { total, eligible, not_eligible, undetermined, errors, cells }
}

/// Returns the kind of the outcome of each subject.
fn kinds(subjects: usize, outcomes: &Outcomes, compared: Option<&Outcomes>) -> Vec<Kind> {
    let mut kinds: Vec<Kind> = outcomes.verdicts.iter().take(subjects).map(|verdict| *verdict as Kind).collect();
    for error in &outcomes.errors {
        if let Some(kind) = kinds.get_mut(error.row as usize).filter(|kind| **kind < WITH_ERROR) {
            *kind += WITH_ERROR;
        }
    }
    for (kind, verdict) in kinds.iter_mut().zip(compared.into_iter().flat_map(|compared| &compared.verdicts)) {
        *kind += COMPARED * (*verdict as Kind);
    }
    kinds
}

/// Returns the rows of some kinds.
fn marked(rows: &[u32], kinds: &[Kind], is_marked: impl Fn(Kind) -> bool) -> RowMarks {
    let marked = rows.iter().zip(kinds).filter(|(_, kind)| is_marked(**kind)).map(|(row, _)| *row);
    RowMarks::from_sorted(&marked.collect::<Vec<u32>>())
}

/// The genders of some subjects.
#[derive(Default)]
struct Genders {
    /// The distinct genders.
    codes: Vec<Option<CodeNumber>>,
    /// For each subject the index of its gender in `codes`.
    places: Vec<u16>,
}

fn genders(facts: &Facts, rows: &[u32]) -> Genders {
    let mut genders = Genders { codes: vec![None], places: Vec::with_capacity(rows.len()) };
    let Some((valid, ColumnValues::Codes(codes))) = facts.column(Subject::Individual, "gender", rows) else {
        return genders;
    };
    for (at, code) in codes.into_iter().enumerate() {
        let code = bit(&valid, at).then_some(CodeNumber(code));
        // Linear search: there are only a few distinct genders.
        let place = genders.codes.iter().position(|known| *known == code).unwrap_or_else(|| {
            genders.codes.push(code);
            genders.codes.len() - 1
        });
        genders.places.push(u16::try_from(place).unwrap_or(u16::MAX));
    }
    genders
}

/// Number of age bands, including band 0 for subjects of unknown age or not born yet.
const BANDS: usize = AGE_BANDS.len() + 1;

/// Returns for each subject the index of its age in [`AGE_BANDS`], counted from 1; 0 if the age is unknown.
fn bands(facts: &Facts, rows: &[u32]) -> Vec<u8> {
    let Some((valid, ColumnValues::Days(days))) = facts.column(Subject::Individual, "birth_date", rows) else {
        return Vec::new();
    };
    let mut bands = bands_of(&days, &last_births(facts.inquiry.decision.as_of));
    if !valid.is_empty() {
        for (_, band) in bands.iter_mut().enumerate().filter(|(at, _)| !bit(&valid, *at)) {
            *band = 0;
        }
    }
    bands
}

/// Returns for each birth date the number of bands whose first year is reached. The inner loop compares all birth dates
/// with one limit, which the compiler can vectorize.
fn bands_of(births: &[i32], lasts: &[i32]) -> Vec<u8> {
    let mut bands = vec![0_u8; births.len()];
    for last in lasts {
        for (band, born) in bands.iter_mut().zip(births) {
            *band += u8::from(born <= last);
        }
    }
    bands
}

/// Returns for each band the latest birth date that is old enough for it, in days since 1970-01-01. An individual born
/// on 29 February has the birthday on 1 March in years without that day.
fn last_births(as_of: Date) -> [i32; AGE_BANDS.len()] {
    AGE_BANDS.map(|years| as_of.checked_sub(i64::from(years).years()).map_or(i32::MIN, days_since_epoch))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_band_begins_on_the_birthday() {
        let band = |as_of: Date, born: Date| {
            let bands = bands_of(&[days_since_epoch(born)], &last_births(as_of));
            usize::from(bands[0]).checked_sub(1).map(|at| AGE_BANDS[at])
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
