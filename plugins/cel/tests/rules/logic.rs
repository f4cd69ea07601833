//! Truth tables: every logical operation with every combination of true, false, missing and error.

use super::support::{Case, Cell, ask, check, compile, evaluate, person};

/// A subject with `active` recorded as true and `insured` missing.
fn subject() -> Case {
    person(vec![("active", Cell::Boolean(true)), ("dependants", Cell::Integer(3))])
}

const MISSING: &str = "me.insured";
const ERROR: &str = "1 / 0 == 1";

/// The outcome of an expression that fails where `ERROR` begins at that column.
fn failed(column: usize) -> String {
    format!("? division_by_zero@1:{}", column + 2)
}

#[test]
fn and_is_false_whenever_one_side_is() {
    for (left, right, expected) in [
        ("true", "true", "yes"),
        ("true", "false", "no"),
        ("false", "false", "no"),
        ("true", MISSING, "? me.insured"),
        ("false", MISSING, "no"),
        (MISSING, MISSING, "? me.insured"),
        ("false", ERROR, "no"),
    ] {
        assert_eq!(ask(&format!("{left} && {right}"), &subject()), expected, "{left} && {right}");
        assert_eq!(ask(&format!("{right} && {left}"), &subject()), expected, "{right} && {left}");
    }
    assert_eq!(ask(&format!("true && {ERROR}"), &subject()), failed(9));
    assert_eq!(ask(&format!("{ERROR} && true"), &subject()), failed(1));
}

#[test]
fn or_is_true_whenever_one_side_is() {
    for (left, right, expected) in [
        ("true", "true", "yes"),
        ("true", "false", "yes"),
        ("false", "false", "no"),
        ("true", MISSING, "yes"),
        ("false", MISSING, "? me.insured"),
        (MISSING, MISSING, "? me.insured"),
        ("true", ERROR, "yes"),
    ] {
        assert_eq!(ask(&format!("{left} || {right}"), &subject()), expected, "{left} || {right}");
        assert_eq!(ask(&format!("{right} || {left}"), &subject()), expected, "{right} || {left}");
    }
    assert_eq!(ask(&format!("false || {ERROR}"), &subject()), failed(10));
}

#[test]
fn not_keeps_what_is_missing() {
    check(
        &subject(),
        &[("!true", "no"), ("not me.active", "no"), ("!me.insured", "? me.insured"), ("!!me.insured", "? me.insured")],
    );
    assert_eq!(ask(&format!("!({ERROR})"), &subject()), failed(3));
}

#[test]
fn missing_facts_and_an_error_stand_side_by_side() {
    check(
        &subject(),
        &[
            ("me.insured && 1 / 0 == 1", "? me.insured division_by_zero@1:17"),
            ("1 / 0 == 1 || me.insured", "? me.insured division_by_zero@1:3"),
            ("me.rooms / 0 == 1", "? me.rooms"),
            ("me.rooms + 1 / 0 == 1", "? me.rooms division_by_zero@1:14"),
        ],
    );
}

#[test]
fn of_two_errors_the_first_in_the_text_is_reported() {
    check(
        &subject(),
        &[
            ("1 / 0 == 1 && 2 % 0 == 1", "? division_by_zero@1:3"),
            ("9223372036854775807 + 1 == 1 || 2 % 0 == 1", "? overflow@1:21"),
            ("me.insured &&\n  1 / 0 == 1", "? me.insured division_by_zero@2:5"),
        ],
    );
}

#[test]
fn every_fact_that_the_answer_depends_on_is_named_once_and_sorted() {
    check(
        &subject(),
        &[
            ("me.rooms > 1 && me.insured && me.income.amount < 5.0", "? me.income.amount me.insured me.rooms"),
            ("me.rooms > me.rooms && me.insured", "? me.insured me.rooms"),
            ("me.rooms > 1 && (me.insured || me.active)", "? me.rooms"),
            ("me.insured || (me.active && me.rooms > 1)", "? me.insured me.rooms"),
            ("(me.insured && false) || me.rooms > 1", "? me.rooms"),
        ],
    );
}

#[test]
fn a_ternary_is_known_where_both_branches_agree() {
    check(
        &subject(),
        &[
            ("me.active ? true : me.insured", "yes"),
            ("me.active ? me.insured : true", "? me.insured"),
            ("me.insured ? true : true", "yes"),
            ("me.insured ? false : false", "no"),
            ("me.insured ? true : false", "? me.insured"),
            ("(me.insured ? 3 : me.dependants) == 3", "yes"),
            ("(me.insured ? me.rooms : 3) == 3", "? me.insured me.rooms"),
            ("(me.insured ? 'a' : 'b') == 'a'", "? me.insured"),
            ("(me.insured ? [1, 2] : [1, 2]) == [1, 2]", "yes"),
            ("(1 / 0 == 1) ? true : true", "? division_by_zero@1:4"),
            ("me.insured ? 1 / 0 == 1 : true", "? me.insured division_by_zero@1:16"),
            ("me.active ? true : 1 / 0 == 1", "yes"),
        ],
    );
}

#[test]
fn words_bind_as_their_symbols_do() {
    check(
        &subject(),
        &[
            ("not me.active or true", "yes"),
            ("not (me.active or true)", "no"),
            ("me.active and false or true", "yes"),
            ("true or true and false", "yes"),
            ("not false and not false", "yes"),
            ("me.active and not me.insured", "? me.insured"),
            ("me.district == 'this and that or not' or true", "yes"),
        ],
    );
}

#[test]
fn subjects_of_one_batch_do_not_touch_each_other() {
    let rule = compile("me.active && me.rooms / me.dependants > 1");
    let cases: Vec<Case> = (0..20)
        .map(|number| {
            let mut record = vec![("rooms", Cell::Integer(10))];
            if number % 3 != 0 {
                record.push(("active", Cell::Boolean(true)));
            }
            if number % 4 != 0 {
                record.push(("dependants", Cell::Integer(number % 5)));
            }
            person(record)
        })
        .collect();
    let outcomes = evaluate(&rule, &cases).unwrap();
    for (row, case) in cases.iter().enumerate() {
        let alone = evaluate(&rule, std::slice::from_ref(case)).unwrap();
        assert_eq!(super::support::describe(&outcomes, row), super::support::describe(&alone, 0), "row {row}");
    }
    assert_eq!(outcomes.missing_names, ["me.active", "me.dependants"]);
}
