//! External identifiers of records: `<system>|<value>`.

use jiff::Timestamp;

use super::calendar::Period;
use super::code::ENCODE_HASH;

/// Maximum length of an identifier system, in bytes.
pub const SYSTEM_BYTES_MAX: usize = 300;
/// Maximum length of an identifier value, in bytes.
pub const VALUE_BYTES_MAX: usize = 200;
/// Maximum length of a reference `<kind>/<system>|<value>`, in bytes.
pub const REFERENCE_BYTES_MAX: usize = SYSTEM_BYTES_MAX + VALUE_BYTES_MAX + 20;

/// Error: a text is not a valid identifier.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum IdentifierError {
    /// There is no `|`: only a system, possibly truncated by an unencoded `#`.
    #[error("an identifier is written `<system_uri>|<value>`")]
    NoValue,
    /// The system is not a URI.
    #[error(
        "an identifier's system must be a URI of 1 to {SYSTEM_BYTES_MAX} visible ASCII characters without `|`, such as `urn:svc:vocab:id-type#national_id`"
    )]
    System,
    /// The value is empty, too long or contains control characters.
    #[error(
        "an identifier's value has 1 to {VALUE_BYTES_MAX} bytes, does not begin or end with white space and contains no control character"
    )]
    Value,
}

impl IdentifierError {
    /// The message for a text from a URL, where an unencoded `#` ends the text.
    #[must_use]
    pub fn in_url(&self) -> String {
        if *self == Self::NoValue { format!("{self}; {ENCODE_HASH}") } else { self.to_string() }
    }
}

/// The issuer of identifiers: a code of the ID types vocabulary or a URI registered by the administrator.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct SystemUri(String);

texts!(SystemUri);

impl SystemUri {
    /// Parses a system.
    ///
    /// # Errors
    /// [`IdentifierError::System`] if it is empty, too long, has no scheme, or contains anything but visible ASCII
    /// without `|`.
    pub fn parse(text: &str) -> Result<Self, IdentifierError> {
        let is_valid = has_scheme(text)
            && text.len() <= SYSTEM_BYTES_MAX
            && text.bytes().all(|byte| byte.is_ascii_graphic() && byte != b'|');
        if is_valid { Ok(Self(text.to_owned())) } else { Err(IdentifierError::System) }
    }
}

/// True if a text starts with a URI scheme, followed by more text.
pub(super) fn has_scheme(text: &str) -> bool {
    text.split_once(':').is_some_and(|(scheme, rest)| {
        !rest.is_empty()
            && scheme.starts_with(|first: char| first.is_ascii_alphabetic())
            && scheme.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"+-.".contains(&byte))
    })
}

/// The value of an identifier.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct IdentifierValue(String);

impl IdentifierValue {
    /// Parses a value.
    ///
    /// # Errors
    /// [`IdentifierError::Value`] if it is empty, too long, padded with white space or contains control characters.
    pub fn parse(text: &str) -> Result<Self, IdentifierError> {
        let is_valid = !text.is_empty()
            && text.len() <= VALUE_BYTES_MAX
            && text.trim().len() == text.len()
            && !text.chars().any(char::is_control);
        if is_valid { Ok(Self(text.to_owned())) } else { Err(IdentifierError::Value) }
    }

    /// Returns the text. Personal data: never logged.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

opaque_debug!(IdentifierValue);

/// System and value of an identifier, without its period.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct IdentifierKey {
    /// The system.
    pub system: SystemUri,
    /// The value.
    pub value: IdentifierValue,
}

impl IdentifierKey {
    /// Parses `<system>|<value>`, split at the first `|`.
    ///
    /// # Errors
    /// [`IdentifierError::NoValue`] without a `|`, else the error of a part.
    pub fn parse(text: &str) -> Result<Self, IdentifierError> {
        let (system, value) = text.split_once('|').ok_or(IdentifierError::NoValue)?;
        Ok(Self { system: SystemUri::parse(system)?, value: IdentifierValue::parse(value)? })
    }

    /// Creates the key of a record named only by a UUID: the system is the prefix of its URN (RFC 9562).
    #[must_use]
    pub fn of_uuid(id: uuid::Uuid) -> Self {
        Self { system: SystemUri("urn:uuid".to_owned()), value: IdentifierValue(id.hyphenated().to_string()) }
    }

    /// Formats `<system>|<value>`. Personal data: for clients that may see the record, never for logs.
    #[must_use]
    pub fn reveal(&self) -> String {
        format!("{}|{}", self.system.as_str(), self.value.as_str())
    }
}

/// One identifier of a record.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Identifier {
    /// System and value.
    pub key: IdentifierKey,
    /// Period of validity; unlimited if absent.
    pub period: Option<Period>,
}

impl Identifier {
    /// True if the identifier has no end. Open identifiers are unique within their system.
    #[must_use]
    pub fn is_open(&self) -> bool {
        self.period.is_none_or(|period| period.is_open())
    }
}

/// Returns the identifier that names a record: the first current one, or else the first.
#[must_use]
pub fn called(identifiers: &[Identifier]) -> Option<&IdentifierKey> {
    let open = identifiers.iter().find(|identifier| identifier.is_open());
    open.or(identifiers.first()).map(|identifier| &identifier.key)
}

/// Maximum number of systems that a deployment registers.
pub const IDENTIFIER_SYSTEMS_MAX: usize = 1_000;

/// A valid system of identifiers.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct IdentifierSystem {
    /// Its URI.
    pub uri: SystemUri,
    /// Registration time.
    pub created_at: Timestamp,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn splits_at_the_first_bar() {
        let key = IdentifierKey::parse("urn:svc:vocab:id-type#national_id|A|1").unwrap();
        assert_eq!(key.system.as_str(), "urn:svc:vocab:id-type#national_id");
        assert_eq!(key.value.as_str(), "A|1");
    }

    #[test]
    fn rejects_a_system_alone() {
        assert_eq!(IdentifierKey::parse("urn:svc:vocab:id-type"), Err(IdentifierError::NoValue));
        assert_eq!(IdentifierKey::parse("|x"), Err(IdentifierError::System));
        assert_eq!(IdentifierKey::parse("nope|x"), Err(IdentifierError::System));
        assert_eq!(IdentifierKey::parse("urn:x|"), Err(IdentifierError::Value));
        assert_eq!(IdentifierKey::parse("urn:x| a"), Err(IdentifierError::Value));
    }

    #[test]
    fn debug_output_hides_the_value() {
        let key = IdentifierKey::parse("urn:x:y|SECRET-1").unwrap();
        assert!(!format!("{key:?}").contains("SECRET"));
    }
}
