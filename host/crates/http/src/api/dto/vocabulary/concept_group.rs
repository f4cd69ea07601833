//! Responses about concept groups.

use std::borrow::Cow;

use daftar_api_types::public::concept_group as body;
use daftar_api_types::public::vocabulary::BareCode;

use super::labelled;
use crate::api::conditional::LanguagesTold;
use daftar_domain::code::CodeUri;
use daftar_domain::vocabulary::Selection;
use daftar_service::vocabulary::{ConceptRef, DefinedBy, Generation, LanguagePreference, PublishedGroup};

/// A code of a group, as far as it is known: its vocabulary may be missing.
pub fn code<'a>(
    generation: &'a Generation,
    uri: &CodeUri,
    languages: &LanguagePreference,
    told: &mut LanguagesTold,
) -> body::GroupCode<'a> {
    match known(generation, uri) {
        Some(concept) => body::GroupCode::Known(labelled(concept, languages, told)),
        None => body::GroupCode::Bare(BareCode {
            uri: Cow::Owned(uri.to_string()),
            code: Cow::Owned(uri.code.to_string()),
            display: Cow::Owned(uri.code.to_string()),
            namespace: Cow::Owned(uri.namespace.to_string()),
        }),
    }
}

/// A group without its codes.
pub fn group<'a>(
    generation: &'a Generation,
    group: &'a PublishedGroup,
    languages: &LanguagePreference,
    told: &mut LanguagesTold,
) -> body::ConceptGroup<'a> {
    let definition = group.definition();
    let (defined_by, module) = match group.defined_by() {
        DefinedBy::Nobody => (body::DefinedBy::Nobody, None),
        DefinedBy::Deployment => (body::DefinedBy::Deployment, None),
        DefinedBy::Plugin(plugin) => (body::DefinedBy::Module, Some(Cow::Borrowed(plugin.as_str()))),
    };
    let mut selections = |selections: &[Selection]| -> Vec<body::Selection<'a>> {
        let mut bodies = Vec::with_capacity(selections.len());
        for selection in selections {
            let (uri, descendants) = parts(selection);
            bodies.push(code(generation, uri, languages, told).selection(descendants));
        }
        bodies
    };
    body::ConceptGroup {
        name: Cow::Borrowed(&definition.name),
        description: Cow::Borrowed(&definition.description),
        defined_by,
        module,
        unset: group.is_unset(),
        definition: body::Definition {
            text: Cow::Owned(in_words(&definition.includes, &definition.excludes)),
            include: selections(&definition.includes),
            exclude: selections(&definition.excludes),
        },
        code_count: group.member_count(),
        undecided_count: group.undecided_count(),
    }
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
