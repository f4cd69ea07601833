use std::collections::BTreeSet;

use super::*;
use crate::stored::{bytes_of, take};

fn rows_of(posting: &Posting) -> Vec<u32> {
    let inside = |segment| posting.segment(segment).map(Cow::into_owned).unwrap_or_default();
    (0..4).flat_map(|segment| inside(segment).into_iter().map(move |low| join(segment, low))).collect()
}

#[test]
fn contains_the_same_rows_as_a_list_and_as_bitmaps() {
    let mut posting = Posting::default();
    let mut expected = BTreeSet::new();
    for step in 0..1_000_u32 {
        let row = step.wrapping_mul(2_654_435_761) % 200_000;
        posting.insert(row);
        posting.insert(row);
        expected.insert(row);
        if step % 100 == 0 || step == FEW_MAX as u32 || step == FEW_MAX as u32 + 1 {
            assert!(rows_of(&posting).into_iter().eq(expected.iter().copied()), "{step}");
            assert_eq!(posting.len(), expected.len() as u64);
        }
    }
    assert!(matches!(posting, Posting::Many(_)));
    let before = posting.clone();
    for row in expected.clone() {
        posting.remove(row);
        posting.remove(row);
    }
    assert!(posting.is_empty());
    assert!(rows_of(&before).into_iter().eq(expected));
}

#[test]
fn rows_added_together_are_those_added_one_by_one() {
    for (first, step) in [(0, 1), (0, 300), (100, 700), (40_000, 3)] {
        for count in [1, 2, FEW_MAX, FEW_MAX + 1, 2_000] {
            let mut together: Posting = Posting::of(500);
            let mut one_by_one = together.clone();
            let rows = (0..count as u32).map(|at| first + at * step);
            for rows in [rows.clone(), rows] {
                together.extend(rows.clone());
                rows.for_each(|row| one_by_one.insert(row));
                assert_eq!(rows_of(&together), rows_of(&one_by_one), "{first} {step} {count}");
            }
        }
    }
}

#[test]
fn reads_back_as_a_list_and_as_bitmaps() {
    for (count, step) in [(0, 1), (1, 1), (FEW_MAX, 300), (FEW_MAX + 1, 300), (3_000, 70), (9_000, 1)] {
        let mut posting = Posting::default();
        (0..count as u32).for_each(|at| posting.insert(at * step + 65_000));
        let bytes = bytes_of(&posting);
        let mut from = bytes.as_slice();
        let read: Posting = take(&mut from).unwrap();
        assert!(from.is_empty());
        assert_eq!(rows_of(&read), rows_of(&posting), "{count}");
        for cut in [0, 1, bytes.len() / 2, bytes.len() - 1] {
            assert!(take::<Posting>(&mut &bytes[..cut]).is_err(), "{count} {cut}");
        }
    }
    let twice = bytes_of(&Posting::Few(Arc::new([5, 5])));
    assert!(take::<Posting>(&mut twice.as_slice()).is_err(), "a row occurs twice");
    assert!(take::<Posting>(&mut [7_u8].as_slice()).is_err());
}

#[test]
fn unites_any_number_of_rows() {
    for count in [0, 1, SORTED_MAX, SORTED_MAX + 1, 3 * SORTED_MAX] {
        let rows: Vec<u32> = (0..count as u32).map(|step| step.wrapping_mul(2_654_435_761) % 300_000).collect();
        let postings: Vec<Posting> = rows.iter().copied().map(Posting::of).collect();
        let expected: BTreeSet<u32> = rows.into_iter().collect();
        let union = RowSet::union(&postings);
        let inside = |segment| union.segment(segment).cloned().unwrap_or_default();
        let found = (0..6).flat_map(|segment| inside(segment).into_iter().map(move |low| join(segment, low)));
        assert!(found.eq(expected), "{count}");
    }
}

#[test]
fn unites_lists_and_bitmaps() {
    let mut many = Posting::default();
    for row in 0..1_000 {
        many.insert(row * 3);
    }
    let few = Posting::of(70_000);
    let both = Posting::of(3);
    let union = RowSet::union([&many, &few, &both, &few]);
    assert_eq!(union.len(), 1_001);
    assert!(union.segment(1).unwrap().contains(70_000 - SEGMENT_ROWS));
    assert!(union.segment(2).is_none());
}
