//! Makes the tree that a client reads of what the engine tells about one answer.
//!
//! **Invariant:** a tree has `DEPTH_MAX` levels at most, whatever the engine tells: readers of JSON have bounds of their own.

use daftar_domain::calendar::date_from_days;
use daftar_domain::code::CodeNumber;
use daftar_domain::eligibility::CodeTexts;
use daftar_domain::explanation::{ExplainedPart, ExplainedValue, Explanation};
use daftar_vocabulary::Generation;

/// The most levels of a tree: two levels of JSON each, of which many readers take no more than 128.
const DEPTH_MAX: usize = 50;

/// What a part of an expression came to, in words.
#[derive(Debug, Clone, PartialEq)]
pub enum Told {
    /// It is not known.
    Unknown,
    /// True or false.
    Boolean(bool),
    /// A whole number.
    Integer(i64),
    /// A number.
    Number(f64),
    /// A text, or a day as `YYYY-MM-DD`.
    Text(String),
    /// A code.
    Code(CodeTexts),
    /// A list of at least and at most so many items.
    Items(u32, u32),
    /// A person, a membership or a structure.
    Record,
}

/// One part of an expression with the parts that it is made of.
#[derive(Debug, Clone, PartialEq)]
pub struct Node {
    /// Its text.
    pub text: String,
    /// For which item of a list it was evaluated, from 0.
    pub item: Option<u32>,
    /// What it came to.
    pub value: Told,
    /// The facts that it looked at by itself, by name.
    pub seen: Vec<(String, Told)>,
    /// The missing facts that would decide, where it is not known.
    pub missing: Vec<String>,
    /// What went wrong, where something did.
    pub error: Option<String>,
    /// The parts that it is made of, in the order of the text.
    pub children: Vec<Node>,
}

/// How the answer for one subject came about.
#[derive(Debug, Clone, PartialEq)]
pub struct ExplanationTree {
    /// The whole expression.
    pub root: Node,
    /// Whether there are more parts than are told.
    pub is_cut: bool,
}

/// The tree of an explanation; none where it has no parts.
#[must_use]
pub fn tree(expression: &str, generation: &Generation, explanation: Explanation) -> Option<ExplanationTree> {
    let parents: Vec<Option<usize>> = explanation.parts.iter().map(|part| part.parent).collect();
    let mut depths: Vec<usize> = Vec::with_capacity(parents.len());
    for parent in &parents {
        let above = parent.and_then(|parent| depths.get(parent).copied());
        depths.push(above.map_or(0, |depth| depth + 1));
    }
    let parts = explanation.parts.into_iter().map(|part| node(expression, generation, part));
    let mut nodes: Vec<Option<Node>> = parts.map(Some).collect();
    let mut is_cut = explanation.is_cut;
    // Each part stands after the one that it belongs to: from the last to the first, every part is whole when it is handed up.
    for at in (1..nodes.len()).rev() {
        let Some(mut part) = nodes.get_mut(at).and_then(Option::take) else { continue };
        part.children.reverse();
        if depths.get(at).is_some_and(|depth| *depth >= DEPTH_MAX) {
            is_cut = true;
            continue;
        }
        let parent = parents.get(at).copied().flatten().and_then(|parent| nodes.get_mut(parent));
        if let Some(Some(parent)) = parent {
            parent.children.push(part);
        }
    }
    let mut root = nodes.into_iter().next().flatten()?;
    root.children.reverse();
    Some(ExplanationTree { root, is_cut })
}

fn node(expression: &str, generation: &Generation, part: ExplainedPart) -> Node {
    Node {
        text: expression.get(part.text).unwrap_or_default().to_owned(),
        item: part.item,
        value: told(generation, part.value),
        seen: part.seen.into_iter().map(|fact| (fact.name, told(generation, fact.value))).collect(),
        missing: part.missing,
        error: part.error,
        children: Vec::new(),
    }
}

fn told(generation: &Generation, value: ExplainedValue) -> Told {
    match value {
        ExplainedValue::Unknown => Told::Unknown,
        ExplainedValue::Boolean(truth) => Told::Boolean(truth),
        ExplainedValue::Integer(number) => Told::Integer(number),
        ExplainedValue::Number(number) => Told::Number(number),
        ExplainedValue::Day(days) => date_from_days(days).map_or(Told::Unknown, |day| Told::Text(day.to_string())),
        ExplainedValue::Code(number) => code(generation, number),
        ExplainedValue::Text(text) | ExplainedValue::Other(text) => Told::Text(text),
        ExplainedValue::Items(least, most) => Told::Items(least, most),
        ExplainedValue::Structure => Told::Record,
    }
}

fn code(generation: &Generation, number: CodeNumber) -> Told {
    generation.code_texts(number).map_or(Told::Unknown, Told::Code)
}

#[cfg(test)]
mod tests {
    use super::*;
    use daftar_vocabulary::testing;

    fn part(parent: Option<usize>, text: std::ops::Range<usize>) -> ExplainedPart {
        let value = ExplainedValue::Boolean(true);
        ExplainedPart { parent, text, item: None, value, missing: vec![], error: None, seen: vec![] }
    }

    fn texts(node: &Node) -> String {
        let children: Vec<String> = node.children.iter().map(texts).collect();
        if children.is_empty() { node.text.clone() } else { format!("{}({})", node.text, children.join(" ")) }
    }

    #[test]
    fn parts_become_a_tree_in_the_order_of_the_text() {
        let parts =
            vec![part(None, 0..6), part(Some(0), 0..1), part(Some(1), 1..2), part(Some(1), 2..3), part(Some(0), 5..6)];
        let tree = tree("abcdef", &testing::generation(), Explanation { parts, is_cut: false }).unwrap();
        assert_eq!(texts(&tree.root), "abcdef(a(b c) f)");
        assert!(!tree.is_cut);
    }

    #[test]
    fn what_lies_too_deep_is_cut_and_said_to_be() {
        let chain = |levels: usize| {
            let mut parts = vec![part(None, 0..1)];
            parts.extend((1..levels).map(|at| part(Some(at - 1), 0..1)));
            tree("a", &testing::generation(), Explanation { parts, is_cut: false }).unwrap()
        };
        assert!(!chain(DEPTH_MAX - 1).is_cut && !chain(DEPTH_MAX).is_cut);
        let deep = chain(4_000);
        assert!(deep.is_cut);
        assert_eq!(texts(&deep.root).matches('a').count(), DEPTH_MAX);
    }
}
