//! A draft of a pack: the result of a reader, and the checks that are common to all formats.
//!
//! **Invariant:** the result of [`DraftPack::finish`] is valid as a pack's source: codes are valid and unique, parents
//! exist and have no cycles, each code has a label in the default language.

use std::collections::{HashMap, HashSet};

use crate::publisher_files::counts::Counts;
use crate::publisher_files::problem::{ImportError, excerpt};
use crate::publisher_files::{About, ImportOptions};
use crate::source_rules::{
    CODES_MAX, DEFINITION_BYTES_MAX, HierarchyRule, LABEL_BYTES_MAX, LIST_ITEMS_MAX, cycles, is_text,
};
use daftar_domain::code::{Code, Namespace};
use daftar_domain::manifest::PluginVersion;
use daftar_domain::vocabulary::Completeness;

/// The version of a pack whose file has none: greater than those of the shipped packs, so that a server does not
/// replace it by the shipped pack at the next start.
const DEFAULT_VERSION: &str = "2.0.0";

/// A draft of a pack.
#[derive(Debug)]
pub struct DraftPack {
    /// Its name.
    pub pack_name: String,
    /// A description, in one sentence.
    pub description: String,
    /// Licence of the data.
    pub licence: String,
    /// The acknowledgement; may be empty.
    pub attribution: String,
    /// The publication.
    pub source: String,
    /// The text of `LICENSE-DATA.md`.
    pub note: String,
    /// Its version, if the file has one.
    pub version: Option<String>,
    /// Its vocabularies, at least one.
    pub vocabularies: Vec<DraftVocabulary>,
}

/// A draft of a vocabulary.
#[derive(Debug)]
pub struct DraftVocabulary {
    /// The namespace URI of its codes.
    pub namespace: String,
    /// Its name.
    pub name: String,
    /// Its subject area.
    pub domain: String,
    /// The version that records store.
    pub edition: String,
    /// The publication and its release.
    pub source: String,
    /// The name of its tables, without `.tsv`.
    pub table: String,
    /// The languages, the default one first.
    pub languages: Vec<String>,
    /// True if the file contains every code of its source.
    pub completeness: Completeness,
    /// The rule of `pack.toml` that determines parents; without one, they are in a column.
    pub rule: Option<HierarchyRule>,
    /// Its codes, in listing order.
    pub codes: Vec<DraftCode>,
}

/// A draft of a code.
#[derive(Debug, Clone)]
pub struct DraftCode {
    /// The code.
    pub code: String,
    /// Its line in the file.
    pub line: Option<u64>,
    /// The parents, the primary one first.
    pub parents: Vec<String>,
    /// True if new records may use it.
    pub is_active: bool,
    /// False for a heading that only groups other codes.
    pub is_selectable: bool,
    /// The successor of an inactive code.
    pub replaced_by: Option<String>,
    /// Other spellings that lookups accept.
    pub aliases: Vec<String>,
    /// The publisher's URI.
    pub uri: Option<String>,
    /// Its properties.
    pub properties: Vec<(String, String)>,
    /// Its labels.
    pub labels: Vec<DraftLabel>,
}

/// A label, and possibly a definition, in one language.
#[derive(Debug, Clone)]
pub struct DraftLabel {
    /// BCP 47 tag.
    pub language: String,
    /// The label.
    pub text: String,
    /// The definition; empty if there is none.
    pub definition: String,
}

impl DraftCode {
    /// An active, selectable top-level code.
    pub fn new(code: impl Into<String>, line: Option<u64>) -> Self {
        Self {
            code: code.into(),
            line,
            parents: Vec::new(),
            is_active: true,
            is_selectable: true,
            replaced_by: None,
            aliases: Vec::new(),
            uri: None,
            properties: Vec::new(),
            labels: Vec::new(),
        }
    }

    /// Adds a label.
    pub fn labelled(mut self, language: &str, text: impl Into<String>) -> Self {
        self.labels.push(DraftLabel { language: language.to_owned(), text: text.into(), definition: String::new() });
        self
    }

    /// Adds a property, unless its value is empty.
    pub fn with_property(mut self, key: &str, value: &str) -> Self {
        if !value.is_empty() {
            self.properties.push((key.to_owned(), value.to_owned()));
        }
        self
    }

    /// The label in a language.
    pub fn label(&self, language: &str) -> Option<&DraftLabel> {
        self.labels.iter().find(|label| label.language == language)
    }
}

impl DraftPack {
    /// Applies the operator's options and checks the pack.
    ///
    /// # Errors
    /// All problems.
    pub fn finish(mut self, options: &ImportOptions, counts: &mut Counts) -> Result<Self, ImportError> {
        self.take_only(&options.only)?;
        self.apply(&options.about)?;
        if self.version.is_none() {
            counts.notes.push(format!(
                "the file has no date or version, so the pack's version is {DEFAULT_VERSION}; set another one with --pack-version"
            ));
        }
        for vocabulary in &mut self.vocabularies {
            vocabulary.apply_rule();
            vocabulary.check(counts);
        }
        counts.settle()?;
        for vocabulary in &mut self.vocabularies {
            vocabulary.drop_unused_languages();
            let (count, namespace) = (vocabulary.codes.len(), &vocabulary.namespace);
            if count == 0 {
                return Err(counts.unusable(format_args!("no code of `{namespace}` is left of this file")));
            }
            if count > CODES_MAX {
                return Err(counts.unusable(format_args!(
                    "it has {count} codes of `{namespace}`; a vocabulary has at most {CODES_MAX}"
                )));
            }
        }
        Ok(self)
    }

    /// The version to write.
    pub fn version(&self) -> &str {
        self.version.as_deref().unwrap_or(DEFAULT_VERSION)
    }

    fn take_only(&mut self, only: &[String]) -> Result<(), ImportError> {
        let known: Vec<String> = self.vocabularies.iter().map(|vocabulary| vocabulary.namespace.clone()).collect();
        for namespace in only {
            if !known.contains(namespace) {
                let wanted = format!("a vocabulary of this file: {}", known.join(", "));
                return Err(ImportError::option("--only", namespace, wanted));
            }
        }
        if !only.is_empty() {
            self.vocabularies.retain(|vocabulary| only.contains(&vocabulary.namespace));
        }
        Ok(())
    }

    fn apply(&mut self, about: &About) -> Result<(), ImportError> {
        let put = |place: &mut String, value: &Option<String>| {
            if let Some(value) = value {
                place.clone_from(value);
            }
        };
        if let (Some(namespace), true) = (&about.namespace, self.vocabularies.len() > 1) {
            let wanted = "applicable to a file with several vocabularies; choose one with --only";
            return Err(ImportError::option("--namespace", namespace, wanted));
        }
        for vocabulary in &mut self.vocabularies {
            put(&mut vocabulary.namespace, &about.namespace);
            put(&mut vocabulary.name, &about.title);
            put(&mut vocabulary.domain, &about.domain);
            put(&mut vocabulary.edition, &about.edition);
            put(&mut vocabulary.source, &about.source);
            Namespace::parse(&vocabulary.namespace)
                .map_err(|error| ImportError::option("--namespace", &vocabulary.namespace, error))?;
        }
        if about.edition.is_some()
            && let Some(version) = self.vocabularies.first().and_then(|first| version_of(&first.edition))
        {
            self.version = Some(version);
        }
        if about.pack_version.is_some() {
            self.version.clone_from(&about.pack_version);
        }
        put(&mut self.pack_name, &about.pack_name);
        put(&mut self.description, &about.description);
        put(&mut self.licence, &about.licence);
        put(&mut self.attribution, &about.attribution);
        put(&mut self.source, &about.source);
        Ok(())
    }
}

impl DraftVocabulary {
    /// Sets the parents of all codes by the rule; readers accept only codes that match their rule.
    fn apply_rule(&mut self) {
        let Some(rule) = self.rule else { return };
        for code in &mut self.codes {
            let parent = rule.parent(&code.code).ok().flatten().map(str::to_owned);
            code.parents = parent.into_iter().collect();
        }
    }

    /// Checks the codes, regardless of their format; invalid ones are rejected and removed.
    fn check(&mut self, counts: &mut Counts) {
        let codes = &mut self.codes;
        let default_language = self.languages.first().map_or("en", String::as_str);
        retain(codes, counts, |code| own_fault(code, default_language));
        let mut first_lines: HashMap<String, Option<u64>> = HashMap::new();
        retain(codes, counts, |code| match first_lines.get(&code.code) {
            Some(Some(line)) => Some(format!("the code occurs again; it is already on line {line}")),
            Some(None) => Some("the code occurs again".to_owned()),
            None => {
                first_lines.insert(code.code.clone(), code.line);
                None
            }
        });
        let mut taken: HashMap<String, String> = HashMap::new();
        retain(codes, counts, |code| alias_fault(code, &first_lines, &mut taken));
        // Removing a code may leave others without a parent.
        loop {
            let before = codes.len();
            let known: HashSet<String> = codes.iter().map(|code| code.code.clone()).collect();
            retain(codes, counts, |code| reference_fault(code, &known, &first_lines));
            let cycles = codes_on_cycles(codes);
            retain(codes, counts, |code| {
                cycles.get(&code.code).map(|path| format!("the code is below itself: {path}"))
            });
            if codes.len() == before {
                break;
            }
        }
    }

    /// Removes languages in which no code has a label. The default one stays.
    fn drop_unused_languages(&mut self) {
        let codes = &self.codes;
        let mut is_first = true;
        self.languages.retain(|language| {
            std::mem::take(&mut is_first) || codes.iter().any(|code| code.label(language).is_some())
        });
    }
}

/// Removes the codes that have a problem.
fn retain(codes: &mut Vec<DraftCode>, counts: &mut Counts, mut fault: impl FnMut(&DraftCode) -> Option<String>) {
    codes.retain(|code| match fault(code) {
        Some(reason) => {
            counts.refuse(code.line, Some(&code.code), reason);
            false
        }
        None => true,
    });
}

/// The problem of a code, independent of other codes.
fn own_fault(code: &DraftCode, default_language: &str) -> Option<String> {
    if let Err(error) = Code::parse(&code.code) {
        return Some(error.to_string());
    }
    if code.code.contains('|') {
        return Some("a code of a pack built from files contains no `|`".to_owned());
    }
    if code.label(default_language).is_none() {
        return Some(format!("it has no label in the default language `{default_language}`"));
    }
    for label in &code.labels {
        if label.text.len() > LABEL_BYTES_MAX {
            return Some(format!("its label has {} bytes; the limit is {LABEL_BYTES_MAX}", label.text.len()));
        }
        if label.definition.len() > DEFINITION_BYTES_MAX {
            let bytes = label.definition.len();
            return Some(format!("its definition has {bytes} bytes; the limit is {DEFINITION_BYTES_MAX}"));
        }
    }
    for (what, count) in [("parents", code.parents.len()), ("other spellings", code.aliases.len())] {
        if count > LIST_ITEMS_MAX {
            return Some(format!("it has {count} {what}; the limit is {LIST_ITEMS_MAX}"));
        }
    }
    let texts = code.aliases.iter().chain(&code.uri).chain(code.properties.iter().map(|(_, value)| value));
    for text in texts {
        if !is_text(text) {
            let shown = excerpt(text);
            return Some(format!("`{shown}` is no trimmed line of at most {LABEL_BYTES_MAX} bytes"));
        }
    }
    if let Some(alias) = code.aliases.iter().find(|alias| alias.contains('|')) {
        return Some(format!("the other spelling `{alias}` contains a `|`"));
    }
    None
}

/// Checks that each alias of a code identifies only that code.
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
            return Some(format!("its other spelling `{alias}` is already used by the code `{taken_by}`"));
        }
    }
    None
}

/// Checks that the codes that a code refers to exist.
fn reference_fault(
    code: &DraftCode,
    known: &HashSet<String>,
    in_file: &HashMap<String, Option<u64>>,
) -> Option<String> {
    let parents = code.parents.iter().map(|parent| ("parent", parent));
    let named = parents.chain(code.replaced_by.iter().map(|successor| ("successor", successor)));
    for (what, named) in named {
        if !known.contains(named) {
            let shown = excerpt(named);
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

/// The codes on a cycle, each with the first cycle found.
fn codes_on_cycles(codes: &[DraftCode]) -> HashMap<String, String> {
    let mut found = HashMap::new();
    for cycle in cycles(codes.iter().map(|code| (code.code.as_str(), code.parents.iter().map(String::as_str)))) {
        for code in cycle.codes.iter().filter_map(|index| codes.get(*index)) {
            found.entry(code.code.clone()).or_insert_with(|| cycle.path.clone());
        }
    }
    found
}

/// Derives a pack's version from an edition that begins with a year and a month, and possibly a day: 2024.1.0 for
/// 2024-01.
pub fn version_of(edition: &str) -> Option<String> {
    let mut parts = edition.split('-').map(|part| part.parse::<u32>().ok());
    let (year, month) = (parts.next()??, parts.next()??);
    let day = parts.next().flatten().unwrap_or(0);
    let is_date = (1000..10_000).contains(&year) && (1..=12).contains(&month) && day <= 31;
    is_date.then(|| PluginVersion::new(year, month, day).to_string())
}

#[cfg(test)]
mod tests {
    use super::version_of;

    #[test]
    fn an_edition_that_is_a_date_gives_the_pack_its_version() {
        assert_eq!(version_of("2024-01").as_deref(), Some("2024.1.0"));
        assert_eq!(version_of("2026-01-01").as_deref(), Some("2026.1.1"));
        for edition in ["08", "2024", "2024-13", "reconstructed", ""] {
            assert_eq!(version_of(edition), None, "{edition}");
        }
    }
}
