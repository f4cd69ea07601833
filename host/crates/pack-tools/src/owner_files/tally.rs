//! What became of each row of a file, and the texts of it.

use std::borrow::Cow;
use std::path::PathBuf;

use unicode_normalization::UnicodeNormalization;

use crate::owner_files::input::Input;
use crate::owner_files::limits::{REFUSALS_MAX, REFUSALS_READ_MAX};
use crate::owner_files::problem::{ImportError, Refusal, excerpt};

/// Counts rows and keeps what is wrong, within bounds.
#[derive(Debug)]
pub struct Tally {
    file: PathBuf,
    leave_out_refused: bool,
    /// Rows, triples or entries that were looked at.
    pub rows: u64,
    /// Rows left out by a rule of the format, by rule, in the order in which the rules were first met.
    pub left_out: Vec<(String, u64)>,
    /// Things worth saying that are not wrong.
    pub notes: Vec<String>,
    /// Texts that were brought into one line or into normal form C.
    pub texts_changed: u64,
    refusals: Vec<Refusal>,
    refused: u64,
}

impl Tally {
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
        match self.left_out.iter_mut().find(|(known, _)| known == rule) {
            Some((_, count)) => *count += 1,
            None => self.left_out.push((rule.to_owned(), 1)),
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
        let reason = format_args!("more than {REFUSALS_READ_MAX} rows are refused: is this a file of this format?");
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
        self.refused_because(Some(Box::new(ended)))
    }

    /// Ends the import when something was refused, unless that is to be left out.
    ///
    /// # Errors
    /// Everything that was refused.
    pub fn settle(&mut self) -> Result<(), ImportError> {
        if self.refused == 0 || self.leave_out_refused { Ok(()) } else { Err(self.refused_because(None)) }
    }

    fn refused_because(&mut self, ended: Option<Box<ImportError>>) -> ImportError {
        let mut refusals = std::mem::take(&mut self.refusals);
        in_order(&mut refusals);
        let left_out = self.refused.saturating_sub(refusals.len() as u64);
        ImportError::Refused { file: self.file.clone(), refusals, left_out, ended }
    }

    /// What was refused and left out, and how many more than are kept.
    pub fn into_refused(mut self) -> (Vec<Refusal>, u64) {
        let left_out = self.refused.saturating_sub(self.refusals.len() as u64);
        in_order(&mut self.refusals);
        (self.refusals, left_out)
    }

    /// A text of the file as packs hold it: one trimmed line in normal form C. None where it holds a control character that
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

/// By line; what has no line comes last.
fn in_order(refusals: &mut [Refusal]) {
    refusals.sort_by_key(|refusal| refusal.line.unwrap_or(u64::MAX));
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
