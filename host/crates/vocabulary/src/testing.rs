//! Vocabularies and generations for tests, built in memory without a plugin.
//!
//! ```
//! use daftar_vocabulary::testing::{self, TestConcept, VocabularyBuilder};
//!
//! // Gender, marital status, relationship, countries, group type and ID types, with their concept groups.
//! let generation = testing::generation();
//! assert_eq!(generation.vocabularies().len(), 6);
//!
//! // Anything else, beside them.
//! let crops = VocabularyBuilder::new("urn:test:crops")
//!     .concept(TestConcept::new("cereals", "Cereals").heading())
//!     .concept(TestConcept::new("maize", "Maize").label("fr", "Maïs").parent("cereals"));
//! let generation = testing::generation_of([testing::registry_pack(), crops.pack()]);
//! assert_eq!(generation.vocabularies().len(), 7);
//! ```
//!
//! **Invariant:** only tests use this module. Invalid input panics with the error.
#![expect(clippy::expect_used, clippy::panic, reason = "a fixture that is wrong should fail its test at once")]

use std::sync::Arc;

use super::check::check;
use super::generation::{Generation, GenerationBuilder, PackOrigin};
use super::table::CodeTable;
use super::vocabulary::Vocabulary;
use daftar_domain::code::{Code, CodeUri, CodedValue, Namespace};
use daftar_domain::vocabulary::{
    CodedField, Completeness, Concept, ConceptGroup, ConceptStatus, LocalizedText, PackContents, Selection,
    VocabularyDescription,
};

/// Builder of a vocabulary: version `1`, complete, flat until a concept has a parent, English by default.
#[derive(Debug, Clone)]
pub struct VocabularyBuilder {
    description: VocabularyDescription,
    concepts: Vec<Concept>,
}

/// Builder of a concept: active and selectable, with a label in English.
#[derive(Debug, Clone)]
pub struct TestConcept(Concept);

impl VocabularyBuilder {
    /// Creates a vocabulary without concepts.
    #[must_use]
    pub fn new(namespace: &str) -> Self {
        let description = VocabularyDescription {
            namespace: Namespace::parse(namespace).expect("a namespace"),
            name: format!("Vocabulary {namespace}"),
            domain: "Core".to_owned(),
            version: "1".to_owned(),
            source: String::new(),
            licence: "CC0-1.0".to_owned(),
            attribution: String::new(),
            default_language: "en".to_owned(),
            languages: vec!["en".to_owned()],
            is_hierarchical: false,
            completeness: Completeness::Full,
            is_open: false,
            is_system: true,
            is_extensible: false,
            concept_count: 0,
        };
        Self { description, concepts: Vec::new() }
    }

    /// Sets the version.
    #[must_use]
    pub fn version(mut self, version: &str) -> Self {
        version.clone_into(&mut self.description.version);
        self
    }

    /// Sets the completeness relative to the source.
    #[must_use]
    pub fn completeness(mut self, completeness: Completeness) -> Self {
        self.description.completeness = completeness;
        self
    }

    /// Adds a concept and updates languages and hierarchy.
    #[must_use]
    pub fn concept(mut self, concept: TestConcept) -> Self {
        let TestConcept(concept) = concept;
        for text in concept.labels.iter().chain(&concept.definitions) {
            if !self.description.languages.contains(&text.language) {
                self.description.languages.push(text.language.clone());
            }
        }
        self.description.is_hierarchical |= !concept.parents.is_empty();
        self.description.concept_count += 1;
        self.concepts.push(concept);
        self
    }

    /// Adds concepts by code and English label.
    #[must_use]
    pub fn concepts<'a>(self, concepts: impl IntoIterator<Item = (&'a str, &'a str)>) -> Self {
        concepts.into_iter().fold(self, |builder, (code, label)| builder.concept(TestConcept::new(code, label)))
    }

    /// Returns the description and the concepts for further changes.
    #[must_use]
    pub fn contents(self) -> (VocabularyDescription, Vec<Concept>) {
        (self.description, self.concepts)
    }

    /// Returns a pack with this vocabulary only.
    #[must_use]
    pub fn pack(self) -> PackContents {
        PackContents { vocabularies: vec![self.contents()], concept_groups: Vec::new() }
    }

    /// Returns the checked and indexed vocabulary.
    #[must_use]
    pub fn vocabulary(self) -> Vocabulary {
        let pack = check(self.pack()).unwrap_or_else(|problems| panic!("{problems}"));
        let first = pack.vocabularies().first().expect("the pack has one vocabulary");
        Vocabulary::clone(first)
    }
}

impl TestConcept {
    /// Creates a concept with a code and its English label.
    #[must_use]
    pub fn new(code: &str, label: &str) -> Self {
        Self(Concept {
            code: parsed(code),
            status: ConceptStatus::Active,
            is_selectable: true,
            parents: Vec::new(),
            replaced_by: None,
            labels: vec![localized("en", label)],
            definitions: Vec::new(),
            aliases: Vec::new(),
            uri: None,
            properties: Vec::new(),
        })
    }

    /// Adds a label in another language.
    #[must_use]
    pub fn label(mut self, language: &str, label: &str) -> Self {
        self.0.labels.push(localized(language, label));
        self
    }

    /// Adds a definition.
    #[must_use]
    pub fn definition(mut self, language: &str, definition: &str) -> Self {
        self.0.definitions.push(localized(language, definition));
        self
    }

    /// Adds a parent; the first is the primary one.
    #[must_use]
    pub fn parent(mut self, parent: &str) -> Self {
        self.0.parents.push(parsed(parent));
        self
    }

    /// Adds another spelling.
    #[must_use]
    pub fn alias(mut self, alias: &str) -> Self {
        self.0.aliases.push(alias.to_owned());
        self
    }

    /// Adds a property.
    #[must_use]
    pub fn property(mut self, key: &str, value: &str) -> Self {
        self.0.properties.push((key.to_owned(), value.to_owned()));
        self
    }

    /// Sets the publisher's URI.
    #[must_use]
    pub fn uri(mut self, uri: &str) -> Self {
        self.0.uri = Some(uri.to_owned());
        self
    }

    /// Marks the concept as inactive.
    #[must_use]
    pub fn inactive(mut self) -> Self {
        self.0.status = ConceptStatus::Inactive;
        self
    }

    /// Marks the concept as inactive and sets its successor.
    #[must_use]
    pub fn replaced_by(mut self, successor: &str) -> Self {
        self.0.replaced_by = Some(parsed(successor));
        self.inactive()
    }

    /// Marks the concept as a heading, which records cannot contain.
    #[must_use]
    pub fn heading(mut self) -> Self {
        self.0.is_selectable = false;
        self
    }
}

/// Returns a concept group that includes and excludes codes, written `<namespace>#<code>`, or `below
/// <namespace>#<code>` for a code and its descendants.
#[must_use]
pub fn concept_group(name: &str, includes: &[&str], excludes: &[&str]) -> ConceptGroup {
    let selections = |texts: &[&str]| texts.iter().map(|text| selection(text)).collect();
    ConceptGroup {
        name: name.to_owned(),
        description: format!("Codes of {name}."),
        includes: selections(includes),
        excludes: selections(excludes),
    }
}

/// Returns a pack with gender, marital status, relationship, countries (five of them), group type and ID types, and
/// with the concept groups `feminine_gender`, `masculine_gender` and `head_of_household`; `pregnant_eligible` is unset.
#[must_use]
pub fn registry_pack() -> PackContents {
    let vocabularies = [gender(), marital_status(), relationship(), countries(), group_type(), id_types()];
    PackContents {
        vocabularies: vocabularies.into_iter().map(VocabularyBuilder::contents).collect(),
        concept_groups: vec![
            concept_group("feminine_gender", &["urn:iso:std:iso:5218#2"], &[]),
            concept_group("masculine_gender", &["urn:iso:std:iso:5218#1"], &[]),
            concept_group("head_of_household", &["urn:svc:vocab:relationship#head"], &[]),
        ],
    }
}

/// Returns a generation of [`registry_pack`].
#[must_use]
pub fn generation() -> Generation {
    generation_of([registry_pack()])
}

/// Returns a generation of the packs, whose codes are numbered from 0 in the order of the packs.
#[must_use]
pub fn generation_of(packs: impl IntoIterator<Item = PackContents>) -> Generation {
    let builder = builder_of(packs);
    let table = table_of(&builder);
    builder.build(table).unwrap_or_else(|problems| panic!("{problems:?}"))
}

/// Returns a builder with the packs, of plugins named `pack-0`, `pack-1` and so on.
#[must_use]
pub fn builder_of(packs: impl IntoIterator<Item = PackContents>) -> GenerationBuilder {
    let mut builder = GenerationBuilder::new();
    for (place, contents) in packs.into_iter().enumerate() {
        let pack = check(contents).unwrap_or_else(|problems| panic!("{problems}"));
        builder.add(origin(&format!("pack-{place}")), &pack).unwrap_or_else(|problems| panic!("{problems:?}"));
    }
    builder
}

/// Returns a table with a number for every code and version in the builder.
#[must_use]
pub fn table_of(builder: &GenerationBuilder) -> Arc<CodeTable> {
    let (codes, editions) = builder.unnumbered(&CodeTable::default());
    Arc::new(CodeTable::new(&codes, &editions).expect("the builder lists everything once"))
}

/// Returns the origin of a pack of the named plugin.
#[must_use]
pub fn origin(plugin: &str) -> PackOrigin {
    PackOrigin { plugin: plugin.to_owned(), version: "1.0.0".to_owned(), digest: "00".repeat(32) }
}

/// Returns the value that a record stores for a code, written `<namespace>#<code>`.
#[must_use]
pub fn coded(generation: &Generation, field: CodedField, uri: &str) -> CodedValue {
    let uri = CodeUri::parse(uri).expect("a code's URI");
    generation.resolve(field, &uri).unwrap_or_else(|problem| panic!("{problem}"))
}

fn gender() -> VocabularyBuilder {
    VocabularyBuilder::new("urn:iso:std:iso:5218")
        .version("2022")
        .concept(TestConcept::new("0", "Not known").label("fr", "Inconnu"))
        .concept(TestConcept::new("1", "Male").label("fr", "Masculin").label("ar", "ذكر"))
        .concept(TestConcept::new("2", "Female").label("fr", "Féminin").label("ar", "أنثى"))
        .concept(TestConcept::new("9", "Not applicable").label("fr", "Sans objet"))
}

fn marital_status() -> VocabularyBuilder {
    VocabularyBuilder::new("urn:un:unsd:pop-census:marital-status").concepts([
        ("S", "Never Married"),
        ("M", "Married"),
        ("W", "Widowed"),
        ("D", "Divorced"),
        ("L", "Separated"),
        ("C", "Consensual Union"),
    ])
}

fn relationship() -> VocabularyBuilder {
    let individual = [
        ("head", "Head of household"),
        ("spouse", "Spouse or partner"),
        ("child", "Child"),
        ("child_in_law", "Son- or daughter-in-law"),
        ("grandchild", "Grandchild"),
        ("parent", "Parent"),
        ("parent_in_law", "Parent-in-law"),
        ("grandparent", "Grandparent"),
        ("sibling", "Sibling"),
        ("other_relative", "Other relative"),
        ("non_relative", "Non-relative"),
    ];
    let group = [
        ("parent_organization", "Parent organization"),
        ("subsidiary", "Subsidiary"),
        ("partner_organization", "Partner organization"),
        ("affiliated_with", "Affiliated with"),
    ];
    let of_kind = |kind: &'static str| {
        move |(code, label): (&'static str, &'static str)| TestConcept::new(code, label).property("kind", kind)
    };
    let concepts = individual.into_iter().map(of_kind("individual")).chain(group.into_iter().map(of_kind("group")));
    concepts.fold(VocabularyBuilder::new("urn:svc:vocab:relationship"), VocabularyBuilder::concept)
}

fn countries() -> VocabularyBuilder {
    VocabularyBuilder::new("urn:iso:std:iso:3166-1")
        .concept(TestConcept::new("FR", "France").alias("FRA").alias("250"))
        .concept(TestConcept::new("IQ", "Iraq").label("fr", "Irak").alias("IRQ").alias("368"))
        .concept(TestConcept::new("KE", "Kenya").alias("KEN").alias("404"))
        .concept(TestConcept::new("PH", "Philippines").alias("PHL").alias("608"))
        .concept(TestConcept::new("TZ", "Tanzania").label("fr", "Tanzanie").alias("TZA").alias("834"))
}

fn group_type() -> VocabularyBuilder {
    VocabularyBuilder::new("urn:svc:vocab:group-type").concepts([("household", "Household"), ("family", "Family")])
}

fn id_types() -> VocabularyBuilder {
    VocabularyBuilder::new("urn:svc:vocab:id-type").concepts([
        ("national_id", "National ID"),
        ("passport", "Passport"),
        ("tax_id", "Tax ID"),
        ("birth_certificate", "Birth certificate"),
    ])
}

fn selection(text: &str) -> Selection {
    let uri = |text: &str| CodeUri::parse(text).expect("a code's URI");
    match text.strip_prefix("below ") {
        Some(text) => Selection::DescendantsOf(uri(text)),
        None => Selection::Code(uri(text)),
    }
}

fn parsed(code: &str) -> Code {
    Code::parse(code).expect("a code")
}

fn localized(language: &str, value: &str) -> LocalizedText {
    LocalizedText { language: language.to_owned(), value: value.to_owned() }
}
