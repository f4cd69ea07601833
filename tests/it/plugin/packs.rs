//! The packs that are loaded by default: every coded field of a record has its vocabulary, and codes are shown in the
//! client's language.

use daftar_tests::TestApp;
use daftar_tests::records::{path, person};
use serde_json::{Value, json};

/// Each field of a person that takes one code, with a code, its English name and its name in Hindi, which is English
/// where the pack has no Hindi.
const SINGLES: [(&str, &str, &str, &str); 8] = [
    ("gender", "urn:iso:std:iso:5218#2", "Female", "महिला"),
    ("marital_status", "urn:un:unsd:pop-census:marital-status#W", "Widowed", "विधवा या विधुर"),
    ("country", "urn:iso:std:iso:3166-1#IN", "India", "भारत"),
    ("religion", "urn:un:unsd:pop-census:religion#sikhism", "Sikhism", "सिख धर्म"),
    ("ethnocultural_status", "urn:svc:vocab:ethnocultural#indigenous", "Indigenous people", "आदिवासी समुदाय"),
    ("education", "urn:unesco:isced:2011#1", "Primary education", "प्राथमिक शिक्षा"),
    ("occupation", "urn:ilo:isco-08#0110", "Commissioned Armed Forces Officers", "Commissioned Armed Forces Officers"),
    ("economic_activity", "urn:ilo:icse-93#2", "Employers", "नियोक्ता"),
];

/// The same of fields that take several.
const LISTS: [(&str, usize, &str, &str, &str); 5] = [
    ("languages", 0, "urn:iso:std:iso:639#hi", "Hindi", "हिन्दी"),
    ("languages", 1, "urn:iso:std:iso:639#sw", "Swahili", "स्वाहिली"),
    ("disability_codes", 0, "urn:who:icf:b#b28013", "Pain in back", "Pain in back"),
    ("disability_codes", 1, "urn:who:icf:d#d4500", "Walking short distances", "Walking short distances"),
    ("health_conditions", 0, "urn:who:icd-11#1A03.Y", "", ""),
];

fn record() -> Value {
    let mut record = json!({
        "address": [{"country": "urn:iso:std:iso:3166-1#KE"}],
        "income": {"amount": 1, "currency": "urn:iso:std:iso:4217#INR"},
        "health_conditions": ["urn:who:icd-11#1A03.Y"],
    });
    for (field, code, _, _) in SINGLES {
        record[field] = code.into();
    }
    for field in ["languages", "disability_codes"] {
        record[field] = LISTS.iter().filter(|list| list.0 == field).map(|list| list.2).collect();
    }
    record
}

#[test]
fn every_coded_field_has_its_vocabulary_and_is_shown_in_the_clients_language() {
    let app = TestApp::start();
    let client = app.client(&["individual:create", "individual:read"]);
    drop(client.create_individual(&person("1", record())));
    for (language, in_hindi) in [("en", false), ("hi", true)] {
        let request = client.request("GET", &path("Individual", "1")).header("Accept-Language", language);
        let read = request.send().expect(200).json();
        for (field, uri, english, hindi) in SINGLES {
            let expected = if in_hindi { hindi } else { english };
            assert_eq!((&read[field]["uri"], &read[field]["display"]), (&uri.into(), &expected.into()), "{field}");
        }
        for (field, place, uri, english, hindi) in LISTS {
            let expected = if in_hindi { hindi } else { english };
            let shown = &read[field][place];
            assert_eq!(shown["uri"], uri);
            assert!(expected.is_empty() || shown["display"] == expected, "{shown}");
        }
        let disease = read["health_conditions"][0]["display"].as_str().unwrap();
        assert_eq!(disease, "Intestinal infections due to other specified Escherichia coli");
        assert_eq!(read["income"]["currency"]["display"], if in_hindi { "भारतीय रुपया" } else { "Indian Rupee" });
        assert_eq!(read["address"][0]["country"]["display"], if in_hindi { "केन्या" } else { "Kenya" });
    }
}

#[test]
fn people_are_found_by_codes_of_every_pack() {
    let app = TestApp::start();
    let client = app.client(&["individual:create", "individual:read"]);
    drop(client.create_individual(&person("1", record())));
    drop(client.create_individual(&person("2", json!({"gender": "urn:iso:std:iso:5218#1"}))));
    let coded = SINGLES.iter().map(|(field, code, ..)| (*field, *code));
    for (field, code) in coded.chain(LISTS.iter().map(|(field, _, code, ..)| (*field, *code))) {
        assert_eq!(client.found(&format!("{field}={}", code.replace('#', "%23"))), ["1"], "{field} {code}");
    }
}
