//! Sources of packs. The first byte chooses a published format, or a folder of plain files; the files of a folder are
//! separated by a byte 0.

use std::fs;
use std::path::Path;
use std::sync::LazyLock;

use daftar_pack_tools::pack::{PackErrors, check as check_folder};
use daftar_pack_tools::publisher_files::{
    About, HandWritten, ImportError, ImportFormat, ImportOptions, NoProgress, read,
};
use tempfile::TempDir;

/// Maximum length of a line of a message, in bytes, and number of lines.
const LINE_BYTES_MAX: usize = 4_000;
const LINES_MAX: usize = 1_010;

const FORMATS: [ImportFormat; 10] = [
    ImportFormat::WhoTabulation,
    ImportFormat::IscoCsv,
    ImportFormat::SkosNTriples,
    ImportFormat::SkosTurtle,
    ImportFormat::SixXml,
    ImportFormat::IsoJson,
    ImportFormat::SilTab,
    ImportFormat::Fhir,
    ImportFormat::Tsv,
    ImportFormat::Csv,
];

static FOLDER: LazyLock<TempDir> = LazyLock::new(crate::temporary);

pub fn check(input: &[u8]) {
    let Some((choice, rest)) = input.split_first() else { return };
    // The high bit leaves rejected rows out.
    match FORMATS.get(usize::from(choice % 0x80) % (FORMATS.len() + 1)) {
        Some(format) => published(*format, rest, choice & 0x80 != 0),
        None => folder(rest),
    }
}

fn published(format: ImportFormat, bytes: &[u8], leave_out_refused: bool) {
    let file = FOLDER.path().join("published");
    fs::write(&file, bytes).unwrap();
    let text = |text: &str| Some(text.to_owned());
    let about = About {
        pack_name: text("sample"),
        pack_version: text("1.0.0"),
        description: text("A sample."),
        namespace: text("urn:x:sample"),
        title: text("Sample"),
        domain: text("General"),
        edition: text("2026"),
        source: text("A publication"),
        licence: text("CC0-1.0"),
        attribution: None,
    };
    let options = ImportOptions { about, leave_out_refused, ..ImportOptions::default() };
    let import = || read(format, &file, &options, &mut NoProgress);
    let found = match import() {
        Ok(found) => found,
        Err(error) => {
            let names_the_file = !matches!(error, ImportError::Option { .. } | ImportError::Missing { .. });
            is_usable(&error.to_string(), names_the_file.then_some("published"));
            assert_eq!(import().unwrap_err().to_string(), error.to_string(), "the same file has the same problems");
            return;
        }
    };
    let source = empty("source");
    found.write(&HandWritten::default(), &source).expect("a source that was read can be written");
    match check_folder(&source) {
        Ok(checked) => assert!(!checked.contents.vocabularies.is_empty()),
        Err(errors) => panic!("the source that an import wrote is rejected: {errors}"),
    }
}

fn folder(bytes: &[u8]) {
    let folder = empty("folder");
    for below in ["codes", "labels/en"] {
        fs::create_dir_all(folder.join(below)).unwrap();
    }
    let files = ["pack.toml", "codes/sample.tsv", "labels/en/sample.tsv"];
    for (file, content) in files.iter().zip(bytes.split(|byte| *byte == 0)) {
        fs::write(folder.join(file), content).unwrap();
    }
    match check_folder(&folder) {
        Ok(source) => assert_eq!(check_folder(&folder).ok(), Some(source), "a check changes nothing"),
        Err(errors) => of_folder(&errors),
    }
}

fn of_folder(errors: &PackErrors) {
    assert!(!errors.problems().is_empty());
    for problem in errors.problems() {
        assert!(!problem.reason.is_empty(), "{problem:?}");
        assert!(problem.line.is_none_or(|line| line >= 1), "{problem:?}");
    }
    is_usable(&errors.to_string(), None);
}

/// A message is short, and every line of it names the file.
fn is_usable(message: &str, file: Option<&str>) {
    assert!(!message.is_empty() && message.lines().count() <= LINES_MAX, "{message}");
    assert!(message.lines().all(|line| line.len() <= LINE_BYTES_MAX), "{message}");
    if let Some(file) = file {
        assert!(message.lines().any(|line| line.contains(file)), "{message}");
    }
}

/// An empty folder.
fn empty(name: &str) -> std::path::PathBuf {
    let folder: &Path = FOLDER.path();
    let folder = folder.join(name);
    let _is_old = fs::remove_dir_all(&folder);
    fs::create_dir_all(&folder).unwrap();
    folder
}
