//! What an import did.

use std::collections::HashMap;

use crate::owner_files::draft::{DraftPack, DraftVocabulary};
use crate::owner_files::problem::Refusal;
use crate::owner_files::tally::Tally;

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

/// The report of a draft that was written.
pub(super) fn of(draft: &DraftPack, sha256: String, tally: Tally) -> ImportReport {
    let left_out = tally.left_out.iter().map(|(rule, rows)| LeftOut { rule: rule.clone(), rows: *rows }).collect();
    let (rows_read, texts_changed, notes) = (tally.rows, tally.texts_changed, tally.notes.clone());
    let (refused, refused_unlisted) = tally.into_refused();
    ImportReport {
        pack_name: draft.owner.pack_name.clone(),
        pack_version: draft.version().to_owned(),
        sha256,
        rows_read,
        vocabularies: draft.vocabularies.iter().map(vocabulary).collect(),
        left_out,
        refused,
        refused_unlisted,
        texts_changed,
        notes,
    }
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
