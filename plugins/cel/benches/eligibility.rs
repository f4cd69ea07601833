//! Measures the evaluation of rules, natively and on one core: by columns, by rows, by the CEL crate alone, and by a
//! handwritten function. All in one run, because only ratios within a run are comparable.
//!
//! The crate gets variables bound for each subject and precomputed ages, since it has no columns, helpers or missing
//! facts. The function reads the same columns as the engine, subject by subject, with missing facts.

#![expect(clippy::print_stdout, reason = "figures on standard output are what a benchmark is for")]
#![expect(clippy::unwrap_used, reason = "a benchmark that cannot run has no figures")]
#![expect(clippy::indexing_slicing, reason = "every column has a value for each row")]

use cel_interpreter::{Context, Program, Value};
use daftar_cel::batch::{Batch, Children, Column, ColumnValues};
use daftar_cel::bind::{Answer, Bindings};
use daftar_cel::calendar::{Day, parse_date};
use daftar_cel::plan::Question;
use daftar_cel::rule::{Rule, Way};
use daftar_cel::schema::{Field, FieldType, Schema, Space, Subject};
use serde_json::json;
use std::collections::HashMap;
use std::hint::black_box;
use std::time::{Duration, Instant};

const SUBJECTS: usize = 4_096;
const MEMBERS: usize = 6;
/// In the second measurement of each rule, one subject in this many lacks a fact.
const ONE_MISSING_IN: usize = 50;
/// The length of a slice of calls, and the number of slices of each way.
const SLICE: Duration = Duration::from_millis(120);
const SLICES: usize = 11;

const FEMALE: u32 = 2;
const HEAD: u32 = 1;

const RULES: [(&str, &str, &str); 3] = [
    (
        "A",
        "me.gender == code('urn:iso:std:iso:5218#2') && age_years(me.birth_date) >= 18 && age_years(me.birth_date) < 60",
        "gender == 'urn:iso:std:iso:5218#2' && age >= 18 && age < 60",
    ),
    ("B", "members.exists(m, is_head(m) && age_years(m.birth_date) >= 60)", "members.exists(m, m.head && m.age >= 60)"),
    (
        "C",
        "in_group(me.gender, 'feminine_gender') && me.income.amount < 5000.0",
        "in_group(gender, 'feminine_gender') && income < 5000.0",
    ),
];

/// The columns that the rules read.
struct People {
    as_of: i32,
    rows: usize,
    genders: Vec<u32>,
    roles: Vec<u32>,
    births: Vec<i32>,
    incomes: Vec<f64>,
    is_known: Vec<bool>,
}

impl People {
    fn new(rows: usize, has_gaps: bool) -> Self {
        // An order that branch prediction cannot learn.
        let mixed = |row: usize| row.wrapping_mul(2_654_435_761) >> 7;
        let rows_of = 0..rows;
        Self {
            as_of: parse_date("2026-03-01").unwrap(),
            rows,
            genders: rows_of.clone().map(|row| 1 + (mixed(row) % 2) as u32).collect(),
            // The last member is the head, so that every member is read.
            roles: rows_of.clone().map(|row| if row % MEMBERS == MEMBERS - 1 { HEAD } else { 0 }).collect(),
            births: rows_of.clone().map(|row| (mixed(row + 1) % 31_000) as i32 - 11_000).collect(),
            incomes: rows_of.clone().map(|row| (mixed(row + 2) % 10_000) as f64).collect(),
            is_known: rows_of.map(|row| !has_gaps || mixed(row + 3) % ONE_MISSING_IN != 0).collect(),
        }
    }

    fn batch(&self, rule: &Rule) -> Batch {
        let mut valid = vec![0_u8; self.rows.div_ceil(8)];
        for (row, _) in self.is_known.iter().enumerate().filter(|(_, is_known)| **is_known) {
            if let Some(byte) = valid.get_mut(row / 8) {
                *byte |= 1 << (row % 8);
            }
        }
        let columns = rule.plan().columns().iter().map(|column| {
            let (valid, values) = match column.path.as_str() {
                "gender" => (Vec::new(), ColumnValues::Codes(self.genders.clone())),
                "role" => (Vec::new(), ColumnValues::Codes(self.roles.clone())),
                "birth_date" => (valid.clone(), ColumnValues::Days(self.births.clone())),
                _ => (valid.clone(), ColumnValues::Numbers(self.incomes.clone())),
            };
            Column { space: column.space, path: column.path.clone(), valid, values }
        });
        let has_members = rule.plan().reads_rows_of(Space::Members);
        let subjects = if has_members { self.rows / MEMBERS } else { self.rows } as u32;
        let offsets = (0..=subjects).map(|subject| subject * MEMBERS as u32).collect();
        let members = has_members.then_some(Children { offsets, known: Vec::new() });
        Batch { as_of: self.as_of, rows: subjects, members, programs: None, columns: columns.collect() }
    }

    fn birth(&self, row: usize) -> Option<i32> {
        if *self.is_known.get(row)? { self.births.get(row).copied() } else { None }
    }

    fn age(&self, row: usize, today: Day) -> i64 {
        Day::from_number(self.births[row]).years_until(today)
    }
}

/// A handwritten function for one rule: 0 no, 1 yes, 2 unknown. Ages are days, as in the engine.
fn by_hand(name: &str, people: &People, verdicts: &mut Vec<u8>) {
    let day = |text| parse_date(text).unwrap();
    // Evaluated on 1 March 2026: the last birth dates of ages 18 and 60.
    let (adult, old) = (day("2008-03-01"), day("1966-03-01"));
    let known = |truth: Option<bool>| truth.map_or(2, u8::from);
    verdicts.clear();
    match name {
        "A" => verdicts.extend((0..people.rows).map(|row| {
            if people.genders.get(row) != Some(&FEMALE) {
                return 0;
            }
            known(people.birth(row).map(|birth| birth <= adult && birth > old))
        })),
        "B" => verdicts.extend((0..people.rows / MEMBERS).map(|household| {
            let mut truth = 0;
            for row in household * MEMBERS..(household + 1) * MEMBERS {
                if people.roles.get(row) == Some(&HEAD) {
                    match people.birth(row) {
                        Some(birth) if birth <= old => return 1,
                        Some(_) => {}
                        None => truth = 2,
                    }
                }
            }
            truth
        })),
        _ => verdicts.extend((0..people.rows).map(|row| {
            if people.genders.get(row) != Some(&FEMALE) {
                return 0;
            }
            let income = people.is_known.get(row).filter(|is_known| **is_known).and(people.incomes.get(row));
            known(income.map(|income| *income < 5_000.0))
        })),
    }
}

/// The crate alone, with its variables bound for each subject.
fn by_crate(name: &str, program: &Program, people: &People) -> usize {
    const GENDERS: [&str; 3] = ["urn:iso:std:iso:5218#0", "urn:iso:std:iso:5218#1", "urn:iso:std:iso:5218#2"];
    let today = Day::from_number(people.as_of);
    let mut context = Context::default();
    context
        .add_function("in_group", |code: std::sync::Arc<String>, _group: std::sync::Arc<String>| *code == GENDERS[2])
        .unwrap();
    let mut eligible = 0;
    let subjects = if name == "B" { people.rows / MEMBERS } else { people.rows };
    for subject in 0..subjects {
        match name {
            "A" => {
                context.add_variable_from_value("gender", GENDERS[people.genders[subject] as usize]);
                context.add_variable_from_value("age", people.age(subject, today));
            }
            "B" => {
                let members: Vec<Value> = (subject * MEMBERS..(subject + 1) * MEMBERS)
                    .map(|row| {
                        let head = Value::from(people.roles[row] == HEAD);
                        HashMap::from([("head", head), ("age", Value::from(people.age(row, today)))]).into()
                    })
                    .collect();
                context.add_variable_from_value("members", members);
            }
            _ => {
                context.add_variable_from_value("gender", GENDERS[people.genders[subject] as usize]);
                context.add_variable_from_value("income", people.incomes[subject]);
            }
        }
        eligible += usize::from(program.execute(&context).unwrap() == Value::from(true));
    }
    eligible
}

/// Million evaluations per second in each slice of time, sorted; `call` returns the duration of its evaluations.
fn rates(slices: usize, evaluations: usize, mut call: impl FnMut() -> Duration) -> Vec<f64> {
    let mut rates: Vec<f64> = (0..slices)
        .map(|_| {
            let (mut spent, mut calls) = (Duration::ZERO, 0_u32);
            while calls == 0 || spent < SLICE {
                spent += call();
                calls += 1;
            }
            f64::from(calls) * evaluations as f64 / spent.as_secs_f64() / 1e6
        })
        .collect();
    rates.sort_unstable_by(f64::total_cmp);
    rates
}

/// The duration of a call, without that of creating its argument.
fn timed<T>(made: T, call: impl FnOnce(T)) -> Duration {
    let started = Instant::now();
    call(made);
    started.elapsed()
}

/// One result in the common benchmark format: the median of the slices with the minimum and the maximum.
fn row(id: &str, description: &str, rates: &[f64]) -> serde_json::Value {
    let at = |index: usize| rates[index];
    println!("  {id:<34} {description}: {:.2} ({:.2} to {:.2}) M/s", at(rates.len() / 2), at(0), at(rates.len() - 1));
    json!({
        "id": id, "description": description, "unit": "M/s",
        "median": at(rates.len() / 2), "low": at(0), "high": at(rates.len() - 1), "n": rates.len(),
    })
}

fn schema() -> Schema {
    let field = |space, path: &str, kind| Field {
        space,
        path: path.to_owned(),
        kind,
        is_repeated: false,
        vocabularies: Vec::new(),
    };
    let fields = [
        field(Space::Me, "gender", FieldType::Coded),
        field(Space::Me, "birth_date", FieldType::Date),
        field(Space::Me, "income.amount", FieldType::Number),
        field(Space::Members, "role", FieldType::Coded),
        field(Space::Members, "birth_date", FieldType::Date),
    ];
    Schema::new(Subject::Individual, fields)
}

fn bindings(rule: &Rule) -> Bindings {
    let answers = rule.plan().questions().iter().map(|placed| match &placed.question {
        Question::Code(_) => Answer::Number(FEMALE),
        Question::InGroup(group) if group == "head_of_household" => {
            Answer::Truths { truths: vec![0, 1], missing: None }
        }
        Question::InGroup(_) | Question::DescendsFrom(_) => Answer::Truths { truths: vec![2, 0, 1], missing: None },
    });
    Bindings::new(rule.plan(), answers.collect(), []).unwrap()
}

fn main() {
    let is_smoke = std::env::var_os("DAFTAR_BENCH_SMOKE").is_some();
    let slices = if is_smoke { 1 } else { SLICES };
    println!("eligibility outside of the sandbox: million evaluations a second, one core, batches of {SUBJECTS}");
    let mut rows = Vec::new();
    for (name, expression, for_crate) in RULES {
        let rule = Rule::compile(expression, &schema()).unwrap();
        let bindings = bindings(&rule);
        let count = if name == "B" { SUBJECTS * MEMBERS } else { SUBJECTS };
        for (suffix, gaps, has_gaps) in [("", "all facts recorded", false), (".gaps", "1 fact in 50 missing", true)] {
            let people = People::new(count, has_gaps);
            let evaluate = |way, batch| rule.evaluate_by(way, &bindings, batch).unwrap();
            let mut by_hand_verdicts = Vec::with_capacity(SUBJECTS);
            by_hand(name, &people, &mut by_hand_verdicts);
            let verdicts = evaluate(Way::Columns, people.batch(&rule)).outcomes.verdicts;
            assert!(verdicts.iter().map(|verdict| *verdict as u8).eq(by_hand_verdicts.iter().copied()), "rule {name}");

            let ours = |way| {
                rates(slices, SUBJECTS, || timed(people.batch(&rule), |batch| drop(black_box(evaluate(way, batch)))))
            };
            let program = Program::compile(for_crate).unwrap();
            let alone = || {
                black_box(by_crate(name, &program, &people));
            };
            let mut add = |way: &str, described: &str, rates: &[f64]| {
                let id = format!("engine.native.{way}.{}{suffix}", name.to_lowercase());
                rows.push(row(&id, &format!("rule {name}, {gaps}, outside of the sandbox, {described}"), rates));
            };
            add("columns", "the engine by columns", &ours(Way::Columns));
            add("rows", "the engine row by row", &ours(Way::Rows));
            add("crate", "the CEL crate alone", &rates(slices, SUBJECTS, || timed((), |()| alone())));
            let hand =
                rates(slices, SUBJECTS, || timed((), |()| by_hand(name, black_box(&people), &mut by_hand_verdicts)));
            add("hand", "a function written for the rule", &hand);
        }
    }
    if let Some(file) = std::env::var_os("DAFTAR_BENCH_NATIVE") {
        std::fs::write(file, serde_json::Value::from(rows).to_string()).unwrap();
    }
}
