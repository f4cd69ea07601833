//! Properties of every code of a vocabulary: its form, and the rule of its parent.

use std::collections::{HashMap, HashSet};

use super::{concepts, label, parents, vocabularies};

fn is_digits(text: &str) -> bool {
    !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit())
}

fn is_upper(text: &str) -> bool {
    text.bytes().all(|byte| byte.is_ascii_uppercase())
}

/// Lower-case letters, digits and underscores, a letter first.
fn is_slug(text: &str) -> bool {
    text.starts_with(|first: char| first.is_ascii_lowercase())
        && text.bytes().all(|byte| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'_')
}

/// `1`, `1.2`, `1.2.3`.
fn is_dotted(text: &str) -> bool {
    let levels: Vec<&str> = text.split('.').collect();
    (1..=3).contains(&levels.len()) && levels.iter().all(|level| level.len() == 1 && is_digits(level))
}

/// The component's letter and one, three, four or five digits.
fn is_icf(text: &str, component: char) -> bool {
    text.strip_prefix(component).is_some_and(|digits| is_digits(digits) && matches!(digits.len(), 1 | 3..=5))
}

/// `chapter:05`, or four characters and optionally a dot with one or two more. No code contains I or O.
fn is_icd_11(text: &str) -> bool {
    if let Some(chapter) = text.strip_prefix("chapter:") {
        return matches!(chapter, "V" | "X") || (chapter.len() == 2 && is_digits(chapter));
    }
    let (stem, rest) = text.split_once('.').unwrap_or((text, "0"));
    let is_sign = |byte: u8| byte.is_ascii_digit() || (byte.is_ascii_uppercase() && byte != b'I' && byte != b'O');
    stem.len() == 4 && (1..=2).contains(&rest.len()) && stem.bytes().chain(rest.bytes()).all(is_sign)
}

fn is_agrovoc(text: &str) -> bool {
    let is_sign = |byte: u8| byte.is_ascii_digit() || matches!(byte, b'a'..=b'f');
    text.strip_prefix("c_").is_some_and(|number| !number.is_empty() && number.bytes().all(is_sign))
}

#[test]
fn every_code_has_the_form_of_its_vocabulary() {
    for (description, concepts) in vocabularies() {
        let namespace = description.namespace.as_str();
        for concept in concepts {
            let code = concept.code.as_str();
            let is_right = match namespace {
                "urn:iso:std:iso:5218" => matches!(code, "0" | "1" | "2" | "9"),
                "urn:un:unsd:pop-census:marital-status" => matches!(code, "S" | "M" | "W" | "D" | "L" | "C"),
                "urn:un:unsd:pop-census:housing-type" => is_dotted(code),
                "urn:iso:std:iso:3166-1" => code.len() == 2 && is_upper(code),
                "urn:iso:std:iso:639" => code.len() == 2 && is_slug(code),
                "urn:iso:std:iso:4217" => code.len() == 3 && is_upper(code),
                "urn:who:icf:b" => is_icf(code, 'b'),
                "urn:who:icf:d" => is_icf(code, 'd'),
                "urn:who:icd-11" => is_icd_11(code),
                "urn:ilo:isco-08" => code.len() <= 4 && is_digits(code),
                "urn:ilo:icse-93" => code.len() == 1 && is_digits(code),
                "urn:unesco:isced:2011" => code.len() <= 2 && is_digits(code),
                "urn:fao:agrovoc" => is_agrovoc(code),
                _ => is_slug(code),
            };
            assert!(is_right, "{namespace}#{code}");
        }
    }
}

#[test]
fn every_label_is_a_text_and_not_the_markup_of_one() {
    for (description, concepts) in vocabularies() {
        for concept in concepts {
            for label in &concept.labels {
                let at = format!("{}#{} {}", description.namespace, concept.code, label.language);
                for entity in ["&amp;", "&lt;", "&gt;", "&quot;", "&#", "  ", "\u{fffd}"] {
                    assert!(!label.value.contains(entity), "{at}: {}", label.value);
                }
                assert!(description.languages.contains(&label.language), "{at}");
            }
        }
    }
}

#[test]
fn every_other_spelling_leads_to_one_code() {
    for (description, concepts) in vocabularies() {
        let mut taken: HashSet<&str> = HashSet::new();
        for spelling in concepts.iter().flat_map(|concept| {
            std::iter::once(concept.code.as_str()).chain(concept.aliases.iter().map(String::as_str))
        }) {
            assert!(taken.insert(spelling), "{}#{spelling}", description.namespace);
        }
    }
}

#[test]
fn small_lists_have_a_label_in_each_of_their_nine_languages_and_no_two_codes_share_one() {
    for (description, concepts) in vocabularies().filter(|(_, concepts)| concepts.len() <= 30) {
        assert_eq!(description.languages, ["en", "fr", "es", "ar", "pt", "ru", "zh", "sw", "hi"]);
        // ISCED has the same name for level 1 and its only category.
        let named_alike = usize::from(description.namespace.as_str() == "urn:unesco:isced:2011");
        for language in &description.languages {
            assert!(concepts.iter().all(|concept| label(concept, language).is_some()), "{}", description.namespace);
            let labels: HashSet<&str> = concepts.iter().filter_map(|concept| label(concept, language)).collect();
            assert_eq!(labels.len() + named_alike, concepts.len(), "{} {language}", description.namespace);
        }
    }
}

#[test]
fn labels_are_written_in_the_script_of_their_language() {
    let is_of = |language: &str, character: char| match language {
        "ar" => ('\u{600}'..='\u{6ff}').contains(&character),
        "ru" => ('\u{400}'..='\u{4ff}').contains(&character),
        "zh" => ('\u{4e00}'..='\u{9fff}').contains(&character),
        "hi" => ('\u{900}'..='\u{97f}').contains(&character),
        _ => character.is_alphabetic(),
    };
    for (description, concepts) in vocabularies().filter(|(_, concepts)| concepts.len() <= 250) {
        for concept in concepts {
            for label in &concept.labels {
                let has_own = label.value.chars().any(|character| is_of(&label.language, character));
                assert!(has_own, "{}#{} {}: {}", description.namespace, concept.code, label.language, label.value);
            }
        }
    }
}

#[test]
fn parents_of_housing_occupations_and_education_follow_from_the_last_digit() {
    for concept in concepts("urn:un:unsd:pop-census:housing-type") {
        let parent: Vec<&str> = concept.code.as_str().rsplit_once('.').map(|(parent, _)| parent).into_iter().collect();
        assert_eq!(parents(concept), parent, "{}", concept.code);
    }
    for concept in concepts("urn:ilo:isco-08").iter().chain(concepts("urn:unesco:isced:2011")) {
        let code = concept.code.as_str();
        let parent: Vec<&str> = if code.len() == 1 { Vec::new() } else { vec![&code[..code.len() - 1]] };
        assert_eq!(parents(concept), parent, "{code}");
    }
}

#[test]
fn parents_of_body_functions_and_activities_follow_from_their_digits() {
    for namespace in ["urn:who:icf:b", "urn:who:icf:d"] {
        for concept in concepts(namespace) {
            let code = concept.code.as_str();
            let parent: Vec<&str> = match code.len() {
                2 => Vec::new(),
                4 => vec![&code[..2]],
                length => vec![&code[..length - 1]],
            };
            assert_eq!(parents(concept), parent, "{code}");
        }
    }
}

#[test]
fn parents_of_diseases_follow_from_their_prefix() {
    // The source has no code for the parent of these.
    const WITHOUT_PARENT: [(&str, &str); 4] =
        [("8C02.0", "chapter:08"), ("8C02.1", "chapter:08"), ("VB40.Y", "chapter:V"), ("VB40.Z", "chapter:V")];
    const FIRST: &str = "123456789ABCDEFGHJKLMNPQRS";
    for concept in concepts("urn:who:icd-11") {
        let code = concept.code.as_str();
        if code.starts_with("chapter:") {
            assert!(parents(concept).is_empty() && !concept.is_selectable && concept.uri.is_none(), "{code}");
            continue;
        }
        let parent = match (WITHOUT_PARENT.iter().find(|(lacking, _)| *lacking == code), code.split_once('.')) {
            (Some((_, chapter)), _) => (*chapter).to_owned(),
            (None, Some((stem, rest))) if rest.len() == 1 => stem.to_owned(),
            (None, Some(_)) => code[..code.len() - 1].to_owned(),
            (None, None) => match FIRST.find(&code[..1]) {
                Some(place) => format!("chapter:{:02}", place + 1),
                None => format!("chapter:{}", &code[..1]),
            },
        };
        assert_eq!(parents(concept), [parent.as_str()], "{code}");
        let uri = concept.uri.as_deref().unwrap_or_default();
        assert!(uri.starts_with("http://id.who.int/icd/entity/"), "{code}: {uri}");
        assert!(!code.starts_with('X'), "{code} is an extension code");
    }
}

#[test]
fn the_primary_parent_of_a_crop_is_the_one_with_the_lowest_number() {
    let crops = concepts("urn:fao:agrovoc");
    let places: HashMap<&str, usize> = crops.iter().map(|crop| (crop.code.as_str(), crop.parents.len())).collect();
    for crop in crops {
        let given = parents(crop);
        let mut ranked = given.clone();
        ranked.sort_by_key(|parent| (parent.len(), *parent));
        assert_eq!(given, ranked, "{}", crop.code);
        let uri = format!("http://aims.fao.org/aos/agrovoc/{}", crop.code);
        assert_eq!(crop.uri.as_deref(), Some(uri.as_str()));
    }
    assert_eq!(places.values().filter(|parents| **parents > 1).count(), 16);
}
