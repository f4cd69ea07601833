//! The outcomes of a subject as one byte: a bit for each set of subjects that a preview counts.

use daftar_domain::eligibility::{Outcomes, Verdict};

/// The outcomes of a subject: the verdict, whether there was an error, and the verdict of the compared rule.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Kind(u8);

/// The bit of the eligible subjects.
pub(super) const ELIGIBLE: u8 = 0;
/// The bit of the undetermined subjects.
pub(super) const UNDETERMINED: u8 = 1;
/// The bit of the subjects with an error.
pub(super) const WITH_ERROR: u8 = 2;
/// The bit of the subjects that the compared rule makes eligible. The bits of its verdict are those of the rule, moved.
pub(super) const COMPARED_ELIGIBLE: u8 = 3;
/// The bit of the subjects that the compared rule leaves undetermined.
pub(super) const COMPARED_UNDETERMINED: u8 = 4;
/// Number of kinds.
pub(super) const KINDS: usize = 1 << 5;

/// The bits of a verdict.
const VERDICT: u8 = 1 << ELIGIBLE | 1 << UNDETERMINED;

// A verdict as a number has these bits.
const _: () = assert!(Verdict::NotEligible as u8 == 0);
const _: () = assert!(Verdict::Eligible as u8 == 1 << ELIGIBLE);
const _: () = assert!(Verdict::Undetermined as u8 == 1 << UNDETERMINED);

impl Kind {
    /// Returns the kind of that number.
    pub fn of(number: u8) -> Self {
        Self(number)
    }

    /// Returns the verdicts of the rule and of the compared one, as numbers.
    pub fn verdicts(self) -> (usize, usize) {
        (usize::from(self.0 & VERDICT), usize::from(self.0 >> COMPARED_ELIGIBLE & VERDICT))
    }

    /// Returns true if there was an error.
    pub fn has_error(self) -> bool {
        self.0 >> WITH_ERROR & 1 == 1
    }
}

/// Replaces the kinds by those of these outcomes, one byte for each subject.
pub(super) fn set_kinds(kinds: &mut Vec<u8>, outcomes: &Outcomes, compared: Option<&Outcomes>) {
    kinds.clear();
    match compared {
        None => kinds.extend(outcomes.verdicts.iter().map(|verdict| *verdict as u8)),
        Some(compared) => {
            let verdicts = outcomes.verdicts.iter().zip(&compared.verdicts);
            kinds.extend(verdicts.map(|(one, other)| *one as u8 | (*other as u8) << COMPARED_ELIGIBLE));
        }
    }
    for error in &outcomes.errors {
        if let Some(kind) = kinds.get_mut(error.row as usize) {
            *kind |= 1 << WITH_ERROR;
        }
    }
}

/// Returns the positions of the subjects that only one of the rules makes eligible. Runs of subjects on which the rules
/// agree are skipped as a whole.
pub(super) fn moved(kinds: &[u8]) -> impl Iterator<Item = (usize, Kind)> + '_ {
    const RUN: usize = 32;
    let differs = |kind: u8| (kind >> ELIGIBLE ^ kind >> COMPARED_ELIGIBLE) & 1;
    let runs = (0..).step_by(RUN).zip(kinds.chunks(RUN));
    let differing = runs.filter(move |(_, run)| run.iter().fold(0, |any, kind| any | differs(*kind)) != 0);
    differing.flat_map(move |(first, run)| {
        let subjects = (first..).zip(run).filter(move |(_, kind)| differs(**kind) != 0);
        subjects.map(|(at, kind)| (at, Kind(*kind)))
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use daftar_domain::eligibility::RowError;

    fn outcomes(verdicts: Vec<Verdict>, failed: &[u32]) -> Outcomes {
        let error = |row: &u32| RowError { row: *row, code: "overflow".to_owned(), line: 1, column: 1 };
        Outcomes {
            missing_offsets: vec![0; verdicts.len() + 1],
            verdicts,
            missing_names: Vec::new(),
            missing: Vec::new(),
            errors: failed.iter().map(error).collect(),
        }
    }

    #[test]
    fn a_kind_has_both_verdicts_and_the_error() {
        let pairs: Vec<(Verdict, Verdict)> =
            Verdict::ALL.iter().flat_map(|one| Verdict::ALL.iter().map(|other| (*one, *other))).collect();
        let (first, second): (Vec<Verdict>, Vec<Verdict>) = pairs.iter().copied().unzip();
        let (first, second) = (outcomes(first, &[7]), outcomes(second, &[0]));
        let mut kinds = vec![u8::MAX; 3];
        set_kinds(&mut kinds, &first, Some(&second));
        let found: Vec<(usize, usize)> = kinds.iter().map(|kind| Kind::of(*kind).verdicts()).collect();
        let expected: Vec<(usize, usize)> = pairs.iter().map(|(one, other)| (*one as usize, *other as usize)).collect();
        assert_eq!(found, expected);
        let failed: Vec<usize> = (0..kinds.len()).filter(|at| Kind::of(kinds[*at]).has_error()).collect();
        assert_eq!(failed, [7], "only errors of the first rule are counted");
        assert!(kinds.iter().all(|kind| usize::from(*kind) < KINDS));
        set_kinds(&mut kinds, &first, None);
        assert!(kinds.iter().all(|kind| Kind::of(*kind).verdicts().1 == Verdict::NotEligible as usize));
    }

    #[test]
    fn moved_subjects_are_found_in_any_run() {
        let verdict = |at: usize, step: usize| Verdict::ALL[at / step % 3];
        for rows in [0, 1, 31, 32, 33, 200] {
            let verdicts: Vec<(Verdict, Verdict)> = (0..rows).map(|at| (verdict(at, 3), verdict(at, 40))).collect();
            let (first, second): (Vec<Verdict>, Vec<Verdict>) = verdicts.iter().copied().unzip();
            let mut kinds = Vec::new();
            set_kinds(&mut kinds, &outcomes(first, &[]), Some(&outcomes(second, &[])));
            let is_moved = |at: &usize| {
                let (one, other) = verdicts[*at];
                (one == Verdict::Eligible) != (other == Verdict::Eligible)
            };
            let expected: Vec<usize> = (0..rows).filter(is_moved).collect();
            assert_eq!(moved(&kinds).map(|(at, _)| at).collect::<Vec<_>>(), expected, "{rows}");
        }
    }
}
