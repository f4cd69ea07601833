use super::*;
use crate::testing;

fn problem_of(text: &str) -> (&'static str, Option<String>, String) {
    let generation = testing::generation_of([testing::registry_pack(), occupations().pack(), activities().pack()]);
    let problem = generation.check_code(&uri(text)).unwrap_err();
    (problem.reason(), problem.suggestion().map(str::to_owned), problem.to_string())
}

#[test]
fn every_reason_has_a_code_and_a_suggestion() {
    let cases = [
        ("urn:iso:std:iso:5281#1", "unknown_namespace", Some("urn:iso:std:iso:5218")),
        ("urn:not:known#1", "unknown_namespace", None),
        ("urn:who:icd-11#1A00", "vocabulary_not_installed", None),
        ("urn:iso:std:iso:3166-1#ke", "wrong_case", Some("urn:iso:std:iso:3166-1#KE")),
        ("urn:iso:std:iso:3166-1#KEN", "alias", Some("urn:iso:std:iso:3166-1#KE")),
        ("urn:iso:std:iso:3166-1#KX", "unknown_code", Some("urn:iso:std:iso:3166-1#KE")),
        ("urn:iso:std:iso:5218#KE", "wrong_vocabulary", Some("urn:iso:std:iso:3166-1#KE")),
        // In a fragment too, a code of another vocabulary is reported as such, not as missing.
        ("urn:who:icf:d#KE", "wrong_vocabulary", Some("urn:iso:std:iso:3166-1#KE")),
        // A short number does not identify a vocabulary: `61` is an occupation here and has another meaning in other
        // lists.
        ("urn:iso:std:iso:5218#61", "unknown_code", Some("urn:iso:std:iso:5218#1")),
        ("urn:who:icf:d#d451", "not_in_fragment", Some("urn:who:icf:d#d450")),
        ("urn:ilo:isco-08#613", "deprecated", Some("urn:ilo:isco-08#611")),
        ("urn:ilo:isco-08#614", "deprecated", None),
        ("urn:ilo:isco-08#6", "not_selectable", Some("urn:ilo:isco-08#61")),
        ("urn:iso:std:iso:5218#..", "unknown_code", Some("urn:iso:std:iso:5218#0")),
    ];
    for (text, reason, suggestion) in cases {
        let (found, suggested, message) = problem_of(text);
        assert_eq!((found, suggested.as_deref()), (reason, suggestion), "{text}: {message}");
        if let Some(suggestion) = suggestion {
            assert!(message.contains(suggestion), "{message}");
        }
    }
}

#[test]
fn a_vocabulary_that_a_field_waits_for_is_known_by_name() {
    let generation = testing::generation();
    let problem = generation.named(&Namespace::parse("urn:who:icd-11").unwrap()).unwrap_err();
    assert_eq!(problem.reason(), "vocabulary_not_installed");
    assert_eq!(
        problem.to_string(),
        "the vocabulary `urn:who:icd-11` is not installed; install a pack that contains it"
    );
}

#[test]
fn another_name_leads_to_the_code() {
    let generation = testing::generation();
    let found = |text: &str| {
        let found = generation.look_up_by_any_name(&uri(text));
        found.map(|(concept, is_alias)| (concept.code().to_owned(), is_alias)).map_err(|problem| problem.reason())
    };
    assert_eq!(found("urn:iso:std:iso:3166-1#KE"), Ok(("KE".to_owned(), false)));
    assert_eq!(found("urn:iso:std:iso:3166-1#404"), Ok(("KE".to_owned(), true)));
    assert_eq!(found("urn:iso:std:iso:3166-1#999"), Err("unknown_code"));
}

#[test]
fn a_vocabulary_called_by_its_name_is_pointed_to() {
    let generation = testing::generation_of([VocabularyBuilder::new("urn:test:crops").concepts([("a", "A")]).pack()]);
    let problem = generation.named(&Namespace::parse("Vocabulary").unwrap()).unwrap_err();
    assert_eq!(problem.to_string(), "there is no vocabulary `Vocabulary`; did you mean `urn:test:crops`?");
}
