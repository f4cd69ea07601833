//! Shapes of records, from the schema: goes with `dto/field.rs` and `dto/record.rs`.

use std::collections::BTreeMap;

use daftar_api_types::public::eligibility::EXPRESSION_BYTES_MAX;
use utoipa::openapi::schema::{KnownFormat, ObjectBuilder, SchemaFormat, Type};

use super::shape::{
    self, Members, Shape, about, any_of, boolean, date, list, named, number, text, whole, word, written,
};
use super::shared::{
    code_of, code_sent_of, extension, extension_sent, reference_forms, reference_sent, reference_to, type_sent, uuid,
};
use crate::api::dto::field::Level;
use daftar_domain::consent::ConsentStatus;
use daftar_domain::extension::{EXTENSION, ExtensionFields};
use daftar_domain::field::{ALWAYS_SHOWN, computed, fields_of};
use daftar_domain::organization::ORGANIZATION_CHARACTERS_MAX;
use daftar_domain::record::RecordKind;
use daftar_domain::schema::{self, Field, Kind, Struct};

/// The shapes of the parts of records, as answers have them and, with `Sent` behind the name, as requests write them.
#[must_use]
pub fn shapes() -> Vec<(String, Shape)> {
    let mut parts = BTreeMap::new();
    RecordKind::ALL.into_iter().for_each(|kind| gather(schema::fields(kind), &mut parts));
    let shapes = parts.into_values().flat_map(|part| {
        let answered = Members::answered(part.about);
        let answered = match part.fields {
            // No request can ask for the part without it.
            [only] if only.required.is_some() => answered.needs(only.name, value_answered(&only.kind, Level::Part)),
            fields => fields_answered(answered, fields.iter(), Level::Part),
        };
        let sent = fields_sent(Members::sent(part.about), part.fields.iter(), Level::Part);
        [(part.name.to_owned(), Shape::from(answered)), (format!("{}Sent", part.name), Shape::from(sent))]
    });
    shapes.collect()
}

fn gather(fields: &'static [Field], parts: &mut BTreeMap<&'static str, &'static Struct>) {
    for field in fields {
        if let Kind::Struct(part) | Kind::List { of: Kind::Struct(part), .. } = &field.kind {
            parts.insert(part.name, *part);
            gather(part.fields, parts);
        }
    }
}

/// A kind of record as answers have it.
#[must_use]
pub fn answered(kind: RecordKind, description: &str, declared: &ExtensionFields) -> Shape {
    let names = fields_of(kind.resource());
    let mut members = Members::answered(description).needs("type", word([kind.name()]));
    let identifiers = list(named("Identifier"));
    members = match kind {
        RecordKind::Individual | RecordKind::Group | RecordKind::Program => members.needs("identifier", identifiers),
        RecordKind::ProgramMembership => members.may("identifier", identifiers),
        RecordKind::Consent => members,
    };
    members = fields_answered(members, schema::fields(kind).iter(), Level::Record);
    if names.contains(&EXTENSION) {
        members = members.may(EXTENSION, extension(declared));
    }
    if let (Some(name), Some(shape)) = (computed(kind), computed_shape(kind)) {
        members = members.may(name, shape);
    }
    members.needs("meta", named("Meta")).into()
}

/// The member that the server computes.
fn computed_shape(kind: RecordKind) -> Option<Shape> {
    match kind {
        RecordKind::Individual => {
            let places = list(named("Place"));
            Some(places.description(Some("Only where one person is read, with `group:read`.")).into())
        }
        RecordKind::Group => Some(whole(0).description(Some("How many active members there are today.")).into()),
        RecordKind::Consent => {
            let all = [ConsentStatus::Given, ConsentStatus::Withdrawn, ConsentStatus::Expired];
            Some(word(all.map(ConsentStatus::name)).into())
        }
        RecordKind::Program | RecordKind::ProgramMembership => None,
    }
}

/// Every member of a kind of record that a request may have beside the identifiers.
#[must_use]
pub fn sent(members: Members, kind: RecordKind, declared: &ExtensionFields) -> Members {
    let mut members = members.may_each(type_sent(kind)).may("meta", shape::ignored());
    members = fields_sent(members, schema::fields(kind).iter(), Level::Record);
    if fields_of(kind.resource()).contains(&EXTENSION) {
        members = members.may(EXTENSION, extension_sent(declared));
    }
    match computed(kind) {
        Some(name) => members.may(name, shape::ignored()),
        None => members,
    }
}

/// Fields as answers have them. Only what always stays is always there: a client sees some fields, and asks for parts.
pub fn fields_answered(members: Members, fields: impl Iterator<Item = &'static Field>, level: Level) -> Members {
    fields.filter(|field| !field.is_internal).fold(members, |members, field| {
        let shape = about(value_answered(&field.kind, level), field.about);
        let is_always_there = level == Level::Record && ALWAYS_SHOWN.contains(&field.name);
        if is_always_there { members.needs(field.name, shape) } else { members.may(field.name, shape) }
    })
}

/// Fields as requests write them.
pub fn fields_sent(members: Members, fields: impl Iterator<Item = &'static Field>, level: Level) -> Members {
    let is_sent = |field: &&Field| !field.is_internal && !matches!(field.kind, Kind::ConsentId);
    fields.filter(is_sent).fold(members, |members, field| {
        let shape = about(value_sent(&field.kind, level), field.about);
        if field.required.is_some() { members.needs(field.name, shape) } else { members.may(field.name, shape) }
    })
}

/// A value as requests write it.
#[must_use]
pub fn value_sent(kind: &'static Kind, level: Level) -> Shape {
    match kind {
        Kind::Boolean => boolean().into(),
        Kind::Integer => integer().format(Some(SchemaFormat::KnownFormat(KnownFormat::Int64))).into(),
        Kind::Number => number().into(),
        Kind::Count => whole(1).maximum(Some(f64::from(u32::MAX))).into(),
        Kind::Amount => number().minimum(Some(0.0)).into(),
        Kind::Text(bytes_max) => written(*bytes_max).into(),
        Kind::Organization => written(4 * ORGANIZATION_CHARACTERS_MAX).into(),
        Kind::Expression => shape::plain().max_length(Some(EXPRESSION_BYTES_MAX)).into(),
        Kind::FieldName => text().into(),
        Kind::Date => date().into(),
        Kind::Word(words) => word(words.iter().copied()).into(),
        Kind::Code(field) => code_sent_of(*field),
        Kind::ModuleCode => named("CodeSent").into(),
        Kind::Reference(kinds) => match (level, kinds) {
            (Level::Record, kinds) => any_of([reference_sent(kinds), reference_to(kinds)]).into(),
            (Level::Part, [kind]) => named(&format!("{kind}ReferenceSent")).into(),
            (Level::Part, kinds) => reference_to(kinds),
        },
        Kind::ConsentId => uuid(),
        Kind::Photo => about(shape::base64(), "A picture, of at most 5,000,000 bytes."),
        Kind::List { of, items_max } => list(value_sent(of, Level::Part)).max_items(Some(*items_max)).into(),
        Kind::Struct(part) => named(&format!("{}Sent", part.name)).into(),
    }
}

/// A value as answers have it.
#[must_use]
pub fn value_answered(kind: &'static Kind, level: Level) -> Shape {
    match kind {
        Kind::Boolean => boolean().into(),
        Kind::Integer => integer().into(),
        Kind::Number => number().into(),
        Kind::Count => whole(1).into(),
        Kind::Amount => number().minimum(Some(0.0)).into(),
        Kind::Text(_) | Kind::Organization | Kind::Expression | Kind::FieldName => text().into(),
        Kind::Date => date().into(),
        Kind::Word(words) => word(words.iter().copied()).into(),
        Kind::Code(field) => code_of(*field),
        Kind::ModuleCode => named("Code").into(),
        Kind::Reference(kinds) => match level {
            Level::Record => about(text(), &reference_forms(kinds)),
            Level::Part => named("Reference").into(),
        },
        Kind::ConsentId => uuid(),
        Kind::Photo => about(text(), "In base64; only where one person is read."),
        Kind::List { of, .. } => list(value_answered(of, Level::Part)).into(),
        Kind::Struct(part) => named(part.name).into(),
    }
}

fn integer() -> ObjectBuilder {
    ObjectBuilder::new().schema_type(Type::Integer)
}
