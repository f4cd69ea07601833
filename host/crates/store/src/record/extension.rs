//! How the extension fields of a record are stored.

use serde::{Deserialize, Serialize};

use daftar_domain::calendar::{date_from_days, days_since_epoch};
use daftar_domain::extension::{Extension, ExtensionContent, ExtensionValue};
use daftar_domain::manifest::ExtensionPath;

use super::Unreadable;
use super::parts::{StoredCodedValueV1, each};

/// What stands in one extension field, version 1.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct StoredExtensionFieldV1 {
    path: String,
    content: StoredContentV1,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
enum StoredContentV1 {
    One(StoredValueV1),
    Many(Vec<StoredValueV1>),
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
enum StoredValueV1 {
    Boolean(bool),
    Integer(i64),
    Number(f64),
    Text(String),
    Date(i32),
    Code(StoredCodedValueV1),
}

/// Extension fields as they are stored.
#[must_use]
pub fn as_stored(extension: &Extension) -> Vec<StoredExtensionFieldV1> {
    let stored = |(path, content): (&ExtensionPath, &ExtensionContent)| StoredExtensionFieldV1 {
        path: path.as_str().to_owned(),
        content: match content {
            ExtensionContent::One(value) => StoredContentV1::One(StoredValueV1::from(value)),
            ExtensionContent::Many(values) => StoredContentV1::Many(values.iter().map(StoredValueV1::from).collect()),
        },
    };
    extension.iter().map(stored).collect()
}

/// Stored extension fields.
///
/// # Errors
/// Names what is not valid.
pub fn read(stored: Vec<StoredExtensionFieldV1>) -> Result<Extension, Unreadable> {
    let mut fields = Vec::with_capacity(stored.len());
    for field in stored {
        let path = ExtensionPath::parse(&field.path).map_err(|_| Unreadable::field("extension"))?;
        let content = match field.content {
            StoredContentV1::One(value) => ExtensionContent::One(ExtensionValue::try_from(value)?),
            StoredContentV1::Many(values) => ExtensionContent::Many(each(values)?),
        };
        fields.push((path, content));
    }
    Ok(Extension::new(fields))
}

impl From<&ExtensionValue> for StoredValueV1 {
    fn from(value: &ExtensionValue) -> Self {
        match value {
            ExtensionValue::Boolean(value) => Self::Boolean(*value),
            ExtensionValue::Integer(value) => Self::Integer(*value),
            ExtensionValue::Number(value) => Self::Number(*value),
            ExtensionValue::Text(value) => Self::Text(value.clone()),
            ExtensionValue::Date(value) => Self::Date(days_since_epoch(*value)),
            ExtensionValue::Code(value) => Self::Code((*value).into()),
        }
    }
}

impl TryFrom<StoredValueV1> for ExtensionValue {
    type Error = Unreadable;

    fn try_from(stored: StoredValueV1) -> Result<Self, Unreadable> {
        Ok(match stored {
            StoredValueV1::Boolean(value) => Self::Boolean(value),
            StoredValueV1::Integer(value) => Self::Integer(value),
            StoredValueV1::Number(value) if !value.is_finite() => return Err(Unreadable::field("extension")),
            StoredValueV1::Number(value) => Self::Number(value),
            StoredValueV1::Text(value) => Self::Text(value),
            StoredValueV1::Date(days) => {
                Self::Date(date_from_days(days).ok_or_else(|| Unreadable::field("extension"))?)
            }
            StoredValueV1::Code(value) => Self::Code(value.into()),
        })
    }
}
