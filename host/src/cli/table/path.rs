//! Where a field lies in the body of a record: `name.given`, `identifier[urn:x:id]`, `address[1].city`.

use daftar_domain::record::RecordKind;
use daftar_domain::schema::{self, Field, Kind};
use serde_json::{Map, Value, json};

/// The most items of a list that a path may name by number.
const INDEX_MAX: usize = 50;

/// One step into a body.
#[derive(Debug, Clone, PartialEq, Eq)]
enum Step {
    /// A member.
    Member(String),
    /// The item of a list whose member says so: the system, where items have one.
    Item { member: &'static str, is: String },
    /// The item of a list at a place.
    At(usize),
}

/// A path.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Path {
    text: String,
    steps: Vec<Step>,
}

impl Path {
    /// Reads a path; says what is wrong with its form.
    ///
    /// # Errors
    /// One sentence.
    pub fn parse(text: &str) -> Result<Self, String> {
        let mut steps = Vec::new();
        let mut rest = text;
        loop {
            let end = rest.find(['.', '[']).unwrap_or(rest.len());
            let (name, after) = rest.split_at(end);
            if name.is_empty() {
                return Err(format!("`{text}` is no path of a field, such as `name.given` or `identifier[SYSTEM]`"));
            }
            steps.push(Step::Member(name.to_owned()));
            rest = after;
            if let Some(inside) = rest.strip_prefix('[') {
                let Some((selector, after)) = inside.split_once(']') else {
                    return Err(format!("`{text}` has a `[` without a `]`"));
                };
                steps.push(step(name, selector, text)?);
                rest = after;
            } else if steps.len() == 1 && rest.starts_with('.') && !parts_of(name).is_empty() && !is_by_system(name) {
                steps.push(Step::At(0));
            }
            match rest.strip_prefix('.') {
                Some(after) => rest = after,
                None if rest.is_empty() => break,
                None => return Err(format!("`{text}`: after `]` comes `.` or nothing")),
            }
        }
        // The item itself stands for its value.
        if let Some(Step::Item { .. }) = steps.last() {
            steps.push(Step::Member("value".to_owned()));
        }
        Ok(Self { text: text.to_owned(), steps })
    }

    /// As it was written.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.text
    }

    /// The path with `[]` for what stands in brackets, as the table of fields names it.
    #[must_use]
    pub fn shape(&self) -> String {
        let mut shape = String::new();
        for (at, step) in self.steps.iter().enumerate() {
            match step {
                Step::Member(name) if at == 0 => shape.push_str(name),
                Step::Member(name) => shape.push_str(&format!(".{name}")),
                Step::Item { .. } => shape.push_str("[]"),
                Step::At(_) => {}
            }
        }
        shape
    }

    /// Puts a value there; lists and objects on the way are made.
    pub fn put(&self, body: &mut Map<String, Value>, value: Value) {
        let mut whole = Value::Object(std::mem::take(body));
        within(&mut whole, &self.steps, value);
        if let Value::Object(members) = whole {
            *body = members;
        }
    }

    /// The value that is there.
    #[must_use]
    pub fn get<'v>(&self, body: &'v Value) -> Option<&'v Value> {
        let mut at = body;
        for step in &self.steps {
            at = match step {
                Step::Member(name) => at.get(name)?,
                Step::Item { member, is } => {
                    let mut items = at.as_array()?.iter();
                    items.find(|item| item.get(member).and_then(Value::as_str) == Some(is))?
                }
                Step::At(place) => at.get(place)?,
            };
        }
        Some(at)
    }
}

/// The fields of the items of a list that records have under that name; none, where no record has such a list.
fn parts_of(list: &str) -> &'static [Field] {
    let rows = RecordKind::ALL.into_iter().filter_map(|kind| schema::find(schema::fields(kind), list));
    let lists = rows.filter(|field| matches!(field.kind, Kind::List { .. }));
    lists.map(|field| field.kind.parts()).find(|parts| !parts.is_empty()).unwrap_or_default()
}

/// Whether the items of a list are told apart by their `system`.
#[must_use]
pub fn is_by_system(list: &str) -> bool {
    list == "identifier" || schema::find(parts_of(list), "system").is_some()
}

fn step(list: &str, selector: &str, text: &str) -> Result<Step, String> {
    if is_by_system(list) && !selector.is_empty() {
        return Ok(Step::Item { member: "system", is: selector.to_owned() });
    }
    match selector.parse::<usize>() {
        Ok(place) if place < INDEX_MAX => Ok(Step::At(place)),
        _ => Err(format!("`{text}`: in brackets after `{list}` stands the place of an item, from 0")),
    }
}

/// Goes one step in, and does the rest there; what is not there is made.
fn within(at: &mut Value, steps: &[Step], value: Value) {
    let Some((step, rest)) = steps.split_first() else {
        *at = value;
        return;
    };
    match step {
        Step::Member(name) => {
            let mut members = match at.take() {
                Value::Object(members) => members,
                _ => Map::new(),
            };
            within(members.entry(name.clone()).or_insert(Value::Null), rest, value);
            *at = Value::Object(members);
        }
        Step::Item { member, is } => {
            let mut items = list(at);
            let is_it = |item: &Value| item.get(member).and_then(Value::as_str) == Some(is);
            if !items.iter().any(is_it) {
                items.push(json!({ *member: is }));
            }
            if let Some(item) = items.iter_mut().find(|item| is_it(item)) {
                within(item, rest, value);
            }
            *at = Value::Array(items);
        }
        Step::At(place) => {
            let mut items = list(at);
            while items.len() <= *place {
                items.push(json!({}));
            }
            if let Some(item) = items.get_mut(*place) {
                within(item, rest, value);
            }
            *at = Value::Array(items);
        }
    }
}

fn list(at: &mut Value) -> Vec<Value> {
    match at.take() {
        Value::Array(items) => items,
        _ => Vec::new(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_are_put_where_paths_lead_and_found_there() {
        let mut body = Map::new();
        for (path, value) in [
            ("name.given", "Asha"),
            ("identifier[urn:x:a]", "1"),
            ("identifier[urn:x:b#c]", "2"),
            ("identifier[urn:x:a].period.end", "2026-01-01"),
            ("telecom[phone]", "+977"),
            ("telecom[phone].use", "home"),
            ("address.city", "Pokhara"),
            ("address[1].city", "Jumla"),
        ] {
            let path = Path::parse(path).unwrap();
            path.put(&mut body, json!(value));
            assert_eq!(path.get(&Value::Object(body.clone())), Some(&json!(value)), "{}", path.as_str());
        }
        assert_eq!(
            Value::Object(body),
            json!({
                "name": {"given": "Asha"},
                "identifier": [
                    {"system": "urn:x:a", "value": "1", "period": {"end": "2026-01-01"}},
                    {"system": "urn:x:b#c", "value": "2"}
                ],
                "telecom": [{"system": "phone", "value": "+977", "use": "home"}],
                "address": [{"city": "Pokhara"}, {"city": "Jumla"}]
            })
        );
        assert_eq!(Path::parse("telecom[phone]").unwrap().shape(), "telecom[].value");
        assert_eq!(Path::parse("address[2].city").unwrap().shape(), "address.city");
    }

    #[test]
    fn what_is_no_path_is_told() {
        for (text, what) in [
            ("", "is no path"),
            ("name..given", "is no path"),
            ("identifier[x", "without a `]`"),
            ("address[x].city", "the place of an item"),
            ("address[99].city", "the place of an item"),
            ("identifier[x]y", "comes `.`"),
        ] {
            assert!(Path::parse(text).unwrap_err().contains(what), "{text}");
        }
    }
}
