//! Suggestions: a rule whose faulty text is replaced by the suggestion compiles and is the intended one.

use super::support::schema_with_vocabularies;
use daftar_cel::rule::Rule;

/// Faulty rules with the rule that each becomes.
const FIXED: [(&str, &str); 24] = [
    ("age_years(me.birth_date) => 60", "age_years(me.birth_date) >= 60"),
    ("age_years(me.birth_date) =< 60", "age_years(me.birth_date) <= 60"),
    ("me.rooms =! 2", "me.rooms != 2"),
    ("me.rooms = 2", "me.rooms == 2"),
    ("me.active & me.rooms > 2", "me.active && me.rooms > 2"),
    ("me.active | me.rooms > 2", "me.active || me.rooms > 2"),
    ("me.district == ‘North’", "me.district == 'North'"),
    ("me.district == “North”", "me.district == 'North'"),
    ("me.birthdate < as_of", "me.birth_date < as_of"),
    ("members.exists(m, m.gendre == me.gender)", "members.exists(m, m.gender == me.gender)"),
    ("me.gender.cod == '2'", "me.gender.code == '2'"),
    ("member.exists(m, is_head(m))", "members.exists(m, is_head(m))"),
    ("gender == code('urn:iso:std:iso:5218#2')", "me.gender == code('urn:iso:std:iso:5218#2')"),
    ("age_year(me.birth_date) > 1", "age_years(me.birth_date) > 1"),
    ("members.exist(m, is_head(m))", "members.exists(m, is_head(m))"),
    ("me.district.startswith('x')", "me.district.startsWith('x')"),
    ("me.gender == 'urn:iso:std:iso:5218#2'", "me.gender == code('urn:iso:std:iso:5218#2')"),
    ("me.gender == '2'", "me.gender == code('urn:iso:std:iso:5218#2')"),
    ("'2' != me.gender", "code('urn:iso:std:iso:5218#2') != me.gender"),
    ("me.pregnancy_status == 'yes'", "me.pregnancy_status.code == 'yes'"),
    ("me.gender.matches('2')", "me.gender.code.matches('2')"),
    ("me.birth_date < '2026-01-01'", "me.birth_date < date('2026-01-01')"),
    ("me.income.amount + 5 > 1.0", "me.income.amount + 5.0 > 1.0"),
    ("age_years(me) > 1", "age_years(me.birth_date) > 1"),
];

#[test]
fn every_suggestion_yields_the_intended_rule() {
    let schema = schema_with_vocabularies();
    for (faulty, expected) in FIXED {
        let found = Rule::compile(faulty, &schema).expect_err(faulty);
        let fault =
            found.iter().find(|fault| fault.suggestion.is_some()).unwrap_or_else(|| panic!("{faulty}: {found:?}"));
        let mut fixed = faulty.to_owned();
        fixed.replace_range(fault.span.start..fault.span.end, fault.suggestion.as_deref().unwrap());
        assert_eq!(fixed, expected, "{faulty}: {fault:?}");
        let rule = Rule::compile(&fixed, &schema).unwrap_or_else(|faults| panic!("{fixed}: {faults:#?}"));
        assert!(rule.warnings().is_empty(), "{fixed}: {:?}", rule.warnings());
    }
}

#[test]
fn nothing_is_suggested_that_would_be_a_fault_itself() {
    let schema = schema_with_vocabularies();
    for faulty in [
        "me.gender == 'urn:lang#ar'",
        "me.birth_date < 'last year'",
        "age_years('never') > 1",
        "me.district == ‘it’s’",
        "me.gender == ''",
    ] {
        let found = Rule::compile(faulty, &schema).expect_err(faulty);
        assert!(found.iter().all(|fault| fault.suggestion.is_none()), "{faulty}: {found:?}");
    }
}
