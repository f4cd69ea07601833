//! A person of OpenSPP as the body of a create.

use serde_json::{Map, Value, json};

use super::codes::Codes;
use super::fields::Fields;
use super::places::{Places, keys};
use super::unplaced::{Lost, Why};

/// The vocabulary that two-letter countries are of.
const COUNTRY: &str = "urn:iso:std:iso:3166-1";

/// The line.
pub fn translate(record: Map<String, Value>, codes: &Codes, places: &Places, lost: &mut Vec<Lost>) -> Value {
    let own_keys = keys(&record);
    let mut fields = Fields::new("", record, lost);
    shared(&mut fields, codes);
    fields.object("name", "name", |name| {
        let parts = ["family", "given", "middle", "prefix", "suffix", "text"];
        name.carry(&parts.map(|part| (part, part)));
    });
    fields.carry(&[("birthDate", "birth_date"), ("birthDateEstimated", "birth_date_estimated"), ("photo", "photo")]);
    fields.code("gender", "gender", codes);
    fields.objects("telecom", "telecom", |contact| {
        if contact.text("system") == Some("fax") {
            contact.lose_all(Why::NoField);
        }
        contact.carry(&[("system", "system"), ("value", "value"), ("use", "use"), ("rank", "rank")]);
    });
    let memberships = fields.take("groupMembership");
    match memberships {
        Some(Value::Array(memberships)) => {
            for (number, membership) in memberships.into_iter().enumerate() {
                // It is the group's member, seen from the other side.
                if !places.has(&membership, &own_keys) {
                    fields.lose(&format!("groupMembership[{number}]"), Why::NotInGroup, membership);
                }
            }
        }
        Some(other) => fields.lose("groupMembership", Why::NotInGroup, other),
        None => {}
    }
    finish("Individual", fields)
}

/// What people and groups have alike.
pub fn shared(fields: &mut Fields<'_>, codes: &Codes) {
    drop(fields.take("type"));
    fields.objects("identifier", "identifier", |identifier| {
        match identifier.take("system") {
            Some(Value::String(system)) => identifier.put("system", codes.system(&system)),
            Some(other) => identifier.put("system", other),
            None => {}
        }
        identifier.carry(&[("value", "value")]);
        period(identifier);
    });
    fields.carry(&[("active", "active")]);
    fields.objects("address", "address", |address| {
        address.carry(&[
            ("type", "type"),
            ("text", "text"),
            ("city", "city"),
            ("district", "district"),
            ("state", "region"),
            ("postalCode", "postal_code"),
        ]);
        // A street that is not recorded is an empty list there, which would say here that there is none.
        if let Some(line) = address.take("line").filter(|line| line != &json!([])) {
            address.put("line", line);
        }
        match address.take("country") {
            Some(Value::String(country)) => address.put("country", format!("{COUNTRY}#{country}")),
            Some(other) => address.put("country", other),
            None => {}
        }
    });
}

/// From when and until when.
pub fn period(fields: &mut Fields<'_>) {
    fields.object("period", "period", |period| period.carry(&[("start", "start"), ("end", "end")]));
}

/// The line of that type.
pub fn finish(kind: &str, fields: Fields<'_>) -> Value {
    let mut made = fields.finish();
    made.insert("type".to_owned(), json!(kind));
    Value::Object(made)
}
