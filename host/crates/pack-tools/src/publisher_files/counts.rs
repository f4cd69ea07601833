//! Counters of the rows and texts of a file, and the report of an import.

use std::borrow::Cow;
use std::collections::HashMap;
use std::path::PathBuf;

use serde::{Serialize, Serializer};
use unicode_normalization::UnicodeNormalization;

use crate::publisher_files::draft::{DraftPack, DraftVocabulary};
use crate::publisher_files::input::Input;
use crate::publisher_files::problem::{ImportError, Refusal, excerpt};

/// The most rejected rows in a report: enough to see the pattern, few enough to print.
const REFUSALS_MAX: usize = 1_000;

/// With more rejected rows the file probably has another format, and reading ends.
const REFUSALS_READ_MAX: u64 = 100_000;

/// The report of an import.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct ImportReport {
    /// The pack's name.
    #[serde(rename = "name")]
    pub pack_name: String,
    /// The pack's version.
    #[serde(rename = "version")]
    pub pack_version: String,
    /// SHA-256 of the unpacked file.
    pub sha256: String,
    /// Rows, entries or triples that were read.
    pub rows_read: u64,
    /// The written vocabularies.
    pub vocabularies: Vec<VocabularyReport>,
    /// The rows left out by rules of the format.
    pub left_out: Vec<LeftOut>,
    /// The rejected rows, if the import left them out.
    pub refused: Vec<Refusal>,
    /// The number of rejected rows beyond the listed ones.
    pub refused_unlisted: u64,
    /// Texts whose white space or Unicode form was changed.
    pub texts_changed: u64,
    /// Further remarks.
    pub notes: Vec<String>,
}

/// A written vocabulary.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct VocabularyReport {
    /// Its namespace.
    pub namespace: String,
    /// The version that records store.
    #[serde(rename = "version")]
    pub edition: String,
    /// Codes, headings included.
    pub codes: usize,
    /// Codes that records may use.
    pub selectable: usize,
    /// Top-level codes.
    pub tops: usize,
    /// The depth of the deepest code by primary parents; 0 without a hierarchy.
    pub depth: usize,
    /// Labels by language.
    #[serde(serialize_with = "as_object")]
    pub labels: Vec<(String, usize)>,
}

fn as_object<S: Serializer>(labels: &[(String, usize)], serializer: S) -> Result<S::Ok, S::Error> {
    serializer.collect_map(labels.iter().map(|(language, count)| (language, count)))
}

/// Rows left out by a rule.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct LeftOut {
    /// The rule.
    pub rule: String,
    /// Number of rows.
    pub rows: u64,
}

/// Counts rows and collects problems, within limits.
#[derive(Debug)]
pub struct Counts {
    file: PathBuf,
    leave_out_refused: bool,
    /// Rows, triples or entries that were read.
    pub rows: u64,
    /// Rows left out, by rule, in the order of first occurrence.
    left_out: Vec<LeftOut>,
    /// Remarks that are not problems.
    pub notes: Vec<String>,
    /// Texts that were normalized to one line or to normal form C.
    texts_changed: u64,
    refusals: Vec<Refusal>,
    refused: u64,
}

impl Counts {
    /// Counters at zero.
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

    /// Counts a row that a rule of the format leaves out.
    pub fn leave_out(&mut self, rule: &str) {
        match self.left_out.iter_mut().find(|known| known.rule == rule) {
            Some(known) => known.rows += 1,
            None => self.left_out.push(LeftOut { rule: rule.to_owned(), rows: 1 }),
        }
    }

    /// Records a rejected row.
    pub fn refuse(&mut self, line: Option<u64>, code: Option<&str>, reason: impl std::fmt::Display) {
        self.refused += 1;
        if self.refusals.len() < REFUSALS_MAX {
            let code = code.filter(|code| !code.is_empty()).map(excerpt);
            self.refusals.push(Refusal { line, code, reason: reason.to_string() });
        }
    }

    /// Checks that reading further is useful.
    ///
    /// # Errors
    /// Too many rows are rejected.
    pub fn check_on(&self) -> Result<(), ImportError> {
        if self.refused <= REFUSALS_READ_MAX {
            return Ok(());
        }
        let reason = format_args!("more than {REFUSALS_READ_MAX} rows are rejected: is this a file of this format?");
        Err(self.unusable(reason))
    }

    /// The error of an unusable file.
    pub fn unusable(&self, reason: impl std::fmt::Display) -> ImportError {
        ImportError::unusable(&self.file, None, reason)
    }

    /// Combines the error that ended the reading with the rows rejected before.
    pub fn with(&mut self, ended: ImportError) -> ImportError {
        if self.refused == 0 {
            return ended;
        }
        self.rejection(Some(Box::new(ended)))
    }

    /// Ends the import if rows were rejected, unless these are to be left out.
    ///
    /// # Errors
    /// All rejected rows.
    pub fn settle(&mut self) -> Result<(), ImportError> {
        if self.refused == 0 || self.leave_out_refused { Ok(()) } else { Err(self.rejection(None)) }
    }

    fn rejection(&mut self, ended: Option<Box<ImportError>>) -> ImportError {
        let (refusals, left_out) = self.take_rejected();
        ImportError::Refused { file: self.file.clone(), refusals, left_out, ended }
    }

    /// The rejected rows sorted by line, those without a line last, and the number of further ones.
    fn take_rejected(&mut self) -> (Vec<Refusal>, u64) {
        let mut refusals = std::mem::take(&mut self.refusals);
        refusals.sort_by_key(|refusal| refusal.line.unwrap_or(u64::MAX));
        let left_out = self.refused.saturating_sub(refusals.len() as u64);
        (refusals, left_out)
    }

    /// The report of a written draft.
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

    /// Returns the name of a code. Rejects an unusable name and returns `None`.
    pub fn name(&mut self, line: Option<u64>, code: &str, text: &str) -> Option<String> {
        self.named("name", line, code, text)
    }

    /// As [`name`](Self::name), for a text whose name in the publisher's file is `what`.
    pub fn named(&mut self, what: &str, line: Option<u64>, code: &str, text: &str) -> Option<String> {
        let text = self.text(text).filter(|text| !text.is_empty());
        if text.is_none() {
            self.refuse(line, Some(code), format_args!("it has no {what}, or one with a control character"));
        }
        text
    }

    /// Normalizes a text for packs: one trimmed line in normal form C. None if it contains a control character that is
    /// not white space. The wording is never changed: some publishers prohibit changes.
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

/// Replaces every run of white space with a line break or a tab by one space.
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

/// The depth of the deepest code by primary parents, which have no cycles.
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
