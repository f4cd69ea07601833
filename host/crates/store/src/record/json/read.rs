//! Reads stored JSON.

use std::borrow::Cow;

use jiff::Timestamp;
use jiff::civil::Date;
use serde::de::{Deserialize, Deserializer, MapAccess, Visitor};
use serde_json::value::RawValue;

use daftar_domain::calendar::Period;
use daftar_domain::client::ClientId;
use daftar_domain::code::{CodeNumber, CodedValue, EditionNumber};
use daftar_domain::consent::ConsentId;
use daftar_domain::extension::{Extension, ExtensionContent, ExtensionValue};
use daftar_domain::identifier::{Identifier, IdentifierKey, IdentifierValue, SystemUri};
use daftar_domain::manifest::{ExtensionFieldKind, ExtensionPath};
use daftar_domain::organization::Organization;
use daftar_domain::photo::{PhotoDigest, PhotoReference};
use daftar_domain::record::{Fields, Record, RecordId, RecordKind, RecordMeta, RecordType, VersionId};
use daftar_domain::schema::{self, Field, Kind, Tag};
use daftar_domain::value::{Reference, Value, Values};

use super::write::object;
use super::{EXTENSION, IDENTIFIER, MEMBERS, META, REVISION, UNKNOWN};
use crate::StoreError;
use crate::record::fields::{self, Fault, Problem, Reader, called, check_absent};
use crate::record::instant;
use crate::record::wire::Bytes;

/// As [`decode`](super::decode), of the type that it is.
///
/// # Errors
/// As [`decode`](super::decode).
pub fn decode_one<T: RecordType>(id: RecordId, json: &[u8]) -> Result<Record<Fields<T>>, StoreError> {
    match take_record(T::KIND, json) {
        Ok((meta, identifiers, values, extension)) => {
            Ok(Record { id, meta, details: Fields::new(identifiers, values, extension) })
        }
        Err(fault) => Err(StoreError::Corrupt { what: called(T::KIND), reason: fault.sentence() }),
    }
}

/// The bytes of hexadecimal digits.
fn bytes_of(digits: &str) -> Option<Vec<u8>> {
    let (pairs, rest) = digits.as_bytes().as_chunks::<2>();
    let digit = |digit: &u8| char::from(*digit).to_digit(16);
    let byte = |[first, second]: &[u8; 2]| u8::try_from(digit(first)? << 4 | digit(second)?).ok();
    if rest.is_empty() { pairs.iter().map(byte).collect() } else { None }
}

/// The members of an object, each by its name with the JSON of its value.
struct Members<'j>(Vec<(&'j str, &'j str)>);

impl<'j> Deserialize<'j> for Members<'j> {
    fn deserialize<D: Deserializer<'j>>(deserializer: D) -> Result<Self, D::Error> {
        struct InOrder;
        impl<'j> Visitor<'j> for InOrder {
            type Value = Members<'j>;

            fn expecting(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                formatter.write_str("an object")
            }

            fn visit_map<M: MapAccess<'j>>(self, mut map: M) -> Result<Members<'j>, M::Error> {
                let mut members = Vec::with_capacity(16);
                while let Some((name, value)) = map.next_entry::<&str, &RawValue>()? {
                    members.push((name, value.get()));
                }
                Ok(Members(members))
            }
        }
        deserializer.deserialize_map(InOrder)
    }
}

/// The members of an object; nothing where the JSON is no object.
pub(super) fn members(json: &[u8]) -> Option<Vec<(&str, &str)>> {
    serde_json::from_slice::<Members<'_>>(json).ok().map(|members| members.0)
}

/// The members of those names, in the order of the names; nothing where there are others.
fn named<'j, const N: usize>(json: &'j str, names: [&str; N]) -> Option<[Option<&'j str>; N]> {
    let mut found = [None; N];
    for (name, value) in members(json.as_bytes())? {
        let at = names.iter().position(|known| *known == name)?;
        *found.get_mut(at)? = Some(value);
    }
    Some(found)
}

fn items(json: &str) -> Option<Vec<&RawValue>> {
    serde_json::from_str(json).ok()
}

fn take_string(json: &str) -> Option<Cow<'_, str>> {
    let inner = json.strip_prefix('"').and_then(|rest| rest.strip_suffix('"'));
    match inner {
        // What was found as a value is well formed: without a backslash it stands for itself.
        Some(text) if !text.contains('\\') => Some(Cow::Borrowed(text)),
        Some(_) => serde_json::from_str(json).ok().map(Cow::Owned),
        None => None,
    }
}

fn take_text(json: &str) -> Option<Cow<'_, str>> {
    if !json.starts_with('{') {
        return take_string(json);
    }
    let [bytes] = named(json, ["utf8"])?;
    String::from_utf8(bytes_of(&take_string(bytes?)?)?).ok().map(Cow::Owned)
}

fn take_boolean(json: &str) -> Option<bool> {
    json.parse().ok()
}

fn take_real(json: &str) -> Option<f64> {
    if json == "\"-0\"" {
        return Some(-0.0);
    }
    json.parse().ok().filter(|number: &f64| number.is_finite())
}

fn take_day(json: &str) -> Option<Date> {
    take_string(json)?.parse().ok()
}

fn take_code(json: &str) -> Option<CodedValue> {
    let [_, number, _, edition] = named(json, ["uri", "number", "edition", "edition_number"])?;
    let (number, edition) = (number?.parse().ok()?, edition?.parse().ok()?);
    Some(CodedValue { number: CodeNumber(number), edition: EditionNumber(edition) })
}

/// The URI and the number of every code in stored JSON, for verification.
///
/// The walk looks at any object with a `number` and an `edition_number`: only codes are such.
#[must_use]
pub fn codes(json: &[u8]) -> Vec<(u32, Option<String>)> {
    let mut found = Vec::new();
    if let Ok(value) = serde_json::from_slice(json) {
        gather_codes(&value, &mut found);
    }
    found
}

fn gather_codes(value: &serde_json::Value, found: &mut Vec<(u32, Option<String>)>) {
    match value {
        serde_json::Value::Array(items) => items.iter().for_each(|item| gather_codes(item, found)),
        serde_json::Value::Object(members) => {
            let number = members.get("number").filter(|_| members.contains_key("edition_number"));
            match number.and_then(|number| u32::try_from(number.as_u64()?).ok()) {
                Some(number) => {
                    found.push((number, members.get("uri").and_then(|uri| Some(uri.as_str()?.to_owned()))));
                }
                None => members.values().for_each(|member| gather_codes(member, found)),
            }
        }
        _ => {}
    }
}

/// What a record says besides its key.
type Content = (RecordMeta, Vec<Identifier>, Values, Extension);

fn take_record(kind: RecordKind, json: &[u8]) -> Result<Content, Fault> {
    let members = members(json).ok_or_else(Fault::invalid)?;
    let revision = members.iter().find(|(name, _)| *name == REVISION);
    let later = match revision.map(|(_, value)| value.parse::<u16>()) {
        None => None,
        Some(Ok(revision)) => (revision > schema::REVISION).then_some(revision),
        Some(Err(_)) => return Err(Fault::field(REVISION)),
    };
    take_content(kind, &members, later).map_err(|fault| fault.of(later))
}

fn take_content(kind: RecordKind, members: &[(&str, &str)], later: Option<u16>) -> Result<Content, Fault> {
    let (mut meta, mut identifiers, mut extension) = (None, Vec::new(), Extension::default());
    let mut rest = Vec::with_capacity(members.len());
    for (name, value) in members {
        match *name {
            META => meta = Some(take_meta(value)?),
            IDENTIFIER => identifiers = take_identifiers(value)?,
            EXTENSION => extension = take_extension(value).ok_or_else(|| Fault::field(EXTENSION))?,
            REVISION => {}
            _ => rest.push((*name, *value)),
        }
    }
    let meta = meta.ok_or_else(|| Fault::new(Problem::Missing).within(META))?;
    Ok((meta, identifiers, take_values(schema::fields(kind), &rest, later)?, extension))
}

fn take_meta(json: &str) -> Result<RecordMeta, Fault> {
    let of = |part: &'static str| move || Fault::field(part).within(META);
    let members = named(json, ["version_id", "last_updated", "source"]);
    let [version, last_updated, source] = members.ok_or_else(|| Fault::field(META))?;
    let version = version.and_then(|version| version.parse().ok()).ok_or_else(of("version_id"))?;
    let last_updated = last_updated.and_then(take_string).and_then(|at| at.parse::<Timestamp>().ok());
    let last_updated = last_updated.filter(|at| instant::as_stored(*at) == *at).ok_or_else(of("last_updated"))?;
    let source = match source {
        None => None,
        Some(source) => {
            let client = take_string(source).and_then(|client| ClientId::parse(&client).ok());
            Some(client.ok_or_else(of("source"))?)
        }
    };
    Ok(RecordMeta { version: VersionId(version), last_updated, source })
}

fn take_identifiers(json: &str) -> Result<Vec<Identifier>, Fault> {
    let of = |part: &'static str| move || Fault::field(part).within(IDENTIFIER);
    let mut identifiers = Vec::new();
    for item in items(json).ok_or_else(|| Fault::field(IDENTIFIER))? {
        let members = named(item.get(), ["system", "value", "period"]);
        let [system, value, period] = members.ok_or_else(|| Fault::field(IDENTIFIER))?;
        let system = system.and_then(take_text).and_then(|text| SystemUri::parse(&text).ok());
        let system = system.ok_or_else(of("system"))?;
        let value = value.and_then(take_text).and_then(|text| IdentifierValue::parse(&text).ok());
        let value = value.ok_or_else(of("value"))?;
        let period = period.map(|period| take_period(period).ok_or_else(of("period"))).transpose()?;
        identifiers.push(Identifier { key: IdentifierKey { system, value }, period });
    }
    Ok(identifiers)
}

fn take_period(json: &str) -> Option<Period> {
    let [start, end] = named(json, ["start", "end"])?;
    let day = |day: Option<&str>| day.map_or(Some(None), |day| take_day(day).map(Some));
    Some(Period { start: day(start)?, end: day(end)? })
}

/// Values by the rows of their fields. What has no row is of the later revision, where the record has one.
fn take_values(fields: &'static [Field], members: &[(&str, &str)], later: Option<u16>) -> Result<Values, Fault> {
    let mut values = Vec::with_capacity(members.len());
    let mut kept = Vec::new();
    for (name, value) in members {
        if let Some(field) = fields.iter().find(|field| field.name == *name) {
            let read = take_value(&field.kind, value, later).map_err(|fault| fault.within(field.name))?;
            values.push((field.tag, read));
        } else if *name == UNKNOWN {
            take_unknown(fields, value, later, &mut values)?;
        } else if later.is_some() {
            kept.push((*name, *value));
        } else {
            return Err(Fault::new(Problem::UnknownMember));
        }
    }
    if let Some(revision) = later.filter(|_| !kept.is_empty()) {
        values.push((MEMBERS, Value::later(revision, &object(&kept))));
    }
    for field in fields.iter().filter(|field| fields::is_always_there(field)) {
        if !values.iter().any(|(tag, _)| *tag == field.tag) {
            check_absent(field)?;
        }
    }
    Ok(values.into_iter().collect())
}

/// What the binary form kept under tags: fields of this program's, where the revision is one that it knows.
fn take_unknown(
    fields: &'static [Field],
    json: &str,
    later: Option<u16>,
    to: &mut Vec<(Tag, Value)>,
) -> Result<(), Fault> {
    for (name, digits) in members(json.as_bytes()).ok_or_else(|| Fault::field(UNKNOWN))? {
        let tag = name.parse().map(Tag).ok().filter(|tag| *tag != MEMBERS).ok_or_else(|| Fault::field(UNKNOWN))?;
        let bytes = take_string(digits).and_then(|digits| bytes_of(&digits)).ok_or_else(|| Fault::field(UNKNOWN))?;
        let value = match (schema::row(fields, tag), later) {
            (Some(field), _) => {
                Reader { later }.value(&field.kind, Bytes(&bytes)).map_err(|fault| fault.within(field.name))?
            }
            (None, Some(revision)) => Value::later(revision, &bytes),
            (None, None) => return Err(Fault::new(Problem::Unknown(tag))),
        };
        to.push((tag, value));
    }
    Ok(())
}

/// The fields that a program without them kept as members, read by one that has them.
pub(in crate::record) fn kept_members(fields: &'static [Field], json: &[u8]) -> Result<Vec<(Tag, Value)>, Fault> {
    let mut values = Vec::new();
    for (name, value) in members(json).ok_or_else(Fault::invalid)? {
        let field = fields.iter().find(|field| field.name == name);
        let field = field.ok_or_else(|| Fault::new(Problem::UnknownMember))?;
        values.push((field.tag, take_value(&field.kind, value, None).map_err(|fault| fault.within(field.name))?));
    }
    Ok(values)
}

fn take_value(kind: &'static Kind, json: &str, later: Option<u16>) -> Result<Value, Fault> {
    match kind {
        Kind::List { of, .. } => {
            let items = items(json).ok_or_else(Fault::invalid)?;
            items.into_iter().map(|item| take_value(of, item.get(), later)).collect::<Result<_, _>>().map(Value::List)
        }
        Kind::Struct(part) => {
            let members = members(json.as_bytes()).ok_or_else(Fault::invalid)?;
            take_values(part.fields, &members, later).map(Value::Struct)
        }
        _ => take_single(kind, json).ok_or_else(Fault::invalid),
    }
}

/// A value without others in it; nothing where the JSON is not one.
fn take_single(kind: &Kind, json: &str) -> Option<Value> {
    Some(match kind {
        Kind::Boolean => Value::Boolean(take_boolean(json)?),
        Kind::Integer => Value::Integer(json.parse().ok()?),
        Kind::Count => Value::Integer(json.parse().ok().filter(|count| (1..=i64::from(u32::MAX)).contains(count))?),
        Kind::Number => Value::Number(take_real(json)?),
        Kind::Amount => Value::Number(take_real(json).filter(|amount| *amount >= 0.0)?),
        Kind::Text(_) | Kind::Expression | Kind::FieldName => Value::Text(take_text(json)?.into()),
        Kind::Organization => Value::Text(Organization::parse(&take_text(json)?).ok()?.as_str().into()),
        Kind::Date => Value::Date(take_day(json)?),
        Kind::Word(words) => {
            let word = take_string(json)?;
            Value::Word(u8::try_from(words.iter().position(|known| *known == word)?).ok()?)
        }
        Kind::Code(_) | Kind::ModuleCode => Value::Code(take_code(json)?),
        Kind::Reference(kinds) => {
            let [kind, id] = named(json, ["kind", "id"])?;
            let name = take_string(kind?)?;
            let kind = *kinds.iter().find(|kind| kind.resource().name() == name)?;
            Value::Reference(Reference { kind, id: RecordId(id?.parse().ok()?) })
        }
        Kind::ConsentId => Value::ConsentId(ConsentId::parse(&take_string(json)?).ok()?),
        Kind::Photo => {
            let [digest, length] = named(json, ["digest", "length"])?;
            let digest = PhotoDigest(bytes_of(&take_string(digest?)?)?.try_into().ok()?);
            Value::Photo(Box::new(PhotoReference { digest, length: length?.parse().ok()? }))
        }
        Kind::List { .. } | Kind::Struct(_) => return None,
    })
}

fn take_extension(json: &str) -> Option<Extension> {
    let mut fields: Vec<(ExtensionPath, ExtensionContent)> = Vec::new();
    for (path, content) in members(json.as_bytes())? {
        let content = if content.starts_with('[') {
            let values = items(content)?.into_iter().map(|value| take_extension_value(value.get()));
            ExtensionContent::Many(values.collect::<Option<_>>()?)
        } else {
            ExtensionContent::One(take_extension_value(content)?)
        };
        fields.push((ExtensionPath::parse(path).ok()?, content));
    }
    Some(Extension::new(fields))
}

fn take_extension_value(json: &str) -> Option<ExtensionValue> {
    let [kind, value] = named(json, ["type", "value"])?;
    let value = value?;
    Some(match ExtensionFieldKind::parse(&take_string(kind?)?)? {
        ExtensionFieldKind::Boolean => ExtensionValue::Boolean(take_boolean(value)?),
        ExtensionFieldKind::Integer => ExtensionValue::Integer(value.parse().ok()?),
        ExtensionFieldKind::Number => ExtensionValue::Number(take_real(value)?),
        ExtensionFieldKind::Text => ExtensionValue::Text(take_text(value)?.into_owned()),
        ExtensionFieldKind::Date => ExtensionValue::Date(take_day(value)?),
        ExtensionFieldKind::Coded => ExtensionValue::Code(take_code(value)?),
    })
}
