//! The body of a system of identifiers.

use serde::Serialize;
use serde_json::{Map, Value};

use crate::api::dto::reader::{ObjectReader, Problems};
use daftar_domain::calendar::format_instant;
use daftar_domain::identifier::{SYSTEM_BYTES_MAX, SystemUri};
use daftar_domain::identifier_system::IdentifierSystem;

/// Reads `{uri}`; nothing, where it is a problem.
pub fn read(members: Map<String, Value>, problems: &mut Problems) -> Option<SystemUri> {
    let mut reader = ObjectReader::root(members);
    let text = reader.text("uri", SYSTEM_BYTES_MAX, problems);
    if text.is_none() && !reader.is_problem("uri", problems) {
        problems.add("uri", "required", "an identifier system has a URI, such as `https://example.org/farmer-id`");
    }
    reader.finish(problems);
    match SystemUri::parse(&text?) {
        Ok(uri) => Some(uri),
        Err(error) => {
            problems.add("uri", "invalid_identifier", error.to_string());
            None
        }
    }
}

/// A system on the wire.
#[derive(Debug, Serialize)]
pub struct IdentifierSystemBody {
    uri: String,
    /// `id_type` or `registered`.
    origin: &'static str,
    #[serde(skip_serializing_if = "Option::is_none")]
    created_at: Option<String>,
}

impl IdentifierSystemBody {
    /// One that is a code of the ID types.
    #[must_use]
    pub fn of_id_type(uri: String) -> Self {
        Self { uri, origin: "id_type", created_at: None }
    }
}

impl From<&IdentifierSystem> for IdentifierSystemBody {
    fn from(system: &IdentifierSystem) -> Self {
        let created_at = Some(format_instant(system.created_at));
        Self { uri: system.uri.to_string(), origin: "registered", created_at }
    }
}
