//! Comparisons, arithmetic, texts and conversions, with missing facts.

use super::support::{Case, Cell, check, person};

fn subject() -> Case {
    person(vec![
        ("active", Cell::Boolean(true)),
        ("dependants", Cell::Integer(3)),
        ("income.amount", Cell::Number(2500.5)),
        ("name.family", Cell::Text("Al-Ḥakīm")),
        ("birth_date", Cell::Day("1966-05-10")),
    ])
}

#[test]
fn compares_values_of_one_type() {
    check(
        &subject(),
        &[
            ("me.dependants == 3 && me.dependants != 4", "yes"),
            ("me.dependants < 3 || me.dependants > 3", "no"),
            ("me.dependants <= 3 && me.dependants >= 3", "yes"),
            ("me.name.family < 'B' && me.name.family == 'Al-Ḥakīm'", "yes"),
            ("me.birth_date < date('1966-05-11')", "yes"),
            ("me.birth_date == date('1966-05-10')", "yes"),
            ("me.active == true && false < me.active", "yes"),
        ],
    );
}

#[test]
fn compares_whole_numbers_with_fractions() {
    check(
        &subject(),
        &[
            ("me.dependants == 3.0", "yes"),
            ("me.income.amount > 2500", "yes"),
            ("2501 > me.income.amount", "yes"),
            ("3 < 3.5 && 3.5 > 3 && 4 >= 3.5", "yes"),
            ("0.0 / 0.0 == 1 || 0.0 / 0.0 < 1 || 1 > 0.0 / 0.0", "no"),
            ("0.0 / 0.0 != 0.0 / 0.0", "yes"),
        ],
    );
}

#[test]
fn a_missing_operand_makes_a_comparison_or_sum_missing() {
    for operator in ["==", "!=", "<", "<=", ">", ">="] {
        check(
            &subject(),
            &[
                (format!("me.rooms {operator} 3").as_str(), "? me.rooms"),
                (format!("3 {operator} me.rooms").as_str(), "? me.rooms"),
                (format!("me.district {operator} me.name.given").as_str(), "? me.district me.name.given"),
            ],
        );
    }
    for operator in ["+", "-", "*", "/", "%"] {
        check(&subject(), &[(format!("me.rooms {operator} 3 == 1").as_str(), "? me.rooms")]);
        check(&subject(), &[(format!("3 {operator} me.rooms == 1").as_str(), "? me.rooms")]);
    }
    check(&subject(), &[("-me.rooms == 1", "? me.rooms"), ("me.district.contains('x')", "? me.district")]);
}

#[test]
fn calculates_and_reports_errors() {
    check(
        &subject(),
        &[
            ("(me.dependants + 4) * 2 - 1 == 13", "yes"),
            ("7 / 2 == 3 && 7 % 2 == 1 && -7 / 2 == -3", "yes"),
            ("7.0 / 2.0 == 3.5 && -(1.5) == -1.5", "yes"),
            ("me.dependants / 0 == 1", "? division_by_zero@1:15"),
            ("me.dependants % 0 == 1", "? division_by_zero@1:15"),
            ("9223372036854775807 + me.dependants == 1", "? overflow@1:21"),
            ("-9223372036854775808 - me.dependants == 1", "? overflow@1:22"),
            ("9223372036854775807 * me.dependants == 1", "? overflow@1:21"),
            ("-9223372036854775808 / -1 == 1", "? overflow@1:22"),
            ("-9223372036854775808 % -1 == 1", "? overflow@1:22"),
            ("1.0 / 0.0 > 5.0", "yes"),
        ],
    );
}

#[test]
fn asks_about_texts() {
    check(
        &subject(),
        &[
            ("me.name.family.startsWith('Al-')", "yes"),
            ("me.name.family.endsWith('kīm')", "yes"),
            ("me.name.family.contains('ḥ')", "no"),
            ("me.name.family.matches('^A.*m$')", "yes"),
            ("matches(me.name.family, '[0-9]')", "no"),
            ("me.name.family.matches(me.name.family + '(')", "? invalid_pattern@1:16"),
            ("size(me.name.family) == 8 && me.name.family.size() == 8", "yes"),
            ("me.name.family + '!' == 'Al-Ḥakīm!'", "yes"),
            (r"'a\tb' == 'a	b' && r'\d' == '\\d'", "yes"),
        ],
    );
}

#[test]
fn converts_values() {
    check(
        &subject(),
        &[
            ("int('42') == 42 && int(me.income.amount) == 2500", "yes"),
            ("double(me.dependants) * 1.5 == 4.5", "yes"),
            ("string(me.dependants) == '3'", "yes"),
            ("bool('true')", "yes"),
            ("int(me.name.family) == 1", "? invalid_conversion@1:1"),
            ("int(me.district) == 1", "? me.district"),
            ("int(1e300) == 1", "? invalid_conversion@1:1"),
            ("date('1966-05' + '-10') == me.birth_date", "yes"),
            ("date(me.name.family) == me.birth_date", "? invalid_conversion@1:1"),
        ],
    );
}

#[test]
fn has_is_never_undetermined() {
    check(
        &subject(),
        &[
            ("has(me.birth_date)", "yes"),
            ("has(me.gender) || has(me.rooms)", "no"),
            ("has(me.gender.code)", "no"),
            ("has(me.name)", "yes"),
            ("has(me.income)", "yes"),
            ("has(me.languages) || has(me.address)", "no"),
            ("has(me.rooms) && me.rooms > 3", "no"),
            ("!has(me.rooms) || me.rooms > 3", "yes"),
        ],
    );
    let known_to_be_none = person(vec![("languages", Cell::List(Vec::new())), ("address", Cell::Records(Vec::new()))]);
    check(&known_to_be_none, &[("has(me.languages) && has(me.address)", "yes"), ("has(me.name)", "no")]);
}
