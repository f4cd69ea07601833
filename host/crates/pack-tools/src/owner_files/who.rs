//! WHO's tables of ICD-11 and ICF: SimpleTabulation and LinearizationMiniOutput.
//!
//! Both are tables with a byte order mark, quoted titles and the release in the name of the last column. Columns go by name,
//! for their order and number differ between years. The depth of a row is the number of `- ` before its title; the column
//! DepthInKind counts something else.

mod icd;
mod icf;

use crate::owner_files::cells::{self, Header, Quotes, Row};
use crate::owner_files::draft::DraftPack;
use crate::owner_files::input::Input;
use crate::owner_files::problem::ImportError;
use crate::owner_files::tally::Tally;
use crate::owner_files::{ImportOptions, about};

/// Where the columns are.
struct Columns {
    foundation: Option<usize>,
    linearization: Option<usize>,
    code: usize,
    block: Option<usize>,
    title: usize,
    kind: Option<usize>,
    residual: Option<usize>,
    primary: Option<usize>,
    chapter: Option<usize>,
}

/// What a line of either table is.
enum Line {
    /// A row that is taken so far.
    Taken(WhoRow),
    /// A row of this depth that was refused or left out: what is below it hangs from nothing.
    NotTaken(usize),
    /// A row that was refused because it cannot be read: its depth is not known.
    Unreadable,
}

/// One row of either table.
struct WhoRow {
    line: u64,
    code: String,
    block: String,
    /// The title as it is in the table, its hyphens taken away.
    title: String,
    depth: usize,
    kind: String,
    is_residual: bool,
    chapter: String,
    foundation: String,
    linearization: String,
}

/// What is known of the file beside its rows.
struct Release {
    /// The edition, such as `2024-01`.
    edition: String,
    /// The language of the titles.
    language: String,
}

/// Reads either table of either classification.
///
/// # Errors
/// It is no such table, or cannot be read on.
pub fn read(input: &mut Input<'_>, options: &ImportOptions, tally: &mut Tally) -> Result<DraftPack, ImportError> {
    let mut release = Release { edition: String::new(), language: language(input, options)? };
    let open = |header: &Header| {
        release.edition = edition(header);
        Columns::of(header, input).map(|columns| (columns, Vec::new()))
    };
    let (_, lines) = cells::read_all(input, Quotes::Enclose, tally, open, |(columns, lines), row, tally| {
        lines.push(row.map_or(Line::Unreadable, |row| columns.line(row, tally)));
        Ok(())
    })?;
    let mut codes = lines.iter().filter_map(Line::taken).map(|row| row.code.as_str());
    match codes.find(|code| !code.is_empty()) {
        Some(first) if icf::is_code(first) || icf::is_range(first) || icf::is_component(first) => {
            icf::draft(lines, release, tally)
        }
        Some(_) => icd::draft(lines, release, options, tally),
        None => Err(input.unusable(None, "no row of this table has a code")),
    }
}

impl Columns {
    fn of(header: &Header, input: &Input<'_>) -> Result<Self, ImportError> {
        Ok(Self {
            title: header.require(input, &["Title"])?,
            code: header.require(input, &["Code"])?,
            foundation: Some(header.require(input, &["Foundation URI"])?),
            linearization: Some(header.require(input, &["Linearization URI", "Linearization (release) URI"])?),
            block: Some(header.require(input, &["BlockId"])?),
            kind: Some(header.require(input, &["ClassKind"])?),
            chapter: Some(header.require(input, &["ChapterNo"])?),
            residual: header.find(&["IsResidual"]),
            primary: header.find(&["PrimaryLocation"]),
        })
    }

    /// The row with its depth, unless it is left out or refused.
    fn line(&self, row: &Row<'_>, tally: &mut Tally) -> Line {
        let code = row.cell(Some(self.code)).trim().to_owned();
        let (depth, title) = without_hyphens(row.cell(Some(self.title)));
        if row.cell(self.primary).eq_ignore_ascii_case("false") {
            tally.leave_out("a place that is not the primary one");
            return Line::NotTaken(depth);
        }
        let Some(title) = tally.text(title) else {
            tally.refuse(Some(row.line), Some(&code), "its title holds a control character");
            return Line::NotTaken(depth);
        };
        if title.is_empty() {
            tally.refuse(Some(row.line), Some(&code), "it has no title");
            // Without any hyphen nothing tells how deep it is.
            return if depth == 0 { Line::Unreadable } else { Line::NotTaken(depth) };
        }
        let text = |column| row.cell(column).trim().to_owned();
        Line::Taken(WhoRow {
            line: row.line,
            block: text(self.block),
            title,
            depth,
            kind: text(self.kind).to_ascii_lowercase(),
            is_residual: row.cell(self.residual).eq_ignore_ascii_case("true"),
            chapter: text(self.chapter),
            foundation: text(self.foundation),
            linearization: text(self.linearization),
            code,
        })
    }
}

impl Line {
    fn taken(&self) -> Option<&WhoRow> {
        match self {
            Self::Taken(row) => Some(row),
            Self::NotTaken(_) | Self::Unreadable => None,
        }
    }
}

impl WhoRow {
    /// The URI that stays together with the code: residual codes have one in the linearization only.
    fn uri(&self) -> Option<String> {
        let uri = if self.foundation.is_empty() { &self.linearization } else { &self.foundation };
        (!uri.is_empty()).then(|| uri.clone())
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

/// The year and month of a header such as `Version:2024 Jan 21 - 22:30 UTC`, else what it says, else `unstated`.
fn edition(header: &Header) -> String {
    const MONTHS: [&str; 12] = ["Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec"];
    let stated = header.names().iter().find_map(|name| name.strip_prefix("Version:")).unwrap_or_default().trim();
    let mut words = stated.split_whitespace();
    if let (Some(year), Some(month)) = (words.next(), words.next())
        && let Some(index) = MONTHS.iter().position(|name| month.starts_with(name))
        && year.len() == 4
        && year.bytes().all(|byte| byte.is_ascii_digit())
    {
        return format!("{year}-{:02}", index + 1);
    }
    if about::is_sound_text(stated) { stated.to_owned() } else { "unstated".to_owned() }
}

/// The language that the options name, else the one in the file's name (`SimpleTabulation-ICD-11-MMS-es.txt`), else English.
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
            Err(ImportError::option("--language", second, "of use: a table of WHO has titles in one language"))
        }
    }
}
