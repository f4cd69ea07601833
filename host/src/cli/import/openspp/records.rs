//! Translates individuals and groups of OpenSPP into bodies of create requests.

use std::collections::hash_map::DefaultHasher;
use std::collections::{BTreeMap, HashMap, HashSet};
use std::hash::{Hash, Hasher};

use serde_json::{Map, Value, json};

use super::Codes;
use super::fields::{Fields, Lost, Why};
use daftar_domain::address::ADDRESS;
use daftar_domain::person_name::PERSON_NAME;
use daftar_domain::schema::{Field, Kind, PERIOD};
use daftar_domain::{group, individual};

/// The vocabulary of two-letter country codes.
const COUNTRY: &str = "urn:iso:std:iso:3166-1";

/// The line.
pub fn individual(record: Map<String, Value>, codes: &Codes, places: &Places, lost: &mut Vec<Lost>) -> Value {
    let own_keys = keys(&record);
    let mut fields = Fields::new("", record, lost);
    shared(&mut fields, individual::FIELDS, codes);
    fields.object("name", "name", |name| carry_plain(name, PERSON_NAME.fields));
    fields.code("gender", "gender", codes);
    fields.objects("telecom", "telecom", |contact| {
        if contact.text("system") == Some("fax") {
            contact.lose_all(Why::NoField);
        }
        carry_plain(contact, individual::TELECOMS.fields);
    });
    let memberships = fields.take("groupMembership");
    match memberships {
        Some(Value::Array(memberships)) => {
            for (number, membership) in memberships.into_iter().enumerate() {
                // The membership is also in the record of the group.
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

/// Fields that individuals and groups share, and the plain fields `rows`.
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
        // OpenSPP writes a missing street as an empty list, which the register would read as a recorded absence.
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

/// Copies the fields with the same name (in OpenSPP's spelling) and format: all single-valued fields except codes,
/// references and nested objects.
fn carry_plain(fields: &mut Fields<'_>, rows: &[Field]) {
    let is_plain = |kind: &Kind| {
        let is_number = matches!(kind, Kind::Count | Kind::Amount);
        is_number || matches!(kind, Kind::Boolean | Kind::Date | Kind::Text(_) | Kind::Word(_) | Kind::Photo)
    };
    for field in rows.iter().filter(|field| is_plain(&field.kind)) {
        fields.carry(&[(camel_case(field.name).as_str(), field.name)]);
    }
}

/// Returns a name in OpenSPP's spelling: `birthDate` for `birth_date`.
fn camel_case(name: &str) -> String {
    let mut words = name.split('_');
    let first = words.next().unwrap_or_default().to_owned();
    words.fold(first, |name, word| {
        let (initial, rest) = word.split_at_checked(1).unwrap_or((word, ""));
        format!("{name}{}{rest}", initial.to_ascii_uppercase())
    })
}

/// Translates the start and end of a period.
pub fn period(fields: &mut Fields<'_>) {
    fields.object("period", "period", |period| carry_plain(period, PERIOD.fields));
}

/// Returns the import line of the type.
pub fn finish(kind: &str, fields: Fields<'_>) -> Value {
    let mut made = fields.finish();
    made.insert("type".to_owned(), json!(kind));
    Value::Object(made)
}

/// The line.
pub fn group(record: Map<String, Value>, codes: &Codes, places: &Places, lost: &mut Vec<Lost>) -> Value {
    let members = record.get("member").and_then(Value::as_array).map_or(0, Vec::len);
    let mut fields = Fields::new("", record, lost);
    shared(&mut fields, group::FIELDS, codes);
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
                Some(Value::String(reference)) => entity.put("reference", own_reference(&reference, codes, places)),
                Some(other) => entity.put("reference", other),
                None => {}
            }
            // The name of the individual is in the individual's record.
            drop(entity.take("display"));
        });
        member.code("role", "role", codes);
        period(member);
        member.carry(&[("inactive", "inactive")]);
    });
    // The register counts members itself; a different number is reported.
    if let Some(quantity) = fields.take("quantity").filter(|quantity| *quantity != json!(members)) {
        fields.lose("quantity", Why::Differs, quantity);
    }
    finish("Group", fields)
}

/// Returns the reference `Individual/SYSTEM|VALUE` with the register's system.
fn own_reference(theirs: &str, codes: &Codes, places: &Places) -> String {
    let split = theirs.split_once('/').and_then(|(kind, key)| Some((kind, key.split_once('|')?)));
    match split {
        Some((kind, (system, value))) => format!("{kind}/{}|{value}", codes.system(places.system(system, value))),
        None => theirs.to_owned(),
    }
}

/// The keys of a record: system and value of each identifier.
pub type Keys = Vec<(String, String)>;

/// The memberships of all individuals, by the groups of the file.
#[derive(Debug, Default)]
pub struct Places {
    /// Hashes of the group's value and the member's system and value: 8 bytes per membership.
    known: HashSet<u64>,
    /// Hashes of short references, `(vocabulary, value)`, with the system in which an individual has the value: empty
    /// while no individual is known, `None` if several systems match.
    short: HashMap<u64, Option<String>>,
    records: BTreeMap<String, u64>,
    totals: BTreeMap<String, u64>,
}

impl Places {
    /// Adds a record.
    pub fn inspect(&mut self, record: &Value) {
        let Some(kind) = record.get("type").and_then(Value::as_str) else { return };
        let count = self.records.entry(kind.to_owned()).or_default();
        *count = count.saturating_add(1);
        if kind != "Group" {
            return;
        }
        let Some(object) = record.as_object() else { return };
        let members = object.get("member").and_then(Value::as_array).into_iter().flatten();
        let references = members.filter_map(|member| reference(member.get("entity")?));
        for (system, value) in references {
            if !system.contains('#') {
                self.short.insert(hash_of((system, value)), Some(String::new()));
            }
            for (_, group) in keys(object) {
                self.known.insert(place(&group, system, value));
            }
        }
    }

    /// True if there are short references, so that individuals must be searched for them.
    pub fn has_short(&self) -> bool {
        !self.short.is_empty()
    }

    /// Records the systems of an individual that a short reference may identify.
    pub fn meet(&mut self, person: &Map<String, Value>) {
        if person.get("type").and_then(Value::as_str) != Some("Individual") {
            return;
        }
        for (system, value) in keys(person) {
            let Some((vocabulary, _)) = system.split_once('#') else { continue };
            if let Some(meant) = self.short.get_mut(&hash_of((vocabulary, value.as_str()))) {
                let is_first = meant.as_deref() == Some("");
                *meant = if is_first { Some(system) } else { None };
            }
        }
    }

    /// Returns the full system of a reference: `system` itself, unless the reference is short and matches exactly one
    /// system.
    pub fn system<'s>(&'s self, system: &'s str, value: &str) -> &'s str {
        let meant = self.short.get(&hash_of((system, value))).and_then(Option::as_deref);
        meant.filter(|meant| !meant.is_empty()).unwrap_or(system)
    }

    /// Adds the total of a search response, by the kind of its records.
    pub fn expect(&mut self, kind: String, total: u64) {
        let known = self.totals.entry(kind).or_default();
        *known = (*known).max(total);
    }

    /// Returns the kinds with fewer records than the totals of the responses: actual and expected numbers.
    pub fn missing(&self) -> Vec<(String, u64, u64)> {
        let all = self.totals.iter().map(|(kind, total)| (kind, self.records.get(kind).copied().unwrap_or(0), *total));
        all.filter(|(_, count, total)| count < total).map(|(kind, count, total)| (kind.clone(), count, total)).collect()
    }

    /// True if a membership in the record of an individual is in the record of a group, too.
    pub fn has(&self, membership: &Value, own: &Keys) -> bool {
        let Some((_, group)) = membership.get("group").and_then(|group| reference(group)) else { return false };
        own.iter().any(|(system, value)| {
            let vocabulary = system.split_once('#').map_or(system.as_str(), |(vocabulary, _)| vocabulary);
            [system.as_str(), vocabulary].iter().any(|system| self.known.contains(&place(group, system, value)))
        })
    }
}

/// Returns the identifiers of a record.
pub fn keys(record: &Map<String, Value>) -> Keys {
    let identifiers = record.get("identifier").and_then(Value::as_array).into_iter().flatten();
    let texts = |identifier: &Value| {
        Some((identifier.get("system")?.as_str()?.to_owned(), identifier.get("value")?.as_str()?.to_owned()))
    };
    identifiers.filter_map(texts).collect()
}

fn reference(entity: &Value) -> Option<(&str, &str)> {
    let (_, key) = entity.get("reference")?.as_str()?.split_once('/')?;
    key.split_once('|')
}

fn place(group: &str, system: &str, value: &str) -> u64 {
    hash_of((group, system, value))
}

fn hash_of(key: impl Hash) -> u64 {
    let mut hasher = DefaultHasher::new();
    key.hash(&mut hasher);
    hasher.finish()
}
