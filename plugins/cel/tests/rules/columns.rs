//! Verdicts by columns: the supported parts of the language, and the edges of blocks and budgets.
//!
//! Every test here that evaluates a rule asserts that both strategies agree; `generated` does so for generated rules.

use super::support::{
    Case, Cell, FEMALE, HEAD, MALE, Record, batch, compile, describe, evaluate_both_ways, household, person,
};
use daftar_cel::bind::{Answer, Bindings};
use daftar_cel::outcome::Verdict;
use daftar_cel::rule::{EvaluationFault, Rule, Way};
use daftar_cel::vector::Work;

/// Parts of the language that columns evaluate alone. Each is true of the head of [`family`], whose facts are all
/// recorded.
const BY_COLUMNS: [&str; 74] = [
    "true",
    "me.active",
    "!me.insured",
    "me.active && true",
    "me.insured || me.active",
    "me.active ? true : false",
    "me.active == true",
    "me.insured < me.active",
    "me.rooms == 3",
    "me.rooms != 2",
    "me.rooms < me.dependants",
    "me.rooms <= 3",
    "me.rooms > 2",
    "4 > me.rooms",
    "me.rooms >= 3",
    "me.income.amount < 5000.0",
    "me.income.amount < 5000",
    "9007199254740993 > me.income.amount",
    "me.rooms < me.income.amount",
    "me.district == 'north'",
    "me.district < 'o'",
    "me.gender == code('urn:iso:std:iso:5218#2')",
    "me.gender != code('urn:iso:std:iso:5218#1')",
    "me.gender.code == '2'",
    "me.gender.uri == 'urn:iso:std:iso:5218#2'",
    "me.birth_date < as_of",
    "me.birth_date == date('1960-02-29')",
    "date('1960-03-01') > me.birth_date",
    "me.birth_date != today()",
    "me.birth_date <= me.deceased_date",
    "age_years(me.birth_date) >= 60 && age_years(me.birth_date) < 70",
    "age_years(me.birth_date) == 66",
    "18 <= age_years(me.birth_date)",
    "age_years(me.birth_date) != 65",
    "age_years(me.birth_date) + 1 == 67",
    "age_years(me.birth_date) > me.rooms",
    "days_since(me.birth_date) > 365",
    "days_since(me.birth_date) - 1 > me.rooms",
    "between(age_years(me.birth_date), 60, 70)",
    "between(me.rooms, 1, me.dependants)",
    "between(me.income.amount, 1, 2000.5)",
    "between(me.birth_date, date('1960-01-01'), as_of)",
    "between(date('2000-01-01'), me.birth_date, as_of)",
    "me.rooms + 1 == 4 && me.rooms - 1 == 2 && me.rooms * 2 == 6 && me.rooms / 2 == 1 && me.rooms % 2 == 1",
    "me.income.amount * 2.0 + 1.0 - 0.5 > me.income.amount / 2.0",
    "-me.rooms == -3 && -me.income.amount < 0.0",
    "double(me.rooms) * 1.5 == 4.5",
    "int(me.income.amount) == 1000",
    "int('12') > me.rooms",
    "date('1960-02-29') == (me.active ? me.birth_date : me.deceased_date)",
    "(me.active ? me.rooms : 0) == 3",
    "(me.active ? me.income.amount : 0.0) > 1.0",
    "(me.active ? me.district : 'x') == 'north'",
    "(me.active ? me.gender : me.income.currency) == code('urn:iso:std:iso:5218#2')",
    "me.district.startsWith('no') && me.district.endsWith('th') && me.district.contains('ort')",
    "size(me.district) == 5",
    "date(me.name.given) == date('2026-01-31')",
    "me.rooms in [1, 2, 3]",
    "me.income.amount in [1000.0, 2.5] && me.income.amount in [1000, 2]",
    "me.gender.code in ['1', '2']",
    "me.gender in [code('urn:iso:std:iso:5218#1'), me.gender]",
    "code('urn:lang#ar') in me.languages",
    "me.district in me.tags",
    "is_female(me) && is_alive(me)",
    "descends_from(me.gender, 'urn:lang#en') || in_group(me.gender, 'feminine_gender')",
    "has(me.rooms) && has(me.name) && has(me.languages)",
    "size(members) == 2 && size(me.languages) == 2",
    "members.exists(m, is_head(m) && age_years(m.birth_date) >= 60)",
    "members.all(m, m.dependants < 9)",
    "members.exists_one(m, is_head(m))",
    "members.filter(m, is_female(m)).size() == 1 && members.filter(m, is_female(m)).filter(f, is_head(f)).size() < 2",
    "members.filter(m, is_female(m)).all(f, f.dependants == me.dependants)",
    "members.exists(m, members.exists(n, is_head(n)) && m.dependants <= me.rooms + 1)",
    "me.address.exists(a, a.line.exists(l, l == 'x') && a.district == me.district)",
];

fn family() -> Case {
    let head: Record = vec![
        ("role", Cell::Code(HEAD)),
        ("birth_date", Cell::Day("1960-02-29")),
        ("gender", Cell::Code(FEMALE)),
        ("dependants", Cell::Integer(4)),
    ];
    let husband: Record = vec![
        ("role", Cell::Code(11)),
        ("birth_date", Cell::Day("1990-01-01")),
        ("gender", Cell::Code(MALE)),
        ("dependants", Cell::Integer(0)),
    ];
    let me = vec![
        ("active", Cell::Boolean(true)),
        ("insured", Cell::Boolean(false)),
        ("rooms", Cell::Integer(3)),
        ("dependants", Cell::Integer(4)),
        ("income.amount", Cell::Number(1000.0)),
        ("income.currency", Cell::Code(FEMALE)),
        ("district", Cell::Text("north")),
        ("name.given", Cell::Text("2026-01-31")),
        ("gender", Cell::Code(FEMALE)),
        ("birth_date", Cell::Day("1960-02-29")),
        ("deceased_date", Cell::Day("2026-03-02")),
        ("languages", Cell::List(vec![Cell::Code(20), Cell::Code(21)])),
        ("tags", Cell::List(vec![Cell::Text("x"), Cell::Text("north")])),
        (
            "address",
            Cell::Records(vec![vec![
                ("district", Cell::Text("north")),
                ("line", Cell::List(vec![Cell::Text("y"), Cell::Text("x")])),
            ]]),
        ),
    ];
    Case { me, ..household(vec![head, husband]) }
}

/// The work of a rule with these subjects, after both strategies agreed on every outcome.
#[track_caller]
fn work(rule: &Rule, cases: &[Case]) -> Work {
    evaluate_both_ways(rule, batch(rule, cases)).unwrap().work
}

#[test]
fn columns_do_every_common_part_alone() {
    for expression in BY_COLUMNS {
        let rule = compile(expression);
        let evaluated = evaluate_both_ways(&rule, batch(&rule, &[family()])).unwrap();
        assert_eq!(describe(&evaluated.outcomes, 0), "yes", "{expression}");
        assert_eq!(evaluated.work, Work { by_columns: 1, by_rows: 0, parts_by_rows: 0 }, "{expression}");
    }
}

#[test]
fn only_subjects_with_unknown_answers_go_through_the_row_evaluator() {
    let rule = compile("me.active && me.rooms / me.dependants > 0");
    let subject = |active, dependants| {
        let known = vec![("rooms", Cell::Integer(3)), ("dependants", Cell::Integer(dependants))];
        let active: Record = Option::into_iter(active).map(|active| ("active", Cell::Boolean(active))).collect();
        person(known.into_iter().chain(active).collect())
    };
    let cases = [subject(Some(true), 1), subject(Some(false), 0), subject(Some(true), 0), subject(None, 1)];
    let evaluated = evaluate_both_ways(&rule, batch(&rule, &cases)).unwrap();
    let outcomes: Vec<String> = (0..4).map(|row| describe(&evaluated.outcomes, row)).collect();
    assert_eq!(outcomes, ["yes", "no", "? division_by_zero@1:23", "? me.active"]);
    assert_eq!(evaluated.work, Work { by_columns: 2, by_rows: 2, parts_by_rows: 0 });
}

#[test]
fn missing_facts_of_simple_parts_are_read_from_the_columns() {
    let fields = [
        ("gender", Cell::Code(FEMALE)),
        ("birth_date", Cell::Day("1990-01-01")),
        ("active", Cell::Boolean(true)),
        ("rooms", Cell::Integer(3)),
        ("dependants", Cell::Integer(3)),
        ("income.amount", Cell::Number(4.5)),
        ("district", Cell::Text("north")),
    ];
    // Every set of recorded fields, more than one block of them, and not a multiple of eight.
    let subject = |number: usize| -> Case {
        let recorded = fields.iter().enumerate().filter(|(at, _)| number >> at & 1 == 1);
        person(recorded.map(|(_, field)| field.clone()).collect())
    };
    let cases: Vec<Case> = (0..1_341).map(subject).collect();
    for expression in [
        "is_female(me) && age_years(me.birth_date) >= 18 && age_years(me.birth_date) < 60",
        "me.active || !(me.rooms > 2) && me.income.amount < 5.0",
        "me.active && (me.rooms > 3 || me.income.amount < 4.0 || me.district.contains('x'))",
        "me.district.startsWith('n') || me.birth_date != date('1990-01-01')",
        "has(me.rooms) && is_alive(me) && me.dependants == me.rooms && 'orthern'.contains(me.district)",
        "!(me.gender == code('urn:iso:std:iso:5218#2') && (me.active || me.district.endsWith('h')))",
    ] {
        let rule = compile(expression);
        let evaluated = evaluate_both_ways(&rule, batch(&rule, &cases)).unwrap();
        let is_undetermined = |verdict: &&Verdict| **verdict == Verdict::Undetermined;
        let undetermined = evaluated.outcomes.verdicts.iter().filter(is_undetermined).count();
        assert!(undetermined > 100, "{expression}: {undetermined}");
        assert_eq!(evaluated.work, Work { by_columns: 1_341, by_rows: 0, parts_by_rows: 0 }, "{expression}");
    }
}

#[test]
fn a_part_that_columns_cannot_do_is_asked_only_where_the_others_leave_it_open() {
    let cases: Vec<Case> =
        (0..10).map(|rooms| person(vec![("rooms", Cell::Integer(rooms)), ("district", Cell::Text("north"))])).collect();
    for expression in [
        "me.rooms >= 8 && me.district.matches('^n')",
        "me.district.matches('^n') && me.rooms >= 8",
        "me.rooms < 8 || me.district.matches('^s')",
    ] {
        let rule = compile(expression);
        assert_eq!(work(&rule, &cases), Work { by_columns: 10, by_rows: 0, parts_by_rows: 2 }, "{expression}");
    }
    let rule = compile("me.district.matches('^n')");
    assert_eq!(work(&rule, &cases), Work { by_columns: 0, by_rows: 10, parts_by_rows: 0 });
}

#[test]
fn many_subjects_with_households_of_all_sizes_agree_across_blocks() {
    let rule = compile(
        "members.exists(m, is_head(m) && age_years(m.birth_date) >= 60) || members.filter(m, m.dependants > 2).size() > 1",
    );
    let days = ["1950-01-01", "1966-03-01", "1966-03-02", "2008-02-29"];
    let member = |number: usize| -> Record {
        let all = vec![
            ("role", Cell::Code(if number.is_multiple_of(7) { HEAD } else { 11 })),
            ("birth_date", Cell::Day(days[number % days.len()])),
            ("dependants", Cell::Integer((number % 5) as i64)),
        ];
        all.into_iter()
            .enumerate()
            .filter(|(field, _)| !(number + field).is_multiple_of(31))
            .map(|(_, cell)| cell)
            .collect()
    };
    for members in [1, 6, 20] {
        let cases: Vec<Case> = (0..2_500)
            .map(|subject| household((0..subject % (2 * members)).map(|number| member(subject + number)).collect()))
            .collect();
        let work = work(&rule, &cases);
        assert_eq!((work.by_columns + work.by_rows, work.parts_by_rows), (2_500, 0));
        assert!(work.by_columns > 1_500, "{members}: {work:?}");
    }
}

#[test]
fn a_household_that_fits_no_block_goes_row_by_row_and_takes_few_others_along() {
    let rule = compile("members.exists(m, m.dependants > 1)");
    let of = |members: usize| household((0..members).map(|_| vec![("dependants", Cell::Integer(2))]).collect());
    for (members, is_by_columns) in [(8_191, true), (8_192, true), (8_193, false)] {
        let mut cases: Vec<Case> = (0..200).map(|_| of(0)).collect();
        cases[100] = of(members);
        let work = work(&rule, &cases);
        assert_eq!(work.by_rows == 0, is_by_columns, "{members}: {work:?}");
        assert!(work.by_rows <= 64, "{work:?}");
    }
}

#[test]
fn a_budget_that_a_row_goes_beyond_ends_the_batch_either_way() {
    let long: &'static str = Box::leak("x".repeat(40_000).into_boxed_str());
    let subject = |active: Option<bool>, text| {
        let active = active.map(|active| ("active", Cell::Boolean(active)));
        let known = [("district", Cell::Text(text)), ("birth_date", Cell::Day("1960-02-29"))];
        person(known.into_iter().chain(active).collect())
    };
    let adult = "age_years(me.birth_date) > 18";
    let doubled = "size(me.district + me.district) > 1";
    let is_exhausted = |expression: &str, active| {
        let rule = compile(expression);
        let cases = [subject(Some(true), "a"), subject(active, long), subject(Some(false), "b")];
        matches!(evaluate_both_ways(&rule, batch(&rule, &cases)), Err(EvaluationFault::Exhausted(_)))
    };
    for (expression, active, expected) in [
        (format!("me.active && {doubled}"), Some(false), false),
        (format!("me.active && {doubled}"), Some(true), true),
        (format!("me.active && {doubled}"), None, true),
        (format!("{doubled} && me.active"), Some(false), true),
        (format!("me.active || {doubled}"), Some(true), false),
        (format!("me.active || {doubled}"), Some(false), true),
        (format!("me.district.matches('z') && {doubled} && me.active"), Some(true), false),
        (format!("{adult} && {doubled} && age_years(me.birth_date) < 20"), Some(true), true),
        (format!("{adult} && age_years(me.birth_date) < 20 && {doubled}"), Some(true), false),
        (format!("me.active ? true : {doubled}"), Some(true), false),
        (format!("me.active ? true : {doubled}"), Some(false), true),
        (format!("!({doubled}) && false"), Some(true), true),
    ] {
        assert_eq!(is_exhausted(&expression, active), expected, "{expression} {active:?}");
    }
    let many = household((0..10_001).map(|_| vec![("dependants", Cell::Integer(2))]).collect());
    for (expression, expected) in [
        ("members.filter(m, m.dependants > 1).size() > 1", true),
        ("members.filter(m, m.dependants > 2).size() > 1", false),
        ("members.exists(m, m.dependants > 2)", false),
    ] {
        let rule = compile(expression);
        let ended = evaluate_both_ways(&rule, batch(&rule, &[household(Vec::new()), many.clone()]));
        assert_eq!(matches!(ended, Err(EvaluationFault::Exhausted(_))), expected, "{expression}");
    }
}

#[test]
fn parts_nested_as_deep_as_may_be_take_no_longer_than_their_length() {
    let mut text = "me.rooms".to_owned();
    let mut date = "me.birth_date".to_owned();
    for _ in 0..30 {
        text = format!("(between({text}, 0, 9) ? 1 : 2)");
        date = format!("(age_years({date}) > 1 && me.district.matches('n') ? me.birth_date : as_of)");
    }
    for expression in [format!("{text} == 1"), format!("age_years({date}) > 1")] {
        work(&compile(&expression), &[family(), person(Vec::new())]);
    }
}

#[test]
fn answers_of_the_host_decide_the_same_way_by_columns() {
    let rule = compile("in_group(me.gender, 'x') || me.gender == code('urn:iso:std:iso:5218#2')");
    let cases: Vec<Case> = (0..6).map(|code| person(vec![("gender", Cell::Code(code))])).collect();
    for missing in [None, Some("x".to_owned())] {
        for truths in [vec![], vec![2, 1, 0, 7, 1], vec![0; 40]] {
            let answers = vec![Answer::Truths { truths, missing: missing.clone() }, Answer::Number(FEMALE)];
            let bindings = Bindings::new(rule.plan(), answers, []).unwrap();
            let by = |way| rule.evaluate_by(way, &bindings, batch(&rule, &cases)).unwrap().outcomes;
            assert_eq!(by(Way::Columns), by(Way::Rows));
        }
    }
}
