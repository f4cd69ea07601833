//! A table of our own: one line a code, with its labels in the same line.
//!
//! ```text
//! code | parents | label[en] | label[fr] | definition[en] | uri | status | replaced_by | aliases | selectable | prop:<key>
//! ```
//! Cells are separated by tabs without quoting, or the table is CSV; parents and aliases are joined with `|`.

use crate::owner_files::ImportOptions;
use crate::owner_files::about::is_language_tag;
use crate::owner_files::cells::{self, Header, Quotes, Row};
use crate::owner_files::draft::{DraftCode, DraftCompleteness, DraftHierarchy, DraftLabel, DraftPack, DraftVocabulary};
use crate::owner_files::input::Input;
use crate::owner_files::limits::LANGUAGES_MAX;
use crate::owner_files::owner::Owner;
use crate::owner_files::problem::{ImportError, excerpt};
use crate::owner_files::tally::Tally;

/// What the operator has to say about a list whose owner is not known here.
pub struct Said {
    /// What the pack says about itself.
    pub owner: Owner,
    /// The URI that the codes live under.
    pub namespace: String,
    /// The vocabulary's name.
    pub name: String,
    /// The field it belongs to.
    pub domain: String,
    /// The name of its tables.
    pub table: String,
}

/// What the options say about a list whose owner is not known here.
///
/// # Errors
/// Something that has to be said is not; names all of it.
pub fn required(options: &ImportOptions, what: &str, edition: &str) -> Result<Said, ImportError> {
    let about = &options.about;
    let missing: Vec<&str> =
        [("--namespace", &about.namespace), ("--title", &about.title), ("--licence", &about.licence)]
            .into_iter()
            .filter(|(_, value)| value.is_none())
            .map(|(option, _)| option)
            .collect();
    let (Some(namespace), Some(name), Some(licence)) = (&about.namespace, &about.title, &about.licence) else {
        return Err(ImportError::missing(&missing, format_args!("{what} does not tell them")));
    };
    let pack_name = about.pack_name.clone().unwrap_or_else(|| slug(name));
    let source = about.source.clone().unwrap_or_else(|| format!("{name}, {edition}"));
    Ok(Said {
        owner: Owner {
            description: about.description.clone().unwrap_or_else(|| format!("The codes of {name}.")),
            licence: licence.clone(),
            attribution: about.attribution.clone().unwrap_or_default(),
            source,
            note: format!("Licence: {licence}\n\n{}", about.attribution.clone().unwrap_or_default()).trim().to_owned(),
            pack_name: pack_name.clone(),
        },
        namespace: namespace.clone(),
        name: name.clone(),
        domain: about.domain.clone().unwrap_or_else(|| "Other".to_owned()),
        table: pack_name,
    })
}

/// A text as the name of a pack: lower-case letters and digits, everything else a hyphen.
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

/// Where the columns are.
struct Columns {
    code: usize,
    parents: Option<usize>,
    uri: Option<usize>,
    status: Option<usize>,
    replaced_by: Option<usize>,
    aliases: Option<usize>,
    selectable: Option<usize>,
    /// Language, label, definition.
    labels: Vec<(String, Option<usize>, Option<usize>)>,
    properties: Vec<(String, usize)>,
}

/// How the cells of a table are told apart.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Separated {
    /// By tabs, without quoting.
    Tabs,
    /// By commas or semicolons, as a spreadsheet saves it.
    Csv,
}

/// Reads the table.
///
/// # Errors
/// It is no such table, cannot be read on, or too little is said about it.
pub fn read(
    input: &mut Input<'_>,
    separated: Separated,
    options: &ImportOptions,
    tally: &mut Tally,
) -> Result<DraftPack, ImportError> {
    let edition = match &options.about.edition {
        Some(edition) => edition.clone(),
        None => format!("sha256-{}", input.digest()?.chars().take(12).collect::<String>()),
    };
    let said = required(options, "a table", &edition)?;
    let open = |header: &Header| Ok((Columns::of(header, input, &options.languages)?, Vec::new()));
    let each = |(columns, codes): &mut (Columns, Vec<DraftCode>), row: &Row<'_>, tally: &mut Tally| {
        codes.extend(columns.code(row, tally));
        Ok(())
    };
    let (columns, codes) = match separated {
        Separated::Tabs => cells::read(input, Quotes::Plain, tally, open, each)?,
        Separated::Csv => cells::read_csv(input, tally, open, each)?,
    };
    let vocabulary = DraftVocabulary {
        namespace: said.namespace,
        name: said.name,
        domain: said.domain,
        edition,
        source: said.owner.source.clone(),
        table: said.table,
        languages: columns.labels.iter().map(|(language, _, _)| language.clone()).collect(),
        completeness: DraftCompleteness::Full,
        hierarchy: DraftHierarchy::Parents,
        codes,
    };
    Ok(DraftPack::of(said.owner, vec![vocabulary]))
}

impl Columns {
    fn of(header: &Header, input: &Input<'_>, wanted: &[String]) -> Result<Self, ImportError> {
        let mut columns = Self {
            code: header.require(input, &["code"])?,
            parents: header.find(&["parents", "parent"]),
            uri: header.find(&["uri"]),
            status: header.find(&["status"]),
            replaced_by: header.find(&["replaced_by"]),
            aliases: header.find(&["aliases"]),
            selectable: header.find(&["selectable"]),
            labels: Vec::new(),
            properties: Vec::new(),
        };
        for (index, name) in header.names().iter().enumerate() {
            let refuse = |wanted: &str| {
                Err(input.unusable(Some(1), format_args!("the column `{}` is not known: {wanted}", excerpt(name))))
            };
            if header.names().iter().take(index).any(|other| other == name) {
                return Err(input.unusable(Some(1), format_args!("the column `{}` occurs again", excerpt(name))));
            }
            if let Some(key) = name.strip_prefix("prop:") {
                if !is_property_key(key) {
                    return refuse("the name of a property is lower-case letters, digits and underscores");
                }
                columns.properties.push((key.to_owned(), index));
            } else if let Some(tag) = bracketed(name, "label") {
                match is_language_tag(tag) {
                    true => *columns.language(tag).0 = Some(index),
                    false => return refuse("between the brackets stands a language tag, such as en"),
                }
            } else if let Some(tag) = bracketed(name, "definition") {
                match is_language_tag(tag) {
                    true => *columns.language(tag).1 = Some(index),
                    false => return refuse("between the brackets stands a language tag, such as en"),
                }
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

    /// The columns of a language, made when it is new.
    fn language(&mut self, tag: &str) -> (&mut Option<usize>, &mut Option<usize>) {
        let index = self.labels.iter().position(|(language, ..)| language == tag).unwrap_or(self.labels.len());
        if index == self.labels.len() {
            self.labels.push((tag.to_owned(), None, None));
        }
        #[expect(clippy::indexing_slicing, reason = "the entry was found or made above")]
        let (_, label, definition) = &mut self.labels[index];
        (label, definition)
    }

    /// Puts the wanted languages in their order, the default one first, and drops the others.
    fn order(&mut self, input: &Input<'_>, wanted: &[String]) -> Result<(), ImportError> {
        if self.labels.is_empty() {
            return Err(input.unusable(Some(1), "no column has labels: one is called label[en], or another language"));
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

    fn code(&self, row: &Row<'_>, tally: &mut Tally) -> Option<DraftCode> {
        let line = Some(row.line);
        let code = row.cell(Some(self.code)).trim();
        let text = |column| row.cell(column).trim();
        let list = |column| {
            let items = text(column).split('|').map(str::trim).filter(|item| !item.is_empty());
            items.map(str::to_owned).collect::<Vec<_>>()
        };
        let mut draft = DraftCode::new(code, line);
        draft.parents = list(self.parents);
        draft.aliases = list(self.aliases);
        draft.uri = Some(text(self.uri).to_owned()).filter(|uri| !uri.is_empty());
        draft.replaced_by = Some(text(self.replaced_by).to_owned()).filter(|successor| !successor.is_empty());
        match text(self.status) {
            "" | "active" => {}
            "inactive" => draft.is_active = false,
            other => {
                tally.refuse(line, Some(code), format!("its status is `{}`, not active or inactive", excerpt(other)));
                return None;
            }
        }
        match text(self.selectable) {
            "" | "yes" => {}
            "no" => draft.is_selectable = false,
            other => {
                tally.refuse(line, Some(code), format!("`selectable` is `{}`, not yes or no", excerpt(other)));
                return None;
            }
        }
        for (language, label, definition) in &self.labels {
            let texts = (tally.text(row.cell(*label)), tally.text(row.cell(*definition)));
            let (Some(label), Some(definition)) = texts else {
                tally.refuse(line, Some(code), format!("its text in `{language}` holds a control character"));
                return None;
            };
            if !label.is_empty() {
                draft.labels.push(DraftLabel { language: language.clone(), text: label, definition });
            } else if !definition.is_empty() {
                tally.refuse(line, Some(code), format!("it has a definition in `{language}` and no label"));
                return None;
            }
        }
        for (key, column) in &self.properties {
            draft = draft.with_property(key, text(Some(*column)));
        }
        Some(draft)
    }
}

/// What stands between the brackets of `<name>[…]`.
fn bracketed<'a>(text: &'a str, name: &str) -> Option<&'a str> {
    text.strip_prefix(name)?.strip_prefix('[')?.strip_suffix(']')
}

fn is_property_key(key: &str) -> bool {
    key.len() <= 64
        && key.starts_with(|first: char| first.is_ascii_lowercase())
        && key.bytes().all(|byte| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'_')
}
