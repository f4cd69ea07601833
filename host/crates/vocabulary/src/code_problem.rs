//! Reasons why a code is rejected in a field.
//!
//! **Invariant:** each problem has a stable name, and a sentence with the problem and a correction. Neither contains
//! data about an individual.

use std::fmt;

use super::vocabulary::ConceptRef;
use daftar_domain::code::{CodeUri, Namespace};
use daftar_domain::error::FieldProblem;
use daftar_domain::module::InactiveModule;

/// A suggested code.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Suggestion {
    /// `<namespace>#<code>`
    pub uri: String,
    /// Its label in the vocabulary's default language.
    pub display: String,
}

/// The problem with a code.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum CodeProblem {
    /// The namespace belongs to no vocabulary that the registry uses.
    #[error(
        "`{uri}` belongs to no vocabulary known here{}; `{field}` takes codes of {}",
        in_brackets(.module.as_deref()), quoted(.expected, "or")
    )]
    UnknownVocabulary {
        /// The code.
        uri: CodeUri,
        /// The field.
        field: String,
        /// The vocabularies whose codes the field accepts.
        expected: Vec<String>,
        /// The module that would provide the vocabulary.
        module: Option<Box<InactiveModule>>,
    },
    /// The vocabulary is not one of the field's.
    #[error("`{uri}` is a code of another vocabulary; `{field}` takes codes of {}", quoted(.expected, "or"))]
    WrongVocabulary {
        /// The code.
        uri: CodeUri,
        /// The field.
        field: String,
        /// The vocabularies whose codes the field accepts.
        expected: Vec<String>,
    },
    /// No active pack contains the vocabulary.
    #[error("`{uri}`: the vocabulary `{}` is not installed; {}", .uri.namespace, remedy(.module.as_deref()))]
    NotInstalled {
        /// The code.
        uri: CodeUri,
        /// The module that would provide the vocabulary.
        module: Option<Box<InactiveModule>>,
    },
    /// The vocabulary is installed and has no codes.
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
    /// The code belongs to another vocabulary.
    #[error("`{uri}` is no code of its vocabulary; {right} is one of another")]
    OtherVocabulary {
        /// The code.
        uri: CodeUri,
        /// The code with its actual namespace.
        right: Suggestion,
    },
    /// The code may be valid, but only a part of the vocabulary is installed.
    #[error("`{uri}` is not in the part of its vocabulary that is installed; import the owner's file{}", did_you_mean(.nearest))]
    NotInFragment {
        /// The code.
        uri: CodeUri,
        /// Closest match in the installed vocabularies.
        nearest: Vec<Suggestion>,
    },
    /// The code violates the grammar of its open vocabulary. The pack provides the message.
    #[error("`{uri}` is no code of its vocabulary: {sentence}")]
    Malformed {
        /// The code.
        uri: CodeUri,
        /// The problem and a correction, as returned by the pack.
        sentence: String,
    },
    /// The case of letters differs from the code.
    #[error("`{uri}` is no code of its vocabulary: codes are case-sensitive, write {right}")]
    WrongCase {
        /// The code.
        uri: CodeUri,
        /// The correct spelling.
        right: Suggestion,
    },
    /// The text is an alias of a code.
    #[error("`{uri}` is another name, not the code; write {right}")]
    Alias {
        /// The rejected text.
        uri: CodeUri,
        /// The code.
        right: Suggestion,
    },
    /// The code is inactive and retained for existing records.
    #[error("`{uri}` is no longer in use{}", successor_text(.successor.as_ref()))]
    Inactive {
        /// The code.
        uri: CodeUri,
        /// The replacement code.
        successor: Option<Suggestion>,
    },
    /// The code is a heading.
    #[error("`{uri}` is a heading that only groups other codes; use one below it{}", examples(.below))]
    NotSelectable {
        /// The code.
        uri: CodeUri,
        /// Some descendants of the code.
        below: Vec<Suggestion>,
    },
    /// The code is a relation between groups and the field requires one of an individual to a group, or the reverse.
    #[error("`{uri}` is a relation of kind `{kind}`; `{field}` takes codes of kind `{wanted}`{}", examples(.such_as))]
    WrongKind {
        /// The code.
        uri: CodeUri,
        /// The field.
        field: &'static str,
        /// Its kind.
        kind: Box<str>,
        /// The kind that the field accepts.
        wanted: &'static str,
        /// Some codes of that kind.
        such_as: Vec<Suggestion>,
    },
}

impl CodeProblem {
    /// Returns the stable name of the problem.
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

    /// Returns the suggested codes, the most likely first.
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

    /// Returns the problem of the field at the path, such as `address[0].country`.
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

/// Returns true if the namespace belongs to a vocabulary whose codes a field accepts.
pub(super) fn is_used_by_a_field(namespace: &Namespace) -> bool {
    use daftar_domain::vocabulary::{CodedField, ID_TYPE_NAMESPACE};
    namespace.as_str() == ID_TYPE_NAMESPACE
        || CodedField::ALL.into_iter().any(|field| field.namespaces().contains(&namespace.as_str()))
}

/// Joins items: `a`, `b` or `c`.
pub(super) fn joined(items: &[String], word: &str) -> String {
    match items {
        [] => String::new(),
        [only] => only.clone(),
        [front @ .., last] => format!("{} {word} {last}", front.join(", ")),
    }
}

/// Joins items in backticks.
pub(super) fn quoted(items: &[String], word: &str) -> String {
    joined(&items.iter().map(|item| format!("`{item}`")).collect::<Vec<_>>(), word)
}

/// Returns the remedy for a vocabulary that is not installed.
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
