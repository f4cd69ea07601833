use super::*;
use crate::testing::{builder_of, concept_group, generation, generation_of, registry_pack, table_of};
use daftar_domain::eligibility::{Answer, Question, Truth};

/// Returns the truth values of a result by code of one vocabulary, and the name of the missing fact.
fn truths(generation: &Generation, question: Question, namespace: &str) -> (Vec<(String, Truth)>, Option<String>) {
    let Answer::Truths { truths, missing } = generation.answer(&question).unwrap() else {
        panic!("the question asks for truths")
    };
    assert_eq!(truths.len(), generation.code_count());
    let namespace = daftar_domain::code::Namespace::parse(namespace).unwrap();
    let of_code =
        |number: &CodeNumber| (generation.table().name(*number).unwrap().1.to_owned(), truths[number.0 as usize]);
    (generation.table().numbers_in(&namespace).iter().map(of_code).collect(), missing)
}

fn of<const N: usize>(truths: [(&str, Truth); N]) -> Vec<(String, Truth)> {
    truths.map(|(code, truth)| (code.to_owned(), truth)).to_vec()
}

const GENDER: &str = "urn:iso:std:iso:5218";
const ISCO: &str = "urn:ilo:isco-08";
use Truth::{No, Unknown, Yes};

#[test]
fn gender_not_known_is_missing_to_questions_about_genders() {
    let generation = generation();
    let in_group = |name: &str| truths(&generation, Question::InGroup(name.to_owned()), GENDER);
    assert_eq!(in_group("feminine_gender"), (of([("0", Unknown), ("1", No), ("2", Yes), ("9", No)]), None));
    assert_eq!(in_group("masculine_gender"), (of([("0", Unknown), ("1", Yes), ("2", No), ("9", No)]), None));
    assert_eq!(in_group("head_of_household").0, of([("0", No), ("1", No), ("2", No), ("9", No)]));
    let descends = Question::DescendsFrom("urn:iso:std:iso:5218#2".to_owned());
    assert_eq!(truths(&generation, descends, GENDER).0, of([("0", Unknown), ("1", No), ("2", Yes), ("9", No)]));
}

#[test]
fn a_group_answers_for_every_vocabulary() {
    let generation = generation();
    let (roles, missing) =
        truths(&generation, Question::InGroup("head_of_household".to_owned()), "urn:svc:vocab:relationship");
    assert_eq!(missing, None);
    assert_eq!(roles.iter().filter(|(_, truth)| *truth == Yes).collect::<Vec<_>>(), [&("head".to_owned(), Yes)]);
    assert!(roles.iter().all(|(_, truth)| *truth != Unknown));
}

#[test]
fn an_unset_group_is_unknown_for_every_code_and_names_itself() {
    let generation = generation();
    let question = Question::InGroup("pregnant_eligible".to_owned());
    let Answer::Truths { truths, missing } = generation.answer(&question).unwrap() else { panic!("truths") };
    assert!(truths.len() == generation.code_count() && truths.iter().all(|truth| *truth == Unknown));
    assert_eq!(missing.as_deref(), Some("concept_group.pregnant_eligible"));
    assert_eq!(generation.unset_in(&question), missing);
    assert_eq!(generation.unset_in(&Question::InGroup("feminine_gender".to_owned())), None);
}

#[test]
fn a_group_whose_vocabulary_is_gone_names_itself() {
    let table = table_of(&builder_of([occupations().pack()]));
    let mut builder = builder_of([]);
    builder.define(concept_group("farmers", &["below urn:ilo:isco-08#61"], &[]));
    let generation = builder.build(table).unwrap();
    let (truths, missing) = truths(&generation, Question::InGroup("farmers".to_owned()), ISCO);
    assert_eq!(missing.as_deref(), Some("concept_group.farmers"));
    assert_eq!(truths.iter().filter(|(_, truth)| *truth == Yes).collect::<Vec<_>>(), [&("61".to_owned(), Yes)]);
    assert_eq!(truths.iter().filter(|(_, truth)| *truth == Unknown).count(), truths.len() - 1);
}

#[test]
fn descendants_include_the_code_itself() {
    let generation = generation_of([registry_pack(), occupations().pack()]);
    let question = Question::DescendsFrom("urn:ilo:isco-08#9".to_owned());
    let expected =
        of([("6", No), ("61", No), ("611", No), ("612", No), ("613", No), ("614", No), ("9", Yes), ("921", Yes)]);
    assert_eq!(truths(&generation, question, ISCO), (expected, None));
}

#[test]
fn a_code_is_answered_with_its_number() {
    let generation = generation_of([registry_pack(), occupations().pack()]);
    for text in ["urn:iso:std:iso:5218#0", "urn:ilo:isco-08#613", "urn:ilo:isco-08#6"] {
        let expected = Answer::Number(generation.number_of(&uri(text)).unwrap());
        assert_eq!(generation.answer(&Question::Code(text.to_owned())), Ok(expected));
    }
}

#[test]
fn a_wrong_code_in_a_rule_gets_a_suggestion() {
    let generation = generation();
    let reported = |question: Question| {
        let problem = generation.answer(&question).unwrap_err();
        (problem.code(), problem.to_string(), problem.suggestion().map(str::to_owned))
    };
    let (code, message, suggestion) = reported(Question::InGroup("feminin_gender".to_owned()));
    assert_eq!((code, suggestion.as_deref()), ("unknown_concept_group", Some("feminine_gender")));
    insta::assert_snapshot!(message, @"there is no concept group `feminin_gender`; did you mean `feminine_gender`?");
    let (code, message, suggestion) = reported(Question::InGroup("x".repeat(10_000)));
    assert_eq!((code, suggestion), ("unknown_concept_group", None));
    assert!(message.len() < 200);
    let (code, message, suggestion) = reported(Question::Code("urn:iso:std:iso:3166-1#KEN".to_owned()));
    assert_eq!((code, suggestion.as_deref()), ("alias", Some("urn:iso:std:iso:3166-1#KE")));
    insta::assert_snapshot!(message, @"`urn:iso:std:iso:3166-1#KEN` is another name, not the code; write `urn:iso:std:iso:3166-1#KE` (Kenya)");
    let (code, _, suggestion) = reported(Question::DescendsFrom("urn:iso:std:iso:3166-1#KX".to_owned()));
    assert_eq!((code, suggestion.as_deref()), ("unknown_code", Some("urn:iso:std:iso:3166-1#KE")));
    assert_eq!(reported(Question::DescendsFrom("urn:ilo:isco-08#6".to_owned())).0, "vocabulary_not_installed");
    let (code, message, suggestion) = reported(Question::Code("urn:iso:std:iso:5218".to_owned()));
    assert_eq!((code, suggestion), ("malformed_code", None));
    insta::assert_snapshot!(message, @"the code is missing after the namespace; write `<namespace>#<code>` or `<namespace>|<code>`");
}
