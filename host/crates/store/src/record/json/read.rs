//! Reads stored JSON.

use std::borrow::Cow;
use std::cell::Cell;
use std::fmt;

use jiff::Timestamp;
use jiff::civil::Date;
use serde::Deserialize;
use serde::de::{self, DeserializeSeed, Deserializer, IgnoredAny, MapAccess, SeqAccess, Visitor};
use serde_json::value::RawValue;

use daftar_domain::calendar::Period;
use daftar_domain::client::ClientId;
use daftar_domain::code::{CodeNumber, CodedValue, EditionNumber};
use daftar_domain::consent::ConsentId;
use daftar_domain::extension::{Extension, ExtensionContent, ExtensionValue};
use daftar_domain::hexadecimal;
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
use crate::record::fields::{self, Fault, Problem, Reader, Selection, called, check_absent};
use crate::record::instant;
use crate::record::wire::Bytes;

/// As [`decode`](super::decode), for a known type.
///
/// # Errors
/// As [`decode`](super::decode).
pub fn decode_one<T: RecordType>(id: RecordId, json: &[u8]) -> Result<Record<Fields<T>>, StoreError> {
    decode_fields(id, json, None)
}

/// As [`decode_selected`](super::decode_selected), for a known type.
pub(super) fn decode_fields<T: RecordType>(
    id: RecordId,
    json: &[u8],
    selection: Option<&Selection>,
) -> Result<Record<Fields<T>>, StoreError> {
    match take_record(T::KIND, json, selection) {
        Ok((meta, identifiers, values, extension)) => {
            Ok(Record { id, meta, details: Fields::new(identifiers, values, extension) })
        }
        Err(fault) => Err(StoreError::Corrupt { what: called(T::KIND), reason: fault.sentence() }),
    }
}

/// The members of an object, each a name and the JSON of its value.
struct Members<'j>(Vec<(&'j str, &'j str)>);

impl<'j> Deserialize<'j> for Members<'j> {
    fn deserialize<D: Deserializer<'j>>(deserializer: D) -> Result<Self, D::Error> {
        struct InOrder;
        impl<'j> Visitor<'j> for InOrder {
            type Value = Members<'j>;

            fn expecting(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
                formatter.write_str("an object")
            }

            fn visit_map<M: MapAccess<'j>>(self, mut map: M) -> Result<Members<'j>, M::Error> {
                let mut members = Vec::new();
                while let Some((name, value)) = map.next_entry::<&str, &RawValue>()? {
                    members.push((name, value.get()));
                }
                Ok(Members(members))
            }
        }
        deserializer.deserialize_map(InOrder)
    }
}

/// Returns the members of an object; `None` if the JSON is no object.
pub(super) fn members(json: &str) -> Option<Vec<(&str, &str)>> {
    serde_json::from_str::<Members<'_>>(json).ok().map(|members| members.0)
}

/// Returns the members with these names, in the order of the names; `None` if there are others.
fn named<'j, const N: usize>(json: &'j str, names: [&str; N]) -> Option<[Option<&'j str>; N]> {
    let mut found = [None; N];
    for (name, value) in members(json)? {
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
        // A found value is well formed: without a backslash the text is the value.
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
    String::from_utf8(hexadecimal::decode(&take_string(bytes?)?)?).ok().map(Cow::Owned)
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

/// A stored code. The numbers are decoded; the texts are for SQL queries.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct StoredCode {
    #[serde(default, rename = "uri")]
    _uri: IgnoredAny,
    number: u32,
    #[serde(default, rename = "edition")]
    _edition: IgnoredAny,
    edition_number: u32,
}

impl From<StoredCode> for CodedValue {
    fn from(StoredCode { number, edition_number, .. }: StoredCode) -> Self {
        Self { number: CodeNumber(number), edition: EditionNumber(edition_number) }
    }
}

fn take_code(json: &str) -> Option<CodedValue> {
    serde_json::from_str::<StoredCode>(json).ok().map(CodedValue::from)
}

/// Returns the URI and the number of every code in stored JSON, for verification.
///
/// The walk checks any object with a `number` and an `edition_number`: only codes are such.
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

/// The members of a record that are not fields.
#[derive(Default)]
struct Content {
    meta: Option<RecordMeta>,
    identifiers: Vec<Identifier>,
    extension: Extension,
    /// The revision of the schema; 0 if it is not given.
    revision: u16,
}

/// The stored form of [`RecordMeta`].
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct StoredMeta<'j> {
    #[serde(borrow)]
    version_id: Option<&'j RawValue>,
    last_updated: Option<&'j RawValue>,
    source: Option<&'j RawValue>,
}

/// The stored form of an [`Identifier`].
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct StoredIdentifier<'j> {
    #[serde(borrow)]
    system: Option<&'j RawValue>,
    value: Option<&'j RawValue>,
    period: Option<&'j RawValue>,
}

/// One pass over stored JSON, by the fields of the schema. Stores the fault, which an error of serde cannot contain.
struct Pass {
    /// The revision of the record, if it is later than that of this program.
    later: Option<u16>,
    fault: Cell<Option<Fault>>,
}

impl Pass {
    fn new(later: Option<u16>) -> Self {
        Self { later, fault: Cell::default() }
    }

    /// Ends the pass with a fault.
    fn fail<E: de::Error>(&self, fault: Fault) -> E {
        self.fault.set(Some(fault));
        E::custom("fault")
    }

    /// Adds the name of a field to the path of the fault.
    fn within<E>(&self, name: &'static str) -> impl FnOnce(E) -> E {
        move |error| {
            self.fault.set(Some(self.fault.take().unwrap_or_else(Fault::invalid).within(name)));
            error
        }
    }

    /// Reads a text that is one value.
    fn read<'j, S: DeserializeSeed<'j>>(&self, seed: S, json: &'j str) -> Result<S::Value, Fault> {
        let mut deserializer = serde_json::Deserializer::from_str(json);
        let value = seed.deserialize(&mut deserializer).and_then(|value| deserializer.end().map(|()| value));
        value.map_err(|_| self.fault.take().unwrap_or_else(Fault::invalid))
    }
}

/// The content of a record: all but its key.
type Read = (RecordMeta, Vec<Identifier>, Values, Extension);

fn take_record(kind: RecordKind, json: &[u8], selection: Option<&Selection>) -> Result<Read, Fault> {
    let json = str::from_utf8(json).map_err(|_| Fault::invalid())?;
    match read_record(kind, json, None, selection) {
        Ok((record, revision)) if revision <= schema::REVISION => Ok(record),
        // A later revision explains members without a field, and may follow them.
        read => match later_revision(json)? {
            None => read,
            later => read_record(kind, json, later, selection).map_err(|fault| fault.of(later)),
        }
        .map(|(record, _)| record),
    }
}

/// Reads a record, and the revision of the schema that it names; 0 if it names none.
fn read_record(
    kind: RecordKind,
    json: &str,
    later: Option<u16>,
    selection: Option<&Selection>,
) -> Result<(Read, u16), Fault> {
    let (pass, mut content) = (Pass::new(later), Content::default());
    let object = Object { fields: schema::fields(kind), content: Some(&mut content), selection, pass: &pass };
    let values = pass.read(object, json)?;
    let Content { meta, identifiers, extension, revision } = content;
    let meta = meta.ok_or_else(|| Fault::new(Problem::Missing).within(META))?;
    Ok(((meta, identifiers, values, extension), revision))
}

fn later_revision(json: &str) -> Result<Option<u16>, Fault> {
    let members = members(json).ok_or_else(Fault::invalid)?;
    let revision = members.iter().find(|(name, _)| *name == REVISION);
    let revision = revision.map(|(_, value)| value.parse().map_err(|_| Fault::field(REVISION))).transpose()?;
    Ok(revision.filter(|revision| *revision > schema::REVISION))
}

/// Reads the values of an object by the rows of their fields. A member without a row is of a later revision, if the
/// record has one.
struct Object<'p> {
    fields: &'static [Field],
    /// The members of a record that are not fields; `None` for a part of a record.
    content: Option<&'p mut Content>,
    /// The fields of a record to read; `None` for all of them and the identifiers.
    selection: Option<&'p Selection>,
    pass: &'p Pass,
}

impl<'j> DeserializeSeed<'j> for Object<'_> {
    type Value = Values;

    fn deserialize<D: Deserializer<'j>>(self, deserializer: D) -> Result<Values, D::Error> {
        deserializer.deserialize_map(self)
    }
}

impl<'j> Visitor<'j> for Object<'_> {
    type Value = Values;

    fn expecting(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("an object")
    }

    fn visit_map<M: MapAccess<'j>>(mut self, mut map: M) -> Result<Values, M::Error> {
        let Self { fields, selection, pass, .. } = self;
        let is_selected = |field: &Field| selection.is_none_or(|selection| selection.has(field.tag));
        let (mut values, mut stored) = (Vec::with_capacity(fields.len()), Vec::new());
        while let Some(name) = map.next_key::<&str>()? {
            if let Some(field) = fields.iter().find(|field| field.name == name) {
                if !is_selected(field) {
                    map.next_value::<IgnoredAny>()?;
                    continue;
                }
                let value = Single { kind: &field.kind, pass };
                values.push((field.tag, map.next_value_seed(value).map_err(pass.within(field.name))?));
            } else if name == UNKNOWN {
                let unknown: &RawValue = map.next_value()?;
                let taken = take_unknown(fields, unknown.get(), pass.later, &mut values);
                taken.map_err(|fault| pass.fail(fault))?;
            } else if !self
                .content
                .as_deref_mut()
                .map_or(Ok(false), |content| content.read(name, selection, &mut map, pass))?
            {
                if pass.later.is_none() {
                    return Err(pass.fail(Fault::new(Problem::UnknownMember)));
                }
                stored.push((name, map.next_value::<&RawValue>()?.get()));
            }
        }
        if let Some(revision) = pass.later.filter(|_| !stored.is_empty()) {
            values.push((MEMBERS, Value::later(revision, &object(&stored))));
        }
        for field in fields.iter().filter(|field| is_selected(field) && fields::is_always_there(field)) {
            if !values.iter().any(|(tag, _)| *tag == field.tag) {
                check_absent(field).map_err(|fault| pass.fail(fault))?;
            }
        }
        Ok(values.into_iter().collect())
    }
}

impl Content {
    /// Reads a member of a record that is not a field; false if the member is none.
    fn read<'j, M: MapAccess<'j>>(
        &mut self,
        name: &str,
        selection: Option<&Selection>,
        map: &mut M,
        pass: &Pass,
    ) -> Result<bool, M::Error> {
        let failed = |fault| pass.fail(fault);
        match name {
            IDENTIFIER if selection.is_some() => {
                map.next_value::<IgnoredAny>()?;
            }
            EXTENSION if selection.is_some_and(|selection| !selection.has_extension()) => {
                map.next_value::<IgnoredAny>()?;
            }
            META => self.meta = Some(take_meta(map.next_value().map_err(pass.within(META))?).map_err(failed)?),
            IDENTIFIER => {
                let stored: Vec<StoredIdentifier<'j>> = map.next_value().map_err(pass.within(IDENTIFIER))?;
                self.identifiers = stored.into_iter().map(take_identifier).collect::<Result<_, _>>().map_err(failed)?;
            }
            EXTENSION => {
                let extension = take_extension(map.next_value::<&RawValue>()?.get());
                self.extension = extension.ok_or_else(|| failed(Fault::field(EXTENSION)))?;
            }
            REVISION => self.revision = map.next_value().map_err(pass.within(REVISION))?,
            _ => return Ok(false),
        }
        Ok(true)
    }
}

fn take_meta(StoredMeta { version_id, last_updated, source }: StoredMeta<'_>) -> Result<RecordMeta, Fault> {
    let of = |part: &'static str| move || Fault::field(part).within(META);
    let version = version_id.and_then(|version| version.get().parse().ok()).ok_or_else(of("version_id"))?;
    let last_updated = last_updated.and_then(|at| take_string(at.get())?.parse::<Timestamp>().ok());
    let last_updated = last_updated.filter(|at| instant::as_stored(*at) == *at).ok_or_else(of("last_updated"))?;
    let client = |source: &RawValue| ClientId::parse(&take_string(source.get())?).ok();
    let source = source.map(|source| client(source).ok_or_else(of("source"))).transpose()?;
    Ok(RecordMeta { version: VersionId(version), last_updated, source })
}

fn take_identifier(StoredIdentifier { system, value, period }: StoredIdentifier<'_>) -> Result<Identifier, Fault> {
    let of = |part: &'static str| move || Fault::field(part).within(IDENTIFIER);
    let system = system.and_then(|text| SystemUri::parse(&take_text(text.get())?).ok()).ok_or_else(of("system"))?;
    let value = value.and_then(|text| IdentifierValue::parse(&take_text(text.get())?).ok()).ok_or_else(of("value"))?;
    let period = period.map(|period| take_period(period.get()).ok_or_else(of("period"))).transpose()?;
    Ok(Identifier { key: IdentifierKey { system, value }, period })
}

fn take_period(json: &str) -> Option<Period> {
    let [start, end] = named(json, ["start", "end"])?;
    let day = |day: Option<&str>| day.map_or(Some(None), |day| take_day(day).map(Some));
    Some(Period { start: day(start)?, end: day(end)? })
}

/// Reads values that the binary form stored under tags. A tag is a field of this program if it knows the revision.
fn take_unknown(
    fields: &'static [Field],
    json: &str,
    later: Option<u16>,
    to: &mut Vec<(Tag, Value)>,
) -> Result<(), Fault> {
    for (name, digits) in members(json).ok_or_else(|| Fault::field(UNKNOWN))? {
        let tag = name.parse().map(Tag).ok().filter(|tag| *tag != MEMBERS).ok_or_else(|| Fault::field(UNKNOWN))?;
        let bytes =
            take_string(digits).and_then(|digits| hexadecimal::decode(&digits)).ok_or_else(|| Fault::field(UNKNOWN))?;
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

/// Reads members that a program without their fields preserved.
pub(in crate::record) fn stored_members(fields: &'static [Field], json: &[u8]) -> Result<Vec<(Tag, Value)>, Fault> {
    let json = str::from_utf8(json).map_err(|_| Fault::invalid())?;
    let read = |(name, value): (&str, &str)| {
        let field = fields.iter().find(|field| field.name == name);
        let field = field.ok_or_else(|| Fault::new(Problem::UnknownMember))?;
        let pass = Pass::new(None);
        let read = pass.read(Single { kind: &field.kind, pass: &pass }, value);
        Ok((field.tag, read.map_err(|fault| fault.within(field.name))?))
    };
    members(json).ok_or_else(Fault::invalid)?.into_iter().map(read).collect()
}

/// Reads the value of a field.
#[derive(Clone, Copy)]
struct Single<'p> {
    kind: &'static Kind,
    pass: &'p Pass,
}

impl<'j> DeserializeSeed<'j> for Single<'_> {
    type Value = Value;

    fn deserialize<D: Deserializer<'j>>(self, deserializer: D) -> Result<Value, D::Error> {
        let Self { kind, pass } = self;
        match kind {
            Kind::List { of, .. } => deserializer.deserialize_seq(Items(Single { kind: of, pass })),
            Kind::Struct(part) => Object { fields: part.fields, content: None, selection: None, pass }
                .deserialize(deserializer)
                .map(Value::Struct),
            Kind::Code(_) | Kind::ModuleCode => {
                StoredCode::deserialize(deserializer).map(|code| Value::Code(code.into()))
            }
            _ => {
                let json = <&RawValue>::deserialize(deserializer)?;
                take_single(kind, json.get()).ok_or_else(|| pass.fail(Fault::invalid()))
            }
        }
    }
}

/// Reads the items of a list.
struct Items<'p>(Single<'p>);

impl<'j> Visitor<'j> for Items<'_> {
    type Value = Value;

    fn expecting(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("a list")
    }

    fn visit_seq<A: SeqAccess<'j>>(self, mut list: A) -> Result<Value, A::Error> {
        let mut items = Vec::new();
        while let Some(item) = list.next_element_seed(self.0)? {
            items.push(item);
        }
        Ok(Value::List(items))
    }
}

/// Returns a value that is neither list, part nor code; `None` if the JSON is not one.
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
        Kind::Reference(kinds) => {
            let [kind, id] = named(json, ["kind", "id"])?;
            let name = take_string(kind?)?;
            let kind = *kinds.iter().find(|kind| kind.resource().name() == name)?;
            Value::Reference(Reference { kind, id: RecordId(id?.parse().ok()?) })
        }
        Kind::ConsentId => Value::ConsentId(ConsentId::parse(&take_string(json)?).ok()?),
        Kind::Photo => {
            let [digest, length] = named(json, ["digest", "length"])?;
            let digest = PhotoDigest(hexadecimal::decode(&take_string(digest?)?)?.try_into().ok()?);
            Value::Photo(Box::new(PhotoReference { digest, length: length?.parse().ok()? }))
        }
        Kind::List { .. } | Kind::Struct(_) | Kind::Code(_) | Kind::ModuleCode => return None,
    })
}

fn take_extension(json: &str) -> Option<Extension> {
    let mut fields: Vec<(ExtensionPath, ExtensionContent)> = Vec::new();
    for (path, content) in members(json)? {
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
