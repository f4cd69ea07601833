//! Bodies of records, and how they are addressed.

use serde_json::{Value, json};

/// The system of national ids.
pub const NATIONAL_ID: &str = "urn:svc:vocab:id-type#national_id";
/// The namespace of genders.
pub const GENDER: &str = "urn:iso:std:iso:5218";
/// The code of women and girls.
pub const FEMALE: &str = "urn:iso:std:iso:5218#2";
/// The code of men and boys.
pub const MALE: &str = "urn:iso:std:iso:5218#1";
/// The type of a group that is a household.
pub const HOUSEHOLD: &str = "urn:svc:vocab:group-type#household";
/// The place of a person in a household, up to the code.
pub const ROLE: &str = "urn:svc:vocab:relationship";

/// A person with that national id and these further members.
#[must_use]
pub fn person(national_id: &str, more: Value) -> Value {
    with(json!({"identifier": [{"system": NATIONAL_ID, "value": national_id}]}), more)
}

/// A household with that id and those people, by national id, each in that role.
#[must_use]
pub fn household(id: &str, members: &[(&str, &str)]) -> Value {
    let members: Vec<Value> = members
        .iter()
        .map(|(person, role)| json!({"entity": {"reference": reference(person)}, "role": format!("{ROLE}#{role}")}))
        .collect();
    json!({"identifier": [{"system": NATIONAL_ID, "value": id}], "group_type": HOUSEHOLD, "member": members})
}

/// An object with the members of another added or replaced.
#[must_use]
pub fn with(mut object: Value, more: Value) -> Value {
    let Value::Object(more) = more else { panic!("an object is needed: {more}") };
    object.as_object_mut().expect("an object is needed").extend(more);
    object
}

/// A reference to a person in a body.
#[must_use]
pub fn reference(national_id: &str) -> String {
    format!("Individual/{NATIONAL_ID}|{national_id}")
}

/// The path of a person or, with that resource, of another record.
#[must_use]
pub fn path(resource: &str, national_id: &str) -> String {
    format!("/{resource}/{}|{national_id}", NATIONAL_ID.replace('#', "%23"))
}
