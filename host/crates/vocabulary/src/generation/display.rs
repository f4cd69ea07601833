//! Codes as readers are shown them.

use super::Generation;
use crate::language::LanguagePreference;
use daftar_domain::code::{CodeNumber, CodedValue, EditionNumber};
use daftar_domain::eligibility::CodeTexts;
use daftar_domain::vocabulary::DisplayedCode;

/// A code with what it is called.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct CodeDisplay<'a> {
    /// The vocabulary.
    pub namespace: &'a str,
    /// The code alone.
    pub code: &'a str,
    /// What it is called; the code itself where its vocabulary is gone or no longer has it.
    pub display: &'a str,
    /// The language of `display`; none where that is the code itself.
    pub language: Option<&'a str>,
    /// Whether the reader asked for other languages, and the default one stands in for them.
    pub is_fallback: bool,
    /// Whether the record was coded with another version than the one in force, which the label is taken from.
    pub is_other_edition: bool,
}

impl CodeDisplay<'_> {
    /// `<namespace>#<code>`
    #[must_use]
    pub fn uri(&self) -> String {
        format!("{}#{}", self.namespace, self.code)
    }

    /// The four texts of a response.
    #[must_use]
    pub fn to_displayed(&self) -> DisplayedCode {
        DisplayedCode {
            uri: self.uri(),
            code: self.code.to_owned(),
            display: self.display.to_owned(),
            namespace: self.namespace.to_owned(),
        }
    }
}

impl Generation {
    /// A record's code as a reader is shown it. None only for a number that was never given.
    #[must_use]
    pub fn display(&self, value: CodedValue, languages: &LanguagePreference) -> Option<CodeDisplay<'_>> {
        let Some(concept) = self.code(value.number) else {
            let (namespace, code) = self.table().name(value.number)?;
            return Some(CodeDisplay {
                namespace: namespace.as_str(),
                code,
                display: code,
                language: None,
                is_fallback: false,
                is_other_edition: true,
            });
        };
        let namespace = concept.vocabulary().namespace();
        let label = concept.label(languages);
        Some(CodeDisplay {
            namespace: namespace.as_str(),
            code: concept.code(),
            display: label.text,
            language: Some(label.language),
            is_fallback: label.is_fallback,
            is_other_edition: self.edition_of(namespace) != Some(value.edition),
        })
    }

    /// A code as a reader is shown it, whichever version of its vocabulary it was recorded with.
    #[must_use]
    pub fn displayed(&self, number: CodeNumber, languages: &LanguagePreference) -> Option<DisplayedCode> {
        let (namespace, _) = self.table().name(number)?;
        let edition = self.edition_of(namespace).unwrap_or(EditionNumber(0));
        self.display(CodedValue { number, edition }, languages).map(|shown| shown.to_displayed())
    }

    /// What a rule may read of a code; its display is in the vocabulary's default language.
    #[must_use]
    pub fn code_texts(&self, number: CodeNumber) -> Option<CodeTexts> {
        let (namespace, code) = self.table().name(number)?;
        let display = self.code(number).map_or(code, |concept| concept.default_label());
        let (namespace, code, display) = (namespace.as_str().to_owned(), code.to_owned(), display.to_owned());
        Some(CodeTexts { number, namespace, code, display })
    }
}
