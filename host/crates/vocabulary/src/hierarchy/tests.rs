use std::collections::BTreeSet;

use proptest::prelude::*;

use super::*;

fn index(position: usize) -> ConceptIndex {
    ConceptIndex::at(position)
}

/// Builds a hierarchy from the parents of each concept.
fn hierarchy(parents: &[&[usize]]) -> Result<Hierarchy, HierarchyFault> {
    let mut lists = Lists::with_capacity(parents.len(), 0);
    for row in parents {
        lists.push_row(row.iter().map(|parent| index(*parent)));
    }
    Hierarchy::build(lists)
}

fn below(hierarchy: &Hierarchy, concept: usize) -> Vec<usize> {
    let mut below: Vec<usize> = hierarchy.descendants(index(concept)).map(ConceptIndex::position).collect();
    below.sort_unstable();
    below
}

#[test]
fn a_tree_answers_from_intervals_alone() {
    let tree = hierarchy(&[&[], &[0], &[0], &[1], &[1], &[]]).unwrap();
    assert_eq!(below(&tree, 0), [1, 2, 3, 4]);
    assert_eq!(below(&tree, 1), [3, 4]);
    assert_eq!(below(&tree, 5), [0usize; 0]);
    assert_eq!(tree.extras.row_count(), 0);
    assert!(tree.is_below(index(3), index(0)));
    assert!(!tree.is_below(index(0), index(3)));
    assert!(!tree.is_below(index(3), index(2)));
    assert!(!tree.is_below(index(3), index(3)));
    assert_eq!(tree.level(index(3)), 3);
    assert_eq!(tree.roots().map(ConceptIndex::position).collect::<Vec<_>>(), [0, 5]);
    assert_eq!(tree.ancestors(index(4)), [index(1), index(0)]);
}

#[test]
fn a_second_parent_reaches_everything_below_the_shared_child() {
    // 0 and 1 are roots. 2 is below both, 3 below 2, and 4 below 1 and 3.
    let web = hierarchy(&[&[], &[], &[0, 1], &[2], &[1, 3]]).unwrap();
    assert_eq!(below(&web, 0), [2, 3, 4]);
    assert_eq!(below(&web, 1), [2, 3, 4]);
    assert_eq!(web.descendant_count(index(0)), 3);
    assert!(web.is_below(index(4), index(0)));
    assert_eq!(web.parents(index(2)), [index(0), index(1)]);
    assert_eq!(web.children(index(1)), [index(2), index(4)]);
    assert_eq!(web.ancestors(index(4)), [index(1), index(3), index(2), index(0)]);
}

#[test]
fn the_deepest_allowed_chain_is_built_and_the_next_refused() {
    let chain = |levels: usize| {
        let parents: Vec<Vec<usize>> = (0..levels).map(|level| level.checked_sub(1).into_iter().collect()).collect();
        hierarchy(&parents.iter().map(Vec::as_slice).collect::<Vec<_>>())
    };
    let deep = chain(DEPTH_MAX).unwrap();
    assert_eq!(deep.descendant_count(index(0)), DEPTH_MAX - 1);
    assert_eq!(deep.level(index(DEPTH_MAX - 1)) as usize, DEPTH_MAX);
    assert_eq!(chain(DEPTH_MAX + 1).err(), Some(HierarchyFault::TooDeep(vec![index(DEPTH_MAX)])));
}

#[test]
fn a_cycle_is_shown_from_a_concept_back_to_itself() {
    // 1 → 2 → 3 → 1; 4 is below the cycle and not part of it.
    let fault = hierarchy(&[&[], &[2, 0], &[3], &[1], &[1]]).err();
    assert_eq!(fault, Some(HierarchyFault::Cycles(vec![vec![index(1), index(2), index(3), index(1)]])));
}

#[test]
fn two_cycles_are_both_shown() {
    let fault = hierarchy(&[&[1], &[0], &[3], &[2]]).err();
    let expected = vec![vec![index(0), index(1), index(0)], vec![index(2), index(3), index(2)]];
    assert_eq!(fault, Some(HierarchyFault::Cycles(expected)));
}

#[test]
fn a_web_of_links_is_refused_before_it_fills_the_memory() {
    // All concepts of a wide level are below one concept, and every second one is below each of many others.
    let (wide, above) = (2_100, 2_000);
    let mut lists = Lists::with_capacity(wide + above, 0);
    for _ in 0..above {
        lists.push_row([]);
    }
    for concept in 0..wide {
        lists.push_row([0].into_iter().chain((1..above).filter(|other| (other + concept) % 2 == 0)).map(index));
    }
    assert_eq!(Hierarchy::build(lists).err(), Some(HierarchyFault::TooTangled));
}

/// Generates concepts whose parents precede them in a shuffled order, so that no cycle can exist.
fn any_web() -> impl Strategy<Value = Vec<Vec<usize>>> {
    (1usize..40).prop_flat_map(|count| {
        let order = Just((0..count).collect::<Vec<usize>>()).prop_shuffle();
        let picks = prop::collection::vec(prop::collection::vec(any::<prop::sample::Index>(), 0..4), count);
        (order, picks).prop_map(move |(order, picks)| {
            let mut parents = vec![Vec::new(); count];
            for (rank, picks) in picks.into_iter().enumerate().skip(1) {
                for pick in picks {
                    let parent = order[pick.index(rank)];
                    let row: &mut Vec<usize> = &mut parents[order[rank]];
                    if !row.contains(&parent) {
                        row.push(parent);
                    }
                }
            }
            parents
        })
    })
}

/// Returns all ancestors, by following links.
fn closure(parents: &[Vec<usize>], concept: usize) -> BTreeSet<usize> {
    let mut above = BTreeSet::new();
    let mut next = parents[concept].clone();
    while let Some(parent) = next.pop() {
        if above.insert(parent) {
            next.extend(&parents[parent]);
        }
    }
    above
}

proptest! {
    #[test]
    fn agrees_with_following_the_links(parents in any_web()) {
        let rows: Vec<&[usize]> = parents.iter().map(Vec::as_slice).collect();
        let web = hierarchy(&rows).unwrap();
        let above: Vec<BTreeSet<usize>> = (0..parents.len()).map(|concept| closure(&parents, concept)).collect();
        for concept in 0..parents.len() {
            let expected: Vec<usize> = (0..parents.len()).filter(|other| above[*other].contains(&concept)).collect();
            // The sorted lists are equal, so each descendant occurs once.
            prop_assert_eq!(below(&web, concept), expected.clone());
            prop_assert_eq!(web.descendant_count(index(concept)), expected.len());
            let mut ancestors: Vec<usize> = web.ancestors(index(concept)).iter().map(|above| above.position()).collect();
            ancestors.sort_unstable();
            prop_assert_eq!(ancestors, above[concept].iter().copied().collect::<Vec<_>>());
            for other in 0..parents.len() {
                prop_assert_eq!(web.is_below(index(concept), index(other)), above[concept].contains(&other));
            }
        }
        let mut order: Vec<usize> = web.preorder().iter().map(|concept| concept.position()).collect();
        order.sort_unstable();
        prop_assert_eq!(order, (0..parents.len()).collect::<Vec<_>>());
    }
}
