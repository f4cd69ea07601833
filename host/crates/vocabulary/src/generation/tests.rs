mod groups;
mod look_up;
mod open;
mod publish;
mod questions;
mod resolve;

use super::*;
use crate::testing::{TestConcept, VocabularyBuilder};
use daftar_domain::vocabulary::{Completeness, ConceptGroup, PackContents};

fn uri(text: &str) -> CodeUri {
    CodeUri::parse(text).unwrap()
}

/// Occupations with a heading, a second parent, and two inactive codes, one of them without a successor.
fn occupations() -> VocabularyBuilder {
    VocabularyBuilder::new("urn:ilo:isco-08")
        .concept(TestConcept::new("6", "Agricultural workers").heading())
        .concept(TestConcept::new("61", "Farmers").parent("6"))
        .concept(TestConcept::new("611", "Crop growers").parent("61"))
        .concept(TestConcept::new("612", "Animal producers").parent("61"))
        .concept(TestConcept::new("9", "Elementary occupations"))
        .concept(TestConcept::new("921", "Farm labourers").parent("9").parent("61"))
        .concept(TestConcept::new("613", "Mixed farmers").parent("61").replaced_by("611"))
        .concept(TestConcept::new("614", "Others").parent("61").inactive())
}

/// Returns a fragment with some activities of ICF.
fn activities() -> VocabularyBuilder {
    VocabularyBuilder::new("urn:who:icf:d")
        .completeness(Completeness::Fragment)
        .concept(TestConcept::new("d4", "Mobility"))
        .concept(TestConcept::new("d450", "Walking").parent("d4"))
}

fn with_groups(vocabulary: VocabularyBuilder, groups: impl IntoIterator<Item = ConceptGroup>) -> PackContents {
    PackContents { concept_groups: groups.into_iter().collect(), ..vocabulary.pack() }
}
