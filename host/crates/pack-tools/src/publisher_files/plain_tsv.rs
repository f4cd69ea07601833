//! Our own table format: one line per code, with its labels in the same line.
//!
//! ```text
//! code | parents | label[en] | label[fr] | definition[en] | uri | status | replaced_by | aliases | selectable | prop:<key>
//! ```
//! Cells are separated by tabs without quoting, or the table is CSV; parents and aliases are joined with `|`.

use crate::publisher_files::ImportOptions;
use crate::publisher_files::cells::{Quotes, Row, Table};
use crate::publisher_files::counts::Counts;
use crate::publisher_files::draft::{DraftCode, DraftLabel, DraftPack};
use crate::publisher_files::input::{Input, without_mark};
use crate::publisher_files::problem::{ImportError, excerpt};
use crate::publisher_files::publications::Publication;
use crate::source_rules::{LANGUAGES_MAX, is_key, is_language_tag};

/// The pack of a list from an unknown publisher, with the metadata of the options.
///
/// # Errors
/// All required options that are missing.
pub fn unknown_list(
    options: &ImportOptions,
    what: &str,
    edition: String,
    codes: Vec<DraftCode>,
) -> Result<DraftPack, ImportError> {
    let about = &options.about;
    let (Some(namespace), Some(name), Some(licence)) = (&about.namespace, &about.title, &about.licence) else {
        let required = [("--namespace", &about.namespace), ("--title", &about.title), ("--licence", &about.licence)];
        let missing = required.iter().filter(|(_, value)| value.is_none()).map(|(option, _)| *option);
        let missing: Vec<&str> = missing.collect();
        return Err(ImportError::missing(&missing, format_args!("{what} does not contain them")));
    };
    let pack_name = about.pack_name.clone().unwrap_or_else(|| slug(name));
    let attribution = about.attribution.as_deref().unwrap_or_default();
    Ok(Publication {
        pack_name: &pack_name,
        description: &format!("The codes of {name}."),
        licence,
        attribution,
        source: &format!("{name}, {{edition}}"),
        note: format!("Licence: {licence}\n\n{attribution}").trim(),
        namespace,
        name,
        domain: "Other",
        table: &pack_name,
    }
    .pack(edition, codes))
}

/// Converts a text to the name of a pack: lower-case letters and digits, hyphens for everything else.
pub fn slug(text: &str) -> String {
    let mut slug = String::new();
    for character in text.chars().flat_map(char::to_lowercase) {
        if character.is_ascii_alphanumeric() {
            slug.push(character);
        } else if !slug.is_empty() && !slug.ends_with('-') {
            slug.push('-');
        }
        if slug.len() >= 60 {
            break;
        }
    }
    let slug = slug.trim_end_matches('-');
    if slug.is_empty() { "list".to_owned() } else { slug.to_owned() }
}

/// The positions of the columns for a language or a key.
#[derive(Default)]
struct Columns {
    /// Language, label, definition.
    labels: Vec<(String, Option<usize>, Option<usize>)>,
    properties: Vec<(String, usize)>,
}

/// The separator of a table.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Separated {
    /// Tabs, without quoting.
    Tabs,
    /// Commas or semicolons, as saved by a spreadsheet.
    Csv,
}

/// Reads the table.
///
/// # Errors
/// It is not such a table, reading failed, or required options are missing.
pub fn read(
    input: &Input<'_>,
    separated: Separated,
    options: &ImportOptions,
    counts: &mut Counts,
) -> Result<DraftPack, ImportError> {
    let edition = input.edition(options.about.edition.clone())?;
    let mut pack = unknown_list(options, "a table", edition, Vec::new())?;
    let table = match separated {
        Separated::Tabs => Table::open(input, Quotes::Plain)?,
        Separated::Csv => Table::open_csv(input, without_mark(input.read_whole()?))?,
    };
    table.require(&["code"])?;
    let columns = Columns::of(table.columns(), input, &options.languages)?;
    let mut codes = Vec::new();
    table.read(counts, |row, counts| codes.extend(row.and_then(|row| columns.code(row, counts))))?;
    if let Some(vocabulary) = pack.vocabularies.first_mut() {
        vocabulary.languages = columns.labels.into_iter().map(|(language, ..)| language).collect();
        vocabulary.codes = codes;
    }
    Ok(pack)
}

impl Columns {
    fn of(names: &[String], input: &Input<'_>, wanted: &[String]) -> Result<Self, ImportError> {
        let mut columns = Self::default();
        for (index, name) in names.iter().enumerate() {
            let refuse = |wanted: &str| {
                Err(input.unusable(Some(1), format_args!("the column `{}` is not known: {wanted}", excerpt(name))))
            };
            if names.iter().take(index).any(|other| other == name) {
                return Err(input.unusable(Some(1), format_args!("the column `{}` occurs again", excerpt(name))));
            }
            if let Some(key) = name.strip_prefix("prop:") {
                if !is_key(key) {
                    return refuse("the name of a property is lower-case letters, digits and underscores");
                }
                columns.properties.push((key.to_owned(), index));
            } else if let Some((kind @ ("label" | "definition"), tag)) =
                name.strip_suffix(']').and_then(|name| name.split_once('['))
            {
                if !is_language_tag(tag) {
                    return refuse("the brackets must contain a language tag, such as en");
                }
                let (label, definition) = columns.language(tag);
                *(if kind == "label" { label } else { definition }) = Some(index);
            } else if !matches!(
                name.as_str(),
                "code" | "parents" | "parent" | "uri" | "status" | "replaced_by" | "aliases" | "selectable"
            ) {
                return refuse(
                    "known are code, parents, label[<language>], definition[<language>], uri, status, replaced_by, \
                     aliases, selectable and prop:<key>",
                );
            }
        }
        columns.order(input, wanted)?;
        Ok(columns)
    }

    /// The columns of a language, added if it is new.
    fn language(&mut self, tag: &str) -> (&mut Option<usize>, &mut Option<usize>) {
        let index = self.labels.iter().position(|(language, ..)| language == tag).unwrap_or(self.labels.len());
        if index == self.labels.len() {
            self.labels.push((tag.to_owned(), None, None));
        }
        #[expect(clippy::indexing_slicing, reason = "the entry was found or made above")]
        let (_, label, definition) = &mut self.labels[index];
        (label, definition)
    }

    /// Sorts the requested languages, the default one first, and removes the others.
    fn order(&mut self, input: &Input<'_>, wanted: &[String]) -> Result<(), ImportError> {
        if self.labels.is_empty() {
            return Err(input.unusable(Some(1), "no column has labels: name one label[en], or use another language"));
        }
        if self.labels.len() > LANGUAGES_MAX {
            return Err(input.unusable(Some(1), format_args!("there are more than {LANGUAGES_MAX} languages")));
        }
        if wanted.is_empty() {
            self.labels.sort_by_key(|(language, ..)| language != "en");
            return Ok(());
        }
        let mut ordered = Vec::new();
        for language in wanted {
            match self.labels.iter().find(|(known, ..)| known == language) {
                Some(found) => ordered.push(found.clone()),
                None => {
                    let known: Vec<&str> = self.labels.iter().map(|(known, ..)| known.as_str()).collect();
                    let wanted = format!("a language of this table: {}", known.join(", "));
                    return Err(ImportError::option("--language", language, wanted));
                }
            }
        }
        self.labels = ordered;
        Ok(())
    }

    fn code(&self, row: &Row<'_>, counts: &mut Counts) -> Option<DraftCode> {
        let line = Some(row.line);
        let code = row.cell("code");
        let list = |column| {
            let items = row.cell(column).split('|').map(str::trim).filter(|item| !item.is_empty());
            items.map(str::to_owned).collect::<Vec<_>>()
        };
        let text = |column| Some(row.cell(column).to_owned()).filter(|text| !text.is_empty());
        let mut draft = DraftCode::new(code, line);
        draft.parents = list("parents|parent");
        draft.aliases = list("aliases");
        draft.uri = text("uri");
        draft.replaced_by = text("replaced_by");
        match row.cell("status") {
            "" | "active" => {}
            "inactive" => draft.is_active = false,
            other => {
                counts.refuse(line, Some(code), format!("its status is `{}`, not active or inactive", excerpt(other)));
                return None;
            }
        }
        match row.cell("selectable") {
            "" | "yes" => {}
            "no" => draft.is_selectable = false,
            other => {
                counts.refuse(line, Some(code), format!("`selectable` is `{}`, not yes or no", excerpt(other)));
                return None;
            }
        }
        for (language, label, definition) in &self.labels {
            let mut text = |column: &Option<usize>| counts.text(column.map_or("", |column| row.at(column)));
            let texts = (text(label), text(definition));
            let (Some(label), Some(definition)) = texts else {
                counts.refuse(line, Some(code), format!("its text in `{language}` contains a control character"));
                return None;
            };
            if !label.is_empty() {
                draft.labels.push(DraftLabel { language: language.clone(), text: label, definition });
            } else if !definition.is_empty() {
                counts.refuse(line, Some(code), format!("it has a definition in `{language}` and no label"));
                return None;
            }
        }
        for (key, column) in &self.properties {
            draft = draft.with_property(key, row.at(*column).trim());
        }
        Some(draft)
    }
}
