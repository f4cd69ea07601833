//! ICD-11: chapters, blocks and categories, each below the nearest earlier row that is one hyphen shallower.

use super::{Line, Release, WhoRow};
use crate::owner_files::draft::{DraftCode, DraftCompleteness, DraftHierarchy, DraftPack, DraftVocabulary};
use crate::owner_files::problem::{ImportError, excerpt};
use crate::owner_files::tally::Tally;
use crate::owner_files::{ImportOptions, owner};

const NAMESPACE: &str = "urn:who:icd-11";

/// The chapter of extension codes.
const EXTENSION_CHAPTER: &str = "X";

/// What stands where WHO has not given a code yet.
const NO_CODE: &str = "_NOCODEASSIGNED";

/// The draft of a table of ICD-11.
pub fn draft(
    lines: Vec<Line>,
    release: Release,
    options: &ImportOptions,
    tally: &mut Tally,
) -> Result<DraftPack, ImportError> {
    let mut codes = Vec::with_capacity(lines.len());
    let mut above = Above::default();
    for line in lines {
        let row = match line {
            Line::Taken(row) => row,
            Line::NotTaken(depth) => {
                above.pass_over(depth);
                continue;
            }
            Line::Unreadable => {
                above.lose();
                continue;
            }
        };
        if options.without_extension_codes && row.chapter == EXTENSION_CHAPTER {
            tally.leave_out("an extension code, or a heading of them");
            above.pass_over(row.depth);
            continue;
        }
        let parent = match above.parent(row.depth) {
            Ok(parent) => parent,
            Err(reason) => {
                // One that would not be taken anyway is told of by its own reason only.
                if key(&row, tally).is_some() {
                    tally.refuse(Some(row.line), Some(&row.code), reason);
                }
                above.pass_over(row.depth);
                continue;
            }
        };
        let key = key(&row, tally);
        above.put(row.depth, key.clone());
        if let Some(key) = key {
            codes.push(code(key, parent, &row, &release.language));
        }
    }
    let vocabulary = DraftVocabulary {
        namespace: NAMESPACE.to_owned(),
        name: "ICD-11 for Mortality and Morbidity Statistics".to_owned(),
        domain: "Health".to_owned(),
        source: format!("WHO, ICD-11 for Mortality and Morbidity Statistics, {}", release.edition),
        table: "icd-11".to_owned(),
        languages: vec![release.language],
        // A subset without extension codes holds every code that it says it holds: one cannot tell from a code that it lacks.
        completeness: if options.without_extension_codes {
            DraftCompleteness::Fragment
        } else {
            DraftCompleteness::Full
        },
        hierarchy: DraftHierarchy::Parents,
        codes,
        edition: release.edition,
    };
    Ok(DraftPack::of(owner::icd_11(&vocabulary.edition), vec![vocabulary]))
}

/// The rows that the next one may be below.
///
/// **Invariant:** a row that is refused or left out stands here as none, so that nothing below it hangs from an earlier row.
#[derive(Default)]
struct Above {
    /// The key of the last row of each depth, down to the row before.
    keys: Vec<Option<String>>,
    /// A row of unknown depth came after the last chapter: it may be what the following rows are below.
    is_lost: bool,
}

impl Above {
    /// What a row of this depth is below, or why it is below nothing.
    fn parent(&self, depth: usize) -> Result<Option<String>, String> {
        let Some(over) = depth.checked_sub(1) else { return Ok(None) };
        if self.is_lost {
            return Err("an earlier row of its chapter could not be read, and it may stand below that one".to_owned());
        }
        match self.keys.get(over) {
            Some(Some(parent)) => Ok(Some(parent.clone())),
            Some(None) => Err("it stands below a row that was refused or left out".to_owned()),
            None => Err(format!("it is {depth} deep, but there is no row {over} deep before it")),
        }
    }

    /// A row that has its place; none where it is not taken.
    fn put(&mut self, depth: usize, key: Option<String>) {
        if depth == 0 {
            self.is_lost = false;
        }
        if depth <= self.keys.len() {
            self.keys.truncate(depth);
            self.keys.push(key);
        }
    }

    /// A row that is not taken.
    fn pass_over(&mut self, depth: usize) {
        self.put(depth, None);
    }

    /// A row whose depth is not known.
    fn lose(&mut self) {
        self.is_lost = true;
    }
}

/// What the row goes by: its code; a heading has none and goes by its block, chapter or URI.
fn key(row: &WhoRow, tally: &mut Tally) -> Option<String> {
    if row.code == NO_CODE {
        tally.leave_out("a category that WHO has given no code yet");
        return None;
    }
    if !row.code.is_empty() {
        if is_code(&row.code) {
            return Some(row.code.clone());
        }
        let reason = format!("`{}` does not have the shape of a code of ICD-11", excerpt(&row.code));
        tally.refuse(Some(row.line), Some(&row.code), reason);
        return None;
    }
    let key = match row.kind.as_str() {
        "chapter" if !row.chapter.is_empty() => format!("chapter:{}", row.chapter),
        "chapter" | "block" if !row.block.is_empty() => row.block.clone(),
        "chapter" | "block" if !row.foundation.is_empty() => row.foundation.clone(),
        "chapter" | "block" => {
            tally.refuse(Some(row.line), None, "the heading has no BlockId and no Foundation URI");
            return None;
        }
        other => {
            let reason = format!("the row has no code, and ClassKind is `{}`, not chapter or block", excerpt(other));
            tally.refuse(Some(row.line), None, reason);
            return None;
        }
    };
    Some(key)
}

fn code(key: String, parent: Option<String>, row: &WhoRow, language: &str) -> DraftCode {
    let is_heading = row.code.is_empty();
    let mut code = DraftCode::new(key, Some(row.line)).labelled(language, row.title.clone());
    code.parents = parent.into_iter().collect();
    code.is_selectable = !is_heading;
    code.uri = row.uri();
    if is_heading {
        code = code.with_property("kind", &row.kind);
    }
    if row.is_residual { code.with_property("residual", "yes") } else { code }
}

/// Four to six digits and capitals without I and O, and possibly a dot and one or two more.
fn is_code(text: &str) -> bool {
    let (stem, extension) = match text.split_once('.') {
        Some((stem, extension)) => (stem, Some(extension)),
        None => (text, None),
    };
    let is_stem_byte = |byte: u8| matches!(byte, b'0'..=b'9' | b'A'..=b'H' | b'J'..=b'N' | b'P'..=b'Z');
    let is_extension = |extension: &str| {
        (1..=2).contains(&extension.len())
            && extension.bytes().all(|byte| byte.is_ascii_digit() || byte.is_ascii_uppercase())
    };
    (4..=6).contains(&stem.len()) && stem.bytes().all(is_stem_byte) && extension.is_none_or(is_extension)
}

#[cfg(test)]
mod tests {
    use super::is_code;

    #[test]
    fn knows_the_shape_of_a_code() {
        for code in ["1A00", "1A03.Y", "XA7144", "8C02.0Z", "XS8H"] {
            assert!(is_code(code), "{code}");
        }
        for text in ["", "1A0", "1A00.", "1A00.012", "1I00", "1a00", "1A00&XK9J", "XA71445", "1A00.0.0"] {
            assert!(!is_code(text), "{text}");
        }
    }
}
