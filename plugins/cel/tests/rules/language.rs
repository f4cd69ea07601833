//! Other parts of CEL in rules: maps, optional values, texts, times, named values, with missing facts.

use super::support::{ARABIC, Case, Cell, ENGLISH, FEMALE, MALE, check, compile, faults, household, person};
use daftar_cel::diagnostic::Fault;

fn subject() -> Case {
    person(vec![
        ("active", Cell::Boolean(true)),
        ("dependants", Cell::Integer(3)),
        ("district", Cell::Text("North East")),
        ("birth_date", Cell::Day("1960-02-29")),
        ("gender", Cell::Code(FEMALE)),
        ("income.amount", Cell::Number(99.5)),
        ("languages", Cell::List(vec![Cell::Code(ENGLISH), Cell::Code(ARABIC)])),
        ("tags", Cell::List(vec![Cell::Text("b"), Cell::Text("a"), Cell::Text("b")])),
    ])
}

#[test]
fn maps_are_looked_up_by_what_is_recorded() {
    check(
        &subject(),
        &[
            ("{'North East': 100, 'South': 80}[me.district] == 100", "yes"),
            ("me.income.amount < {'North East': 100.0, 'South': 80.0}[me.district]", "yes"),
            ("{'South': 80}[me.district] == 80", "? no_such_key@1:14"),
            ("me.district in {'North East': true}", "yes"),
            ("has({'a': me.dependants}.a)", "yes"),
            ("{'a': me.dependants}.a == 3", "yes"),
            ("{'a': me.rooms}.a == 3", "? me.rooms"),
            ("{'a': me.rooms}.a == 3 || true", "yes"),
            ("{'a': 1, 'b': 2}[me.name.family] == 2", "? me.name.family"),
            ("{'b': 2, 'a': 1}.map(k, k) == ['a', 'b']", "yes"),
            ("size({'a': 1}) == 1", "yes"),
            ("{'a': 1}.exists(k, v, k == 'a' && v == me.dependants - 2)", "yes"),
        ],
    );
}

#[test]
fn a_field_may_be_taken_as_optional() {
    check(
        &subject(),
        &[
            ("me.?dependants.orValue(0) == 3", "yes"),
            ("me.?rooms.orValue(0) == 0", "yes"),
            ("me.?rooms.hasValue()", "no"),
            ("me.?dependants.hasValue()", "yes"),
            ("me.?income.?amount.orValue(0.0) > 50.0", "yes"),
            ("me.?rooms.optMap(r, r * 2).orValue(-1) == -1", "yes"),
            ("me.?dependants.optMap(d, d * 2).orValue(-1) == 6", "yes"),
            ("me.?rooms.or(me.?dependants).value() == 3", "yes"),
            ("me.?rooms.value() == 3", "? invalid_conversion@1:11"),
            ("{'a': 1}.?b.orValue(5) == 5", "yes"),
        ],
    );
    assert_eq!(faults("me.?birth_date.hasValue()")[0].fault, Fault::WrongType);
    assert_eq!(faults("me.?gendre.hasValue()")[0].suggestion.as_deref(), Some("gender"));
}

#[test]
fn a_field_of_an_unknown_record_is_no_empty_optional_value() {
    let alone = person(vec![("address", Cell::Records(vec![vec![]]))]);
    check(
        &alone,
        &[
            ("me.address[0].?district.hasValue()", "no"),
            ("me.address.exists(a, !a.?district.hasValue())", "yes"),
            ("members[0].?dependants.hasValue()", "? index_out_of_bounds@1:8"),
            ("!(members[0].?dependants.hasValue()) && me.active", "? me.active index_out_of_bounds@1:10"),
        ],
    );
    let ambiguous = Case { members: None, ..person(vec![]) };
    check(
        &ambiguous,
        &[
            ("!members[0].?dependants.hasValue()", "? members"),
            ("members[0].?dependants.orValue(0) == 0", "? members"),
            ("members[0].?dependants.orValue(0) == 0 || true", "yes"),
            ("cel.bind(m, members[0], m.?dependants.orValue(0) == 0)", "? members"),
            ("me.address[0].?district.orValue('x') == 'x'", "? me.address"),
            ("me.?rooms.hasValue()", "no"),
        ],
    );
}

#[test]
fn names_are_given_to_parts_once() {
    check(
        &subject(),
        &[
            ("cel.bind(age, age_years(me.birth_date), age >= 60 && age < 70)", "yes"),
            ("cel.bind(r, me.rooms, true)", "yes"),
            ("cel.bind(r, me.rooms, r > 1 || me.active)", "yes"),
            ("cel.bind(r, me.rooms, r > 1)", "? me.rooms"),
            ("cel.bind(x, 1 / 0, x == 1 || true)", "yes"),
            ("cel.bind(a, 1, cel.bind(b, a + 1, a + b == 3))", "yes"),
            ("cel.bind(a, 1, [2].exists(a, a == 2) && a == 1)", "yes"),
        ],
    );
}

#[test]
fn macros_may_have_two_variables() {
    let family = household(vec![
        vec![("gender", Cell::Code(FEMALE))],
        vec![("dependants", Cell::Integer(2))],
        vec![("gender", Cell::Code(MALE)), ("dependants", Cell::Integer(1))],
    ]);
    check(
        &family,
        &[
            ("members.exists(i, m, i == 2 && is_male(m))", "yes"),
            ("members.exists(i, m, i > 0 && is_female(m))", "? members.gender"),
            ("members.all(i, m, i < 3)", "yes"),
            ("members.exists_one(i, m, i == 1)", "yes"),
            ("members.transformList(i, m, i * 10) == [0, 10, 20]", "yes"),
            ("members.transformList(i, m, i > 0, i) == [1, 2]", "yes"),
            ("members.transformList(i, m, is_male(m), i).size() >= 1", "yes"),
            ("members.transformList(i, m, is_male(m), i).size() == 1", "? members.gender"),
            ("members.transformMap(i, m, i < 2, i + 1) == {0: 1, 1: 2}", "yes"),
            ("members.transformMap(i, m, m.dependants)[2] == 1", "? members.dependants"),
            ("members.transformMapEntry(i, m, {string(i): i})['2'] == 2", "yes"),
            ("members.transformMapEntry(i, m, {'x': i}).size() == 1", "? duplicate_key@1:1"),
            ("members.filter(m, is_male(m)).exists(i, m, i == 1)", "? members.gender"),
        ],
    );
}

#[test]
fn texts_numbers_and_lists_have_their_libraries() {
    check(
        &subject(),
        &[
            ("me.district.lowerAscii() == 'north east'", "yes"),
            ("me.district.split(' ')[0] == 'North'", "yes"),
            ("me.district.split(' ').exists(w, w == 'East')", "yes"),
            ("me.district.substring(0, 5) == 'North'", "yes"),
            ("me.district.indexOf('East') == 6", "yes"),
            ("me.district.charAt(40) == 'x'", "? invalid_conversion@1:13"),
            ("me.name.family.upperAscii() == 'X'", "? me.name.family"),
            ("math.greatest(me.dependants, 2, 1) == 3", "yes"),
            ("math.least(me.dependants, me.rooms) == 3", "? me.rooms"),
            ("math.ceil(me.income.amount) == 100.0", "yes"),
            ("math.greatest([1, 5, 3]) == 5", "yes"),
            ("me.tags.distinct().size() == 2", "yes"),
            ("me.tags.sort() == ['a', 'b', 'b']", "yes"),
            ("me.tags.sortBy(t, size(t)).size() == 3", "yes"),
            ("me.tags.join('-') == 'b-a-b'", "yes"),
            ("'%s: %d'.format(dyn([me.district, me.dependants])) == 'North East: 3'", "yes"),
            ("{'content-type': me.district}.`content-type` == 'North East'", "yes"),
            ("lists.range(3).map(i, i * me.dependants) == [0, 3, 6]", "yes"),
            ("[3, 1, 2].sort()[0] == 1", "yes"),
        ],
    );
}

#[test]
fn dates_are_instants_where_instants_are_asked_for() {
    check(
        &subject(),
        &[
            ("me.birth_date.getFullYear() == 1960", "yes"),
            ("me.birth_date.getMonth() == 1", "yes"),
            ("timestamp(me.birth_date) + duration('24h') == timestamp('1960-03-01T00:00:00Z')", "yes"),
            ("timestamp(as_of) - timestamp(me.birth_date) > duration('1h')", "yes"),
            ("string(me.birth_date) == '1960-02-29'", "yes"),
            ("me.deceased_date.getFullYear() == 2020", "? me.deceased_date"),
            ("date(string(me.birth_date)) == me.birth_date", "yes"),
        ],
    );
}

#[test]
fn types_are_left_open_where_that_is_said() {
    check(
        &subject(),
        &[
            ("dyn(me.district) == 3", "no"),
            ("dyn(me.dependants) + 1 == 4", "yes"),
            ("dyn('a') + 1 == 3", "? wrong_type@1:10"),
            ("dyn(1) == 1u && dyn(1.0) == 1", "yes"),
            ("type(me.dependants) == int", "yes"),
            ("dyn(me.rooms) == 3", "? me.rooms"),
            ("dyn('x') && false", "no"),
            ("dyn(me.active)", "yes"),
            ("dyn(3)", "? wrong_type@1:5"),
            ("dyn(unknown(1) || true)", "yes"),
            ("dyn(unknown)", "? undeclared@1:5"),
        ],
    );
    let warned = compile("dyn(unknown(1)) || me.active");
    let warnings: Vec<Fault> = warned.warnings().iter().map(|warning| warning.fault).collect();
    assert_eq!(warnings, [Fault::UnknownFunction]);
    assert_eq!(faults("dyn(me.gendre)")[0].fault, Fault::UnknownField);
}

#[test]
fn what_the_crate_knows_nothing_of_is_not_given_to_it() {
    for (expression, text, suggestion) in [
        ("{'a': me.birth_date}.a == as_of", "me.birth_date", Some("timestamp(me.birth_date)")),
        ("{'a': me.gender}.a == 1", "me.gender", Some("me.gender.code")),
        ("dyn(members).size() == 1", "members", None),
        ("me.languages.distinct().size() == 1", "me.languages", None),
        ("me.gender.lowerAscii() == 'x'", "me.gender", Some("me.gender.code")),
        ("me.rooms.lowerAscii() == 'x'", "me.rooms", None),
        ("math.ceil('a') == 1.0", "'a'", None),
    ] {
        let found = faults(expression);
        assert_eq!(found.len(), 1, "{expression}: {found:#?}");
        assert_eq!((found[0].fault, found[0].span.text(expression)), (Fault::WrongType, text), "{expression}");
        assert_eq!(found[0].suggestion.as_deref(), suggestion, "{expression}");
    }
}

#[test]
fn functions_of_the_libraries_are_suggested_too() {
    for (expression, suggestion) in [
        ("me.district.lowerAsci() == 'x'", "lowerAscii"),
        ("math.ceill(1.5) == 2.0", "math.ceil"),
        ("me.district.splt(' ').size() == 1", "split"),
    ] {
        let found = faults(expression);
        assert_eq!((found[0].fault, found[0].suggestion.as_deref()), (Fault::UnknownFunction, Some(suggestion)));
    }
}

#[test]
fn variables_hide_what_goes_by_the_same_name() {
    check(
        &subject(),
        &[
            ("[1].exists(me, me == 1)", "yes"),
            ("[{'z': 0}].exists(y, y.z == 0)", "yes"),
            ("[1].exists(y, [0].exists(y, y == 0))", "yes"),
            ("[1].exists(math, math + 1 == 2)", "yes"),
            ("['a'].exists(int, int == 'a')", "yes"),
        ],
    );
    assert!(compile("[1].exists(x, x == 1)").warnings().len() == 1, "it reads unknown");
}
