//! The trust in a plugin's file: a detached Ed25519 signature by a key that the operator trusts, or a digest that was
//! pinned when this program was built.
//!
//! A signature is over the exact bytes of the file, so that any Ed25519 tool can verify it. It is stored beside the
//! plugin in `FILE.sig`, as one line: `daftar-plugin-signature 1 <key id> <base64 of 64 bytes>`.
//!
//! **Invariant:** an invalid signature is always rejected; the permission to install unsigned plugins covers a missing
//! signature, never an invalid one.
//! **Invariant:** the signer of a plugin has no effect on its rights: pinned, signed and unsigned plugins run with the
//! same ones.

mod policy;
mod private_key;

use std::fmt;
use std::fs::File;
use std::io::{self, Read};
use std::path::Path;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use ed25519_dalek::{SIGNATURE_LENGTH, Signature};

pub use policy::{PinnedDigests, SignatureProblem, Signer, TrustPolicy, UnsignedPlugins};
pub use private_key::{PrivateKey, PrivateKeyError};

use daftar_domain::plugin_key::{PluginKey, PluginKeyId};

/// The suffix of signature files.
pub const SIGNATURE_SUFFIX: &str = ".sig";

/// The largest signature that is read, in bytes; a valid one has less than 150.
pub const SIGNATURE_BYTES_MAX: usize = 1_024;

/// Reads the signature file of a plugin, if there is one.
///
/// # Errors
/// It cannot be read, is too large, or is not text.
pub fn read_signature_of(plugin: &Path) -> io::Result<Option<String>> {
    let mut path = plugin.as_os_str().to_owned();
    path.push(SIGNATURE_SUFFIX);
    let named = |error: io::Error| io::Error::other(format!("`{}`: {error}", Path::new(&path).display()));
    let file = match File::open(&path) {
        Ok(file) => file,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
        Err(error) => return Err(named(error)),
    };
    let mut text = String::new();
    // One byte more than the limit, so that parsing rejects it.
    file.take(SIGNATURE_BYTES_MAX as u64 + 1).read_to_string(&mut text).map_err(named)?;
    Ok(Some(text))
}

/// The first word of the line.
const MAGIC: &str = "daftar-plugin-signature";
/// The version of the format.
const FORMAT: &str = "1";

/// A signature of a plugin's file, with the id of its key.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PluginSignature {
    key: PluginKeyId,
    signature: Signature,
}

impl PluginSignature {
    /// Parses the line of a `.sig` file.
    ///
    /// # Errors
    /// The reason, in one sentence.
    pub fn parse(text: &str) -> Result<Self, &'static str> {
        Self::parse_as(MAGIC, text)
    }

    /// Parses a line of the same format with another first word.
    ///
    /// # Errors
    /// The reason, in one sentence.
    pub fn parse_as(magic: &str, text: &str) -> Result<Self, &'static str> {
        if text.len() > SIGNATURE_BYTES_MAX {
            return Err("it is longer than a signature");
        }
        let parts: Vec<&str> = text.trim_end_matches(['\n', '\r']).split(' ').collect();
        let [found, format, key, signature] = parts.as_slice() else {
            return Err("it is not one line of four words as written by `daftar plugin sign`");
        };
        if *found != magic {
            return Err("it does not begin with the name of its format (`daftar-plugin-signature` for a plugin)");
        }
        if *format != FORMAT {
            return Err("its format version is not 1, the only one supported");
        }
        let key = key.parse().map_err(|_| "its key id is not 16 hexadecimal digits")?;
        let bytes: [u8; SIGNATURE_LENGTH] = STANDARD
            .decode(signature)
            .ok()
            .and_then(|bytes| bytes.try_into().ok())
            .ok_or("its last word is not base64 of 64 bytes")?;
        Ok(Self { key, signature: Signature::from_bytes(&bytes) })
    }

    /// The id of the key that the signature claims.
    #[must_use]
    pub fn key(&self) -> PluginKeyId {
        self.key
    }

    /// Returns true if that key signed these bytes.
    #[must_use]
    pub fn fits(&self, key: &PluginKey, bytes: &[u8]) -> bool {
        self.key == key.id() && key.key().verify_strict(bytes, &self.signature).is_ok()
    }

    /// Writes the line with that first word.
    ///
    /// # Errors
    /// Those of the formatter.
    pub fn write_as(&self, magic: &str, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "{magic} {FORMAT} {} {}", self.key, STANDARD.encode(self.signature.to_bytes()))
    }
}

impl fmt::Display for PluginSignature {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.write_as(MAGIC, formatter)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use daftar_domain::hexadecimal;

    fn key() -> PrivateKey {
        PrivateKey::from_bytes([7; 32])
    }

    #[test]
    fn a_signature_round_trips_and_matches_the_signed_bytes() {
        let signature = key().sign(b"plugin");
        let line = signature.to_string();
        assert!(line.starts_with(&format!("daftar-plugin-signature 1 {} ", key().public_key().id())), "{line}");
        for text in [line.clone(), format!("{line}\n"), format!("{line}\r\n")] {
            assert_eq!(PluginSignature::parse(&text).unwrap(), signature);
        }
        assert!(signature.fits(&key().public_key(), b"plugin"));
        assert!(!signature.fits(&key().public_key(), b"plugim"));
        assert!(!signature.fits(&PrivateKey::from_bytes([8; 32]).public_key(), b"plugin"));
    }

    /// RFC 8032 §7.1, test 3: the signature is over the bytes only, without a prefix.
    #[test]
    fn the_signature_is_plain_ed25519_over_the_bytes() {
        let secret = "c5aa8df43f9f837bedb7442f31dcb7b166d38535076f094b85ce3a2e0b4458f7";
        let expected = "6291d657deec24024827e69c3abe01a30ce548a284743a445e3680d7db5ac3ac18ff9b538d16f290ae67f760984dc6594a7c15e9716ed28dc027beceea1ec40a";
        let key = PrivateKey::from_bytes(hexadecimal::decode(secret).unwrap().try_into().unwrap());
        let line = key.sign(&[0xaf, 0x82]).to_string();
        let signature = STANDARD.decode(line.rsplit(' ').next().unwrap()).unwrap();
        assert_eq!(hexadecimal::encode(&signature), expected);
    }

    #[test]
    fn a_malformed_line_is_rejected_with_the_reason() {
        let line = key().sign(b"plugin").to_string();
        for (text, reason) in [
            (String::new(), "four words"),
            (format!("{line} more"), "four words"),
            (format!("{line}\n{line}"), "four words"),
            (line.replace(MAGIC, "other-signature"), "does not begin"),
            (line.replace(" 1 ", " 2 "), "format version is not 1"),
            (line.replace(&key().public_key().id().to_string(), "0123"), "key id"),
            (line.trim_end_matches('=').to_owned(), "base64"),
            (format!("{line}{}", " ".repeat(SIGNATURE_BYTES_MAX)), "longer"),
        ] {
            let error = PluginSignature::parse(&text).unwrap_err();
            assert!(error.contains(reason), "{text}: {error}");
        }
    }
}
