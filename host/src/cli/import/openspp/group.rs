//! A group of OpenSPP as the body of a create.

use serde_json::{Map, Value, json};

use super::codes::Codes;
use super::fields::Fields;
use super::individual::{finish, period, shared};
use super::places::Places;
use super::unplaced::{Lost, Why};
use daftar_domain::group::FIELDS;

/// The line.
pub fn translate(record: Map<String, Value>, codes: &Codes, places: &Places, lost: &mut Vec<Lost>) -> Value {
    let members = record.get("member").and_then(Value::as_array).map_or(0, Vec::len);
    let mut fields = Fields::new("", record, lost);
    shared(&mut fields, FIELDS, codes);
    match fields.take("groupType") {
        Some(Value::String(kind)) => match codes.of(&format!("groupType#{kind}")) {
            Some(code) => fields.put("group_type", code),
            None => fields.lose("groupType", Why::LeftOut, json!(kind)),
        },
        Some(other) => fields.put("group_type", other),
        None => {}
    }
    fields.objects("member", "member", |member| {
        member.object("entity", "entity", |entity| {
            match entity.take("reference") {
                Some(Value::String(reference)) => entity.put("reference", self::reference(&reference, codes, places)),
                Some(other) => entity.put("reference", other),
                None => {}
            }
            // The name of the person, which the person's own record says.
            drop(entity.take("display"));
        });
        member.code("role", "role", codes);
        period(member);
        member.carry(&[("inactive", "inactive")]);
    });
    // The register counts for itself; another number is worth telling.
    if let Some(quantity) = fields.take("quantity").filter(|quantity| *quantity != json!(members)) {
        fields.lose("quantity", Why::Differs, quantity);
    }
    finish("Group", fields)
}

/// `Individual/SYSTEM|VALUE` with our system.
fn reference(theirs: &str, codes: &Codes, places: &Places) -> String {
    let split = theirs.split_once('/').and_then(|(kind, key)| Some((kind, key.split_once('|')?)));
    match split {
        Some((kind, (system, value))) => format!("{kind}/{}|{value}", codes.system(places.system(system, value))),
        None => theirs.to_owned(),
    }
}
