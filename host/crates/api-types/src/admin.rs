//! Bodies of the administrator's API.
//!
//! A member that is absent when it has no value is an `Option` that is not written; one that is `null` then is an
//! `Option` that is.

pub mod client;
pub mod deployment;
pub mod operation;
pub mod plugin;

use serde::{Deserialize, Deserializer, Serialize};

/// A list.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ListBody<T> {
    /// Its entries.
    pub data: Vec<T>,
}

/// Reads a member of a change that is there: `null` removes the value.
fn change<'de, D: Deserializer<'de>, T: Deserialize<'de>>(deserializer: D) -> Result<Option<Option<T>>, D::Error> {
    Option::deserialize(deserializer).map(Some)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::client::ClientChange;

    #[test]
    fn a_change_distinguishes_an_absent_member_from_null() {
        let change =
            ClientChange { organization: Some(None), purpose: Some(Some("p".to_owned())), ..Default::default() };
        let body = serde_json::to_value(&change).unwrap();
        assert_eq!(body, json!({"organization": null, "purpose": "p"}));
        assert_eq!(serde_json::from_value::<ClientChange>(body).unwrap(), change);
    }
}
