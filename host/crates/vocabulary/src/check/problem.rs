//! Problems of the contents of a pack: each has a position, a cause and a remedy.

use std::fmt;

use super::limits::{NAME_BYTES_MAX, PROBLEMS_MAX, VERSION_BYTES_MAX};
use daftar_domain::code::{Code, CodeUri, Namespace};

/// All problems of a pack.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct PackProblems {
    problems: Vec<PackProblem>,
    left_out: usize,
}

/// A problem of a pack.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PackProblem {
    /// The position.
    pub place: Place,
    /// The problem and a correction.
    pub fault: PackFault,
}

/// The position of a problem in a pack.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Place {
    /// The complete pack.
    Pack,
    /// A vocabulary.
    Vocabulary(Namespace),
    /// A concept of a vocabulary.
    Concept(Namespace, Code),
    /// A concept group, by its name.
    ConceptGroup(String),
}

/// The problem with a text.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum TextFault {
    /// It is empty.
    #[error("is empty; leave it out or fill it")]
    Empty,
    /// It exceeds its maximum length.
    #[error("has {bytes} bytes; at most {max} are taken")]
    TooLong {
        /// Its length in bytes.
        bytes: usize,
        /// The maximum length in bytes.
        max: usize,
    },
    /// It contains a control character.
    #[error("contains a control character; take it out")]
    ControlCharacter,
    /// It is not in Unicode normal form C.
    #[error("is not in Unicode normal form C; normalise it")]
    NotNormalized,
}

/// The problem with a part of a pack.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum PackFault {
    /// There are more items than permitted.
    #[error("there are {actual} {what}; at most {max} are taken")]
    TooMany {
        /// Kind of the items.
        what: &'static str,
        /// Actual number.
        actual: usize,
        /// Maximum number.
        max: usize,
    },
    /// The pack has no vocabulary and no concept group.
    #[error("it contains no vocabulary and no concept group; at least one is required")]
    Nothing,
    /// A text is invalid.
    #[error("its {what} {fault}")]
    Text {
        /// The text, such as `label in fr`.
        what: String,
        /// The problem with it.
        fault: TextFault,
    },
    /// Two vocabularies have the same namespace.
    #[error("the pack contains this vocabulary twice; a namespace identifies one vocabulary")]
    VocabularyTwice,
    /// The version cannot be stored with codes.
    #[error("its version `{0}` is not 1 to {VERSION_BYTES_MAX} visible ASCII characters, such as `2022` or `2024-01`")]
    Version(String),
    /// The text is not a language tag.
    #[error("`{0}` is no language tag; write one as `en` or `pt-BR`")]
    LanguageTag(String),
    /// A language is listed twice.
    #[error("the language `{0}` is listed twice; list it once")]
    LanguageTwice(String),
    /// The default language is not listed.
    #[error("the default language `{0}` is not among its languages; add it there")]
    DefaultLanguageNotListed(String),
    /// The number of concepts differs from the declared one.
    #[error("it declares {promised} concepts and contains {actual}; the two must be equal")]
    Count {
        /// Number in the description.
        promised: u32,
        /// Number in the content.
        actual: usize,
    },
    /// The vocabulary is declared flat, but has a hierarchy.
    #[error(
        "it is declared as not hierarchical, but concepts have parents; declare `hierarchical`, or remove the parents"
    )]
    NotFlat,
    /// The vocabulary is declared hierarchical, but is flat.
    #[error("it is declared as hierarchical, but no concept has a parent; add the parents, or remove the declaration")]
    NotHierarchical,
    /// The vocabulary is declared empty, but contains concepts.
    #[error("it is declared as empty, but contains concepts; declare `full` or `fragment`")]
    NotEmpty,
    /// The vocabulary contains no concepts and is not declared empty.
    #[error("it contains no concepts; declare `empty` for a list without codes")]
    Empty,
    /// The code is not unique.
    #[error("the code occurs {times} times; a code must be unique")]
    CodeTwice {
        /// Number of its occurrences.
        times: usize,
    },
    /// A parent does not exist.
    #[error("its parent `{0}` is not in the vocabulary; add it or name another")]
    UnknownParent(Code),
    /// The concept is its own parent.
    #[error("it is its own parent; name the code one level up, or none at the top")]
    SelfParent,
    /// A parent is listed twice.
    #[error("its parent `{0}` is named twice; name it once")]
    ParentTwice(Code),
    /// The concept is its own ancestor.
    #[error("it is above itself: {}; take one of these links out", chain(.0))]
    Cycle(Vec<Code>),
    /// The concept exceeds the maximum depth.
    #[error("it is more than {max} levels below the top; no classification needs so many")]
    TooDeep {
        /// The maximum number of levels.
        max: usize,
    },
    /// The hierarchy needs too many extra intervals: too many concepts have several parents.
    #[error("its second parents tie it into a web too large to index; keep the parents that its source calls broader")]
    TooTangled,
    /// The successor does not exist.
    #[error("its successor `{0}` is not in the vocabulary; add it or name another")]
    UnknownSuccessor(Code),
    /// An active code has a successor.
    #[error("it is active and replaced by `{0}`; an active code has no successor: make it inactive, or name none")]
    ActiveReplaced(Code),
    /// The successors form a cycle.
    #[error("its successors lead back to it: {}; the last of them has none", chain(.0))]
    SuccessorCircle(Vec<Code>),
    /// The concept has no label in the default language.
    #[error("it has no label in the default language `{0}`; every concept has one")]
    NoDefaultLabel(String),
    /// The concept has two texts of one kind in one language.
    #[error("it has two {what} in `{language}`; keep one, the other may be an alias")]
    TextTwice {
        /// Kind of the texts.
        what: &'static str,
        /// The language.
        language: String,
    },
    /// A text is in a language that the description does not list.
    #[error("it has a {what} in `{language}`, which is not among the vocabulary's languages; list it there")]
    UnlistedLanguage {
        /// Kind of the text.
        what: &'static str,
        /// The language.
        language: String,
    },
    /// An alias is malformed, so that no lookup can find it.
    #[error("its alias `{0}` is not written like a code: no white space, no control character, no `#`")]
    MalformedAlias(String),
    /// An alias is also a code.
    #[error("its alias `{0}` is a code of this vocabulary; an alias leads to one code only")]
    AliasIsCode(String),
    /// An alias belongs to two codes.
    #[error("its alias `{alias}` is also an alias of `{other}`; an alias must identify one code")]
    AliasTwice {
        /// The alias.
        alias: String,
        /// The other code.
        other: Code,
    },
    /// A property key is malformed.
    #[error(
        "its property `{0}` is not named in 1 to {NAME_BYTES_MAX} lower-case letters, digits and underscores, a letter first"
    )]
    PropertyKey(String),
    /// A property occurs twice.
    #[error("it has the property `{0}` twice; a key must be unique")]
    PropertyTwice(String),
    /// The name of a concept group is malformed.
    #[error("its name is not 1 to {NAME_BYTES_MAX} lower-case letters, digits and underscores, a letter first")]
    ConceptGroupName,
    /// Two concept groups have the same name.
    #[error("the pack contains this concept group twice; a name identifies one concept group")]
    ConceptGroupTwice,
    /// A concept group selects a code that its vocabulary, in the same pack, does not contain.
    #[error("it selects `{0}`, which this pack's own vocabulary does not have; add the code or select another")]
    UnknownSelection(CodeUri),
}

impl PackProblems {
    /// Adds a problem. Beyond the maximum it is only counted.
    pub(super) fn push(&mut self, place: Place, fault: PackFault) {
        if self.problems.len() < PROBLEMS_MAX {
            self.problems.push(PackProblem { place, fault });
        } else {
            self.left_out += 1;
        }
    }

    /// Returns the problems: of the pack, of each vocabulary and its concepts in the order of codes, of the concept
    /// groups.
    #[must_use]
    pub fn problems(&self) -> &[PackProblem] {
        &self.problems
    }

    /// Returns the number of problems beyond [`PROBLEMS_MAX`].
    #[must_use]
    pub fn left_out(&self) -> usize {
        self.left_out
    }

    /// Returns the total number of problems.
    #[must_use]
    pub fn count(&self) -> usize {
        self.problems.len() + self.left_out
    }
}

impl std::error::Error for PackProblems {}

impl fmt::Display for PackProblems {
    /// Formats one line for each problem.
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (index, problem) in self.problems.iter().enumerate() {
            let separator = if index == 0 { "" } else { "\n" };
            write!(formatter, "{separator}{problem}")?;
        }
        if self.left_out > 0 {
            write!(formatter, "\nand {} more problems", self.left_out)?;
        }
        Ok(())
    }
}

impl fmt::Display for PackProblem {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "{}: {}", self.place, self.fault)
    }
}

impl fmt::Display for Place {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Pack => formatter.write_str("the pack"),
            Self::Vocabulary(namespace) => write!(formatter, "vocabulary `{namespace}`"),
            Self::Concept(namespace, code) => write!(formatter, "code `{namespace}#{code}`"),
            Self::ConceptGroup(name) => write!(formatter, "concept group `{}`", name.escape_debug()),
        }
    }
}

fn chain(codes: &[Code]) -> String {
    codes.iter().map(|code| format!("`{code}`")).collect::<Vec<_>>().join(" → ")
}
