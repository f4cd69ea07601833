//! Why packs cannot be published together.

use std::fmt;

use crate::code_problem::{Suggestion, joined, quoted};
use daftar_domain::code::{CodeUri, Namespace};
use daftar_domain::extension::ExtensionFieldFault;

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
    /// A pack brings codes, or other names of codes, that are local codes here.
    #[error(
        "the vocabulary `{namespace}` brings {}, as codes or as other names of codes, which the administrator added as local codes; deprecate each of them with `daftar code deprecate`, then the pack's takes its place", quoted(.codes, "and")
    )]
    LocalCodesTaken {
        /// The vocabulary.
        namespace: Namespace,
        /// The codes.
        codes: Vec<String>,
    },
    /// A pack does not let local codes be added, and there are some.
    #[error("the vocabulary `{namespace}` takes no local codes in this pack, and {count} are in use here")]
    NotExtensible {
        /// The vocabulary.
        namespace: Namespace,
        /// How many local codes are active.
        count: usize,
    },
    /// Local codes hang too deep.
    #[error("with its local codes the hierarchy of `{namespace}` is too deep")]
    LocalCodesTooDeep {
        /// The vocabulary.
        namespace: Namespace,
    },
    /// A pack brings a vocabulary that is the registry's own.
    #[error("the vocabulary `{namespace}` is the registry's own: the administrator fills it with `daftar code add`")]
    HostVocabulary {
        /// The vocabulary.
        namespace: Namespace,
    },
    /// An extension field that cannot be.
    #[error("{fault}{}", by.as_ref().map(|by| format!(" of `{by}`")).unwrap_or_default())]
    ExtensionField {
        /// Why.
        fault: ExtensionFieldFault,
        /// The pack whose field it clashes with.
        by: Option<String>,
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
