//! The second pass: the labels of the wanted concepts in the wanted languages.

use std::collections::{BTreeMap, HashMap};

use super::code_of;
use super::graph::{Concept, Graph, LabelNode};
use super::scope::Scope;
use crate::owner_files::input::Input;
use crate::owner_files::limits::TEXT_BYTES_MAX;
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
    let mut bytes = 0usize;
    // What cannot be read was refused in the first pass, and the triples were counted there.
    let mut again = Tally::of(input, true);
    rdf::read(input, syntax, &mut again, |statement, _| {
        let Some((concept, text, language)) = label(&statement, graph, scope, &label_nodes) else { return Ok(()) };
        let Some(language) = languages.iter().find(|wanted| wanted.eq_ignore_ascii_case(language)) else {
            return Ok(());
        };
        let code = code_of(graph.iri(concept));
        let Some(text) = tally.text(text).filter(|text| !text.is_empty()) else {
            tally.refuse(statement.line, Some(code), "its label is empty or holds a control character");
            return Ok(());
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
        Ok(())
    })?;
    Ok(labels)
}

/// Whose label a statement gives, the label and its language.
fn label<'a>(
    statement: &Statement<'a>,
    graph: &Graph,
    scope: &Scope,
    label_nodes: &HashMap<LabelNode, Concept>,
) -> Option<(Concept, &'a str, &'a str)> {
    let Object::Text(text, Some(language)) = statement.object else { return None };
    let concept = match (statement.predicate, statement.subject) {
        (PREFERRED, Node::Iri(subject)) => graph.find(subject).filter(|concept| scope.holds(*concept))?,
        (XL_FORM, subject) => *label_nodes.get(&LabelNode::of(subject))?,
        _ => return None,
    };
    Some((concept, text, language))
}
