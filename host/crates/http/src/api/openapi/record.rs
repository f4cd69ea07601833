//! Shapes of records and of their parts, from the schema: goes with `dto/field.rs` and `dto/record.rs`.

use std::collections::BTreeMap;

use daftar_api_types::problem::Problem;
use daftar_api_types::public::eligibility::EXPRESSION_BYTES_MAX;
use daftar_api_types::public::page::{Links, Page, PageMeta};
use daftar_api_types::public::record as body;
use serde_json::Value;
use utoipa::openapi::RefOr;
use utoipa::openapi::schema::{Array, ArrayBuilder, KnownFormat, ObjectBuilder, SchemaFormat, Type};

use super::shape::{
    self, CODE_PATTERN, KEY_PATTERN, Members, SYSTEM_PATTERN, Shape, VALUE_PATTERN, about, any_of, boolean, by_name,
    date, list, named, needing, number, pattern, response, text, whole, word, written,
};
use crate::api::dto::field::Level;
use daftar_domain::code::{CODE_BYTES_MAX, NAMESPACE_BYTES_MAX};
use daftar_domain::consent::ConsentStatus;
use daftar_domain::extension::{EXTENSION, ExtensionFields, VALUES_MAX, kind_of};
use daftar_domain::field::{ALWAYS_SHOWN, computed, fields_of};
use daftar_domain::identifier::{SYSTEM_BYTES_MAX, VALUE_BYTES_MAX};
use daftar_domain::individual::LIST_ITEMS_MAX;
use daftar_domain::manifest::ExtensionField;
use daftar_domain::organization::ORGANIZATION_CHARACTERS_MAX;
use daftar_domain::record::RecordKind;
use daftar_domain::schema::{self, Field, Kind, Struct};
use daftar_domain::vocabulary::CodedField;

/// The shapes of the parts of records, as answers have them and, with `Sent` behind the name, as requests write them.
#[must_use]
pub fn part_shapes() -> Vec<(String, Shape)> {
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

/// The shapes of a kind of record whose records clients register and change: the record as answers have it, as a request writes it, and
/// its changes, with a description each; `fields` are those that installed modules add.
#[must_use]
pub fn of_kind(kind: RecordKind, descriptions: [&str; 3], fields: &ExtensionFields) -> Vec<(String, Shape)> {
    let identifiers = || list_sent(named("IdentifierSent")).min_items(Some(1));
    let [shown, written, changed] = descriptions;
    let written = sent(Members::sent(written), kind, fields).needs("identifier", identifiers());
    let changed = sent(Members::sent(changed), kind, fields).may_filled("identifier", identifiers());
    vec![
        (kind.name().to_owned(), answered(kind, shown, fields)),
        (format!("{kind}Sent"), written.into()),
        (format!("{kind}Patch"), changed.into()),
    ]
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

/// The shapes of this module, by name.
#[must_use]
pub fn shapes() -> Vec<(String, Shape)> {
    let own = [
        ("IdentifierSent", identifier_sent()),
        ("CodeSent", code_sent()),
        ("Receipt", receipt()),
        ("Reference", reference()),
        ("IndividualReferenceSent", reference_to(&[RecordKind::Individual])),
        ("GroupReferenceSent", reference_to(&[RecordKind::Group])),
    ];
    let own = by_name(own).into_iter();
    let bodies = [
        response::<body::Identifier<'_>>(),
        response::<body::Code<'_>>(),
        response::<body::Meta<'_>>(),
        response::<Links>(),
        response::<PageMeta>(),
        response::<Problem<'_>>(),
    ];
    own.chain(bodies.into_iter().flatten()).collect()
}

fn identifier_sent() -> Shape {
    let system = "What kind of identifier it is: a code of the vocabulary of ID types, or a system that the administrator registered.";
    Members::sent(
        "One of the names by which others know a record. Of one system and value there is one open identifier.",
    )
    .needs("system", pattern(SYSTEM_PATTERN).max_length(Some(SYSTEM_BYTES_MAX)).description(Some(system)))
    .needs(
        "value",
        pattern(VALUE_PATTERN).max_length(Some(VALUE_BYTES_MAX)).description(Some("The identifier itself.")),
    )
    .may("period", named("PeriodSent"))
    .into()
}

/// The forms in which a request writes a code.
fn code_sent() -> Shape {
    let namespace = || pattern(r"^[\x21\x22\x24-\x7B\x7D\x7E]+$").max_length(Some(NAMESPACE_BYTES_MAX));
    let bare = || pattern(r"^[^\x00-\x20\x7F-\xA0#\s]+$").max_length(Some(CODE_BYTES_MAX));
    let uri = || pattern(CODE_PATTERN).max_length(Some(CODE_URI_BYTES_MAX));
    let parts = Members::sent("Namespace and code.").needs("namespace", namespace()).needs("code", bare());
    let shown = Members::sent("A code as answers have it.").needs("uri", uri());
    let shown = shown.may("code", text()).may("namespace", text()).may("display", shape::ignored());
    let coding = Members::sent("A coding.").needs("system", namespace()).needs("code", bare());
    let parts = parts.may("display", shape::ignored());
    let codings = Array::new(Shape::from(coding.may("display", shape::ignored())));
    let codings = ArrayBuilder::from(codings).min_items(Some(1)).max_items(Some(1));
    let concept = Members::sent("A concept with one coding.").needs("coding", codings);
    any_of([
        RefOr::from(uri().description(Some("`<namespace>#<code>` or `<namespace>|<code>`"))),
        parts.into(),
        shown.into(),
        concept.into(),
    ])
    .description(Some("A code that new records may hold."))
    .into()
}

/// The longest code with its namespace, in bytes.
const CODE_URI_BYTES_MAX: usize = NAMESPACE_BYTES_MAX + 1 + CODE_BYTES_MAX;

fn receipt() -> Shape {
    Members::answered("What stays of a record for a client that may write it and not read it.")
        .needs("type", text())
        .may("identifier", shape::list(named("Identifier")))
        .needs("meta", named("Meta"))
        .into()
}

fn reference() -> Shape {
    Members::answered("A record, by one of its identifiers.")
        .may("reference", text().description(Some("`<kind>/<system>|<value>`")))
        .may("display", text().description(Some("Its name, where this client may see it.")))
        .into()
}

/// A reference to a record of one of those kinds, as an object.
#[must_use]
pub fn reference_to(kinds: &[RecordKind]) -> Shape {
    let members = Members::sent("A record by any identifier, with the name that answers show.");
    members.needs("reference", reference_sent(kinds)).may("display", shape::ignored()).into()
}

/// How references to records of those kinds are written.
#[must_use]
pub fn reference_forms(kinds: &[RecordKind]) -> String {
    let forms: Vec<String> = kinds.iter().map(|kind| format!("`{kind}/<system>|<value>`")).collect();
    forms.join(" or ")
}

/// A page of items of that named shape.
#[must_use]
pub fn page_of(name: &str) -> Shape {
    let page = shape::object::<Page<Value>>("A page with its position in the whole list.");
    needing(page, "data", shape::list(named(name))).into()
}

/// A code of one of a field's vocabularies.
#[must_use]
pub fn code_pattern_of(field: CodedField) -> String {
    let namespaces: Vec<String> = field.namespaces().iter().map(|namespace| namespace.replace('.', r"\.")).collect();
    format!(r"^({})[#|][^\x00-\x20\x7F-\xA0#\s]{{1,{CODE_BYTES_MAX}}}$", namespaces.join("|"))
}

/// The code of a field, as a request writes it; the vocabularies are told.
#[must_use]
pub fn code_sent_of(field: CodedField) -> Shape {
    shape::named_as("CodeSent", &told(field)).into()
}

/// The code of a field, as answers have it.
#[must_use]
pub fn code_of(field: CodedField) -> Shape {
    shape::named_as("Code", &told(field)).into()
}

fn told(field: CodedField) -> String {
    let namespaces: Vec<String> = field.namespaces().iter().map(|namespace| format!("`{namespace}`")).collect();
    format!("A code of {}.", namespaces.join(" or "))
}

/// A list in a request, of at most as many items as lists of records have.
#[must_use]
pub fn list_sent(of: impl Into<Shape>) -> ArrayBuilder {
    shape::list(of).max_items(Some(LIST_ITEMS_MAX))
}

/// `type` and `resourceType` of a request's body, which may say what it is.
#[must_use]
pub fn type_sent(kind: RecordKind) -> [(&'static str, Shape); 2] {
    let name = kind.name();
    let lower = name.to_ascii_lowercase();
    ["type", "resourceType"].map(|member| {
        let words = pattern(&any_case(&lower)).description(Some(format!("`{name}`, in any case.")));
        (member, words.into())
    })
}

/// A pattern of a word that does not mind case.
fn any_case(word: &str) -> String {
    let letters = word.chars().map(|letter| format!("[{}{letter}]", letter.to_ascii_uppercase()));
    format!("^{}$", letters.collect::<String>())
}

/// A reference to a record of one of those kinds.
#[must_use]
pub fn reference_sent(kinds: &[RecordKind]) -> Shape {
    let names: Vec<&str> = kinds.iter().map(|kind| kind.name()).collect();
    let key = KEY_PATTERN.trim_start_matches('^');
    let description = format!("{}, by any identifier.", reference_forms(kinds));
    pattern(&format!("^({})/{key}", names.join("|"))).description(Some(description)).into()
}

/// The member `extension` of answers: what installed modules add.
#[must_use]
pub fn extension(fields: &ExtensionFields) -> Shape {
    let value =
        |field: &ExtensionField| shape::about(value_answered(kind_of(field.kind), Level::Part), &vocabulary_of(field));
    nested(fields, "", &|| Members::answered(EXTENSION_ABOUT), &|field| match field.repeated {
        true => shape::list(value(field)).into(),
        false => value(field),
    })
}

/// The member `extension` of requests.
#[must_use]
pub fn extension_sent(fields: &ExtensionFields) -> Shape {
    let value =
        |field: &ExtensionField| shape::about(value_sent(kind_of(field.kind), Level::Part), &vocabulary_of(field));
    nested(fields, "", &|| Members::sent(EXTENSION_ABOUT), &|field| match field.repeated {
        true => shape::list(value(field)).max_items(Some(VALUES_MAX)).into(),
        false => value(field),
    })
}

const EXTENSION_ABOUT: &str = "What installed modules add.";

/// The vocabulary of a coded field.
fn vocabulary_of(field: &ExtensionField) -> String {
    field.vocabulary.as_ref().map(|namespace| format!("A code of `{namespace}`.")).unwrap_or_default()
}

/// The fields below a path of keys, as objects in each other.
fn nested(
    fields: &ExtensionFields,
    above: &str,
    object: &dyn Fn() -> Members,
    value: &dyn Fn(&ExtensionField) -> Shape,
) -> Shape {
    let below = |field: &'_ ExtensionField| field.path.as_str().strip_prefix(above).map(str::to_owned);
    let mut members = object();
    let mut last = String::new();
    for (field, rest) in fields.iter().filter_map(|field| Some((field, below(field)?))) {
        match rest.split_once('.') {
            None => members = members.may(&rest, value(field)),
            Some((key, _)) if key == last => {}
            Some((key, _)) => {
                members = members.may(key, nested(fields, &format!("{above}{key}."), object, value));
                last = key.to_owned();
            }
        }
    }
    members.into()
}

/// An UUID in a text.
#[must_use]
pub fn uuid() -> Shape {
    text().format(Some(SchemaFormat::Custom("uuid".to_owned()))).into()
}
