//! Stored form of records of every kind: their values by the tags of the schema ([`daftar_domain::schema`]). The key is
//! not in the value: it is in the store's key. `wire` defines the encoding of numbers, texts and tagged values.
//!
//! The parts are, in order:
//! - version of this form: one byte;
//! - revision of the schema: number;
//! - meta: version of the record: number; last update in milliseconds: signed number; client: text, empty if none;
//! - identifiers: their number; of each its system and value: texts, and its period: a byte (1 if there is one, plus 2
//!   with a first day, plus 4 with a last day) and these days;
//! - values: their length, and the tagged values in the order of the tags; a list is its items, each after its length,
//!   a part its tagged values;
//! - fields of modules, until the checksum: path, 0 for a single value or the number of values plus 1, and of each
//!   value its type, a byte, and the value;
//! - checksum: CRC-32 of all bytes before, four bytes, little endian.
//!
//! **Invariant:** data stored by a newer program survives a rewrite by this one. A tag that this program's schema does
//! not have is preserved as [`Value::Later`] if the record was stored under a later revision, and the record is stored
//! again under that revision while it has such a value: a program that knows the revision knows every tag of the
//! record. An unknown tag under a revision that this program knows is damage. A program that reads stored JSON
//! ([`json`]) knows no tags of unknown fields: it stores their members under the tag [`json::MEMBERS`], and a program
//! that knows the revision finds the fields in them.
//!
//! **Invariant:** an invalid value of a known field is rejected under any revision: a program that is older than a
//! word, or than a kind of record in a reference, does not read records that contain it, and reports the reason.
//!
//! **Invariant:** a required field is in every stored record: a field that becomes required later would make older
//! records unreadable.

use daftar_domain::calendar::Period;
use daftar_domain::client::ClientId;
use daftar_domain::consent::ConsentId;
use daftar_domain::extension::{EXTENSION, Extension, ExtensionContent, ExtensionValue};
use daftar_domain::field::{FieldSet, extension_key};
use daftar_domain::identifier::{Identifier, IdentifierKey, IdentifierValue, SystemUri};
use daftar_domain::manifest::{ExtensionFieldKind, ExtensionPath};
use daftar_domain::organization::Organization;
use daftar_domain::photo::{PhotoDigest, PhotoReference};
use daftar_domain::record::{Fields, Record, RecordId, RecordKind, RecordMeta, RecordType, VersionId};
use daftar_domain::schema::{self, Field, Kind, Tag};
use daftar_domain::value::{Reference, Value, Values};

use super::wire::{Bytes, prefix_length, put_code, put_day, put_number, put_signed, put_tagged, put_text};
use super::{Unreadable, VALUE_BYTES_MAX, instant, json};
use crate::StoreError;

/// The version of the form.
const VERSION: u8 = 1;

/// The flags of an identifier's period: its presence, and the presence of its days.
const HAS_PERIOD: u8 = 1;
const HAS_START: u8 = 2;
const HAS_END: u8 = 4;

/// The name of a kind of record in messages.
pub(super) fn called(kind: RecordKind) -> &'static str {
    match kind {
        RecordKind::Individual => "individual",
        RecordKind::Group => "group",
        RecordKind::Program => "program",
        RecordKind::ProgramMembership => "program membership",
        RecordKind::Consent => "consent",
    }
}

/// True if every stored record, or part, has that field. The server assigns the id of a consent, so clients do not see
/// it as required.
pub(super) fn is_always_there(field: &Field) -> bool {
    field.required.is_some() || matches!(field.kind, Kind::ConsentId)
}

/// Encodes a record.
///
/// # Errors
/// [`StoreError::TooLarge`] if it exceeds the limit; [`StoreError::Corrupt`] if a value does not match its field.
pub fn encode<T: RecordType>(record: &Record<Fields<T>>) -> Result<Vec<u8>, StoreError> {
    let (what, details) = (called(T::KIND), &record.details);
    let revision = details.values.later_revision().unwrap_or_default().max(schema::REVISION);
    let mut to = Vec::with_capacity(256);
    to.push(VERSION);
    put_number(&mut to, u64::from(revision));
    put_meta(&mut to, &record.meta);
    put_identifiers(&mut to, &details.identifiers);
    let at = to.len();
    put_values(&mut to, schema::fields(T::KIND), &details.values)
        .map_err(|fault| StoreError::Corrupt { what, reason: format!("it cannot be written: {}", fault.sentence()) })?;
    prefix_length(&mut to, at);
    put_extension(&mut to, &details.extension);
    seal(&mut to);
    if to.len() > VALUE_BYTES_MAX {
        return Err(StoreError::TooLarge { what, bytes_max: VALUE_BYTES_MAX });
    }
    Ok(to)
}

/// The fields of records of one kind that a reader requires.
#[derive(Debug, Clone)]
pub struct Selection {
    tags: Vec<Tag>,
    has_extension: bool,
}

impl Selection {
    /// Returns the selection of these fields; `None` if they are all fields.
    #[must_use]
    pub fn of(kind: RecordKind, fields: &FieldSet) -> Option<Self> {
        let FieldSet::Only(names) = fields else { return None };
        let selected = schema::fields(kind).iter().filter(|field| names.contains(field.name));
        let has_extension =
            names.iter().any(|name| name.as_str() == EXTENSION || extension_key(name.as_str()).is_some());
        Some(Self { tags: selected.map(|field| field.tag).collect(), has_extension })
    }

    /// True if that field is selected.
    pub(super) fn has(&self, field: Tag) -> bool {
        self.tags.contains(&field)
    }

    /// True if a field of a module is selected.
    pub(super) fn has_extension(&self) -> bool {
        self.has_extension
    }
}

/// Decodes a record with that key.
///
/// # Errors
/// [`StoreError::Corrupt`] if the bytes cannot be read.
pub fn decode<T: RecordType>(id: RecordId, bytes: &[u8]) -> Result<Record<Fields<T>>, StoreError> {
    decode_selected(id, bytes, None)
}

/// Decodes the selected fields of a record with that key, without its identifiers; the complete record if nothing is
/// selected. The checksum of all bytes is checked.
///
/// # Errors
/// [`StoreError::Corrupt`] if the bytes cannot be read.
pub fn decode_selected<T: RecordType>(
    id: RecordId,
    bytes: &[u8],
    selection: Option<&Selection>,
) -> Result<Record<Fields<T>>, StoreError> {
    let read = content(bytes).and_then(|content| take_record(T::KIND, content, selection).map_err(Unreadable::from));
    let (meta, details) = match read {
        Ok((meta, identifiers, values, extension)) => (meta, Fields::new(identifiers, values, extension)),
        Err(Unreadable(reason)) => return Err(StoreError::Corrupt { what: called(T::KIND), reason }),
    };
    Ok(Record { id, meta, details })
}

/// Appends the checksum.
pub(super) fn seal(to: &mut Vec<u8>) {
    let checksum = crc32fast::hash(to);
    to.extend_from_slice(&checksum.to_le_bytes());
}

/// The bytes between the version and the checksum.
fn content(bytes: &[u8]) -> Result<Bytes<'_>, Unreadable> {
    let Some(version) = bytes.first() else { return Err(Unreadable("it is empty".to_owned())) };
    if *version != VERSION {
        return Err(Unreadable(format!("its version is {version}, and this daftar reads {VERSION}")));
    }
    let sound = bytes.split_last_chunk::<4>().filter(|(all, sum)| crc32fast::hash(all) == u32::from_le_bytes(**sum));
    let content = sound.and_then(|(all, _)| all.get(1..));
    content
        .map(Bytes)
        .ok_or_else(|| Unreadable("its checksum does not match: some of its bytes were changed".to_owned()))
}

/// Reason why bytes are no record: the path of the field, innermost first, and the problem. Never contains values.
pub(super) struct Fault {
    path: Vec<&'static str>,
    problem: Problem,
    /// The revision of the record, if it is a later one.
    later: Option<u16>,
}

pub(super) enum Problem {
    Invalid,
    Missing,
    Unordered,
    Unknown(Tag),
    UnknownMember,
}

impl Fault {
    pub(super) fn new(problem: Problem) -> Self {
        Self { path: Vec::new(), problem, later: None }
    }

    pub(super) fn invalid() -> Self {
        Self::new(Problem::Invalid)
    }

    pub(super) fn field(name: &'static str) -> Self {
        Self::invalid().within(name)
    }

    /// The same for a record of that revision.
    pub(super) fn of(self, later: Option<u16>) -> Self {
        Self { later, ..self }
    }

    pub(super) fn within(mut self, name: &'static str) -> Self {
        self.path.push(name);
        self
    }

    pub(super) fn sentence(&self) -> String {
        let path: Vec<&str> = self.path.iter().rev().copied().collect();
        let place = if path.is_empty() { "it".to_owned() } else { format!("its `{}`", path.join(".")) };
        match self.problem {
            Problem::Invalid => match self.later {
                None => format!("{place} is not valid"),
                Some(later) => format!(
                    "{place} is not valid here: it was stored under revision {later} of the schema, and this daftar knows {}",
                    schema::REVISION
                ),
            },
            Problem::Missing => format!("{place} is missing"),
            Problem::Unordered => format!("{place} has values that are not in the order of their tags"),
            Problem::Unknown(tag) => {
                format!("{place} has a value with the tag {tag}, which its revision of the schema does not have")
            }
            Problem::UnknownMember => format!("{place} has a member that its revision of the schema does not have"),
        }
    }
}

impl From<Fault> for Unreadable {
    fn from(fault: Fault) -> Self {
        Self(fault.sentence())
    }
}

fn put_meta(to: &mut Vec<u8>, meta: &RecordMeta) {
    put_number(to, meta.version.0);
    put_signed(to, instant::milliseconds(meta.last_updated));
    put_text(to, meta.source.as_ref().map_or("", ClientId::as_str));
}

fn put_identifiers(to: &mut Vec<u8>, identifiers: &[Identifier]) {
    put_number(to, identifiers.len() as u64);
    for Identifier { key, period } in identifiers {
        put_text(to, key.system.as_str());
        put_text(to, key.value.as_str());
        let Some(Period { start, end }) = *period else {
            to.push(0);
            continue;
        };
        let (has_start, has_end) = (start.map_or(0, |_| HAS_START), end.map_or(0, |_| HAS_END));
        to.push(HAS_PERIOD | has_start | has_end);
        start.into_iter().chain(end).for_each(|day| put_day(to, day));
    }
}

fn put_values(to: &mut Vec<u8>, fields: &'static [Field], values: &Values) -> Result<(), Fault> {
    for (tag, value) in values.iter() {
        put_tagged(to, tag, |to| match (value, schema::row(fields, tag)) {
            (Value::Later(later), _) => {
                to.extend_from_slice(&later.bytes);
                Ok(())
            }
            (_, Some(field)) => put_value(to, &field.kind, value).map_err(|fault| fault.within(field.name)),
            (_, None) => Err(Fault::new(Problem::Unknown(tag))),
        })?;
    }
    Ok(())
}

fn put_value(to: &mut Vec<u8>, kind: &'static Kind, value: &Value) -> Result<(), Fault> {
    match (kind, value) {
        (Kind::Boolean, Value::Boolean(value)) => to.push(u8::from(*value)),
        (Kind::Integer | Kind::Count, Value::Integer(value)) => put_signed(to, *value),
        (Kind::Number | Kind::Amount, Value::Number(value)) => to.extend_from_slice(&value.to_le_bytes()),
        (Kind::Text(_) | Kind::Organization | Kind::Expression | Kind::FieldName, Value::Text(text)) => {
            to.extend_from_slice(text.as_bytes());
        }
        (Kind::Date, Value::Date(day)) => put_day(to, *day),
        (Kind::Word(_), Value::Word(place)) => to.push(*place),
        (Kind::Code(_) | Kind::ModuleCode, Value::Code(code)) => put_code(to, *code),
        (Kind::Reference(kinds), Value::Reference(reference)) => {
            let place = kinds.iter().position(|kind| *kind == reference.kind).ok_or_else(Fault::invalid)?;
            put_number(to, reference.id.0);
            // The first kind is the default.
            if place > 0 {
                put_number(to, place as u64);
            }
        }
        (Kind::ConsentId, Value::ConsentId(id)) => to.extend_from_slice(&id.to_bytes()),
        (Kind::Photo, Value::Photo(photo)) => {
            to.extend_from_slice(&photo.digest.0);
            put_number(to, u64::from(photo.length));
        }
        (Kind::List { of, .. }, Value::List(items)) => {
            for item in items {
                let at = to.len();
                put_value(to, of, item)?;
                prefix_length(to, at);
            }
        }
        (Kind::Struct(part), Value::Struct(values)) => return put_values(to, part.fields, values),
        // The value does not match the field.
        _ => return Err(Fault::invalid()),
    }
    Ok(())
}

fn put_extension(to: &mut Vec<u8>, extension: &Extension) {
    for (path, content) in extension.iter() {
        put_text(to, path.as_str());
        let count = match content {
            ExtensionContent::One(_) => 0,
            ExtensionContent::Many(values) => (values.len() as u64).saturating_add(1),
        };
        put_number(to, count);
        content.values().iter().for_each(|value| put_extension_value(to, value));
    }
}

fn put_extension_value(to: &mut Vec<u8>, value: &ExtensionValue) {
    to.push(number_of(value.kind()));
    match value {
        ExtensionValue::Boolean(value) => to.push(u8::from(*value)),
        ExtensionValue::Integer(value) => put_signed(to, *value),
        ExtensionValue::Number(value) => to.extend_from_slice(&value.to_le_bytes()),
        ExtensionValue::Text(value) => put_text(to, value),
        ExtensionValue::Date(value) => put_day(to, *value),
        ExtensionValue::Code(value) => put_code(to, *value),
    }
}

/// The stored number of a type of module values.
fn number_of(kind: ExtensionFieldKind) -> u8 {
    match kind {
        ExtensionFieldKind::Boolean => 0,
        ExtensionFieldKind::Integer => 1,
        ExtensionFieldKind::Number => 2,
        ExtensionFieldKind::Text => 3,
        ExtensionFieldKind::Date => 4,
        ExtensionFieldKind::Coded => 5,
    }
}

/// The content of a record without its key.
type Content = (RecordMeta, Vec<Identifier>, Values, Extension);

fn take_record(kind: RecordKind, mut from: Bytes<'_>, selection: Option<&Selection>) -> Result<Content, Fault> {
    let revision = from.number().and_then(|revision| u16::try_from(revision).ok());
    let later = revision.ok_or_else(|| Fault::field("revision"))?;
    let later = (later > schema::REVISION).then_some(later);
    take_content(kind, from, later, selection).map_err(|fault| fault.of(later))
}

fn take_content(
    kind: RecordKind,
    mut from: Bytes<'_>,
    later: Option<u16>,
    selection: Option<&Selection>,
) -> Result<Content, Fault> {
    let meta = take_meta(&mut from)?;
    let identifiers = match selection {
        None => take_identifiers(&mut from)?,
        Some(_) => skip_identifiers(&mut from).map(|()| Vec::new()).ok_or_else(|| Fault::field("identifier"))?,
    };
    let values = from.prefixed().ok_or_else(Fault::invalid)?;
    let tags = selection.map(|selection| selection.tags.as_slice());
    let values = Reader { later }.values(schema::fields(kind), Bytes(values), tags)?;
    let extension = match selection {
        Some(selection) if !selection.has_extension => Extension::default(),
        _ => take_extension(from).ok_or_else(|| Fault::field("extension"))?,
    };
    Ok((meta, identifiers, values, extension))
}

fn take_meta(from: &mut Bytes<'_>) -> Result<RecordMeta, Fault> {
    let version = from.number().ok_or_else(|| Fault::field("version"))?;
    let last_updated = from.signed().and_then(|at| instant::instant(at).ok());
    let source = match from.text().ok_or_else(|| Fault::field("source"))? {
        "" => None,
        text => Some(ClientId::parse(text).map_err(|_| Fault::field("source"))?),
    };
    let last_updated = last_updated.ok_or_else(|| Fault::field("last_updated"))?;
    Ok(RecordMeta { version: VersionId(version), last_updated, source })
}

fn take_identifiers(from: &mut Bytes<'_>) -> Result<Vec<Identifier>, Fault> {
    let of = |part: &'static str| move || Fault::field(part).within("identifier");
    let count = from.number().and_then(|count| usize::try_from(count).ok());
    let count = count.ok_or_else(|| Fault::field("identifier"))?;
    // Each has at least three bytes.
    let mut identifiers = Vec::with_capacity(count.min(from.0.len() / 3));
    for _ in 0..count {
        let system = from.text().and_then(|text| SystemUri::parse(text).ok()).ok_or_else(of("system"))?;
        let value = from.text().and_then(|text| IdentifierValue::parse(text).ok()).ok_or_else(of("value"))?;
        let period = take_period(from).ok_or_else(of("period"))?;
        identifiers.push(Identifier { key: IdentifierKey { system, value }, period });
    }
    Ok(identifiers)
}

fn skip_identifiers(from: &mut Bytes<'_>) -> Option<()> {
    for _ in 0..from.number()? {
        from.prefixed()?;
        from.prefixed()?;
        take_period(from)?;
    }
    Some(())
}

fn take_period(from: &mut Bytes<'_>) -> Option<Option<Period>> {
    let has = from.byte()?;
    if has == 0 {
        return Some(None);
    }
    if has & HAS_PERIOD == 0 || has & !(HAS_PERIOD | HAS_START | HAS_END) != 0 {
        return None;
    }
    let start = if has & HAS_START == 0 { None } else { Some(from.day()?) };
    let end = if has & HAS_END == 0 { None } else { Some(from.day()?) };
    Some(Some(Period { start, end }))
}

/// Reads values by the rows of their fields.
pub(super) struct Reader {
    /// The revision of the record, if it is a later one: tags without a row belong to it.
    pub(super) later: Option<u16>,
}

impl Reader {
    /// Reads the values with these tags, or all.
    fn values(&self, fields: &'static [Field], mut from: Bytes<'_>, selected: Option<&[Tag]>) -> Result<Values, Fault> {
        let mut values = Vec::with_capacity(selected.map_or_else(|| from.count(Bytes::tagged), <[Tag]>::len));
        let mut rows = fields.iter().peekable();
        let mut last = None;
        while !from.is_empty() {
            let (tag, bytes) = from.tagged().ok_or_else(Fault::invalid)?;
            if last >= Some(tag) {
                return Err(Fault::new(Problem::Unordered));
            }
            last = Some(tag);
            while let Some(passed) = rows.next_if(|field| field.tag < tag) {
                check_absent(passed)?;
            }
            let row = rows.next_if(|field| field.tag == tag);
            if row.is_some() && selected.is_some_and(|selected| !selected.contains(&tag)) {
                continue;
            }
            let value = match (row, self.later) {
                (Some(field), _) => self.value(&field.kind, Bytes(bytes)).map_err(|fault| fault.within(field.name))?,
                (None, Some(revision)) => Value::later(revision, bytes),
                (None, None) if tag == json::MEMBERS => {
                    values.extend(json::stored_members(fields, bytes)?);
                    continue;
                }
                (None, None) => return Err(Fault::new(Problem::Unknown(tag))),
            };
            values.push((tag, value));
        }
        rows.try_for_each(check_absent)?;
        Ok(values.into_iter().collect())
    }

    pub(super) fn value(&self, kind: &'static Kind, bytes: Bytes<'_>) -> Result<Value, Fault> {
        match kind {
            Kind::List { of, .. } => self.items(of, bytes).map(Value::List),
            Kind::Struct(part) => self.values(part.fields, bytes, None).map(Value::Struct),
            _ => take_single(kind, bytes).ok_or_else(Fault::invalid),
        }
    }

    fn items(&self, of: &'static Kind, mut from: Bytes<'_>) -> Result<Vec<Value>, Fault> {
        let mut items = Vec::with_capacity(from.count(Bytes::prefixed));
        while !from.is_empty() {
            let item = from.prefixed().ok_or_else(Fault::invalid)?;
            items.push(self.value(of, Bytes(item))?);
        }
        Ok(items)
    }
}

/// Checks that a field may be absent.
pub(super) fn check_absent(field: &'static Field) -> Result<(), Fault> {
    if is_always_there(field) { Err(Fault::new(Problem::Missing).within(field.name)) } else { Ok(()) }
}

/// A value without nested values; none if the bytes are no such value, or more than one.
fn take_single(kind: &Kind, mut from: Bytes<'_>) -> Option<Value> {
    let value = match kind {
        Kind::Boolean => Value::Boolean(from.boolean()?),
        Kind::Integer => Value::Integer(from.signed()?),
        Kind::Count => Value::Integer(from.signed().filter(|count| (1..=i64::from(u32::MAX)).contains(count))?),
        Kind::Number => Value::Number(from.real()?),
        Kind::Amount => Value::Number(from.real().filter(|amount| *amount >= 0.0)?),
        Kind::Text(_) | Kind::Expression | Kind::FieldName => {
            Value::Text(std::str::from_utf8(from.take_rest()).ok()?.into())
        }
        Kind::Organization => {
            let name = Organization::parse(std::str::from_utf8(from.take_rest()).ok()?).ok()?;
            Value::Text(name.as_str().into())
        }
        Kind::Date => Value::Date(from.day()?),
        Kind::Word(words) => Value::Word(from.byte().filter(|place| usize::from(*place) < words.len())?),
        Kind::Code(_) | Kind::ModuleCode => Value::Code(from.code()?),
        Kind::Reference(kinds) => {
            let id = RecordId(from.number()?);
            let place = if from.is_empty() { 0 } else { usize::try_from(from.number()?).ok()? };
            Value::Reference(Reference { kind: *kinds.get(place)?, id })
        }
        Kind::ConsentId => Value::ConsentId(ConsentId::from_bytes(from.take(16)?.try_into().ok()?)),
        Kind::Photo => {
            let digest = PhotoDigest(from.take(32)?.try_into().ok()?);
            Value::Photo(Box::new(PhotoReference { digest, length: from.small_number()? }))
        }
        Kind::List { .. } | Kind::Struct(_) => return None,
    };
    from.is_empty().then_some(value)
}

fn take_extension(mut from: Bytes<'_>) -> Option<Extension> {
    let mut fields: Vec<(ExtensionPath, ExtensionContent)> = Vec::new();
    while !from.is_empty() {
        let path = ExtensionPath::parse(from.text()?).ok()?;
        if fields.last().is_some_and(|(before, _)| *before >= path) {
            return None;
        }
        let content = match usize::try_from(from.number()?).ok()?.checked_sub(1) {
            None => ExtensionContent::One(take_extension_value(&mut from)?),
            Some(count) => {
                let values = (0..count).map(|_| take_extension_value(&mut from));
                ExtensionContent::Many(values.collect::<Option<_>>()?)
            }
        };
        fields.push((path, content));
    }
    Some(Extension::new(fields))
}

fn take_extension_value(from: &mut Bytes<'_>) -> Option<ExtensionValue> {
    Some(match from.byte()? {
        0 => ExtensionValue::Boolean(from.boolean()?),
        1 => ExtensionValue::Integer(from.signed()?),
        2 => ExtensionValue::Number(from.real()?),
        3 => ExtensionValue::Text(from.text()?.to_owned()),
        4 => ExtensionValue::Date(from.day()?),
        5 => ExtensionValue::Code(from.code()?),
        _ => return None,
    })
}

#[cfg(test)]
mod tests;
