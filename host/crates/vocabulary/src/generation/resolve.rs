//! Resolution of codes in requests to the values that records and filters store.
//!
//! A new record accepts an active, selectable code of its field's vocabulary in the exact spelling. A filter accepts
//! any well-formed code of that vocabulary, because existing records may contain inactive codes. A code that was never
//! stored matches no record.

use super::Generation;
use super::index::Installed;
use crate::code_problem::{CodeProblem, Suggestion, is_used_by_a_field, remedy};
use crate::nearest::{SUGGESTIONS_MAX, in_other_case, nearest};
use crate::vocabulary::{ConceptRef, Vocabulary};
use daftar_domain::code::{CodeNumber, CodeUri, CodedValue, Namespace};
use daftar_domain::module::InactiveModule;
use daftar_domain::vocabulary::{CodedField, Completeness, ConceptStatus, ID_TYPE_NAMESPACE};

/// The property of a relationship with its kind: between an individual and a group, or between groups.
const KIND: &str = "kind";
/// The field of an identifier with a code of the ID types.
const IDENTIFIER_SYSTEM: &str = "identifier.system";

impl Generation {
    /// Returns the value that a new record stores for a code in a field.
    ///
    /// # Errors
    /// Returns the problem with the code, with a correction.
    pub fn resolve(&self, field: CodedField, uri: &CodeUri) -> Result<CodedValue, CodeProblem> {
        let (installed, concept) = self.usable(field.path(), field.namespaces(), uri)?;
        if let Some(wanted) = field.relation_kind()
            && let Some(kind) = concept.property(KIND)
            && kind != wanted
        {
            let others = installed.vocabulary.concepts();
            let such_as = others.filter(|other| other.is_usable() && other.property(KIND) == Some(wanted));
            return Err(CodeProblem::WrongKind {
                uri: uri.clone(),
                field: field.path(),
                kind: kind.into(),
                wanted,
                such_as: Suggestion::all(such_as.take(SUGGESTIONS_MAX)),
            });
        }
        self.value(installed, concept).ok_or_else(|| self.unknown(installed, uri))
    }

    /// Returns the value for a field that accepts codes of `namespaces`, such as a field of a module.
    ///
    /// # Errors
    /// Returns the problem with the code, with a correction.
    pub fn resolve_in(&self, field: &str, namespaces: &[&str], uri: &CodeUri) -> Result<CodedValue, CodeProblem> {
        let (installed, concept) = self.usable(field, namespaces, uri)?;
        self.value(installed, concept).ok_or_else(|| self.unknown(installed, uri))
    }

    /// Checks that a code is an ID type that new identifiers may use as their system.
    ///
    /// # Errors
    /// Returns the problem with the code, with a correction.
    pub fn check_identifier_system(&self, uri: &CodeUri) -> Result<(), CodeProblem> {
        self.usable(IDENTIFIER_SYSTEM, &[ID_TYPE_NAMESPACE], uri).map(|_| ())
    }

    /// Checks that a code exists, active or inactive.
    ///
    /// # Errors
    /// Returns the problem with the code, with a correction.
    pub fn check_known(&self, uri: &CodeUri) -> Result<ConceptRef<'_>, CodeProblem> {
        self.exact(uri).map(|(_, concept)| concept)
    }

    /// Returns the ID types that new identifiers may use as their system, by code.
    #[must_use]
    pub fn identifier_systems(&self) -> Vec<Suggestion> {
        let id_types = Namespace::parse(ID_TYPE_NAMESPACE).ok();
        let vocabulary = id_types.and_then(|namespace| self.vocabulary(&namespace));
        let concepts = vocabulary.into_iter().flat_map(|vocabulary| vocabulary.concepts());
        Suggestion::all(concepts.filter(|concept| concept.is_usable()))
    }

    /// Returns the code number for a filter on a field that accepts codes of `namespaces`; `None` if no record can
    /// contain the code.
    ///
    /// # Errors
    /// Returns an error if the vocabulary is open and the code violates its grammar.
    pub fn resolve_filter(&self, namespaces: &[&str], uri: &CodeUri) -> Result<Option<CodeNumber>, CodeProblem> {
        if !namespaces.contains(&uri.namespace.as_str()) {
            return Ok(None);
        }
        if let Some(malformed) = self.malformed(uri) {
            return Err(malformed);
        }
        let known = self.index.concept_of(uri).and_then(|(installed, concept)| self.index.number(installed, concept));
        Ok(known.or_else(|| self.number_of(uri)))
    }

    /// Returns the code numbers for a filter on a code and its descendants; empty if no record can contain one.
    ///
    /// # Errors
    /// As [`Self::resolve_filter`].
    pub fn resolve_filter_below(&self, namespaces: &[&str], uri: &CodeUri) -> Result<Vec<CodeNumber>, CodeProblem> {
        if !namespaces.contains(&uri.namespace.as_str()) {
            return Ok(Vec::new());
        }
        if let Some(malformed) = self.malformed(uri) {
            return Err(malformed);
        }
        let mut numbers: Vec<CodeNumber> = self.index.at_or_below(uri).yes.iter().map(CodeNumber).collect();
        // A code that its vocabulary no longer contains still matches itself.
        numbers.extend(self.number_of(uri).filter(|number| !numbers.contains(number)));
        Ok(numbers)
    }

    /// Returns the rank of each code number among the codes of these vocabularies: one vocabulary after the other, each
    /// ordered by code. Other numbers rank last.
    #[must_use]
    pub fn code_ranks(&self, namespaces: &[&str]) -> Vec<u32> {
        let mut ranks = vec![u32::MAX; self.code_count()];
        let parsed = namespaces.iter().filter_map(|namespace| Namespace::parse(namespace).ok());
        let numbers = parsed.flat_map(|namespace| self.table().numbers_in(&namespace).to_vec());
        for (number, place) in numbers.zip(0_u32..) {
            if let Some(rank) = ranks.get_mut(number.0 as usize) {
                *rank = place;
            }
        }
        ranks
    }

    /// Returns the concept of a code in its exact spelling, active or inactive.
    pub(super) fn exact(&self, uri: &CodeUri) -> Result<(&Installed, ConceptRef<'_>), CodeProblem> {
        let installed = self.index.find(&uri.namespace).ok_or_else(|| self.not_installed(uri))?;
        self.index.concept_of(uri).ok_or_else(|| self.unknown(installed, uri))
    }

    /// Returns the error that no active pack contains the vocabulary of a code.
    pub(super) fn not_installed(&self, uri: &CodeUri) -> CodeProblem {
        CodeProblem::NotInstalled { uri: uri.clone(), module: self.module_of(&uri.namespace) }
    }

    /// Returns the module that would provide a namespace that no active one provides.
    pub(super) fn module_of(&self, namespace: &Namespace) -> Option<Box<InactiveModule>> {
        self.extension_fields.modules().of_namespace(namespace.as_str()).map(Box::new)
    }

    fn value(&self, installed: &Installed, concept: ConceptRef<'_>) -> Option<CodedValue> {
        let number = self.index.number(installed, concept)?;
        Some(CodedValue { number, edition: installed.edition })
    }

    /// Returns the problem of a code that the pack of an open vocabulary reported.
    fn malformed(&self, uri: &CodeUri) -> Option<CodeProblem> {
        let sentence = self.index.malformed(uri)?.to_owned();
        Some(CodeProblem::Malformed { uri: uri.clone(), sentence })
    }

    fn usable(
        &self,
        field: &str,
        namespaces: &[&str],
        uri: &CodeUri,
    ) -> Result<(&Installed, ConceptRef<'_>), CodeProblem> {
        self.check_vocabulary(field, namespaces, uri)?;
        let (installed, concept) = self.exact(uri)?;
        self.in_use(uri, concept)?;
        Ok((installed, concept))
    }

    /// Returns the reason why a vocabulary does not contain a code. Likely and cheap reasons are checked first.
    fn unknown(&self, installed: &Installed, uri: &CodeUri) -> CodeProblem {
        if let Some(malformed) = self.malformed(uri) {
            return malformed;
        }
        let (vocabulary, code) = (&installed.vocabulary, uri.code.as_str());
        if vocabulary.concept_count() == 0 {
            let takes_local_codes = vocabulary.description().is_extensible;
            return CodeProblem::EmptyVocabulary { uri: uri.clone(), takes_local_codes };
        }
        if let Some(concept) = in_other_case(vocabulary, code) {
            CodeProblem::WrongCase { uri: uri.clone(), right: Suggestion::of(concept) }
        } else if let Some(concept) = vocabulary.find_alias(code) {
            CodeProblem::Alias { uri: uri.clone(), right: Suggestion::of(concept) }
        } else if let Some(concept) = self.only_other(uri) {
            CodeProblem::OtherVocabulary { uri: uri.clone(), right: Suggestion::of(concept) }
        } else {
            absent(vocabulary, uri, Suggestion::all(nearest(vocabulary, code)))
        }
    }

    /// Checks that a new record may contain the concept of the code.
    pub(super) fn in_use(&self, uri: &CodeUri, concept: ConceptRef<'_>) -> Result<(), CodeProblem> {
        if concept.status() == ConceptStatus::Inactive {
            let successor = concept.active_successor().map(Suggestion::of);
            return Err(CodeProblem::Inactive { uri: uri.clone(), successor });
        }
        if !concept.is_selectable() {
            let below = concept.descendants().filter(|concept| concept.is_usable()).take(SUGGESTIONS_MAX);
            return Err(CodeProblem::NotSelectable { uri: uri.clone(), below: Suggestion::all(below) });
        }
        Ok(())
    }

    fn check_vocabulary(&self, field: &str, namespaces: &[&str], uri: &CodeUri) -> Result<(), CodeProblem> {
        if namespaces.contains(&uri.namespace.as_str()) {
            return Ok(());
        }
        let (uri, field) = (uri.clone(), field.to_owned());
        let expected = namespaces.iter().map(|namespace| (*namespace).to_owned()).collect();
        if self.index.find(&uri.namespace).is_some() || is_used_by_a_field(&uri.namespace) {
            Err(CodeProblem::WrongVocabulary { uri, field, expected })
        } else {
            let module = self.module_of(&uri.namespace);
            Err(CodeProblem::UnknownVocabulary { uri, field, expected, module })
        }
    }
}

/// Maximum edit distance of similar namespaces.
const NAMESPACE_EDITS_MAX: usize = 3;
/// Minimum length of a code that identifies its vocabulary, in bytes.
const TELLING_CODE_BYTES_MIN: usize = 2;
/// Minimum length of a numeric code that identifies its vocabulary, in bytes: every classification has a `01`.
const TELLING_NUMBER_BYTES_MIN: usize = 4;

/// Reason why a code does not exist, or why a new record may not contain it.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum LookUpProblem {
    /// No vocabulary has the namespace, and no field requires it.
    #[error("there is no vocabulary `{namespace}`; {}", meant(.nearest.as_ref(), .module.as_deref()))]
    UnknownNamespace {
        /// The namespace.
        namespace: Namespace,
        /// The closest namespace.
        nearest: Option<Namespace>,
        /// The module that would provide the vocabulary.
        module: Option<Box<InactiveModule>>,
    },
    /// No pack contains the vocabulary, but a field accepts its codes.
    #[error("the vocabulary `{namespace}` is not installed; {}", remedy(.module.as_deref()))]
    NotInstalled {
        /// The namespace.
        namespace: Namespace,
        /// The module that would provide the vocabulary.
        module: Option<Box<InactiveModule>>,
    },
    /// A problem with a code that does not depend on its field.
    #[error("{0}")]
    Code(CodeProblem),
}

impl LookUpProblem {
    /// Returns the stable name of the problem.
    #[must_use]
    pub fn reason(&self) -> &'static str {
        match self {
            Self::UnknownNamespace { .. } => "unknown_namespace",
            Self::NotInstalled { .. } => "vocabulary_not_installed",
            Self::Code(CodeProblem::Inactive { .. }) => "deprecated",
            Self::Code(problem) => problem.code(),
        }
    }

    /// Returns the closest match: a URI of a code, or a namespace if the namespace is invalid.
    #[must_use]
    pub fn suggestion(&self) -> Option<&str> {
        match self {
            Self::UnknownNamespace { nearest, .. } => nearest.as_ref().map(Namespace::as_str),
            Self::NotInstalled { .. } => None,
            Self::Code(problem) => problem.suggestions().first().map(|suggestion| suggestion.uri.as_str()),
        }
    }
}

impl Generation {
    /// Returns the vocabulary of a namespace.
    ///
    /// # Errors
    /// Returns an error for an unknown vocabulary, with the closest namespace.
    pub fn named(&self, namespace: &Namespace) -> Result<&Vocabulary, LookUpProblem> {
        self.vocabulary(namespace).map(|vocabulary| &**vocabulary).ok_or_else(|| {
            let (waiting, namespace) = (is_used_by_a_field(namespace), namespace.clone());
            let module = self.module_of(&namespace);
            if waiting {
                return LookUpProblem::NotInstalled { namespace, module };
            }
            let nearest = if module.is_some() { None } else { self.nearest_namespace(namespace.as_str()) };
            LookUpProblem::UnknownNamespace { namespace, nearest, module }
        })
    }

    /// Returns the concept of a code in its exact spelling, active or inactive.
    ///
    /// # Errors
    /// Returns the reason why the code is not found.
    pub fn look_up(&self, uri: &CodeUri) -> Result<ConceptRef<'_>, LookUpProblem> {
        match self.named(&uri.namespace) {
            Ok(_) => self.check_known(uri).map_err(LookUpProblem::Code),
            Err(LookUpProblem::NotInstalled { .. }) => Err(LookUpProblem::Code(self.not_installed(uri))),
            Err(problem) => Err(problem),
        }
    }

    /// Returns the concept of a code or an alias, and true if the text is an alias.
    ///
    /// # Errors
    /// Returns the reason why the code is not found.
    pub fn look_up_by_any_name(&self, uri: &CodeUri) -> Result<(ConceptRef<'_>, bool), LookUpProblem> {
        match self.look_up(uri) {
            Ok(concept) => Ok((concept, false)),
            Err(problem @ LookUpProblem::Code(CodeProblem::Alias { .. })) => {
                let vocabulary = self.vocabulary(&uri.namespace);
                let concept = vocabulary.and_then(|vocabulary| vocabulary.find_alias(uri.code.as_str()));
                concept.map(|concept| (concept, true)).ok_or(problem)
            }
            Err(problem) => Err(problem),
        }
    }

    /// Returns the concept of a code or an alias in a version that is not active.
    ///
    /// # Errors
    /// Returns an error for an unknown code, with the closest codes.
    pub fn look_up_earlier<'v>(
        &self,
        version: &'v Vocabulary,
        uri: &CodeUri,
    ) -> Result<(ConceptRef<'v>, bool), LookUpProblem> {
        let code = uri.code.as_str();
        if let Some(concept) = version.find(code) {
            return Ok((concept, false));
        }
        version.find_alias(code).map(|concept| (concept, true)).ok_or_else(|| {
            let nearest = Suggestion::all(nearest(version, code));
            LookUpProblem::Code(CodeProblem::UnknownCode { uri: uri.clone(), nearest })
        })
    }

    /// Checks that a new record may contain the code.
    ///
    /// # Errors
    /// Returns the reason why a new record may not contain the code.
    pub fn check_code(&self, uri: &CodeUri) -> Result<ConceptRef<'_>, LookUpProblem> {
        let concept = self.look_up(uri)?;
        self.in_use(uri, concept).map_err(LookUpProblem::Code)?;
        Ok(concept)
    }

    /// Returns the error of a code that its vocabulary contains in no spelling, without a search for the closest match.
    /// Returns `None` if only [`Self::look_up`] can determine it.
    #[must_use]
    pub fn plainly_absent(&self, uri: &CodeUri) -> Option<LookUpProblem> {
        let (vocabulary, code) = (self.vocabulary(&uri.namespace)?, uri.code.as_str());
        let description = vocabulary.description();
        let is_known = description.is_open
            || vocabulary.concept_count() == 0
            || vocabulary.find(code).is_some()
            || vocabulary.find_alias(code).is_some()
            || in_other_case(vocabulary, code).is_some()
            || self.only_other(uri).is_some();
        (!is_known).then(|| LookUpProblem::Code(absent(vocabulary, uri, Vec::new())))
    }

    /// Returns the concept of the code in another vocabulary, if exactly one contains the code and the code is long
    /// enough to identify it.
    pub(super) fn only_other(&self, uri: &CodeUri) -> Option<ConceptRef<'_>> {
        let code = uri.code.as_str();
        let is_number = code.bytes().all(|byte| byte.is_ascii_digit());
        if code.len() < if is_number { TELLING_NUMBER_BYTES_MIN } else { TELLING_CODE_BYTES_MIN } {
            return None;
        }
        let mut found = self.vocabularies().filter_map(|vocabulary| vocabulary.find(uri.code.as_str()));
        let first = found.next()?;
        found.next().is_none().then_some(first)
    }

    /// Returns the namespace with a similar spelling, or whose vocabulary has a similar name.
    fn nearest_namespace(&self, wanted: &str) -> Option<Namespace> {
        let wanted = wanted.to_ascii_lowercase();
        let called_so = self.vocabularies().find(|vocabulary| {
            let name = vocabulary.description().name.to_ascii_lowercase();
            name == wanted || name.split(' ').next() == Some(wanted.as_str())
        });
        let nearest = || {
            let distance = |vocabulary: &&Vocabulary| {
                strsim::osa_distance(&wanted, &vocabulary.namespace().as_str().to_lowercase())
            };
            let vocabularies = self.vocabularies().map(|vocabulary| &**vocabulary);
            let (edits, nearest) = vocabularies.map(|one| (distance(&one), one)).min_by_key(|(edits, _)| *edits)?;
            (edits <= NAMESPACE_EDITS_MAX).then_some(nearest)
        };
        let found = called_so.map(|vocabulary| &**vocabulary).or_else(nearest)?;
        Some(found.namespace().clone())
    }
}

/// Returns the error that a vocabulary, or its installed part, does not contain a code.
fn absent(vocabulary: &Vocabulary, uri: &CodeUri, nearest: Vec<Suggestion>) -> CodeProblem {
    let uri = uri.clone();
    match vocabulary.description().completeness {
        Completeness::Full => CodeProblem::UnknownCode { uri, nearest },
        Completeness::Fragment | Completeness::Empty => CodeProblem::NotInFragment { uri, nearest },
    }
}

fn meant(nearest: Option<&Namespace>, module: Option<&InactiveModule>) -> String {
    match (module, nearest) {
        (Some(module), _) => module.to_string(),
        (None, Some(nearest)) => format!("did you mean `{nearest}`?"),
        (None, None) => "GET /Vocabulary lists those that are installed".to_owned(),
    }
}
