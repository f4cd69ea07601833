//! Concept groups: named groups of codes.

use std::borrow::Cow;

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;
use utoipa::openapi::Ref;

use super::page::Page;
use super::vocabulary::{BareCode, LabelledCode};

/// A named group of codes.
#[derive(Debug, Serialize, Deserialize, ToSchema)]
pub struct ConceptGroup<'a> {
    /// Its name.
    pub name: Cow<'a, str>,
    /// Its meaning.
    pub description: Cow<'a, str>,
    /// The origin of its definition.
    pub defined_by: DefinedBy,
    /// The plugin that defines it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub module: Option<Cow<'a, str>>,
    /// True if it includes nothing yet, so that rules cannot decide about any code.
    pub unset: bool,
    /// Its definition.
    pub definition: Definition<'a>,
    /// The number of its codes.
    pub code_count: usize,
    /// The number of codes of which the definition does not decide.
    pub undecided_count: usize,
}

/// The origin of a definition.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum DefinedBy {
    /// It has no definition yet.
    None,
    /// The administrator.
    Deployment,
    /// A plugin.
    Module,
}

/// The definition of a concept group.
#[derive(Debug, Serialize, Deserialize, ToSchema)]
pub struct Definition<'a> {
    /// The definition in words.
    pub text: Cow<'a, str>,
    /// The codes that belong to the group.
    pub include: Vec<Selection<'a>>,
    /// The codes of these that do not.
    pub exclude: Vec<Selection<'a>>,
}

/// Codes that a definition includes or excludes.
#[derive(Debug, Serialize, Deserialize, ToSchema)]
pub struct Selection<'a> {
    /// `<namespace>#<code>`
    pub uri: Cow<'a, str>,
    /// The code without its namespace.
    pub code: Cow<'a, str>,
    /// Its name, or the code where the vocabulary is not installed.
    pub display: Cow<'a, str>,
    /// The vocabulary.
    pub namespace: Cow<'a, str>,
    /// The language of the name.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub language: Option<Cow<'a, str>>,
    /// `true` where the name is in the default language because those that the client accepts have none.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub fallback: bool,
    /// `true` for a code that the administrator added.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub local: bool,
    /// True if all codes below it belong to the selection.
    pub descendants: bool,
}

/// A code of a group, whose vocabulary may be missing.
#[derive(Debug, Serialize, Deserialize, ToSchema)]
#[serde(untagged)]
pub enum GroupCode<'a> {
    /// A code of an installed vocabulary.
    Known(LabelledCode<'a>),
    /// A code of another.
    Bare(BareCode<'a>),
}

impl<'a> GroupCode<'a> {
    /// The same as part of a definition.
    #[must_use]
    pub fn selection(self, descendants: bool) -> Selection<'a> {
        match self {
            Self::Known(LabelledCode { uri, code, display, namespace, language, fallback, local }) => {
                Selection { uri, code, display, namespace, language: Some(language), fallback, local, descendants }
            }
            Self::Bare(BareCode { uri, code, display, namespace }) => {
                let (language, fallback, local) = (None, false, false);
                Selection { uri, code, display, namespace, language, fallback, local, descendants }
            }
        }
    }
}

/// A named group of codes with a page of them.
#[derive(Debug, Serialize, Deserialize, ToSchema)]
pub struct ExpandedConceptGroup<'a> {
    /// The group.
    #[serde(flatten)]
    pub group: ConceptGroup<'a>,
    /// A page of its codes.
    #[schema(schema_with = code_page)]
    pub expansion: Page<GroupCode<'a>>,
}

/// The component of the document for a page of [`GroupCode`].
fn code_page() -> Ref {
    Ref::from_schema_name("GroupCodePage")
}
