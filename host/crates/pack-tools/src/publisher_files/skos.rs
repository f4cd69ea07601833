//! SKOS and SKOS-XL thesauri of any size: no graph is built.
//!
//! The first pass records the parents of each concept, and the nodes of preferred labels (in SKOS-XL the text is on a
//! separate node, before or after the concept). This determines the selected concepts: the roots and their descendants.
//! The second pass reads their labels in the requested languages.
//!
//! A concept may have several parents. Parents outside the selection are removed; the primary parent is the lowest by
//! code, shorter codes first.
//!
//! **Invariant:** memory is limited by the numbers of nodes, links and bytes, not by the file's size.

use std::collections::{BTreeMap, HashMap, HashSet};

use crate::publisher_files::ImportOptions;
use crate::publisher_files::counts::Counts;
use crate::publisher_files::draft::{DraftCode, DraftLabel, DraftPack};
use crate::publisher_files::input::Input;
use crate::publisher_files::plain_tsv;
use crate::publisher_files::problem::{ImportError, excerpt};
use crate::publisher_files::publications;
use crate::publisher_files::rdf::{self, Node, Object, Statement, Syntax};
use crate::source_rules::{CODES_MAX, is_text};

const TYPE: &str = "http://www.w3.org/1999/02/22-rdf-syntax-ns#type";
const CONCEPT: &str = "http://www.w3.org/2004/02/skos/core#Concept";
const BROADER: &str = "http://www.w3.org/2004/02/skos/core#broader";
const NARROWER: &str = "http://www.w3.org/2004/02/skos/core#narrower";
const PREFERRED: &str = "http://www.w3.org/2004/02/skos/core#prefLabel";
const XL_PREFERRED: &str = "http://www.w3.org/2008/05/skos-xl#prefLabel";
const XL_FORM: &str = "http://www.w3.org/2008/05/skos-xl#literalForm";
const DEPRECATED: &str = "http://www.w3.org/2002/07/owl#deprecated";
const VERSION: &str = "http://www.w3.org/2002/07/owl#versionInfo";
const REPLACED_BY: [&str; 2] = ["http://purl.org/dc/terms/isReplacedBy", "http://www.w3.org/2002/07/owl#isReplacedBy"];

/// The most concepts and label nodes of one thesaurus. AGROVOC has 42,000 and 1.2 million.
const NODES_MAX: usize = 8_000_000;

/// The most links between them. AGROVOC has 1.3 million.
const LINKS_MAX: usize = 16_000_000;

/// The most bytes of IRIs and labels in memory.
const TEXT_BYTES_MAX: usize = 512 << 20;

/// The most version statements in memory.
const VERSIONS_MAX: usize = 16;

/// The prefix of AGROVOC's IRIs.
const AGROVOC: &str = "http://aims.fao.org/aos/agrovoc/";

/// The languages of AGROVOC that FAO's licence covers.
const AGROVOC_LANGUAGES: [&str; 6] = ["en", "fr", "es", "ar", "ru", "zh"];

/// The labels of concepts by language.
type Labels = HashMap<Concept, BTreeMap<String, String>>;

/// Reads a thesaurus.
///
/// # Errors
/// It is not RDF, has no concepts, lacks a root, or cannot be read on.
pub fn read(
    input: &Input<'_>,
    syntax: Syntax,
    options: &ImportOptions,
    counts: &mut Counts,
) -> Result<DraftPack, ImportError> {
    let mut graph = Graph::read(input, syntax, counts)?;
    let scope = Scope::of(&graph, &options.roots, input)?;
    let is_agrovoc = scope.concepts.iter().any(|concept| graph.iri(*concept).starts_with(AGROVOC));
    let languages = if !options.languages.is_empty() {
        options.languages.clone()
    } else if is_agrovoc {
        AGROVOC_LANGUAGES.map(str::to_owned).to_vec()
    } else {
        vec!["en".to_owned()]
    };
    let labels = read_labels(input, syntax, &mut graph, &scope, &languages, counts)?;
    let codes = codes(&graph, &scope, labels, &languages, counts);
    let edition = input.edition(options.about.edition.clone().or_else(|| graph.edition()))?;
    let mut pack = if is_agrovoc {
        publications::AGROVOC.pack(edition, codes)
    } else {
        plain_tsv::unknown_list(options, "a thesaurus that is not AGROVOC", edition, codes)?
    };
    let below = format!("{}: {} and descendants", pack.source, options.roots.join(", "));
    for vocabulary in &mut pack.vocabularies {
        vocabulary.languages.clone_from(&languages);
        if !options.roots.is_empty() && below.len() <= 1_000 {
            vocabulary.source.clone_from(&below);
        }
    }
    Ok(pack)
}

/// The code of a concept: the last segment of its IRI.
fn code_of(iri: &str) -> &str {
    iri.rsplit(['/', '#']).next().unwrap_or(iri)
}

/// The codes of the scope that have a label in the default language, sorted.
fn codes(
    graph: &Graph,
    scope: &Scope,
    mut labels: Labels,
    languages: &[String],
    counts: &mut Counts,
) -> Vec<DraftCode> {
    let default_language = languages.first().map_or("en", String::as_str);
    let is_labelled =
        |concept: &Concept| labels.get(concept).is_some_and(|labels| labels.contains_key(default_language));
    let mut parents: Vec<(Concept, Vec<Concept>)> = Vec::new();
    for concept in &scope.concepts {
        if is_labelled(concept) {
            parents.push((*concept, scope.parents(*concept, &is_labelled)));
        } else {
            counts.leave_out(&format!("a concept without a label in `{default_language}`; its descendants move up"));
        }
    }
    let rank = |concept: &Concept| {
        let code = code_of(graph.iri(*concept));
        (code.len(), code)
    };
    let mut codes = Vec::with_capacity(parents.len());
    for (concept, mut above) in parents {
        let Some(node) = graph.node(concept) else { continue };
        above.sort_by_key(rank);
        let mut code = DraftCode::new(code_of(&node.iri), node.line);
        code.parents = above.iter().map(|parent| code_of(graph.iri(*parent)).to_owned()).collect();
        code.uri = Some(node.iri.to_string());
        code.is_active = !node.is_deprecated;
        let successor = graph.successors.get(&concept).filter(|successor| !code.is_active && scope.holds(**successor));
        code.replaced_by = successor.map(|successor| code_of(graph.iri(*successor)).to_owned());
        let mut texts = labels.remove(&concept).unwrap_or_default();
        let in_order = languages.iter().filter_map(|language| texts.remove_entry(language));
        code.labels =
            in_order.map(|(language, text)| DraftLabel { language, text, definition: String::new() }).collect();
        codes.push(code);
    }
    codes.sort_by(|one, other| (one.code.len(), &one.code).cmp(&(other.code.len(), &other.code)));
    codes
}

/// A concept, numbered by first occurrence in the file.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
struct Concept(u32);

/// A label node, by a hash of its name: there are a million of them, and most are not selected.
type LabelNode = u128;

/// The result of the first pass: the parents of concepts, and the nodes of their labels.
#[derive(Debug, Default)]
struct Graph {
    index: HashMap<Box<str>, Concept>,
    nodes: Vec<NamedConcept>,
    /// Pairs of child and parent, unique and sorted.
    links: Vec<(Concept, Concept)>,
    /// Label nodes of SKOS-XL and their concepts.
    label_nodes: Vec<(LabelNode, Concept)>,
    successors: BTreeMap<Concept, Concept>,
    versions: BTreeMap<String, String>,
    text_bytes: usize,
}

#[derive(Debug)]
struct NamedConcept {
    iri: Box<str>,
    /// The line of its first occurrence.
    line: Option<u64>,
    /// True if the file declares it as a concept.
    is_concept: bool,
    /// True if the publisher has deprecated it.
    is_deprecated: bool,
}

impl Graph {
    /// Reads the file once.
    ///
    /// # Errors
    /// Reading failed, or a limit is exceeded.
    fn read(input: &Input<'_>, syntax: Syntax, counts: &mut Counts) -> Result<Self, ImportError> {
        let mut graph = Self::default();
        rdf::read(input, syntax, counts, |statement| {
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
                self.note(subject, line, |node| node.is_concept = true);
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
                self.label_nodes.push((rdf::fingerprint(label), concept));
            }
            (DEPRECATED, Object::Text("true" | "1", _)) => {
                self.note(subject, line, |node| node.is_deprecated = true);
            }
            (VERSION, Object::Text(text, _)) if is_text(text) && self.versions.len() < VERSIONS_MAX => {
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

    /// Records a property of a concept.
    fn note(&mut self, iri: &str, line: Option<u64>, note: impl FnOnce(&mut NamedConcept)) {
        let concept = self.concept(iri, line);
        if let Some(node) = usize::try_from(concept.0).ok().and_then(|index| self.nodes.get_mut(index)) {
            note(node);
        }
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

    /// All named concepts, in the order of the file.
    fn concepts(&self) -> impl Iterator<Item = (Concept, &NamedConcept)> {
        (0..).map(Concept).zip(&self.nodes)
    }

    /// The IRI of a concept.
    fn iri(&self, concept: Concept) -> &str {
        self.node(concept).map_or("", |node| &node.iri)
    }

    /// Takes the label nodes of some concepts, sorted.
    fn take_label_nodes(&mut self, holds: impl Fn(Concept) -> bool) -> Vec<(LabelNode, Concept)> {
        let mut nodes = std::mem::take(&mut self.label_nodes);
        nodes.retain(|(_, concept)| holds(*concept));
        nodes.sort_unstable();
        nodes.dedup();
        nodes
    }

    /// The version that the file states, if it states exactly one.
    fn edition(&self) -> Option<String> {
        let mut versions: Vec<&String> = self.versions.values().collect();
        versions.dedup();
        match versions.as_slice() {
            [version] => Some((*version).clone()),
            _ => None,
        }
    }
}

/// The selected concepts.
#[derive(Debug)]
struct Scope {
    /// The concepts, in the order of the file.
    concepts: Vec<Concept>,
    held: HashSet<Concept>,
    /// Parents within the selection.
    parents: HashMap<Concept, Vec<Concept>>,
}

impl Scope {
    /// The closure of the roots; without roots, all declared concepts.
    ///
    /// # Errors
    /// A root is not in the file, or the selection exceeds the limit of a vocabulary.
    fn of(graph: &Graph, roots: &[String], input: &Input<'_>) -> Result<Self, ImportError> {
        let held = if roots.is_empty() {
            graph.concepts().filter(|(_, node)| node.is_concept).map(|(concept, _)| concept).collect()
        } else {
            below(graph, &find(graph, roots)?)
        };
        if held.is_empty() {
            return Err(input.unusable(None, "it contains no SKOS concept: is this a thesaurus?"));
        }
        if held.len() > CODES_MAX {
            let reason = format_args!(
                "{} concepts are selected; a vocabulary has at most {CODES_MAX}: select fewer with --root",
                held.len()
            );
            return Err(input.unusable(None, reason));
        }
        let mut parents: HashMap<Concept, Vec<Concept>> = HashMap::new();
        for (child, parent) in &graph.links {
            if held.contains(child) && held.contains(parent) {
                parents.entry(*child).or_default().push(*parent);
            }
        }
        let concepts = graph.concepts().map(|(concept, _)| concept).filter(|concept| held.contains(concept));
        Ok(Self { concepts: concepts.collect(), held, parents })
    }

    /// Returns true if a concept is selected.
    fn holds(&self, concept: Concept) -> bool {
        self.held.contains(&concept)
    }

    /// The closest selected ancestors: an unselected parent is replaced by its own parents.
    fn parents(&self, concept: Concept, is_stored: &impl Fn(&Concept) -> bool) -> Vec<Concept> {
        let direct = |concept: &Concept| self.parents.get(concept).map(Vec::as_slice).unwrap_or_default();
        let mut found = Vec::new();
        let mut seen = HashSet::new();
        let mut next: Vec<Concept> = direct(&concept).to_vec();
        while let Some(parent) = next.pop() {
            if !seen.insert(parent) {
                continue;
            }
            if is_stored(&parent) {
                found.push(parent);
            } else {
                next.extend_from_slice(direct(&parent));
            }
        }
        found
    }
}

/// The concepts of the roots, by code or by IRI.
fn find(graph: &Graph, roots: &[String]) -> Result<Vec<Concept>, ImportError> {
    let mut found = Vec::new();
    for root in roots {
        let by_code = || graph.concepts().filter(|(_, node)| code_of(&node.iri) == root).map(|(concept, _)| concept);
        let by_iri = graph.index.get(root.as_str());
        let named: Vec<Concept> = by_iri.map_or_else(|| by_code().collect(), |concept| vec![*concept]);
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
    for (child, parent) in &graph.links {
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

/// The second pass: reads the labels of the selected concepts in the requested languages.
///
/// # Errors
/// Reading failed, or the labels exceed a limit.
fn read_labels(
    input: &Input<'_>,
    syntax: Syntax,
    graph: &mut Graph,
    scope: &Scope,
    languages: &[String],
    counts: &mut Counts,
) -> Result<Labels, ImportError> {
    let label_nodes = graph.take_label_nodes(|concept| scope.holds(concept));
    let graph = &*graph;
    let mut labels = Labels::new();
    let (mut bytes, mut given) = (0usize, 0usize);
    // Unreadable lines were rejected in the first pass, and the triples were counted there.
    let mut again = Counts::of(input, true);
    rdf::read(input, syntax, &mut again, |statement| {
        let Object::Text(text, Some(language)) = statement.object else { return Ok(()) };
        let Some(language) = languages.iter().find(|wanted| wanted.eq_ignore_ascii_case(language)) else {
            return Ok(());
        };
        for concept in labelled(&statement, graph, scope, &label_nodes) {
            // Inside the loop: one node may be the label of many concepts, and have many texts.
            counts.check_on()?;
            given += 1;
            if given > LINKS_MAX {
                return Err(input.unusable(None, format_args!("it gives more than {LINKS_MAX} labels")));
            }
            let code = code_of(graph.iri(concept));
            let Some(text) = counts.text(text).filter(|text| !text.is_empty()) else {
                counts.refuse(statement.line, Some(code), "its label is empty or contains a control character");
                continue;
            };
            let known = labels.entry(concept).or_default();
            match known.get(language) {
                Some(other) if *other != text => {
                    let (first, second) = (excerpt(other), excerpt(&text));
                    let reason = format!("it has two preferred labels in `{language}`: `{first}` and `{second}`");
                    counts.refuse(statement.line, Some(code), reason);
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

/// The concepts of a label statement: one concept, or all that share a node of SKOS-XL.
fn labelled(
    statement: &Statement<'_>,
    graph: &Graph,
    scope: &Scope,
    label_nodes: &[(LabelNode, Concept)],
) -> impl Iterator<Item = Concept> {
    let (own, sharing) = match (statement.predicate, statement.subject) {
        (PREFERRED, Node::Iri(subject)) => {
            (graph.index.get(subject).copied().filter(|concept| scope.holds(*concept)), None)
        }
        (XL_FORM, subject) => {
            let node = rdf::fingerprint(subject);
            let first = label_nodes.partition_point(|(other, _)| *other < node);
            let from = label_nodes.get(first..).unwrap_or_default();
            (None, Some(from.iter().take_while(move |(other, _)| *other == node).map(|(_, concept)| *concept)))
        }
        _ => (None, None),
    };
    own.into_iter().chain(sharing.into_iter().flatten())
}
