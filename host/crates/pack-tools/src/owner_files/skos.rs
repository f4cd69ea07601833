//! SKOS and SKOS-XL thesauri, of any size: the graph is never built.
//!
//! The first pass keeps which concept is below which, and which node holds whose preferred label (SKOS-XL puts the text on a
//! node of its own, before or after the concept). Then it is known which concepts are wanted: the roots and everything below
//! them. The second pass takes the labels of those, in the wanted languages.
//!
//! A concept may have several parents. Those that are not below the roots are left away; the primary one is the lowest by its
//! code, shorter codes first.

mod graph;
mod labels;
mod scope;

use std::collections::{BTreeMap, HashMap};

use crate::owner_files::draft::{DraftCode, DraftCompleteness, DraftHierarchy, DraftLabel, DraftPack, DraftVocabulary};
use crate::owner_files::input::Input;
use crate::owner_files::owner::{self, Owner};
use crate::owner_files::problem::ImportError;
use crate::owner_files::rdf::Syntax;
use crate::owner_files::tally::Tally;
use crate::owner_files::{ImportOptions, plain_tsv};
use graph::{Concept, Graph};
use scope::Scope;

/// What the IRIs of AGROVOC begin with.
const AGROVOC: &str = "http://aims.fao.org/aos/agrovoc/";

/// The languages of AGROVOC that FAO's licence covers.
const AGROVOC_LANGUAGES: [&str; 6] = ["en", "fr", "es", "ar", "ru", "zh"];

/// Reads a thesaurus.
///
/// # Errors
/// It is not RDF, has no concepts, lacks a root, or cannot be read on.
pub fn read(
    input: &mut Input<'_>,
    syntax: Syntax,
    options: &ImportOptions,
    tally: &mut Tally,
) -> Result<DraftPack, ImportError> {
    let mut graph = Graph::read(input, syntax, tally)?;
    let scope = Scope::of(&graph, &options.roots, input)?;
    let is_agrovoc = scope.concepts.iter().any(|concept| graph.iri(*concept).starts_with(AGROVOC));
    let languages = languages(options, is_agrovoc);
    let labels = labels::read(input, syntax, &mut graph, &scope, &languages, tally)?;
    let codes = codes(&graph, &scope, labels, &languages, tally);
    let edition = graph.edition();
    draft(codes, languages, edition, is_agrovoc, input, options)
}

fn languages(options: &ImportOptions, is_agrovoc: bool) -> Vec<String> {
    if !options.languages.is_empty() {
        options.languages.clone()
    } else if is_agrovoc {
        AGROVOC_LANGUAGES.map(str::to_owned).to_vec()
    } else {
        vec!["en".to_owned()]
    }
}

/// The code of a concept: the last part of its IRI.
fn code_of(iri: &str) -> &str {
    iri.rsplit(['/', '#']).next().unwrap_or(iri)
}

/// The codes of the scope that have a label in the default language, the lowest first.
fn codes(
    graph: &Graph,
    scope: &Scope,
    mut labels: HashMap<Concept, BTreeMap<String, String>>,
    languages: &[String],
    tally: &mut Tally,
) -> Vec<DraftCode> {
    let default_language = languages.first().map_or("en", String::as_str);
    let is_labelled =
        |concept: &Concept| labels.get(concept).is_some_and(|labels| labels.contains_key(default_language));
    let parents: Vec<(Concept, Vec<Concept>)> = scope
        .concepts
        .iter()
        .filter(|concept| {
            let is_labelled = is_labelled(concept);
            if !is_labelled {
                tally.leave_out(&format!(
                    "a concept without a label in `{default_language}`; what is below it moves up"
                ));
            }
            is_labelled
        })
        .map(|concept| (*concept, scope.parents(*concept, &is_labelled)))
        .collect();
    let rank = |concept: &Concept| {
        let code = code_of(graph.iri(*concept));
        (code.len(), code)
    };
    let mut codes = Vec::with_capacity(parents.len());
    for (concept, mut above) in parents {
        above.sort_by_key(rank);
        let iri = graph.iri(concept);
        let mut code = DraftCode::new(code_of(iri), graph.line(concept));
        code.parents = above.iter().map(|parent| code_of(graph.iri(*parent)).to_owned()).collect();
        code.uri = Some(iri.to_owned());
        code.is_active = !graph.is_deprecated(concept);
        code.replaced_by = graph
            .successor(concept)
            .filter(|successor| !code.is_active && scope.holds(*successor))
            .map(|successor| code_of(graph.iri(successor)).to_owned());
        let mut texts = labels.remove(&concept).unwrap_or_default();
        let in_order = languages.iter().filter_map(|language| texts.remove_entry(language));
        code.labels =
            in_order.map(|(language, text)| DraftLabel { language, text, definition: String::new() }).collect();
        codes.push(code);
    }
    codes.sort_by(|one, other| (one.code.len(), &one.code).cmp(&(other.code.len(), &other.code)));
    codes
}

fn draft(
    codes: Vec<DraftCode>,
    languages: Vec<String>,
    edition: Option<String>,
    is_agrovoc: bool,
    input: &Input<'_>,
    options: &ImportOptions,
) -> Result<DraftPack, ImportError> {
    let edition = match (&options.about.edition, edition) {
        (Some(edition), _) => edition.clone(),
        (None, Some(edition)) => edition,
        // Two dumps without a version must not look like one.
        (None, None) => format!("sha256-{}", input.digest()?.chars().take(12).collect::<String>()),
    };
    let (owner, namespace, name, domain, table) = if is_agrovoc {
        let owner = owner::agrovoc(&edition);
        (owner, "urn:fao:agrovoc".to_owned(), "AGROVOC".to_owned(), "Agriculture".to_owned(), "agrovoc".to_owned())
    } else {
        let said = plain_tsv::required(options, "a thesaurus that is not AGROVOC", &edition)?;
        (said.owner, said.namespace, said.name, said.domain, said.table)
    };
    let source = match options.roots.as_slice() {
        [] => owner.source.clone(),
        roots => format!("{}: {} and what is below", owner.source, roots.join(", ")),
    };
    let vocabulary = DraftVocabulary {
        namespace,
        name,
        domain,
        edition,
        source: if source.len() <= 1_000 { source } else { owner.source.clone() },
        table,
        languages,
        completeness: DraftCompleteness::Full,
        hierarchy: DraftHierarchy::Parents,
        codes,
    };
    let owner: Owner = owner;
    Ok(DraftPack::of(owner, vec![vocabulary]))
}
