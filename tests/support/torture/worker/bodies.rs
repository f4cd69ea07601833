//! Bodies of requests.

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use serde_json::{Value, json};

use crate::support::records::{household, person, with};

/// Size of a photo: more than one chunk of the store.
const PHOTO_BYTES: usize = 300_000;

pub(super) fn photo(id: &str) -> String {
    let bytes: Vec<u8> = id.bytes().cycle().take(PHOTO_BYTES).collect();
    STANDARD.encode(bytes)
}

pub(super) fn body_of(id: &str, given: &str, has_photo: bool) -> Value {
    let body = person(id, json!({"name": {"given": given, "family": "Torture"}, "birth_date": "1990-01-01"}));
    if has_photo { with(body, json!({"photo": photo(id)})) } else { body }
}

pub(super) fn people_of(transaction: &str) -> [String; 2] {
    [format!("{transaction}t1"), format!("{transaction}t2")]
}

/// Two people and their household, which names them before they are there.
pub(super) fn transaction(id: &str) -> Value {
    let placeholder = |number: usize| format!("urn:uuid:00000000-0000-4000-8000-{number:012}");
    let member = |number: usize| json!({"entity": {"reference": placeholder(number)}});
    let group = with(household(&format!("{id}th"), &[]), json!({"member": [member(1), member(2)]}));
    let mut entries = vec![json!({"request": {"method": "POST", "url": "/Group"}, "resource": group})];
    for (number, id) in (1..).zip(people_of(id)) {
        let person = person(&id, json!({"name": {"given": "Grace", "family": "Torture"}}));
        let request = json!({"method": "POST", "url": "/Individual"});
        entries.push(json!({"full_url": placeholder(number), "request": request, "resource": person}));
    }
    json!({"type": "transaction", "entry": entries})
}

pub(super) fn code_path(code: &str) -> String {
    format!("/local-codes/urn:svc:vocab:id-type%23{code}")
}
