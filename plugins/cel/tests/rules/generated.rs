//! Generated rules and records: columns and rows give the same outcomes, missing facts and errors.

mod cases;
mod truths;
mod values;

use super::support::{Case, batch, evaluate_both_ways, schema};
use daftar_cel::rule::Rule;
use proptest::prelude::*;
use proptest::test_runner::{Config, TestRunner};
use std::cell::RefCell;
use std::collections::BTreeMap;

/// The number of generated rules.
const RULES: u32 = 3_000;
/// The number of rules decided by columns alone in which each construct must occur.
const RULES_OF_EACH: u32 = 4;

/// All constructs that columns support.
const CONSTRUCTS: [&str; 44] = [
    "age",
    "all",
    "and",
    "arithmetic",
    "between",
    "boolean",
    "code",
    "code_text",
    "conditional",
    "constant",
    "contains",
    "count",
    "date",
    "days_since",
    "ends_with",
    "equal",
    "exists",
    "exists_one",
    "filter",
    "filtered",
    "greater",
    "greater_or_equal",
    "group",
    "has",
    "in_list",
    "in_registry",
    "integer",
    "is_alive",
    "item",
    "length",
    "less",
    "less_or_equal",
    "negate",
    "nested",
    "not",
    "not_equal",
    "number",
    "or",
    "outer",
    "parse_date",
    "person",
    "starts_with",
    "to_integer",
    "to_number",
];

/// A source of choices, which ends with the simplest option of each.
struct Maker<'a> {
    choices: std::slice::Iter<'a, u16>,
    used: Vec<&'static str>,
    /// The variables of the enclosing lists.
    scope: Vec<(String, Item)>,
}

/// The kind of the items of a list.
#[derive(Clone, Copy, PartialEq)]
enum Item {
    Member,
    Program,
    Address,
    Language,
    Text,
}

impl Maker<'_> {
    fn choose(&mut self, count: usize) -> usize {
        self.choices.next().map_or(0, |choice| usize::from(*choice) % count)
    }

    fn one_of<'t>(&mut self, of: &[&'t str]) -> &'t str {
        of[self.choose(of.len())]
    }

    fn uses(&mut self, construct: &'static str) {
        self.used.push(construct);
    }
}

/// Bitmaps of ones only may be omitted.
fn without_full_bitmaps(mut batch: daftar_cel::batch::Batch) -> daftar_cel::batch::Batch {
    for column in &mut batch.columns {
        if column.valid.iter().all(|byte| *byte == u8::MAX) {
            column.valid.clear();
        }
    }
    batch
}

#[test]
fn columns_and_rows_give_the_same_outcomes_to_the_last_missing_fact_and_error() {
    let counted: RefCell<BTreeMap<&str, u32>> = RefCell::default();
    let totals = RefCell::new((0_u32, 0_u32, 0_u32));
    let choices = || proptest::collection::vec(any::<u16>(), 0..160);
    let strategy = (choices(), proptest::collection::vec(proptest::collection::vec(any::<u16>(), 0..90), 1..40));
    let mut runner = TestRunner::new_with_rng(
        Config { cases: RULES, failure_persistence: None, ..Config::default() },
        proptest::test_runner::TestRng::deterministic_rng(proptest::test_runner::RngAlgorithm::ChaCha),
    );
    let outcome = runner.run(&strategy, |(choices, cases)| {
        let mut maker = Maker { choices: choices.iter(), used: Vec::new(), scope: Vec::new() };
        let expression = maker.truth(4);
        let used = maker.used;
        // The checker rejects some that are never true.
        let Ok(rule) = Rule::compile(&expression, &schema()) else { return Ok(()) };
        let cases: Vec<Case> = cases
            .iter()
            .map(|choices| Maker { choices: choices.iter(), used: Vec::new(), scope: Vec::new() }.case())
            .collect();
        let evaluated = evaluate_both_ways(&rule, without_full_bitmaps(batch(&rule, &cases)));
        let Ok(evaluated) = evaluated else { return Ok(()) };
        let mut totals = totals.borrow_mut();
        totals.0 += 1;
        totals.1 += evaluated.work.by_columns;
        totals.2 += u32::try_from(cases.len()).unwrap_or(0);
        if evaluated.work.by_columns > 0 && evaluated.work.parts_by_rows == 0 {
            for construct in used {
                *counted.borrow_mut().entry(construct).or_default() += 1;
            }
        }
        Ok(())
    });
    outcome.unwrap();
    let counted = counted.into_inner();
    for construct in CONSTRUCTS {
        let count = counted.get(construct).copied().unwrap_or_default();
        assert!(count >= RULES_OF_EACH, "`{construct}` was done by columns in {count} rules only: {counted:?}");
    }
    let (rules, by_columns, subjects) = totals.into_inner();
    assert!(rules > RULES / 4, "{rules} rules are valid");
    assert!(by_columns > subjects / 3, "{by_columns} of {subjects} outcomes came out of the columns");
}
