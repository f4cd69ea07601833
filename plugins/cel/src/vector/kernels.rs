//! Comparisons of columns: short branchless loops, which compile to SIMD instructions.

use super::days::DayRange;
use super::lane::{Lane, Values, Vector};
use super::{NO, Truth, UNKNOWN, YES};
use crate::leaf::compare_mixed;
use crate::tree::Comparison;

/// A known truth.
pub fn known(truth: bool) -> Truth {
    u8::from(truth) << 1
}

/// Kleene's "and", into the first operand.
pub fn and(truths: &mut [Truth], others: &[Truth]) {
    for (truth, other) in truths.iter_mut().zip(others) {
        *truth = (*truth).min(*other);
    }
}

/// Kleene's "or", into the first operand.
pub fn or(truths: &mut [Truth], others: &[Truth]) {
    for (truth, other) in truths.iter_mut().zip(others) {
        *truth = (*truth).max(*other);
    }
}

/// Kleene's "not".
pub fn not(truths: &mut [Truth]) {
    for truth in truths {
        *truth = YES.wrapping_sub(*truth);
    }
}

/// A choice between two truths by a third; unknown if that is.
pub fn choose(choice: &mut [Truth], then: &[Truth], otherwise: &[Truth]) {
    for (choice, (then, otherwise)) in choice.iter_mut().zip(then.iter().zip(otherwise)) {
        *choice = match *choice {
            YES => *then,
            NO => *otherwise,
            _ => UNKNOWN,
        };
    }
}

/// Compares two vectors of one type, or of numbers of both; none for others.
pub fn compare<'a>(comparison: Comparison, left: &Vector<'a>, right: &Vector<'a>, rows: usize) -> Option<Vec<Truth>> {
    Some(match (left, right) {
        (Vector::Integers(left), Vector::Integers(right)) => compare_lanes(comparison, left, right, rows),
        (Vector::Numbers(left), Vector::Numbers(right)) => compare_lanes(comparison, left, right, rows),
        (Vector::Days(left), Vector::Days(right)) => compare_lanes(comparison, left, right, rows),
        (Vector::Codes(left), Vector::Codes(right)) => compare_lanes(comparison, left, right, rows),
        (Vector::Texts(left), Vector::Texts(right)) => compare_lanes(comparison, left, right, rows),
        (Vector::Integers(left), Vector::Numbers(right)) => {
            let truths =
                left.values.zip(&right.values, |left, right| known(comparison.holds(compare_mixed(left, right))));
            unknown_of(truths, left, right, rows)
        }
        (Vector::Numbers(left), Vector::Integers(right)) => {
            let truths = left.values.zip(&right.values, |left, right| {
                known(comparison.holds(compare_mixed(right, left).map(std::cmp::Ordering::reverse)))
            });
            unknown_of(truths, left, right, rows)
        }
        _ => return None,
    })
}

fn compare_lanes<T: Copy + PartialOrd>(
    comparison: Comparison,
    left: &Lane<'_, T>,
    right: &Lane<'_, T>,
    rows: usize,
) -> Vec<Truth> {
    let (these, those) = (&left.values, &right.values);
    // One loop for each comparison, without branches inside.
    let truths = match comparison {
        Comparison::Equal => these.zip(those, |this, that| known(this == that)),
        Comparison::NotEqual => these.zip(those, |this, that| known(this != that)),
        Comparison::Less => these.zip(those, |this, that| known(this < that)),
        Comparison::LessOrEqual => these.zip(those, |this, that| known(this <= that)),
        Comparison::Greater => these.zip(those, |this, that| known(this > that)),
        Comparison::GreaterOrEqual => these.zip(those, |this, that| known(this >= that)),
    };
    unknown_of(truths, left, right, rows)
}

/// Truths that are known where both operands are.
pub fn unknown_of<T: Copy, U: Copy>(
    truths: Values<'_, Truth>,
    left: &Lane<'_, T>,
    right: &Lane<'_, U>,
    rows: usize,
) -> Vec<Truth> {
    let mut truths = truths.into_vec(rows);
    left.known.apply(&mut truths);
    right.known.apply(&mut truths);
    truths
}

/// Compares two columns of truths.
pub fn compare_truths(comparison: Comparison, truths: &mut [Truth], others: &[Truth]) {
    for (truth, other) in truths.iter_mut().zip(others) {
        let is_known = *truth != UNKNOWN && *other != UNKNOWN;
        *truth = if is_known { known(comparison.holds(Some((*truth).cmp(other)))) } else { UNKNOWN };
    }
}

/// The days in a range.
pub fn days(days: &Lane<'_, i32>, range: DayRange, rows: usize) -> Vec<Truth> {
    let truths = match range.ends() {
        None => Values::One(NO),
        Some((lowest, highest)) => {
            // Days below the lowest wrap to high numbers, so that one comparison is enough.
            let width = highest.wrapping_sub(lowest).cast_unsigned();
            days.values.map(|day| known(day.wrapping_sub(lowest).cast_unsigned() <= width))
        }
    };
    let mut truths = truths.into_vec(rows);
    days.known.apply(&mut truths);
    truths
}

/// The codes in a truth table of the host.
pub fn is_in_table(codes: &Lane<'_, u32>, table: &[u8], rows: usize) -> Vec<Truth> {
    let truths = codes.values.map(|code| {
        // The host's 0 is no, 1 is yes and everything else is unknown. Comparisons without branches.
        let truth = table.get(code as usize).copied().unwrap_or(0);
        if truth == 1 { YES } else { truth.min(UNKNOWN) }
    });
    let mut truths = truths.into_vec(rows);
    codes.known.apply(&mut truths);
    truths
}
