//! Bodies of records, driven by the schema (`daftar_domain::schema`): the exceptions of a kind of record are a check of
//! `record/read.rs` or a function of this file. Also contains the common parts (identifiers, codes, meta) and the merge
//! patch (RFC 7396): its members replace those of a body, `null` removes one.

mod read;
mod write;

use std::borrow::Cow;

use serde::Serialize;
use serde_json::{Map, Value, Value as Json};

use crate::api::dto::eligibility::response::diagnostics;
use crate::api::dto::reader::{ObjectReader, Problems};
use crate::api::dto::record::write::Plain;
use daftar_api_types::public::eligibility::Diagnostic as DiagnosticBody;
use daftar_api_types::public::record as body;
use daftar_domain::calendar::{Period, format_instant};
use daftar_domain::consent::{Consent, ConsentStatus};
use daftar_domain::eligibility::Diagnostic;
use daftar_domain::error::AppError;
use daftar_domain::extension::EXTENSION;
use daftar_domain::field::FieldSet;
use daftar_domain::group::GroupDetails;
use daftar_domain::identifier::{
    Identifier, IdentifierKey, IdentifierValue, SYSTEM_BYTES_MAX, SystemUri, VALUE_BYTES_MAX,
};
use daftar_domain::individual::{IndividualDetails, LIST_ITEMS_MAX};
use daftar_domain::program::Program;
use daftar_domain::program_membership::{HAS_NO_IDENTIFIER, ProgramMembership};
use daftar_domain::record::{RecordId, RecordKind, RecordMeta};
use daftar_domain::scope::Resource;
use daftar_domain::value::Reference;
use daftar_domain::vocabulary::DisplayedCode;
use daftar_domain::{group, individual, person_name};
use daftar_service::codes::CodeView;
use daftar_service::consent::ConsentView;
use daftar_service::group::GroupView;
use daftar_service::group::history::HistoryPage;
use daftar_service::individual::{FoundPeople, IndividualView, People};
use daftar_service::program_membership::MembershipView;
use daftar_service::visibility::Seen;
use daftar_service::{records, written};
pub use read::{
    Identification, Purpose, check_unseen, read_consent, read_group, read_group_fields, read_individual,
    read_individual_fields, read_membership, read_program,
};
pub use write::{Computed, Part, RecordBody, ShownCode, ShownRecord, Shows};

impl Shows for CodeView {
    fn codes(&self) -> Option<&CodeView> {
        Some(self)
    }
}

impl Shows for IndividualView {
    fn codes(&self) -> Option<&CodeView> {
        Some(&self.codes)
    }

    fn record(&self, reference: &Reference) -> Option<ShownRecord<'_>> {
        shown_individual(&self.beside.related, reference.id)
    }
}

impl Shows for FoundPeople {
    fn codes(&self) -> Option<&CodeView> {
        Some(&self.codes)
    }

    fn record(&self, reference: &Reference) -> Option<ShownRecord<'_>> {
        shown_individual(&self.related, reference.id)
    }
}

impl Shows for GroupView {
    fn codes(&self) -> Option<&CodeView> {
        Some(&self.codes)
    }

    fn record(&self, reference: &Reference) -> Option<ShownRecord<'_>> {
        match reference.kind {
            RecordKind::Individual => shown_individual(&self.members, reference.id),
            RecordKind::Group => shown_group(self.related.get(&reference.id)?),
            RecordKind::Program | RecordKind::ProgramMembership | RecordKind::Consent => None,
        }
    }
}

impl Shows for HistoryPage {
    fn codes(&self) -> Option<&CodeView> {
        Some(&self.codes)
    }

    fn record(&self, reference: &Reference) -> Option<ShownRecord<'_>> {
        shown_individual(&self.members, reference.id)
    }
}

impl Shows for MembershipView {
    fn record(&self, reference: &Reference) -> Option<ShownRecord<'_>> {
        Some(match reference.kind {
            RecordKind::Program => self.program.as_str().into(),
            RecordKind::Individual | RecordKind::Group | RecordKind::ProgramMembership | RecordKind::Consent => {
                self.beneficiary.as_str().into()
            }
        })
    }
}

impl Shows for ConsentView {
    fn record(&self, _: &Reference) -> Option<ShownRecord<'_>> {
        Some(ShownRecord::from(self.subject.as_str()))
    }
}

/// An individual as other records show it.
#[must_use]
pub fn shown_individual(people: &People, id: RecordId) -> Option<ShownRecord<'_>> {
    let Seen { record, fields } = people.get(&id)?;
    let name = record.details.get(individual::NAME).filter(|_| fields.allows("name"));
    let key = records::called(&record.details.identifiers)?;
    Some(ShownRecord {
        key: None,
        reference: records::reference(RecordKind::Individual, key).into(),
        display: name.map(|name| person_name::display(name).into()),
    })
}

/// A group as other records show it.
#[must_use]
pub fn shown_group(Seen { record, fields }: &Seen<GroupDetails>) -> Option<ShownRecord<'_>> {
    let name = record.details.get(group::NAME).filter(|_| fields.allows("name"));
    let key = records::called(&record.details.identifiers)?;
    Some(ShownRecord {
        key: None,
        reference: records::reference(RecordKind::Group, key).into(),
        display: name.map(Cow::Borrowed),
    })
}

/// An individual, with the data stored outside the record.
#[must_use]
pub fn individual(view: &IndividualView) -> RecordBody<'_> {
    let IndividualView { individual, fields, beside, .. } = view;
    let body = RecordBody::new(individual, fields, view).with_photo(beside.photo.as_deref());
    body.with_computed(beside.places.as_deref().map(Computed::Places))
}

/// An individual of a search result, without the data stored outside the record.
#[must_use]
pub fn found_individual<'a>(found: &'a FoundPeople, seen: &'a Seen<IndividualDetails>) -> RecordBody<'a> {
    RecordBody::new(&seen.record, &seen.fields, found)
}

/// A group.
#[must_use]
pub fn group(view: &GroupView) -> RecordBody<'_> {
    RecordBody::new(&view.group, &view.fields, view).with_computed(view.quantity.map(Computed::Quantity))
}

/// A program.
#[must_use]
pub fn program<'a>(record: &'a Program, seen: &'a FieldSet) -> RecordBody<'a> {
    RecordBody::new(record, seen, &Plain)
}

/// A membership. Only clients that see everything are shown the known absence of identifiers: others get an empty list
/// in any case, because identifiers are always included.
#[must_use]
pub fn membership(view: &MembershipView) -> RecordBody<'_> {
    membership_of(&view.membership, &view.fields, view)
}

/// A membership, as [`membership`] has it.
#[must_use]
pub fn membership_of<'a>(record: &'a ProgramMembership, seen: &'a FieldSet, shows: &'a dyn Shows) -> RecordBody<'a> {
    let body = RecordBody::new(record, seen, shows);
    let details = &record.details;
    let says_nothing = details.identifiers.is_empty() && details.get(HAS_NO_IDENTIFIER) != Some(true);
    if says_nothing && seen.is_all() { body.without_identifiers() } else { body }
}

/// A consent.
#[must_use]
pub fn consent(view: &ConsentView) -> RecordBody<'_> {
    consent_of(&view.consent, view.status, (&view.fields, view))
}

/// A consent with that status.
#[must_use]
pub fn consent_of<'a>(
    record: &'a Consent,
    status: ConsentStatus,
    (seen, shows): (&'a FieldSet, &'a dyn Shows),
) -> RecordBody<'a> {
    RecordBody::new(record, seen, shows).with_computed(Some(Computed::Status(status.name())))
}

/// The members of a body with the stored membership's members that are never written, even if the body omits them.
///
/// # Errors
/// As `members_of`.
pub fn with_persisted(
    present: &MembershipView,
    written: &FieldSet,
    members: &Map<String, Json>,
) -> Result<Map<String, Json>, AppError> {
    let mut all = members_of(membership(present))?;
    all.retain(|name, _| !written.allows(name));
    all.extend(members.iter().map(|(name, value)| (name.clone(), value.clone())));
    Ok(all)
}

/// A written program, with warnings about its expression.
#[derive(Serialize)]
pub struct WrittenProgramBody<'a> {
    #[serde(flatten)]
    program: RecordBody<'a>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    warnings: Vec<DiagnosticBody<'a>>,
}

impl<'a> WrittenProgramBody<'a> {
    /// The program and its non-fatal diagnostics.
    #[must_use]
    pub fn new(record: &'a Program, warnings: &'a [Diagnostic]) -> Self {
        Self { program: program(record, &FieldSet::All), warnings: diagnostics(warnings) }
    }
}

/// Reads `identifier[]`.
pub fn read_identifiers(reader: &mut ObjectReader, is_required: bool, problems: &mut Problems) -> Vec<Identifier> {
    let items = reader.list("identifier", LIST_ITEMS_MAX, problems);
    if is_required && items.as_ref().is_none_or(Vec::is_empty) {
        problems.add("identifier", "required", "at least one identifier `{system, value}` is required");
    }
    let mut identifiers: Vec<Identifier> = Vec::new();
    for (path, item) in items.unwrap_or_default() {
        let Some(identifier) = read_identifier(path.clone(), item, problems) else { continue };
        if identifiers.iter().any(|earlier| earlier.key == identifier.key) {
            problems.add(path, "duplicate", "the same identifier appears twice");
        } else {
            identifiers.push(identifier);
        }
    }
    identifiers
}

fn read_identifier(path: String, item: Value, problems: &mut Problems) -> Option<Identifier> {
    let mut reader = ObjectReader::at(path, item, problems);
    let system = reader.text("system", SYSTEM_BYTES_MAX, problems);
    let value = reader.text("value", VALUE_BYTES_MAX, problems);
    let period = reader.period("period", problems);
    let needed = "an identifier has a system and a value";
    let system = reader.needed("system", system, needed, problems);
    let value = reader.needed("value", value, needed, problems);
    let system = system
        .and_then(|text| problems.accept(&reader.path_of("system"), "invalid_identifier", SystemUri::parse(&text)));
    let value = value.and_then(|text| {
        problems.accept(&reader.path_of("value"), "invalid_identifier", IdentifierValue::parse(&text))
    });
    reader.finish(problems);
    Some(Identifier { key: IdentifierKey { system: system?, value: value? }, period })
}

/// Reads `type` and `resourceType`: either may name the kind of the body, and must be correct then.
pub fn read_type(reader: &mut ObjectReader, kind: RecordKind, problems: &mut Problems) {
    for name in ["type", "resourceType"] {
        if let Some(text) = reader.text(name, 100, problems)
            && !text.eq_ignore_ascii_case(kind.name())
        {
            problems.add(reader.path_of(name), "wrong_type", format!("this is a body of type `{}`", kind.name()));
        }
    }
}

/// An identifier of a record.
#[must_use]
pub fn identifier(identifier: &Identifier) -> body::Identifier<'_> {
    body::Identifier {
        system: Cow::Borrowed(identifier.key.system.as_str()),
        value: Cow::Borrowed(identifier.key.value.as_str()),
        period: identifier.period.map(period),
    }
}

fn period(period: Period) -> body::Period {
    body::Period { start: period.start.map(|day| day.to_string()), end: period.end.map(|day| day.to_string()) }
}

/// A code with its name.
#[must_use]
pub fn code(shown: DisplayedCode) -> body::Code<'static> {
    let text = |text: String| Some(Cow::Owned(text));
    body::Code {
        uri: text(shown.uri),
        code: text(shown.code),
        display: text(shown.display),
        namespace: text(shown.namespace),
    }
}

/// The version of a record.
#[must_use]
pub fn meta(meta: &RecordMeta) -> body::Meta<'_> {
    body::Meta {
        version_id: Some(Cow::Owned(meta.version.to_string())),
        last_updated: Some(Cow::Owned(format_instant(meta.last_updated))),
        source: meta.source.as_ref().map(|client| Cow::Borrowed(client.as_str())),
    }
}

/// The members of a shown body.
///
/// # Errors
/// [`AppError::Internal`] if the shown value is no object.
fn members_of(shown: impl Serialize) -> Result<Map<String, Value>, AppError> {
    match serde_json::to_value(shown).map_err(|error| AppError::Internal(error.into()))? {
        Value::Object(members) => Ok(members),
        _ => Err(AppError::internal("a record is written as something else than an object")),
    }
}

/// The members of a shown body, with a patch applied.
///
/// Codes are texts in it: a patch with another code, in any form, is not merged with the existing code.
///
/// # Errors
/// As `members_of`.
pub fn patched(shown: impl Serialize, patch: Map<String, Value>) -> Result<Map<String, Value>, AppError> {
    let mut members = members_of(shown)?;
    members.values_mut().for_each(codes_as_texts);
    merge(&mut members, patch);
    Ok(members)
}

/// Replaces every coded object by its URI, at any depth.
fn codes_as_texts(value: &mut Value) {
    match value {
        Value::Object(members) => {
            let is_code = members.len() == 4
                && ["uri", "code", "display", "namespace"]
                    .iter()
                    .all(|name| members.get(*name).is_some_and(Value::is_string));
            if is_code {
                let uri = members.remove("uri").unwrap_or_default();
                *value = uri;
            } else {
                members.values_mut().for_each(codes_as_texts);
            }
        }
        Value::Array(items) => items.iter_mut().for_each(codes_as_texts),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => {}
    }
}

/// Applies a patch. The depth of both was limited when they were read.
pub fn merge(body: &mut Map<String, Value>, patch: Map<String, Value>) {
    for (name, value) in patch {
        match value {
            Value::Null => {
                body.remove(&name);
            }
            Value::Object(patch) => {
                if !matches!(body.get(&name), Some(Value::Object(_))) {
                    body.insert(name.clone(), Value::Object(Map::new()));
                }
                if let Some(Value::Object(inner)) = body.get_mut(&name) {
                    merge(inner, patch);
                }
            }
            other => {
                body.insert(name, other);
            }
        }
    }
}

/// The fields that the members of a body name, including `null` ones: the keys of an `extension` that is an object,
/// otherwise the complete member.
#[must_use]
pub fn named(resource: Resource, members: &Map<String, Value>) -> FieldSet {
    let mut names: Vec<String> = Vec::with_capacity(members.len());
    for (name, value) in members {
        match value {
            Value::Object(keys) if name == EXTENSION => {
                names.extend(keys.keys().map(|key| format!("{EXTENSION}.{key}")));
            }
            Value::Object(_) | Value::Array(_) | Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => {
                names.push(name.clone())
            }
        }
    }
    written::named(resource, names.iter().map(String::as_str))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn another_code_is_not_mixed_with_the_one_that_is_there() {
        let code = json!({"uri": "urn:x#1", "code": "1", "display": "One", "namespace": "urn:x"});
        let shown = json!({"gender": code, "address": [{"country": code}], "name": {"given": "A"}});
        let Value::Object(patch) = json!({"gender": {"namespace": "urn:x", "code": "2"}}) else { unreachable!() };
        let members = patched(shown, patch).unwrap();
        let expected = json!({"gender": {"namespace": "urn:x", "code": "2"}, "address": [{"country": "urn:x#1"}], "name": {"given": "A"}});
        assert_eq!(Value::Object(members), expected);
    }

    #[test]
    fn matches_the_examples_of_the_rfc_appendix() {
        for (body, patch, expected) in [
            (json!({"a": "b"}), json!({"a": "c"}), json!({"a": "c"})),
            (json!({"a": "b"}), json!({"b": "c"}), json!({"a": "b", "b": "c"})),
            (json!({"a": "b"}), json!({"a": null}), json!({})),
            (json!({"a": "b", "b": "c"}), json!({"a": null}), json!({"b": "c"})),
            (json!({"a": ["b"]}), json!({"a": "c"}), json!({"a": "c"})),
            (json!({"a": "c"}), json!({"a": ["b"]}), json!({"a": ["b"]})),
            (json!({"a": {"b": "c"}}), json!({"a": {"b": "d", "c": null}}), json!({"a": {"b": "d"}})),
            (json!({"a": [{"b": "c"}]}), json!({"a": [1]}), json!({"a": [1]})),
            (json!({"e": null}), json!({"a": 1}), json!({"e": null, "a": 1})),
            (json!({}), json!({"a": {"bb": {"ccc": null}}}), json!({"a": {"bb": {}}})),
        ] {
            let (Value::Object(mut merged), Value::Object(patch)) = (body, patch) else { unreachable!() };
            merge(&mut merged, patch);
            assert_eq!(Value::Object(merged), expected);
        }
    }
}

#[cfg(test)]
mod named_tests {
    use serde_json::json;

    use super::*;

    fn of(body: Value) -> FieldSet {
        let Value::Object(members) = body else { unreachable!() };
        named(Resource::Individual, &members)
    }

    #[test]
    fn names_present_fields_and_extension_keys() {
        let fields = of(json!({"type": "Individual", "gender": null, "extension": {"farmer": {}, "herder": null}}));
        for field in ["gender", "extension.farmer", "extension.herder"] {
            assert!(fields.names(field), "{field}");
        }
        assert!(!fields.names("extension") && !fields.names("name"));
        assert!(of(json!({"extension": null})).names("extension"));
        assert_eq!(of(json!({"extension": {}, "meta": {}, "no_field": 1})), FieldSet::none());
    }
}
