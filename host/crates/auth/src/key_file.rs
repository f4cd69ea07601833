//! The key files: JSON, newest key first, secrets as URL-safe base64 without padding.
//!
//! **Invariant:** a key that is read has at least 256 bits, is not an obvious pattern, and has a unique id.
//!
//! **Invariant:** an error message contains lengths and counts, never a byte of the key.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use jiff::Timestamp;
use secrecy::zeroize::Zeroizing;
use secrecy::{ExposeSecret, SecretSlice, SecretString};
use serde::{Deserialize, Serialize};

use super::entropy::{EntropyError, SECRET_BYTES};
use super::keys::KEY_FOLDER;
use super::secret_file::SecretFileError;
use super::{entropy, secret_file};
use daftar_domain::config::TOKEN_LIFETIME_S_MAX;
use daftar_domain::hexadecimal;

/// The version of the file format. A released format stays readable; a new one gets a new number.
const FORMAT_VERSION: u32 = 1;
/// The most keys in one file.
pub(super) const KEYS_MAX: usize = 64;
/// The longest id of a key.
const KEY_ID_BYTES_MAX: usize = 64;

const HOW_TO_FIX: &str = "Restore the file from a backup; without one, delete it so that a new key is created: \
    every token, client secret or decision of the old key is then rejected";

/// The reason why keys cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum KeyError {
    /// The file cannot be used.
    #[error(transparent)]
    File(#[from] SecretFileError),
    /// There are no random bytes for a new key.
    #[error(transparent)]
    Entropy(#[from] EntropyError),
    /// The file is readable, but contains no usable keys.
    #[error("the keys in `{path}` are invalid: {reason}. {HOW_TO_FIX}")]
    Refused {
        /// The path of the file.
        path: PathBuf,
        /// The reason, without any of the file's content.
        reason: String,
    },
    /// The file is not the one that was read at the start.
    #[error("the keys in `{0}` were changed since the server read them: restart the server, then try again")]
    Changed(PathBuf),
}

/// One key as stored in the file.
pub struct StoredKey {
    /// The key id.
    pub id: String,
    /// The time of creation.
    pub created_at: Timestamp,
    /// The longest lifetime of the tokens that it signs, in seconds; `None` if it is not recorded, or if the key signs
    /// no tokens.
    pub lifetime_s: Option<u64>,
    /// The expiry of the last token that it signed; `None` for the newest key, or if it is not recorded.
    pub accepted_until: Option<Timestamp>,
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
    #[serde(default, skip_serializing_if = "Option::is_none")]
    lifetime_s: Option<u64>,
    #[serde(default, borrow, skip_serializing_if = "Option::is_none")]
    accepted_until: Option<&'a str>,
    secret: &'a str,
}

/// The serialised form of a key, which is zeroised after it is written.
struct Written {
    created_at: String,
    accepted_until: Option<String>,
    secret: Zeroizing<String>,
}

/// Reads the keys of a file, newest first; creates the file with one new key if there is none. A new key that signs
/// tokens records `lifetime_s`, the longest lifetime of them.
///
/// # Errors
/// If the file cannot be read or written, other users may read it, or a key in it is malformed or weak.
pub(super) fn load_or_create(path: &Path, lifetime_s: Option<u64>, now: Timestamp) -> Result<Vec<StoredKey>, KeyError> {
    if let Some(keys) = load(path)? {
        return Ok(keys);
    }
    let key = new_key(lifetime_s, now)?;
    let text = render(std::slice::from_ref(&key)).map_err(|reason| refused(path, reason))?;
    if secret_file::create(path, &text)? {
        return Ok(vec![key]);
    }
    // Another process created the file between the two reads.
    load(path)?.ok_or_else(|| refused(path, "the file was created and deleted concurrently".to_owned()))
}

/// Builds a value from the only key of a file in the key folder; creates missing folder and key.
pub(super) fn load_single<T>(
    data_folder: &Path,
    file: &str,
    now: Timestamp,
    of_secret: impl FnOnce(&[u8]) -> Result<T, String>,
) -> Result<T, KeyError> {
    let folder = data_folder.join(KEY_FOLDER);
    secret_file::prepare_folder(&folder)?;
    let path = folder.join(file);
    let stored = load_or_create(&path, None, now)?;
    let [key] = stored.as_slice() else { return Err(refused(&path, "it must contain exactly one key".to_owned())) };
    of_secret(key.secret.expose_secret()).map_err(|reason| refused(&path, reason))
}

/// Reads the keys of a file, newest first; `None` if there is no file.
///
/// # Errors
/// As [`load_or_create`].
pub(super) fn load(path: &Path) -> Result<Option<Vec<StoredKey>>, KeyError> {
    let Some(text) = secret_file::read(path)? else { return Ok(None) };
    parse_text(text.expose_secret()).map(Some).map_err(|reason| refused(path, reason))
}

/// Replaces the keys in the file atomically: a reader sees the old or the new keys, after a crash too.
///
/// # Errors
/// As [`secret_file::replace`].
pub(super) fn replace(path: &Path, keys: &[StoredKey]) -> Result<(), KeyError> {
    let text = render(keys).map_err(|reason| refused(path, reason))?;
    Ok(secret_file::replace(path, &text)?)
}

/// Generates a random key with a random id.
pub(super) fn new_key(lifetime_s: Option<u64>, now: Timestamp) -> Result<StoredKey, EntropyError> {
    let name = entropy::random_bytes()?;
    let id = hexadecimal::encode(name.expose_secret().iter().take(8));
    let secret = SecretSlice::from(entropy::random_bytes()?.expose_secret().to_vec());
    Ok(StoredKey { id, created_at: now, lifetime_s, accepted_until: None, secret })
}

fn render(keys: &[StoredKey]) -> Result<SecretString, String> {
    let written: Vec<Written> = keys
        .iter()
        .map(|key| Written {
            created_at: key.created_at.to_string(),
            accepted_until: key.accepted_until.map(|until| until.to_string()),
            secret: Zeroizing::new(URL_SAFE_NO_PAD.encode(key.secret.expose_secret())),
        })
        .collect();
    let forms = keys.iter().zip(&written).map(|(key, written)| KeyForm {
        kid: &key.id,
        created_at: &written.created_at,
        lifetime_s: key.lifetime_s,
        accepted_until: written.accepted_until.as_deref(),
        secret: &written.secret,
    });
    let form = FileForm { version: FORMAT_VERSION, keys: forms.collect() };
    let mut text = serde_json::to_string_pretty(&form).map_err(|error| error.to_string())?;
    text.push('\n');
    Ok(SecretString::from(text))
}

fn refused(path: &Path, reason: String) -> KeyError {
    KeyError::Refused { path: path.to_owned(), reason }
}

/// Checks that a text is a valid key file. The reason contains no part of it.
pub(super) fn check(text: &str) -> Result<(), String> {
    parse_text(text).map(|_| ())
}

/// Parses a key file. The reasons contain positions and lengths, never the invalid text: it may be a secret.
fn parse_text(text: &str) -> Result<Vec<StoredKey>, String> {
    let form: FileForm<'_> = serde_json::from_str(text)
        .map_err(|error| format!("not a key file (line {}, column {})", error.line(), error.column()))?;
    if form.version != FORMAT_VERSION {
        return Err(format!("the file has version {}, this program reads version {FORMAT_VERSION}", form.version));
    }
    if form.keys.is_empty() || form.keys.len() > KEYS_MAX {
        return Err(format!("it contains {} keys, not 1 to {KEYS_MAX}", form.keys.len()));
    }
    let mut seen = BTreeSet::new();
    let mut keys = Vec::with_capacity(form.keys.len());
    for (index, stored) in form.keys.iter().enumerate() {
        let key = parse_key(stored).map_err(|reason| format!("key {}: {reason}", index + 1))?;
        if index == 0 && key.accepted_until.is_some() {
            return Err("key 1: the signing key must not have accepted_until".to_owned());
        }
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
    let created_at = stored.created_at.parse().map_err(|_| "its created_at is not an RFC 3339 timestamp".to_owned())?;
    let accepted_until = stored.accepted_until.map(str::parse).transpose();
    let accepted_until = accepted_until.map_err(|_| "its accepted_until is not an RFC 3339 timestamp".to_owned())?;
    if stored.lifetime_s.is_some_and(|lifetime_s| !(1..=TOKEN_LIFETIME_S_MAX).contains(&lifetime_s)) {
        return Err(format!("its lifetime_s is not between 1 and {TOKEN_LIFETIME_S_MAX}"));
    }
    let secret = URL_SAFE_NO_PAD
        .decode(stored.secret)
        .map(SecretSlice::from)
        .map_err(|_| "its secret is not URL-safe base64 without padding".to_owned())?;
    check_strength(secret.expose_secret())?;
    let (id, lifetime_s) = (stored.kid.to_owned(), stored.lifetime_s);
    Ok(StoredKey { id, created_at, lifetime_s, accepted_until, secret })
}

/// The longest key, in bytes.
const KEY_BYTES_MAX: usize = 1024;
/// The bits that a key requires.
const BITS_MIN: usize = SECRET_BYTES * 8;
/// Fewer distinct bytes than this are a pattern: 32 random bytes have as few less than once in 10^30 draws.
const DISTINCT_BYTES_MIN: usize = 8;

/// Checks the strength of a key.
///
/// # Errors
/// The reason why it is too weak or too long.
fn check_strength(secret: &[u8]) -> Result<(), String> {
    if secret.len() < SECRET_BYTES {
        return Err(format!("its secret has {} bits, at least {BITS_MIN} are required", secret.len() * 8));
    }
    if secret.len() > KEY_BYTES_MAX {
        return Err(format!("its secret is longer than {KEY_BYTES_MAX} bytes"));
    }
    let period = period(secret);
    if period == 1 {
        return Err("its secret is one byte repeated, not random bytes".to_owned());
    }
    if period < SECRET_BYTES {
        return Err(format!("its secret is the same {period} bytes repeated, not random bytes"));
    }
    if counts(secret) {
        return Err("its secret is an arithmetic sequence of bytes, not random bytes".to_owned());
    }
    let distinct = secret.iter().collect::<BTreeSet<_>>().len();
    if distinct < DISTINCT_BYTES_MIN {
        return Err(format!("its secret is a pattern of {distinct} different bytes, not random bytes"));
    }
    match bits_of_text(secret) {
        Some(bits) if bits < BITS_MIN => Err(format!(
            "its secret is text of {} characters, which has at most {bits} bits, and {BITS_MIN} are required: use random bytes",
            secret.len()
        )),
        Some(_) | None => Ok(()),
    }
}

/// Returns the length of the shortest block that the bytes repeat, the last repetition possibly truncated; the whole
/// length if there is none. A block occurs at least twice: a key whose last byte or two equal its first ones is chance.
fn period(secret: &[u8]) -> usize {
    let repeats = |length: &usize| secret.iter().zip(secret.iter().skip(*length)).all(|(one, later)| one == later);
    (1..=secret.len() / 2).find(repeats).unwrap_or(secret.len())
}

/// Returns true if all differences between neighbouring bytes are equal.
fn counts(secret: &[u8]) -> bool {
    let mut steps = secret.iter().zip(secret.iter().skip(1)).map(|(one, next)| next.wrapping_sub(*one));
    let first = steps.next();
    steps.all(|step| Some(step) == first)
}

/// Returns the maximum entropy in bits of printable text of this length and alphabet; `None` if the bytes are not such
/// text.
fn bits_of_text(secret: &[u8]) -> Option<usize> {
    if !secret.iter().all(|byte| matches!(byte, b' '..=b'~')) {
        return None;
    }
    let holds = |is_of: fn(&u8) -> bool| secret.iter().any(is_of);
    let is_hexadecimal = |letters: fn(&u8) -> bool| secret.iter().all(|byte| byte.is_ascii_digit() || letters(byte));
    let hexadecimal =
        is_hexadecimal(|byte| matches!(byte, b'a'..=b'f')) || is_hexadecimal(|byte| matches!(byte, b'A'..=b'F'));
    let kinds = [
        (holds(u8::is_ascii_digit), 10_u32),
        (holds(u8::is_ascii_lowercase), 26),
        (holds(u8::is_ascii_uppercase), 26),
        (holds(|byte| !byte.is_ascii_alphanumeric()), 33),
    ];
    let characters: u32 = kinds.iter().filter(|(is_there, _)| *is_there).map(|(_, size)| size).sum();
    let characters = if hexadecimal { characters.min(16) } else { characters };
    // At most a thousand bytes of at most 7 bits each.
    Some((secret.len() as f64 * f64::from(characters).log2()) as usize)
}

#[cfg(test)]
mod tests {
    use super::*;

    const GOOD: &str = "pYAHQwvYLWXCIdlGWcm_TJmEaGfCTmheT_vR2Ozd5Dc";

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
        let made = load_or_create(&path, None, now()).unwrap();
        let read = load_or_create(&path, None, "2027-01-01T00:00:00Z".parse().unwrap()).unwrap();
        assert_eq!(read.len(), 1);
        assert_eq!(read[0].id, made[0].id);
        assert_eq!(read[0].created_at, now());
        assert_eq!(read[0].secret.expose_secret(), made[0].secret.expose_secret());
        assert_eq!(read[0].secret.expose_secret().len(), entropy::SECRET_BYTES);
        let text = std::fs::read_to_string(&path).unwrap();
        assert!(text.contains("\"version\": 1") && !text.contains("lifetime_s"), "{text}");
    }

    #[test]
    fn the_data_of_a_rotation_is_stored() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("token.json");
        let mut keys = load_or_create(&path, Some(60), now()).unwrap();
        keys[0].accepted_until = Some("2026-01-03T00:00:00Z".parse().unwrap());
        keys.insert(0, new_key(Some(90), now()).unwrap());
        replace(&path, &keys).unwrap();
        let read = load(&path).unwrap().unwrap();
        for (read, written) in read.iter().zip(&keys) {
            assert_eq!((&read.id, read.created_at), (&written.id, written.created_at));
            assert_eq!((read.lifetime_s, read.accepted_until), (written.lifetime_s, written.accepted_until));
            assert_eq!(read.secret.expose_secret(), written.secret.expose_secret());
        }
        assert_eq!(read.len(), 2);
    }

    /// The bytes of version 1 on disk: they stay readable as long as such files exist.
    #[test]
    fn version_1_reads_as_it_was_written() {
        let first = file(&key("0f1e2d3c4b5a6978", "2026-01-02T03:04:05.678Z", GOOD));
        let read = parse_text(&first).unwrap();
        assert_eq!((read[0].lifetime_s, read[0].accepted_until), (None, None));
        let second = format!(
            "{{\"version\": 1, \"keys\": [{{\"kid\": \"b\", \"created_at\": \"2026-01-03T00:00:00Z\", \"lifetime_s\": 86400, \
             \"secret\": \"{GOOD}\"}}, {{\"kid\": \"a\", \"created_at\": \"2026-01-02T00:00:00Z\", \"lifetime_s\": 3600, \
             \"accepted_until\": \"2026-01-03T01:01:00Z\", \"secret\": \"{GOOD}\"}}]}}"
        );
        let read = parse_text(&second).unwrap();
        assert_eq!((read[0].lifetime_s, read[0].accepted_until), (Some(86_400), None));
        assert_eq!((read[1].lifetime_s, read[1].accepted_until), (Some(3_600), "2026-01-03T01:01:00Z".parse().ok()));
    }

    #[test]
    fn rejects_weak_and_malformed_keys_with_the_reason() {
        let at = "2026-01-01T00:00:00Z";
        let pattern = URL_SAFE_NO_PAD.encode([7_u8; 32]);
        let short = URL_SAFE_NO_PAD.encode((0..31).collect::<Vec<u8>>());
        let long = URL_SAFE_NO_PAD.encode((0..1025).map(|index| (index % 251) as u8).collect::<Vec<u8>>());
        let with = |more: &str| key("a", at, GOOD).replacen('{', &format!("{{{more},"), 1);
        let cases = [
            (String::new(), "not a key file (line 1"),
            ("{}".to_owned(), "not a key file"),
            ("{\"version\": 0, \"keys\": []}".to_owned(), "version 0"),
            ("{\"version\": 2, \"keys\": []}".to_owned(), "version 2"),
            (file(&with("\"lifetime_s\": 0")), "key 1: its lifetime_s"),
            (file(&with("\"lifetime_s\": 2678401")), "key 1: its lifetime_s"),
            (file(&with(&format!("\"accepted_until\": \"{at}\""))), "key 1: the signing key"),
            (file(&with("\"accepted_until\": \"never\"")), "key 1: its accepted_until"),
            (file(&with("\"lifetime_s\": 60, \"lifetime_s\": 60")), "not a key file"),
            (file(""), "0 keys"),
            (file(&vec![key("a", at, GOOD); 65].join(",")), "65 keys"),
            (file(&key("", at, GOOD)), "key 1: its kid"),
            (file(&key("../x", at, GOOD)), "key 1: its kid"),
            (file(&key("a", "yesterday", GOOD)), "created_at"),
            (file(&key("a", at, "%%%")), "base64"),
            (file(&key("a", at, &short)), "248 bits"),
            (file(&key("a", at, &long)), "longer than"),
            (file(&key("a", at, &pattern)), "one byte repeated"),
            (file(&[key("a", at, GOOD), key("a", at, GOOD)].join(",")), "key 2: its kid is used twice"),
        ];
        for (text, reason) in cases {
            let error = parse_text(&text).err().unwrap();
            assert!(error.contains(reason), "{error} should contain {reason}");
        }
        let most: Vec<String> = (0..KEYS_MAX).map(|number| key(&format!("a-b_{number}"), at, GOOD)).collect();
        assert_eq!(parse_text(&file(&most.join(","))).unwrap().len(), KEYS_MAX);
    }

    #[test]
    fn an_error_names_the_file_and_none_of_its_secrets() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("token.json");
        let text = file(&key("a", "2026-01-01T00:00:00Z", &format!("{GOOD}!")));
        secret_file::create(&path, &SecretString::from(text)).unwrap();
        let message = load_or_create(&path, None, now()).err().unwrap().to_string();
        assert!(message.contains("token.json") && message.contains("delete it"), "{message}");
        assert!(!message.contains(GOOD), "{message}");
    }
}

#[cfg(test)]
mod key_strength_tests {
    use super::*;
    use crate::entropy;
    use secrecy::ExposeSecret;

    #[test]
    fn keys_from_the_operating_system_are_strong() {
        for _ in 0..1_000 {
            check_strength(entropy::random_bytes().unwrap().expose_secret()).unwrap();
        }
    }

    #[test]
    fn rejects_handmade_keys_with_the_reason() {
        let random = entropy::random_bytes().unwrap().expose_secret().to_vec();
        let half = random[..16].to_vec();
        let twice: Vec<u8> = [random.clone(), random.clone()].concat();
        let two_bytes: Vec<u8> = (0..40).map(|place| if [3, 17, 18, 30].contains(&place) { 9 } else { 200 }).collect();
        for (secret, reason) in [
            (Vec::new(), "has 0 bits, at least 256"),
            (random[..31].to_vec(), "has 248 bits, at least 256"),
            (vec![0; 32], "one byte repeated"),
            (vec![255; 1024], "one byte repeated"),
            ([half.clone(), half].concat(), "the same 16 bytes repeated"),
            (b"abcabcabcabcabcabcabcabcabcabcabca".to_vec(), "the same 3 bytes repeated"),
            ((0..32).collect(), "arithmetic sequence"),
            ((0..64).map(|place| 255 - 3 * place).collect(), "arithmetic sequence"),
            (two_bytes, "a pattern of 2 different bytes"),
            (b"correct horse battery staple and more".to_vec(), "text of 37 characters, which has at most 217 bits"),
            (b"31415926535897932384626433832795028841".to_vec(), "at most 126 bits"),
            (b"0123456789abcdef0f1e2d3c4b5a69788796a5b4c3d2e1f00f1e2d3c4b5a697".to_vec(), "at most 252 bits"),
            (vec![7; 1025], "longer than 1024"),
        ] {
            let reported = check_strength(&secret).unwrap_err();
            assert!(reported.contains(reason), "{reported} should contain {reason}");
        }
        check_strength(&twice).unwrap();
        // The last byte equals the first, as in one of 256 random keys.
        let same_ends = [&random[..31], &random[..1]].concat();
        check_strength(&same_ends).unwrap();
        let places = (0..40).map(|place| (place * (place + 1) / 2 + place / 16) % 8);
        let eight_bytes: Vec<u8> = places.map(|place: usize| [200, 1, 77, 3, 9, 150, 33, 128][place]).collect();
        check_strength(&eight_bytes).unwrap();
        check_strength(b"0123456789abcdef0f1e2d3c4b5a69788796a5b4c3d2e1f00f1e2d3c4b5a6978").unwrap();
    }
}
