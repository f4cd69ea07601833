//! The golden files of `tests/data/stored`: for each stored form its bytes in hexadecimal and, as JSON, their content.
//!
//! One sample for each version of a form. A released file is never changed. A new version gets new files: write
//! the sample, run these tests, and take the bytes and the JSON from the message.

use std::path::PathBuf;

use proptest::prelude::*;
use serde_json::json;

use super::audit::{AuditSegment, StoredAuditV1};
use super::change::StoredChangeV1;
use super::client::StoredClientV1;
use super::code_table::StoredCodeTableV1;
use super::counter::StoredCounterV1;
use super::identifier::StoredOwnersV1;
use super::open_membership::StoredOpenMembershipV1;
use super::origin::StoredOriginV1;
use super::register::StoredRegisterV1;
use super::remembered::StoredRequestV1;
use super::rule_draft::StoredRuleDraftV1;
use super::setting::{
    SettingKind, StoredConceptGroupV1, StoredEarlierVersionV1, StoredIdentifierSystemV1, StoredLocalCodeV1,
    StoredRetainedConceptsV1,
};
use super::*;
use crate::archive::{Held, Origin};
use crate::change_log::RegisterId;
use crate::{IdentifierOwner, StoredCodeTable};
use daftar_domain::change::{Change, ChangedRecord, Sequence};
use daftar_domain::client::Client;
use daftar_domain::code::{CodeUri, Namespace};
use daftar_domain::consent::ConsentRecord;
use daftar_domain::deployment::Setting;
use daftar_domain::extension::{ExtensionContent, ExtensionValue};
use daftar_domain::field::{FieldName, FieldSet};
use daftar_domain::group::GroupRecord;
use daftar_domain::hexadecimal;
use daftar_domain::identifier::Identifier;
use daftar_domain::individual::IndividualRecord;
use daftar_domain::program::ProgramRecord;
use daftar_domain::program_membership::{HAS_NO_IDENTIFIER, ProgramMembershipRecord};
use daftar_domain::record::{Fields, Record, RecordId, RecordType};
use daftar_domain::schema::{self, Field, Kind};
use daftar_domain::scope::Scope;
use daftar_domain::value::{Value, Values};

fn golden(name: &str) -> String {
    let folder = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../../tests/data/stored");
    std::fs::read_to_string(folder.join(name)).unwrap_or_default()
}

fn lines_of(bytes: &[u8]) -> String {
    bytes.chunks(32).map(|line| hexadecimal::encode(line) + "\n").collect()
}

fn bytes(text: &str) -> Vec<u8> {
    hexadecimal::decode(&text.split_whitespace().collect::<String>()).unwrap()
}

/// Checks that the stored bytes mean the JSON, and that encoding returns the same bytes.
fn check<F: StoredForm>(name: &str, written_today: &[u8]) -> Vec<u8> {
    let (stored, json) = (golden(&format!("{name}.hex")), golden(&format!("{name}.json")));
    let today: F = decode(written_today).unwrap();
    let today_json = serde_json::to_string_pretty(&today).unwrap() + "\n";
    let new_files = format!("{name}.hex today:\n{}\n{name}.json today:\n{today_json}", lines_of(written_today));
    assert_eq!(stored, lines_of(written_today), "{new_files}");
    let old: F = decode(&bytes(&stored)).unwrap();
    assert_eq!(json, serde_json::to_string_pretty(&old).unwrap() + "\n", "{new_files}");
    bytes(&stored)
}

/// As [`check`], of a record, whose JSON has the names of the schema.
fn check_record<T: RecordType>(name: &str, sample: &Record<Fields<T>>) {
    let read = |bytes: &[u8]| fields::decode::<T>(sample.id, bytes).unwrap();
    let written = fields::encode(sample).unwrap();
    let (stored, json) = (golden(&format!("{name}.hex")), golden(&format!("{name}.json")));
    let today = serde_json::to_string_pretty(&shown(&read(&written))).unwrap();
    let new_files = format!("{name}.hex today:\n{}\n{name}.json today:\n{today}\n", lines_of(&written));
    assert_eq!(stored, lines_of(&written), "{new_files}");
    let old = read(&bytes(&stored));
    let json: serde_json::Value = serde_json::from_str(&json).unwrap_or_default();
    assert_eq!(json, shown(&old), "{new_files}");
    assert_eq!(old, *sample);
}

fn shown<T: RecordType>(record: &Record<Fields<T>>) -> serde_json::Value {
    let Record { meta, details, .. } = record;
    let day = |day: Option<jiff::civil::Date>| day.map(|day| day.to_string());
    let identifier = |Identifier { key, period }: &Identifier| {
        let period = period.map(|period| json!({"start": day(period.start), "end": day(period.end)}));
        json!({"system": key.system.as_str(), "value": key.value.as_str(), "period": period})
    };
    let extension = details.extension.iter().map(|(path, content)| {
        let content = match content {
            ExtensionContent::One(value) => shown_extension(value),
            ExtensionContent::Many(values) => values.iter().map(shown_extension).collect(),
        };
        (path.as_str().to_owned(), content)
    });
    json!({
        "meta": {
            "version": meta.version.0,
            "last_updated_ms": instant::milliseconds(meta.last_updated),
            "source": meta.source.as_ref().map(|client| client.as_str()),
        },
        "identifiers": details.identifiers.iter().map(identifier).collect::<Vec<_>>(),
        "values": shown_values(schema::fields(T::KIND), &details.values),
        "extension": extension.collect::<serde_json::Map<_, _>>(),
    })
}

fn shown_values(fields: &'static [Field], values: &Values) -> serde_json::Value {
    let members = values.iter().map(|(tag, value)| {
        let field = schema::row(fields, tag).unwrap();
        (field.name.to_owned(), shown_value(&field.kind, value))
    });
    serde_json::Value::Object(members.collect())
}

fn shown_value(kind: &'static Kind, value: &Value) -> serde_json::Value {
    match (kind, value) {
        (Kind::Word(words), Value::Word(place)) => json!(words[usize::from(*place)]),
        (Kind::List { of, .. }, Value::List(items)) => items.iter().map(|item| shown_value(of, item)).collect(),
        (Kind::Struct(part), Value::Struct(values)) => shown_values(part.fields, values),
        (_, Value::Boolean(value)) => json!(value),
        (_, Value::Integer(value)) => json!(value),
        (_, Value::Number(value)) => json!(value),
        (_, Value::Text(text)) => json!(&**text),
        (_, Value::Date(day)) => json!(day.to_string()),
        (_, Value::Code(code)) => json!({"number": code.number.0, "edition": code.edition.0}),
        (_, Value::Reference(reference)) => json!({"kind": reference.kind.name(), "id": reference.id.0}),
        (_, Value::ConsentId(id)) => json!(id.to_string()),
        (_, Value::Photo(photo)) => json!({"sha256": hexadecimal::encode(&photo.digest.0), "length": photo.length}),
        (_, other) => panic!("{other:?} in a {kind:?}"),
    }
}

fn shown_extension(value: &ExtensionValue) -> serde_json::Value {
    match value {
        ExtensionValue::Boolean(value) => json!({"boolean": value}),
        ExtensionValue::Integer(value) => json!({"integer": value}),
        ExtensionValue::Number(value) => json!({"number": value}),
        ExtensionValue::Text(value) => json!({"text": value}),
        ExtensionValue::Date(value) => json!({"date": value.to_string()}),
        ExtensionValue::Code(value) => json!({"code": {"number": value.number.0, "edition": value.edition.0}}),
    }
}

#[test]
fn old_individuals_are_read() {
    check_record("individual-v1", &samples::full_individual());
}

#[test]
fn old_photos_are_read() {
    let sample = daftar_domain::photo::Photo::new(b"not really a picture".to_vec(), |_| [0; 32]).unwrap();
    let old = check::<super::photo::StoredPhotoPartV1>("photo-part-v1", &photo::encode(&sample).unwrap()[0]);
    assert_eq!(photo::decode(std::iter::once(Ok(old))).unwrap(), sample.bytes().to_vec());
}

#[test]
fn old_groups_are_read() {
    check_record("group-v1", &samples::full_group());
}

#[test]
fn old_settings_are_read() {
    fn check_setting<F: StoredForm>(name: &str, kind: SettingKind, sample: &Setting) {
        let old = check::<F>(name, &setting::encode(sample).unwrap());
        assert_eq!(setting::decode(kind, &old).unwrap(), *sample);
    }
    let sample = Setting::LocalCode(samples::local_code());
    check_setting::<StoredLocalCodeV1>("local-code-v1", SettingKind::LocalCode, &sample);
    let starter = Setting::LocalCode(samples::starter_code());
    assert_eq!(setting::decode(SettingKind::LocalCode, &setting::encode(&starter).unwrap()).unwrap(), starter);
    let sample = Setting::ConceptGroup(samples::concept_group());
    check_setting::<StoredConceptGroupV1>("concept-group-v1", SettingKind::ConceptGroup, &sample);
    let sample = Setting::IdentifierSystem(samples::identifier_system());
    check_setting::<StoredIdentifierSystemV1>("identifier-system-v1", SettingKind::IdentifierSystem, &sample);
    let sample = Setting::RetainedConcepts(samples::retained_concepts());
    check_setting::<StoredRetainedConceptsV1>("retained-concepts-v1", SettingKind::RetainedConcepts, &sample);
    let sample = Setting::EarlierVersion(samples::earlier_version().into());
    check_setting::<StoredEarlierVersionV1>("earlier-version-v1", SettingKind::EarlierVersion, &sample);
    let sample = Setting::RuleDraft(samples::rule_draft().into());
    check_setting::<StoredRuleDraftV1>("rule-draft-v1", SettingKind::RuleDraft, &sample);
    let sample = Setting::RuleDraftVersion(samples::rule_draft().into());
    check_setting::<StoredRuleDraftV1>("rule-draft-v1", SettingKind::RuleDraftVersion, &sample);
}

#[test]
fn old_programs_are_read() {
    check_record("program-v1", &samples::full_program());
}

#[test]
fn old_memberships_are_read() {
    let sample = samples::full_membership();
    check_record("program-membership-v1", &sample);
    let mut without = sample;
    without.details.identifiers.clear();
    for has_no_identifier in [true, false] {
        without.details.set(HAS_NO_IDENTIFIER, Some(has_no_identifier));
        let bytes = fields::encode(&without).unwrap();
        assert_eq!(fields::decode::<ProgramMembershipRecord>(without.id, &bytes).unwrap(), without);
    }
}

#[test]
fn old_consents_are_read() {
    check_record("consent-v1", &samples::full_consent());
}

#[test]
fn old_requests_are_read() {
    let sample = samples::idempotent_request();
    let old = check::<StoredRequestV1>("request-v1", &remembered::encode(&sample).unwrap());
    assert_eq!(remembered::decode(sample.name.clone(), &old).unwrap(), sample);
}

#[test]
fn old_open_memberships_are_read() {
    let today = open_membership::encode(Some(RecordId(300))).unwrap();
    let old = check::<StoredOpenMembershipV1>("open-membership-v1", &today);
    assert_eq!(open_membership::decode(&old).unwrap(), Some(RecordId(300)));
    assert_eq!(open_membership::decode(&open_membership::encode(None).unwrap()).unwrap(), None);
}

#[test]
fn old_clients_are_read() {
    let sample = samples::full_client();
    let old = check::<StoredClientV1>("client-v1", &client::encode(&sample).unwrap());
    assert_eq!(client::decode(&old).unwrap(), sample);
    let bare = samples::bare_client();
    assert_eq!(client::decode(&client::encode(&bare).unwrap()).unwrap(), bare);
}

/// As two servers of different releases running concurrently.
#[test]
fn a_grant_on_an_unknown_field_is_preserved_and_grants_nothing() {
    let (mut client, scope) = (samples::bare_client(), Scope::parse("individual:read").unwrap());
    let newer = FieldSet::only(FieldName::of_newer("shoe_size"));
    client.grants.insert(scope, newer.clone());
    let read = client::decode(&client::encode(&client).unwrap()).unwrap();
    assert_eq!(read, client);
    assert!(!newer.allows("birth_date") && FieldName::of_newer("Shoe size").is_none());
}

#[test]
fn old_audit_lines_are_read() {
    let sample = samples::audit_entries();
    let old = check::<StoredAuditV1>("audit-v1", &audit::encode(&sample).unwrap()[0]);
    assert_eq!(audit::decode(&old).unwrap(), sample);
}

#[test]
fn old_parts_of_the_code_table_are_read() {
    let uri = |text| CodeUri::parse(text).unwrap();
    let sample = StoredCodeTable {
        codes: vec![uri("urn:iso:std:iso:5218#1"), uri("urn:iso:std:iso:5218#2"), uri("urn:x#01"), uri("urn:y#a")],
        editions: vec![(Namespace::parse("urn:iso:std:iso:5218").unwrap(), "2022".to_owned())],
    };
    let old = check::<StoredCodeTableV1>("code-table-v1", &code_table::encode(&sample).unwrap());
    let read = code_table::decode(&old).unwrap();
    assert_eq!((read.codes, read.editions), (sample.codes, sample.editions));
}

#[test]
fn old_identifiers_are_read() {
    let owner = |id, is_open| IdentifierOwner { id: RecordId(id), is_open };
    let sample = [owner(300, true), owner(1, false)];
    let old = check::<StoredOwnersV1>("identifier-v1", &identifier::encode(&sample).unwrap());
    assert_eq!(identifier::decode(&old).unwrap(), sample);
}

#[test]
fn old_changes_are_read() {
    let record = |record| Change { sequence: Sequence(5), record };
    let changes = [
        record(ChangedRecord::Individual(samples::full_individual().into())),
        record(ChangedRecord::Group(samples::full_group().into())),
        record(ChangedRecord::Program(samples::full_program().into())),
        record(ChangedRecord::ProgramMembership(samples::full_membership().into())),
        record(ChangedRecord::Consent(samples::full_consent().into())),
    ];
    let client = samples::full_client();
    let at = samples::meta().last_updated;
    let today = change::encode(at, &changes, std::iter::once(&client.id)).unwrap();
    let old = check::<StoredChangeV1>("change-v1", &today);
    assert_eq!(change::decode(&old).unwrap(), touched(&changes, &client));
}

fn touched(changes: &[Change], client: &Client) -> Vec<change::Touched> {
    let records = changes.iter().map(|change| {
        let (kind, id, version) = change.record.place();
        change::Touched::Record(kind, id, version)
    });
    records.chain([change::Touched::Client(client.id.as_str().to_owned())]).collect()
}

#[test]
fn old_summaries_of_the_audit_log_are_read() {
    let sample = samples::audit_segment();
    let old = check::<AuditSegment>("audit-segment-v1", &encode(&sample).unwrap());
    assert_eq!(decode::<AuditSegment>(&old).unwrap(), sample);
}

#[test]
fn old_ids_of_registers_are_read() {
    let sample = std::array::from_fn(|at| u8::try_from(at * 7).unwrap());
    let old = check::<StoredRegisterV1>("register-v1", &register::encode(sample).unwrap());
    assert_eq!(register::decode(&old).unwrap(), sample);
}

#[test]
fn old_states_of_copied_registers_are_read() {
    let register = RegisterId(std::array::from_fn(|at| u8::try_from(at * 7).unwrap()));
    let (sequence, audit, audit_values) = (Sequence(300), 70_000, 60_000);
    let held = Held { register, sequence, code_table_parts: 2, audit, audit_values, removal: Some(9) };
    let sample = Origin::CatchingUp(held.clone());
    let old = check::<StoredOriginV1>("origin-v1", &origin::encode(&sample).unwrap());
    assert_eq!(origin::decode(&old).unwrap(), sample);
    for other in [Origin::Filling, Origin::CaughtUp(held.clone()), Origin::Filled(held)] {
        assert_eq!(origin::decode(&origin::encode(&other).unwrap()).unwrap(), other);
    }
}

#[test]
fn old_counters_are_read() {
    let old = check::<StoredCounterV1>("counter-v1", &counter::encode(1_000_000).unwrap());
    assert_eq!(counter::decode(&old).unwrap(), 1_000_000);
}

fn read_back<T: RecordType>(record: &Record<Fields<T>>) -> Result<(), TestCaseError> {
    let written = fields::encode(record).unwrap();
    prop_assert_eq!(&fields::decode::<T>(record.id, &written).unwrap(), record);
    Ok(())
}

proptest! {
    #[test]
    fn individuals_read_back_as_written(record in samples::any_record::<IndividualRecord>()) {
        read_back(&record)?;
    }

    #[test]
    fn groups_read_back_as_written(record in samples::any_record::<GroupRecord>()) {
        read_back(&record)?;
    }

    #[test]
    fn programs_read_back_as_written(record in samples::any_record::<ProgramRecord>()) {
        read_back(&record)?;
    }

    #[test]
    fn memberships_read_back_as_written(record in samples::any_record::<ProgramMembershipRecord>()) {
        read_back(&record)?;
    }

    #[test]
    fn consents_read_back_as_written(record in samples::any_record::<ConsentRecord>()) {
        read_back(&record)?;
    }

    #[test]
    fn no_bytes_make_reading_panic(bytes in proptest::collection::vec(any::<u8>(), 0..200)) {
        let versioned: Vec<u8> = std::iter::once(1).chain(bytes).collect();
        let mut sealed = versioned.clone();
        fields::seal(&mut sealed);
        for kind in RecordKind::ALL {
            let _ = decode_any(kind, RecordId(1), &sealed);
        }
        for kind in SettingKind::ALL {
            let _ = setting::decode(kind, &versioned);
        }
        let _ = photo::decode(std::iter::once(Ok(&versioned)));
        let _ = client::decode(&versioned);
        let _ = audit::decode(&versioned);
        let _ = code_table::decode(&versioned);
        let _ = identifier::decode(&versioned);
        let _ = change::decode(&versioned);
        let _ = counter::decode(&versioned);
        let _ = register::decode(&versioned);
        let _ = origin::decode(&versioned);
        let _ = open_membership::decode(&versioned);
        let _ = remembered::decode(samples::idempotent_request().name, &versioned);
    }
}
