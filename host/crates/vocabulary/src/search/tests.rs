use super::*;
use crate::testing::{TestConcept, VocabularyBuilder};
use daftar_domain::vocabulary::Completeness;

fn countries() -> Vocabulary {
    VocabularyBuilder::new("urn:test:countries")
        .concept(TestConcept::new("CI", "Côte d’Ivoire").label("ar", "ساحل العاج").alias("CIV").alias("384"))
        .concept(TestConcept::new("ET", "Ethiopia").label("am", "ኢትዮጵያ").label("fr", "Éthiopie"))
        .concept(TestConcept::new("AF", "Afghanistan").label("zh", "阿富汗").label("hi", "अफ़गानिस्तान"))
        .concept(TestConcept::new("CF", "Central African Republic").label("zh", "中非共和国"))
        .concept(TestConcept::new("ZA", "South Africa").label("zh", "南非"))
        .concept(TestConcept::new("IQ", "Iraq").label("ar", "العراق"))
        .concept(TestConcept::new("IR", "Iran"))
        .concept(TestConcept::new("ZR", "Zaire").inactive())
        .vocabulary()
}

fn diseases() -> Vocabulary {
    VocabularyBuilder::new("urn:test:diseases")
        .concept(TestConcept::new("1F40", "Malaria due to Plasmodium falciparum"))
        .concept(TestConcept::new("1F41", "Malaria due to Plasmodium vivax"))
        .concept(TestConcept::new("1F45", "Malaria without parasitological confirmation"))
        .concept(TestConcept::new("CA40", "Pneumonia"))
        .concept(TestConcept::new("CA40.0", "Bacterial pneumonia"))
        .concept(TestConcept::new("XA", "Anti malaria spray"))
        .vocabulary()
}

fn search_in(vocabulary: &Vocabulary, text: &str, languages: &str) -> Vec<(String, Grade)> {
    let languages = LanguagePreference::parse(languages);
    let options = SearchOptions { languages: &languages, with_inactive: false, offset: 0, count: 20 };
    let page = search(&[vocabulary], &SearchQuery::parse(text).unwrap(), options);
    assert_eq!(page.total, page.found.len());
    page.found.iter().map(|found| (found.concept.code().to_owned(), found.grade)).collect()
}

fn codes(vocabulary: &Vocabulary, text: &str) -> Vec<String> {
    search_in(vocabulary, text, "en").into_iter().map(|(code, _)| code).collect()
}

#[test]
fn the_exact_code_comes_before_everything_else() {
    let countries = countries();
    assert_eq!(search_in(&countries, "CF", "en"), [("CF".to_owned(), Grade::Code)]);
    assert_eq!(search_in(&countries, "cf", "en"), [("CF".to_owned(), Grade::Code)]);
    assert_eq!(search_in(&countries, "civ", "en"), [("CI".to_owned(), Grade::Code)]);
    assert_eq!(search_in(&countries, "384", "en"), [("CI".to_owned(), Grade::Code)]);
    let found = search_in(&diseases(), "ca40", "en");
    assert_eq!(found, [("CA40".to_owned(), Grade::Code), ("CA40.0".to_owned(), Grade::Prefix)]);
}

#[test]
fn a_beginning_comes_before_words_and_those_before_slips() {
    let found = search_in(&diseases(), "malaria", "en");
    let grades: Vec<(&str, Grade)> = found.iter().map(|(code, grade)| (code.as_str(), *grade)).collect();
    assert_eq!(
        grades,
        [("1F45", Grade::Prefix), ("1F40", Grade::Prefix), ("1F41", Grade::Prefix), ("XA", Grade::Words),],
        "of equal ones the shorter label first, then the code"
    );
    let found = search_in(&countries(), "iran", "en");
    assert_eq!(found, [("IR".to_owned(), Grade::Prefix), ("IQ".to_owned(), Grade::OneEdit)]);
    assert_eq!(search_in(&countries(), "irak", "en").len(), 2, "both Iran and Iraq are one letter away");
}

#[test]
fn words_may_stand_in_any_order_and_be_beginnings() {
    assert_eq!(codes(&diseases(), "falci mal"), ["1F40"]);
    assert_eq!(codes(&diseases(), "vivax malaria"), ["1F41"]);
    assert_eq!(codes(&diseases(), "malaria vivax falciparum"), [""; 0]);
}

#[test]
fn one_slip_is_forgiven_and_two_are_not() {
    let diseases = diseases();
    assert_eq!(codes(&diseases, "falciparum malraia"), ["1F40"]);
    assert_eq!(codes(&diseases, "pnuemonia"), ["CA40", "CA40.0"]);
    assert_eq!(codes(&diseases, "pnuem"), ["CA40", "CA40.0"], "also while it is typed");
    assert_eq!(codes(&diseases, "bactrial pnuemonia"), [""; 0]);
}

#[test]
fn every_language_is_searched_in_its_own_script() {
    let countries = countries();
    assert_eq!(codes(&countries, "cote d'ivoire"), ["CI"]);
    assert_eq!(codes(&countries, "ethiopie"), ["ET"]);
    assert_eq!(codes(&countries, "العاج"), ["CI"]);
    assert_eq!(codes(&countries, "ኢትዮ"), ["ET"]);
    assert_eq!(codes(&countries, "अफ़गा"), ["AF"]);
    assert_eq!(codes(&countries, "富汗"), ["AF"]);
    assert_eq!(codes(&countries, "非"), ["ZA", "CF"], "any sign of a word without spaces, the shorter name first");
    assert_eq!(codes(&countries, "共和国"), ["CF"]);
}

#[test]
fn reports_the_matched_label() {
    let countries = countries();
    let languages = LanguagePreference::parse("fr");
    let options = SearchOptions { languages: &languages, with_inactive: false, offset: 0, count: 1 };
    let page = search(&[&countries], &SearchQuery::parse("ethio").unwrap(), options);
    let texts: Vec<MatchedText<'_>> = page.found.iter().map(|found| found.text).collect();
    assert_eq!(texts, [MatchedText::Label { text: "Éthiopie", language: "fr" }], "the reader's language of two");
    let page = search(&[&countries], &SearchQuery::parse("CIV").unwrap(), options);
    assert_eq!(page.found.first().map(|found| found.text), Some(MatchedText::Alias("CIV")));
}

#[test]
fn pages_over_all_vocabularies_neither_repeat_nor_skip() {
    let (countries, diseases) = (countries(), diseases());
    let languages = LanguagePreference::none();
    let page = |offset: usize, count: usize| {
        let options = SearchOptions { languages: &languages, with_inactive: true, offset, count };
        let page = search(&[&countries, &diseases], &SearchQuery::parse("a").unwrap(), options);
        (page.total, page.found.iter().map(|found| found.concept.code().to_owned()).collect::<Vec<_>>())
    };
    let (total, all) = page(0, 100);
    assert_eq!(total, all.len());
    assert!(total >= 4, "{all:?}");
    let by_ones: Vec<String> = (0..total).flat_map(|offset| page(offset, 1).1).collect();
    assert_eq!(by_ones, all);
    assert_eq!(page(total, 10), (total, Vec::new()));
}

#[test]
fn codes_out_of_use_are_found_only_when_asked_for() {
    let countries = countries();
    assert_eq!(codes(&countries, "zaire"), [""; 0]);
    let languages = LanguagePreference::none();
    let options = SearchOptions { languages: &languages, with_inactive: true, offset: 0, count: 5 };
    assert_eq!(search(&[&countries], &SearchQuery::parse("zaire").unwrap(), options).total, 1);
}

#[test]
fn an_empty_vocabulary_is_searched_without_a_find() {
    let empty = VocabularyBuilder::new("urn:test:empty").completeness(Completeness::Empty).vocabulary();
    assert_eq!(codes(&empty, "anything"), [""; 0]);
}
