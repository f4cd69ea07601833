//! The interpretation of language tags, independent of the interface except for its types.

use daftar_sdk::vocabulary::{Concept, ConceptPage, PageError, ResolveError, VocabularyDescription, page_of};
use oxilangtag::{LanguageTag, LanguageTagParseError};

use crate::languages::{self, Language, NAME_LANGUAGES};

/// BCP 47 by its URN (RFC 2648).
pub const NAMESPACE: &str = "urn:ietf:bcp:47";

/// The most subtags of a tag. Real ones have five or six; each is a level of the hierarchy.
const SUBTAGS_MAX: usize = 12;

/// Languages whose subtag was replaced (IANA registry, `Preferred-Value`); programs still use the first three.
const REPLACED: [(&str, &str); 5] = [("iw", "he"), ("in", "id"), ("ji", "yi"), ("jw", "jv"), ("mo", "ro")];

/// The longest quote of a tag in an error, in characters.
const SHOWN_CHARACTERS: usize = 40;

/// The description of the vocabulary.
pub fn description() -> VocabularyDescription {
    let listed = u32::try_from(languages::COUNT).unwrap_or(u32::MAX);
    let first = NAME_LANGUAGES[0];
    let description =
        VocabularyDescription::new(NAMESPACE, "Language tags (BCP 47)", "Core", "rfc5646-cldr48.2", first)
            .with_source("RFC 5646 (2009); names of languages from Unicode CLDR 48.2.0")
            .with_licence("Unicode-3.0", "Unicode CLDR 48.2.0, (c) 2004-2026 Unicode, Inc.")
            .with_concept_count(listed)
            .hierarchical()
            .open();
    NAME_LANGUAGES.into_iter().skip(1).fold(description, VocabularyDescription::with_language)
}

/// A page of the listed languages.
pub fn page(namespace: &str, cursor: u32, limit: u32) -> Result<ConceptPage, PageError> {
    if namespace != NAMESPACE {
        return Err(PageError::UnknownNamespace);
    }
    page_of(languages::all(), cursor, limit, |language| concept_of(*language))
}

/// The concept of any tag, in its normalized spelling.
pub fn resolve(code: &str) -> Result<Concept, ResolveError> {
    let tag = normal(code).map_err(|error| malformed(code, &error.to_string()))?;
    let subtags = tag.as_str().split('-').count();
    if subtags > SUBTAGS_MAX {
        return Err(malformed(code, &format!("it has {subtags} subtags, the limit is {SUBTAGS_MAX}")));
    }
    if let Some(listed) = languages::listed(tag.as_str()) {
        return Ok(concept_of(listed));
    }
    let mut concept = labelled(&tag);
    if let Some(parent) = parent(tag.as_str()) {
        concept = concept.with_parent(parent);
    }
    for (key, value) in parts(&tag) {
        concept = concept.with_property(key, value);
    }
    Ok(concept)
}

/// Normalizes a tag: RFC 5646 §2.1.1, and of two subtags for one language the shorter (§2.2.1) or newer one (§4.5).
fn normal(code: &str) -> Result<LanguageTag<String>, LanguageTagParseError> {
    let tag = LanguageTag::parse_and_normalize(code)?;
    let (language, rest) = tag.as_str().split_at(tag.as_str().find('-').unwrap_or(tag.as_str().len()));
    let newer = REPLACED.iter().find(|(replaced, _)| *replaced == language).map(|(_, newer)| *newer);
    match newer.or_else(|| languages::find(language).map(|found| found.code)) {
        Some(better) if better != language => LanguageTag::parse_and_normalize(&format!("{better}{rest}")),
        Some(_) | None => Ok(tag),
    }
}

/// The tag without its last subtag; a singleton that is then last introduced that subtag and is removed too (RFC 4647
/// §3.4). None at the top: a language alone, or a tag that is private or registered as a whole.
pub fn parent(tag: &str) -> Option<&str> {
    let (mut shorter, _) = tag.rsplit_once('-')?;
    while let Some((before, last)) = shorter.rsplit_once('-') {
        if last.len() > 1 {
            break;
        }
        shorter = before;
    }
    // `x-…` and `i-…` have no parent.
    let is_whole = shorter.len() == 1 || LanguageTag::parse(shorter).is_err();
    (!is_whole).then_some(shorter)
}

fn concept_of(language: Language) -> Concept {
    let mut names = language.names();
    let (first_language, first) = names.next().unwrap_or((NAME_LANGUAGES[0], language.code));
    let concept = Concept::new(language.code, first_language, first)
        .with_alias(language.alpha3)
        .with_property("language", language.code);
    let concept = names.fold(concept, |concept, (language, name)| concept.with_label(language, name));
    if language.is_in_use() { concept } else { concept.retired(None) }
}

/// A concept named after its language, with the other subtags in brackets: `Chinese (Hant, TW)`.
fn labelled(tag: &LanguageTag<String>) -> Concept {
    let code = tag.as_str();
    let language = if code.starts_with("x-") { None } else { languages::find(tag.primary_language()) };
    let rest = code.split_once('-').map(|(_, rest)| rest.replace('-', ", "));
    let (Some(language), Some(rest)) = (language, rest) else {
        return Concept::new(code, NAME_LANGUAGES[0], code);
    };
    let mut names = language.names().map(|(language, name)| (language, format!("{name} ({rest})")));
    let (first_language, first) = names.next().unwrap_or((NAME_LANGUAGES[0], code.to_owned()));
    names
        .fold(Concept::new(code, first_language, first), |concept, (language, name)| concept.with_label(language, name))
}

/// The subtags with a meaning of their own.
fn parts(tag: &LanguageTag<String>) -> Vec<(&'static str, &str)> {
    if tag.as_str().starts_with("x-") {
        return vec![("private_use", tag.as_str())];
    }
    let parts = [
        ("language", Some(tag.primary_language())),
        ("extended_language", tag.extended_language()),
        ("script", tag.script()),
        ("region", tag.region()),
        ("variants", tag.variant()),
        ("extensions", tag.extension()),
        ("private_use", tag.private_use()),
    ];
    parts.into_iter().filter_map(|(key, value)| Some((key, value.filter(|value| !value.is_empty())?))).collect()
}

fn malformed(code: &str, why: &str) -> ResolveError {
    let shown: String = code.chars().take(SHOWN_CHARACTERS).filter(|character| !character.is_control()).collect();
    let why = why.trim_end_matches('.');
    // Locale names of programs use `_`, and append a character set after a full stop.
    let hyphenated = code.split('.').next().unwrap_or_default().trim().replace(['_', ' '], "-");
    let advice = match normal(&hyphenated) {
        Ok(meant) => format!("did you mean `{}`?", meant.as_str()),
        Err(_) => "write language, script and region as in `pt`, `pt-BR` or `zh-Hant-TW` (RFC 5646)".to_owned(),
    };
    ResolveError::Malformed(format!("`{shown}` is not a language tag: {why}; {advice}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn code(tag: &str) -> String {
        resolve(tag).unwrap().code
    }

    fn label(tag: &str, language: &str) -> String {
        let labels = resolve(tag).unwrap().labels;
        labels.into_iter().find(|label| label.language == language).unwrap().value
    }

    fn properties(tag: &str) -> Vec<(String, String)> {
        resolve(tag).unwrap().properties.into_iter().map(|property| (property.key, property.value)).collect()
    }

    fn sentence(tag: &str) -> String {
        match resolve(tag) {
            Err(ResolveError::Malformed(sentence)) => sentence,
            other => panic!("{tag}: {other:?}"),
        }
    }

    #[test]
    fn spells_as_rfc_5646_section_2_1_1_does() {
        // The examples of the section, then others.
        for (written, normal) in [
            ("mn-cYRL-mN", "mn-Cyrl-MN"),
            ("MN-cYRL-mn", "mn-Cyrl-MN"),
            ("az-latn-x-LATN", "az-Latn-x-latn"),
            ("en-CA-X-ca", "en-CA-x-ca"),
            ("PT-br", "pt-BR"),
            ("Es-419", "es-419"),
            ("de-ch-1996", "de-CH-1996"),
            // One language, one spelling.
            ("eng", "en"),
            ("FRA-ca", "fr-CA"),
            ("iw-IL", "he-IL"),
            ("gsw-CH", "gsw-CH"),
            ("x-eng", "x-eng"),
        ] {
            assert_eq!(code(written), normal);
        }
    }

    #[test]
    fn a_normal_spelling_is_its_own() {
        for tag in ["pt-BR", "zh-Hant-TW", "x-village", "i-klingon", "de-DE-u-co-phonebk", "sl-rozaj-biske"] {
            let once = code(tag);
            assert_eq!(code(&once), once);
        }
    }

    #[test]
    fn is_named_after_its_language_in_every_language() {
        assert_eq!(label("pt-BR", "en"), "Portuguese (BR)");
        assert_eq!(label("zh-hant-tw", "fr"), "chinois (Hant, TW)");
        assert_eq!(label("gsw-CH", "en"), "gsw-CH");
        assert_eq!(resolve("pt-BR").unwrap().labels.len(), NAME_LANGUAGES.len());
    }

    #[test]
    fn lies_below_the_tag_without_its_last_subtag() {
        for (tag, above) in [
            ("zh-Hant-TW", Some("zh-Hant")),
            ("zh-Hant", Some("zh")),
            ("zh", None),
            ("en-x-village", Some("en")),
            ("en-a-bbb-x-a-ccc", Some("en-a-bbb")),
            ("de-u-co-phonebk", Some("de-u-co")),
            ("x-a-b", None),
            ("i-klingon", None),
        ] {
            assert_eq!(parent(tag), above, "{tag}");
        }
    }

    #[test]
    fn every_way_up_ends_and_is_valid() {
        for tag in ["zh-Hant-TW-x-village-a-b", "de-DE-1996-u-co-phonebk-t-it", "sl-rozaj-biske-1994", "zh-cmn-Hans-CN"]
        {
            let mut current = code(tag);
            let mut levels = 0;
            while let Some(above) = resolve(&current).unwrap().parents.first().cloned() {
                assert_eq!(resolve(&above).unwrap().code, above, "above {current}");
                current = above;
                levels += 1;
                assert!(levels < SUBTAGS_MAX);
            }
            assert!(!current.contains('-'), "{current}");
        }
    }

    #[test]
    fn returns_its_parts() {
        let expected = [("language", "zh"), ("script", "Hant"), ("region", "TW"), ("private_use", "x-village")];
        let expected = expected.map(|(key, value)| (key.to_owned(), value.to_owned()));
        assert_eq!(properties("zh-hant-tw-x-village"), expected);
        assert_eq!(properties("x-a-b"), [("private_use".to_owned(), "x-a-b".to_owned())]);
    }

    #[test]
    fn a_listed_language_is_the_listed_one() {
        assert_eq!(resolve("EN").unwrap(), resolve("en").unwrap());
        assert_eq!(resolve("en").unwrap().aliases, ["eng"]);
        assert_ne!(resolve("sh").unwrap().status, resolve("en").unwrap().status);
    }

    #[test]
    fn refuses_what_is_no_tag_and_says_why() {
        for tag in ["", "-", "e", "pt--BR", "portuguesebrazil", "pt-BR-", "12-AB", "pt-é", "en-a"] {
            let sentence = sentence(tag);
            assert!(sentence.contains("is not a language tag") && sentence.contains("RFC 5646"), "{sentence}");
        }
        for (locale, meant) in
            [("pt_BR", "pt-BR"), ("zh_hant_tw", "zh-Hant-TW"), ("en_US.UTF-8", "en-US"), (" fr ", "fr")]
        {
            let sentence = sentence(locale);
            assert!(sentence.ends_with(&format!("did you mean `{meant}`?")), "{sentence}");
        }
        let long = format!("en-x{}", "-a".repeat(SUBTAGS_MAX));
        assert!(sentence(&long).contains("the limit is 12"), "{}", sentence(&long));
        let longest = format!("en-x{}", "-a".repeat(SUBTAGS_MAX - 2));
        assert!(resolve(&longest).is_ok());
    }

    #[test]
    fn pages_hold_every_listed_language_once() {
        let mut codes = Vec::new();
        let mut cursor = Some(0);
        while let Some(at) = cursor {
            let page = page(NAMESPACE, at, 50).unwrap();
            codes.extend(page.concepts.into_iter().map(|concept| concept.code));
            cursor = page.next;
        }
        assert_eq!(codes.len(), description().concept_count as usize);
        assert!(codes.is_sorted());
        assert!(matches!(page("urn:other", 0, 1), Err(PageError::UnknownNamespace)));
    }
}
