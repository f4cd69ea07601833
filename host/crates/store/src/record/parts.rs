//! The stored forms that several values of the deployment share.

use serde::{Deserialize, Serialize};

use daftar_domain::vocabulary::LocalizedText;

use super::Unreadable;

/// Converts every item of a stored list.
///
/// # Errors
/// What is wrong with the first item that cannot be read.
pub fn each<S, D: TryFrom<S, Error = Unreadable>>(stored: Vec<S>) -> Result<Vec<D>, Unreadable> {
    stored.into_iter().map(D::try_from).collect()
}

/// A text in one language.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct StoredTextV1 {
    language: String,
    value: String,
}

/// Texts as they are stored.
#[must_use]
pub fn texts_as_stored(texts: &[LocalizedText]) -> Vec<StoredTextV1> {
    let stored = |text: &LocalizedText| StoredTextV1 { language: text.language.clone(), value: text.value.clone() };
    texts.iter().map(stored).collect()
}

/// Stored texts.
#[must_use]
pub fn texts(stored: Vec<StoredTextV1>) -> Vec<LocalizedText> {
    stored.into_iter().map(|text| LocalizedText { language: text.language, value: text.value }).collect()
}
