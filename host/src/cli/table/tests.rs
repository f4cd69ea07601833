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

const ADDRESSES: &str = r#"
    empty = ["", "NA"]
    [[column]]
    name = "family"
    field = "name.family"
    [[column]]
    name = "district"
    field = "address.district"
    [[column]]
    name = "town"
    field = "address[0].city"
    [[column]]
    name = "second town"
    field = "address[1].city"
"#;
const ADDRESS_COLUMNS: [&str; 4] = ["family", "district", "town", "second town"];

#[test]
fn an_item_after_an_empty_one_is_rejected_with_the_columns_of_both() {
    let mapping = fit(ADDRESSES, &ADDRESS_COLUMNS).unwrap();
    let taken = mapping.take(&["Rai", "", "Jumla", "Pokhara"]).unwrap();
    assert_eq!(taken.body.get("address"), Some(&json!([{"city": "Jumla"}, {"city": "Pokhara"}])));
    let problems = mapping.take(&["Rai", "NA", "", "Pokhara"]).unwrap_err();
    let [(field, code, message)] = problems.as_slice() else { panic!("{problems:?}") };
    assert_eq!((field.as_str(), *code), ("address[0]", "required"));
    assert!(message.contains("column `second town`") && message.contains("fill `district` or `town`"), "{message}");
    assert!(!message.contains("Pokhara"), "{message}");
}

#[test]
fn an_item_that_a_constant_fills_is_not_empty_and_a_missing_one_is_reported() {
    let with = |more: &str| fit(&format!("{ADDRESSES}{more}"), &ADDRESS_COLUMNS).unwrap();
    let filled = with("[[constant]]\nfield = \"address.country\"\nvalue = \"urn:x#NP\"");
    let taken = filled.take(&["Rai", "", "", "Pokhara"]).unwrap();
    assert_eq!(taken.body.get("address"), Some(&json!([{"country": "urn:x#NP"}, {"city": "Pokhara"}])));
    let later = with("[[constant]]\nfield = \"address[2].country\"\nvalue = \"urn:x#NP\"");
    let problems = later.take(&["Rai", "Jumla", "", ""]).unwrap_err();
    let [(field, _, message)] = problems.as_slice() else { panic!("{problems:?}") };
    assert_eq!(field, "address[1]");
    assert!(message.contains("constant `address[2].country`") && message.contains("fill `second town`"), "{message}");
    let alone = fit("[[column]]\nname = \"town\"\nfield = \"address[1].city\"", &["town"]).unwrap();
    let problems = alone.take(&["Jumla"]).unwrap_err();
    assert!(problems.iter().any(|(_, _, message)| message.contains("map a column to it")), "{problems:?}");
}

#[test]
fn an_invalid_cell_is_the_only_problem_of_its_item() {
    let toml =
        ADDRESSES.replace("field = \"address.district\"", "field = \"address.district\"\ncodes = { J = \"Jumla\" }");
    let problems = fit(&toml, &ADDRESS_COLUMNS).unwrap().take(&["Rai", "X", "", "Pokhara"]).unwrap_err();
    assert_eq!(problems.iter().map(|(_, code, _)| *code).collect::<Vec<_>>(), ["not_in_mapping"]);
}

#[test]
fn a_value_that_an_import_reads_as_none_is_not_written() {
    let mapping = fit(ADDRESSES, &ADDRESS_COLUMNS).unwrap();
    let family = &mapping.columns[0];
    assert_eq!(mapping.write(family, &json!("Rai")).as_deref(), Ok("Rai"));
    assert_eq!(mapping.write(family, &json!(null)).as_deref(), Ok(""));
    let refused = mapping.write(family, &json!("NA")).unwrap_err();
    assert!(refused.contains("remove `NA` from `empty`"), "{refused}");
    let toml =
        "[[column]]\nname = \"rooms\"\nfield = \"extension.house.rooms\"\nas = \"number\"\ncodes = { -9 = \"\" }";
    let mapping = fit(toml, &["rooms"]).unwrap();
    assert_eq!(mapping.write(&mapping.columns[0], &json!(9)).as_deref(), Ok("9"));
    let refused = mapping.write(&mapping.columns[0], &json!(-9)).unwrap_err();
    assert!(refused.contains("remove `-9` from `codes`"), "{refused}");
}
