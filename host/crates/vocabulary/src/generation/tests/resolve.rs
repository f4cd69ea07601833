use super::*;
use crate::code_problem::CodeProblem;
use crate::language::LanguagePreference;
use crate::testing::{coded, generation, generation_of, registry_pack};
use daftar_domain::code::CodedValue;
use daftar_domain::vocabulary::CodedField;

fn problem(generation: &Generation, field: CodedField, text: &str) -> CodeProblem {
    generation.resolve(field, &uri(text)).unwrap_err()
}

fn code_and_message(generation: &Generation, field: CodedField, text: &str) -> (&'static str, String) {
    let problem = problem(generation, field, text);
    (problem.code(), problem.to_string())
}

#[test]
fn a_code_becomes_its_number_and_the_active_edition() {
    let generation = generation();
    let value = generation.resolve(CodedField::Gender, &uri("urn:iso:std:iso:5218#2")).unwrap();
    assert_eq!(generation.code(value.number).unwrap().default_label(), "Female");
    assert_eq!(generation.number_of(&uri("urn:iso:std:iso:5218#2")), Some(value.number));
    let (namespace, version) = generation.table().edition(value.edition).unwrap();
    assert_eq!((namespace.as_str(), version), ("urn:iso:std:iso:5218", "2022"));
    for number in (0..u32::try_from(generation.code_count()).unwrap()).map(CodeNumber) {
        let concept = generation.code(number).unwrap();
        assert_eq!(generation.number_of(&concept.uri().unwrap()), Some(number));
    }
    assert_eq!(generation.code(CodeNumber(u32::try_from(generation.code_count()).unwrap())), None);
}

#[test]
fn a_vocabulary_of_another_field_is_refused_naming_the_right_one() {
    let generation = generation();
    let (code, message) = code_and_message(&generation, CodedField::Gender, "urn:un:unsd:pop-census:marital-status#M");
    assert_eq!(code, "wrong_vocabulary");
    insta::assert_snapshot!(message, @"`urn:un:unsd:pop-census:marital-status#M` is a code of another vocabulary; `gender` takes codes of `urn:iso:std:iso:5218`");
    assert_eq!(code_and_message(&generation, CodedField::Gender, "urn:who:icd-11#1A00").0, "wrong_vocabulary");
    let (code, message) = code_and_message(&generation, CodedField::DisabilityCodes, "urn:not:known#M");
    assert_eq!(code, "unknown_vocabulary");
    insta::assert_snapshot!(message, @"`urn:not:known#M` belongs to no vocabulary known here; `disability_codes` takes codes of `urn:who:icf:b` or `urn:who:icf:d`");
}

#[test]
fn a_vocabulary_that_is_not_here_is_said_to_be_missing() {
    let empty = VocabularyBuilder::new("urn:who:icd-11").completeness(Completeness::Empty);
    let generation = generation_of([empty.pack()]);
    let (code, message) = code_and_message(&generation, CodedField::Gender, "urn:iso:std:iso:5218#2");
    assert_eq!(code, "vocabulary_not_installed");
    insta::assert_snapshot!(message, @"`urn:iso:std:iso:5218#2`: the vocabulary `urn:iso:std:iso:5218` is not installed; install a pack that contains it");
    let named = generation_of([registry_pack()]).with_modules(Arc::new(KnownModules::of_project()));
    let (_, message) = code_and_message(&named, CodedField::Occupation, "urn:ilo:isco-08#6111");
    insta::assert_snapshot!(message, @"`urn:ilo:isco-08#6111`: the vocabulary `urn:ilo:isco-08` is not installed; the module `isco-08` provides it: the administrator installs it with `daftar plugin install`");
    let (_, message) = code_and_message(&named, CodedField::Gender, "urn:fao:agrovoc#c_1");
    insta::assert_snapshot!(message, @"`urn:fao:agrovoc#c_1` belongs to no vocabulary known here (the module `farmer-registry` provides it: the administrator installs it with `daftar plugin install`); `gender` takes codes of `urn:iso:std:iso:5218`");
    let (code, message) = code_and_message(&generation, CodedField::HealthConditions, "urn:who:icd-11#1A00");
    assert_eq!(code, "vocabulary_empty");
    insta::assert_snapshot!(message, @"`urn:who:icd-11#1A00`: the vocabulary `urn:who:icd-11` has no codes yet; import its owner's file first");
}

#[test]
fn an_unknown_code_comes_with_the_nearest() {
    let generation = generation_of([registry_pack(), occupations().pack(), activities().pack()]);
    let (code, message) = code_and_message(&generation, CodedField::Gender, "urn:iso:std:iso:5218#female");
    assert_eq!(code, "unknown_code");
    insta::assert_snapshot!(message, @"`urn:iso:std:iso:5218#female` is no code of its vocabulary; did you mean `urn:iso:std:iso:5218#2` (Female)?");
    let (code, message) = code_and_message(&generation, CodedField::Occupation, "urn:ilo:isco-08#62");
    assert_eq!(code, "unknown_code");
    insta::assert_snapshot!(message, @"`urn:ilo:isco-08#62` is no code of its vocabulary; did you mean `urn:ilo:isco-08#61` (Farmers) or `urn:ilo:isco-08#612` (Animal producers)?");
    let (code, message) = code_and_message(&generation, CodedField::DisabilityCodes, "urn:who:icf:d#d455");
    assert_eq!(code, "not_in_fragment");
    insta::assert_snapshot!(message, @"`urn:who:icf:d#d455` is not in the part of its vocabulary that is installed; import the owner's file; did you mean `urn:who:icf:d#d450` (Walking)?");
}

#[test]
fn wrong_case_and_other_names_lead_to_the_code() {
    let generation = generation();
    let (code, message) = code_and_message(&generation, CodedField::Country, "urn:iso:std:iso:3166-1#ke");
    assert_eq!(code, "wrong_case");
    insta::assert_snapshot!(message, @"`urn:iso:std:iso:3166-1#ke` is no code of its vocabulary: codes are case-sensitive, write `urn:iso:std:iso:3166-1#KE` (Kenya)");
    let (code, message) = code_and_message(&generation, CodedField::Country, "urn:iso:std:iso:3166-1#250");
    assert_eq!(code, "alias");
    insta::assert_snapshot!(message, @"`urn:iso:std:iso:3166-1#250` is another name, not the code; write `urn:iso:std:iso:3166-1#FR` (France)");
    let other_case = problem(&generation, CodedField::Country, "urn:iso:std:iso:3166-1#fra");
    assert_eq!(
        (other_case.code(), other_case.suggestions()[0].uri.as_str()),
        ("unknown_code", "urn:iso:std:iso:3166-1#FR")
    );
}

#[test]
fn inactive_codes_and_headings_are_rejected_with_their_successors() {
    let generation = generation_of([occupations().pack()]);
    let (code, message) = code_and_message(&generation, CodedField::Occupation, "urn:ilo:isco-08#613");
    assert_eq!(code, "inactive_code");
    insta::assert_snapshot!(message, @"`urn:ilo:isco-08#613` is no longer in use: use `urn:ilo:isco-08#611` (Crop growers) in its place");
    let (code, message) = code_and_message(&generation, CodedField::Occupation, "urn:ilo:isco-08#614");
    assert_eq!(code, "inactive_code");
    insta::assert_snapshot!(message, @"`urn:ilo:isco-08#614` is no longer in use and names no successor: choose an active code");
    let (code, message) = code_and_message(&generation, CodedField::Occupation, "urn:ilo:isco-08#6");
    assert_eq!(code, "not_selectable");
    insta::assert_snapshot!(message, @"`urn:ilo:isco-08#6` is a heading that only groups other codes; use one below it, such as `urn:ilo:isco-08#61` (Farmers), `urn:ilo:isco-08#611` (Crop growers), `urn:ilo:isco-08#612` (Animal producers) or `urn:ilo:isco-08#921` (Farm labourers)");
}

#[test]
fn a_relation_between_groups_is_no_role_of_a_member() {
    let generation = generation();
    let (code, message) =
        code_and_message(&generation, CodedField::MemberRole, "urn:svc:vocab:relationship#subsidiary");
    assert_eq!(code, "wrong_kind");
    insta::assert_snapshot!(message, @"`urn:svc:vocab:relationship#subsidiary` is a relation of kind `group`; `member.role` takes codes of kind `individual`, such as `urn:svc:vocab:relationship#child` (Child), `urn:svc:vocab:relationship#child_in_law` (Son- or daughter-in-law), `urn:svc:vocab:relationship#grandchild` (Grandchild), `urn:svc:vocab:relationship#grandparent` (Grandparent) or `urn:svc:vocab:relationship#head` (Head of household)");
    assert!(generation.resolve(CodedField::MemberRole, &uri("urn:svc:vocab:relationship#head")).is_ok());
    let without_kind = VocabularyBuilder::new("urn:svc:vocab:relationship").concepts([("friend", "Friend")]);
    let generation = generation_of([without_kind.pack()]);
    assert!(generation.resolve(CodedField::MemberRole, &uri("urn:svc:vocab:relationship#friend")).is_ok());
}

#[test]
fn a_problem_goes_to_the_path_of_its_field() {
    let problem =
        problem(&generation(), CodedField::AddressCountry, "urn:iso:std:iso:3166-1#ke").at("address[1].country");
    assert_eq!((problem.field.as_str(), problem.code), ("address[1].country", "wrong_case"));
    assert!(problem.message.contains("`urn:iso:std:iso:3166-1#KE` (Kenya)"));
}

#[test]
fn identifier_systems_are_codes_of_the_id_types() {
    let generation = generation();
    assert!(generation.check_identifier_system(&uri("urn:svc:vocab:id-type#passport")).is_ok());
    let problem = generation.check_identifier_system(&uri("urn:svc:vocab:id-type#pasport")).unwrap_err();
    assert_eq!(problem.suggestions()[0].uri, "urn:svc:vocab:id-type#passport");
    assert_eq!(generation.check_identifier_system(&uri("urn:example#1")).unwrap_err().code(), "unknown_vocabulary");
    let systems: Vec<String> = generation.identifier_systems().into_iter().map(|system| system.uri).collect();
    assert_eq!(systems.len(), 4);
    assert_eq!(systems[1], "urn:svc:vocab:id-type#national_id");
}

#[test]
fn an_unknown_system_is_reported_with_the_closest_and_the_known_ones() {
    let generation = generation();
    let reported =
        |text: &str| generation.check_system(&SystemUri::parse(text).unwrap()).map_err(|problem| problem.to_string());
    assert_eq!(reported("urn:svc:vocab:id-type#passport"), Ok(()));
    let known = "known systems: `urn:svc:vocab:id-type#birth_certificate`, `urn:svc:vocab:id-type#national_id`, \
                 `urn:svc:vocab:id-type#passport`, `urn:svc:vocab:id-type#tax_id`; the administrator registers others with \
                 `daftar identifier-system add`";
    for (system, nearest) in [
        ("urn:svc:vocab:id-type#pasport", " (did you mean `urn:svc:vocab:id-type#passport`?)"),
        ("urn:svc:vocab:id_type#tax_id", " (did you mean `urn:svc:vocab:id-type#tax_id`?)"),
        ("https://example.org/farmers", ""),
        ("urn:svc:vocab:id-type", ""),
    ] {
        assert_eq!(reported(system), Err(format!("unknown identifier system `{system}`{nearest}; {known}")));
    }
}

#[test]
fn a_filter_finds_codes_of_the_right_vocabulary_alone() {
    let generation = generation_of([registry_pack(), occupations().pack()]);
    let filter = |text: &str| generation.resolve_filter(CodedField::Occupation.namespaces(), &uri(text));
    assert_eq!(filter("urn:ilo:isco-08#613"), Ok(generation.number_of(&uri("urn:ilo:isco-08#613"))));
    assert_eq!(filter("urn:ilo:isco-08#777"), Ok(None));
    assert_eq!(filter("urn:iso:std:iso:5218#1"), Ok(None), "no occupation is a gender");
    let religions = CodedField::Religion.namespaces();
    let not_installed = generation.resolve_filter(religions, &uri("urn:un:unsd:pop-census:religion#islam"));
    assert_eq!(not_installed, Ok(None));
}

#[test]
fn a_filter_by_descendants_includes_the_code_itself() {
    let generation = generation_of([occupations().pack()]);
    let below = |text: &str| generation.resolve_filter_below(CodedField::Occupation.namespaces(), &uri(text));
    let mut codes: Vec<&str> = below("urn:ilo:isco-08#61")
        .unwrap()
        .into_iter()
        .map(|number| generation.code(number).unwrap().code())
        .collect();
    codes.sort_unstable();
    assert_eq!(codes, ["61", "611", "612", "613", "614", "921"]);
    assert_eq!(below("urn:ilo:isco-08#777"), Ok(Vec::new()));
    assert_eq!(below("urn:iso:std:iso:5218#1"), Ok(Vec::new()));
}

#[test]
fn a_code_is_shown_in_the_language_asked_for() {
    let generation = generation();
    let value = coded(&generation, CodedField::Gender, "urn:iso:std:iso:5218#2");
    let shown = generation.display(value, &LanguagePreference::parse("fr-FR")).unwrap();
    assert_eq!((shown.display, shown.language, shown.is_fallback), ("Féminin", Some("fr"), false));
    assert!(!shown.is_other_edition);
    let displayed = shown.to_displayed();
    assert_eq!(displayed.uri, "urn:iso:std:iso:5218#2");
    assert_eq!((displayed.namespace.as_str(), displayed.code.as_str()), ("urn:iso:std:iso:5218", "2"));
    let shown = generation.display(value, &LanguagePreference::parse("sw")).unwrap();
    assert_eq!((shown.display, shown.is_fallback), ("Female", true));
    assert_eq!(generation.code_texts(value.number).unwrap().display, "Female");
    let never_given = CodedValue { number: CodeNumber(9_999), ..value };
    assert_eq!(generation.display(never_given, &LanguagePreference::none()), None);
}

#[test]
fn a_code_whose_pack_is_gone_is_shown_by_itself() {
    let before = generation();
    let value = coded(&before, CodedField::Gender, "urn:iso:std:iso:5218#2");
    let after = GenerationBuilder::new().build(Arc::clone(before.table())).unwrap();
    assert_eq!(after.code(value.number), None);
    let shown = after.display(value, &LanguagePreference::parse("fr")).unwrap();
    assert_eq!(shown.language, None, "nothing is known of it but its name");
    assert_eq!((shown.display, shown.uri().as_str()), ("2", "urn:iso:std:iso:5218#2"));
    assert_eq!(after.code_texts(value.number).unwrap().display, "2");
    let filter = after.resolve_filter(CodedField::Gender.namespaces(), &uri("urn:iso:std:iso:5218#2"));
    assert_eq!(filter, Ok(Some(value.number)), "old records are still found");
}
