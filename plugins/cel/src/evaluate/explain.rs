//! Explains the outcome of one subject: the value of each part of the expression, and the facts it read.
//!
//! Each part is evaluated separately with its variables, so that parts skipped by the evaluation are explained too.
//! Fields, constants and variables are not parts of their own, but facts of their part.

use super::{Budget, Evaluator};
use crate::explanation::{Explained, ExplainedValue, Explanation, SeenFact};
use crate::facts::FactSet;
use crate::limits::EXPLAINED_PARTS_MAX;
use crate::plan::{ColumnPlan, Plan};
use crate::schema::Space;
use crate::tree::{Domain, Kind, Node, Type};
use crate::value::{Evaluated, Value};

/// An explanation under construction.
struct Story<'p> {
    plan: &'p Plan,
    source: &'p str,
    parts: Vec<Explained>,
    is_cut: bool,
}

/// The position of a part.
#[derive(Clone, Copy)]
struct Place {
    parent: Option<usize>,
    item: Option<u32>,
}

impl<'a> Evaluator<'a> {
    /// Explains the verdict on one subject.
    ///
    /// # Errors
    ///
    /// The rule exceeds a budget.
    pub fn explain(&mut self, tree: &'a Node, plan: &Plan, source: &str, subject: u32) -> Result<Explanation, Budget> {
        // A budget exceeded only by parts that the verdict does not need is reported for those parts.
        let _ = self.verdict(tree, subject)?;
        let mut story = Story { plan, source, parts: Vec::new(), is_cut: false };
        self.part(tree, Place { parent: None, item: None }, &mut story);
        Ok(Explanation { parts: story.parts, is_cut: story.is_cut })
    }

    fn part(&mut self, node: &'a Node, place: Place, story: &mut Story<'_>) {
        if story.parts.len() == EXPLAINED_PARTS_MAX {
            story.is_cut = true;
            return;
        }
        let value = self.evaluate(node);
        let exhausted = self.exhausted.take();
        let mut part = Explained {
            parent: place.parent,
            span: node.span.whole_in(story.source),
            item: place.item,
            value: ExplainedValue::Unknown,
            missing: Vec::new(),
            error: exhausted.map(Budget::name),
            seen: Vec::new(),
        };
        match value {
            Ok(value) => part.value = ExplainedValue::from(&value),
            Err(reasons) => {
                part.missing = self.names_of(reasons.missing);
                part.error = part.error.or(reasons.error.map(|failure| failure.kind.name()));
            }
        }
        let number = story.parts.len();
        let below = Place { parent: Some(number), ..place };
        self.look(node, story, &mut part.seen);
        story.parts.push(part);
        for operand in node.operands() {
            let operand = written_part(operand);
            if is_explained_separately(node, operand) {
                self.part(operand, below, story);
            } else {
                let mut seen = Vec::new();
                self.look(operand, story, &mut seen);
                self.parts_behind(operand, below, story);
                if let Some(part) = story.parts.get_mut(number) {
                    part.seen.extend(seen);
                }
            }
        }
        match &node.kind {
            Kind::Comprehension { list, is_indexed, keep, body, .. } => {
                let parts: Vec<&Node> = keep.as_deref().into_iter().chain([body.as_ref()]).collect();
                self.items(list, *is_indexed, &parts, number, story);
            }
            Kind::Bind { value, body, .. } => {
                let value = self.evaluate(value);
                self.exhausted = None;
                self.variables.push(value);
                self.part(body, below, story);
                self.variables.pop();
            }
            _ => {}
        }
    }

    /// The parts that a field depends on, such as the list in `me.address[size(members)].city`.
    fn parts_behind(&mut self, node: &'a Node, place: Place, story: &mut Story<'_>) {
        for operand in node.operands() {
            let operand = written_part(operand);
            if is_plain(operand) { self.parts_behind(operand, place, story) } else { self.part(operand, place, story) }
        }
    }

    /// The values of the parts of a comprehension's body for each item.
    fn items(&mut self, list: &'a Node, is_indexed: bool, parts: &[&'a Node], parent: usize, story: &mut Story<'_>) {
        let elements = self.entries_of(list, is_indexed);
        // A budget exceeded by the list is reported for the list.
        self.exhausted = None;
        let Ok(mut elements) = elements else { return };
        let mut item = 0;
        while let Some((key, element)) = elements.next_entry() {
            if story.is_cut {
                return;
            }
            let outer = self.enter(key, element.value, is_indexed);
            for part in parts {
                self.part(part, Place { parent: Some(parent), item: Some(item) }, story);
            }
            self.variables.truncate(outer);
            item += 1;
        }
    }

    /// The facts that a node reads itself.
    fn look(&mut self, node: &'a Node, story: &Story<'_>, seen: &mut Vec<SeenFact>) {
        let name = match &node.kind {
            Kind::Field { record, column, .. } => {
                let Some(name) = self.name_of(record, *column, story.plan) else { return };
                name
            }
            Kind::Rows(space) => space.root().to_owned(),
            Kind::Variable(number) if *number > 0 && !matches!(node.value, Type::Record(_)) => {
                node.span.text(story.source).to_owned()
            }
            _ => return,
        };
        let value = self.evaluate(node);
        let fact = SeenFact { name, value: explained(&value) };
        if !seen.contains(&fact) {
            seen.push(fact);
        }
    }

    /// The name of a field of one record, with the row number if it is one of several.
    fn name_of(&mut self, record: &'a Node, column: usize, plan: &Plan) -> Option<String> {
        let row = self.row(record).ok()?;
        let column = plan.columns().get(column)?;
        let owner = self.row_name(column.domain, row, plan)?;
        Some(format!("{owner}.{}", own_path(column, plan)))
    }

    fn row_name(&self, domain: Domain, row: u32, plan: &Plan) -> Option<String> {
        match domain {
            Domain::Space(Space::Me) => Some(Space::Me.root().to_owned()),
            Domain::Space(space) => {
                let Some(Ok(Value::Row(subject))) = self.variables.first() else { return None };
                let first = self.columns.children(space, *subject)?.start;
                Some(format!("{}[{}]", space.root(), row.checked_sub(first)?))
            }
            Domain::Items(list) => {
                let (owner, item) = self.columns.owner_of_item(list, row)?;
                let list = plan.columns().get(list)?;
                let owner = self.row_name(list.domain, owner, plan)?;
                Some(format!("{owner}.{}[{item}]", own_path(list, plan)))
            }
        }
    }

    fn names_of(&self, facts: FactSet) -> Vec<String> {
        let names = self.bindings.names().iter().filter(|(_, these)| these.intersects(facts));
        names.map(|(name, _)| name.clone()).collect()
    }
}

fn explained(value: &Evaluated<'_>) -> ExplainedValue {
    value.as_ref().map_or(ExplainedValue::Unknown, ExplainedValue::from)
}

/// The path of a column relative to its record.
fn own_path<'p>(column: &'p ColumnPlan, plan: &'p Plan) -> &'p str {
    let Domain::Items(list) = column.domain else { return &column.path };
    let list = plan.columns().get(list).map_or("", |list| list.path.as_str());
    let below = column.path.strip_prefix(list).and_then(|rest| rest.strip_prefix("[]"));
    below.map_or(&column.path, |rest| rest.strip_prefix('.').unwrap_or(rest))
}

/// The node written by the author, without implicit conversions: a date is converted to an instant where one is
/// required.
fn written_part(node: &Node) -> &Node {
    match &node.kind {
        Kind::Midnight(date) => written_part(date),
        Kind::Foreign(_, operands) => match operands.as_slice() {
            [only] if only.span == node.span => written_part(only),
            _ => node,
        },
        _ => node,
    }
}

/// Returns true if an operand is a part of its own. A boolean operand of logic always is.
fn is_explained_separately(node: &Node, operand: &Node) -> bool {
    let is_logic = matches!(node.kind, Kind::And(..) | Kind::Or(..) | Kind::Not(_) | Kind::Conditional(..));
    (is_logic && !matches!(operand.kind, Kind::Constant(_))) || !is_plain(operand)
}

/// Returns true if a node only represents a value, which its part reports as a fact.
fn is_plain(node: &Node) -> bool {
    if let Kind::Foreign(_, operands) = &node.kind {
        return operands.is_empty();
    }
    matches!(
        node.kind,
        Kind::Constant(_) | Kind::AsOf | Kind::Code(_) | Kind::Variable(_) | Kind::Rows(_) | Kind::Field { .. }
    )
}
