//! Codes by typed text.

use super::{COUNTRIES, codes, reader, with_occupations};
use daftar_tests::{ApiClient, TestApp};
use serde_json::Value;

/// Percent-encodes a query.
fn encoded(text: &str) -> String {
    text.bytes().map(|byte| format!("%{byte:02X}")).collect()
}

fn find(client: &ApiClient, path: &str, text: &str, more: &str) -> Value {
    client.get(&format!("/Vocabulary/{path}search?q={}{more}", encoded(text))).expect(200).json()
}

fn in_countries(client: &ApiClient, text: &str) -> Vec<String> {
    let page = find(client, &format!("{COUNTRIES}/"), text, "");
    codes(&page).into_iter().map(str::to_owned).collect()
}

#[test]
fn a_name_is_found_in_every_language_and_script() {
    let app = TestApp::start();
    let client = reader(&app);
    let cases = [
        ("Kenya", "KE"),
        ("KENYA", "KE"),
        ("keny", "KE"),
        ("cote divoire", "CI"),
        ("Côte d’Ivoire", "CI"),
        ("Allemagne", "DE"),
        ("ujeruma", "DE"),
        ("ألمانيا", "DE"),
        ("المانيا", "DE"),
        ("Германия", "DE"),
        ("德国", "DE"),
        ("非共和", "CF"),
        ("जर्मनी", "DE"),
        ("ጀርመን", "DE"),
        ("জার্মানি", "DE"),
        ("republic dominican", "DO"),
        ("guinea equa", "GQ"),
    ];
    for (text, code) in cases {
        let found = in_countries(&client, text);
        assert_eq!(found.first().map(String::as_str), Some(code), "{text}: {found:?}");
    }
}

#[test]
fn one_slip_is_forgiven() {
    let app = TestApp::start();
    let client = reader(&app);
    for (text, code) in [
        ("Kneya", "KE"),
        ("Tanzana", "TZ"),
        ("Philippinnes", "PH"),
        ("Afghansitan", "AF"),
        ("Ethiopua", "ET"),
        ("Гермния", "DE"),
        ("republic domincan", "DO"),
    ] {
        let page = find(&client, &format!("{COUNTRIES}/"), text, "");
        assert_eq!(codes(&page).first(), Some(&code), "{text}: {page}");
        assert_eq!(page["data"][0]["match"]["kind"], "one_edit", "{text}");
    }
    assert_eq!(in_countries(&client, "Knyea Rpublic"), [""; 0], "two slips are two too many");
}

#[test]
fn the_best_matches_come_first_and_name_the_matched_label() {
    let app = TestApp::start();
    let client = reader(&app);
    let page = find(&client, &format!("{COUNTRIES}/"), "de", "");
    let matched: Vec<(&str, &str)> = page["data"].as_array().unwrap().iter().take(3).map(kind_and_code).collect();
    assert_eq!(matched[0], ("code", "DE"));
    assert_eq!(matched[1].0, "prefix");
    let kinds: Vec<&str> = page["data"].as_array().unwrap().iter().map(|found| kind_and_code(found).0).collect();
    assert!(kinds.is_sorted_by_key(|kind| ["code", "prefix", "words", "one_edit"].iter().position(|it| it == kind)));
    let ger = find(&client, &format!("{COUNTRIES}/"), "tedesco allema", "");
    assert_eq!(ger["total"], 0);
    let alias = find(&client, &format!("{COUNTRIES}/"), "deu", "&_count=1");
    insta::assert_json_snapshot!(alias["data"], @r#"
    [
      {
        "code": "DE",
        "display": "Germany",
        "language": "en",
        "match": {
          "kind": "code",
          "text": "DEU"
        },
        "namespace": "urn:iso:std:iso:3166-1",
        "selectable": true,
        "status": "active",
        "uri": "urn:iso:std:iso:3166-1#DE"
      }
    ]
    "#);
}

fn kind_and_code(found: &Value) -> (&str, &str) {
    (found["match"]["kind"].as_str().unwrap(), found["code"].as_str().unwrap())
}

#[test]
fn all_vocabularies_are_searched_at_once_in_pages() {
    let app = with_occupations();
    let client = reader(&app);
    let page = find(&client, "$", "ma", "&_count=100");
    let namespaces: std::collections::BTreeSet<&str> =
        page["data"].as_array().unwrap().iter().map(|found| found["namespace"].as_str().unwrap()).collect();
    assert!(namespaces.len() >= 3, "{namespaces:?}");
    let total = usize::try_from(page["total"].as_u64().unwrap()).unwrap();
    let all: Vec<String> = uris(&page);
    let mut paged = Vec::new();
    for offset in (0..total.min(100)).step_by(7) {
        paged.extend(uris(&find(&client, "%24", "ma", &format!("&_count=7&_offset={offset}"))));
    }
    assert_eq!(paged[..all.len()], all, "the pages follow each other");
    let geographic = find(&client, "$", "ma", "&domain=Geographic&_count=100");
    assert!(uris(&geographic).iter().all(|uri| uri.starts_with("urn:iso:std:iso:")), "{geographic}");
}

fn uris(page: &Value) -> Vec<String> {
    page["data"].as_array().unwrap().iter().map(|found| found["uri"].as_str().unwrap().to_owned()).collect()
}

#[test]
fn an_empty_or_too_long_query_is_400() {
    let app = TestApp::start();
    let client = reader(&app);
    let long = "a".repeat(1_001);
    let very_long = "a".repeat(10_000);
    let words = "a%20".repeat(51);
    let cases = [
        ("", "`q` is missing"),
        ("q=", "empty"),
        ("q=%20%20", "empty"),
        ("q=--", "no letter and no digit"),
        ("q=a%0Ab", "control character"),
        ("q=%FF", "not percent-encoded UTF-8"),
        ("q=%4", "two hexadecimal digits"),
        ("q=a&q=b", "appears more than once"),
        ("q=a&qq=b", "did you mean `q`?"),
        ("q=a&include_deprecated=yes", "`true` or `false`"),
        ("q=a&_count=0", "from 1 to 100"),
        ("q=a&_count=101", "from 1 to 100"),
        ("q=a&_offset=-1", "`_offset`"),
        (&format!("q={long}"), "at most 1000"),
        (&format!("q={very_long}"), "at most 1000"),
        (&format!("q={words}"), "more than 50 words"),
    ];
    for (query, what) in cases {
        for path in ["$search".to_owned(), format!("{COUNTRIES}/search")] {
            let refused = client.get(&format!("/Vocabulary/{path}?{query}")).expect(400);
            assert!(refused.detail().contains(what), "{query:.40}: {}", refused.detail());
            assert!(refused.detail().len() < 300, "{}", refused.detail());
        }
    }
    assert_eq!(client.get("/Vocabulary/urn:x/search?q=a").status, 404);
    assert_eq!(client.get("/Vocabulary/$search?q=a&domain=Nothing").expect(200).json()["total"], 0);
}
