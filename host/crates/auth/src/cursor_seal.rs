//! Encryption of cursors, so that clients carry them without reading or changing them.
//!
//! **Invariant:** a sealed text opens only with the same key and for the same purpose; it reveals only its number of
//! blocks of [`BLOCK_BYTES`].

use std::path::Path;

use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use jiff::Timestamp;
use ring::aead::{Aad, CHACHA20_POLY1305, LessSafeKey, NONCE_LEN, Nonce, UnboundKey};
use secrecy::ExposeSecret;

use super::entropy::{self, EntropyError, SECRET_BYTES};
use super::key_file::{self, KeyError};

/// The file of the sealing key within the folder of keys.
pub(super) const SEAL_KEY_FILE: &str = "cursors.json";
/// The plaintext is padded to a multiple of this.
pub const BLOCK_BYTES: usize = 64;
/// The longest sealed text that is opened.
pub const SEALED_BYTES_MAX: usize = 2_000;

/// Seals and opens cursors with the key of this data folder.
pub struct CursorSeal(LessSafeKey);

daftar_domain::opaque_debug!(CursorSeal);

impl CursorSeal {
    /// Reads the sealing key of a data folder. Creates the folder of keys and a key if none exists. With another key
    /// every existing cursor is rejected and the client must start its listing again.
    ///
    /// # Errors
    /// Returns an error if the file cannot be read or written, other users may read it, or the key is malformed or
    /// weak. The message states the remedy.
    pub fn load_or_create(data_folder: &Path, now: Timestamp) -> Result<Self, KeyError> {
        key_file::load_single(data_folder, SEAL_KEY_FILE, now, |secret| {
            let key = UnboundKey::new(&CHACHA20_POLY1305, secret);
            key.map(|key| Self(LessSafeKey::new(key))).map_err(|_| format!("its key is not {SECRET_BYTES} bytes long"))
        })
    }

    /// Seals plaintext for a purpose, as URL-safe text.
    ///
    /// # Errors
    /// If the operating system provides no random bytes.
    pub fn seal(&self, purpose: &[u8], content: &[u8]) -> Result<String, EntropyError> {
        let drawn = entropy::random_bytes()?;
        let mut nonce = [0; NONCE_LEN];
        for (to, from) in nonce.iter_mut().zip(drawn.expose_secret()) {
            *to = *from;
        }
        let mut sealed = content.to_vec();
        // The padding starts with a byte of 1, so that the end of the plaintext can be found.
        sealed.push(1);
        sealed.resize(sealed.len().next_multiple_of(BLOCK_BYTES), 0);
        let nonced = Nonce::assume_unique_for_key(nonce);
        // Fails only for texts of gigabytes; an empty text never opens.
        if self.0.seal_in_place_append_tag(nonced, Aad::from(purpose), &mut sealed).is_err() {
            return Ok(String::new());
        }
        sealed.splice(0..0, nonce);
        Ok(URL_SAFE_NO_PAD.encode(sealed))
    }

    /// Opens a sealed text; `None` if it was not sealed with this key or for this purpose.
    #[must_use]
    pub fn open(&self, purpose: &[u8], sealed: &str) -> Option<Vec<u8>> {
        if sealed.len() > SEALED_BYTES_MAX {
            return None;
        }
        let bytes = URL_SAFE_NO_PAD.decode(sealed).ok()?;
        let (nonce, rest) = bytes.split_at_checked(NONCE_LEN)?;
        let nonce = Nonce::try_assume_unique_for_key(nonce).ok()?;
        let mut rest = rest.to_vec();
        let content = self.0.open_in_place(nonce, Aad::from(purpose), &mut rest).ok()?;
        let end = content.iter().rposition(|byte| *byte != 0)?;
        content.get(..end).map(<[u8]>::to_vec)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn seal() -> (tempfile::TempDir, CursorSeal) {
        let folder = tempfile::tempdir().unwrap();
        let seal = CursorSeal::load_or_create(folder.path(), "2026-01-01T00:00:00Z".parse().unwrap()).unwrap();
        (folder, seal)
    }

    #[test]
    fn opens_only_its_own_texts_for_the_same_purpose() {
        let (folder, seal) = seal();
        for content in [&b""[..], b"a", b"abc\0\0", &[7; BLOCK_BYTES - 1], &[7; BLOCK_BYTES], &[0; 3 * BLOCK_BYTES]] {
            let sealed = seal.seal(b"one", content).unwrap();
            assert_eq!(seal.open(b"one", &sealed).as_deref(), Some(content));
            assert_eq!(seal.open(b"two", &sealed), None);
        }
        let again = CursorSeal::load_or_create(folder.path(), "2026-01-01T00:00:00Z".parse().unwrap()).unwrap();
        let sealed = seal.seal(b"one", b"said").unwrap();
        assert_eq!(again.open(b"one", &sealed).as_deref(), Some(&b"said"[..]), "the key is persistent");
        let (_folder, other) = self::seal();
        assert_eq!(other.open(b"one", &sealed), None);
    }

    #[test]
    fn rejects_changed_texts() {
        let (_folder, seal) = seal();
        let sealed = seal.seal(b"one", b"said").unwrap();
        for at in 0..sealed.len() {
            let mut bytes = sealed.clone().into_bytes();
            bytes[at] = if bytes[at] == b'A' { b'B' } else { b'A' };
            assert_eq!(seal.open(b"one", std::str::from_utf8(&bytes).unwrap()), None, "{at}");
        }
        for wrong in ["", "A", "AAAA", "====", "ä", &"A".repeat(SEALED_BYTES_MAX + 1), &format!("{sealed}A")] {
            assert_eq!(seal.open(b"one", wrong), None, "{wrong}");
        }
    }

    #[test]
    fn the_longest_text_opens_and_a_longer_one_does_not() {
        let (_folder, seal) = seal();
        for (bytes, length, is_opened) in
            [(23 * BLOCK_BYTES - 1, SEALED_BYTES_MAX, true), (23 * BLOCK_BYTES, 2_086, false)]
        {
            let sealed = seal.seal(b"one", &vec![7; bytes]).unwrap();
            assert_eq!((sealed.len(), seal.open(b"one", &sealed).is_some()), (length, is_opened));
        }
    }

    #[test]
    fn reveals_only_the_number_of_blocks() {
        let (_folder, seal) = seal();
        let length = |bytes: usize| seal.seal(b"one", &vec![b'x'; bytes]).unwrap().len();
        assert_eq!(length(0), length(BLOCK_BYTES - 1));
        assert_ne!(seal.seal(b"one", b"said").unwrap(), seal.seal(b"one", b"said").unwrap());
        assert!(!format!("{seal:?}").contains("key"));
    }
}
