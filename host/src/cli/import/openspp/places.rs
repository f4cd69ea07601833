//! Who is a member of which group, by what the groups say.
//!
//! References name the vocabulary of ID types, in some versions without the type, so that they fit no record. A group that a person's
//! record tells of is known again by the value of an identifier; a member whose reference is short, by being the only person with it.

use std::collections::hash_map::DefaultHasher;
use std::collections::{BTreeMap, HashMap, HashSet};
use std::hash::{Hash, Hasher};

use serde_json::{Map, Value};

/// The keys of a record: system and value of each identifier.
pub type Keys = Vec<(String, String)>;

/// The places of everybody, by the file's groups.
#[derive(Debug, Default)]
pub struct Places {
    /// Hashes of the group's value and the member's system and value: 8 bytes a place, however many there are.
    known: HashSet<u64>,
    /// Hashes of short references, `(vocabulary, value)`, and the one system that a person has that value in: empty while nobody is
    /// known, `None` where there are several.
    short: HashMap<u64, Option<String>>,
    records: BTreeMap<String, u64>,
    totals: BTreeMap<String, u64>,
}

impl Places {
    /// Takes up a record.
    pub fn look_at(&mut self, record: &Value) {
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

    /// Whether there are short references, so that people have to be looked at for them.
    pub fn has_short(&self) -> bool {
        !self.short.is_empty()
    }

    /// Looks whether a record is a person whom a short reference may mean.
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

    /// The whole system of a reference: itself, unless it is short and one person alone can be meant.
    pub fn system<'s>(&'s self, system: &'s str, value: &str) -> &'s str {
        let meant = self.short.get(&hash_of((system, value))).and_then(Option::as_deref);
        meant.filter(|meant| !meant.is_empty()).unwrap_or(system)
    }

    /// Takes up how many records the answer to a search speaks of, by the kind of those that it has.
    pub fn expect(&mut self, kind: String, total: u64) {
        let known = self.totals.entry(kind).or_default();
        *known = (*known).max(total);
    }

    /// The kinds of which there are fewer records than the answers speak of: how many there are, and how many there should be.
    pub fn missing(&self) -> Vec<(String, u64, u64)> {
        let all = self.totals.iter().map(|(kind, total)| (kind, self.records.get(kind).copied().unwrap_or(0), *total));
        all.filter(|(_, count, total)| count < total).map(|(kind, count, total)| (kind.clone(), count, total)).collect()
    }

    /// Whether a place that a person's record tells of is one that a group tells of.
    pub fn has(&self, membership: &Value, own: &Keys) -> bool {
        let Some((_, group)) = membership.get("group").and_then(|group| reference(group)) else { return false };
        own.iter().any(|(system, value)| {
            let vocabulary = system.split_once('#').map_or(system.as_str(), |(vocabulary, _)| vocabulary);
            [system.as_str(), vocabulary].iter().any(|system| self.known.contains(&place(group, system, value)))
        })
    }
}

/// The identifiers of a record.
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
