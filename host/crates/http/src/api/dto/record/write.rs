//! Writes records as a client sees them, directly from the values of their fields.
//!
//! **Invariant:** a field that the client does not see is not written, and an item with a reference to a record that
//! the client does not see is left out.
//!
//! **Invariant:** the key of a record is written only in an export of the administrator that requests keys: the public
//! API has no way to request them.

use std::borrow::Cow;

use base64::display::Base64Display;
use base64::engine::general_purpose::STANDARD as BASE64;
use daftar_api_types::public::record::Code;
use serde::ser::{SerializeMap, SerializeSeq};
use serde::{Serialize, Serializer};

use crate::api::dto::extension::ExtensionBody;
use crate::api::dto::member::PlaceBody;
use crate::api::dto::record::{code as code_body, identifier, meta as meta_of};
use daftar_domain::code::CodedValue;
use daftar_domain::extension::{EXTENSION, Extension, ExtensionFields};
use daftar_domain::field::{FieldSet, computed};
use daftar_domain::identifier::Identifier;
use daftar_domain::record::{Fields, Record, RecordId, RecordKind, RecordMeta, RecordType};
use daftar_domain::schema::{self, Field, Kind};
use daftar_domain::value::{Reference, Value, Values};
use daftar_service::codes::CodeView;
use daftar_service::group::members::GroupPlace;

/// Shows a client the codes and the other records of a record.
pub trait Shows {
    /// Returns the view of codes with their names; nothing for another form, or for records without codes.
    fn codes(&self) -> Option<&CodeView> {
        None
    }

    /// A code as shown; nothing where records of the kind have no codes.
    fn code(&self, code: CodedValue) -> Option<ShownCode> {
        self.codes().map(|codes| ShownCode::Object(code_body(codes.show(code))))
    }

    /// Another record as shown; nothing if the client does not see it.
    fn record(&self, _reference: &Reference) -> Option<ShownRecord<'_>> {
        None
    }

    /// The fields of installed modules; nothing where records of the kind have none.
    fn declared(&self) -> Option<&ExtensionFields> {
        self.codes().map(CodeView::extension_fields)
    }
}

/// Shows records without codes and references.
pub struct Plain;

impl Shows for Plain {}

/// A code as shown.
#[derive(Debug, Serialize)]
#[serde(untagged)]
pub enum ShownCode {
    /// With its name.
    Object(Code<'static>),
    /// `<namespace>#<code>`
    Uri(String),
}

/// Another record as shown: the reference and, if the client may see it, the name.
#[derive(Debug, Clone, Serialize)]
pub struct ShownRecord<'a> {
    /// The key, if an export requests it. A reference that is a text in other bodies is an object then.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub key: Option<RecordId>,
    /// `<kind>/<system>|<value>`
    pub reference: Cow<'a, str>,
    /// The name, if the client may see it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub display: Option<Cow<'a, str>>,
}

impl<'a> From<&'a str> for ShownRecord<'a> {
    /// The reference alone.
    fn from(reference: &'a str) -> Self {
        Self { key: None, reference: Cow::Borrowed(reference), display: None }
    }
}

/// A record as a client sees it.
pub struct RecordBody<'a> {
    kind: RecordKind,
    key: Option<RecordId>,
    identifiers: Option<&'a [Identifier]>,
    values: &'a Values,
    extension: &'a Extension,
    meta: Option<&'a RecordMeta>,
    seen: &'a FieldSet,
    shows: &'a dyn Shows,
    photo: Option<&'a [u8]>,
    computed: Option<Computed<'a>>,
}

/// The value of a member that the server computes from other records.
pub enum Computed<'a> {
    /// Number of members of a group today.
    Quantity(usize),
    /// The memberships of an individual in groups.
    Places(&'a [GroupPlace]),
    /// The status of a consent.
    Status(&'static str),
}

impl<'a> RecordBody<'a> {
    /// The visible fields of a record.
    #[must_use]
    pub fn new<T: RecordType>(record: &'a Record<Fields<T>>, seen: &'a FieldSet, shows: &'a dyn Shows) -> Self {
        let Fields { identifiers, values, extension, .. } = &record.details;
        Self {
            kind: T::KIND,
            key: None,
            identifiers: (T::KIND != RecordKind::Consent).then_some(identifiers.as_slice()),
            values,
            extension,
            meta: Some(&record.meta),
            seen,
            shows,
            photo: None,
            computed: None,
        }
    }

    /// The same with the bytes of its photo.
    #[must_use]
    pub fn with_photo(self, photo: Option<&'a [u8]>) -> Self {
        Self { photo, ..self }
    }

    /// The same with the member that the server computes.
    #[must_use]
    pub fn with_computed(self, computed: Option<Computed<'a>>) -> Self {
        Self { computed, ..self }
    }

    /// The same with its key, if an export requests it.
    #[must_use]
    pub fn with_key(self, key: Option<RecordId>) -> Self {
        Self { key, ..self }
    }

    /// The same without identifiers.
    #[must_use]
    pub fn without_identifiers(self) -> Self {
        Self { identifiers: None, ..self }
    }

    /// The same without its versions.
    #[must_use]
    pub fn without_meta(self) -> Self {
        Self { meta: None, ..self }
    }
}

impl Serialize for RecordBody<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let Self { kind, values, seen, shows, .. } = *self;
        let mut object = serializer.serialize_map(None)?;
        object.serialize_entry("type", kind.name())?;
        if let Some(key) = self.key {
            object.serialize_entry("key", &key)?;
        }
        if let Some(identifiers) = self.identifiers {
            object.serialize_entry("identifier", &Identifiers(identifiers))?;
        }
        let sees_all = seen.is_all();
        for (field, value) in rows(schema::fields(kind), values) {
            if !sees_all && !seen.allows(field.name) {
                continue;
            }
            match value {
                Value::Photo(_) => {
                    if let Some(bytes) = self.photo {
                        object.serialize_entry(field.name, &Photo(bytes))?;
                    }
                }
                Value::Reference(reference) => {
                    if let Some(shown) = shows.record(reference) {
                        match shown.key {
                            Some(_) => object.serialize_entry(field.name, &shown)?,
                            None => object.serialize_entry(field.name, &shown.reference)?,
                        }
                    }
                }
                value => object.serialize_entry(field.name, &Shown { kind: &field.kind, value, shows })?,
            }
        }
        if let Some(declared) = shows.declared()
            && let Some(extension) = ExtensionBody::new(self.extension, seen, declared, shows)
        {
            object.serialize_entry(EXTENSION, &extension)?;
        }
        if let (Some(name), Some(value)) = (computed(kind), &self.computed)
            && (sees_all || seen.allows(name))
        {
            match value {
                Computed::Quantity(quantity) => object.serialize_entry(name, quantity)?,
                Computed::Places(places) => object.serialize_entry(name, &Places(places, shows))?,
                Computed::Status(status) => object.serialize_entry(name, status)?,
            }
        }
        if let Some(meta) = self.meta {
            object.serialize_entry("meta", &meta_of(meta))?;
        }
        object.end()
    }
}

/// The rows of the fields that bodies show, with their values.
fn rows<'v>(fields: &'static [Field], values: &'v Values) -> impl Iterator<Item = (&'static Field, &'v Value)> {
    static FALSE: Value = Value::Boolean(false);
    let mut values = values.iter().peekable();
    fields.iter().filter_map(move |field| {
        while values.next_if(|(tag, _)| *tag < field.tag).is_some() {}
        let recorded = values.next_if(|(tag, _)| *tag == field.tag).map(|(_, value)| value);
        let value = recorded.or_else(|| field.is_flag.then_some(&FALSE))?;
        (!field.is_internal).then_some((field, value))
    })
}

/// A value as shown.
struct Shown<'a> {
    kind: &'static Kind,
    value: &'a Value,
    shows: &'a dyn Shows,
}

impl Serialize for Shown<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let shows = self.shows;
        match (self.value, self.kind) {
            (Value::Boolean(truth), _) => serializer.serialize_bool(*truth),
            (Value::Integer(number), _) => serializer.serialize_i64(*number),
            (Value::Number(number), _) => serializer.serialize_f64(*number),
            (Value::Text(text), _) => serializer.serialize_str(text),
            (Value::Date(day), _) => serializer.collect_str(day),
            (Value::Word(place), Kind::Word(words)) => words.get(usize::from(*place)).serialize(serializer),
            (Value::Code(code), _) => shows.code(*code).serialize(serializer),
            (Value::Reference(reference), _) => shows.record(reference).serialize(serializer),
            (Value::ConsentId(id), _) => serializer.collect_str(id),
            (Value::List(items), Kind::List { of, .. }) => write_items(items, of, shows, serializer),
            (Value::Struct(values), Kind::Struct(part)) => {
                Part { fields: part.fields, values, record: None, shows }.serialize(serializer)
            }
            // A value has the shape of its field, and photos are written with their record.
            (Value::Word(_) | Value::List(_) | Value::Struct(_) | Value::Photo(_) | Value::Later(_), _) => {
                serializer.serialize_none()
            }
        }
    }
}

fn write_items<S: Serializer>(
    items: &[Value],
    of: &'static Kind,
    shows: &dyn Shows,
    serializer: S,
) -> Result<S::Ok, S::Error> {
    let mut list = serializer.serialize_seq(None)?;
    for value in items {
        let (Kind::Struct(part), Value::Struct(values)) = (of, value) else {
            list.serialize_element(&Shown { kind: of, value, shows })?;
            continue;
        };
        let named = values.iter().find_map(|(_, value)| match value {
            Value::Reference(reference) => Some(shows.record(reference)),
            _ => None,
        });
        let record = match named {
            Some(None) => continue,
            Some(record) => record,
            None => None,
        };
        list.serialize_element(&Part { fields: part.fields, values, record, shows })?;
    }
    list.end()
}

/// A part of a record as shown.
pub struct Part<'a> {
    /// Its rows.
    pub fields: &'static [Field],
    /// Its values.
    pub values: &'a Values,
    /// The record of its reference, as shown.
    pub record: Option<ShownRecord<'a>>,
    /// Shows its codes.
    pub shows: &'a dyn Shows,
}

impl Part<'_> {
    /// Writes its fields as members of an object.
    ///
    /// # Errors
    /// If the object does not accept them.
    pub fn write<M: SerializeMap>(&self, object: &mut M) -> Result<(), M::Error> {
        for (field, value) in rows(self.fields, self.values) {
            match (value, &self.record) {
                (Value::Reference(_), Some(record)) => object.serialize_entry(field.name, record)?,
                _ => object.serialize_entry(field.name, &Shown { kind: &field.kind, value, shows: self.shows })?,
            }
        }
        Ok(())
    }
}

impl Serialize for Part<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut object = serializer.serialize_map(None)?;
        self.write(&mut object)?;
        object.end()
    }
}

struct Identifiers<'a>(&'a [Identifier]);

impl Serialize for Identifiers<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_seq(self.0.iter().map(identifier))
    }
}

/// A photo in base64.
struct Photo<'a>(&'a [u8]);

impl Serialize for Photo<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(&Base64Display::new(self.0, &BASE64))
    }
}

struct Places<'a>(&'a [GroupPlace], &'a dyn Shows);

impl Serialize for Places<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let Self(places, shows) = self;
        serializer.collect_seq(places.iter().filter_map(|place| PlaceBody::new(place, *shows)))
    }
}

#[cfg(test)]
mod tests {
    use jiff::Timestamp;
    use serde_json::{json, to_value};

    use super::*;
    use daftar_domain::code::{CodeNumber, EditionNumber};
    use daftar_domain::field::FieldName;
    use daftar_domain::group::{self, Group, GroupDetails, Member};
    use daftar_domain::program_membership::{BENEFICIARY, PROGRAM, ProgramMembership, ProgramMembershipDetails};
    use daftar_domain::record::VersionId;
    use daftar_domain::schema::Tag;
    use daftar_domain::scope::Resource;

    /// Shows codes by number, and of all records only the one with the key 1.
    struct One;

    impl Shows for One {
        fn code(&self, code: CodedValue) -> Option<ShownCode> {
            Some(ShownCode::Uri(format!("urn:x#{}", code.number.0)))
        }

        fn record(&self, reference: &Reference) -> Option<ShownRecord<'_>> {
            (reference.id == RecordId(1)).then(|| ShownRecord::from("Individual/urn:x:y|1"))
        }
    }

    fn household() -> Group {
        let role = CodedValue { number: CodeNumber(7), edition: EditionNumber(0) };
        let member = |id| Member { individual: RecordId(id), role: Some(role), period: None, is_inactive: false };
        let details = GroupDetails::default().with(group::NAME, "Diallo".to_owned());
        let mut details = details.with(group::ACTIVE, true).with(group::MEMBER, vec![member(1), member(2)]);
        details.put(Tag(9_999), Some(Value::later(9, &[1])));
        let meta = RecordMeta { version: VersionId(3), last_updated: Timestamp::UNIX_EPOCH, source: None };
        Group { id: RecordId(5), meta, details }
    }

    #[test]
    fn a_record_is_written_by_the_rows_of_the_schema_as_far_as_it_is_seen() {
        let household = household();
        let body = RecordBody::new(&household, &FieldSet::All, &One).with_computed(Some(Computed::Quantity(1)));
        let entity = json!({"reference": "Individual/urn:x:y|1"});
        let meta = json!({"version_id": "3", "last_updated": "1970-01-01T00:00:00.000Z"});
        let expected = json!({
            "type": "Group", "identifier": [], "active": true, "name": "Diallo",
            "member": [{"entity": entity, "role": "urn:x#7", "inactive": false}], "quantity": 1, "meta": meta,
        });
        assert_eq!(to_value(&body).unwrap(), expected);
        let name = FieldSet::only([FieldName::parse(Resource::Group, "name").unwrap()]);
        let body = RecordBody::new(&household, &name, &One).with_computed(Some(Computed::Quantity(1))).without_meta();
        assert_eq!(to_value(&body).unwrap(), json!({"type": "Group", "identifier": [], "name": "Diallo"}));
    }

    /// Shows every record with its key, as an export that requests keys does.
    struct Keyed;

    impl Shows for Keyed {
        fn code(&self, code: CodedValue) -> Option<ShownCode> {
            One.code(code)
        }

        fn record(&self, reference: &Reference) -> Option<ShownRecord<'_>> {
            let is_program = reference.kind == RecordKind::Program;
            let text = if is_program { "Program/urn:x:y|1" } else { "Individual/urn:x:y|1" };
            Some(ShownRecord { key: Some(reference.id), ..ShownRecord::from(text) })
        }
    }

    #[test]
    fn with_keys_the_record_and_each_reference_have_one() {
        let household = household();
        let reference = |kind, id| Reference { kind, id: RecordId(id) };
        let details: ProgramMembershipDetails = ProgramMembershipDetails::default()
            .with(PROGRAM, reference(RecordKind::Program, 3))
            .with(BENEFICIARY, reference(RecordKind::Individual, 4));
        let membership = ProgramMembership { id: RecordId(6), meta: household.meta.clone(), details };
        let body = RecordBody::new(&membership, &FieldSet::All, &Keyed).with_key(Some(membership.id)).without_meta();
        let expected = json!({
            "type": "ProgramMembership", "key": 6, "identifier": [],
            "program": {"key": 3, "reference": "Program/urn:x:y|1"},
            "beneficiary": {"key": 4, "reference": "Individual/urn:x:y|1"},
        });
        assert_eq!(to_value(&body).unwrap(), expected);
        let body = RecordBody::new(&household, &FieldSet::All, &Keyed).with_key(Some(household.id));
        let written = to_value(&body).unwrap();
        assert_eq!(written["key"], 5);
        assert_eq!(written["member"][1]["entity"], json!({"key": 2, "reference": "Individual/urn:x:y|1"}));
    }
}
