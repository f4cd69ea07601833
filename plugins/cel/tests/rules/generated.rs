//! Rules and records made up at random: by columns and by rows, every outcome, missing fact and error is the same.

use super::support::{Case, Cell, Record, batch, evaluate_both_ways, schema};
use daftar_cel::rule::Rule;
use proptest::prelude::*;
use proptest::test_runner::{Config, TestRunner};
use std::cell::RefCell;
use std::collections::BTreeMap;

/// How many rules are made.
const RULES: u32 = 3_000;
/// In how many rules that the columns did alone, with a subject that they decided, each construct must have been.
const RULES_OF_EACH: u32 = 4;

/// Every construct that columns take.
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

/// A source of choices, which ends with the simplest of each.
struct Maker<'a> {
    choices: std::slice::Iter<'a, u16>,
    used: Vec<&'static str>,
    /// The variables of the lists around.
    scope: Vec<(String, Item)>,
}

/// What the items of a list are.
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

    fn truth(&mut self, depth: u32) -> String {
        let simple = 18;
        match self.choose(if depth == 0 { simple } else { simple + 17 }) {
            0 => {
                self.uses("boolean");
                self.one_of(&["me.active", "me.insured"]).into()
            }
            1 => {
                self.uses("constant");
                self.one_of(&["true", "false"]).into()
            }
            2 => {
                self.uses("has");
                let field = self.field("district", "birth_date", "program");
                match field {
                    Some(field) => format!("has({field})"),
                    None => "has(me.rooms)".into(),
                }
            }
            3 => {
                let person = self.person();
                self.uses("is_alive");
                format!("is_alive({person})")
            }
            4 | 5 => {
                let person = self.person();
                self.uses("person");
                let helper = self.one_of(&["is_female", "is_male", "is_pregnant"]);
                format!("{helper}({person})")
            }
            6 => {
                let code = self.code(depth);
                self.uses("group");
                let group = self.one_of(&["filled", "head_of_household", "not_filled"]);
                format!("in_group({code}, '{group}')")
            }
            7 | 8 => {
                let (left, operator, right) = (self.integer(depth), self.comparison(), self.integer(depth));
                format!("{left} {operator} {right}")
            }
            9 => {
                let (left, operator, right) = (self.number(depth), self.comparison(), self.number(depth));
                format!("{left} {operator} {right}")
            }
            10 => {
                let (left, operator, right) = (self.integer(depth), self.comparison(), self.number(depth));
                format!("{left} {operator} {right}")
            }
            11 | 12 => {
                let (left, operator, right) = (self.date(depth), self.comparison(), self.date(depth));
                format!("{left} {operator} {right}")
            }
            13 => {
                let (left, operator, right) = (self.text(depth), self.comparison(), self.text(depth));
                format!("{left} {operator} {right}")
            }
            14 => {
                let (left, right) = (self.code(depth), self.code(depth));
                let (name, operator) = if self.choose(2) == 0 { ("equal", "==") } else { ("not_equal", "!=") };
                self.uses(name);
                format!("{left} {operator} {right}")
            }
            15 => {
                let date = self.date(0);
                let operator = self.comparison();
                let (function, construct) =
                    if self.choose(3) > 0 { ("age_years", "age") } else { ("days_since", "days_since") };
                self.uses(construct);
                let number = self.one_of(&["18", "60", "0", "17", "66", "1"]);
                format!("{function}({date}) {operator} {number}")
            }
            16 => {
                let (text, other) = (self.text(depth), self.text(0));
                let (name, test) = [("starts_with", "startsWith"), ("ends_with", "endsWith"), ("contains", "contains")]
                    [self.choose(3)];
                self.uses(name);
                format!("{text}.{test}({other})")
            }
            17 => {
                self.uses("between");
                match self.choose(4) {
                    0 => format!("between(age_years({}), 18, 59)", self.date(0)),
                    1 => format!("between({}, date('1960-01-01'), {})", self.date(0), self.date(0)),
                    2 => format!("between({}, 0, {})", self.number(0), self.number(0)),
                    _ => format!("between({}, {}, 3)", self.integer(0), self.integer(0)),
                }
            }
            18 | 19 => self.joined("and", "&&", depth),
            20 | 21 => self.joined("or", "||", depth),
            22 => {
                self.uses("not");
                format!("!({})", self.truth(depth - 1))
            }
            23 => {
                self.uses("conditional");
                format!("({} ? {} : {})", self.truth(depth - 1), self.truth(depth - 1), self.truth(depth - 1))
            }
            24 => {
                let (left, operator) = (self.truth(depth - 1), self.comparison());
                format!("(({left}) {operator} ({}))", self.truth(depth - 1))
            }
            25..=29 => {
                let (name, macro_name) =
                    [("exists", "exists"), ("all", "all"), ("exists_one", "exists_one")][self.choose(3)];
                self.uses(name);
                if !self.scope.is_empty() {
                    self.uses("nested");
                }
                let (list, item) = self.list(depth - 1);
                let (variable, body) = self.body(item, depth - 1);
                format!("{list}.{macro_name}({variable}, {body})")
            }
            30 => {
                self.uses("in_list");
                match self.choose(3) {
                    0 => format!("{} in [1, {}, 3]", self.integer(0), self.integer(0)),
                    1 => format!("{} in ['north', {}]", self.text(0), self.text(0)),
                    _ => format!("{} in [1.5, 5000, {}]", self.number(0), self.number(0)),
                }
            }
            31 => {
                self.uses("in_registry");
                if self.choose(2) == 0 {
                    format!("{} in me.languages", self.code(0))
                } else {
                    format!("{} in me.tags", self.text(0))
                }
            }
            32 => {
                // What only rows can do.
                let text = self.text(0);
                let integer = self.integer(0);
                let rows = [
                    format!("{text}.matches('^n.*h$')"),
                    format!("[1, 2].exists(x, x == {integer})"),
                    "me.?rooms.orValue(0) > 1".into(),
                    format!("{text} + 'a' == 'northa'"),
                    "me.languages[1] == code('urn:lang#ar')".into(),
                    "members.map(m, age_years(m.birth_date)).exists(a, a > 60)".into(),
                ];
                rows[self.choose(6)].clone()
            }
            _ => self.truth(depth - 1),
        }
    }

    fn joined(&mut self, name: &'static str, operator: &str, depth: u32) -> String {
        self.uses(name);
        let left = self.truth(depth - 1);
        format!("({left} {operator} {})", self.truth(depth - 1))
    }

    fn comparison(&mut self) -> &'static str {
        let (name, operator) = [
            ("less", "<"),
            ("equal", "=="),
            ("greater_or_equal", ">="),
            ("not_equal", "!="),
            ("greater", ">"),
            ("less_or_equal", "<="),
        ][self.choose(6)];
        self.uses(name);
        operator
    }

    /// A list with what its items are, perhaps filtered.
    fn list(&mut self, depth: u32) -> (String, Item) {
        let address = self.variable(&[Item::Address]);
        let (list, item) = match (self.choose(if address.is_some() { 7 } else { 6 }), address) {
            (0 | 1, _) => ("members".to_owned(), Item::Member),
            (2, _) => ("me.address".to_owned(), Item::Address),
            (3, _) => ("me.languages".to_owned(), Item::Language),
            (4, _) => ("me.tags".to_owned(), Item::Text),
            (6, Some(address)) => (format!("{address}.line"), Item::Text),
            (_, _) => ("programs".to_owned(), Item::Program),
        };
        if depth > 0 && self.choose(3) == 2 {
            self.uses("filtered");
            let (variable, body) = self.body(item, depth - 1);
            return (format!("{list}.filter({variable}, {body})"), item);
        }
        (list, item)
    }

    fn body(&mut self, item: Item, depth: u32) -> (String, String) {
        let variable = format!("x{}", self.scope.len());
        self.scope.push((variable.clone(), item));
        let body = self.truth(depth);
        self.scope.pop();
        (variable, body)
    }

    /// A variable around that is one of those, one time in two.
    fn variable(&mut self, of: &[Item]) -> Option<String> {
        let fitting: Vec<_> = self.scope.iter().filter(|(_, item)| of.contains(item)).cloned().collect();
        if fitting.is_empty() || self.choose(4) == 3 {
            return None;
        }
        let (name, _) = &fitting[self.choose(fitting.len())];
        if Some(name) != self.scope.last().map(|(name, _)| name) {
            self.uses("outer");
        }
        Some(name.clone())
    }

    /// A field of an item around, by what the item is.
    fn field(&mut self, of_address: &str, of_member: &str, of_program: &str) -> Option<String> {
        let name = self.variable(&[Item::Address, Item::Member, Item::Program])?;
        let item = self.scope.iter().find(|(other, _)| *other == name).map(|(_, item)| *item)?;
        let field = match item {
            Item::Address => of_address,
            Item::Member => of_member,
            Item::Program => of_program,
            Item::Language | Item::Text => return None,
        };
        Some(format!("{name}.{field}"))
    }

    fn person(&mut self) -> String {
        self.variable(&[Item::Member]).unwrap_or_else(|| "me".into())
    }

    fn integer(&mut self, depth: u32) -> String {
        self.uses("integer");
        match self.choose(if depth == 0 { 6 } else { 15 }) {
            0 => self.one_of(&["1", "2", "0", "3", "60", "-1", "9007199254740993", "9223372036854775807"]).into(),
            1 => "me.rooms".into(),
            2 => "me.dependants".into(),
            3 | 4 => self.variable(&[Item::Member]).map_or("me.rooms".into(), |member| format!("{member}.dependants")),
            5 => {
                self.uses("length");
                format!("size({})", self.text(0))
            }
            6 => {
                self.uses("age");
                format!("age_years({})", self.date(depth - 1))
            }
            7 => {
                self.uses("days_since");
                format!("days_since({})", self.date(depth - 1))
            }
            8 | 9 => {
                self.uses("count");
                let (list, _) = self.list(depth - 1);
                if list.contains(".filter(") {
                    self.uses("filter");
                }
                format!("size({list})")
            }
            10 | 11 => {
                self.uses("arithmetic");
                let (left, right) = (self.integer(depth - 1), self.integer(depth - 1));
                let operator = self.one_of(&["+", "-", "*", "/", "%"]);
                format!("({left} {operator} {right})")
            }
            12 => {
                self.uses("negate");
                format!("(-({}))", self.integer(depth - 1))
            }
            13 => {
                self.uses("to_integer");
                if self.choose(2) == 0 {
                    format!("int({})", self.number(depth - 1))
                } else {
                    format!("int({})", self.text(depth - 1))
                }
            }
            _ => {
                self.uses("conditional");
                format!("({} ? {} : {})", self.truth(depth - 1), self.integer(depth - 1), self.integer(depth - 1))
            }
        }
    }

    fn number(&mut self, depth: u32) -> String {
        self.uses("number");
        match self.choose(if depth == 0 { 2 } else { 7 }) {
            0 => "me.income.amount".into(),
            1 => self.one_of(&["5000.0", "0.0", "1.5", "-2.5", "1.0e308"]).into(),
            2 => {
                self.uses("to_number");
                format!("double({})", self.integer(depth - 1))
            }
            3 | 4 => {
                self.uses("arithmetic");
                let (left, right) = (self.number(depth - 1), self.number(depth - 1));
                let operator = self.one_of(&["+", "-", "*", "/"]);
                format!("({left} {operator} {right})")
            }
            5 => {
                self.uses("negate");
                format!("(-({}))", self.number(depth - 1))
            }
            _ => {
                self.uses("conditional");
                format!("({} ? {} : {})", self.truth(depth - 1), self.number(depth - 1), self.number(depth - 1))
            }
        }
    }

    fn date(&mut self, depth: u32) -> String {
        self.uses("date");
        match self.choose(if depth == 0 { 6 } else { 8 }) {
            0 => "me.birth_date".into(),
            1 => "me.deceased_date".into(),
            2 => self.one_of(&["date('1966-03-01')", "date('2008-02-29')", "date('1960-02-29')"]).into(),
            3 => self.one_of(&["as_of", "today()"]).into(),
            4 | 5 => self
                .field("district", "birth_date", "enrollment_date")
                .filter(|field| field.ends_with("_date"))
                .unwrap_or_else(|| "me.birth_date".into()),
            6 => {
                self.uses("parse_date");
                format!("date({})", self.field_text())
            }
            _ => {
                self.uses("conditional");
                format!("({} ? {} : {})", self.truth(depth - 1), self.date(depth - 1), self.date(depth - 1))
            }
        }
    }

    /// A text that is no literal.
    fn field_text(&mut self) -> String {
        self.one_of(&["me.district", "me.name.given", "me.name.family"]).into()
    }

    fn text(&mut self, depth: u32) -> String {
        match self.choose(if depth == 0 { 5 } else { 7 }) {
            0 | 1 => self.field_text(),
            2 => self.one_of(&["'north'", "'n'", "''", "'é'", "'12'", "'2'"]).into(),
            3 => {
                let item = self.variable(&[Item::Text]);
                if item.is_some() {
                    self.uses("item");
                }
                item.unwrap_or_else(|| "me.district".into())
            }
            4 => self
                .field("district", "birth_date", "program")
                .filter(|field| !field.ends_with("_date"))
                .unwrap_or_else(|| "me.name.family".into()),
            5 => {
                self.uses("code_text");
                let part = self.one_of(&["code", "uri", "display", "namespace"]);
                format!("{}.{part}", self.one_of(&["me.gender", "me.pregnancy_status"]))
            }
            _ => {
                self.uses("conditional");
                format!("({} ? {} : {})", self.truth(depth - 1), self.text(depth - 1), self.text(depth - 1))
            }
        }
    }

    fn code(&mut self, depth: u32) -> String {
        self.uses("code");
        match self.choose(if depth == 0 { 5 } else { 6 }) {
            0 => "me.gender".into(),
            1 => {
                self.one_of(&["code('urn:iso:std:iso:5218#2')", "code('urn:lang#ar')", "code('urn:role#head')"]).into()
            }
            2 => self.variable(&[Item::Member]).map_or("me.gender".into(), |member| format!("{member}.gender")),
            3 => self.variable(&[Item::Member]).map_or("me.gender".into(), |member| format!("{member}.role")),
            4 => {
                let item = self.variable(&[Item::Language]);
                if item.is_some() {
                    self.uses("item");
                }
                item.unwrap_or_else(|| "me.pregnancy_status".into())
            }
            _ => {
                self.uses("conditional");
                format!("({} ? {} : {})", self.truth(depth - 1), self.code(depth - 1), self.code(depth - 1))
            }
        }
    }

    fn cell(&mut self, kind: &str) -> Cell {
        match kind {
            "boolean" => Cell::Boolean(self.choose(2) == 0),
            "integer" => Cell::Integer([1, 3, 0, 2, -1, i64::MAX, i64::MIN, 60][self.choose(8)]),
            "number" => {
                Cell::Number([100.0, 5000.0, 1.5, -0.0, f64::INFINITY, 1e308, 9_007_199_254_740_992.0][self.choose(7)])
            }
            "date" => Cell::Day(self.one_of(&[
                "1966-03-01",
                "1966-03-02",
                "1960-02-29",
                "2008-02-29",
                "2008-03-01",
                "2026-03-01",
                "2026-03-02",
                "1900-12-31",
            ])),
            "code" => Cell::Code([2, 1, 0, 10, 11, 20, 21, 30][self.choose(8)]),
            _ => Cell::Text(self.one_of(&["north", "", "é", "12", "2026-01-31", "norther", "2"])),
        }
    }

    fn record(&mut self, fields: &[(&'static str, &str)]) -> Record {
        let mut record = Record::new();
        for (name, kind) in fields {
            // What is recorded is the rule, so that most outcomes are known.
            if self.choose(9) != 8 {
                record.push((*name, self.cell(kind)));
            }
        }
        record
    }

    fn cells(&mut self, kind: &str) -> Cell {
        let count = self.choose(4);
        Cell::List((0..count).map(|_| if self.choose(12) == 11 { Cell::Absent } else { self.cell(kind) }).collect())
    }

    fn case(&mut self) -> Case {
        let mut me = self.record(&[
            ("active", "boolean"),
            ("insured", "boolean"),
            ("dependants", "integer"),
            ("rooms", "integer"),
            ("income.amount", "number"),
            ("name.family", "text"),
            ("name.given", "text"),
            ("district", "text"),
            ("pregnancy_status", "code"),
            ("birth_date", "date"),
            ("deceased_date", "date"),
            ("gender", "code"),
        ]);
        if self.choose(8) != 7 {
            me.push(("languages", self.cells("code")));
        }
        if self.choose(8) != 7 {
            me.push(("tags", self.cells("text")));
        }
        if self.choose(8) != 7 {
            let count = self.choose(3);
            let addresses = (0..count).map(|_| {
                let mut address = self.record(&[("district", "text")]);
                if self.choose(4) != 3 {
                    address.push(("line", self.cells("text")));
                }
                address
            });
            me.push(("address", Cell::Records(addresses.collect())));
        }
        let member = [
            ("birth_date", "date"),
            ("deceased_date", "date"),
            ("gender", "code"),
            ("role", "code"),
            ("dependants", "integer"),
            ("pregnancy_status", "code"),
        ];
        let members = (self.choose(8) != 7).then(|| (0..self.choose(5)).map(|_| self.record(&member)).collect());
        let program = [("program", "text"), ("enrollment_date", "date")];
        let programs = (self.choose(8) != 7).then(|| (0..self.choose(3)).map(|_| self.record(&program)).collect());
        Case { me, members, programs }
    }
}

/// Bitmaps of nothing but ones may be left away.
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
        // The checker refuses some that hold for nobody.
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
    assert!(rules > RULES / 4, "{rules} rules are sound");
    assert!(by_columns > subjects / 3, "{by_columns} of {subjects} outcomes came out of the columns");
}
