//! What the operator says about a pack, in place of what its format says.

use crate::owner_files::problem::ImportError;
use daftar_domain::code::Namespace;
use daftar_domain::manifest::{PluginName, PluginVersion};

/// What a pack says about itself; each where it differs from what its owner's format says.
#[derive(Debug, Clone, Default)]
pub struct About {
    /// The pack's name.
    pub pack_name: Option<String>,
    /// The pack's version.
    pub pack_version: Option<String>,
    /// What the pack brings, in one sentence.
    pub description: Option<String>,
    /// The URI that the codes live under.
    pub namespace: Option<String>,
    /// The vocabulary's name.
    pub title: Option<String>,
    /// The field it belongs to, such as `Health`.
    pub domain: Option<String>,
    /// The version that records keep beside a code.
    pub edition: Option<String>,
    /// Which release of which publication.
    pub source: Option<String>,
    /// The licence of the data.
    pub licence: Option<String>,
    /// The acknowledgement its owner asks for.
    pub attribution: Option<String>,
}

impl About {
    /// Whether everything that was said can be used.
    ///
    /// # Errors
    /// The first option that cannot.
    pub(super) fn check(&self) -> Result<(), ImportError> {
        if let Some(name) = &self.pack_name {
            PluginName::parse(name).map_err(|_| {
                ImportError::option("--name", name, "a pack's name: lower-case letters, digits and hyphens")
            })?;
        }
        if let Some(version) = &self.pack_version {
            PluginVersion::parse(version)
                .map_err(|_| ImportError::option("--pack-version", version, "a version, such as 1.0.0"))?;
        }
        if let Some(namespace) = &self.namespace {
            Namespace::parse(namespace).map_err(|error| ImportError::option("--namespace", namespace, error))?;
        }
        for (option, value) in [
            ("--description", &self.description),
            ("--title", &self.title),
            ("--domain", &self.domain),
            ("--edition", &self.edition),
            ("--source", &self.source),
            ("--licence", &self.licence),
            ("--attribution", &self.attribution),
        ] {
            if let Some(value) = value
                && !is_sound_text(value)
            {
                let wanted = "a trimmed text of one line in Unicode normal form C, at most 2,048 bytes";
                return Err(ImportError::option(option, value, wanted));
            }
        }
        Ok(())
    }
}

/// Whether a text is one trimmed line in normal form C within bounds.
pub(super) fn is_sound_text(text: &str) -> bool {
    !text.is_empty()
        && text.len() <= crate::owner_files::limits::LABEL_BYTES_MAX
        && !text.chars().any(char::is_control)
        && text.trim() == text
        && unicode_normalization::is_nfc(text)
}

/// Whether a text is a language tag as packs take them.
pub(super) fn is_language_tag(text: &str) -> bool {
    let mut parts = text.split('-');
    let is_primary = |part: &str| (2..=3).contains(&part.len()) && part.bytes().all(|byte| byte.is_ascii_lowercase());
    let is_further =
        |part: &str| (1..=8).contains(&part.len()) && part.bytes().all(|byte| byte.is_ascii_alphanumeric());
    text.len() <= 35 && parts.next().is_some_and(is_primary) && parts.all(is_further)
}
