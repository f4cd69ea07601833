//! Tests of mappings that fit a table, and of mappings that do not.

use super::*;

fn fit(toml: &str, header: &[&str]) -> Result<Mapping, Vec<String>> {
    let header: Vec<String> = header.iter().map(|name| (*name).to_owned()).collect();
    MappingText(Some(toml::from_str(toml).unwrap())).fit(&header, b',')
}

#[test]
fn all_problems_are_reported_together() {
    let toml = r#"
        ignore = ["gpss"]
        [[column]]
        name = "Naem"
        field = "name.given"
        [[column]]
        name = "dob"
        field = "birthdate"
        date = ["%d/%m/%y", "%d"]
        [[constant]]
        field = "countri"
        value = "x"
    "#;
    let problems = fit(toml, &["Name", "dob", "gps"]).unwrap_err();
    let text = problems.join("\n");
    for what in [
        "no column `Naem`; did you mean `Name`?",
        "no field `birthdate`; did you mean `birth_date`?",
        "`%d` says no whole day",
        "did you mean `country`?",
        "`ignore` names `gpss`, and the table has no such column; did you mean `gps`?",
        "nothing takes the column `Name`, `gps`",
    ] {
        assert!(text.contains(what), "{what}\n{text}");
    }
}

#[test]
fn a_header_may_name_fields() {
    let header = ["identifier[urn:x:a]", "name.given", "birth_date"].map(str::to_owned);
    let mapping = MappingText::default().fit(&header, b',').unwrap();
    assert_eq!(
        mapping.columns.iter().map(|column| column.form).collect::<Vec<_>>(),
        [Form::Text, Form::Text, Form::Date]
    );
    let problems = MappingText::default().fit(&["Given name".to_owned()], b',').unwrap_err();
    assert!(problems.join(" ").contains("--mapping"), "{problems:?}");
}
