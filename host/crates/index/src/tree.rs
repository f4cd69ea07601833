//! A persistent sorted map whose clones share structure: a tree of small nodes with reference counts.
//!
//! **Invariant:** cloning the map takes constant time, and a later change copies only the few nodes on the path to its
//! entry.
//!
//! **Invariant:** every key below a child of a branch is at least the child's separator, except for the first child,
//! which also has all smaller keys.

use std::borrow::Borrow;
use std::io;
use std::slice;
use std::sync::Arc;

use serde::Serialize;
use serde::de::DeserializeOwned;

use super::checkpoint::{CheckpointWriter, Loading, Stored};
use super::stored::Corrupt;

/// The most entries of a leaf and the most children of a branch.
const FAN_OUT: usize = 32;
/// The number of parts per node when a tree is built from all entries at once.
const LOADED: usize = 24;

/// A sorted map, cheap to clone.
#[derive(Debug, Clone)]
pub(super) struct SharedTree<K, V> {
    root: Arc<Node<K, V>>,
}

#[derive(Debug, Clone)]
enum Node<K, V> {
    Leaf(Vec<(K, V)>),
    Branch(Vec<Child<K, V>>),
}

/// A separator and a child whose keys are at least the separator.
type Child<K, V> = (K, Arc<Node<K, V>>);

impl<K, V> Default for SharedTree<K, V> {
    fn default() -> Self {
        Self { root: Arc::new(Node::Leaf(Vec::new())) }
    }
}

impl<K: Ord + Clone, V: Clone> SharedTree<K, V> {
    /// Returns the value of a key.
    pub(super) fn get<Q: Ord + ?Sized>(&self, key: &Q) -> Option<&V>
    where
        K: Borrow<Q>,
    {
        let mut node = &self.root;
        loop {
            match node.as_ref() {
                Node::Leaf(entries) => {
                    let at = position(entries, key).ok()?;
                    return entries.get(at).map(|(_, value)| value);
                }
                Node::Branch(children) => node = &children.get(child_position(children, key))?.1,
            }
        }
    }

    /// Returns the value of a key for modification.
    pub(super) fn get_mut<Q: Ord + ?Sized>(&mut self, key: &Q) -> Option<&mut V>
    where
        K: Borrow<Q>,
    {
        let mut node = &mut self.root;
        loop {
            match Arc::make_mut(node) {
                Node::Leaf(entries) => {
                    let at = position(entries, key).ok()?;
                    return entries.get_mut(at).map(|(_, value)| value);
                }
                Node::Branch(children) => {
                    let at = child_position(children, key);
                    node = &mut children.get_mut(at)?.1;
                }
            }
        }
    }

    /// Sets the value of a key.
    pub(super) fn insert(&mut self, key: K, value: V) {
        let Some(right) = insert_below(&mut self.root, key, value) else { return };
        let left = std::mem::take(self).root;
        // The separator of a first child is not used; its neighbour's is valid there.
        self.root = Arc::new(Node::Branch(vec![(right.0.clone(), left), right]));
    }

    /// Removes a key.
    pub(super) fn remove<Q: Ord + ?Sized>(&mut self, key: &Q)
    where
        K: Borrow<Q>,
    {
        if self.get(key).is_none() {
            return;
        }
        remove_below(&mut self.root, key);
        loop {
            let only = match self.root.as_ref() {
                Node::Leaf(_) => return,
                Node::Branch(children) => match children.as_slice() {
                    [] => Arc::new(Node::Leaf(Vec::new())),
                    [(_, only)] => Arc::clone(only),
                    _ => return,
                },
            };
            self.root = only;
        }
    }

    /// Creates a map of entries with ascending keys.
    ///
    /// # Errors
    /// If the keys do not ascend.
    pub(super) fn from_ascending(entries: Vec<(K, V)>) -> Result<Self, Corrupt> {
        if !entries.is_sorted_by(|one, other| one.0 < other.0) {
            return Err(Corrupt("the keys of a map do not ascend"));
        }
        let mut level: Vec<Child<K, V>> = in_parts(entries, Node::Leaf);
        while level.len() > 1 {
            level = in_parts(level, Node::Branch);
        }
        Ok(level.pop().map_or_else(Self::default, |(_, root)| Self { root }))
    }

    /// Returns every entry, ascending.
    pub(super) fn iter(&self) -> Entries<'_, K, V> {
        let mut branches = Vec::new();
        let mut node = &self.root;
        loop {
            match node.as_ref() {
                Node::Leaf(entries) => return Entries { branches, leaf: entries.iter() },
                Node::Branch(children) => {
                    let mut rest = children.iter();
                    let Some((_, first)) = rest.next() else { return Entries { branches, leaf: [].iter() } };
                    branches.push(rest);
                    node = first;
                }
            }
        }
    }

    /// Returns the entries from a key on, ascending.
    pub(super) fn from<Q: Ord + ?Sized>(&self, key: &Q) -> Entries<'_, K, V>
    where
        K: Borrow<Q>,
    {
        let mut branches = Vec::new();
        let mut node = &self.root;
        loop {
            match node.as_ref() {
                Node::Leaf(entries) => {
                    let start = entries.partition_point(|(at, _)| at.borrow() < key);
                    return Entries { branches, leaf: entries.get(start..).unwrap_or_default().iter() };
                }
                Node::Branch(children) => {
                    let mut rest = children.get(child_position(children, key)..).unwrap_or_default().iter();
                    let Some((_, first)) = rest.next() else { return Entries { branches, leaf: [].iter() } };
                    branches.push(rest);
                    node = first;
                }
            }
        }
    }
}

/// Creates nodes of the parts in order, none of them full, so that the next entries fit.
fn in_parts<K: Clone, V, T>(parts: Vec<(K, T)>, node: impl Fn(Vec<(K, T)>) -> Node<K, V>) -> Vec<Child<K, V>> {
    let mut nodes = Vec::with_capacity(parts.len().div_ceil(LOADED));
    let mut parts = parts.into_iter();
    loop {
        let of_node: Vec<(K, T)> = parts.by_ref().take(LOADED).collect();
        let Some((first, _)) = of_node.first() else { return nodes };
        nodes.push((first.clone(), Arc::new(node(of_node))));
    }
}

impl<K, V> Stored for SharedTree<K, V>
where
    K: Ord + Clone + Serialize + DeserializeOwned,
    V: Clone + Serialize + DeserializeOwned,
{
    fn store(&self, checkpoint: &mut CheckpointWriter<'_>) -> io::Result<()> {
        checkpoint.values(self.iter())
    }

    fn load(checkpoint: &mut Loading<'_>) -> Result<Self, Corrupt> {
        checkpoint.all().and_then(Self::from_ascending)
    }
}

/// An iterator over the entries of a tree.
#[derive(Debug)]
pub(super) struct Entries<'a, K, V> {
    /// The remaining children to the right, from the root down.
    branches: Vec<slice::Iter<'a, Child<K, V>>>,
    leaf: slice::Iter<'a, (K, V)>,
}

impl<K, V> Clone for Entries<'_, K, V> {
    fn clone(&self) -> Self {
        Self { branches: self.branches.clone(), leaf: self.leaf.clone() }
    }
}

impl<'a, K, V> Iterator for Entries<'a, K, V> {
    type Item = (&'a K, &'a V);

    fn next(&mut self) -> Option<Self::Item> {
        loop {
            if let Some((key, value)) = self.leaf.next() {
                return Some((key, value));
            }
            let Some((_, child)) = self.branches.last_mut()?.next() else {
                self.branches.pop();
                continue;
            };
            match child.as_ref() {
                Node::Leaf(entries) => self.leaf = entries.iter(),
                Node::Branch(children) => self.branches.push(children.iter()),
            }
        }
    }
}

fn position<K: Borrow<Q>, V, Q: Ord + ?Sized>(entries: &[(K, V)], key: &Q) -> Result<usize, usize> {
    entries.binary_search_by(|(at, _)| at.borrow().cmp(key))
}

fn child_position<K: Borrow<Q>, V, Q: Ord + ?Sized>(children: &[Child<K, V>], key: &Q) -> usize {
    children.partition_point(|(separator, _)| separator.borrow() <= key).saturating_sub(1)
}

/// Sets a value below a node; returns the right half with its separator if the node was split.
fn insert_below<K: Ord + Clone, V: Clone>(node: &mut Arc<Node<K, V>>, key: K, value: V) -> Option<Child<K, V>> {
    match Arc::make_mut(node) {
        Node::Leaf(entries) => {
            match position(entries, &key) {
                Ok(at) => {
                    if let Some((_, old)) = entries.get_mut(at) {
                        *old = value;
                    }
                }
                Err(at) => entries.insert(at, (key, value)),
            }
            split(entries, Node::Leaf)
        }
        Node::Branch(children) => {
            let at = child_position(children, &key);
            let (_, child) = children.get_mut(at)?;
            let right = insert_below(child, key, value)?;
            children.insert(at.saturating_add(1), right);
            split(children, Node::Branch)
        }
    }
}

/// Splits off the greater half of a node that is too large.
fn split<K: Clone, V, T>(parts: &mut Vec<(K, T)>, node: impl FnOnce(Vec<(K, T)>) -> Node<K, V>) -> Option<Child<K, V>> {
    if parts.len() <= FAN_OUT {
        return None;
    }
    let right = parts.split_off(FAN_OUT / 2);
    let separator = right.first()?.0.clone();
    Some((separator, Arc::new(node(right))))
}

/// Removes a key below a node; returns true if the node is empty now. Nodes are not merged: removals are rare.
fn remove_below<K: Ord + Clone + Borrow<Q>, V: Clone, Q: Ord + ?Sized>(node: &mut Arc<Node<K, V>>, key: &Q) -> bool {
    match Arc::make_mut(node) {
        Node::Leaf(entries) => {
            if let Ok(at) = position(entries, key) {
                entries.remove(at);
            }
            entries.is_empty()
        }
        Node::Branch(children) => {
            let at = child_position(children, key);
            let is_child_empty = children.get_mut(at).is_some_and(|(_, child)| remove_below(child, key));
            if is_child_empty {
                children.remove(at);
            }
            children.is_empty()
        }
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn behaves_like_a_sorted_map(steps in prop::collection::vec((any::<bool>(), 0_u16..600, any::<u8>()), 0..1_500)) {
            let mut tree = SharedTree::default();
            let mut map = BTreeMap::new();
            let mut copies = Vec::new();
            for (index, (is_removal, key, value)) in steps.into_iter().enumerate() {
                if index % 400 == 0 {
                    copies.push((tree.clone(), map.clone()));
                }
                if is_removal && index % 3 != 0 {
                    tree.remove(&key);
                    map.remove(&key);
                } else if let Some(old) = tree.get_mut(&key) {
                    *old = value;
                    map.insert(key, value);
                } else {
                    tree.insert(key, value);
                    map.insert(key, value);
                }
            }
            let loaded = SharedTree::from_ascending(map.clone().into_iter().collect()).unwrap();
            copies.push((loaded, map.clone()));
            copies.push((tree, map));
            for (tree, map) in copies {
                prop_assert!(tree.iter().eq(&map));
                for start in [0, 1, 250, 599, 700] {
                    prop_assert!(tree.from(&start).eq(map.range(start..)));
                    prop_assert!(tree.iter().eq(map.iter()));
                }
                for key in 0..600 {
                    prop_assert_eq!(tree.get(&key), map.get(&key));
                }
            }
        }
    }

    #[test]
    fn a_bulk_loaded_map_equals_one_built_step_by_step() {
        for count in [0, 1, 23, 24, 25, 600, 20_000_u32] {
            let mut tree = SharedTree::from_ascending((0..count).map(|key| (key * 2, key)).collect()).unwrap();
            for key in 0..count {
                tree.insert(key * 2 + 1, key);
            }
            assert!(tree.iter().map(|(key, _)| *key).eq(0..2 * count), "{count}");
            (0..2 * count).for_each(|key| tree.remove(&key));
            assert_eq!(tree.iter().count(), 0);
        }
        assert!(SharedTree::from_ascending(vec![(2, ()), (2, ())]).is_err());
    }

    #[test]
    fn empties_and_fills_again() {
        let mut tree = SharedTree::default();
        for key in 0..5_000_u32 {
            tree.insert(key, ());
        }
        for key in 0..5_000_u32 {
            tree.remove(&key);
        }
        assert_eq!(tree.from(&0).count(), 0);
        tree.insert(7, ());
        assert_eq!(tree.from(&0).map(|(key, ())| *key).collect::<Vec<_>>(), [7]);
    }
}
