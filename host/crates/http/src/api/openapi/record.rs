//! Shapes of records and of their parts, from the schema: goes with `dto/field.rs` and `dto/record.rs`.

use std::collections::BTreeMap;

use daftar_api_types::problem::Problem;
use daftar_api_types::public::eligibility::EXPRESSION_BYTES_MAX;
use daftar_api_types::public::page::{Links, Page, PageMeta};
use daftar_api_types::public::record as body;
use serde_json::Value;

use super::shape::{
    self, CODE_PATTERN, KEY_PATTERN, NAMESPACE_PATTERN, SYSTEM_PATTERN, Shape, VALUE_PATTERN, any_of, boolean, by_name,
    date, ignored, integer, list, named, number, object, of_type, pattern, response, text, whole, word, written,
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

/// The shapes of the parts of records, for responses and, with the suffix `Sent`, for requests.
#[must_use]
pub fn part_shapes() -> Vec<(String, Shape)> {
    let mut parts = BTreeMap::new();
    RecordKind::ALL.into_iter().for_each(|kind| gather(schema::fields(kind), &mut parts));
    let shapes = parts.into_values().flat_map(|part| {
        let answered = object(part.about);
        let answered = match part.fields {
            // A request always contains this part.
            [only] if only.required.is_some() => answered.needs(only.name, value_answered(&only.kind, Level::Part)),
            fields => fields_answered(answered, fields.iter(), Level::Part),
        };
        let sent = fields_sent(object(part.about), part.fields.iter(), Level::Part);
        [(part.name.to_owned(), answered), (format!("{}Sent", part.name), sent)]
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

/// A kind of record in responses.
#[must_use]
pub fn answered(kind: RecordKind, description: &str, declared: &ExtensionFields) -> Shape {
    let names = fields_of(kind.resource());
    let mut members = object(description).needs("type", word([kind.name()]));
    let identifiers = list(named("Identifier"));
    members = match kind {
        RecordKind::Individual | RecordKind::Group | RecordKind::Program => members.needs("identifier", identifiers),
        RecordKind::ProgramMembership => members.may("identifier", identifiers),
        RecordKind::Consent => members,
    };
    members = fields_answered(members, schema::fields(kind).iter(), Level::Record);
    if names.contains(&EXTENSION) {
        members = members.may(EXTENSION, extension(declared, "", false));
    }
    if let (Some(name), Some(shape)) = (computed(kind), computed_shape(kind)) {
        members = members.may(name, shape);
    }
    members.needs("meta", named("Meta"))
}

/// The shapes of a kind of record that clients register and change: in responses, in requests, and as changes, with a
/// description each; `fields` are those of installed modules.
#[must_use]
pub fn of_kind(kind: RecordKind, descriptions: [&str; 3], fields: &ExtensionFields) -> Vec<(String, Shape)> {
    let identifiers = || list_sent(named("IdentifierSent")).filled();
    let [shown, written, changed] = descriptions;
    let written = sent(object(written), kind, fields).needs("identifier", identifiers());
    let changed = parts_changed(sent(object(changed), kind, fields), kind).may("identifier", identifiers());
    vec![
        (kind.name().to_owned(), answered(kind, shown, fields)),
        (format!("{kind}Sent"), written),
        (format!("{kind}Patch"), changed),
    ]
}

/// The member that the server computes.
fn computed_shape(kind: RecordKind) -> Option<Shape> {
    match kind {
        RecordKind::Individual => {
            Some(list(named("Place")).about("Only in a read of one individual, with `group:read`."))
        }
        RecordKind::Group => Some(whole(0).about("The number of active members today.")),
        RecordKind::Consent => {
            let all = [ConsentStatus::Given, ConsentStatus::Withdrawn, ConsentStatus::Expired];
            Some(word(all.map(ConsentStatus::name)))
        }
        RecordKind::Program | RecordKind::ProgramMembership => None,
    }
}

/// Every member of a kind of record in a request, except identifiers.
#[must_use]
pub fn sent(members: Shape, kind: RecordKind, declared: &ExtensionFields) -> Shape {
    let own_name = pattern(&any_case(&kind.name().to_ascii_lowercase())).about(&format!("`{kind}`, in any case."));
    // The body may name its kind.
    let members = members.may_or_null("type", own_name.clone()).may_or_null("resourceType", own_name);
    let mut members = fields_sent(members, schema::fields(kind).iter(), Level::Record);
    if fields_of(kind.resource()).contains(&EXTENSION) {
        members = members.may_or_null(EXTENSION, extension(declared, "", true));
    }
    computed(kind).into_iter().chain(["meta"]).fold(members, |members, name| members.may(name, ignored()))
}

/// The parts of a record in a merge patch: the record has the fields of a part that the patch does not name.
fn parts_changed(members: Shape, kind: RecordKind) -> Shape {
    schema::fields(kind).iter().fold(members, |members, field| match &field.kind {
        Kind::Struct(part) if part.fields.iter().any(|field| field.required.is_some()) => {
            let changed = part.fields.iter().filter(|field| is_sent(field)).fold(object(field.about), field_changed);
            members.may_or_null(field.name, changed)
        }
        _ => members,
    })
}

fn field_changed(members: Shape, field: &'static Field) -> Shape {
    members.may_or_null(field.name, value_sent(&field.kind, Level::Part).about(field.about))
}

fn is_sent(field: &Field) -> bool {
    !field.is_internal && !matches!(field.kind, Kind::ConsentId)
}

/// Fields in responses. Only always included members are required: a client sees some fields and requests parts.
pub fn fields_answered(members: Shape, fields: impl Iterator<Item = &'static Field>, level: Level) -> Shape {
    fields.filter(|field| !field.is_internal).fold(members, |members, field| {
        let shape = value_answered(&field.kind, level).about(field.about);
        let is_always_there = level == Level::Record && ALWAYS_SHOWN.contains(&field.name);
        if is_always_there { members.needs(field.name, shape) } else { members.may(field.name, shape) }
    })
}

/// Fields in requests.
pub fn fields_sent(members: Shape, fields: impl Iterator<Item = &'static Field>, level: Level) -> Shape {
    fields.filter(|field| is_sent(field)).fold(members, |members, field| {
        let shape = value_sent(&field.kind, level).about(field.about);
        if field.required.is_some() { members.needs(field.name, shape) } else { members.may_or_null(field.name, shape) }
    })
}

/// A value in requests.
#[must_use]
pub fn value_sent(kind: &'static Kind, level: Level) -> Shape {
    match kind {
        Kind::Integer => integer().with("format", "int64"),
        Kind::Count => whole(1).with("maximum", u32::MAX),
        Kind::Text(bytes_max) => written(*bytes_max),
        Kind::Organization => written(4 * ORGANIZATION_CHARACTERS_MAX),
        Kind::Expression => shape::plain().at_most(EXPRESSION_BYTES_MAX),
        Kind::Code(field) => code_sent_of(*field),
        Kind::ModuleCode => named("CodeSent"),
        Kind::Reference(kinds) => match (level, kinds) {
            (Level::Record, kinds) => any_of([reference_sent(kinds), reference_to(kinds)]),
            (Level::Part, [kind]) => named(&format!("{kind}ReferenceSent")),
            (Level::Part, kinds) => reference_to(kinds),
        },
        Kind::Photo => shape::base64().about("A picture, of at most 5,000,000 bytes."),
        Kind::List { of, items_max } => list(value_sent(of, Level::Part)).at_most(*items_max),
        Kind::Struct(part) => named(&format!("{}Sent", part.name)),
        Kind::Boolean
        | Kind::Number
        | Kind::Amount
        | Kind::FieldName
        | Kind::Date
        | Kind::Word(_)
        | Kind::ConsentId => value_answered(kind, level),
    }
}

/// A value in responses.
#[must_use]
pub fn value_answered(kind: &'static Kind, level: Level) -> Shape {
    match kind {
        Kind::Boolean => boolean(),
        Kind::Integer => integer(),
        Kind::Number => number(),
        Kind::Count => whole(1),
        Kind::Amount => number().with("minimum", 0),
        Kind::Text(_) | Kind::Organization | Kind::Expression | Kind::FieldName => text(),
        Kind::Date => date(),
        Kind::Word(words) => word(words.iter().copied()),
        Kind::Code(field) => named("Code").about(&vocabularies_of(*field)),
        Kind::ModuleCode => named("Code"),
        Kind::Reference(kinds) => match level {
            Level::Record => text().about(&reference_forms(kinds)),
            Level::Part => named("Reference"),
        },
        Kind::ConsentId => text().with("format", "uuid"),
        Kind::Photo => text().about("In base64; only in a read of one individual."),
        Kind::List { of, .. } => list(value_answered(of, Level::Part)),
        Kind::Struct(part) => named(part.name),
    }
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
    let system = "The system of the identifier: a code of the vocabulary of ID types, or a system that the administrator registered.";
    object("An external identifier of a record. At most one current identifier has a given system and value.")
        .needs("system", pattern(SYSTEM_PATTERN).at_most(SYSTEM_BYTES_MAX).about(system))
        .needs("value", pattern(VALUE_PATTERN).at_most(VALUE_BYTES_MAX).about("The identifier itself."))
        .may_or_null("period", named("PeriodSent"))
}

/// The forms of a code in requests.
fn code_sent() -> Shape {
    let namespace = || pattern(NAMESPACE_PATTERN).at_most(NAMESPACE_BYTES_MAX);
    let bare = || pattern(r"^[^\x00-\x20\x7F-\xA0#\s]+$").at_most(CODE_BYTES_MAX);
    let uri = || pattern(CODE_PATTERN).at_most(CODE_URI_BYTES_MAX);
    let parts = object("Namespace and code.").needs("namespace", namespace()).needs("code", bare());
    let shown = object("A code as in responses.").needs("uri", uri());
    let shown = shown.may_or_null("code", text()).may_or_null("namespace", text());
    let coding = object("A coding.").needs("system", namespace()).needs("code", bare()).may("display", ignored());
    let concept = object("A concept with one coding.").needs("coding", list(coding).filled().at_most(1));
    any_of([
        uri().about("`<namespace>#<code>` or `<namespace>|<code>`"),
        parts.may("display", ignored()),
        shown.may("display", ignored()),
        concept,
    ])
    .about("A code that new records may contain.")
}

/// Maximum length of a code with its namespace, in bytes.
const CODE_URI_BYTES_MAX: usize = NAMESPACE_BYTES_MAX + 1 + CODE_BYTES_MAX;

fn receipt() -> Shape {
    object("The parts of a record for a client that may write it but not read it.")
        .needs("type", text())
        .may("identifier", list(named("Identifier")))
        .needs("meta", named("Meta"))
}

fn reference() -> Shape {
    object("A record, by one of its identifiers.")
        .may("reference", text().about("`<kind>/<system>|<value>`"))
        .may("display", text().about("Its name, if this client may see it."))
}

/// A reference to a record of one of those kinds, as an object.
#[must_use]
pub fn reference_to(kinds: &[RecordKind]) -> Shape {
    let members = object("A record by any identifier, with the name in responses.");
    members.needs("reference", reference_sent(kinds)).may("display", ignored())
}

/// References to records of those kinds, as texts.
#[must_use]
pub fn reference_forms(kinds: &[RecordKind]) -> String {
    let forms: Vec<String> = kinds.iter().map(|kind| format!("`{kind}/<system>|<value>`")).collect();
    forms.join(" or ")
}

/// A page of items of that named shape.
#[must_use]
pub fn page_of(name: &str) -> Shape {
    of_type::<Page<Value>>("A page with its position in the whole list.").needs("data", list(named(name)))
}

/// A code of one of a field's vocabularies.
#[must_use]
pub fn code_pattern_of(field: CodedField) -> String {
    let namespaces: Vec<String> = field.namespaces().iter().map(|namespace| namespace.replace('.', r"\.")).collect();
    format!(r"^({})[#|][^\x00-\x20\x7F-\xA0#\s]{{1,{CODE_BYTES_MAX}}}$", namespaces.join("|"))
}

/// The code of a field in requests; the description names its vocabularies.
#[must_use]
pub fn code_sent_of(field: CodedField) -> Shape {
    named("CodeSent").about(&vocabularies_of(field))
}

fn vocabularies_of(field: CodedField) -> String {
    let namespaces: Vec<String> = field.namespaces().iter().map(|namespace| format!("`{namespace}`")).collect();
    format!("A code of {}.", namespaces.join(" or "))
}

/// A list in a request, limited to the maximum length of lists in records.
#[must_use]
pub fn list_sent(of: Shape) -> Shape {
    list(of).at_most(LIST_ITEMS_MAX)
}

/// A case-insensitive pattern of a word.
fn any_case(word: &str) -> String {
    let letters = word.chars().map(|letter| format!("[{}{letter}]", letter.to_ascii_uppercase()));
    format!("^{}$", letters.collect::<String>())
}

/// A reference to a record of one of those kinds.
#[must_use]
pub fn reference_sent(kinds: &[RecordKind]) -> Shape {
    let names: Vec<&str> = kinds.iter().map(|kind| kind.name()).collect();
    let key = KEY_PATTERN.trim_start_matches('^');
    pattern(&format!("^({})/{key}", names.join("|"))).about(&format!("{}, by any identifier.", reference_forms(kinds)))
}

/// The fields of installed modules below a path of keys, as nested objects: the member `extension` of responses or of
/// requests.
fn extension(fields: &ExtensionFields, above: &str, is_sent: bool) -> Shape {
    let member = |shape: Shape| if is_sent { shape.or_null() } else { shape };
    let mut members = object("Fields of installed modules.");
    let mut last = "";
    for (field, rest) in fields.iter().filter_map(|field| Some((field, field.path.as_str().strip_prefix(above)?))) {
        match rest.split_once('.') {
            None => members = members.may(rest, member(extension_value(field, is_sent))),
            Some((key, _)) if key == last => {}
            Some((key, _)) => {
                members = members.may(key, member(extension(fields, &format!("{above}{key}."), is_sent)));
                last = key;
            }
        }
    }
    members
}

fn extension_value(field: &ExtensionField, is_sent: bool) -> Shape {
    let kind = kind_of(field.kind);
    let value = if is_sent { value_sent(kind, Level::Part) } else { value_answered(kind, Level::Part) };
    let vocabulary = field.vocabulary.as_ref().map(|namespace| format!("A code of `{namespace}`."));
    let value = value.about(&vocabulary.unwrap_or_default());
    match (field.repeated, is_sent) {
        (false, _) => value,
        (true, false) => list(value),
        (true, true) => list(value).at_most(VALUES_MAX),
    }
}
