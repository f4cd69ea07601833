//! ISCO-08 in ILO's tables: one row per unit group with its parent groups, or one row per group of any level.
//!
//! Both are saved by spreadsheets: latin-1 or UTF-8, and codes may have lost their leading zeros, so they are padded to
//! the length of their level.

use std::collections::BTreeMap;
use std::collections::btree_map::Entry;

use crate::publisher_files::cells::Table;
use crate::publisher_files::counts::Counts;
use crate::publisher_files::draft::{DraftCode, DraftPack};
use crate::publisher_files::input::{Input, without_mark};
use crate::publisher_files::problem::{ImportError, excerpt};
use crate::publisher_files::publications::ISCO_08;
use crate::source_rules::HierarchyRule;
use daftar_domain::vocabulary::Completeness;

/// The number of codes of each level.
const LEVELS: [usize; 4] = [10, 43, 130, 436];

/// The columns of code and title in the table of unit groups, by level.
const UNIT_COLUMNS: [(&str, &str); 4] = [
    ("major", "major_label"),
    ("sub_major", "sub_major_label"),
    ("minor", "minor_label"),
    ("unit", "description|unit_label"),
];

/// The columns of level, code and title in the table of groups of any level.
const GROUP_COLUMNS: [&str; 3] = ["Level", "ISCO 08 Code|ISCO-08 Code", "Title EN|Title"];

/// Reads either table.
///
/// # Errors
/// It is neither, or reading failed.
pub fn read(input: &Input<'_>, counts: &mut Counts) -> Result<DraftPack, ImportError> {
    let table = Table::open_csv(input, decode(input)?.into_bytes())?;
    let has_groups = GROUP_COLUMNS.iter().all(|names| table.has_column(names));
    if !has_groups && !UNIT_COLUMNS.iter().all(|(code, title)| table.has_column(code) && table.has_column(title)) {
        let found: Vec<String> = table.columns().iter().take(40).map(|name| excerpt(name)).collect();
        let reason = format!(
            "the columns of neither table of ISCO-08 are there: `major`, `major_label`, `sub_major`, \
             `sub_major_label`, `minor`, `minor_label`, `unit`, `description`, or `Level`, `ISCO 08 Code`, \
             `Title EN`; there are: {}",
            found.join(", ")
        );
        return Err(input.unusable(Some(1), reason));
    }
    let mut groups = Groups::default();
    table.read(counts, |row, counts| {
        let Some(row) = row else { return };
        let line = Some(row.line);
        if !has_groups {
            for (level, (code, title)) in (1..).zip(UNIT_COLUMNS) {
                groups.add(level, row.cell(code), row.cell(title), line, counts);
            }
            return;
        }
        let [level, code, title] = GROUP_COLUMNS.map(|names| row.cell(names));
        match level.parse() {
            Ok(number @ 1..=4) => groups.add(number, code, title, line, counts),
            _ if level.is_empty() && code.is_empty() => counts.leave_out("an empty row"),
            _ => counts.refuse(line, Some(code), format!("its level is `{}`, not 1, 2, 3 or 4", excerpt(level))),
        }
    })?;
    Ok(groups.draft(counts))
}

/// The groups found so far. The map sorts a group before its subgroups, regardless of the order of the file.
#[derive(Default)]
struct Groups(BTreeMap<String, DraftCode>);

impl Groups {
    /// Adds a group of a level. The parents of a unit group occur in many rows, always with the same title.
    fn add(&mut self, level: usize, code: &str, title: &str, line: Option<u64>, counts: &mut Counts) {
        let is_number = !code.is_empty() && code.len() <= level && code.bytes().all(|byte| byte.is_ascii_digit());
        if !is_number {
            let reason = format!("`{}` is not a number of at most {level} digits, as its level has", excerpt(code));
            return counts.refuse(line, Some(code), reason);
        }
        let code = format!("{code:0>level$}");
        let Some(title) = counts.named("title", line, &code, title) else { return };
        match self.0.entry(code) {
            Entry::Vacant(place) => {
                let draft = DraftCode::new(place.key().clone(), line).labelled("en", title);
                place.insert(draft);
            }
            Entry::Occupied(known) => {
                let (code, known) = (known.key(), known.get());
                let known_title = known.label("en").map(|label| label.text.as_str()).unwrap_or_default();
                if level == 4 || known_title != title {
                    let first = known.line.unwrap_or_default();
                    let reason = format!("it is already on line {first}, with the title `{}`", excerpt(known_title));
                    counts.refuse(line, Some(code), reason);
                }
            }
        }
    }

    fn draft(self, counts: &mut Counts) -> DraftPack {
        let mut group_counts = [0; 4];
        for code in self.0.keys() {
            if let Some(count) = group_counts.get_mut(code.len() - 1) {
                *count += 1;
            }
        }
        let is_whole = group_counts == LEVELS;
        if !is_whole {
            counts.notes.push(format!(
                "the file has {group_counts:?} groups on its four levels, ISCO-08 has {LEVELS:?}: marked as partial (`fragment`)"
            ));
        }
        let mut pack = ISCO_08.pack("08".to_owned(), self.0.into_values().collect());
        for vocabulary in &mut pack.vocabularies {
            vocabulary.completeness = if is_whole { Completeness::Full } else { Completeness::Fragment };
            vocabulary.rule = Some(HierarchyRule::Prefix);
        }
        pack
    }
}

/// Decodes a file that is UTF-8 or, like ILO's own, latin-1 with the quotation marks of Windows.
fn decode(input: &Input<'_>) -> Result<String, ImportError> {
    let bytes = input.read_whole()?;
    let has_mark = bytes.starts_with(b"\xef\xbb\xbf");
    let bytes = without_mark(bytes);
    let bytes = match String::from_utf8(bytes) {
        Ok(text) => return Ok(text),
        Err(error) => error.into_bytes(),
    };
    // Multi-byte sequences do not occur by chance: such a file is UTF-8 with an invalid byte.
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

/// Decodes a byte of latin-1. For control characters, the punctuation of Windows-1252 is used.
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
