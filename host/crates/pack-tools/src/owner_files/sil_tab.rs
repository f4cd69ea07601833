//! SIL's table of ISO 639-3: the languages that have a code of two letters.

use crate::owner_files::cells::{self, Header, Quotes};
use crate::owner_files::draft::{DraftCode, DraftCompleteness, DraftHierarchy, DraftPack, DraftVocabulary};
use crate::owner_files::input::Input;
use crate::owner_files::owner;
use crate::owner_files::problem::{ImportError, excerpt};
use crate::owner_files::tally::Tally;

/// Codes that ISO 639-1 has withdrawn but that records may hold.
pub const WITHDRAWN: [&str; 2] = ["bh", "sh"];

/// Why most languages are not taken.
pub const NO_TWO_LETTERS: &str = "a language without a code of two letters";

/// Two lower-case letters.
pub fn is_code(text: &str) -> bool {
    text.len() == 2 && text.bytes().all(|byte| byte.is_ascii_lowercase())
}

/// Where the columns are.
struct Columns {
    id: usize,
    bibliographic: Option<usize>,
    code: usize,
    scope: usize,
    kind: usize,
    name: usize,
}

/// Reads the table.
///
/// # Errors
/// It is not this table, or cannot be read on.
pub fn read(input: &mut Input<'_>, tally: &mut Tally) -> Result<DraftPack, ImportError> {
    let open = |header: &Header| {
        let columns = Columns {
            id: header.require(input, &["Id"])?,
            bibliographic: header.find(&["Part2b"]),
            code: header.require(input, &["Part1"])?,
            scope: header.require(input, &["Scope"])?,
            kind: header.require(input, &["Language_Type"])?,
            name: header.require(input, &["Ref_Name"])?,
        };
        Ok((columns, Vec::new()))
    };
    let (_, mut codes) = cells::read(input, Quotes::Plain, tally, open, |(columns, codes), row, tally| {
        let text = |column: usize| row.cell(Some(column)).trim();
        let code = text(columns.code);
        let line = Some(row.line);
        if code.is_empty() {
            tally.leave_out(NO_TWO_LETTERS);
            return Ok(());
        }
        if !is_code(code) {
            tally.refuse(line, Some(code), format!("`{}` is not two lower-case letters", excerpt(code)));
            return Ok(());
        }
        let Some(label) = tally.text(text(columns.name)).filter(|label| !label.is_empty()) else {
            tally.refuse(line, Some(code), "it has no name, or one with a control character");
            return Ok(());
        };
        let mut draft = DraftCode::new(code, line).labelled("en", label);
        let forms = [text(columns.id), row.cell(columns.bibliographic).trim()];
        draft.aliases = forms.into_iter().filter(|form| !form.is_empty()).map(str::to_owned).collect();
        draft.aliases.dedup();
        draft.is_active = !WITHDRAWN.contains(&code);
        codes.push(draft.with_property("scope", text(columns.scope)).with_property("type", text(columns.kind)));
        Ok(())
    })?;
    codes.sort_by(|one, other| one.code.cmp(&other.code));
    let owner = owner::sil();
    let vocabulary = DraftVocabulary {
        namespace: "urn:iso:std:iso:639".to_owned(),
        name: "Languages".to_owned(),
        domain: "Geographic".to_owned(),
        // The table does not say of which day it is.
        edition: format!("sha256-{}", input.digest()?.chars().take(12).collect::<String>()),
        source: owner.source.clone(),
        table: "language".to_owned(),
        languages: vec!["en".to_owned()],
        completeness: DraftCompleteness::Full,
        hierarchy: DraftHierarchy::Parents,
        codes,
    };
    Ok(DraftPack::of(owner, vec![vocabulary]))
}
