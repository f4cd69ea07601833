//! Conformance with CEL: the specification's own tests, evaluated like rules.
//!
//! Each expression is evaluated twice. *Dynamic*: types are checked only at evaluation, as the specification's tests
//! assume. *Static*: like a rule, so that many are rejected before they run; the others must have the same value.

#[cfg(test)]
#[path = "conformance/spec.rs"]
mod spec;

use daftar_cel::check::Typing;
use daftar_cel::constant::{NoValue, evaluate};
use spec::{Expected, Test, is_same, tests};
use std::collections::{BTreeMap, BTreeSet};

/// The failing tests, by reason.
const EXCLUDED: [(&str, &[&str]); 1] = [(
    "the crate's `getMilliseconds` of a span of time gives all of it in milliseconds, not the part beyond whole seconds",
    &["timestamps/duration_converters/get_milliseconds"],
)];

/// The reason why a test fails; none if it passes.
fn fault(test: &Test, typing: Typing) -> Option<String> {
    let value = evaluate(&test.expression, typing, test.variables.clone(), &test.container);
    match (&test.expected, value) {
        // A part that is invalid before the evaluation is an error of the expression too.
        (Expected::Error, Err(NoValue::Refused(_) | NoValue::Failed(Some(_)))) => None,
        (Expected::Value(expected), Ok(value)) if is_same(expected.as_ref(), value.as_ref()) => None,
        (Expected::Value(_), Err(NoValue::Refused(_))) if typing == Typing::Static => None,
        (Expected::Value(expected), other) => Some(format!("not {expected:?} but {other:?}")),
        (Expected::Error, other) => Some(format!("no error but {other:?}")),
    }
}

fn excluded() -> BTreeSet<String> {
    EXCLUDED.iter().flat_map(|(_, names)| names.iter().map(|name| (*name).to_owned())).collect()
}

fn check(typing: Typing) {
    let Some(tests) = tests() else { return };
    let faults: BTreeMap<String, String> = tests
        .iter()
        .filter_map(|test| Some((test.name.clone(), format!("`{}`: {}", test.expression, fault(test, typing)?))))
        .collect();
    let failing: BTreeSet<String> = faults.keys().cloned().collect();
    let excluded = excluded();
    let unexpected: Vec<String> = faults
        .iter()
        .filter(|(name, _)| !excluded.contains(*name))
        .map(|(name, fault)| format!("{name} {fault}"))
        .collect();
    let passing: Vec<&String> = excluded.difference(&failing).collect();
    assert!(unexpected.is_empty(), "{} fail:\n{}", unexpected.len(), unexpected.join("\n"));
    assert!(passing.is_empty(), "these pass and are excluded: {passing:?}");
}

#[test]
fn expressions_have_the_values_that_the_specification_says() {
    check(Typing::Dynamic);
}

#[test]
fn what_the_type_check_lets_pass_has_the_same_value() {
    check(Typing::Static);
}

#[test]
fn the_type_check_lets_most_expressions_pass() {
    let Some(tests) = tests() else { return };
    let refused = |test: &&Test| {
        matches!(
            evaluate(&test.expression, Typing::Static, test.variables.clone(), &test.container),
            Err(NoValue::Refused(_))
        )
    };
    let of_values = |test: &&Test| matches!(test.expected, Expected::Value(_));
    let refused_values = tests.iter().filter(of_values).filter(refused).count();
    let values = tests.iter().filter(of_values).count();
    assert!(refused_values * 10 < values, "{refused_values} of {values} are refused");
}

#[test]
fn every_test_of_the_specification_is_there() {
    let mut counts: BTreeMap<&str, usize> = BTreeMap::new();
    let Some(tests) = tests() else { return };
    for test in &tests {
        *counts.entry(test.name.split('/').next().unwrap_or_default()).or_default() += 1;
    }
    let extensions = ["bindings_ext", "encoders_ext", "macros2", "math_ext", "optionals", "string_ext"];
    let of_extensions: usize = extensions.iter().filter_map(|file| counts.get(file)).sum();
    assert_eq!((tests.len() - of_extensions, of_extensions), (1_098, 519));
}
