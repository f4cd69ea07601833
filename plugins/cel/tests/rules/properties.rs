//! What holds for every expression: nothing panics, logic commutes, the same input gives the same outcome.

use super::support::{Case, Cell, ask, compile, evaluate, person, schema};
use daftar_cel::rule::Rule;
use proptest::prelude::*;

/// Pieces of expressions, right and wrong, to be strung together.
const PIECES: [&str; 62] = [
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

/// Sound parts that are true, false, missing or failing.
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

proptest! {
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
            // The place of an error moves with its operand.
            answer.split('@').next().unwrap_or_default().to_owned()
        };
        prop_assert_eq!(answer(format!("{left} && {right}")), answer(format!("{right} && {left}")));
        prop_assert_eq!(answer(format!("{left} || {right}")), answer(format!("{right} || {left}")));
        prop_assert_eq!(answer(format!("!({left} && {right})")), answer(format!("!{left} || !{right}")));
    }
}
