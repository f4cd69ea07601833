//! All keys of a data folder, as a backup takes them and a restore puts them back.
//!
//! **Invariant:** what is put back is checked as what is read at start is; nothing says what a key is.

use std::path::{Path, PathBuf};

use jiff::Timestamp;
use secrecy::{ExposeSecret, SecretString};

use super::cursor_seal::SEAL_KEY_FILE;
use super::decision_key::DECISION_KEY_FILE;
use super::key_file;
use super::keys::{KEY_FOLDER, TOKEN_KEY_FILE};
use super::secret::HASH_KEY_FILE;
use super::secret_file::{self, SecretFileError};

/// The files of keys: what signs tokens, what client secrets are kept with, what seals cursors, what seals decisions. The administrator's token is
/// none of them: it belongs to the machine, and a new one is made where there is none.
const FILES: [&str; 4] = [TOKEN_KEY_FILE, HASH_KEY_FILE, SEAL_KEY_FILE, DECISION_KEY_FILE];

/// Reads all keys of a data folder: the names of their files, and what these hold.
///
/// # Errors
/// When one cannot be read, or others may read it.
pub fn read_all(data_folder: &Path) -> Result<Vec<(String, SecretString)>, SecretFileError> {
    let folder = data_folder.join(KEY_FOLDER);
    let mut files = Vec::new();
    for name in FILES {
        let text = secret_file::read(&folder.join(name))?;
        files.extend(text.map(|text| (name.to_owned(), text)));
    }
    Ok(files)
}

/// What can be told of a file of keys without what is in it.
#[derive(Debug)]
pub struct KeyFile {
    /// Where it is.
    pub path: PathBuf,
    /// What its keys are for.
    pub purpose: &'static str,
    /// Whether its keys sign tokens, and are replaced by `daftar key rotate`.
    pub is_signing: bool,
    /// When its newest key was made, nothing where there is no file; or why it cannot be used.
    pub newest: Result<Option<Timestamp>, String>,
}

/// Looks at every file of keys of a data folder as a start would, and makes none.
#[must_use]
pub fn look(data_folder: &Path) -> Vec<KeyFile> {
    let purposes = [
        "what signs tokens",
        "what client secrets are checked with",
        "what seals cursors of searches",
        "what seals decisions of rules",
    ];
    let look = |(name, purpose): (&'static str, &'static str)| {
        let path = data_folder.join(KEY_FOLDER).join(name);
        let keys = key_file::load(&path).map_err(|error| error.to_string());
        let newest = keys.map(|keys| keys.and_then(|keys| keys.first().map(|key| key.created_at)));
        KeyFile { path, purpose, is_signing: name == TOKEN_KEY_FILE, newest }
    };
    FILES.into_iter().zip(purposes).map(look).collect()
}

/// Which file is missing among those of these names.
#[must_use]
pub fn missing_from(names: &[String]) -> Option<&'static str> {
    FILES.into_iter().find(|file| !names.iter().any(|name| name == file))
}

/// Checks that a file of that name may hold that text. The reason names no part of it.
///
/// # Errors
/// Why it may not.
pub fn check(name: &str, text: &str) -> Result<(), String> {
    if !FILES.contains(&name) {
        return Err("a file of keys has a name that no file of keys has".to_owned());
    }
    key_file::check(text).map_err(|reason| format!("the keys in `{name}` are refused: {reason}"))
}

/// Puts a file of keys into a data folder that has none of that name; false where it has. On disk when it returns.
///
/// # Errors
/// When the disk or the permissions do not allow it.
pub fn put(data_folder: &Path, name: &str, text: &SecretString) -> Result<bool, SecretFileError> {
    let folder = data_folder.join(KEY_FOLDER);
    secret_file::prepare_folder(&folder)?;
    secret_file::create(&folder.join(name), text)
}

/// Checks the keys of a data folder as they are read at start.
///
/// # Errors
/// Which file is missing or refused, and why.
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
    fn every_key_that_a_server_makes_is_taken_and_put_back() {
        let (one, other) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
        let now = jiff::Timestamp::UNIX_EPOCH;
        KeyRing::load_or_create(one.path(), 86_400, now).unwrap();
        SecretHasher::load_or_create(one.path(), now).unwrap();
        CursorSeal::load_or_create(one.path(), now).unwrap();
        DecisionKeyRing::load_or_create(one.path(), now).unwrap();
        let files = read_all(one.path()).unwrap();
        let made = fs::read_dir(one.path().join(KEY_FOLDER)).unwrap().count();
        assert_eq!((files.len(), made), (FILES.len(), FILES.len()), "a new file of keys has to be named here");

        assert_eq!(check_all(other.path()).unwrap_err(), "`keys/token.json` is missing");
        for (name, text) in &files {
            assert!(put(other.path(), name, text).unwrap());
            assert!(!put(other.path(), name, text).unwrap(), "it is there");
            let path = format!("{KEY_FOLDER}/{name}");
            assert_eq!(fs::read(one.path().join(&path)).unwrap(), fs::read(other.path().join(&path)).unwrap());
        }
        check_all(other.path()).unwrap();
    }

    #[test]
    fn no_other_file_and_no_other_text_is_put_back() {
        assert!(check("../token.json", "{}").is_err());
        let reason = check("token.json", "{\"secret\": \"0123\"").unwrap_err();
        assert!(reason.contains("not a key file") && !reason.contains("0123"), "{reason}");
    }
}
