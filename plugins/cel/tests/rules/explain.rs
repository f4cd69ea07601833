//! Explanations: the value of each part of a rule for one subject, and the facts it read.

use super::support::{
    Case, Cell, ENGLISH, FEMALE, HEAD, MALE, batch, bind, compile, describe, evaluate, household, person,
};
use daftar_cel::explanation::{ExplainedValue, Explanation};
use daftar_cel::limits::EXPLAINED_PARTS_MAX;

fn explain(expression: &str, case: &Case) -> Explanation {
    let rule = compile(expression);
    rule.explain(&bind(&rule), batch(&rule, std::slice::from_ref(case)), 0).unwrap().expect("there is one row")
}

fn shown(value: &ExplainedValue) -> String {
    match value {
        ExplainedValue::Unknown => "?".to_owned(),
        ExplainedValue::Boolean(truth) => truth.to_string(),
        ExplainedValue::Integer(integer) => integer.to_string(),
        ExplainedValue::Number(number) => format!("{number:?}"),
        ExplainedValue::Day(days) => format!("day {days}"),
        ExplainedValue::Code(number) => format!("code {number}"),
        ExplainedValue::Text(text) => format!("'{text}'"),
        ExplainedValue::Items(low, high) if low == high => format!("{low} items"),
        ExplainedValue::Items(low, high) => format!("{low} to {high} items"),
        ExplainedValue::Structure => "record".to_owned(),
        ExplainedValue::Other(text) => text.clone(),
    }
}

/// One line per part: indented by depth, with value, text, missing facts and facts read.
fn tree(expression: &str, case: &Case) -> String {
    let explanation = explain(expression, case);
    let mut depths: Vec<usize> = Vec::new();
    for part in &explanation.parts {
        depths.push(part.parent.map_or(0, |parent| depths[parent] + 1));
    }
    let lines = explanation.parts.iter().zip(depths).map(|(part, depth)| {
        let mut line = format!("{}{}", "  ".repeat(depth), shown(&part.value));
        line += &part.item.map(|item| format!(" #{item}")).unwrap_or_default();
        line += &format!(" `{}`", part.span.text(expression));
        line += &part.missing.iter().map(|name| format!(" -{name}")).collect::<String>();
        line += &part.error.map(|error| format!(" !{error}")).unwrap_or_default();
        line += &part.seen.iter().map(|fact| format!(" {}={}", fact.name, shown(&fact.value))).collect::<String>();
        line
    });
    lines.collect::<Vec<_>>().join("\n")
}

fn woman() -> Case {
    person(vec![
        ("gender", Cell::Code(FEMALE)),
        ("birth_date", Cell::Day("1960-01-01")),
        ("active", Cell::Boolean(false)),
    ])
}

#[test]
fn each_part_shows_its_value_and_the_facts_it_read() {
    assert_eq!(
        tree("is_female(me) && age_years(me.birth_date) >= 60", &woman()),
        "true `is_female(me) && age_years(me.birth_date) >= 60`\n  \
         true `is_female(me)` me.gender=code 2\n  \
         true `age_years(me.birth_date) >= 60`\n    \
         66 `age_years(me.birth_date)` me.birth_date=day -3653"
    );
    assert_eq!(
        tree("not me.active and me.gender.code == '2'", &woman()),
        "true `not me.active and me.gender.code == '2'`\n  \
         true `not me.active`\n    \
         false `me.active` me.active=false\n  \
         true `me.gender.code == '2'`\n    \
         '2' `me.gender.code` me.gender=code 2"
    );
}

#[test]
fn missing_facts_and_errors_are_reported_at_their_part() {
    assert_eq!(
        tree("me.rooms > 2 || 1 / 0 == 1 || has(me.rooms)", &woman()),
        "? `me.rooms > 2 || 1 / 0 == 1 || has(me.rooms)` -me.rooms !division_by_zero\n  \
         ? `me.rooms > 2 || 1 / 0 == 1` -me.rooms !division_by_zero\n    \
         ? `me.rooms > 2` -me.rooms me.rooms=?\n    \
         ? `1 / 0 == 1` !division_by_zero\n      \
         ? `1 / 0` !division_by_zero\n  \
         false `has(me.rooms)` me.rooms=?"
    );
}

#[test]
fn skipped_parts_are_explained_too() {
    let reported = tree("me.active && age_years(me.birth_date) > 90", &woman());
    assert!(reported.contains("false `age_years(me.birth_date) > 90`"), "{reported}");
    let reported = tree("me.active ? me.rooms > 1 : is_male(me)", &woman());
    assert!(reported.starts_with("false ") && reported.contains("? `me.rooms > 1` -me.rooms"), "{reported}");
}

#[test]
fn macros_are_explained_for_each_member() {
    let family = household(vec![
        vec![("gender", Cell::Code(FEMALE)), ("role", Cell::Code(HEAD))],
        vec![("role", Cell::Code(HEAD))],
        vec![("gender", Cell::Code(MALE))],
    ]);
    assert_eq!(
        tree("members.filter(m, is_female(m)).size() >= 1", &family),
        "true `members.filter(m, is_female(m)).size() >= 1`\n  \
         ? `members.filter(m, is_female(m)).size()` -members.gender\n    \
         1 to 2 items `members.filter(m, is_female(m))` members=3 items\n      \
         true #0 `is_female(m)` members[0].gender=code 2\n      \
         ? #1 `is_female(m)` -members.gender members[1].gender=?\n      \
         false #2 `is_female(m)` members[2].gender=code 1"
    );
    assert_eq!(
        tree("members.exists(i, m, i > 0 && is_male(m))", &family),
        "true `members.exists(i, m, i > 0 && is_male(m))` members=3 items\n  \
         false #0 `i > 0 && is_male(m)`\n    \
         false #0 `i > 0` i=0\n    \
         false #0 `is_male(m)` members[0].gender=code 2\n  \
         ? #1 `i > 0 && is_male(m)` -members.gender\n    \
         true #1 `i > 0` i=1\n    \
         ? #1 `is_male(m)` -members.gender members[1].gender=?\n  \
         true #2 `i > 0 && is_male(m)`\n    \
         true #2 `i > 0` i=2\n    \
         true #2 `is_male(m)` members[2].gender=code 1"
    );
    let none = Case { members: None, ..person(Vec::new()) };
    assert_eq!(tree("members.exists(m, is_male(m))", &none), "? `members.exists(m, is_male(m))` -members members=?");
}

#[test]
fn items_of_lists_go_by_their_numbers() {
    let case = person(vec![
        ("languages", Cell::List(vec![Cell::Absent, Cell::Code(ENGLISH)])),
        ("address", Cell::Records(vec![vec![("district", Cell::Text("north"))], Vec::new()])),
    ]);
    assert_eq!(
        tree("me.languages.exists(l, l == code('urn:lang#en'))", &case),
        "true `me.languages.exists(l, l == code('urn:lang#en'))` me.languages=2 items\n  \
         ? #0 `l == code('urn:lang#en')` -me.languages l=?\n  \
         true #1 `l == code('urn:lang#en')` l=code 20"
    );
    assert_eq!(
        tree("me.address.exists(a, a.district == 'south')", &case),
        "? `me.address.exists(a, a.district == 'south')` -me.address[].district me.address=2 items\n  \
         false #0 `a.district == 'south'` me.address[0].district='north'\n  \
         ? #1 `a.district == 'south'` -me.address[].district me.address[1].district=?"
    );
}

#[test]
fn names_and_other_values_are_explained() {
    assert_eq!(
        tree("cel.bind(age, age_years(me.birth_date), age > 60)", &woman()),
        "true `cel.bind(age, age_years(me.birth_date), age > 60)`\n  \
         66 `age_years(me.birth_date)` me.birth_date=day -3653\n  \
         true `age > 60` age=66"
    );
    assert_eq!(
        tree("{'b': 1u, 'a': [null]}.size() == 2", &woman()),
        "true `{'b': 1u, 'a': [null]}.size() == 2`\n  \
         2 `{'b': 1u, 'a': [null]}.size()`\n    \
         {\"a\": [null], \"b\": 1u} `{'b': 1u, 'a': [null]}`\n      \
         1 items `[null]`"
    );
    let reported = tree("timestamp(me.birth_date) < timestamp('2020-01-01T00:00:00Z')", &woman());
    assert!(reported.contains("timestamp(\"1960-01-01T00:00:00+00:00\") `"), "{reported}");
}

#[test]
fn parts_are_explained_as_they_are_written() {
    assert_eq!(
        tree("2 < (me.birth_date.getFullYear() / (me.birth_date.getMonth() + 1))", &woman()),
        "true `2 < (me.birth_date.getFullYear() / (me.birth_date.getMonth() + 1))`\n  \
         1960 `me.birth_date.getFullYear() / (me.birth_date.getMonth() + 1)`\n    \
         1960 `me.birth_date.getFullYear()` me.birth_date=day -3653\n    \
         1 `me.birth_date.getMonth() + 1`\n      \
         0 `me.birth_date.getMonth()` me.birth_date=day -3653"
    );
}

#[test]
fn the_whole_is_what_evaluating_gives() {
    let cases = [woman(), person(Vec::new()), household(vec![vec![("gender", Cell::Code(MALE))], Vec::new()])];
    for expression in [
        "is_female(me) || me.rooms > 2",
        "members.all(m, is_male(m))",
        "me.active ? me.rooms > 1 : 1 / 0 == 2",
        "members.map(m, m.gender.code).exists(c, c == '1')",
        "me.?rooms.orValue(3) == 3",
    ] {
        for case in &cases {
            let rule = compile(expression);
            let outcomes = evaluate(&rule, std::slice::from_ref(case)).unwrap();
            let explanation = explain(expression, case);
            let whole = &explanation.parts[0];
            let message = match whole.value {
                ExplainedValue::Boolean(true) => "yes".to_owned(),
                ExplainedValue::Boolean(false) => "no".to_owned(),
                _ => format!("? {}", whole.missing.join(" ")),
            };
            let outcome = describe(&outcomes, 0);
            assert!(outcome.starts_with(message.trim()), "{expression}: {outcome}, explained as {message}");
            assert_eq!(whole.error.is_some(), outcome.contains('@'), "{expression}");
            assert_eq!(explanation, explain(expression, case), "{expression}: told twice");
        }
    }
}

#[test]
fn long_stories_are_cut() {
    let members = vec![vec![("gender", Cell::Code(MALE))]; EXPLAINED_PARTS_MAX];
    let explanation = explain("members.exists(m, is_female(m))", &household(members));
    assert_eq!((explanation.parts.len(), explanation.is_cut), (EXPLAINED_PARTS_MAX, true));
    let members = vec![vec![("gender", Cell::Code(MALE))]; EXPLAINED_PARTS_MAX - 1];
    let explanation = explain("members.exists(m, is_female(m))", &household(members));
    assert_eq!((explanation.parts.len(), explanation.is_cut), (EXPLAINED_PARTS_MAX, false));
    let rule = compile("is_female(me)");
    assert_eq!(rule.explain(&bind(&rule), batch(&rule, &[woman()]), 1), Ok(None));
}

#[test]
fn costs_grow_with_the_expression_and_with_lists() {
    let cost = |expression: &str| {
        let cost = compile(expression).cost();
        (cost.steps_min, cost.steps_max)
    };
    assert_eq!(cost("me.active"), (2, 2));
    assert_eq!(cost("me.active && me.insured"), (3, 5));
    assert_eq!(cost("me.active ? me.insured : me.rooms > 1"), (5, 9));
    let (least, most) = cost("members.exists(m, is_male(m))");
    assert_eq!((least, most), (2, 302));
    let (_, nested) = cost("members.exists(a, members.exists(b, a.gender == b.gender))");
    assert!(nested > 100 * 100, "{nested}");
    assert_eq!(cost("[1, 2, 3].all(x, x > 0)"), (8, 14));
}
