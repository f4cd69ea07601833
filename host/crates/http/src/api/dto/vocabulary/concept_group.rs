//! Bodies of concept groups.

use serde::Serialize;

use super::CodedBody;
use crate::api::conditional::LanguagesTold;
use daftar_domain::code::CodeUri;
use daftar_domain::vocabulary::Selection;
use daftar_service::vocabulary::{ConceptRef, DefinedBy, Generation, LanguagePreference, PublishedGroup};

/// A concept group without its codes.
#[derive(Debug, Serialize)]
pub struct GroupBody<'a> {
    name: &'a str,
    description: &'a str,
    defined_by: &'static str,
    /// The plugin whose pack defines it.
    #[serde(skip_serializing_if = "Option::is_none")]
    module: Option<&'a str>,
    /// Whether it includes nothing yet, so that nothing is known of any code.
    unset: bool,
    definition: DefinitionBody<'a>,
    code_count: usize,
    undecided_count: usize,
}

#[derive(Debug, Serialize)]
struct DefinitionBody<'a> {
    /// The definition in words.
    text: String,
    include: Vec<SelectionBody<'a>>,
    exclude: Vec<SelectionBody<'a>>,
}

#[derive(Debug, Serialize)]
struct SelectionBody<'a> {
    #[serde(flatten)]
    code: GroupCodeBody<'a>,
    /// Whether everything below the code is meant too.
    descendants: bool,
}

/// A code of a group, whose vocabulary may be gone.
#[derive(Debug, Serialize)]
#[serde(untagged)]
pub enum GroupCodeBody<'a> {
    /// A code of a vocabulary in force.
    Known(CodedBody<'a>),
    /// A code of which nothing is known but its name.
    Bare {
        /// `<namespace>#<code>`
        uri: String,
        /// The code.
        code: String,
        /// The code again: there is no label.
        display: String,
        /// The vocabulary.
        namespace: String,
    },
}

impl<'a> GroupCodeBody<'a> {
    /// A code as far as it is known.
    pub fn new(
        generation: &'a Generation,
        uri: &CodeUri,
        languages: &LanguagePreference,
        told: &mut LanguagesTold,
    ) -> Self {
        match known(generation, uri) {
            Some(concept) => Self::Known(CodedBody::new(concept, languages, told)),
            None => Self::Bare {
                uri: uri.to_string(),
                code: uri.code.to_string(),
                display: uri.code.to_string(),
                namespace: uri.namespace.to_string(),
            },
        }
    }
}

impl<'a> GroupBody<'a> {
    /// What is told of a group.
    pub fn new(
        generation: &'a Generation,
        group: &'a PublishedGroup,
        languages: &LanguagePreference,
        told: &mut LanguagesTold,
    ) -> Self {
        let definition = group.definition();
        let (defined_by, module) = match group.defined_by() {
            DefinedBy::Nobody => ("nobody", None),
            DefinedBy::Deployment => ("deployment", None),
            DefinedBy::Plugin(plugin) => ("module", Some(plugin.as_str())),
        };
        let mut selections = |selections: &[Selection]| -> Vec<SelectionBody<'a>> {
            let mut bodies = Vec::with_capacity(selections.len());
            for selection in selections {
                let (uri, descendants) = parts(selection);
                bodies.push(SelectionBody { code: GroupCodeBody::new(generation, uri, languages, told), descendants });
            }
            bodies
        };
        Self {
            name: &definition.name,
            description: &definition.description,
            defined_by,
            module,
            unset: group.is_unset(),
            definition: DefinitionBody {
                text: in_words(&definition.includes, &definition.excludes),
                include: selections(&definition.includes),
                exclude: selections(&definition.excludes),
            },
            code_count: group.member_count(),
            undecided_count: group.undecided_count(),
        }
    }
}

/// A concept group with a page of its codes.
#[derive(Debug, Serialize)]
pub struct ExpandedGroupBody<'a, E> {
    /// The group.
    #[serde(flatten)]
    pub group: GroupBody<'a>,
    /// A page of its codes.
    pub expansion: E,
}

fn parts(selection: &Selection) -> (&CodeUri, bool) {
    match selection {
        Selection::Code(uri) => (uri, false),
        Selection::DescendantsOf(uri) => (uri, true),
    }
}

/// How many selections are put into words; the lists hold all.
const SELECTIONS_TOLD_MAX: usize = 20;

/// `descendants of urn:a#1 and urn:a#2, except urn:a#11`
fn in_words(includes: &[Selection], excludes: &[Selection]) -> String {
    let words = |selections: &[Selection]| {
        let one = |selection: &Selection| match parts(selection) {
            (uri, true) => format!("descendants of {uri} and itself"),
            (uri, false) => uri.to_string(),
        };
        let told: Vec<String> = selections.iter().take(SELECTIONS_TOLD_MAX).map(one).collect();
        let untold = selections.len().saturating_sub(SELECTIONS_TOLD_MAX);
        let more = if untold > 0 { format!(" and {untold} more") } else { String::new() };
        told.join("; ") + &more
    };
    match (includes, excludes) {
        ([], _) => "nothing yet".to_owned(),
        (includes, []) => words(includes),
        (includes, excludes) => format!("{} except {}", words(includes), words(excludes)),
    }
}

fn known<'g>(generation: &'g Generation, uri: &CodeUri) -> Option<ConceptRef<'g>> {
    generation.vocabulary(&uri.namespace)?.find(uri.code.as_str())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn says_a_definition_in_words() {
        let uri = |text: &str| CodeUri::parse(text).unwrap();
        let includes = [Selection::DescendantsOf(uri("urn:a#6")), Selection::Code(uri("urn:a#92"))];
        let excludes = [Selection::Code(uri("urn:a#63"))];
        assert_eq!(in_words(&includes, &excludes), "descendants of urn:a#6 and itself; urn:a#92 except urn:a#63");
        assert_eq!(in_words(&includes[1..], &[]), "urn:a#92");
        assert_eq!(in_words(&[], &excludes), "nothing yet");
        let many = vec![Selection::Code(uri("urn:a#1")); SELECTIONS_TOLD_MAX + 2];
        assert!(in_words(&many, &[]).ends_with("urn:a#1 and 2 more"));
    }
}
