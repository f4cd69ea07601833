//! The second pass: the labels of the wanted concepts in the wanted languages.

use std::collections::{BTreeMap, HashMap};

use super::code_of;
use super::graph::{Concept, Graph, LabelNode, LabelNodes};
use super::scope::Scope;
use crate::owner_files::input::Input;
use crate::owner_files::limits::{LINKS_MAX, TEXT_BYTES_MAX};
use crate::owner_files::problem::{ImportError, excerpt};
use crate::owner_files::rdf::{self, Node, Object, Statement, Syntax};
use crate::owner_files::tally::Tally;

const PREFERRED: &str = "http://www.w3.org/2004/02/skos/core#prefLabel";
const XL_FORM: &str = "http://www.w3.org/2008/05/skos-xl#literalForm";

/// Reads the file a second time.
///
/// # Errors
/// It cannot be read on, or the labels are too many to be kept.
pub fn read(
    input: &Input<'_>,
    syntax: Syntax,
    graph: &mut Graph,
    scope: &Scope,
    languages: &[String],
    tally: &mut Tally,
) -> Result<HashMap<Concept, BTreeMap<String, String>>, ImportError> {
    let label_nodes = graph.take_label_nodes(|concept| scope.holds(concept));
    let graph = &*graph;
    let mut labels: HashMap<Concept, BTreeMap<String, String>> = HashMap::new();
    let (mut bytes, mut given) = (0usize, 0usize);
    // What cannot be read was refused in the first pass, and the triples were counted there.
    let mut again = Tally::of(input, true);
    rdf::read(input, syntax, &mut again, |statement, _| {
        let Object::Text(text, Some(language)) = statement.object else { return Ok(()) };
        let Some(language) = languages.iter().find(|wanted| wanted.eq_ignore_ascii_case(language)) else {
            return Ok(());
        };
        for concept in labelled(&statement, graph, scope, &label_nodes) {
            // Within the loop: one node may be the label of as many concepts as there are links, and have as many texts.
            tally.check_on()?;
            given += 1;
            if given > LINKS_MAX {
                return Err(input.unusable(None, format_args!("it gives more than {LINKS_MAX} labels")));
            }
            let code = code_of(graph.iri(concept));
            let Some(text) = tally.text(text).filter(|text| !text.is_empty()) else {
                tally.refuse(statement.line, Some(code), "its label is empty or holds a control character");
                continue;
            };
            let known = labels.entry(concept).or_default();
            match known.get(language) {
                Some(other) if *other != text => {
                    let (first, second) = (excerpt(other), excerpt(&text));
                    let reason = format!("it has two preferred labels in `{language}`: `{first}` and `{second}`");
                    tally.refuse(statement.line, Some(code), reason);
                }
                Some(_) => {}
                None => {
                    bytes = bytes.saturating_add(text.len());
                    known.insert(language.clone(), text);
                }
            }
            if bytes > TEXT_BYTES_MAX {
                return Err(input.unusable(None, format_args!("its labels have more than {TEXT_BYTES_MAX} bytes")));
            }
        }
        Ok(())
    })?;
    Ok(labels)
}

/// Whose label a statement gives: of one concept, or of all that share a node of SKOS-XL.
fn labelled(
    statement: &Statement<'_>,
    graph: &Graph,
    scope: &Scope,
    label_nodes: &LabelNodes,
) -> impl Iterator<Item = Concept> {
    let (own, node) = match (statement.predicate, statement.subject) {
        (PREFERRED, Node::Iri(subject)) => (graph.find(subject).filter(|concept| scope.holds(*concept)), None),
        (XL_FORM, subject) => (None, Some(LabelNode::of(subject))),
        _ => (None, None),
    };
    own.into_iter().chain(node.into_iter().flat_map(move |node| label_nodes.concepts(node)))
}
