//! Counts the outcomes of a rule for many subjects, in total and by breakdown.

use std::borrow::Cow;
use std::collections::BTreeMap;

use jiff::ToSpan;
use jiff::civil::Date;

use super::Shown;
use super::comparison::{Cells, Moved};
use super::facts::Facts;
use crate::eligibility::layout::unset;
use daftar_domain::calendar::days_since_epoch;
use daftar_domain::code::CodeNumber;
use daftar_domain::eligibility::{Batch, ColumnValues, Outcomes, RowSpace, Subject, Verdict};
use daftar_domain::record::RecordId;
use daftar_index::{RowBits, RowMarks};

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
    pub eligible: RowBits,
    pub undetermined: RowBits,
    pub errors: RowBits,
    /// By the compared rule.
    pub compared_eligible: RowBits,
    /// By the compared rule.
    pub compared_undetermined: RowBits,
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

/// Kind of an outcome: its verdict, plus [`WITH_ERROR`] if there was an error, plus [`COMPARED`] times the verdict of the
/// compared rule.
type Kind = u8;
/// Offset of the kinds with an error.
const WITH_ERROR: Kind = 3;
/// Factor of the verdict of the compared rule.
const COMPARED: Kind = 6;
const NOT_ELIGIBLE: Kind = Verdict::NotEligible as Kind;
const ELIGIBLE: Kind = Verdict::Eligible as Kind;
const UNDETERMINED: Kind = Verdict::Undetermined as Kind;
/// Number of counters of a band: one for each of the 18 kinds, rounded up.
const KINDS: usize = 32;
/// Number of counters of a gender.
const OF_GENDER: usize = BANDS * KINDS;

/// Returns the sums of the counters of all kinds.
fn counts_of(kinds: &[u32]) -> Counts {
    let mut counts = Counts::default();
    for (kind, count) in (0..).zip(kinds).filter(|(_, count)| **count > 0) {
        counts.add(kind, u64::from(*count));
    }
    counts
}

/// Counts the outcomes of a time slice: one counter for each gender, age band and kind, and the rows as bits.
#[derive(Debug, Default)]
pub(super) struct SliceCounter {
    genders: Genders,
    /// The counters by gender, band and kind.
    counters: Vec<u32>,
    found: SubjectCounter,
}

impl SliceCounter {
    /// Counts the outcomes of a batch, also by those of the compared rule.
    pub fn add(
        &mut self,
        facts: &Facts,
        rows: &[u32],
        batch: &Batch,
        (outcomes, compared): (&Outcomes, Option<&Outcomes>),
    ) {
        let requested = facts.inquiry.question.breakdowns;
        let kinds = kinds(rows.len(), outcomes, compared);
        // The number of the counter of each subject, so that each subject is counted once.
        let mut places: Vec<u32> = kinds.iter().map(|kind| u32::from(*kind)).collect();
        if requested.by_age_band {
            let bands = bands(facts, rows, batch);
            places.iter_mut().zip(bands).for_each(|(place, band)| *place += u32::from(band) * KINDS as u32);
        }
        if requested.by_gender {
            self.genders.add(facts, rows, batch, &mut places);
        }
        self.counters.resize(self.genders.codes.len().max(1) * OF_GENDER, 0);
        for place in places {
            if let Some(counter) = self.counters.get_mut(place as usize) {
                *counter += 1;
            }
        }
        let mut by_name = vec![0_u64; outcomes.missing_names.len()];
        for index in &outcomes.missing {
            if let Some(count) = by_name.get_mut(*index as usize) {
                *count += 1;
            }
        }
        for (name, count) in outcomes.missing_names.iter().zip(by_name).filter(|(_, count)| *count > 0) {
            *self.found.counted.missing.entry(name.clone()).or_default() += count;
        }
        let found = &mut self.found;
        if requested.by_region {
            let flags = |is_marked: fn(Kind) -> bool| -> Vec<u8> {
                kinds.iter().map(|kind| u8::from(is_marked(*kind))).collect()
            };
            found.eligible.add(rows, &flags(|kind| kind % WITH_ERROR == ELIGIBLE));
            found.undetermined.add(rows, &flags(|kind| kind % WITH_ERROR == UNDETERMINED));
            found.errors.add(rows, &flags(|kind| kind % COMPARED >= WITH_ERROR));
            if compared.is_some() {
                found.compared_eligible.add(rows, &flags(|kind| kind / COMPARED == ELIGIBLE));
                found.compared_undetermined.add(rows, &flags(|kind| kind / COMPARED == UNDETERMINED));
            }
        }
        if let Some(compared) = compared {
            found.counted.moved.add(facts, rows, outcomes, compared);
        }
    }

    /// Returns the counts of all batches.
    pub fn finish(self, requested: Breakdowns) -> SubjectCounter {
        let Self { genders, counters, mut found } = self;
        let sums = &mut found.counted;
        for (gender, bands) in counters.chunks(OF_GENDER).enumerate() {
            for (band, counts) in bands.chunks(KINDS).map(counts_of).enumerate() {
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
        found
    }
}

impl SubjectCounter {
    /// Adds the counts of other subjects.
    pub fn merge(&mut self, other: Self) {
        self.counted.merge(other.counted);
        self.eligible.merge(other.eligible);
        self.undetermined.merge(other.undetermined);
        self.errors.merge(other.errors);
        self.compared_eligible.merge(other.compared_eligible);
        self.compared_undetermined.merge(other.compared_undetermined);
    }

    /// Returns the sets of rows that [`counts_of_marks`] requires.
    pub fn marks(&self) -> Vec<RowMarks> {
        let Self { eligible, undetermined, errors, compared_eligible, compared_undetermined, .. } = self;
        let single = [eligible, undetermined, errors, compared_eligible, compared_undetermined].map(RowBits::marks);
        let [eligible, undetermined, _, second @ ..] = &single;
        let both = [eligible, undetermined].map(|one| second.each_ref().map(|other| one.intersection(other)));
        single.iter().cloned().chain(both.into_iter().flatten()).collect()
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

/// Returns a field of the individuals of a batch: from the batch if the rule reads the field, otherwise from the
/// columns of the register.
fn column<'b>(
    facts: &Facts,
    rows: &[u32],
    batch: &'b Batch,
    path: &str,
) -> Option<(Cow<'b, [u8]>, Cow<'b, ColumnValues>)> {
    let mut sent = batch.columns.iter();
    match sent.find(|column| column.space == RowSpace::Me && column.path == path) {
        Some(column) => Some((Cow::Borrowed(&column.valid), Cow::Borrowed(&column.values))),
        None => {
            let (valid, values) = facts.column(Subject::Individual, path, rows)?;
            Some((Cow::Owned(valid), Cow::Owned(values)))
        }
    }
}

/// The distinct genders of some subjects.
#[derive(Debug)]
struct Genders {
    /// The first one is `None`.
    codes: Vec<Option<CodeNumber>>,
    /// The last codes that were found, with their indices in `codes`.
    last: [(u32, u32); LAST_GENDERS],
}

/// Number of cached genders. The codes of a vocabulary have consecutive numbers, so few of them share a place.
const LAST_GENDERS: usize = 8;

impl Default for Genders {
    fn default() -> Self {
        Self { codes: vec![None], last: [(u32::MAX, 0); LAST_GENDERS] }
    }
}

impl Genders {
    /// Adds the gender of each subject to the number of its counter.
    fn add(&mut self, facts: &Facts, rows: &[u32], batch: &Batch, places: &mut [u32]) {
        let Some((valid, values)) = column(facts, rows, batch, "gender") else { return };
        let ColumnValues::Codes(codes) = &*values else { return };
        let of_gender = |index: u32| index * OF_GENDER as u32;
        let mut indices: Vec<u32> = codes.iter().map(|code| self.index(*code)).collect();
        for row in unset(&valid, indices.len()) {
            if let Some(index) = indices.get_mut(row) {
                *index = 0;
            }
        }
        places.iter_mut().zip(indices).for_each(|(place, index)| *place += of_gender(index));
    }

    fn index(&mut self, code: u32) -> u32 {
        match self.last.get(code as usize % LAST_GENDERS) {
            Some((known, index)) if *known == code => *index,
            _ => self.find(code),
        }
    }

    /// Linear search: there are only a few distinct genders.
    #[cold]
    fn find(&mut self, code: u32) -> u32 {
        let code_number = Some(CodeNumber(code));
        let index = self.codes.iter().position(|known| *known == code_number).unwrap_or_else(|| {
            self.codes.push(code_number);
            self.codes.len() - 1
        });
        let index = u32::try_from(index).unwrap_or_default();
        if let Some(cached) = self.last.get_mut(code as usize % LAST_GENDERS) {
            *cached = (code, index);
        }
        index
    }
}

/// Number of age bands, including band 0 for subjects of unknown age or not born yet.
const BANDS: usize = AGE_BANDS.len() + 1;

/// Returns for each subject the index of its age in [`AGE_BANDS`], counted from 1; 0 if the age is unknown.
fn bands(facts: &Facts, rows: &[u32], batch: &Batch) -> Vec<u8> {
    let Some((valid, values)) = column(facts, rows, batch, "birth_date") else { return Vec::new() };
    let ColumnValues::Days(days) = &*values else { return Vec::new() };
    let mut bands = bands_of(days, &last_births(facts.inquiry.decision.as_of));
    for row in unset(&valid, bands.len()) {
        if let Some(band) = bands.get_mut(row) {
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
