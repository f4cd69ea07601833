//! What became of each row of a file and the texts of it, and the report of an import.

use std::borrow::Cow;
use std::collections::HashMap;
use std::path::PathBuf;

use unicode_normalization::UnicodeNormalization;

use crate::publisher_files::draft::{DraftPack, DraftVocabulary};
use crate::publisher_files::input::Input;
use crate::publisher_files::problem::{ImportError, Refusal, excerpt};

/// How many refused rows are kept: enough to see the pattern, few enough to print.
const REFUSALS_MAX: usize = 1_000;

/// After this many refused rows it is the wrong file, and reading ends.
const REFUSALS_READ_MAX: u64 = 100_000;

/// What became of a file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ImportReport {
    /// The pack's name.
    pub pack_name: String,
    /// The pack's version.
    pub pack_version: String,
    /// SHA-256 of the unpacked file.
    pub sha256: String,
    /// Rows, entries or triples that were read.
    pub rows_read: u64,
    /// The vocabularies that were written.
    pub vocabularies: Vec<VocabularyReport>,
    /// What the rules of the format left out.
    pub left_out: Vec<LeftOut>,
    /// What was refused, where the import was told to go on without it.
    pub refused: Vec<Refusal>,
    /// How many more were refused than are listed.
    pub refused_unlisted: u64,
    /// Texts whose white space or Unicode form was changed.
    pub texts_changed: u64,
    /// What else is worth knowing.
    pub notes: Vec<String>,
}

/// One vocabulary that was written.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct VocabularyReport {
    /// Its namespace.
    pub namespace: String,
    /// The version that records will keep.
    pub edition: String,
    /// Codes, headings included.
    pub codes: usize,
    /// Codes that records may hold.
    pub selectable: usize,
    /// Codes at the top.
    pub tops: usize,
    /// How far below the top the lowest code is, by primary parents; 0 where there is no hierarchy.
    pub depth: usize,
    /// Labels by language.
    pub labels: Vec<(String, usize)>,
}

/// Rows left out by a rule.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LeftOut {
    /// The rule.
    pub rule: String,
    /// How many rows.
    pub rows: u64,
}

/// Counts rows and keeps what is wrong, within bounds.
#[derive(Debug)]
pub struct Counts {
    file: PathBuf,
    leave_out_refused: bool,
    /// Rows, triples or entries that were looked at.
    pub rows: u64,
    /// Rows left out by a rule of the format, by rule, in the order in which the rules were first met.
    left_out: Vec<LeftOut>,
    /// Things worth saying that are not wrong.
    pub notes: Vec<String>,
    /// Texts that were brought into one line or into normal form C.
    texts_changed: u64,
    refusals: Vec<Refusal>,
    refused: u64,
}

impl Counts {
    /// Nothing counted yet.
    pub fn of(input: &Input<'_>, leave_out_refused: bool) -> Self {
        Self {
            file: input.path().to_owned(),
            leave_out_refused,
            rows: 0,
            left_out: Vec::new(),
            notes: Vec::new(),
            texts_changed: 0,
            refusals: Vec::new(),
            refused: 0,
        }
    }

    /// A row that the format's rules do not take.
    pub fn leave_out(&mut self, rule: &str) {
        match self.left_out.iter_mut().find(|known| known.rule == rule) {
            Some(known) => known.rows += 1,
            None => self.left_out.push(LeftOut { rule: rule.to_owned(), rows: 1 }),
        }
    }

    /// A row that is wrong.
    pub fn refuse(&mut self, line: Option<u64>, code: Option<&str>, reason: impl std::fmt::Display) {
        self.refused += 1;
        if self.refusals.len() < REFUSALS_MAX {
            let code = code.filter(|code| !code.is_empty()).map(excerpt);
            self.refusals.push(Refusal { line, code, reason: reason.to_string() });
        }
    }

    /// Whether so much is wrong that reading on makes no sense.
    ///
    /// # Errors
    /// It is.
    pub fn check_on(&self) -> Result<(), ImportError> {
        if self.refused <= REFUSALS_READ_MAX {
            return Ok(());
        }
        let reason = format_args!("more than {REFUSALS_READ_MAX} rows are rejected: is this a file of this format?");
        Err(self.unusable(reason))
    }

    /// What is wrong with the file as a whole.
    pub fn unusable(&self, reason: impl std::fmt::Display) -> ImportError {
        ImportError::unusable(&self.file, None, reason)
    }

    /// What ended the reading, together with what was refused before.
    pub fn with(&mut self, ended: ImportError) -> ImportError {
        if self.refused == 0 {
            return ended;
        }
        self.rejection(Some(Box::new(ended)))
    }

    /// Ends the import when something was refused, unless that is to be left out.
    ///
    /// # Errors
    /// Everything that was refused.
    pub fn settle(&mut self) -> Result<(), ImportError> {
        if self.refused == 0 || self.leave_out_refused { Ok(()) } else { Err(self.rejection(None)) }
    }

    fn rejection(&mut self, ended: Option<Box<ImportError>>) -> ImportError {
        let (refusals, left_out) = self.take_rejected();
        ImportError::Refused { file: self.file.clone(), refusals, left_out, ended }
    }

    /// What was refused by line, that without a line last, and how many more there were than are kept.
    fn take_rejected(&mut self) -> (Vec<Refusal>, u64) {
        let mut refusals = std::mem::take(&mut self.refusals);
        refusals.sort_by_key(|refusal| refusal.line.unwrap_or(u64::MAX));
        let left_out = self.refused.saturating_sub(refusals.len() as u64);
        (refusals, left_out)
    }

    /// The report of a draft that is written.
    pub fn report(mut self, draft: &DraftPack, sha256: String) -> ImportReport {
        let (refused, refused_unlisted) = self.take_rejected();
        ImportReport {
            pack_name: draft.pack_name.clone(),
            pack_version: draft.version().to_owned(),
            sha256,
            rows_read: self.rows,
            vocabularies: draft.vocabularies.iter().map(vocabulary).collect(),
            left_out: self.left_out,
            refused,
            refused_unlisted,
            texts_changed: self.texts_changed,
            notes: self.notes,
        }
    }

    /// The name of a code; none where there is none that can be used, which is refused.
    pub fn name(&mut self, line: Option<u64>, code: &str, text: &str) -> Option<String> {
        self.named("name", line, code, text)
    }

    /// As [`name`](Self::name), for a text that its publisher calls `what`.
    pub fn named(&mut self, what: &str, line: Option<u64>, code: &str, text: &str) -> Option<String> {
        let text = self.text(text).filter(|text| !text.is_empty());
        if text.is_none() {
            self.refuse(line, Some(code), format_args!("it has no {what}, or one with a control character"));
        }
        text
    }

    /// A text of the file as packs hold it: one trimmed line in normal form C. None where it contains a control character that
    /// is no white space. What the text says is never touched: some owners allow no changes.
    pub fn text(&mut self, text: &str) -> Option<String> {
        let folded = fold_lines(text.trim());
        if folded.chars().any(char::is_control) {
            return None;
        }
        let normal: String = folded.nfc().collect();
        let normal = normal.trim();
        if normal != text {
            self.texts_changed += 1;
        }
        Some(normal.to_owned())
    }
}

/// A text with every run of white space that holds a line break or a tab made one space.
fn fold_lines(text: &str) -> Cow<'_, str> {
    let breaks = |character: char| character.is_control() && character.is_whitespace();
    if !text.contains(breaks) {
        return Cow::Borrowed(text);
    }
    let parts = text.split(breaks).map(str::trim).filter(|part| !part.is_empty());
    Cow::Owned(parts.collect::<Vec<_>>().join(" "))
}

fn vocabulary(vocabulary: &DraftVocabulary) -> VocabularyReport {
    let codes = &vocabulary.codes;
    let labels = |language: &String| codes.iter().filter(|code| code.label(language).is_some()).count();
    VocabularyReport {
        namespace: vocabulary.namespace.clone(),
        edition: vocabulary.edition.clone(),
        codes: codes.len(),
        selectable: codes.iter().filter(|code| code.is_selectable).count(),
        tops: codes.iter().filter(|code| code.parents.is_empty()).count(),
        depth: depth(vocabulary),
        labels: vocabulary.languages.iter().map(|language| (language.clone(), labels(language))).collect(),
    }
}

/// The depth of the lowest code by primary parents, which make no cycle.
fn depth(vocabulary: &DraftVocabulary) -> usize {
    let primary: HashMap<&str, &str> =
        vocabulary.codes.iter().filter_map(|code| Some((code.code.as_str(), code.parents.first()?.as_str()))).collect();
    let mut depths: HashMap<&str, usize> = HashMap::new();
    for code in &vocabulary.codes {
        let mut way = Vec::new();
        let mut at = code.code.as_str();
        while let (None, Some(parent)) = (depths.get(at), primary.get(at)) {
            way.push(at);
            at = parent;
        }
        let mut depth = *depths.entry(at).or_default();
        for node in way.into_iter().rev() {
            depth += 1;
            depths.insert(node, depth);
        }
    }
    depths.values().copied().max().unwrap_or(0)
}
