//! Everything about codes that is published at one time: vocabularies, concept groups, numbers, under one digest.
//!
//! **Invariant:** a generation never changes. A request takes one and keeps it, so that what it accepts, shows and decides
//! fits together while packs come and go.
//!
//! **Invariant:** a code number below [`Generation::code_count`] has a name here even when its pack was removed.

mod builder;
mod group;
mod identifier;
mod index;
mod open;
mod question;
mod resolve;

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::sync::Arc;

use arc_swap::{ArcSwap, ArcSwapOption};
use tokio::sync::Mutex as AsyncMutex;

pub use self::builder::{GenerationBuilder, PackOrigin};
pub use self::builder::{PublishFault, PublishProblem};
pub use self::group::{DefinedBy, PublishedGroup, WELL_KNOWN_CONCEPT_GROUPS};
use self::identifier::IdentifierRules;
pub use self::identifier::{IdentifierProblem, check_pattern};
use self::index::Index;
pub use self::open::OpenProblem;
pub use self::question::QuestionProblem;
pub use self::resolve::LookUpProblem;
use super::digest::ContentDigest;
use super::open::{NoPacks, OpenCodes, OpenPacks};
use super::table::CodeTable;
use super::vocabulary::{ConceptRef, Vocabulary};
use crate::language::LanguagePreference;
use daftar_domain::code::{CodeNumber, CodeUri, CodedValue, EditionNumber, Namespace};
use daftar_domain::eligibility::CodeTexts;
use daftar_domain::extension::ExtensionFields;
use daftar_domain::identifier::SystemUri;
use daftar_domain::module::KnownModules;
use daftar_domain::vocabulary::DisplayedCode;

/// A code with what it is called.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct CodeDisplay<'a> {
    /// The vocabulary.
    pub namespace: &'a str,
    /// The code alone.
    pub code: &'a str,
    /// Its name; the code itself where its vocabulary was removed or no longer has it.
    pub display: &'a str,
    /// The language of `display`; none where that is the code itself.
    pub language: Option<&'a str>,
    /// True if the reader requested other languages, and the default one replaces them.
    pub is_fallback: bool,
    /// True if the record was coded with another version than the active one, which the label is taken from.
    pub is_other_edition: bool,
}

impl CodeDisplay<'_> {
    /// `<namespace>#<code>`
    #[must_use]
    pub fn uri(&self) -> String {
        format!("{}#{}", self.namespace, self.code)
    }

    /// The four texts of a response.
    #[must_use]
    pub fn to_displayed(&self) -> DisplayedCode {
        DisplayedCode {
            uri: self.uri(),
            code: self.code.to_owned(),
            display: self.display.to_owned(),
            namespace: self.namespace.to_owned(),
        }
    }
}

impl Generation {
    /// A record's code as a reader is shown it. None only for a number that was never given.
    #[must_use]
    pub fn display(&self, value: CodedValue, languages: &LanguagePreference) -> Option<CodeDisplay<'_>> {
        let Some(concept) = self.code(value.number) else {
            let (namespace, code) = self.table().name(value.number)?;
            return Some(CodeDisplay {
                namespace: namespace.as_str(),
                code,
                display: code,
                language: None,
                is_fallback: false,
                is_other_edition: true,
            });
        };
        let namespace = concept.vocabulary().namespace();
        let label = concept.label(languages);
        Some(CodeDisplay {
            namespace: namespace.as_str(),
            code: concept.code(),
            display: label.text,
            language: Some(label.language),
            is_fallback: label.is_fallback,
            is_other_edition: self.edition_of(namespace) != Some(value.edition),
        })
    }

    /// A code as a reader is shown it, whichever version of its vocabulary it was recorded with.
    #[must_use]
    pub fn displayed(&self, number: CodeNumber, languages: &LanguagePreference) -> Option<DisplayedCode> {
        let (namespace, _) = self.table().name(number)?;
        let edition = self.edition_of(namespace).unwrap_or(EditionNumber(0));
        self.display(CodedValue { number, edition }, languages).map(|shown| shown.to_displayed())
    }

    /// The parts of a code that a rule may read; its display is in the vocabulary's default language.
    #[must_use]
    pub fn code_texts(&self, number: CodeNumber) -> Option<CodeTexts> {
        let (namespace, code) = self.table().name(number)?;
        let display = self.code(number).map_or(code, |concept| concept.default_label());
        let (namespace, code, display) = (namespace.as_str().to_owned(), code.to_owned(), display.to_owned());
        Some(CodeTexts { number, namespace, code, display })
    }
}

#[cfg(test)]
mod tests;

/// The vocabularies, concept groups and numbers that are active together.
pub struct Generation {
    digest: ContentDigest,
    concept_groups_digest: ContentDigest,
    packs: Vec<PackOrigin>,
    index: Index,
    /// By name.
    groups: BTreeMap<String, PublishedGroup>,
    identifier_rules: Arc<IdentifierRules>,
    /// The systems that the administrator registered.
    registered_systems: Arc<BTreeSet<SystemUri>>,
    extension_fields: ExtensionFields,
    /// By namespace.
    earlier: BTreeMap<Namespace, Arc<Vocabulary>>,
}

impl fmt::Debug for Generation {
    /// Says which generation it is, not its thousands of concepts.
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter
            .debug_struct("Generation")
            .field("digest", &self.digest)
            .field("vocabularies", &self.vocabularies().collect::<Vec<_>>())
            .field("concept_groups", &self.groups.keys().collect::<Vec<_>>())
            .finish_non_exhaustive()
    }
}

impl Generation {
    /// Digest over each vocabulary's namespace, version and contents, over the concept groups, and over the extension
    /// fields that are declared. Numbers are left out: two registries with the same packs have the same digest.
    #[must_use]
    pub fn digest(&self) -> &ContentDigest {
        &self.digest
    }

    /// Digest over the definitions of the concept groups alone.
    #[must_use]
    pub fn concept_groups_digest(&self) -> &ContentDigest {
        &self.concept_groups_digest
    }

    /// Digest over the definitions of some concept groups, independent of their order and repetition.
    #[must_use]
    pub fn digest_of_concept_groups(&self, mut names: Vec<&str>) -> ContentDigest {
        names.sort_unstable();
        names.dedup();
        let definitions: Vec<_> =
            names.into_iter().filter_map(|name| self.groups.get(name)).map(PublishedGroup::definition).collect();
        builder::digest_of_groups(definitions.into_iter())
    }

    /// The fields that installed modules add to records.
    #[must_use]
    pub fn extension_fields(&self) -> &ExtensionFields {
        &self.extension_fields
    }

    /// The same beside those modules, which errors name where they would bring what is not there.
    #[must_use]
    pub fn with_modules(self, modules: Arc<KnownModules>) -> Self {
        Self { extension_fields: self.extension_fields.with_modules(modules), ..self }
    }

    /// Its packs, in the order in which they were added.
    #[must_use]
    pub fn packs(&self) -> &[PackOrigin] {
        &self.packs
    }

    /// Every vocabulary, by namespace.
    pub fn vocabularies(&self) -> impl ExactSizeIterator<Item = &Arc<Vocabulary>> {
        self.index.installed().iter().map(|installed| &installed.vocabulary)
    }

    /// The vocabulary of a namespace.
    #[must_use]
    pub fn vocabulary(&self, namespace: &Namespace) -> Option<&Arc<Vocabulary>> {
        self.index.find(namespace).map(|installed| &installed.vocabulary)
    }

    /// The version that a vocabulary had before the active one: it is read, and nothing is coded with it.
    #[must_use]
    pub fn earlier(&self, namespace: &Namespace) -> Option<&Arc<Vocabulary>> {
        self.earlier.get(namespace)
    }

    /// Every version that is there beside the active one.
    pub fn earlier_versions(&self) -> impl ExactSizeIterator<Item = &Arc<Vocabulary>> {
        self.earlier.values()
    }

    /// The pack that brought the vocabulary of a namespace; none for one of the registry's own.
    #[must_use]
    pub fn pack_of(&self, namespace: &Namespace) -> Option<&PackOrigin> {
        self.packs.get(self.index.find(namespace)?.pack)
    }

    /// The number of the version of a namespace's vocabulary that is active.
    #[must_use]
    pub fn edition_of(&self, namespace: &Namespace) -> Option<EditionNumber> {
        self.index.find(namespace).map(|installed| installed.edition)
    }

    /// The concept of a number; none when its pack was removed or no longer has it.
    #[must_use]
    pub fn code(&self, number: CodeNumber) -> Option<ConceptRef<'_>> {
        self.index.concept(number)
    }

    /// The number of a code that was ever stored or published.
    #[must_use]
    pub fn number_of(&self, uri: &CodeUri) -> Option<CodeNumber> {
        self.index.table().number(uri)
    }

    /// Number of codes that are numbered; every number that a record written under this generation can hold is below
    /// it.
    #[must_use]
    pub fn code_count(&self) -> usize {
        self.index.table().code_count()
    }

    /// The numbers and names of codes and editions.
    #[must_use]
    pub fn table(&self) -> &Arc<CodeTable> {
        self.index.table()
    }

    /// The concept group of a name. The four of [`WELL_KNOWN_CONCEPT_GROUPS`] are always there, if only unset.
    #[must_use]
    pub fn concept_group(&self, name: &str) -> Option<&PublishedGroup> {
        self.groups.get(name)
    }

    /// Every concept group, by name.
    pub fn concept_groups(&self) -> impl ExactSizeIterator<Item = &PublishedGroup> {
        self.groups.values()
    }
}

/// The active generation.
#[derive(Debug)]
pub struct Vocabularies {
    shared: Arc<Shared>,
    /// Additional content of a transaction's view: `Some` once the transaction has published something.
    own: Option<ArcSwapOption<Generation>>,
}

/// State that requests and transactions share.
#[derive(Debug)]
struct Shared {
    current: ArcSwap<Generation>,
    open: OpenCodes,
    changing: Arc<AsyncMutex<()>>,
}

impl Vocabularies {
    /// Begins with a generation.
    #[must_use]
    pub fn new(generation: Generation) -> Self {
        Self::asking(generation, Arc::new(NoPacks))
    }

    /// Begins with a generation whose open vocabularies are asked through `packs`.
    #[must_use]
    pub fn asking(generation: Generation, packs: Arc<dyn OpenPacks>) -> Self {
        let (current, open) = (ArcSwap::from_pointee(generation), OpenCodes::new(packs));
        Self { shared: Arc::new(Shared { current, open, changing: Arc::default() }), own: None }
    }

    /// The view of a transaction: it sees what is active, until it publishes what only it knows, such as codes whose
    /// numbers are given when it is written.
    #[must_use]
    pub fn of_transaction(&self) -> Self {
        Self { shared: Arc::clone(&self.shared), own: Some(ArcSwapOption::empty()) }
    }

    /// Validates codes of open vocabularies by their packs.
    #[must_use]
    pub fn open(&self) -> &OpenCodes {
        &self.shared.open
    }

    /// Held while codes are numbered and published: one at a time, so that no generation lacks a number that was given.
    #[must_use]
    pub fn changing(&self) -> Arc<AsyncMutex<()>> {
        self.shared.changing.clone()
    }

    /// The active generation. A request takes it once and keeps it.
    ///
    /// If records are read too (a rule over columns), take the records' snapshot first and the generation after: then
    /// every number in the snapshot is below [`Generation::code_count`], and no code is taken for one that does not
    /// exist.
    #[must_use]
    pub fn current(&self) -> Arc<Generation> {
        let own = self.own.as_ref().and_then(ArcSwapOption::load_full);
        own.unwrap_or_else(|| self.shared.current.load_full())
    }

    /// Puts another generation active; requests that hold an older one end with it. In a transaction it is seen by that
    /// one alone.
    pub fn publish(&self, generation: Generation) -> Arc<Generation> {
        let generation = Arc::new(generation);
        match &self.own {
            Some(own) => own.store(Some(Arc::clone(&generation))),
            None => self.shared.current.store(Arc::clone(&generation)),
        }
        generation
    }

    /// Activates a generation that `make` builds from the active one; `make` is called again where another one was
    /// published in the meantime.
    pub fn publish_for_all(&self, make: impl Fn(&Arc<Generation>) -> Arc<Generation>) {
        self.shared.current.rcu(make);
    }
}
