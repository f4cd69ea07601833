//! Names that a manifest gives.

use std::fmt;

use serde::{Deserialize, Serialize};

/// The name of a plugin: 1 to 64 lower-case ASCII letters, digits and hyphens, beginning with a letter or a digit.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct PluginName(String);

/// A text that cannot be the name of a plugin.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("`{text}` is not a plugin name: 1 to {max} lower-case letters, digits and hyphens, not beginning with a hyphen", max = PluginName::LENGTH_MAX)]
pub struct InvalidPluginName {
    text: String,
}

impl PluginName {
    /// The greatest length, in bytes.
    pub const LENGTH_MAX: usize = 64;

    /// Checks a name.
    ///
    /// # Errors
    /// It is empty, too long, or holds a character that names do not have.
    pub fn parse(text: &str) -> Result<Self, InvalidPluginName> {
        let is_made_right = text.bytes().all(|byte| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'-');
        if text.is_empty() || text.len() > Self::LENGTH_MAX || text.starts_with('-') || !is_made_right {
            return Err(InvalidPluginName { text: excerpt(text) });
        }
        Ok(Self(text.to_owned()))
    }

    /// The name as text.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

/// The path of a field below `extension`: two or more keys joined with dots, such as `farmer.crops`.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct ExtensionPath(String);

/// A text that cannot be the path of an extension field.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("`{text}` is not the path of an extension field: two or more keys of lower-case letters, digits and underscores, joined with dots, at most {max} bytes", max = ExtensionPath::LENGTH_MAX)]
pub struct InvalidExtensionPath {
    text: String,
}

impl ExtensionPath {
    /// The greatest length, in bytes.
    pub const LENGTH_MAX: usize = 128;

    /// Checks a path.
    ///
    /// # Errors
    /// It is too long, has fewer than two keys, or a key that begins with no letter or holds a character that keys do not have.
    pub fn parse(text: &str) -> Result<Self, InvalidExtensionPath> {
        let is_key = |key: &str| {
            key.starts_with(|first: char| first.is_ascii_lowercase())
                && key.bytes().all(|byte| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'_')
        };
        if text.len() > Self::LENGTH_MAX || !text.contains('.') || !text.split('.').all(is_key) {
            return Err(InvalidExtensionPath { text: excerpt(text) });
        }
        Ok(Self(text.to_owned()))
    }

    /// The path as text.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

/// As much of a text as an error message should repeat.
fn excerpt(text: &str) -> String {
    text.chars().take(80).collect()
}

macro_rules! text_conversions {
    ($name:ident, $error:ident) => {
        impl fmt::Display for $name {
            fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
                formatter.write_str(&self.0)
            }
        }

        impl TryFrom<String> for $name {
            type Error = $error;

            fn try_from(text: String) -> Result<Self, Self::Error> {
                Self::parse(&text)
            }
        }

        impl std::str::FromStr for $name {
            type Err = $error;

            fn from_str(text: &str) -> Result<Self, Self::Err> {
                Self::parse(text)
            }
        }

        impl From<$name> for String {
            fn from(name: $name) -> Self {
                name.0
            }
        }
    };
}

text_conversions!(PluginName, InvalidPluginName);
text_conversions!(ExtensionPath, InvalidExtensionPath);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn accepts_names_up_to_the_greatest_length() {
        for name in ["a", "isco-08", "3166-1", &"x".repeat(PluginName::LENGTH_MAX)] {
            assert_eq!(PluginName::parse(name).map(String::from).as_deref(), Ok(name));
        }
    }

    #[test]
    fn refuses_other_names() {
        for name in ["", "-a", "Gender", "a b", "a/b", "..", "é", &"x".repeat(PluginName::LENGTH_MAX + 1)] {
            assert!(PluginName::parse(name).is_err(), "{name}");
        }
    }

    #[test]
    fn repeats_only_the_beginning_of_a_long_text() {
        let error = PluginName::parse(&"X".repeat(10_000)).unwrap_err();
        assert!(error.to_string().len() < 300);
    }

    #[test]
    fn extension_paths_have_two_keys_or_more() {
        assert!(ExtensionPath::parse("farmer.crops").is_ok());
        assert!(ExtensionPath::parse("farmer.land.area_ha").is_ok());
        for path in ["farmer", "", ".crops", "farmer.", "Farmer.crops", "farmer.1crop", "farmer..crops"] {
            assert!(ExtensionPath::parse(path).is_err(), "{path}");
        }
    }
}
