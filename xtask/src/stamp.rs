//! The stamp in the server's program: the digests of the plugins that are built together with it, so that these need no
//! signature, and the commit of its sources.
//!
//! Both are known only when the program exists: it builds the packs, and a release would be linked again with each
//! commit. So they are written into the finished program, at the place that `host/src/main.rs` reserves for them.

use std::collections::BTreeSet;
use std::ffi::OsStr;
use std::fs::{self, File, OpenOptions};
use std::io::{ErrorKind, Seek, SeekFrom, Write};
use std::path::Path;

use crate::commit::Commit;
use crate::failure::Failure;
use crate::files;
use crate::release;

/// The marker before the text, exactly once in a program, at a multiple of [`ALIGNMENT`].
const MARK: &[u8; 32] = b"daftar stamp 1: 7f3c9a52e8d1b604";
/// The alignment of the stamp, in the file as in memory.
const ALIGNMENT: usize = 64;
/// Length of the text, padded with spaces.
const TEXT_LENGTH: usize = 16 * 1024;

/// The stamp of a program with the plugins in these folders.
pub fn text(folders: &[&Path], commit: &Commit) -> Result<String, Failure> {
    let mut digests = BTreeSet::new();
    for folder in folders {
        let Ok(entries) = fs::read_dir(folder) else { continue };
        for path in entries.filter_map(|entry| Some(entry.ok()?.path())) {
            if path.extension() == Some(OsStr::new("wasm")) {
                digests.insert(release::digest(&path)?);
            }
        }
    }
    let digests = digests.into_iter().collect::<Vec<_>>().join(",");
    let committed_s = commit.committed_s.map(|seconds| seconds.to_string());
    let values = [("commit", commit.name.clone()), ("committed_s", committed_s), ("plugins", Some(digests))];
    let lines = values.into_iter().filter_map(|(name, value)| Some(format!("{name}={}\n", value?)));
    Ok(lines.collect())
}

/// Writes a stamp into a program; returns whether it had another one.
///
/// The file keeps its time: the packs that it built stay newer, and cargo treats it as its own output.
pub fn write(program: &Path, text: &str) -> Result<bool, Failure> {
    let mut bytes = files::read(program)?;
    let place = place(&bytes).map_err(|problem| Failure::new(format!("`{}`: {problem}", program.display())))?;
    let mut stamp = text.as_bytes().to_vec();
    if stamp.len() > TEXT_LENGTH {
        let length = stamp.len();
        return Err(Failure::new(format!(
            "the stamp of the program has {length} bytes; there is room for {TEXT_LENGTH}"
        )));
    }
    stamp.resize(TEXT_LENGTH, b' ');
    let present = bytes.get_mut(place..place + TEXT_LENGTH).unwrap_or_default();
    if present == stamp {
        return Ok(false);
    }
    present.copy_from_slice(&stamp);
    let failed = |error| Failure::file(program, error);
    let modified = fs::metadata(program).and_then(|metadata| metadata.modified()).map_err(failed)?;
    match OpenOptions::new().write(true).open(program) {
        // Cargo keeps a second name for the file, which must stay the same file.
        Ok(mut file) => {
            let written = file.seek(SeekFrom::Start(place as u64)).and_then(|_| file.write_all(&stamp));
            written.and_then(|()| file.set_modified(modified)).map_err(failed)?;
        }
        // It runs: that process keeps its own file.
        Err(error) if error.kind() == ErrorKind::ExecutableFileBusy => {
            let fresh = program.with_extension("stamped");
            fs::copy(program, &fresh).and_then(|_| fs::write(&fresh, &bytes)).map_err(failed)?;
            let file = File::options().write(true).open(&fresh);
            file.and_then(|file| file.set_modified(modified)).map_err(failed)?;
            fs::rename(&fresh, program).map_err(failed)?;
        }
        Err(error) => return Err(failed(error)),
    }
    Ok(true)
}

/// Position of the text.
fn place(program: &[u8]) -> Result<usize, String> {
    let mut found = program.chunks(ALIGNMENT).enumerate().filter(|(_, bytes)| bytes.starts_with(MARK));
    let (chunk, _) = found.next().ok_or("there is no place for the stamp in it")?;
    if found.next().is_some() {
        return Err("there are two places for the stamp in it".to_owned());
    }
    let text = chunk * ALIGNMENT + MARK.len();
    if program.len() < text + TEXT_LENGTH {
        return Err("it ends within the stamp".to_owned());
    }
    Ok(text)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn program(marks: usize) -> Vec<u8> {
        let stamp = [&MARK[..], &[b' '; TEXT_LENGTH]].concat();
        let stamp = [stamp, vec![0; ALIGNMENT - MARK.len()]].concat();
        [vec![1; ALIGNMENT], stamp.repeat(marks), b"behind".to_vec()].concat()
    }

    #[test]
    fn a_stamp_is_written_once_and_nothing_around_it_changes() {
        let folder = std::env::temp_dir().join(format!("daftar-xtask-stamp-{}", std::process::id()));
        fs::create_dir_all(&folder).unwrap();
        let (file, other_name) = (folder.join("program"), folder.join("deps"));
        fs::write(&file, program(1)).unwrap();
        fs::hard_link(&file, &other_name).unwrap();
        let before = fs::metadata(&file).unwrap().modified().unwrap();
        assert!(write(&file, "plugins=aa,bb\n").unwrap());
        assert!(!write(&file, "plugins=aa,bb\n").unwrap());
        let written = fs::read(&other_name).unwrap();
        assert_eq!(fs::metadata(&file).unwrap().modified().unwrap(), before);
        assert!(write(&file, &"x".repeat(TEXT_LENGTH + 1)).is_err());
        fs::remove_dir_all(&folder).unwrap();
        let text = ALIGNMENT + MARK.len();
        assert_eq!(written.len(), program(1).len());
        assert!(written[text..].starts_with(b"plugins=aa,bb\n  "));
        assert_eq!(
            (&written[..text], &written[text + TEXT_LENGTH..]),
            (&program(1)[..text], &program(1)[text + TEXT_LENGTH..])
        );
    }

    #[test]
    fn a_program_without_a_place_or_with_two_is_refused() {
        for marks in [0, 2] {
            assert!(place(&program(marks)).is_err());
        }
        assert!(place(&program(1)[..100]).is_err());
    }
}
