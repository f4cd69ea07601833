//! Records generated from the schema, with all of its fields.

use jiff::Timestamp;
use jiff::civil::Date;
use proptest::collection::vec;
use proptest::option;
use proptest::prelude::*;

use crate::record::fields::is_always_there;
use crate::record::json::MEMBERS;
use daftar_domain::calendar::{Period, date_from_days};
use daftar_domain::code::CodedValue;
use daftar_domain::consent::ConsentId;
use daftar_domain::extension::{Extension, ExtensionContent, ExtensionValue};
use daftar_domain::identifier::{Identifier, IdentifierKey};
use daftar_domain::manifest::ExtensionPath;
use daftar_domain::photo::{PhotoDigest, PhotoReference};
use daftar_domain::record::{Fields, Record, RecordId, RecordMeta, RecordType, VersionId};
use daftar_domain::schema::{self, Field, Kind, Tag};
use daftar_domain::value::{Reference, Value, Values};

use super::parts::{client_id, coded};

/// Any record of a type that can be stored.
pub fn any_record<T: RecordType>() -> impl Strategy<Value = Record<Fields<T>>> {
    record_of(any_values(schema::fields(T::KIND), None))
}

/// As [`any_record`], with data that a program of a later schema revision may have stored in the record and in its
/// parts.
pub fn any_newer_record<T: RecordType>(revision: u16) -> impl Strategy<Value = Record<Fields<T>>> {
    record_of(any_values(schema::fields(T::KIND), Some(revision)))
}

fn record_of<T: RecordType>(values: BoxedStrategy<Values>) -> impl Strategy<Value = Record<Fields<T>>> {
    let identifiers = vec(any_identifier(), 0..4);
    (any_meta(), identifiers, values, any_extension()).prop_map(|(meta, identifiers, values, extension)| Record {
        id: RecordId(9),
        meta,
        details: Fields::new(identifiers, values, extension),
    })
}

/// Any values of these fields and, with a later revision, also under unknown tags.
fn any_values(fields: &'static [Field], later: Option<u16>) -> BoxedStrategy<Values> {
    let any_field = |field: &'static Field| {
        let value = any_value(&field.kind, later).prop_map(move |value| (field.tag, value));
        if is_always_there(field) { value.prop_map(Some).boxed() } else { option::of(value).boxed() }
    };
    let each: Vec<_> = fields.iter().map(any_field).collect();
    let unknown = later.map_or_else(|| Just(Vec::new()).boxed(), |later| vec(any_later(later), 0..3).boxed());
    let joined = (each, unknown).prop_map(move |(values, unknown)| {
        let unknown = unknown.into_iter().filter(|(tag, _)| schema::row(fields, *tag).is_none());
        values.into_iter().flatten().chain(unknown).collect::<Values>()
    });
    joined.boxed()
}

fn any_later(revision: u16) -> impl Strategy<Value = (Tag, Value)> {
    let tag = prop_oneof![1..60_u16, 1..MEMBERS.0].prop_map(Tag);
    (tag, vec(any::<u8>(), 0..6)).prop_map(move |(tag, bytes)| (tag, Value::later(revision, &bytes)))
}

fn any_value(kind: &'static Kind, later: Option<u16>) -> BoxedStrategy<Value> {
    let text = |text: String| Value::Text(text.into());
    match kind {
        Kind::Boolean => any::<bool>().prop_map(Value::Boolean).boxed(),
        Kind::Integer => any::<i64>().prop_map(Value::Integer).boxed(),
        Kind::Count => (1..=i64::from(u32::MAX)).prop_map(Value::Integer).boxed(),
        Kind::Number => (-1.0e12..1.0e12_f64).prop_map(Value::Number).boxed(),
        Kind::Amount => (0.0..1.0e12_f64).prop_map(Value::Number).boxed(),
        Kind::Text(_) | Kind::Expression => "\\PC{0,12}".prop_map(text).boxed(),
        Kind::Organization => "[A-Z][a-z]{0,9}".prop_map(text).boxed(),
        Kind::FieldName => "[a-z_]{1,12}".prop_map(text).boxed(),
        Kind::Date => any_day().prop_map(Value::Date).boxed(),
        Kind::Word(words) => (0..words.len() as u8).prop_map(Value::Word).boxed(),
        Kind::Code(_) | Kind::ModuleCode => any_coded().prop_map(Value::Code).boxed(),
        Kind::Reference(kinds) => (prop::sample::select(kinds.to_vec()), any::<u64>())
            .prop_map(|(kind, id)| Value::Reference(Reference { kind, id: RecordId(id) }))
            .boxed(),
        Kind::ConsentId => any::<[u8; 16]>().prop_map(|id| Value::ConsentId(ConsentId::from_bytes(id))).boxed(),
        Kind::Photo => (any::<[u8; 32]>(), any::<u32>())
            .prop_map(|(digest, length)| Value::Photo(Box::new(PhotoReference { digest: PhotoDigest(digest), length })))
            .boxed(),
        Kind::List { of, .. } => vec(any_value(of, later), 0..4).prop_map(Value::List).boxed(),
        Kind::Struct(part) => any_values(part.fields, later).prop_map(Value::Struct).boxed(),
    }
}

/// The values, and a value in every other field of bodies.
pub(super) fn filled(mut values: Values, fields: &'static [Field]) -> Values {
    for field in fields.iter().filter(|field| !field.is_internal) {
        if values.value(field.tag).is_none() {
            values.put(field.tag, Some(some_value(&field.kind)));
        }
    }
    values
}

/// A value, the same for each call.
fn some_value(kind: &'static Kind) -> Value {
    match kind {
        Kind::Boolean => Value::Boolean(true),
        Kind::Integer | Kind::Count => Value::Integer(300),
        Kind::Number | Kind::Amount => Value::Number(1.5),
        Kind::Text(_) | Kind::Organization | Kind::Expression | Kind::FieldName => Value::Text("something".into()),
        Kind::Date => Value::Date(Date::constant(2020, 2, 29)),
        Kind::Word(_) => Value::Word(0),
        Kind::Code(_) | Kind::ModuleCode => Value::Code(coded(3, 1)),
        Kind::Reference(kinds) => Value::Reference(Reference { kind: *kinds.first().unwrap(), id: RecordId(7) }),
        Kind::ConsentId => Value::ConsentId(ConsentId::from_bytes([7; 16])),
        Kind::Photo => Value::Photo(Box::new(PhotoReference { digest: PhotoDigest([7; 32]), length: 300 })),
        Kind::List { of, .. } => Value::List(vec![some_value(of)]),
        Kind::Struct(part) => Value::Struct(filled(Values::default(), part.fields)),
    }
}

fn any_coded() -> impl Strategy<Value = CodedValue> {
    (any::<u32>(), any::<u32>()).prop_map(|(number, edition)| coded(number, edition))
}

fn any_day() -> impl Strategy<Value = Date> {
    (-62_091..376_200_i32).prop_map(|days| date_from_days(days).unwrap())
}

fn any_period() -> impl Strategy<Value = Period> {
    (option::of(any_day()), option::of(any_day())).prop_map(|(start, end)| Period { start, end })
}

fn any_identifier() -> impl Strategy<Value = Identifier> {
    ("[a-z]{1,9}:[!-{]{1,20}\\|[^\\p{C}\\s]{1,20}", option::of(any_period()))
        .prop_map(|(key, period)| Identifier { key: IdentifierKey::parse(&key).unwrap(), period })
}

fn any_meta() -> impl Strategy<Value = RecordMeta> {
    (any::<u64>(), -60_000_000_000_i64..4_000_000_000_000, option::of("[a-zA-Z0-9_-]{1,64}")).prop_map(
        |(version, at, source)| RecordMeta {
            version: VersionId(version),
            last_updated: Timestamp::from_millisecond(at).unwrap(),
            source: source.map(|source| client_id(&source)),
        },
    )
}

fn any_extension_value() -> impl Strategy<Value = ExtensionValue> {
    prop_oneof![
        any::<bool>().prop_map(ExtensionValue::Boolean),
        any::<i64>().prop_map(ExtensionValue::Integer),
        (-1.0e12..1.0e12_f64).prop_map(ExtensionValue::Number),
        "\\PC{0,20}".prop_map(ExtensionValue::Text),
        any_day().prop_map(ExtensionValue::Date),
        any_coded().prop_map(ExtensionValue::Code),
    ]
}

fn any_extension() -> impl Strategy<Value = Extension> {
    let content = prop_oneof![
        any_extension_value().prop_map(ExtensionContent::One),
        vec(any_extension_value(), 0..4).prop_map(ExtensionContent::Many),
    ];
    vec(("[a-z]{1,4}\\.[a-z_]{1,4}x", content), 0..4).prop_map(|fields| {
        let parsed =
            fields.into_iter().filter_map(|(path, content)| Some((ExtensionPath::parse(&path).ok()?, content)));
        Extension::new(parsed.collect())
    })
}
