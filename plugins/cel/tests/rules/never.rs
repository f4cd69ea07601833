//! Comparisons that are never true.

use super::support::{compile, faults, schema_with_vocabularies};
use daftar_cel::diagnostic::{Diagnostic, Fault, Severity};
use daftar_cel::rule::Rule;

/// The diagnostic, its text, and whether the rule can still run.
fn remark(expression: &str) -> Option<(Severity, String, String)> {
    let recorded = |found: &Diagnostic| {
        assert_eq!(found.fault, Fault::NeverTrue, "{expression}: {found:?}");
        (found.severity, found.span.text(expression).to_owned(), found.message.clone())
    };
    match Rule::compile(expression, &schema_with_vocabularies()) {
        Ok(rule) => rule.warnings().first().map(recorded),
        Err(found) => {
            assert_eq!(found.len(), 1, "{expression}: {found:#?}");
            found.first().map(recorded)
        }
    }
}

#[test]
fn a_code_of_another_vocabulary_is_never_that_of_a_field() {
    for (expression, text) in [
        ("me.gender == code('urn:lang#ar')", "code('urn:lang#ar')"),
        ("code('urn:lang#ar') != me.gender", "code('urn:lang#ar')"),
        ("me.gender in [code('urn:iso:std:iso:5218#2'), code('urn:lang#ar')]", "code('urn:lang#ar')"),
        ("me.languages.exists(l, l == code('urn:iso:std:iso:5218#2'))", "code('urn:iso:std:iso:5218#2')"),
        ("members.exists(m, m.gender == code('urn:role#head'))", "code('urn:role#head')"),
    ] {
        let (severity, found, message) = remark(expression).expect(expression);
        assert_eq!((severity, found.as_str()), (Severity::Error, text), "{expression}: {message}");
    }
    let (_, _, message) = remark("me.gender == code('urn:lang#ar')").unwrap();
    assert_eq!(message, "`me.gender` holds codes of `urn:iso:std:iso:5218`, so it is never one of `urn:lang`");
    for sound in [
        "me.gender == code('urn:iso:std:iso:5218#2')",
        "me.languages.exists(l, l == code('urn:lang#ar'))",
        "(me.active ? me.gender : code('urn:lang#ar')) == code('urn:lang#ar')",
        "[me.gender, code('urn:lang#ar')].exists(c, c == code('urn:lang#ar'))",
        "me.pregnancy_status == code('urn:any#thing')",
    ] {
        assert_eq!(remark(sound), None, "{sound}");
    }
}

#[test]
fn a_code_descends_from_none_of_another_vocabulary() {
    for (expression, text) in [
        ("descends_from(me.gender, 'urn:lang#ar')", "'urn:lang#ar'"),
        ("me.languages.exists(l, descends_from(l, 'urn:role#head'))", "'urn:role#head'"),
        ("members.exists(m, descends_from(m.role, 'urn:lang#ar'))", "'urn:lang#ar'"),
    ] {
        let (severity, found, message) = remark(expression).expect(expression);
        assert_eq!((severity, found.as_str()), (Severity::Warning, text), "{expression}: {message}");
    }
    for sound in [
        "descends_from(me.gender, 'urn:iso:std:iso:5218#2')",
        "me.languages.exists(l, descends_from(l, 'urn:lang#ar'))",
        "descends_from(me.pregnancy_status, 'urn:any#thing')",
    ] {
        assert_eq!(remark(sound), None, "{sound}");
    }
}

#[test]
fn a_part_of_a_code_is_of_a_vocabulary_of_its_field() {
    for (expression, text) in [
        ("me.gender.code == 'urn:iso:std:iso:5218#2'", "'urn:iso:std:iso:5218#2'"),
        ("me.gender.uri == 'urn:lang#ar'", "'urn:lang#ar'"),
        ("'2' == me.gender.uri", "'2'"),
        ("me.gender.namespace == 'urn:lang'", "'urn:lang'"),
    ] {
        let (severity, found, message) = remark(expression).expect(expression);
        assert_eq!((severity, found.as_str()), (Severity::Warning, text), "{expression}: {message}");
    }
    for sound in [
        "me.gender.code == '2'",
        "me.gender.uri == 'urn:iso:std:iso:5218#2'",
        "me.gender.namespace == 'urn:iso:std:iso:5218'",
        "me.gender.display == 'Female'",
        "me.pregnancy_status.namespace == 'urn:any'",
    ] {
        assert_eq!(remark(sound), None, "{sound}");
    }
}

#[test]
fn bounds_stand_the_right_way_round() {
    let (severity, text, message) = remark("between(age_years(me.birth_date), 60, 18)").unwrap();
    assert_eq!((severity, text.as_str()), (Severity::Error, "between(age_years(me.birth_date), 60, 18)"));
    assert_eq!(message, "nothing is between `60` and `18`; the smaller bound comes first");
    assert!(remark("between(me.birth_date, date('2020-01-01'), date('2019-12-31'))").is_some());
    assert_eq!(remark("between(me.rooms, 3, 3)"), None);
}

#[test]
fn a_count_is_never_less_than_nothing() {
    for expression in ["size(members) < 0", "0 > members.size()", "me.tags.size() == -1", "size(me.tags) <= -1"] {
        assert_eq!(remark(expression).expect(expression).0, Severity::Error, "{expression}");
    }
    for sound in ["size(members) <= 0", "size(members) == 0", "days_since(me.birth_date) < 0"] {
        assert_eq!(remark(sound), None, "{sound}");
    }
}

#[test]
fn comparisons_that_shut_each_other_out_are_warned_about() {
    for (expression, text) in [
        ("me.rooms < 2 && me.rooms > 5", "me.rooms > 5"),
        ("me.rooms < 2 && me.active && me.rooms >= 2", "me.rooms >= 2"),
        ("age_years(me.birth_date) >= 60 and 18 > age_years(me.birth_date)", "18 > age_years(me.birth_date)"),
        ("me.district == 'a' && me.district == 'b'", "me.district == 'b'"),
        ("members.exists(m, m.dependants > 3 && m.dependants < 3)", "m.dependants < 3"),
        (
            "me.birth_date > date('2020-01-01') && me.birth_date < date('2019-01-01')",
            "me.birth_date < date('2019-01-01')",
        ),
    ] {
        let (severity, found, message) = remark(expression).expect(expression);
        assert_eq!((severity, found.as_str()), (Severity::Warning, text), "{expression}: {message}");
    }
    for sound in [
        "me.rooms < 2 || me.rooms > 5",
        "me.rooms <= 2 && me.rooms >= 2",
        "me.rooms < 2 && me.dependants > 5",
        "me.district == 'a' && me.district != 'b'",
    ] {
        assert_eq!(remark(sound), None, "{sound}");
    }
}

#[test]
fn null_is_never_what_is_recorded() {
    let found = faults("me.rooms == null");
    assert_eq!((found[0].fault, found[0].span.text("me.rooms == null")), (Fault::NeverTrue, "null"));
    assert!(compile("dyn(me.rooms) == null").warnings().is_empty());
}
