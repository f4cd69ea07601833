//! Reads the values of fields, by the schema: the standard fields and the fields of modules.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD as BASE64;
use daftar_api_types::public::eligibility::EXPRESSION_BYTES_MAX;
use serde_json::Value as Json;

use super::reader::{
    ObjectReader, Problems, boolean_value, code_value, count_value, date_value, items_value, kind as json_kind,
    known_values, text_value,
};
use daftar_domain::calendar::Period;
use daftar_domain::code::{CodeUri, CodedValue};
use daftar_domain::consent::{ConsentId, consent_fields, is_consent_field};
use daftar_domain::identifier::{IdentifierKey, REFERENCE_BYTES_MAX};
use daftar_domain::organization::{ORGANIZATION_CHARACTERS_MAX, Organization};
use daftar_domain::photo::{Photo, PhotoError, PhotoReference};
use daftar_domain::record::{RecordId, RecordKind};
use daftar_domain::schema::{Field, Kind, PERIOD, Struct};
use daftar_domain::value::{END, Reference, START, Value, Values, Word};
use daftar_service::photo;

/// Maximum length of a word or field name that is compared with the known ones, in bytes.
const WORD_BYTES_MAX: usize = 100;

/// The words of a field, as in bodies and queries.
#[must_use]
pub fn words<W: Word>() -> Vec<(&'static str, W)> {
    W::WORDS.iter().map(|word| (word.word(), *word)).collect()
}

/// Representation of a code in a request before it is checked.
pub trait SentCode: Sized + PartialEq {
    /// Returns the code of that URI; nothing where records of the kind have no coded fields.
    fn sent(uri: CodeUri) -> Option<Self>;
}

impl SentCode for CodeUri {
    fn sent(uri: CodeUri) -> Option<Self> {
        Some(uri)
    }
}

impl SentCode for CodedValue {
    fn sent(_: CodeUri) -> Option<Self> {
        None
    }
}

/// Representation of a reference in a request before it is resolved.
pub trait SentKey: Sized + PartialEq {
    /// Returns the record of that identifier; nothing where records of the kind have no references.
    fn sent(key: IdentifierKey) -> Option<Self>;
}

impl SentKey for IdentifierKey {
    fn sent(key: IdentifierKey) -> Option<Self> {
        Some(key)
    }
}

impl SentKey for RecordId {
    fn sent(_: IdentifierKey) -> Option<Self> {
        None
    }
}

/// Level of a field, which decides the form of its references.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Level {
    /// In the record itself: a reference is a text, or an object as in parts.
    Record,
    /// In a part of a record: a reference is an object.
    Part,
}

/// Collects the problems of a body, and its photo.
#[derive(Debug)]
pub struct Reading<'p> {
    /// The problems.
    pub problems: &'p mut Problems,
    /// The photo.
    pub photo: Option<Photo>,
}

/// Reads these fields of a record or part; leaves other members in `reader`. An absent required field is a problem.
pub fn read_fields<C: SentCode, I: SentKey>(
    reader: &mut ObjectReader,
    fields: impl Iterator<Item = &'static Field> + Clone,
    level: Level,
    reading: &mut Reading<'_>,
) -> Values<C, I> {
    let mut values = Values::default();
    // The server assigns the ids of consents.
    let is_sent = |field: &&Field| !field.is_internal && !matches!(field.kind, Kind::ConsentId);
    for field in fields.clone().filter(is_sent) {
        let Some(value) = reader.take(field.name) else { continue };
        let value = read(&reader.path_of(field.name), &field.kind, value, level, reading);
        let is_absent = field.is_flag && matches!(value, Some(Value::Boolean(false)));
        values.put(field.tag, value.filter(|_| !is_absent));
    }
    for field in fields.filter(is_sent) {
        if let Some(sentence) = field.required
            && values.value(field.tag).is_none()
            && !reader.is_problem_within(field.name, reading.problems)
        {
            reading.problems.add(reader.path_of(field.name), "required", sentence);
        }
    }
    values
}

/// Reads the value at the path `at`. A value of another kind is a problem.
pub fn read<C: SentCode, I: SentKey>(
    at: &str,
    kind: &'static Kind,
    value: Json,
    level: Level,
    reading: &mut Reading<'_>,
) -> Option<Value<C, I>> {
    let problems = &mut *reading.problems;
    match kind {
        Kind::Boolean => boolean_value(at, &value, problems).map(Value::Boolean),
        Kind::Integer => number(at, &value, value.as_i64(), "a whole number of 64 bits", problems).map(Value::Integer),
        Kind::Number => {
            let finite = value.as_f64().filter(|number| number.is_finite());
            number(at, &value, finite, "a number", problems).map(Value::Number)
        }
        Kind::Count => count_value(at, &value, problems).map(|count| Value::Integer(i64::from(count))),
        Kind::Amount => amount(at, &value, problems).map(Value::Number),
        Kind::Text(bytes_max) => text_value(at, value, *bytes_max, problems).map(text),
        Kind::Organization => organization(at, value, problems).map(|organization| text(organization.as_str())),
        Kind::Expression => expression(at, value, problems).map(text),
        Kind::FieldName => field_name(at, value, problems).map(text),
        Kind::Date => date_value(at, value, problems).map(Value::Date),
        Kind::Word(words) => word(at, words, value, problems).map(Value::Word),
        Kind::Code(_) | Kind::ModuleCode => code(at, value, problems).map(Value::Code),
        Kind::Reference(kinds) => reference(at, kinds, value, level, problems).map(Value::Reference),
        Kind::ConsentId => consent_id(at, &value, problems).map(Value::ConsentId),
        Kind::Photo => photo(at, value, reading).map(|photo| Value::Photo(Box::new(photo))),
        Kind::List { of, items_max } => list(at, of, *items_max, value, reading).map(Value::List),
        Kind::Struct(of) => Some(Value::Struct(part(at, of, value, reading))),
    }
}

fn text<C, I>(text: impl Into<Box<str>>) -> Value<C, I> {
    Value::Text(text.into())
}

fn number<T>(at: &str, value: &Json, read: Option<T>, needed: &'static str, problems: &mut Problems) -> Option<T> {
    problems.require(at, "wrong_type", read, || format!("must be {needed}, not {}", json_kind(value)))
}

/// A finite number that is not negative.
fn amount(at: &str, value: &Json, problems: &mut Problems) -> Option<f64> {
    let number = value.as_f64().filter(|number| number.is_finite() && *number >= 0.0);
    problems.require(at, "wrong_type", number, || "must be a number of at least 0")
}

fn organization(at: &str, value: Json, problems: &mut Problems) -> Option<Organization> {
    let text = text_value(at, value, 4 * ORGANIZATION_CHARACTERS_MAX, problems)?;
    problems.accept(at, "invalid", Organization::parse(&text))
}

/// Reads an expression, which may contain line breaks, unlike other texts.
pub fn expression(at: &str, value: Json, problems: &mut Problems) -> Option<String> {
    match value {
        Json::String(text) if text.len() > EXPRESSION_BYTES_MAX => {
            let message = format!("an expression has at most {EXPRESSION_BYTES_MAX} bytes, not {}", text.len());
            problems.add(at, "too_long", message);
            None
        }
        Json::String(text) => Some(text),
        _ => {
            problems.add(at, "wrong_type", "an expression is a text");
            None
        }
    }
}

fn field_name(at: &str, value: Json, problems: &mut Problems) -> Option<String> {
    let name = text_value(at, value, WORD_BYTES_MAX, problems)?;
    if is_consent_field(&name) {
        return Some(name);
    }
    let message = format!("a consent names fields such as {} and `extension.<key>`", consent_fields().join(", "));
    problems.add(at, "unknown_value", message);
    None
}

/// Returns the position of a word in the known words.
fn word(at: &str, words: &[&str], value: Json, problems: &mut Problems) -> Option<u8> {
    let text = text_value(at, value, WORD_BYTES_MAX, problems)?;
    let place = words.iter().position(|word| *word == text);
    let place = problems.require(at, "unknown_value", place, || known_values(words.iter().copied()));
    place.and_then(|place| u8::try_from(place).ok())
}

fn code<C: SentCode>(at: &str, value: Json, problems: &mut Problems) -> Option<C> {
    let code = C::sent(code_value(at, value, problems)?);
    problems.require(at, "unknown_field", code, || "records of this kind have no codes")
}

fn reference<I: SentKey>(
    at: &str,
    kinds: &[RecordKind],
    value: Json,
    level: Level,
    problems: &mut Problems,
) -> Option<Reference<I>> {
    let is_object = value.is_object();
    let Reference { kind, id } = if is_object || level == Level::Part {
        let mut reader = ObjectReader::at(at.to_owned(), value, problems);
        let at = reader.path_of("reference");
        let text = reader.text("reference", REFERENCE_BYTES_MAX, problems);
        if text.is_none() && is_object && !reader.is_problem("reference", problems) {
            problems.add(at.as_str(), "required", format!("a reference is required: {}", forms(kinds)));
        }
        reader.take("display");
        reader.finish(problems);
        parse_reference(&at, &text?, kinds, problems)?
    } else {
        let text = text_value(at, value, REFERENCE_BYTES_MAX, problems)?;
        parse_reference(at, &text, kinds, problems)?
    };
    let id = problems.require(at, "unknown_field", I::sent(id), || "records of this kind have no references")?;
    Some(Reference { kind, id })
}

/// Parses `<kind>/<system>|<value>` at the path `at`.
pub fn parse_reference(
    at: &str,
    text: &str,
    kinds: &[RecordKind],
    problems: &mut Problems,
) -> Option<Reference<IdentifierKey>> {
    let of_kind = |kind: &RecordKind| Some((*kind, text.strip_prefix(kind.name())?.strip_prefix('/')?));
    let message = || format!("a reference is written {}", forms(kinds));
    let (kind, key) = problems.require(at, "invalid_reference", kinds.iter().find_map(of_kind), message)?;
    let id = problems.accept(at, "invalid_reference", IdentifierKey::parse(key))?;
    Some(Reference { kind, id })
}

fn forms(kinds: &[RecordKind]) -> String {
    let forms: Vec<String> = kinds.iter().map(|kind| format!("`{kind}/<system>|<value>`")).collect();
    forms.join(" or ")
}

/// Reads the id of a consent.
pub fn consent_id(at: &str, value: &Json, problems: &mut Problems) -> Option<ConsentId> {
    let text = problems.require(at, "wrong_type", value.as_str(), || "must be a text with a UUID")?;
    problems.accept(at, "invalid", ConsentId::parse(text))
}

/// Reads a photo in base64 (RFC 4648 §4, with padding). Its content is not inspected.
fn photo(at: &str, value: Json, reading: &mut Reading<'_>) -> Option<PhotoReference> {
    let problems = &mut *reading.problems;
    let Json::String(text) = value else {
        problems.add(at, "wrong_type", format!("must be a text in base64, not {}", json_kind(&value)));
        return None;
    };
    let Ok(bytes) = BASE64.decode(text.as_bytes()) else {
        let message = if text.starts_with("data:") {
            "only the base64 is sent, without `data:` and the media type before it"
        } else {
            "the text is not base64 (RFC 4648 §4: letters, digits, `+`, `/`, and `=` to fill up, without line breaks)"
        };
        problems.add(at, "invalid_base64", message);
        return None;
    };
    let photo = photo::of(bytes);
    let code = match &photo {
        Err(PhotoError::TooLarge(_)) => "too_long",
        Err(PhotoError::Empty) | Ok(_) => "empty",
    };
    let photo = problems.accept(at, code, photo)?;
    let reference = photo.reference();
    reading.photo = Some(photo);
    Some(reference)
}

/// Reads the items of a list. Words and names of fields must be unique.
fn list<C: SentCode, I: SentKey>(
    at: &str,
    of: &'static Kind,
    items_max: usize,
    value: Json,
    reading: &mut Reading<'_>,
) -> Option<Vec<Value<C, I>>> {
    let items = items_value(at, value, items_max, reading.problems)?;
    let once = match of {
        Kind::FieldName => Some("the same field appears twice"),
        Kind::Word(_) => Some("the same value appears twice"),
        _ => None,
    };
    let mut values = Vec::with_capacity(items.len());
    for (at, item) in items {
        let Some(value) = read(&at, of, item, Level::Part, reading) else { continue };
        match once {
            Some(message) if values.contains(&value) => reading.problems.add(at, "duplicate", message),
            _ => values.push(value),
        }
    }
    Some(values)
}

/// Reads a part with fields of its own. Any value but an object is a problem.
pub fn part<C: SentCode, I: SentKey>(
    at: &str,
    of: &'static Struct,
    value: Json,
    reading: &mut Reading<'_>,
) -> Values<C, I> {
    let mut reader = ObjectReader::at(at.to_owned(), value, reading.problems);
    let values = read_fields(&mut reader, of.fields.iter(), Level::Part, reading);
    if of.name == PERIOD.name
        && let (Some(start), Some(end)) = (values.get(START), values.get(END))
        && end < start
    {
        reading.problems.add(reader.path_of("end"), "invalid_period", "the end must not be before the start");
    }
    reader.finish(reading.problems);
    values
}

/// Reads the period at the path `at`.
pub fn period(at: &str, value: Json, problems: &mut Problems) -> Option<Period> {
    let mut reading = Reading { problems, photo: None };
    let values: Values<CodedValue> = part(at, &PERIOD, value, &mut reading);
    Some(Period { start: values.get(START), end: values.get(END) })
}
