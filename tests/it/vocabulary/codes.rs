//! Codes of a vocabulary: read by code and by another name, listed, and by their place in the hierarchy.

use super::{COUNTRIES, OCCUPATIONS, codes, reader, refusal, with_occupations};
use daftar_tests::TestApp;
use serde_json::{Value, json};

#[test]
fn a_code_is_read_with_all_that_is_said_of_it() {
    let app = with_occupations();
    let mut found = reader(&app).get(&format!("/Vocabulary/{OCCUPATIONS}/codes/611")).expect(200).json();
    found.as_object_mut().unwrap().remove("designations").unwrap();
    insta::assert_json_snapshot!(found, @r#"
    {
      "aliases": [],
      "children_count": 4,
      "code": "611",
      "descendants_count": 4,
      "display": "Market Gardeners and Crop Growers",
      "language": "en",
      "level": 3,
      "namespace": "urn:ilo:isco-08",
      "parents": [
        {
          "code": "61",
          "display": "Market-oriented Skilled Agricultural Workers",
          "uri": "urn:ilo:isco-08#61"
        }
      ],
      "selectable": true,
      "status": "active",
      "uri": "urn:ilo:isco-08#611"
    }
    "#);
}

#[test]
fn an_alias_resolves_to_the_code_and_is_reported() {
    let app = TestApp::start();
    let client = reader(&app);
    for alias in ["FRA", "250"] {
        let response = client.get(&format!("/Vocabulary/{COUNTRIES}/codes/{alias}")).expect(200);
        let body = response.json();
        assert_eq!((&body["code"], &body["requested_code"]), (&json!("FR"), &json!(alias)));
        assert!(response.header("content-location").unwrap().ends_with("/Vocabulary/urn:iso:std:iso:3166-1/codes/FR"));
    }
    let body = client.get(&format!("/Vocabulary/{COUNTRIES}/codes/FR")).expect(200).json();
    assert_eq!(body["requested_code"], Value::Null);
    assert_eq!(body["aliases"], json!(["FRA", "250"]));
    let names = body["designations"].as_array().unwrap();
    assert!(names.contains(&json!({"language": "sw", "value": "Ufaransa"})), "{names:?}");
}

#[test]
fn an_invalid_code_is_rejected_with_a_suggestion() {
    let app = TestApp::start();
    let client = reader(&app);
    let cases = [
        ("fr", "wrong_case", "urn:iso:std:iso:3166-1#FR"),
        ("FX", "unknown_code", "did you mean"),
        ("household", "wrong_vocabulary", "urn:svc:vocab:group-type#household"),
        ("..", "unknown_code", "`urn:iso:std:iso:3166-1#..`"),
        ("%2E%2E%2F%2E%2E", "unknown_code", "../.."),
        ("a%2Fb", "unknown_code", "a/b"),
        ("a%7Cb", "unknown_code", "a|b"),
        ("%C3%A9", "unknown_code", "é"),
    ];
    for (code, reason, what) in cases {
        let refused = client.get(&format!("/Vocabulary/{COUNTRIES}/codes/{code}")).expect(404);
        let (field, found, message) = refusal(&refused);
        assert_eq!((field.as_str(), found.as_str()), ("code", reason), "{code}: {message}");
        assert!(message.contains(what), "{code}: {message}");
    }
    for code in ["a%23b", "a%20b", "a%0Ab", "%00", "%7F", "%FF", "%C3", &"a".repeat(101), &"a".repeat(10_000)] {
        let refused = client.get(&format!("/Vocabulary/{COUNTRIES}/codes/{code}")).expect(400);
        assert!(refused.detail().contains("the path"), "{code}: {}", refused.detail());
        assert!(refused.detail().len() < 300, "what was sent is not sent back: {}", refused.detail());
    }
    let longest = "a".repeat(100);
    assert_eq!(client.get(&format!("/Vocabulary/{COUNTRIES}/codes/{longest}")).status, 404, "long enough to be a code");
}

#[test]
fn codes_are_listed_whole_by_parent_and_below() {
    let app = with_occupations();
    let client = reader(&app);
    let list =
        |query: &str| client.get(&format!("/Vocabulary/{OCCUPATIONS}/codes?_count=100&{query}")).expect(200).json();
    assert_eq!(list("")["total"], 619);
    assert_eq!(codes(&list("parent=")), ["0", "1", "2", "3", "4", "5", "6", "7", "8", "9"]);
    assert_eq!(codes(&list("parent=6")), ["61", "62", "63"]);
    assert_eq!(codes(&list("parent=61")), ["611", "612", "613"]);
    let below = list("below=61");
    assert_eq!(&codes(&below)[..3], ["611", "6111", "6112"], "what is below a code comes right behind it");
    assert!(codes(&below).iter().all(|code| code.starts_with("61") && code.len() > 2));
    assert_eq!(codes(&list("parent=611&below=6")), codes(&list("parent=611")));
    assert_eq!(list("parent=611&below=7")["total"], 0);
    assert_eq!(list("parent=&below=6")["total"], 0);
    assert_eq!(list("parent=6111")["total"], 0, "a leaf");
    assert_eq!(codes(&list("below=urn:ilo:isco-08%2361")), codes(&below), "a code may be given with its namespace");
}

#[test]
fn pages_lead_through_all_codes_once() {
    let app = TestApp::start();
    let client = reader(&app);
    let mut found: Vec<String> = Vec::new();
    let mut next = Some(format!("/Vocabulary/{COUNTRIES}/codes?_count=83"));
    while let Some(path) = next {
        let page = client.get(&path).expect(200).json();
        found.extend(codes(&page).into_iter().map(str::to_owned));
        next = page["links"]["next"].as_str().map(str::to_owned);
    }
    assert_eq!(found.len(), 249);
    assert!(found.is_sorted());
    let past = client.get(&format!("/Vocabulary/{COUNTRIES}/codes?_offset=249")).expect(200).json();
    assert_eq!((&past["total"], &past["data"]), (&json!(249), &json!([])));
}

#[test]
fn a_parent_that_is_no_code_is_422_and_names_the_parameter() {
    let app = with_occupations();
    let client = reader(&app);
    let cases = [
        ("parent=6I", "parent", "unknown_code"),
        ("below=99999", "below", "unknown_code"),
        ("below=urn:iso:std:iso:5218%231", "below", "wrong_vocabulary"),
    ];
    for (query, parameter, reason) in cases {
        let refused = client.get(&format!("/Vocabulary/{OCCUPATIONS}/codes?{query}")).expect(422);
        let (field, found, message) = refusal(&refused);
        assert_eq!((field.as_str(), found.as_str()), (parameter, reason), "{query}: {message}");
    }
    for query in ["below=", "below=a%20b", "parent=%0A"] {
        drop(client.get(&format!("/Vocabulary/{OCCUPATIONS}/codes?{query}")).expect(400));
    }
}

#[test]
fn subsumption_reports_which_code_is_the_ancestor() {
    let app = with_occupations();
    let client = reader(&app);
    let ask = |a: &str, b: &str| client.get(&format!("/Vocabulary/{OCCUPATIONS}/$subsumes?a={a}&b={b}"));
    let outcome = |a: &str, b: &str| ask(a, b).expect(200).json()["outcome"].as_str().unwrap().to_owned();
    assert_eq!(outcome("6", "6111"), "subsumes");
    assert_eq!(outcome("6111", "6"), "subsumed_by");
    assert_eq!(outcome("6111", "6111"), "equivalent");
    assert_eq!(outcome("6111", "7"), "not_subsumed");
    assert_eq!(outcome("urn:ilo:isco-08%236", "61"), "subsumes");
    let refused = ask("6", "6I").expect(422);
    assert_eq!(refusal(&refused).0, "b");
    let both = ask("66", "6I").expect(422).json();
    assert_eq!(both["errors"].as_array().unwrap().len(), 2, "{both}");
    for query in ["", "?a=6", "?a=6&b=", "?a=6&b=7&a=8", "?a=6&b=7&c=8"] {
        drop(client.get(&format!("/Vocabulary/{OCCUPATIONS}/$subsumes{query}")).expect(400));
    }
}

#[test]
fn displays_follow_the_language_and_a_fallback_is_seen() {
    let app = with_occupations();
    let client = reader(&app);
    let read = |path: &str, languages: &str| {
        let response = client.request("GET", path).header("Accept-Language", languages).send().expect(200);
        let body = response.json();
        let language = response.header("content-language").unwrap_or_default().to_owned();
        (body["display"].as_str().unwrap().to_owned(), language, body["fallback"] == true)
    };
    let france = format!("/Vocabulary/{COUNTRIES}/codes/FR");
    let message =
        |display: &str, language: &str, is_fallback: bool| (display.to_owned(), language.to_owned(), is_fallback);
    assert_eq!(read(&france, "fr"), message("France", "fr", false));
    assert_eq!(
        read(&france, "pt-BR, en;q=0.5"),
        message("França", "pt", false),
        "the language stands in for the region"
    );
    assert_eq!(read(&france, "xx;q=1, ar;q=0.2, sw;q=0.4"), message("Ufaransa", "sw", false));
    assert_eq!(read(&france, "*"), message("France", "en", false));
    assert_eq!(read(&france, "tlh"), message("France", "en", true));
    let page = client.request("GET", &format!("/Vocabulary/{OCCUPATIONS}/codes?_count=100"));
    let page = page.header("Accept-Language", "fa").send().expect(200);
    assert_eq!(page.header("content-language"), Some("fa, en"), "a code without a label in Farsi is shown in English");
    let page = page.json();
    let fallbacks = page["data"].as_array().unwrap().iter().filter(|code| code["fallback"] == true);
    assert!(fallbacks.clone().count() > 0);
    assert!(fallbacks.into_iter().all(|code| code["language"] == "en"));
}
