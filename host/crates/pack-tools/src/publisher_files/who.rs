//! WHO's tables of ICD-11 and ICF: SimpleTabulation and LinearizationMiniOutput.
//!
//! Both are tables with a byte order mark, quoted titles and the release in the name of the last column. Columns are
//! found by name, because their order and number differ between years. The depth of a row is the number of `- ` before
//! its title; the column DepthInKind counts something else.

use crate::publisher_files::ImportOptions;
use crate::publisher_files::cells::{Quotes, Row, Table};
use crate::publisher_files::counts::Counts;
use crate::publisher_files::draft::{DraftCode, DraftPack, DraftVocabulary};
use crate::publisher_files::input::Input;
use crate::publisher_files::problem::{ImportError, excerpt};
use crate::publisher_files::publications::{ICD_11, ICF_ACTIVITIES, ICF_BODY_FUNCTIONS};
use crate::source_rules::{HierarchyRule, is_text};
use daftar_domain::vocabulary::Completeness;

/// The required columns.
const COLUMNS: [&str; 7] = ["Title", "Code", "Foundation URI", LINEARIZATION, "BlockId", "ClassKind", "ChapterNo"];

const LINEARIZATION: &str = "Linearization URI|Linearization (release) URI";

/// The chapter of extension codes.
const EXTENSION_CHAPTER: &str = "X";

/// The placeholder of codes that WHO has not assigned yet.
const NO_CODE: &str = "_NOCODEASSIGNED";

/// The state of a line of either table.
enum Line {
    /// A row that is accepted so far.
    Taken(WhoRow),
    /// A rejected or left-out row of this depth: rows below it have no parent.
    NotTaken(usize),
    /// A row that was rejected because it cannot be read: its depth is unknown.
    Unreadable,
}

/// One row of either table.
struct WhoRow {
    line: u64,
    code: String,
    block: String,
    /// The title without its leading hyphens.
    title: String,
    depth: usize,
    kind: String,
    is_residual: bool,
    chapter: String,
    foundation: String,
    linearization: String,
}

/// The metadata of the file.
struct Release {
    /// The edition, such as `2024-01`.
    edition: String,
    /// The language of the titles.
    language: String,
}

/// Reads either table of either classification.
///
/// # Errors
/// It is not such a table, or reading failed.
pub fn read(input: &Input<'_>, options: &ImportOptions, counts: &mut Counts) -> Result<DraftPack, ImportError> {
    let language = language(input, options)?;
    let table = Table::open(input, Quotes::Enclose)?;
    let release = Release { edition: edition(table.columns()), language };
    table.require(&COLUMNS)?;
    let mut lines = Vec::new();
    table.read(counts, |row, counts| lines.push(row.map_or(Line::Unreadable, |row| Line::of(row, counts))))?;
    let mut codes = lines.iter().filter_map(Line::taken).map(|row| row.code.as_str());
    match codes.find(|code| !code.is_empty()) {
        Some(first) if is_icf_code(first) || is_icf_range(first) || is_icf_component(first) => {
            icf(&lines, &release, counts)
        }
        Some(_) => Ok(icd_11(lines, release, options, counts)),
        None => Err(input.unusable(None, "no row of this table has a code")),
    }
}

impl Line {
    /// Parses the row with its depth, unless it is left out or rejected.
    fn of(row: &Row<'_>, counts: &mut Counts) -> Self {
        let code = row.cell("Code").to_owned();
        let (depth, title) = without_hyphens(row.raw("Title"));
        if row.raw("PrimaryLocation").eq_ignore_ascii_case("false") {
            counts.leave_out("a location that is not the primary one");
            return Self::NotTaken(depth);
        }
        let Some(title) = counts.text(title) else {
            counts.refuse(Some(row.line), Some(&code), "its title contains a control character");
            return Self::NotTaken(depth);
        };
        if title.is_empty() {
            counts.refuse(Some(row.line), Some(&code), "it has no title");
            // Without any hyphen its depth is unknown.
            return if depth == 0 { Self::Unreadable } else { Self::NotTaken(depth) };
        }
        Self::Taken(WhoRow {
            line: row.line,
            block: row.cell("BlockId").to_owned(),
            title,
            depth,
            kind: row.cell("ClassKind").to_ascii_lowercase(),
            is_residual: row.raw("IsResidual").eq_ignore_ascii_case("true"),
            chapter: row.cell("ChapterNo").to_owned(),
            foundation: row.cell("Foundation URI").to_owned(),
            linearization: row.cell(LINEARIZATION).to_owned(),
            code,
        })
    }

    fn taken(&self) -> Option<&WhoRow> {
        match self {
            Self::Taken(row) => Some(row),
            Self::NotTaken(_) | Self::Unreadable => None,
        }
    }
}

impl WhoRow {
    /// The code of the row, with `key` as its code. It keeps the URI of the row: residual codes have one in the
    /// linearization only.
    fn draft(&self, key: String, parent: Option<String>, language: &str) -> DraftCode {
        let mut code = DraftCode::new(key, Some(self.line)).labelled(language, self.title.clone());
        code.parents = parent.into_iter().collect();
        let uri = if self.foundation.is_empty() { &self.linearization } else { &self.foundation };
        code.uri = (!uri.is_empty()).then(|| uri.clone());
        code
    }

    /// Adds the properties of residual codes.
    fn residual(&self, code: DraftCode) -> DraftCode {
        if self.is_residual { code.with_property("residual", "yes") } else { code }
    }
}

/// The number of hyphens before a title, and the title.
fn without_hyphens(mut title: &str) -> (usize, &str) {
    let mut depth = 0;
    while let Some(rest) = title.strip_prefix("- ") {
        title = rest;
        depth += 1;
    }
    (depth, title)
}

/// The year and month of a header such as `Version:2024 Jan 21 - 22:30 UTC`, else its text, else `unstated`.
fn edition(columns: &[String]) -> String {
    const MONTHS: [&str; 12] = ["Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec"];
    let stated = columns.iter().find_map(|name| name.strip_prefix("Version:")).unwrap_or_default().trim();
    let mut words = stated.split_whitespace();
    if let (Some(year), Some(month)) = (words.next(), words.next())
        && let Some(index) = MONTHS.iter().position(|name| month.starts_with(name))
        && year.len() == 4
        && year.bytes().all(|byte| byte.is_ascii_digit())
    {
        return format!("{year}-{:02}", index + 1);
    }
    if is_text(stated) { stated.to_owned() } else { "unstated".to_owned() }
}

/// The language of the options, else that of the file's name (`SimpleTabulation-ICD-11-MMS-es.txt`), else English.
fn language(input: &Input<'_>, options: &ImportOptions) -> Result<String, ImportError> {
    match options.languages.as_slice() {
        [] => {
            let name = input.name();
            let stem = name.split('.').next().unwrap_or_default();
            let tag =
                stem.split('-').skip(1).find(|part| part.len() == 2 && part.bytes().all(|b| b.is_ascii_lowercase()));
            Ok(tag.unwrap_or("en").to_owned())
        }
        [language] => Ok(language.clone()),
        [_, second, ..] => {
            Err(ImportError::option("--language", second, "applicable: a WHO table has titles in one language"))
        }
    }
}

/// The draft of a table of ICD-11.
fn icd_11(lines: Vec<Line>, release: Release, options: &ImportOptions, counts: &mut Counts) -> DraftPack {
    let mut codes = Vec::with_capacity(lines.len());
    let mut above = Above::default();
    for line in lines {
        match line {
            Line::Taken(row) => {
                let code = icd_code(&row, &above, &release.language, options, counts);
                above.put(row.depth, code.as_ref().map(|code| code.code.clone()));
                codes.extend(code);
            }
            Line::NotTaken(depth) => above.put(depth, None),
            // Its depth is unknown.
            Line::Unreadable => above.is_lost = true,
        }
    }
    // A subset without extension codes is complete by its declaration: a missing extension code is not an error.
    let is_whole = !options.without_extension_codes;
    let vocabulary = DraftVocabulary {
        languages: vec![release.language],
        completeness: if is_whole { Completeness::Full } else { Completeness::Fragment },
        ..ICD_11.vocabulary(release.edition.clone(), codes)
    };
    ICD_11.pack_of(&release.edition, vec![vocabulary])
}

/// The possible parents of the next row.
///
/// **Invariant:** a rejected or left-out row is recorded as none, so that rows below it do not get an earlier row as
/// parent.
#[derive(Default)]
struct Above {
    /// The key of the last row of each depth, up to the previous row.
    keys: Vec<Option<String>>,
    /// A row of unknown depth follows the last chapter: it may be the parent of the following rows.
    is_lost: bool,
}

impl Above {
    /// The parent of a row of this depth, or the reason why it has none.
    fn parent(&self, depth: usize) -> Result<Option<String>, String> {
        let Some(over) = depth.checked_sub(1) else { return Ok(None) };
        if self.is_lost {
            return Err("an earlier row of its chapter could not be read, and it may be below that row".to_owned());
        }
        match self.keys.get(over) {
            Some(Some(parent)) => Ok(Some(parent.clone())),
            Some(None) => Err("it is below a row that was rejected or left out".to_owned()),
            None => Err(format!("its depth is {depth}, but no row of depth {over} precedes it")),
        }
    }

    /// Records a row; none if it is not accepted.
    fn put(&mut self, depth: usize, key: Option<String>) {
        if depth == 0 {
            self.is_lost = false;
        }
        if depth <= self.keys.len() {
            self.keys.truncate(depth);
            self.keys.push(key);
        }
    }
}

/// The key of the row: its code; for a heading, its block, chapter or URI.
fn key(row: &WhoRow, counts: &mut Counts) -> Option<String> {
    if row.code == NO_CODE {
        counts.leave_out("a category without a code so far");
        return None;
    }
    if !row.code.is_empty() {
        if is_icd_code(&row.code) {
            return Some(row.code.clone());
        }
        let reason = format!("`{}` is not a valid code of ICD-11", excerpt(&row.code));
        counts.refuse(Some(row.line), Some(&row.code), reason);
        return None;
    }
    let key = match row.kind.as_str() {
        "chapter" if !row.chapter.is_empty() => format!("chapter:{}", row.chapter),
        "chapter" | "block" if !row.block.is_empty() => row.block.clone(),
        "chapter" | "block" if !row.foundation.is_empty() => row.foundation.clone(),
        "chapter" | "block" => {
            counts.refuse(Some(row.line), None, "the heading has no BlockId and no Foundation URI");
            return None;
        }
        other => {
            let reason = format!("the row has no code, and ClassKind is `{}`, not chapter or block", excerpt(other));
            counts.refuse(Some(row.line), None, reason);
            return None;
        }
    };
    Some(key)
}

/// The code of a row; none if it is left out or rejected.
fn icd_code(
    row: &WhoRow,
    above: &Above,
    language: &str,
    options: &ImportOptions,
    counts: &mut Counts,
) -> Option<DraftCode> {
    if options.without_extension_codes && row.chapter == EXTENSION_CHAPTER {
        counts.leave_out("an extension code, or a heading of them");
        return None;
    }
    // A row that is left out anyway has only its own reason.
    let key = key(row, counts)?;
    let parent = above.parent(row.depth);
    let parent = parent.map_err(|reason| counts.refuse(Some(row.line), Some(&row.code), reason)).ok()?;
    let is_heading = row.code.is_empty();
    let mut code = row.draft(key, parent, language);
    code.is_selectable = !is_heading;
    if is_heading {
        code = code.with_property("kind", &row.kind);
    }
    Some(row.residual(code))
}

/// Four to six digits and capitals without I and O, and possibly a dot and one or two more.
fn is_icd_code(text: &str) -> bool {
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

/// The draft of a table of ICF.
fn icf(lines: &[Line], release: &Release, counts: &mut Counts) -> Result<DraftPack, ImportError> {
    // The components with fields in the registry.
    let mut components = [('b', ICF_BODY_FUNCTIONS, Vec::new()), ('d', ICF_ACTIVITIES, Vec::new())];
    // The parents of codes follow from their digits, so the check finds rows below a rejected one.
    for row in lines.iter().filter_map(Line::taken) {
        if row.code.is_empty() {
            counts.leave_out("a heading without a code");
        } else if is_icf_range(&row.code) {
            counts.leave_out("a range of codes, which is not a code");
        } else if is_icf_component(&row.code) {
            counts.leave_out("the letter of a component, which is not a code");
        } else if !is_icf_code(&row.code) {
            let reason = format!("`{}` is not a valid code of ICF", excerpt(&row.code));
            counts.refuse(Some(row.line), Some(&row.code), reason);
        } else if let Some((.., codes)) = components.iter_mut().find(|(letter, ..)| row.code.starts_with(*letter)) {
            codes.push(row.residual(row.draft(row.code.clone(), None, &release.language)));
        } else {
            counts.leave_out("a code of another component: body structures (s) or environmental factors (e)");
        }
    }
    let components = components.into_iter().filter(|(.., codes)| !codes.is_empty());
    let vocabularies = components.map(|(_, component, codes)| DraftVocabulary {
        languages: vec![release.language.clone()],
        rule: Some(HierarchyRule::Icf),
        ..component.vocabulary(release.edition.clone(), codes)
    });
    let vocabularies: Vec<DraftVocabulary> = vocabularies.collect();
    if vocabularies.is_empty() {
        return Err(counts.unusable("the table has no code of body functions (b) or activities (d)"));
    }
    Ok(ICF_BODY_FUNCTIONS.pack_of(&release.edition, vocabularies))
}

/// A letter and one digit for a chapter; three, four or five below it.
fn is_icf_code(text: &str) -> bool {
    let digits = text.strip_prefix(['b', 'd', 's', 'e']).unwrap_or_default();
    matches!(digits.len(), 1 | 3..=5) && digits.bytes().all(|byte| byte.is_ascii_digit()) && !digits.starts_with('0')
}

/// The letter of a component, which some tables have instead of a code.
fn is_icf_component(text: &str) -> bool {
    matches!(text, "b" | "d" | "e" | "s")
}

/// Two codes with a hyphen, such as `b110-b139`.
fn is_icf_range(text: &str) -> bool {
    text.split_once('-').is_some_and(|(first, last)| is_icf_code(first) && is_icf_code(last))
}

#[cfg(test)]
mod tests {
    use super::{is_icd_code, is_icf_code, is_icf_range};

    #[test]
    fn ranges_and_components_are_no_codes() {
        assert!(is_icf_range("b110-b139") && !is_icf_range("b110") && !is_icf_range("b110-"));
        for text in ["b", "b11", "b0", "b114200", "B114", "b11x", "x110"] {
            assert!(!is_icf_code(text), "{text}");
        }
        assert!(["b1", "b114", "b1142", "b11420", "s110", "e1"].iter().all(|code| is_icf_code(code)));
    }

    #[test]
    fn knows_the_shape_of_a_code() {
        for code in ["1A00", "1A03.Y", "XA7144", "8C02.0Z", "XS8H"] {
            assert!(is_icd_code(code), "{code}");
        }
        for text in ["", "1A0", "1A00.", "1A00.012", "1I00", "1a00", "1A00&XK9J", "XA71445", "1A00.0.0"] {
            assert!(!is_icd_code(text), "{text}");
        }
    }
}
