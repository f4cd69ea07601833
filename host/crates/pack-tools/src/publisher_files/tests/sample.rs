//! A published file in a temporary folder, and the result of its import.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

use tempfile::TempDir;

use crate::pack::{PackSource, build_folder, check};
use crate::publisher_files::{ImportFormat, ImportOptions, ImportReport, NoProgress, read};
use daftar_domain::vocabulary::{Concept, VocabularyDescription};

/// The result of an import.
pub struct Imported {
    folder: TempDir,
    pub report: ImportReport,
    pub source: PackSource,
}

/// Imports an existing file; the written source is valid.
pub fn import_file(format: ImportFormat, file: &Path, options: &ImportOptions) -> Result<Imported, String> {
    let folder = tempfile::tempdir().unwrap();
    let import = read(format, file, options, &mut NoProgress);
    let import = import.map_err(|error| error.to_string().replace(&format!("{}:", file.display()), "FILE:"))?;
    import.write(&super::super::HandWritten::default(), folder.path()).unwrap();
    let source = check(folder.path()).unwrap_or_else(|errors| panic!("{errors}"));
    Ok(Imported { folder, report: import.report, source })
}

/// Imports a file with this content.
pub fn import_bytes(
    format: ImportFormat,
    bytes: impl AsRef<[u8]>,
    options: &ImportOptions,
) -> Result<Imported, String> {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("sample");
    fs::write(&file, bytes).unwrap();
    import_file(format, &file, options)
}

/// Imports a file with this content without options.
pub fn import_plain(format: ImportFormat, bytes: impl AsRef<[u8]>) -> Result<Imported, String> {
    import_bytes(format, bytes, &ImportOptions::default())
}

/// The error of a file with this content.
pub fn refused(format: ImportFormat, bytes: impl AsRef<[u8]>) -> String {
    import_plain(format, bytes).err().unwrap()
}

impl Imported {
    /// The only vocabulary.
    pub fn vocabulary(&self) -> &(VocabularyDescription, Vec<Concept>) {
        let [vocabulary] = self.source.contents.vocabularies.as_slice() else { panic!("not one vocabulary") };
        vocabulary
    }

    /// The codes of a vocabulary in their order.
    pub fn concepts(&self, namespace: &str) -> &[Concept] {
        let mut vocabularies = self.source.contents.vocabularies.iter();
        let found = vocabularies.find(|(vocabulary, _)| vocabulary.namespace.as_str() == namespace);
        &found.unwrap().1
    }

    /// Every code as `code < parents: label`.
    pub fn outline(&self) -> Vec<String> {
        let line = |concept: &Concept| {
            let parents: Vec<&str> = concept.parents.iter().map(|parent| parent.as_str()).collect();
            let label = &concept.labels.first().unwrap().value;
            let mut line = concept.code.to_string();
            if !parents.is_empty() {
                line.push_str(" < ");
                line.push_str(&parents.join("|"));
            }
            format!("{line}: {label}")
        };
        self.source.contents.vocabularies.iter().flat_map(|(_, concepts)| concepts).map(line).collect()
    }

    /// The rows left out, by rule.
    pub fn left_out(&self) -> Vec<(String, u64)> {
        self.report.left_out.iter().map(|rule| (rule.rule.clone(), rule.rows)).collect()
    }

    /// Every written file with its content.
    pub fn files(&self) -> BTreeMap<PathBuf, Vec<u8>> {
        let mut files = BTreeMap::new();
        let mut folders = vec![self.folder.path().to_owned()];
        while let Some(folder) = folders.pop() {
            for entry in fs::read_dir(folder).unwrap() {
                let path = entry.unwrap().path();
                if path.is_dir() {
                    folders.push(path);
                } else {
                    files.insert(path.strip_prefix(self.folder.path()).unwrap().to_owned(), fs::read(&path).unwrap());
                }
            }
        }
        files
    }

    /// The pack that is built of it.
    pub fn pack(&self) -> Vec<u8> {
        build_folder(self.folder.path()).unwrap_or_else(|errors| panic!("{errors}"))
    }
}
