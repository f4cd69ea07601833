//! Concept groups: names, and whether the codes they speak of exist.

use std::collections::HashSet;

use super::settings::{ConceptGroupSettings, SETTINGS_FILE, SelectionSetting, is_sound_text};
use crate::pack::limits::{CONCEPT_GROUPS_MAX, SELECTIONS_MAX};
use crate::pack::problem::{PackErrors, PackProblemKind};
use daftar_domain::code::CodeUri;
use daftar_domain::vocabulary::{Concept, ConceptGroup, Selection, VocabularyDescription};

/// The codes of this pack, to look selections up in.
struct Codes<'a> {
    namespaces: HashSet<&'a str>,
    codes: HashSet<(&'a str, &'a str)>,
}

/// Checks the groups of a pack; what is wrong is reported.
///
/// A group may speak of codes of another pack, which cannot be checked here: the host resolves them when it publishes.
pub fn check(
    groups: &[ConceptGroupSettings],
    vocabularies: &[(VocabularyDescription, Vec<Concept>)],
    errors: &mut PackErrors,
) -> Vec<ConceptGroup> {
    if groups.len() > CONCEPT_GROUPS_MAX {
        let kind = PackProblemKind::TooMany { what: "concept groups", actual: groups.len(), max: CONCEPT_GROUPS_MAX };
        errors.push(SETTINGS_FILE, None, None, kind);
    }
    let codes = Codes::of(vocabularies);
    let mut names = HashSet::new();
    groups
        .iter()
        .map(|group| {
            check_texts(group, errors);
            if !names.insert(&group.name) {
                let kind = PackProblemKind::Repeated { what: "the concept group", value: group.name.clone() };
                errors.push(SETTINGS_FILE, None, None, kind);
            }
            ConceptGroup {
                name: group.name.clone(),
                description: group.description.clone(),
                includes: codes.selections(&group.name, &group.include, errors),
                excludes: codes.selections(&group.name, &group.exclude, errors),
            }
        })
        .collect()
}

fn check_texts(group: &ConceptGroupSettings, errors: &mut PackErrors) {
    let mut push = |kind| errors.push(SETTINGS_FILE, None, None, kind);
    if !is_group_name(&group.name) {
        let wanted = "1 to 64 lower-case letters, digits and underscores, beginning with a letter";
        push(PackProblemKind::Setting { key: "concept_group.name".to_owned(), value: group.name.clone(), wanted });
    }
    if group.description.is_empty() || !is_sound_text(&group.description) {
        let wanted = "a sentence that says what belongs to the group";
        let key = format!("description of the concept group {}", group.name);
        push(PackProblemKind::Setting { key, value: group.description.clone(), wanted });
    }
    if group.include.is_empty() {
        let key = format!("include of the concept group {}", group.name);
        push(PackProblemKind::Setting { key, value: String::new(), wanted: "a list of at least one selection" });
    }
    let count = group.include.len() + group.exclude.len();
    if count > SELECTIONS_MAX {
        push(PackProblemKind::TooMany { what: "selections", actual: count, max: SELECTIONS_MAX });
    }
}

impl<'a> Codes<'a> {
    fn of(vocabularies: &'a [(VocabularyDescription, Vec<Concept>)]) -> Self {
        let mut namespaces = HashSet::new();
        let mut codes = HashSet::new();
        for (description, concepts) in vocabularies {
            namespaces.insert(description.namespace.as_str());
            codes.extend(concepts.iter().map(|concept| (description.namespace.as_str(), concept.code.as_str())));
        }
        Self { namespaces, codes }
    }

    /// The selections that can be read; what is wrong with the others is reported.
    fn selections(&self, group: &str, settings: &[SelectionSetting], errors: &mut PackErrors) -> Vec<Selection> {
        let mut selections = Vec::new();
        for setting in settings {
            match self.selection(setting) {
                Ok(selection) => selections.push(selection),
                Err(wanted) => {
                    let key = format!("selection of the concept group {group}");
                    let value = setting.uri().escape_debug().to_string();
                    errors.push(SETTINGS_FILE, None, None, PackProblemKind::Setting { key, value, wanted });
                }
            }
        }
        selections
    }

    /// The selection, or what it should have been.
    fn selection(&self, setting: &SelectionSetting) -> Result<Selection, &'static str> {
        let uri = CodeUri::parse(setting.uri()).map_err(|_| "the URI of a code, <namespace>#<code>")?;
        let (namespace, code) = (uri.namespace.as_str(), uri.code.as_str());
        if self.namespaces.contains(namespace) && !self.codes.contains(&(namespace, code)) {
            return Err("a code of that vocabulary");
        }
        Ok(match setting {
            SelectionSetting::Code(_) => Selection::Code(uri),
            SelectionSetting::DescendantsOf(_) => Selection::DescendantsOf(uri),
        })
    }
}

fn is_group_name(text: &str) -> bool {
    text.len() <= 64
        && text.starts_with(|first: char| first.is_ascii_lowercase())
        && text.bytes().all(|byte| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'_')
}
