//! Which concepts are wanted: the roots and everything below them.

use std::collections::{HashMap, HashSet};

use super::code_of;
use super::graph::{Concept, Graph};
use crate::owner_files::input::Input;
use crate::owner_files::limits::CODES_MAX;
use crate::owner_files::problem::{ImportError, excerpt};

/// The wanted concepts.
#[derive(Debug)]
pub struct Scope {
    /// The concepts, in the order of the file.
    pub concepts: Vec<Concept>,
    held: HashSet<Concept>,
    /// Parents within the scope.
    parents: HashMap<Concept, Vec<Concept>>,
}

impl Scope {
    /// The closure of the roots; everything that the file calls a concept when there are none.
    ///
    /// # Errors
    /// A root is not in the file, or more is below the roots than a vocabulary takes.
    pub fn of(graph: &Graph, roots: &[String], input: &Input<'_>) -> Result<Self, ImportError> {
        let held = if roots.is_empty() {
            graph.concepts().filter(|concept| graph.is_concept(*concept)).collect()
        } else {
            below(graph, &find(graph, roots)?)
        };
        if held.is_empty() {
            return Err(input.unusable(None, "it holds no concept of SKOS: is this a thesaurus?"));
        }
        if held.len() > CODES_MAX {
            let reason = format_args!(
                "{} concepts are wanted; a vocabulary has at most {CODES_MAX}: take fewer with --root",
                held.len()
            );
            return Err(input.unusable(None, reason));
        }
        let mut parents: HashMap<Concept, Vec<Concept>> = HashMap::new();
        for (child, parent) in graph.links() {
            if held.contains(child) && held.contains(parent) {
                parents.entry(*child).or_default().push(*parent);
            }
        }
        Ok(Self { concepts: graph.concepts().filter(|concept| held.contains(concept)).collect(), held, parents })
    }

    /// Whether a concept is wanted.
    pub fn holds(&self, concept: Concept) -> bool {
        self.held.contains(&concept)
    }

    /// The nearest concepts above that are kept: a parent that is not is stood in for by its own parents.
    pub fn parents(&self, concept: Concept, is_kept: &impl Fn(&Concept) -> bool) -> Vec<Concept> {
        let direct = |concept: &Concept| self.parents.get(concept).map(Vec::as_slice).unwrap_or_default();
        let mut found = Vec::new();
        let mut seen = HashSet::new();
        let mut next: Vec<Concept> = direct(&concept).to_vec();
        while let Some(parent) = next.pop() {
            if !seen.insert(parent) {
                continue;
            }
            if is_kept(&parent) {
                found.push(parent);
            } else {
                next.extend_from_slice(direct(&parent));
            }
        }
        found
    }
}

/// The concepts that the roots name, by code or by IRI.
fn find(graph: &Graph, roots: &[String]) -> Result<Vec<Concept>, ImportError> {
    let by_code = |root: &str| graph.concepts().filter(|concept| code_of(graph.iri(*concept)) == root).collect();
    let mut found = Vec::new();
    for root in roots {
        let named: Vec<Concept> = graph.find(root).map_or_else(|| by_code(root), |concept| vec![concept]);
        match named.as_slice() {
            [concept] => found.push(*concept),
            [] => return Err(ImportError::option("--root", root, "the code or IRI of a concept of this file")),
            [first, second, ..] => {
                let (first, second) = (excerpt(graph.iri(*first)), excerpt(graph.iri(*second)));
                let wanted = format!("the code of one concept: write `{first}` or `{second}`");
                return Err(ImportError::option("--root", root, wanted));
            }
        }
    }
    Ok(found)
}

fn below(graph: &Graph, roots: &[Concept]) -> HashSet<Concept> {
    let mut children: HashMap<Concept, Vec<Concept>> = HashMap::new();
    for (child, parent) in graph.links() {
        children.entry(*parent).or_default().push(*child);
    }
    let mut held: HashSet<Concept> = HashSet::new();
    let mut next = roots.to_vec();
    while let Some(concept) = next.pop() {
        if held.insert(concept) {
            next.extend(children.get(&concept).map(Vec::as_slice).unwrap_or_default());
        }
    }
    held
}
