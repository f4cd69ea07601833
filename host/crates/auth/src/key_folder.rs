//! All keys of a data folder, as included in a backup and written by a restore.
//!
//! **Invariant:** restored keys are checked like keys read at the start; no message contains a part of a key.

use std::path::{Path, PathBuf};

use jiff::Timestamp;
use secrecy::{ExposeSecret, SecretString};

use super::cursor_seal::SEAL_KEY_FILE;
use super::decision_key::DECISION_KEY_FILE;
use super::key_file;
use super::keys::{KEY_FOLDER, TOKEN_KEY_FILE};
use super::secret::HASH_KEY_FILE;
use super::secret_file::{self, SecretFileError};

/// The key files: token signing, client secret hashing, cursor sealing, decision sealing. The administrator's token is
/// not one of them: it belongs to the machine, and is created if missing.
const FILES: [&str; 4] = [TOKEN_KEY_FILE, HASH_KEY_FILE, SEAL_KEY_FILE, DECISION_KEY_FILE];

/// Reads all key files of a data folder: their names and contents.
///
/// # Errors
/// If a file cannot be read, or other users may read it.
pub fn read_all(data_folder: &Path) -> Result<Vec<(String, SecretString)>, SecretFileError> {
    let folder = data_folder.join(KEY_FOLDER);
    let mut files = Vec::new();
    for name in FILES {
        let text = secret_file::read(&folder.join(name))?;
        files.extend(text.map(|text| (name.to_owned(), text)));
    }
    Ok(files)
}

/// The description of a key file, without its content.
#[derive(Debug)]
pub struct KeyFile {
    /// The path of the file.
    pub path: PathBuf,
    /// The purpose of its keys.
    pub purpose: &'static str,
    /// True if its keys sign tokens and are replaced by `daftar key rotate`.
    pub is_signing: bool,
    /// The creation time of its newest key, `None` if there is no file; or the reason why it cannot be used.
    pub newest: Result<Option<Timestamp>, String>,
}

/// Checks every key file of a data folder as a start would, without creating any.
#[must_use]
pub fn look(data_folder: &Path) -> Vec<KeyFile> {
    let purposes = [
        "the token signing keys",
        "the client secret hashing key",
        "the cursor sealing key",
        "the decision sealing keys",
    ];
    let look = |(name, purpose): (&'static str, &'static str)| {
        let path = data_folder.join(KEY_FOLDER).join(name);
        let keys = key_file::load(&path).map_err(|error| error.to_string());
        let newest = keys.map(|keys| keys.and_then(|keys| keys.first().map(|key| key.created_at)));
        KeyFile { path, purpose, is_signing: name == TOKEN_KEY_FILE, newest }
    };
    FILES.into_iter().zip(purposes).map(look).collect()
}

/// Returns the first key file that is missing in these names.
#[must_use]
pub fn missing_from(names: &[String]) -> Option<&'static str> {
    FILES.into_iter().find(|file| !names.iter().any(|name| name == file))
}

/// Checks that a key file with this name may contain this text. The reason contains no part of it.
///
/// # Errors
/// The reason why it may not.
pub fn check(name: &str, text: &str) -> Result<(), String> {
    if !FILES.contains(&name) {
        return Err("the name of a key file is unknown".to_owned());
    }
    key_file::check(text).map_err(|reason| format!("the keys in `{name}` are invalid: {reason}"))
}

/// Writes a key file into a data folder; returns false if the file exists already. Durable on return.
///
/// # Errors
/// On a disk or permission error.
pub fn put(data_folder: &Path, name: &str, text: &SecretString) -> Result<bool, SecretFileError> {
    let folder = data_folder.join(KEY_FOLDER);
    secret_file::prepare_folder(&folder)?;
    secret_file::create(&folder.join(name), text)
}

/// Checks the keys of a data folder as at the start.
///
/// # Errors
/// The file that is missing or invalid, and the reason.
pub fn check_all(data_folder: &Path) -> Result<(), String> {
    let files = read_all(data_folder).map_err(|error| error.to_string())?;
    for (name, text) in &files {
        check(name, text.expose_secret())?;
    }
    let names: Vec<String> = files.into_iter().map(|(name, _)| name).collect();
    missing_from(&names).map_or(Ok(()), |missing| Err(format!("`{KEY_FOLDER}/{missing}` is missing")))
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;
    use crate::{CursorSeal, DecisionKeyRing, KeyRing, SecretHasher};

    #[test]
    fn every_key_of_a_server_is_backed_up_and_restored() {
        let (one, other) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
        let now = jiff::Timestamp::UNIX_EPOCH;
        KeyRing::load_or_create(one.path(), 86_400, now).unwrap();
        SecretHasher::load_or_create(one.path(), now).unwrap();
        CursorSeal::load_or_create(one.path(), now).unwrap();
        DecisionKeyRing::load_or_create(one.path(), now).unwrap();
        let files = read_all(one.path()).unwrap();
        let made = fs::read_dir(one.path().join(KEY_FOLDER)).unwrap().count();
        assert_eq!((files.len(), made), (FILES.len(), FILES.len()), "list the new key file here");

        assert_eq!(check_all(other.path()).unwrap_err(), "`keys/token.json` is missing");
        assert_eq!(missing_from(&[TOKEN_KEY_FILE.to_owned()]), Some(HASH_KEY_FILE));
        for (name, text) in &files {
            assert!(put(other.path(), name, text).unwrap());
            assert!(!put(other.path(), name, text).unwrap(), "the file exists");
            let path = format!("{KEY_FOLDER}/{name}");
            assert_eq!(fs::read(one.path().join(&path)).unwrap(), fs::read(other.path().join(&path)).unwrap());
        }
        check_all(other.path()).unwrap();
    }

    #[test]
    fn every_key_file_is_described() {
        let folder = tempfile::tempdir().unwrap();
        let described = || {
            let files = look(folder.path()).into_iter();
            files.map(|file| (file.is_signing, file.newest.map_err(drop))).collect::<Vec<_>>()
        };
        assert_eq!(described(), [(true, Ok(None)), (false, Ok(None)), (false, Ok(None)), (false, Ok(None))]);
        let now = jiff::Timestamp::UNIX_EPOCH;
        KeyRing::load_or_create(folder.path(), 86_400, now).unwrap();
        SecretHasher::load_or_create(folder.path(), now).unwrap();
        fs::write(folder.path().join(KEY_FOLDER).join(HASH_KEY_FILE), "{}").unwrap();
        assert_eq!(described()[..2], [(true, Ok(Some(now))), (false, Err(()))]);
    }

    #[test]
    fn other_files_and_other_texts_are_rejected() {
        assert!(check("../token.json", "{}").is_err());
        let reason = check("token.json", "{\"secret\": \"0123\"").unwrap_err();
        assert!(reason.contains("not a key file") && !reason.contains("0123"), "{reason}");
    }
}
