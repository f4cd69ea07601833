//! Why packs cannot be published together.

use std::fmt;

use crate::domain::code::{CodeUri, Namespace};
use crate::vocab::code_problem::{Suggestion, joined};

/// What is wrong, and through whom.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PublishProblem {
    /// The pack by its plugin's name; none for what the deployment itself defined.
    pub plugin: Option<String>,
    /// What is wrong.
    pub fault: PublishFault,
}

/// What is wrong between packs.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum PublishFault {
    /// Another pack brings the vocabulary already.
    #[error("the vocabulary `{namespace}` is already there from `{by}`; remove that pack first")]
    NamespaceTaken {
        /// The vocabulary.
        namespace: Namespace,
        /// The other pack's plugin.
        by: String,
    },
    /// Another pack defines the concept group otherwise.
    #[error("the concept group `{name}` is already there from `{by}` with another definition; name it otherwise")]
    ConceptGroupTaken {
        /// The concept group.
        name: String,
        /// The other pack's plugin.
        by: String,
    },
    /// A concept group selects a code that another pack's vocabulary, which is here and whole, does not have.
    #[error("the concept group `{name}` selects `{uri}`, which its vocabulary does not have{}", instead(.nearest))]
    UnknownSelection {
        /// The concept group.
        name: String,
        /// The code.
        uri: CodeUri,
        /// What was probably meant.
        nearest: Vec<Suggestion>,
    },
    /// The store gave no number to a code or version: a defect of ours.
    #[error("{what} has no number; number everything that `unnumbered` lists before building")]
    NotNumbered {
        /// The first without a number.
        what: String,
    },
}

impl fmt::Display for PublishProblem {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.plugin {
            Some(plugin) => write!(formatter, "pack `{plugin}`: {}", self.fault),
            None => write!(formatter, "the deployment's definitions: {}", self.fault),
        }
    }
}

impl std::error::Error for PublishProblem {}

fn instead(nearest: &[Suggestion]) -> String {
    let nearest: Vec<String> = nearest.iter().map(Suggestion::to_string).collect();
    if nearest.is_empty() { String::new() } else { format!("; perhaps {} is meant", joined(&nearest, "or")) }
}
