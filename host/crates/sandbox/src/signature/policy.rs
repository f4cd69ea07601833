//! The trust policy of plugin installs: accepts plugins that a trusted key signed or whose digest was pinned at build
//! time, and unsigned plugins only if that is configured explicitly.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;

use super::PluginSignature;
use crate::package::Digest;
use daftar_domain::manifest::{PluginKind, PluginName};
use daftar_domain::plugin_key::PluginKeyId;
use daftar_domain::plugin_key::TrustedKey;

/// The signer of a plugin at its install.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Signer {
    /// A trusted key signed it.
    Key(PluginKeyId),
    /// Its digest was pinned when this program was built.
    Pinned,
    /// None; its installation without a signature was allowed explicitly.
    Unsigned,
    /// Unknown: it was restored from a backup, and the policy did not accept it then. It is verified again at each
    /// load.
    Unrecorded,
}

impl fmt::Display for Signer {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Key(id) => write!(formatter, "key {id}"),
            Self::Pinned => formatter.write_str("pinned"),
            Self::Unsigned => formatter.write_str("unsigned"),
            Self::Unrecorded => formatter.write_str("unrecorded"),
        }
    }
}

/// Policy for unsigned plugins.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum UnsignedPlugins {
    /// They are rejected.
    #[default]
    Refused,
    /// They are installed, which the audit log records.
    Allowed,
}

/// The digests of the plugins that were built with this program.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct PinnedDigests(BTreeSet<Digest>);

impl PinnedDigests {
    /// Parses digests of 64 hexadecimal digits, separated by commas or white space. Invalid ones are ignored: they
    /// match no file.
    #[must_use]
    pub fn parse(text: &str) -> Self {
        let words = text.split(|character: char| character == ',' || character.is_whitespace());
        Self(words.filter_map(Digest::from_hex).collect())
    }

    /// The set of these digests.
    #[must_use]
    pub fn of(digests: impl IntoIterator<Item = Digest>) -> Self {
        Self(digests.into_iter().collect())
    }

    /// The number of digests.
    #[must_use]
    pub fn count(&self) -> usize {
        self.0.len()
    }
}

/// The keys and digests that the operator trusts.
#[derive(Debug, Clone, Default)]
pub struct TrustPolicy {
    keys: BTreeMap<PluginKeyId, TrustedKey>,
    pinned: PinnedDigests,
    unsigned: UnsignedPlugins,
}

/// The reason why a file has no trusted signer.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum SignatureProblem {
    /// There is no signature.
    #[error(
        "it is not signed, and its digest {digest} is not one that this program was built with; install it with the `.sig` file of a key in `[plugins] trusted_keys` of the configuration file, which is read at the start, or use `--allow-unsigned`"
    )]
    Unsigned {
        /// The file's digest.
        digest: Digest,
    },
    /// The signature is malformed.
    #[error("its signature cannot be read: {reason}; the file has the digest {digest}")]
    Malformed {
        /// The file's digest.
        digest: Digest,
        /// The reason.
        reason: &'static str,
    },
    /// The signing key is not trusted.
    #[error(
        "it is signed by the key {key}, which is not in `[plugins] trusted_keys` ({trusted}); its digest is {digest}; add the key if you trust its publisher"
    )]
    UnknownKey {
        /// The file's digest.
        digest: Digest,
        /// The key that the signature claims.
        key: PluginKeyId,
        /// The ids of the trusted keys.
        trusted: String,
    },
    /// The signing key is trusted for other plugins only.
    #[error(
        "it is signed by the key {key}, which `[plugins] trusted_keys` limits to {limits}, and it is the {kind} `{plugin}`; its digest is {digest}"
    )]
    OutsideLimits {
        /// The file's digest.
        digest: Digest,
        /// The key.
        key: PluginKeyId,
        /// The plugins that the key is limited to.
        limits: String,
        /// The plugin's name.
        plugin: PluginName,
        /// The plugin's kind.
        kind: &'static str,
    },
    /// The signature belongs to another file.
    #[error(
        "the signature by the key {key} does not match this file, whose digest is {digest}: the file or the signature was changed after signing; get both again"
    )]
    Mismatch {
        /// The file's digest.
        digest: Digest,
        /// The trusted key that the signature claims.
        key: PluginKeyId,
    },
}

impl TrustPolicy {
    /// Creates a policy with these keys, digests and rule for unsigned plugins.
    #[must_use]
    pub fn new<K: Into<TrustedKey>>(
        keys: impl IntoIterator<Item = K>,
        pinned: PinnedDigests,
        unsigned: UnsignedPlugins,
    ) -> Self {
        Self { keys: keys.into_iter().map(Into::into).map(|key| (key.id(), key)).collect(), pinned, unsigned }
    }

    /// The operator's name for a key.
    #[must_use]
    pub fn name_of(&self, key: PluginKeyId) -> Option<&str> {
        self.keys.get(&key).and_then(|trusted| trusted.key().name())
    }

    /// Verifies a signature that claims to be by a trusted key, for any plugin.
    ///
    /// # Errors
    /// [`SignatureProblem::Mismatch`].
    pub fn check_match(&self, bytes: &[u8], digest: Digest, signature: &str) -> Result<(), SignatureProblem> {
        let Ok(signature) = PluginSignature::parse(signature) else { return Ok(()) };
        let key = signature.key();
        let is_pinned = self.pinned.0.contains(&digest);
        match self.keys.get(&key) {
            Some(trusted) if !is_pinned && !signature.fits(trusted.key(), bytes) => {
                Err(SignatureProblem::Mismatch { digest, key })
            }
            Some(_) | None => Ok(()),
        }
    }

    /// Determines the signer of a plugin by its name, its kind, the digest of its file and its `.sig` text. `unsigned`
    /// is the policy of this installation: an unsigned plugin is permitted if it or the configuration permits it.
    ///
    /// # Errors
    /// Returns the reason why the plugin has no trusted signer.
    pub fn signer_of(
        &self,
        (name, kind): (&PluginName, PluginKind),
        bytes: &[u8],
        digest: Digest,
        signature: Option<&str>,
        unsigned: UnsignedPlugins,
    ) -> Result<Signer, SignatureProblem> {
        // The digest covers the complete file: a signature would add no information.
        if self.pinned.0.contains(&digest) {
            return Ok(Signer::Pinned);
        }
        let is_allowed = [self.unsigned, unsigned].contains(&UnsignedPlugins::Allowed);
        let Some(text) = signature else {
            return if is_allowed { Ok(Signer::Unsigned) } else { Err(SignatureProblem::Unsigned { digest }) };
        };
        let signature =
            PluginSignature::parse(text).map_err(|reason| SignatureProblem::Malformed { digest, reason })?;
        let key = signature.key();
        match self.keys.get(&key) {
            Some(trusted) if !signature.fits(trusted.key(), bytes) => Err(SignatureProblem::Mismatch { digest, key }),
            Some(trusted) if trusted.may_sign(name, kind) => Ok(Signer::Key(key)),
            Some(_) if is_allowed => Ok(Signer::Unsigned),
            Some(trusted) => Err(SignatureProblem::OutsideLimits {
                digest,
                key,
                limits: trusted.limits(),
                plugin: name.clone(),
                kind: kind.name(),
            }),
            None if is_allowed => Ok(Signer::Unsigned),
            None => Err(SignatureProblem::UnknownKey { digest, key, trusted: self.shown_keys() }),
        }
    }

    fn shown_keys(&self) -> String {
        let ids: Vec<String> = self.keys.keys().map(ToString::to_string).collect();
        if ids.is_empty() { "none".to_owned() } else { ids.join(", ") }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::signature::PrivateKey;
    use daftar_domain::plugin_key::SignedKind;

    const FILE: &[u8] = b"a plugin";

    const PACK: PluginKind = PluginKind::VocabularyPack;

    fn key(seed: u8) -> PrivateKey {
        PrivateKey::from_bytes([seed; 32])
    }

    fn gear() -> PluginName {
        PluginName::parse("gear").unwrap()
    }

    fn policy(unsigned: UnsignedPlugins) -> TrustPolicy {
        TrustPolicy::new([key(1).public_key()], PinnedDigests::of([Digest::of(b"ours")]), unsigned)
    }

    fn judge(bytes: &[u8], signature: Option<&str>, unsigned: UnsignedPlugins) -> Result<Signer, SignatureProblem> {
        policy(UnsignedPlugins::Refused).signer_of((&gear(), PACK), bytes, Digest::of(bytes), signature, unsigned)
    }

    #[test]
    fn a_trusted_signature_and_a_pinned_digest_are_enough() {
        let signature = key(1).sign(FILE).to_string();
        assert_eq!(judge(FILE, Some(&signature), UnsignedPlugins::Refused), Ok(Signer::Key(key(1).public_key().id())));
        assert_eq!(judge(b"ours", None, UnsignedPlugins::Refused), Ok(Signer::Pinned));
        assert_eq!(judge(b"ours", Some("nonsense"), UnsignedPlugins::Refused), Ok(Signer::Pinned));
    }

    #[test]
    fn every_changed_bit_of_file_and_signature_is_rejected_naming_digest_and_key() {
        let signature = key(1).sign(FILE).to_string();
        let id = key(1).public_key().id().to_string();
        for index in 0..FILE.len() * 8 {
            let mut changed = FILE.to_vec();
            changed[index / 8] ^= 1 << (index % 8);
            let error = judge(&changed, Some(&signature), UnsignedPlugins::Allowed).unwrap_err();
            let message = error.to_string();
            assert!(matches!(error, SignatureProblem::Mismatch { .. }), "{message}");
            assert!(message.contains(&id) && message.contains(&Digest::of(&changed).to_hex()), "{message}");
        }
        for index in 0..signature.len() {
            let mut changed = signature.clone().into_bytes();
            changed[index] ^= 1;
            let Ok(changed) = String::from_utf8(changed) else { continue };
            assert!(judge(FILE, Some(&changed), UnsignedPlugins::Refused).is_err(), "{changed}");
        }
    }

    #[test]
    fn a_file_without_a_trusted_signature_is_rejected_unless_allowed() {
        let strange = key(2).sign(FILE).to_string();
        let error = judge(FILE, Some(&strange), UnsignedPlugins::Refused).unwrap_err().to_string();
        for named in [key(1).public_key().id(), key(2).public_key().id()] {
            assert!(error.contains(&named.to_string()), "{error}");
        }
        assert!(error.contains(&Digest::of(FILE).to_hex()), "{error}");
        assert_eq!(judge(FILE, Some(&strange), UnsignedPlugins::Allowed), Ok(Signer::Unsigned));
        let error = judge(FILE, None, UnsignedPlugins::Refused).unwrap_err().to_string();
        assert!(error.contains("--allow-unsigned") && error.contains(&Digest::of(FILE).to_hex()), "{error}");
        assert_eq!(judge(FILE, None, UnsignedPlugins::Allowed), Ok(Signer::Unsigned));
        let lax = policy(UnsignedPlugins::Allowed);
        let judged = lax.signer_of((&gear(), PACK), FILE, Digest::of(FILE), None, UnsignedPlugins::Refused);
        assert_eq!(judged, Ok(Signer::Unsigned));
    }

    #[test]
    fn a_limited_key_is_trusted_for_its_names_and_kinds_only() {
        let limited = TrustedKey::limited(
            key(1).public_key(),
            Some(vec![gear()]),
            Some(vec![SignedKind::Plugin(PluginKind::VocabularyPack)]),
        );
        let policy = TrustPolicy::new([limited], PinnedDigests::default(), UnsignedPlugins::Refused);
        let signature = key(1).sign(FILE).to_string();
        let (gear, cel) = (gear(), PluginName::parse("cel").unwrap());
        let judge = |name, kind, unsigned| {
            policy.signer_of((name, kind), FILE, Digest::of(FILE), Some(signature.as_str()), unsigned)
        };
        let id = key(1).public_key().id();
        assert_eq!(judge(&gear, PACK, UnsignedPlugins::Refused), Ok(Signer::Key(id)));
        for (name, kind) in [(&cel, PACK), (&gear, PluginKind::EligibilityEngine)] {
            let error = judge(name, kind, UnsignedPlugins::Refused).unwrap_err();
            assert!(matches!(error, SignatureProblem::OutsideLimits { .. }), "{error}");
            let message = error.to_string();
            assert!(
                message.contains("the names `gear` and the kinds vocabulary-pack") && message.contains(name.as_str()),
                "{message}"
            );
            assert_eq!(judge(name, kind, UnsignedPlugins::Allowed), Ok(Signer::Unsigned));
        }
    }

    #[test]
    fn an_invalid_signature_is_rejected_even_if_none_is_required() {
        for text in ["", "nonsense", "daftar-plugin-signature 1 0123456789abcdef AAAA"] {
            let error = judge(FILE, Some(text), UnsignedPlugins::Allowed).unwrap_err();
            assert!(matches!(error, SignatureProblem::Malformed { .. }), "{error}");
        }
        // A signature that claims another key.
        let claimed = key(2).sign(FILE).to_string();
        let claimed = claimed.replace(&key(2).public_key().id().to_string(), &key(1).public_key().id().to_string());
        let error = judge(FILE, Some(&claimed), UnsignedPlugins::Allowed).unwrap_err();
        assert!(matches!(error, SignatureProblem::Mismatch { .. }), "{error}");
    }

    #[test]
    fn pins_are_parsed_with_any_separator_and_invalid_ones_are_ignored() {
        let digest = Digest::of(b"ours");
        let text = format!(",{}\n{} nonsense {}", digest.to_hex(), Digest::of(b"more").to_hex(), "0".repeat(63));
        assert_eq!(PinnedDigests::parse(&text), PinnedDigests::of([digest, Digest::of(b"more")]));
        assert_eq!(PinnedDigests::parse("").count(), 0);
    }
}
