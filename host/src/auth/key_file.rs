//! The form in which keys lie on disk: JSON, newest key first, secrets as URL-safe base64 without padding.
//!
//! **Invariant:** a key that reads back has at least 256 bits, is not an obvious pattern, and has a name of its own.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use jiff::Timestamp;
use secrecy::zeroize::Zeroizing;
use secrecy::{ExposeSecret, SecretSlice, SecretString};
use serde::{Deserialize, Serialize};

use super::entropy::{self, EntropyError, SECRET_BYTES};
use super::secret_file::{self, SecretFileError};

/// The form that this program writes and the only one that it reads.
const FORMAT_VERSION: u32 = 1;
/// The most keys in one file: the current one and those whose tokens may still be about.
const KEYS_MAX: usize = 8;
/// The longest key in a file, in bytes.
const KEY_BYTES_MAX: usize = 1024;
/// The longest name of a key.
const KEY_ID_BYTES_MAX: usize = 64;
/// Fewer different bytes than this are a pattern: 32 random bytes have as few less than once in 10^30 draws.
const DISTINCT_BYTES_MIN: usize = 8;

const HOW_TO_MEND: &str = "Restore the file from a backup; without one, delete it so that a new key is made: \
    every token or client secret made with the old key is then refused";

/// Why keys cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum KeyError {
    /// The file cannot be used.
    #[error(transparent)]
    File(#[from] SecretFileError),
    /// No random bytes for a new key.
    #[error(transparent)]
    Entropy(#[from] EntropyError),
    /// The file reads, but holds no keys that may be used.
    #[error("the keys in `{path}` are refused: {reason}. {HOW_TO_MEND}")]
    Refused {
        /// Which file.
        path: PathBuf,
        /// Why, without any of its content.
        reason: String,
    },
}

/// One key as it lies on disk.
pub(super) struct StoredKey {
    /// Its name.
    pub id: String,
    /// When it was made.
    pub created_at: Timestamp,
    /// The key.
    pub secret: SecretSlice<u8>,
}

#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct FileForm<'a> {
    version: u32,
    #[serde(borrow)]
    keys: Vec<KeyForm<'a>>,
}

#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct KeyForm<'a> {
    kid: &'a str,
    created_at: &'a str,
    secret: &'a str,
}

/// Reads the keys of a file, newest first; makes the file with one new key when there is none.
///
/// # Errors
/// When the file cannot be read or written, others may read it, or a key in it is malformed or weak.
pub(super) fn load_or_create(path: &Path, now: Timestamp) -> Result<Vec<StoredKey>, KeyError> {
    if let Some(text) = secret_file::read(path)? {
        return parse(path, &text);
    }
    let key = new_key(now)?;
    let text = render(std::slice::from_ref(&key)).map_err(|reason| refused(path, reason))?;
    if secret_file::create(path, &text)? {
        return Ok(vec![key]);
    }
    // Somebody else made it between the two looks.
    match secret_file::read(path)? {
        Some(text) => parse(path, &text),
        None => Err(refused(path, "it appears and vanishes".to_owned())),
    }
}

/// A new random key with a random name.
fn new_key(now: Timestamp) -> Result<StoredKey, EntropyError> {
    let name = entropy::random_bytes()?;
    let id = name.expose_secret().iter().take(8).map(|byte| format!("{byte:02x}")).collect();
    let secret = SecretSlice::from(entropy::random_bytes()?.expose_secret().to_vec());
    Ok(StoredKey { id, created_at: now, secret })
}

fn render(keys: &[StoredKey]) -> Result<SecretString, String> {
    let written: Vec<(String, Zeroizing<String>)> = keys
        .iter()
        .map(|key| (key.created_at.to_string(), Zeroizing::new(URL_SAFE_NO_PAD.encode(key.secret.expose_secret()))))
        .collect();
    let forms =
        keys.iter().zip(&written).map(|(key, (created_at, secret))| KeyForm { kid: &key.id, created_at, secret });
    let form = FileForm { version: FORMAT_VERSION, keys: forms.collect() };
    let mut text = serde_json::to_string_pretty(&form).map_err(|error| error.to_string())?;
    text.push('\n');
    Ok(SecretString::from(text))
}

fn parse(path: &Path, text: &SecretString) -> Result<Vec<StoredKey>, KeyError> {
    parse_text(text.expose_secret()).map_err(|reason| refused(path, reason))
}

fn refused(path: &Path, reason: String) -> KeyError {
    KeyError::Refused { path: path.to_owned(), reason }
}

/// Checks that a text is what a file of keys may hold. The reason names no part of it.
pub(super) fn check(text: &str) -> Result<(), String> {
    parse_text(text).map(|_| ())
}

/// The reasons name places and lengths, never the text that is wrong: it may be a secret.
fn parse_text(text: &str) -> Result<Vec<StoredKey>, String> {
    let form: FileForm<'_> = serde_json::from_str(text)
        .map_err(|error| format!("not a key file (line {}, column {})", error.line(), error.column()))?;
    if form.version != FORMAT_VERSION {
        return Err(format!("the file is of version {}, this program reads version {FORMAT_VERSION}", form.version));
    }
    if form.keys.is_empty() || form.keys.len() > KEYS_MAX {
        return Err(format!("it holds {} keys, not 1 to {KEYS_MAX}", form.keys.len()));
    }
    let mut seen = BTreeSet::new();
    let mut keys = Vec::with_capacity(form.keys.len());
    for (index, stored) in form.keys.iter().enumerate() {
        let key = parse_key(stored).map_err(|reason| format!("key {}: {reason}", index + 1))?;
        if !seen.insert(stored.kid) {
            return Err(format!("key {}: its kid is used twice", index + 1));
        }
        keys.push(key);
    }
    Ok(keys)
}

fn parse_key(stored: &KeyForm<'_>) -> Result<StoredKey, String> {
    let is_named = !stored.kid.is_empty()
        && stored.kid.len() <= KEY_ID_BYTES_MAX
        && stored.kid.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'-' || byte == b'_');
    if !is_named {
        return Err(format!("its kid is not 1 to {KEY_ID_BYTES_MAX} letters, digits, hyphens or underscores"));
    }
    let created_at = stored.created_at.parse().map_err(|_| "its created_at is not an RFC 3339 instant".to_owned())?;
    let secret = URL_SAFE_NO_PAD
        .decode(stored.secret)
        .map(SecretSlice::from)
        .map_err(|_| "its secret is not URL-safe base64 without padding".to_owned())?;
    check_strength(secret.expose_secret())?;
    Ok(StoredKey { id: stored.kid.to_owned(), created_at, secret })
}

/// Refuses what cannot have come from a good source of randomness.
fn check_strength(secret: &[u8]) -> Result<(), String> {
    if secret.len() < SECRET_BYTES {
        return Err(format!("its secret has {} bits, at least {} are needed", secret.len() * 8, SECRET_BYTES * 8));
    }
    if secret.len() > KEY_BYTES_MAX {
        return Err(format!("its secret is longer than {KEY_BYTES_MAX} bytes"));
    }
    let distinct: BTreeSet<u8> = secret.iter().copied().collect();
    if distinct.len() < DISTINCT_BYTES_MIN {
        return Err("its secret is a pattern, not random bytes".to_owned());
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    const GOOD: &str = "AAECAwQFBgcICQoLDA0ODxAREhMUFRYXGBkaGxwdHh8";

    fn file(keys: &str) -> String {
        format!("{{\"version\": 1, \"keys\": [{keys}]}}")
    }

    fn key(kid: &str, created_at: &str, secret: &str) -> String {
        format!("{{\"kid\": \"{kid}\", \"created_at\": \"{created_at}\", \"secret\": \"{secret}\"}}")
    }

    fn now() -> Timestamp {
        "2026-01-02T03:04:05.678Z".parse().unwrap()
    }

    #[test]
    fn a_new_key_reads_back_as_written() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("token.json");
        let made = load_or_create(&path, now()).unwrap();
        let read = load_or_create(&path, "2027-01-01T00:00:00Z".parse().unwrap()).unwrap();
        assert_eq!(read.len(), 1);
        assert_eq!(read[0].id, made[0].id);
        assert_eq!(read[0].created_at, now());
        assert_eq!(read[0].secret.expose_secret(), made[0].secret.expose_secret());
        assert_eq!(read[0].secret.expose_secret().len(), SECRET_BYTES);
    }

    #[test]
    fn refuses_weak_and_malformed_keys_with_the_reason() {
        let at = "2026-01-01T00:00:00Z";
        let pattern = URL_SAFE_NO_PAD.encode([7_u8; 32]);
        let short = URL_SAFE_NO_PAD.encode((0..31).collect::<Vec<u8>>());
        let long = URL_SAFE_NO_PAD.encode((0..1025).map(|index| (index % 251) as u8).collect::<Vec<u8>>());
        let cases = [
            (String::new(), "not a key file (line 1"),
            ("{}".to_owned(), "not a key file"),
            ("{\"version\": 2, \"keys\": []}".to_owned(), "version 2"),
            (file(""), "0 keys"),
            (file(&vec![key("a", at, GOOD); 9].join(",")), "9 keys"),
            (file(&key("", at, GOOD)), "key 1: its kid"),
            (file(&key("../x", at, GOOD)), "key 1: its kid"),
            (file(&key("a", "yesterday", GOOD)), "created_at"),
            (file(&key("a", at, "%%%")), "base64"),
            (file(&key("a", at, &short)), "248 bits"),
            (file(&key("a", at, &long)), "longer than"),
            (file(&key("a", at, &pattern)), "pattern"),
            (file(&[key("a", at, GOOD), key("a", at, GOOD)].join(",")), "key 2: its kid is used twice"),
        ];
        for (text, reason) in cases {
            let error = parse_text(&text).err().unwrap();
            assert!(error.contains(reason), "{error} should say {reason}");
        }
        assert_eq!(parse_text(&file(&[key("a", at, GOOD), key("b", at, GOOD)].join(","))).unwrap().len(), 2);
    }

    #[test]
    fn a_refusal_names_the_file_and_none_of_its_secrets() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("token.json");
        let text = file(&key("a", "2026-01-01T00:00:00Z", &format!("{GOOD}!")));
        secret_file::create(&path, &SecretString::from(text)).unwrap();
        let message = load_or_create(&path, now()).err().unwrap().to_string();
        assert!(message.contains("token.json") && message.contains("delete it"), "{message}");
        assert!(!message.contains(GOOD), "{message}");
    }
}
