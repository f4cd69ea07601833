//! `$validate` and `$lookup`

use super::{COUNTRIES, reader, with_occupations};
use daftar_tests::{TestApp, errors};
use serde_json::{Value, json};

#[test]
fn codes_are_judged_in_their_order_with_reason_and_suggestion() {
    let app = with_occupations();
    let client = reader(&app);
    let country = |code: &str| format!("{COUNTRIES}#{code}");
    let long = country(&"A".repeat(10_000));
    let cases: Vec<(Value, Option<&str>, Option<String>)> = vec![
        (json!(country("FR")), None, None),
        (json!({"namespace": COUNTRIES, "code": "FR"}), None, None),
        (json!(format!("{COUNTRIES}|FR")), None, None),
        (json!({"uri": country("FR")}), None, None),
        (json!("urn:iso:std:iso:3166-2#FR"), Some("unknown_namespace"), Some(COUNTRIES.to_owned())),
        (json!("urn:unknown:list#1"), Some("unknown_namespace"), None),
        (json!(country("fr")), Some("wrong_case"), Some(country("FR"))),
        (json!(country("FRA")), Some("alias"), Some(country("FR"))),
        (json!(country("France")), Some("unknown_code"), Some(country("FR"))),
        (json!(country("household")), Some("wrong_vocabulary"), Some("urn:svc:vocab:group-type#household".to_owned())),
        (json!("urn:who:icf:d#b280"), Some("wrong_vocabulary"), Some("urn:who:icf:b#b280".to_owned())),
        (json!("urn:who:icf:d#d9999"), Some("not_in_fragment"), None),
        (json!("urn:unesco:isced:2011#26"), Some("unknown_code"), None),
        (json!("urn:iso:std:iso:5218#7"), Some("unknown_code"), Some("urn:iso:std:iso:5218#0".to_owned())),
        (json!(country("..")), Some("unknown_code"), None),
        (json!(long), Some("too_long"), None),
        (json!({"namespace": "x".repeat(201), "code": "1"}), Some("too_long"), None),
        (json!(country("F\u{7}R")), Some("malformed"), None),
        (json!(country("F R")), Some("malformed"), None),
        (json!(country("")), Some("malformed"), None),
        (json!(COUNTRIES), Some("malformed"), None),
        (json!(""), Some("malformed"), None),
        (json!("#1"), Some("malformed"), None),
        (json!("a#b#c"), Some("malformed"), None),
        (json!("\u{202e}\u{1F600}"), Some("malformed"), None),
    ];
    let requested: Vec<&Value> = cases.iter().map(|(code, ..)| code).collect();
    let response = client.post("/Vocabulary/$validate", &json!({"codes": requested})).expect(200).json();
    let results = response["results"].as_array().unwrap();
    assert_eq!(results.len(), cases.len());
    for ((code, reason, suggestion), result) in cases.iter().zip(results) {
        assert_eq!(result["valid"], reason.is_none(), "{code:.60}: {result}");
        assert_eq!(result["reason"].as_str(), *reason, "{code:.60}: {result}");
        if let Some(suggestion) = suggestion {
            assert_eq!(result["suggestion"], json!(suggestion), "{code:.60}: {result}");
        }
        assert_eq!(result["message"].is_string(), reason.is_some(), "{result}");
        assert!(result.to_string().len() < 1_500, "what is long is not sent back: {}", result.to_string().len());
    }
    let missing = client.post("/Vocabulary/$lookup", &json!({"codes": requested})).expect(200).json();
    for ((code, reason, _), result) in cases.iter().zip(missing["results"].as_array().unwrap()) {
        let is_found = reason.is_none_or(|reason| reason == "alias");
        assert_eq!(result["found"], is_found, "{code:.60}: {result}");
        assert_eq!(result["reason"].as_str(), reason.filter(|_| !is_found), "{code:.60}: {result}");
    }
}

#[test]
fn codes_are_looked_up_with_names_and_parents() {
    let app = with_occupations();
    let requested = json!({"codes": ["urn:ilo:isco-08#6111", format!("{COUNTRIES}#FRA"), "urn:ilo:isco-08#61110"]});
    let request =
        reader(&app).request("POST", "/Vocabulary/%24lookup").header("Accept-Language", "sw").json(&requested);
    let mut response = request.send().expect(200).json();
    let names = response["results"][1]["designations"].take();
    assert!(names.as_array().unwrap().len() > 5);
    insta::assert_json_snapshot!(response, @r#"
    {
      "results": [
        {
          "aliases": [],
          "children_count": 0,
          "code": "6111",
          "descendants_count": 0,
          "designations": [
            {
              "language": "en",
              "value": "Field Crop and Vegetable Growers"
            },
            {
              "language": "fa",
              "value": "تولیدکنندگان محصولات زراعی و سبزیجات"
            }
          ],
          "display": "Field Crop and Vegetable Growers",
          "fallback": true,
          "found": true,
          "language": "en",
          "level": 4,
          "namespace": "urn:ilo:isco-08",
          "parents": [
            {
              "code": "611",
              "display": "Market Gardeners and Crop Growers",
              "uri": "urn:ilo:isco-08#611"
            }
          ],
          "selectable": true,
          "status": "active",
          "uri": "urn:ilo:isco-08#6111"
        },
        {
          "aliases": [
            "FRA",
            "250"
          ],
          "children_count": 0,
          "code": "FR",
          "descendants_count": 0,
          "designations": null,
          "display": "Ufaransa",
          "found": true,
          "language": "sw",
          "level": 1,
          "namespace": "urn:iso:std:iso:3166-1",
          "parents": [],
          "requested_code": "FRA",
          "selectable": true,
          "status": "active",
          "uri": "urn:iso:std:iso:3166-1#FR"
        },
        {
          "found": false,
          "message": "`urn:ilo:isco-08#61110` is no code of its vocabulary; did you mean `urn:ilo:isco-08#6111` (Field Crop and Vegetable Growers)?",
          "reason": "unknown_code",
          "suggestion": "urn:ilo:isco-08#6111",
          "uri": "urn:ilo:isco-08#61110"
        }
      ]
    }
    "#);
}

#[test]
fn a_batch_holds_a_thousand_codes_and_not_one_more() {
    let app = TestApp::start();
    let client = reader(&app);
    let batch = |count: usize| json!({"codes": vec![format!("{COUNTRIES}#FR"); count]});
    for path in ["/Vocabulary/$validate", "/Vocabulary/$lookup"] {
        for count in [0, 999, 1_000] {
            let response = client.post(path, &batch(count)).expect(200).json();
            assert_eq!(response["results"].as_array().unwrap().len(), count);
        }
        let refused = client.post(path, &batch(1_001)).expect(422);
        assert_eq!(errors(&refused.json()), [("codes".to_owned(), "too_many".to_owned())]);
        assert!(refused.detail().contains("at most 1000"), "{}", refused.detail());
    }
}

#[test]
fn a_body_of_another_shape_is_refused_with_its_path() {
    let app = TestApp::start();
    let client = reader(&app);
    let cases = [
        (json!({}), "codes", "required"),
        (json!({"codes": null}), "codes", "required"),
        (json!({"codes": "urn:x#1"}), "codes", "wrong_type"),
        (json!({"codes": ["urn:x#1", 2]}), "codes[1]", "wrong_type"),
        (json!({"codes": [[]]}), "codes[0]", "wrong_type"),
        (json!({"codes": [{"namespace": "urn:x"}]}), "codes[0]", "wrong_type"),
        (json!({"codes": [{"namespace": 1, "code": "1"}]}), "codes[0]", "wrong_type"),
        (json!({"codes": [], "languages": []}), "languages", "unknown_field"),
    ];
    for (body, field, code) in cases {
        for path in ["/Vocabulary/$validate", "/Vocabulary/$lookup"] {
            let refused = client.post(path, &body).expect(422);
            assert_eq!(errors(&refused.json()), [(field.to_owned(), code.to_owned())], "{body}");
        }
    }
    drop(client.post("/Vocabulary/$validate?x=1", &json!({"codes": []})).expect(400));
    drop(client.request("POST", "/Vocabulary/$lookup").body("text/plain", "{}").send().expect(415));
    let large = format!("{{\"codes\": [\"{}\"]}}", "a".repeat(1 << 20));
    drop(client.request("POST", "/Vocabulary/$lookup").body("application/json", large).send().expect(413));
}

#[test]
fn suggestions_are_searched_for_the_first_hundred_wrong_codes() {
    let app = TestApp::start();
    let client = reader(&app);
    let requested: Vec<String> =
        (0..101).map(|number| format!("{COUNTRIES}#Germany{}", "x".repeat(number % 2))).collect();
    let response = client.post("/Vocabulary/$validate", &json!({"codes": requested})).expect(200).json();
    let results = response["results"].as_array().unwrap();
    assert!(results.iter().all(|result| result["reason"] == "unknown_code"));
    let suggestion = |at: usize| results[at]["suggestion"].as_str();
    assert_eq!(suggestion(98), Some("urn:iso:std:iso:3166-1#DE"), "the hundredth is at 99, and no code has this name");
    assert_eq!(suggestion(100), None);
    let mixed: Vec<String> = requested.iter().map(|_| format!("{COUNTRIES}#de")).collect();
    let response = client.post("/Vocabulary/$validate", &json!({"codes": mixed})).expect(200).json();
    assert_eq!(response["results"][100]["suggestion"], "urn:iso:std:iso:3166-1#DE", "another case is no search");
}
