//! Properties of all expressions: no panics, commutative logic, deterministic outcomes.

use super::support::{Case, Cell, ask, batch, bind, compile, evaluate, person, schema};
use daftar_cel::batch::{Batch, Children, Column, ColumnValues};
use daftar_cel::rule::Rule;
use proptest::prelude::*;

/// Fragments of valid and invalid expressions, to be concatenated.
const PIECES: [&str; 63] = [
    "me",
    "members",
    "programs",
    "as_of",
    ".",
    ",",
    "(",
    ")",
    "[",
    "]",
    "{",
    "}",
    "?",
    ":",
    "&&",
    "||",
    "!",
    "and",
    "or",
    "not",
    "==",
    "!=",
    "<",
    "<=",
    "+",
    "-",
    "*",
    "/",
    "%",
    "in",
    "1",
    "0",
    "2.5",
    "9223372036854775807",
    "1u",
    "'a'",
    "\"b\"",
    "'\u{1b}'",
    "r'\\d'",
    "'''c'''",
    "b'd'",
    "'urn:x#y'",
    "true",
    "null",
    "gender",
    "birth_date",
    "languages",
    "exists",
    "filter",
    "map",
    "size",
    "has",
    "code",
    "in_group",
    "is_female",
    "age_years",
    "between",
    "m",
    "\n",
    " ",
    "é",
    "`",
    "\\",
];

/// Valid parts that are true, false, missing or failing.
const TRUTHS: [&str; 8] = [
    "true",
    "false",
    "me.active",
    "me.insured",
    "me.rooms > 1",
    "1 / 0 == 1",
    "members.exists(m, m.dependants / me.rooms == 1)",
    "has(me.rooms)",
];

fn truth() -> impl Strategy<Value = String> {
    let leaf = proptest::sample::select(&TRUTHS[..]).prop_map(|truth| format!("({truth})"));
    leaf.prop_recursive(4, 24, 3, |inner| {
        prop_oneof![
            (inner.clone(), inner.clone()).prop_map(|(left, right)| format!("({left} && {right})")),
            (inner.clone(), inner.clone()).prop_map(|(left, right)| format!("({left} or {right})")),
            inner.clone().prop_map(|operand| format!("(not {operand})")),
            (inner.clone(), inner.clone(), inner.clone()).prop_map(|(a, b, c)| format!("({a} ? {b} : {c})")),
            inner.clone().prop_map(|body| format!("members.all(m, {body})")),
            inner.clone().prop_map(|body| format!("(members.filter(m, {body}).size() > 1)")),
            inner.prop_map(|body| format!("([1, 2].map(x, {body}).exists_one(y, y))")),
        ]
    })
}

fn subject() -> Case {
    let members = vec![vec![("dependants", Cell::Integer(2))], Vec::new(), vec![("dependants", Cell::Integer(0))]];
    Case { members: Some(members), ..person(vec![("active", Cell::Boolean(true))]) }
}

/// An arbitrary batch for a rule that reads one column of every kind.
fn lying_batch() -> impl Strategy<Value = Batch> {
    let offsets = || proptest::collection::vec(0_u32..5, 0..6);
    let bits = || proptest::collection::vec(any::<u8>(), 0..3);
    let values = move || {
        prop_oneof![
            proptest::collection::vec(0_u8..3, 0..5).prop_map(ColumnValues::Booleans),
            proptest::collection::vec(any::<i64>(), 0..5).prop_map(ColumnValues::Integers),
            proptest::collection::vec(any::<f64>(), 0..5).prop_map(ColumnValues::Numbers),
            proptest::collection::vec(any::<i32>(), 0..5).prop_map(ColumnValues::Days),
            proptest::collection::vec(0_u32..40, 0..5).prop_map(ColumnValues::Codes),
            (offsets(), proptest::collection::vec(any::<u8>(), 0..5))
                .prop_map(|(offsets, bytes)| ColumnValues::Texts { offsets, bytes }),
            offsets().prop_map(ColumnValues::Lists),
        ]
    };
    let children =
        move || proptest::option::of((offsets(), bits()).prop_map(|(offsets, known)| Children { offsets, known }));
    let columns = proptest::collection::vec((bits(), values()), 9);
    (any::<i32>(), 0_u32..5, children(), children(), columns).prop_map(|(as_of, rows, members, programs, columns)| {
        let rule = compile(LIED_TO);
        let plans = rule.plan().columns().iter();
        let columns = plans
            .zip(columns)
            .map(|(plan, (valid, values))| Column { space: plan.space, path: plan.path.clone(), valid, values })
            .collect();
        Batch { as_of, rows, members, programs, columns }
    })
}

/// A valid batch with one part replaced by that of an invalid one, so that most of them pass the first check.
fn half_lying_batch() -> impl Strategy<Value = Batch> {
    (lying_batch(), 0_usize..12).prop_map(|(lie, part)| {
        let rule = compile(LIED_TO);
        let mut batch = batch(&rule, &[subject(), subject()]);
        match part {
            0 => batch.as_of = lie.as_of,
            1 => batch.rows = lie.rows,
            2 => batch.members = lie.members,
            part => {
                let columns = batch.columns.iter_mut().zip(lie.columns);
                for (column, lie) in columns.skip(part - 3).take(1) {
                    *column = lie;
                }
            }
        }
        batch
    })
}

const LIED_TO: &str = "me.active || me.rooms > 1 || me.income.amount < 2.0 || me.gender == code('a#b') \
    || me.district == 'x' || age_years(me.birth_date) > 1 || me.address.exists(a, a.district == 'y') \
    || members.exists(m, is_head(m))";

proptest! {
    #[test]
    fn no_batch_makes_the_evaluator_panic(batch in prop_oneof![lying_batch(), half_lying_batch()]) {
        let rule = compile(LIED_TO);
        if let Ok(outcomes) = rule.evaluate(&bind(&rule), batch.clone()) {
            prop_assert_eq!(outcomes.verdicts.len(), batch.rows as usize);
        }
    }

    #[test]
    fn no_text_makes_the_compiler_panic(text in any::<String>()) {
        let _ = Rule::compile(&text, &schema());
    }

    #[test]
    fn no_bytes_make_the_compiler_panic(bytes in proptest::collection::vec(any::<u8>(), 0..300)) {
        let _ = Rule::compile(&String::from_utf8_lossy(&bytes), &schema());
    }

    #[test]
    fn no_pieces_of_expressions_make_the_compiler_panic(
        pieces in proptest::collection::vec(proptest::sample::select(&PIECES[..]), 0..60),
        gap in proptest::sample::select(&["", " "][..]),
    ) {
        let text = pieces.join(gap);
        if let Err(diagnostics) = Rule::compile(&text, &schema()) {
            prop_assert!(!diagnostics.is_empty());
            for diagnostic in diagnostics {
                prop_assert!(text.get(diagnostic.span.start..diagnostic.span.end).is_some(), "{:?}", diagnostic);
                prop_assert!(!diagnostic.message.is_empty() && !diagnostic.message.contains(char::is_control));
            }
        }
    }

    #[test]
    fn sound_expressions_evaluate_the_same_way_twice(text in truth()) {
        let rule = compile(&text);
        let cases = [subject(), person(Vec::new()), subject()];
        let first = evaluate(&rule, &cases).unwrap();
        prop_assert_eq!(&first, &evaluate(&rule, &cases).unwrap());
        prop_assert_eq!(first.verdicts.len(), cases.len());
    }

    #[test]
    fn logic_commutes(left in truth(), right in truth()) {
        let answer = |expression: String| {
            let answer = ask(&expression, &subject());
            // The position of an error moves with its operand.
            answer.split('@').next().unwrap_or_default().to_owned()
        };
        prop_assert_eq!(answer(format!("{left} && {right}")), answer(format!("{right} && {left}")));
        prop_assert_eq!(answer(format!("{left} || {right}")), answer(format!("{right} || {left}")));
        prop_assert_eq!(answer(format!("!({left} && {right})")), answer(format!("!{left} || !{right}")));
    }
}
