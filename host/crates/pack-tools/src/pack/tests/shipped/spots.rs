//! Single codes that would reveal an error in the generation of a table.

use super::{PACKS, concept, concepts, label, parents, property};
use daftar_domain::manifest::ExtensionFieldKind;
use daftar_domain::vocabulary::ConceptStatus;

#[test]
fn countries_are_found_by_their_other_codes_and_have_the_usual_names() {
    let countries = concepts("urn:iso:std:iso:3166-1");
    assert_eq!(concept(countries, "FR").aliases, ["FRA", "250"]);
    assert_eq!(concept(countries, "AF").aliases, ["AFG", "004"]);
    assert!(countries.iter().all(|country| country.aliases.len() == 2));
    assert_eq!(label(concept(countries, "BO"), "en"), Some("Bolivia"));
    assert_eq!(label(concept(countries, "CI"), "fr"), Some("Côte d’Ivoire"));
    for code in ["XK", "EU", "XX", "UN", "ZZ"] {
        assert!(countries.iter().all(|country| country.code.as_str() != code), "{code} is not ISO's");
    }
}

#[test]
fn languages_are_found_by_both_three_letter_codes() {
    let languages = concepts("urn:iso:std:iso:639");
    assert_eq!(concept(languages, "fr").aliases, ["fra", "fre"]);
    assert_eq!(concept(languages, "zh").aliases, ["zho", "chi"]);
    assert_eq!(concept(languages, "sw").aliases, ["swa"]);
    assert_eq!(languages.iter().filter(|language| language.aliases.len() == 2).count(), 20);
    let inactive: Vec<&str> = languages
        .iter()
        .filter(|language| language.status == ConceptStatus::Inactive)
        .map(|language| language.code.as_str())
        .collect();
    assert_eq!(inactive, ["sh"]);
    assert!(languages.iter().all(|language| language.code.as_str() != "bh"));
    assert_eq!(label(concept(languages, "ar"), "ar"), Some("العربية"));
    assert_eq!(label(concept(languages, "ae"), "sw"), Some("Kiavesta"), "a name that CLDR lacks");
    assert_eq!(label(concept(languages, "ho"), "am"), None, "English is used instead");
}

#[test]
fn currencies_have_a_kind_and_include_withdrawn_ones() {
    let currencies = concepts("urn:iso:std:iso:4217");
    let reported = |code: &str| {
        let currency = concept(currencies, code);
        (currency.aliases.join(" "), property(currency, "minor_units"), property(currency, "kind").unwrap())
    };
    assert_eq!(reported("ALL"), ("008".to_owned(), Some("2"), "currency"));
    assert_eq!(reported("JPY"), ("392".to_owned(), Some("0"), "currency"));
    assert_eq!(reported("KWD"), ("414".to_owned(), Some("3"), "currency"));
    assert_eq!(reported("CLF"), ("990".to_owned(), Some("4"), "fund"));
    assert_eq!(reported("XAU"), ("959".to_owned(), None, "precious_metal"));
    assert_eq!(reported("XTS"), ("963".to_owned(), None, "testing"));
    assert_eq!(reported("XCG"), ("532".to_owned(), Some("2"), "currency"));
    let active = currencies.iter().filter(|currency| currency.status == ConceptStatus::Active);
    assert_eq!(active.count(), 178, "as many as SIX's List One has");
    for (code, successor) in
        [("BGN", "EUR"), ("HRK", "EUR"), ("SLL", "SLE"), ("CUC", "CUP"), ("ANG", "XCG"), ("ZWL", "ZWG")]
    {
        let withdrawn = concept(currencies, code);
        assert_eq!(withdrawn.status, ConceptStatus::Inactive, "{code}");
        assert_eq!(withdrawn.replaced_by.as_ref().map(|code| code.as_str()), Some(successor), "{code}");
        let successor = concept(currencies, successor);
        assert_eq!(successor.status, ConceptStatus::Active);
    }
    assert!(
        currencies.iter().all(|currency| (currency.status == ConceptStatus::Active) == currency.replaced_by.is_none())
    );
}

#[test]
fn occupations_keep_leading_zeros() {
    let occupations = concepts("urn:ilo:isco-08");
    assert_eq!(label(concept(occupations, "0110"), "en"), Some("Commissioned Armed Forces Officers"));
    assert_eq!(parents(concept(occupations, "2310")), ["231"]);
}

#[test]
fn levels_of_education_have_the_categories_of_their_first_digit() {
    let education = concepts("urn:unesco:isced:2011");
    let below = |level: &str| -> Vec<&str> {
        let below = education.iter().filter(|category| parents(category) == [level]);
        below.map(|category| category.code.as_str()).collect()
    };
    assert_eq!(["0", "1", "2"].map(below), [vec!["01", "02"], vec!["10"], vec!["24", "25"]]);
    assert_eq!(["5", "6", "8"].map(below), [vec!["54", "55"], vec!["64", "65", "66"], vec!["84", "85", "86"]]);
    assert_eq!(label(concept(education, "02"), "en"), Some("Pre-primary education"));
    assert_eq!(label(concept(education, "35"), "en"), Some("Upper secondary vocational education"));
    assert_eq!(label(concept(education, "86"), "en"), Some("Doctoral or equivalent level, orientation unspecified"));
}

#[test]
fn diseases_keep_their_who_uri_and_letters_after_the_dot() {
    let diseases = concepts("urn:who:icd-11");
    let other = concept(diseases, "1A03.Y");
    assert_eq!(parents(other), ["1A03"]);
    assert_eq!(other.uri.as_deref(), Some("http://id.who.int/icd/entity/344162786/mms/other"));
    assert_eq!(label(concept(diseases, "1A00"), "en"), Some("Cholera"));
    assert_eq!(parents(concept(diseases, "1A00")), ["chapter:01"]);
    assert_eq!(
        label(concept(diseases, "chapter:06"), "en"),
        Some("Mental, behavioural or neurodevelopmental disorders")
    );
    assert_eq!(diseases.iter().filter(|disease| disease.is_selectable).count(), 17_546);
    assert_eq!(diseases.iter().filter(|disease| disease.code.as_str().starts_with("chapter:")).count(), 28);
}

#[test]
fn body_functions_and_activities_have_every_chapter_and_reach_the_fourth_level() {
    let functions = concepts("urn:who:icf:b");
    assert_eq!(parents(concept(functions, "b11420")), ["b1142"]);
    assert_eq!(parents(concept(functions, "b114")), ["b1"]);
    assert_eq!(label(concept(functions, "b28013"), "en"), Some("Pain in back"));
    assert_eq!(functions.iter().filter(|function| function.parents.is_empty()).count(), 8);
    let activities = concepts("urn:who:icf:d");
    assert_eq!(label(concept(activities, "d4500"), "en"), Some("Walking short distances"));
    assert_eq!(activities.iter().filter(|activity| activity.parents.is_empty()).count(), 9);
}

#[test]
fn crops_are_named_by_fao_and_bring_the_farmers_field() {
    let crops = concepts("urn:fao:agrovoc");
    for (code, name) in [
        ("c_12332", "maize"),
        ("c_8373", "wheat"),
        ("c_6599", "rice"),
        ("c_9649", "cassava"),
        ("c_13551", "potatoes"),
        ("c_4838", "millets"),
        ("c_7249", "sorghum grain"),
        ("c_1926", "cotton"),
        ("c_11368", "groundnuts"),
        ("c_1711", "cocoa beans"),
    ] {
        assert_eq!(label(concept(crops, code), "en"), Some(name));
    }
    assert_eq!(label(concept(crops, "c_12332"), "zh"), Some("玉米"));
    assert_eq!(parents(concept(crops, "c_7552")), ["c_8174", "c_12332"], "sweet corn is a vegetable and maize");
    let [field] = PACKS["farmer-registry"].manifest.extension_fields.as_slice() else { panic!("one field") };
    assert_eq!(field.path.as_str(), "farmer.crops");
    assert_eq!((field.kind, field.repeated), (ExtensionFieldKind::Coded, true));
    assert_eq!(field.vocabulary.as_deref(), Some("urn:fao:agrovoc"));
}

#[test]
fn relations_are_for_people_or_for_groups() {
    let relations = concepts("urn:svc:vocab:relationship");
    assert_eq!(property(concept(relations, "head"), "kind"), Some("individual"));
    assert_eq!(property(concept(relations, "subsidiary"), "kind"), Some("group"));
    let of_groups = relations.iter().filter(|relation| property(relation, "kind") == Some("group")).count();
    let of_people = relations.iter().filter(|relation| property(relation, "kind") == Some("individual")).count();
    assert_eq!((of_people, of_groups), (11, 4));
    for relation in relations {
        let Some(inverse) = property(relation, "inverse") else { continue };
        assert_eq!(property(concept(relations, inverse), "inverse"), Some(relation.code.as_str()), "{inverse}");
    }
}

#[test]
fn every_ethnocultural_code_is_marked_as_a_starter() {
    let all = concepts("urn:svc:vocab:ethnocultural");
    assert!(all.iter().all(|code| property(code, "starter") == Some("true")));
}
