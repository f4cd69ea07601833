//! ISCO-08 in ILO's tables: one row a unit group with the groups above it, or one row a group of any level.
//!
//! Both are written by spreadsheets: latin-1 or UTF-8, and codes may have lost their leading zeros, so they are padded to the
//! length of their level.

use std::collections::HashMap;

use crate::owner_files::draft::{DraftCode, DraftCompleteness, DraftHierarchy, DraftPack, DraftVocabulary};
use crate::owner_files::input::{Input, without_mark};
use crate::owner_files::owner;
use crate::owner_files::problem::{ImportError, excerpt};
use crate::owner_files::tally::Tally;

/// How many codes each level has.
const LEVELS: [usize; 4] = [10, 43, 130, 436];

/// The columns of the table of unit groups, by level.
const UNIT_COLUMNS: [(&str, &[&str]); 4] = [
    ("major", &["major_label"]),
    ("sub_major", &["sub_major_label"]),
    ("minor", &["minor_label"]),
    ("unit", &["description", "unit_label"]),
];

/// The rule's name in `pack.toml`.
const RULE: &str = "prefix";

/// What one row says: groups with their levels, from 1.
enum Layout {
    /// For each level where the code and the title are.
    Units([(usize, usize); 4]),
    /// Where level, code and title are.
    Groups { level: usize, code: usize, title: usize },
}

/// Reads either table.
///
/// # Errors
/// It is neither, or cannot be read on.
pub fn read(input: &mut Input<'_>, tally: &mut Tally) -> Result<DraftPack, ImportError> {
    let text = decode(input)?;
    let mut reader = csv::ReaderBuilder::new().flexible(true).from_reader(text.as_bytes());
    let header = reader.headers().map_err(|error| csv_error(input, &error))?.clone();
    let layout = Layout::of(&header, input)?;
    let mut groups = Groups { codes: Vec::new(), index: HashMap::new() };
    for record in reader.records() {
        let record = match record {
            Ok(record) => record,
            Err(error) => return Err(csv_error(input, &error)),
        };
        tally.rows += 1;
        let line = record.position().map(csv::Position::line);
        if record.len() > header.len() {
            let reason = format!("the row has {} cells, the header {}", record.len(), header.len());
            tally.refuse(line, record.get(0), reason);
            continue;
        }
        let cell = |column: usize| record.get(column).unwrap_or_default().trim();
        match layout {
            Layout::Units(columns) => {
                for (level, (code, title)) in (1..).zip(columns) {
                    groups.add(level, cell(code), cell(title), line, tally);
                }
            }
            Layout::Groups { level, code, title } => match cell(level).parse() {
                Ok(number @ 1..=4) => groups.add(number, cell(code), cell(title), line, tally),
                _ if cell(level).is_empty() && cell(code).is_empty() => tally.leave_out("an empty row"),
                _ => {
                    let reason = format!("its level is `{}`, not 1, 2, 3 or 4", excerpt(cell(level)));
                    tally.refuse(line, Some(cell(code)), reason);
                }
            },
        }
    }
    Ok(groups.draft(tally))
}

impl Layout {
    fn of(header: &csv::StringRecord, input: &Input<'_>) -> Result<Self, ImportError> {
        let find = |names: &[&str]| {
            names.iter().find_map(|name| header.iter().position(|other| other.trim().eq_ignore_ascii_case(name)))
        };
        let group = (find(&["Level"]), find(&["ISCO 08 Code", "ISCO-08 Code"]), find(&["Title EN", "Title"]));
        if let (Some(level), Some(code), Some(title)) = group {
            return Ok(Self::Groups { level, code, title });
        }
        let mut columns = [(0, 0); 4];
        for (slot, (code, titles)) in columns.iter_mut().zip(UNIT_COLUMNS) {
            let (Some(code_at), Some(title_at)) = (find(&[code]), find(titles)) else {
                let found: Vec<String> = header.iter().take(40).map(excerpt).collect();
                let reason = format!(
                    "the columns of neither table of ISCO-08 are there: `major`, `major_label`, `sub_major`, \
                     `sub_major_label`, `minor`, `minor_label`, `unit`, `description`, or `Level`, `ISCO 08 Code`, \
                     `Title EN`; there are: {}",
                    found.join(", ")
                );
                return Err(input.unusable(Some(1), reason));
            };
            *slot = (code_at, title_at);
        }
        Ok(Self::Units(columns))
    }
}

/// The groups that were met.
struct Groups {
    codes: Vec<DraftCode>,
    index: HashMap<String, usize>,
}

impl Groups {
    /// A group of a level. The groups above a unit group occur in many rows, always with the same title.
    fn add(&mut self, level: usize, code: &str, title: &str, line: Option<u64>, tally: &mut Tally) {
        let is_number = !code.is_empty() && code.len() <= level && code.bytes().all(|byte| byte.is_ascii_digit());
        if !is_number {
            let reason = format!("`{}` is not a number of at most {level} digits, as its level has", excerpt(code));
            return tally.refuse(line, Some(code), reason);
        }
        let code = format!("{code:0>level$}");
        let Some(title) = tally.text(title).filter(|title| !title.is_empty()) else {
            return tally.refuse(line, Some(&code), "it has no title, or one with a control character");
        };
        match self.index.get(&code).and_then(|index| self.codes.get(*index)) {
            None => {
                let mut draft = DraftCode::new(code.clone(), line).labelled("en", title);
                let above = code.get(..level.saturating_sub(1)).filter(|above| !above.is_empty());
                draft.parents = above.map(str::to_owned).into_iter().collect();
                self.index.insert(code, self.codes.len());
                self.codes.push(draft);
            }
            Some(known) => {
                let known_title = known.label("en").map(|label| label.text.as_str()).unwrap_or_default();
                if level == 4 || known_title != title {
                    let first = known.line.unwrap_or_default();
                    let reason = format!("it is already on line {first}, with the title `{}`", excerpt(known_title));
                    tally.refuse(line, Some(&code), reason);
                }
            }
        }
    }

    fn draft(mut self, tally: &mut Tally) -> DraftPack {
        // A digit more comes after its group, whatever the order of the file.
        self.codes.sort_by(|one, other| one.code.cmp(&other.code));
        let mut counts = [0; 4];
        for code in &self.codes {
            if let Some(count) = counts.get_mut(code.code.len() - 1) {
                *count += 1;
            }
        }
        let is_whole = counts == LEVELS;
        if !is_whole {
            tally.notes.push(format!(
                "the file has {counts:?} groups on its four levels, ISCO-08 has {LEVELS:?}: written as a fragment"
            ));
        }
        let vocabulary = DraftVocabulary {
            namespace: "urn:ilo:isco-08".to_owned(),
            name: "Occupations (ISCO-08)".to_owned(),
            domain: "Labor".to_owned(),
            edition: "08".to_owned(),
            source: "ILO, International Standard Classification of Occupations 2008".to_owned(),
            table: "isco-08".to_owned(),
            languages: vec!["en".to_owned()],
            completeness: if is_whole { DraftCompleteness::Full } else { DraftCompleteness::Fragment },
            hierarchy: DraftHierarchy::Rule(RULE),
            codes: self.codes,
        };
        DraftPack::of(owner::isco_08(), vec![vocabulary])
    }
}

/// The text of a file that is UTF-8 or, as ILO's own, latin-1 with Windows' quotation marks.
fn decode(input: &Input<'_>) -> Result<String, ImportError> {
    let bytes = input.read_whole()?;
    let has_mark = bytes.starts_with(b"\xef\xbb\xbf");
    let bytes = without_mark(bytes);
    let bytes = match String::from_utf8(bytes) {
        Ok(text) => return Ok(text),
        Err(error) => error.into_bytes(),
    };
    // Letters of several bytes do not come about by chance: such a file is UTF-8 with a broken place.
    let mut chunks = bytes.utf8_chunks();
    let has_letters = bytes.utf8_chunks().any(|chunk| !chunk.valid().is_ascii());
    if has_mark || has_letters {
        let valid = chunks.next().map_or("", |chunk| chunk.valid());
        let line = valid.bytes().filter(|byte| *byte == b'\n').count() as u64 + 1;
        return Err(input.unusable(Some(line), "the line is not UTF-8, though other lines are"));
    }
    let mut text = String::with_capacity(bytes.len());
    let mut line = 1;
    for byte in bytes {
        line += u64::from(byte == b'\n');
        match latin_1(byte) {
            Some(character) => text.push(character),
            None => {
                return Err(input.unusable(Some(line), format_args!("the byte {byte:#04x} is no letter in latin-1")));
            }
        }
    }
    Ok(text)
}

/// A byte of latin-1. Where latin-1 has control characters Windows has punctuation, and means that.
fn latin_1(byte: u8) -> Option<char> {
    const WINDOWS: [char; 32] = [
        '€', '\0', '‚', 'ƒ', '„', '…', '†', '‡', 'ˆ', '‰', 'Š', '‹', 'Œ', '\0', 'Ž', '\0', '\0', '‘', '’', '“', '”',
        '•', '–', '—', '˜', '™', 'š', '›', 'œ', '\0', 'ž', 'Ÿ',
    ];
    match byte {
        0x80..=0x9f => WINDOWS.get(usize::from(byte - 0x80)).copied().filter(|character| *character != '\0'),
        _ => Some(char::from(byte)),
    }
}

fn csv_error(input: &Input<'_>, error: &csv::Error) -> ImportError {
    input.unusable(error.position().map(csv::Position::line), format_args!("it is no table of this kind: {error}"))
}
