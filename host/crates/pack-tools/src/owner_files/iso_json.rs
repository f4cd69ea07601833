//! Lists of the iso-codes project: `{"3166-1": [{…}, …]}` and its sisters.

use serde::Deserialize;
use serde_json::value::RawValue;

use crate::owner_files::draft::{DraftCode, DraftCompleteness, DraftHierarchy, DraftPack, DraftVocabulary};
use crate::owner_files::input::Input;
use crate::owner_files::owner;
use crate::owner_files::problem::{ImportError, excerpt};
use crate::owner_files::tally::Tally;
use crate::owner_files::{json_items, sil_tab};

/// The file, which has one of the lists.
#[derive(Deserialize)]
struct Document<'t> {
    #[serde(borrow, rename = "3166-1")]
    countries: Option<&'t RawValue>,
    #[serde(borrow, rename = "639-2")]
    languages_639_2: Option<&'t RawValue>,
    #[serde(borrow, rename = "639-3")]
    languages_639_3: Option<&'t RawValue>,
    #[serde(borrow, rename = "4217")]
    currencies: Option<&'t RawValue>,
}

/// One entry of any of the lists. Members that are not named here are not needed.
#[derive(Debug, Deserialize)]
struct Entry {
    alpha_2: Option<String>,
    alpha_3: Option<String>,
    bibliographic: Option<String>,
    numeric: Option<String>,
    name: String,
    common_name: Option<String>,
    scope: Option<String>,
    #[serde(rename = "type")]
    kind: Option<String>,
}

/// A list that is known.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum List {
    Countries,
    Languages639_2,
    Languages639_3,
    Currencies,
}

impl List {
    /// The member that holds the list.
    fn member(self) -> &'static str {
        match self {
            Self::Countries => "3166-1",
            Self::Languages639_2 => "639-2",
            Self::Languages639_3 => "639-3",
            Self::Currencies => "4217",
        }
    }

    fn code(self, entry: &Entry, line: u64, tally: &mut Tally) -> Option<DraftCode> {
        let line = Some(line);
        let name = entry.common_name.as_ref().filter(|_| self == Self::Countries).unwrap_or(&entry.name);
        let (code, aliases) = match self {
            Self::Countries => (&entry.alpha_2, vec![&entry.alpha_3, &entry.numeric]),
            Self::Languages639_2 | Self::Languages639_3 => {
                if entry.alpha_2.is_none() {
                    tally.leave_out(sil_tab::NO_TWO_LETTERS);
                    return None;
                }
                (&entry.alpha_2, vec![&entry.alpha_3, &entry.bibliographic])
            }
            Self::Currencies => (&entry.alpha_3, vec![&entry.numeric]),
        };
        let code = code.as_deref().unwrap_or_default();
        if !self.is_code(code) {
            let reason = format!("`{}` does not have the shape of a code of {}", excerpt(code), self.member());
            tally.refuse(line, Some(code), reason);
            return None;
        }
        let Some(label) = tally.text(name).filter(|label| !label.is_empty()) else {
            tally.refuse(line, Some(code), "it has no name, or one with a control character");
            return None;
        };
        let mut draft = DraftCode::new(code, line).labelled("en", label);
        draft.aliases = aliases.into_iter().flatten().filter(|alias| !alias.is_empty()).cloned().collect();
        draft.aliases.dedup();
        match self {
            Self::Countries | Self::Currencies => {}
            Self::Languages639_2 | Self::Languages639_3 => {
                draft.is_active = !sil_tab::WITHDRAWN.contains(&code);
                let text = |text: &Option<String>| text.clone().unwrap_or_default();
                draft = draft.with_property("scope", &text(&entry.scope)).with_property("type", &text(&entry.kind));
            }
        }
        Some(draft)
    }

    fn is_code(self, code: &str) -> bool {
        match self {
            Self::Countries => code.len() == 2 && code.bytes().all(|byte| byte.is_ascii_uppercase()),
            Self::Languages639_2 | Self::Languages639_3 => sil_tab::is_code(code),
            Self::Currencies => code.len() == 3 && code.bytes().all(|byte| byte.is_ascii_uppercase()),
        }
    }
}

/// Reads one of the lists.
///
/// # Errors
/// It is none of them, or is broken.
pub fn read(input: &mut Input<'_>, tally: &mut Tally) -> Result<DraftPack, ImportError> {
    let text = input.read_text()?;
    let document: Document<'_> = json_items::document(input, &text)?;
    let lists = [
        (List::Countries, document.countries),
        (List::Languages639_2, document.languages_639_2),
        (List::Languages639_3, document.languages_639_3),
        (List::Currencies, document.currencies),
    ];
    for (list, member) in lists {
        if let Some(array) = json_items::array(member) {
            let mut codes = Vec::new();
            json_items::read::<Entry>(input, &text, array, tally, |entry, line, tally| {
                codes.extend(list.code(&entry, line, tally));
            })?;
            codes.sort_by(|one, other| one.code.cmp(&other.code));
            return draft(list, codes, input);
        }
    }
    let members = lists.map(|(list, _)| list.member());
    let reason = format!("the document has none of the lists {} of iso-codes", members.join(", "));
    Err(input.unusable(Some(1), reason))
}

fn draft(list: List, codes: Vec<DraftCode>, input: &Input<'_>) -> Result<DraftPack, ImportError> {
    let (owner, namespace, name, table) = match list {
        List::Countries => (
            owner::iso_codes("country", "ISO 3166-1", "Countries and territories of ISO 3166-1 by alpha-2 code."),
            "urn:iso:std:iso:3166-1",
            "Countries",
            "country",
        ),
        List::Languages639_2 | List::Languages639_3 => (
            owner::iso_codes("language", "ISO 639", "Languages of ISO 639 that have a two-letter code."),
            "urn:iso:std:iso:639",
            "Languages",
            "language",
        ),
        List::Currencies => (
            owner::iso_codes("currency", "ISO 4217", "Currencies, funds and metals of ISO 4217."),
            "urn:iso:std:iso:4217",
            "Currencies",
            "currency",
        ),
    };
    let vocabulary = DraftVocabulary {
        namespace: namespace.to_owned(),
        name: name.to_owned(),
        domain: "Geographic".to_owned(),
        // The lists do not say of which day they are.
        edition: format!("sha256-{}", input.digest()?.chars().take(12).collect::<String>()),
        source: owner.source.clone(),
        table: table.to_owned(),
        languages: vec!["en".to_owned()],
        completeness: DraftCompleteness::Full,
        hierarchy: DraftHierarchy::Parents,
        codes,
    };
    Ok(DraftPack::of(owner, vec![vocabulary]))
}
