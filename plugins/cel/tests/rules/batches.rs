//! Batches and answers that are inconsistent, or contradict the schema or the rule.

use super::support::{Case, Cell, FEMALE, Record, answers, batch, bind, compile, household, person};
use daftar_cel::batch::{Batch, Children, Column, ColumnValues};
use daftar_cel::bind::{Answer, BindFault, Bindings};
use daftar_cel::columns::BatchFault;
use daftar_cel::rule::{EvaluationFault, Rule};
use daftar_cel::schema::Space;

const EXPRESSION: &str = "me.active && me.rooms > 1 && me.income.amount < 2.0 && me.gender.code == '2' \
    && me.district == 'x' && age_years(me.birth_date) > 1 && me.address.exists(a, a.district == 'y') \
    && members.exists(m, is_head(m))";

fn subject() -> Case {
    let me: Record = vec![
        ("active", Cell::Boolean(true)),
        ("rooms", Cell::Integer(2)),
        ("income.amount", Cell::Number(1.0)),
        ("gender", Cell::Code(FEMALE)),
        ("district", Cell::Text("xé")),
        ("birth_date", Cell::Day("1990-01-01")),
        ("address", Cell::Records(vec![vec![("district", Cell::Text("y"))]])),
    ];
    Case { me, ..household(vec![vec![("role", Cell::Code(1))], Vec::new()]) }
}

/// The message for an invalidated batch.
fn spoiled(spoil: impl FnOnce(&mut Batch)) -> EvaluationFault {
    let rule = compile(EXPRESSION);
    let mut batch = batch(&rule, &[subject(), subject(), subject()]);
    spoil(&mut batch);
    rule.evaluate(&bind(&rule), batch).unwrap_err()
}

fn column<'a>(batch: &'a mut Batch, path: &str) -> &'a mut Column {
    batch.columns.iter_mut().find(|column| column.path == path).unwrap()
}

#[track_caller]
fn assert_malformed(spoil: impl FnOnce(&mut Batch), words: &str) {
    match spoiled(spoil) {
        EvaluationFault::Batch(BatchFault::Malformed(sentence)) => {
            assert!(sentence.contains(words), "`{sentence}` does not say `{words}`");
        }
        other => panic!("{other:?}"),
    }
}

#[track_caller]
fn assert_missing(spoil: impl FnOnce(&mut Batch), name: &str) {
    assert_eq!(spoiled(spoil), EvaluationFault::Batch(BatchFault::MissingColumn(name.into())));
}

#[test]
fn a_sound_batch_has_an_outcome_for_each_row() {
    let rule = compile(EXPRESSION);
    let outcomes = rule.evaluate(&bind(&rule), batch(&rule, &[subject(), subject()])).unwrap();
    assert_eq!((outcomes.verdicts.len(), outcomes.missing_offsets.len()), (2, 3));
    let none = rule.evaluate(&bind(&rule), batch(&rule, &[])).unwrap();
    assert_eq!((none.verdicts.len(), none.missing_offsets), (0, vec![0]));
}

#[test]
fn every_column_of_the_rule_is_there_and_no_other() {
    assert_missing(|batch| batch.columns.retain(|column| column.path != "gender"), "me.gender");
    assert_missing(|batch| batch.columns.retain(|column| column.path != "role"), "members.role");
    assert_missing(|batch| batch.columns.retain(|column| column.path != "address"), "me.address");
    assert_missing(|batch| batch.members = None, "members");
    assert_malformed(|batch| batch.columns.push(batch.columns[0].clone()), "`me.active` too many");
    assert_malformed(
        |batch| {
            let path = "name.family".to_owned();
            batch.columns.push(Column { path, ..batch.columns[0].clone() });
        },
        "`me.name.family` too many",
    );
    assert_malformed(
        |batch| batch.programs = Some(Children { offsets: vec![0; 4], known: Vec::new() }),
        "`programs`, which the rule does not read",
    );
}

#[test]
fn every_column_is_as_long_as_its_rows() {
    assert_malformed(|batch| column(batch, "rooms").values = ColumnValues::Integers(vec![1, 2]), "2 values for 3 rows");
    assert_malformed(
        |batch| column(batch, "birth_date").values = ColumnValues::Days(vec![1; 4]),
        "4 values for 3 rows",
    );
    assert_malformed(|batch| column(batch, "role").values = ColumnValues::Codes(vec![1; 5]), "5 values for 6 rows");
    assert_malformed(|batch| batch.rows = 2, "not one more");
    assert_malformed(|batch| batch.rows = u32::MAX, "at most");
    assert_malformed(|batch| column(batch, "active").valid = vec![7, 7], "2 bytes, not 1 for 3 rows");
    assert_malformed(
        |batch| batch.members.as_mut().unwrap().known = vec![0; 9],
        "the bitmap of `members` has 9 bytes, not 1",
    );
}

#[test]
fn every_column_holds_what_the_schema_says() {
    assert_malformed(|batch| column(batch, "rooms").values = ColumnValues::Numbers(vec![1.0; 3]), "whole numbers");
    assert_malformed(|batch| column(batch, "gender").values = ColumnValues::Integers(vec![1; 3]), "codes");
    assert_malformed(|batch| column(batch, "address").values = ColumnValues::Codes(vec![1; 3]), "lists");
    assert_malformed(|batch| column(batch, "active").values = ColumnValues::Booleans(vec![2; 3]), "neither 0 nor 1");
    assert_malformed(
        |batch| column(batch, "income.amount").values = ColumnValues::Numbers(vec![f64::NAN; 3]),
        "not a number",
    );
    assert_malformed(
        |batch| column(batch, "gender").values = ColumnValues::Codes(vec![38; 3]),
        "`me.gender` holds a code whose texts were not bound",
    );
}

#[test]
fn offsets_begin_with_nothing_never_go_back_and_end_with_the_values() {
    let texts = |offsets: Vec<u32>, bytes: &[u8]| ColumnValues::Texts { offsets, bytes: bytes.to_vec() };
    for (offsets, words) in [
        (vec![0, 1, 2], "not one more"),
        (vec![], "not one more"),
        (vec![1, 1, 2, 3], "do not begin with 0"),
        (vec![0, 2, 1, 3], "go backwards"),
        (vec![0, 1, 2, 4], "do not end with its bytes"),
        (vec![0, 1, 2, 2], "do not end with its bytes"),
    ] {
        assert_malformed(|batch| column(batch, "district").values = texts(offsets, b"abc"), words);
    }
    assert_malformed(|batch| column(batch, "district").values = texts(vec![0, 1, 2, 2], "é".as_bytes()), "within a");
    assert_malformed(|batch| column(batch, "district").values = texts(vec![0, 1, 2, 3], b"a\xffb"), "not UTF-8");
    assert_malformed(|batch| column(batch, "address").values = ColumnValues::Lists(vec![0, 2, 1, 1]), "go backwards");
    assert_malformed(
        |batch| column(batch, "address").values = ColumnValues::Lists(vec![0, 1, 2, u32::MAX]),
        "longer than",
    );
    assert_malformed(
        |batch| column(batch, "address").values = ColumnValues::Lists(vec![0, 1, 2, 9]),
        "the bitmap of `me.address[].district` has 1 bytes, not 2 for 9 rows",
    );
    assert_malformed(|batch| batch.members.as_mut().unwrap().offsets = vec![0, 4, 2, 6], "go backwards");
    assert_malformed(|batch| batch.members.as_mut().unwrap().offsets = vec![0, 2, 4, 7], "6 values for 7 rows");
}

#[test]
fn a_fault_names_no_value() {
    let fault = spoiled(|batch| column(batch, "gender").values = ColumnValues::Codes(vec![4_242; 3]));
    assert!(!format!("{fault:?}").contains("4242"));
}

#[test]
fn an_empty_bitmap_means_that_every_value_is_there() {
    let rule = compile("me.rooms > 1 && size(members) == 1");
    let batch = Batch {
        as_of: 0,
        rows: 2,
        members: Some(Children { offsets: vec![0, 1, 2], known: Vec::new() }),
        programs: None,
        columns: vec![Column {
            space: Space::Me,
            path: "rooms".into(),
            valid: Vec::new(),
            values: ColumnValues::Integers(vec![2, 1]),
        }],
    };
    let outcomes = rule.evaluate(&bind(&rule), batch).unwrap();
    assert_eq!(outcomes.verdicts.iter().map(|verdict| *verdict as u8).collect::<Vec<_>>(), [1, 0]);
}

#[test]
fn there_is_one_answer_of_the_right_kind_for_each_question() {
    let rule = compile("is_female(me) && me.gender != code('urn:iso:std:iso:5218#9')");
    let refused = |rule: &Rule, answers| Bindings::new(rule.plan(), answers, []).unwrap_err();
    let mut right = answers(&rule);
    assert_eq!(refused(&rule, Vec::new()), BindFault::WrongAnswerCount);
    assert_eq!(refused(&rule, vec![right[0].clone(); 3]), BindFault::WrongAnswerCount);
    assert_eq!(refused(&rule, vec![right[0].clone(); 2]), BindFault::WrongAnswerKind(1));
    right.swap(0, 1);
    assert_eq!(refused(&rule, right), BindFault::WrongAnswerKind(0));
    assert_eq!(refused(&compile("is_female(me)"), vec![Answer::Number(1)]), BindFault::WrongAnswerKind(0));
}

#[test]
fn a_code_past_the_end_of_a_truth_table_is_false() {
    let rule = compile("is_female(me)");
    let answers = vec![Answer::Truths { truths: vec![1], missing: None }];
    let bindings = Bindings::new(rule.plan(), answers, []).unwrap();
    let subject = person(vec![("gender", Cell::Code(FEMALE))]);
    let outcomes = rule.evaluate(&bindings, batch(&rule, &[subject])).unwrap();
    assert_eq!(outcomes.verdicts[0] as u8, 0);
}
