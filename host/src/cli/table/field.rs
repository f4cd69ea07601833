//! Fields of each kind of record in a table, from the schema, with the types of their values.

use serde::Deserialize;
use serde_json::{Map, Value, json};

use daftar_domain::record::RecordKind;
use daftar_domain::schema::{self, Field, Kind};

/// Type of the values of a field. Mappings name the forms of fields that modules add, which are neither references nor
/// members.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Form {
    /// A text.
    Text,
    /// A day.
    Date,
    /// `true` or `false`.
    Boolean,
    /// A number.
    Number,
    /// A code.
    Code,
    /// Codes.
    Codes,
    /// Texts.
    Texts,
    /// A record, referenced by its identifier.
    #[serde(skip)]
    Reference,
    /// Members, referenced by their identifiers.
    #[serde(skip)]
    Members,
}

/// Fields of identifiers, which every record except a consent has in addition to the fields of the schema.
const IDENTIFIER: [(&str, Form); 3] = [
    ("identifier[].value", Form::Text),
    ("identifier[].period.start", Form::Date),
    ("identifier[].period.end", Form::Date),
];

/// Returns every field of a kind with the type of its values.
#[must_use]
pub fn fields(kind: RecordKind) -> Vec<(String, Form)> {
    let mut fields = match kind {
        // The server computes it.
        RecordKind::Consent => vec![("status".to_owned(), Form::Text)],
        RecordKind::Individual | RecordKind::Group | RecordKind::Program | RecordKind::ProgramMembership => {
            IDENTIFIER.map(|(path, form)| (path.to_owned(), form)).into()
        }
    };
    schema::fields(kind).iter().for_each(|field| add(&mut fields, field.name.to_owned(), field));
    fields
}

/// Adds a field, or its nested fields, if tables support it.
fn add(fields: &mut Vec<(String, Form)>, path: String, field: &Field) {
    if field.is_internal || field.is_not_tabular {
        return;
    }
    let form = match &field.kind {
        Kind::List { of: Kind::Code(_), .. } => Form::Codes,
        Kind::List { of: Kind::Struct(part), .. } => {
            let mut parts = part.fields.iter().filter(|part| !part.is_not_tabular);
            let of_item = if is_by_system(&path) { format!("{path}[]") } else { path.clone() };
            match (parts.next(), parts.next()) {
                (Some(Field { kind: Kind::Reference(_), .. }), None) => Form::Members,
                _ => return part.fields.iter().for_each(|part| add(fields, format!("{of_item}.{}", part.name), part)),
            }
        }
        Kind::List { .. } => Form::Texts,
        Kind::Struct(part) => {
            return part.fields.iter().for_each(|part| add(fields, format!("{path}.{}", part.name), part));
        }
        Kind::Boolean => Form::Boolean,
        Kind::Integer | Kind::Number | Kind::Count | Kind::Amount => Form::Number,
        Kind::Date => Form::Date,
        Kind::Code(_) | Kind::ModuleCode => Form::Code,
        Kind::Reference(_) => Form::Reference,
        Kind::Text(_)
        | Kind::Organization
        | Kind::Expression
        | Kind::FieldName
        | Kind::Word(_)
        | Kind::ConsentId
        | Kind::Photo => Form::Text,
    };
    fields.push((path, form));
}

/// Returns the type of the values of a field; fields of modules without a declared type are texts.
///
/// # Errors
/// One sentence with the name of the field and the closest match.
pub fn form(kind: RecordKind, path: &Path) -> Result<Form, String> {
    let shape = path.shape();
    if shape.starts_with("extension.") {
        return Ok(Form::Text);
    }
    let fields = fields(kind);
    if let Some((_, form)) = fields.iter().find(|(name, _)| *name == shape) {
        return Ok(*form);
    }
    let shown = |name: &str| match name.strip_suffix("[].value") {
        Some(list) => format!("{list}[{}]", system_of(kind, list)),
        None => name.replace("[]", "[…]"),
    };
    let near = nearest(&shape, fields.iter().map(|(name, _)| name.as_str()));
    let hint = near.map(|name| format!("; did you mean `{}`?", shown(name))).unwrap_or_default();
    Err(format!("records of type `{kind}` have no field `{}`{hint}", path.as_str()))
}

/// Returns a valid system of the items of a list, for a hint.
fn system_of(kind: RecordKind, list: &str) -> &'static str {
    let parts = schema::find(schema::fields(kind), list).map(|list| list.kind.parts()).unwrap_or_default();
    match schema::find(parts, "system").map(|system| &system.kind) {
        Some(Kind::Word([first, ..])) => first,
        _ => "SYSTEM",
    }
}

/// Returns the closest match among known names, if one is similar.
#[must_use]
pub fn nearest<'n>(name: &str, known: impl Iterator<Item = &'n str>) -> Option<&'n str> {
    let distance = |known: &str| {
        // Users often write only the last part of a path.
        let last = known.rsplit('.').next().unwrap_or(known);
        let lower = name.to_lowercase();
        strsim::damerau_levenshtein(&lower, &known.to_lowercase())
            .min(strsim::damerau_levenshtein(&lower, &last.to_lowercase()) + 1)
    };
    let near = known.map(|known| (distance(known), known)).min()?;
    (near.0 <= 3.min(name.chars().count() / 2 + 1)).then_some(near.1)
}

/// Maximum number of list items that a path may address by index.
const INDEX_MAX: usize = 50;

/// One segment of a path.
#[derive(Debug, Clone, PartialEq, Eq)]
enum Step {
    /// A member.
    Member(String),
    /// The item of a list selected by the value of a member: `system`, if items have one.
    Item { member: &'static str, is: String },
    /// The item of a list at an index.
    At(usize),
}

impl Step {
    /// Returns the value to which this step leads.
    fn of<'v>(&self, at: &'v Value) -> Option<&'v Value> {
        match self {
            Self::Member(name) => at.get(name),
            Self::Item { member, is } => {
                let mut items = at.as_array()?.iter();
                items.find(|item| item.get(member).and_then(Value::as_str) == Some(is))
            }
            Self::At(place) => at.get(place),
        }
    }
}

/// A path.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Path {
    text: String,
    steps: Vec<Step>,
}

impl Path {
    /// Reads a path, or returns its problem.
    ///
    /// # Errors
    /// The problem, in one sentence.
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
        // The item itself is its value.
        if let Some(Step::Item { .. }) = steps.last() {
            steps.push(Step::Member("value".to_owned()));
        }
        Ok(Self { text: text.to_owned(), steps })
    }

    /// Returns the path as written.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.text
    }

    /// Returns the path with `[]` for each index, as in the table of fields.
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

    /// Sets the value at the path; missing lists and objects on the path are created.
    pub fn put(&self, body: &mut Map<String, Value>, value: Value) {
        let mut whole = Value::Object(std::mem::take(body));
        within(&mut whole, &self.steps, value);
        if let Value::Object(members) = whole {
            *body = members;
        }
    }

    /// Returns the value at the path.
    #[must_use]
    pub fn get<'v>(&self, body: &'v Value) -> Option<&'v Value> {
        self.steps.iter().try_fold(body, |at, step| step.of(at))
    }

    /// Returns the first empty item before the item to which this path leads, such as `address[0]` for
    /// `address[1].city`.
    #[must_use]
    pub fn empty_item_before(&self, body: &Map<String, Value>) -> Option<String> {
        let (first, rest) = self.steps.split_first()?;
        let Step::Member(name) = first else { return None };
        let mut at = body.get(name)?;
        for (depth, step) in (1_usize..).zip(rest) {
            if let Step::At(place) = step {
                let is_empty = |item: &Value| item.as_object().is_some_and(Map::is_empty);
                if let Some(empty) = at.as_array()?.iter().take(*place).position(is_empty) {
                    let list = self.steps.get(..depth).unwrap_or_default();
                    return Some(format!("{}[{empty}]", text_of(list)));
                }
            }
            at = step.of(at)?;
        }
        None
    }

    /// True if the path leads into a list item, such as `address.city` into `address[0]`.
    #[must_use]
    pub fn is_within(&self, item: &str) -> bool {
        text_of(&self.steps).strip_prefix(item).is_some_and(|rest| rest.starts_with('.'))
    }
}

/// Returns the text of steps; an index is always written, also where a path leaves it out.
fn text_of(steps: &[Step]) -> String {
    let mut text = String::new();
    for step in steps {
        match step {
            Step::Member(name) if text.is_empty() => text.push_str(name),
            Step::Member(name) => text.push_str(&format!(".{name}")),
            Step::Item { is, .. } => text.push_str(&format!("[{is}]")),
            Step::At(place) => text.push_str(&format!("[{place}]")),
        }
    }
    text
}

/// Returns the fields of the items of a list; none if no record has such a list.
fn parts_of(list: &str) -> &'static [Field] {
    let rows = RecordKind::ALL.into_iter().filter_map(|kind| schema::find(schema::fields(kind), list));
    let lists = rows.filter(|field| matches!(field.kind, Kind::List { .. }));
    lists.map(|field| field.kind.parts()).find(|parts| !parts.is_empty()).unwrap_or_default()
}

/// True if the items of a list are distinguished by their `system`.
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

/// Descends one step and sets the value at the remaining steps; missing lists and objects are created.
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
    fn fields_are_known_by_their_shape_and_others_are_reported_with_the_closest_match() {
        let form_of = |text: &str| form(RecordKind::Individual, &Path::parse(text).unwrap());
        assert_eq!(form_of("name.given"), Ok(Form::Text));
        assert_eq!(form_of("identifier[urn:x:a]"), Ok(Form::Text));
        assert_eq!(form_of("languages"), Ok(Form::Codes));
        assert_eq!(form_of("address[3].country"), Ok(Form::Code));
        assert_eq!(form_of("extension.farmer.crops"), Ok(Form::Text));
        assert!(form_of("birthdate").unwrap_err().ends_with("did you mean `birth_date`?"));
        assert!(form_of("given").unwrap_err().ends_with("did you mean `name.given`?"));
        assert!(form_of("telecom.value").unwrap_err().ends_with("did you mean `telecom[phone]`?"));
        assert!(form_of("identifier.value").unwrap_err().ends_with("did you mean `identifier[SYSTEM]`?"));
        assert!(form_of("shoe_size_in_inches").unwrap_err().ends_with("`shoe_size_in_inches`"));
    }

    #[test]
    fn tables_have_the_fields_of_the_schema() {
        let form_of = |kind, text: &str| form(kind, &Path::parse(text).unwrap()).ok();
        for (kind, path, expected) in [
            (RecordKind::Individual, "telecom[email].use", Form::Text),
            (RecordKind::Individual, "telecom[email].rank", Form::Number),
            (RecordKind::Individual, "address.line", Form::Texts),
            (RecordKind::Individual, "income.currency", Form::Code),
            (RecordKind::Individual, "photo", Form::Text),
            (RecordKind::Group, "identifier[urn:x:a].period.end", Form::Date),
            (RecordKind::Group, "member", Form::Members),
            (RecordKind::Program, "period.start", Form::Date),
            (RecordKind::ProgramMembership, "beneficiary", Form::Reference),
            (RecordKind::ProgramMembership, "override.reason", Form::Text),
            (RecordKind::Consent, "scopes", Form::Texts),
            (RecordKind::Consent, "status", Form::Text),
        ] {
            assert_eq!(form_of(kind, path), Some(expected), "{path}");
        }
        for (kind, path) in [
            (RecordKind::Individual, "telecom[email].system"),
            (RecordKind::Individual, "relationship.type"),
            (RecordKind::Group, "relationship.type"),
            (RecordKind::Group, "member.role"),
            (RecordKind::ProgramMembership, "has_no_identifier"),
            (RecordKind::Consent, "identifier[urn:x:a]"),
            (RecordKind::Consent, "withdrawn"),
        ] {
            assert_eq!(form_of(kind, path), None, "{path}");
        }
    }
}

#[cfg(test)]
mod path_tests {
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
    fn an_empty_item_before_an_item_with_a_value_is_found() {
        let [first, second, third] =
            ["address.city", "address[1].city", "address[2].city"].map(|path| Path::parse(path).unwrap());
        let mut body = Map::new();
        third.put(&mut body, json!("Jumla"));
        assert_eq!(third.empty_item_before(&body).as_deref(), Some("address[0]"));
        assert_eq!(first.empty_item_before(&body), None);
        first.put(&mut body, json!("Pokhara"));
        assert_eq!(third.empty_item_before(&body).as_deref(), Some("address[1]"));
        second.put(&mut body, json!("Butwal"));
        assert_eq!(third.empty_item_before(&body), None);
        assert!(first.is_within("address[0]") && !second.is_within("address[0]"));
    }

    #[test]
    fn an_invalid_path_is_reported() {
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
