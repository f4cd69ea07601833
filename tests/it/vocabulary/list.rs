//! Installed vocabularies, and their properties.

use super::{COUNTRIES, reader, refusal};
use daftar_tests::{TestApp, redacted};

#[test]
fn a_vocabulary_reports_its_source_and_licence() {
    let app = TestApp::start();
    let mut found = reader(&app).get("/Vocabulary/urn:iso:std:iso:5218").expect(200).json();
    for changing in ["languages", "module_version", "version", "source"] {
        assert!(!found.as_object_mut().unwrap().remove(changing).unwrap().is_null(), "{changing}");
    }
    insta::assert_json_snapshot!(redacted(&found), @r#"
    {
      "attribution": "ISO/IEC 5218",
      "code_count": 4,
      "completeness": "full",
      "default_language": "en",
      "digest": "[digest]",
      "domain": "Core",
      "extensible": false,
      "hierarchical": false,
      "licence": "Apache-2.0",
      "module": "gender",
      "name": "Gender",
      "namespace": "urn:iso:std:iso:5218",
      "open": false,
      "system": true
    }
    "#);
}

#[test]
fn vocabularies_are_listed_by_namespace_in_pages_and_by_domain() {
    let app = TestApp::start();
    let client = reader(&app);
    let all = client.get("/Vocabulary?_count=100").expect(200).json();
    let namespaces = |page: &serde_json::Value| -> Vec<String> {
        let items = page["data"].as_array().unwrap();
        items.iter().map(|item| item["namespace"].as_str().unwrap().to_owned()).collect()
    };
    let listed = namespaces(&all);
    assert!(listed.is_sorted(), "{listed:?}");
    assert!(listed.iter().any(|namespace| namespace == COUNTRIES), "{listed:?}");
    assert_eq!(all["total"], listed.len());

    let mut paged = Vec::new();
    let mut next = Some("/Vocabulary?_count=2".to_owned());
    while let Some(path) = next {
        let page = client.get(&path).expect(200).json();
        paged.extend(namespaces(&page));
        next = page["links"]["next"].as_str().map(str::to_owned);
    }
    assert_eq!(paged, listed, "the links lead through all of them");

    let geographic = client.get("/vocabularies?domain=Geographic").expect(200).json();
    assert!(namespaces(&geographic).iter().any(|namespace| namespace == COUNTRIES));
    assert!(geographic["data"].as_array().unwrap().iter().all(|item| item["domain"] == "Geographic"));
    assert_eq!(client.get("/Vocabulary?domain=Nothing").expect(200).json()["total"], 0);
}

#[test]
fn a_namespace_may_be_encoded_and_a_wrong_one_is_404_with_the_right_one() {
    let app = TestApp::start();
    let client = reader(&app);
    let raw = client.get("/Vocabulary/urn:iso:std:iso:5218").expect(200).json();
    assert_eq!(client.get("/Vocabulary/urn%3Aiso%3Astd%3Aiso%3A5218").expect(200).json(), raw);
    let cases = [
        ("urn:iso:std:iso:5281", "did you mean `urn:iso:std:iso:5218`?"),
        ("URN:ISO:STD:ISO:5218", "did you mean `urn:iso:std:iso:5218`?"),
        ("Gender", "did you mean `urn:iso:std:iso:5218`?"),
        ("http:%2F%2Fexample.org%2Fcodes", "there is no vocabulary `http://example.org/codes`"),
        ("..", "there is no vocabulary `..`"),
        ("%zz", "there is no vocabulary `%zz`"),
        ("$unknown", "there is no vocabulary `$unknown`"),
    ];
    for (namespace, what) in cases {
        for path in [format!("/Vocabulary/{namespace}"), format!("/Vocabulary/{namespace}/codes")] {
            let refused = client.get(&path).expect(404);
            let (field, reason, message) = refusal(&refused);
            assert_eq!((field.as_str(), reason.as_str()), ("namespace", "unknown_namespace"), "{path}");
            assert!(message.contains(what), "{path}: {message}");
            assert_eq!(refused.detail(), message);
        }
    }
    for namespace in ["urn:x%23a", "urn:x%7Ca", "urn:%C3%A9", "a%20b", "%FF", "a%00", &"a".repeat(201)] {
        let refused = client.get(&format!("/Vocabulary/{namespace}")).expect(400);
        assert!(refused.detail().contains("the path"), "{}", refused.detail());
    }
}
