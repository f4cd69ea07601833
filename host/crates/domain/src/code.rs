//! Codes of vocabularies: format, numbers and stored form.

use std::fmt;

use serde::{Deserialize, Serialize};

/// Maximum length of a namespace, in bytes.
pub const NAMESPACE_BYTES_MAX: usize = 200;
/// Maximum length of a code, in bytes.
pub const CODE_BYTES_MAX: usize = 100;

/// Error: a text is not a valid code URI, or not a valid part of one.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum CodeError {
    /// The namespace is empty, too long, or contains an invalid character.
    #[error(
        "a namespace is a URI of 1 to {NAMESPACE_BYTES_MAX} visible ASCII characters without `#` and `|`, such as `urn:iso:std:iso:5218`"
    )]
    Namespace,
    /// The code is too long. The error does not repeat the input.
    #[error("the code is longer than the {CODE_BYTES_MAX} bytes that a code may have")]
    CodeTooLong,
    /// The code contains a control character.
    #[error("the code contains a control character, such as a line break: remove it")]
    CodeControl,
    /// The code is empty, or contains white space or `#`.
    #[error("a code has 1 to {CODE_BYTES_MAX} bytes and contains no white space, no control character and no `#`")]
    Code,
    /// A namespace without a code.
    #[error("the code is missing after the namespace; write `<namespace>#<code>` or `<namespace>|<code>`")]
    BareNamespace,
}

impl CodeError {
    /// The message for a text from a URL, where an unencoded `#` ends the text.
    #[must_use]
    pub fn in_url(&self) -> String {
        if *self == Self::BareNamespace { format!("{self}; {ENCODE_HASH}") } else { self.to_string() }
    }
}

/// Advice about a part of a URL that an unencoded `#` may have truncated.
pub(crate) const ENCODE_HASH: &str = "in a URL encode # as %23";

/// The URI of a vocabulary, such as `urn:iso:std:iso:5218`.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Namespace(String);

texts!(Namespace, Code);

impl Namespace {
    /// Parses a namespace.
    ///
    /// # Errors
    /// [`CodeError::Namespace`] if it is empty, too long, or contains anything but visible ASCII without `#` and `|`.
    pub fn parse(text: &str) -> Result<Self, CodeError> {
        let is_valid = !text.is_empty()
            && text.len() <= NAMESPACE_BYTES_MAX
            && text.bytes().all(|byte| byte.is_ascii_graphic() && byte != b'#' && byte != b'|');
        if is_valid { Ok(Self(text.to_owned())) } else { Err(CodeError::Namespace) }
    }
}

/// A code within its vocabulary: case-sensitive, with leading zeros.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Code(String);

impl Code {
    /// Parses a code.
    ///
    /// # Errors
    /// [`CodeError::CodeTooLong`], [`CodeError::CodeControl`], and [`CodeError::Code`] if it is empty or contains white
    /// space or `#`.
    pub fn parse(text: &str) -> Result<Self, CodeError> {
        if text.len() > CODE_BYTES_MAX {
            return Err(CodeError::CodeTooLong);
        }
        if text.chars().any(char::is_control) {
            return Err(CodeError::CodeControl);
        }
        let is_valid = !text.is_empty() && !text.chars().any(|character| character.is_whitespace() || character == '#');
        if is_valid { Ok(Self(text.to_owned())) } else { Err(CodeError::Code) }
    }
}

/// A code with its vocabulary, written `<namespace>#<code>`.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct CodeUri {
    /// The vocabulary.
    pub namespace: Namespace,
    /// The code.
    pub code: Code,
}

impl CodeUri {
    /// Parses `<namespace>#<code>` or `<namespace>|<code>`.
    ///
    /// # Errors
    /// [`CodeError::BareNamespace`] if neither `#` nor `|` is present, else the error of a part.
    pub fn parse(text: &str) -> Result<Self, CodeError> {
        let Some((namespace, code)) = text.split_once(['#', '|']) else {
            return Err(if text.is_empty() { CodeError::Namespace } else { CodeError::BareNamespace });
        };
        Self::from_parts(namespace, code)
    }

    /// Combines a namespace and a code.
    ///
    /// # Errors
    /// The error of either part.
    pub fn from_parts(namespace: &str, code: &str) -> Result<Self, CodeError> {
        Ok(Self { namespace: Namespace::parse(namespace)?, code: Code::parse(code)? })
    }
}

impl fmt::Display for CodeUri {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "{}#{}", self.namespace, self.code)
    }
}

/// The registry-wide number of a (namespace, code). Assigned once, never reused, the same in records, columns and
/// bitmaps. The serialized form is for checkpoints.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct CodeNumber(pub u32);

/// The registry-wide number of a (namespace, vocabulary version). Assigned once, never reused.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct EditionNumber(pub u32);

/// The stored form of a code: the code, and the version of its vocabulary with which it was coded.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct CodedValue {
    /// The code.
    pub number: CodeNumber,
    /// The version of the vocabulary at the time of the write.
    pub edition: EditionNumber,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reads_both_written_forms() {
        let uri = CodeUri::parse("urn:iso:std:iso:5218#2").unwrap();
        assert_eq!(uri, CodeUri::parse("urn:iso:std:iso:5218|2").unwrap());
        assert_eq!(uri.to_string(), "urn:iso:std:iso:5218#2");
    }

    #[test]
    fn names_the_part_that_is_wrong() {
        assert_eq!(CodeUri::parse("urn:iso:std:iso:5218"), Err(CodeError::BareNamespace));
        assert_eq!(CodeUri::parse("#2"), Err(CodeError::Namespace));
        assert_eq!(CodeUri::parse("urn:x#"), Err(CodeError::Code));
        assert_eq!(CodeUri::parse("urn:x#a b"), Err(CodeError::Code));
        assert_eq!(CodeUri::parse("urn:x#a\u{0}"), Err(CodeError::CodeControl));
        assert_eq!(CodeUri::parse("urn:x#a\n"), Err(CodeError::CodeControl));
        assert_eq!(CodeUri::parse("urn:x#a#b"), Err(CodeError::Code));
    }

    #[test]
    fn holds_its_length_bounds() {
        assert!(Code::parse(&"a".repeat(CODE_BYTES_MAX)).is_ok());
        assert_eq!(Code::parse(&"a".repeat(CODE_BYTES_MAX + 1)), Err(CodeError::CodeTooLong));
        assert!(Namespace::parse(&"a".repeat(NAMESPACE_BYTES_MAX)).is_ok());
        assert!(Namespace::parse(&"a".repeat(NAMESPACE_BYTES_MAX + 1)).is_err());
    }
}
