//! What is checked of every vocabulary, whatever its format. What is refused is taken out.

use std::collections::{HashMap, HashSet};

use super::{DraftCode, DraftVocabulary};
use crate::owner_files::about::is_sound_text;
use crate::owner_files::limits::{DEFINITION_BYTES_MAX, LABEL_BYTES_MAX, LIST_ITEMS_MAX};
use crate::owner_files::tally::Tally;
use daftar_domain::code::Code;

/// Checks the codes of a vocabulary; those that cannot be taken are refused.
pub fn vocabulary(vocabulary: &mut DraftVocabulary, tally: &mut Tally) {
    let codes = &mut vocabulary.codes;
    let default_language = vocabulary.languages.first().map_or("en", String::as_str);
    retain(codes, tally, |code| own_fault(code, default_language));
    let mut first_lines: HashMap<String, Option<u64>> = HashMap::new();
    retain(codes, tally, |code| match first_lines.get(&code.code) {
        Some(Some(line)) => Some(format!("the code occurs again; it is already on line {line}")),
        Some(None) => Some("the code occurs again".to_owned()),
        None => {
            first_lines.insert(code.code.clone(), code.line);
            None
        }
    });
    let mut taken: HashMap<String, String> = HashMap::new();
    retain(codes, tally, |code| alias_fault(code, &first_lines, &mut taken));
    // Taking a code out may leave others without a parent.
    loop {
        let before = codes.len();
        let known: HashSet<String> = codes.iter().map(|code| code.code.clone()).collect();
        retain(codes, tally, |code| reference_fault(code, &known, &first_lines));
        let cycles = cycles(codes);
        retain(codes, tally, |code| cycles.get(&code.code).map(|path| format!("the code is below itself: {path}")));
        if codes.len() == before {
            break;
        }
    }
}

/// Takes out the codes that have a fault.
fn retain(codes: &mut Vec<DraftCode>, tally: &mut Tally, mut fault: impl FnMut(&DraftCode) -> Option<String>) {
    codes.retain(|code| match fault(code) {
        Some(reason) => {
            tally.refuse(code.line, Some(&code.code), reason);
            false
        }
        None => true,
    });
}

/// What is wrong with a code by itself.
fn own_fault(code: &DraftCode, default_language: &str) -> Option<String> {
    if let Err(error) = Code::parse(&code.code) {
        return Some(error.to_string());
    }
    if code.code.contains('|') {
        return Some("a code of a pack made of files holds no `|`".to_owned());
    }
    if code.label(default_language).is_none() {
        return Some(format!("it has no label in the default language `{default_language}`"));
    }
    for label in &code.labels {
        if label.text.len() > LABEL_BYTES_MAX {
            return Some(format!("its label has {} bytes; at most {LABEL_BYTES_MAX} are taken", label.text.len()));
        }
        if label.definition.len() > DEFINITION_BYTES_MAX {
            let bytes = label.definition.len();
            return Some(format!("its definition has {bytes} bytes; at most {DEFINITION_BYTES_MAX} are taken"));
        }
    }
    for (what, count) in [("parents", code.parents.len()), ("other spellings", code.aliases.len())] {
        if count > LIST_ITEMS_MAX {
            return Some(format!("it has {count} {what}; at most {LIST_ITEMS_MAX} are taken"));
        }
    }
    let texts = code.aliases.iter().chain(&code.uri).chain(code.properties.iter().map(|(_, value)| value));
    for text in texts {
        if !is_sound_text(text) {
            let shown = crate::owner_files::problem::excerpt(text);
            return Some(format!("`{shown}` is no trimmed line of at most {LABEL_BYTES_MAX} bytes"));
        }
    }
    if let Some(alias) = code.aliases.iter().find(|alias| alias.contains('|')) {
        return Some(format!("the other spelling `{alias}` holds a `|`"));
    }
    None
}

/// Whether a look-up by another spelling has one answer.
fn alias_fault(
    code: &DraftCode,
    codes: &HashMap<String, Option<u64>>,
    taken: &mut HashMap<String, String>,
) -> Option<String> {
    for alias in &code.aliases {
        let taken_by = match codes.get_key_value(alias) {
            Some((other, _)) => Some(other.clone()),
            None => taken.insert(alias.clone(), code.code.clone()),
        };
        if let Some(taken_by) = taken_by {
            return Some(format!("its other spelling `{alias}` is taken by the code `{taken_by}`"));
        }
    }
    None
}

/// Whether the codes that a code names are there.
fn reference_fault(
    code: &DraftCode,
    known: &HashSet<String>,
    in_file: &HashMap<String, Option<u64>>,
) -> Option<String> {
    let parents = code.parents.iter().map(|parent| ("parent", parent));
    let named = parents.chain(code.replaced_by.iter().map(|successor| ("successor", successor)));
    for (what, named) in named {
        if !known.contains(named) {
            let shown = crate::owner_files::problem::excerpt(named);
            let why = if in_file.contains_key(named) { "was refused" } else { "is not a code of this vocabulary" };
            return Some(format!("its {what} `{shown}` {why}"));
        }
    }
    if code.replaced_by.as_ref() == Some(&code.code) {
        return Some("it is its own successor".to_owned());
    }
    if code.is_active && code.replaced_by.is_some() {
        return Some("it has a successor although it is active".to_owned());
    }
    None
}

/// The codes that stand on a cycle, each with the cycle it was found on.
fn cycles(codes: &[DraftCode]) -> HashMap<String, String> {
    let index: HashMap<&str, usize> =
        codes.iter().enumerate().map(|(index, code)| (code.code.as_str(), index)).collect();
    let parents: Vec<Vec<usize>> = codes
        .iter()
        .map(|code| code.parents.iter().filter_map(|parent| index.get(parent.as_str()).copied()).collect())
        .collect();
    let below = below_a_cycle(&parents);
    let mut found = HashMap::new();
    let mut seen = vec![false; codes.len()];
    for start in (0..codes.len()).filter(|start| below.get(*start) == Some(&true)) {
        // Every code that is left has a parent that is left, so the way up comes back to a code on the way.
        let mut way = Vec::new();
        let mut next = Some(start);
        while let Some(node) = next
            && !seen.get(node).copied().unwrap_or(true)
        {
            if let Some(slot) = seen.get_mut(node) {
                *slot = true;
            }
            way.push(node);
            let up = parents.get(node).map(Vec::as_slice).unwrap_or_default();
            next = up.iter().copied().find(|parent| below.get(*parent) == Some(&true));
        }
        if let Some(first) = next.and_then(|node| way.iter().position(|other| *other == node)) {
            let on_cycle: Vec<&str> =
                way.iter().skip(first).filter_map(|node| codes.get(*node)).map(|code| code.code.as_str()).collect();
            let path = shown(&on_cycle);
            found.extend(on_cycle.iter().map(|code| ((*code).to_owned(), path.clone())));
        }
    }
    found
}

/// Which codes are on a cycle or below one: what is left when everything whose parents are all gone is taken away.
fn below_a_cycle(parents: &[Vec<usize>]) -> Vec<bool> {
    let mut children: Vec<Vec<usize>> = vec![Vec::new(); parents.len()];
    for (node, up) in parents.iter().enumerate() {
        for parent in up {
            if let Some(list) = children.get_mut(*parent) {
                list.push(node);
            }
        }
    }
    let mut waiting: Vec<usize> = parents.iter().map(Vec::len).collect();
    let mut left = vec![true; parents.len()];
    let mut free: Vec<usize> =
        waiting.iter().enumerate().filter(|(_, count)| **count == 0).map(|(node, _)| node).collect();
    while let Some(node) = free.pop() {
        if let Some(slot) = left.get_mut(node) {
            *slot = false;
        }
        for child in children.get(node).map(Vec::as_slice).unwrap_or_default() {
            if let Some(count) = waiting.get_mut(*child) {
                *count -= 1;
                if *count == 0 {
                    free.push(*child);
                }
            }
        }
    }
    left
}

/// A cycle as text, its first code repeated at the end; the middle of a long one is left out.
fn shown(codes: &[&str]) -> String {
    const SHOWN_MAX: usize = 8;
    let mut text = codes.iter().take(SHOWN_MAX).copied().collect::<Vec<_>>().join(" → ");
    if codes.len() > SHOWN_MAX {
        text.push_str(" → …");
    }
    if let Some(first) = codes.first() {
        text.push_str(" → ");
        text.push_str(first);
    }
    text
}
