//! The helpers of the registry: codes, people, dates.

use super::support::{
    ARABIC, CHILD, Case, Cell, ENGLISH, FEMALE, HEAD, MALE, NOT_KNOWN, PREGNANT, Record, check, compile, household,
    person,
};
use daftar_cel::plan::Question;

fn woman() -> Case {
    person(vec![
        ("gender", Cell::Code(FEMALE)),
        ("birth_date", Cell::Day("1966-05-10")),
        ("pregnancy_status", Cell::Code(PREGNANT)),
    ])
}

fn member(record: Record) -> Case {
    household(vec![record])
}

#[test]
fn gender_helpers_take_a_code_or_a_person() {
    check(
        &woman(),
        &[
            ("is_female(me)", "yes"),
            ("is_female(me.gender)", "yes"),
            ("is_male(me)", "no"),
            ("not is_male(me) and is_female(me)", "yes"),
        ],
    );
    check(
        &member(vec![("gender", Cell::Code(MALE)), ("role", Cell::Code(HEAD))]),
        &[
            ("members.exists(m, is_male(m) && is_head(m))", "yes"),
            ("members.exists(m, is_female(m.gender))", "no"),
            ("members.all(m, is_head(m.role))", "yes"),
            ("is_female(me)", "? me.gender"),
        ],
    );
    check(&member(vec![("role", Cell::Code(CHILD))]), &[("members.exists(m, is_head(m))", "no")]);
}

#[test]
fn a_gender_that_is_not_known_is_missing_to_the_helpers_and_itself_to_everything_else() {
    check(
        &person(vec![("gender", Cell::Code(NOT_KNOWN))]),
        &[
            ("is_female(me)", "? me.gender"),
            ("is_male(me.gender)", "? me.gender"),
            ("me.gender.code == '0'", "yes"),
            ("me.gender == code('urn:iso:std:iso:5218#0')", "yes"),
            ("me.gender == code('urn:iso:std:iso:5218#2')", "no"),
            ("has(me.gender)", "yes"),
        ],
    );
    check(&member(vec![("gender", Cell::Code(NOT_KNOWN))]), &[("members.exists(m, is_male(m))", "? members.gender")]);
}

#[test]
fn a_group_that_is_not_filled_is_named_as_missing() {
    check(
        &woman(),
        &[
            ("is_pregnant(me)", "? pregnant_eligible"),
            ("in_group(me.gender, 'pregnant_eligible') || is_pregnant(me)", "? pregnant_eligible"),
            ("in_group(me.pregnancy_status, 'filled')", "yes"),
            ("is_pregnant(me) && is_male(me)", "no"),
        ],
    );
    check(&person(Vec::new()), &[("is_pregnant(me)", "? me.pregnancy_status")]);
}

#[test]
fn asks_about_groups_and_descendants_of_codes() {
    let speaker = person(vec![("languages", Cell::List(vec![Cell::Code(ENGLISH), Cell::Code(ARABIC)]))]);
    check(
        &speaker,
        &[
            ("me.languages.exists(l, l == code('urn:lang#ar'))", "yes"),
            ("me.languages.all(l, descends_from(l, 'urn:lang#any'))", "yes"),
            ("me.languages.exists(l, descends_from(l, 'urn:other#x'))", "no"),
            ("me.languages.exists(l, in_group(l, 'feminine_gender'))", "no"),
        ],
    );
    check(
        &woman(),
        &[("in_group(me.gender, 'feminine_gender')", "yes"), ("descends_from(me.gender, 'urn:x#1')", "no")],
    );
}

#[test]
fn reads_the_texts_of_codes() {
    check(
        &woman(),
        &[
            ("me.gender.code == '2' && me.gender.display == 'Female'", "yes"),
            ("me.gender.uri == 'urn:iso:std:iso:5218#2'", "yes"),
            ("me.gender.namespace.endsWith('5218')", "yes"),
            ("me.income.currency.code == 'USD'", "? me.income.currency"),
        ],
    );
    let rule = compile("me.gender.code == '2' && is_pregnant(me)");
    let needs: Vec<(&str, bool)> =
        rule.plan().references().iter().map(|reference| (reference.path.as_str(), reference.needs_texts)).collect();
    assert_eq!(needs, [("gender", true), ("pregnancy_status", false)]);
}

#[test]
fn the_same_question_is_asked_once() {
    let rule = compile(
        "is_female(me) && members.exists(m, is_female(m) && m.gender == code('urn:iso:std:iso:5218#2')) \
         && in_group(me.gender, 'feminine_gender') && me.gender != code('urn:iso:std:iso:5218#2')",
    );
    let questions: Vec<&Question> = rule.plan().questions().iter().map(|placed| &placed.question).collect();
    assert_eq!(
        questions,
        [&Question::InGroup("feminine_gender".into()), &Question::Code("urn:iso:std:iso:5218#2".into())]
    );
}

#[test]
fn a_person_without_a_date_of_death_is_alive() {
    check(&person(Vec::new()), &[("is_alive(me)", "yes"), ("not is_alive(me)", "no")]);
    for (deceased, expected) in [("2026-02-28", "no"), ("2026-03-01", "no"), ("2026-03-02", "yes")] {
        check(&person(vec![("deceased_date", Cell::Day(deceased))]), &[("is_alive(me)", expected)]);
        check(
            &member(vec![("deceased_date", Cell::Day(deceased))]),
            &[("members.filter(m, is_alive(m)).size() == 1", expected)],
        );
    }
}

#[test]
fn counts_years_and_days_to_the_day_of_asking() {
    check(
        &woman(),
        &[
            ("age_years(me.birth_date) == 59", "yes"),
            ("age_years(date('1966-03-01')) == 60", "yes"),
            ("age_years(date('1966-03-02')) == 59", "yes"),
            ("days_since(date('2026-02-26')) == 3", "yes"),
            ("days_since(date('2026-03-02')) == -1", "yes"),
            ("today() == as_of && as_of == date('2026-03-01')", "yes"),
            ("age_years(me.deceased_date) > 1", "? me.deceased_date"),
        ],
    );
}

#[test]
fn a_birthday_on_29_february_is_1_march_in_common_years() {
    // The rule is evaluated on 1 March 2026.
    check(&person(vec![("birth_date", Cell::Day("2008-02-29"))]), &[("age_years(me.birth_date) == 18", "yes")]);
    check(&person(vec![("birth_date", Cell::Day("2008-03-01"))]), &[("age_years(me.birth_date) == 18", "yes")]);
    check(&person(vec![("birth_date", Cell::Day("2008-03-02"))]), &[("age_years(me.birth_date) == 17", "yes")]);
}

#[test]
fn between_includes_both_ends_and_is_false_where_one_end_says_so() {
    check(
        &woman(),
        &[
            ("between(age_years(me.birth_date), 59, 60)", "yes"),
            ("between(age_years(me.birth_date), 18, 59)", "yes"),
            ("between(age_years(me.birth_date), 60, 70)", "no"),
            ("between(me.birth_date, date('1966-01-01'), as_of)", "yes"),
            ("between(5, 1.5, 5.0) && between('b', 'a', 'c')", "yes"),
            ("between(5, 6, me.rooms)", "no"),
            ("between(5, me.rooms, 4)", "no"),
            ("between(5, 4, me.rooms)", "? me.rooms"),
            ("between(me.rooms, 4, me.dependants)", "? me.dependants me.rooms"),
        ],
    );
}
