//! Lists of ISO codes: those of the iso-codes project, `{"3166-1": [{…}, …]}` and similar, and SIL's table of ISO
//! 639-3.

use std::collections::BTreeMap;

use serde::Deserialize;
use serde_json::value::RawValue;

use crate::publisher_files::cells::{Quotes, Table};
use crate::publisher_files::counts::Counts;
use crate::publisher_files::draft::{DraftCode, DraftPack};
use crate::publisher_files::input::Input;
use crate::publisher_files::json_items;
use crate::publisher_files::problem::{ImportError, excerpt};
use crate::publisher_files::publications::{self, Publication};

/// Codes that ISO 639-1 has withdrawn but that records may contain.
const WITHDRAWN: [&str; 2] = ["bh", "sh"];

/// The rule that leaves out most languages.
const NO_TWO_LETTERS: &str = "a language without a code of two letters";

/// One entry of any list of iso-codes, with the members that are used.
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

/// The kind of a list.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Kind {
    Countries,
    Languages,
    Currencies,
}

/// The lists of iso-codes: the member of the document, and its kind.
const LISTS: [(&str, Kind, &Publication<'_>); 4] = [
    ("3166-1", Kind::Countries, &publications::ISO_COUNTRIES),
    ("639-2", Kind::Languages, &publications::ISO_LANGUAGES),
    ("639-3", Kind::Languages, &publications::ISO_LANGUAGES),
    ("4217", Kind::Currencies, &publications::ISO_CURRENCIES),
];

/// Reads one of the lists of iso-codes.
///
/// # Errors
/// It is none of them, or is malformed.
pub fn read_iso_codes(input: &Input<'_>, counts: &mut Counts) -> Result<DraftPack, ImportError> {
    let text = input.read_text()?;
    let document: BTreeMap<String, &RawValue> = json_items::document(input, &text)?;
    for (member, kind, publication) in LISTS {
        if let Some(array) = json_items::array(document.get(member).copied()) {
            let mut codes = Vec::new();
            json_items::read::<Entry>(input, &text, array, counts, |entry, line, counts| {
                codes.extend(kind.code(member, &entry, line, counts));
            })?;
            return sorted(codes, publication, input);
        }
    }
    let members = LISTS.map(|(member, ..)| member).join(", ");
    Err(input.unusable(Some(1), format_args!("the document has none of the lists {members} of iso-codes")))
}

/// Reads SIL's table: the languages that have a code of two letters.
///
/// # Errors
/// It is not this table, or reading failed.
pub fn read_sil(input: &Input<'_>, counts: &mut Counts) -> Result<DraftPack, ImportError> {
    let table = Table::open(input, Quotes::Plain)?;
    table.require(&["Id", "Part1", "Scope", "Language_Type", "Ref_Name"])?;
    let mut codes = Vec::new();
    table.read(counts, |row, counts| {
        let Some(row) = row else { return };
        let (code, line) = (row.cell("Part1"), Some(row.line));
        if code.is_empty() {
            return counts.leave_out(NO_TWO_LETTERS);
        }
        if !Kind::Languages.is_code(code) {
            return counts.refuse(line, Some(code), format!("`{}` is not two lower-case letters", excerpt(code)));
        }
        let aliases = [row.cell("Id"), row.cell("Part2b")];
        if let Some(draft) = named(code, line, row.cell("Ref_Name"), aliases, counts) {
            codes.push(language(draft, row.cell("Scope"), row.cell("Language_Type")));
        }
    })?;
    sorted(codes, &publications::SIL_LANGUAGES, input)
}

/// The pack of a list that has no date.
fn sorted(
    mut codes: Vec<DraftCode>,
    publication: &Publication<'_>,
    input: &Input<'_>,
) -> Result<DraftPack, ImportError> {
    codes.sort_by(|one, other| one.code.cmp(&other.code));
    Ok(publication.pack(input.edition(None)?, codes))
}

impl Kind {
    fn code(self, member: &str, entry: &Entry, line: u64, counts: &mut Counts) -> Option<DraftCode> {
        fn text(text: &Option<String>) -> &str {
            text.as_deref().unwrap_or_default()
        }
        let name = entry.common_name.as_ref().filter(|_| self == Self::Countries).unwrap_or(&entry.name);
        let (code, aliases) = match self {
            Self::Countries => (&entry.alpha_2, [&entry.alpha_3, &entry.numeric]),
            Self::Languages => (&entry.alpha_2, [&entry.alpha_3, &entry.bibliographic]),
            Self::Currencies => (&entry.alpha_3, [&entry.numeric, &None]),
        };
        if self == Self::Languages && code.is_none() {
            counts.leave_out(NO_TWO_LETTERS);
            return None;
        }
        let (code, line) = (text(code), Some(line));
        if !self.is_code(code) {
            let reason = format!("`{}` is not a valid code of {member}", excerpt(code));
            counts.refuse(line, Some(code), reason);
            return None;
        }
        let draft = named(code, line, name, aliases.map(text), counts)?;
        let is_language = self == Self::Languages;
        Some(if is_language { language(draft, text(&entry.scope), text(&entry.kind)) } else { draft })
    }

    fn is_code(self, code: &str) -> bool {
        match self {
            Self::Countries => code.len() == 2 && code.bytes().all(|byte| byte.is_ascii_uppercase()),
            Self::Languages => code.len() == 2 && code.bytes().all(|byte| byte.is_ascii_lowercase()),
            Self::Currencies => code.len() == 3 && code.bytes().all(|byte| byte.is_ascii_uppercase()),
        }
    }
}

/// A code with its name and aliases; none if the name is unusable, which is rejected.
fn named(code: &str, line: Option<u64>, name: &str, aliases: [&str; 2], counts: &mut Counts) -> Option<DraftCode> {
    let mut draft = DraftCode::new(code, line).labelled("en", counts.name(line, code, name)?);
    draft.aliases = aliases.into_iter().filter(|alias| !alias.is_empty()).map(str::to_owned).collect();
    draft.aliases.dedup();
    Some(draft)
}

fn language(mut draft: DraftCode, scope: &str, kind: &str) -> DraftCode {
    draft.is_active = !WITHDRAWN.contains(&draft.code.as_str());
    draft.with_property("scope", scope).with_property("type", kind)
}
