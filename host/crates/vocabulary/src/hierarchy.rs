//! Hierarchy of concepts, as intervals.
//!
//! The links to primary parents form a forest. Preorder numbering gives each concept one interval that contains all its
//! descendants in the forest. Descendants through links to other parents are stored as extra intervals, merged and
//! disjoint. `is_below` is therefore a comparison or a binary search in a short list, and the cost of `descendants` is
//! proportional to its result.
//!
//! **Invariant:** a hierarchy has no cycle; `build` rejects links with a cycle.

use std::collections::{HashMap, HashSet};
use std::hash::Hash;

use super::compact::{ConceptIndex, Lists, to_u32};

/// Maximum number of levels. The deepest known classification, ICD-11 with its blocks, has 11.
pub const DEPTH_MAX: usize = 64;
/// Maximum number of extra intervals of a vocabulary. The crops of AGROVOC need a few hundred. A graph of random links
/// can need as many as the square of its concepts.
pub const EXTRA_INTERVALS_MAX: usize = 2_000_000;
/// Maximum number of concepts of a cycle in an error.
const CYCLE_SHOWN_MAX: usize = 10;

/// Error: links between concepts do not form a valid hierarchy.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum HierarchyFault {
    /// Cycles. Each list leads from a concept to its parent and so on, back to the first concept.
    Cycles(Vec<Vec<ConceptIndex>>),
    /// The first concepts below [`DEPTH_MAX`] levels.
    TooDeep(Vec<ConceptIndex>),
    /// The hierarchy needs more than [`EXTRA_INTERVALS_MAX`] extra intervals.
    TooTangled,
}

/// An interval of preorder positions, `start..end`.
type Interval = (u32, u32);

/// The parents, children, ancestors and descendants of every concept of a vocabulary.
#[derive(Clone)]
pub(super) struct Hierarchy {
    /// The primary parent first.
    pub(super) parents: Lists<ConceptIndex>,
    /// In the order of codes.
    pub(super) children: Lists<ConceptIndex>,
    /// By concept: its preorder position, and the position after its last descendant in the forest.
    pub(super) intervals: Vec<Interval>,
    /// By preorder position.
    pub(super) preorder: Vec<ConceptIndex>,
    /// By concept; no rows if no concept has a second parent.
    pub(super) extras: Lists<Interval>,
}

impl Hierarchy {
    /// Builds the hierarchy from the parents of each concept, the primary one first, without duplicates.
    pub(super) fn build(parents: Lists<ConceptIndex>) -> Result<Self, HierarchyFault> {
        let count = parents.row_count();
        let children = children_of(&parents);
        let downwards = parents_first(&parents, &children)?;
        check_depth(&parents, &downwards)?;
        let (intervals, preorder) = number_forest(&parents, &children);
        let extras = if parents.item_count() + roots(&parents).count() == count {
            Lists::with_capacity(0, 0)
        } else {
            extra_intervals(&children, &intervals, &downwards)?
        };
        Ok(Self { parents, children, intervals, preorder, extras })
    }

    pub(super) fn parents(&self, concept: ConceptIndex) -> &[ConceptIndex] {
        self.parents.of(concept)
    }

    pub(super) fn children(&self, concept: ConceptIndex) -> &[ConceptIndex] {
        self.children.of(concept)
    }

    /// Returns the concepts without parents, in the order of codes.
    pub(super) fn roots(&self) -> impl Iterator<Item = ConceptIndex> + '_ {
        roots(&self.parents)
    }

    /// Returns all concepts in preorder: each primary parent directly precedes its descendants.
    pub(super) fn preorder(&self) -> &[ConceptIndex] {
        &self.preorder
    }

    /// Returns all descendants of the concept, without itself, each once.
    pub(super) fn descendants(&self, concept: ConceptIndex) -> impl Iterator<Item = ConceptIndex> + '_ {
        let own = self.intervals.get(concept.position()).map(|(start, end)| (start + 1, *end));
        own.into_iter()
            .chain(self.extras.of(concept).iter().copied())
            .flat_map(|(start, end)| self.preorder.get(start as usize..end as usize).unwrap_or_default())
            .copied()
    }

    /// Returns the number of descendants.
    pub(super) fn descendant_count(&self, concept: ConceptIndex) -> usize {
        let own = self.intervals.get(concept.position()).map_or(0, |(start, end)| end - start - 1);
        let extras = self.extras.of(concept).iter().map(|(start, end)| (end - start) as usize);
        own as usize + extras.sum::<usize>()
    }

    /// Returns true if `concept` is a descendant of `ancestor`. No concept is its own descendant.
    pub(super) fn is_below(&self, concept: ConceptIndex, ancestor: ConceptIndex) -> bool {
        let (Some((place, _)), Some((start, end))) =
            (self.intervals.get(concept.position()), self.intervals.get(ancestor.position()))
        else {
            return false;
        };
        if start < place && place < end {
            return true;
        }
        let extras = self.extras.of(ancestor);
        let before = extras.partition_point(|(start, _)| start <= place);
        before.checked_sub(1).and_then(|index| extras.get(index)).is_some_and(|(_, end)| place < end)
    }

    /// Returns all ancestors of the concept, nearest first, each once.
    pub(super) fn ancestors(&self, concept: ConceptIndex) -> Vec<ConceptIndex> {
        let mut found: Vec<ConceptIndex> = Vec::new();
        let mut seen = HashSet::new();
        let mut next: Vec<ConceptIndex> = vec![concept];
        while !next.is_empty() {
            let mut above = Vec::new();
            for child in next {
                above.extend(self.parents(child).iter().copied().filter(|parent| seen.insert(*parent)));
            }
            found.extend(&above);
            next = above;
        }
        found
    }

    /// Returns the level by primary parents: 1 at the top.
    pub(super) fn level(&self, concept: ConceptIndex) -> u32 {
        let above = std::iter::successors(self.parents(concept).first(), |parent| self.parents(**parent).first());
        1 + to_u32(above.take(DEPTH_MAX).count())
    }
}

fn concepts(count: usize) -> impl DoubleEndedIterator<Item = ConceptIndex> {
    (0..count).map(ConceptIndex::at)
}

fn roots(parents: &Lists<ConceptIndex>) -> impl Iterator<Item = ConceptIndex> + '_ {
    concepts(parents.row_count()).filter(|concept| parents.of(*concept).is_empty())
}

fn children_of(parents: &Lists<ConceptIndex>) -> Lists<ConceptIndex> {
    let count = parents.row_count();
    let mut links: Vec<(ConceptIndex, ConceptIndex)> =
        concepts(count).flat_map(|child| parents.of(child).iter().map(move |parent| (*parent, child))).collect();
    links.sort_unstable();
    let mut children = Lists::with_capacity(count, links.len());
    let mut links = links.into_iter().peekable();
    for parent in concepts(count) {
        children.push_row(std::iter::from_fn(|| links.next_if(|(of, _)| *of == parent)).map(|(_, child)| child));
    }
    children
}

/// Returns the concepts in topological order: each after all its parents.
fn parents_first(
    parents: &Lists<ConceptIndex>,
    children: &Lists<ConceptIndex>,
) -> Result<Vec<ConceptIndex>, HierarchyFault> {
    let count = parents.row_count();
    let mut waiting_for: Vec<usize> = concepts(count).map(|concept| parents.of(concept).len()).collect();
    let mut order: Vec<ConceptIndex> = roots(parents).collect();
    let mut done = 0;
    while let Some(concept) = order.get(done).copied() {
        done += 1;
        for child in children.of(concept) {
            let Some(waiting) = waiting_for.get_mut(child.position()) else { continue };
            *waiting -= 1;
            if *waiting == 0 {
                order.push(*child);
            }
        }
    }
    if order.len() == count { Ok(order) } else { Err(HierarchyFault::Cycles(cycles(parents, &waiting_for))) }
}

/// Returns one cycle above each concept without a position in the topological order.
fn cycles(parents: &Lists<ConceptIndex>, waiting_for: &[usize]) -> Vec<Vec<ConceptIndex>> {
    let is_stuck = |concept: ConceptIndex| waiting_for.get(concept.position()).is_some_and(|waiting| *waiting > 0);
    let stuck = concepts(parents.row_count()).filter(|concept| is_stuck(*concept));
    circles(stuck, |concept| parents.of(concept).iter().copied().find(|parent| is_stuck(*parent)))
}

/// Returns the cycles that are reachable from the start nodes, each once: the nodes from one of the cycle back to it,
/// truncated to the maximum length.
pub(super) fn circles<T: Copy + Eq + Hash>(
    starts: impl Iterator<Item = T>,
    next: impl Fn(T) -> Option<T>,
) -> Vec<Vec<T>> {
    // The walk that first visited each node, and the step on that walk.
    let mut met: HashMap<T, (usize, usize)> = HashMap::new();
    let mut found = Vec::new();
    for (walk, start) in starts.enumerate() {
        let mut path = Vec::new();
        let mut here = Some(start);
        while let Some(place) = here {
            if let Some((earlier_walk, step)) = met.get(&place) {
                if *earlier_walk == walk {
                    let circle = path.iter().skip(*step).take(CYCLE_SHOWN_MAX).copied();
                    found.push(circle.chain([place]).collect());
                }
                break;
            }
            met.insert(place, (walk, path.len()));
            path.push(place);
            here = next(place);
        }
    }
    found
}

fn check_depth(parents: &Lists<ConceptIndex>, downwards: &[ConceptIndex]) -> Result<(), HierarchyFault> {
    let mut levels: Vec<usize> = vec![0; downwards.len()];
    let mut too_deep = Vec::new();
    for concept in downwards {
        let above = parents.of(*concept).iter().filter_map(|parent| levels.get(parent.position())).max();
        let level = above.map_or(1, |above| above + 1);
        if level == DEPTH_MAX + 1 {
            too_deep.push(*concept);
        }
        if let Some(own) = levels.get_mut(concept.position()) {
            *own = level;
        }
    }
    too_deep.sort_unstable();
    if too_deep.is_empty() { Ok(()) } else { Err(HierarchyFault::TooDeep(too_deep)) }
}

fn number_forest(parents: &Lists<ConceptIndex>, children: &Lists<ConceptIndex>) -> (Vec<Interval>, Vec<ConceptIndex>) {
    let count = parents.row_count();
    let mut intervals = vec![(0, 0); count];
    let mut preorder = Vec::with_capacity(count);
    let mut roots: Vec<ConceptIndex> = roots(parents).collect();
    roots.reverse();
    // A concept is visited twice: to assign its number, and to close its interval after all its descendants.
    let mut to_visit: Vec<(ConceptIndex, bool)> = roots.into_iter().map(|root| (root, false)).collect();
    while let Some((concept, is_closing)) = to_visit.pop() {
        let place = to_u32(preorder.len());
        let Some(interval) = intervals.get_mut(concept.position()) else { continue };
        if is_closing {
            interval.1 = place;
            continue;
        }
        interval.0 = place;
        preorder.push(concept);
        to_visit.push((concept, true));
        let below = children.of(concept).iter().rev().filter(|child| parents.of(**child).first() == Some(&concept));
        to_visit.extend(below.map(|child| (*child, false)));
    }
    (intervals, preorder)
}

/// Computes the extra intervals of each concept, from the leaves up.
fn extra_intervals(
    children: &Lists<ConceptIndex>,
    intervals: &[Interval],
    downwards: &[ConceptIndex],
) -> Result<Lists<Interval>, HierarchyFault> {
    let mut extras: Vec<Vec<Interval>> = vec![Vec::new(); intervals.len()];
    let mut total = 0;
    for concept in downwards.iter().rev() {
        let Some(own) = intervals.get(concept.position()) else { continue };
        let mut reached: Vec<Interval> = Vec::new();
        for child in children.of(*concept) {
            let whole = intervals.get(child.position()).into_iter();
            let beyond = extras.get(child.position()).into_iter().flatten();
            reached.extend(whole.chain(beyond).flat_map(|part| outside(*part, *own)));
            if reached.len() > EXTRA_INTERVALS_MAX {
                return Err(HierarchyFault::TooTangled);
            }
        }
        let merged = merged(reached);
        total += merged.len();
        if total > EXTRA_INTERVALS_MAX {
            return Err(HierarchyFault::TooTangled);
        }
        if let Some(extra) = extras.get_mut(concept.position()) {
            *extra = merged;
        }
    }
    let mut lists = Lists::with_capacity(intervals.len(), total);
    for extra in extras {
        lists.push_row(extra);
    }
    Ok(lists)
}

/// Returns the segments of `part` outside `own`.
fn outside(part: Interval, own: Interval) -> impl Iterator<Item = Interval> {
    let sides = [(part.0, part.1.min(own.0)), (part.0.max(own.1), part.1)];
    sides.into_iter().filter(|(start, end)| start < end)
}

/// Returns the same positions in the minimum number of intervals, in order.
fn merged(mut intervals: Vec<Interval>) -> Vec<Interval> {
    intervals.sort_unstable();
    let mut merged: Vec<Interval> = Vec::new();
    for interval in intervals {
        match merged.last_mut() {
            Some(last) if interval.0 <= last.1 => last.1 = last.1.max(interval.1),
            _ => merged.push(interval),
        }
    }
    merged
}

#[cfg(test)]
mod tests;
