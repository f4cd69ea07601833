//! A person of OpenSPP as the body of a create.

use serde_json::{Map, Value, json};

use super::codes::Codes;
use super::fields::Fields;
use super::places::{Places, keys};
use super::unplaced::{Lost, Why};
use daftar_domain::address::ADDRESS;
use daftar_domain::individual::{FIELDS, TELECOMS};
use daftar_domain::person_name::PERSON_NAME;
use daftar_domain::schema::{Field, Kind, PERIOD};

/// The vocabulary that two-letter countries are of.
const COUNTRY: &str = "urn:iso:std:iso:3166-1";

/// The line.
pub fn translate(record: Map<String, Value>, codes: &Codes, places: &Places, lost: &mut Vec<Lost>) -> Value {
    let own_keys = keys(&record);
    let mut fields = Fields::new("", record, lost);
    shared(&mut fields, FIELDS, codes);
    fields.object("name", "name", |name| carry_plain(name, PERSON_NAME.fields));
    fields.code("gender", "gender", codes);
    fields.objects("telecom", "telecom", |contact| {
        if contact.text("system") == Some("fax") {
            contact.lose_all(Why::NoField);
        }
        carry_plain(contact, TELECOMS.fields);
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

/// What people and groups have alike, and the plain ones of the fields `rows`.
pub fn shared(fields: &mut Fields<'_>, rows: &[Field], codes: &Codes) {
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
    carry_plain(fields, rows);
    fields.objects("address", "address", |address| {
        carry_plain(address, ADDRESS.fields);
        address.carry(&[("state", "region")]);
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

/// Takes over the fields that have the same name there, in its spelling, and are written alike: all of one value but codes, references
/// and parts.
fn carry_plain(fields: &mut Fields<'_>, rows: &[Field]) {
    let is_plain = |kind: &Kind| {
        let is_number = matches!(kind, Kind::Count | Kind::Amount);
        is_number || matches!(kind, Kind::Boolean | Kind::Date | Kind::Text(_) | Kind::Word(_) | Kind::Photo)
    };
    for field in rows.iter().filter(|field| is_plain(&field.kind)) {
        fields.carry(&[(camel_case(field.name).as_str(), field.name)]);
    }
}

/// A name as OpenSPP spells it: `birthDate` for `birth_date`.
fn camel_case(name: &str) -> String {
    let mut words = name.split('_');
    let first = words.next().unwrap_or_default().to_owned();
    words.fold(first, |name, word| {
        let (initial, rest) = word.split_at_checked(1).unwrap_or((word, ""));
        format!("{name}{}{rest}", initial.to_ascii_uppercase())
    })
}

/// From when and until when.
pub fn period(fields: &mut Fields<'_>) {
    fields.object("period", "period", |period| carry_plain(period, PERIOD.fields));
}

/// The line of that type.
pub fn finish(kind: &str, fields: Fields<'_>) -> Value {
    let mut made = fields.finish();
    made.insert("type".to_owned(), json!(kind));
    Value::Object(made)
}
