//! What answers about codes depend on, in one short text: equal fingerprints, equal answers.

use sha2::{Digest as _, Sha256};

use daftar_vocabulary::{DefinedBy, Generation, LanguagePreference};

/// Changed when the same codes are answered in another form.
const FORM: &str = concat!("daftar codes 1 ", env!("CARGO_PKG_VERSION"));
/// How many bytes of the digest are told.
const TOLD_BYTES: usize = 16;

/// Takes one part after another of what an answer depends on.
pub struct Fingerprint(Sha256);

impl Fingerprint {
    /// Begins with what is published and the languages that are wanted.
    #[must_use]
    pub fn of(generation: &Generation, languages: &LanguagePreference) -> Self {
        let mut fingerprint = Self(Sha256::new());
        fingerprint.text(FORM);
        fingerprint.bytes(generation.digest().as_bytes());
        for pack in generation.packs() {
            fingerprint.text(&pack.plugin);
            fingerprint.text(&pack.version);
            // What an open vocabulary's pack says of a code is no part of the generation.
            fingerprint.text(&pack.digest);
        }
        // Who defined a group is no part of what it means, and what an absent vocabulary's codes are called is known only
        // while somebody numbered them.
        for group in generation.concept_groups() {
            fingerprint.text(match group.defined_by() {
                DefinedBy::Nobody => "",
                DefinedBy::Deployment => "deployment",
                DefinedBy::Plugin(plugin) => plugin,
            });
        }
        for version in generation.earlier_versions() {
            fingerprint.bytes(version.digest().as_bytes());
        }
        fingerprint.bytes(&generation.code_count().to_be_bytes());
        for range in languages.ranges() {
            fingerprint.text(range);
        }
        fingerprint
    }

    /// Adds a part. Each is preceded by its length, so that no two run together.
    pub fn text(&mut self, text: &str) {
        self.bytes(text.as_bytes());
    }

    /// What was taken, as hexadecimal digits.
    #[must_use]
    pub fn finish(self) -> String {
        let digest = self.0.finalize();
        digest.iter().take(TOLD_BYTES).map(|byte| format!("{byte:02x}")).collect()
    }

    fn bytes(&mut self, bytes: &[u8]) {
        self.0.update((bytes.len() as u64).to_be_bytes());
        self.0.update(bytes);
    }
}
