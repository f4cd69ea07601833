//! The codes and their meaning: plain Rust, tested natively.
//!
//! As an example: sources of water, and how far away they are. The sources are listed; a distance such as `well:250` (a
//! well 250 metres away) is read by `resolve`, because the vocabulary says that it is open. A list that is only data
//! needs no code at all: `daftar pack build` makes its pack from plain files.

use daftar_sdk::vocabulary::{Concept, ResolveError, VocabularyDescription};

/// The URI that the codes live under. Take one that is yours.
pub const NAMESPACE: &str = "urn:example:@name@";

/// The listed codes: code, English label, French label.
pub const LISTED: [(&str, &str, &str); 3] =
    [("piped", "Piped water", "Eau courante"), ("well", "Well", "Puits"), ("river", "River", "Rivière")];

/// The greatest distance, in metres.
const METRES_MAX: u32 = 50_000;

/// Description of the vocabulary.
pub fn description() -> VocabularyDescription {
    VocabularyDescription::new(NAMESPACE, "@name@", "Housing", "1", "en")
        .with_language("fr")
        .with_source("Where the codes come from, and which release of it")
        .with_licence("CC0-1.0", "Whom the owner of the codes wants named")
        .with_concept_count(LISTED.len() as u32)
        .hierarchical()
        .open()
}

/// A listed code.
pub fn concept((code, english, french): &(&str, &str, &str)) -> Concept {
    Concept::new(*code, "en", *english).with_label("fr", *french)
}

/// A code that is not listed, in its normal spelling. Must give its own spelling back the same.
pub fn resolve(code: &str) -> Result<Concept, ResolveError> {
    let malformed =
        || ResolveError::Malformed(format!("`{code}` is not a source and metres from 1 to {METRES_MAX}, as `well:250` is"));
    let (source, metres) = code.split_once(':').ok_or_else(malformed)?;
    let source = source.to_ascii_lowercase();
    let (listed, english, french) = LISTED.iter().find(|(listed, _, _)| *listed == source).ok_or_else(malformed)?;
    let metres: u32 = metres.parse().ok().filter(|metres| (1..=METRES_MAX).contains(metres)).ok_or_else(malformed)?;
    let concept = Concept::new(format!("{listed}:{metres}"), "en", format!("{english}, {metres} m away"))
        .with_label("fr", format!("{french}, à {metres} m"))
        .with_parent(*listed)
        .with_property("metres", metres.to_string());
    Ok(concept)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_listed_code_has_both_labels() {
        for listed in &LISTED {
            assert_eq!(concept(listed).labels.len(), 2);
        }
        assert_eq!(description().concept_count as usize, LISTED.len());
    }

    #[test]
    fn a_distance_lies_below_its_source_in_its_normal_spelling() {
        let concept = resolve("Well:0250").unwrap();
        assert_eq!((concept.code.as_str(), concept.parents), ("well:250", vec!["well".to_owned()]));
        assert_eq!(resolve("well:250").unwrap().code, "well:250");
    }

    #[test]
    fn what_breaks_the_grammar_is_refused_with_what_would_be_right() {
        for code in ["well", "well:", "well:0", "well:50001", "sea:3", "well:-1"] {
            match resolve(code) {
                Err(ResolveError::Malformed(sentence)) => assert!(sentence.contains("as `well:250` is"), "{sentence}"),
                other => panic!("{code}: {other:?}"),
            }
        }
    }
}
