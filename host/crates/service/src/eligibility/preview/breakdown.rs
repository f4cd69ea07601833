//! Counts the outcomes of a rule for many subjects, in total and by breakdown.

use std::borrow::Cow;
use std::collections::BTreeMap;

use super::Shown;
use super::bands::{AgeBands, BANDS};
use super::comparison::{Cells, Moved};
use super::facts::Facts;
use super::kinds::{
    COMPARED_ELIGIBLE, COMPARED_UNDETERMINED, ELIGIBLE, KINDS, Kind, UNDETERMINED, WITH_ERROR, set_kinds,
};
use daftar_domain::code::CodeNumber;
use daftar_domain::eligibility::{Batch, ColumnValues, Outcomes, RowSpace, Subject, Verdict};
use daftar_domain::record::RecordId;
use daftar_index::{RowBits, RowMarks};

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
    /// By index in [`AGE_BANDS`](super::AGE_BANDS); `None` for subjects of unknown age.
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
        let (verdict, compared) = kind.verdicts();
        self.total += count;
        *match verdict {
            NOT_ELIGIBLE => &mut self.not_eligible,
            IS_ELIGIBLE => &mut self.eligible,
            _ => &mut self.undetermined,
        } += count;
        if kind.has_error() {
            self.errors += count;
        }
        self.cells.add((verdict, compared), count);
    }
}

fn merge_each<K: Ord>(counts: &mut BTreeMap<K, Counts>, others: BTreeMap<K, Counts>) {
    for (key, other) in others {
        counts.entry(key).or_default().merge(other);
    }
}

impl Counted {
    /// Counts the missing facts of a batch.
    fn add_missing(&mut self, outcomes: &Outcomes) {
        let mut by_name = vec![0_u64; outcomes.missing_names.len()];
        for index in &outcomes.missing {
            if let Some(count) = by_name.get_mut(*index as usize) {
                *count += 1;
            }
        }
        for (name, count) in outcomes.missing_names.iter().zip(by_name).filter(|(_, count)| *count > 0) {
            *self.missing.entry(name.clone()).or_default() += count;
        }
    }

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

/// Verdicts as numbers.
const NOT_ELIGIBLE: usize = Verdict::NotEligible as usize;
const IS_ELIGIBLE: usize = Verdict::Eligible as usize;
/// Number of counters of a gender.
const OF_GENDER: usize = BANDS * KINDS;

/// Returns the sums of the counters of all kinds.
fn counts_of(kinds: &[u32]) -> Counts {
    let mut counts = Counts::default();
    for (kind, count) in (0..).zip(kinds).filter(|(_, count)| **count > 0) {
        counts.add(Kind::of(kind), u64::from(*count));
    }
    counts
}

/// Number of subjects that are counted together: as many as a word has bits.
const BLOCK: usize = 64;

/// Counts the outcomes of a time slice: one counter for each gender, age band and kind, and the rows as bits.
#[derive(Debug, Default)]
pub(super) struct SliceCounter {
    /// The kind of each subject of the current batch.
    kinds: Vec<u8>,
    bands: Option<AgeBands>,
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
        let Self { kinds, bands, genders, counters, found } = self;
        set_kinds(kinds, outcomes, compared);
        let of_field = |path| Recorded::of(facts, rows, batch, path);
        let births = if requested.by_age_band { of_field("birth_date") } else { None };
        let codes = if requested.by_gender { of_field("gender") } else { None };
        let bands = bands.get_or_insert_with(|| AgeBands::of(facts.inquiry.decision.as_of));
        for (block, kinds) in kinds.chunks(BLOCK).enumerate() {
            // The number of the counter of each subject, so that each subject is counted once.
            let mut places = [0_u32; BLOCK];
            places.iter_mut().zip(kinds).for_each(|(place, kind)| *place = u32::from(*kind));
            if let Some((births, recorded)) = births.as_ref().and_then(|births| births.days(block)) {
                for (at, (place, born)) in places.iter_mut().zip(births).enumerate() {
                    let band = u32::from(bands.band(*born)) * recorded_bit(recorded, at);
                    *place += band * KINDS as u32;
                }
            }
            if let Some((codes, recorded)) = codes.as_ref().and_then(|codes| codes.codes(block)) {
                for (at, (place, code)) in places.iter_mut().zip(codes).enumerate() {
                    *place += genders.index(*code) * recorded_bit(recorded, at) * OF_GENDER as u32;
                }
            }
            let wanted = genders.codes.len() * OF_GENDER;
            if counters.len() < wanted {
                counters.resize(wanted, 0);
            }
            for place in places.iter().take(kinds.len()) {
                if let Some(counter) = counters.get_mut(*place as usize) {
                    *counter += 1;
                }
            }
        }
        found.counted.add_missing(outcomes);
        if requested.by_region {
            found.eligible.add(rows, kinds, ELIGIBLE);
            found.undetermined.add(rows, kinds, UNDETERMINED);
            found.errors.add(rows, kinds, WITH_ERROR);
            if compared.is_some() {
                found.compared_eligible.add(rows, kinds, COMPARED_ELIGIBLE);
                found.compared_undetermined.add(rows, kinds, COMPARED_UNDETERMINED);
            }
        }
        if compared.is_some() {
            found.counted.moved.add(facts, rows, kinds);
        }
    }

    /// Returns the counts of all batches.
    pub fn finish(self, requested: Breakdowns) -> SubjectCounter {
        let Self { genders, counters, mut found, .. } = self;
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

/// A field of the individuals of a batch: from the batch if the rule reads the field, otherwise from the columns of the
/// register.
struct Recorded<'b> {
    valid: Cow<'b, [u8]>,
    values: Cow<'b, ColumnValues>,
}

impl<'b> Recorded<'b> {
    fn of(facts: &Facts, rows: &[u32], batch: &'b Batch, path: &str) -> Option<Self> {
        let mut sent = batch.columns.iter();
        match sent.find(|column| column.space == RowSpace::Me && column.path == path) {
            Some(column) => Some(Self { valid: Cow::Borrowed(&column.valid), values: Cow::Borrowed(&column.values) }),
            None => {
                let (valid, values) = facts.column(Subject::Individual, path, rows)?;
                Some(Self { valid: Cow::Owned(valid), values: Cow::Owned(values) })
            }
        }
    }

    /// Returns the days of a block, and the bits of those that are recorded.
    fn days(&self, block: usize) -> Option<(&[i32], u64)> {
        let ColumnValues::Days(days) = &*self.values else { return None };
        Some((days.chunks(BLOCK).nth(block)?, self.recorded(block)))
    }

    /// Returns the codes of a block, and the bits of those that are recorded.
    fn codes(&self, block: usize) -> Option<(&[u32], u64)> {
        let ColumnValues::Codes(codes) = &*self.values else { return None };
        Some((codes.chunks(BLOCK).nth(block)?, self.recorded(block)))
    }

    /// Returns the bits of the recorded values of a block. An empty bitmap has all bits set.
    fn recorded(&self, block: usize) -> u64 {
        if self.valid.is_empty() {
            return u64::MAX;
        }
        let mut bytes = [0; BLOCK / 8];
        let of_block = self.valid.chunks(BLOCK / 8).nth(block).unwrap_or_default();
        bytes.iter_mut().zip(of_block).for_each(|(to, from)| *to = *from);
        u64::from_le_bytes(bytes)
    }
}

/// Returns 1 for a recorded value of a block, otherwise 0.
fn recorded_bit(recorded: u64, at: usize) -> u32 {
    u32::from(recorded >> (at % BLOCK) & 1 == 1)
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
    /// Returns the index of a code in `codes`.
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
