//! Whether the parents of a vocabulary's codes make a hierarchy: no code may be below itself.

use super::codes::Codes;
use crate::pack::problem::{PackErrors, PackProblemKind};

/// How far a code has been followed.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Visit {
    Not,
    /// On the path that is being followed.
    Open,
    Done,
}

/// Reports one problem for each cycle met. Parents that do not exist are reported elsewhere.
pub fn check(codes: &Codes, errors: &mut PackErrors) {
    let parents: Vec<Vec<usize>> = codes
        .concepts
        .iter()
        .map(|concept| concept.parents.iter().filter_map(|parent| codes.names.get(parent.as_str()).copied()).collect())
        .collect();
    let mut visits = vec![Visit::Not; parents.len()];
    for start in 0..parents.len() {
        for cycle in cycles_from(start, &parents, &mut visits) {
            let names: Vec<&str> = cycle
                .iter()
                .filter_map(|index| codes.concepts.get(*index))
                .map(|concept| concept.code.as_str())
                .collect();
            let line = cycle.first().and_then(|index| codes.lines.get(*index)).copied();
            let kind = PackProblemKind::Cycle { path: shown(&names) };
            errors.push(&codes.file, line, names.first().copied(), kind);
        }
    }
}

/// Follows every way up from a code, depth first and without recursion: a chain may be as long as the table.
fn cycles_from(start: usize, parents: &[Vec<usize>], visits: &mut [Visit]) -> Vec<Vec<usize>> {
    let mut cycles = Vec::new();
    if visits.get(start) != Some(&Visit::Not) {
        return cycles;
    }
    let mut path: Vec<(usize, usize)> = vec![(start, 0)];
    set(visits, start, Visit::Open);
    while let Some((node, next)) = path.last_mut() {
        let parent = parents.get(*node).and_then(|parents| parents.get(*next)).copied();
        *next += 1;
        match parent.map(|parent| (parent, visits.get(parent).copied().unwrap_or(Visit::Done))) {
            Some((parent, Visit::Not)) => {
                set(visits, parent, Visit::Open);
                path.push((parent, 0));
            }
            Some((parent, Visit::Open)) => {
                cycles.push(path.iter().map(|(node, _)| *node).skip_while(|node| *node != parent).collect());
            }
            Some((_, Visit::Done)) => {}
            None => {
                set(visits, *node, Visit::Done);
                path.pop();
            }
        }
    }
    cycles
}

fn set(visits: &mut [Visit], index: usize, visit: Visit) {
    if let Some(slot) = visits.get_mut(index) {
        *slot = visit;
    }
}

/// The cycle as text, its first code repeated at the end; the middle of a long one is left out.
fn shown(names: &[&str]) -> String {
    const SHOWN_MAX: usize = 8;
    let mut text = names.iter().take(SHOWN_MAX).copied().collect::<Vec<_>>().join(" → ");
    if names.len() > SHOWN_MAX {
        text.push_str(" → …");
    }
    if let Some(first) = names.first() {
        text.push_str(" → ");
        text.push_str(first);
    }
    text
}
