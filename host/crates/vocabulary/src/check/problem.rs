//! Problems of a pack's content: each has a position, a cause and a remedy.

use std::fmt;

use super::limits::{NAME_BYTES_MAX, PROBLEMS_MAX, VERSION_BYTES_MAX};
use daftar_domain::code::{Code, CodeUri, Namespace};

/// Everything that is wrong with a pack.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct PackProblems {
    problems: Vec<PackProblem>,
    left_out: usize,
}

/// One thing that is wrong.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PackProblem {
    /// The place.
    pub place: Place,
    /// The problem, and what would be right.
    pub fault: PackFault,
}

/// The part of a pack that a problem is about.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Place {
    /// The pack as a whole.
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
    /// Nothing is there.
    #[error("is empty; leave it out or fill it")]
    Empty,
    /// It is longer than its bound.
    #[error("has {bytes} bytes; at most {max} are taken")]
    TooLong {
        /// Its length in bytes.
        bytes: usize,
        /// The bound in bytes.
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
    /// There is more of something than is taken.
    #[error("there are {actual} {what}; at most {max} are taken")]
    TooMany {
        /// Kind of the items.
        what: &'static str,
        /// Actual number.
        actual: usize,
        /// Maximum number.
        max: usize,
    },
    /// No vocabularies and no concept groups.
    #[error("it contains no vocabulary and no concept group; at least one is required")]
    Nothing,
    /// A text that cannot stand as it is.
    #[error("its {what} {fault}")]
    Text {
        /// Which text, such as `label in fr`.
        what: String,
        /// The problem with it.
        fault: TextFault,
    },
    /// Two vocabularies of one namespace.
    #[error("the pack contains this vocabulary twice; a namespace identifies one vocabulary")]
    VocabularyTwice,
    /// The version cannot be stored with codes.
    #[error("its version `{0}` is not 1 to {VERSION_BYTES_MAX} visible ASCII characters, such as `2022` or `2024-01`")]
    Version(String),
    /// Not a language tag.
    #[error("`{0}` is no language tag; write one as `en` or `pt-BR`")]
    LanguageTag(String),
    /// A language is listed twice.
    #[error("the language `{0}` is listed twice; list it once")]
    LanguageTwice(String),
    /// The default language is not listed.
    #[error("the default language `{0}` is not among its languages; add it there")]
    DefaultLanguageNotListed(String),
    /// More or fewer concepts than promised.
    #[error("it declares {promised} concepts and contains {actual}; the two must be equal")]
    Count {
        /// Number in the description.
        promised: u32,
        /// Number in the content.
        actual: usize,
    },
    /// Said to be flat, and is not.
    #[error(
        "it is declared as not hierarchical, but concepts have parents; declare `hierarchical`, or remove the parents"
    )]
    NotFlat,
    /// Said to be hierarchical, and is not.
    #[error("it is declared as hierarchical, but no concept has a parent; add the parents, or remove the declaration")]
    NotHierarchical,
    /// Said to be empty, and is not.
    #[error("it is declared as empty, but contains concepts; declare `full` or `fragment`")]
    NotEmpty,
    /// Has nothing and does not say so.
    #[error("it contains no concepts; declare `empty` for a list without codes")]
    Empty,
    /// A duplicate code.
    #[error("the code occurs {times} times; a code must be unique")]
    CodeTwice {
        /// Number of its occurrences.
        times: usize,
    },
    /// A parent that is not there.
    #[error("its parent `{0}` is not in the vocabulary; add it or name another")]
    UnknownParent(Code),
    /// It is its own parent.
    #[error("it is its own parent; name the code one level up, or none at the top")]
    SelfParent,
    /// A parent named twice.
    #[error("its parent `{0}` is named twice; name it once")]
    ParentTwice(Code),
    /// It is above itself.
    #[error("it is above itself: {}; take one of these links out", chain(.0))]
    Cycle(Vec<Code>),
    /// It is too far from the top.
    #[error("it is more than {max} levels below the top; no classification needs so many")]
    TooDeep {
        /// The most levels.
        max: usize,
    },
    /// Too many concepts with several parents, too unlike a tree.
    #[error("its second parents tie it into a web too large to index; keep the parents that its source calls broader")]
    TooTangled,
    /// A successor that is not there.
    #[error("its successor `{0}` is not in the vocabulary; add it or name another")]
    UnknownSuccessor(Code),
    /// An active code is not replaced.
    #[error("it is active and replaced by `{0}`; an active code has no successor: make it inactive, or name none")]
    ActiveReplaced(Code),
    /// Successors that lead back.
    #[error("its successors lead back to it: {}; the last of them has none", chain(.0))]
    SuccessorCircle(Vec<Code>),
    /// No label in the default language.
    #[error("it has no label in the default language `{0}`; every concept has one")]
    NoDefaultLabel(String),
    /// Two texts of one kind in one language.
    #[error("it has two {what} in `{language}`; keep one, the other may be an alias")]
    TextTwice {
        /// Which texts.
        what: &'static str,
        /// The language.
        language: String,
    },
    /// A text in a language that the description does not list.
    #[error("it has a {what} in `{language}`, which is not among the vocabulary's languages; list it there")]
    UnlistedLanguage {
        /// Which text.
        what: &'static str,
        /// The language.
        language: String,
    },
    /// An alias that could not be looked up.
    #[error("its alias `{0}` is not written like a code: no white space, no control character, no `#`")]
    MalformedAlias(String),
    /// An alias that is a code.
    #[error("its alias `{0}` is a code of this vocabulary; an alias leads to one code only")]
    AliasIsCode(String),
    /// An alias that leads to two codes.
    #[error("its alias `{alias}` is also an alias of `{other}`; an alias must identify one code")]
    AliasTwice {
        /// The alias.
        alias: String,
        /// The other code.
        other: Code,
    },
    /// A property key of the wrong shape.
    #[error(
        "its property `{0}` is not named in 1 to {NAME_BYTES_MAX} lower-case letters, digits and underscores, a letter first"
    )]
    PropertyKey(String),
    /// A property that is there twice.
    #[error("it has the property `{0}` twice; a key must be unique")]
    PropertyTwice(String),
    /// A concept group's name of the wrong shape.
    #[error("its name is not 1 to {NAME_BYTES_MAX} lower-case letters, digits and underscores, a letter first")]
    ConceptGroupName,
    /// Two concept groups of one name.
    #[error("the pack contains this concept group twice; a name identifies one concept group")]
    ConceptGroupTwice,
    /// A selection of a code that its own vocabulary, in this pack, does not have.
    #[error("it selects `{0}`, which this pack's own vocabulary does not have; add the code or select another")]
    UnknownSelection(CodeUri),
}

impl PackProblems {
    /// Notes a problem, or only counts it when enough are noted.
    pub(super) fn push(&mut self, place: Place, fault: PackFault) {
        if self.problems.len() < PROBLEMS_MAX {
            self.problems.push(PackProblem { place, fault });
        } else {
            self.left_out += 1;
        }
    }

    /// The problems: of the pack, of each vocabulary and its concepts in the order of codes, of the concept groups.
    #[must_use]
    pub fn problems(&self) -> &[PackProblem] {
        &self.problems
    }

    /// Number of problems beyond [`PROBLEMS_MAX`].
    #[must_use]
    pub fn left_out(&self) -> usize {
        self.left_out
    }

    /// Total number of problems.
    #[must_use]
    pub fn count(&self) -> usize {
        self.problems.len() + self.left_out
    }
}

impl std::error::Error for PackProblems {}

impl fmt::Display for PackProblems {
    /// One line for each problem.
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

impl PackProblem {
    /// The vocabulary concerned.
    #[must_use]
    pub fn namespace(&self) -> Option<&Namespace> {
        match &self.place {
            Place::Vocabulary(namespace) | Place::Concept(namespace, _) => Some(namespace),
            Place::Pack | Place::ConceptGroup(_) => None,
        }
    }

    /// The code concerned.
    #[must_use]
    pub fn code(&self) -> Option<&Code> {
        match &self.place {
            Place::Concept(_, code) => Some(code),
            Place::Pack | Place::Vocabulary(_) | Place::ConceptGroup(_) => None,
        }
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
