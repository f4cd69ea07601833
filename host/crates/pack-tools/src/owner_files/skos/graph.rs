//! The first pass: which concept is below which, and which node holds whose label.
//!
//! **Invariant:** what is kept is bounded by numbers of nodes, links and bytes, not by the file's size.

use std::collections::{BTreeMap, HashMap};

use crate::owner_files::about::is_sound_text;
use crate::owner_files::input::Input;
use crate::owner_files::limits::{LINKS_MAX, NODES_MAX, TEXT_BYTES_MAX};
use crate::owner_files::problem::ImportError;
use crate::owner_files::rdf::{self, Node, Object, Statement, Syntax};
use crate::owner_files::tally::Tally;

const TYPE: &str = "http://www.w3.org/1999/02/22-rdf-syntax-ns#type";
const CONCEPT: &str = "http://www.w3.org/2004/02/skos/core#Concept";
const BROADER: &str = "http://www.w3.org/2004/02/skos/core#broader";
const NARROWER: &str = "http://www.w3.org/2004/02/skos/core#narrower";
const XL_PREFERRED: &str = "http://www.w3.org/2008/05/skos-xl#prefLabel";
const DEPRECATED: &str = "http://www.w3.org/2002/07/owl#deprecated";
const VERSION: &str = "http://www.w3.org/2002/07/owl#versionInfo";
const REPLACED_BY: [&str; 2] = ["http://purl.org/dc/terms/isReplacedBy", "http://www.w3.org/2002/07/owl#isReplacedBy"];

/// How many statements of a version are kept.
const VERSIONS_MAX: usize = 16;

/// A concept, by the order in which the file names it first.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Concept(u32);

/// A node that holds a label, by a hash of its name: there are a million of them, and most are not wanted.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct LabelNode(u128);

/// What the first pass keeps.
#[derive(Debug, Default)]
pub struct Graph {
    index: HashMap<Box<str>, Concept>,
    nodes: Vec<NamedConcept>,
    /// Child and parent.
    links: Vec<(Concept, Concept)>,
    /// Labels of SKOS-XL and whose they are.
    label_nodes: Vec<(LabelNode, Concept)>,
    successors: BTreeMap<Concept, Concept>,
    versions: BTreeMap<String, String>,
    text_bytes: usize,
}

#[derive(Debug)]
struct NamedConcept {
    iri: Box<str>,
    line: Option<u64>,
    is_concept: bool,
    is_deprecated: bool,
}

/// Nodes that hold labels, each with the concepts whose label it is, in order.
#[derive(Debug, Default)]
pub struct LabelNodes(Vec<(LabelNode, Concept)>);

impl LabelNodes {
    /// The concepts of a node, each once.
    pub fn concepts(&self, node: LabelNode) -> impl Iterator<Item = Concept> {
        let first = self.0.partition_point(|(other, _)| *other < node);
        let from = self.0.get(first..).unwrap_or_default();
        from.iter().take_while(move |(other, _)| *other == node).map(|(_, concept)| *concept)
    }
}

impl LabelNode {
    pub fn of(node: Node<'_>) -> Self {
        Self(rdf::fingerprint(node))
    }
}

impl Graph {
    /// Reads the file once.
    ///
    /// # Errors
    /// It cannot be read on, or holds more than is kept.
    pub fn read(input: &Input<'_>, syntax: Syntax, tally: &mut Tally) -> Result<Self, ImportError> {
        let mut graph = Self::default();
        rdf::read(input, syntax, tally, |statement, _| {
            graph.add(statement);
            graph.check_bounds(input)
        })?;
        graph.links.sort_unstable();
        graph.links.dedup();
        Ok(graph)
    }

    fn add(&mut self, statement: Statement<'_>) {
        let Node::Iri(subject) = statement.subject else { return };
        let line = statement.line;
        match (statement.predicate, statement.object) {
            (TYPE, Object::Node(Node::Iri(CONCEPT))) => {
                let concept = self.concept(subject, line);
                if let Some(node) = self.node_mut(concept) {
                    node.is_concept = true;
                }
            }
            (BROADER, Object::Node(Node::Iri(object))) => {
                let link = (self.concept(subject, line), self.concept(object, line));
                self.links.push(link);
            }
            (NARROWER, Object::Node(Node::Iri(object))) => {
                let link = (self.concept(object, line), self.concept(subject, line));
                self.links.push(link);
            }
            (XL_PREFERRED, Object::Node(label)) => {
                let concept = self.concept(subject, line);
                self.label_nodes.push((LabelNode::of(label), concept));
            }
            (DEPRECATED, Object::Text("true" | "1", _)) => {
                let concept = self.concept(subject, line);
                if let Some(node) = self.node_mut(concept) {
                    node.is_deprecated = true;
                }
            }
            (VERSION, Object::Text(text, _)) if is_sound_text(text) && self.versions.len() < VERSIONS_MAX => {
                self.versions.insert(subject.to_owned(), text.to_owned());
            }
            (predicate, Object::Node(Node::Iri(object))) if REPLACED_BY.contains(&predicate) => {
                let (concept, successor) = (self.concept(subject, line), self.concept(object, line));
                self.successors.insert(concept, successor);
            }
            _ => {}
        }
    }

    fn concept(&mut self, iri: &str, line: Option<u64>) -> Concept {
        if let Some(concept) = self.index.get(iri) {
            return *concept;
        }
        let concept = Concept(u32::try_from(self.nodes.len()).unwrap_or(u32::MAX));
        self.text_bytes = self.text_bytes.saturating_add(2 * iri.len());
        self.index.insert(iri.into(), concept);
        self.nodes.push(NamedConcept { iri: iri.into(), line, is_concept: false, is_deprecated: false });
        concept
    }

    fn check_bounds(&self, input: &Input<'_>) -> Result<(), ImportError> {
        let links = self.links.len() + self.label_nodes.len() + self.successors.len();
        for (what, count, max) in [
            ("concepts", self.nodes.len(), NODES_MAX),
            ("links", links, LINKS_MAX),
            ("bytes of IRIs", self.text_bytes, TEXT_BYTES_MAX),
        ] {
            if count > max {
                return Err(input.unusable(None, format_args!("the thesaurus has more than {max} {what}")));
            }
        }
        Ok(())
    }

    fn node(&self, concept: Concept) -> Option<&NamedConcept> {
        self.nodes.get(usize::try_from(concept.0).ok()?)
    }

    fn node_mut(&mut self, concept: Concept) -> Option<&mut NamedConcept> {
        self.nodes.get_mut(usize::try_from(concept.0).ok()?)
    }

    /// Everything that was named, in the order of the file.
    pub fn concepts(&self) -> impl Iterator<Item = Concept> {
        (0..self.nodes.len()).filter_map(|index| u32::try_from(index).ok()).map(Concept)
    }

    /// Whether the file calls it a concept.
    pub fn is_concept(&self, concept: Concept) -> bool {
        self.node(concept).is_some_and(|node| node.is_concept)
    }

    /// The concept of an IRI.
    pub fn find(&self, iri: &str) -> Option<Concept> {
        self.index.get(iri).copied()
    }

    /// The IRI of a concept.
    pub fn iri(&self, concept: Concept) -> &str {
        self.node(concept).map_or("", |node| &node.iri)
    }

    /// The line that names a concept first.
    pub fn line(&self, concept: Concept) -> Option<u64> {
        self.node(concept).and_then(|node| node.line)
    }

    /// Whether the owner keeps it for old records only.
    pub fn is_deprecated(&self, concept: Concept) -> bool {
        self.node(concept).is_some_and(|node| node.is_deprecated)
    }

    /// What replaces a concept.
    pub fn successor(&self, concept: Concept) -> Option<Concept> {
        self.successors.get(&concept).copied()
    }

    /// Children with their parents, each once, in order.
    pub fn links(&self) -> &[(Concept, Concept)] {
        &self.links
    }

    /// Takes the nodes that hold labels of some concepts, with all the concepts that each is a label of.
    pub fn take_label_nodes(&mut self, holds: impl Fn(Concept) -> bool) -> LabelNodes {
        let mut nodes = std::mem::take(&mut self.label_nodes);
        nodes.retain(|(_, concept)| holds(*concept));
        nodes.sort_unstable();
        nodes.dedup();
        LabelNodes(nodes)
    }

    /// The version that the file states, when it states one only.
    pub fn edition(&self) -> Option<String> {
        let mut versions: Vec<&String> = self.versions.values().collect();
        versions.dedup();
        match versions.as_slice() {
            [version] => Some((*version).clone()),
            _ => None,
        }
    }
}
