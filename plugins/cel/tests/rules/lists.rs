//! Members, programs, repeated fields and structures, and comprehensions over them with facts missing.

use super::support::{
    ARABIC, CHILD, Case, Cell, ENGLISH, FEMALE, HEAD, MALE, Record, check, compile, household, person,
};
use daftar_cel::schema::Space;

fn adult(born: &'static str, gender: u32, role: u32) -> Record {
    vec![("birth_date", Cell::Day(born)), ("gender", Cell::Code(gender)), ("role", Cell::Code(role))]
}

/// An old woman at the head, a man and a girl.
fn family() -> Case {
    household(vec![
        adult("1950-01-01", FEMALE, HEAD),
        adult("1980-01-01", MALE, CHILD),
        adult("2015-01-01", FEMALE, CHILD),
    ])
}

/// The same with a fourth person of whom only the role is known.
fn family_with_an_unrelated_member() -> Case {
    let mut case = family();
    case.members.as_mut().unwrap().push(vec![("role", Cell::Code(CHILD))]);
    case
}

#[test]
fn asks_about_members() {
    check(
        &family(),
        &[
            ("members.exists(m, is_head(m) && age_years(m.birth_date) >= 60)", "yes"),
            ("members.all(m, age_years(m.birth_date) >= 18)", "no"),
            ("members.exists_one(m, is_male(m))", "yes"),
            ("members.existsOne(m, is_female(m))", "no"),
            ("size(members) == 3 && members.size() == 3", "yes"),
            ("members.filter(m, is_female(m)).size() == 2", "yes"),
            ("members.map(m, age_years(m.birth_date)).exists(a, a == 11)", "yes"),
            ("members.map(m, is_female(m), age_years(m.birth_date)) == [76, 11]", "yes"),
            ("members[0].gender.code == '2'", "yes"),
            ("members[3].gender.code == '2'", "? index_out_of_bounds@1:8"),
            ("members[-1].gender.code == '2'", "? index_out_of_bounds@1:8"),
            ("has(members[7].gender)", "no"),
        ],
    );
    check(
        &household(Vec::new()),
        &[
            ("members.exists(m, is_head(m))", "no"),
            ("members.all(m, is_head(m))", "yes"),
            ("size(members) == 0", "yes"),
        ],
    );
}

#[test]
fn a_fact_missing_of_one_member_matters_only_where_the_others_do_not_decide() {
    check(
        &family_with_an_unrelated_member(),
        &[
            ("members.exists(m, is_female(m))", "yes"),
            ("members.exists(m, age_years(m.birth_date) > 90)", "? members.birth_date"),
            ("members.all(m, is_female(m))", "no"),
            ("members.all(m, age_years(m.birth_date) < 90)", "? members.birth_date"),
            ("members.exists(m, is_head(m) && age_years(m.birth_date) > 90)", "no"),
            ("members.exists(m, is_male(m) && age_years(m.birth_date) > 60)", "? members.birth_date members.gender"),
            ("members.exists_one(m, is_female(m))", "no"),
            ("members.exists_one(m, is_male(m))", "? members.gender"),
        ],
    );
}

#[test]
fn a_filter_that_cannot_decide_on_a_member_leaves_it_in_doubt() {
    check(
        &family_with_an_unrelated_member(),
        &[
            ("members.filter(m, is_female(m)).size() == 2", "? members.gender"),
            ("members.filter(m, is_female(m)).size() != 2", "? members.gender"),
            ("members.filter(m, is_female(m)).size() >= 2", "yes"),
            ("members.filter(m, is_female(m)).size() < 2", "no"),
            ("members.filter(m, is_female(m)).size() > 3", "no"),
            ("3 >= members.filter(m, is_female(m)).size()", "yes"),
            ("members.filter(m, is_female(m)).size() == 4", "no"),
            ("members.filter(m, is_female(m)).size() + 1 == 3", "? members.gender"),
            ("between(members.filter(m, is_female(m)).size(), 1, 3)", "yes"),
            ("between(members.filter(m, is_female(m)).size(), 3, 9)", "? members.gender"),
            ("members.filter(m, is_male(m)).size() < members.filter(m, is_head(m)).size()", "no"),
            ("members.filter(m, is_female(m)).exists(m, is_head(m))", "yes"),
            (
                "members.filter(m, is_female(m)).exists(m, age_years(m.birth_date) > 90)",
                "? members.birth_date members.gender",
            ),
            (
                "members.filter(m, is_female(m)).all(m, age_years(m.birth_date) != 46)",
                "? members.birth_date members.gender",
            ),
            ("members.filter(m, is_female(m)).all(m, age_years(m.birth_date) > 60)", "no"),
            ("members.filter(m, is_male(m)).all(m, is_head(m))", "no"),
            ("members.filter(m, is_head(m)).size() == 1", "yes"),
            ("members.filter(m, is_male(m))[0].gender.code == '1'", "yes"),
            ("members.filter(m, is_male(m))[1].gender.code == '1'", "? members.gender"),
            ("members.map(m, age_years(m.birth_date)).exists(a, a == 76)", "yes"),
            ("76 in members.map(m, age_years(m.birth_date))", "yes"),
            ("90 in members.map(m, age_years(m.birth_date))", "? members.birth_date"),
            ("members.map(m, age_years(m.birth_date)).size() == 4", "yes"),
        ],
    );
}

#[test]
fn members_that_are_not_known_are_missing_which_is_not_none() {
    let case = Case { members: None, programs: None, ..person(Vec::new()) };
    check(
        &case,
        &[
            ("members.exists(m, is_head(m))", "? members"),
            ("size(members) > 3", "? members"),
            ("members.filter(m, is_head(m)).size() >= 0", "? members"),
            ("members.exists(m, is_head(m)) || true", "yes"),
            ("programs.exists(p, p.program == 'x') || members.all(m, is_head(m))", "? members programs"),
        ],
    );
}

#[test]
fn asks_about_programs() {
    let case = Case {
        programs: Some(vec![
            vec![("program", Cell::Text("pension")), ("enrollment_date", Cell::Day("2025-01-01"))],
            vec![("program", Cell::Text("cash"))],
        ]),
        ..person(Vec::new())
    };
    check(
        &case,
        &[
            ("programs.exists(p, p.program == 'pension' && days_since(p.enrollment_date) > 365)", "yes"),
            ("programs.all(p, days_since(p.enrollment_date) > 365)", "? programs.enrollment_date"),
            ("programs.size() == 2", "yes"),
        ],
    );
}

#[test]
fn comprehensions_stand_inside_each_other() {
    check(
        &family(),
        &[
            ("members.exists(a, members.exists(b, a.birth_date < b.birth_date && is_female(a) && is_male(b)))", "yes"),
            ("members.all(a, members.exists_one(b, a.birth_date == b.birth_date))", "yes"),
            ("members.exists(m, members.filter(x, x.birth_date > m.birth_date).size() == 2)", "yes"),
            ("members.map(a, members.filter(b, b.birth_date < a.birth_date).size()) == [0, 1, 2]", "yes"),
            ("members.exists(m, m.birth_date == as_of || has(me.birth_date))", "no"),
        ],
    );
}

#[test]
fn asks_about_repeated_fields() {
    let case = person(vec![
        ("languages", Cell::List(vec![Cell::Code(ENGLISH), Cell::Absent, Cell::Code(ARABIC)])),
        ("tags", Cell::List(vec![Cell::Text("urban"), Cell::Text("new")])),
        ("gender", Cell::Code(FEMALE)),
    ]);
    check(
        &case,
        &[
            ("me.languages.exists(l, l == code('urn:lang#ar'))", "yes"),
            ("me.languages.exists(l, l == code('urn:lang#fr'))", "? me.languages"),
            ("code('urn:lang#en') in me.languages", "yes"),
            ("code('urn:lang#fr') in me.languages", "? me.languages"),
            ("me.languages.size() == 3", "yes"),
            ("me.languages[0].code == 'en'", "yes"),
            ("me.languages[1].code == 'en'", "? me.languages"),
            ("me.languages.map(l, l.display).exists(d, d == 'Arabic')", "yes"),
            ("'urban' in me.tags && !('rural' in me.tags)", "yes"),
            ("me.tags == ['urban', 'new']", "yes"),
            ("me.tags + ['x'] == ['urban', 'new', 'x']", "yes"),
            ("me.tags.exists(t, t.startsWith('ur'))", "yes"),
            ("me.gender in [code('urn:iso:std:iso:5218#1'), code('urn:iso:std:iso:5218#2')]", "yes"),
            ("me.gender in []", "no"),
            ("me.rooms in []", "no"),
            ("me.rooms in [1, 2]", "? me.rooms"),
            ("1 in [me.rooms, 1]", "yes"),
            ("2 in [me.rooms, 1]", "? me.rooms"),
        ],
    );
    check(
        &person(Vec::new()),
        &[
            ("me.languages.exists(l, l == code('urn:lang#ar'))", "? me.languages"),
            ("'urban' in me.tags", "? me.tags"),
            ("size(me.tags) == 0", "? me.tags"),
        ],
    );
    check(
        &person(vec![("tags", Cell::List(Vec::new()))]),
        &[("'urban' in me.tags", "no"), ("size(me.tags) == 0", "yes")],
    );
}

#[test]
fn asks_about_repeated_structures() {
    let case = person(vec![(
        "address",
        Cell::Records(vec![
            vec![("district", Cell::Text("north")), ("line", Cell::List(vec![Cell::Text("1"), Cell::Text("Main St")]))],
            vec![("line", Cell::List(Vec::new()))],
        ]),
    )]);
    check(
        &case,
        &[
            ("me.address.exists(a, a.district == 'north')", "yes"),
            ("me.address.exists(a, a.district == 'south')", "? me.address[].district"),
            ("me.address.exists(a, a.line.exists(l, l.startsWith('Main')))", "yes"),
            ("me.address.exists(a, has(a.district) && a.district == 'south')", "no"),
            ("me.address[0].line[1] == 'Main St'", "yes"),
            ("me.address[1].line[0] == 'Main St'", "? index_out_of_bounds@1:19"),
            ("me.address.filter(a, size(a.line) > 0).size() == 1", "yes"),
            ("size(me.address) == 2", "yes"),
        ],
    );
    check(&person(Vec::new()), &[("me.address.exists(a, a.district == 'north')", "? me.address")]);
}

#[test]
fn errors_inside_of_comprehensions_follow_cel() {
    check(
        &family(),
        &[
            ("members.exists(m, 1 / (age_years(m.birth_date) - 76) == 0)", "yes"),
            ("members.all(m, 1 / (age_years(m.birth_date) - 76) == 5)", "no"),
            ("members.exists(m, 1 / (age_years(m.birth_date) - 76) == 5)", "? division_by_zero@1:21"),
            ("members.exists_one(m, 1 / (age_years(m.birth_date) - 76) == 0)", "? division_by_zero@1:25"),
            ("members.filter(m, 1 / (age_years(m.birth_date) - 76) == 0).size() > 0", "? division_by_zero@1:21"),
            ("members.map(m, 1 / (age_years(m.birth_date) - 76)).exists(x, x == 0)", "? division_by_zero@1:18"),
            ("[1 / 0, 1].exists(x, x == 1)", "? division_by_zero@1:4"),
            ("1 / 0 in []", "? division_by_zero@1:3"),
        ],
    );
}

#[test]
fn a_rule_that_only_counts_members_says_that_it_reads_them() {
    let rule = compile("size(members) > 3");
    let references = rule.references();
    assert_eq!(references.len(), 1);
    assert_eq!((references[0].space, references[0].path.as_str()), (Space::Members, ""));
    let rule = compile("members.exists(m, is_head(m))");
    let paths: Vec<String> = rule.references().into_iter().map(|reference| reference.path).collect();
    assert_eq!(paths, ["role"]);
}
