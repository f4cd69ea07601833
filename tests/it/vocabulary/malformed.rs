//! Requests that cannot be understood, on every way to read codes.

use super::{COUNTRIES, reader};
use daftar_tests::TestApp;

#[test]
fn wrong_pages_and_unknown_parameters_are_400_with_the_valid_values() {
    let app = TestApp::start();
    let client = reader(&app);
    let paged =
        ["/Vocabulary", &format!("/Vocabulary/{COUNTRIES}/codes"), "/ConceptGroup", "/ConceptGroup/feminine_gender"];
    let cases = [
        ("_count=0", "`_count` must be a whole number from 1 to 100"),
        ("_count=-1", "`_count` must be a whole number from 1 to 100"),
        ("_count=101", "`_count` must be a whole number from 1 to 100"),
        ("_count=abc", "`_count` must be a whole number from 1 to 100"),
        ("_count=1&_count=2", "appears more than once"),
        ("_offset=-1", "`_offset` must be a whole number"),
        ("_offset=1e3", "`_offset` must be a whole number"),
        ("_cuont=1", "did you mean `_count`?"),
        ("_count=%FF", "not percent-encoded UTF-8"),
        ("_count=%zz", "two hexadecimal digits"),
        ("nonsense=1", "unknown parameter `nonsense`"),
    ];
    for path in paged {
        for (query, what) in cases {
            let refused = client.get(&format!("{path}?{query}")).expect(400);
            assert!(refused.detail().contains(what), "{path}?{query}: {}", refused.detail());
        }
        for query in ["_count=1", "_count=100", "_offset=0", "_offset=100000000"] {
            drop(client.get(&format!("{path}?{query}")).expect(200));
        }
    }
    for path in [format!("/Vocabulary/{COUNTRIES}"), format!("/Vocabulary/{COUNTRIES}/codes/FR")] {
        drop(client.get(&format!("{path}?_count=1")).expect(400));
    }
    for query in ["domain=", "domain=a&domain=b"] {
        drop(client.get(&format!("/Vocabulary?{query}")).expect(400));
    }
    for query in ["include_deprecated=1", "include_deprecated=", "parent=FR&parent=DE"] {
        drop(client.get(&format!("/Vocabulary/{COUNTRIES}/codes?{query}")).expect(400));
    }
}

#[test]
fn methods_that_change_codes_are_not_offered() {
    let app = TestApp::start();
    let client = app.client(&["vocabulary:all"]);
    for method in ["POST", "PUT", "PATCH", "DELETE"] {
        for path in [
            format!("/Vocabulary/{COUNTRIES}"),
            format!("/Vocabulary/{COUNTRIES}/codes/FR"),
            "/ConceptGroup".to_owned(),
        ] {
            let refused = client.request(method, &path).send().expect(405);
            assert_eq!(refused.header("allow"), Some("GET,HEAD"), "{method} {path}");
        }
    }
    assert_eq!(client.get("/Vocabulary/$validate").expect(405).header("allow"), Some("POST"));
    assert_eq!(client.get(&format!("/Vocabulary/{COUNTRIES}/codes/")).status, 404);
}
