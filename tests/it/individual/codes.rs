//! Coded values: their format, validation and display.

use daftar_tests::records::{FEMALE, GENDER, path, person};
use daftar_tests::{TestApp, errors, redacted};
use serde_json::{Value, json};

#[test]
fn a_code_may_be_written_in_every_form_and_is_shown_in_one() {
    let app = TestApp::start();
    let client = app.client(&["individual:create", "individual:read"]);
    let forms = [
        json!(FEMALE),
        json!(format!("{GENDER}|2")),
        json!({"namespace": GENDER, "code": "2"}),
        json!({"uri": FEMALE, "code": "2", "display": "Female", "namespace": GENDER}),
        json!({"uri": FEMALE}),
        json!({"coding": [{"system": GENDER, "code": "2"}]}),
    ];
    for (number, form) in forms.into_iter().enumerate() {
        let created = client.create_individual(&person(&number.to_string(), json!({"gender": form})));
        let expected = json!({"uri": FEMALE, "code": "2", "display": "Female", "namespace": GENDER});
        assert_eq!(created["gender"], expected, "form {number}");
    }
}

#[test]
fn displays_follow_the_language_that_is_asked_for() {
    let app = TestApp::start();
    let client = app.client(&["individual:create", "individual:read"]);
    drop(client.create_individual(&person("A-1", json!({"gender": FEMALE, "country": "urn:iso:std:iso:3166-1#DE"}))));
    let displays = |languages: Option<&str>| {
        let request = client.request("GET", &path("Individual", "A-1"));
        let request = languages.into_iter().fold(request, |request, value| request.header("Accept-Language", value));
        let body = request.send().expect(200).json();
        let display = |field: &str| body[field]["display"].as_str().unwrap().to_owned();
        (display("gender"), display("country"))
    };
    let english = ("Female".to_owned(), "Germany".to_owned());
    let french = ("Féminin".to_owned(), "Allemagne".to_owned());
    assert_eq!(displays(None), english);
    assert_eq!(displays(Some("en")), english);
    assert_eq!(displays(Some("fr")), french);
    assert_eq!(displays(Some("fr-CA")), french, "the language stands in for the region");
    assert_eq!(displays(Some("en;q=0.5, fr;q=0.9")), french);
    assert_eq!(displays(Some("tlh, fr;q=0.1")), french);
    assert_eq!(displays(Some("tlh")), english, "unknown languages fall back");
    assert_eq!(displays(Some("; q=q, ;;,-, fr;q=2")), english, "and so does nonsense");
    let bengali = displays(Some("bn, fr;q=0.5"));
    assert_eq!(bengali, ("Féminin".to_owned(), "জার্মানি".to_owned()), "each code in the best language it has");
}

#[test]
fn the_deployments_language_is_used_where_the_client_asks_for_none() {
    let app = TestApp::builder().config(|config| config.vocabulary.default_language = "fr".to_owned()).start();
    let client = app.client(&["individual:create", "individual:read"]);
    let created = client.create_individual(&person("A-1", json!({"gender": FEMALE})));
    assert_eq!(created["gender"]["display"], "Féminin");
}

#[test]
fn wrong_codes_are_rejected_with_field_reason_and_suggestion() {
    let app = TestApp::start();
    assert_eq!(app.admin().request("DELETE", "/plugins/isco-08").send().status, 204, "one vocabulary is to be absent");
    let client = app.client(&["individual:create", "individual:read"]);
    let country = |code: &str| json!({"country": format!("urn:iso:std:iso:3166-1#{code}")});
    let cases: [(Value, &str, &str, &str); 21] = [
        (country(".."), "country", "unknown_code", "`urn:iso:std:iso:3166-1#..`"),
        (country("../../etc/passwd"), "country", "unknown_code", "is no code of its vocabulary"),
        (country("F\u{7}R"), "country", "invalid_code", "contains a control character"),
        (country("F R"), "country", "invalid_code", "white space"),
        (country(&"A".repeat(100)), "country", "unknown_code", "is no code of its vocabulary"),
        (country(&"A".repeat(101)), "country", "invalid_code", "longer than the 100 bytes"),
        (country(&"A".repeat(10_000)), "country", "invalid_code", "longer than the 100 bytes"),
        (json!({"country": "urn:iso:std:iso:3166-2#FR"}), "country", "unknown_vocabulary", "urn:iso:std:iso:3166-1"),
        (json!({"gender": format!("{GENDER}#7")}), "gender", "unknown_code", "urn:iso:std:iso:5218#7"),
        (json!({"country": "urn:iso:std:iso:3166-1#DEU"}), "country", "alias", "urn:iso:std:iso:3166-1#DE"),
        (json!({"country": "urn:iso:std:iso:3166-1#de"}), "country", "wrong_case", "urn:iso:std:iso:3166-1#DE"),
        (json!({"country": "urn:iso:std:iso:3166-1#DX"}), "country", "unknown_code", "did you mean"),
        (json!({"gender": "urn:iso:std:iso:3166-1#DE"}), "gender", "wrong_vocabulary", GENDER),
        (json!({"gender": "urn:unknown:list#1"}), "gender", "unknown_vocabulary", GENDER),
        (json!({"occupation": "urn:ilo:isco-08#6111"}), "occupation", "vocabulary_not_installed", "urn:ilo:isco-08"),
        (json!({"languages": ["urn:iso:std:iso:639#eng"]}), "languages[0]", "alias", "urn:iso:std:iso:639#en"),
        (
            json!({"income": {"amount": 1, "currency": "urn:iso:std:iso:4217#HRK"}}),
            "income.currency",
            "inactive_code",
            "urn:iso:std:iso:4217#EUR",
        ),
        (
            json!({"health_conditions": ["urn:who:icd-11#chapter:01"]}),
            "health_conditions[0]",
            "not_selectable",
            "urn:who:icd-11#1A",
        ),
        (
            json!({"address": [{}, {"country": "urn:iso:std:iso:3166-1#XX"}]}),
            "address[1].country",
            "unknown_code",
            "XX",
        ),
        (json!({"gender": GENDER}), "gender", "invalid_code", "missing after the namespace"),
        (json!({"gender": 2}), "gender", "wrong_type", "<namespace>#<code>"),
    ];
    for (more, field, code, what) in cases {
        let refused = client.post("/Individual", &person("A-1", more.clone())).expect(422);
        let problem = refused.json();
        assert_eq!(errors(&problem), [(field.to_owned(), code.to_owned())], "{more}: {problem}");
        let message = problem["errors"][0]["message"].as_str().unwrap();
        assert!(message.contains(what), "{more}: {message}");
        assert_eq!(refused.detail(), format!("{field}: {message}"), "{more}");
    }
    assert_eq!(client.get(&path("Individual", "A-1")).status, 404, "nothing of them is kept");
}

#[test]
fn a_misspelt_code_is_answered_with_the_nearest_ones() {
    let app = TestApp::start();
    let client = app.client(&["individual:create"]);
    let refused =
        client.post("/Individual", &person("A-1", json!({"country": "urn:iso:std:iso:3166-1#GERMANY"}))).expect(422);
    insta::assert_json_snapshot!(redacted(&refused.json()), @r#"
    {
      "code": "validation_failed",
      "detail": "country: `urn:iso:std:iso:3166-1#GERMANY` is no code of its vocabulary; did you mean `urn:iso:std:iso:3166-1#DE` (Germany)?",
      "errors": [
        {
          "code": "unknown_code",
          "field": "country",
          "message": "`urn:iso:std:iso:3166-1#GERMANY` is no code of its vocabulary; did you mean `urn:iso:std:iso:3166-1#DE` (Germany)?"
        }
      ],
      "instance": "/api/v2/Individual",
      "request_id": "[request_id]",
      "status": 422,
      "title": "Unprocessable Entity",
      "type": "[public_url]/docs/errors/validation_failed"
    }
    "#);
}
