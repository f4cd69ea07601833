//! Values that readers of bodies accept, and their problems with others.

use serde_json::json;

use super::*;

fn code(value: Value) -> Result<CodeUri, AppError> {
    let mut problems = Problems::default();
    let code = code_value("gender", value, &mut problems);
    problems.finish(()).map(|()| code.unwrap())
}

#[test]
fn takes_a_code_in_every_written_form() {
    let expected = CodeUri::parse("urn:iso:std:iso:5218#2").unwrap();
    for form in [
        json!("urn:iso:std:iso:5218#2"),
        json!("urn:iso:std:iso:5218|2"),
        json!({"uri": "urn:iso:std:iso:5218#2", "code": "2", "display": "Female", "namespace": "urn:iso:std:iso:5218"}),
        json!({"namespace": "urn:iso:std:iso:5218", "code": "2"}),
        json!({"coding": [{"system": "urn:iso:std:iso:5218", "code": "2"}]}),
        json!({"coding": [{"system": "urn:iso:std:iso:5218", "code": "2", "display": "Female"}]}),
        json!({"namespace": "urn:iso:std:iso:5218", "code": "2", "display": null}),
    ] {
        assert_eq!(code(form.clone()).unwrap(), expected, "{form}");
    }
}

#[test]
fn refuses_a_code_that_is_none() {
    for form in [
        json!("urn:iso:std:iso:5218"),
        json!(2),
        json!({}),
        json!({"coding": []}),
        json!({"coding": [{"system": "urn:x", "code": "1"}, {"system": "urn:x", "code": "2"}]}),
        json!({"uri": "urn:iso:std:iso:5218#2", "code": "1"}),
        json!({"uri": "urn:iso:std:iso:5218#2", "extra": "1"}),
    ] {
        assert!(code(form.clone()).is_err(), "{form}");
    }
}

#[test]
fn names_an_unknown_member_of_a_code() {
    let (namespace, coding) = ("urn:iso:std:iso:5218", json!({"system": "urn:iso:std:iso:5218", "code": "2"}));
    let with = |name: &str, mut object: Value| {
        object[name] = json!("x");
        object
    };
    for (form, field, code_of_problem) in [
        (with("extra", json!({"uri": "urn:iso:std:iso:5218#2"})), "gender.extra", "unknown_field"),
        (with("extra", json!({"namespace": namespace, "code": "2"})), "gender.extra", "unknown_field"),
        (with("system", json!({"namespace": namespace, "code": "2"})), "gender.system", "unknown_field"),
        (with("extra", json!({"coding": [coding]})), "gender.extra", "unknown_field"),
        (json!({"coding": [with("extra", coding)]}), "gender.coding[0].extra", "unknown_field"),
        (json!({"uri": "urn:iso:std:iso:5218#2", "code": 2}), "gender.code", "wrong_type"),
    ] {
        let Err(AppError::Invalid(found)) = code(form.clone()) else { panic!("{form} was taken") };
        let found: Vec<_> = found.iter().map(|problem| (problem.field.as_str(), problem.code)).collect();
        assert_eq!(found, [(field, code_of_problem)], "{form}");
    }
}

#[test]
fn collects_every_problem_with_its_path() {
    let body = json!({"a": 1, "b": "", "c": {"start": "2024-02-30"}, "d": "x", "lst": []});
    let Value::Object(body) = body else { unreachable!() };
    let mut problems = Problems::default();
    let mut reader = ObjectReader::root(body);
    assert_eq!(reader.text("a", 10, &mut problems), None);
    assert_eq!(reader.text("b", 10, &mut problems), None);
    reader.period("c", &mut problems);
    assert_eq!(reader.list("list", 1, &mut problems), None);
    reader.finish(&mut problems);
    let Err(AppError::Invalid(found)) = problems.finish(()) else { panic!("problems were expected") };
    let found: Vec<(&str, &str)> = found.iter().map(|problem| (problem.field.as_str(), problem.code)).collect();
    assert_eq!(
        found,
        [
            ("a", "wrong_type"),
            ("b", "empty"),
            ("c.start", "invalid_date"),
            ("d", "unknown_field"),
            ("lst", "unknown_field")
        ]
    );
}

#[test]
fn suggestions_are_computed_only_for_reported_unknown_members() {
    for (members, reported) in [(99, 99), (100, 100), (101, 100), (100_000, 100)] {
        let body = (0..members).map(|number| (format!("a{number:05}"), Value::Null)).collect();
        let mut problems = Problems::default();
        let searches = searches::made_by(|| ObjectReader::root(body).finish(&mut problems));
        let Err(AppError::Invalid(found)) = problems.finish(()) else { panic!("problems were expected") };
        assert_eq!((found.len(), searches), (reported, reported), "{members}");
        assert_eq!((found[0].field.as_str(), found[0].code), ("a00000", "unknown_field"));
    }
}
