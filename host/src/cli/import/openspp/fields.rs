//! An object whose members are read one by one: members that are not read are reported.

use serde_json::{Map, Value, json};

use super::Codes;

/// The supported kinds of records.
const KINDS: [&str; 2] = ["Individual", "Group"];

/// True if a value is a supported record.
pub fn is_taken(value: &Value) -> bool {
    value.as_object().is_some_and(is_one_taken)
}

/// True if an object is a supported record.
pub fn is_one_taken(object: &Map<String, Value>) -> bool {
    object.get("type").and_then(Value::as_str).is_some_and(|kind| KINDS.contains(&kind))
}

/// Returns the name of a record in the report: its kind and its first identifier, unchanged.
pub fn who(record: &Map<String, Value>) -> String {
    let kind = record.get("type").and_then(Value::as_str).unwrap_or_default();
    let first = record.get("identifier").and_then(|identifiers| identifiers.get(0));
    let part = |name: &str| first.and_then(|first| first.get(name)).and_then(Value::as_str).unwrap_or_default();
    format!("{kind}/{}|{}", part("system"), part("value"))
}

/// True if a value is empty: null or an empty text, the form in which OpenSPP writes missing values.
pub fn is_nothing(value: &Value) -> bool {
    match value {
        Value::Null => true,
        Value::String(text) => text.trim().is_empty(),
        _ => false,
    }
}

/// An object, its remaining members, and the body that is built from it.
pub struct Fields<'l> {
    path: String,
    left: Map<String, Value>,
    made: Map<String, Value>,
    lost: &'l mut Vec<Lost>,
}

impl<'l> Fields<'l> {
    /// Wraps the object at a path of the record. The path ends with a dot unless it is the record itself.
    pub fn new(path: impl Into<String>, object: Map<String, Value>, lost: &'l mut Vec<Lost>) -> Self {
        Self { path: path.into(), left: object, made: Map::new(), lost }
    }

    /// Removes and returns a member; `None` if it is missing or empty.
    pub fn take(&mut self, name: &str) -> Option<Value> {
        self.left.remove(name).filter(|value| !is_nothing(value))
    }

    /// Returns the value of a text member.
    pub fn text(&self, name: &str) -> Option<&str> {
        self.left.get(name).and_then(Value::as_str)
    }

    /// Adds a member to the body.
    pub fn put(&mut self, name: &str, value: impl Into<Value>) {
        self.made.insert(name.to_owned(), value.into());
    }

    /// Copies members unchanged to the body, under the register's names.
    pub fn carry(&mut self, names: &[(&str, &str)]) {
        for (theirs, ours) in names {
            if let Some(value) = self.take(theirs) {
                self.put(ours, value);
            }
        }
    }

    /// Reports a value without a target.
    pub fn lose(&mut self, name: &str, why: Why, value: Value) {
        self.lost.push(Lost::new(format!("{}{name}", self.path), why, value));
    }

    /// Reports that the object has no target.
    pub fn lose_all(&mut self, why: Why) {
        let path = self.path.strip_suffix('.').unwrap_or(&self.path);
        self.lost.push(Lost::new(path, why, Value::Object(std::mem::take(&mut self.left))));
    }

    /// Translates a member that is an object. A value that is not an object is copied unchanged, and the import rejects
    /// it.
    pub fn object(&mut self, theirs: &str, ours: &str, take: impl FnOnce(&mut Fields<'_>)) {
        match self.take(theirs) {
            Some(Value::Object(object)) => {
                let made = part(format!("{}{theirs}.", self.path), object, self.lost, take);
                if !made.is_empty() {
                    self.put(ours, made);
                }
            }
            Some(other) => self.put(ours, other),
            None => {}
        }
    }

    /// Translates a list of objects in order; items without any translated member are omitted.
    pub fn objects(&mut self, theirs: &str, ours: &str, mut take: impl FnMut(&mut Fields<'_>)) {
        match self.take(theirs) {
            Some(Value::Array(items)) => {
                let mut made = Vec::with_capacity(items.len());
                for (number, item) in items.into_iter().enumerate() {
                    match item {
                        Value::Object(object) => {
                            let path = format!("{}{theirs}[{number}].", self.path);
                            let item = part(path, object, self.lost, &mut take);
                            if !item.is_empty() {
                                made.push(Value::Object(item));
                            }
                        }
                        other => made.push(other),
                    }
                }
                self.put(ours, made);
            }
            Some(other) => self.put(ours, other),
            None => {}
        }
    }

    /// Translates a coded value, `{coding: [{system, code, display}], text}`.
    pub fn code(&mut self, theirs: &str, ours: &str, codes: &Codes) {
        let Some(value) = self.take(theirs) else { return };
        let Value::Object(mut concept) = value else {
            self.put(ours, value);
            return;
        };
        let codings = match concept.remove("coding") {
            Some(Value::Array(codings)) => codings,
            Some(other) => vec![other],
            None => Vec::new(),
        };
        let words = concept.remove("text").filter(|words| !is_nothing(words));
        let mut codings = codings.into_iter();
        let first = codings.next();
        let display = first.as_ref().and_then(|first| first.get("display")).cloned();
        for (number, further) in codings.enumerate() {
            self.lose(&format!("{theirs}.coding[{}]", number + 1), Why::FurtherCode, further);
        }
        for (name, value) in concept {
            if !is_nothing(&value) {
                self.lose(&format!("{theirs}.{name}"), Why::NoField, value);
            }
        }
        let uri = first.as_ref().and_then(Codes::uri_of);
        match (uri, first) {
            (Some(uri), Some(given)) => match codes.of(&uri) {
                Some(code) => self.put(ours, code),
                None => self.lose(theirs, Why::LeftOut, given),
            },
            (None, Some(given)) => self.lose(theirs, Why::NoCode, given),
            (_, None) => {}
        }
        // The register has the labels of codes; any other text was entered by the user.
        if let Some(words) = words.filter(|words| Some(words) != display.as_ref()) {
            self.lose(&format!("{theirs}.text"), Why::NoCode, words);
        }
    }

    /// Returns the body and reports the members that were not read.
    pub fn finish(self) -> Map<String, Value> {
        for (name, value) in self.left {
            report_leaves(&format!("{}{name}", self.path), value, self.lost);
        }
        self.made
    }
}

fn part(
    path: String,
    object: Map<String, Value>,
    lost: &mut Vec<Lost>,
    take: impl FnOnce(&mut Fields<'_>),
) -> Map<String, Value> {
    let mut fields = Fields::new(path, object, lost);
    take(&mut fields);
    fields.finish()
}

/// Reports each nested member of a value with its path.
fn report_leaves(path: &str, value: Value, lost: &mut Vec<Lost>) {
    match value {
        Value::Object(object) if !object.is_empty() => {
            for (name, value) in object {
                report_leaves(&format!("{path}.{name}"), value, lost);
            }
        }
        value if is_nothing(&value) => {}
        value => lost.push(Lost::new(path, Why::NoField, value)),
    }
}

/// Reason why a value is unmapped.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Why {
    /// The register's records have no such field.
    NoField,
    /// The value has no code: only text, or no comparable content.
    NoCode,
    /// The table of codes omits it, or has no equivalent code.
    LeftOut,
    /// The value has several codes, but the field accepts one.
    FurtherCode,
    /// The register computes the value, and its result differs.
    Differs,
    /// A membership that no group record of the file contains.
    NotInGroup,
    /// A record of another kind.
    OtherRecord,
    /// A part of a response without a record.
    NoRecord,
    /// The totals of the responses exceed the number of records in the file.
    PagesMissing { count: u64 },
}

impl Why {
    /// Returns the stable name of the reason and its description.
    fn reported(self) -> (&'static str, String) {
        let (name, words) = match self {
            Self::NoField => ("no_field", "a record here has no such field"),
            Self::NoCode => ("no_code", "it names no code, and words are not kept in place of one"),
            Self::LeftOut => ("left_out", "there is no code here that means the same; name one with --code"),
            Self::FurtherCode => ("further_code", "the field holds one code, and the first that was given is taken"),
            Self::Differs => ("differs", "the register counts the members itself, and comes to another number"),
            Self::NotInGroup => {
                ("not_in_group", "no group of this file has the person as a member: add the group's record")
            }
            Self::OtherRecord => ("other_record", "only people and groups are taken"),
            Self::NoRecord => ("no_record", "this part of the answer holds no record"),
            Self::PagesMissing { count } => {
                let words = format!("the answers speak of so many records, and the file has {count}: fetch all pages");
                return ("pages_missing", words);
            }
        };
        (name, words.to_owned())
    }
}

/// An unmapped value.
#[derive(Debug, Clone, PartialEq)]
pub struct Lost {
    field: String,
    why: Why,
    value: Value,
}

impl Lost {
    /// Creates an unmapped value from a field, a reason and the value.
    pub fn new(field: impl Into<String>, why: Why, value: Value) -> Self {
        Self { field: field.into(), why, value }
    }

    /// Returns the key for its count: the field without item indexes.
    pub fn summary(&self) -> String {
        let mut name = String::with_capacity(self.field.len());
        let mut is_number = false;
        for character in self.field.chars() {
            is_number = match character {
                '[' => true,
                ']' => false,
                _ => is_number,
            };
            if !is_number || character == '[' {
                name.push(character);
            }
        }
        if name.is_empty() { self.why.reported().0.to_owned() } else { name }
    }

    /// Returns the line of the report.
    pub fn line(&self, place: &str, who: &str) -> Value {
        let (code, message) = self.why.reported();
        json!({
            "place": place, "record": who, "field": self.field, "code": code, "message": message, "value": self.value,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn items_of_a_list_are_counted_together() {
        let summary = |field: &str| Lost::new(field, Why::NoField, Value::Null).summary();
        assert_eq!(summary("address[12].state[0].x"), "address[].state[].x");
        assert_eq!(summary("meta.versionId"), "meta.versionId");
        assert_eq!(summary(""), "no_field");
    }
}
