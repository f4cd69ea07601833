//! A code that somebody asks about, without a field that it stands in.

use super::Generation;
use crate::code_problem::{CodeProblem, Suggestion, is_used_by_a_field, remedy};
use crate::nearest::{in_other_case, nearest};
use crate::vocabulary::{ConceptRef, Vocabulary};
use daftar_domain::code::{CodeUri, Namespace};
use daftar_domain::module::InactiveModule;
use daftar_domain::vocabulary::Completeness;

/// Namespaces further apart than that are not alike.
const NAMESPACE_EDITS_MAX: usize = 3;
/// A code of one byte says nothing of the vocabulary that it belongs to.
const TELLING_CODE_BYTES_MIN: usize = 2;
/// Digits alone say something from that many on: every classification has a `01`.
const TELLING_NUMBER_BYTES_MIN: usize = 4;

/// Why there is no such code, or why a new record may not hold it.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum LookUpProblem {
    /// No vocabulary has the namespace, and no field waits for one that has.
    #[error("there is no vocabulary `{namespace}`; {}", meant(.nearest.as_ref(), .module.as_deref()))]
    UnknownNamespace {
        /// The namespace.
        namespace: Namespace,
        /// The one that was probably meant.
        nearest: Option<Namespace>,
        /// The module that would bring it.
        module: Option<Box<InactiveModule>>,
    },
    /// No pack brings the vocabulary, though a field takes its codes.
    #[error("the vocabulary `{namespace}` is not installed; {}", remedy(.module.as_deref()))]
    NotInstalled {
        /// The namespace.
        namespace: Namespace,
        /// The module that would bring it.
        module: Option<Box<InactiveModule>>,
    },
    /// Anything that is wrong with a code wherever it stands.
    #[error("{0}")]
    Code(CodeProblem),
}

impl LookUpProblem {
    /// The stable name of the problem.
    #[must_use]
    pub fn reason(&self) -> &'static str {
        match self {
            Self::UnknownNamespace { .. } => "unknown_namespace",
            Self::NotInstalled { .. } => "vocabulary_not_installed",
            Self::Code(CodeProblem::Inactive { .. }) => "deprecated",
            Self::Code(problem) => problem.code(),
        }
    }

    /// What was probably meant: a code's URI, or a namespace where that was wrong.
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
    /// The vocabulary of a namespace.
    ///
    /// # Errors
    /// That there is none, with the namespace that was probably meant.
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

    /// The concept of a code in its exact spelling, in use or not.
    ///
    /// # Errors
    /// Why there is none.
    pub fn look_up(&self, uri: &CodeUri) -> Result<ConceptRef<'_>, LookUpProblem> {
        match self.named(&uri.namespace) {
            Ok(_) => self.check_known(uri).map_err(LookUpProblem::Code),
            Err(LookUpProblem::NotInstalled { .. }) => Err(LookUpProblem::Code(self.not_installed(uri))),
            Err(problem) => Err(problem),
        }
    }

    /// The concept of a code or of another name of one, with whether it was that.
    ///
    /// # Errors
    /// Why there is none.
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

    /// The concept of a code, or of another name of one, in a version that is not in force.
    ///
    /// # Errors
    /// That it has none, with the codes that were probably meant.
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

    /// Whether a new record may hold the code.
    ///
    /// # Errors
    /// Why not.
    pub fn check_code(&self, uri: &CodeUri) -> Result<ConceptRef<'_>, LookUpProblem> {
        let concept = self.look_up(uri)?;
        self.in_use(uri, concept).map_err(LookUpProblem::Code)?;
        Ok(concept)
    }

    /// What a code that its vocabulary has in no spelling is refused with, without a search for what was meant: none where only
    /// [`Self::look_up`] can tell.
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
        let (uri, nearest) = (uri.clone(), Vec::new());
        let problem = match description.completeness {
            Completeness::Full => CodeProblem::UnknownCode { uri, nearest },
            Completeness::Fragment | Completeness::Empty => CodeProblem::NotInFragment { uri, nearest },
        };
        (!is_known).then_some(LookUpProblem::Code(problem))
    }

    /// The one other vocabulary's concept that has the code, if there is one only and the code is long enough to tell.
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

    /// The namespace that is spelt nearly so, or whose vocabulary is called so.
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

fn meant(nearest: Option<&Namespace>, module: Option<&InactiveModule>) -> String {
    match (module, nearest) {
        (Some(module), _) => module.to_string(),
        (None, Some(nearest)) => format!("did you mean `{nearest}`?"),
        (None, None) => "GET /Vocabulary lists those that are installed".to_owned(),
    }
}
