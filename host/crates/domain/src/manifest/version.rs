//! Versions of plugins and of the plugin interface.

use std::fmt;

use serde::{Deserialize, Serialize};

/// A version `major.minor.patch`. Later versions compare greater.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct PluginVersion {
    major: u32,
    minor: u32,
    patch: u32,
}

/// A text that is not a version.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("`{text}` is not a version: three whole numbers without leading zeros, joined with dots, such as 1.0.0")]
pub struct InvalidVersion {
    text: String,
}

impl PluginVersion {
    /// A version of these three numbers.
    pub const fn new(major: u32, minor: u32, patch: u32) -> Self {
        Self { major, minor, patch }
    }

    /// Reads a version.
    ///
    /// # Errors
    /// It is not three numbers of at most 32 bits, written in the one way there is.
    pub fn parse(text: &str) -> Result<Self, InvalidVersion> {
        let mut numbers = text.split('.').map(number);
        match (numbers.next(), numbers.next(), numbers.next(), numbers.next()) {
            (Some(Some(major)), Some(Some(minor)), Some(Some(patch)), None) => Ok(Self { major, minor, patch }),
            _ => Err(InvalidVersion { text: text.chars().take(80).collect() }),
        }
    }
}

fn number(text: &str) -> Option<u32> {
    // `parse` alone would take `+1` and `01`, and one version would have several spellings.
    let is_plain = text.bytes().all(|byte| byte.is_ascii_digit()) && (text == "0" || !text.starts_with('0'));
    if is_plain { text.parse().ok() } else { None }
}

impl fmt::Display for PluginVersion {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "{}.{}.{}", self.major, self.minor, self.patch)
    }
}

impl TryFrom<String> for PluginVersion {
    type Error = InvalidVersion;

    fn try_from(text: String) -> Result<Self, Self::Error> {
        Self::parse(&text)
    }
}

impl std::str::FromStr for PluginVersion {
    type Err = InvalidVersion;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        Self::parse(text)
    }
}

impl From<PluginVersion> for String {
    fn from(version: PluginVersion) -> Self {
        version.to_string()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reads_what_it_writes() {
        for text in ["0.1.0", "1.0.0", "10.20.4294967295"] {
            assert_eq!(PluginVersion::parse(text).unwrap().to_string(), text);
        }
    }

    #[test]
    fn refuses_other_texts() {
        for text in
            ["", "1", "1.0", "1.0.0.0", "01.0.0", "1.0.+1", "1.0.-1", "v1.0.0", "1.0.0-beta", "1.0.4294967296", "1..0"]
        {
            assert!(PluginVersion::parse(text).is_err(), "{text}");
        }
    }

    #[test]
    fn orders_by_number_and_not_by_letter() {
        assert!(PluginVersion::parse("1.10.0").unwrap() > PluginVersion::parse("1.9.9").unwrap());
    }
}
