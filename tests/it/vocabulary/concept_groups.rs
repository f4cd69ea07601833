//! Concept groups: definitions and the resulting codes.

use super::{codes, reader, refusal, with_occupations};
use daftar_tests::TestApp;
use serde_json::{Value, json};

#[test]
fn a_group_of_codes_is_shown_with_its_definition_and_its_codes() {
    let app = TestApp::start();
    let client = reader(&app);
    let mut group = client.get("/ConceptGroup/feminine_gender").expect(200).json();
    group["expansion"].as_object_mut().unwrap().remove("links").unwrap();
    insta::assert_json_snapshot!(group, @r#"
    {
      "code_count": 1,
      "defined_by": "module",
      "definition": {
        "exclude": [],
        "include": [
          {
            "code": "2",
            "descendants": false,
            "display": "Female",
            "language": "en",
            "namespace": "urn:iso:std:iso:5218",
            "uri": "urn:iso:std:iso:5218#2"
          }
        ],
        "text": "urn:iso:std:iso:5218#2"
      },
      "description": "Codes that stand for women and girls.",
      "expansion": {
        "data": [
          {
            "code": "2",
            "display": "Female",
            "language": "en",
            "namespace": "urn:iso:std:iso:5218",
            "uri": "urn:iso:std:iso:5218#2"
          }
        ],
        "meta": {
          "count": 1,
          "offset": 0,
          "total": 1
        },
        "total": 1
      },
      "module": "gender",
      "name": "feminine_gender",
      "undecided_count": 0,
      "unset": false
    }
    "#);
}

#[test]
fn a_group_of_everything_below_a_code_is_paged() {
    let app = with_occupations();
    let client = reader(&app);
    let group = client.get("/ConceptGroup/agricultural_workers?_count=3").expect(200).json();
    let text = group["definition"]["text"].as_str().unwrap();
    assert_eq!(text, "descendants of urn:ilo:isco-08#6 and itself; descendants of urn:ilo:isco-08#92 and itself");
    assert_eq!(codes(&group["expansion"]), ["6", "61", "611"]);
    let total = group["expansion"]["total"].as_u64().unwrap();
    assert_eq!(group["code_count"], total);
    let mut found = Vec::new();
    let mut next = Some("/ConceptGroup/agricultural_workers?_count=10".to_owned());
    while let Some(path) = next {
        let page = client.get(&path).expect(200).json();
        found.extend(codes(&page["expansion"]).into_iter().map(str::to_owned));
        next = page["expansion"]["links"]["next"].as_str().map(str::to_owned);
    }
    assert_eq!(found.len() as u64, total);
    assert!(found.iter().all(|code| code.starts_with('6') || code.starts_with("92")), "{found:?}");
}

#[test]
fn well_known_groups_are_listed_and_unset_ones_are_marked() {
    let app = TestApp::start();
    let client = reader(&app);
    let list = client.get("/concept_groups?_count=100").expect(200).json();
    let groups = list["data"].as_array().unwrap();
    let of = |name: &str| groups.iter().find(|group| group["name"] == name).unwrap_or_else(|| panic!("{list}"));
    let reported = |group: &Value| (group["defined_by"].clone(), group["unset"].clone(), group["code_count"].clone());
    assert_eq!(reported(of("masculine_gender")), (json!("module"), json!(false), json!(1)));
    assert_eq!(reported(of("head_of_household")), (json!("module"), json!(false), json!(1)));
    assert_eq!(reported(of("pregnant_eligible")), (json!("none"), json!(true), json!(0)));
    assert_eq!(of("pregnant_eligible")["definition"]["text"], "nothing yet");
}

#[test]
fn an_unknown_group_is_404_with_the_nearest() {
    let app = TestApp::start();
    let client = reader(&app);
    let refused = client.get("/ConceptGroup/femminine_gender").expect(404);
    let (field, reason, message) = refusal(&refused);
    assert_eq!((field.as_str(), reason.as_str()), ("name", "unknown_concept_group"));
    assert!(message.contains("did you mean `feminine_gender`?"), "{message}");
    for name in ["..", "%2F", "$x", &"a".repeat(10_000)] {
        let refused = client.get(&format!("/ConceptGroup/{name}")).expect(404);
        assert!(refused.detail().len() < 400, "{}", refused.detail());
    }
    for malformed in ["%FF", "%0A", "a%00b"] {
        drop(client.get(&format!("/ConceptGroup/{malformed}")).expect(400));
    }
}
