//! Immutable snapshot of vocabularies, concept groups and code numbers that are published together, under one digest.
//!
//! **Invariant:** a generation never changes. A request reads one generation until it ends. Its validation, responses
//! and decisions are consistent while packs are installed and removed.
//!
//! **Invariant:** a code number below [`Generation::code_count`] has a name in the generation, even if its pack was
//! removed.

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

/// A code with its display name.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct CodeDisplay<'a> {
    /// The vocabulary.
    pub namespace: &'a str,
    /// The code without the namespace.
    pub code: &'a str,
    /// The label; the code itself if its vocabulary was removed or no longer contains it.
    pub display: &'a str,
    /// The language of `display`; `None` if `display` is the code itself.
    pub language: Option<&'a str>,
    /// True if none of the requested languages is available and the default language replaces them.
    pub is_fallback: bool,
    /// True if the record was coded with another version than the active one, which provides the label.
    pub is_other_edition: bool,
}

impl CodeDisplay<'_> {
    /// Returns `<namespace>#<code>`.
    #[must_use]
    pub fn uri(&self) -> String {
        format!("{}#{}", self.namespace, self.code)
    }

    /// Converts the display to the four texts of a response.
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
    /// Returns the display of a code in a record. Returns `None` only for a number that was never assigned.
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

    /// Returns the display of a code for a response, independent of the version of its vocabulary in the record.
    #[must_use]
    pub fn displayed(&self, number: CodeNumber, languages: &LanguagePreference) -> Option<DisplayedCode> {
        let (namespace, _) = self.table().name(number)?;
        let edition = self.edition_of(namespace).unwrap_or(EditionNumber(0));
        self.display(CodedValue { number, edition }, languages).map(|shown| shown.to_displayed())
    }

    /// Returns the parts of a code that a rule may read. The display is in the vocabulary's default language.
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
    /// Identifier systems that the administrator registered.
    registered_systems: Arc<BTreeSet<SystemUri>>,
    extension_fields: ExtensionFields,
    /// By namespace.
    earlier: BTreeMap<Namespace, Arc<Vocabulary>>,
}

impl fmt::Debug for Generation {
    /// Formats the identity of the generation, not its thousands of concepts.
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
    /// Returns the digest over the namespace, version and contents of each vocabulary, over the concept groups, and
    /// over the declared extension fields. Numbers are excluded: two registries with the same packs have the same
    /// digest.
    #[must_use]
    pub fn digest(&self) -> &ContentDigest {
        &self.digest
    }

    /// Returns the digest over the definitions of the named concept groups, independent of order and repetition.
    #[must_use]
    pub fn digest_of_concept_groups(&self, mut names: Vec<&str>) -> ContentDigest {
        names.sort_unstable();
        names.dedup();
        let definitions: Vec<_> =
            names.into_iter().filter_map(|name| self.groups.get(name)).map(PublishedGroup::definition).collect();
        builder::digest_of_groups(definitions.into_iter())
    }

    /// Returns the fields that installed modules add to records.
    #[must_use]
    pub fn extension_fields(&self) -> &ExtensionFields {
        &self.extension_fields
    }

    /// Returns the generation with known modules. Errors name the module that would provide a missing vocabulary or
    /// field.
    #[must_use]
    pub fn with_modules(self, modules: Arc<KnownModules>) -> Self {
        Self { extension_fields: self.extension_fields.with_modules(modules), ..self }
    }

    /// Returns the packs, in the order in which they were added.
    #[must_use]
    pub fn packs(&self) -> &[PackOrigin] {
        &self.packs
    }

    /// Returns every vocabulary, ordered by namespace.
    pub fn vocabularies(&self) -> impl ExactSizeIterator<Item = &Arc<Vocabulary>> {
        self.index.installed().iter().map(|installed| &installed.vocabulary)
    }

    /// Returns the vocabulary of a namespace.
    #[must_use]
    pub fn vocabulary(&self, namespace: &Namespace) -> Option<&Arc<Vocabulary>> {
        self.index.find(namespace).map(|installed| &installed.vocabulary)
    }

    /// Returns the version of a vocabulary before the active one. It is read-only: no new record is coded with it.
    #[must_use]
    pub fn earlier(&self, namespace: &Namespace) -> Option<&Arc<Vocabulary>> {
        self.earlier.get(namespace)
    }

    /// Returns every loaded version other than the active ones.
    pub fn earlier_versions(&self) -> impl ExactSizeIterator<Item = &Arc<Vocabulary>> {
        self.earlier.values()
    }

    /// Returns the pack that provides the vocabulary of a namespace; `None` for a vocabulary of the registry itself.
    #[must_use]
    pub fn pack_of(&self, namespace: &Namespace) -> Option<&PackOrigin> {
        self.packs.get(self.index.find(namespace)?.pack)
    }

    /// Returns the number of the active version of a vocabulary.
    #[must_use]
    pub fn edition_of(&self, namespace: &Namespace) -> Option<EditionNumber> {
        self.index.find(namespace).map(|installed| installed.edition)
    }

    /// Returns the concept of a number; `None` if its pack was removed or no longer contains it.
    #[must_use]
    pub fn code(&self, number: CodeNumber) -> Option<ConceptRef<'_>> {
        self.index.concept(number)
    }

    /// Returns the number of a code that was stored or published at any time.
    #[must_use]
    pub fn number_of(&self, uri: &CodeUri) -> Option<CodeNumber> {
        self.index.table().number(uri)
    }

    /// Returns the number of numbered codes. Every code number in a record that was written under this generation is
    /// below it.
    #[must_use]
    pub fn code_count(&self) -> usize {
        self.index.table().code_count()
    }

    /// Returns the table of numbers and names of codes and editions.
    #[must_use]
    pub fn table(&self) -> &Arc<CodeTable> {
        self.index.table()
    }

    /// Returns the concept group with a name. The four groups of [`WELL_KNOWN_CONCEPT_GROUPS`] always exist; they may
    /// be unset.
    #[must_use]
    pub fn concept_group(&self, name: &str) -> Option<&PublishedGroup> {
        self.groups.get(name)
    }

    /// Returns every concept group, ordered by name.
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
    /// Creates the shared state with a generation.
    #[must_use]
    pub fn new(generation: Generation) -> Self {
        Self::asking(generation, Arc::new(NoPacks))
    }

    /// Creates the shared state with a generation whose open vocabularies are queried through `packs`.
    #[must_use]
    pub fn asking(generation: Generation, packs: Arc<dyn OpenPacks>) -> Self {
        let (current, open) = (ArcSwap::from_pointee(generation), OpenCodes::new(packs));
        Self { shared: Arc::new(Shared { current, open, changing: Arc::default() }), own: None }
    }

    /// Returns the view of a transaction. It reads the active generation until the transaction publishes its own, for
    /// example with codes whose numbers are assigned on commit.
    #[must_use]
    pub fn of_transaction(&self) -> Self {
        Self { shared: Arc::clone(&self.shared), own: Some(ArcSwapOption::empty()) }
    }

    /// Returns the lookup that validates codes of open vocabularies by their packs.
    #[must_use]
    pub fn open(&self) -> &OpenCodes {
        &self.shared.open
    }

    /// Returns the lock to acquire while codes are numbered and published. It serializes changes, so that no generation
    /// lacks an assigned number.
    #[must_use]
    pub fn changing(&self) -> Arc<AsyncMutex<()>> {
        self.shared.changing.clone()
    }

    /// Returns the active generation. A request calls this once and uses the result until it ends.
    ///
    /// If the request also reads records (a rule over columns), take the snapshot of the records first and the
    /// generation afterwards. Then every number that this process assigned to a code in the snapshot is below
    /// [`Generation::code_count`]. A number that another process assigned may be missing for a moment: read the stored
    /// table after the records, and extend the generation by [`Generation::with_open`].
    #[must_use]
    pub fn current(&self) -> Arc<Generation> {
        let own = self.own.as_ref().and_then(ArcSwapOption::load_full);
        own.unwrap_or_else(|| self.shared.current.load_full())
    }

    /// Activates another generation. Requests that use an older one complete with it. In a transaction, the new
    /// generation is visible to that transaction only.
    pub fn publish(&self, generation: Generation) -> Arc<Generation> {
        let generation = Arc::new(generation);
        match &self.own {
            Some(own) => own.store(Some(Arc::clone(&generation))),
            None => self.shared.current.store(Arc::clone(&generation)),
        }
        generation
    }

    /// Activates a generation that `make` builds from the active one. Calls `make` again if another generation was
    /// published concurrently.
    pub fn publish_for_all(&self, make: impl Fn(&Arc<Generation>) -> Arc<Generation>) {
        self.shared.current.rcu(make);
    }
}
