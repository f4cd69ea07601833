//! Diagnostics of invalid expressions: the fault, the text in question, and the suggestion.

use super::support::{compile, faults};
use daftar_cel::diagnostic::{Fault, Severity};

/// Checks that an expression has exactly this fault, at this text, with this suggestion.
fn check(table: &[(&str, Fault, &str, Option<&str>)]) {
    for (expression, fault, text, suggestion) in table {
        let found = faults(expression);
        assert_eq!(found.len(), 1, "{expression}: {found:#?}");
        let found = &found[0];
        assert_eq!(found.fault, *fault, "{expression}: {found:?}");
        assert_eq!(found.span.text(expression), *text, "{expression}: {found:?}");
        assert_eq!(found.suggestion.as_deref(), *suggestion, "{expression}: {found:?}");
        assert!(!found.message.is_empty() && !found.message.contains('\n'), "{expression}: {found:?}");
    }
}

#[test]
fn names_the_nearest_field() {
    check(&[
        ("me.birthdate < as_of", Fault::UnknownField, "birthdate", Some("birth_date")),
        ("is_female(me) && me.birtDate < as_of", Fault::UnknownField, "birtDate", Some("birth_date")),
        ("me.income.amnt < 5.0", Fault::UnknownField, "amnt", Some("amount")),
        ("members.exists(m, m.gendre == m.gender)", Fault::UnknownField, "gendre", Some("gender")),
        ("me.address.exists(a, a.distrct == 'x')", Fault::UnknownField, "distrct", Some("district")),
        ("me.shoe_size > 40", Fault::UnknownField, "shoe_size", None),
        ("me.gender.cod == '2'", Fault::UnknownField, "cod", Some("code")),
        ("has(me.birth)", Fault::UnknownField, "birth", None),
        ("programs.exists(p, is_head(p))", Fault::WrongType, "p", None),
        ("is_head(me)", Fault::UnknownField, "is_head", None),
    ]);
}

#[test]
fn names_the_nearest_root_variable_or_function() {
    check(&[
        ("member.exists(m, is_head(m))", Fault::UnknownName, "member", Some("members")),
        ("gender == me.gender", Fault::UnknownName, "gender", Some("me.gender")),
        ("members.exists(m, is_head(n))", Fault::UnknownName, "n", Some("m")),
        ("members.exists(m, role == m.role)", Fault::UnknownName, "role", Some("m.role")),
        ("today == as_of", Fault::UnknownName, "today", None),
        ("age_year(me.birth_date) > 1", Fault::UnknownFunction, "age_year", Some("age_years")),
        ("isFemale(me)", Fault::UnknownFunction, "isFemale", Some("is_female")),
        ("members.exist(m, is_head(m))", Fault::UnknownFunction, "exist", Some("exists")),
        ("me.district.startswith('x')", Fault::UnknownFunction, "startswith", Some("startsWith")),
        ("startsWith(me.district, 'x')", Fault::UnknownFunction, "startsWith", None),
        ("me.birth_date.age_years() > 1", Fault::UnknownFunction, "age_years", None),
        ("frobnicate(me)", Fault::UnknownFunction, "frobnicate", None),
    ]);
}

#[test]
fn a_code_is_compared_with_a_code() {
    check(
        &[
            (
                "me.gender == 'urn:iso:std:iso:5218#2'",
                Fault::WrongType,
                "'urn:iso:std:iso:5218#2'",
                Some("code('urn:iso:std:iso:5218#2')"),
            ),
            ("me.gender == '2'", Fault::WrongType, "me.gender", Some("me.gender.code")),
            ("'female' != me.gender", Fault::WrongType, "me.gender", Some("me.gender.code")),
            ("me.gender == 2", Fault::WrongType, "me.gender == 2", None),
            ("me.gender < code('a#b')", Fault::WrongType, "me.gender < code('a#b')", None),
            ("me.gender in ['a#b']", Fault::WrongType, "me.gender in ['a#b']", None),
        ][..6],
    );
    check(&[("me.gender.matches('2')", Fault::WrongType, "me.gender", Some("me.gender.code"))]);
}

#[test]
fn operands_have_the_types_that_operators_take() {
    check(&[
        ("me.birth_date < '2026-01-01'", Fault::WrongType, "'2026-01-01'", Some("date('2026-01-01')")),
        ("me.birth_date - me.deceased_date > 1", Fault::WrongType, "me.birth_date - me.deceased_date", None),
        ("me.income.amount + 5 > 1.0", Fault::WrongType, "5", Some("5.0")),
        ("me.income.amount * -5 > 1.0", Fault::WrongType, "-5", Some("-5.0")),
        ("me.income.amount * me.rooms > 1.0", Fault::WrongType, "me.rooms", Some("double(me.rooms)")),
        ("me.income.amount % 2.0 > 1.0", Fault::WrongType, "me.income.amount % 2.0", None),
        ("me.district + 1 == 'x'", Fault::WrongType, "me.district + 1", None),
        ("me.district == 1", Fault::WrongType, "me.district == 1", None),
        ("me.name == 'x'", Fault::WrongType, "me.name", None),
        ("me.tags == 'x'", Fault::WrongType, "me.tags", None),
        ("me.rooms && me.active", Fault::WrongType, "me.rooms", None),
        ("not me.rooms == 1", Fault::WrongType, "me.rooms", None),
        ("me.rooms ? true : false", Fault::WrongType, "me.rooms", None),
        ("(me.active ? 1 : 'a') == 1", Fault::WrongType, "1 : 'a'", None),
        ("-me.district == 1", Fault::WrongType, "me.district", None),
        ("[1, 'a'] == [1]", Fault::WrongType, "'a'", None),
        ("me.rooms in me.tags", Fault::WrongType, "me.rooms in me.tags", None),
        ("'a' in me.district", Fault::WrongType, "me.district", None),
        ("me.tags['a'] == 'x'", Fault::WrongType, "'a'", None),
        ("me.rooms[0] == 1", Fault::WrongType, "me.rooms", None),
        ("me.rooms.x == 1", Fault::WrongType, "x", None),
        ("me.tags.x == 1", Fault::WrongType, "x", None),
        ("size(me.rooms) == 1", Fault::WrongType, "me.rooms", None),
        ("me.rooms.exists(r, r == 1)", Fault::WrongType, "me.rooms", None),
        ("members.exists(m, m.dependants)", Fault::WrongType, "m.dependants", None),
        ("members.exists(1, true)", Fault::WrongType, "1", None),
        ("members == members", Fault::WrongType, "members", None),
        ("me.rooms.contains('x')", Fault::WrongType, "me.rooms", None),
        ("int(me.birth_date) == 1", Fault::WrongType, "me.birth_date", None),
        ("between(me.rooms, 'a', 3)", Fault::WrongType, "me.rooms, 'a'", None),
        ("has(members)", Fault::WrongType, "has", None),
    ]);
}

#[test]
fn helpers_take_people_codes_and_dates() {
    check(&[
        ("age_years(me) > 1", Fault::WrongType, "me", Some("me.birth_date")),
        ("members.exists(m, age_years(m) > 1)", Fault::WrongType, "m", Some("m.birth_date")),
        ("age_years('2000-01-01') > 1", Fault::WrongType, "'2000-01-01'", Some("date('2000-01-01')")),
        ("days_since(me.rooms) > 1", Fault::WrongType, "me.rooms", None),
        ("is_female(members)", Fault::WrongType, "members", None),
        ("is_female('2')", Fault::WrongType, "'2'", None),
        ("is_female(me.name)", Fault::WrongType, "me.name", None),
        ("is_alive(me.deceased_date)", Fault::WrongType, "me.deceased_date", None),
        ("in_group(me.languages, 'x')", Fault::WrongType, "me.languages", None),
        ("in_group(code('a#b'), 'x')", Fault::WrongType, "code('a#b')", None),
        ("date(1) == as_of", Fault::WrongType, "1", None),
    ]);
}

#[test]
fn literals_are_literal_and_right() {
    check(&[
        ("in_group(me.gender, me.district)", Fault::NotLiteral, "me.district", None),
        ("in_group(me.gender, 'a' + 'b')", Fault::NotLiteral, "'a' + 'b'", None),
        ("code(me.district) == me.gender", Fault::NotLiteral, "me.district", None),
        ("descends_from(me.gender, 3)", Fault::NotLiteral, "3", None),
        ("in_group(me.gender, '')", Fault::InvalidLiteral, "''", None),
        ("in_group(me.gender, ' ')", Fault::InvalidLiteral, "' '", None),
        (r"code('a#\u0001') == me.gender", Fault::InvalidLiteral, r"'a#\u0001'", None),
        ("descends_from(me.gender, 'female')", Fault::InvalidLiteral, "'female'", None),
        ("code('urn:x#') == me.gender", Fault::InvalidLiteral, "'urn:x#'", None),
        ("date('2026-02-30') == as_of", Fault::InvalidLiteral, "'2026-02-30'", None),
        ("me.district.matches('(a')", Fault::InvalidLiteral, "'(a'", None),
    ]);
}

#[test]
fn functions_take_as_many_arguments_as_they_take() {
    check(&[
        ("is_female()", Fault::WrongArgumentCount, "is_female", None),
        ("between(me.rooms, 1) && true", Fault::WrongArgumentCount, "between", None),
        ("today(1) == as_of", Fault::WrongArgumentCount, "today", None),
        ("members.exists(m)", Fault::WrongArgumentCount, "exists", None),
        ("members.map(a, b, c, d) == []", Fault::WrongArgumentCount, "map", None),
        ("me.tags.size(1) == 1", Fault::WrongArgumentCount, "size", None),
    ]);
}

#[test]
fn a_rule_answers_with_true_or_false() {
    check(&[
        ("me.rooms + 1", Fault::NotBoolean, "me.rooms + 1", None),
        ("me", Fault::NotBoolean, "me", None),
        ("members.filter(m, is_head(m))", Fault::NotBoolean, "members.filter(m, is_head(m))", None),
        ("age_years( me.birth_date )", Fault::NotBoolean, "age_years( me.birth_date )", None),
    ]);
}

#[test]
fn what_the_language_does_not_have_is_named() {
    check(&[
        ("Message{a: 1} == 1", Fault::Unsupported, "{", None),
        ("me.?rooms == 1", Fault::WrongType, "me.?rooms == 1", None),
        ("b'a' == 'a'", Fault::WrongType, "b'a' == 'a'", None),
        ("me.rooms + 1u == 3", Fault::WrongType, "me.rooms + 1u", None),
        ("timestamp('2026-01-31T00:00:00Z') == 3", Fault::WrongType, "timestamp('2026-01-31T00:00:00Z') == 3", None),
    ]);
}

#[test]
fn every_fault_is_found_in_one_reading() {
    let expression = "me.birthdate < as_of &&\n  is_femal(me) && me.rooms == 'x'";
    let found = faults(expression);
    let places: Vec<(Fault, u32, u32, u32)> = found
        .iter()
        .map(|fault| {
            let place = fault.place(expression);
            (fault.fault, place.line, place.column, place.length)
        })
        .collect();
    assert_eq!(
        places,
        [(Fault::UnknownField, 1, 4, 9), (Fault::UnknownFunction, 2, 3, 8), (Fault::WrongType, 2, 19, 15),]
    );
}

#[test]
fn places_count_characters_of_the_text_as_it_was_written() {
    let expression = "me.district == 'Ḥāʾil' and\n\tnot me.activ";
    let found = faults(expression);
    let place = found[0].place(expression);
    assert_eq!((place.line, place.column, place.length), (2, 9, 5));
    let expression = "me.district == 'Ḥāʾil' and me.activ";
    let place = faults(expression)[0].place(expression);
    assert_eq!((place.line, place.column, place.length), (1, 31, 5));
}

#[test]
fn a_rule_that_reads_nothing_is_warned_about() {
    let rule = compile("1 < 2");
    let warnings: Vec<(Severity, Fault)> =
        rule.warnings().iter().map(|warning| (warning.severity, warning.fault)).collect();
    assert_eq!(warnings, [(Severity::Warning, Fault::Constant)]);
    assert!(compile("size(members) > 1").warnings().is_empty());
    assert!(compile("is_female(me)").warnings().is_empty());
}

#[test]
fn at_most_twenty_faults_are_reported() {
    let expression = vec!["me.nothing"; 50].join(" && ");
    assert_eq!(faults(&expression).len(), 20);
}

/// The host treats a response that is too long or contains control characters as a fault of the engine.
#[test]
fn nothing_of_a_hostile_expression_makes_a_message_long_or_unprintable() {
    let long = "x".repeat(7_000);
    for expression in [
        format!("me.{long}"),
        format!("{long}(me)"),
        long.clone(),
        format!("me.gender == '{long}'"),
        format!("me.gender == '{long}#2'"),
        format!("age_years('{long}') > 1"),
        format!("in_group(me.gender, '{long}')"),
        format!("code('a#{long}') == me.gender"),
        format!("date('{long}') == as_of"),
        format!("me.income.amount + ({}1) > 1.0", "1+".repeat(200)),
        "me.gender == '\u{1b}[2J\u{7}'".to_owned(),
        "me.birth_date < '\u{1b}'".to_owned(),
        "date('\u{1b}\u{0}') == as_of".to_owned(),
        "me.district.matches('(\u{1b}')".to_owned(),
        "age_years('\u{85}') > 1".to_owned(),
        "\u{1b}".to_owned(),
    ] {
        let found = faults(&expression);
        assert!(!found.is_empty(), "{expression:?}");
        for fault in found {
            assert!(fault.message.chars().count() <= 500 && !fault.message.contains(char::is_control), "{fault:?}");
            let suggestion = fault.suggestion.unwrap_or_default();
            assert!(suggestion.len() <= 500 && !suggestion.contains(char::is_control), "{suggestion:?}");
        }
    }
}

#[test]
fn a_root_without_any_field_in_the_schema_does_not_exist() {
    use daftar_cel::rule::Rule;
    use daftar_cel::schema::{Schema, Subject};
    let schema = Schema::new(Subject::Individual, []);
    for expression in ["size(members) > 1", "programs.exists(p, true)"] {
        let found = Rule::compile(expression, &schema).unwrap_err();
        assert_eq!(found[0].fault, Fault::UnknownName, "{expression}");
    }
}

#[test]
fn identifiers_are_not_for_rules_and_the_message_says_so() {
    let found = &faults("me.identifier == 'urn:x#id|1'")[0];
    assert_eq!((found.fault, found.suggestion.as_deref()), (Fault::UnknownField, None));
    assert_eq!(found.message, "`me` has no field `identifier`: rules cannot read identifiers");
}
