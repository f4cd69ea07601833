//! Responses of an engine that match their batch, and others.

use super::*;

fn answer() -> wire::Outcomes {
    wire::Outcomes {
        verdicts: vec![0, 2, 2],
        missing_names: vec!["me.gender".to_owned(), "me.birth_date".to_owned()],
        missing_offsets: vec![0, 0, 2, 2],
        missing: vec![1, 0],
        errors: vec![wire::RowError { row: 2, code: "overflow".to_owned(), line: 1, column: 3 }],
    }
}

fn complaint(change: impl FnOnce(&mut wire::Outcomes)) -> String {
    let mut answer = answer();
    change(&mut answer);
    match outcomes(answer, 3) {
        Err(CallError::InvalidAnswer(reason)) => reason,
        other => panic!("{other:?}"),
    }
}

#[test]
fn valid_outcomes_are_unchanged() {
    let read = outcomes(answer(), 3).unwrap();
    assert_eq!(read.verdicts, [Verdict::NotEligible, Verdict::Undetermined, Verdict::Undetermined]);
    assert_eq!(read.missing_of(1), ["me.birth_date", "me.gender"]);
    assert!(read.missing_of(0).is_empty());
    assert_eq!(read.errors.len(), 1);
}

#[test]
fn a_batch_without_rows_has_empty_outcomes() {
    let empty = wire::Outcomes {
        verdicts: Vec::new(),
        missing_names: Vec::new(),
        missing_offsets: vec![0],
        missing: Vec::new(),
        errors: Vec::new(),
    };
    assert!(outcomes(empty, 0).unwrap().verdicts.is_empty());
}

#[test]
fn outcomes_that_do_not_match_their_batch_are_rejected() {
    assert!(complaint(|answer| answer.verdicts.push(0)).contains("4 verdicts for 3 rows"));
    assert!(complaint(|answer| answer.verdicts[0] = 3).contains("3 is not a verdict"));
    assert!(complaint(|answer| answer.missing_offsets.truncate(2)).contains("do not cover"));
    assert!(complaint(|answer| answer.missing_offsets[3] = 9).contains("do not cover"));
    assert!(complaint(|answer| answer.missing_offsets[1] = u32::MAX).contains("go backwards"));
    assert!(complaint(|answer| answer.missing[0] = 2).contains("no name at 2"));
    assert!(complaint(|answer| answer.missing.swap(0, 1)).contains("not sorted"));
    assert!(complaint(|answer| answer.verdicts[1] = 1).contains("a determined row"));
    assert!(complaint(|answer| answer.errors[0].row = 3).contains("no row 3"));
    assert!(complaint(|answer| answer.errors[0].row = 0).contains("row 0 is determined"));
    assert!(complaint(|answer| answer.errors.push(answer.errors[0].clone())).contains("two errors"));
}
