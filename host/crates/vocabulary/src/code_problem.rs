//! Reasons why a code is rejected at its place.
//!
//! **Invariant:** each problem has a name that does not change, and a sentence with the problem and
//! right. Neither says anything about a person.

use std::fmt;

use super::vocabulary::ConceptRef;
use daftar_domain::code::{CodeUri, Namespace};
use daftar_domain::error::FieldProblem;
use daftar_domain::module::InactiveModule;

/// A code that was probably meant.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Suggestion {
    /// `<namespace>#<code>`
    pub uri: String,
    /// Its name in the vocabulary's default language.
    pub display: String,
}

/// The problem with a code.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum CodeProblem {
    /// The namespace is that of no vocabulary that the registry has a use for.
    #[error(
        "`{uri}` belongs to no vocabulary known here{}; `{field}` takes codes of {}",
        in_brackets(.module.as_deref()), quoted(.expected, "or")
    )]
    UnknownVocabulary {
        /// The code.
        uri: CodeUri,
        /// Its position.
        field: String,
        /// The vocabularies that the field takes codes of.
        expected: Vec<String>,
        /// The module that would bring the vocabulary.
        module: Option<Box<InactiveModule>>,
    },
    /// The vocabulary is another one than the field's.
    #[error("`{uri}` is a code of another vocabulary; `{field}` takes codes of {}", quoted(.expected, "or"))]
    WrongVocabulary {
        /// The code.
        uri: CodeUri,
        /// Its position.
        field: String,
        /// The vocabularies that the field takes codes of.
        expected: Vec<String>,
    },
    /// No active pack contains the vocabulary.
    #[error("`{uri}`: the vocabulary `{}` is not installed; {}", .uri.namespace, remedy(.module.as_deref()))]
    NotInstalled {
        /// The code.
        uri: CodeUri,
        /// The module that would bring it.
        module: Option<Box<InactiveModule>>,
    },
    /// The vocabulary is there without any codes.
    #[error("`{uri}`: the vocabulary `{}` has no codes yet; {}", .uri.namespace, filling(*.takes_local_codes))]
    EmptyVocabulary {
        /// The code.
        uri: CodeUri,
        /// True if the administrator adds its codes.
        takes_local_codes: bool,
    },
    /// The vocabulary has no such code.
    #[error("`{uri}` is no code of its vocabulary{}", did_you_mean(.nearest))]
    UnknownCode {
        /// The code.
        uri: CodeUri,
        /// Closest match.
        nearest: Vec<Suggestion>,
    },
    /// The code is one of another vocabulary.
    #[error("`{uri}` is no code of its vocabulary; {right} is one of another")]
    OtherVocabulary {
        /// The code.
        uri: CodeUri,
        /// The code with the namespace that it has.
        right: Suggestion,
    },
    /// The code may be right, but only a part of the vocabulary is here.
    #[error("`{uri}` is not in the part of its vocabulary that is installed; import the owner's file{}", did_you_mean(.nearest))]
    NotInFragment {
        /// The code.
        uri: CodeUri,
        /// Closest match in the installed vocabularies.
        nearest: Vec<Suggestion>,
    },
    /// The code breaks the grammar of its open vocabulary; its pack says how.
    #[error("`{uri}` is no code of its vocabulary: {sentence}")]
    Malformed {
        /// The code.
        uri: CodeUri,
        /// The problem and what would be right, in the pack's words.
        sentence: String,
    },
    /// Capital and small letters differ from the code's.
    #[error("`{uri}` is no code of its vocabulary: codes are case-sensitive, write {right}")]
    WrongCase {
        /// The code.
        uri: CodeUri,
        /// The right spelling.
        right: Suggestion,
    },
    /// Another name of a code.
    #[error("`{uri}` is another name, not the code; write {right}")]
    Alias {
        /// The given text.
        uri: CodeUri,
        /// The code.
        right: Suggestion,
    },
    /// The code is retained for old records only.
    #[error("`{uri}` is no longer in use{}", successor_text(.successor.as_ref()))]
    Inactive {
        /// The code.
        uri: CodeUri,
        /// The code to use in its place.
        successor: Option<Suggestion>,
    },
    /// The code is a heading.
    #[error("`{uri}` is a heading that only groups other codes; use one below it{}", examples(.below))]
    NotSelectable {
        /// The code.
        uri: CodeUri,
        /// Some codes below it.
        below: Vec<Suggestion>,
    },
    /// A relation between groups where one of a person to a group belongs, or the reverse.
    #[error("`{uri}` is a relation of kind `{kind}`; `{field}` takes codes of kind `{wanted}`{}", examples(.such_as))]
    WrongKind {
        /// The code.
        uri: CodeUri,
        /// Its position.
        field: &'static str,
        /// Its kind.
        kind: Box<str>,
        /// The kind that the field takes.
        wanted: &'static str,
        /// Some codes of that kind.
        such_as: Vec<Suggestion>,
    },
}

impl CodeProblem {
    /// The stable name of the problem.
    #[must_use]
    pub fn code(&self) -> &'static str {
        match self {
            Self::UnknownVocabulary { .. } => "unknown_vocabulary",
            Self::WrongVocabulary { .. } | Self::OtherVocabulary { .. } => "wrong_vocabulary",
            Self::NotInstalled { .. } => "vocabulary_not_installed",
            Self::EmptyVocabulary { .. } => "vocabulary_empty",
            Self::UnknownCode { .. } => "unknown_code",
            Self::NotInFragment { .. } => "not_in_fragment",
            Self::Malformed { .. } => "malformed_code",
            Self::WrongCase { .. } => "wrong_case",
            Self::Alias { .. } => "alias",
            Self::Inactive { .. } => "inactive_code",
            Self::NotSelectable { .. } => "not_selectable",
            Self::WrongKind { .. } => "wrong_kind",
        }
    }

    /// The codes to use instead, the likeliest first.
    #[must_use]
    pub fn suggestions(&self) -> &[Suggestion] {
        match self {
            Self::UnknownVocabulary { .. }
            | Self::WrongVocabulary { .. }
            | Self::NotInstalled { .. }
            | Self::EmptyVocabulary { .. }
            | Self::Malformed { .. } => &[],
            Self::UnknownCode { nearest, .. } | Self::NotInFragment { nearest, .. } => nearest,
            Self::WrongCase { right, .. } | Self::Alias { right, .. } | Self::OtherVocabulary { right, .. } => {
                std::slice::from_ref(right)
            }
            Self::Inactive { successor, .. } => successor.as_slice(),
            Self::NotSelectable { below, .. } => below,
            Self::WrongKind { such_as, .. } => such_as,
        }
    }

    /// The problem of the field at that path, such as `address[0].country`.
    #[must_use]
    pub fn at(&self, path: impl Into<String>) -> FieldProblem {
        FieldProblem { field: path.into(), code: self.code(), message: self.to_string() }
    }
}

impl Suggestion {
    pub(super) fn of(concept: ConceptRef<'_>) -> Self {
        Self { uri: concept.uri_text(), display: concept.default_label().to_owned() }
    }

    pub(super) fn all<'a>(concepts: impl IntoIterator<Item = ConceptRef<'a>>) -> Vec<Self> {
        concepts.into_iter().map(Self::of).collect()
    }
}

impl fmt::Display for Suggestion {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "`{}` ({})", self.uri, self.display)
    }
}

/// True if a namespace is that of a vocabulary which some field takes codes of.
pub(super) fn is_used_by_a_field(namespace: &Namespace) -> bool {
    use daftar_domain::vocabulary::{CodedField, ID_TYPE_NAMESPACE};
    namespace.as_str() == ID_TYPE_NAMESPACE
        || CodedField::ALL.into_iter().any(|field| field.namespaces().contains(&namespace.as_str()))
}

/// `a`, `b` or `c`.
pub(super) fn joined(items: &[String], word: &str) -> String {
    match items {
        [] => String::new(),
        [only] => only.clone(),
        [front @ .., last] => format!("{} {word} {last}", front.join(", ")),
    }
}

/// The same, each in backticks.
pub(super) fn quoted(items: &[String], word: &str) -> String {
    joined(&items.iter().map(|item| format!("`{item}`")).collect::<Vec<_>>(), word)
}

/// Remedy if a vocabulary is not installed.
pub(super) fn remedy(module: Option<&InactiveModule>) -> String {
    module.map_or_else(|| "install a pack that contains it".to_owned(), ToString::to_string)
}

fn in_brackets(module: Option<&InactiveModule>) -> String {
    module.map(|module| format!(" ({module})")).unwrap_or_default()
}

fn listed(suggestions: &[Suggestion]) -> String {
    joined(&suggestions.iter().map(Suggestion::to_string).collect::<Vec<_>>(), "or")
}

fn did_you_mean(nearest: &[Suggestion]) -> String {
    if nearest.is_empty() { String::new() } else { format!("; did you mean {}?", listed(nearest)) }
}

fn examples(suggestions: &[Suggestion]) -> String {
    if suggestions.is_empty() { String::new() } else { format!(", such as {}", listed(suggestions)) }
}

fn filling(takes_local_codes: bool) -> &'static str {
    if takes_local_codes {
        "the administrator adds them with `daftar code add`"
    } else {
        "import its owner's file first"
    }
}

fn successor_text(successor: Option<&Suggestion>) -> String {
    match successor {
        Some(successor) => format!(": use {successor} in its place"),
        None => " and names no successor: choose an active code".to_owned(),
    }
}
