//! Whether a pack's concept groups are sound, as far as the pack alone can tell.

use std::collections::{HashMap, HashSet};

use super::limits::{CONCEPT_GROUPS_MAX, DESCRIPTION_TEXT_BYTES_MAX, SELECTIONS_MAX};
use super::problem::{PackFault, PackProblems, Place, TextFault};
use super::texts::{is_name, lines_fault};
use daftar_domain::code::{Code, Namespace};
use daftar_domain::vocabulary::{ConceptGroup, Selection};

/// The codes of each vocabulary that the pack brings.
pub(super) type OwnCodes<'a> = HashMap<&'a Namespace, HashSet<&'a Code>>;

pub(super) fn check(groups: &[ConceptGroup], own_codes: &OwnCodes<'_>, problems: &mut PackProblems) {
    if groups.len() > CONCEPT_GROUPS_MAX {
        let fault = PackFault::TooMany { what: "concept groups", actual: groups.len(), max: CONCEPT_GROUPS_MAX };
        problems.push(Place::Pack, fault);
        return;
    }
    let mut names = HashSet::new();
    for group in groups {
        let shown_name: String = group.name.chars().take(super::limits::NAME_BYTES_MAX).collect();
        let mut push = |fault| problems.push(Place::ConceptGroup(shown_name.clone()), fault);
        if !is_name(&group.name) {
            push(PackFault::ConceptGroupName);
        }
        if !names.insert(&group.name) {
            push(PackFault::ConceptGroupTwice);
        }
        match lines_fault(&group.description, DESCRIPTION_TEXT_BYTES_MAX) {
            None | Some(TextFault::Empty) => {}
            Some(fault) => push(PackFault::Text { what: "description".to_owned(), fault }),
        }
        let actual = group.includes.len() + group.excludes.len();
        if actual > SELECTIONS_MAX {
            push(PackFault::TooMany { what: "selections", actual, max: SELECTIONS_MAX });
        }
        for selection in group.includes.iter().chain(&group.excludes).take(SELECTIONS_MAX) {
            let (Selection::Code(uri) | Selection::DescendantsOf(uri)) = selection;
            if own_codes.get(&uri.namespace).is_some_and(|codes| !codes.contains(&uri.code)) {
                push(PackFault::UnknownSelection(uri.clone()));
            }
        }
    }
}
