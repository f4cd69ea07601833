//! Valid records, and damaged ones that are rejected.

use jiff::civil::Date;
use proptest::prelude::*;

use super::*;
use crate::record::samples;
use daftar_domain::change::ChangedRecord;
use daftar_domain::consent::ConsentRecord;
use daftar_domain::group::{self, GroupRecord};
use daftar_domain::individual::{self, IndividualRecord};
use daftar_domain::person_name;
use daftar_domain::program::ProgramRecord;
use daftar_domain::program_membership::ProgramMembershipRecord;
use daftar_domain::value::Key;

/// The head of `active`, in a record of an individual, with a length of one byte, and its value.
const IS_ACTIVE: [u8; 2] = [1 << 2 | 1, 1];
/// An unused tag.
const NEW: u16 = 900;

/// A record with those tagged values, without identifiers and fields of modules.
fn stored(revision: u16, values: &[u8]) -> Vec<u8> {
    let mut to = vec![VERSION];
    put_number(&mut to, revision.into());
    put_meta(&mut to, &samples::meta());
    put_identifiers(&mut to, &[]);
    put_number(&mut to, values.len() as u64);
    to.extend_from_slice(values);
    seal(&mut to);
    to
}

fn tagged(tag: u16, value: &[u8]) -> Vec<u8> {
    let mut to = Vec::new();
    let put = |to: &mut Vec<u8>| {
        to.extend_from_slice(value);
        Ok::<(), Fault>(())
    };
    put_tagged(&mut to, Tag(tag), put).map_err(|fault| fault.sentence()).unwrap();
    to
}

fn read<T: RecordType>(bytes: &[u8]) -> Record<Fields<T>> {
    decode(RecordId(7), bytes).unwrap()
}

/// Returns the reason why bytes are no record.
fn refused<T: RecordType>(bytes: &[u8]) -> String {
    let error = decode::<T>(RecordId(7), bytes).map(drop).unwrap_err();
    assert!(matches!(error, StoreError::Corrupt { .. }), "{error}");
    error.to_string()
}

/// Encodes every kind of record.
fn every_kind() -> [(RecordKind, Vec<u8>); 5] {
    [
        (RecordKind::Individual, encode(&samples::full_individual()).unwrap()),
        (RecordKind::Group, encode(&samples::full_group()).unwrap()),
        (RecordKind::Program, encode(&samples::full_program()).unwrap()),
        (RecordKind::ProgramMembership, encode(&samples::full_membership()).unwrap()),
        (RecordKind::Consent, encode(&samples::full_consent()).unwrap()),
    ]
}

fn decode_any(kind: RecordKind, bytes: &[u8]) -> Result<ChangedRecord, StoreError> {
    crate::record::decode_any(kind, RecordId(7), bytes)
}

#[test]
fn a_tag_of_a_later_revision_is_preserved_when_the_record_is_written_again() {
    let (one, nested) = (tagged(NEW, &[1, 2, 3, 4]), tagged(90, &[5]));
    let family = tagged(1, b"Haile");
    let name = tagged(2, &[family, nested].concat());
    let revision = schema::REVISION + 3;
    let written = stored(revision, &[&IS_ACTIVE[..], &name, &one].concat());
    let mut record = read::<IndividualRecord>(&written);
    let later = |bytes: &[u8]| Some(Value::later(revision, bytes));
    assert_eq!(record.details.value(Tag(NEW)).cloned(), later(&[1, 2, 3, 4]));
    let name = record.details.get(individual::NAME).unwrap();
    assert_eq!((name.get(person_name::FAMILY), name.value(Tag(90)).cloned()), (Some("Haile"), later(&[5])));

    record.details.set(individual::BIRTH_DATE, Some(Date::constant(1968, 2, 29)));
    let again = encode(&record).unwrap();
    assert_eq!(read::<IndividualRecord>(&again), record);
    assert!(again.windows(one.len()).any(|window| window == one), "the very bytes");
    assert_eq!(again[1], revision as u8, "a program of that revision takes an unknown tag for damage");
    // Without it the record is one of this revision again.
    record.details.put(Tag(NEW), None);
    record.details.set(individual::NAME, None);
    assert_eq!(encode(&record).unwrap()[1], schema::REVISION as u8);
}

#[test]
fn an_unknown_tag_of_a_known_revision_is_damage() {
    let unknown = tagged(NEW, &[1, 2, 3, 4]);
    assert_eq!(
        refused::<IndividualRecord>(&stored(schema::REVISION, &[&IS_ACTIVE[..], &unknown].concat())),
        "a stored individual cannot be read: it has a value with the tag 900, which its revision of the schema does not have"
    );
    let name = tagged(2, &tagged(90, &[5]));
    assert_eq!(
        refused::<IndividualRecord>(&stored(schema::REVISION, &name)),
        "a stored individual cannot be read: its `name` has a value with the tag 90, which its revision of the schema does not have"
    );
    for revision in [schema::REVISION, schema::REVISION + 1] {
        let twice = [unknown.clone(), unknown.clone()].concat();
        for values in [[&unknown[..], &IS_ACTIVE].concat(), [IS_ACTIVE, IS_ACTIVE].concat(), twice] {
            assert!(decode::<IndividualRecord>(RecordId(7), &stored(revision, &values)).is_err(), "{values:?}");
        }
    }
    assert!(decode::<IndividualRecord>(RecordId(7), &stored(0, &unknown)).is_err(), "an earlier revision");
    let mut beyond = vec![VERSION];
    put_number(&mut beyond, u64::from(u16::MAX) + 1);
    seal(&mut beyond);
    assert_eq!(refused::<IndividualRecord>(&beyond), "a stored individual cannot be read: its `revision` is not valid");
    let unordered = [&unknown[..], &IS_ACTIVE].concat();
    let reason = refused::<IndividualRecord>(&stored(schema::REVISION + 1, &unordered));
    assert!(reason.ends_with("it has values that are not in the order of their tags"), "{reason}");
}

/// An unknown word is not interpreted: the remedy is a program that knows it.
#[test]
fn a_word_of_a_later_revision_is_rejected_with_the_revision() {
    let mut item = [tagged(1, &[200]), tagged(2, b"+251")].concat();
    prefix_length(&mut item, 0);
    let telecom = tagged(18, &item);
    let known = schema::REVISION;
    assert_eq!(
        refused::<IndividualRecord>(&stored(known + 1, &telecom)),
        format!(
            "a stored individual cannot be read: its `telecom.system` is not valid here: it was stored under revision {} of \
             the schema, and this daftar knows {known}",
            known + 1
        )
    );
    assert!(refused::<IndividualRecord>(&stored(known, &telecom)).ends_with("its `telecom.system` is not valid"));
}

/// Data stored by any program of a later revision, in the record and in its parts, is stored again by this program:
/// with the record unchanged, and after a client sends back the record as it was shown.
fn preserves_unknown_values<T: RecordType>(record: &Record<Fields<T>>) -> Result<(), TestCaseError> {
    let written = encode(record).unwrap();
    let read = decode::<T>(record.id, &written).unwrap();
    prop_assert_eq!(&read, record);
    prop_assert_eq!(&encode(&read).unwrap(), &written);
    let revision = record.details.values.later_revision().unwrap_or(schema::REVISION);
    prop_assert_eq!(Bytes(&written[1..]).number(), Some(u64::from(revision)));
    let fields = schema::fields(T::KIND);
    let mut sent_back = read.details.values.without_later();
    prop_assert_eq!(sent_back.later_revision(), None);
    sent_back.keep_later(fields, &read.details.values);
    prop_assert_eq!(&sent_back, &record.details.values);
    sent_back.keep_later(fields, &read.details.values);
    prop_assert_eq!(&sent_back, &record.details.values, "a second time changes nothing");
    Ok(())
}

proptest! {
    #[test]
    fn individuals_preserve_data_of_a_newer_program(record in samples::any_newer_record::<IndividualRecord>(9)) {
        preserves_unknown_values(&record)?;
    }

    #[test]
    fn groups_preserve_data_of_a_newer_program(record in samples::any_newer_record::<GroupRecord>(300)) {
        preserves_unknown_values(&record)?;
    }

    #[test]
    fn programs_preserve_data_of_a_newer_program(record in samples::any_newer_record::<ProgramRecord>(u16::MAX)) {
        preserves_unknown_values(&record)?;
    }

    #[test]
    fn memberships_preserve_data_of_a_newer_program(record in samples::any_newer_record::<ProgramMembershipRecord>(9)) {
        preserves_unknown_values(&record)?;
    }

    #[test]
    fn consents_preserve_data_of_a_newer_program(record in samples::any_newer_record::<ConsentRecord>(9)) {
        preserves_unknown_values(&record)?;
    }
}

#[test]
fn a_changed_byte_is_damage() {
    for (kind, bytes) in every_kind() {
        assert!(decode_any(kind, &bytes).is_ok());
        for at in 0..bytes.len() {
            let mut changed = bytes.clone();
            changed[at] ^= 0x10;
            let error = decode_any(kind, &changed).unwrap_err().to_string();
            let reason =
                if at == 0 { "its version is 17, and this daftar reads 1" } else { "its checksum does not match" };
            assert!(error.contains(reason), "{kind} {at}: {error}");
            // With a valid checksum it may be another record, but reading never panics.
            changed.truncate(bytes.len() - 4);
            seal(&mut changed);
            let _ = decode_any(kind, &changed);
        }
    }
}

#[test]
fn truncated_and_extended_bytes_are_rejected() {
    for (kind, bytes) in every_kind() {
        for length in 0..bytes.len() {
            assert!(decode_any(kind, &bytes[..length]).is_err(), "{kind} {length}");
            // With a valid checksum too, a record must have all of its values.
            let mut sealed = bytes[..length].to_vec();
            seal(&mut sealed);
            if let Ok(cut) = decode_any(kind, &sealed) {
                assert_eq!(cut.values(), decode_any(kind, &bytes).unwrap().values(), "{kind} {length}");
            }
        }
        let mut longer = bytes[..bytes.len() - 4].to_vec();
        longer.push(0);
        seal(&mut longer);
        let reason = decode_any(kind, &longer).unwrap_err().to_string();
        assert!(reason.ends_with("its `extension` is not valid"), "{reason}");
    }
    assert_eq!(refused::<ProgramRecord>(&[]), "a stored program cannot be read: it is empty");
    assert!(refused::<ProgramRecord>(&[VERSION]).contains("its checksum does not match"));
}

#[test]
fn a_record_without_a_required_field_is_rejected() {
    /// Leaves out each of them, and returns their number.
    fn check<T: RecordType>(record: &Record<Fields<T>>) -> usize {
        let required: Vec<&Field> = schema::fields(T::KIND).iter().filter(|field| is_always_there(field)).collect();
        for field in &required {
            let mut without = record.clone();
            without.details.put(field.tag, None);
            let reason = refused::<T>(&encode(&without).unwrap());
            assert!(reason.ends_with(&format!("its `{}` is missing", field.name)), "{reason}");
        }
        required.len()
    }
    assert_eq!(check(&samples::full_individual()) + check(&samples::full_group()), 0);
    assert_eq!(check(&samples::full_program()), 2);
    assert_eq!(check(&samples::full_membership()), 2);
    assert_eq!(check(&samples::full_consent()), 4);
    let mut household = samples::full_group();
    let related: Values = Values::default().with(group::RELATIONSHIP_TYPE, samples::coded(1, 1));
    household.details.set(group::RELATIONSHIP, Some(vec![related]));
    let reason = refused::<GroupRecord>(&encode(&household).unwrap());
    assert_eq!(reason, "a stored group cannot be read: its `relationship.target` is missing");
}

#[test]
fn a_value_that_domain_types_reject_is_corrupt_and_not_shown() {
    // The sample's identifier `urn:x:y|1`, its system truncated to a text without a scheme.
    let mut broken = encode(&samples::bare_individual()).unwrap();
    let at = broken.windows(7).position(|window| window == b"urn:x:y").unwrap();
    broken[at..at + 7].copy_from_slice(b"secrets");
    broken.truncate(broken.len() - 4);
    seal(&mut broken);
    let reason = refused::<IndividualRecord>(&broken);
    assert_eq!(reason, "a stored individual cannot be read: its `identifier.system` is not valid");
}

#[test]
fn a_value_that_its_field_does_not_accept_is_named_and_not_shown() {
    let income = |amount: f64| tagged(20, &tagged(1, &amount.to_le_bytes()));
    let telecom = |parts: &[Vec<u8>]| {
        let mut item = parts.concat();
        prefix_length(&mut item, 0);
        tagged(18, &item)
    };
    let (system, value) = (tagged(1, &[0]), tagged(2, b"secret"));
    for (values, reason) in [
        (tagged(1, &[2]), "its `active` is not valid"),
        (tagged(1, &[1, 1]), "its `active` is not valid"),
        (tagged(3, &[]), "its `birth_date` is not valid"),
        (tagged(3, &[0xff; 8]), "its `birth_date` is not valid"),
        (tagged(6, &[1]), "its `gender` is not valid"),
        (tagged(15, &[1, 1, 0]), "its `languages` is not valid"),
        (tagged(2, &tagged(1, &[0xff, 0xfe])), "its `name.family` is not valid"),
        (income(f64::NAN), "its `income.amount` is not valid"),
        (income(f64::INFINITY), "its `income.amount` is not valid"),
        (income(-1.0), "its `income.amount` is not valid"),
        (tagged(20, &[]), "its `income.amount` is missing"),
        (telecom(&[tagged(1, &[4]), value.clone()]), "its `telecom.system` is not valid"),
        (telecom(&[system.clone(), value.clone(), tagged(4, &[0])]), "its `telecom.rank` is not valid"),
        (telecom(&[value]), "its `telecom.system` is missing"),
        (telecom(&[system]), "its `telecom.value` is missing"),
        (tagged(21, &[0; 33][..32]), "its `photo` is not valid"),
    ] {
        let stored = stored(schema::REVISION, &values);
        assert_eq!(refused::<IndividualRecord>(&stored), format!("a stored individual cannot be read: {reason}"));
    }
    // A program cannot be a beneficiary, and an organization has a name.
    let place = [tagged(2, &[5]), tagged(3, &[7, 2])].concat();
    let reason = refused::<ProgramMembershipRecord>(&stored(schema::REVISION, &place));
    assert_eq!(reason, "a stored program membership cannot be read: its `beneficiary` is not valid");
    let nameless = [tagged(1, &[7; 16]), tagged(2, &[5]), tagged(3, b" "), tagged(5, &[0])].concat();
    let reason = refused::<ConsentRecord>(&stored(schema::REVISION, &nameless));
    assert_eq!(reason, "a stored consent cannot be read: its `grantee` is not valid");
}

#[test]
fn a_value_of_another_fields_shape_is_not_written() {
    const NO_GENDER: Key<bool> = Key::new(individual::GENDER.tag().0);
    let mut person = samples::full_individual();
    person.details.set(NO_GENDER, Some(true));
    let error = encode(&person).unwrap_err().to_string();
    assert_eq!(error, "a stored individual cannot be read: it cannot be written: its `gender` is not valid");
    person.details.set(NO_GENDER, None);
    person.details.put(Tag(NEW), Some(Value::Boolean(true)));
    assert!(encode(&person).unwrap_err().to_string().contains("it has a value with the tag 900"));
}
