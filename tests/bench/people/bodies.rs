//! Made-up people as clients send them.

use daftar::domain::individual::Individual;
use daftar::vocab::Generation;
use serde_json::{Map, Value, json};

/// The body of a create.
pub fn body(person: &Individual, generation: &Generation) -> String {
    let details = &person.details;
    let mut body = Map::new();
    let identifiers = details
        .identifiers
        .iter()
        .map(|identifier| json!({"system": identifier.key.system.as_str(), "value": identifier.key.value.as_str()}));
    body.insert("identifier".to_owned(), identifiers.collect());
    if let Some(name) = &details.name {
        let parts = [("given", &name.given), ("middle", &name.middle), ("family", &name.family)];
        let parts = parts.into_iter().filter_map(|(part, text)| Some((part.to_owned(), Value::from(text.clone()?))));
        body.insert("name".to_owned(), Value::Object(parts.collect()));
    }
    if let Some(active) = details.active {
        body.insert("active".to_owned(), active.into());
    }
    if let Some(day) = details.birth_date {
        body.insert("birth_date".to_owned(), day.to_string().into());
    }
    for (field, value) in &details.codes {
        if let Some(uri) = generation.table().uri(value.number) {
            body.insert(field.path().to_owned(), uri.to_string().into());
        }
    }
    let addresses = details.address.iter().flatten();
    let addresses =
        addresses.map(|address| json!({"line": address.line, "district": address.district, "region": address.region}));
    body.insert("address".to_owned(), addresses.collect());
    Value::Object(body).to_string()
}

/// A request with a body.
pub fn request(method: &str, path: &str, token: &str, more: &str, body: &str) -> Vec<u8> {
    let length = body.len();
    format!(
        "{method} /api/v2{path} HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer {token}\r\nContent-Type: application/json\r\nContent-Length: {length}\r\n{more}\r\n{body}"
    )
    .into_bytes()
}
