//! Digests of vocabularies and published content. Equal digests mean that every code has the same meaning.

use std::fmt;

use sha2::{Digest as _, Sha256};

use daftar_domain::hexadecimal;

/// SHA-256 over a canonical form.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ContentDigest([u8; 32]);

impl ContentDigest {
    /// Returns the bytes.
    #[must_use]
    pub fn as_bytes(&self) -> &[u8; 32] {
        &self.0
    }
}

impl fmt::Display for ContentDigest {
    /// Formats 64 lower-case hexadecimal digits.
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(&hexadecimal::encode(&self.0))
    }
}

impl fmt::Debug for ContentDigest {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "ContentDigest({self})")
    }
}

/// Incremental digest over the parts of a content. The length precedes every text and list, so that different contents
/// cannot have the same encoding.
pub(super) struct Digester(Sha256);

impl Digester {
    /// Starts a digest of one kind of content. The name separates kinds and their versions.
    pub(super) fn of(kind: &str) -> Self {
        let mut digester = Self(Sha256::new());
        digester.text(kind);
        digester
    }

    pub(super) fn text(&mut self, text: &str) {
        self.number(text.len());
        self.0.update(text.as_bytes());
    }

    pub(super) fn number(&mut self, number: usize) {
        self.0.update((number as u64).to_be_bytes());
    }

    pub(super) fn flag(&mut self, flag: bool) {
        self.0.update([u8::from(flag)]);
    }

    pub(super) fn digest(&mut self, digest: &ContentDigest) {
        self.0.update(digest.0);
    }

    pub(super) fn finish(self) -> ContentDigest {
        ContentDigest(self.0.finalize().into())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parts_do_not_run_together() {
        let digest = |parts: &[&str]| {
            let mut digester = Digester::of("test/1");
            parts.iter().for_each(|part| digester.text(part));
            digester.finish()
        };
        assert_ne!(digest(&["ab", "c"]), digest(&["a", "bc"]));
        assert_eq!(digest(&["ab"]).to_string().len(), 64);
    }
}
