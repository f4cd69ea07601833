//! Mapping between code numbers and concepts.

use std::collections::HashMap;
use std::sync::Arc;

use roaring::RoaringBitmap;

use super::builder::PublishFault;
use super::open::OpenConcepts;
use crate::compact::ConceptIndex;
use crate::table::CodeTable;
use crate::vocabulary::{ConceptRef, Vocabulary};
use daftar_domain::code::{CodeNumber, CodeUri, EditionNumber, Namespace};
use daftar_domain::vocabulary::Completeness;

/// An active vocabulary.
#[derive(Clone)]
pub(super) struct Installed {
    pub vocabulary: Arc<Vocabulary>,
    /// The index of its pack.
    pub pack: usize,
    pub edition: EditionNumber,
    /// By concept.
    numbers: Vec<CodeNumber>,
    /// Numbers of the namespace without a concept in the vocabulary, such as codes of an earlier version.
    unknown_codes: RoaringBitmap,
}

/// Position of the concept of a number.
#[derive(Clone, Copy)]
struct Slot {
    vocabulary: u32,
    concept: ConceptIndex,
}

/// The active vocabularies, by namespace and by code number.
pub(super) struct Index {
    installed: Vec<Installed>,
    places: HashMap<Namespace, usize>,
    slots: Vec<Option<Slot>>,
    table: Arc<CodeTable>,
    /// Codes that packs validated, by open vocabulary.
    open: HashMap<Namespace, OpenConcepts>,
}

/// Numbers for which a predicate is true, and for which it is unknown.
#[derive(Debug, Clone, Default, PartialEq)]
pub(super) struct Known {
    pub yes: RoaringBitmap,
    pub unknown: RoaringBitmap,
}

impl Index {
    /// Builds the index: assigns the concepts of each vocabulary to their numbers.
    pub(super) fn build(
        mut vocabularies: Vec<(Arc<Vocabulary>, usize)>,
        table: Arc<CodeTable>,
    ) -> Result<Self, (usize, PublishFault)> {
        vocabularies.sort_by(|one, other| one.0.namespace().cmp(other.0.namespace()));
        let mut slots = vec![None; table.code_count()];
        let mut installed = Vec::with_capacity(vocabularies.len());
        for (place, (vocabulary, pack)) in (0..).zip(vocabularies) {
            let namespace = vocabulary.namespace();
            let not_numbered = |what: String| (pack, PublishFault::NotNumbered { what });
            let version = &vocabulary.description().version;
            let edition = table
                .edition_number(namespace, version)
                .ok_or_else(|| not_numbered(format!("version `{version}` of `{namespace}`")))?;
            let mut numbers = Vec::with_capacity(vocabulary.concept_count());
            for concept in vocabulary.concepts() {
                let number =
                    table.number_of(namespace, concept.code()).ok_or_else(|| not_numbered(concept.uri_text()))?;
                numbers.push(number);
                if let Some(slot) = slots.get_mut(number.0 as usize) {
                    *slot = Some(Slot { vocabulary: place, concept: concept.index() });
                }
            }
            let all = table.numbers_in(namespace).iter();
            let is_unknown_code = |number: &&CodeNumber| slots.get(number.0 as usize).is_none_or(Option::is_none);
            let unknown_codes = all.filter(is_unknown_code).map(|number| number.0).collect();
            installed.push(Installed { vocabulary, pack, edition, numbers, unknown_codes });
        }
        let places = (0..).zip(&installed).map(|(place, one)| (one.vocabulary.namespace().clone(), place)).collect();
        Ok(Self { installed, places, slots, table, open: HashMap::new() })
    }

    /// Returns the index with further codes of open vocabularies, and a table with their numbers. A further code in the
    /// table without a concept is known by its name only: another server numbered it.
    pub(super) fn with_open(&self, grown: HashMap<Namespace, OpenConcepts>, table: Arc<CodeTable>) -> Self {
        let mut open = self.open.clone();
        open.extend(grown);
        let mut installed = self.installed.clone();
        for one in &mut installed {
            let namespace = one.vocabulary.namespace();
            if table.code_count() > self.table.code_count() {
                let numbers = table.numbers_in(namespace).iter();
                let new = numbers.filter(|number| self.table.name(**number).is_none());
                one.unknown_codes.extend(new.map(|number| number.0));
            }
            let Some(open) = open.get(namespace) else { continue };
            let is_known =
                |number: u32| table.name(CodeNumber(number)).is_some_and(|(_, code)| open.find(code).is_some());
            one.unknown_codes = one.unknown_codes.iter().filter(|number| !is_known(*number)).collect();
        }
        Self { installed, places: self.places.clone(), slots: self.slots.clone(), table, open }
    }

    /// Returns the resolved codes of an open vocabulary, in addition to its listed codes.
    pub(super) fn open_of(&self, namespace: &Namespace) -> Option<&OpenConcepts> {
        self.open.get(namespace)
    }

    /// Returns the problem of a code that the pack of an open vocabulary reported.
    pub(super) fn malformed(&self, uri: &CodeUri) -> Option<&str> {
        self.open_of(&uri.namespace)?.malformed(&uri.code)
    }

    /// Returns the number of a concept.
    pub(super) fn number(&self, installed: &Installed, concept: ConceptRef<'_>) -> Option<CodeNumber> {
        if std::ptr::eq(concept.vocabulary(), &*installed.vocabulary) {
            return installed.numbers.get(concept.index().position()).copied();
        }
        self.table.number_of(installed.vocabulary.namespace(), concept.code())
    }

    pub(super) fn installed(&self) -> &[Installed] {
        &self.installed
    }

    pub(super) fn table(&self) -> &Arc<CodeTable> {
        &self.table
    }

    pub(super) fn find(&self, namespace: &Namespace) -> Option<&Installed> {
        self.installed.get(*self.places.get(namespace)?)
    }

    pub(super) fn concept(&self, number: CodeNumber) -> Option<ConceptRef<'_>> {
        match self.slots.get(number.0 as usize) {
            Some(Some(slot)) => self.installed.get(slot.vocabulary as usize)?.vocabulary.concept(slot.concept),
            Some(None) | None => {
                let (namespace, code) = self.table.name(number)?;
                self.open_of(namespace)?.find(code)
            }
        }
    }

    /// Returns the concept of a code in its active vocabulary. For an open vocabulary, other queried spellings are
    /// found too.
    pub(super) fn concept_of(&self, uri: &CodeUri) -> Option<(&Installed, ConceptRef<'_>)> {
        let installed = self.find(&uri.namespace)?;
        let listed = installed.vocabulary.find(uri.code.as_str());
        let found = listed.or_else(|| {
            let open = self.open_of(&uri.namespace)?;
            let normal = open.spelling(&uri.code).unwrap_or(&uri.code).as_str();
            installed.vocabulary.find(normal).or_else(|| open.find(normal))
        })?;
        Some((installed, found))
    }

    /// Returns true if a code that is not found cannot exist: its vocabulary is installed, complete and not open.
    pub(super) fn is_certainly_unknown(&self, uri: &CodeUri) -> bool {
        self.find(&uri.namespace).is_some_and(|installed| {
            let description = installed.vocabulary.description();
            let is_whole = description.completeness == Completeness::Full && !description.is_open;
            is_whole && installed.vocabulary.find(uri.code.as_str()).is_none()
        })
    }

    /// Adds to `known` the numbers of the code and its descendants.
    ///
    /// The result is unknown for numbers in the code's namespace without a position in the hierarchy: the vocabulary is
    /// not installed, is a fragment without the code, or no longer contains their concept.
    pub(super) fn add_at_or_below(&self, uri: &CodeUri, known: &mut Known) {
        let Some((installed, concept)) = self.concept_of(uri) else {
            known.yes.extend(self.table.number(uri).map(|number| number.0));
            if let Some(open) = self.find(&uri.namespace).filter(|found| found.vocabulary.description().is_open) {
                // Codes in records are resolved with their ancestors. This code is not one of them.
                known.unknown |= &open.unknown_codes;
                return;
            }
            known.unknown.extend(self.table.numbers_in(&uri.namespace).iter().map(|number| number.0));
            return;
        };
        known.unknown |= &installed.unknown_codes;
        let mut add = |concept: ConceptRef<'_>| {
            let with_below = [concept].into_iter().chain(concept.descendants());
            known.yes.extend(with_below.filter_map(|one| self.number(installed, one)).map(|number| number.0));
        };
        add(concept);
        if let Some(also_asked_for) = self.open_of(&uri.namespace).and_then(|open| open.find(concept.code())) {
            add(also_asked_for);
        }
    }

    /// Returns the numbers of the local codes that specialize a code, directly or through other local codes.
    pub(super) fn local_below<'a>(&'a self, uri: &CodeUri) -> impl Iterator<Item = u32> + use<'a> {
        let found = self.concept_of(uri).filter(|(installed, _)| installed.vocabulary.has_local());
        found.into_iter().flat_map(|(installed, concept)| {
            let local = local_below(concept).into_iter();
            local.filter_map(|one| self.number(installed, one)).map(|number| number.0)
        })
    }

    /// Returns the numbers of the code and its descendants.
    pub(super) fn at_or_below(&self, uri: &CodeUri) -> Known {
        let mut known = Known::default();
        self.add_at_or_below(uri, &mut known);
        known.unknown -= &known.yes;
        known
    }
}

/// Returns the local codes below a concept, without those below another code of its pack.
fn local_below(concept: ConceptRef<'_>) -> Vec<ConceptRef<'_>> {
    let mut found: Vec<ConceptRef<'_>> = concept.children().filter(|child| child.is_local()).collect();
    let mut visited = 0;
    // A local code specializes one code, so no code is found twice.
    while let Some(local) = found.get(visited).copied() {
        visited += 1;
        found.extend(local.children().filter(|child| child.is_local()));
    }
    found
}
