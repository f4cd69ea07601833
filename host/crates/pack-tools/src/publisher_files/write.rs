//! Writes a draft as the source of a pack: `pack.toml`, tables of codes and labels, `LICENSE-DATA.md`.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::fs;
use std::path::Path;

use crate::publisher_files::draft::{DraftCode, DraftPack, DraftVocabulary};
use crate::publisher_files::problem::ImportError;
use daftar_domain::vocabulary::Completeness;

/// Writes all files into an empty folder.
///
/// # Errors
/// A file cannot be written.
pub fn folder(draft: &DraftPack, sha256: &str, retained: &HandWritten, folder: &Path) -> Result<(), ImportError> {
    file(folder, "pack.toml", &settings(draft, sha256, retained))?;
    let note = format!(
        "# Licence of the data\n\n{}\n\nWritten by `daftar pack import` from a file whose unpacked content has the SHA-256\n`{sha256}`.\n",
        draft.note
    );
    file(folder, "LICENSE-DATA.md", &note)?;
    for vocabulary in &draft.vocabularies {
        let table = format!("{}.tsv", vocabulary.table);
        file(folder, &format!("codes/{table}"), &codes(vocabulary))?;
        for language in &vocabulary.languages {
            file(folder, &format!("labels/{language}/{table}"), &labels(vocabulary, language))?;
        }
    }
    Ok(())
}

fn file(folder: &Path, name: &str, content: &str) -> Result<(), ImportError> {
    let path = folder.join(name);
    let written = path.parent().map_or(Ok(()), fs::create_dir_all).and_then(|()| fs::write(&path, content));
    written.map_err(|source| ImportError::Write { path, source })
}

/// The keys of `pack.toml` that an import writes; all others were written by hand.
const PACK_KEYS: [&str; 8] =
    ["name", "version", "description", "licence", "attribution", "source", "default", "vocabulary"];
/// The same for a `[[vocabulary]]`.
const VOCABULARY_KEYS: [&str; 12] = [
    "namespace",
    "name",
    "domain",
    "version",
    "source",
    "default_language",
    "languages",
    "codes",
    "count",
    "hierarchical",
    "hierarchy",
    "completeness",
];

/// The manual additions to the `pack.toml` of an import, such as concept groups and extension fields: the next import
/// preserves them.
#[derive(Debug, Default, PartialEq)]
pub struct HandWritten {
    pack: toml::Table,
    /// By namespace.
    vocabularies: BTreeMap<String, toml::Table>,
}

impl HandWritten {
    /// The parts of this `pack.toml` that an import does not write.
    ///
    /// # Errors
    /// It is not TOML.
    pub fn of(settings: &str) -> Result<Self, toml::de::Error> {
        let mut pack: toml::Table = toml::from_str(settings)?;
        let mut vocabularies = BTreeMap::new();
        for vocabulary in pack.remove("vocabulary").as_ref().and_then(toml::Value::as_array).into_iter().flatten() {
            let Some(mut vocabulary) = vocabulary.as_table().cloned() else { continue };
            let Some(namespace) = vocabulary.get("namespace").and_then(toml::Value::as_str).map(str::to_owned) else {
                continue;
            };
            vocabulary.retain(|key, _| !VOCABULARY_KEYS.contains(&key));
            vocabularies.insert(namespace, vocabulary);
        }
        pack.retain(|key, _| !PACK_KEYS.contains(&key));
        Ok(Self { pack, vocabularies })
    }

    /// The vocabularies that `draft` no longer has.
    pub(super) fn missing_from(&self, draft: &DraftPack) -> Vec<String> {
        let has = |namespace: &str| draft.vocabularies.iter().any(|vocabulary| vocabulary.namespace == namespace);
        self.vocabularies.keys().filter(|namespace| !has(namespace)).cloned().collect()
    }

    /// The names of the preserved parts, such as `concept_group`.
    #[must_use]
    pub fn names(&self) -> Vec<String> {
        let of_pack = self.pack.keys().cloned();
        let of_vocabulary = |(namespace, keys): (&String, &toml::Table)| -> Vec<String> {
            keys.keys().map(|key| format!("{key} of {namespace}")).collect()
        };
        of_pack.chain(self.vocabularies.iter().flat_map(of_vocabulary)).collect()
    }

    /// The values of the pack as lines; only those that must precede the first table, or only the tables.
    fn of_pack(&self, is_table: bool) -> String {
        let wanted = self.pack.iter().filter(|(_, value)| holds_tables(value) == is_table);
        lines(wanted.map(|(key, value)| (key.clone(), value.clone())).collect())
    }

    fn of_vocabulary(&self, namespace: &str) -> String {
        self.vocabularies.get(namespace).map_or_else(String::new, |keys| lines(keys.clone()))
    }
}

fn holds_tables(value: &toml::Value) -> bool {
    value.is_table() || value.as_array().is_some_and(|items| items.iter().any(toml::Value::is_table))
}

/// A table as TOML; parsed TOML can always be serialized.
fn lines(table: toml::Table) -> String {
    toml::to_string(&table).unwrap_or_default()
}

fn settings(draft: &DraftPack, sha256: &str, retained: &HandWritten) -> String {
    let mut text = format!("# Written by `daftar pack import`; the unpacked file has the SHA-256\n# {sha256}\n");
    setting(&mut text, "name", &draft.pack_name);
    setting(&mut text, "version", draft.version());
    setting(&mut text, "description", &draft.description);
    setting(&mut text, "licence", &draft.licence);
    if !draft.attribution.is_empty() {
        setting(&mut text, "attribution", &draft.attribution);
    }
    setting(&mut text, "source", &draft.source);
    // The operator installs an imported pack explicitly.
    text.push_str("default = false\n");
    text.push_str(&retained.of_pack(false));
    for vocabulary in &draft.vocabularies {
        text.push_str("\n[[vocabulary]]\n");
        setting(&mut text, "namespace", &vocabulary.namespace);
        setting(&mut text, "name", &vocabulary.name);
        setting(&mut text, "domain", &vocabulary.domain);
        setting(&mut text, "version", &vocabulary.edition);
        setting(&mut text, "source", &vocabulary.source);
        setting(&mut text, "default_language", vocabulary.languages.first().map_or("en", String::as_str));
        let languages: Vec<String> = vocabulary.languages.iter().map(|language| quoted(language)).collect();
        append(&mut text, format_args!("languages = [{}]\n", languages.join(", ")));
        setting(&mut text, "codes", &format!("{}.tsv", vocabulary.table));
        let is_hierarchical = vocabulary.codes.iter().any(|code| !code.parents.is_empty());
        append(&mut text, format_args!("hierarchical = {is_hierarchical}\n"));
        if let (Some(rule), true) = (vocabulary.rule, is_hierarchical) {
            setting(&mut text, "hierarchy", rule.name());
        }
        if vocabulary.completeness == Completeness::Fragment {
            setting(&mut text, "completeness", "fragment");
        }
        text.push_str(&retained.of_vocabulary(&vocabulary.namespace));
    }
    let tables = retained.of_pack(true);
    if !tables.is_empty() {
        append(&mut text, format_args!("\n{tables}"));
    }
    text
}

/// Appends to a text, which cannot fail.
fn append(text: &mut String, arguments: std::fmt::Arguments<'_>) {
    let written = text.write_fmt(arguments);
    debug_assert!(written.is_ok(), "a string takes everything");
}

fn setting(text: &mut String, key: &str, value: &str) {
    append(text, format_args!("{key} = {}\n", quoted(value)));
}

/// A text as a TOML string.
fn quoted(text: &str) -> String {
    toml::Value::from(text).to_string()
}

/// The cell of a code in the column of that name.
type Cell = fn(&DraftCode, &str) -> String;

const COLUMNS: [(&str, Cell); 6] = [
    ("parents", |code, _| code.parents.join("|")),
    ("status", |code, _| if code.is_active { String::new() } else { "inactive".to_owned() }),
    ("replaced_by", |code, _| code.replaced_by.clone().unwrap_or_default()),
    ("aliases", |code, _| code.aliases.join("|")),
    ("uri", |code, _| code.uri.clone().unwrap_or_default()),
    ("selectable", |code, _| if code.is_selectable { String::new() } else { "no".to_owned() }),
];

/// The prefix of a property's column.
const PROPERTY: &str = "prop:";

fn property(code: &DraftCode, column: &str) -> String {
    let key = column.strip_prefix(PROPERTY).unwrap_or(column);
    code.properties.iter().find(|(other, _)| other == key).map(|(_, value)| value.clone()).unwrap_or_default()
}

/// The columns in which any code has a value.
fn columns(vocabulary: &DraftVocabulary) -> Vec<(String, Cell)> {
    let fixed = COLUMNS.iter().filter(|(name, _)| !(*name == "parents" && vocabulary.rule.is_some()));
    let mut columns: Vec<(String, Cell)> = fixed.map(|(name, cell)| ((*name).to_owned(), *cell)).collect();
    let mut keys: Vec<&str> = Vec::new();
    for (key, _) in vocabulary.codes.iter().flat_map(|code| &code.properties) {
        if !keys.contains(&key.as_str()) {
            keys.push(key);
        }
    }
    columns.extend(keys.iter().map(|key| (format!("{PROPERTY}{key}"), property as Cell)));
    columns.retain(|(name, cell)| vocabulary.codes.iter().any(|code| !cell(code, name).is_empty()));
    columns
}

fn codes(vocabulary: &DraftVocabulary) -> String {
    let columns = columns(vocabulary);
    let mut text = String::from("code");
    for (name, _) in &columns {
        append(&mut text, format_args!("\t{name}"));
    }
    text.push('\n');
    for code in &vocabulary.codes {
        text.push_str(&code.code);
        for (name, cell) in &columns {
            append(&mut text, format_args!("\t{}", cell(code, name)));
        }
        text.push('\n');
    }
    text
}

fn labels(vocabulary: &DraftVocabulary, language: &str) -> String {
    let labelled = || vocabulary.codes.iter().filter_map(|code| Some((code, code.label(language)?)));
    let is_defined = labelled().any(|(_, label)| !label.definition.is_empty());
    let mut text = String::from(if is_defined { "code\tlabel\tdefinition\n" } else { "code\tlabel\n" });
    for (code, label) in labelled() {
        append(&mut text, format_args!("{}\t{}", code.code, label.text));
        if is_defined {
            append(&mut text, format_args!("\t{}", label.definition));
        }
        text.push('\n');
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    const BY_HAND: &str = r#"
        name = "water"
        limits = 3
        [[vocabulary]]
        namespace = "urn:example:water"
        name = "Water"
        count = 12
        system = true
        [[concept_group]]
        name = "safe"
        description = "Safe."
        include = [{ code = "urn:example:water#piped" }]
        [[extension_field]]
        path = "housing.water"
        type = "coded"
    "#;

    #[test]
    fn manual_additions_are_listed_and_preserved() {
        let retained = HandWritten::of(BY_HAND).unwrap();
        assert_eq!(retained.names(), ["concept_group", "extension_field", "limits", "system of urn:example:water"]);
        let text = format!(
            "{}\n[[vocabulary]]\nnamespace = \"urn:example:water\"\n{}\n{}",
            retained.of_pack(false),
            retained.of_vocabulary("urn:example:water"),
            retained.of_pack(true)
        );
        assert_eq!(HandWritten::of(&text).unwrap(), retained, "{text}");
        assert_eq!(HandWritten::of("name = 'x'\n[[vocabulary]]\nnamespace = 'y'").unwrap().names(), [""; 0]);
        assert!(HandWritten::of("name = ").is_err());
    }
}
