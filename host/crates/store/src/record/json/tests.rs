//! Records that are encoded as JSON and decoded again, and JSON that is rejected.

use jiff::Timestamp;
use jiff::civil::Date;
use proptest::prelude::*;
use serde_json::{Value as Json, json};

use super::*;
use crate::record::fields;
use crate::record::samples;
use daftar_domain::code::{CodeUri, Namespace};
use daftar_domain::consent::ConsentRecord;
use daftar_domain::extension::{Extension, ExtensionContent, ExtensionValue};
use daftar_domain::field::{FieldName, FieldSet};
use daftar_domain::group::GroupRecord;
use daftar_domain::individual::{self, IndividualRecord};
use daftar_domain::manifest::ExtensionPath;
use daftar_domain::person_name;
use daftar_domain::program::ProgramRecord;
use daftar_domain::program_membership::ProgramMembershipRecord;
use daftar_domain::record::{Fields, Record, RecordType};
use daftar_domain::schema;
use daftar_domain::value::{Value, Values};

/// The texts of the first sixteen codes and four editions.
fn names() -> CodeNames {
    let mut names = CodeNames::default();
    let codes = (0..16).map(|number| CodeUri::parse(&format!("urn:x:codes#{number}")).unwrap()).collect();
    let edition = |number| (Namespace::parse("urn:x:codes").unwrap(), format!("20{number}"));
    names.apply(&StoredCodeTable { codes, editions: (20..24).map(edition).collect() });
    names
}

fn written<T: RecordType>(record: &Record<Fields<T>>) -> Vec<u8> {
    encode_one(record, &names()).unwrap()
}

/// Formats JSON as the database does: members in another order, white space, and complete numbers.
fn as_stored(json: &[u8]) -> Vec<u8> {
    fn print(value: &Json, to: &mut String) {
        match value {
            Json::Object(members) => {
                let mut sorted: Vec<_> = members.iter().collect();
                sorted.sort_by_key(|(name, _)| (name.len(), (*name).clone()));
                for (at, (name, member)) in sorted.into_iter().enumerate() {
                    to.push_str(if at == 0 { "{" } else { ", " });
                    to.push_str(&format!("\"{name}\": "));
                    print(member, to);
                }
                to.push_str(if members.is_empty() { "{}" } else { "}" });
            }
            Json::Array(items) => {
                to.push('[');
                for (at, item) in items.iter().enumerate() {
                    to.push_str(if at == 0 { "" } else { ", " });
                    print(item, to);
                }
                to.push(']');
            }
            other => to.push_str(&other.to_string()),
        }
    }
    let mut to = String::new();
    print(&serde_json::from_slice(json).unwrap(), &mut to);
    to.into_bytes()
}

fn read_back<T: RecordType>(record: &Record<Fields<T>>) -> Result<(), TestCaseError> {
    let json = written(record);
    prop_assert!(!json.windows(6).any(|window| window == b"\\u0000"), "jsonb rejects it");
    let read = decode_one::<T>(record.id, &json).map_err(|error| TestCaseError::fail(error.to_string()))?;
    prop_assert_eq!(&read, record);
    prop_assert_eq!(&written(&read), &json);
    let binary = fields::encode(record).unwrap();
    let moved = fields::decode::<T>(record.id, &binary).unwrap();
    prop_assert_eq!(decode_one::<T>(record.id, &written(&moved)).unwrap(), moved);
    for field in schema::fields(T::KIND) {
        let Ok(name) = FieldName::parse(T::KIND.resource(), field.name) else { continue };
        let selection = Selection::of(T::KIND, &FieldSet::only([name]));
        let of_json = read::decode_fields::<T>(record.id, &json, selection.as_ref()).unwrap();
        prop_assert_eq!(of_json, fields::decode_selected(record.id, &binary, selection.as_ref()).unwrap());
    }
    Ok(())
}

proptest! {
    #[test]
    fn individuals_read_back(record in samples::any_record::<IndividualRecord>()) { read_back(&record)?; }
    #[test]
    fn groups_read_back(record in samples::any_record::<GroupRecord>()) { read_back(&record)?; }
    #[test]
    fn programs_read_back(record in samples::any_record::<ProgramRecord>()) { read_back(&record)?; }
    #[test]
    fn memberships_read_back(record in samples::any_record::<ProgramMembershipRecord>()) { read_back(&record)?; }
    #[test]
    fn consents_read_back(record in samples::any_record::<ConsentRecord>()) { read_back(&record)?; }
    #[test]
    fn data_of_a_newer_program_reads_back(
        person in samples::any_newer_record::<IndividualRecord>(9), group in samples::any_newer_record::<GroupRecord>(u16::MAX),
        consent in samples::any_newer_record::<ConsentRecord>(9),
    ) {
        read_back(&person)?;
        read_back(&group)?;
        read_back(&consent)?;
    }
    #[test]
    fn numbers_and_texts_read_back(number in any::<f64>(), integer in any::<i64>(), text in any::<String>()) {
        prop_assume!(number.is_finite());
        let mut person = samples::full_individual();
        person.details.extension = extension([
            ExtensionValue::Number(number), ExtensionValue::Integer(integer), ExtensionValue::Text(text),
        ]);
        read_back(&person)?;
    }
}

fn extension(values: impl IntoIterator<Item = ExtensionValue>) -> Extension {
    let path = ExtensionPath::parse("farmer.values").unwrap();
    Extension::new(vec![(path, ExtensionContent::Many(values.into_iter().collect()))])
}

#[test]
fn every_kind_reads_back_as_the_database_writes_it() {
    fn check<T: RecordType>(record: &Record<Fields<T>>) {
        assert_eq!(decode_one::<T>(record.id, &as_stored(&written(record))).unwrap(), *record);
    }
    check(&samples::full_individual());
    check(&samples::full_group());
    check(&samples::full_program());
    check(&samples::full_membership());
    check(&samples::full_consent());
    check(&samples::bare_individual());
}

#[test]
fn a_person_is_readable() {
    let json: Json = serde_json::from_slice(&written(&samples::full_individual())).unwrap();
    assert_eq!(
        json["meta"],
        json!({"version_id": 3, "last_updated": "2026-03-04T05:06:07.089Z", "source": "demo-client_1"})
    );
    assert_eq!(json["name"]["family"], "Ḥaile");
    let income = json!({
        "amount": 1234.5, "period": "month",
        "currency": {"uri": "urn:x:codes#10", "number": 10, "edition_number": 4},
    });
    assert_eq!(json["income"], income, "the fifth edition has no name");
    let ended = json!({
        "system": "https://example.org/farmers", "value": "F|7", "period": {"start": "2001-02-03", "end": "2020-12-31"},
    });
    assert_eq!(json["identifier"][1], ended);
    assert_eq!(json["photo"]["length"], 300_000);
    assert_eq!((json.get("revision"), json.get("unknown")), (None, None));
    let membership: Json = serde_json::from_slice(&written(&samples::full_membership())).unwrap();
    assert_eq!(membership["beneficiary"]["kind"], "group");
    assert!(membership["beneficiary"]["id"].is_u64());
    let mut farmer = samples::bare_individual();
    farmer.details.extension = extension([ExtensionValue::Integer(5)]);
    let farmer: Json = serde_json::from_slice(&written(&farmer)).unwrap();
    assert_eq!(farmer["extension"], json!({"farmer.values": [{"type": "integer", "value": 5}]}));
}

#[test]
fn no_field_has_a_reserved_name() {
    for kind in RecordKind::ALL {
        for field in schema::fields(kind) {
            assert!(![META, IDENTIFIER, EXTENSION, REVISION, UNKNOWN].contains(&field.name), "{kind} {}", field.name);
            assert_ne!(field.tag, MEMBERS);
        }
    }
}

#[test]
fn values_at_the_limits_read_back() {
    let long = "ገ\"\\\u{1}é😀".repeat(40_000);
    let texts = ["", "\0", "a\0b\\u0000", "\u{fffd}\u{ffff}", "{\"utf8\":\"00\"}", &long];
    let numbers = [0.0, -0.0, f64::MIN_POSITIVE, 5e-324, f64::MAX, -f64::MAX, 0.1, 1e16, 9_007_199_254_740_993.0];
    let integers = [i64::MIN, i64::MAX, 0, -1, (1 << 53) + 1];
    let days = [Date::MIN, Date::MAX, Date::constant(0, 1, 1), Date::constant(-1, 12, 31), Date::constant(2024, 2, 29)];
    let values = texts.map(|text| ExtensionValue::Text(text.to_owned())).into_iter();
    let values = values.chain(numbers.map(ExtensionValue::Number)).chain(integers.map(ExtensionValue::Integer));
    let values: Vec<_> = values.chain(days.map(ExtensionValue::Date)).collect();
    for at in [Timestamp::MIN, Timestamp::MAX, Timestamp::UNIX_EPOCH] {
        let mut person = samples::full_individual();
        person.meta.last_updated = crate::record::instant::as_stored(at);
        person.meta.version.0 = u64::MAX;
        person.details.extension = extension(values.clone());
        let json = written(&person);
        assert!(!String::from_utf8_lossy(&json).replace("\\\\u0000", "").contains("\\u0000"));
        let read = decode_one::<IndividualRecord>(person.id, &json).unwrap();
        assert_eq!(read, person);
        let ExtensionContent::Many(read) = read.details.extension.iter().next().unwrap().1 else { panic!() };
        let signs = |values: &[ExtensionValue]| {
            let sign = |value: &ExtensionValue| matches!(value, ExtensionValue::Number(one) if one.is_sign_negative());
            values.iter().map(sign).collect::<Vec<_>>()
        };
        assert_eq!(signs(read), signs(&values), "the sign of zero too");
    }
}

#[test]
fn a_record_is_too_large_where_it_is_for_every_store() {
    let mut person = samples::bare_individual();
    let full = |bytes: usize| extension([ExtensionValue::Text("\u{1}".repeat(bytes))]);
    person.details.extension = full(VALUE_BYTES_MAX - 4_096);
    let of = |person: &individual::Individual| encode(&ChangedRecord::Individual(Arc::new(person.clone())), &names());
    assert!(of(&person).unwrap().len() > 5 * VALUE_BYTES_MAX, "each character is six in JSON");
    person.details.extension = full(VALUE_BYTES_MAX);
    assert!(matches!(of(&person), Err(StoreError::TooLarge { .. })));
}

/// Returns a bare person with these members.
fn person(members: &Json) -> Vec<u8> {
    let mut json: Json = serde_json::from_slice(&written(&samples::bare_individual())).unwrap();
    for (name, value) in members.as_object().unwrap() {
        json[name] = value.clone();
    }
    json.to_string().into_bytes()
}

fn read(members: &Json) -> Result<Record<Fields<IndividualRecord>>, StoreError> {
    decode_one(RecordId(7), &person(members))
}

#[test]
fn members_of_a_later_revision_are_preserved_and_read_by_a_program_that_knows_them() {
    let revision = schema::REVISION + 3;
    let members = json!({
        "revision": revision, "clan": {"uri": "urn:x#a", "number": 7}, "birth_date": "1968-02-29",
        "name": {"family": "Haile", "clan": [1, 2]}, "unknown": {"900": "0102ff"},
    });
    let record = read(&members).unwrap();
    let later = |bytes: &[u8]| Some(Value::later(revision, bytes));
    assert_eq!(record.details.value(Tag(900)).cloned(), later(&[1, 2, 255]));
    assert_eq!(record.details.value(MEMBERS).cloned(), later(br#"{"clan":{"number":7,"uri":"urn:x#a"}}"#));
    let name = record.details.get(individual::NAME).unwrap();
    assert_eq!(
        (name.get(person_name::FAMILY), name.value(MEMBERS).cloned()),
        (Some("Haile"), later(br#"{"clan":[1,2]}"#))
    );
    let again: Json = serde_json::from_slice(&written(&record)).unwrap();
    for (member, value) in members.as_object().unwrap() {
        assert_eq!(again[member], *value, "{member}");
    }
    // Through the binary form of another store.
    let binary = fields::encode(&record).unwrap();
    assert_eq!(fields::decode::<IndividualRecord>(record.id, &binary).unwrap(), record);

    // A program that has the fields, because it knows the revision.
    let mut values = Values::default();
    values.put(MEMBERS, Some(Value::later(schema::REVISION, br#"{"birth_date": "1968-02-29"}"#)));
    let mut stored = samples::bare_individual();
    stored.details.values = values;
    let found = fields::decode::<IndividualRecord>(RecordId(7), &fields::encode(&stored).unwrap()).unwrap();
    assert_eq!(found.details.get(individual::BIRTH_DATE), Some(Date::constant(1968, 2, 29)));
    let tag = individual::ACTIVE.tag().to_string();
    let found = read(&json!({"active": null, "unknown": {tag: "01"}}));
    assert!(found.is_err(), "null is no value");
    let mut bare: Json = serde_json::from_slice(&written(&samples::bare_individual())).unwrap();
    bare.as_object_mut().unwrap().remove("active");
    bare["unknown"] = json!({individual::ACTIVE.tag().to_string(): "01"});
    let found = decode_one::<IndividualRecord>(RecordId(7), bare.to_string().as_bytes()).unwrap();
    assert_eq!(found.details.get(individual::ACTIVE), Some(true));
}

#[test]
fn an_invalid_value_is_rejected_by_its_field_name_and_not_shown() {
    let known = schema::REVISION;
    for (members, reason) in [
        (json!({"clan": "secret"}), "it has a member that its revision of the schema does not have"),
        (json!({"name": {"clan": "secret"}}), "its `name` has a member that its revision of the schema does not have"),
        (
            json!({"unknown": {"900": "01"}}),
            "it has a value with the tag 900, which its revision of the schema does not have",
        ),
        (json!({"unknown": {"65535": "01"}}), "its `unknown` is not valid"),
        (json!({"unknown": {"900": "0"}}), "its `unknown` is not valid"),
        (json!({"revision": 65536}), "its `revision` is not valid"),
        (json!({"active": "secret"}), "its `active` is not valid"),
        (json!({"birth_date": "secret"}), "its `birth_date` is not valid"),
        (json!({"birth_date": "2023-02-29"}), "its `birth_date` is not valid"),
        (json!({"gender": {"uri": "secret"}}), "its `gender` is not valid"),
        (json!({"gender": {"number": 1, "edition_number": 1, "secret": 1}}), "its `gender` is not valid"),
        (json!({"gender": {"number": -1, "edition_number": 1}}), "its `gender` is not valid"),
        (json!({"name": {"family": 1}}), "its `name.family` is not valid"),
        (json!({"name": {"family": {"utf8": "fffe"}}}), "its `name.family` is not valid"),
        (json!({"income": {"amount": -1.0}}), "its `income.amount` is not valid"),
        (json!({"income": {"amount": "-0x"}}), "its `income.amount` is not valid"),
        (json!({"income": {}}), "its `income.amount` is missing"),
        (json!({"telecom": [{"system": "secret", "value": "1"}]}), "its `telecom.system` is not valid"),
        (json!({"telecom": [{"system": "sms"}]}), "its `telecom.value` is missing"),
        (json!({"telecom": {}}), "its `telecom` is not valid"),
        (json!({"photo": {"digest": "00", "length": 1}}), "its `photo` is not valid"),
        (json!({"identifier": [{"system": "secret", "value": "1"}]}), "its `identifier.system` is not valid"),
        (json!({"identifier": [{"system": "urn:x:y"}]}), "its `identifier.value` is not valid"),
        (json!({"extension": {"farmer.x": {"type": "secret", "value": 1}}}), "its `extension` is not valid"),
        (json!({"extension": {"farmer.x": {"type": "integer", "value": 1.5}}}), "its `extension` is not valid"),
        (json!({"meta": {"version_id": 1}}), "its `meta.last_updated` is not valid"),
        (json!({"meta": {"last_updated": "2026-01-01T00:00:00.000Z"}}), "its `meta.version_id` is not valid"),
        (
            json!({"revision": known + 1, "birth_date": "secret"}),
            &format!(
                "its `birth_date` is not valid here: it was stored under revision {} of the schema, and this daftar knows {known}",
                known + 1
            ),
        ),
    ] {
        let error = read(&members).unwrap_err();
        assert!(matches!(error, StoreError::Corrupt { .. }));
        assert_eq!(error.to_string(), format!("a stored individual cannot be read: {reason}"), "{members}");
    }
    for text in ["", "{", "[]", "1", "{}x"] {
        let error = decode_one::<IndividualRecord>(RecordId(7), text.as_bytes()).unwrap_err().to_string();
        assert!(error.ends_with("it is not valid"), "{error}");
    }
    let error = decode_one::<IndividualRecord>(RecordId(7), b"{}").unwrap_err().to_string();
    assert!(error.ends_with("its `meta` is missing"), "{error}");
    let mut consent: Json = serde_json::from_slice(&written(&samples::full_consent())).unwrap();
    consent.as_object_mut().unwrap().remove("grantee");
    let error = decode_one::<ConsentRecord>(RecordId(7), consent.to_string().as_bytes()).unwrap_err().to_string();
    assert!(error.ends_with("its `grantee` is missing"), "{error}");
}

#[test]
fn the_codes_of_a_record_are_found() {
    let json = written(&samples::full_individual());
    let found = codes(&json);
    assert!(found.contains(&(10, Some("urn:x:codes#10".to_owned()))), "{found:?}");
    assert_eq!(codes(&written(&samples::bare_individual())), []);
}
