//! The estimated cost of a rule, computed from its tree without data.
//!
//! A *step* is one part of the expression evaluated once. Lists of the registry are assumed to have between 0 and
//! [`COST_LIST_ITEMS`] items.

use crate::limits::COST_LIST_ITEMS;
use crate::tree::{Kind, Node, Operator, Quantifier, Type};

/// The steps for one subject, saturated at 64 bits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Cost {
    /// The fewest.
    pub steps_min: u64,
    /// The most.
    pub steps_max: u64,
}

impl Cost {
    /// The cost of an expression.
    pub fn of(tree: &Node) -> Self {
        estimate(tree).0
    }

    fn add(self, other: Cost) -> Self {
        Self {
            steps_min: self.steps_min.saturating_add(other.steps_min),
            steps_max: self.steps_max.saturating_add(other.steps_max),
        }
    }

    fn times(self, items: Items) -> Self {
        Self {
            steps_min: self.steps_min.saturating_mul(items.least),
            steps_max: self.steps_max.saturating_mul(items.most),
        }
    }
}

const NOTHING: Cost = Cost { steps_min: 0, steps_max: 0 };
const ONE: Cost = Cost { steps_min: 1, steps_max: 1 };

/// The number of items of a list; meaningless for other values.
#[derive(Clone, Copy)]
struct Items {
    least: u64,
    most: u64,
}

const NONE: Items = Items { least: 0, most: 0 };
const OF_REGISTRY: Items = Items { least: 0, most: COST_LIST_ITEMS as u64 };

fn estimate(node: &Node) -> (Cost, Items) {
    let operands: Vec<(Cost, Items)> = node.operands().into_iter().map(estimate).collect();
    let all = operands.iter().fold(ONE, |all, (cost, _)| all.add(*cost));
    let items_of = |index: usize| operands.get(index).map_or(NONE, |(_, items)| *items);
    let least_of = |index: usize| operands.get(index).map_or(0, |(cost, _)| cost.steps_min);
    match &node.kind {
        // The second operand may be skipped.
        Kind::And(..) | Kind::Or(..) => (Cost { steps_min: least_of(0).saturating_add(1), ..all }, NONE),
        // At least one branch; both if the condition is unknown.
        Kind::Conditional(..) => {
            let branch = least_of(1).min(least_of(2));
            let least = least_of(0).saturating_add(branch).saturating_add(1);
            let (then, otherwise) = (items_of(1), items_of(2));
            let items = Items { least: then.least.min(otherwise.least), most: then.most.max(otherwise.most) };
            (Cost { steps_min: least, ..all }, items)
        }
        Kind::In(..) => {
            let compared = Items { least: items_of(1).least.min(1), most: items_of(1).most };
            (all.add(ONE.times(compared)), NONE)
        }
        Kind::Comprehension { quantifier, keep, body, .. } => {
            let keep = keep.as_deref().map_or(NOTHING, |keep| estimate(keep).0);
            comprehension(*quantifier, all, items_of(0), keep, body)
        }
        Kind::Bind { body, .. } => {
            let (body, items) = estimate(body);
            (all.add(body), items)
        }
        Kind::List(elements) => {
            let count = u64::try_from(elements.len()).unwrap_or(u64::MAX);
            (all, Items { least: count, most: count })
        }
        Kind::Arithmetic(Operator::Add, ..) => {
            let (left, right) = (items_of(0), items_of(1));
            let items =
                Items { least: left.least.saturating_add(right.least), most: left.most.saturating_add(right.most) };
            (all, items)
        }
        _ if matches!(node.value, Type::List(_)) => (all, OF_REGISTRY),
        _ => (all, NONE),
    }
}

fn comprehension(quantifier: Quantifier, list: Cost, items: Items, keep: Cost, body: &Node) -> (Cost, Items) {
    let body = estimate(body).0.add(keep);
    let may_stop = matches!(quantifier, Quantifier::Exists | Quantifier::All);
    let walked = if may_stop { Items { least: items.least.min(1), ..items } } else { items };
    let cost = list.add(body.times(walked));
    let made = match quantifier {
        Quantifier::Exists | Quantifier::All | Quantifier::ExistsOne => NONE,
        Quantifier::TransformMap | Quantifier::TransformMapEntry => Items { least: 0, ..items },
        Quantifier::Filter => Items { least: 0, ..items },
        Quantifier::Map => items,
    };
    (cost, made)
}
