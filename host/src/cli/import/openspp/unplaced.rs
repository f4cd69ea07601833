//! What has no place in a record here, and why.

use serde_json::{Value, json};

/// Why something has no place.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Why {
    /// Records here have no such field.
    NoField,
    /// No code was given for it, only words or nothing that can be compared.
    NoCode,
    /// The table of codes leaves it out, or has none of the same meaning.
    LeftOut,
    /// A field with one code was given several.
    FurtherCode,
    /// The register counts that itself, and comes to another number.
    Differs,
    /// A place in a group of which the file has no record that says so.
    NotInGroup,
    /// A record of another kind.
    OtherRecord,
    /// A part of an answer that holds no record.
    NoRecord,
    /// The answers speak of more records than the file has.
    PagesMissing { count: u64 },
}

impl Why {
    /// The stable name, and the reason in words.
    fn told(self) -> (&'static str, String) {
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

/// Something that has no place.
#[derive(Debug, Clone, PartialEq)]
pub struct Lost {
    field: String,
    why: Why,
    value: Value,
}

impl Lost {
    /// A field with what it said.
    pub fn new(field: impl Into<String>, why: Why, value: Value) -> Self {
        Self { field: field.into(), why, value }
    }

    /// What it is counted under: the field, whatever the number of an item.
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
        if name.is_empty() { self.why.told().0.to_owned() } else { name }
    }

    /// The line of the report.
    pub fn line(&self, place: &str, who: &str) -> Value {
        let (code, message) = self.why.told();
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
